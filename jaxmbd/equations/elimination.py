"""Elimination of the multipliers in rotation-matrix elements: two steps, or one shot as its check.

    M a + Nᵀ Λ + Jᵀ λ = -b,   N a = γ_R,   J a = γ_J

N are the rows of Rᵀ R = I, J those of the joints; M is inverted in closed form. This file knows
bodies as arrays and rows as blocks, but for its entry in `index1.eliminate`.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations import RotationElements
from ..formulations.rotation_elements import Elements, poinsot
from ..formulations.symmetric import BASIS, packed, unpacked
from ..linalg import DenseFactors, linear_solve
from ..linalg.geometric_mean import geometric_mean
from ..linalg.saddle import Index, apply_rows, scatter_rows
from ..linalg.small_matrices import gauss_jordan, product, times
from ..model.system import System
from ..rotations.types import Mat3
from .index1 import eliminate, minimum_norm
from .rows import row_bodies, row_sizes


class Bodies(NamedTuple):
    """What the elimination needs of all bodies.

    Attributes:
        compliance: 1 / m, (nb,).
        K_inv: Inverse of Poinsot's inertia about the mass centers, (nb, 3, 3).
        r0: Mass centers at the reference, (nb, 3).
        R: Rotations from the reference, (nb, 3, 3).
    """

    compliance: Float[Array, " nb"]
    K_inv: Float[Array, "nb 3 3"]
    r0: Float[Array, "nb 3"]
    R: Float[Array, "nb 3 3"]

    def at(self, index: np.ndarray) -> "Bodies":
        """The bodies of an array of indices; the ground, nb, does not yield."""
        padded = [jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)]) for x in self]
        return Bodies(*(x[index] for x in padded))


@eliminate.register(RotationElements)
def _(
    formulation: RotationElements,
    system: System,
    q: Elements,
    blocks: Float[Array, "m k d"],
    bias: Float[Array, "nb d"],
    gamma: Float[Array, " m"],
) -> tuple[Float[Array, "nb d"], Float[Array, " m"]]:
    method = two_step if formulation.elimination == "two_step" else one_shot
    K = jax.vmap(poinsot)(system.inertia, q.reference.A)
    bodies = Bodies(1.0 / system.mass, jnp.linalg.inv(K), q.reference.r, q.R)
    sizes = row_sizes(formulation, system, blocks) if system.has_loops else None
    return method(bodies, blocks, row_bodies(formulation, system), bias, gamma, sizes)


def two_step(
    bodies: Bodies,
    rows: Float[Array, "m k d"],
    row_bodies: Index,
    bias: Float[Array, "nb d"],
    gamma: Float[Array, " m"],
    sizes: Float[Array, " m"] | None = None,
) -> tuple[Float[Array, "nb d"], Float[Array, " m"]]:
    """Accelerations (nb, 12) and multipliers (m,), joints first, by Λ per body and then λ. `sizes`
    are those of the rows where these may repeat each other, otherwise None.

    Step one is, for every body and right-hand side B, the Lyapunov equation (Eq. 25)

        G Λ K⁻¹ + K⁻¹ Λ G = B,   G = Rᵀ R

    whose operator is definite. The paper writes I for G. That is the same while R is a rotation,
    but what an integrator adds to G then obeys G̈ = (G - I) Λ K⁻¹ + K⁻¹ Λ (G - I) and grows
    exponentially in a body under compression.
    """
    nb = bodies.compliance.size
    joints = len(row_bodies) - 6 * nb
    lyapunov = gauss_jordan(_lyapunov(bodies.R, bodies.K_inv))
    padded = jnp.concatenate([lyapunov, jnp.zeros((1, 6, 6), rows.dtype)])

    free = _yield(bodies, -bias)
    own = times(lyapunov, jax.vmap(_rigidity)(bodies.R, free) - gamma[joints:].reshape(nb, 6))
    free = free - _yield(bodies, jax.vmap(_reaction)(bodies.R, own))
    if not joints:
        return free, own.reshape(-1)

    rows, row_bodies = rows[:joints], row_bodies[:joints]
    index = np.array(row_bodies, int)
    at = bodies.at(index)
    yielding = _yield(at, rows)
    answer = times(
        padded[index], _over(_rigidity)(at.R, yielding)
    )  # Λ that each joint row calls for, on either body
    yielding = yielding - _yield(at, _over(_reaction)(at.R, answer))
    S = _schur(rows, yielding, index, nb)
    short = apply_rows(rows, free, row_bodies) - gamma[:joints]
    lam = _multipliers(S, short, None if sizes is None else sizes[:joints])
    a = free - scatter_rows(yielding, lam, row_bodies, nb)
    return a, jnp.concatenate([lam, (own - scatter_rows(answer, lam, row_bodies, nb)).reshape(-1)])


def one_shot(
    bodies: Bodies,
    rows: Float[Array, "m k d"],
    row_bodies: Index,
    bias: Float[Array, "nb d"],
    gamma: Float[Array, " m"],
    sizes: Float[Array, " m"] | None = None,
) -> tuple[Float[Array, "nb d"], Float[Array, " m"]]:
    """The same from one system for all multipliers."""
    nb = bodies.compliance.size
    index = np.array(row_bodies, int)
    free = _yield(bodies, -bias)
    yielding = _yield(bodies.at(index), rows)
    S = _schur(rows, yielding, index, nb)
    of_joints = np.arange(len(index)) < len(index) - 6 * nb
    sizes = sizes if of_joints.any() else None
    lam = _multipliers(S, apply_rows(rows, free, row_bodies) - gamma, sizes, of_joints)
    return free - scatter_rows(yielding, lam, row_bodies, nb), lam


def _lyapunov(R: Float[Array, "nb 3 3"], K_inv: Float[Array, "nb 3 3"]) -> Float[Array, "nb 6 6"]:
    """N M⁻¹ Nᵀ of every body: Λ ↦ G Λ K⁻¹ + K⁻¹ Λ G in six numbers."""
    basis = jnp.asarray(BASIS, R.dtype)[None]
    G = product(jnp.swapaxes(R, -1, -2), R)
    right = product(product(G[:, None], basis), K_inv[:, None])  # G E_l K⁻¹
    return jnp.sum(basis[:, :, None] * right[:, None], axis=(-2, -1))


def _over(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Of one body to arrays (m, k) of bodies."""
    return jax.vmap(jax.vmap(function))


