"""Steps divided where forces are not smooth, against closed forms of motions in pieces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from switched import BUMPER, LOAD, height, on_bumper, pieces

import jaxmbd as mbd
from jaxmbd.analyses.events.kinks import kink_events
from jaxmbd.model.tables import MonotoneCubic


def error(system, state, exact, h, method, split, t_end=2.0):
    steps = round(t_end / h)
    sol = mbd.simulate(system, state, h=h, steps=steps, integrator=method, split_kinks=split)
    return float(np.max(np.abs(sol.r[:, 0, 2] - exact(np.asarray(sol.t))))), sol


@pytest.mark.parametrize(
    "method, order",
    [(mbd.MuntheKaas(tableau="rk5"), 5), (mbd.GeneralizedAlpha(), 2)],
    ids=["rk5", "generalized-alpha"],
)
def test_a_method_keeps_its_order_across_a_spring_that_lets_go(method, order):
    system, state = on_bumper()
    coarse, _ = error(system, state, height, 4e-3, method, True)
    fine, sol = error(system, state, height, 2e-3, method, True)
    assert order - 0.15 < np.log2(coarse / fine) < order + 0.15
    whole, _ = error(system, state, height, 2e-3, method, False)
    assert fine < (1e-4 if order == 5 else 0.7) * whole
    fall, stay, _ = pieces(BUMPER)
    there = fall + np.cumsum([0.0, stay, 2.0 * fall, stay, 2.0 * fall])
    # Without damping the spring goes slack where its force ends.
    for name in ("bumper.kink1", "bumper.kink2"):
        np.testing.assert_allclose(sol.events[name], there, atol=2.0 * fine)
    assert not np.any(np.asarray(sol.events.grazed))


@pytest.mark.slow
def test_derivatives_run_through_the_divided_steps():
    def last(stiffness):
        system, state = on_bumper(stiffness)
        method = mbd.MuntheKaas(tableau="rk5")
        run = {"h": 2e-3, "steps": 1000, "integrator": method, "split_kinks": True}
        return mbd.simulate(system, state, **run).r[-1, 0, 2]

    found = jax.jacfwd(last)(BUMPER)
    exact = jax.jacfwd(lambda k: height(2.0, k))(BUMPER)
    np.testing.assert_allclose(found, exact, rtol=1e-7)


@pytest.mark.slow
def test_a_servo_at_its_limit():
    """A mass pulled back by no more than a limit: parabolas, and arcs between them."""
    stiffness, most, start = 50.0, 20.0, 1.0
    m = mbd.Mechanism("slider", gravity=(0.0, 0.0, 0.0))
    m.add_body("slider", mass=LOAD, inertia=(0.1,) * 3)
    m.add(mbd.Translational("rail", m.ground, "slider", point=(0, 0, 0), axis=(0, 0, 1)))
    limits = {"stiffness": stiffness, "effort_range": (-most, most)}
    m.add(mbd.Servo("servo", "rail", control=0.0, gain=stiffness, **limits))
    system, state = m.build()
    state = mbd.set_joints(system, state, {"rail": {"displacement": start}})

    edge, omega = most / stiffness, np.sqrt(stiffness / LOAD)
    first = np.sqrt(2.0 * (start - edge) * LOAD / most)
    speed = most / LOAD * first
    # z = edge cos - speed / omega sin until it is -edge
    across = 2.0 * np.arctan2(edge * omega, speed) / omega
    half = 2.0 * first + across

    def exact(t):
        turns, x = np.divmod(t, half)
        arc = edge * np.cos(omega * (x - first)) - speed / omega * np.sin(omega * (x - first))
        parts = [x < first, x < first + across]
        z = [start - 0.5 * most / LOAD * x**2, arc]
        z = np.select(parts, z, -start + 0.5 * most / LOAD * (half - x) ** 2)
        return np.where(turns % 2 == 0, z, -z)

    method = mbd.MuntheKaas(tableau="rk5")
    coarse, _ = error(system, state, exact, 2e-2, method, True, t_end=4.0)
    fine, _ = error(system, state, exact, 1e-2, method, True, t_end=4.0)
    whole, _ = error(system, state, exact, 1e-2, method, False, t_end=4.0)
    assert 4.8 < np.log2(coarse / fine) < 5.3
    assert fine < 1e-4 * whole


def test_every_point_of_a_table_is_a_zero_of_one_smooth_function():
    at = np.array([-1.0, 0.3, 0.5, 2.0])
    table = MonotoneCubic.through([at, [0.0, 1.0, 3.0, 4.0]], "table")
    table = jax.tree.map(jnp.asarray, table)
    kink = jax.vmap(table.kink)
    np.testing.assert_allclose(kink(jnp.asarray(at)), 0.0, atol=1e-15)
    for side in (-1e-6, 1e-6):
        slopes = jax.vmap(jax.grad(table.kink))(jnp.asarray(at + side))
        np.testing.assert_allclose(slopes, [1.0, -1.0, 1.0, -1.0], atol=1e-5)
    x = np.linspace(-3.0, 4.0, 71)
    signs = np.sign(np.asarray(kink(jnp.asarray(x + 1e-9))))
    np.testing.assert_array_equal(np.diff(signs) != 0.0, _between(x + 1e-9, at))


def _between(x, at):
    """Whether a number of `at` lies between neighbours in x."""
    return np.any((x[:-1, None] < at) & (at <= x[1:, None]), axis=1)


def test_what_has_kinks_is_told():
    m = mbd.Mechanism("kinks")
    m.add_body("body", mass=1.0, inertia=(1.0, 1.0, 1.0), r=(0.0, 0.0, 1.0))
    m.add(mbd.Revolute("pin", m.ground, "body", point=(0, 0, 0), axis=(0, 1, 0)))
    line = {"point_i": (0.3, 0.0, 0.0), "point_j": (0.0, 0.0, 1.0)}
    m.add(mbd.SpringDamper("spring", m.ground, "body", stiffness=1.0, **line))
    m.add(mbd.SpringDamper("rope", m.ground, "body", stiffness=1.0, only="tension", **line))
    curve = [[0.5, 1.0, 2.0], [0.0, 1.0, 5.0]]
    m.add(mbd.SpringDamper("table", m.ground, "body", force=curve, **line))
    m.add(mbd.JointLimit("stops", "pin", lower=-1.0, upper=1.0, stiffness=10.0))
    m.add(mbd.Motor("motor", "pin", command=1.0, effort_limit=2.0))
    floor = {"point": (0, 0, -2.0), "normal": (0, 0, 1), "friction": 0.0, "stiffness": 1e3}
    m.add(mbd.Contact("floor", "body", m.ground, points=[(0, 0, 1), (0, 0.1, 1)], **floor))
    found = [event.name for event in kink_events(m.build()[0])]
    assert sorted(found) == sorted(
        ["rope.kink1", "rope.kink2", "table.kink", "stops.kink1", "stops.kink2"]
        + ["motor.kink1", "motor.kink2", "floor.kink1", "floor.kink2"]
    )
