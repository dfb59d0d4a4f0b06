"""What several tests need: random poses, finite differences, independent reference solutions."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from jaxmbd.rotations import so3

FORMULATIONS = [mbd.RA(), mbd.RP(), mbd.REps()]
ROUNDOFF = 1e-10  # derivatives of expressions of order ten, in double precision


def name_of(x) -> str:
    return getattr(x, "name", type(x).__name__)


def vec(rng, n=3):
    return jnp.array(rng.normal(size=n))


def rotation(rng):
    return so3.exp(vec(rng))


def random_state(rng, nb) -> mbd.State:
    return mbd.State(
        jnp.array(rng.normal(size=(nb, 3))),
        jnp.stack([rotation(rng) for _ in range(nb)]),
        jnp.array(rng.normal(size=(nb, 3))),
        jnp.array(rng.normal(size=(nb, 3))),
    )


def central_difference(f, x, step=1e-6):
    """Derivative of a scalar function of one number."""
    return (f(x + step) - f(x - step)) / (2 * step)


def slope(h, error) -> float:
    """Fitted order of an error against step sizes."""
    return float(np.polyfit(np.log(h), np.log(np.asarray(error, float)), 1)[0])


def run_at(system, state, h, steps, formulation, pieces=1, **kw):
    """The solution after `steps` steps, sharing one program among runs of any multiple of steps // pieces."""
    each = steps // pieces
    return mbd.run(
        system, state, h=h, steps=steps, save_every=each, chunks=pieces, formulation=formulation, progress=False, **kw
    )


class CompilationCounter(logging.Handler):
    """Counts the step programs that JAX compiles inside a `with` block."""

    def __enter__(self):
        self.programs = 0
        self._logger = logging.getLogger("jax._src.interpreters.pxla")
        self._logger.addHandler(self)
        self._propagate, self._logger.propagate = self._logger.propagate, False
        jax.config.update("jax_log_compiles", True)
        return self

    def __exit__(self, *_):
        jax.config.update("jax_log_compiles", False)
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagate

    def emit(self, record):
        message = record.getMessage()
        self.programs += any(
            f"Compiling jit({name})" in message or f"Compiling {name}" in message for name in ("start", "advance")
        )


# --- independent reference solutions, by scipy and without this package's mechanics -------------


def tilde(x):
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


def matrix_of(p):
    e0, e = p[0], p[1:]
    return (2 * e0**2 - 1) * np.eye(3) + 2 * (np.outer(e, e) + e0 * tilde(e))


def top_reference(J_pivot, mass, s_centre, gravity, omega0, t_end):
    """A body with a fixed point: (A, omega) at t_end from Euler's equations about that point and quaternions.

    J_pivot about the fixed point and s_centre from it to the mass centre, body frame; A = I at the start.
    """

    def rate(t, y):
        p, w = y[:4] / np.linalg.norm(y[:4]), y[4:]
        torque = np.cross(s_centre, mass * matrix_of(p).T @ gravity)
        w_dot = np.linalg.solve(J_pivot, torque - np.cross(w, J_pivot @ w))
        p_dot = 0.5 * np.concatenate([[-p[1:] @ w], p[0] * w + np.cross(p[1:], w)])
        return np.concatenate([p_dot, w_dot])

    y0 = np.concatenate([[1.0, 0, 0, 0], omega0])
    y = solve_ivp(rate, (0, t_end), y0, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    return matrix_of(y[:4] / np.linalg.norm(y[:4])), y[4:]


def double_pendulum_reference(t):
    """z of the second bar at times t: the planar equations of motion in two angles (MECHANISMS data)."""
    m1, m2, J1, J2, L1, l1, l2, g = 78.0, 39.0, 104.01625, 13.008125, 4.0, 2.0, 1.0, 9.81

    def rate(t, y):
        a, b, da, db = y
        c, s = np.cos(a - b), np.sin(a - b)
        M = np.array([[m1 * l1**2 + J1 + m2 * L1**2, m2 * L1 * l2 * c], [m2 * L1 * l2 * c, m2 * l2**2 + J2]])
        f = np.array(
            [
                -m2 * L1 * l2 * s * db**2 - g * (m1 * l1 + m2 * L1) * np.cos(a),
                m2 * L1 * l2 * s * da**2 - g * m2 * l2 * np.cos(b),
            ]
        )
        return np.concatenate([[da, db], np.linalg.solve(M, f)])

    y = solve_ivp(rate, (0, t[-1]), [0, -np.pi / 2, 0, 0], t_eval=t, method="DOP853", rtol=1e-12, atol=1e-12).y
    return 4 * np.sin(y[0]) + np.sin(y[1])