def _rigidity(R: Mat3, a: Float[Array, "12"]) -> Float[Array, "6"]:
    """N a: six numbers of Rᵀ R̈ + R̈ᵀ R (Eq. 23)."""
    half = R.T @ a[3:].reshape(3, 3)
    return packed(half + half.T)


def _reaction(R: Mat3, own: Float[Array, "6"]) -> Float[Array, "12"]:
    """Nᵀ Λ: no force, and R Λ."""
    return jnp.concatenate([jnp.zeros(3, R.dtype), (R @ unpacked(own)).reshape(9)])


def _yield(bodies: Bodies, load: Float[Array, "*n 12"]) -> Float[Array, "*n 12"]:
    """M⁻¹ (X, Y): R̈ = (Y - X ⊗ r₀) K⁻¹ and T̈* = X / m - R̈ r₀ (Eq. 12)."""
    X = load[..., :3]
    Y = load[..., 3:].reshape(*load.shape[:-1], 3, 3) - X[..., :, None] * bodies.r0[..., None, :]
    R_ddot = product(Y, bodies.K_inv)
    T_ddot = bodies.compliance[..., None] * X - times(R_ddot, bodies.r0)
    return jnp.concatenate([T_ddot, R_ddot.reshape(*load.shape[:-1], 9)], axis=-1)


def _schur(
    rows: Float[Array, "m k d"], yielding: Float[Array, "m k d"], index: np.ndarray, nb: int
) -> Float[Array, "m m"]:
    """The matrix of the multipliers: products of rows with the yield of those that share a body
    with them.
    """
    m = len(index)
    first, second = [], []
    for body in range(nb):
        sides = np.argwhere(index == body)
        first.append(np.repeat(sides, len(sides), axis=0))
        second.append(np.tile(sides, (len(sides), 1)))
    (row, side), (other, its_side) = np.concatenate(first).T, np.concatenate(second).T
    entries = jnp.sum(rows[row, side] * yielding[other, its_side], axis=-1)
    return jnp.zeros((m, m), rows.dtype).at[row, other].add(entries)


def _multipliers(
    S: Float[Array, "m m"],
    b: Float[Array, " m"],
    sizes: Float[Array, " m"] | None,
    of_joints: np.ndarray | None = None,
) -> Float[Array, " m"]:
    """S λ = b; with `sizes` of minimum norm where rows repeat, among those `of_joints` (all by
    default), see `motion.regularization`.
    """
    E = None
    if sizes is not None:
        # With pivoting by size, errors of S are rounding alone, and E may be smaller than that of
        # other strategies.
        of_joints = np.ones(b.size, bool) if of_joints is None else of_joints
        scale = geometric_mean((jnp.diagonal(S) / sizes**2)[of_joints]) * sizes**2
        E = float(jnp.finfo(S.dtype).eps) ** 0.6 * scale * jnp.asarray(of_joints, S.dtype)
    matrix = -S if E is None else -S - jnp.diag(E)
    factors = eqx.tree_at(
        lambda f: f.regularization, DenseFactors.of(matrix), E, is_leaf=lambda x: x is None
    )
    lam = linear_solve(lambda x: -(S @ x), factors, -b)
    return lam if E is None else minimum_norm(lam, factors)
