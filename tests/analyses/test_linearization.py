"""Linearization in minimal coordinates: textbook matrices, gyroscopic eigenvalues, loops,
feedback."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import eigvals

import jaxmbd as mbd

G = 9.81
LINEAR = 1e-10  # closed forms of a few terms


def cart_pole(cart=2.0, pole=0.7, half=0.6, spin=0.05):
    m = mbd.Mechanism("cart-pole", gravity=(0, 0, -G))
    body = m.add_body("cart", mass=cart, inertia=(0.1, 0.1, 0.1))
    rod = m.add_body("pole", mass=pole, inertia=(spin, spin, 0.001), r=(0, 0, half))
    m.add(mbd.Translational("rail", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Revolute("hinge", body, rod, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Actuator("push", "rail"))
    m.add(mbd.Actuator("motor", "hinge"))
    return m


@pytest.mark.essential
def test_the_cart_pole_has_the_matrices_of_the_textbook():
    M, m, arm, spin = 2.0, 0.7, 0.6, 0.05
    lin = mbd.linearize(
        *cart_pole(M, m, arm, spin).build(), coordinates=("cart.r.x", "pole.theta.y")
    )
    # (M + m) x'' + m l φ'' = F,   m l x'' + (I + m l²) φ'' - m g l φ = τ,   φ a turn about y
    mass = np.array([[M + m, m * arm], [m * arm, spin + m * arm**2]])
    stiffness = np.diag([0.0, -m * G * arm])
    A = np.block(
        [[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(mass, stiffness), np.zeros((2, 2))]]
    )
    np.testing.assert_allclose(lin.A, A, atol=LINEAR)
    np.testing.assert_allclose(
        lin.B, np.concatenate([np.zeros((2, 2)), np.linalg.inv(mass)]), atol=LINEAR
    )
    np.testing.assert_allclose(lin.drift, 0.0, atol=LINEAR)
    chosen = mbd.linearize(
        *cart_pole(M, m, arm, spin).build(), inputs=("cart.force.x", "pole.torque.y")
    )
    assert len(chosen.coordinates) == 2 and chosen.B.shape == (4, 2)
    np.testing.assert_allclose(sorted(eigvals(chosen.A).real), sorted(eigvals(A).real), atol=1e-6)


def test_a_spinning_top_upright_has_its_gyroscopic_eigenvalues():
    """Sleeping top: I z'' - i Iz Ω z' - m g l z = 0 in z = x + i y of the axis, I about the
    pivot."""
    mass, arm, transverse, axial, spin = 1.3, 0.4, 0.02, 0.03, 120.0
    m = mbd.Mechanism("top", gravity=(0, 0, -G))
    top = m.add_body(
        "top", mass=mass, inertia=(transverse, transverse, axial), r=(0, 0, arm), omega=(0, 0, spin)
    )
    m.add(mbd.Spherical("pivot", m.ground, top, point=(0, 0, 0)))
    lin = mbd.linearize(*m.build())
    about_pivot = transverse + mass * arm**2
    inertial = np.roots([about_pivot, -1j * axial * spin, -mass * G * arm])
    found = lin.modes().eigenvalues
    # Coordinates do not turn with the body that spins. Two eigenvalues at zero belong to the spin
    # itself.
    expected = np.sort(np.abs(inertial.imag))
    oscillating = np.sort(np.abs(found[np.abs(found) > 1e-3].imag))
    np.testing.assert_allclose(oscillating, expected, rtol=1e-9)
    np.testing.assert_allclose(found.real, 0.0, atol=1e-6)


def four_bar(stiffness=2000.0):
    m = mbd.load_mechanism("four_bar")
    crank = list(m.bodies)[0]
    m.add(mbd.TorsionalSpringDamper("twist", "ground", crank, axis=(0, 1, 0), stiffness=stiffness))
    return m


def test_a_redundant_loop_swings_at_the_frequency_of_its_energies():
    """One freedom: frequency² = V'' / M(θ) from energies along the kinematic motion, by
    differences."""
    m = four_bar()
    # Without weight the described pose is an equilibrium.
    m = m.with_values({"gravity": (0.0, 0.0, 0.0)})
    system, state = m.build()
    lin = mbd.linearize(system, state)
    assert len(lin.coordinates) == 1
    driven = four_bar().with_values({"gravity": (0.0, 0.0, 0.0)})
    crank = list(driven.bodies)[0]
    driven.add(mbd.RotationDriver("motor", "ground", crank, axis=(0, 1, 0), angle=lambda t: t))
    moving, start = driven.build()
    sol = mbd.kinematics(moving, start, jnp.array([0.0]))
    mass = 2.0 * float(sol.energy(moving).kinetic[0])
    np.testing.assert_allclose(
        float(lin.modes().frequency[0]) * 2 * np.pi, np.sqrt(2000.0 / mass), rtol=1e-9
    )


def test_frequencies_have_gradients():
    def squared_frequency(x):
        m = mbd.Mechanism("pendulum", gravity=(0, 0, -G))
        rod = m.add_body("rod", mass=x[0], inertia=(0.3, 0.3, 0.3), r=(0, 0, -x[1]))
        m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(1, 0, 0)))
        return -mbd.linearize(*m.build(), coordinates=("rod.theta.x",)).A[1, 0]

    def closed_form(x):
        return x[0] * G * x[1] / (0.3 + x[0] * x[1] ** 2)

    x = jnp.array([2.0, 0.8])
    value, gradient = jax.jit(jax.value_and_grad(squared_frequency))(x)
    np.testing.assert_allclose(value, closed_form(x), rtol=1e-10)
    np.testing.assert_allclose(gradient, jax.grad(closed_form)(x), rtol=1e-9)


def test_feedback_from_the_linearization_keeps_the_pole_up():
    m = cart_pole()
    lin = mbd.linearize(*m.build(), inputs=("push",))
    K = lin.lqr(np.diag([10.0, 10.0, 1.0, 1.0]), 0.1)
    closed = np.asarray(lin.A) - np.asarray(lin.B) @ K
    assert np.max(np.linalg.eigvals(closed).real) < -0.5
    m.add(mbd.UserForce("control", list(m.bodies), lin.feedback(K)))
    # Its own linearization, through the simulator's force element, is the closed loop's.
    again = mbd.linearize(*m.build(), coordinates=lin.coordinates)
    np.testing.assert_allclose(again.A, closed, atol=1e-8 * np.max(np.abs(closed)))
    tilt = 0.2
    system, state = m.build()
    turned = jnp.array(
        [[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]]
    )
    state = mbd.State(
        state.r.at[1].set(turned @ state.r[1]), state.A.at[1].set(turned), state.v, state.omega
    )
    sol = mbd.simulate(system, state, h=1e-2, t_end=8.0)
    assert float(jnp.max(jnp.abs(sol.r[-1, :, 0]))) < 1e-2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coordinates": ("cart.x",)}, "unknown coordinate 'cart.x'"),
        ({"coordinates": ("cart.r.y", "pole.theta.y")}, "do not determine the motion"),
        ({"inputs": ("pull",)}, "unknown input 'pull'; the actuators are push, motor"),
    ],
)
def test_impossible_requests_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        mbd.linearize(*cart_pole().build(), **options)


def test_a_driven_mechanism_has_nothing_to_linearize():
    with pytest.raises(ValueError, match="no degree of freedom left"):
        mbd.linearize(*mbd.load("slider_crank"))
