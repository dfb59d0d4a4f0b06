"""The first row of a run with contacts, by a step that is tried: plain runs and programs."""

import jax
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.integrators import moreau


@pytest.mark.parametrize("save_every", [1, 2])
def test_a_users_program_tries_the_same_step_as_a_plain_run(save_every):
    """A block that slides: its first row knows the friction, μ g, and so does the force."""
    m = mbd.Mechanism("sliding")
    cube = mbd.Box((0.2, 0.2, 0.2), mass=2.0)
    block = m.add_body("block", shape=cube, r=(0.0, 0.0, 0.1), v=(1.0, 0.0, 0.0))
    m.add(mbd.Contact("floor", block, m.ground, friction=0.3))
    system, state = m.build()

    def run(state):
        return mbd.simulate(system, state, h=1e-3, steps=4, save_every=save_every)

    inside, plain = jax.jit(run)(state), run(state)
    assert inside.t.shape == plain.t.shape and inside.r.shape == plain.r.shape
    for name in ("r", "v", "a", "lam"):
        np.testing.assert_allclose(getattr(inside, name), getattr(plain, name), atol=1e-9)
    for name, expected in plain.stats.items():
        # How four corners share a load is not unique, and found to the root of rounding.
        corners = 1e-5 if name == "law_forces" else 1e-9
        np.testing.assert_allclose(inside.stats[name], expected, rtol=corners, atol=corners)
    np.testing.assert_allclose(inside.r[0], state.r, atol=1e-15)
    # The first two rows are means over one and the same step.
    np.testing.assert_allclose(inside.a[0, 0], [-0.3 * 9.81, 0.0, 0.0], atol=1e-8)
    assert int(inside.stats["completed_steps"]) == 4
    assert int(inside.iterations[0]) == 0


def test_one_step_is_tried_however_many_a_row_has(monkeypatch):
    counted = []

    def planned(*args, **kwargs):
        jax.debug.callback(lambda: counted.append(1))
        return real(*args, **kwargs)

    real = moreau.planned
    monkeypatch.setattr(moreau, "planned", planned)
    m = mbd.Mechanism("falling")
    ball = m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0.0, 0.0, 100.0))
    m.add(mbd.Contact("floor", ball, m.ground))
    system, state = m.build()
    run = jax.jit(lambda state: mbd.simulate(system, state, h=1e-3, steps=6, save_every=6).r)
    jax.block_until_ready(run(state))
    jax.effects_barrier()
    assert len(counted) == 6 + 1
