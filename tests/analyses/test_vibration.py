"""Vibration about equilibria: closed forms, linearization by other means, derivatives, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

G = 9.81
EXACT = 1e-10  # closed forms of a few terms


def two_masses(m1=2.0, m2=1.0, k1=300.0, k2=120.0, c1=0.0, c2=0.0):
    """Two masses on a rail, springs in a row; at rest the springs have their natural length."""
    m = mbd.Mechanism("two masses", gravity=(0, 0, 0))
    a = m.add_body("a", mass=m1, inertia=(0.1, 0.1, 0.1), r=(1, 0, 0))
    b = m.add_body("b", mass=m2, inertia=(0.1, 0.1, 0.1), r=(2, 0, 0))
    for name, body in (("rail a", a), ("rail b", b)):
        m.add(mbd.Translational(name, m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    spring = {"free_length": 1.0}
    m.add(
        mbd.SpringDamper(
            "first",
            m.ground,
            a,
            point_i=(0, 0, 0),
            point_j=(1, 0, 0),
            stiffness=k1,
            damping=c1,
            **spring,
        )
    )
    m.add(
        mbd.SpringDamper(
            "second",
            a,
            b,
            point_i=(1, 0, 0),
            point_j=(2, 0, 0),
            stiffness=k2,
            damping=c2,
            **spring,
        )
    )
    return m.build()


def matrices(m1=2.0, m2=1.0, k1=300.0, k2=120.0, c1=0.0, c2=0.0):
    return (
        np.diag([m1, m2]),
        np.array([[c1 + c2, -c2], [-c2, c2]]),
        np.array([[k1 + k2, -k2], [-k2, k2]]),
    )


@pytest.mark.essential
def test_the_frequency_response_of_two_masses_is_the_closed_form():
    numbers = dict(c1=1.5, c2=0.7)
    system, state = two_masses(**numbers)
    rest = mbd.equilibrium(system, state)
    omega = np.array([0.0, 3.0, 8.0, 17.0, 40.0])
    found = mbd.frequency_response(
        system, rest, ["a.force.x", "b.force.x"], ["a.r.x", "b.r.x"], omega
    )
    M, C, K = matrices(**numbers)
    H = np.stack([np.linalg.inv(K + 1j * w * C - w**2 * M) for w in omega])
    np.testing.assert_allclose(found.H, H, atol=EXACT * np.max(np.abs(H)))
    np.testing.assert_allclose(found.gain, np.abs(H), atol=EXACT)
    damped = mbd.modes(system, rest, damped=True)
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(M, K), -np.linalg.solve(M, C)]])
    expected = np.linalg.eigvals(A)
    expected = expected[expected.imag > 0]
    expected = expected[np.argsort(np.abs(expected))]
    np.testing.assert_allclose(damped.eigenvalues, expected, rtol=1e-9)
    np.testing.assert_allclose(damped.damping_ratio, -expected.real / np.abs(expected), rtol=1e-8)


def test_undamped_modes_have_unit_modal_mass_and_derivatives():
    def frequencies(x):
        system, state = two_masses(m1=x[0], m2=x[1], k1=x[2], k2=x[3])
        rest = mbd.equilibrium(system, state)
        return mbd.modes(system, rest, freedoms=2).frequency

    x = jnp.array([2.0, 1.0, 300.0, 120.0])

    def closed(x):
        M, _, K = matrices(x[0], x[1], x[2], x[3])
        return np.sqrt(np.sort(np.linalg.eigvals(np.linalg.solve(M, K)).real)) / (2 * np.pi)

    values, jacobian = jax.jit(lambda x: (frequencies(x), jax.jacrev(frequencies)(x)))(x)
    np.testing.assert_allclose(values, closed(np.asarray(x)), rtol=EXACT)
    for k in range(4):
        h = 1e-5 * np.eye(4)[k] * float(x[k])
        slope = (closed(x + h) - closed(x - h)) / (2 * h[k])
        np.testing.assert_allclose(jacobian[:, k], slope, rtol=1e-6, atol=1e-9)
    system, state = two_masses()
    found = mbd.modes(system, mbd.equilibrium(system, state))
    masses = np.array([2.0, 1.0])
    for shape in np.real(found.shapes):
        np.testing.assert_allclose(np.sum(masses * shape[:, 0] ** 2), 1.0, rtol=EXACT)


def four_bar(load):
    m = mbd.load_mechanism("four_bar")
    crank = list(m.bodies)[0]
    m.add(mbd.TorsionalSpringDamper("twist", "ground", crank, axis=(0, 1, 0), stiffness=900.0))
    m.add(mbd.Torque("load", crank, torque=(0, load, 0)))
    return m.build()


@pytest.mark.parametrize(
    "load",
    [pytest.param(0.0, marks=pytest.mark.slow), 150.0],
    ids=["at rest", "under load"],
)
def test_modes_of_a_redundant_loop_agree_with_differences_of_the_motion(load):
    """The linearized acceleration by central differences of the drift along the one freedom."""
    system, state = four_bar(load)
    rest = mbd.equilibrium(system, state)
    found = mbd.modes(system, rest)
    assert found.frequency.shape == (1,)
    lin = mbd.linearize(system, rest.state)
    pin = next(c.name for c in system.connections if c.angle is not None)
    at = float(rest.motion.joint(pin).angle[0])
    step = 1e-4

    def pull(angle):
        there = mbd.set_joints(system, rest.state, {pin: angle})
        moved = float(lin.coordinates_of(there.pose, there.twist)[0])
        return moved, float(mbd.linearize(system, there, coordinates=lin.coordinates).drift[1])

    (y1, a1), (y2, a2) = pull(at - step), pull(at + step)
    squared = -(a2 - a1) / (y2 - y1)
    np.testing.assert_allclose((2 * np.pi * found.frequency[0]) ** 2, squared, rtol=1e-7)
    # and with the exact matrix
    np.testing.assert_allclose(
        np.abs(lin.modes().eigenvalues[0]), 2 * np.pi * found.frequency[0], rtol=1e-9
    )


def governor(stiffness=0.0):
    """Two balls on arms that swing about pins on a shaft, as a flyball governor."""
    m = mbd.Mechanism("governor", gravity=(0, 0, -G))
    shaft = m.add_body("shaft", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.Revolute("bearing", m.ground, shaft, point=(0, 0, 0), axis=(0, 0, 1)))
    for name, side in (("left", -1.0), ("right", 1.0)):
        c, s = np.cos(0.6), side * np.sin(0.6)
        A = np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
        ball = m.add_body(
            name, mass=2.0, inertia=(0.02, 0.021, 0.003), r=(0.5 * s, 0, -0.5 * c), A=A
        )
        m.add(mbd.Revolute(f"pin {name}", shaft, ball, point=(0, 0, 0), axis=(0, 1, 0)))
    return m.build()


@pytest.mark.slow
def test_gyroscopic_modes_of_a_steady_rotation_agree_with_the_closed_form():
    """Small swings of the balls about the steady angle, the shaft being free to change its speed:
    I θ'' = .. and conservation of the angular momentum (antisymmetric swings leave it alone)."""
    rate = 6.0
    system, state = governor()
    steady = mbd.equilibrium(system, state, spin=((0, 0, 1), rate))
    found = mbd.modes(system, steady, damped=True)
    across = 2.0 * 0.25 + 0.02 - 0.003  # m l² + Jx - Jz
    swing = 2.0 * 0.25 + 0.021  # about the pin
    theta = np.arccos(2.0 * G * 0.5 / (across * rate**2))
    # θ'' swing = across ω² sinθ cosθ - m g l sinθ with ω held: antisymmetric mode
    stiff = across * rate**2 * np.sin(theta) ** 2
    antisymmetric = np.sqrt(stiff / swing)
    # symmetric: ω follows from ω (I0 + 2 (across sin² + Jz)) = const
    about = 0.1 + 2.0 * (across * np.sin(theta) ** 2 + 0.003)
    slope = 4.0 * across * np.sin(theta) * np.cos(theta)  # dI/dθ
    coupling = 2.0 * across * rate * np.sin(theta) * np.cos(theta) * rate * slope / about
    symmetric = np.sqrt((stiff + coupling) / swing)
    moving = np.sort(2 * np.pi * found.frequency[found.frequency > 1e-4])
    np.testing.assert_allclose(moving, np.sort([antisymmetric, symmetric]), rtol=1e-8)


def rotor(kx=4000.0, ky=4000.0):
    """An overhung disc on a massless elastic support: free in all directions, spun about z."""
    m = mbd.Mechanism("rotor", gravity=(0, 0, 0))
    carrier = m.add_body("carrier", mass=1e-3, inertia=(1e-6, 1e-6, 1e-6))
    disc = m.add_body("disc", mass=3.0, inertia=(0.02, 0.02, 0.035))
    m.add(mbd.Revolute("bearing", carrier, disc, point=(0, 0, 0), axis=(0, 0, 1)))
    for name, point, far, k in (
        ("x", (0, 0, 0.1), (1, 0, 0), kx),
        ("y", (0, 0, 0.1), (0, 1, 0), ky),
        ("x low", (0, 0, -0.25), (1, 0, 0), kx),
        ("y low", (0, 0, -0.25), (0, 1, 0), ky),
        ("z", (0, 0, 0), (0, 0, 1), 5e4),
    ):
        there = tuple(np.array(point) + np.array(far))
        m.add(
            mbd.SpringDamper(
                name, m.ground, carrier, point_i=there, point_j=point, stiffness=k, free_length=1.0
            )
        )
    twist = {"axis": (0, 0, 1), "stiffness": 10.0}
    m.add(mbd.TorsionalSpringDamper("hold", m.ground, carrier, **twist))
    return m.build()


def test_the_campbell_diagram_of_an_overhung_disc_has_forward_and_backward_whirl():
    system, state = rotor()
    rest = mbd.equilibrium(system, state)
    rates = np.linspace(0.0, 120.0, 7)
    found = mbd.campbell(system, rest, "disc", (0, 0, 1), rates)
    # z = (x + iy, θx + iθy) of an axisymmetric rotor: M z'' - i Ω G z' + K z = 0
    k, d = 4000.0, (0.1, -0.25)
    mass, across, polar = 3.0 + 1e-3, 0.02 + 1e-6, 0.035
    M = np.diag([mass, across])
    # displacement x + d θy of a point at height d; in ψ = θy - iθx both planes are alike
    K = k * np.array([[2.0, sum(d)], [sum(d), d[0] ** 2 + d[1] ** 2]])
    for row, rate in zip(found.frequency, rates, strict=True):
        gyro = np.diag([0.0, polar * rate])
        A = np.block(
            [[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(M, K), 1j * np.linalg.solve(M, gyro)]]
        )
        whirl = np.sort(np.abs(np.linalg.eigvals(A).imag)) / (2 * np.pi)
        for value in whirl:
            assert np.nanmin(np.abs(row / value - 1.0)) < 1e-7
    assert found.critical.size >= 1


def test_what_cannot_vibrate_is_refused_by_name():
    system, state = two_masses()
    rest = mbd.equilibrium(system, state)
    with pytest.raises(ValueError, match="unknown coordinate 'a.x'"):
        mbd.frequency_response(system, rest, ["a.force.x"], ["a.x"], np.ones(1))
    with pytest.raises(ValueError, match="unknown input 'push'"):
        mbd.frequency_response(system, rest, ["push"], ["a.r.x"], np.ones(1))
    with pytest.raises(TypeError, match="what equilibrium"):
        mbd.modes(system, state)
    with pytest.raises(ValueError, match="no body 'rotor'"):
        mbd.modes(system, rest, damped=True, spinning={"rotor": (0, 0, 1)})
    with pytest.raises(ValueError, match="give freedoms="):
        jax.jit(lambda k: mbd.modes(system, mbd.equilibrium(*two_masses(k1=k))).frequency)(300.0)
    with pytest.raises(ValueError, match="not symmetric about"):
        mbd.campbell(*(lambda s, e: (s, e))(*_lopsided()), "disc", (1, 0, 0), [0.0, 1.0])


def _lopsided():
    system, state = rotor()
    return system, mbd.equilibrium(system, state)
