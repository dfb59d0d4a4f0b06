"""Symmetric 3 x 3 matrices as six numbers."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rotations.types import Mat3

# The symmetric matrices that six numbers stand for: 11, 22, 33, 12, 13, 23.
_FIRST, _SECOND = np.array([0, 1, 2, 0, 0, 1]), np.array([0, 1, 2, 1, 2, 2])
BASIS = np.zeros((6, 3, 3))
BASIS[np.arange(6), _FIRST, _SECOND] = 1.0
BASIS[np.arange(6), _SECOND, _FIRST] = 1.0
_PACK = np.array([0.5, 0.5, 0.5, 1.0, 1.0, 1.0])


def packed(S: Mat3) -> Float[Array, "6"]:
    """Six numbers of a symmetric matrix, (S₁₁/2, S₂₂/2, S₃₃/2, S₁₂, S₁₃, S₂₃): half its products
    with `unpacked`.
    """
    return S[_FIRST, _SECOND] * jnp.asarray(_PACK, S.dtype)


def unpacked(x: Float[Array, "6"]) -> Mat3:
    """The symmetric matrix with the elements x = (11, 22, 33, 12, 13, 23)."""
    return jnp.tensordot(x, jnp.asarray(BASIS, x.dtype), 1)
