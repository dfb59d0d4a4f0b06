"""Which contacts of many act on each other: the blocks of their matrix that are not zero, and its
elimination along them.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..linalg import BlockFactors, Schedule, Topology, schedule
from ..xla.indexing import take

# Below so many rows one dense factorization is faster.
MANY = 150
# A dense factorization at the end takes a quarter of the rows, and at most so many: smaller levels
# cost more to compile than they save.
_DENSE_ROWS = 300
# Products of small blocks take so many times as long as those of a dense factorization (measured).
_SLOWER = 8.0


@dataclass(frozen=True, eq=False)
class Groups:
    """Contacts of one element each, and the order of their elimination; equal only to itself.

    Attributes:
        plan: Over groups as nodes.
        contacts: (g, p) of every group; their number stands where a group has fewer.
        rows: (g, 3 p) of every group; their number stands where a group has fewer.
        of_row: (w,) place of every row among those of all groups.
        first, second: (slots,) groups of every block.
        own: (g,) slots of the blocks on the diagonal.
    """

    plan: Schedule
    contacts: np.ndarray
    rows: np.ndarray
    of_row: np.ndarray
    first: np.ndarray
    second: np.ndarray
    own: np.ndarray


@functools.lru_cache(maxsize=64)
def grouped(
    elements: tuple[tuple[tuple[int, ...], int], ...], linked: tuple[tuple[int, ...], ...], nb: int
) -> Groups | None:
    """The groups of contacts, if their matrix has so many zeros that elimination along them is
    faster.

    Args:
        elements: Bodies and number of contacts of each.
        linked: Sets of bodies that joints or forces couple.
        nb: Index of the ground, through which nothing acts.
    """
    places = [n for _, n in elements]
    most, rows = max(places), 3 * sum(places)
    if rows < MANY:
        return None
    coupled = _sharing([bodies for bodies, _ in elements], linked, nb)
    topology = Topology(len(elements), 3 * most, (), 0, coupled)
    plan = schedule(topology, dense_nodes=min(_DENSE_ROWS, rows // 4) // (3 * most))
    if 2.0 * _SLOWER * _work(plan) > rows**3 / 3.0:
        return None
    start = np.cumsum([0, *places])
    count = int(start[-1])
    inside = np.arange(most)[None, :] < np.array(places)[:, None]
    contacts = np.where(inside, start[:-1, None] + np.arange(most)[None, :], count)
    lines = (3 * contacts[:, :, None] + np.arange(3)).reshape(len(elements), 3 * most)
    lines = np.minimum(lines, 3 * count)
    of_row = np.flatnonzero(lines.reshape(-1) < 3 * count)
    node = plan.position[:: plan.size] // plan.size
    group = np.argsort(node)
    a, b = np.nonzero(plan.slot_of >= 0)
    order = np.argsort(plan.slot_of[a, b])
    a, b = a[order], b[order]
    return Groups(plan, contacts, lines, of_row, group[a], group[b], plan.slot_of[node, node])


def _work(plan: Schedule) -> float:
    """Multiplications of an elimination, those of the dense part at its end by their own speed."""
    levels = sum(x.count * (1 + x.right.shape[1] + x.right.shape[1] ** 2) for x in plan.levels)
    return levels * plan.size**3 + (plan.final.shape[0] * plan.size) ** 3 / (3.0 * _SLOWER)


def _sharing(
    pairs: list[tuple[int, ...]], linked: tuple[tuple[int, ...], ...], nb: int
) -> tuple[tuple[int, ...], ...]:
    """For every set of bodies that move together, the groups that act on it."""
    root = list(range(nb))

    def find(body: int) -> int:
        while root[body] != body:
            root[body] = root[root[body]]
            body = root[body]
        return body

    for bodies in linked:
        moving = [b for b in bodies if b < nb]
        for b in moving[1:]:
            root[find(b)] = find(moving[0])
    found: dict[int, list[int]] = {}
    for group, pair in enumerate(pairs):
        for body in sorted({find(b) for b in pair if b < nb}):
            found.setdefault(body, []).append(group)
    return tuple(tuple(x) for x in found.values())


def block_factors(
    matrix: Float[Array, "w w"],
    by_x: Float[Array, "c 3 3"],
    by_v: Float[Array, "c 3 3"],
    groups: Groups,
) -> Callable[[Float[Array, " w"]], Float[Array, " w"]]:
    """The function from b to y with (A + B G) y = b, where A and B have a block for each contact
    and G is `matrix`.
    """
    eye = np.eye(3, dtype=matrix.dtype)[None]
    by_x = take(jnp.concatenate([by_x, eye]), groups.contacts)
    by_v = take(jnp.concatenate([by_v, jnp.zeros_like(eye)]), groups.contacts)
    g, p = groups.contacts.shape
    size = 3 * p
    at = groups.rows[groups.first][:, :, None], groups.rows[groups.second][:, None, :]
    blocks = matrix.at[at].get(mode="fill", fill_value=0.0).reshape(-1, p, 3, size)
    left = take(by_v, groups.first)
    through = jnp.sum(left[..., None] * blocks[:, :, None], axis=3).reshape(-1, size, size)
    # A's blocks lie on the diagonal of those of its groups.
    own = np.eye(p, dtype=matrix.dtype)[None, :, None, :, None] * by_x[:, :, :, None, :]
    through = through.at[groups.own].add(own.reshape(g, size, size), unique_indices=True)
    factors = BlockFactors.of_blocks(through, groups.plan)

    def solve(b: Array) -> Array:
        padded = jnp.zeros(g * size, b.dtype).at[groups.of_row].set(b, unique_indices=True)
        return take(factors.solve(padded), groups.of_row)

    return solve
