"""Batches whose axis comes last: lanes of a vector unit, neighboring threads of a GPU.

`jax.vmap` puts the batch axis first. Compilers vectorize along the last axis, where they then find
the 3 or 6 numbers of one body; with the batch axis there, every instruction works on neighboring
members. So under `vmap` a function wrapped by `in_lanes` is traced once for a single member, and
its operations are replayed on arrays with a trailing axis. An operation without a rule here goes
through its own rule
of `vmap`: always right, at worst as slow as that. Where the replay fails altogether, as it may with
a version of JAX that it does not know, plain `vmap` takes over with one warning. The environment
variable JAXMBD_LANES=0, read while a program is traced, leaves everything to plain `vmap`.
"""

import functools
import os
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Array, Bool

from .cpu_fusion import one_kernel
from .custom_rule_call import opaque
from .indexing import SUMS, TAKE
from .jaxprs import (
    CALLS,
    JAXLIB,
    Flags,
    Values,
    bind,
    compiled_sum,
    held_function,
    scan_parts,
    solve_part,
)
from .jaxprs import reached as reached_by

# Larger batches go in chunks of so many members: on a CPU, whose numbers stay in the cache of a
# core. A GPU is full with them, and of a million in single precision not all were right there.
_IN_KERNELS = JAXLIB < (0, 11)  # later versions of XLA leave too much out of kernels
_CHUNK, _GPU_CHUNK = 64 if _IN_KERNELS else 128, 131_072
_SHORT = 8  # turns up to which a loop is written out on a GPU

_warned = False


class _Rule:
    """A rule for `vmap`, with what the replay of a function that holds it needs to know.

    Attributes:
        in_lanes: Whether it replays the function.
        common: Whether all members get the same.
    """

    def __init__(self, rule: Callable[..., Any], *, in_lanes: bool = False, common: bool = False):
        functools.update_wrapper(self, rule)
        self.in_lanes, self.common = in_lanes, common
        self._rule = rule

    def __call__(self, *args: Any) -> Any:
        return self._rule(*args)


def in_lanes(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a function of one pytree of arrays so that `vmap` puts the batch axis last.

    Not differentiable in reverse mode: for functions that are not, such as the iteration inside
    `implicit_root`.
    """
    mapped = custom_vmap(function)

    def rule(size: int, batched: Any, tree: Any):
        leaves, structure = jax.tree.flatten(tree)
        flags = jax.tree.leaves(batched)
        if os.environ.get("JAXMBD_LANES") == "0":
            return _plain(function, leaves, flags, structure, size)
        chunk = _CHUNK if jax.default_backend() == "cpu" else _GPU_CHUNK
        if size > chunk:
            own = [x for x, flag in zip(leaves, flags, strict=True) if flag]

            def one(own):
                each = iter(own)
                full = [next(each) if flag else x for x, flag in zip(leaves, flags, strict=True)]
                return mapped(jax.tree.unflatten(structure, full))

            out = _in_chunks(jax.vmap(one), own, size, chunk)
            return out, jax.tree.map(lambda _: True, out)
        try:
            return _replayed(function, leaves, flags, structure, size)
        except (
            Exception
        ) as error:  # the rules read JAX's own equations, which may change with any version
            reason = error
        out = _plain(
            function, leaves, flags, structure, size
        )  # an error of the function itself comes up here
        _warn(reason)
        return out

    mapped.def_vmap(_Rule(rule, in_lanes=True))
    return mapped


def batched_in_lanes(function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)`, which differentiates as itself, and whose `vmap` where nothing is
    differentiated works with the batch axis last throughout.
    """
    arrays, rest = eqx.partition(args, eqx.is_array)
    given, structure = jax.tree.flatten(arrays)
    shape: Any = None

    def of_arrays(given: Values) -> Values:
        nonlocal shape
        out = function(*eqx.combine(jax.tree.unflatten(structure, given), rest))
        out, others = eqx.partition(out, eqx.is_array)
        leaves, tree = jax.tree.flatten(out)
        shape = tree, others
        return leaves

    @in_lanes
    def whole(given: Values) -> Values:
        return one_kernel(of_arrays, given)

    def run(*given: Any) -> Values:
        return whole(list(given))

    def rule(given: Values, dots: Values, _: Values | None) -> tuple[Values, Values]:
        # What does not vary is left out: derivatives are of what is asked for alone.
        varying = [k for k, dot in enumerate(dots) if dot is not None]

        def of_varying(some: Values) -> Values:
            changed = dict(zip(varying, some, strict=True))
            return of_arrays([changed.get(k, x) for k, x in enumerate(given)])

        some, tangents = ([of[k] for k in varying] for of in (given, dots))
        out, out_dots = jax.jvp(of_varying, (some,), (tangents,))
        return out, [None if dot.dtype == jax.dtypes.float0 else dot for dot in out_dots]

    out = opaque(run, rule, *given)
    tree, others = shape
    return eqx.combine(jax.tree.unflatten(tree, out), others)


@custom_vmap
def anyone(flag: Bool[Array, ""]) -> Bool[Array, ""]:
    """Whether the flag is set, in a batch whether it is in any element: all of them then do in the
    same step what one of them has to do, which takes the time of the whole batch anyway.
    """
    return flag


def _of_anyone(size: int, batched: list[bool], flag):
    return anyone(jnp.any(flag)), False


anyone.def_vmap(_Rule(_of_anyone, common=True))


def _in_chunks(function, leaves: Values, size: int, chunk: int) -> Any:
    """`function` of batches, one chunk of members after another."""
    count = size // chunk
    full = count * chunk
    chunks = [x[:full].reshape(count, chunk, *x.shape[1:]) for x in leaves]
    out = lax.map(function, chunks)
    out = jax.tree.map(lambda x: x.reshape(full, *x.shape[2:]), out)
    if full == size:
        return out
    rest = function([x[full:] for x in leaves])
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y]), out, rest)


