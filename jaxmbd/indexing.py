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


def sums_at(values: Any, index: np.ndarray, count: int) -> Any:
    """Sums of the values, (n, ...), that belong to each place, (count, ...).

    Places are known numbers; values of other places than those below `count` are left out. Values
    are gathered, which takes less time than a scatter unless most places have few of them.
    """
    order = np.argsort(index, kind="stable")
    order = order[(index[order] >= 0) & (index[order] < count)]
    each = np.bincount(index[order], minlength=count)
    most = int(each.max(initial=0))
    if most * count > _SPARSE * max(len(order), 64):
        zero = jnp.zeros((count + 1, *values.shape[1:]), values.dtype)
        return zero.at[np.where((index >= 0) & (index < count), index, count)].add(values)[:count]
    # Of every place the first value, the second, and so on; a zero where there is none.
    turn = np.arange(len(order)) - np.repeat(np.cumsum(each) - each, each)
    table = np.full((most, count), len(index))
    table[turn, index[order]] = order
    padded = jnp.concatenate([values, jnp.zeros((1, *values.shape[1:]), values.dtype)])
    parts = [take(padded, row) for row in table]
    return (
        sum(parts[1:], parts[0]) if parts else jnp.zeros((count, *values.shape[1:]), values.dtype)
    )
