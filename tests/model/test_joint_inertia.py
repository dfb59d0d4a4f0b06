"""Inertia of joints (armature), springs along joint coordinates, servos, tendons."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import FORMULATIONS, central_difference, name_of
from jaxmbd.equations.index1 import dynamic_accelerations

ROTOR = 0.7  # [kg·m²] or [kg]


def pendulum(**armature):
    m = mbd.Mechanism("pendulum")
    rod = m.add_body("rod", mass=2.0, inertia=(0.1, 0.3, 0.3), r=(0.8, 0, 0))
    pin = m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, -1, 0)))
    m.add(mbd.Armature("rotor", pin, inertia=ROTOR, **armature))
    return m


def arm(joint_inertia=True, damping=0.0):
    """A chain that no plane holds: a hinge, a slide, a ball; each with inertia of its own."""
    m = mbd.Mechanism("arm", gravity=(0.3, -0.4, -9.81))
    a = m.add_body("a", mass=2.0, inertia=(0.1, 0.3, 0.35), r=(0.5, 0, 0), omega=(0, 0, 2.0))
    b = m.add_body("b", mass=1.0, inertia=(0.2, 0.1, 0.15), r=(1.0, 0.3, 0.1))
    c = m.add_body("c", mass=0.5, inertia=(0.05, 0.08, 0.06), r=(1.4, 0.3, 0.4))
    pin = m.add(mbd.Revolute("pin", m.ground, a, point=(0, 0, 0), axis=(0.0, 0.0, 1.0)))
    rail = m.add(mbd.Translational("rail", a, b, point=(0.9, 0.2, 0), axis=(0.3, 1.0, 0.2)))
    ball = m.add(mbd.Spherical("ball", b, c, point=(1.1, 0.3, 0.2)))
    if joint_inertia:
        for joint, inertia in ((pin, 0.4), (rail, 0.9), (ball, 0.3)):
            m.add(mbd.Armature(f"rotor of {joint.name}", joint, inertia=inertia))
    m.add(mbd.JointSpring("spring", rail, stiffness=60.0, damping=damping, reference=0.1))
    return m


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=name_of)
def test_a_rotor_adds_to_the_inertia_of_a_pendulum(formulation):
    system, state = pendulum().build()
    q, u = formulation.from_state(state)
    a, _ = dynamic_accelerations(formulation, system, q, u, jnp.zeros(()))
    _, alpha = jax.vmap(formulation.physical_accelerations)(q, u, a)
    expected = 2.0 * 9.81 * 0.8 / (0.3 + 2.0 * 0.8**2 + ROTOR)
    assert float(alpha[0, 1]) == pytest.approx(expected, rel=1e-12)


def rotor_kinetic(m, sol):
    """The energy of the rotors from the joints' own rates, which know nothing of the elements."""
    pin, rail = sol.joint("pin").rate, sol.joint("rail").speed
    A_b, A_c = sol.A[:, 1], sol.A[:, 2]
    relative = jnp.einsum("tij,tj->ti", A_c, sol.omega[:, 2]) - jnp.einsum(
        "tij,tj->ti", A_b, sol.omega[:, 1]
    )
    return 0.5 * (0.4 * pin**2 + 0.9 * rail**2 + 0.3 * jnp.sum(relative**2, axis=1))


def test_energy_counts_the_rotors_and_is_kept():
    m = arm()
    system, state = m.build()
    sol = mbd.simulate(
        system, state, h=5e-4, steps=1000, save_every=100, integrator=mbd.MuntheKaas()
    )
    bodies = 0.5 * jnp.einsum("b,tbi,tbi->t", system.mass, sol.v, sol.v)
    bodies += 0.5 * jnp.einsum("tbi,bij,tbj->t", sol.omega, system.inertia, sol.omega)
    energy = sol.energy()
    np.testing.assert_allclose(energy.kinetic, bodies + rotor_kinetic(m, sol), rtol=1e-12)
    assert float(jnp.min(rotor_kinetic(m, sol))) > 0.01
    # The fourth-order method's error; a term forgotten in the balance shows in the first digits.
    np.testing.assert_allclose(energy.total, energy.total[0], atol=1e-8 * 20.0)


@pytest.mark.parametrize(
    "integrator",
    [mbd.GeneralizedAlpha(), mbd.Moreau(), pytest.param(mbd.BDF2(), marks=pytest.mark.slow)],
    ids=name_of,
)
def test_implicit_methods_agree_with_an_explicit_one(integrator):
    """Each takes the rotors through its own matrix; of second order in the step."""
    system, state = arm(damping=3.0).build()
    reference = mbd.simulate(
        system, state, h=5e-4, steps=1000, save_every=1000, integrator=mbd.MuntheKaas()
    )
    errors = []
    for steps in (250, 500):
        sol = mbd.simulate(
            system, state, h=0.5 / steps, steps=steps, save_every=steps, integrator=integrator
        )
        errors.append(float(jnp.max(jnp.abs(sol.r[-1] - reference.r[-1]))))
        iterations = float(sol.iterations[-1]) / steps
    assert errors[1] < 1e-3 and 3.0 < errors[0] / errors[1] < 5.2
    assert iterations < 5.0  # a block forgotten in Newton's matrix would cost many


