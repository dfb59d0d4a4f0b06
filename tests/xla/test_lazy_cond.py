"""Work where it is needed: the numbers, and that it is not done where nobody needs it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.xla.lazy_cond import where_needed


def _function(x, flag):
    return where_needed(
        flag,
        lambda: jax.lax.fori_loop(0, 7, lambda _, y: jnp.cos(y) * x, x),
        -x,
    )


@pytest.mark.parametrize("flags", [(True, False), (False, False), (True, True)])
def test_members_get_what_they_need(flags):
    x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    found = jax.jit(jax.vmap(_function))(x, jnp.array(flags))
    wanted = x
    for _ in range(7):
        wanted = jnp.cos(wanted) * x
    np.testing.assert_allclose(found, jnp.where(jnp.array(flags)[:, None], wanted, -x), rtol=1e-14)


@pytest.mark.parametrize("batch", [False, True])
def test_the_work_stays_inside_the_loop(batch):
    """XLA takes out of loops what is the same in every turn, other loops included."""
    x, flag = (
        (jnp.ones((2, 3)), jnp.zeros(2, bool)) if batch else (jnp.ones(3), jnp.zeros((), bool))
    )
    function = jax.vmap(_function) if batch else _function
    text = jax.jit(function).lower(x, flag).compile().as_text()
    # As one of two loops of the main program, the work would be done in any case.
    inside = [body for body in text.split("\n\n") if body.count(" while(") == 2]
    assert text.count(" while(") == 2 and not inside