def _replayed(function, leaves: Values, flags: Flags, structure: Any, size: int) -> tuple[Any, Any]:
    """Outputs with the batch axis first, and which of them have it, by a replay with the axis
    last.
    """
    values = [jnp.moveaxis(x, 0, -1) if flag else x for x, flag in zip(leaves, flags, strict=True)]
    member = [_member(x, flag) for x, flag in zip(leaves, flags, strict=True)]
    jaxpr, shapes = jax.make_jaxpr(
        lambda x: function(jax.tree.unflatten(structure, x)), return_shape=True
    )(member)
    found: Flags = []

    def replay(values: Values) -> Values:
        nonlocal found
        out, found = _replay(jaxpr, values, flags, size)
        return out

    values = one_kernel(replay, values, batch=True) if _IN_KERNELS else replay(values)
    out = [jnp.moveaxis(x, -1, 0) if flag else x for x, flag in zip(values, found, strict=True)]
    tree = jax.tree.structure(shapes)
    return jax.tree.unflatten(tree, out), jax.tree.unflatten(tree, found)


def _plain(function, leaves: Values, flags: Flags, structure: Any, size: int) -> tuple[Any, Any]:
    """Outputs by plain `jax.vmap`, and which of them are batched."""
    axes = [0 if flag else None for flag in flags]
    batch = jax.vmap(
        lambda x: function(jax.tree.unflatten(structure, x)), in_axes=(axes,), axis_size=size
    )
    out = batch(leaves)
    return out, jax.tree.map(lambda _: True, out)


def _common(eqn: JaxprEqn) -> bool:
    """Whether all members get the same from the operation, whatever they put in."""
    return getattr(eqn.params.get("rule"), "common", False)


def _warn(reason: Exception) -> None:
    """Say once in a process that batches are slower than they should be."""
    global _warned
    if _warned:
        return
    _warned = True
    words = str(reason).splitlines()
    # No line of the user's is at fault, and the frames that lie between it and this one, while JAX
    # traces, are JAX's.
    warnings.warn(
        "jaxmbd could not put the batch axis last in a vmapped solve and uses plain jax.vmap "
        "instead: results are the same, batches may take up to twice as long. Please report it "
        f"with your version of jax ({jax.__version__}) and this reason: {type(reason).__name__}: "
        f"{words[0] if words else ''}. JAXMBD_LANES=0 in the environment chooses plain jax.vmap "
        "without this warning",
        stacklevel=2,
    )


