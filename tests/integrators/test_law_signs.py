"""What `Solution.limit` and `Solution.friction` say: signs, and means over the last step."""

import numpy as np
import pytest

import jaxmbd as mbd

MASS, G, BOUND = 2.0, 10.0, 3.0


def slide(down):
    """A box between two stops of a guide, with dry friction, that gravity pulls along x."""
    m = mbd.Mechanism("guide", gravity=(down * G, 0, 0))
    m.add_body("box", mass=MASS, inertia=(1.0, 1.0, 1.0), v=(0.0, 0, 0))
    m.add(mbd.Translational("guide", "ground", "box", point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.JointLimit("stops", "guide", lower=-0.05, upper=0.05))
    m.add(mbd.CoulombFriction("dry", "guide", bound=BOUND))
    return m.build()


@pytest.mark.essential
@pytest.mark.parametrize("down", [-1.0, 1.0])
def test_stops_push_with_positive_forces_and_friction_opposes_the_rate(down):
    every = mbd.simulate(*slide(down), h=4e-3, steps=100)
    stops, dry = every.limit("stops"), every.friction("dry")
    # Sliding: friction along the coordinate opposes its rate.
    sliding = slice(2, 20)
    assert np.all(np.sign(every.joint("guide").speed[sliding]) == down)
    np.testing.assert_allclose(dry.force[sliding, 0], -down * BOUND, rtol=1e-9)
    # At rest on a stop: its push is positive, on the lower stop and on the upper one.
    pressed = 0 if down < 0 else 1
    push = np.asarray(stops.force[-1])
    assert abs(push[1 - pressed]) < 1e-12  # rounding
    # The push of the stop and friction carry the weight along the coordinate.
    along = push[0] - push[1] + float(dry.force[-1, 0])
    np.testing.assert_allclose(along, -down * MASS * G, rtol=1e-9)
    assert push[pressed] > 0.0
    # Rows of every fourth step hold the mean over their last step, not over the four.
    coarse = mbd.simulate(*slide(down), h=4e-3, steps=100, save_every=4)
    np.testing.assert_allclose(coarse.limit("stops").force, stops.force[::4], atol=1e-9)
    np.testing.assert_allclose(coarse.friction("dry").force, dry.force[::4], atol=1e-9)
