"""Small operations as one compiled function: every operation that goes into one, what stays
outside, derivatives, batches.
"""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmbd as mbd
from jaxmbd.xla import cpu_fusion as kernels
from jaxmbd.xla import options, versions
from jaxmbd.xla.batch_last import in_lanes
from jaxmbd.xla.checkpoint import checkpointed
from jaxmbd.xla.cpu_fusion import left_apart, one_kernel
from jaxmbd.xla.indexing import take
from jaxmbd.xla.jaxprs import JAXLIB

X = np.linspace(0.1, 0.9, 12).reshape(3, 4)
MARK = 'xla_cpu_small_call="true"'


@jax.custom_vjp
def _custom_vjp(x):
    return jnp.sin(x) * 2.0


_custom_vjp.defvjp(lambda x: (_custom_vjp(x), x), lambda x, g: (2.0 * jnp.cos(x) * g,))

# Each is a function of a matrix in (0, 1) and uses the operation that it is named after.
OPERATIONS = {
    "abs": jnp.abs,
    "acos": jnp.arccos,
    "add": lambda x: x + 1.0,
    "and": lambda x: (x > 0.3) & (x < 0.5),
    "asin": jnp.arcsin,
    "atan": jnp.arctan,
    "atan2": lambda x: jnp.arctan2(x, 1.0 - x),
    "broadcast_in_dim": lambda x: x[:, None, :] + x[None, :3, :],
    "cbrt": jnp.cbrt,
    "ceil": lambda x: jnp.ceil(3.0 * x),
    "clamp": lambda x: jnp.clip(x, 0.2, 0.4),
    "concatenate": lambda x: jnp.concatenate([x, 2.0 * x]),
    "convert_element_type": lambda x: (7.0 * x).astype(jnp.int32),
    "cos": jnp.cos,
    "cosh": jnp.cosh,
    "div": lambda x: 1.0 / x,
    "dot_general": lambda x: x @ x[:3].T,
    "dynamic_slice": lambda x: lax.dynamic_slice(x, [x.astype(int)[0, 0], 1], [2, 2]),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(
        x, x[:1, :1], [x.astype(int)[0, 0], 1]
    ),
    "eq": lambda x: x == x[0, 0],
    "erf": jax.scipy.special.erf,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "floor": lambda x: jnp.floor(5.0 * x),
    "gather": lambda x: x[np.array([2, 0, 2])],
    "integer_pow": lambda x: x**3,
    "iota": lambda x: x + lax.broadcasted_iota(x.dtype, x.shape, 1),
    "is_finite": lambda x: jnp.isfinite(jnp.log(x - 0.1)),
    "log": jnp.log,
    "log1p": jnp.log1p,
    "logistic": jax.nn.sigmoid,
    "max": lambda x: jnp.maximum(x, 0.3),
    "min": lambda x: jnp.minimum(x, 0.3),
    "neg": lambda x: -x,
    "nextafter": lambda x: jnp.nextafter(x, 2.0 * x),
    "not": lambda x: ~(x > 0.3),
    "or": lambda x: (x > 0.5) | (x < 0.3),
    "pad": lambda x: jnp.pad(x, 1),
    "pow": lambda x: x**x,
    "reduce_and": lambda x: jnp.all(x > 0.3, axis=0),
    "reduce_max": lambda x: jnp.max(x, axis=0),
    "reduce_min": lambda x: jnp.min(x, axis=1),
    "reduce_or": lambda x: jnp.any(x > 0.8, axis=0),
    "reduce_prod": jnp.prod,
    "reduce_sum": lambda x: jnp.sum(x, axis=1),
    "rem": lambda x: x % 0.3,
    "reshape": lambda x: x.reshape(-1, 6) + 1.0,
    "rev": lambda x: x[::-1],
    "round": lambda x: jnp.round(5.0 * x),
    "rsqrt": lax.rsqrt,
    "scatter": lambda x: x.at[1].set(0.0),
    "scatter-add": lambda x: x.at[:, :2].add(x[:, 1:3]),
    "select_n": lambda x: jnp.where(x > 0.3, x, 0.0),
    "sign": lambda x: jnp.sign(x - 0.4),
    "sin": jnp.sin,
    "sinh": jnp.sinh,
    "split": lambda x: jnp.split(x, 2, axis=1)[1],
    "sqrt": jnp.sqrt,
    "square": jnp.square,
    "stack": lambda x: jnp.stack([x, x + 1.0]),
    "tan": jnp.tan,
    "tanh": jnp.tanh,
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "transpose": lambda x: x.T + 1.0,
    "unstack": lambda x: [row + 1.0 for row in x[:3]],
    "xor": lambda x: (x > 0.5) ^ (x < 0.3),
    "while": lambda x: lax.while_loop(lambda y: jnp.sum(y) < 40.0, lambda y: 1.5 * y, x),
    "scan": lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x),
    "cond": lambda x: lax.cond(x[0, 0] < 0.5, jnp.sin, jnp.cos, x),
    "switch": lambda x: lax.switch((9.0 * x[2, 3]).astype(int) - 6, [jnp.sin, jnp.cos, jnp.tan], x),
    "custom_jvp_call": jax.nn.relu,
    "custom_vjp_call": _custom_vjp,
    "checkpoint": jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))),
    "linear_solve": lambda x: lax.custom_linear_solve(
        lambda y: 2.0 * y, x, lambda _, b: b / 2.0, lambda _, b: b / 2.0
    ),
}


