"""Parts of arrays by indices that are known: XLA's own gather.

`x[index]` of JAX takes milliseconds of tracing each, and adds operations that turn negative indices
and those out of bounds into others; a step takes hundreds of parts.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

_SPARSE = 8  # places to gather, with those of no value, over values: from which a scatter is faster


def take(x: Any, index: Any) -> Any:
    """`x[index]` along the first axis for an array of integers between zero and its length."""
    if isinstance(x, np.ndarray):
        return x[index]
    inner = tuple(range(index.ndim, index.ndim + x.ndim - 1))
    return lax.gather(
        x,
        index[..., None].astype(np.int32),
        lax.GatherDimensionNumbers(
            offset_dims=inner, collapsed_slice_dims=(0,), start_index_map=(0,)
        ),
        slice_sizes=(1, *x.shape[1:]),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def take_or_zero(x: Any, index: np.ndarray) -> Any:
    """The same with zero for an index of the length itself.

    A choice between the two takes less time than to gather from `x` with a zero at its end.
    """
    missing = index >= x.shape[0]
    if not missing.any():
        return take(x, index)
    if missing.all():
        return jnp.zeros((*index.shape, *x.shape[1:]), x.dtype)
    found = take(x, np.where(missing, 0, index))
    mask = missing.reshape(*index.shape, *(1,) * (x.ndim - 1))
    return jnp.where(mask, jnp.zeros((), x.dtype), found)


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


def sums_at(values: Any, index: np.ndarray, count: int) -> Any:
    """Sums of the values, (n, ...), that belong to each place, (count, ...).

    Places are known numbers; values of other places than those below `count` are left out. Values
    are gathered, which takes less time than a scatter unless most places have few of them.
    """
    table = turns(index, count)
    most, known = len(table), int(np.sum(table < len(index)))
    if most * count > _SPARSE * max(known, 64):
        zero = jnp.zeros((count + 1, *values.shape[1:]), values.dtype)
        return zero.at[np.where((index >= 0) & (index < count), index, count)].add(values)[:count]
    parts = [take_or_zero(values, row) for row in table]
    return (
        sum(parts[1:], parts[0]) if parts else jnp.zeros((count, *values.shape[1:]), values.dtype)
    )
