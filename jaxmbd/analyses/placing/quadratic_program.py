"""Convex quadratic programs with a few limits, by a primal-dual interior point."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...linalg import DenseFactors
from ...rotations.types import Scalar
from .precision import in_digits_of

_MAX_TURNS = 30
_REDUCTION = 0.1  # of the barrier in a turn
_LEAST_SLACK, _FIRST_MULTIPLIER = 1e-1, 1e-2
_CLOSE = 1e-10  # products of slacks and multipliers, and what slacks are off by


class Quadratic(eqx.Module):
    """min ½ xᵀ H x + gᵀ x subject to E x + c = soft y and G x + d ≥ 0, with y the multipliers of
    the equations.

    Attributes:
        H: (n, n); positive where E leaves it free.
        g: (n,).
        E, c, soft: (m, n), (m,), (m,); soft is positive where rows of E may repeat.
        G, d: (k, n), (k,).
    """

    H: Float[Array, "n n"]
    g: Float[Array, " n"]
    E: Float[Array, "m n"]
    c: Float[Array, " m"]
    soft: Float[Array, " m"]
    G: Float[Array, "k n"]
    d: Float[Array, " k"]


class _Iterate(eqx.Module):
    s: Float[Array, " k"]
    z: Float[Array, " k"]
    turns: Int[Array, ""]


def solved(
    program: Quadratic,
) -> tuple[Float[Array, " n"], Float[Array, " m"], Float[Array, " k"]]:
    """The solution, the multipliers of equations, and those of limits.

    The matrix of equations is factored once. What is left is the problem of the limits alone,
    s = q + A z with s, z ≥ 0 and s z = 0.

    Reference:
        Nocedal, Wright, Numerical Optimization, 2nd ed. (2006), section 16.6.
    """
    n, m, k = program.g.size, program.c.size, program.d.size
    lower = jnp.concatenate([program.E, -jnp.diag(program.soft)], axis=1)
    K = jnp.concatenate([jnp.concatenate([program.H, program.E.T], axis=1), lower])
    factors = DenseFactors.of(K)
    free = factors.solve(-jnp.concatenate([program.g, program.c]))
    if k == 0:
        return free[:n], free[n:], jnp.zeros(0, free.dtype)
    pushes = jnp.concatenate([program.G, jnp.zeros((k, m), free.dtype)], axis=1)
    by_push = jax.vmap(factors.solve)(pushes)  # one row for each limit
    A, q = program.G @ by_push[:, :n].T, program.G @ free[:n] + program.d

    def turn(i: _Iterate) -> _Iterate:
        barrier, off = _REDUCTION * (i.s @ i.z) / k, q + A @ i.z - i.s
        matrix = A + jnp.diag(i.s / i.z)
        dz = DenseFactors.of(matrix).solve(barrier / i.z - i.s - off)
        ds = A @ dz + off
        share = jnp.minimum(_to_boundary(i.s, ds), _to_boundary(i.z, dz))
        return _Iterate(i.s + share * ds, i.z + share * dz, i.turns + 1)

    close = in_digits_of(free.dtype, _CLOSE)

    def goes_on(i: _Iterate) -> Array:
        off = jnp.max(jnp.abs(q + A @ i.z - i.s))
        return (i.turns < _MAX_TURNS) & (jnp.maximum(jnp.max(i.s * i.z), off) > close)

    s = jnp.maximum(program.d, _LEAST_SLACK)
    first = _Iterate(s, jnp.full(k, _FIRST_MULTIPLIER, s.dtype), jnp.zeros((), int))
    z = jax.lax.while_loop(goes_on, turn, first).z
    both = free + z @ by_push
    return both[:n], both[n:], z


def _to_boundary(x: Float[Array, " k"], dx: Float[Array, " k"]) -> Scalar:
    """The largest share of a change, one at most, that leaves numbers positive."""
    share = jnp.where(dx < 0.0, -0.995 * x / jnp.where(dx < 0.0, dx, -1.0), 1.0)
    return jnp.min(share, initial=1.0)
