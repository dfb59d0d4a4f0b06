"""Generalized-alpha: second order in everything, spatial rotation included; constraints to
rounding; derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from experiments import reference_solutions
from helpers import (
    ALL_FORMULATIONS,
    FORMULATIONS,
    first_quick,
    name_of,
    run_at,
    slope,
    top_reference,
)

METHOD = mbd.GeneralizedAlpha()
STEPS = np.array([2e-3, 1e-3, 5e-4])
FAST = STEPS / 2  # at 25 rad/s about a body axis the Euler angles' next term shows at 2 ms
TOLERANCE = 0.1  # of an observed order: what the next terms leave at these steps


@pytest.mark.parametrize("formulation", first_quick(FORMULATIONS), ids=name_of)
def test_double_pendulum_approaches_its_minimal_equations_at_second_order(formulation):
    system, state = mbd.load("double_pendulum")
    z = reference_solutions.double_pendulum(np.array([0.0, 1.0]))[-1]
    error = []
    for h in STEPS:
        n = round(1 / h)
        sol = run_at(system, state, h, n, formulation, pieces=n // 250, integrator=METHOD)
        error.append(abs(sol.r[-1, 1, 2] - z))
    assert abs(slope(STEPS, error) - 2.0) < TOLERANCE
    assert error[-1] < 1e-6


FULL_INERTIA = np.array([[0.5, 0.08, -0.05], [0.08, 0.7, 0.06], [-0.05, 0.06, 0.4]])


@pytest.mark.parametrize("formulation", ALL_FORMULATIONS, ids=name_of)
def test_a_fast_top_with_full_inertia_turns_as_eulers_equations_say(formulation):
    s, mass, omega = np.array([0.1, 0.05, 0.4]), 2.0, np.array([1.0, -2.0, 25.0])
    m = mbd.Mechanism("top")
    m.add_body("body", mass=mass, inertia=FULL_INERTIA, r=s, omega=omega, v=np.cross(omega, s))
    m.add(mbd.Spherical("pivot", m.ground, "body", point=(0, 0, 0)))
    J_pivot = FULL_INERTIA + mass * (s @ s * np.eye(3) - np.outer(s, s))
    A, rate = top_reference(J_pivot, mass, s, np.array([0, 0, -9.81]), omega, 0.5)
    system, state = m.build()
    errors = {"A": [], "omega": []}
    for h in FAST:
        n = round(0.5 / h)
        sol = run_at(system, state, h, n, formulation, pieces=n // 250, integrator=METHOD)
        errors["A"].append(np.linalg.norm(sol.A[-1, 0] - A))
        errors["omega"].append(np.linalg.norm(sol.omega[-1, 0] - rate))
    for name, error in errors.items():
        assert abs(slope(FAST, error) - 2.0) < TOLERANCE, (name, error)


def test_a_driven_loop_approaches_kinematics_at_second_order_multipliers_included():
    system, state = mbd.load("slider_crank")
    truth = mbd.kinematics(system, state, np.array([0.0, 0.5]))
    errors = {name: [] for name in ("v", "a", "omega", "alpha", "lam")}
    for h in STEPS:
        n = round(0.5 / h)
        sol = run_at(system, state, h, n, mbd.RA(), pieces=n // 250, integrator=METHOD)
        assert np.max(np.abs(sol.violation(system).position)) < 1e-12
        for name, values in errors.items():
            values.append(np.linalg.norm(getattr(sol, name)[-1] - getattr(truth, name)[-1]))
    for name, error in errors.items():
        assert abs(slope(STEPS, error) - 2.0) < TOLERANCE, (name, error)


def test_a_redundant_loop_closes_and_keeps_its_energy_to_second_order():
    system, state = mbd.load("four_bar")
    drift = []
    for h in STEPS:
        n = round(0.5 / h)
        sol = run_at(system, state, h, n, mbd.RA(), pieces=n // 250, integrator=METHOD)
        assert np.max(np.abs(sol.violation(system).position)) < 1e-12
        assert int(np.max(sol.iterations)) <= 4 * 250
        energy = np.asarray(sol.energy(system).total)
        drift.append(abs(energy[-1] - energy[0]))
    assert (
        abs(slope(STEPS, drift) - 2.0) < 0.2
    )  # an energy error has terms of higher order beside the second
    with pytest.raises(ValueError, match="rho_inf"):
        mbd.GeneralizedAlpha(rho_inf=1.2)


@pytest.mark.essential
def test_gradients_go_through_the_steps_and_the_start():
    system, state = mbd.load("double_pendulum")
    exact = mbd.GeneralizedAlpha(newton=mbd.Newton(1e-14, exact=True))

    @jax.jit
    def height(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * jnp.stack([1.0, factor]))
        return mbd.simulate(heavier, state, h=5e-3, steps=40, integrator=exact).r[-1, 1, 2]

    gradient = jax.jit(jax.grad(height))(1.3)
    step = 1e-4
    f = [float(height(1.3 + k * step)) for k in (-2, -1, 1, 2)]
    np.testing.assert_allclose(
        gradient, (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step), rtol=1e-7
    )


@pytest.mark.parametrize(
    "integrator", [METHOD, mbd.GeneralizedAlpha(group="SE3")], ids=["SO3xR3", "SE3"]
)
def test_accelerations_are_of_second_order_from_the_first_step(integrator):
    # Velocities across the constraints settle at an error of h²; started without it, accelerations
    # and multipliers would be of first order until that has decayed.
    system, state = mbd.load("slider_crank")
    errors = []
    for h in (2e-3, 1e-3):
        sol = mbd.simulate(system, state, h=h, steps=5, integrator=integrator)
        truth = mbd.kinematics(system, state, sol.t)
        errors.append([np.max(np.abs(sol.a[1:] - truth.a[1:])), _gap(sol.lam[1:], truth.lam[1:])])
    errors = np.array(errors)
    assert np.all(errors[1] < np.array([2e-4, 2e-4 * np.max(np.abs(truth.lam))])), errors
    assert np.all(errors[0] / errors[1] > 3.0), errors


def _gap(x, y):
    return np.max(np.abs(np.asarray(x) - np.asarray(y)))
