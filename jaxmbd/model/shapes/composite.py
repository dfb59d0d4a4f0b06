"""Several shapes as one rigid body."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Mat3, Scalar, Vec3, host, library_of
from ..validation import Numbers, array, vector
from .base import AbstractShape, stacked


class Composite(AbstractShape):
    """Several shapes as one rigid body, in a frame at their common mass center with the given axes.

    Attributes:
        parts: The shapes.
        offsets: Their mass centers from the common one, (n, 3) [m].
        rotations: Their orientations in the composite, (n, 3, 3).
        center: The common mass center in the frame in which the positions were given, (3,) [m].
    """

    parts: tuple[AbstractShape, ...]
    offsets: Float[Array, "n 3"]
    rotations: Float[Array, "n 3 3"]
    center: Vec3
    mass: Scalar

    def __init__(
        self,
        parts: Sequence[AbstractShape],
        positions: Iterable[Numbers],
        rotations: Iterable[Numbers] | None = None,
    ):
        if not parts:
            raise ValueError("Composite: needs at least one part")
        self.parts = tuple(parts)
        masses = stacked([p.mass for p in parts])
        points = stacked([vector(p, 3, "Composite: position") for p in positions])
        if len(points) != len(parts):
            raise ValueError(f"Composite: {len(parts)} parts but {len(points)} positions")
        eye = np.eye(3, dtype=masses.dtype)
        turns = (
            [eye] * len(parts)
            if rotations is None
            else [array(A, (3, 3), "Composite: rotation") for A in rotations]
        )
        self.rotations = stacked(turns)
        self.mass = masses.sum()
        self.center = masses @ points / self.mass
        self.offsets = points - self.center[None, :]

    @property
    def inertia(self) -> Mat3:
        total = host.zeros((3, 3), self.mass.dtype)
        for part, d, A in zip(self.parts, self.offsets, self.rotations, strict=True):
            outer = library_of(d).outer(d, d)
            steiner = part.mass * ((d @ d) * np.eye(3, dtype=d.dtype) - outer)
            total = total + A @ part.inertia @ A.T + steiner
        return total

    def outline(self) -> list[np.ndarray]:
        lines = []
        for part, d, A in zip(
            self.parts, np.asarray(self.offsets), np.asarray(self.rotations), strict=True
        ):
            lines += [line @ A.T + d for line in part.outline()]
        return lines
