"""Rules by which operations are replayed with the batch axis last.

A rule takes an equation, its inputs, flags of those that have the trailing axis, and the size of
the batch; all its outputs have the axis. Operations that call functions are in `batch_last`. A new
rule is a function here and a row in `_RULES`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn

from .indexing import SUMS, TAKE
from .jaxprs import Array, Flags, Values, bind, compiled_sum, shaped


def spread(x: Array, flag: bool, size: int):
    """The value with a trailing axis."""
    return x if flag else lax.broadcast_in_dim(x, (*jnp.shape(x), size), range(jnp.ndim(x)))


def replayed(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    """Outputs of an operation on values of which some have the trailing axis; all get it."""
    name = eqn.primitive.name
    rule = _elementwise if name in _ELEMENTWISE else _RULES.get(name, _mapped)
    return rule(eqn, xs, flags, size)


def _all_spread(xs: Values, flags: Flags, size: int) -> Values:
    return [spread(x, flag, size) for x, flag in zip(xs, flags, strict=True)]


def _mapped(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    """Any operation, by its own rule of `vmap`."""
    axes = tuple(-1 if flag else None for flag in flags)
    return jax.vmap(functools.partial(bind, eqn), in_axes=axes, out_axes=-1, axis_size=size)(*xs)


def _elementwise(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    shape = (*shaped(eqn.outvars[0]).shape, size)
    full = []
    for x, flag in zip(xs, flags, strict=True):
        n = jnp.ndim(x)
        # A scalar (the predicate of a select) goes with all numbers of its member.
        dims = range(n) if not flag else (*range(n - 1), len(shape) - 1)
        full.append(x if jnp.shape(x) == shape else lax.broadcast_in_dim(x, shape, dims))
    return bind(eqn, *full)


def _reshape(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    return [lax.reshape(xs[0], (*eqn.params["new_sizes"], size))]


def _transpose(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    order = eqn.params["permutation"]
    return bind(eqn, xs[0], permutation=(*order, len(order)))


def _broadcast(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    return [lax.broadcast_in_dim(xs[0], (*shape, size), (*dims, len(shape)))]


def _concatenate(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    return [lax.concatenate(_all_spread(xs, flags, size), eqn.params["dimension"])]


def _stack(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    return [jnp.stack(_all_spread(xs, flags, size), axis=eqn.params["axis"])]


def _gather(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    if flags[1]:
        return _mapped(eqn, xs, flags, size)
    dims = eqn.params["dimension_numbers"]
    dims = dims._replace(offset_dims=(*dims.offset_dims, len(shaped(eqn.outvars[0]).shape)))
    return bind(eqn, *xs, dimension_numbers=dims, slice_sizes=(*eqn.params["slice_sizes"], size))


def _scatter(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    operand, index, updates = xs
    if flags[1]:
        return _mapped(eqn, xs, flags, size)
    operand, updates = spread(operand, flags[0], size), spread(updates, flags[2], size)
    dims = eqn.params["dimension_numbers"]
    dims = dims._replace(update_window_dims=(*dims.update_window_dims, updates.ndim - 1))
    return bind(eqn, operand, index, updates, dimension_numbers=dims)


def _dynamic_slice(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    if any(flags[1:]):
        return _mapped(eqn, xs, flags, size)
    sizes = (*eqn.params["slice_sizes"], size)
    return [lax.dynamic_slice(xs[0], [*xs[1:], np.zeros((), jnp.asarray(xs[1]).dtype)], sizes)]


def _dot_general(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    """A product of small arrays, as a sum that fuses with its surroundings."""
    contracted, batch = eqn.params["dimension_numbers"]
    out = shaped(eqn.outvars[0])
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


def _reduce_sum(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    return [compiled_sum(xs[0], eqn.params["axes"])]


def _slice(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    start, limit, strides = (
        eqn.params[name] for name in ("start_indices", "limit_indices", "strides")
    )
    return [
        lax.slice(xs[0], (*start, 0), (*limit, size), None if strides is None else (*strides, 1))
    ]


def _pad(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    if flags[1]:
        return _mapped(eqn, xs, flags, size)
    x, value = xs
    return [lax.pad(x, value, (*eqn.params["padding_config"], (0, 0, 0)))]


def _as_it_is(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    """An operation on axes that it names by numbers from the front."""
    return bind(eqn, *xs)


def _sums(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> Values:
    return bind(eqn, *xs, together=True)


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
