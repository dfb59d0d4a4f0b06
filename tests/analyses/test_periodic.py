"""Periodic motions: closure, multipliers by differences, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


def test_what_has_no_orbit_is_refused_by_name():
    system, state = pendulum()
    with pytest.raises(ValueError, match="period must be positive"):
        mbd.periodic(system, state, period=-1.0, steps=STEPS)
    m = mbd.Mechanism("driven")
    rod = m.add_body("rod", mass=1.0, inertia=(1, 1, 1))
    still = (0.0, 0.0, 0.0)
    m.add(mbd.PoseDriver("motion", m.ground, rod, displacement=still, rotation=still))
    with pytest.raises(ValueError, match="no freedom left"):
        mbd.periodic(*m.build(), period=1.0, steps=10)
