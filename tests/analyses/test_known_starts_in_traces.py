"""Starts that are known are checked while a user's program is being traced, as they are outside."""

import jax
import pytest

import jaxmbd as mbd

pytestmark = pytest.mark.xdist_group("known_starts_in_traces")


def ball(height):
    m = mbd.Mechanism("ball")
    m.add_body("ball", mass=2.0, inertia=(0.1,) * 3, r=(0, 0, height))
    m.add(mbd.Translational("guide", m.ground, "ball", point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.JointLimit("stop", "guide", lower=-height, restitution=0.5))
    m.add(mbd.CoulombFriction("dry", "guide", bound=0.5))
    return m.build()


def traced(system, state):
    """A run of which the step alone is traced."""
    return jax.make_jaxpr(lambda h: mbd.simulate(system, state, h=h, steps=3).r)(0.01)


def test_a_run_with_stops_and_dry_friction():
    (rows,) = traced(*ball(0.3)).out_avals
    assert rows.shape == (4, 1, 3)


def test_what_stands_beyond_its_stop_is_refused():
    system, state = ball(0.3)
    low = mbd.set_joints(system, state, {"guide": {"displacement": -0.4}})
    with pytest.raises(ValueError, match="'stop' by 0.1"):
        traced(system, low)


def test_friction_that_a_loop_shares_is_told():
    m = mbd.load_mechanism("four_bar")
    pin = next(iter(m.constraints))
    m.add(mbd.CoulombFriction("dry", pin, friction=0.1, radius=0.01))
    with pytest.warns(mbd.RedundantJointWarning, match="friction 'dry' follows the force"):
        traced(*m.build())
