"""Where the numbers of a saddle matrix go in its block elimination: static analysis, NumPy and
plain Python only.

Nodes are supernodes {a body, the rows of the joint to its parent in a spanning tree, its
normalizations}, and the row groups of cut joints. A supernode's own matrix is regular whenever the
mechanism is: its body has inertia in what its joint leaves free. The same holds after any of its
neighbors have gone. A cut joint's is regular once the bodies of its loop have gone, so it waits for
them. Within these bounds, levels of independent nodes of least degree are eliminated together; a
chain takes about log2 of its length in levels.

Where bodies are not coupled and every one has inertia in all directions, bodies can go first and
alone, all in one level; the rows of joints are then nodes of a definite matrix, J H⁻¹ Jᵀ, and may
go in any order. These blocks are half the size of supernodes.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .supernodes import bodies_and_rows, carried_bodies, supernodes

# So few nodes left are factored as one dense matrix, which saves the compilation of small levels.
_DENSE_NODES = 4
# So few nodes left of a definite matrix are inverted as one: as fast as their levels, and compiled
# in less time.
_INVERTED = 3
_LEVEL_TIME, _NODE_TIME = (
    50.0,
    10.0,
)  # of a level and of a node's inverse, in products of two blocks (measured)


@dataclass(frozen=True, eq=False)
class Level:
    """Independent nodes that are eliminated together.

    Slots index the blocks still there, the last of which is zero. Nodes still there are numbered
    with the level's own first; `neighbors` count from the first that stays.
    """

    count: int
    places: (
        int  # of a node that unknowns take; those after them are padding in every node of the level
    )
    pivots: np.ndarray  # (n,) slots
    right: np.ndarray  # (n, w) slots of (pivot row, neighbor column)
    left: np.ndarray  # (n, w) slots of (neighbor row, pivot column)
    neighbors: np.ndarray  # (n, w), the number of nodes that stay where there is none
    kept: np.ndarray  # (slots of the next level + 1,) in those of this one
    block_updates: (
        np.ndarray
    )  # (slots of the next level + 1, c) into n w w products, n w w where there is none
    vector_updates: np.ndarray  # (nodes that stay, c') into n w products, n w where there is none


@dataclass(frozen=True, eq=False)
class Schedule:
    """The elimination of one topology; equal only to itself, and `schedule` makes one per topology.

    Attributes:
        size: Numbers per node, S.
        sizes: Numbers that the largest node takes of those still there at each level, and after the
            last one.
        slots: Number of blocks at the start.
        position: Place of every unknown (bodies first, then rows) among nodes x S, in order of
            elimination.
        slot_of: Slot of a pair of nodes, (nodes, nodes); -1 where the block is zero.
        levels: In order.
        final: (r, r) slots of what remains.
    """

    size: int
    sizes: tuple[int, ...]
    slots: int
    position: np.ndarray
    slot_of: np.ndarray
    levels: tuple[Level, ...]
    final: np.ndarray

    @property
    def nodes(self) -> int:
        return self.slot_of.shape[0]


class Topology(NamedTuple):
    """Where a saddle matrix has blocks.

    Attributes:
        nb: Number of bodies; as an index, the ground.
        d: Unknowns of a body.
        row_bodies: Bodies of each row.
        inner: Number of rows at the end that bind the coordinates of one body alone.
        coupled: Sets of bodies that further blocks couple.
        couplers: Rows that bind, of each of their bodies, what its joint leaves free.
        light: Bodies without inertia of their own, which wait for those that they carry.
    """

    nb: int
    d: int
    row_bodies: tuple[tuple[int, ...], ...]
    inner: int = 0
    coupled: tuple[tuple[int, ...], ...] = ()
    couplers: tuple[int, ...] = ()
    light: tuple[int, ...] = ()


@functools.lru_cache(maxsize=256)
def schedule(
    topology: Topology,
    *,
    bodies_first: bool = False,
    dense_nodes: int | None = None,
    definite: bool = False,
) -> Schedule:
    """The elimination of a saddle matrix.

    Args:
        topology: Where it has blocks.
        bodies_first: Eliminate bodies before all rows that bind two of them.
        dense_nodes: How many nodes a dense factorization takes at the end.
        definite: Whether rows do not repeat, where they are eliminated after bodies.
    """
    nb, d, row_bodies, inner, coupled, couplers, light = topology
    own, cut, waits = (
        bodies_and_rows(nb, d, row_bodies, inner)
        if bodies_first
        else supernodes(nb, d, row_bodies, inner, frozenset(couplers))
    )
    size = max([d + len(rows) for rows in own] + [d] + [len(rows) for rows, _ in cut])
    members = [(b, own[b]) for b in range(nb)] + [(None, rows) for rows, _ in cut]
    node_of_row = {row: k for k, (_, rows) in enumerate(members) for row in rows}

    adjacent: list[set[int]] = [set() for _ in members]

    def join(together: Iterable[int]) -> None:
        nodes = [k for k in together if k < len(members)]
        for a in nodes:
            adjacent[a].update(b for b in nodes if b != a)

    for row, bodies in enumerate(row_bodies):
        for body in bodies:
            if body < nb:
                join((node_of_row[row], body))
    for bodies in coupled:
        join([b for b in bodies if b < nb])

    pattern = {(a, b) for a, near in enumerate(adjacent) for b in near} | {
        (a, a) for a in range(len(members))
    }
    waiting = {nb + k: set(w) for k, w in enumerate(waits)}
    if light:
        carried = carried_bodies(nb, row_bodies, inner)
        waiting |= {body: carried[body] for body in light}
    rest = dense_nodes
    if rest is None:
        rest = min(_INVERTED, len(cut)) if definite else _dense_nodes(len(members), bodies_first)
    picks, remains = _levels(adjacent, waiting, rest)
    order = [k for level in picks for k in level[0]] + remains
    rank = {node: r for r, node in enumerate(order)}

    slot_of = np.full((len(members), len(members)), -1)
    current = sorted(pattern)
    for slot, (a, b) in enumerate(current):
        slot_of[rank[a], rank[b]] = slot
    position = np.full(nb * d + len(row_bodies), -1)
    for node, (body, rows) in enumerate(members):
        start = rank[node] * size
        if body is not None:
            position[body * d : (body + 1) * d] = start + np.arange(d)
            start += d
        for k, row in enumerate(rows):
            position[nb * d + row] = start + k
    places = [len(rows) + (0 if body is None else d) for body, rows in members]
    levels, final_slots = [], {pair: slot for slot, pair in enumerate(current)}
    stays, sizes = order, [size]
    for nodes, near in picks:
        stays = stays[len(nodes) :]
        sizes.append(max((places[k] for k in stays), default=sizes[-1]))
        level, final_slots = _level(nodes, max(places[k] for k in nodes), near, stays, final_slots)
        levels.append(level)
    none = len(final_slots)
    final = np.array([[final_slots.get((a, b), none) for b in remains] for a in remains], int)
    return Schedule(
        size,
        tuple(sizes),
        len(current),
        position,
        slot_of,
        tuple(levels),
        final.reshape(len(remains), len(remains)),
    )


def _dense_nodes(members: int, bodies_first: bool) -> int:
    """How many nodes to leave to a dense factorization; none of a small definite matrix, where LU
    calls would rule.
    """
    if bodies_first:
        return 0 if members <= 4 * _DENSE_NODES else 2 * _DENSE_NODES
    return _DENSE_NODES


def _levels(adjacent: list[set[int]], waiting: dict[int, set[int]], rest: int):
    """Nodes of every level with their neighbors at that time, and the nodes that remain, `rest` or
    a dense graph.
    """
    adjacent = [set(a) for a in adjacent]
    left = set(range(len(adjacent)))
    picks = []
    while len(left) > rest:
        ready = [k for k in left if not waiting.get(k, set()) & left]
        degrees = {k: len(adjacent[k]) for k in ready}
        if len(left) > _DENSE_NODES and min(degrees.values()) >= 0.6 * (len(left) - 1):
            break
        chosen = _choose(ready, degrees, adjacent)
        picks.append((chosen, [sorted(adjacent[k]) for k in chosen]))
        left -= set(chosen)
        for k in chosen:
            for a in adjacent[k]:
                adjacent[a] |= adjacent[k]
                adjacent[a] -= {a, k}
            adjacent[k] = set()
    return picks, sorted(left)


def _choose(ready: list[int], degrees: dict[int, int], adjacent: list[set[int]]) -> list[int]:
    """Independent nodes: of least degree, and of higher ones where more nodes at once are worth the
    wider tables.
    """
    best, best_rate = [], 0.0
    least = min(degrees.values())
    for limit in sorted({degrees[k] for k in ready if degrees[k] <= 2 * least + 2}):
        chosen: list[int] = []
        blocked: set[int] = set()
        for k in sorted((k for k in ready if degrees[k] <= limit), key=lambda k: (degrees[k], k)):
            if k not in blocked:
                chosen.append(k)
                blocked |= adjacent[k]
        time = _LEVEL_TIME + len(chosen) * (_NODE_TIME + limit + limit**2)
        if len(chosen) / time > best_rate:
            best, best_rate = chosen, len(chosen) / time
    return best


def _level(
    nodes: list[int], places: int, near: list[list[int]], stays: list[int], slots: dict
) -> tuple[Level, dict]:
    """The tables of one level, and the slots of the next."""
    n, w = len(nodes), max((len(x) for x in near), default=0)
    none = len(slots)
    place = {node: k for k, node in enumerate(stays)}
    right, left = np.full((n, w), none), np.full((n, w), none)
    neighbors = np.full((n, w), len(stays))
    block_updates: dict[tuple[int, int], list[int]] = {}
    vector_updates: dict[int, list[int]] = {}
    for p, (node, others) in enumerate(zip(nodes, near, strict=True)):
        for x, a in enumerate(others):
            right[p, x], left[p, x] = slots[node, a], slots[a, node]
            neighbors[p, x] = place[a]
            vector_updates.setdefault(a, []).append(p * w + x)
            for y, b in enumerate(others):
                block_updates.setdefault((a, b), []).append((p * w + x) * w + y)
    gone = set(nodes)
    old = [pair for pair in slots if not gone & set(pair)]
    pairs = sorted(set(old) | set(block_updates))
    level = Level(
        count=n,
        places=places,
        pivots=np.array([slots[node, node] for node in nodes]),
        right=right,
        left=left,
        neighbors=neighbors,
        kept=np.array([*(slots.get(pair, none) for pair in pairs), none], int),
        block_updates=_table([*(block_updates.get(pair, []) for pair in pairs), []], n * w * w),
        vector_updates=_table([vector_updates.get(node, []) for node in stays], n * w),
    )
    return level, {pair: k for k, pair in enumerate(pairs)}


def _table(lists: list[list[int]], fill: int) -> np.ndarray:
    """Lists of different lengths as one array."""
    width = max((len(x) for x in lists), default=0)
    table = np.full((len(lists), width), fill)
    for k, x in enumerate(lists):
        table[k, : len(x)] = x
    return table
