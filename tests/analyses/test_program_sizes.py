"""How large the programs are that users compile: compilation takes time in proportion.

Numbers are those of the day when they were written down, and a tenth more is a failure: whoever
adds to a step sees what it costs, and writes down less where less is needed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import jaxmbd as mbd


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


# Equations, and lines of what is handed to XLA.
PROGRAMS = {
    "double_pendulum": (_forward, lambda: mbd.load("double_pendulum"), 6000, 7100),
    "four_bar": (_forward, lambda: mbd.load("four_bar"), 6600, 7700),
    "slider_crank": (_forward, lambda: mbd.load("slider_crank"), 7500, 9100),
    "gradient of the double_pendulum": (_gradient, lambda: mbd.load("double_pendulum"), 8340, 9400),
    "box": (_forward, _box, 12360, 11670),
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
    make, model, equations, lines = PROGRAMS[name]
    function, argument = make(*model())
    traced = jax.jit(function).trace(argument)
    assert _count(traced.jaxpr.jaxpr) <= 1.1 * equations
    assert traced.lower().as_text().count("\n") <= 1.1 * lines
