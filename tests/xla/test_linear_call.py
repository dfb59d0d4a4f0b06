"""Linear functions with a transpose of their own: every mode, batches, zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.xla.linear_call import linear

A = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
X = np.linspace(0.5, 1.5, 4)


def _apply(others, args):
    (a,), (x, y) = others, args
    return [jnp.sin(a) @ x + jnp.sum(y) * a[:, 0], a @ x]


def _pull(others, cts):
    (a,), (first, second) = others, cts
    first = jnp.zeros(3) if first is None else first
    second = jnp.zeros(3) if second is None else second
    return [jnp.sin(a).T @ first + a.T @ second, jnp.full(2, first @ a[:, 0])]


def _own(a, x):
    return linear(_apply, _pull, [a], [x, 2.0 * x[:2]])


def _plain(a, x):
    return _apply([a], [x, 2.0 * x[:2]])


def _sum(f):
    return lambda a, x: jnp.sum(jnp.stack(f(a, x)) ** 2)


DERIVATIVES = {
    "value": lambda f: f,
    "forward": lambda f: jax.jacfwd(f, (0, 1)),
    "reverse": lambda f: jax.jacrev(f, (0, 1)),
    "one output": lambda f: jax.grad(lambda a, x: jnp.sum(f(a, x)[1] ** 2), (0, 1)),
    "hessian": lambda f: jax.hessian(_sum(f), (0, 1)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(_sum(f), 1), 0),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_those_of_the_function(name):
    derivative = DERIVATIVES[name]
    for own, plain in zip(
        jax.tree.leaves(jax.jit(derivative(_own))(A, X)),
        jax.tree.leaves(derivative(_plain)(A, X)),
        strict=True,
    ):
        np.testing.assert_allclose(own, plain, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("name", ["value", "forward", "reverse", "one output"])
def test_batches(name, axes):
    scale = np.array([1.0, 2.0, 3.0])
    args = [
        x if axis is None else scale.reshape(3, *[1] * x.ndim) * x
        for x, axis in zip((A, X), axes, strict=True)
    ]
    found, wanted = (jax.vmap(DERIVATIVES[name](f), in_axes=axes)(*args) for f in (_own, _plain))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found, wanted)


def test_the_transpose_is_the_one_that_is_given():
    def twice(others, cts):
        return [2.0 * x for x in _pull(others, cts)]

    gradient = jax.grad(lambda x: linear(_apply, twice, [A], [x, jnp.ones(2)])[1] @ jnp.ones(3))(X)
    np.testing.assert_allclose(gradient, 2.0 * A.sum(axis=0))
