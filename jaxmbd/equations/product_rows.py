"""Rows of DP1, DP2, D and CD in coordinates of their own, from the derivatives of A alone: rp and
r-ε by hand, as the paper writes them.

Each of the four constraints is a product x · y of two vectors that are linear in the positions and
in the rotation matrices of two bodies (`PoseVector`). Its derivatives then are

    δΦ = xᵀ δy + yᵀ δx,    δ(A ā) = B(q, ā) δq,    B = ∂(A ā)/∂q

with B of Kissel et al. Eq. 23a in rp and of Eq. 28 in r-ε; for its variation, once more.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, Coordinates
from ..formulations.turn_jet import TurnJet
from ..linalg import Coupling
from ..model.primitives import AbstractNormalForm, FreeMotion, PoseVector, PrimitiveStack
from ..model.state import Pose
from ..rotations.types import Vec3
from ..xla.indexing import sums_at

Body = tuple[Pose, TurnJet]


def bodies_of(formulation: AbstractFormulation, padded: Coordinates) -> Body:
    """Poses of all bodies with the derivatives of their rotation matrices."""
    return jax.vmap(formulation.pose)(padded), jax.vmap(formulation.turn_jet)(padded)


def product_rows(stack: PrimitiveStack, bodies: Body) -> Float[Array, "n 2 d"]:
    """Rows of a stack of products."""
    return stack.each(_row, *stack.local(bodies))


def product_variations(
    stacks: Sequence[PrimitiveStack], bodies: Body, lam: Sequence[Array]
) -> list[Coupling]:
    """Derivatives of Rᵀ λ of some stacks of products by the coordinates."""
    couplings, dyads, index = [], [], []
    for stack, weights in zip(stacks, lam, strict=True):
        blocks, own = stack.each(_variation, *stack.local(bodies))
        if blocks is not None:
            couplings.append(Coupling(blocks * weights[:, None, None, None, None], stack.bodies))
        dyads.append((own * weights[:, None, None, None]).reshape(-1, 3, 3))
        index.append(stack.index.reshape(-1))
    if not dyads:
        return couplings
    # What A bends by is linear in a sum of dyads, which a body has one of for all of its rows.
    nb = bodies[0].r.shape[0] - 1
    total = sums_at(jnp.concatenate(dyads), np.concatenate(index), nb)
    bent = jnp.einsum("bxy,bxykl->bkl", total, bodies[1].second[:nb])
    return [*couplings, Coupling(bent[:, None, :, None, :], tuple((b,) for b in range(nb)))]


def product_gamma(
    formulation: AbstractFormulation,
    stacks: Sequence[PrimitiveStack],
    padded: Coordinates,
    u: Float[Array, "b d"],
) -> list[Float[Array, " n"]]:
    """γ of some stacks of products."""
    jets = jax.vmap(formulation.free_motion)(padded, u)
    value, first, second = (x.reshape(-1, 12) for x in (jets.value, jets.first, jets.second))
    A, A_dot, D = (x[:, 3:].reshape(-1, 3, 3) for x in (value, first, second))
    motions = FreeMotion(value[:, :3], first[:, :3], A, A_dot, D)
    return [stack.each(lambda p, i, j: p.gamma(i, j), *stack.local(motions)) for stack in stacks]


# --- one product
# ------------------------------------------------------------------------------------------------


def _slopes(x: PoseVector, i: TurnJet, j: TurnJet) -> list[Float[Array, "3 d"] | None]:
    """Derivatives of a vector by the coordinates of both bodies; None where it does not move."""
    slopes = []
    for sign, a, turn in ((-1.0, x.a_i, i), (1.0, x.a_j, j)):
        if a is None and not x.between:
            slopes.append(None)
            continue
        dtype, n = turn.first.dtype, turn.first.shape[-1]
        along = np.full((), sign if x.between else 0.0, dtype) * np.eye(3, dtype=dtype)
        turned = jnp.zeros((3, n), dtype) if a is None else jnp.einsum("xyk,y->xk", turn.first, a)
        slopes.append(jnp.concatenate([along, turned], axis=1))
    return slopes


def _row(primitive: AbstractNormalForm, i: Body, j: Body) -> Float[Array, "2 d"]:
    x, y = primitive.product()
    row: list[Float[Array, " d"] | None] = [None, None]
    for mine, other in ((x, y), (y, x)):
        factor = other.value(i[0], j[0])
        for k, slope in enumerate(_slopes(mine, i[1], j[1])):
            if slope is not None:
                part, sofar = factor @ slope, row[k]
                row[k] = part if sofar is None else sofar + part
    size = 3 + i[1].first.shape[-1]
    return jnp.stack([jnp.zeros(size, i[0].r.dtype) if part is None else part for part in row])


def _variation(
    primitive: AbstractNormalForm, i: Body, j: Body
) -> tuple[Float[Array, "2 s 2 s"] | None, Float[Array, "2 3 3"]]:
    """What the row varies by because its vectors do, None where one of them is constant; and the
    dyads W of both bodies, of which W : ∂²A is the rest.
    """
    x, y = primitive.product()
    X, Y = x.value(i[0], j[0]), y.value(i[0], j[0])
    zero = jnp.zeros((3, 3), X.dtype)
    dyads = jnp.stack(
        [
            _dyad(x.a_i, Y, zero) + _dyad(y.a_i, X, zero),
            _dyad(x.a_j, Y, zero) + _dyad(y.a_j, X, zero),
        ]
    )
    slopes_x, slopes_y = _slopes(x, i[1], j[1]), _slopes(y, i[1], j[1])
    if primitive.angular:  # none of them moves with r
        slopes_x, slopes_y = (
            [s if s is None else s[:, 3:] for s in of] for of in (slopes_x, slopes_y)
        )
    size = i[1].first.shape[-1] + (0 if primitive.angular else 3)
    if all(s is None for s in slopes_x) or all(s is None for s in slopes_y):
        return None, dyads
    wide_x, wide_y = (
        jnp.concatenate([jnp.zeros((3, size), X.dtype) if s is None else s for s in of], axis=1)
        for of in (slopes_x, slopes_y)
    )
    half = wide_x.T @ wide_y
    return (half + half.T).reshape(2, size, 2, size), dyads


def _dyad(a: Vec3 | None, factor: Vec3, zero: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    return zero if a is None else jnp.outer(factor, a)
