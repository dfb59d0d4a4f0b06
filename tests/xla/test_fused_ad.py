"""Functions as parts: every order of derivatives, batches, outputs that have none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.xla.fused_ad import as_part
from jaxmbd.xla.jaxprs import LINEAR, OPAQUE

A = np.array([[2.0, 0.3, -0.1], [0.2, 1.5, 0.4], [-0.3, 0.1, 1.8]])
X = np.array([0.5, -0.7, 1.1])


def _function(matrix, pair):
    x, rest = pair
    y = jax.scipy.linalg.solve(matrix, jnp.sin(x))
    turned = jax.lax.fori_loop(0, 3, lambda _, y: jnp.tanh(matrix @ y), y)
    return [y * rest["scale"], jnp.sum(x > 0.0), turned @ y]


def _args(a, x):
    return a, (x, {"scale": x[0] ** 2, "none": None})


def _part(a, x):
    return as_part(_function, *_args(a, x))


def _plain(a, x):
    return _function(*_args(a, x))


def _sum(f):
    def total(a, x):
        first, count, last = f(a, x)
        return jnp.sum(first**3) + count.astype(float) * last

    return total


def _product(f, argnum):
    dot = [jnp.ones_like(A), jnp.ones_like(X)][argnum]
    return lambda *args: jax.jvp(
        lambda y: f(*args[:argnum], y, *args[argnum + 1 :]), (args[argnum],), (dot,)
    )[1]


DERIVATIVES = {
    "value": lambda f: f,
    "forward": lambda f: jax.jacfwd(f, (0, 1)),
    "reverse": lambda f: jax.grad(f, (0, 1)),
    "forward over reverse": lambda f: jax.hessian(f, (0, 1)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f, 1), 0),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f, 1), 0),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f, 1), 0),
    "three": lambda f: _product(jax.hessian(f, 1), 0),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_those_of_the_function(name):
    found, wanted = (jax.jit(DERIVATIVES[name](_sum(f)))(A, X) for f in (_part, _plain))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), found, wanted
    )


@pytest.mark.parametrize("name", ["value", "forward", "reverse", "forward over reverse"])
@pytest.mark.parametrize("axes", [(0, 0), (None, 0)])
def test_batches(name, axes):
    scale = np.array([1.0, 1.1, 1.3])
    args = (A if axes[0] is None else scale[:, None, None] * A), scale[:, None] * X
    found, wanted = (
        jax.jit(jax.vmap(DERIVATIVES[name](_sum(f)), in_axes=axes))(*args) for f in (_part, _plain)
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), found, wanted
    )


def test_what_no_tangent_reaches_has_none():
    out, dots = jax.jvp(lambda k: as_part(lambda k: [k + 1], k), (2,), (np.zeros((), jax.float0),))
    assert out[0] == 3 and dots[0].dtype == jax.float0


def test_the_derivative_is_a_part_for_the_value_and_one_for_the_tangents():
    def names(f):
        return [e.primitive.name for e in jax.make_jaxpr(f)(A, X).jaxpr.eqns]

    def part(a, x):
        return as_part(_function, a, (x, {"scale": jnp.ones(())}))

    assert names(part) == [OPAQUE]
    first = _product(part, 0)
    assert [name for name in names(first) if name in (OPAQUE, LINEAR)] == [OPAQUE, LINEAR]
    # Of the second derivative: the value and what two derivatives need, and three linear parts.
    assert not {"sin", "tanh", "while", "scan"} & set(names(_product(first, 0)))
