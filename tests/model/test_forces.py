"""Force elements: potentials, power, equilibrium, closed-form motion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import FORMULATIONS, name_of, random_state, rotation, run_at, slope, vec
from jaxmbd.model.coordinates import Angle
from jaxmbd.model.forces import AngleTorque, LineForce, RelativeDamping
from jaxmbd.model.state import Pose, Twist
from jaxmbd.rotations import so3


def line(rng, damping=0.0):
    return LineForce(vec(rng), vec(rng), jnp.array(30.0), jnp.array(damping), jnp.array(0.7))


def angle(rng, damping=0.0):
    e1, _, n = so3.basis_from_axis(vec(rng))
    turned = Angle(n, e1, rotation(rng) @ e1, jnp.array(0.0))
    return AngleTorque(turned, jnp.array(3.0), jnp.array(damping), jnp.array(0.2))


def virtual_work(element, pose, twist):
    force, torque = element.wrench(pose, twist, jnp.zeros(()))
    return jnp.concatenate([force, torque], axis=1)


def at_rest():
    return Twist(jnp.zeros((2, 3)), jnp.zeros((2, 3)))


def test_a_line_spring_is_minus_the_gradient_of_its_potential(rng):
    state, element = random_state(rng, 2), line(rng)
    move = jax.vmap(mbd.RA().retract)
    gradient = jax.grad(lambda d: element.potential(move(state.pose, d)))(jnp.zeros((2, 6)))
    np.testing.assert_allclose(virtual_work(element, state.pose, at_rest()), -gradient, atol=1e-12)


def test_a_torsion_spring_is_minus_the_gradient_of_its_potential_about_its_axis(rng):
    m = mbd.Mechanism("hinge")
    b = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0), A=rotation(rng))
    m.add(
        mbd.TorsionalSpringDamper("s", m.ground, b, axis=(1, 2, 3), stiffness=4.0, free_angle=0.3)
    )
    system, _ = m.build()
    n = jnp.array([1.0, 2.0, 3.0]) / np.sqrt(14)

    def pose(phi):
        return mbd.RA().with_ground(Pose(jnp.zeros((1, 3)), (so3.exp(phi * n) @ b.A)[None]))

    for phi in (-2.0, 0.0, 0.4, 3.0):
        _, torque = system.wrenches(
            pose(jnp.array(phi)), Twist(jnp.zeros((2, 3)), jnp.zeros((2, 3))), jnp.zeros(())
        )
        about_axis = n @ (so3.exp(phi * n) @ b.A @ torque[0])
        np.testing.assert_allclose(about_axis, -4.0 * (phi - 0.3), atol=1e-12)
        np.testing.assert_allclose(
            about_axis, -jax.grad(lambda x: system.potential(pose(x)))(jnp.array(phi)), atol=1e-12
        )


@pytest.mark.parametrize(
    "make", [lambda r: line(r, 2.0), lambda r: angle(r, 2.0)], ids=["line", "angle"]
)
def test_internal_forces_balance_about_any_point(rng, make):
    state, element = random_state(rng, 2), make(rng)
    force, torque = element.wrench(state.pose, state.twist, jnp.zeros(()))
    np.testing.assert_allclose(force[0] + force[1], 0, atol=1e-13)
    about_origin = jnp.cross(state.r, force) + jnp.einsum("bij,bj->bi", state.A, torque)
    np.testing.assert_allclose(about_origin[0] + about_origin[1], 0, atol=1e-12)


def test_friction_takes_power_and_balances(rng):
    state = random_state(rng, 2)
    element = RelativeDamping(vec(rng), vec(rng), jnp.array(0.7), jnp.array(1.3))
    force, torque = element.wrench(state.pose, state.twist, jnp.zeros(()))
    assert float(jnp.sum(force * state.v) + jnp.sum(torque * state.omega)) < 0
    about_origin = jnp.cross(state.r, force) + jnp.einsum("bij,bj->bi", state.A, torque)
    np.testing.assert_allclose(jnp.sum(force, 0), 0, atol=1e-13)
    np.testing.assert_allclose(jnp.sum(about_origin, 0), 0, atol=1e-12)


def test_a_spring_of_zero_length_has_finite_derivatives():
    element = LineForce(jnp.zeros(3), jnp.zeros(3), jnp.array(3.0), jnp.array(1.0), jnp.array(0.0))
    pose = Pose(jnp.zeros((2, 3)), jnp.broadcast_to(jnp.eye(3), (2, 3, 3)))
    jacobian = jax.jacfwd(lambda r: element.wrench(Pose(r, pose.A), at_rest(), jnp.zeros(()))[0])(
        pose.r
    )
    assert np.all(np.isfinite(jacobian))


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=name_of)
def test_a_damped_oscillator_follows_its_closed_form_at_first_order(formulation):
    """m x'' + c x' + k x = F on a slide along a skew axis: every element's sign and scale in one
    motion."""
    mass, c, k, push = 2.0, 1.5, 80.0, 6.0
    n = np.array([1.0, 2.0, 2.0]) / 3
    m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
    m.add_body("b", mass=mass, inertia=(1, 1, 1), r=2 * n)
    m.add(mbd.Translational("slide", m.ground, "b", point=(0, 0, 0), axis=n))
    m.add(
        mbd.SpringDamper(
            "spring", m.ground, "b", point_i=(0, 0, 0), point_j=2 * n, stiffness=k, damping=0.5
        )
    )
    m.add(mbd.ViscousFriction("friction", "slide", translational=1.0))
    m.add(mbd.PointForce("push", "b", force=0.4 * push * n))
    m.add(mbd.Actuator("motor", "slide", control=0.6 * push))
    system, state = m.build()
    w0, d = np.sqrt(k / mass), c / (2 * mass)
    w = np.sqrt(w0**2 - d**2)
    t = 0.5
    x = push / k * (1 - np.exp(-d * t) * (np.cos(w * t) + d / w * np.sin(w * t)))
    h = np.array([1e-3, 5e-4])
    error = [
        np.linalg.norm(
            run_at(system, state, s, round(t / s), formulation, pieces=round(t / s) // 500).r[-1, 0]
            - (2 + x) * n
        )
        for s in h
    ]
    assert error[0] < 1e-3
    assert abs(slope(h, error) - 1.0) < 0.05


def test_stiff_springs_do_not_need_more_iterations():
    m = mbd.Mechanism("stiff")
    m.add_body("b", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(1, 0, 0))
    for k in range(3):
        p = tuple(float(x) for x in np.eye(3)[k] * 3)
        m.add(
            mbd.SpringDamper(
                f"s{k}", m.ground, "b", point_i=p, point_j=(1, 0, 0), stiffness=1e7, damping=1e3
            )
        )
    system, state = m.build()
    sol = mbd.simulate(system, state, steps=200, h=1e-2)
    assert np.max(sol.iterations) <= 8
    assert np.linalg.norm(sol.v[-1]) < 1e-3


def test_a_servo_with_limits_gives_no_more_than_they_allow():
    """Outside its limits the effort is the limit, inside it is the law; all by hand."""
    m = mbd.Mechanism("servo")
    m.add_body("a", mass=1.0, inertia=(0.2, 0.2, 0.2))
    m.add(mbd.Revolute("pin", "ground", "a", point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(
        mbd.Servo(
            "servo",
            "pin",
            control=mbd.Input("wanted"),
            stiffness=10.0,
            control_range=(-0.5, 1.0),
            effort_range=(-3.0, 6.0),
        )
    )
    system, state = m.build()
    for wanted, effort in ((0.2, 2.0), (0.9, 6.0), (5.0, 6.0), (-0.2, -2.0), (-9.0, -3.0)):
        acc = mbd.accelerations(system.with_inputs({"wanted": wanted}), state)
        np.testing.assert_allclose(acc.alpha[0, 2], effort / 0.2, rtol=1e-12)
    # At its limit it is a constant torque: α t.
    sol = mbd.simulate(system, state, h=1e-3, steps=50, inputs={"wanted": 5.0})
    np.testing.assert_allclose(sol.omega[-1, 0, 2], 6.0 / 0.2 * 0.05, rtol=1e-12)
    with pytest.raises(ValueError, match="give the least number first"):
        m.add(mbd.Servo("other", "pin", stiffness=1.0, effort_range=(1.0, -1.0)))


def test_an_energy_momentum_step_of_a_servo_with_limits_is_of_second_order():
    """Against Newmark's family, whose forces come by another way."""
    m = mbd.Mechanism("servo")
    m.add_body("a", mass=1.0, inertia=(0.2, 0.2, 0.2))
    m.add(mbd.Revolute("pin", "ground", "a", point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.Servo("servo", "pin", control=0.3, stiffness=10.0, effort_range=(-2.0, 2.0)))
    system, state = m.build()
    fine = mbd.simulate(system, state, h=1e-4, steps=5000).omega[-1, 0, 2]
    errors = []
    for n in (50, 100):
        sol = mbd.simulate(
            system,
            state,
            h=0.5 / n,
            steps=n,
            formulation=mbd.Directors(),
            integrator=mbd.EnergyMomentum(),
        )
        errors.append(abs(float(sol.omega[-1, 0, 2] - fine)))
    assert errors[0] < 1e-2 and errors[1] < 0.4 * errors[0]
