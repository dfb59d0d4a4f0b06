"""Lines of beams that bend with their nodes."""

from typing import Any

import numpy as np

_PIECES = 6  # of the line between two nodes


def beam_lines(
    r: np.ndarray, A: np.ndarray, extents: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The line of centroids, and the four edges with the sections at both ends.

    Between nodes the line is a cubic with the tangents of the nodes, and sections turn evenly.

    Args:
        r: Positions of the nodes, (n, 3) [m].
        A: Their orientations, (n, 3, 3).
        extents: Edges of the section along y and z, (2,) [m].
    """
    s = np.linspace(0.0, 1.0, _PIECES + 1)[:-1, None]
    chord = np.linalg.norm(r[1:] - r[:-1], axis=1)[:, None]
    start, end = chord * A[:-1, :, 0], chord * A[1:, :, 0]
    weights = (2 * s**3 - 3 * s**2 + 1, s**3 - 2 * s**2 + s, 3 * s**2 - 2 * s**3, s**3 - s**2)
    parts = (r[:-1], start, r[1:], end)
    line: Any = sum(w[None] * x[:, None] for w, x in zip(weights, parts, strict=True))
    center = np.concatenate([line.reshape(-1, 3), r[-1:]])
    across = (1.0 - s)[None] * A[:-1, None, :, 1:].transpose(3, 0, 1, 2) + s[None] * A[
        1:, None, :, 1:
    ].transpose(3, 0, 1, 2)
    y, z = (
        np.concatenate([x.reshape(-1, 3), A[-1:, :, k + 1]]) * 0.5 * extents[k]
        for k, x in enumerate(across)
    )
    corners = [center + a * y + b * z for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    rings = [np.array([c[k] for c in [*corners, corners[0]]]) for k in (0, -1)]
    return center, [*corners, *rings]
