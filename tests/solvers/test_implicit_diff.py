"""Roots as functions of their data: every order of modes, within loops, checkpoints and batches."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.solvers import AbstractRootProblem, implicit_root
from jaxmbd.xla.batch_last import batched_in_lanes
from jaxmbd.xla.checkpoint import checkpointed, save_roots, saved
from jaxmbd.xla.jaxprs import LINEAR, OPAQUE
from jaxmbd.xla.options import options


class _Factors(eqx.Module):
    slope: Any

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


def _steps(c, checkpoint):
    """Three roots, each of the last."""

    def step(b, _):
        x, _ = implicit_root(_Cubic(), jnp.zeros(1), (c, b))
        return x, x

    return jax.lax.scan(checkpoint(step), jnp.ones(1), None, length=3)[0][0]


def _by_jax(step):
    return jax.checkpoint(step, policy=save_roots, prevent_cse=False)


def _run(c):
    return _steps(c, _by_jax)


def _parts(c):
    return _steps(c, checkpointed)


def _lanes(c):
    return batched_in_lanes(lambda c: _steps(c, checkpointed), c)


RUNS = {"checkpoint": _run, "parts": _parts, "lanes": _lanes}


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


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_are_those_of_the_root(order, run):
    derivative = ORDERS[order]
    c = jnp.array(1.3)
    expected = jax.jit(derivative(_closed))(c)
    np.testing.assert_allclose(jax.jit(derivative(run))(c), expected, rtol=1e-12)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize(
    "order", ["forward", "reverse", "forward over reverse", "reverse over forward"]
)
def test_batches_and_derivatives_may_be_nested_either_way(order, run):
    batch = jnp.array([0.7, 1.3, 2.1])
    expected = jax.vmap(ORDERS[order](_closed))(batch)
    inside = jax.jit(jax.vmap(ORDERS[order](run)))(batch)
    outside = jax.jit(lambda c: ORDERS[order](lambda s: jnp.sum(jax.vmap(run)(c + s)))(0.0))
    np.testing.assert_allclose(inside, expected, rtol=1e-12)
    np.testing.assert_allclose(outside(batch), jnp.sum(expected), rtol=1e-12)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_what_does_not_vary_has_no_derivatives(run):
    fixed = jax.jit(lambda c: jax.jvp(lambda c: run(jax.lax.stop_gradient(c)), (c,), (1.0,)))
    value, dot = fixed(jnp.array(1.3))
    assert dot == 0.0
    np.testing.assert_allclose(value, _closed(jnp.array(1.3)), rtol=1e-14)


def _mixed(c, checkpoint):
    """A step with whole numbers, flags, numbers kept beside roots, roots inside a call, and an
    argument without a part in the derivative.
    """
    table = jnp.array([0.3, -0.2, 0.5])

    def step(carry, k):
        b, count, fine, idle = carry
        factor = saved(jnp.sin(c) * (1.0 + b))
        x, _ = jax.jit(lambda a, b: implicit_root(_Cubic(), jnp.zeros(1), (a, b)))(c, factor)
        fine = fine & saved(x[0] > 0.0)
        y, _ = implicit_root(_Cubic(), jnp.zeros(1), (c + x[0], jnp.where(fine, x, b)))
        return (y + table[k], count + 1, fine, 2.0 * idle), (x, count)

    start = jnp.ones(1), jnp.zeros((), int), jnp.ones((), bool), jnp.ones(2)
    (b, count, fine, idle), (xs, _) = jax.lax.scan(checkpoint(step), start, jnp.arange(3))
    return b[0] + jnp.sum(xs) * count.astype(float) + jnp.where(fine, idle[0], 0.0)


@pytest.mark.parametrize("order", ["forward", "reverse", "forward over reverse"])
def test_steps_of_every_kind_of_number_are_those_of_a_plain_checkpoint(order):
    c = jnp.array(1.3)
    expected = jax.jit(ORDERS[order](lambda c: _mixed(c, _by_jax)))(c)
    found = jax.jit(ORDERS[order](lambda c: _mixed(c, checkpointed)))(c)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    value = jax.jit(lambda c: _mixed(c, checkpointed))(c)
    np.testing.assert_allclose(value, _mixed(c, lambda step: step), rtol=1e-14)


def test_roots_in_branches_are_left_to_jax():
    def run(c, checkpoint):
        def step(b, k):
            x = jax.lax.cond(
                k > 0,
                lambda b: implicit_root(_Cubic(), jnp.zeros(1), (c, b))[0],
                lambda b: c * b,
                b,
            )
            return x, x

        return jax.lax.scan(checkpoint(step), jnp.ones(1), jnp.arange(3))[0][0]

    c = jnp.array(1.3)
    expected = jax.grad(lambda c: run(c, _by_jax))(c)
    np.testing.assert_allclose(jax.grad(lambda c: run(c, checkpointed))(c), expected, rtol=1e-12)


def test_a_step_keeps_one_array_of_each_type_for_the_backward_pass():
    """And of those arguments alone on which derivatives depend."""
    with options(plain=False):  # whatever the environment says
        jaxpr = jax.make_jaxpr(jax.grad(lambda c: _mixed(c, checkpointed)))(jnp.array(1.3)).jaxpr
    forward, backward = [e for e in _equations(jaxpr) if e.primitive.name == "scan"]
    inside = list(_equations(backward.params["jaxpr"].jaxpr))
    assert not any(e.primitive.name == LINEAR for e in inside)  # nothing is left to transpose
    assert not any(_is_root(e) for e in inside)
    assert any(_is_root(e) for e in _equations(forward.params["jaxpr"].jaxpr))
    kept = [v.aval for v in forward.outvars if v.aval.shape[:1] == (3,)]
    # Beside b, which varies, and the roots: not what is idle, nor the rows of the run.
    numbers = [a for a in kept if a.dtype == jnp.float64 and a.ndim == 2 and a.shape[1] > 1]
    assert [a.shape for a in numbers] == [(3, 4)]


class _Counted(_Cubic):
    """Of whose factors there is an operation of a kind that stands nowhere else."""

    def factors(self, x, args):
        return _Factors(jnp.cbrt(3 * x**2 + args[0]) ** 3)


@pytest.mark.parametrize("checkpoint", [_by_jax, checkpointed])
def test_a_second_derivative_solves_by_the_factors_of_the_first(checkpoint):
    def run(c):
        def step(b, _):
            x, _ = implicit_root(_Counted(), jnp.zeros(1), (c, b))
            return x, None

        return jax.lax.scan(checkpoint(step), jnp.ones(1), None, length=3)[0][0]

    c = jnp.array(1.3)
    found = jax.jit(_hessian_product(run))(c)
    np.testing.assert_allclose(found, jax.jit(_hessian_product(_closed))(c), rtol=1e-12)
    jaxpr = jax.make_jaxpr(_hessian_product(run))(c).jaxpr
    scans = [e for e in _equations(jaxpr) if e.primitive.name == "scan"]
    factored = [
        sum(e.primitive.name == "cbrt" for e in _equations(s.params["jaxpr"].jaxpr)) for s in scans
    ]
    # Tangents of roots in the forward pass, what transposed solves give in the backward pass.
    assert factored == [1, 1]


def _is_root(equation):
    return equation.primitive.name == OPAQUE and any(
        e.primitive.name == "name" for e in equation.params["jaxpr"].jaxpr.eqns
    )


def _equations(jaxpr):
    for e in jaxpr.eqns:
        yield e
        for x in jax.tree.leaves(list(e.params.values())):
            inner = getattr(x, "jaxpr", x)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)
