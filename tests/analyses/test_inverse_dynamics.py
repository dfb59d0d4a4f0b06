"""Inverse dynamics: closed forms, efforts fed back into forward dynamics, actuators that share or
cannot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.analyses.inverse_dynamics import effort_units
from jaxmbd.library import stewart_platform
from jaxmbd.library.stewart import HOME, anchors
from jaxmbd.rotations import so3

pytestmark = pytest.mark.xdist_group("inverse_dynamics")
TS = np.linspace(0.0, 1.0, 41)
LEGS = [f"leg {k}" for k in range(1, 7)]


def swing(t):
    return 0.8 * jnp.sin(3.0 * t) + 0.2 * t**2


def pendulum(mass=2.0, motors=1):
    """A bar of 2 m that a driver swings about x from hanging down; motors on its hinge, a damper,
    gravity."""
    m = mbd.Mechanism("pendulum")
    m.add_body("bar", mass=mass, inertia=(0.5, 0.5, 0.1), r=(0.0, 0.0, -1.0))
    hinge = m.add(mbd.Revolute("hinge", m.ground, "bar", point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.RotationDriver("swing", m.ground, "bar", axis=(1, 0, 0), angle=swing))
    m.add(mbd.ViscousFriction("oil", hinge, rotational=0.3))
    for k in range(motors):
        m.add(mbd.Actuator(f"motor{k}", hinge, control=5.0))
    return m.build()


def pendulum_torque(t, mass=2.0):
    rate, acc = jax.vmap(jax.grad(swing))(t), jax.vmap(jax.grad(jax.grad(swing)))(t)
    return (0.5 + mass) * acc + mass * 9.81 * jnp.sin(swing(t)) + 0.3 * rate, rate


def test_a_driver_needs_the_torque_of_the_closed_form():
    system, state = pendulum(motors=0)
    found = mbd.inverse_dynamics(system, state, TS)
    torque, rate = pendulum_torque(jnp.asarray(TS))
    np.testing.assert_allclose(found.efforts["swing"], torque, atol=1e-10)
    np.testing.assert_allclose(found.rates["swing"], rate, atol=1e-10)
    np.testing.assert_allclose(found.power["swing"], torque * rate, atol=1e-9)


def test_a_motor_takes_the_place_of_the_driver_whatever_it_was_described_with():
    system, state = pendulum()
    found = mbd.inverse_dynamics(system, state, TS, actuators=["motor0"])
    torque, rate = pendulum_torque(jnp.asarray(TS))
    np.testing.assert_allclose(found.efforts["motor0"], torque, atol=1e-9)
    np.testing.assert_allclose(found.rates["motor0"], rate, atol=1e-10)
    assert float(jnp.max(found.unbalanced)) < 1e-12
    # The driver is idle, and the hinge carries what is left: its moment about x is none.
    driver = [row for c in system.connections if c.is_driver for row in c.rows]
    assert not np.any(found.solution.lam[:, np.array(driver)])
    assert float(jnp.max(jnp.abs(found.solution.reactions(system)["hinge"].moment[:, 0]))) < 1e-10


def test_two_motors_share_the_work():
    system, state = pendulum(motors=2)
    found = mbd.inverse_dynamics(system, state, TS, actuators=["motor0", "motor1"])
    torque, _ = pendulum_torque(jnp.asarray(TS))
    for name in ("motor0", "motor1"):
        np.testing.assert_allclose(found.efforts[name], 0.5 * torque, atol=1e-9)


def test_efforts_are_differentiable_by_mass():
    def largest(mass):
        system, state = pendulum(mass)
        return mbd.inverse_dynamics(system, state, TS, actuators=["motor0"]).efforts["motor0"][20]

    expected = jax.grad(lambda mass: pendulum_torque(jnp.asarray(TS), mass)[0][20])(2.0)
    np.testing.assert_allclose(jax.jit(jax.grad(largest))(2.0), expected, rtol=1e-9)


def test_slides_and_lengths_need_the_force_of_newton():
    m = mbd.Mechanism("lift")
    m.add_body("load", mass=3.0, inertia=(1, 1, 1))
    m.add(mbd.Translational("rail", m.ground, "load", point=(0, 0, 0), axis=(0, 0, 1)))
    lift = m.with_values({})
    lift.add(
        mbd.TranslationDriver(
            "lift", lift.ground, "load", axis=(0, 0, 1), displacement=lambda t: 0.5 * t**3
        )
    )
    rope = m.with_values({})
    rope.add(
        mbd.DistanceDriver(
            "rope",
            rope.ground,
            "load",
            point_i=(0, 0, 4),
            point_j=(0, 0, 0),
            length=lambda t: 4.0 - 0.5 * t**3,
        )
    )
    pull = 3.0 * (9.81 + 3.0 * TS)
    up = mbd.inverse_dynamics(*lift.build(), TS)
    np.testing.assert_allclose(up.efforts["lift"], pull, atol=1e-10)
    np.testing.assert_allclose(up.rates["lift"], 1.5 * TS**2, atol=1e-10)
    down = mbd.inverse_dynamics(*rope.build(), TS)
    np.testing.assert_allclose(
        down.efforts["rope"], -pull, atol=1e-9
    )  # a push along the rope is positive
    np.testing.assert_allclose(down.power["rope"], pull * 1.5 * TS**2, atol=1e-9)


def test_motions_that_the_actuators_cannot_make_are_refused():
    m = stewart_platform()
    m.add(
        mbd.PoseDriver("move", m.ground, "platform", displacement=_displacement, rotation=_rotation)
    )
    with pytest.raises(ValueError, match=r"\(leg 1, leg 2\) cannot make this motion.*unbalanced"):
        mbd.inverse_dynamics(*m.build(), TS, actuators=LEGS[:2])
    with pytest.raises(ValueError, match="actuators is empty"):
        mbd.inverse_dynamics(*m.build(), TS, actuators=[])
    with pytest.raises(ValueError, match="unknown input 'leg 7'"):
        mbd.inverse_dynamics(*m.build(), TS, actuators=["leg 7"])


# --- a prescribed platform -----------------------------------------------------------------------


def _displacement(t):
    s = 1.0 - jnp.cos(2.0 * jnp.pi * t)
    return jnp.stack([0.05 * s, 0.03 * s * jnp.sin(jnp.pi * t), -0.02 * s])


def _rotation(t):
    s = 1.0 - jnp.cos(2.0 * jnp.pi * t)
    return jnp.stack([0.1 * s, -0.05 * s, 0.15 * s])


def at_rest(m):
    return m.with_values(
        {f"bodies.{b}.{part}": np.zeros(3) for b in m.bodies for part in ("v", "omega")}
    )


def test_efforts_of_the_legs_move_the_platform_as_prescribed():
    m = at_rest(stewart_platform())
    driven = m.with_values({})
    driven.add(
        mbd.PoseDriver(
            "move", driven.ground, "platform", displacement=_displacement, rotation=_rotation
        )
    )
    h = 2e-3
    found = mbd.inverse_dynamics(*driven.build(), np.arange(501) * h / 2, actuators=LEGS)
    pushed = m.with_values({f"forces.{leg}.actuator": found.motion(leg) for leg in LEGS})
    back = mbd.simulate(
        *pushed.build(),
        h=h,
        steps=250,
        formulation=mbd.RotationElements(),
        integrator=mbd.RungeKutta(),
    )
    # Stages meet the samples, so the errors are those of the method: h⁴.
    np.testing.assert_allclose(back.r, found.solution.r[::2], atol=1e-8)
    np.testing.assert_allclose(back.A, found.solution.A[::2], atol=1e-8)


def test_a_prescribed_pose_is_met_over_several_turns():
    spin = lambda t: 7.0 * t * jnp.array([0.6, 0.0, 0.8])  # noqa: E731
    m = mbd.Mechanism("spun")
    m.add_body("body", mass=2.0, inertia=(1.0, 2.0, 2.5), r=(0.2, 0.1, 0.0), euler=(0.3, 0.4, 0.5))
    m.add(mbd.PoseDriver("move", m.ground, "body", displacement=_displacement, rotation=spin))
    system, state = m.build()
    ts = np.linspace(0.0, 2.0, 81)
    sol = mbd.kinematics(system, state, ts)
    np.testing.assert_allclose(
        sol.r[:, 0], state.r[0][None] + jax.vmap(_displacement)(jnp.asarray(ts)), atol=1e-12
    )
    turned = jax.vmap(lambda t: so3.exp(spin(t)) @ state.A[0])(jnp.asarray(ts))
    np.testing.assert_allclose(sol.A[:, 0], turned, atol=1e-11)
    np.testing.assert_allclose(
        jnp.einsum("tij,tj->ti", sol.A[:, 0], sol.omega[:, 0]),
        np.tile([4.2, 0, 5.6], (81, 1)),
        atol=1e-11,
    )


def test_the_packaged_platforms_have_six_freedoms_and_consistent_starts():
    for name, bodies in (("stewart_platform", 1), ("stewart_platform_legs", 13)):
        system, state = mbd.load(name)
        _, report = mbd.assemble(system, state)
        assert (system.nb, mbd.mobility(system, state).freedoms) == (bodies, 6)
        assert float(jnp.max(report.displacement)) < 1e-14
        assert float(jnp.max(report.velocity)) < 1e-14
    base, platform = anchors()
    lengths = np.linalg.norm(HOME + platform - base, axis=1)
    np.testing.assert_allclose(
        lengths, lengths[0], rtol=1e-14
    )  # 6-6 with both circles symmetric alike
    with pytest.raises(ValueError, match="comes in one size"):
        mbd.load("stewart_platform:3")


def test_samples_are_met_to_fourth_order_and_may_be_differentiated():
    errors = []
    for n in (40, 80):
        t = np.linspace(0.0, 2.0, n + 1)
        motion = mbd.Sampled(t, jnp.sin(3.0 * t))
        np.testing.assert_allclose(jax.vmap(motion)(jnp.asarray(t)), np.sin(3.0 * t), atol=1e-13)
        between = jnp.linspace(0.01, 1.99, 301)
        errors.append(np.max(np.abs(jax.vmap(motion)(between) - jnp.sin(3.0 * between))))
    assert errors[0] / errors[1] > 12.0
    slope = jax.vmap(jax.grad(motion))(between)
    np.testing.assert_allclose(slope, 3.0 * jnp.cos(3.0 * between), atol=1e-3)
    for t, why in (([0.0, 1.0, 2.0], "four or more"), ([0.0, 1.0, 2.0, 4.0], "equal intervals")):
        with pytest.raises(ValueError, match=why):
            mbd.Sampled(t, jnp.zeros(len(t)))


def test_efforts_and_rates_have_the_units_of_what_they_act_on():
    m = mbd.Mechanism("m")
    for name in "ab":
        m.add_body(name, mass=1.0, inertia=(1.0, 1.0, 1.0), r=(1.0, 0.0, 0.0))
    hinge = m.add(mbd.Revolute("hinge", m.ground, "a", point=(0, 0, 0), axis=(0, 0, 1)))
    slide = m.add(mbd.Translational("slide", m.ground, "b", point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.RotationDriver("turn", m.ground, "a", axis=(0, 0, 1), angle="t"))
    m.add(mbd.TranslationDriver("push", m.ground, "b", axis=(1, 0, 0), displacement="t"))
    ends = {"point_i": (0, 1, 0), "point_j": (1, 0, 0)}
    m.add(mbd.DistanceDriver("pull", m.ground, "b", length="2.0 + t", **ends))
    m.add(mbd.Actuator("motor", hinge))
    m.add(mbd.Actuator("ram", slide, action="force"))
    m.add(mbd.SpringDamper("spring", m.ground, "b", stiffness=1.0, free_length=1.0, **ends))
    m.add(mbd.Servo("servo", hinge, stiffness=5.0))
    m.add(mbd.Servo("effort", slide, gain=1.0))
    system, _ = m.build()
    force, torque = ("N", "m/s"), ("N·m", "rad/s")
    assert effort_units(system) == {"turn": torque, "push": force, "pull": force}
    wanted = {"motor": torque, "ram": force, "spring": force, "effort": force}
    wanted |= {"a.force.x": force, "b.torque.z": torque}
    # A control of unit gain is an effort; that of a servo is a position.
    wanted |= {"servo": ("N·m/gain", "gain·rad/s")}
    assert effort_units(system, list(wanted)) == wanted
