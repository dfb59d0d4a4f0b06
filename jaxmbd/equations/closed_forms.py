"""Rows in closed form: of DP1, DP2, D and CD in rA, on SE(3), and in directors."""

import jax
import jax.numpy as jnp
import numpy as np

from ..formulations import RA, Directors, Screw
from ..indexing import take
from ..linalg import Coupling
from ..linalg.saddle import add_groups
from ..model.primitives import AbstractNormalForm, RowFactors, variation_of_sums
from ..model.state import Pose, Twist
from ..rotations.vectors import skew
from .rows import joint_gamma, joint_rows, joint_variations

_rows_by_jets = joint_rows.dispatch(object)
_variations_by_jets = joint_variations.dispatch(object)
_gamma_by_jets = joint_gamma.dispatch(object)

# --- rA: hand-coded rows (Kissel et al. Tables 2 to 6, corrected)
# ------------------------------------


def _normal_forms(stacks) -> int:
    """How many of the stacks, the first ones, have a normal form."""
    return sum(isinstance(stack.primitive, AbstractNormalForm) for stack in stacks)


def _row_factors(stacks, padded: Pose) -> tuple[RowFactors, np.ndarray]:
    """The vectors of all rows together, so that one assembly serves all types of primitives; and
    their bodies.
    """
    factors = [
        stack.each(lambda p, x, y: p.factors(x, y), *stack.local(padded)) for stack in stacks
    ]
    together = jax.tree.map(lambda *x: jnp.concatenate(x), *factors)
    return together, np.concatenate([stack.index for stack in stacks])


@joint_rows.register(RA)
def _(formulation: RA, stacks, padded: Pose):
    n = _normal_forms(stacks)
    blocks = _rows_by_jets(formulation, stacks[n:], padded)
    if not n:
        return blocks
    factors, _ = _row_factors(stacks[:n], padded)
    return [jax.vmap(lambda f: f.row())(factors), *blocks]


@joint_variations.register(RA)
def _(formulation: RA, stacks, padded: Pose, lam):
    n = _normal_forms(stacks)
    couplings = _variations_by_jets(formulation, stacks[n:], padded, lam[n:])
    if not n:
        return couplings
    factors, index = _row_factors(stacks[:n], padded)
    pose_i, pose_j = (jax.tree.map(lambda x, k=k: take(x, index[:, k]), padded) for k in (0, 1))
    weights = jnp.concatenate(lam[:n])
    sums = weights[:, None] * jax.vmap(lambda f, x, y: f.variation_sums(x, y))(
        factors, pose_i.A, pose_j.A
    )
    # Rows between the same two bodies are added up while they are few numbers.
    bodies = tuple(map(tuple, index.tolist()))
    distinct = tuple(dict.fromkeys(bodies))
    sums = add_groups(sums, tuple(distinct.index(pair) for pair in bodies), len(distinct))
    pair = np.array(distinct, int)
    blocks = jax.vmap(variation_of_sums)(
        sums, take(padded.A, pair[:, 0]), take(padded.A, pair[:, 1])
    )
    return [Coupling(blocks, distinct), *couplings]


@joint_gamma.register(RA)
def _(formulation: RA, stacks, padded: Pose, u):
    n = _normal_forms(stacks)
    twists = Twist(u[:, :3], u[:, 3:])
    values = []
    for stack in stacks[:n]:
        (pose_i, twist_i), (pose_j, twist_j) = stack.local((padded, twists))
        values.append(
            stack.each(lambda p, x, v, y, w: p.gamma(x, v, y, w), pose_i, twist_i, pose_j, twist_j)
        )
    return [*values, *_gamma_by_jets(formulation, stacks[n:], padded, u)]


# --- SE(3): those of rA in the frame of the body
# -----------------------------------------------------


@joint_rows.register(Screw)
def _(formulation: Screw, stacks, padded: Pose):
    blocks = joint_rows(RA(), stacks, padded)
    index = _split_like(blocks, stacks)
    return [
        _in_body_frame(rows, padded.A[bodies]) for rows, bodies in zip(blocks, index, strict=True)
    ]


@joint_variations.register(Screw)
def _(formulation: Screw, stacks, padded: Pose, lam):
    # Rᵀ λ holds Aᵀ f, which turns with A beside the variation of f: Aᵀ f moves by (Aᵀ f) x δθ.
    eye, zero = jnp.eye(3, dtype=padded.r.dtype), jnp.zeros((3, 3), padded.r.dtype)
    frames = jax.vmap(lambda A: jnp.block([[A, zero], [zero, eye]]))(padded.A)
    couplings = []
    for c in joint_variations(RA(), stacks, padded, lam):
        at = frames[np.array(c.bodies, int)]  # (n, k, 6, 6)
        couplings.append(Coupling(jnp.einsum("nkea,nkelf,nlfb->nkalb", at, c.blocks, at), c.bodies))
    blocks = joint_rows(formulation, stacks, padded)
    total, weights = (
        jnp.zeros((padded.r.shape[0], 6), padded.r.dtype),
        jnp.concatenate([*lam, jnp.zeros(0)]),
    )
    start = 0
    for rows, bodies in zip(blocks, _split_like(blocks, stacks), strict=True):
        total = total.at[bodies].add(rows * weights[start : start + len(rows), None, None])
        start += len(rows)

    def turned(y):
        return jnp.zeros((6, 6), y.dtype).at[:3, 3:].set(skew(y[:3]))

    nb = padded.r.shape[0] - 1
    return [
        *couplings,
        Coupling(jax.vmap(turned)(total[:nb])[:, None, :, None, :], tuple((b,) for b in range(nb))),
    ]


def _split_like(blocks, stacks) -> list[np.ndarray]:
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


def _in_body_frame(rows, A):
    forces = jnp.einsum("mkb,mkba->mka", rows[..., :3], A)
    return jnp.concatenate([forces, rows[..., 3:]], axis=-1)


# --- directors: for primitives, these coordinates are nothing but a pose
# -----------------------------


def _geometry(formulation: Directors):
    return lambda primitive, *q: primitive.geometry(*map(formulation.pose, q))


@joint_rows.register(Directors)
def _(formulation: Directors, stacks, padded):
    def row(primitive, *q):
        return jax.grad(lambda x: _geometry(formulation)(primitive, *x))(jnp.stack(q))

    return [stack.each(row, *stack.local(padded)) for stack in stacks]


@joint_variations.register(Directors)
def _(formulation: Directors, stacks, padded, lam):
    def variation(primitive, weight, *q):
        return jax.jacfwd(jax.grad(lambda x: weight * _geometry(formulation)(primitive, *x)))(
            jnp.stack(q)
        )

    return [
        Coupling(stack.each(variation, weights, *stack.local(padded)), stack.bodies)
        for stack, weights in zip(stacks, lam, strict=True)
    ]
