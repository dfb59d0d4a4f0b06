"""What is known is computed and checked within a user's trace as it is outside."""

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


def test_degrees_of_freedom_are_counted():
    system, state = mbd.load("four_bar")
    counts = []
    jax.eval_shape(lambda x: (counts.append(mbd.mobility(system, state).freedoms), x)[1], 1.0)
    assert counts == [1]


def test_bodies_are_moved_apart():
    system, state = ball(0.3)
    low = mbd.set_joints(system, state, {"guide": {"displacement": -0.4}})
    moved = []
    jax.eval_shape(lambda x: (moved.append(mbd.move_apart(system, low)), x)[1], 1.0)
    assert float(moved[0].r[0, 2]) == pytest.approx(0.0, abs=1e-9)
