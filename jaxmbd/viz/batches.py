"""Batches of motions: one in full, the others as ghosts beside it."""

import math

import jax
import numpy as np

from ..results.solution import Solution
from .data import finite_rows

MOST = 64  # motions that a view shows


def one_of(batch: Solution, member: int) -> tuple[Solution, Solution]:
    """A member of a batch, and the whole batch with one leading axis.

    Raises:
        ValueError: There is no such member.
    """
    ahead = batch.r.ndim - 3
    count = math.prod(batch.r.shape[:ahead])
    flat = jax.tree.map(lambda x: np.asarray(x).reshape(count, *np.shape(x)[ahead:]), batch)
    if not -count <= member < count:
        raise ValueError(f"view: there is no motion {member}: the batch has {count}")
    return jax.tree.map(lambda x: x[member], flat), flat


def ghosts(batch: Solution, member: int, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the bodies of the others are at some times, (T, n, nb, 3) and (T, n, nb, 3, 3): at the
    row before each, and from a failure on where they were last. A view shows the first ones of
    many.
    """
    count = batch.r.shape[0]
    others = [k for k in range(count) if k != member % count][: MOST - 1]
    paths = [[np.asarray(x[k]) for x in (batch.t, batch.r, batch.A)] for k in others]
    found = [_followed(times, r, A, t) for times, r, A in paths]
    found = [x for x in found if x is not None]
    if not found:
        nb = batch.r.shape[2]
        return np.zeros((len(t), 0, nb, 3)), np.zeros((len(t), 0, nb, 3, 3))
    return np.stack([r for r, _ in found], axis=1), np.stack([A for _, A in found], axis=1)


def _followed(
    times: np.ndarray, r: np.ndarray, A: np.ndarray, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    good = np.flatnonzero(finite_rows(times, r, A))
    if not good.size:
        return None
    rows = good[np.maximum(np.searchsorted(times[good], t, side="right") - 1, 0)]
    return r[rows], A[rows]