def test_gradients_by_the_inertia_of_a_joint():
    def acceleration(inertia):
        m = pendulum().with_values({"forces.rotor.inertia": inertia})
        return mbd.accelerations(*m.build()).alpha[0, 1]

    J = 0.3 + 2.0 * 0.8**2 + ROTOR
    assert float(jax.grad(acceleration)(ROTOR)) == pytest.approx(-2 * 9.81 * 0.8 / J**2, rel=1e-12)


@pytest.mark.slow
def test_gradients_of_a_run_by_the_inertia_of_a_joint():
    m = arm()

    def reach(inertia):
        system, state = m.with_values({"forces.rotor of pin.inertia": inertia}).build()
        sol = mbd.simulate(system, state, h=1e-3, steps=40, save_every=40)
        return sol.r[-1, 2, 0]

    by_ad = jax.grad(reach)(0.4)
    assert float(by_ad) == pytest.approx(central_difference(reach, 0.4, 1e-4), rel=1e-6)


def test_linearization_and_inverse_dynamics_know_the_rotor():
    m = mbd.Mechanism("pendulum")
    rod = m.add_body("rod", mass=2.0, inertia=(0.1, 0.3, 0.3), r=(0, 0, -0.8))
    pin = m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, -1, 0)))
    m.add(mbd.Armature("rotor", pin, inertia=ROTOR))
    m.add(mbd.Servo("motor", pin, stiffness=5.0, damping=0.4))
    system, state = m.build()
    J = 0.3 + 2.0 * 0.8**2 + ROTOR
    found = mbd.linearize(system, state)
    k = 2.0 * 9.81 * 0.8 + 5.0
    assert float(found.A[1, 0]) == pytest.approx(-k / J, rel=1e-12)
    assert float(found.A[1, 1]) == pytest.approx(-0.4 / J, rel=1e-12)
    assert abs(float(found.B[1, 0])) == pytest.approx(5.0 / J, rel=1e-12)

    m.add(mbd.RotationDriver("drive", m.ground, rod, axis=(0, -1, 0), angle="0.5*sin(2*t)"))
    system, state = m.build()
    t = np.array([0.0, 0.3, 0.6])
    phi, rate, acc = 0.5 * np.sin(2 * t), np.cos(2 * t), -2.0 * np.sin(2 * t)
    needed = J * acc + 2.0 * 9.81 * 0.8 * np.sin(phi)
    by_driver = mbd.inverse_dynamics(system, state, t).efforts["drive"]
    np.testing.assert_allclose(by_driver, needed + 5.0 * phi + 0.4 * rate, atol=1e-9)
    by_servo = mbd.inverse_dynamics(system, state, t, actuators=["motor"]).efforts["motor"]
    np.testing.assert_allclose(5.0 * by_servo, needed + 5.0 * phi + 0.4 * rate, atol=1e-9)


def test_a_tendon_pulls_at_joints_in_proportion():
    """Two pendulums side by side on one tendon: accelerations of the closed form."""
    m = mbd.Mechanism("two", gravity=(0, 0, 0))
    joints = []
    for k in range(2):
        rod = m.add_body(f"rod {k}", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0.5, k, 0))
        joints.append(
            m.add(mbd.Revolute(f"pin {k}", m.ground, rod, point=(0, k, 0), axis=(0, 0, 1)))
        )
    m.add(
        mbd.FixedTendon(
            "tendon", joints, coefficients=(0.5, -2.0), stiffness=3.0, reference=0.2,
            control="4 + t", gain=1.5, offset=0.1,
        )
    )  # fmt: skip
    system, state = m.build()
    pull = 1.5 * 4.0 + 0.1 + 3.0 * 0.2
    alpha = mbd.accelerations(system, state).alpha[:, 2]
    np.testing.assert_allclose(alpha, np.array([0.5, -2.0]) * pull / 0.35, rtol=1e-12)
    sol = mbd.simulate(system, state, h=1e-3, steps=20)
    found = sol.energy().potential
    L = 0.5 * sol.joint("pin 0").angle - 2.0 * sol.joint("pin 1").angle
    np.testing.assert_allclose(found, 1.5 * (L - 0.2) ** 2, rtol=1e-12)


