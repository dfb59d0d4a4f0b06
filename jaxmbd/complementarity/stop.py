"""A stop, which can only push."""

from ..rotations.types import Scalar
from .smoothing import positive_part


def stop(x: Scalar, v: Scalar, kappa: Scalar) -> Scalar:
    """Residual of x >= 0, v >= 0, x v = 0."""
    return x - positive_part(x - v, kappa)
