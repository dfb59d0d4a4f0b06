"""The joints of a mechanism as a spanning tree and the rows that close its loops: static, from
topology alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..model.system import Connection, System
from ..model.topology import Forest

# Slots of a body: translations along e1, e2 and the axis, rotations, of which an axis takes the
# last.
_FREE = (0, 1, 2, 3, 4, 5)
_BALL = (3, 4, 5)


class Tree(NamedTuple):
    """A spanning tree of bodies rooted at the ground; arrays over bodies, in the order of the
    system.

    Attributes:
        order: Bodies, parents before children, (nb,).
        parent: (nb,), the ground being nb.
        connection: Index of the joint to the parent, -1 for a body that is free against its parent,
            (nb,).
        is_j: Whether the body is body j of that joint, (nb,).
        absolute: Whether its rotations are against the ground: free bodies and balls, (nb,).
        body: Body of every freedom, (n,).
        slot: Which of a body's six slots the freedom takes, (n,).
        closures: Rows that the tree's joints do not satisfy by themselves, in the stacked order.
    """

    order: np.ndarray
    parent: np.ndarray
    connection: np.ndarray
    is_j: np.ndarray
    absolute: np.ndarray
    body: np.ndarray
    slot: np.ndarray
    closures: np.ndarray

    @property
    def freedoms(self) -> int:
        """Freedoms of the tree, before its loops are closed."""
        return len(self.body)

    def mask(self) -> np.ndarray:
        """Which slots are freedoms, (nb, 6)."""
        mask = np.zeros((len(self.parent), 6))
        mask[self.body, self.slot] = 1.0
        return mask


def spanning_tree(system: System) -> Tree:
    """The tree that keeps the joints with most rows.

    Joints without a reparametrization of their own (distances, points on lines, free primitives,
    drivers) close loops.
    """
    nb = system.nb
    slots = {
        k: c.element.freedoms
        for k, c in enumerate(system.connections)
        if c.element.freedoms is not None
    }
    chosen = _forest(
        nb, [(k, system.connections[k]) for k in sorted(slots, key=lambda k: len(slots[k]))]
    )
    order, parent, connection = _rooted(nb, chosen)
    stacked = np.array(system.order, int)
    satisfied: set[int] = set()
    for k in connection[connection >= 0]:
        c = system.connections[k]
        satisfied |= set(stacked[list(c.rows[: c.element.tree_rows])].tolist())
    own = [_FREE if k < 0 else slots[k] for k in connection]
    return Tree(
        order=order,
        parent=parent,
        connection=connection,
        is_j=np.array(
            [k < 0 or system.connections[k].j == b for b, k in enumerate(connection)], bool
        ),
        absolute=np.array([freedoms in (_FREE, _BALL) for freedoms in own], bool),
        body=np.array([b for b in range(nb) for _ in own[b]], int),
        slot=np.array([s for freedoms in own for s in freedoms], int),
        closures=np.array(sorted(set(range(system.nc)) - satisfied), int),
    )


def _forest(nb: int, edges: Sequence[tuple[int, Connection]]) -> list[tuple[int, int, int]]:
    """Edges (connection, i, j) without cycles, the first ones first."""
    forest = Forest(nb + 1)
    return [(k, c.i, c.j) for k, c in edges if forest.join(c.i, c.j)]


def _rooted(
    nb: int, edges: Sequence[tuple[int, int, int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order, parents and connections, from the ground outwards; the first body of a loose part
    floats.
    """
    parent, connection = np.full(nb, nb), np.full(nb, -1)
    order: list[int] = []
    seen, waiting = {nb}, [nb]
    for start in range(nb + 1):
        while waiting:
            at = waiting.pop(0)
            for k, i, j in edges:
                child = j if i == at else i if j == at else None
                if child is not None and child not in seen:
                    parent[child], connection[child] = at, k
                    seen.add(child)
                    order.append(child)
                    waiting.append(child)
        if start < nb and start not in seen:
            seen.add(start)
            order.append(start)
            waiting.append(start)
    return np.array(order, int), parent, connection
