"""Assembly: closest, consistent, unchanged where nothing is to do, differentiable."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import block_diag, null_space
from scipy.optimize import minimize

import jaxmbd as mbd
from jaxmbd.analyses.running.initial_state import assembled
from jaxmbd.analyses.running.start_checks import warn_of_changes
from jaxmbd.equations import rows as equations
from jaxmbd.equations.rows import dense_rows
from jaxmbd.rotations import so3


def loose_mechanism(joint_x=1.0):
    """Two bars on hinges, described apart: the pose must move and both bodies must turn."""
    m = mbd.Mechanism("loose")
    m.add_body(
        "a",
        mass=1.0,
        inertia=(0.01, 0.1, 0.1),
        r=(0.5, 0.05, 0.02),
        euler=(0.1, 0.05, -0.1),
        omega=(0, 1, 2),
    )
    m.add_body(
        "b",
        mass=9.0,
        inertia=(0.01, 0.9, 0.9),
        r=(1.6, -0.05, 0.1),
        euler=(-0.1, 0.1, 0.05),
        v=(0, 0, 1),
    )
    x, y, z = np.eye(3)
    ball = [mbd.CD(e, (0, 0, 0), (-0.5, 0, 0)) for e in (x, y, z)]
    m.add(mbd.Constraint("base", m.ground, "a", primitives=[*ball, mbd.DP1(x, y), mbd.DP1(z, y)]))
    ball = [mbd.CD(e, jnp.array([joint_x - 0.5, 0, 0]), (-0.5, 0, 0)) for e in (x, y, z)]
    m.add(mbd.Constraint("elbow", "a", "b", primitives=ball))
    return m


def loose_chain(joint_x=1.0):
    return loose_mechanism(joint_x).build()


def displacement(start, end):
    turns = jax.vmap(lambda A, B: so3.log(A.T @ B))(start.A, end.A)
    return np.concatenate([end.r - start.r, turns], axis=1)


def test_the_assembled_pose_is_consistent_and_closest():
    system, state = loose_chain()
    new, report = mbd.assemble(system, state)
    assert bool(report.closed) and np.max(np.abs(report.violation)) < 1e-14
    assert float(report.violation_before) > 0.05
    # Independent: constrained minimization by scipy over the same displacements.
    weights = np.array([1, 1, 1, *[float(system.length) ** 2] * 3])
    place = jax.jit(lambda x: jax.vmap(mbd.RA().retract)(state.pose, x.reshape(2, 6)))
    phi = jax.jit(lambda x: equations.phi(mbd.RA(), system, place(x)))
    best = minimize(
        lambda x: 0.5 * np.sum(weights * x.reshape(2, 6) ** 2),
        np.zeros(12),
        constraints={"type": "eq", "fun": phi, "jac": jax.jit(jax.jacfwd(phi))},
        options={"ftol": 1e-15, "maxiter": 200},
    )
    ours = displacement(state, new)
    assert 0.5 * np.sum(weights * ours**2) <= best.fun * (1 + 1e-6)
    np.testing.assert_allclose(ours, best.x.reshape(2, 6), atol=1e-5)
    np.testing.assert_allclose(report.displacement, np.linalg.norm(ours[:, :3], axis=1), atol=1e-12)


@pytest.mark.parametrize("metric", ["identity", "mass", None])
def test_described_velocities_are_the_projection_on_the_constraints(metric):
    m = loose_mechanism()
    given = m.values()
    m = m.with_values(
        {p: given[p] for p in given if p.endswith((".v", ".omega"))}
    )  # all of them described
    system, state = m.build()
    new, _ = mbd.assemble(system, state, metric=metric)
    rows = np.asarray(dense_rows(mbd.RA(), system, new.pose))
    u0 = np.concatenate([state.v, state.omega], axis=1).ravel()
    if metric == "identity":
        W = np.diag(np.tile([1, 1, 1, *[float(system.length) ** 2] * 3], 2))
    else:  # least kinetic energy of the difference
        W = block_diag(
            *[x for k in range(2) for x in (system.mass[k] * np.eye(3), spin(system, k))]
        )
    inverse = np.linalg.inv(W)
    projected = u0 - inverse @ rows.T @ np.linalg.solve(rows @ inverse @ rows.T, rows @ u0)
    found = np.concatenate([new.v, new.omega], axis=1).ravel()
    np.testing.assert_allclose(found, projected, atol=1e-12)
    assert np.max(np.abs(rows @ found)) < 1e-13


def spin(system, k):
    """The inertia with the trace of mass times length squared that the metric adds for rods."""
    return np.asarray(system.inertia[k]) + 1e-6 * float(system.mass[k] * system.length**2) * np.eye(
        3
    )


def test_velocities_that_were_left_out_follow_those_that_were_described():
    """Of all motions that the joints allow, the one nearest by mass to the described velocities
    alone."""
    system, state = loose_chain()
    assert system.described == ((False, True), (True, False))
    new, _ = mbd.assemble(system, state)
    rows = np.asarray(dense_rows(mbd.RA(), system, new.pose))
    free = null_space(rows)
    described = np.array([0] * 3 + [1] * 3 + [1] * 3 + [0] * 3, bool)
    root = np.linalg.cholesky(block_diag(spin(system, 0), system.mass[1] * np.eye(3))).T
    u0 = np.concatenate([state.v, state.omega], axis=1).ravel()[described]
    best = free @ np.linalg.lstsq(root @ free[described], root @ u0, rcond=None)[0]
    np.testing.assert_allclose(np.concatenate([new.v, new.omega], axis=1).ravel(), best, atol=1e-11)


def test_a_described_spin_about_a_hinge_is_kept_and_the_mass_center_follows():
    m = mbd.Mechanism("rod")
    m.add_body("rod", mass=1.0, inertia=(0.01, 0.1, 0.1), r=(0.7, 0, 0), omega=(0, 10, 0))
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    system, state = m.build()
    new, report = mbd.assemble(system, state)
    np.testing.assert_allclose(new.omega[0], [0, 10, 0], atol=1e-12)
    np.testing.assert_allclose(new.v[0], [0, 0, -7], atol=1e-12)
    warn_of_changes(system, state, new, report)  # nothing described has changed


CHANGES = {
    "contradicting": (
        {"omega": (0, 10, 0), "v": (0, 0, 0)},
        "velocity of body 'rod'.*does not satisfy the joints",
    ),
    "locked axis": ({"omega": (3, 0, 0)}, "angular velocity of body 'rod'.*became"),
    "moved": (
        {"A": so3.exp(jnp.array([0.0, 0.0, 0.5]))},
        "assembly moved body 'rod' by .* and turned it",
    ),
}


@pytest.mark.parametrize(("fields", "message"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_what_was_described_is_told(fields, message):
    m = mbd.Mechanism("rod")
    m.add_body("rod", mass=1.0, inertia=(0.01, 0.1, 0.1), r=(0.7, 0, 0), **fields)
    x, y, z = np.eye(3)
    ball = [mbd.CD(e, (0, 0, 0), (-0.7, 0, 0)) for e in (x, y, z)]
    m.add(mbd.Constraint("pin", m.ground, "rod", primitives=[*ball, mbd.DP1(x, y), mbd.DP1(z, y)]))
    system, state = m.build()
    new, report = mbd.assemble(system, state)  # asked for by name: the report tells
    with pytest.warns(mbd.AssemblyWarning, match=message):
        warn_of_changes(system, state, new, report)


def test_a_distance_that_does_not_fit_is_told_with_the_way_it_took():
    m = mbd.Mechanism("crane")
    m.add_body("load", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(3.0, 0, 0))
    m.add(
        mbd.Distance("rope", m.ground, "load", point_i=(0, 0, 0), point_j=(3.0, 0.5, 0), length=4.0)
    )
    system, state = m.build()
    with pytest.warns(mbd.AssemblyWarning, match="assembly moved body 'load'"):
        mbd.simulate(system, state, steps=1, h=1e-3)


def test_rounded_descriptions_are_quiet():
    for name in ("slider_crank", "four_link"):
        system, state = mbd.load(name)
        new, report = mbd.assemble(system, state)
        assert float(np.max(report.rotation)) > 0.0  # there is something to round
        warn_of_changes(system, state, new, report)


def test_a_consistent_state_is_returned_as_it_is():
    system, state = mbd.load("double_pendulum")
    new, report = mbd.assemble(system, state)
    for name in ("r", "A"):
        np.testing.assert_array_equal(getattr(new, name), getattr(state, name))
    assert int(report.iterations) == 0 and float(jnp.max(report.displacement)) == 0.0


def test_each_metric_minimizes_its_own_distance():
    system, state = loose_chain()
    plain, heavy = (
        mbd.assemble(system, state, metric=metric)[0] for metric in ("identity", "mass")
    )

    def by_mass(new):
        d = displacement(state, new)
        spin = np.einsum("bi,bij,bj->", d[:, 3:], system.inertia, d[:, 3:])
        return np.sum(np.asarray(system.mass)[:, None] * d[:, :3] ** 2) + spin

    def by_length(new):
        d = displacement(state, new) ** 2
        return np.sum(d[:, :3]) + float(system.length) ** 2 * np.sum(d[:, 3:])

    assert by_mass(heavy) < 0.99 * by_mass(plain) and by_length(plain) < 0.99 * by_length(heavy)
    with pytest.raises(ValueError, match="metric must be one of"):
        mbd.assemble(system, state, metric="energy")


def test_moving_a_joint_moves_the_assembled_state():
    def tip(x):
        system, state = loose_chain(x)
        new, _ = mbd.assemble(system, state)
        return (
            new.r[1] @ jnp.array([1.0, 2.0, 3.0])
            + new.v[1, 2]
            + jnp.sum(new.A[0, 0] * new.omega[1])
        )

    tip = jax.jit(tip)
    forward, reverse = jax.jit(jax.jacfwd(tip))(1.0), jax.jit(jax.grad(tip))(1.0)
    difference = (tip(1.0 + 1e-5) - tip(1.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose([forward, reverse], difference, rtol=1e-7)


def test_a_driver_half_a_turn_away_is_refused():
    m = mbd.Mechanism("far")
    m.add_body("b", mass=1.0, inertia=(1, 1, 1))
    m.add(mbd.Revolute("pin", m.ground, "b", point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.RotationDriver("motor", m.ground, "b", axis=(0, 0, 1), angle=lambda t: 3.0 + t))
    system, state = m.build()
    with pytest.raises(
        mbd.AssemblyError, match="driver 'motor': .* Angles count from the described pose"
    ):
        mbd.simulate(system, state, steps=1, h=1e-3)


@pytest.mark.parametrize("size", [0.1, 0.3])
def test_a_redundant_loop_closes_from_far(size):
    """Four hinges in space, every body displaced and turned at random: damping and limited steps
    must find the way."""
    system, state = mbd.load_mechanism("four_bar").build()
    for seed in range(6):
        away = jnp.array(size * np.random.default_rng(seed).normal(size=(3, 6)))
        pose = jax.vmap(mbd.RA().retract)(state.pose, away)
        _, report = mbd.assemble(system, mbd.State(pose.r, pose.A, state.v, state.omega))
        assert bool(report.closed) and float(jnp.max(jnp.abs(report.violation))) < 1e-12, seed


def test_the_derivative_of_assembled_velocities_by_geometry_includes_their_weights():
    """Turns weigh with the mechanism's length, which moves with its points."""

    @jax.jit
    def velocities(x):
        m = mbd.Mechanism("top")
        m.add_body(
            "top",
            mass=2.0,
            inertia=(0.1, 0.12, 0.2),
            r=(0.1, 0.0, 0.5 + 0.3 * x),
            omega=(0.3, 0.0, 9.0),
        )
        m.add(mbd.Spherical("tip", "ground", "top", point=(0.0, 0.2 * x, 0.0)))
        state, _ = mbd.assemble(*m.build())
        return jnp.concatenate([state.v[0], state.omega[0]])

    step = 1e-4
    f = [velocities(k * step) for k in (-2.0, -1.0, 1.0, 2.0)]
    difference = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
    np.testing.assert_allclose(jax.jacfwd(velocities)(0.0), difference, atol=1e-9)


