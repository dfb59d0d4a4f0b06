"""Inertia of joint coordinates counts in vibration as it does in motion."""

import numpy as np

import jaxmbd as mbd


def test_a_rotor_slows_a_pendulum_in_modes_and_in_the_linearized_motion():
    mass, length, inertia, rotor = 2.0, 0.7, 0.1, 0.5
    m = mbd.Mechanism("geared pendulum")
    m.add_body("rod", mass=mass, inertia=(0.01, inertia, inertia), r=(0, 0, -length))
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Armature("rotor", "pin", inertia=rotor))
    system, state = m.build()
    square = mass * 9.81 * length / (inertia + mass * length**2 + rotor)
    rest = mbd.equilibrium(system, state)
    (found,) = mbd.modes(system, rest).frequency
    np.testing.assert_allclose((2 * np.pi * found) ** 2, square, rtol=1e-12)
    (moving,) = mbd.linearize(system, state).modes().frequency
    np.testing.assert_allclose((2 * np.pi * moving) ** 2, square, rtol=1e-12)
