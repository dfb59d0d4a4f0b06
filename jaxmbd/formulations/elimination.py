"""Elimination of the multipliers in rotation-matrix elements: two steps, or one shot as its check.

    M a + Nᵀ Λ + Jᵀ λ = -b,   N a = γ_R,   J a = γ_J

N are the rows of Rᵀ R = I, J those of the joints; M is inverted in closed form. Numbers only: this file knows bodies as
arrays and rows as blocks.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rotations.types import Mat3
from ..solvers import DenseFactors, linear_solve
from ..solvers.saddle import apply_rows, scatter_rows
from ..solvers.small import gauss_jordan, product, times
from .index1 import minimum_norm

# The symmetric matrices that six numbers stand for: 11, 22, 33, 12, 13, 23.
_FIRST, _SECOND = np.array([0, 1, 2, 0, 0, 1]), np.array([0, 1, 2, 1, 2, 2])
_BASIS = np.zeros((6, 3, 3))
_BASIS[np.arange(6), _FIRST, _SECOND] = 1.0
_BASIS[np.arange(6), _SECOND, _FIRST] = 1.0
_PACK = np.array([0.5, 0.5, 0.5, 1.0, 1.0, 1.0])


class Bodies(NamedTuple):
    """What the elimination needs of all bodies.

    Attributes:
        compliance: 1 / m, (nb,).
        K_inv: Inverse of Poinsot's inertia about the mass centres, (nb, 3, 3).
        r0: Mass centres at the reference, (nb, 3).
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


def packed(S: Mat3) -> Float[Array, "6"]:
    """Six numbers of a symmetric matrix, (S₁₁/2, S₂₂/2, S₃₃/2, S₁₂, S₁₃, S₂₃): half its products with `unpacked`."""
    return S[_FIRST, _SECOND] * jnp.asarray(_PACK, S.dtype)


def unpacked(x: Float[Array, "6"]) -> Mat3:
    """The symmetric matrix with the elements x = (11, 22, 33, 12, 13, 23)."""
    return jnp.tensordot(x, jnp.asarray(_BASIS, x.dtype), 1)


def two_step(bodies: Bodies, rows, i, j, bias, gamma, *, redundant: bool):
    """Accelerations (nb, 12) and multipliers (m,), joints first, by Λ per body and then λ.

    Step one is, for every body and right-hand side B, the Lyapunov equation (Eq. 25)

        G Λ K⁻¹ + K⁻¹ Λ G = B,   G = Rᵀ R

    whose operator is definite. The paper writes I for G. That is the same while R is a rotation, but what an integrator
    adds to G then obeys G̈ = (G - I) Λ K⁻¹ + K⁻¹ Λ (G - I) and grows exponentially in a body under compression.
    """
    nb = bodies.compliance.size
    joints = len(i) - 6 * nb
    lyapunov = gauss_jordan(_lyapunov(bodies.R, bodies.K_inv))
    padded = jnp.concatenate([lyapunov, jnp.zeros((1, 6, 6), rows.dtype)])

    free = _yield(bodies, -bias)
    own = times(lyapunov, jax.vmap(_rigidity)(bodies.R, free) - gamma[joints:].reshape(nb, 6))
    free = free - _yield(bodies, jax.vmap(_reaction)(bodies.R, own))
    if not joints:
        return free, own.reshape(-1)

    index = np.stack([np.array(i, int), np.array(j, int)], axis=1)[:joints]
    rows, i, j = rows[:joints], i[:joints], j[:joints]
    at = bodies.at(index)
    yielding = _yield(at, rows)
    answer = times(padded[index], _over(_rigidity)(at.R, yielding))  # Λ that each joint row calls for, on either body
    yielding = yielding - _yield(at, _over(_reaction)(at.R, answer))
    S = _schur(rows, yielding, index, nb)
    lam = _multipliers(S, apply_rows(rows, free, i, j) - gamma[:joints], redundant)
    a = free - scatter_rows(yielding, lam, i, j, nb)
    return a, jnp.concatenate([lam, (own - scatter_rows(answer, lam, i, j, nb)).reshape(-1)])


def one_shot(bodies: Bodies, rows, i, j, bias, gamma, *, redundant: bool):
    """The same from one system for all multipliers."""
    nb = bodies.compliance.size
    index = np.stack([np.array(i, int), np.array(j, int)], axis=1)
    free = _yield(bodies, -bias)
    yielding = _yield(bodies.at(index), rows)
    S = _schur(rows, yielding, index, nb)
    uniform = np.arange(len(i)) < len(i) - 6 * nb
    lam = _multipliers(S, apply_rows(rows, free, i, j) - gamma, redundant and bool(uniform.any()), uniform)
    return free - scatter_rows(yielding, lam, i, j, nb), lam


def _lyapunov(R: Float[Array, "nb 3 3"], K_inv: Float[Array, "nb 3 3"]) -> Float[Array, "nb 6 6"]:
    """N M⁻¹ Nᵀ of every body: Λ ↦ G Λ K⁻¹ + K⁻¹ Λ G in six numbers."""
    basis = jnp.asarray(_BASIS, R.dtype)[None]
    G = product(jnp.swapaxes(R, -1, -2), R)
    right = product(product(G[:, None], basis), K_inv[:, None])  # G E_l K⁻¹
    return jnp.sum(basis[:, :, None] * right[:, None], axis=(-2, -1))


def _over(function):
    """Of one body to arrays (m, 2) of bodies."""
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


def _schur(rows, yielding, index: np.ndarray, nb: int) -> Float[Array, "m m"]:
    """The matrix of the multipliers: products of rows with the yield of those that share a body with them."""
    m = len(index)
    first, second = [], []
    for body in range(nb):
        sides = np.argwhere(index == body)
        first.append(np.repeat(sides, len(sides), axis=0))
        second.append(np.tile(sides, (len(sides), 1)))
    (row, side), (other, its_side) = np.concatenate(first).T, np.concatenate(second).T
    entries = jnp.sum(rows[row, side] * yielding[other, its_side], axis=-1)
    return jnp.zeros((m, m), rows.dtype).at[row, other].add(entries)


def _multipliers(S, b, redundant: bool, uniform: np.ndarray | None = None) -> Float[Array, " m"]:
    """S λ = b; of minimum norm where rows repeat, among the `uniform` rows (all by default)."""
    E = None
    if redundant:
        # With pivoting by size, errors of S are rounding alone, and E may be smaller than that of other strategies.
        diagonal = jnp.diagonal(S)
        uniform = np.ones(b.size, bool) if uniform is None else uniform
        floor = jnp.finfo(S.dtype).eps * jnp.max(diagonal)
        scale = jnp.exp(jnp.mean(jnp.log(jnp.maximum(diagonal[uniform], floor))))
        E = float(jnp.finfo(S.dtype).eps) ** 0.6 * scale * jnp.asarray(uniform, S.dtype)
    matrix = -S if E is None else -S - jnp.diag(E)
    lu, _, permutation = jax.lax.linalg.lu(jax.lax.stop_gradient(matrix))
    factors = DenseFactors(lu, permutation, jax.lax.stop_gradient(E))
    lam = linear_solve(lambda x: -(S @ x), factors, -b)
    return lam if E is None else minimum_norm(lam, factors)
