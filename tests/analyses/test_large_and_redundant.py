"""Block-sparse systems in every analysis, and loops whose rows repeat, against closed forms and
dense algebra."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from helpers import FORMULATIONS, first_quick, name_of
from jaxmbd.equations.index1 import dynamic_accelerations
from jaxmbd.equations.rows import dense_rows, row_sizes


def ladder_angle(n, t):
    """The one freedom of the ladder: rockers about their feet, couplers in translation on a unit
    circle."""
    inertia, weight = (n + 1) / 3 + n, 9.81 * ((n + 1) / 2 + n)
    y = solve_ivp(
        lambda t, y: [y[1], weight * np.sin(y[0]) / inertia], (0, t), [0, 1], rtol=1e-11, atol=1e-11
    ).y
    return y[0, -1]


@pytest.mark.parametrize("formulation", first_quick(FORMULATIONS), ids=name_of)
def test_a_ladder_of_loops_falls_like_its_one_freedom(formulation):
    system, state = mbd.load("four_bar_ladder:3")
    assert system.linear_solver == "range_space" and mbd.mobility(system, state).freedoms == 1
    sol = mbd.simulate(
        system,
        state,
        h=2e-3,
        steps=250,
        save_every=250,
        formulation=formulation,
        integrator=mbd.GeneralizedAlpha(),
    )
    angle = ladder_angle(3, 0.5)
    tip = np.array([3.5 + np.sin(angle), 0.0, np.cos(angle)]) - [1.0, 0.0, 0.0]
    # Second order: about (h rate)² of the turned angle.
    np.testing.assert_allclose(sol.r[-1, 6], tip, atol=2e-5)
    assert np.max(np.abs(sol.violation(system).position)) < 1e-10


def test_strategies_agree_in_dynamics_kinematics_gradients_and_linearization():
    m = mbd.load_mechanism("four_bar_ladder:3")
    driven = mbd.load_mechanism("four_bar_ladder:3")
    driven.add(
        mbd.RotationDriver(
            "motor", "ground", "rocker0", axis=(0, 1, 0), angle=lambda t: 0.3 * jnp.sin(2 * t)
        )
    )
    ts = np.linspace(0.0, 0.1, 11)
    found = {}
    for solver in ("dense", "block_sparse", "range_space"):
        system, state = m.build()

        def height(factor, solver=solver, system=system, state=state):
            heavier = eqx.tree_at(lambda s: s.mass, system, system.mass.at[2].multiply(factor))
            options = {"save_every": 20, "linear_solver": solver}
            return mbd.simulate(heavier, state, h=2e-3, steps=20, **options).r[-1, 4, 2]

        value, slope = jax.jit(jax.value_and_grad(height))(1.2)
        if solver == "range_space":  # serves the steps; everything else goes by size
            found[solver] = [value, slope]
            continue
        motion = mbd.kinematics(*driven.build(), ts, linear_solver=solver)
        linear = mbd.linearize(dataclasses.replace(system, linear_solver=solver), state)
        found[solver] = [value, slope, motion.r, motion.v, motion.a, motion.lam, linear.A]
    for name in ("block_sparse", "range_space"):
        for dense, sparse in zip(found["dense"], found[name], strict=False):
            # Multipliers and gradients of loops carry the square root of rounding that picks the
            # minimum norm.
            np.testing.assert_allclose(dense, sparse, rtol=1e-7, atol=1e-7 * np.max(np.abs(dense)))


def test_euler_parameters_and_angles_take_the_kinematics_of_blocks_too():
    m = mbd.load_mechanism("four_bar_ladder:2")
    m.add(mbd.RotationDriver("motor", "ground", "rocker0", axis=(0, 1, 0), angle=lambda t: 0.5 * t))
    system, state = m.build()
    ts = np.linspace(0.0, 0.4, 9)
    for formulation in FORMULATIONS:
        sol = mbd.kinematics(
            system, state, ts, formulation=formulation, linear_solver="block_sparse"
        )
        np.testing.assert_allclose(sol.r[:, 4, 0], 1.5 + np.sin(0.5 * ts), atol=1e-9)
        np.testing.assert_allclose(sol.a[:, 4, 2], -0.25 * np.cos(0.5 * ts), atol=1e-8)


def test_a_driven_bennett_loop_obeys_bennetts_relation():
    """tan(θ₁/2) tan(θ₂/2) = sin((β + α)/2) / sin((β - α)/2) at every angle, with the twists α and β
    of the links."""
    m = mbd.load_mechanism("bennett")
    m.add(mbd.RotationDriver("motor", "ground", "link_1", axis=(0, 0, 1), angle=lambda t: t))
    ts = np.linspace(0.0, 1.0, 11)
    alpha, beta = np.deg2rad([40.0, 75.0])
    wanted = np.sin((alpha + beta) / 2) / np.sin((beta - alpha) / 2)
    start = np.deg2rad(65.0)
    for formulation in FORMULATIONS:
        sol = mbd.kinematics(*m.build(), ts, formulation=formulation)
        x_1, x_2 = np.asarray(sol.A[:, 0, :, 0]), np.asarray(sol.A[:, 1, :, 0])
        axis = hinge_axis(sol)
        theta_2 = np.arctan2(
            np.einsum("ti,ti->t", np.cross(x_1, x_2), axis), np.einsum("ti,ti->t", x_1, x_2)
        )
        np.testing.assert_allclose(
            np.tan((start + ts) / 2) * np.tan(theta_2 / 2), wanted, rtol=1e-9
        )


def hinge_axis(sol):
    """The axis of the hinge between link 1 and link 2 of the Bennett loop: z of link 1 turned about
    it by its twist."""
    x, z = np.asarray(sol.A[:, 0, :, 0]), np.broadcast_to([0.0, 0.0, 1.0], (len(sol.t), 3))
    twist = np.deg2rad(40.0)
    return np.cos(twist) * z + np.sin(twist) * np.cross(x, z)


REDUNDANT = {"bricard": (30, 29, 1), "bennett": (20, 17, 1)}


@pytest.mark.parametrize("name", first_quick(REDUNDANT))
def test_overconstrained_loops_move_alike_in_all_formulations(name):
    rows, rank, freedoms = REDUNDANT[name]
    system, state = mbd.load(name)
    report = mbd.mobility(system, state)
    assert (report.rows, report.rank, report.freedoms) == (rows, rank, freedoms)
    ends, energies, multipliers = [], [], []
    for formulation in FORMULATIONS:
        sol = mbd.simulate(
            system,
            state,
            h=2e-3,
            steps=200,
            save_every=20,
            formulation=formulation,
            integrator=mbd.GeneralizedAlpha(),
        )
        assert np.max(np.abs(sol.violation(system).position)) < 1e-9
        energy = sol.energy(system)
        energies.append(np.ptp(np.asarray(energy.total)) / np.max(np.asarray(energy.kinetic)))
        # Multipliers of minimum norm, moments counting as forces at the system's length: nothing of
        # the null space of Rᵀ, found by singular values.
        state_then = sol.at(5)
        R = np.asarray(dense_rows(mbd.RA(), system.at(sol.t[5]), state_then.pose))
        of_directions = [
            isinstance(stack.primitive, mbd.DP1)
            for stack in system.constraints
            for _ in stack.bodies
        ]
        arm = np.where(of_directions, 1.0, float(system.length))
        U, sigma, _ = np.linalg.svd(R / arm[:, None])
        null = U[:, np.sum(sigma > 1e-9 * sigma[0]) :]
        lam = np.asarray(system.to_stacked(sol.lam[5]))
        assert null.shape[1] == rows - rank
        assert np.max(np.abs(null.T @ (arm * lam))) < 1e-6 * np.max(np.abs(arm * lam))
        multipliers.append(lam)
        ends.append(np.asarray(sol.r[-1]))
    assert max(energies) < 1e-4
    np.testing.assert_allclose(ends[1], ends[0], atol=2e-5)
    np.testing.assert_allclose(ends[2], ends[0], atol=2e-5)
    # The minimum norm is one over the rows of joints, whatever the coordinates.
    np.testing.assert_allclose(
        multipliers[1:], [multipliers[0]] * 2, atol=1e-3 * np.max(np.abs(multipliers[0]))
    )


@pytest.mark.parametrize("name", REDUNDANT)
def test_gradients_of_overconstrained_loops_are_finite_and_right(name):
    system, state = mbd.load(name)

    @jax.jit
    def place(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass.at[1].multiply(factor))
        integrator = mbd.ImplicitEuler(newton=mbd.Newton(1e-13, exact=True))
        return mbd.simulate(
            heavier, state, h=2e-3, steps=50, save_every=50, integrator=integrator
        ).r[-1, 1, 2]

    slope = jax.jit(jax.grad(place))(1.2)
    step = 1e-3
    f = [float(place(1.2 + k * step)) for k in (-2, -1, 1, 2)]
    np.testing.assert_allclose(slope, (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step), rtol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("four_bar", marks=pytest.mark.essential),
        pytest.param("four_bar_ladder:2", marks=pytest.mark.slow),
    ],
)
def test_single_precision_keeps_positions_to_its_rounding(name):
    """The documented mode: positions to rounding, velocities to eps / h, accelerations of the steps
    to eps / h²."""
    h, eps = 2e-3, float(jnp.finfo(jnp.float32).eps)
    system, state = mbd.load(name)
    double = mbd.simulate(system, state, h=h, steps=100, save_every=100)

    def narrow(x):
        return x.astype(jnp.float32) if eqx.is_inexact_array(x) else x

    narrow_system, narrow_state = jax.tree.map(narrow, (system, state))
    single = mbd.simulate(narrow_system, narrow_state, h=h, steps=100, save_every=100)
    assert single.r.dtype == single.lam.dtype == jnp.float32
    length = float(system.length)
    assert np.max(np.abs(single.violation(narrow_system).position)) < 20 * eps * length
    assert np.max(np.abs(np.asarray(single.r) - np.asarray(double.r))) < 100 * eps * length
    assert np.max(np.abs(np.asarray(single.v) - np.asarray(double.v))) < 20 * eps * length / h
    # Accelerations that the equations of motion give at the state reached are as good as the
    # state.
    again = mbd.simulate(narrow_system, jax.tree.map(narrow, double.at(1)), h=h, steps=1)
    truth = mbd.simulate(system, double.at(1), h=h, steps=1)
    wanted = np.asarray(truth.a[0])
    np.testing.assert_allclose(np.asarray(again.a[0]), wanted, atol=1e-3 * np.max(np.abs(wanted)))


@pytest.mark.parametrize("strategy", ["dense", "block_sparse"])
@pytest.mark.parametrize("name", ["four_bar", "bricard", "six_body_linkage"])
def test_single_precision_finds_multipliers_of_least_norm(name, strategy):
    """As good as a state in single precision tells them: 1e-4, against singular values in double
    precision."""
    system, state = mbd.load(name)
    system = dataclasses.replace(system, linear_solver=strategy)

    def solved(system, state):
        u, t = jnp.concatenate([state.v, state.omega], axis=1), jnp.zeros((), system.dtype)
        return dynamic_accelerations(mbd.RA(), system, state.pose, u, t)[1]

    def narrow(x):
        return x.astype(jnp.float32) if eqx.is_inexact_array(x) else x

    exact, single = solved(system, state), solved(*jax.tree.map(narrow, (system, state)))
    assert single.dtype == jnp.float32
    arm = np.asarray(row_sizes(mbd.RA(), system))
    R = np.asarray(dense_rows(mbd.RA(), system, state.pose))
    least = np.linalg.lstsq((R / arm[:, None]).T, R.T @ np.asarray(exact), rcond=1e-9)[0]
    atol = 1e-4 * np.max(np.abs(least))
    np.testing.assert_allclose(arm * np.asarray(single), least, atol=atol)


def test_reverse_mode_crosses_the_checked_solves_of_a_large_redundant_mechanism():
    system, state = mbd.load("four_bar_ladder:4")
    assert 6 * system.nb + system.nc > 60  # above the size up to which everything is dense

    def outcome(x):
        heavier = eqx.tree_at(
            lambda s: s.mass, system, system.mass * (1.0 + x * jnp.arange(float(system.nb)))
        )
        sol = mbd.simulate(heavier, state, h=2e-3, steps=5)
        return sol.r[-1, -1, 2] + 1e-3 * jnp.sum(sol.lam[-1] ** 2)

    reverse, forward = jax.jit(jax.grad(outcome))(0.1), jax.jit(jax.jacfwd(outcome))(0.1)
    np.testing.assert_allclose(reverse, forward, rtol=1e-12)
