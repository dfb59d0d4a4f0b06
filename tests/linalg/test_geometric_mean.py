import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.linalg.geometric_mean import geometric_mean


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 5, 20, 307])
def test_it_is_the_exponential_of_the_mean_logarithm_over_all_orders_of_magnitude(dtype, n):
    eps = float(np.finfo(dtype).eps)
    # As many of the smallest that count as there may be, which is where products could underflow.
    x = np.full(n, 1.5 * eps, dtype)
    x[-1] = 1.0
    for factor in (1e-20, 1.0, 1e20):
        scaled = jnp.asarray(x * np.asarray(factor, dtype))
        expected = np.exp(np.mean(np.log(np.asarray(scaled, float))))
        np.testing.assert_allclose(geometric_mean(scaled), expected, rtol=100 * eps)


def test_numbers_below_rounding_count_as_rounding_and_zeros_alone_give_zero():
    x = jnp.array([2.0, 0.0, 1e-30])
    eps = float(jnp.finfo(x.dtype).eps)
    np.testing.assert_allclose(geometric_mean(x), 2.0 * eps ** (2 / 3), rtol=1e-12)
    assert geometric_mean(jnp.zeros(4)) == 0.0


def test_its_derivative_is_the_mean_over_n_times_each_number():
    x = jnp.array([0.5, 3.0, 7.0, 2.0])
    gradient = jax.grad(geometric_mean)(x)
    np.testing.assert_allclose(gradient, geometric_mean(x) / (4 * x), rtol=1e-12)
