"""Small motions along every degree of freedom."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.analyses.sweep import sweeps

ROUNDING = 1e-8  # the sweeps close a mechanism of a meter to 1e-9 m
STEPS = 1e-4  # other coordinates stay to second order in steps of 1/30 rad


def crank(length):
    """A four-bar whose rocker hangs on a rod of a given length."""
    m = mbd.Mechanism("four_bar")
    body = {"mass": 1.0, "inertia": (0.1, 0.1, 0.1)}
    m.add_body("crank", r=(0.15, 0, 0), **body)
    m.add_body("rocker", r=(1.0, 0, 0.2), **body)
    m.add(mbd.Revolute("shaft", m.ground, "crank", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Revolute("pin", m.ground, "rocker", point=(1, 0, 0), axis=(0, 1, 0)))
    m.add(
        mbd.Distance(
            "rod", "crank", "rocker", point_i=(0.3, 0, 0), point_j=(1, 0, 0.4), length=length
        )
    )
    m.add(mbd.RotationDriver("motor", m.ground, "crank", axis=(0, 1, 0), angle="5*t"))
    return m


def ends(sweep):
    """The points of the rod on crank and rocker over a sweep."""
    on = [(0, [0.15, 0.0, 0.0]), (1, [0.0, 0.0, 0.2])]
    return [sweep.r[:, b] + sweep.A[:, b] @ np.array(p) for b, p in on]


def test_a_closed_loop_moves_along_its_one_freedom_without_its_driver():
    found = sweeps(*crank(np.hypot(0.7, 0.4)).build())
    assert (found.closed, found.freedoms) == (True, 1)
    (sweep,) = found.sweeps
    tip, top = ends(sweep)
    np.testing.assert_allclose(np.linalg.norm(top - tip, axis=1), np.hypot(0.7, 0.4), atol=ROUNDING)
    np.testing.assert_allclose(np.linalg.norm(tip, axis=1), 0.3, atol=ROUNDING)
    np.testing.assert_allclose(np.linalg.norm(top - [1, 0, 0], axis=1), 0.4, atol=ROUNDING)
    assert np.ptp(tip[:, 2]) > 0.05
    np.testing.assert_allclose(sweep.r[sweep.middle, 0], [0.15, 0, 0], atol=ROUNDING)


def test_a_loop_that_cannot_be_closed_is_swept_as_a_tree():
    found = sweeps(*crank(5.0).build())
    assert (found.closed, found.freedoms) == (False, 2)
    assert [s.name for s in found.sweeps] == ["shaft: angle", "pin: angle"]
    first, second = found.sweeps
    moved = [np.max(np.ptp(s.r, axis=0), axis=1) for s in (first, second)]
    assert moved[0][0] > 0.05 and moved[0][1] < ROUNDING
    assert moved[1][1] > 0.05 and moved[1][0] < ROUNDING


def test_the_sweep_of_an_angle_keeps_the_others():
    m = mbd.Mechanism("arm")
    body = {"mass": 1.0, "inertia": (0.1, 0.1, 0.1)}
    m.add_body("upper", r=(0.5, 0, 0), **body)
    m.add_body("lower", r=(1.5, 0, 0), **body)
    m.add(mbd.Revolute("shoulder", m.ground, "upper", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Cylindrical("elbow", "upper", "lower", point=(1, 0, 0), axis=(1, 0, 0)))
    found = sweeps(*m.build())
    assert [s.name for s in found.sweeps] == [
        "shoulder: angle",
        "elbow: angle",
        "elbow: displacement",
    ]
    turned, rolled, moved = found.sweeps
    relative = [
        np.swapaxes(s.A[:, 0], 1, 2) @ (s.r[:, 1] - s.r[:, 0])[..., None] for s in found.sweeps
    ]
    for k in (0, 1):
        np.testing.assert_allclose(relative[k][..., 0], [[1, 0, 0]] * len(relative[k]), atol=STEPS)
    assert np.ptp(relative[2][:, 0, 0]) > 0.1
    np.testing.assert_allclose(moved.A, np.broadcast_to(np.eye(3), moved.A.shape), atol=STEPS)
    # From one end to the other by twice 0.4 rad.
    angle = np.arctan2(rolled.A[:, 1, 2, 1], rolled.A[:, 1, 1, 1])
    assert abs(angle[-1] - angle[0]) == pytest.approx(0.8, rel=STEPS)
    np.testing.assert_allclose(turned.A[:, 1], turned.A[:, 0], atol=STEPS)


def test_a_mechanism_of_300_bodies_is_refused():
    with pytest.raises(
        ValueError, match="300 bodies; the degrees of freedom of at most 200 can be swept"
    ):
        sweeps(*mbd.load("n_pendulum:300"))
