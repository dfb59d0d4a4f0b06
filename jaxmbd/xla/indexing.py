"""Parts of arrays by indices that are known, and sums at known places: each the transpose of the
other.

`x[index]` of JAX takes milliseconds of tracing each, and adds operations that turn negative indices
and those out of bounds into others; a step takes hundreds of parts. Its transpose is a scatter, for
which XLA visits one index after another. What is gathered here has a sum as its transpose, which
gathers as well. `mbd.options(indexing=False)` leaves both to JAX.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .jaxprs import Array, compiled_sum
from .options import switches

_SPARSE = 8  # places to gather, with those of no value, over values: from which a scatter is faster

TAKE, SUMS = "jaxmbd_take", "jaxmbd_sums"
_take, _sums = Primitive(TAKE), Primitive(SUMS)


@dataclass(frozen=True, eq=False)
class Places:
    """Indices, equal to others of the same numbers."""

    index: np.ndarray

    def __repr__(self) -> str:
        return f"Places({'x'.join(map(str, self.index.shape))})"

    def __hash__(self) -> int:
        return hash((self.index.shape, self.index.tobytes()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and np.array_equal(self.index, other.index)


def take(x: Array | np.ndarray, index: Array | np.ndarray | int) -> Array:
    """`x[index]` along the first axis for an array of integers between zero and its length."""
    if isinstance(x, np.ndarray):
        return x[index]
    assert not isinstance(index, int)
    if not isinstance(index, np.ndarray) or not _own(x):
        return _gathered(x, index, 0)
    return _take.bind(x, places=Places(index), axis=0)


def _own(x: Array) -> bool:
    """Whether an array has derivatives, which the operations of this module are made for."""
    return switches().indexing and bool(jnp.issubdtype(x.dtype, jnp.floating))


def take_or_zero(x: Array, index: np.ndarray) -> Array:
    """`take` with zero for an index that equals the length."""
    if not _own(x):
        return taken(x, Places(index), 0)
    return _take.bind(x, places=Places(index), axis=0)


def sums_at(values: Array, index: np.ndarray, count: int) -> Array:
    """Sums of the values, (n, ...), that belong to each place, (count, ...).

    Places are known numbers; values of other places than those below `count` are left out.
    """
    index = np.where((index >= 0) & (index < count), index, count)
    if not switches().indexing:
        return jnp.zeros((count, *values.shape[1:]), values.dtype).at[index].add(values)
    return _sums.bind(values, places=Places(index), count=count, axis=0, together=False)


def turns(index: np.ndarray, count: int) -> np.ndarray:
    """Which values belong to each place: the first one of each, the second, and so on, (most,
    count); the number of values where there is none. Values of other places are left out.
    """
    order = np.argsort(index, kind="stable")
    order = order[(index[order] >= 0) & (index[order] < count)]
    each = np.bincount(index[order], minlength=count)
    turn = np.arange(len(order)) - np.repeat(np.cumsum(each) - each, each)
    table = np.full((int(each.max(initial=0)), count), len(index))
    table[turn, index[order]] = order
    return table


# --- what the two operations do
# ------------------------------------------------------------------------------------------------


def _gathered(x: Array, index: Array | np.ndarray, axis: int) -> Array:
    """XLA's own gather along an axis, in whose place those of the indices come."""
    inside = range(axis, axis + index.ndim)
    others = tuple(k for k in range(x.ndim - 1 + index.ndim) if k not in inside)
    return lax.gather(
        x,
        index[..., None].astype(np.int32),
        lax.GatherDimensionNumbers(
            offset_dims=others, collapsed_slice_dims=(axis,), start_index_map=(axis,)
        ),
        slice_sizes=(*x.shape[:axis], 1, *x.shape[axis + 1 :]),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def taken(x: Array, places: Places, axis: int) -> Array:
    """`take_or_zero` along an axis.

    A choice between the two takes less time than to gather from `x` with a zero at its end.
    """
    index = places.index
    missing = index >= x.shape[axis]
    if missing.all():  # also of no index at all
        return jnp.zeros((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype)
    if not missing.any():
        return _gathered(x, index, axis)
    found = _gathered(x, np.where(missing, 0, index), axis)
    inside = range(axis, axis + index.ndim)
    return lax.select(
        lax.broadcast_in_dim(missing, found.shape, inside), lax.full_like(found, 0.0), found
    )


def summed(values: Array, places: Places, count: int, axis: int, *, together: bool) -> Array:
    """`sums_at` along an axis.

    Values are gathered, which takes less time than a scatter unless most places have few of them:
    the first one of every place, the second, and so on, which all are added as one operation or,
    `together`, as a sum over an axis, whose result is stored.
    """
    index = places.index
    table = turns(index, count)
    most, known = len(table), int(np.sum(table < len(index)))
    shape = (*values.shape[:axis], count, *values.shape[axis + 1 :])
    if most * count > _SPARSE * max(known, 64):
        at = (*[slice(None)] * axis, index)
        zero = jnp.zeros((*shape[:axis], count + 1, *shape[axis + 1 :]), values.dtype)
        return lax.slice_in_dim(zero.at[at].add(values), 0, count, axis=axis)
    if together and most > 1:
        return compiled_sum(taken(values, Places(table), axis), (axis,))
    parts = [taken(values, Places(row), axis) for row in table]
    return sum(parts[1:], parts[0]) if parts else jnp.zeros(shape, values.dtype)


# --- their rules
# ------------------------------------------------------------------------------------------------


def _shape_of_take(x: ShapedArray, *, places: Places, axis: int):
    return ShapedArray((*x.shape[:axis], *places.index.shape, *x.shape[axis + 1 :]), x.dtype)


def _shape_of_sums(x: ShapedArray, *, places: Places, count: int, axis: int, together: bool):
    return ShapedArray((*x.shape[:axis], count, *x.shape[axis + 1 :]), x.dtype)


def _differentiate(
    operation: Primitive,
    primals: Sequence[Array],
    tangents: Sequence[Array | ad.Zero],
    **params: object,
):
    out, (dot,) = operation.bind(*primals, **params), tangents
    if isinstance(dot, ad.Zero):
        return out, ad.Zero(jax.typeof(out).to_tangent_aval())
    return out, operation.bind(dot, **params)


def _transpose_take(ct: Array | ad.Zero, x: ad.UndefinedPrimal, *, places: Places, axis: int):
    if isinstance(ct, ad.Zero):
        return [None]
    index, shape = places.index, ct.shape
    flat = ct.reshape(*shape[:axis], index.size, *shape[axis + index.ndim :])
    count = x.aval.shape[axis]
    flat_places = Places(np.minimum(index.ravel(), count))
    return [_sums.bind(flat, places=flat_places, count=count, axis=axis, together=False)]


def _transpose_sums(
    ct: Array | ad.Zero,
    x: ad.UndefinedPrimal,
    *,
    places: Places,
    count: int,
    axis: int,
    together: bool,
):
    if isinstance(ct, ad.Zero):
        return [None]
    return [_take.bind(ct, places=places, axis=axis)]


def _batch_take(xs: Sequence[Array], batched: Sequence[int], *, places: Places, axis: int):
    (x,), (at,) = xs, batched
    first = at <= axis
    out = _take.bind(x, places=places, axis=axis + first)
    return out, at if first else at - 1 + places.index.ndim


def _batch_sums(xs: Sequence[Array], batched: Sequence[int], *, axis: int, **params: object):
    (x,), (at,) = xs, batched
    return _sums.bind(x, axis=axis + (at <= axis), **params), at


_take.def_impl(lambda x, *, places, axis: taken(x, places, axis))
_sums.def_impl(
    lambda x, *, places, count, axis, together: summed(x, places, count, axis, together=together)
)
_take.def_abstract_eval(_shape_of_take)
_sums.def_abstract_eval(_shape_of_sums)
for _operation, _transpose, _batch in (
    (_take, _transpose_take, _batch_take),
    (_sums, _transpose_sums, _batch_sums),
):
    ad.primitive_jvps[_operation] = partial(_differentiate, _operation)
    ad.primitive_transposes[_operation] = _transpose
    batching.primitive_batchers[_operation] = _batch
    mlir.register_lowering(_operation, mlir.lower_fun(_operation.impl, multiple_results=False))
