"""Dry friction along one coordinate, with a bound on its impulse."""

from ..rotations.types import Scalar
from .smoothing import on_disc


def dry(x: Scalar, v: Scalar, bound: Scalar, kappa: Scalar) -> Scalar:
    """Residual of Coulomb's law: x = -bound sign(v) where v is not zero, |x| <= bound where it
    is.
    """
    return x - on_disc((x - v)[None], bound, kappa)[0]