def _member(x, flag: bool) -> jax.ShapeDtypeStruct:
    """The shape of one batch element of an argument whose leading axis is the batch axis."""
    return jax.ShapeDtypeStruct(
        x.shape[1:] if flag else x.shape, x.dtype, weak_type=getattr(x, "weak_type", False)
    )


def _replay(closed: ClosedJaxpr, values: Values, flags: Flags, size: int) -> tuple[Values, Flags]:
    """Outputs of a traced function on values of which some have the trailing axis."""
    jaxpr = closed.jaxpr
    known = {v: (x, False) for v, x in zip(jaxpr.constvars, closed.consts, strict=True)}
    known |= {
        v: pair for v, pair in zip(jaxpr.invars, zip(values, flags, strict=True), strict=True)
    }

    def read(v):
        return (v.val, False) if isinstance(v, Literal) else known[v]

    for eqn in jaxpr.eqns:
        pairs = [read(v) for v in eqn.invars]
        xs, flags = [x for x, _ in pairs], [flag for _, flag in pairs]
        name = eqn.primitive.name
        if name in CALLS:
            out, flags = _replay(held_function(eqn), xs, flags, size)
        elif not any(flags):
            out = bind(eqn, *xs)
            flags = [False] * len(out)
        elif name in _NESTED:
            out, flags = _NESTED[name](eqn, xs, flags, size)
        else:
            rule = _elementwise if name in _ELEMENTWISE else _RULES.get(name, _mapped)
            out = rule(eqn, xs, flags, size)
            flags = [True] * len(out)
        known |= {
            v: pair for v, pair in zip(eqn.outvars, zip(out, flags, strict=True), strict=True)
        }
    pairs = [read(v) for v in jaxpr.outvars]
    return [x for x, _ in pairs], [flag for _, flag in pairs]


def _spread(x, flag: bool, size: int):
    """The value with a trailing axis."""
    return x if flag else lax.broadcast_in_dim(x, (*jnp.shape(x), size), range(jnp.ndim(x)))


def _all_spread(xs: Values, flags: Flags, size: int) -> Values:
    return [_spread(x, flag, size) for x, flag in zip(xs, flags, strict=True)]


def _mapped(eqn, xs, flags, size) -> Values:
    """Any operation, by its own rule of `vmap`."""
    axes = tuple(-1 if flag else None for flag in flags)
    return jax.vmap(functools.partial(bind, eqn), in_axes=axes, out_axes=-1, axis_size=size)(*xs)


def _elementwise(eqn, xs, flags, size) -> Values:
    shape = (*eqn.outvars[0].aval.shape, size)
    full = []
    for x, flag in zip(xs, flags, strict=True):
        n = jnp.ndim(x)
        # A scalar (the predicate of a select) goes with all numbers of its member.
        dims = range(n) if not flag else (*range(n - 1), len(shape) - 1)
        full.append(x if jnp.shape(x) == shape else lax.broadcast_in_dim(x, shape, dims))
    return bind(eqn, *full)


def _reshape(eqn, xs, flags, size) -> Values:
    return [lax.reshape(xs[0], (*eqn.params["new_sizes"], size))]


def _transpose(eqn, xs, flags, size) -> Values:
    order = eqn.params["permutation"]
    return bind(eqn, xs[0], permutation=(*order, len(order)))


def _broadcast(eqn, xs, flags, size) -> Values:
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    return [lax.broadcast_in_dim(xs[0], (*shape, size), (*dims, len(shape)))]


def _concatenate(eqn, xs, flags, size) -> Values:
    return [lax.concatenate(_all_spread(xs, flags, size), eqn.params["dimension"])]


def _stack(eqn, xs, flags, size) -> Values:
    return [jnp.stack(_all_spread(xs, flags, size), axis=eqn.params["axis"])]


def _gather(eqn, xs, flags, size) -> Values:
    if flags[1]:
        return _mapped(eqn, xs, flags, size)
    dims = eqn.params["dimension_numbers"]
    dims = dims._replace(offset_dims=(*dims.offset_dims, len(eqn.outvars[0].aval.shape)))
    return bind(eqn, *xs, dimension_numbers=dims, slice_sizes=(*eqn.params["slice_sizes"], size))


