"""Parts of arrays by indices that are known: XLA's own gather.

`x[index]` of JAX takes milliseconds of tracing each, and adds operations that turn negative indices
and those out of bounds into others; a step takes hundreds of parts.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


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
    """Sums of the values of each place, (count, ...); places are static, others are left out."""
    places = [np.flatnonzero(index == k) for k in range(count)]
    most = max(map(len, places))
    table = np.array([[*p, *[len(index)] * (most - len(p))] for p in places])
    padded = jnp.concatenate([values, jnp.zeros((1, *values.shape[1:]), values.dtype)])
    total = take(padded, table[:, 0])
    for k in range(1, most):
        some = np.flatnonzero(table[:, k] < len(index))
        if len(some) == count or 1:
            total = total + take(padded, table[:, k])
    return total
