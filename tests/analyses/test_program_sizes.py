"""How large the programs are that users compile: compilation takes time in proportion.

Numbers are those of the day when they were written down, and a tenth more is a failure: whoever
adds to a step sees what it costs, and writes down less where less is needed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import jaxmbd as mbd
from jaxmbd import library


def _box():
    m = mbd.Mechanism("box")
    box = m.add_body("box", shape=mbd.Box((0.2, 0.2, 0.2), mass=1.0), r=(0.0, 0.0, 0.1))
    m.add(mbd.Contact("floor", box, m.ground, friction=0.3, restitution=0.2))
    return m.build()


def _forward(system, state):
    return lambda s: mbd.simulate(system, s, h=1e-3, steps=1000).r[-1], state


def _gradient(system, state):
    def loss(mass):
        changed = eqx.tree_at(lambda s: s.mass, system, mass)
        return jnp.sum(mbd.simulate(changed, state, h=1e-3, steps=1000).r[-1])

    return jax.grad(loss), system.mass


def _packaged(name):
    return lambda: mbd.load(name)


# Equations, lines of what is handed to XLA, and instructions that XLA makes of it.
PROGRAMS = {
    "double_pendulum": (_forward, _packaged("double_pendulum"), 5280, 6380, 11_600),
    "slider_crank": (_forward, _packaged("slider_crank"), 6570, 8040, 15_250),
    "gradient": (_gradient, _packaged("double_pendulum"), 8340, 9400, 17_050),
    "box": (_forward, _box, 12_360, 11_670, 24_000),
}
# The version whose instructions these are: every XLA makes others.
JAX = "0.10.1"
# Equations of a run from a state that is not known.
PACKAGED = {
    "bar_pendulum": 3550,
    "bennett": 5700,
    "bricard": 5740,
    "cam_follower": 30_790,
    "cantilever": 12_500,
    "cylindrical_pair": 4000,
    "differential": 8360,
    "double_pendulum": 5280,
    "flexible_slider_crank": 13_570,
    "floating_pair": 3550,
    "four_bar": 5700,
    "four_bar_flexible_coupler": 15_740,
    "four_bar_ladder": 9360,
    "four_link": 4970,
    "four_link_haug": 4970,
    "gear_train": 12_290,
    "gyro_top": 3800,
    "heavy_top": 3800,
    "n_pendulum": 3570,
    "planar_pair": 4010,
    "planetary_gear": 11_760,
    "revolute_chain": 6480,
    "rolling_disc": 6440,
    "single_pendulum": 4510,
    "six_body_linkage": 5740,
    "slider_crank": 6570,
    "slider_crank_free": 6190,
    "slider_crank_haug": 6570,
    "spherical_double_pendulum": 3560,
    "spin_up_beam": 10_870,
    "stewart_platform": 5270,
    "stewart_platform_legs": 10_390,
    "three_bar_loop": 5010,
    "whipple_bicycle": 8890,
}


def _count(jaxpr) -> int:
    """Equations, those of inner functions included."""
    total = len(jaxpr.eqns)
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                total += _count(inner) if hasattr(inner, "eqns") else 0
    return total


@pytest.mark.essential
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_not_grow_unseen(name):
    make, model, equations, lines, instructions = PROGRAMS[name]
    function, argument = make(*model())
    traced = jax.jit(function).trace(argument)
    assert _count(traced.jaxpr.jaxpr) <= 1.1 * equations
    lowered = traced.lower()
    assert lowered.as_text().count("\n") <= 1.1 * lines
    if jax.__version__ == JAX:
        assert lowered.compile().as_text().count(" = ") <= 1.1 * instructions


def test_every_packaged_mechanism_has_a_size():
    assert set(PACKAGED) == set(library.names())


@pytest.mark.parametrize("name", PACKAGED)
def test_programs_of_packaged_mechanisms_do_not_grow_unseen(name):
    function, state = _forward(*mbd.load(name))
    assert _count(jax.make_jaxpr(function)(state).jaxpr) <= 1.1 * PACKAGED[name]
