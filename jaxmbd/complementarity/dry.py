"""Dry friction along one coordinate, with a bound on its impulse."""

from ..rotations.types import Scalar
from .smoothing import off_center


def dry(x: Scalar, v: Scalar, bound: Scalar, spent: Scalar, kappa: Scalar) -> Scalar:
    """Residual of Coulomb's law: x = -bound sign(v) where v is not zero, |x| <= bound where it
    is; `spent` as in `coulomb`.
    """
    return x - off_center((x - v)[None], bound, spent[None], kappa)[0]
