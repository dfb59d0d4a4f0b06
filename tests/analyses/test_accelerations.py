"""The state-space form for foreign integrators, against scipy and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from experiments import reference_solutions


def test_a_foreign_integrator_follows_the_double_pendulum():
    system, state = mbd.load("double_pendulum")
    y0, unravel = ravel_pytree(state)

    @jax.jit
    def f(t, y):
        return ravel_pytree(mbd.state_rate(t, unravel(y), system))[0]

    ts = np.linspace(0.0, 1.0, 6)
    y = solve_ivp(
        lambda t, y: np.asarray(f(t, y)), (0, 1), np.asarray(y0), rtol=1e-10, atol=1e-10, t_eval=ts
    ).y
    ends = np.array([np.asarray(unravel(jnp.asarray(column)).r[1, 2]) for column in y.T])
    # Ten digits a step, some of which the motion takes.
    np.testing.assert_allclose(ends, reference_solutions.double_pendulum(ts), atol=1e-7)


def test_accelerations_of_a_top_are_those_of_eulers_equations_and_feedback_pulls_back():
    s, mass, omega = np.array([0.1, 0.05, 0.4]), 2.0, np.array([1.0, -2.0, 25.0])
    J = np.array([[0.5, 0.08, -0.05], [0.08, 0.7, 0.06], [-0.05, 0.06, 0.4]])
    m = mbd.Mechanism("top")
    m.add_body("body", mass=mass, inertia=J, r=s, omega=omega, v=np.cross(omega, s))
    m.add(mbd.Spherical("pivot", m.ground, "body", point=(0, 0, 0)))
    system, state = m.build()
    found = mbd.accelerations(system, state)
    J_pivot = J + mass * (s @ s * np.eye(3) - np.outer(s, s))
    torque = np.cross(s, mass * np.array([0.0, 0.0, -9.81])) - np.cross(omega, J_pivot @ omega)
    alpha = np.linalg.solve(J_pivot, torque)
    np.testing.assert_allclose(found.alpha[0], alpha, rtol=1e-12)
    np.testing.assert_allclose(
        found.a[0], np.cross(alpha, s) + np.cross(omega, np.cross(omega, s)), rtol=1e-12
    )
    # Moved off its pivot by d, at the right velocity: -β² d beside the motion about the pivot.
    d = np.array([1e-3, -2e-3, 5e-4])
    off = mbd.State(state.r + d[None], state.A, state.v, state.omega)
    pulled = mbd.accelerations(system, off, rate=30.0)
    # The body's point at the pivot: r̈ + α x (-s) + ω x (ω x (-s)), at A = 1.
    point = pulled.a[0] - np.cross(pulled.alpha[0], s) - np.cross(omega, np.cross(omega, s))
    np.testing.assert_allclose(point, -900.0 * d, rtol=1e-9)


def test_redundant_rows_leave_no_trace_in_the_accelerations():
    """Sixteen loops of a ladder that swings through its upright pose, where no link turns faster
    or slower."""
    system, state = mbd.load("four_bar_ladder:16")
    acc = mbd.accelerations(system, state)
    # The links are 1 m long and their ends move at 1 m/s: nothing but the pull to the pivots.
    assert float(jnp.max(jnp.abs(acc.alpha))) < 1e-13
    np.testing.assert_allclose(np.min(acc.a[:, 2]), -1.0, rtol=0, atol=1e-13)
    np.testing.assert_allclose(acc.a[:, :2], 0.0, rtol=0, atol=1e-13)
