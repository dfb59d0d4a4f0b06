"""Lines that pictures draw on bodies."""

import numpy as np

from ..rotations.types import host
from ..rotations.vectors import basis_from_axis
from .validation import Numbers

_AROUND = np.linspace(0.0, 2.0 * np.pi, 49)


def circle(center: Numbers, axis: Numbers, radius: float) -> np.ndarray:
    """A circle about a unit axis with a stroke towards its center, so that its turning shows,
    (n, 3).
    """
    middle, about = np.asarray(center, float), host.asarray(axis, float)
    e1, e2, _ = (np.asarray(e) for e in basis_from_axis(about))
    rim = middle + radius * (np.outer(np.cos(_AROUND), e1) + np.outer(np.sin(_AROUND), e2))
    return np.concatenate([rim, (middle + 0.6 * radius * e1)[None]])


def plain(value: Numbers) -> float:
    """A known number as it is."""
    return float(np.asarray(value))
