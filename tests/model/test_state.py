"""States: all of one mechanism have one structure, so that one can take the place of another."""

import jax
import pytest

import jaxmbd as mbd


def pendulum():
    m = mbd.Mechanism("pendulum")
    m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", "ground", "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.TorsionalSpringDamper("s", "ground", "rod", axis=(0, 1, 0), stiffness=1.0))
    return m.build()


ANALYSES = {
    "simulate": lambda system, s: mbd.simulate(system, s, h=0.01, steps=1).at(-1),
    "assemble": lambda system, s: mbd.assemble(system, s)[0],
    "set_joints": lambda system, s: mbd.set_joints(system, s, {"pin": 0.1}),
    "equilibrium": lambda system, s: mbd.equilibrium(system, s).state,
}


@pytest.mark.parametrize("analysis", ANALYSES)
def test_a_state_of_build_and_of_an_analysis_can_be_one_carry(analysis):
    system, state = pendulum()

    def step(state, _):
        state = ANALYSES[analysis](system, state)
        return state, state.r

    # `scan` refuses a carry whose structure, shapes or types change; tracing it is enough to know.
    last, r = jax.eval_shape(lambda s: jax.lax.scan(step, s, None, length=3), state)
    assert r.shape == (3, 1, 3)
    assert jax.tree.structure(last) == jax.tree.structure(state)
