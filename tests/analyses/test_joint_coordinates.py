"""Joint coordinates: angles over thousands of turns, displacements, rates; states given by them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

TURN = 2 * np.pi
INERTIA = 0.1
GA = mbd.GeneralizedAlpha()


def clock(stiffness=1e-3, spin=700.0, *, free_angle=0.0):
    """A wheel on a torsional spring: I φ̈ = -k (φ - φ0)."""
    m = mbd.Mechanism("clock", gravity=(0, 0, 0))
    m.add_body("wheel", mass=1.0, inertia=(0.3, 0.2, INERTIA), omega=(0, 0, spin))
    m.add(mbd.Revolute("pin", m.ground, "wheel", point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(
        mbd.TorsionalSpringDamper(
            "spring", m.ground, "wheel", axis=(0, 0, 1), stiffness=stiffness, free_angle=free_angle
        )
    )
    return m.build()


def test_a_spring_wound_a_thousand_turns_is_exact():
    stiffness, spin = 1e-3, 700.0
    system, state = clock(stiffness, spin)
    omega = np.sqrt(stiffness / INERTIA)
    h = 1e-3
    sol = mbd.simulate(system, state, h=h, steps=20000, save_every=1000, integrator=GA)
    joint, t = sol.joint("pin"), np.asarray(sol.t)
    amplitude = spin / omega
    assert joint.angle.max() > 1000 * TURN
    # The method's own error is (ω h)² / 12 of the phase, 2e-10.
    np.testing.assert_allclose(joint.angle, amplitude * np.sin(omega * t), atol=1e-9 * amplitude)
    np.testing.assert_allclose(joint.rate, spin * np.cos(omega * t), atol=1e-8 * spin)
    np.testing.assert_allclose(joint.acceleration, -(omega**2) * joint.angle, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sol.energy().total, sol.energy().total[0], rtol=1e-8)
    # A run from the middle goes on with its turns.
    again = mbd.simulate(
        system, sol.at(10), h=h, steps=10000, save_every=1000, t0=sol.t[10], integrator=GA
    )
    np.testing.assert_allclose(again.joint("pin").angle, joint.angle[10:], rtol=1e-9)


@pytest.mark.parametrize(
    ("formulation", "integrator"),
    [
        (mbd.RP(), GA),
        (mbd.REps(), mbd.BDF2()),
        (mbd.RA(), mbd.MuntheKaas()),
        (mbd.Directors(), mbd.EnergyMomentum()),
    ],
    ids=lambda x: x.name,
)
def test_every_method_counts_turns(formulation, integrator):
    stiffness, spin, free = 20.0, 60.0, 1.5 * TURN
    system, state = clock(stiffness, spin, free_angle=free)
    omega = np.sqrt(stiffness / INERTIA)
    sol = mbd.simulate(
        system,
        state,
        h=2e-4,
        steps=2000,
        save_every=100,
        formulation=formulation,
        integrator=integrator,
    )
    t = np.asarray(sol.t)
    angle = free - free * np.cos(omega * t) + spin / omega * np.sin(omega * t)
    assert np.ptp(angle) > 2 * TURN
    np.testing.assert_allclose(
        sol.joint("pin").angle, angle, atol=2e-3
    )  # second order: h² ω² of the amplitude
    if integrator.name == "energy_momentum":
        np.testing.assert_allclose(sol.energy().total, sol.energy().total[0], rtol=1e-11)


def test_chosen_steps_count_turns():
    system, state = clock(20.0, 60.0)
    omega = np.sqrt(20.0 / INERTIA)
    ts = np.linspace(0.0, 1.0, 6)
    sol = mbd.simulate(system, state, save_at=ts, step=mbd.Adaptive(1e-6))
    np.testing.assert_allclose(
        sol.joint("pin").angle, 60.0 / omega * np.sin(omega * ts), atol=1e-3
    )  # 1e-6 a step


def motor(speed):
    m = mbd.Mechanism("motor")
    m.add_body("rotor", mass=1.0, inertia=(0.1, 0.2, 0.3))
    m.add(mbd.Revolute("pin", m.ground, "rotor", point=(0, 0, 0), axis=(1, 2, 2)))
    m.add(
        mbd.RotationDriver(
            "drive", m.ground, "rotor", axis=(1, 2, 2), angle=lambda t: speed * t + jnp.sin(t)
        )
    )
    return m.build()


def test_a_motor_after_a_thousand_turns():
    system, state = motor(3000.0)
    ts = np.arange(0.0, 2.2, 1e-3)
    sol = mbd.kinematics(system, state, ts)
    wanted = 3000.0 * ts + np.sin(ts)
    assert wanted[-1] > 1000 * TURN
    for name in ("pin", "drive"):
        joint = sol.joint(name)
        np.testing.assert_allclose(joint.angle, wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(joint.rate, 3000.0 + np.cos(ts), rtol=1e-9)
        np.testing.assert_allclose(
            joint.acceleration, -np.sin(ts), atol=3e-5
        )  # Newton's tolerance, 2e-12, times 3000²
    sol = mbd.simulate(system, state, h=1e-3, steps=2200, save_every=200, integrator=GA)
    np.testing.assert_allclose(
        sol.joint("drive").angle, 3000.0 * sol.t + np.sin(sol.t), rtol=1e-9, atol=1e-9
    )


def screw_pair():
    """A sleeve on an arm that moves itself: a cylindrical joint, and a hinge below it."""
    m = mbd.Mechanism("sleeve")
    arm = m.add_body("arm", mass=1.0, inertia=(0.1, 0.2, 0.3), r=(0.5, 0, 0), omega=(0.0, 1.5, 0.0))
    ring = m.add_body("ring", mass=0.4, inertia=(0.02, 0.03, 0.03), r=(0.8, 0.0, 0.1))
    m.add(mbd.Revolute("hinge", m.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Cylindrical("sleeve", arm, ring, point=(0.8, 0, 0), axis=(1, 0, 0)))
    m.add(
        mbd.Translational(
            "slide",
            ring,
            m.add_body("rider", mass=0.1, inertia=(1e-3,) * 3, r=(0.8, 0, 0.3)),
            point=(0.8, 0, 0.1),
            axis=(0, 0, 1),
        )
    )
    return m.build()


def test_coordinates_and_rates_belong_together():
    system, state = screw_pair()
    given = {
        "hinge": {"angle": 0.4, "rate": 1.0},
        "sleeve": {"angle": -7.0, "rate": 5.0, "displacement": 0.2, "speed": -0.3},
        "slide": 0.05,
    }
    with pytest.warns(mbd.DescriptionWarning, match="'sleeve'.*were degrees meant"):
        state = mbd.set_joints(system, state, given)
    h = 1e-3
    sol = mbd.simulate(system, state, h=h, steps=200, integrator=GA)
    hinge, sleeve, slide = (sol.joint(n) for n in ("hinge", "sleeve", "slide"))
    start = [
        hinge.angle,
        hinge.rate,
        sleeve.angle,
        sleeve.rate,
        sleeve.displacement,
        sleeve.speed,
        slide.displacement,
    ]
    np.testing.assert_allclose(
        [x[0] for x in start], [0.4, 1.0, -7.0, 5.0, 0.2, -0.3, 0.05], atol=1e-12
    )
    assert hinge.displacement is None and slide.angle is None
    # Rates are derivatives of coordinates, by central differences.
    for x, x_dot, x_ddot in (
        (hinge.angle, hinge.rate, hinge.acceleration),
        (sleeve.angle, sleeve.rate, sleeve.acceleration),
        (sleeve.displacement, sleeve.speed, sleeve.displacement_acceleration),
        (slide.displacement, slide.speed, slide.displacement_acceleration),
    ):
        scale = np.max(np.abs(x_ddot)) + 1.0
        np.testing.assert_allclose((x[2:] - x[:-2]) / (2 * h), x_dot[1:-1], atol=20 * h**2 * scale)
        np.testing.assert_allclose(
            (x_dot[2:] - x_dot[:-2]) / (2 * h), x_ddot[1:-1], atol=0.02 * scale
        )


@pytest.mark.essential
def test_a_pose_by_joint_coordinates_closes_loops_and_is_differentiable():
    system, state = mbd.load("four_bar")
    name = next(c.name for c in system.connections if c.angle is not None and system.nb in c.bodies)

    def placed(angle):
        return mbd.set_joints(system, state, {name: {"angle": angle, "rate": 2.0}})

    turned = placed(0.3)
    sol = mbd.simulate(system, turned, h=1e-4, steps=1, integrator=GA)
    assert np.max(np.abs(sol.violation().position)) < 1e-12
    np.testing.assert_allclose(
        [sol.joint(name).angle[0], sol.joint(name).rate[0]], [0.3, 2.0], atol=1e-10
    )
    slope = jax.jit(jax.jacfwd(lambda a: placed(a).r))(0.3)
    step = 1e-5
    by_differences = (np.asarray(placed(0.3 + step).r) - placed(0.3 - step).r) / (2 * step)
    np.testing.assert_allclose(slope, by_differences, atol=1e-8)
    batch = jax.vmap(placed)(jnp.array([0.1, 0.3]))
    np.testing.assert_allclose(batch.r[1], turned.r, atol=1e-12)


def test_requests_that_make_no_sense_are_refused_by_name():
    system, state = screw_pair()
    with pytest.raises(ValueError, match="no joint 'pin'; the joints are hinge"):
        mbd.set_joints(system, state, {"pin": 1.0})
    with pytest.raises(
        ValueError, match="'hinge' .Revolute. has no 'displacement'; it has angle, rate"
    ):
        mbd.set_joints(system, state, {"hinge": {"displacement": 1.0}})
    sol = mbd.simulate(system, state, h=1e-3, steps=1, integrator=GA)
    with pytest.raises(ValueError, match="no joint 'pin'"):
        sol.joint("pin")
    four, start = mbd.load("four_bar")
    joints = {c.name: 1.5 for c in four.connections if c.angle is not None}
    if len(joints) > 1:
        with pytest.raises(mbd.AssemblyError, match="cannot be assembled"):
            mbd.set_joints(four, start, joints)


def test_an_angle_has_the_derivative_of_the_motion():
    def angle(stiffness):
        system, state = clock(stiffness, 60.0)
        sol = mbd.simulate(
            system, state, h=2e-3, steps=100, save_every=100, integrator=GA, throw=False
        )
        return sol.joint("pin").angle[-1]

    omega = lambda k: jnp.sqrt(k / INERTIA)  # noqa: E731
    exact = jax.grad(lambda k: 60.0 / omega(k) * jnp.sin(0.2 * omega(k)))(20.0)
    np.testing.assert_allclose(jax.jit(jax.grad(angle))(20.0), exact, rtol=5e-4)  # (ω h)² = 8e-4


def test_springs_about_the_axis_wind_with_the_joint_that_is_set():
    # Placed by hand at the same pose, the spring pulls with all of its turns.
    def wheel(*sides):
        m = mbd.Mechanism("wheel", gravity=(0, 0, 0))
        m.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
        m.add_body("wheel", mass=2.0, inertia=(0.06, 0.06, 0.06))
        m.add(mbd.Revolute("shoulder", "ground", "arm", point=(0, 0, 0), axis=(0, 1, 0)))
        m.add(mbd.Revolute("axle", *sides, point=(0, 0, 0), axis=(0, 1, 0)))
        m.add(mbd.TorsionalSpringDamper("spring", "wheel", "arm", axis=(0, 1, 0), stiffness=0.05))
        m.add(mbd.TorsionalSpringDamper("other", "ground", "arm", axis=(0, 1, 0), stiffness=0.0))
        return m.build()

    for sides, sign in ((("arm", "wheel"), -1.0), (("wheel", "arm"), 1.0)):
        for angle in (3.0, 3.5, 8.0 * np.pi, -6.4 * np.pi):
            system, state = wheel(*sides)
            placed = mbd.set_joints(system, state, {"axle": angle})
            torque = 0.05 * sign * angle
            found = mbd.accelerations(system, placed)
            np.testing.assert_allclose(found.alpha[1, 1], torque / 0.06, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(placed.angles[-1], 0.0, atol=1e-12)
    # The spring does not wind with a joint that carries both of its bodies.
    placed = mbd.set_joints(system, state, {"shoulder": 2.9 * np.pi})
    np.testing.assert_allclose(mbd.accelerations(system, placed).alpha, 0.0, atol=1e-9)


def test_a_state_of_another_mechanism_is_refused_by_its_number_of_angles():
    def arm(*parts):
        m = mbd.Mechanism("arm")
        m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
        m.add(mbd.Revolute("pin", "ground", "rod", point=(0, 0, 0), axis=(0, 1, 0)))
        for part in parts:
            m.add(part)
        return m.build()

    _, state = arm()
    state = mbd.set_joints(arm()[0], state, {"pin": 0.1})
    spring = mbd.TorsionalSpringDamper("s", "ground", "rod", axis=(0, 1, 0), stiffness=1.0)
    with pytest.raises(ValueError, match="follows 2 angles.*turns of 1.*angles=None"):
        mbd.simulate(arm(spring)[0], state, h=1e-3, steps=2)
