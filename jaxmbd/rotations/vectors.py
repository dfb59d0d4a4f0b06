"""Vectors of three numbers: cross products, their matrices, and bases."""

import jax.numpy as jnp
import numpy as np

from ..xla.indexing import take
from .types import Mat3, Vec3, library_of

# Index tables: one gather compiles to far less code than nine slices and a concatenation.
_SKEW_INDEX = np.array([[0, 2, 1], [2, 0, 0], [1, 0, 0]])
_SKEW_SIGN = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])


def skew(x: Vec3) -> Mat3:
    """The matrix of the cross product, `skew(x) @ y = x × y`."""
    return take(x, _SKEW_INDEX) * _SKEW_SIGN.astype(x.dtype)


def cross(x: Vec3, y: Vec3) -> Vec3:
    """The cross product x × y."""
    return take(x, _NEXT) * take(y, _LAST) - take(x, _LAST) * take(y, _NEXT)


def vee(X: Mat3) -> Vec3:
    """The vector of the skew-symmetric part of `X`; the inverse of `skew`."""
    return 0.5 * jnp.stack([X[2, 1] - X[1, 2], X[0, 2] - X[2, 0], X[1, 0] - X[0, 1]])


def basis_from_axis(axis: Vec3) -> Mat3:
    """A right-handed orthonormal basis (rows) whose third vector is along `axis`."""
    xp = library_of(axis)
    n = axis / xp.linalg.norm(axis)
    # The coordinate axis least aligned with n: never parallel, piecewise constant, hence
    # differentiable.
    helper = xp.eye(3, dtype=n.dtype)[xp.argmin(xp.abs(n))]
    e1 = helper - (helper @ n) * n
    e1 = e1 / xp.linalg.norm(e1)
    return xp.stack([e1, cross(n, e1), n])
