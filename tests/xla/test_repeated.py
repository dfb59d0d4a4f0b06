"""Loops that are differentiated through the turns that they took."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.xla.repeated import repeated


def by_loop(a, x, turns, count=None):
    """Some turns of x -> sin(a x) + x/2."""

    def body(carry, found, known):
        y, left = carry
        if count is not None:
            jax.debug.callback(lambda known: count.append(not bool(known)), known)
        value = jnp.sin(a * y)
        return (jnp.where(known, value, value) + 0.5 * y, left - 1), value

    return repeated(body, (x, turns), x, lambda carry: carry[1] > 0, 6)[0]


def by_hand(a, x, turns):
    for _ in range(turns):
        x = jnp.sin(a * x) + 0.5 * x
    return x


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_values_and_derivatives_are_those_of_the_turns(turns):
    a, x = jnp.asarray(0.7), jnp.asarray(1.3)
    for derivative in (jax.value_and_grad, jax.jacfwd):
        found = jax.jit(derivative(by_loop, (0, 1)))(a, x, jnp.asarray(turns))
        wanted = derivative(by_hand, (0, 1))(a, x, turns)
        np.testing.assert_allclose(jax.tree.leaves(found), jax.tree.leaves(wanted), rtol=1e-13)
    found = jax.jacfwd(jax.grad(by_loop))(a, x, jnp.asarray(turns))
    np.testing.assert_allclose(found, jax.hessian(by_hand)(a, x, turns), rtol=1e-12)


def test_a_batch_takes_the_turns_of_each_element():
    x, turns = jnp.array([0.3, 1.3, -0.4]), jnp.array([3, 0, 2])
    a = jnp.asarray(0.7)
    found = jax.vmap(jax.value_and_grad(by_loop, (0, 1)), (None, 0, 0))(a, x, turns)
    each = [
        jax.value_and_grad(by_hand, (0, 1))(a, y, int(n)) for y, n in zip(x, turns, strict=True)
    ]
    wanted = jax.tree.map(lambda *xs: jnp.stack(xs), *each)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-13)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-13)


@pytest.mark.parametrize(("turns", "solves"), [(1, 1), (3, 5)])
def test_the_last_turn_is_not_found_again(turns, solves):
    """On the way back a turn is computed from what it found; all but the last are found twice."""
    count = []
    jax.grad(lambda x: by_loop(0.7, x, jnp.asarray(turns), count))(jnp.asarray(1.3))
    jax.effects_barrier()
    assert sum(count) == solves
