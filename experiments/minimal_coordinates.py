"""Equations of motion in minimal coordinates, written without this package's mechanics, and their
integration by scipy: what the experiments on control and identification compare with.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp


def twists(poses: Callable, q, v):
    """Velocities (nb, 3) of mass centers, global, and angular velocities (nb, 3), body frames.

    Args:
        poses: From coordinates (n,) to mass centers (nb, 3) and rotation matrices (nb, 3, 3).
        q: Coordinates.
        v: Their rates.
    """
    (_, A), (r_dot, A_dot) = jax.jvp(poses, (q,), (v,))
    spin = jnp.swapaxes(A, 1, 2) @ A_dot
    return r_dot, jnp.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], axis=1)


def kinetic_energy(poses: Callable, mass, inertia) -> Callable:
    """T(q, v) of bodies with masses (nb,) and inertias (nb, 3, 3) about their mass centers."""

    def energy(q, v):
        r_dot, omega = twists(poses, q, v)
        return 0.5 * (
            jnp.sum(mass * jnp.sum(r_dot**2, axis=1))
            + jnp.einsum("bi,bij,bj", omega, inertia, omega)
        )

    return energy


def lagrange(kinetic: Callable, potential: Callable, load: Callable) -> Callable:
    """Accelerations q̈(t, q, v) from T(q, v), V(q) and generalized forces Q(t, q, v).

    ∂²T/∂v² q̈ = Q + ∂(T - V)/∂q - ∂²T/∂v∂q v
    """

    def accelerations(t, q, v):
        M = jax.hessian(kinetic, argnums=1)(q, v)
        bent = jax.jvp(lambda q: jax.grad(kinetic, argnums=1)(q, v), (q,), (v,))[1]
        pull = jax.grad(kinetic)(q, v) - jax.grad(potential)(q)
        return jnp.linalg.solve(M, load(t, q, v) + pull - bent)

    return accelerations


def integrate(accelerations: Callable, q, v, t, *, rtol=1e-10, atol=1e-12):
    """Coordinates and rates, (T, n) each, at times t from q and v at t[0], by DOP853."""
    start = np.concatenate([np.atleast_1d(q), np.atleast_1d(v)]).astype(float)
    n = start.size // 2

    @jax.jit
    def rate(t, y):
        return jnp.concatenate([y[n:], accelerations(t, y[:n], y[n:])])

    t = np.asarray(t)
    options = {"t_eval": t, "method": "DOP853", "rtol": rtol, "atol": atol}
    found = solve_ivp(lambda t, y: np.asarray(rate(t, y)), (t[0], t[-1]), start, **options)
    if not found.success:
        raise RuntimeError(f"the reference cannot be integrated: {found.message}")
    return found.y[:n].T, found.y[n:].T


def box_inertia(mass, size):
    """Principal moments (3,) of a box."""
    squares = np.asarray(size) ** 2
    return mass / 12.0 * (squares.sum() - squares)


def tilted(angle):
    """Rotation matrices (..., 3, 3) whose x axes point at an angle from x towards z."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    zero, one = jnp.zeros_like(c), jnp.ones_like(c)
    rows = ([c, zero, -s], [zero, one, zero], [s, zero, c])
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)
