"""Dynamics against kinematics, independent equations of motion and closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from experiments import reference_solutions
from helpers import (
    FORMULATIONS,
    CompilationCounter,
    each_once,
    first_quick,
    name_of,
    run_at,
    slope,
    top_reference,
)

STEPS = np.array([2e-3, 1e-3, 5e-4])


@pytest.mark.parametrize(
    ("model", "formulation"),
    each_once(["single_pendulum", "four_link", "slider_crank"], FORMULATIONS),
    ids=name_of,
)
def test_dynamics_approaches_kinematics_at_first_order(model, formulation):
    system, state = mbd.load(model)
    truth = mbd.kinematics(system, state, np.arange(0, 1001) * 1e-3)
    error = {"r": [], "v": [], "a": [], "omega": [], "alpha": [], "lam": []}
    for h in STEPS:
        steps = round(1.0 / h)
        sol = run_at(system, state, h, steps, formulation, pieces=steps // 500)
        for name, values in error.items():
            values.append(np.linalg.norm(getattr(sol, name)[-1] - getattr(truth, name)[-1]))
    assert max(error["r"]) < 1e-11  # positions satisfy the same equations at every h
    for name in ("v", "a", "omega", "alpha", "lam"):
        assert abs(slope(STEPS, error[name]) - 1.0) < 0.05, name


@pytest.mark.parametrize("formulation", first_quick(FORMULATIONS), ids=name_of)
def test_double_pendulum_approaches_its_minimal_equations_at_first_order(formulation):
    system, state = mbd.load("double_pendulum")
    z = reference_solutions.double_pendulum(np.array([0.0, 1.0]))[-1]
    h = np.array([2e-3, 1e-3, 5e-4])
    error = [
        abs(
            run_at(system, state, k, round(1 / k), formulation, pieces=round(1 / k) // 500).r[
                -1, 1, 2
            ]
            - z
        )
        for k in h
    ]
    ratios = np.array(error[:-1]) / np.array(error[1:])
    assert np.all(np.abs(ratios - 2.0) < 0.1), ratios


FULL_INERTIA = np.array([[0.5, 0.08, -0.05], [0.08, 0.7, 0.06], [-0.05, 0.06, 0.4]])


def free_body():
    m = mbd.Mechanism("free", gravity=(0, 0, 0))
    m.add_body("body", mass=2.0, inertia=FULL_INERTIA, omega=(1.0, 4.0, -2.0), v=(0.3, -0.2, 0.1))
    return m.build()


def fast_top():
    """A top on a ball joint, spinning fast, full inertia in the body frame."""
    s, mass = np.array([0.1, 0.05, 0.4]), 2.0
    omega = np.array([1.0, -2.0, 25.0])
    m = mbd.Mechanism("top")
    m.add_body("body", mass=mass, inertia=FULL_INERTIA, r=s, omega=omega, v=np.cross(omega, s))
    m.add(mbd.Spherical("pivot", m.ground, "body", point=(0, 0, 0)))
    J_pivot = FULL_INERTIA + mass * (s @ s * np.eye(3) - np.outer(s, s))
    return m.build(), (J_pivot, mass, s, np.array([0, 0, -9.81]), omega)


@pytest.mark.parametrize(
    ("case", "formulation"), each_once(["free", "top"], FORMULATIONS), ids=name_of
)
def test_spatial_rotation_approaches_eulers_equations_at_first_order(case, formulation):
    if case == "free":
        (system, state), reference = (
            free_body(),
            (FULL_INERTIA, 0.0, np.zeros(3), np.zeros(3), np.array([1.0, 4.0, -2.0])),
        )
    else:
        (system, state), reference = fast_top()
    t_end = 0.25
    A, omega = top_reference(*reference, t_end)
    h = np.array([5e-4, 2.5e-4, 1.25e-4])
    error, drift = [], []
    for k in h:
        steps = round(t_end / k)
        sol = run_at(system, state, k, steps, formulation, pieces=steps // 500)
        error.append([np.linalg.norm(sol.A[-1, 0] - A), np.linalg.norm(sol.omega[-1, 0] - omega)])
        energy = np.asarray(sol.energy(system).total)
        drift.append(abs(energy[-1] - energy[0]))
    for k in range(2):
        assert abs(slope(h, np.array(error)[:, k]) - 1.0) < 0.1, (case, error)
    assert np.all(
        np.array(drift[1:]) < 0.6 * np.array(drift[:-1])
    )  # first order: each halving halves it


def test_euler_angles_tumble_through_their_singularities():
    """A body that turns about a horizontal axis carries every chart's axis through the vertical in
    turn."""
    m = mbd.Mechanism("tumbling", gravity=(0, 0, 0))
    m.add_body("body", mass=1.0, inertia=FULL_INERTIA, omega=(0.3, 6.0, -0.4))
    system, state = m.build()
    A, omega = top_reference(
        FULL_INERTIA, 0.0, np.zeros(3), np.zeros(3), np.array([0.3, 6.0, -0.4]), 2.0
    )
    h = np.array([1e-3, 5e-4])
    error = []
    for k in h:
        steps = round(2.0 / k)
        sol = mbd.simulate(
            system,
            state,
            h=k,
            steps=steps,
            formulation=mbd.REps(),
            integrator=mbd.ImplicitEuler(),
        )
        vertical = np.max(np.abs(np.asarray(sol.A[:, 0, 2, :])), axis=0)
        assert np.all(
            vertical[[0, 2]] > 0.97
        )  # the best chart at the start, axis x, and the next one, z, both go there
        turns = np.linalg.norm(np.diff(np.asarray(sol.A[:, 0]), axis=0), axis=(1, 2))
        assert np.max(turns) < 1.3 * np.sqrt(2) * 6.1 * k  # no jump anywhere
        error.append(np.linalg.norm(sol.A[-1, 0] - A) + np.linalg.norm(sol.omega[-1, 0] - omega))
    assert abs(slope(h, error) - 1.0) < 0.1, error


@pytest.mark.parametrize("formulation", first_quick(FORMULATIONS), ids=name_of)
def test_a_top_in_steady_precession_stays_in_it(formulation):
    """Closed form: J3 W (W cos θ + ψ') - J1 W² cos θ = m g l for precession W, spin ψ', inertias
    about the pivot."""
    mass, length, g = 1.5, 0.3, 9.81
    J1, J3 = 0.1, 0.12
    J1_pivot = J1 + mass * length**2
    theta, precession = 0.6, 3.0
    spin = (mass * g * length + J1_pivot * precession**2 * np.cos(theta)) / (
        J3 * precession
    ) - precession * np.cos(theta)
    A = np.array([[1, 0, 0], [0, np.cos(theta), -np.sin(theta)], [0, np.sin(theta), np.cos(theta)]])
    omega = np.array(
        [0, precession * np.sin(theta), precession * np.cos(theta) + spin]
    )  # body frame at ψ = 0
    r = A @ [0, 0, length]
    m = mbd.Mechanism("precession")
    m.add_body(
        "top",
        mass=mass,
        inertia=(J1, J1, J3),
        r=r,
        A=A,
        omega=omega,
        v=A @ np.cross(omega, [0, 0, length]),
    )
    m.add(mbd.Spherical("pivot", m.ground, "top", point=(0, 0, 0)))
    system, state = m.build()
    turns = []
    h = np.array([4e-4, 2e-4])
    for k in h:
        steps = round(0.4 / k)
        sol = run_at(system, state, k, steps, formulation, pieces=steps // 1000)
        # After t the axis stands at the same height, turned by W t about the vertical.
        c, s = np.cos(precession * 0.4), np.sin(precession * 0.4)
        expected = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ r
        turns.append(np.linalg.norm(sol.r[-1, 0] - expected))
    assert turns[0] < 0.02 * length
    assert abs(slope(h, turns) - 1.0) < 0.15, turns


@pytest.mark.parametrize("formulation", first_quick(FORMULATIONS), ids=name_of)
def test_redundant_four_bar_closes_its_loop_at_every_step(formulation):
    system, state = mbd.load("four_bar")
    m = mbd.mobility(system, state)
    assert (m.rows, m.rank, m.freedoms, m.redundant_rows) == (20, 17, 1, 3)
    assert set(m.redundant_joints) == {
        "pin_crank",
        "pin_crank_coupler",
        "pin_coupler_rocker",
        "pin_rocker",
    }
    lost = []
    for h in (1e-3, 5e-4):
        steps = round(1 / h)
        sol = mbd.simulate(
            system,
            state,
            h=h,
            steps=steps,
            formulation=formulation,
            integrator=mbd.ImplicitEuler(),
        )
        assert np.max(np.abs(sol.violation(system).position)) < 1e-10
        assert np.max(np.abs(sol.r[..., 1])) < 1e-12  # the motion stays in its plane
        energy = np.asarray(sol.energy(system).total)
        lost.append(energy[0] - energy[-1])
        # Multipliers of minimum norm vary as smoothly as the motion: no null-space part creeps in
        # from step to step.
        lam = np.asarray(sol.lam)
        assert np.max(np.abs(np.diff(lam, axis=0)[1:])) < 0.05 * np.max(np.abs(lam))
    assert (
        0.4 < lost[1] / lost[0] < 0.6
    )  # first order: implicit Euler dissipates in proportion to the step


def test_slider_crank_without_driver_conserves_energy_ever_better():
    system, state = mbd.load("slider_crank_free")
    drift = []
    for h in (1e-3, 5e-4):
        steps = round(0.5 / h)
        energy = np.asarray(
            run_at(system, state, h, steps, mbd.RA(), pieces=steps // 500).energy(system).total
        )
        drift.append(abs(energy[-1] - energy[0]))
    assert 0.4 < drift[1] / drift[0] < 0.6


def test_newton_modes_agree_and_count_as_expected():
    system, state = mbd.load("slider_crank")
    kw = {"t_end": 0.2, "h": 1e-3}
    auto = mbd.simulate(system, state, integrator=mbd.ImplicitEuler(), **kw)
    exact = mbd.simulate(
        system, state, integrator=mbd.ImplicitEuler(newton=mbd.Newton(exact=True)), **kw
    )
    frozen = mbd.simulate(
        system,
        state,
        integrator=mbd.ImplicitEuler(newton=mbd.Newton(1e-6, exact=False, criterion="correction")),
        **kw,
    )
    for other in (exact, frozen):
        np.testing.assert_allclose(other.r, auto.r, atol=1e-11)
    assert np.mean(exact.iterations[1:]) <= np.mean(frozen.iterations[1:])


def test_run_in_pieces_is_the_same_motion_and_reports_progress():
    system, state = mbd.load("double_pendulum")
    seen = []
    whole = mbd.simulate(system, state, t_end=0.5, h=1e-3, save_every=5)
    pieces = mbd.simulate(
        system,
        state,
        t_end=0.5,
        h=1e-3,
        save_every=5,
        on_chunk=lambda s: seen.append(len(s.t)),
    )
    np.testing.assert_allclose(pieces.r, whole.r, atol=1e-12)
    np.testing.assert_allclose(pieces.t, whole.t, atol=0)
    # About fifty pieces of two rows; smaller ones after the machine was busy with something else.
    assert seen[0] == 3 and seen[-1] == 101 and set(np.diff(seen)) <= {1, 2}


def test_a_driven_mechanism_may_be_known_outside_of_a_jit():
    """Its drivers are checked for redundancy with numbers, which a trace must not take part in."""
    system, state = mbd.load("single_pendulum")

    @jax.jit
    def place():
        return mbd.simulate(system, state, h=1e-3, steps=3).r

    plain = mbd.simulate(system, state, h=1e-3, steps=3).r
    np.testing.assert_allclose(place(), plain, atol=1e-12)


def test_times_are_exact_multiples_and_the_first_row_is_the_initial_state():
    system, state = mbd.load("double_pendulum")
    sol = mbd.simulate(system, state, t_end=0.5, h=1e-3)
    assert len(sol.t) == 501
    np.testing.assert_array_equal(sol.t, np.arange(501) * 1e-3)
    np.testing.assert_array_equal(sol.r[0], state.r)
    np.testing.assert_array_equal(sol.A[0], state.A)


def test_changing_numbers_does_not_recompile():
    system, state = mbd.load("double_pendulum")
    mbd.simulate(system, state, t_end=0.5, h=1e-3)
    heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * 1.5)
    with CompilationCounter() as count:
        mbd.simulate(heavier, state, t_end=0.25, h=5e-4)
    assert count.programs == 0
    with (
        CompilationCounter() as count
    ):  # the counter does count: another setting of Newton's method is another program
        mbd.simulate(
            heavier,
            state,
            steps=2,
            h=5e-4,
            integrator=mbd.ImplicitEuler(newton=mbd.Newton(max_steps=9)),
        )
    assert {"start_run", "march"} <= count.names


@pytest.mark.essential
def test_build_inside_a_loss_and_simulate_differentiate():
    """Mass, geometry, friction and a parameter that a user's function closes over, against central
    differences."""

    def height(x):
        mass, length, friction, drag = x
        m = mbd.Mechanism("pendulum")
        m.add_body(
            "rod",
            mass=mass,
            inertia=(0.01, mass * length**2 / 3, mass * length**2 / 3),
            r=(length, 0.0, 0.0),
        )
        m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
        m.add(mbd.ViscousFriction("friction", "pin", rotational=friction))
        m.add(mbd.UserForce("drag", ["rod"], lambda p, w, t: (-drag * w.v, jnp.zeros((1, 3)))))
        system, state = m.build()
        return mbd.simulate(system, state, steps=200, h=2e-3).r[-1, 0, 2]

    x = jnp.array([1.3, 0.7, 0.3, 0.2])
    gradient = jax.jit(jax.grad(height))(x)
    forward = jax.jit(height)
    for k in range(4):
        d = 1e-5 * jnp.eye(4)[k]
        difference = (forward(x + d) - forward(x - d)) / 2e-5
        np.testing.assert_allclose(gradient[k], difference, rtol=1e-6)


@pytest.mark.essential
def test_a_batch_equals_the_loop_and_a_failed_member_leaves_the_others_alone():
    system, state = mbd.load("double_pendulum")
    rates = jnp.array([0.0, 1.0, jnp.nan])

    def last(rate):
        start = mbd.State(state.r, state.A, state.v, state.omega.at[1, 2].set(rate))
        sol = mbd.simulate(system, start, steps=100, h=1e-3)
        return sol.r[-1], sol.result

    batch, results = jax.jit(jax.vmap(last))(rates)
    assert np.all(np.isnan(batch[2])) and np.all(np.isfinite(batch[:2]))
    assert np.asarray(results == mbd.RESULTS.successful).tolist() == [True, True, False]
    np.testing.assert_allclose(batch[1], jax.jit(last)(rates[1])[0], atol=1e-12)


def test_a_run_that_fails_keeps_the_steps_before_and_names_time_and_part():
    m = mbd.Mechanism("struck")
    m.add_body("rod", mass=1.0, inertia=(0.01, 0.1, 0.1), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(
        mbd.PointForce(
            "bang", "rod", force=lambda t: jnp.where(t > 0.0305, jnp.nan, 0.0) * jnp.ones(3)
        )
    )
    system, state = m.build()
    with pytest.raises(
        mbd.SimulationError, match="t = 0.03 s.*NaN.*Force 'bang' on 'rod' is NaN"
    ) as caught:
        mbd.simulate(system, state, t_end=0.1, h=1e-3)
    sol = caught.value.solution
    assert int(sol.stats["completed_steps"]) == 30
    assert np.all(np.isfinite(sol.r[:31])) and np.all(np.isnan(sol.r[31:]))


def test_a_driver_that_asks_for_the_impossible_fails_with_its_name():
    m = mbd.Mechanism("stretch")
    m.add_body("rod", mass=1.0, inertia=(0.01, 0.1, 0.1), r=(0.5, 0, 0))
    m.add(mbd.Spherical("ball", m.ground, "rod", point=(0, 0, 0)))
    m.add(
        mbd.DistanceDriver(
            "winch",
            m.ground,
            "rod",
            point_i=(1, 0.2, 0),
            point_j=(1, 0, 0),
            length=lambda t: 0.2 + 20.0 * t,
        )
    )
    system, state = m.build()
    with pytest.raises(mbd.SimulationError, match="'winch'"):
        mbd.simulate(system, state, t_end=0.5, h=1e-3)


@pytest.mark.parametrize(
    ("kw", "message"),
    [
        ({"h": 1e-3}, "either t_end or steps"),
        ({"h": 1e-3, "t_end": 1.0, "steps": 10}, "either t_end or steps"),
        ({"h": -1e-3, "t_end": 1.0}, "must be positive"),
        ({"h": 1e-3, "t_end": -1.0}, "nothing to do"),
        ({"h": 1e-3, "steps": 10, "save_every": 3}, "must divide"),
    ],
)
def test_requests_that_make_no_sense_are_refused(kw, message):
    system, state = mbd.load("double_pendulum")
    with pytest.raises(ValueError, match=message):
        mbd.simulate(system, state, **kw)


def test_a_traced_run_may_close_over_a_known_system_and_state():
    system, state = mbd.load("four_bar")
    run = jax.jit(lambda h: mbd.simulate(system, state, h=h, steps=3).r[-1])
    found = run(jnp.asarray(1e-3))
    np.testing.assert_allclose(
        found, mbd.simulate(system, state, h=1e-3, steps=3).r[-1], rtol=1e-12, atol=1e-12
    )