def test_a_spring_along_a_slide_is_kept_by_the_energy_momentum_method():
    m = arm(joint_inertia=False)
    system, state = m.build()
    sol = mbd.simulate(
        system, state, h=5e-3, steps=40, formulation=mbd.Directors(),
        integrator=mbd.EnergyMomentum(),
    )  # fmt: skip
    energy = sol.energy().total
    np.testing.assert_allclose(energy, energy[0], atol=1e-9)


def test_methods_that_know_bodies_alone_refuse_rotors_by_name():
    system, state = pendulum().build()
    with pytest.raises(
        ValueError, match="EnergyMomentum knows the inertia of bodies alone.*'rotor'"
    ):
        mbd.simulate(
            system, state, h=1e-3, steps=2, formulation=mbd.Directors(),
            integrator=mbd.EnergyMomentum(),
        )  # fmt: skip
    with pytest.raises(ValueError, match="elimination of RotationElements knows.*'rotor'"):
        mbd.simulate(system, state, h=1e-3, steps=2, formulation=mbd.RotationElements())
    with pytest.raises(ValueError, match=r"RungeKutta\(multipliers='frozen'\) knows.*'rotor'"):
        mbd.simulate(
            system, state, h=1e-3, steps=2, formulation=mbd.RP(),
            integrator=mbd.RungeKutta(multipliers="frozen"),
        )  # fmt: skip


def test_impossible_rotors_are_refused():
    with pytest.raises(ValueError, match="force 'rotor': inertia must not be negative"):
        pendulum().with_values({"forces.rotor.inertia": -1.0})
    with pytest.raises(ValueError, match="'pin' is Revolute, which has no displacement"):
        pendulum(coordinate="displacement")
    with pytest.raises(ValueError, match="for a Spherical joint; joint 'pin' is Revolute"):
        pendulum(coordinate="rotation")


def test_a_cross_without_inertia_makes_a_cardan_joint():
    """Two hinges with a massless cross between them move as `Universal` does."""

    def spun(cross: bool):
        m = mbd.Mechanism("cardan")
        c = m.add_body("c", mass=1.0, inertia=(0.2, 0.1, 0.15), r=(0.1, 0.2, -0.4), omega=(1, 2, 0))
        if cross:
            link = m.add_body("cross", massless=True)
            m.add(mbd.Revolute("first", m.ground, link, point=(0, 0, 0), axis=(1, 0, 0)))
            m.add(mbd.Revolute("second", link, c, point=(0, 0, 0), axis=(0, 1, 0)))
        else:
            m.add(
                mbd.Universal(
                    "cross", m.ground, c, point=(0, 0, 0), axis_i=(1, 0, 0), axis_j=(0, 1, 0)
                )
            )
        system, state = m.build()
        return mbd.simulate(system, state, h=2e-3, steps=200, save_every=100)

    with_cross, with_universal = spun(True), spun(False)
    np.testing.assert_allclose(with_cross.r[:, 0], with_universal.r[:, 0], atol=1e-9)
    with pytest.raises(ValueError, match="body 'x': give mass and inertia, or massless=True"):
        mbd.Mechanism("m").add_body("x", mass=1.0, inertia=(1, 1, 1), massless=True)
    with pytest.raises(ValueError, match="'x': mass must be positive.*massless=True"):
        mbd.Mechanism("m").add_body("x", mass=0.0, inertia=(1, 1, 1))


def test_links_without_inertia_are_eliminated_after_what_they_carry():
    """Block elimination takes a long chain of cardan joints; a leaf has nothing to go after."""
    m = mbd.Mechanism("chain of crosses")
    last = m.ground
    for k in range(5):
        cross = m.add_body(f"cross {k}", massless=True, r=(0.4 * k, 0, 0))
        rod = m.add_body(f"rod {k}", mass=1.0, inertia=(0.1, 0.2, 0.2), r=(0.4 * k + 0.2, 0, 0))
        point = (0.4 * k, 0, 0)
        m.add(mbd.Revolute(f"first {k}", last, cross, point=point, axis=(0, 0.2, 1)))
        m.add(mbd.Revolute(f"second {k}", cross, rod, point=point, axis=(0, 1, 0)))
        last = rod
    system, state = m.build()
    assert system.linear_solver == "block_sparse"
    dense = dataclasses.replace(system, linear_solver="dense")
    one, two = mbd.accelerations(system, state), mbd.accelerations(dense, state)
    np.testing.assert_allclose(one.alpha, two.alpha, atol=1e-11 * float(jnp.max(two.alpha)))
    m.add_body("idle", massless=True)
    m.add(mbd.Revolute("idle", last, "idle", point=(2, 0, 0), axis=(0, 1, 0)))
    assert m.build()[0].linear_solver == "dense"
