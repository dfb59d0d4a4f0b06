"""Operations with rules of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.xla.custom_rule_call import with_derivative_of


def _known(x, y):
    """x² sin y, once found otherwise and once as the function that it is."""
    value = jnp.exp(2.0 * jnp.log(x)) * jnp.sin(y)
    return with_derivative_of(lambda x, y: jnp.sum(x**2) * jnp.sin(y), value, x, y)


def test_a_known_value_has_the_derivatives_of_its_function():
    x, y = jnp.asarray(1.3), jnp.asarray(0.4)
    assert float(_known(x, y)) == pytest.approx(1.3**2 * np.sin(0.4), rel=1e-14)
    exact = {
        (0,): 2 * 1.3 * np.sin(0.4),
        (1,): 1.3**2 * np.cos(0.4),
        (0, 0): 2 * np.sin(0.4),
        (0, 1): 2 * 1.3 * np.cos(0.4),
        (1, 1): -(1.3**2) * np.sin(0.4),
        (1, 1, 0): -2 * 1.3 * np.sin(0.4),
    }
    for by, value in exact.items():
        for ways in (jax.grad, jax.jacfwd):
            derivative = _known
            for k in by:
                derivative = ways(derivative, argnums=k)
            assert float(jax.jit(derivative)(x, y)) == pytest.approx(value, rel=1e-14)


def test_a_known_value_and_its_function_are_traced_only_where_they_are_asked_for():
    traced = []

    def function(x):
        traced.append("function")
        return x**2

    def run(x):
        return with_derivative_of(function, x * x, x)

    assert float(jax.jit(run)(jnp.asarray(3.0))) == 9.0
    assert traced == []
    batch = jax.jit(jax.vmap(jax.grad(run)))(jnp.arange(3.0))
    np.testing.assert_array_equal(batch, [0.0, 2.0, 4.0])
    assert len(traced) >= 1
