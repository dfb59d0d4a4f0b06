"""Warnings about numbers that may be wrong although no step failed."""

import warnings

import numpy as np
import pytest

import jaxmbd as mbd


def _top():
    """A heavy top at 50 rad/s, inclined by 0.3 rad."""
    m = mbd.Mechanism("top")
    tilt = np.array(
        [[np.cos(0.3), 0.0, np.sin(0.3)], [0.0, 1.0, 0.0], [-np.sin(0.3), 0.0, np.cos(0.3)]]
    )
    top = m.add_body(
        "top",
        mass=1.0,
        inertia=(0.01, 0.01, 0.02),
        r=0.2 * tilt[:, 2],
        A=tilt,
        omega=(0.0, 2.0, 50.0),
    )
    m.add(mbd.Spherical("tip", top, m.ground, point=(0.0, 0.0, 0.0)))
    return m.build()


def _rotor():
    m = mbd.Mechanism("rotor")
    rotor = m.add_body("rotor", mass=1.0, inertia=(0.01, 0.01, 0.02), omega=(0.0, 0.0, 50.0))
    m.add(mbd.Revolute("shaft", rotor, m.ground, point=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0)))
    return m.build()


def _energy_error(solution):
    total = np.asarray(solution.energy().total)
    return np.max(np.abs(total - total[0])) / abs(total[0])


def test_a_step_in_which_a_body_turns_far_is_told_where_the_energy_is_wrong():
    """A conservative motion is its own witness: 57 degrees a step lose its energy, 14 do not."""
    system, state = _top()
    with pytest.warns(
        mbd.LargeRotationWarning, match="body 'top' turns by .* degrees in a step at t"
    ):
        coarse = mbd.simulate(system, state, h=0.02, steps=50, throw=False)
    assert not _energy_error(coarse) < 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine = mbd.simulate(system, state, h=0.005, steps=50)
    assert _energy_error(fine) < 1e-3


def test_a_rotor_at_a_constant_rate_may_turn_far_in_a_step():
    """Its rotation is integrated exactly: no warning at 57 degrees a step."""
    system, state = _rotor()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sol = mbd.simulate(system, state, h=0.02, steps=50)
    angle = 50.0 * np.asarray(sol.t)
    np.testing.assert_allclose(np.asarray(sol.A[:, 0, 0, 0]), np.cos(angle), rtol=0, atol=1e-9)
