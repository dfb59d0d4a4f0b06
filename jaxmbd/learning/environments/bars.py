"""Bars of planar linkages."""

from typing import Any

import numpy as np
from jaxtyping import Float

from ...model import Body, Box, Mechanism


def add_bar(
    m: Mechanism,
    name: str,
    one: Float[np.ndarray, "2"],
    other: Float[np.ndarray, "2"],
    *,
    mass: float,
    width: float = 0.03,
    **more: Any,
) -> Body:
    """A bar of the mechanism between two points of the plane y = 0, given by x and z [m]; its own x
    axis points from the first to the second. `more` goes to `Mechanism.add_body`.
    """
    p, q = in_space(one), in_space(other)
    length = float(np.linalg.norm(q - p))
    x, _, z = (q - p) / length
    return m.add_body(
        name,
        shape=Box((length, width, width), mass=mass),
        r=0.5 * (p + q),
        A=np.array([[x, 0.0, -z], [0.0, 1.0, 0.0], [z, 0.0, x]]),
        **more,
    )


def in_space(point: Float[np.ndarray, "2"]) -> Float[np.ndarray, "3"]:
    """A point of the plane y = 0 by its x and z [m], with all three components."""
    return np.array([point[0], 0.0, point[1]])
