"""The packaged mechanisms of the papers start, and are constrained, as the papers say."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.library import gyro_top

# Rows, redundant rows and degrees of freedom.
MOBILITY = {
    "gyro_top": (3, 0, 3),
    "spherical_double_pendulum": (6, 0, 6),
    "floating_pair": (3, 0, 9),
    "three_bar_loop": (9, 0, 3),
    "cylindrical_pair": (4, 0, 8),
    "planar_pair": (3, 0, 9),
    "six_body_linkage": (30, 1, 1),
}
# Kissel, Taves, Negrut, Table 7; the driver is one of the DP1.
CONSTRAINTS = {
    "single_pendulum": {"CD": 3, "DP1": 3},
    "four_link": {"CD": 12, "DP1": 6},
    "slider_crank": {"CD": 6, "DP1": 7, "DP2": 4, "D": 1},
}


@pytest.mark.parametrize("name", MOBILITY)
def test_a_published_mechanism_starts_with_its_degrees_of_freedom_and_on_its_joints(name):
    system, state = mbd.load(name)
    found = mbd.mobility(system, state)
    assert (found.rows, found.redundant_rows, found.freedoms) == MOBILITY[name]
    assembled, _ = mbd.assemble(system, state)
    for key in ("r", "A", "v", "omega"):
        described = getattr(state, key)
        np.testing.assert_allclose(
            getattr(assembled, key), described, atol=1e-13 * max(1.0, np.max(np.abs(described)))
        )


@pytest.mark.parametrize(("theta", "precession"), [(np.pi / 3, 10.0), (1.9, -4.0)])
def test_the_gyro_top_precesses_steadily(theta, precession):
    sol = mbd.simulate(*gyro_top(theta=theta, precession=precession).build(), h=1e-4, steps=1)
    r, A, omega = (np.asarray(x[0, 0]) for x in (sol.r, sol.A, sol.omega))
    np.testing.assert_allclose(r[2], 0.075 * np.cos(theta), rtol=1e-13)
    # The mass center is on a horizontal circle, and the rate is constant in the turning frame.
    turning = precession * np.array([0.0, 0.0, 1.0])
    np.testing.assert_allclose(sol.a[0, 0], -(precession**2) * r * [1, 1, 0], atol=1e-9)
    np.testing.assert_allclose(
        A @ np.asarray(sol.alpha[0, 0]), np.cross(turning, A @ omega), atol=1e-9 * omega @ omega
    )


def test_a_top_that_does_not_precess_is_refused():
    with pytest.raises(ValueError, match="gyro_top: precession must not be zero"):
        gyro_top(precession=0.0)


def test_the_cylindrical_pair_slides_and_turns_as_published():
    system, state = mbd.load("cylindrical_pair")
    joint = mbd.simulate(system, state, h=1e-3, steps=1).joint("pair")
    np.testing.assert_allclose([joint.speed[0], joint.rate[0]], [35.5, -100.0], rtol=1e-12)


def test_the_six_body_linkage_moves_by_its_closed_form():
    sol = mbd.simulate(*mbd.load("six_body_linkage"), h=5e-4, steps=60)
    first, second = (np.asarray(sol.joint(f"hinge_{k}").angle) for k in (1, 2))
    assert first[-1] > 0.4 and second[-1] > 1.0
    np.testing.assert_allclose((1 - np.sin(first)) * (1 + np.sin(second)), 1.0, atol=1e-10)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_mechanism_has_the_published_basic_constraints(name):
    system, _ = mbd.load(name)
    found = {type(stack.primitive).__name__: len(stack) for stack in system.constraints}
    assert found == CONSTRAINTS[name]
