"""Rows in closed form: of DP1, DP2, D and CD in rA, from there along screws; in rp and r-ε;
directors.
"""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations import RA, RP, Directors, REps, Screw
from ..formulations.base import Coordinates
from ..linalg import Coupling
from ..model.primitives import (
    AbstractNormalForm,
    AbstractPrimitive,
    PrimitiveStack,
    RowFactors,
    free_motion,
    variation_of_sums,
)
from ..model.state import Pose, Twist
from ..rotations.types import Scalar
from ..xla.indexing import take, take_or_zero, turns
from .product_rows import bodies_of, product_gamma, product_rows, product_variations
from .rows import joint_gamma, joint_rows, joint_variations
from .velocity_rows import padded_dtype

_rows_by_jets = joint_rows.dispatch(object)
_variations_by_jets = joint_variations.dispatch(object)
_gamma_by_jets = joint_gamma.dispatch(object)

# --- rA: hand-coded rows (Kissel et al. Tables 2 to 6, corrected)
# ------------------------------------


def _normal_forms(formulation: RA | RP | REps, stacks: Sequence[PrimitiveStack]) -> int:
    """How many of the stacks, the first ones, have a normal form that the formulation uses."""
    if formulation.rows == "automatic":
        return 0
    return sum(isinstance(stack.primitive, AbstractNormalForm) for stack in stacks)


def _row_factors(stacks: Sequence[PrimitiveStack], padded: Pose) -> tuple[RowFactors, np.ndarray]:
    """The vectors of all rows together, so that one assembly serves all types of primitives; and
    their bodies.
    """
    factors = [
        stack.each(lambda p, x, y: p.factors(x, y), *stack.local(padded)) for stack in stacks
    ]
    together = jax.tree.map(lambda *x: jnp.concatenate(x), *factors)
    return together, np.concatenate([stack.index for stack in stacks])


@joint_rows.register(RA)
def _(
    formulation: RA, stacks: Sequence[PrimitiveStack], padded: Pose
) -> list[Float[Array, "n k d"]]:
    n = _normal_forms(formulation, stacks)
    blocks = _rows_by_jets(formulation, stacks[n:], padded)
    if not n:
        return blocks
    factors, _ = _row_factors(stacks[:n], padded)
    return [jax.vmap(lambda f: f.row())(factors), *blocks]


@joint_variations.register(RA)
def _(
    formulation: RA, stacks: Sequence[PrimitiveStack], padded: Pose, lam: Sequence[Array]
) -> list[Coupling]:
    n = _normal_forms(formulation, stacks)
    couplings = _variations_by_jets(formulation, stacks[n:], padded, lam[n:])
    if not n:
        return couplings
    factors, index = _row_factors(stacks[:n], padded)
    # Rows between the same two bodies are added up while they are few numbers.
    bodies = tuple(map(tuple, index.tolist()))
    distinct = tuple(dict.fromkeys(bodies))
    at = {pair: k for k, pair in enumerate(distinct)}
    table = turns(np.array([at[pair] for pair in bodies], int), len(distinct)).T
    weights = take_or_zero(jnp.concatenate(lam[:n]), table)
    each = jax.tree.map(lambda x: take_or_zero(x, table), factors)
    pair = np.array(distinct, int)
    # Where no force turns with a body, moments alone vary, and with rotations alone.
    forms = [stack.primitive for stack in stacks[:n]]
    angular = all(isinstance(form, AbstractNormalForm) and form.angular for form in forms)
    blocks = jax.vmap(functools.partial(variation_of_sums, angular=angular))(
        jax.vmap(lambda f, w: f.variation_sums(w))(each, weights),
        take(padded.A, pair[:, 0]),
        take(padded.A, pair[:, 1]),
    )
    return [Coupling(blocks, distinct), *couplings]


@joint_gamma.register(RA)
def _(
    formulation: RA, stacks: Sequence[PrimitiveStack], padded: Pose, u: Float[Array, "b d"]
) -> list[Float[Array, " n"]]:
    n = _normal_forms(formulation, stacks)
    motions = jax.vmap(free_motion)(padded, Twist(u[:, :3], u[:, 3:]))
    values = [
        stack.each(lambda p, i, j: p.gamma(i, j), *stack.local(motions)) for stack in stacks[:n]
    ]
    return [*values, *_gamma_by_jets(formulation, stacks[n:], padded, u)]


# --- screws: the rows of rA through the map from their velocities to twists
# ----------------------------------------------------------------


def _twist_maps(formulation: Screw, padded: Pose) -> Float[Array, "b 6 d"]:
    """T of every body, with (v, ω̄) = T u."""
    eye = np.eye(formulation.size, dtype=padded_dtype(padded))

    def of(q: Pose) -> Float[Array, "6 d"]:
        twist = jax.vmap(lambda u: formulation.twist(q, u))(eye)
        return jnp.concatenate([twist.v, twist.omega], axis=1).T

    return jax.vmap(of)(padded)


@joint_rows.register(Screw)
def _(
    formulation: Screw, stacks: Sequence[PrimitiveStack], padded: Pose
) -> list[Float[Array, "n k d"]]:
    poses, maps = jax.vmap(formulation.pose)(padded), _twist_maps(formulation, padded)
    blocks = joint_rows(RA(), stacks, poses)
    return [
        jnp.einsum("mke,mkea->mka", rows, maps[bodies])
        for rows, bodies in zip(blocks, _split_like(blocks, stacks), strict=True)
    ]


