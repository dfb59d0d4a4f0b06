"""Kinematics of fully driven mechanisms: formulations against each other, closed forms, reactions
against dynamics."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import FORMULATIONS, name_of
from jaxmbd.equations.rows import dense_rows
from jaxmbd.rotations import so3

# Solutions are shared by the tests of this file: one worker runs them all.
pytestmark = pytest.mark.xdist_group("kinematics")

DRIVEN = ["single_pendulum", "four_link", "slider_crank"]
TS = (
    np.arange(0, 2001) * 1e-3
)  # two seconds: a full turn of the four-link's rotor, two of the crank


@functools.cache
def solution(model, formulation_name):
    system, state = mbd.load(model)
    return mbd.kinematics(system, state, TS, formulation=mbd.FORMULATIONS[formulation_name]())


@pytest.mark.parametrize(
    "model", [DRIVEN[0], *(pytest.param(name, marks=pytest.mark.slow) for name in DRIVEN[1:])]
)
def test_formulations_agree_over_full_turns_of_the_driver(model):
    for quantity in ("r", "A", "v", "omega", "a", "alpha", "lam"):
        reference = np.asarray(getattr(solution(model, "rA"), quantity))
        scale = max(1.0, np.max(np.abs(reference)))
        for name in ("rp", "reps"):
            np.testing.assert_allclose(
                getattr(solution(model, name), quantity), reference, atol=1e-8 * scale
            )


def test_single_pendulum_follows_its_closed_form():
    sol = solution("single_pendulum", "rA")
    t = np.asarray(sol.t)
    # The y axis of the bar is (0, cos b, sin b) with b = (pi/4) cos 2t; the bar, 2 m to its center,
    # is normal to it.
    b = np.pi / 4 * np.cos(2 * t)
    b_dot, b_ddot = -np.pi / 2 * np.sin(2 * t), -np.pi * np.cos(2 * t)
    e, n = np.stack([0 * b, np.sin(b), -np.cos(b)], 1), np.stack([0 * b, np.cos(b), np.sin(b)], 1)
    np.testing.assert_allclose(sol.r[:, 0], 2 * e, atol=1e-12)
    np.testing.assert_allclose(sol.v[:, 0], 2 * b_dot[:, None] * n, atol=1e-11)
    np.testing.assert_allclose(
        sol.a[:, 0], 2 * (b_ddot[:, None] * n - (b_dot**2)[:, None] * e), atol=1e-10
    )


def test_motor_torque_of_the_pendulum_is_that_of_its_equation_of_motion():
    system, _ = mbd.load("single_pendulum")
    sol = solution("single_pendulum", "rA")
    t = np.asarray(sol.t)
    b, b_ddot = np.pi / 4 * np.cos(2 * t), -np.pi * np.cos(2 * t)
    torque = (104.01625 + 78 * 4) * b_ddot + 78 * 9.81 * 2 * np.sin(b)
    # The pin's moment about its own axis is nil, so the motor carries all of it.
    reactions = sol.reactions(system)
    np.testing.assert_allclose(reactions["pin"].moment[:, 0], 0, atol=1e-8)
    np.testing.assert_allclose(reactions["motor"].moment[:, 0], torque, atol=1e-8)
    np.testing.assert_allclose(reactions["motor"].force, 0, atol=1e-8)
    force = 78 * (np.asarray(sol.a[:, 0]) + [0, 0, 9.81])
    np.testing.assert_allclose(reactions["pin"].force, force, atol=1e-7)


@pytest.mark.parametrize("model", DRIVEN)
def test_velocities_and_accelerations_are_derivatives_of_positions(model):
    sol = solution(model, "rA")
    dt = TS[1]
    r, v = np.asarray(sol.r), np.asarray(sol.v)
    # Central differences at 1 ms: error dt²/6 times the third derivative, below 2e-4 of these
    # motions' rates.
    np.testing.assert_allclose((r[2:] - r[:-2]) / (2 * dt), v[1:-1], atol=3e-4 * np.max(np.abs(v)))
    a = np.asarray(sol.a)
    np.testing.assert_allclose((v[2:] - v[:-2]) / (2 * dt), a[1:-1], atol=3e-4 * np.max(np.abs(a)))


@pytest.mark.parametrize("model", DRIVEN)
def test_power_of_the_motor_is_the_rate_of_energy(model):
    system, _ = mbd.load(model)
    sol = solution(model, "rA")
    energy = np.asarray(sol.energy(system).total)
    moment = np.asarray(sol.reactions(system)["motor"].moment)
    driven = next(c.j for c in system.connections if c.name == "motor")
    omega = np.einsum("tij,tj->ti", np.asarray(sol.A[:, driven]), np.asarray(sol.omega[:, driven]))
    rate = (energy[2:] - energy[:-2]) / (2 * TS[1])
    power = np.einsum("ti,ti->t", moment, omega)[1:-1]
    np.testing.assert_allclose(rate, power, atol=3e-4 * np.max(np.abs(power)))


def test_constraints_hold_at_position_and_velocity_level():
    for model in DRIVEN:
        system, _ = mbd.load(model)
        violation = solution(model, "rA").violation(system)
        assert np.max(np.abs(violation.position)) < 1e-10
        assert np.max(np.abs(violation.velocity)) < 1e-9


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=name_of)
def test_a_redundant_driven_four_bar_moves(formulation):
    m = mbd.load_mechanism("four_bar")
    m.add(
        mbd.RotationDriver(
            "motor", "ground", "crank", axis=(0, 1, 0), angle=lambda t: 2 * jnp.pi * t
        )
    )
    system, state = m.build()
    sol = mbd.kinematics(system, state, np.arange(0, 501) * 2e-3, formulation=formulation)
    assert np.max(np.abs(sol.violation(system).position)) < 1e-10
    # A full turn of the crank brings every body back.
    np.testing.assert_allclose(sol.r[-1], sol.r[0], atol=1e-9)
    # Multipliers are of minimum norm: those of the pseudo-inverse.
    rows = np.asarray(
        system.to_natural(dense_rows(mbd.RA(), system.at(sol.t[100]), sol.at(100).pose).T)
    )  # (18, 21)
    lam = np.asarray(sol.lam[100])
    np.testing.assert_allclose(
        np.linalg.pinv(rows, rcond=1e-9) @ (rows @ lam), lam, atol=1e-8 * np.max(np.abs(lam))
    )


def test_frozen_mode_reaches_the_same_motion_in_more_iterations():
    system, state = mbd.load("slider_crank")
    sol = mbd.kinematics(system, state, TS, newton=mbd.Newton(1e-10, exact=False))
    np.testing.assert_allclose(sol.r, solution("slider_crank", "rA").r, atol=1e-9)
    assert np.mean(sol.iterations[1:]) > np.mean(solution("slider_crank", "rA").iterations[1:])


def test_a_plain_dp1_driver_says_that_it_is_singular():
    m = mbd.Mechanism("crank")
    b = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0), A=so3.exp(jnp.array([np.pi / 2, 0, 0])))
    m.add(mbd.Revolute("pin", m.ground, b, point=(0, 0, 0), axis=(1, 0, 0)))
    dp1 = mbd.DP1((0, 1, 0), (0, 1, 0), lambda t: jnp.cos(jnp.pi * (t + 0.5)))
    m.add(mbd.Constraint("driver", m.ground, b, primitives=[dp1]))
    system, state = m.build()
    with pytest.raises(mbd.SimulationError, match="use a RotationDriver") as caught:
        mbd.kinematics(
            system, state, np.arange(11) * 0.1
        )  # the angle is 180 degrees at t = 0.5 exactly
    assert np.all(np.isfinite(caught.value.solution.r[:5])) and np.all(
        np.isnan(caught.value.solution.r[5:])
    )


def test_kinematics_refuses_freedoms_and_says_how_many():
    system, state = mbd.load("double_pendulum")
    with pytest.raises(ValueError, match="at least 2 left"):
        mbd.kinematics(system, state, TS)
    system, state = mbd.load("four_bar")
    with pytest.raises(ValueError, match="has 1 left"):
        mbd.kinematics(system, state, TS)
