"""Linear-quadratic problems along a horizon, by Riccati's recursion.

    min Σ ½ ζₖᵀ Hₖ ζₖ + gₖᵀ ζₖ  subject to  xₖ₊₁ = Fₖ ζₖ + cₖ,  E x_N + e = 0,   ζₖ = (xₖ, uₖ)

with ζ_N = x_N, and of x₀ all numbers given as zero but those that are free.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...rotations.types import Scalar


class Horizon(eqx.Module):
    """A linear-quadratic problem.

    Attributes:
        H, g: Of N intervals, (N, z, z) and (N, z).
        F, c: Their ends by their beginnings and controls, (N, x, z) and (N, x).
        H_end, g_end: (x, x) and (x,).
        E, e: What has to be zero at the end, (k, x) and (k,).
        free: Which numbers of x₀ are free.
    """

    H: Float[Array, "N z z"]
    g: Float[Array, "N z"]
    F: Float[Array, "N x z"]
    c: Float[Array, "N x"]
    H_end: Float[Array, "x x"]
    g_end: Float[Array, " x"]
    E: Float[Array, "k x"]
    e: Float[Array, " k"]
    free: tuple[int, ...] = eqx.field(static=True)


class Solved(eqx.Module):
    """The solution of a linear-quadratic problem; NaN where it is not convex.

    Attributes:
        x: At all knots, (N + 1, x).
        u: (N, u).
        costates: Multipliers of the motion up to knots 1 to N, (N, x).
        nu: Multipliers of the conditions at the end, (k,).
        gains: Of u = ... - K x, (N, u, x).
    """

    x: Float[Array, "M x"]
    u: Float[Array, "N u"]
    costates: Float[Array, "N x"]
    nu: Float[Array, " k"]
    gains: Float[Array, "N u x"]


def solved(problem: Horizon, shift: Scalar) -> Solved:
    """The solution. Conditions at the end are met by their multipliers; `shift` times their squares
    is added to the costs, which changes nothing where they are met.

    Every right side is a column: the first is that of the problem, and each of the others is that
    of one multiplier.
    """
    n, dtype = problem.F.shape[1], problem.g.dtype
    k = problem.e.size
    P = problem.H_end + shift * problem.E.T @ problem.E
    own = problem.g_end + shift * problem.E.T @ problem.e
    p = jnp.concatenate([own[:, None], problem.E.T], axis=1)

    def back(after: tuple[Array, Array], at: tuple[Array, ...]):
        P, p = after
        H, g, F, c = at
        Q = H + F.T @ P @ F
        Q = 0.5 * (Q + Q.T)
        q = F.T @ p.at[:, 0].add(P @ c)
        q = q.at[:, 0].add(g)
        factor = jnp.linalg.cholesky(Q[n:, n:])
        rest = jnp.concatenate([Q[n:, :n], q[n:]], axis=1)
        gains = jax.scipy.linalg.cho_solve((factor, True), rest)
        K, ahead = gains[:, :n], gains[:, n:]
        before = Q[:n, :n] - Q[:n, n:] @ K, q[:n] - Q[:n, n:] @ ahead
        return before, (K, ahead, P, p)

    stages = problem.H, problem.g, problem.F, problem.c
    (P0, p0), (K, ahead, P, p) = jax.lax.scan(back, (P, p), stages, reverse=True)
    x0 = jnp.zeros((n, 1 + k), dtype)
    if problem.free:
        index = np.array(problem.free, int)
        factor = jnp.linalg.cholesky(P0[np.ix_(index, index)])
        x0 = x0.at[index].set(-jax.scipy.linalg.cho_solve((factor, True), p0[index]))

    def forward(x: Array, at: tuple[Array, ...]):
        K, ahead, F, c = at
        u = -K @ x - ahead
        end = F @ jnp.concatenate([x, u])
        end = end.at[:, 0].add(c)
        return end, (x, u, end)

    last, (x, u, ends) = jax.lax.scan(forward, x0, (K, ahead, problem.F, problem.c))
    one = jnp.ones(1, dtype)
    share = one
    nu = jnp.zeros(0, dtype)
    if k:
        S = problem.E @ last
        slopes = S[:, 1:]
        # Conditions that repeat others share their multipliers.
        least = 1e-14 * jnp.max(jnp.abs(slopes)) * jnp.eye(k, dtype=dtype)
        nu = jnp.linalg.solve(slopes - least, -(S[:, 0] + problem.e))
        share = jnp.concatenate([one, nu])
    x, u, ends = x @ share, u @ share, ends @ share
    costates = jnp.einsum("nij,nj->ni", P, ends) + p @ share
    return Solved(jnp.concatenate([x, ends[-1:]]), u, costates, nu, K)
