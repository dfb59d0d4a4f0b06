"""Roots as functions of their data: every order of modes, within loops, checkpoints and batches."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.roots import AbstractRootProblem, implicit_root, save_roots


class _Factors:
    def __init__(self, slope):
        self.slope = slope

    def solve_unregularized(self, b, *, transpose):
        return b / self.slope


class _Cubic(AbstractRootProblem):
    """x³ + c x = b for positive c, by bisection: its loop has derivatives, all of them wrong."""

    exact_factors: ClassVar[bool] = True

    def residual(self, x, args):
        c, b = args
        return x**3 + c * x - b

    def factors(self, x, args):
        return _Factors(3 * x**2 + args[0])

    def solve(self, guess, args):
        def halve(state):
            low, high = state
            middle = 0.5 * (low + high)
            below = self.residual(middle, args) < 0
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = jax.lax.while_loop(
            lambda s: jnp.any(s[1] - s[0] > 1e-15), halve, (guess - 2.0, guess + 2.0)
        )
        return 0.5 * (low + high), jnp.zeros((), int)


def _run(c):
    """Three roots, each of the last."""

    def step(b, _):
        x, _ = implicit_root(_Cubic(), jnp.zeros(1), (c, b))
        return x, x

    step = jax.checkpoint(step, policy=save_roots, prevent_cse=False)
    return jax.lax.scan(step, jnp.ones(1), None, length=3)[0][0]


def _closed(c):
    """The same by Cardano's formula."""
    b = jnp.ones(())
    for _ in range(3):
        root = jnp.sqrt(b**2 / 4 + c**3 / 27)
        b = jnp.cbrt(b / 2 + root) + jnp.cbrt(b / 2 - root)
    return b


def _hessian_product(f):
    return lambda c: jax.jvp(jax.grad(f), (c,), (1.0,))[1]


ORDERS = {
    "forward": lambda f: lambda c: jax.jvp(f, (c,), (1.0,))[1],
    "reverse": jax.grad,
    "forward over reverse": _hessian_product,
    "reverse over forward": lambda f: jax.grad(lambda c: jax.jvp(f, (c,), (1.0,))[1]),
    "reverse over reverse": lambda f: jax.grad(jax.grad(f)),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "three": lambda f: _hessian_product(jax.grad(f)),
}


@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_are_those_of_the_root(order):
    derivative = ORDERS[order]
    c = jnp.array(1.3)
    expected = jax.jit(derivative(_closed))(c)
    np.testing.assert_allclose(jax.jit(derivative(_run))(c), expected, rtol=1e-12)


@pytest.mark.parametrize("order", ["forward over reverse", "reverse over forward"])
def test_batches_and_derivatives_may_be_nested_either_way(order):
    batch = jnp.array([0.7, 1.3, 2.1])
    expected = jax.vmap(ORDERS[order](_closed))(batch)
    inside = jax.jit(jax.vmap(ORDERS[order](_run)))(batch)
    outside = jax.jit(lambda c: ORDERS[order](lambda s: jnp.sum(jax.vmap(_run)(c + s)))(0.0))
    np.testing.assert_allclose(inside, expected, rtol=1e-12)
    np.testing.assert_allclose(outside(batch), jnp.sum(expected), rtol=1e-12)


def test_what_does_not_vary_has_no_derivatives():
    fixed = jax.jit(lambda c: jax.jvp(lambda c: _run(jax.lax.stop_gradient(c)), (c,), (1.0,)))
    value, dot = fixed(jnp.array(1.3))
    assert dot == 0.0
    np.testing.assert_allclose(value, _closed(jnp.array(1.3)), rtol=1e-14)