def _scatter(eqn, xs, flags, size) -> Values:
    operand, index, updates = xs
    if flags[1]:
        return _mapped(eqn, xs, flags, size)
    operand, updates = _spread(operand, flags[0], size), _spread(updates, flags[2], size)
    dims = eqn.params["dimension_numbers"]
    dims = dims._replace(update_window_dims=(*dims.update_window_dims, updates.ndim - 1))
    return bind(eqn, operand, index, updates, dimension_numbers=dims)


def _dynamic_slice(eqn, xs, flags, size) -> Values:
    if any(flags[1:]):
        return _mapped(eqn, xs, flags, size)
    sizes = (*eqn.params["slice_sizes"], size)
    return [lax.dynamic_slice(xs[0], [*xs[1:], np.zeros((), jnp.asarray(xs[1]).dtype)], sizes)]


def _dot_general(eqn, xs, flags, size) -> Values:
    """A product of small arrays, as a sum that fuses with its surroundings."""
    contracted, batch = eqn.params["dimension_numbers"]
    out = eqn.outvars[0].aval
    n, nb, nc = out.ndim, len(batch[0]), len(contracted[0])
    free = [
        [k for k in range(jnp.ndim(xs[o]) - flags[o]) if k not in (*contracted[o], *batch[o])]
        for o in (0, 1)
    ]
    lengths = [xs[0].shape[k] for k in contracted[0]]
    # The batch's dimensions, the free ones of both operands, the contracted ones, the lanes.
    shape = (*out.shape, *lengths, size)
    starts = (nb, nb + len(free[0]))
    factors = []
    for o in (0, 1):
        lanes = [jnp.ndim(xs[o]) - 1] if flags[o] else []
        places = [
            *range(nb),
            *range(starts[o], starts[o] + len(free[o])),
            *range(n, n + nc),
            *([n + nc] if lanes else []),
        ]
        x = jnp.transpose(
            jnp.asarray(xs[o], out.dtype), (*batch[o], *free[o], *contracted[o], *lanes)
        )
        factors.append(lax.broadcast_in_dim(x, shape, places))
    return [compiled_sum(factors[0] * factors[1], tuple(range(n, n + nc)))]


def _reduce_sum(eqn, xs, flags, size) -> Values:
    return [compiled_sum(xs[0], eqn.params["axes"])]


def _slice(eqn, xs, flags, size) -> Values:
    start, limit, strides = (
        eqn.params[name] for name in ("start_indices", "limit_indices", "strides")
    )
    return [
        lax.slice(xs[0], (*start, 0), (*limit, size), None if strides is None else (*strides, 1))
    ]


def _pad(eqn, xs, flags, size) -> Values:
    if flags[1]:
        return _mapped(eqn, xs, flags, size)
    x, value = xs
    return [lax.pad(x, value, (*eqn.params["padding_config"], (0, 0, 0)))]


def _as_it_is(eqn, xs, flags, size) -> Values:
    """An operation on axes that it names by numbers from the front."""
    return bind(eqn, *xs)


def _sums(eqn, xs, flags, size) -> Values:
    return bind(eqn, *xs, together=True)


def _while(eqn, xs, flags, size) -> tuple[Values, Flags]:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    nc, nb = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    parts = [slice(0, nc), slice(nc, nc + nb), slice(nc + nb, None)]
    cond_consts, body_consts, init = (xs[k] for k in parts)
    of_cond, of_body, start = (flags[k] for k in parts)
    carry = list(start)
    apart = False  # whether members stop at different times
    while True:
        apart = any(_reached(cond.jaxpr, [*of_cond, *carry]))
        reached = [True] * len(carry) if apart else _reached(body.jaxpr, [*of_body, *carry])
        if all(flag <= old for flag, old in zip(reached, carry, strict=True)):
            break
        carry = [a or b for a, b in zip(reached, carry, strict=True)]

    def running(values):
        (keep,), (flag,) = _replay(cond, [*cond_consts, *values], [*of_cond, *carry], size)
        return _spread(keep, flag, size) if apart else keep

    def step(values):
        new, out = _replay(body, [*body_consts, *values], [*of_body, *carry], size)
        new = [
            _spread(x, f, size) if flag else x for x, f, flag in zip(new, out, carry, strict=True)
        ]
        if not apart:
            return new
        keep = running(values)
        return [
            lax.select(jnp.broadcast_to(keep, x.shape), x, old)
            for x, old in zip(new, values, strict=True)
        ]

    init = [
        _spread(x, f, size) if flag else x for x, f, flag in zip(init, start, carry, strict=True)
    ]
    return list(lax.while_loop(lambda values: jnp.any(running(values)), step, init)), carry


