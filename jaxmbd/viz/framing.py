"""What a camera must see of a scene: the outermost points of everything that is drawn."""

from collections.abc import Sequence

import numpy as np

from .nodes import Node

_DIRECTIONS, _ROWS = 150, 60


def outermost(nodes: Sequence[Node], rows: int) -> np.ndarray:
    """The points that reach farthest in many directions, over some rows of a motion, (n, 3) [m].

    Args:
        nodes: The bodies first, in their order.
        rows: Of the motion that count, from its start.
    """
    chosen = np.unique(np.linspace(0, rows - 1, min(rows, _ROWS)).round().astype(int))
    found = [_corners(node, nodes, chosen) for node in nodes if node.parts]
    points = np.concatenate([x.reshape(-1, 3) for x in found])
    extreme = np.argmax(points @ _sphere().T, axis=0)
    return points[np.unique(extreme)]


def _corners(node: Node, nodes: Sequence[Node], rows: np.ndarray) -> np.ndarray:
    """Corners of the box around a node's parts, in its own axes, in space, (T, 8, 3)."""
    own = np.concatenate([part.mesh.points for part in node.parts])
    box = np.stack([own.min(axis=0), own.max(axis=0)])
    corners = np.array([[box[k >> i & 1, i] for i in range(3)] for k in range(8)])
    if node.of is None:
        return _moved(node, corners[None], rows)
    inside = corners @ node.A.T + node.r
    carrier = nodes[node.of]
    moves = carrier.kind == "body"
    return _moved(carrier, inside[None], rows) if moves else inside[None]


def _moved(node: Node, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
    if node.motion is None:
        return points
    r, A, lengths = node.motion
    if lengths is not None:
        scale = np.ones((len(rows), 1, 3))
        scale[:, 0, 2] = lengths[rows]
        points = points * scale
    return (
        np.einsum("tij,tnj->tni", A[rows], np.broadcast_to(points, (len(rows), *points.shape[1:])))
        + r[rows][:, None]
    )


def _sphere() -> np.ndarray:
    """Directions all around, evenly spread along a spiral, (n, 3)."""
    k = np.arange(_DIRECTIONS) + 0.5
    z, angle = 1.0 - 2.0 * k / _DIRECTIONS, np.pi * (1.0 + np.sqrt(5.0)) * k
    return np.stack([np.sqrt(1 - z**2) * np.cos(angle), np.sqrt(1 - z**2) * np.sin(angle), z], 1)
