"""Joints that close loops between two frames, whether or not the frames meet as described."""

from collections.abc import Sequence

import numpy as np

from .. import model as mbd
from ..model.mechanism import Mechanism
from ..model.primitives import AbstractPrimitive
from ..rotations.types import host

# Of lengths and of directions: below it, points and frames of a constraint count as meeting.
_MEETS = 1e-9


def add_loop(
    m: Mechanism,
    label: str,
    bodies: Sequence[str],
    points: Sequence[np.ndarray],
    frames: Sequence[np.ndarray] | None = None,
) -> None:
    """Hold two points together, or with `frames` two frames, global at the pose described."""
    apart = np.linalg.norm(points[1] - points[0])
    turned = 0.0 if frames is None else np.max(np.abs(frames[1] - frames[0]))
    if apart < _MEETS and turned < _MEETS:
        cls = mbd.Spherical if frames is None else mbd.Fixed
        m.add(cls(label, bodies[0], bodies[1], point=tuple(points[1])))
        return
    # Not closed at this pose: rows between the points and frames that have to meet.
    i, j = (m.ground if b == "ground" else m.bodies[b] for b in bodies)
    s_i, s_j = (b.point(host.asarray(p)) for b, p in zip((i, j), points, strict=True))
    eye = np.eye(3)
    rows: list[AbstractPrimitive] = [mbd.CD(eye[k], s_i, s_j) for k in range(3)]
    if frames is not None:
        F_i, F_j = i.A.T @ frames[0], j.A.T @ frames[1]
        rows += [mbd.DP1(F_i[:, (k + 1) % 3], F_j[:, (k + 2) % 3]) for k in range(3)]
    m.add(mbd.Constraint(label, bodies[0], bodies[1], primitives=rows))
