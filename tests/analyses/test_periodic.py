"""Periodic motions: closure, multipliers by differences, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipk

import jaxmbd as mbd

PERIOD, STEPS = 2 * np.pi / 5.0, 40
# An orbit closes in what the joints allow; a method that lets velocities drift off it would not.
METHOD = mbd.GeneralizedAlpha(velocity_projection=True)


def pendulum(stiffness=30.0, amplitude=2.0, mass=2.0):
    """A rod with spring and damper at its pin, driven by a torque."""
    m = mbd.Mechanism("driven pendulum", gravity=(0, 0, -9.81))
    rod = m.add_body("rod", mass=mass, inertia=(0.2, 0.2, 0.05), r=(0, 0, -0.5))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(1, 0, 0)))
    about = {"axis": (1, 0, 0), "stiffness": stiffness, "damping": 1.5}
    m.add(mbd.TorsionalSpringDamper("damper", m.ground, rod, **about))
    m.add(
        mbd.Torque(
            "load", rod, torque=lambda t: amplitude * jnp.stack([jnp.sin(5.0 * t), 0 * t, 0 * t])
        )
    )
    return m.build()


def end_of(system, state, angle, rate):
    """Angle and rate of the pin after a period."""
    start = mbd.set_joints(system, state, {"pin": {"angle": angle, "rate": rate}})
    sol = mbd.simulate(system, start, h=PERIOD / STEPS, steps=STEPS, integrator=METHOD)
    pin = sol.joint("pin")
    return np.array([pin.angle[-1], pin.rate[-1]])


@pytest.mark.slow
def test_a_driven_pendulum_repeats_with_the_multipliers_of_its_differences():
    system, state = pendulum()
    found = mbd.periodic(system, state, period=PERIOD, steps=STEPS, integrator=METHOD)
    assert float(found.residual) <= 1e-9 and int(found.iterations) <= 6
    pin = found.motion.joint("pin")
    start = np.array([pin.angle[0], pin.rate[0]])
    np.testing.assert_allclose([pin.angle[-1], pin.rate[-1]], start, atol=1e-9)
    step = 1e-5
    columns = [
        (end_of(system, state, *(start + d)) - end_of(system, state, *(start - d))) / (2 * step)
        for d in step * np.eye(2)
    ]
    by_differences = np.linalg.eigvals(np.stack(columns, axis=1))
    np.testing.assert_allclose(
        np.sort_complex(found.multipliers), np.sort_complex(by_differences), atol=1e-6
    )


@pytest.mark.slow
def test_the_start_of_an_orbit_has_derivatives():
    def rate(stiffness):
        system, state = pendulum(stiffness)
        found = mbd.periodic(system, state, period=PERIOD, steps=STEPS, freedoms=1)
        return found.state.omega[0, 0]

    value, slope = jax.jit(jax.value_and_grad(rate))(30.0)
    step = 1e-3
    difference = (rate(30.0 + step) - rate(30.0 - step)) / (2 * step)
    np.testing.assert_allclose(slope, difference, rtol=1e-6)


# --- without a driver -----------------------------------------------------------------------------


def van_der_pol(mu=1.0):
    """A cart whose spring is one and whose damping is mu (x² - 1)."""
    m = mbd.Mechanism("van der Pol", gravity=(0, 0, 0))
    cart = m.add_body("cart", mass=1.0, inertia=(1, 1, 1), r=(2.0, 0, 0), v=(0.3, 0, 0))
    m.add(mbd.Translational("rail", m.ground, cart, point=(0, 0, 0), axis=(1, 0, 0)))

    def load(pose, twist, t):
        x, v = pose.r[0, 0], twist.v[0, 0]
        force = jnp.stack([mu * (1.0 - x**2) * v - x, 0.0 * x, 0.0 * x])
        return force[None], jnp.zeros((1, 3))

    m.add(mbd.UserForce("load", (cart,), function=load))
    return m.build()


def limit_cycle(mu=1.0):
    """Period and second Floquet multiplier by another solver: exp ∫ mu (1 - x²) dt."""

    def rate(t, y):
        x, v, _ = y
        return [v, mu * (1.0 - x**2) * v - x, mu * (1.0 - x**2)]

    def upwards(t, y):
        return y[0]

    upwards.direction = 1.0  # pyright: ignore[reportFunctionMemberAccess]
    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-13, "events": upwards}
    found = solve_ivp(rate, (0.0, 70.0), [2.0, 0.0, 0.0], **options)
    (before, after), growth = found.t_events[0][-2:], found.y_events[0][-2:, 2]
    return after - before, np.exp(growth[1] - growth[0])


def self_excited(mu, steps):
    return mbd.periodic(
        *van_der_pol(mu),
        period=6.5,
        steps=steps,
        autonomous=True,
        integrator=mbd.MuntheKaas(),
        freedoms=1,
    )


@pytest.mark.slow
def test_a_limit_cycle_has_the_period_and_the_multipliers_of_another_solver():
    period, multiplier = limit_cycle()
    np.testing.assert_allclose(period, 6.66328685932313, rtol=1e-11)  # published
    coarse, fine = self_excited(1.0, 100), self_excited(1.0, 200)
    assert float(fine.residual) <= 1e-9
    errors = [abs(float(x.period) - period) for x in (coarse, fine)]
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 4.0, atol=0.1)
    assert errors[1] < 2e-6
    found = np.sort(np.real(fine.multipliers))
    np.testing.assert_allclose(found, [multiplier, 1.0], atol=1e-7)


@pytest.mark.slow
def test_the_period_of_a_limit_cycle_has_derivatives():
    _, slope = jax.jvp(lambda mu: self_excited(mu, 200).period, (1.0,), (1.0,))
    step = 1e-3
    plus, minus = (float(self_excited(1.0 + s, 200).period) for s in (step, -step))
    np.testing.assert_allclose(slope, (plus - minus) / (2 * step), rtol=1e-6)
    plus, minus = (limit_cycle(1.0 + s)[0] for s in (step, -step))
    np.testing.assert_allclose(slope, (plus - minus) / (2 * step), rtol=1e-5)


def swing(angle, gravity=9.81):
    """A rod that is let go at an angle from hanging."""
    m = mbd.Mechanism("swing", gravity=jnp.stack([0.0 * gravity, 0.0 * gravity, -gravity]))
    c, s = np.cos(angle), np.sin(angle)
    A = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    rod = m.add_body("rod", mass=2.0, inertia=(0.2, 0.2, 0.05), r=(0, 0.5 * s, -0.5 * c), A=A)
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(1, 0, 0)))
    return m.build()


def swing_period(amplitude, gravity=9.81):
    """4 K(sin²(a/2)) / ω₀ with ω₀² = m g l / (J + m l²)."""
    return 4.0 * ellipk(np.sin(0.5 * amplitude) ** 2) / np.sqrt(gravity / 0.7)


def amplitude_of(state, gravity=9.81):
    """By the energy: g cos a = g cos θ - (J + m l²) ω² / 2."""
    cosine = -state.r[0, 2] / 0.5 - 0.35 * state.omega[0, 0] ** 2 / gravity
    return jnp.arccos(cosine)


def conservative(steps, gravity=9.81, **options):
    return mbd.periodic(
        *swing(1.2, gravity),
        steps=steps,
        formulation=mbd.Directors(),
        integrator=mbd.EnergyMomentum(),
        freedoms=1,
        **options,
    )


@pytest.mark.slow
def test_a_free_pendulum_repeats_after_the_period_of_its_amplitude():
    """Every amplitude has an orbit: one near the guess is taken, and its period is of second order
    in the step."""
    errors = []
    for steps in (50, 100):
        found = conservative(steps, period=1.85, autonomous=True)
        assert float(found.residual) <= 1e-9
        amplitude = float(amplitude_of(found.state))
        assert abs(amplitude - 1.2) < 0.05
        errors.append(abs(float(found.period) - swing_period(amplitude)))
        np.testing.assert_allclose(np.abs(found.multipliers), 1.0, atol=1e-6)
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2.0, atol=0.05)
    assert errors[1] < 2e-3


@pytest.mark.slow
def test_the_amplitude_of_a_given_period_has_derivatives():
    def amplitude(gravity):
        return amplitude_of(conservative(100, gravity, period=1.85).state, gravity)

    value, slope = jax.jvp(amplitude, (9.81,), (1.0,))
    step = 1e-3
    plus, minus = (float(amplitude(9.81 + s)) for s in (step, -step))
    np.testing.assert_allclose(slope, (plus - minus) / (2 * step), rtol=1e-6)
    # T(a, g) = 1.85: da/dg = -T_g / T_a, to the second order of the method
    a, eps = float(value), 1e-6
    by_amplitude = (swing_period(a + eps) - swing_period(a - eps)) / (2 * eps)
    np.testing.assert_allclose(slope, 1.85 / (2 * 9.81) / by_amplitude, rtol=1e-2)


def test_what_has_no_orbit_is_refused_by_name():
    system, state = pendulum()
    with pytest.raises(ValueError, match="period must be positive"):
        mbd.periodic(system, state, period=-1.0, steps=STEPS)
    m = mbd.Mechanism("driven")
    rod = m.add_body("rod", mass=1.0, inertia=(1, 1, 1))
    still = (0.0, 0.0, 0.0)
    m.add(mbd.PoseDriver("motion", m.ground, rod, displacement=still, rotation=still))
    with pytest.raises(ValueError, match="no degree of freedom left"):
        mbd.periodic(*m.build(), period=1.0, steps=10)
