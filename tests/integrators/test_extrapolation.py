"""Steps that start from what earlier ones extrapolate to: fewer iterations, the same motion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.equations.past import UNKNOWN, Past, anyone

METHOD = mbd.GeneralizedAlpha()
LAST = mbd.GeneralizedAlpha(newton=mbd.Newton(extrapolate=False))


def size(x):
    return jnp.max(jnp.abs(x))


def past_of(solutions, scale=1e-6, contraction=jnp.nan, observe=False):
    """What a run of these solutions leaves behind, and the last of them."""
    scale = jnp.asarray(scale)
    past = Past.none(jnp.zeros((1, 2)), jnp.zeros(1)).valid(scale, False)
    last = solutions[0]
    for new in solutions[1:]:
        past = past.valid(scale, False)
        past = past.after(last, past.guess(last), new, size, jnp.asarray(contraction), observe)
        last = new
    return past, last


def test_parabolas_are_extrapolated_without_error():
    t = jnp.arange(6.0)[:, None]
    x = 3.0 - 2.0 * t + 0.5 * t**2 * jnp.array([[1.0, 2.0, -1.0]])
    past, last = past_of(list(x[:5]))
    np.testing.assert_allclose(past.guess(last), x[5], rtol=1e-14)


def test_after_a_jump_and_after_a_change_of_step_or_chart_the_guess_is_the_last_solution():
    t = jnp.arange(6.0)[:, None] * jnp.ones((1, 3))
    past, last = past_of([*t[:5], t[5] + 100.0])
    np.testing.assert_array_equal(past.guess(last), last)
    past, last = past_of(list(t))
    assert size(past.guess(last) - last) > 0.5
    for changed in (past.valid(jnp.asarray(2e-6), False), past.valid(past.scale, True)):
        np.testing.assert_array_equal(changed.guess(last), last)
        assert float(changed.trusted()[0]) == UNKNOWN


def test_the_contraction_is_observed_again_by_a_whole_batch_at_once():
    x = [jnp.full(3, float(k)) for k in range(12)]
    fresh, old = past_of(x[:3], contraction=1e-6), past_of([*x, *x], contraction=1e-6)
    assert float(fresh[0].trusted()[0]) < 1e-2
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), fresh[0], old[0])
    assumed, observe = jax.vmap(Past.trusted)(both)
    assert np.all(np.asarray(observe))
    np.testing.assert_array_equal(assumed, UNKNOWN)
    flags = jnp.array([[False, True], [False, False]])
    assert np.all(np.asarray(jax.vmap(jax.vmap(anyone))(flags)))


@pytest.mark.parametrize("model", ["double_pendulum", "slider_crank"])
def test_most_steps_take_one_iteration_and_none_changes_beyond_the_tolerance(model):
    system, state = mbd.load(model)
    options = {"h": 1e-3, "steps": 200}
    new = mbd.simulate(system, state, integrator=METHOD, **options)
    old = mbd.simulate(system, state, integrator=LAST, **options)
    assert float(jnp.mean(new.iterations[1:])) < 1.35 < 1.9 < float(jnp.mean(old.iterations[1:]))
    # A step may err by the tolerance, eps^0.75 of the length; two hundred steps add up.
    tolerance = 200 * float(jnp.finfo(float).eps) ** 0.75 * float(system.length)
    np.testing.assert_allclose(new.r, old.r, atol=tolerance)
    assert float(jnp.max(jnp.abs(new.violation(system).position))) < tolerance / 200
