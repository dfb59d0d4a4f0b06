"""Arrays with one entry for each row of a motion, and programs that run for all rows."""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer, PyTree

from ..model.compiled import Compiled, if_made, remembered, runs_now
from ..model.system import System
from ..model.validation import is_concrete
from ..rotations.types import Array

_One: TypeAlias = int | slice | Integer[Array, "*n"] | np.ndarray
Index: TypeAlias = _One | tuple[_One, ...]


def part_of(x: Array, index: Index) -> Array:
    """`x[index]`; of a known array by NumPy, which compiles nothing."""
    return jax.device_put(np.asarray(x)[index]) if is_concrete(x) else x[index]


def with_ground(x: Float[Array, "T nb *s"], ground: float | np.ndarray) -> Float[Array, "T b *s"]:
    """Quantities of all bodies with those of the ground behind them."""
    shape = (x.shape[0], 1, *x.shape[2:])
    row = np.broadcast_to(np.asarray(ground, x.dtype), shape)
    if is_concrete(x):
        return jax.device_put(np.concatenate([np.asarray(x), row], axis=1))
    return jnp.concatenate([x, row], axis=1)


def by_rows(program: Compiled, about: PyTree, *motion: PyTree) -> Any:
    """`program(about, *motion)` for arrays with one entry a row; known ones are filled up to a
    power of two, so that motions of other lengths compile nothing.
    """
    if not runs_now(about, motion):
        return program(about, *motion)
    count, filled = _filled(motion)
    bodies, like = (about.nb, about.unnamed()) if isinstance(about, System) else (2, about)
    found = remembered(program, program.for_work(count * bodies, like), about, *filled)
    return jax.device_put(jax.tree.map(lambda x: np.asarray(x)[:count], found))


def _filled(motion: tuple) -> tuple[int, tuple]:
    """The number of rows of a motion, and the motion with its last row repeated up to a power of
    two.
    """
    count = jax.tree.leaves(motion)[0].shape[0]
    size = 1 << max(4, (count - 1).bit_length())

    def filled(x: Array) -> Array:
        known = np.asarray(x)
        return jax.device_put(np.concatenate([known, np.repeat(known[-1:], size - count, axis=0)]))

    return count, jax.tree.map(filled, motion)


def by_rows_if_made(program: Compiled, about: PyTree, *motion: PyTree) -> Any:
    """As `by_rows`, where that compiles nothing; None elsewhere."""
    if about is None or not is_concrete((about, motion)):
        return None
    count, filled = _filled(motion)
    found = if_made(program, about, *filled)
    return None if found is None else jax.tree.map(lambda x: np.asarray(x)[:count], found)
