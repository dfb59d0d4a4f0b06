"""Replaying a function with the batch axis last: the numbers are those of plain `vmap`."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmbd.xla import batch_last as lanes
from jaxmbd.xla.batch_last import in_lanes
from jaxmbd.xla.dependence import reached
from jaxmbd.xla.jaxprs import KERNEL

X = np.random.default_rng(0).normal(size=(5, 4, 3))
INDEX = np.array([2, 0, 0, 3])


def newton_root(x):
    """Members need different numbers of iterations."""

    def body(carry):
        y, k = carry
        return y - (y**2 - x**2) / (2.0 * y), k + 1

    return lax.while_loop(
        lambda c: jnp.abs(c[0] ** 2 - x**2) > 1e-9, body, (jnp.ones_like(x) + x**2, 0)
    )


def running_sums(x):
    """A carry that is the batch's only from the second pass on, and a sequence."""

    def body(carry, row):
        total, last, k = carry
        return (total + last, row, k + 1), (total * k.astype(float), k)

    return lax.scan(body, (jnp.zeros(3), jnp.zeros(3), jnp.zeros((), int)), x)


@jax.custom_vjp
def wave(x):
    return jnp.sin(x)


wave.defvjp(lambda x: (jnp.sin(x), x), lambda x, bar: (bar * jnp.cos(x),))


@jax.custom_jvp
def other_wave(x):
    return jnp.cos(x)


other_wave.defjvp(lambda x, dx: (jnp.cos(x[0]), -jnp.sin(x[0]) * dx[0]))