@joint_variations.register(Screw)
def _(
    formulation: Screw, stacks: Sequence[PrimitiveStack], padded: Pose, lam: Sequence[Array]
) -> list[Coupling]:
    """Tᵀ V T with V of rA, and the derivative of Tᵀ along the coordinates."""
    poses, maps = jax.vmap(formulation.pose)(padded), _twist_maps(formulation, padded)
    couplings = []
    for c in joint_variations(RA(), stacks, poses, lam):
        at = maps[np.array(c.bodies, int), 6 - c.blocks.shape[-1] :]  # (n, k, s, d)
        couplings.append(Coupling(jnp.einsum("nkea,nkelf,nlfb->nkalb", at, c.blocks, at), c.bodies))
    total = jnp.zeros((poses.r.shape[0], 6), poses.r.dtype)
    weights = jnp.concatenate([*lam, jnp.zeros(0, poses.r.dtype)])
    blocks, start = joint_rows(RA(), stacks, poses), 0
    for rows, bodies in zip(blocks, _split_like(blocks, stacks), strict=True):
        total = total.at[bodies].add(rows * weights[start : start + len(rows), None, None])
        start += len(rows)

    def turned(q: Pose, wrench: Float[Array, "6"]) -> Float[Array, "d d"]:
        zero = jnp.zeros(formulation.size, wrench.dtype)
        return jax.jacfwd(
            lambda d: formulation.generalized(formulation.retract(q, d), wrench[:3], wrench[3:])
        )(zero)

    nb = poses.r.shape[0] - 1
    own = jax.vmap(turned)(jax.tree.map(lambda x: x[:nb], padded), total[:nb])
    return [*couplings, Coupling(own[:, None, :, None, :], tuple((b,) for b in range(nb)))]


def _split_like(blocks: Sequence[Array], stacks: Sequence[PrimitiveStack]) -> list[np.ndarray]:
    """Bodies of the rows in every block; the first block may hold several stacks."""
    index, k = [], 0
    for rows in blocks:
        parts = [stacks[k].index]
        while sum(map(len, parts)) < rows.shape[0]:
            k += 1
            parts.append(stacks[k].index)
        k += 1
        index.append(np.concatenate(parts))
    return index


# --- rp and r-ε: rows of their own
# ----------------------------------------------------------------------------------


@joint_rows.register(RP)
@joint_rows.register(REps)
def _(
    formulation: RP | REps, stacks: Sequence[PrimitiveStack], padded: Coordinates
) -> list[Float[Array, "n k d"]]:
    n = _normal_forms(formulation, stacks)
    blocks = _rows_by_jets(formulation, stacks[n:], padded)
    if not n:
        return blocks
    bodies = bodies_of(formulation, padded)
    return [*(product_rows(stack, bodies) for stack in stacks[:n]), *blocks]


@joint_variations.register(RP)
@joint_variations.register(REps)
def _(
    formulation: RP | REps,
    stacks: Sequence[PrimitiveStack],
    padded: Coordinates,
    lam: Sequence[Array],
) -> list[Coupling]:
    n = _normal_forms(formulation, stacks)
    couplings = _variations_by_jets(formulation, stacks[n:], padded, lam[n:])
    if not n:
        return couplings
    return [*product_variations(stacks[:n], bodies_of(formulation, padded), lam[:n]), *couplings]


@joint_gamma.register(RP)
@joint_gamma.register(REps)
def _(
    formulation: RP | REps,
    stacks: Sequence[PrimitiveStack],
    padded: Coordinates,
    u: Float[Array, "b d"],
) -> list[Float[Array, " n"]]:
    n = _normal_forms(formulation, stacks)
    values = _gamma_by_jets(formulation, stacks[n:], padded, u)
    return [*product_gamma(formulation, stacks[:n], padded, u), *values] if n else values


# --- directors: for primitives, these coordinates are nothing but a pose
# -----------------------------


def _geometry(formulation: Directors) -> Callable[..., Scalar]:
    return lambda primitive, *q: primitive.geometry(*map(formulation.pose, q))


@joint_rows.register(Directors)
def _(
    formulation: Directors, stacks: Sequence[PrimitiveStack], padded: Float[Array, "b 12"]
) -> list[Float[Array, "n k 12"]]:
    def row(primitive: AbstractPrimitive, *q: Float[Array, "12"]) -> Float[Array, "k 12"]:
        return jax.grad(lambda x: _geometry(formulation)(primitive, *x))(jnp.stack(q))

    return [stack.each(row, *stack.local(padded)) for stack in stacks]


@joint_variations.register(Directors)
def _(
    formulation: Directors,
    stacks: Sequence[PrimitiveStack],
    padded: Float[Array, "b 12"],
    lam: Sequence[Array],
) -> list[Coupling]:
    def variation(
        primitive: AbstractPrimitive, weight: Scalar, *q: Float[Array, "12"]
    ) -> Float[Array, "k 12 k 12"]:
        return jax.jacfwd(jax.grad(lambda x: weight * _geometry(formulation)(primitive, *x)))(
            jnp.stack(q)
        )

    return [
        Coupling(stack.each(variation, weights, *stack.local(padded)), stack.bodies)
        for stack, weights in zip(stacks, lam, strict=True)
    ]
