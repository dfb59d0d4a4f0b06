"""Energy-momentum integration: conservation, dissipation, equal schemes, loops, drivers,
derivatives and batches."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from experiments.discrete_null_space.models import MODELS
from helpers import random_state, rotation, slope, vec
from jaxmbd.equations import midpoint, null_space
from jaxmbd.equations.rows import row_bodies
from jaxmbd.rotations import so3

pytestmark = pytest.mark.xdist_group("energy_momentum")  # fixtures and programs are shared

DIRECTORS = mbd.Directors()
SCHEMES = {
    "constrained": mbd.EnergyMomentum(),
    "reduced": mbd.EnergyMomentum(reduced=True),
    "automatic": mbd.EnergyMomentum(reduced=True, null_space="automatic"),
    "coordinates": mbd.EnergyMomentum(reduced=True, unknowns="coordinates"),
}


def simulate(system, state, scheme, **kw):
    return mbd.simulate(system, state, formulation=DIRECTORS, integrator=SCHEMES[scheme], **kw)


def sprung_pair(rng, *, damping=0.0):
    """Two spinning bodies with full inertia in free flight, joined by a line spring and a torsion
    spring on a hinge."""
    m = mbd.Mechanism("sprung pair", gravity=(0, 0, 0))
    x = rng.normal(size=(2, 3, 3))
    inertia = [np.eye(3) * 3 + 0.2 * (y + y.T) for y in x]
    m.add_body("a", mass=1.3, inertia=inertia[0], omega=(1.0, -2.0, 3.0))
    m.add_body("b", mass=2.1, inertia=inertia[1], r=(1.0, 0.3, 0.0), A=rotation(rng))
    m.add(mbd.Cylindrical("hinge", "a", "b", point=(0.5, 0.1, 0), axis=(0, 1, 2)))
    points = {"point_i": (0.2, 0.5, 0), "point_j": (1.0, 0.3, 0.4)}
    m.add(
        mbd.SpringDamper(
            "line", "a", "b", **points, stiffness=60.0, damping=damping, free_length=0.5
        )
    )
    m.add(
        mbd.TorsionalSpringDamper(
            "coil", "a", "b", axis=(0, 1, 2), stiffness=9.0, damping=damping, free_angle=0.6
        )
    )
    return m


@pytest.fixture(scope="module")
def sprung():
    system, state = sprung_pair(np.random.default_rng(3)).build()
    return system, mbd.assemble(system, state)[0]


@pytest.fixture(scope="module")
def motions(sprung):
    return {name: simulate(*sprung, name, h=0.02, steps=100) for name in SCHEMES}


# --- the equations
# -----------------------------------------------------------------------------------


def step_data(system, state, rng, h=0.05):
    q, u = DIRECTORS.from_state(state)
    t = jnp.array(0.1)
    after = q + 0.1 * jnp.array(rng.normal(size=q.shape))
    return midpoint.StepData(system.at(t), system.at(t), q, u, t, jnp.array(h), None), after


def test_newtons_matrix_is_the_derivative_of_the_equations(rng):
    system, _ = sprung_pair(rng, damping=0.7).build()
    args, after = step_data(system, random_state(rng, 2), rng)
    mu = jnp.array(rng.normal(size=len(row_bodies(DIRECTORS, system))))
    x = jnp.concatenate([after.reshape(-1), mu])

    def split(x):
        return x[: after.size].reshape(after.shape), x[after.size :]

    by_ad = jax.jit(jax.jacfwd(lambda x: midpoint.residual(args, *split(x))))(x)
    exact = jax.jit(lambda x: midpoint.matrix(args, *split(x), exact=True).dense())(x)
    np.testing.assert_allclose(exact, by_ad, atol=1e-11 * np.max(np.abs(by_ad)))


@pytest.mark.parametrize("damping", [0.0, 0.7])
def test_springs_do_minus_their_potentials_work_and_dampers_none_that_is_positive(rng, damping):
    system, _ = sprung_pair(rng, damping=damping).build()
    before, after = (DIRECTORS.from_state(random_state(rng, 3))[0] for _ in range(2))
    poses = [jax.vmap(DIRECTORS.pose)(q) for q in (before, after)]
    for stack in system.forces:
        element = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, stack.force)
        pair = [q[:2] for q in (before, after)]
        load = midpoint.discrete_load(element, *pair, jnp.array(0.1), jnp.array(0.0))
        work = float(jnp.sum(load * (pair[1] - pair[0])))
        stored = [float(element.potential(jax.tree.map(lambda x: x[:2], pose))) for pose in poses]
        gain = work + stored[1] - stored[0]
        assert abs(gain) < 1e-12 * max(stored) if damping == 0.0 else gain < -1e-3
        # Action and reaction: no net force, no net moment about the origin, whatever happens over
        # the step. Bodies turn by almost half a turn here, where the midpoint's directors nearly
        # lie in a plane.
        middle = 0.5 * (pair[0] + pair[1])
        wrench = null_space.rigid_transpose(middle, load)
        moment = wrench[:, 3:] + jnp.cross(middle[:, :3], wrench[:, :3])
        rounding = 1e-12 * float(jnp.max(jnp.abs(jnp.concatenate([wrench, moment], axis=1))))
        np.testing.assert_allclose(jnp.sum(wrench[:, :3], 0), 0, atol=rounding)
        np.testing.assert_allclose(jnp.sum(moment, 0), 0, atol=rounding)


def test_the_middle_of_a_step_is_a_rotation_with_the_steps_own_twist(rng):
    w, A = 3.0 * vec(rng), rotation(rng)
    q = [DIRECTORS.coordinates(mbd.Pose(vec(rng), B))[None] for B in (A, so3.cayley(w) @ A)]
    pose, twist = midpoint.midpoint_motion(*q, jnp.array(0.5))
    angle = 2 * np.arctan(np.linalg.norm(w) / 2)
    half = so3.exp(w / np.linalg.norm(w) * angle / 2) @ A
    np.testing.assert_allclose(pose.A[0], half, atol=1e-13)
    np.testing.assert_allclose(half @ twist.omega[0], w / 0.5, atol=1e-12)


# --- motions
# -----------------------------------------------------------------------------------------


def test_energy_and_momenta_are_kept_with_springs_at_a_large_step(sprung):
    system, state = sprung
    sol = simulate(system, state, "constrained", h=0.05, steps=100)
    energy, momentum = sol.energy(system).total, sol.momentum(system)
    assert float(jnp.ptp(sol.energy(system).kinetic)) > 0.1 * float(
        energy[0]
    )  # energy does change hands
    np.testing.assert_allclose(energy, energy[0], rtol=1e-11)
    np.testing.assert_allclose(
        momentum.linear, np.broadcast_to(momentum.linear[0], (101, 3)), atol=1e-11
    )
    scale = float(jnp.max(jnp.abs(momentum.angular)))
    np.testing.assert_allclose(
        momentum.angular, np.broadcast_to(momentum.angular[0], (101, 3)), atol=1e-11 * scale
    )
    assert (
        float(jnp.max(jnp.abs(sol.violation(system).velocity))) < 1e-11
    )  # of the reported velocities


def test_all_schemes_and_both_null_spaces_give_one_motion(sprung, motions):
    system, found = sprung[0], motions
    for name in ("reduced", "automatic", "coordinates"):
        for key in ("r", "A", "v", "omega"):
            truth = getattr(found["constrained"], key)
            np.testing.assert_allclose(
                getattr(found[name], key), truth, atol=1e-10 * max(1, np.max(np.abs(truth)))
            )
        energy = found[name].energy(system).total
        np.testing.assert_allclose(energy, energy[0], rtol=1e-11)


def test_motion_accelerations_and_multipliers_approach_generalized_alpha_at_second_order(sprung):
    system, state = sprung
    fine = mbd.simulate(
        system, state, h=1e-4, steps=4000, save_every=4000, integrator=mbd.GeneralizedAlpha()
    )
    errors, steps = (
        {k: [] for k in ("r", "A", "v", "omega", "a", "alpha", "lam")},
        (4e-3, 2e-3, 1e-3),
    )
    for h in steps:
        n, method = (
            round(0.4 / h),
            SCHEMES["constrained"],
        )  # in pieces of the hundred steps that others take
        kw = {"formulation": DIRECTORS, "integrator": method}
        sol = mbd.simulate(system, state, h=h, steps=n, **kw)
        for key, values in errors.items():
            values.append(np.linalg.norm(getattr(sol, key)[-1] - getattr(fine, key)[-1]))
    for key, values in errors.items():
        assert abs(slope(steps, values) - 2.0) < 0.1, (key, values)


def test_a_damper_takes_energy_and_leaves_momentum():
    system, state = sprung_pair(np.random.default_rng(3), damping=0.5).build()
    sol = simulate(system, state, "constrained", h=0.05, steps=100)
    energy, angular = np.asarray(sol.energy(system).total), np.asarray(sol.momentum(system).angular)
    assert np.all(np.diff(energy) < 0.0)
    np.testing.assert_allclose(
        angular, np.broadcast_to(angular[0], angular.shape), atol=1e-11 * np.max(angular)
    )


@pytest.mark.essential
def test_a_loop_with_repeating_rows_closes_and_keeps_its_energy_in_all_schemes():
    system, state = mbd.load("bennett")
    found = {
        scheme: simulate(system, state, scheme, h=2e-3, steps=100)
        for scheme in ("constrained", "reduced", "coordinates")
    }
    for sol in found.values():
        energy = sol.energy(system)
        deviation = jnp.max(jnp.abs(energy.total - energy.total[0])) / jnp.max(energy.kinetic)
        assert float(deviation) < 1e-11
        assert float(jnp.max(jnp.abs(sol.violation(system).position))) < 1e-12
    for scheme in ("reduced", "coordinates"):
        np.testing.assert_allclose(found[scheme].r, found["constrained"].r, atol=1e-10)


def test_without_reparametrization_steps_near_half_a_turn_find_the_right_root():
    """The paper's top turns by 126 to 148 degrees in a step; at 180 the premultiplied balance
    vanishes."""
    system, state = MODELS["gyro_top"]().build()
    with pytest.warns(mbd.LargeRotationWarning):
        ends = [
            simulate(system, state, scheme, h=0.05, steps=40).omega[:, 0, 2]
            for scheme in ("reduced", "coordinates")
        ]
    np.testing.assert_allclose(*ends, rtol=1e-10)


def test_without_reparametrization_derivatives_are_those_of_the_other_schemes():
    system, state = mbd.load("heavy_top")

    def end(mass, scheme):
        heavier = eqx.tree_at(lambda s: s.mass, system, mass * system.mass)
        return simulate(heavier, state, scheme, h=1e-2, steps=20, save_every=20).r[-1, 0, 0]

    slopes = [
        jax.jit(jax.grad(lambda x, scheme=scheme: end(x, scheme)))(1.0)
        for scheme in ("constrained", "coordinates")
    ]
    np.testing.assert_allclose(*slopes, rtol=1e-9)


def test_a_driven_mechanism_with_free_primitives_follows_kinematics():
    system, state = mbd.load("four_link")
    sol = simulate(system, state, "reduced", h=2e-3, steps=100)
    truth = mbd.kinematics(system, state, sol.t)
    for key in ("r", "A", "v", "omega"):
        np.testing.assert_allclose(
            getattr(sol, key), getattr(truth, key), atol=1e-9
        )  # speeds up to 10


def test_a_flat_disc_has_a_singular_mass_matrix_and_spins_all_the_same():
    """Euler's tensor of a flat body vanishes along its normal; compared with free precession in
    closed form."""
    m = mbd.Mechanism("disc", gravity=(0, 0, 0))
    m.add_body("disc", mass=1.0, inertia=(1.0, 1.0, 2.0), omega=(0.5, 0.0, 3.0))
    system, state = m.build()
    for scheme in ("constrained", "reduced"):
        sol = simulate(system, state, scheme, h=1e-3, steps=1000, save_every=1000)
        rate = (2.0 - 1.0) / 1.0 * 3.0  # of the body's transverse components
        np.testing.assert_allclose(
            sol.omega[-1, 0], [0.5 * np.cos(rate), 0.5 * np.sin(rate), 3.0], atol=1e-5
        )


# --- derivatives, batches, refusals
# ------------------------------------------------------------------


def test_gradients_go_through_steps_springs_and_reports():
    """By mass, geometry and stiffness at once, for the scheme that has no multipliers of its
    own."""

    def outcome(x):
        m = mbd.Mechanism("spinning top on a spring")
        m.add_body(
            "top",
            mass=2.0 + x,
            inertia=(0.1, 0.12, 0.2),
            r=(0.1, 0.0, 0.5 + 0.3 * x),
            omega=(0.3, 0.0, 9.0),
        )
        m.add(mbd.Spherical("tip", "ground", "top", point=(0.0, 0.2 * x, 0.0)))
        m.add(
            mbd.SpringDamper(
                "s", "top", "ground", point_i=(0, 0, 1), point_j=(1, 0, 1), stiffness=60.0 + 9.0 * x
            )
        )
        sol = simulate(*m.build(), "reduced", h=0.02, steps=20, save_every=20)
        return sol.r[-1, 0, 0] + sol.omega[-1, 0, 1] + 1e-2 * sol.lam[-1, 0]

    gradient = jax.jit(jax.grad(outcome))(0.0)
    step = 1e-4
    f = jax.jit(jax.vmap(outcome))(step * jnp.array([-2.0, -1.0, 1.0, 2.0]))
    np.testing.assert_allclose(
        gradient, (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step), rtol=1e-7
    )


def test_batches_go_through_the_steps(sprung, motions):
    system, state = sprung

    def end(speed):
        faster = eqx.tree_at(lambda s: s.omega, state, speed * state.omega)
        return simulate(system, faster, "reduced", h=0.02, steps=20, save_every=20).r[-1]

    together = jax.jit(jax.vmap(end))(jnp.array([0.5, 1.0, 2.0]))
    np.testing.assert_allclose(together[1], motions["reduced"].r[20], atol=1e-11)
    assert (
        np.all(np.isfinite(together))
        and np.min(np.linalg.norm(together[0] - together[2], axis=1)) > 1e-3
    )


def test_other_formulations_and_unknown_schemes_are_refused():
    system, state = mbd.load("heavy_top")
    with pytest.raises(ValueError, match="use formulation=Directors"):
        mbd.simulate(
            system, state, h=1e-3, steps=1, formulation=mbd.RA(), integrator=mbd.EnergyMomentum()
        )
    with pytest.raises(ValueError, match="null_space must be one of"):
        mbd.EnergyMomentum(null_space="svd")
    with pytest.raises(ValueError, match="unknowns must be one of"):
        mbd.EnergyMomentum(unknowns="angles")


def test_bodies_that_are_welded_to_the_ground_rest_in_the_reduced_scheme():
    m = mbd.Mechanism("shelf")
    body = m.add_body("b", mass=1.5, inertia=(0.1, 0.1, 0.1), r=(0.5, 0.2, 0.0))
    m.add(mbd.Fixed("weld", m.ground, body, point=(0.0, 0.0, 0.0)))
    system, state = m.build()
    integrator = mbd.EnergyMomentum(reduced=True)
    sol = mbd.simulate(
        system, state, h=1e-2, steps=3, formulation=mbd.Directors(), integrator=integrator
    )
    assert np.array_equal(sol.r, np.broadcast_to(state.r, sol.r.shape))
    weld = sol.reactions()["weld"]
    weight = 1.5 * 9.81
    np.testing.assert_allclose(weld.force[-1], [0.0, 0.0, weight], atol=1e-9)
    np.testing.assert_allclose(weld.moment[-1], [0.2 * weight, -0.5 * weight, 0.0], atol=1e-9)