CASES = {
    "elementwise": lambda x: (
        jnp.where(x > 0.0, jnp.sin(x), x**3) + jnp.arange(3.0)[None] * jnp.clip(x, -1.0, 1.0)
    ),
    "scalar predicate": lambda x: lax.select(x[0, 0] > 0.0, x, -x),
    "shapes": lambda x: jnp.concatenate([x.reshape(3, 4), jnp.ones((1, 4)), x.T], axis=0)[1:5, ::2],
    "stacks": lambda x: (
        jnp.stack([x[0], jnp.ones(3), x[1]], axis=1)[:, None, :] * jnp.ones((1, 2, 1))
    ),
    "parts": lambda x: (
        jnp.split(x, [1, 3]),
        lax.slice(x, (1, 0), (4, 3), (2, 1)),
        lax.squeeze(x[:1, :, None], (0, 2)),
    ),
    "pads": lambda x: (
        jnp.pad(x, ((1, 0), (0, 2)), constant_values=7.0),
        lax.pad(x, x[0, 0], ((1, -1, 2), (0, 0, 1))),
    ),
    "reductions": lambda x: (x.sum(0), x.max(1), jnp.all(x > 0.0), jnp.argmin(x, axis=0), x.mean()),
    "extremes": lambda x: (x.max(), x.min(0), jnp.any(x > 1.0, axis=1), jnp.max(x, initial=0.5)),
    "gather": lambda x: x[INDEX] + x[jnp.array([1, 1, 2, 0]), 1:2],
    "gather by members": lambda x: (
        x[jnp.argsort(x[:, 0])] + jnp.take_along_axis(x, jnp.argsort(x, axis=0), 0)
    ),
    "scatter": lambda x: jnp.zeros((6, 3)).at[INDEX].add(x).at[1].set(x[2]),
    "scatter by members": lambda x: jnp.zeros((4, 3)).at[jnp.argmax(x, axis=0)].add(1.0),
    "dynamic slices": lambda x: (
        lax.dynamic_index_in_dim(x, 1),
        lax.dynamic_index_in_dim(x, jnp.argmax(x[:, 0])),
    ),
    "matrix products": lambda x: x.T @ x @ jnp.arange(9.0).reshape(3, 3) @ x[0],
    "tensor products": lambda x: (
        jnp.einsum("ij,kj,jl->lki", x, x, x[:3]),
        jnp.einsum("ij,ij->i", x, x),
        x[:0].T @ x[:0],
    ),
    "linear systems": lambda x: jnp.linalg.solve(x.T @ x, x[1]),
    "factors": lambda x: jnp.linalg.cholesky(x.T @ x + jnp.eye(3)),
    "branches": lambda x: lax.cond(x[0, 0] > 0.0, jnp.sin, jnp.cos, x),
    "common branch": lambda x: lax.cond(jnp.ones((), bool), jnp.sin, jnp.cos, x),
    "while": lambda x: newton_root(x[0, 0]),
    "common while": lambda x: lax.fori_loop(0, 3, lambda k, y: jnp.roll(y, 1, axis=0) + x, x),
    "scan": running_sums,
    "reverse scan": lambda x: lax.scan(lambda c, row: (c * row, c), jnp.ones(3), x, reverse=True),
    "derivatives": lambda x: jax.jacfwd(lambda y: jnp.sin(y) @ y.T)(x),
    "custom_vjp": lambda x: wave(x) @ x.T,
    "custom_vjp without the batch": lambda x: wave(jnp.arange(3.0))[None] * x,
    "custom_jvp": lambda x: other_wave(x) @ other_wave(jnp.ones(3)),
    "derivatives of custom rules": lambda x: (
        jax.grad(lambda y: wave(y).sum())(x),
        jax.jacfwd(other_wave)(x[0]),
    ),
    "checkpoint": lambda x: (
        jax.checkpoint(lambda y: wave(y) @ y.T)(x) + jax.checkpoint(jnp.sin)(jnp.ones(()))
    ),
    "jit": lambda x: jax.jit(lambda y: jax.jit(wave)(y) @ y.T)(x),
    "callback": lambda x: jax.pure_callback(np.cos, x, x, vmap_method="broadcast_all"),
    "branch without the batch": lambda x: (
        lax.switch(jnp.ones((), int), [jnp.sin, wave], jnp.ones((1, 3))) + x
    ),
    "nested": lambda x: jax.vmap(in_lanes(lambda row: jnp.outer(row, row)))(x),
    "without the batch": lambda x: (jnp.arange(3), jnp.ones(2) @ jnp.ones((2, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_of_vmap(name):
    function = CASES[name]
    expected = jax.vmap(function)(X)
    for batch in (jax.vmap(in_lanes(function)), jax.jit(jax.vmap(in_lanes(function)))):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13),
            batch(X),
            expected,
        )


def test_arguments_without_the_batch_and_batches_of_batches():
    def function(tree):
        return tree["a"] @ tree["b"] + tree["c"]

    tree = {"a": X[0], "b": X, "c": jnp.ones(())}
    axes = ({"a": None, "b": 0, "c": None},)
    wanted = np.einsum("ij,bkj->bik", X[0], X) + 1.0
    turned = tree | {"b": np.swapaxes(X, 1, 2)}
    np.testing.assert_allclose(
        jax.vmap(in_lanes(function), in_axes=axes)(turned), wanted, atol=1e-13
    )
    twice = jax.vmap(jax.vmap(in_lanes(lambda x: x.T @ x)))(X[None] * np.ones((2, 1, 1, 1)))
    np.testing.assert_allclose(
        twice, np.broadcast_to(np.einsum("bki,bkj->bij", X, X), (2, 5, 3, 3)), atol=1e-13
    )


def test_no_array_of_a_batch_has_its_axis_first():
    # What it is for: in the compiled function all work is on arrays whose last axis is the batch's.
    def function(x):
        return lax.fori_loop(0, 3, lambda k, y: jnp.sin(y) @ (y.T @ y) + y[INDEX], x).sum(axis=1)

    jaxpr = jax.make_jaxpr(jax.vmap(in_lanes(function)))(np.ones((7, 4, 3))).jaxpr
    for kernel in [e for e in jaxpr.eqns if e.primitive.name == KERNEL]:
        jaxpr = kernel.params["jaxpr"].jaxpr
    body = next(e for e in jaxpr.eqns if e.primitive.name in ("while", "scan"))
    inner = body.params["body_jaxpr" if body.primitive.name == "while" else "jaxpr"].jaxpr
    shapes = [v.aval.shape for e in inner.eqns for v in e.outvars if 7 in v.aval.shape]
    assert shapes and all(shape[-1] == 7 for shape in shapes)


@pytest.mark.skipif(not lanes._IN_KERNELS, reason="XLA leaves too much out of kernels")
def test_a_batch_is_a_kernel_on_a_cpu():
    def function(x):
        return newton_root(jnp.sin(x[0, 0]) * jnp.cos(x[1, 1]) + 2.0), x @ x.T

    batch = jax.jit(jax.vmap(in_lanes(function))).lower(X).compile()
    assert 'xla_cpu_small_call="true"' in batch.as_text()
    for a, b in zip(batch(X), jax.vmap(function)(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)


@pytest.mark.parametrize("chunk", [7, 100])
def test_batches_as_on_a_gpu_give_the_same(monkeypatch, chunk):
    """Short loops written out, and chunks that differ in size from those on a CPU."""

    def function(x):
        turned = jax.lax.fori_loop(0, 6, lambda k, y: y.at[k % 3].add(jnp.sin(y[(k + 1) % 3])), x)
        return turned, newton_root(x[0])

    xs = np.random.default_rng(2).normal(size=(50, 3))
    expected = jax.jit(jax.vmap(function))(xs)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(lanes, "_GPU_CHUNK", chunk)
    batch = jax.jit(jax.vmap(in_lanes(function))).lower(xs)
    assert batch.as_text().count("stablehlo.while") == (1 if chunk > 50 else 3)
    for a, b in zip(jax.tree.leaves(batch.compile()(xs)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)


def test_a_large_batch_goes_in_chunks():
    many = np.random.default_rng(1).normal(size=(300, 3, 3))
    function = in_lanes(lambda tree: (tree[0] @ tree[1], newton_root(tree[0][0, 0])))
    product, (root, iterations) = jax.jit(jax.vmap(function, in_axes=((0, None),)))(
        (many, X[0][:3])
    )
    np.testing.assert_allclose(product, many @ X[0][:3], atol=1e-13)
    np.testing.assert_allclose(
        root, np.abs(many[:, 0, 0]), atol=1e-4
    )  # |y^2 - x^2| < 1e-9 at the worst at x = 0
    assert iterations.min() < iterations.max()


@pytest.fixture
def broken(monkeypatch):
    """A version of JAX that the replay does not understand."""

    def replay(*_):
        raise KeyError("call_jaxpr")

    monkeypatch.setattr(lanes, "_replay", replay)
    monkeypatch.setattr(lanes, "_warned", False)


@pytest.mark.parametrize("members", [5, 300])
def test_what_cannot_be_replayed_goes_through_vmap_with_one_warning(broken, members):
    many = np.random.default_rng(2).normal(size=(members, 3, 3))

    def function(tree):
        return {"product": tree[0] @ tree[1], "constant": jnp.ones(2)}

    batch = jax.vmap(in_lanes(function), in_axes=((0, None),))
    with pytest.warns(
        UserWarning, match="plain jax.vmap instead.*KeyError: 'call_jaxpr'"
    ) as caught:
        out = batch((many, X[0][:3]))
        jax.jit(lambda x: batch((x, X[0][:3])))(many)
    assert len(caught) == 1
    np.testing.assert_allclose(out["product"], many @ X[0][:3], atol=1e-13)
    np.testing.assert_array_equal(out["constant"], np.ones((members, 2)))


def test_an_error_of_the_function_itself_is_raised_as_it_is():
    def function(x):
        raise ArithmeticError("meant")

    with pytest.raises(ArithmeticError, match="meant"):
        jax.vmap(in_lanes(function))(X)


@pytest.mark.parametrize("members", [5, 300])
def test_the_environment_leaves_it_to_vmap(broken, monkeypatch, members):
    monkeypatch.setenv("JAXMBD_LANES", "0")
    many = np.random.default_rng(3).normal(size=(members, 4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        programs = [
            jax.jit(jax.vmap(f)).lower(many).as_text()
            for f in (in_lanes(CASES["shapes"]), CASES["shapes"])
        ]
    shapes = [
        [line.split("->")[-1] for line in text.splitlines() if "concatenate" in line]
        for text in programs
    ]
    assert shapes[0] and shapes[0] == shapes[1]


def test_the_values_of_a_loop_stay_common_to_a_batch_of_tangents():
    """A call in a derivative returns values beside tangents: only these have the batch axis, or
    matrices would be factored once for each tangent."""
    inner = jax.jit(lambda x: jnp.sin(x) * x)

    def run(x):
        return lax.scan(lambda x, _: (inner(x), None), x, None, length=3)[0]

    program = jax.make_jaxpr(lambda x, dot: jax.jvp(run, (x,), (dot,)))(X, X)
    assert reached(program.jaxpr, [False, True]) == [False, True]
    assert reached(program.jaxpr, [True, False]) == [True, True]
    tangents = np.random.default_rng(1).normal(size=(6, *X.shape))
    pushed = in_lanes(lambda pair: jax.jvp(run, (pair[0],), (pair[1],)))
    value, found = jax.vmap(lambda dot: pushed((X, dot)), out_axes=(None, 0))(tangents)
    np.testing.assert_allclose(value, run(X), rtol=1e-14)
    for dot, own in zip(tangents, found, strict=True):
        np.testing.assert_allclose(own, jax.jvp(run, (X,), (dot,))[1], rtol=1e-12)