def text(function, *args):
    return jax.jit(function).lower(*args).compile().as_text()


def test_every_operation_of_a_kernel_gives_what_it_gives_alone():
    """One program with a kernel for each: XLA fails altogether on one that it cannot compile."""

    def alone(x):
        return {name: f(x) for name, f in OPERATIONS.items()}

    def together(x):
        # Each in a kernel of its own, which has four operations at least.
        def own(f):
            return lambda x: f(x * 4.0 * 0.5 * 0.5 + 0.0)  # exactly x

        return {name: one_kernel(own(f), x) for name, f in OPERATIONS.items()}

    # The last array has nearly as many numbers as go into a kernel.
    large = np.resize(X, (kernels._IN_RUN.array // 64 * 3, 4))
    for x, rtol in ((X, 1e-14), (X.astype(np.float32), 2e-5), (large, 1e-13)):
        x = jnp.asarray(x)
        program = jax.jit(together).lower(x).compile()
        assert program.as_text().count("to_apply=%kernel") >= len(OPERATIONS)
        found, wanted = program(x), jax.jit(alone)(x)
        for name in OPERATIONS:
            for a, b in zip(
                jax.tree.leaves(found[name]), jax.tree.leaves(wanted[name]), strict=True
            ):
                np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=name)


def test_all_simple_operations_are_tested():
    known = {"add_any", "copy", "copy_p", "name", "optimization_barrier", "stop_gradient"}
    known |= {"expand_dims", "squeeze", "slice", "mul", "sub", "ge", "gt", "le", "lt", "ne"}
    assert kernels._SIMPLE - known <= set(OPERATIONS)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_at_known_places_are_gathered(axis):
    """The transpose of taking parts, some of them twice."""
    places = np.array([[1, 0], [2, 1]])
    x = jnp.arange(27.0).reshape(3, 3, 3)

    def parts(x):
        own = lambda x: take(x, places)  # noqa: E731
        for _ in range(axis):
            own = jax.vmap(own)
        return own(x)

    def f(x):
        return jax.vjp(parts, x)[1](jnp.sin(parts(x)))[0]

    program = jax.jit(lambda x: one_kernel(f, x)).lower(x).compile()
    # Older versions of XLA turn a scatter into a loop.
    assert "scatter(" not in program.as_text() and "while(" not in program.as_text()
    np.testing.assert_allclose(program(x), f(x), rtol=1e-15)


@pytest.mark.parametrize("way", ["one", "batch"])
def test_sums_over_large_arrays_are_no_library_s(way):
    """XLA from jax 0.11 on gives them to one, which is slower; see `compiled_sum`."""
    A, x = jnp.linspace(0.1, 0.9, 200 * 36).reshape(200, 6, 6), jnp.linspace(-1.0, 1.0, 6)

    def own(x):
        scaled = A * x[None, None, :]
        return jnp.concatenate([jnp.sum(scaled**2, axis=-1)[0], jnp.sum(scaled, axis=(0, 1))])

    if way == "one":
        program = jax.jit(lambda x: one_kernel(own, x)).lower(x).compile()
        found, expected = program(x), own(x)
    else:
        xs = jnp.outer(X[0], x)
        program = jax.jit(jax.vmap(in_lanes(own))).lower(xs).compile()
        found, expected = program(xs), jnp.stack([own(x) for x in xs])
    assert "__ynn" not in program.as_text()
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def solved(A, b, unused, empty):
    """Two kernels with a call of LAPACK between them, in a loop."""

    def turn(state):
        k, x = state
        A_k = A + jnp.eye(3, dtype=A.dtype) * jnp.sin(x[0]) ** 2
        y = jnp.linalg.solve(A_k, b + jnp.cos(x) * jnp.sum(empty))
        return k + 1, x + 0.1 * jnp.tanh(y - x) * jnp.sqrt(1.0 + x**2)

    return lax.while_loop(lambda s: s[0] < 4, turn, (0, b))[1], b, 3.0


def _tabulated(x):
    """With a search in a table, which jax 0.12 has as an operation of a higher level."""
    table = jnp.interp(x, jnp.linspace(0.0, 1.0, 5), jnp.linspace(0.0, 1.0, 5) ** 2)
    at = jnp.searchsorted(jnp.array([2, 4, 8]), jnp.sum(x > 0.5))
    return jnp.where(at > 0, 2.0, 1.0) * table


@pytest.mark.parametrize("way", ["kernel", "lanes", "step", "gradient", "batch of gradients"])
def test_searches_in_tables_can_be_parts_of_a_step(way):
    def run(x):
        step = lambda c, _: (checkpointed(_tabulated)(c) + 0.1, None)  # noqa: E731
        return jnp.sum(lax.scan(step, x, None, length=3)[0] ** 2)

    def plain(x):
        for _ in range(3):
            x = _tabulated(x) + 0.1
        return jnp.sum(x**2)

    function, expected = {
        "kernel": (lambda x: one_kernel(_tabulated, x), _tabulated),
        "lanes": (jax.vmap(in_lanes(_tabulated)), jax.vmap(_tabulated)),
        "step": (run, plain),
        "gradient": (jax.grad(run), jax.grad(plain)),
        "batch of gradients": (jax.vmap(jax.grad(run)), jax.vmap(jax.grad(plain))),
    }[way]
    np.testing.assert_allclose(jax.jit(function)(X), expected(X), rtol=1e-14)


A, B = np.diag([2.0, 3.0, 4.0]) + 0.1, np.array([1.0, -2.0, 0.5])
ARGS = A, B, np.ones(2), np.zeros((0, 2))


def test_what_needs_a_library_stays_outside():
    def inside(*args):
        return one_kernel(solved, *args)

    found, wanted = jax.jit(inside)(*ARGS), jax.jit(solved)(*ARGS)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    compiled = text(inside, *ARGS)
    assert "lapack" in compiled
    assert MARK in compiled


_EMPTY_BESIDE_LAPACK = """
import os
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
import jax, jax.numpy as jnp
from jaxmbd.xla.cpu_fusion import one_kernel

def parts(x):
    y = jnp.concatenate([2.0 * x, jnp.sqrt(x)[4:]])
    return jnp.sin(y) * jnp.cos(y), y[4:], jnp.zeros(0) / y[4:]

def both(x):
    return one_kernel(parts, x), jnp.linalg.solve(jnp.diag(x), x)

(_, *empty), solution = jax.jit(both)(jnp.arange(1.0, 5.0))
print(*(x.size for x in empty), *solution)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_libraries_are_found_beside_empty_arrays_on_one_cpu():
    """With one CPU, XLA 0.10 gives up the rest of a program at the empty parts of this one."""
    command = [sys.executable, "-c", _EMPTY_BESIDE_LAPACK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "0 0 1.0 1.0 1.0 1.0\n", done.stderr


def test_libraries_in_branches_and_loops_in_branches_work():
    def solve(A, b):
        return jnp.linalg.solve(A + jnp.sin(b)[:, None] * jnp.cos(b)[None, :] + jnp.eye(3), b)

    def steps(A, b):
        def inner(x, k):
            return lax.cond(k > 1, lambda x: 0.5 * solve(A, x) + jnp.sin(x) ** 2, jnp.cos, x), x

        def outer(x, k):
            x = lax.cond(k > 0, lambda x: lax.scan(inner, x, jnp.arange(4))[0], jnp.sin, x)
            return jnp.tanh(x) * jnp.sqrt(1.0 + x * x), jnp.sum(x)

        return lax.scan(outer, b, jnp.arange(3))

    found, wanted = jax.jit(lambda A, b: one_kernel(steps, A, b))(A, B), jax.jit(steps)(A, B)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_loops_whose_members_end_one_by_one_are_left_to_jax():
    def halve(x):
        return lax.while_loop(lambda y: y > 0.2, lambda y: 0.5 * jnp.sin(y), x)

    def f(x):
        return jax.vmap(halve)(jnp.sqrt(x) * jnp.cos(x) + jnp.tan(x)) * 2.0 + x

    x = X.ravel()
    np.testing.assert_allclose(jax.jit(lambda x: one_kernel(f, x))(x), jax.jit(f)(x), rtol=1e-14)


def test_branches_of_other_platforms_are_not_compiled():
    def by_platform(x):
        return lax.platform_dependent(
            jnp.sin(x) * jnp.cos(x) + jnp.tan(x), cpu=jnp.sin, tpu=_only_elsewhere, default=jnp.cos
        )

    program = jax.jit(lambda x: one_kernel(by_platform, x))
    wanted = np.sin(np.sin(X) * np.cos(X) + np.tan(X))
    np.testing.assert_allclose(program(X), wanted, rtol=1e-14)


def _only_elsewhere(x):
    return jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def test_larger_arrays_stay_outside():
    def smooth(x):
        return jnp.sum(jnp.sin(x) * jnp.cos(x) + jnp.exp(-x) * jnp.sqrt(1.0 + x * x))

    largest = kernels._IN_RUN.array
    assert "to_apply=%kernel" in text(lambda x: one_kernel(smooth, x), np.ones(largest))
    assert "to_apply=%kernel" not in text(lambda x: one_kernel(smooth, x), np.ones(largest + 1))


@pytest.mark.skipif(JAXLIB >= (0, 11), reason="batches are no kernels there")
def test_loops_that_carry_more_than_is_worth_copying_stay_outside_in_a_batch():
    def turns(x):
        def turn(state):
            k, x = state
            return k + 1, jnp.sin(x) * 0.5 + jnp.cos(x) * 0.25 - 0.125 * x * x

        return jax.lax.while_loop(lambda state: state[0] < 3, turn, (0, x))[1]

    limit = kernels._IN_BATCH.carried

    def loops_inside(n):
        compiled = text(lambda x: one_kernel(turns, x, batch=True), np.ones(n))
        bodies = compiled.split("\n}\n")
        return any(b.lstrip().startswith("%kernel") and " while(" in b for b in bodies)

    assert loops_inside(limit - 1)
    assert not loops_inside(limit + 1)


def test_large_arguments_that_a_loop_changes_stay_as_they_are():
    """A kernel must not write to what the caller still has."""
    x = np.linspace(0.0, 1.0, 3 * kernels._RETURNED)

    def changed(x):
        return jax.lax.fori_loop(0, 3, lambda _, x: x.at[0].add(1.0) * 2.0 - jnp.sin(x) + 0.5, x)

    out, same = jax.jit(lambda x: (one_kernel(changed, 2.0 * x), 2.0 * x))(x)
    np.testing.assert_array_equal(same, 2.0 * x)
    np.testing.assert_allclose(out, changed(jnp.asarray(2.0 * x)), rtol=1e-13)


@pytest.mark.parametrize(
    ("x", "y", "written_out"),
    [
        ((700, 3, 3), (700, 3, 3), True),
        ((700, 5, 6), (700, 6, 1), True),
        ((3000, 3), (3, 3), True),
        ((4, 400), (400, 2), True),
        ((40, 30), (30, 20), False),
        ((20, 12, 12), (20, 12, 12), False),
        ((0, 3), (3, 90), True),
    ],
)
def test_products_of_thin_matrices_are_no_library_s(x, y, written_out):
    """However many they are: a call for each pair takes longer."""
    x, y = (np.sin(np.arange(np.prod(shape))).reshape(shape) for shape in (x, y))
    program = jax.jit(lambda x, y: one_kernel(lambda x, y: 2.0 * (x @ y), x, y))
    compiled = program.lower(x, y).compile().as_text()
    assert (" dot(" in compiled or "dot_general" in compiled) != written_out
    np.testing.assert_allclose(program(x, y), 2.0 * (x @ y), rtol=1e-13, atol=1e-13)


def test_what_a_function_closes_over_may_be_traced():
    @jax.jit
    def scaled(x, factor):
        return one_kernel(lambda y: {"a": jnp.sin(y) * factor + np.ones((3, 4)), "b": 2.0}, x)

    out = scaled(X, 3.0)
    np.testing.assert_allclose(out["a"], 3.0 * np.sin(X) + 1.0, rtol=1e-15)
    assert out["b"] == 2.0


def test_derivatives_and_batches_are_those_of_the_function():
    def f(x):
        return jnp.sum(jnp.sin(x) @ jnp.cos(x).T, axis=1)

    def g(x):
        return one_kernel(f, x)

    x, v = jnp.asarray(X), jnp.asarray(X[::-1].copy())
    pairs = [
        (jax.jvp(g, (x,), (v,)), jax.jvp(f, (x,), (v,))),
        (jax.jacrev(g)(x), jax.jacrev(f)(x)),
        (jax.jacfwd(jax.jacrev(g))(x), jax.jacfwd(jax.jacrev(f))(x)),
        (jax.vmap(g, in_axes=2)(jnp.stack([x, v], 2)), jax.vmap(f)(jnp.stack([x, v]))),
    ]
    for found, wanted in pairs:
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)


def test_kernels_can_be_left_out(monkeypatch):
    def anew():
        return text(lambda x: one_kernel(lambda x: jnp.sin(x) * jnp.cos(x) + jnp.tan(x), x), X)

    assert MARK in anew()
    monkeypatch.setenv("JAXMBD_KERNELS", "0")
    assert MARK not in anew()
    monkeypatch.setenv("JAXMBD_KERNELS", "")
    monkeypatch.setattr(versions, "UNTESTED", (0, 1))
    monkeypatch.setattr(options, "_warned", True)
    assert MARK not in anew()
    monkeypatch.setenv("JAXMBD_KERNELS", "1")
    assert MARK in anew()


def test_a_program_is_not_taken_for_one_with_kernels():
    def f(x):
        return one_kernel(lambda x: jnp.sin(x) * jnp.cos(x) + jnp.tan(x), x)

    program = jax.jit(f)
    assert MARK in program.lower(X).compile().as_text()
    with left_apart():
        assert MARK not in program.lower(X).compile().as_text()
    assert MARK in program.lower(X).compile().as_text()


@pytest.mark.parametrize("model", ["four_bar", "gyro_top"])
def test_a_run_is_the_same_with_and_without_kernels(model, monkeypatch):
    """To rounding of 40 steps: sums are taken in another order.

    A unit in the last place of positions of a few meters, 4e-16 m, over h² is a force of 3e-8 N of
    a coupler of 68 kg; of what one step errs by, those that follow return up to sixty times as
    much.
    """
    system, state = mbd.load(model)

    def run(steps):
        sol = mbd.simulate(system, state, h=1e-3, steps=steps)
        return sol.r, sol.A, sol.omega, sol.reactions(system)

    compiled = jax.jit(lambda: run(40)).lower().compile()
    assert compiled.as_text().count(MARK) > 3
    monkeypatch.setenv("JAXMBD_KERNELS", "0")
    plain = jax.jit(lambda: run(40)).lower().compile()
    assert "to_apply=%kernel" not in plain.as_text()
    for a, b in zip(jax.tree.leaves(compiled()), jax.tree.leaves(plain()), strict=True):
        forces = a.shape == (41, 3)
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=60 * 2 * 3e-8 if forces else 1e-8)
