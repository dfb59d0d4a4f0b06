"""What a body looks like where that is more than the shape that gives it mass: several shapes, with
colors.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..rotations.types import Array, Mat3, Vec3, host
from .body import orientation
from .shapes import AbstractShape
from .validation import concrete, vector


class Visual(eqx.Module):
    """A shape that a body shows, wherever its mass may be.

    Attributes:
        shape: Any shape; its mass is not used.
        position: Of the shape's own frame in the body frame, (3,) [m].
        A: From the shape's to body components, (3, 3).
        color: Red, green, blue and opacity from 0 to 1, or None.
    """

    shape: AbstractShape
    position: Vec3
    A: Mat3
    color: tuple[float, ...] | None = eqx.field(static=True)

    def __init__(self, shape, *, position=(0.0, 0.0, 0.0), A=None, color=None):
        if not isinstance(shape, AbstractShape):
            raise TypeError(f"Visual: {shape!r} is not a shape")
        self.shape = shape
        self.position = vector(position, 3, "Visual: position")
        self.A = orientation(A, None, None, "Visual")
        self.color = None if color is None else _color(color)


def _color(color: Any) -> tuple[float, ...]:
    values = tuple(float(x) for x in color)
    values = values + (1.0,) if len(values) == 3 else values
    if len(values) != 4 or not all(0.0 <= x <= 1.0 for x in values):
        raise ValueError(
            f"Visual: color must be three or four numbers from 0 to 1 (red, green, blue, "
            f"opacity), not {color!r}"
        )
    return values


class Looks(eqx.Module):
    """The shapes that a body displays, as `Composite` has them, with colors.

    Attributes:
        parts: The shapes.
        offsets: Positions of their frames in the body frame, (n, 3) [m].
        rotations: Their orientations in the body, (n, 3, 3).
        colors: Of each part, red, green, blue, opacity, or None.
    """

    parts: tuple[AbstractShape, ...]
    offsets: Float[Array, "n 3"]
    rotations: Float[Array, "n 3 3"]
    colors: tuple[tuple[float, ...] | None, ...] = eqx.field(static=True)

    @staticmethod
    def of(visuals: Sequence[Visual]) -> "Looks":
        """Of some visual shapes."""
        xp = jnp if any(concrete(v.position) is None for v in visuals) else host
        return Looks(
            tuple(v.shape for v in visuals),
            xp.stack([v.position for v in visuals]),
            xp.stack([v.A for v in visuals]),
            tuple(v.color for v in visuals),
        )

    def outline(self) -> list[np.ndarray]:
        """Polylines (k, 3) [m] in the body frame."""
        lines = []
        for part, d, A in zip(
            self.parts, np.asarray(self.offsets), np.asarray(self.rotations), strict=True
        ):
            lines += [line @ A.T + d for line in part.outline()]
        return lines