def test_a_gradient_by_a_mass_outside_jit_is_not_stopped_by_the_warnings():
    # The pose is then a number and the velocities, which the masses weigh, are not: their warning
    # read them.
    def speed(mass):
        m = mbd.Mechanism("arm")
        m.add_body(
            "arm",
            mass=mass,
            inertia=(0.1, 0.1, 0.1),
            r=(1.0, 0, 0),
            v=(0, 2.0, 0),
            omega=(0, 0, 2.0),
        )
        m.add(mbd.Revolute("pin", m.ground, "arm", point=(0, 0, 0), axis=(0, 0, 1)))
        return assembled(*m.build(), jnp.zeros(()))[0].v[0, 1]

    value, slope = jax.value_and_grad(speed)(1.0)
    np.testing.assert_allclose([value, slope], [2.0, 0.0], atol=1e-12)


def test_a_gradient_by_masses_of_a_consistent_start_leaves_assembly_out():
    system, state = mbd.load("double_pendulum")

    def end(mass, state):
        heavier = dataclasses.replace(system, mass=mass)
        return mbd.simulate(heavier, state, h=1e-3, steps=2).v[-1, -1, 2]

    def size(function, *args):
        return len(str(jax.make_jaxpr(function)(*args)))

    known = size(lambda mass: end(mass, state), system.mass)
    assert known < 0.9 * size(end, system.mass, state)  # a traced state is assembled
    moved = dataclasses.replace(state, r=state.r + 1e-3)
    assert known < 0.9 * size(lambda mass: end(mass, moved), system.mass)
    by_mass = jax.jit(jax.grad(lambda mass: end(mass, state)))(system.mass)
    np.testing.assert_allclose(by_mass, jax.jit(jax.grad(end))(system.mass, state), rtol=1e-9)
