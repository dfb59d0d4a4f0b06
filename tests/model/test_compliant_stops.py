"""Stops and contacts with stiffness and damping: closed forms, an ODE, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from helpers import rotation
from jaxmbd.model.laws.compliant_contact import CompliantContact
from jaxmbd.model.laws.hunt_crossley import HuntCrossley
from jaxmbd.model.state import Pose, Twist

MASS, SPEED, STIFFNESS, UPPER = 2.0, 1.5, 2.0e4, 0.1
FREE_FLIGHT = UPPER / SPEED
HALF_PERIOD = np.pi * np.sqrt(MASS / STIFFNESS)


def slider(stiffness=STIFFNESS, gravity=(0.0, 0.0, 0.0), **stop):
    """A mass on a rail that runs into a stop."""
    m = mbd.Mechanism("slider", gravity=gravity)
    moves = dict(v=(SPEED, 0.0, 0.0)) if gravity[0] == 0.0 else {}
    body = m.add_body("body", mass=MASS, inertia=(0.1, 0.1, 0.1), **moves)
    m.add(mbd.Translational("rail", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.JointLimit("stop", "rail", upper=UPPER, stiffness=stiffness, **stop))
    return m


def peak(sol):
    """The largest force of the stop, from the deepest of the saved rows."""
    return STIFFNESS * (float(np.max(np.asarray(sol.joint("rail").displacement))) - UPPER)


INTEGRATORS = {
    "generalized alpha": {},
    "munthe kaas": {"integrator": mbd.MuntheKaas()},
    "energy momentum": {"integrator": mbd.EnergyMomentum(), "formulation": mbd.Directors()},
    "moreau": {"integrator": mbd.Moreau()},
}


@pytest.mark.essential
@pytest.mark.parametrize("how", INTEGRATORS)
def test_the_peak_force_of_a_linear_stop_is_that_of_half_a_sine_at_any_step(how):
    # x(t) - UPPER = v √(m/k) sin(√(k/m) t) while it touches.
    expected = SPEED * np.sqrt(STIFFNESS * MASS)
    steps = round(1.2 * (FREE_FLIGHT + HALF_PERIOD) / 1e-4)
    m = slider()
    if how == "moreau":  # beside a rigid stop
        other = m.add_body("other", mass=1.0, inertia=(0.1, 0.1, 0.1), v=(2.0, 0.0, 0.0))
        m.add(mbd.Translational("other rail", m.ground, other, point=(0, 0, 0), axis=(1, 0, 0)))
        m.add(mbd.JointLimit("rigid", "other rail", upper=0.05, restitution=1.0))
    for h in (2e-4, 1e-4):
        sol = mbd.simulate(*m.build(), h=h, steps=steps, **INTEGRATORS[how])
        np.testing.assert_allclose(sol.v[-1, 1:, 0], -2.0, rtol=1e-9)
        # Rows miss the peak by half a step, and the methods are of second order.
        np.testing.assert_allclose(peak(sol), expected, rtol=(np.pi * h / HALF_PERIOD) ** 2)
        np.testing.assert_allclose(float(sol.v[-1, 0, 0]), -SPEED, rtol=1e-3)
        if how == "energy momentum":
            total = np.asarray(sol.energy().total)
            # To the rounding of a thousand steps.
            np.testing.assert_allclose(total, 0.5 * MASS * SPEED**2, rtol=1e-11)


@pytest.mark.essential
def test_the_derivative_of_a_bounce_by_the_stiffness_is_that_of_the_closed_form():
    h, steps = 2e-4, 800

    def end(k):
        return mbd.simulate(*slider(k).build(), h=h, steps=steps, save_every=steps).r[-1, 0, 0]

    # It leaves the stop with -v after half a period π √(m/k).
    x, slope = jax.jvp(end, (jnp.asarray(STIFFNESS),), (jnp.ones(()),))
    left = h * steps - FREE_FLIGHT - HALF_PERIOD
    np.testing.assert_allclose(x, UPPER - SPEED * left, atol=1e-4)
    # The force has a kink where it begins, in a step of which the derivative is of first order.
    expected = -SPEED * HALF_PERIOD / (2.0 * STIFFNESS)
    np.testing.assert_allclose(slope, expected, rtol=2.0 * h / HALF_PERIOD)


@pytest.mark.essential
def test_a_mass_at_rest_on_a_stop_is_an_equilibrium_with_the_frequency_of_its_spring():
    g, n = 9.81, 1.5
    system, state = slider(gravity=(g, 0.0, 0.0), exponent=n).build()
    start = mbd.State(state.r.at[0, 0].set(1.02 * UPPER), state.A, state.v, state.omega)
    rest = mbd.equilibrium(system, start)
    depth = float(rest.state.r[0, 0]) - UPPER
    np.testing.assert_allclose(depth, (MASS * g / STIFFNESS) ** (1.0 / n), rtol=1e-9)
    tangent = n * STIFFNESS * depth ** (n - 1.0)
    small = mbd.linearize(system, rest.state)
    np.testing.assert_allclose(
        np.sort_complex(np.linalg.eigvals(np.asarray(small.A))),
        np.array([-1j, 1j]) * np.sqrt(tangent / MASS),
        atol=1e-6,
    )


RADIUS, HERTZ = 0.05, 1.0e6


def ball(damping):
    """A ball that flies against the ground without gravity."""
    m = mbd.Mechanism("ball", gravity=(0, 0, 0))
    b = m.add_body(
        "b", shape=mbd.Sphere(RADIUS, mass=MASS), r=(0, 0, 1.01 * RADIUS), v=(0, 0, -SPEED)
    )
    m.add(mbd.Contact("floor", b, m.ground, stiffness=HERTZ, damping=damping))
    return m


@pytest.mark.essential
def test_hertz_indentation_follows_from_energy_and_rebound_from_the_equation_of_hunt_and_crossley():
    h, steps = 2e-5, 600
    sol = mbd.simulate(*ball(0.0).build(), h=h, steps=steps)
    depth = RADIUS - float(np.min(np.asarray(sol.r[:, 0, 2])))
    # ½ m v² = k δ^2.5 / 2.5
    np.testing.assert_allclose(depth, (1.25 * MASS * SPEED**2 / HERTZ) ** 0.4, rtol=1e-4)
    np.testing.assert_allclose(sol.energy().total, 0.5 * MASS * SPEED**2, rtol=1e-3)
    floor = sol.contact_places()["floor"]
    np.testing.assert_allclose(floor.forces[1:, 0], MASS * sol.a[1:, 0], rtol=1e-6, atol=1e-3)
    np.testing.assert_array_equal(floor.state[:, 0] > 0, sol.r[:, 0, 2] < RADIUS)
    for d in (0.1, 0.4):

        def motion(_, y, d=d):
            x, v = y
            return v, -HERTZ * max(x, 0.0) ** 1.5 * max(1.0 + d * v, 0.0) / MASS

        truth = solve_ivp(motion, (0.0, h * steps), (-0.01 * RADIUS, SPEED), rtol=1e-10, atol=1e-13)
        sol = mbd.simulate(*ball(d).build(), h=h, steps=steps)
        np.testing.assert_allclose(float(sol.v[-1, 0, 2]), -truth.y[1, -1], rtol=2e-3)


# --- one instant ---


def touching():
    """Contacts of every pair of surfaces that may give way, with poses at which they overlap."""
    m = mbd.Mechanism("pairs")
    sphere, capsule = mbd.Sphere(0.1, mass=1.0), mbd.Capsule(0.1, 0.4, mass=1.0)
    box, cylinder = mbd.Box((0.3, 0.4, 0.5), mass=1.0), mbd.HollowCylinder(0.05, 0.1, 0.3, mass=1.0)
    shapes = {"sphere": sphere, "capsule": capsule, "box": box, "cylinder": cylinder}
    bodies = {k: m.add_body(k, shape=shape) for k, shape in shapes.items()}
    other = {k: m.add_body(f"other {k}", shape=shape) for k, shape in shapes.items()}
    soft = dict(stiffness=3e3, damping=0.3, friction=0.4, slip_speed=0.1)

    def pair(name, i, j, apart):
        return mbd.Contact(name, i, j, **soft).element(i, j), apart

    yield pair("ball on plane", bodies["sphere"], m.ground, (0.3, 0.2, 0.08))
    yield pair("box on plane", bodies["box"], m.ground, (0.3, 0.2, 0.15))
    yield pair("cylinder on plane", bodies["cylinder"], m.ground, (0.3, 0.2, 0.1))
    yield pair("ball on ball", bodies["sphere"], other["sphere"], (0.1, 0.05, 0.12))
    yield pair("ball on capsule", bodies["sphere"], other["capsule"], (0.1, 0.05, 0.12))
    yield pair("capsule on ball", bodies["capsule"], other["sphere"], (0.1, 0.05, 0.12))
    yield pair("capsules", bodies["capsule"], other["capsule"], (0.1, 0.05, 0.12))
    yield pair("ball on box", bodies["sphere"], other["box"], (0.1, 0.05, 0.2))
    joint = mbd.Clearance("c", m.ground, m.ground, play=0.01, radius=0.1, point=(0, 0, 0), **soft)
    yield joint.element(bodies["sphere"], other["sphere"]), (0.0, 0.012, 0.011)
    curve = mbd.CurveContact(
        *("cam", m.ground, m.ground),
        **dict(point=(0, 0, 0), axis=(0, 1, 0), radius=0.1, curve=["cos(t)", "0", "2*sin(t)"]),
        **soft,
    )
    yield curve.element(bodies["sphere"], other["sphere"]), (1.08, 0.0, 0.01)


def moving(rng, apart):
    """Poses of two bodies, the first one `apart` from the second, and their twists."""
    turn = [np.eye(3), np.eye(3)]
    if apart[1]:
        turn = [rotation(rng), rotation(rng)] if apart[0] < 0.2 else [rotation(rng), np.eye(3)]
    pose = Pose(jnp.array([apart, (0.0, 0.0, 0.0)]), jnp.stack(turn))
    return pose, Twist(jnp.asarray(rng.normal(size=(2, 3))), jnp.asarray(rng.normal(size=(2, 3))))


@pytest.mark.parametrize("k", range(10))
def test_contact_of_every_pair_pushes_along_its_potential_and_obeys_newtons_third_law(k, rng):
    element, apart = list(touching())[k]
    assert isinstance(element, CompliantContact)
    pose, twist = moving(rng, apart)
    t, still = jnp.zeros(()), Twist(jnp.zeros((2, 3)), jnp.zeros((2, 3)))
    assert float(element.potential(pose)) > 0.0
    move = jax.vmap(mbd.RA().retract)
    slope = jax.grad(lambda d: element.potential(move(pose, d)))(jnp.zeros((2, 6)))
    wrench = jnp.concatenate(element.wrench(pose, still, t), axis=1)
    np.testing.assert_allclose(wrench, -slope, atol=1e-8 * float(jnp.max(jnp.abs(slope))))
    # With damping and friction: no force and no moment about the origin in total, and no work done.
    force, torque = element.wrench(pose, twist, t)
    moments = jnp.cross(pose.r, force) + jnp.einsum("kij,kj->ki", pose.A, torque)
    size = float(jnp.max(jnp.abs(force)))
    np.testing.assert_allclose(jnp.sum(force, axis=0), 0.0, atol=1e-12 * size)
    np.testing.assert_allclose(jnp.sum(moments, axis=0), 0.0, atol=1e-11 * size)
    extra, turn = force - wrench[:, :3], torque - wrench[:, 3:]
    assert float(jnp.sum(extra * twist.v) + jnp.sum(turn * twist.omega)) <= 0.0


def test_friction_of_a_contact_that_slides_is_that_of_coulomb_and_falls_off_below_slip_speed():
    friction, slip_speed, depth = 0.4, 0.1, 0.01
    m = mbd.Mechanism("ball")
    b = m.add_body("b", shape=mbd.Sphere(RADIUS, mass=1.0))
    m.add(
        mbd.Contact("floor", b, m.ground, stiffness=HERTZ, friction=friction, slip_speed=slip_speed)
    )
    system, _ = m.build()
    pose = Pose(jnp.array([[0.0, 0.0, RADIUS - depth], [0, 0, 0]]), jnp.stack([jnp.eye(3)] * 2))
    for speed in (-50.0, 1e-3):
        twist = Twist(jnp.array([[speed, 0.0, 0.0], [0, 0, 0]]), jnp.zeros((2, 3)))
        force = np.asarray(system.wrenches(pose, twist, jnp.zeros(()))[0][0])
        normal = HERTZ * depth**1.5
        np.testing.assert_allclose(force[2], normal - 9.81, rtol=1e-12)
        share = speed / np.hypot(speed, slip_speed)
        np.testing.assert_allclose(force[0], -friction * normal * share, rtol=1e-12)


def test_the_force_of_a_stop_never_pulls_and_its_derivatives_are_finite_where_it_begins():
    law = HuntCrossley(jnp.array(3.0), jnp.array(0.5), jnp.array(1.5))
    depth, speed = jnp.linspace(-0.1, 0.3, 41), jnp.linspace(-10.0, 10.0, 41)
    force = law.force(jnp.repeat(depth, 41), jnp.tile(speed, 41)).reshape(41, 41)
    assert np.all(np.asarray(force) >= 0.0) and not np.any(np.asarray(force)[depth <= 0.0])
    plain = 3.0 * 0.3**1.5 * (1.0 + 0.5 * 10.0)
    np.testing.assert_allclose(force[-1, -1], plain, rtol=1e-12)

    def energy(depth, law):
        return jnp.sum(law.energy(depth))

    np.testing.assert_allclose(jax.grad(energy)(depth, law), law.elastic(depth), atol=1e-12)
    slopes = jax.jacrev(lambda x, law: law.force(x, speed), argnums=(0, 1))(jnp.zeros(41), law)
    assert all(np.all(np.isfinite(np.asarray(x))) for x in jax.tree.leaves(slopes))


# --- descriptions ---


def test_a_stop_that_gives_way_is_saved_and_read_as_it_is(tmp_path):
    m = slider(damping=0.2, exponent=1.5)
    mbd.save(m, tmp_path / "m.json")
    again = mbd.load_mechanism(tmp_path / "m.json").laws["stop"]
    found = (again.stiffness, again.damping, again.exponent)
    assert again.gives_way and tuple(map(float, found)) == (STIFFNESS, 0.2, 1.5)


REFUSED = {
    "restitution": (dict(stiffness=1.0, restitution=0.5), "restitution is of a rigid limit"),
    "damping alone": (dict(damping=0.5), "damping is of a limit with stiffness"),
    "exponent alone": (dict(exponent=1.5), "exponent is of a limit with stiffness"),
    "negative stiffness": (dict(stiffness=-1.0), "stiffness must not be negative"),
    "negative damping": (dict(stiffness=1.0, damping=-1.0), "damping must not be negative"),
    "small exponent": (dict(stiffness=1.0, exponent=0.5), "exponent must be at least 1, not 0.5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_stop_that_makes_no_sense_is_refused_by_name(case):
    fields, message = REFUSED[case]
    m = mbd.Mechanism("slider")
    body = m.add_body("body", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.Translational("rail", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    with pytest.raises(ValueError, match=f"limit 'stop': {message}"):
        m.add(mbd.JointLimit("stop", "rail", upper=1.0, **fields))


def test_a_contact_that_makes_no_sense_is_refused_by_name():
    m = mbd.Mechanism("boxes")
    box = mbd.Box((1, 1, 1), mass=1.0)
    a, b = (m.add_body(k, shape=box, v=(0, 0, 0)) for k in "ab")
    with pytest.raises(NotImplementedError, match="contact 'c': .*give points="):
        m.add(mbd.Contact("c", a, b, stiffness=1e3))
    with pytest.raises(ValueError, match="contact 'c': friction .* needs slip_speed"):
        m.add(mbd.Contact("c", a, m.ground, stiffness=1e3, friction=0.5))
    with pytest.raises(ValueError, match="contact 'c': slip_speed is of a contact with stiffness"):
        m.add(mbd.Contact("c", a, m.ground, friction=0.5, slip_speed=0.1))
    m.add(mbd.PointForce("c", a, force=(1, 0, 0)))
    with pytest.raises(ValueError, match="force 'c': the name is taken"):
        m.add(mbd.Contact("c", a, m.ground, stiffness=1e3))
    m.add(mbd.Fixed("weld", a, m.ground, point=(0, 0, 0)))
    m.add(mbd.Contact("d", a, m.ground, stiffness=1e3))
    with pytest.raises(ValueError, match="contact 'd': joint 'weld' holds its bodies"):
        m.build()
