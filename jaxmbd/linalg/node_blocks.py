"""Blocks of a saddle matrix for pairs of the nodes of its elimination.

A row of the matrix has d numbers beside each other for every body that it meets, and so has a
column of Rᵀ: blocks are gathered from these lines, which takes a fraction of the time that single
entries take.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..xla.indexing import take_or_zero, turns
from .ordering import Schedule
from .saddle import SaddleMatrix

Slots = Int[np.ndarray, "*n"]
# From slots of a plan and numbers of rows and columns: the blocks there, a slot past the last zero,
# without the rows and columns after so many, which are padding.
Blocks = Callable[[Slots, int, int], Float[Array, "*n r c"]]


def node_blocks(matrix: SaddleMatrix, plan: Schedule) -> Blocks:
    """The function from slots of a plan to the matrix's blocks there.

    Places of no unknown have the identity.
    """
    nb, d, _ = matrix.diagonal.shape
    position, index = plan.position, matrix.index
    body = position[: nb * d].reshape(nb, d)
    row = np.broadcast_to(position[nb * d :, None], index.shape)
    # Below each other and beside each other: the numbers of one row, and of one column, of K.
    below = [
        _Lines.of(matrix.diagonal, body, np.arange(nb)[:, None], plan, nb, d),
        _Lines.of(matrix.left, row, index, plan, nb, d),
    ]
    for c in matrix.couplings:
        at = np.array(c.bodies, int)
        known = np.concatenate([body, np.full((1, d), -1)])[at]  # the ground has no place
        lines = c.padded(d)
        below.append(_Lines.of(lines, known[:, :, :, None], at[:, None, None, :], plan, nb, d))
    beside = _Lines.of(matrix.right, row, index, plan, nb, d, beside=True)
    size = plan.size
    own = np.full(plan.nodes * size, -1)  # of every place its row, those of bodies none
    own[position[nb * d :]] = np.arange(len(position) - nb * d)
    empty = np.ones(plan.nodes * size, bool)
    empty[position] = False
    node = np.full(plan.slots + 1, -1)  # of a slot on the diagonal
    node[plan.slot_of[np.arange(plan.nodes), np.arange(plan.nodes)]] = np.arange(plan.nodes)

    def diagonal(slots: np.ndarray, rows: int, columns: int) -> Any:
        of = node[slots]
        padded = (of >= 0)[:, None] & empty.reshape(-1, size)[of, :rows]
        ours = np.where((of >= 0)[:, None], own.reshape(-1, size)[of, :rows], -1)
        values: Any = padded.astype(matrix.diagonal.dtype) if padded.any() else None
        if matrix.regularization is not None and (ours >= 0).any():
            m = matrix.regularization.shape[0]
            softness = take_or_zero(matrix.regularization, np.where(ours >= 0, ours, m))
            values = -softness if values is None else values - softness
        if values is None:
            return None
        return values[:, :, None] * jnp.eye(rows, columns, dtype=matrix.diagonal.dtype)[None]

    def blocks(slots: Slots, rows: int, columns: int) -> Float[Array, "*n r c"]:
        flat = slots.reshape(-1)
        parts = [x for lines in below if (x := lines.at(flat, rows)) is not None]
        whole = [_of_width(x, columns) for x in parts]
        if (x := beside.at(flat, columns)) is not None:
            whole.append(_of_width(x, rows).swapaxes(1, 2))
        if (x := diagonal(flat, rows, columns)) is not None:
            whole.append(x)
        total = (
            sum(whole[1:], whole[0])
            if whole
            else jnp.zeros((flat.size, rows, columns), matrix.diagonal.dtype)
        )
        return total.reshape(*slots.shape, rows, columns)

    return blocks


def _of_width(lines: Array, width: int) -> Array:
    """Lines with zeros after them, or without numbers that are zero."""
    d = lines.shape[-1]
    return jnp.pad(lines, ((0, 0), (0, 0), (0, width - d))) if width > d else lines[..., :width]


@dataclass(frozen=True)
class _Lines:
    """Lines of d numbers, and which of them add up to each line of the blocks."""

    values: Float[Array, "n d"]
    table: Int[np.ndarray, "turns slots S"]  # n where there is none

    @staticmethod
    def of(
        values: Array,
        place: np.ndarray,
        bodies: np.ndarray,
        plan: Schedule,
        nb: int,
        d: int,
        *,
        beside: bool = False,
    ) -> "_Lines":
        """Lines at these places of the unknowns, -1 for none, that meet these bodies."""
        values = values.reshape(-1, d)
        place, bodies = (x.reshape(-1) for x in np.broadcast_arrays(place, bodies))
        exists = (place >= 0) & (bodies < nb)
        of_body = plan.position[::d][:nb] // plan.size
        mine = place // plan.size
        other = of_body[np.where(exists, bodies, 0)] if nb else mine
        slot = plan.slot_of[other, mine] if beside else plan.slot_of[mine, other]
        lines = (plan.slots + 1) * plan.size
        target = np.where(exists, slot * plan.size + place % plan.size, lines)
        table = turns(target, lines)
        return _Lines(values, table.reshape(len(table), plan.slots + 1, plan.size))

    def at(self, slots: np.ndarray, count: int) -> Any:
        """(n, count, d), the first lines of every block, or None where the blocks have none."""
        table = self.table[:, slots, :count]
        found = [take_or_zero(self.values, x) for x in table if (x < len(self.values)).any()]
        return sum(found[1:], found[0]) if found else None
