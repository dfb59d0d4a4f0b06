"""Parts and sums at places that are known, against NumPy and JAX's own indexing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.xla.indexing import sums_at, take_or_zero

PLACES = np.array([0, 2, 2, 9, -1, 1, 0])
PARTS = np.array([[0, 7, 2], [6, 6, 7]])  # of seven; the eighth is zero


def jax_parts(x):
    return jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]))])[PARTS]


def jax_sums(x):
    inside = np.where((PLACES >= 0) & (PLACES < 4), PLACES, 4)
    return jnp.zeros((5, *x.shape[1:])).at[inside].add(x)[:4]


BOTH = {
    "parts": (lambda x: take_or_zero(x, PARTS), jax_parts),
    "sums": (lambda x: sums_at(x, PLACES, 4), jax_sums),
}


@pytest.mark.parametrize(
    ("values", "count", "scatters"), [(0, 3, False), (40, 5, False), (40, 900, True), (1, 1, False)]
)
def test_sums_at_places_are_those_of_adding_one_by_one(values, count, scatters):
    rng = np.random.default_rng(values)
    x, index = rng.normal(size=(values, 2)), rng.integers(-1, count + 2, values)
    inside = (index >= 0) & (index < count)
    wanted = np.zeros((count, 2))
    np.add.at(wanted, index[inside], x[inside])
    np.testing.assert_allclose(sums_at(x, index, count), wanted, rtol=1e-14, atol=1e-15)
    program = jax.jit(lambda x: sums_at(x, index, count)).lower(x).as_text()
    assert ("scatter" in program) == scatters


@pytest.mark.parametrize("of", BOTH)
def test_derivatives_of_any_order_are_those_of_jax(of):
    ours, theirs = BOTH[of]
    rng = np.random.default_rng(1)
    x = jnp.array(rng.normal(size=(7, 3)))
    np.testing.assert_allclose(jax.jit(ours)(x), theirs(x), rtol=1e-15)
    for way in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(way(ours)(x), jax.jacfwd(theirs)(x), rtol=1e-15)

    def energy(function):
        return lambda x: jnp.sum(jnp.sin(function(x**2)))

    wanted = jax.hessian(energy(theirs))(x)
    np.testing.assert_allclose(jax.hessian(energy(ours))(x), wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("of", BOTH)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_batches_along_any_axis_are_those_of_jax(of, at):
    ours, theirs = BOTH[of]
    x = jnp.array(np.random.default_rng(at).normal(size=(5, 7, 3)))
    x = jnp.moveaxis(x, 0, at)

    def both(function):
        batch = jax.vmap(function, at, at)
        return batch(x), jax.grad(lambda x: jnp.sum(jnp.sin(batch(x))))(x)

    for a, b in zip(both(ours), both(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


def test_the_transpose_of_parts_is_no_scatter():
    x = jnp.ones((7, 3))
    program = jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(take_or_zero(x, PARTS))))).lower(x)
    assert "scatter" not in program.as_text()