def _scan(eqn, xs, flags, size) -> tuple[Values, Flags]:
    p = eqn.params
    inner, parts = p["jaxpr"].jaxpr, scan_parts(eqn)
    consts, init, sequence = (xs[k] for k in parts)
    of_consts, start, of_sequence = (flags[k] for k in parts)
    nk, carry = len(start), list(start)
    while True:
        reached = _reached(inner, [*of_consts, *carry, *of_sequence])
        if all(flag <= old for flag, old in zip(reached[:nk], carry, strict=True)):
            break
        carry = [a or b for a, b in zip(reached[:nk], carry, strict=True)]
    wanted = [*carry, *reached[nk:]]

    def step(values, x):
        new, out = _replay(
            p["jaxpr"], [*consts, *values, *x], [*of_consts, *carry, *of_sequence], size
        )
        new = [
            _spread(y, f, size) if flag else y for y, f, flag in zip(new, out, wanted, strict=True)
        ]
        return new[:nk], new[nk:]

    init = [
        _spread(x, f, size) if flag else x for x, f, flag in zip(init, start, carry, strict=True)
    ]
    # On a GPU, each turn of a loop costs launches and copies that take longer than a small turn.
    written_out = jax.default_backend() != "cpu" and p["length"] <= _SHORT
    unroll = p["length"] if written_out else p["unroll"]
    end, each = lax.scan(
        step, init, sequence, length=p["length"], reverse=p["reverse"], unroll=max(unroll, 1)
    )
    return [*end, *each], wanted


def _linear_solve(eqn, xs, flags, size) -> tuple[Values, Flags]:
    (function, xs), (_, flags) = solve_part(eqn, xs), solve_part(eqn, flags)
    return _replay(function, xs, flags, size)


def _own_vmap(eqn, xs, flags, size) -> tuple[Values, Flags]:
    """A function with a rule of its own for `vmap`."""
    rule = eqn.params["rule"]
    if getattr(rule, "in_lanes", False):
        return _replay(eqn.params["call"], xs, flags, size)
    front = [jnp.moveaxis(x, -1, 0) if flag else x for x, flag in zip(xs, flags, strict=True)]
    args, batched = (jax.tree.unflatten(eqn.params["in_tree"], v) for v in (front, flags))
    out, flags = (jax.tree.leaves(tree) for tree in rule(size, list(batched), *args))
    return [jnp.moveaxis(x, 0, -1) if f else x for x, f in zip(out, flags, strict=True)], flags


def _reached(jaxpr: Jaxpr, flags: Flags) -> Flags:
    return reached_by(jaxpr, flags, _common)


def _checkpoint(eqn, xs, flags, size) -> tuple[Values, Flags]:
    """The function itself: what its derivatives keep is of no concern here."""
    return _replay(ClosedJaxpr(eqn.params["jaxpr"], ()), xs, flags, size)


_NESTED = {
    "checkpoint": _checkpoint,
    "custom_linear_solve": _linear_solve,
    "custom_vmap_call": _own_vmap,
    "remat2": _checkpoint,
    "scan": _scan,
    "while": _while,
}
_RULES = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "pad": _pad,
    "reduce_and": _as_it_is,
    "reduce_max": _as_it_is,
    "reduce_min": _as_it_is,
    "reduce_or": _as_it_is,
    "reduce_sum": _reduce_sum,
    "reshape": _reshape,
    "scatter": _scatter,
    "scatter-add": _scatter,
    "slice": _slice,
    "split": _as_it_is,
    "squeeze": _as_it_is,
    "stack": _stack,
    "transpose": _transpose,
    SUMS: _sums,
    TAKE: _as_it_is,
}
_ELEMENTWISE = frozenset(
    """abs acos add add_any and asin atan atan2 cbrt ceil clamp convert_element_type copy cos cosh
    div eq erf exp exp2 expm1 floor ge gt integer_pow is_finite le log log1p logistic lt max min mul
    name ne neg nextafter not or pow rem round rsqrt select_n sign sin sinh sqrt square
    stop_gradient sub tan tanh xor""".split()
)
