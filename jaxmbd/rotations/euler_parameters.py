"""Euler parameters p = (e0, e1, e2, e3): unit quaternions, scalar first.

The rotation matrix is the homogeneous one, `A = (e0² - e·e) I + 2 (e eᵀ + e0 skew(e))`: it is a
rotation only for
|p| = 1, scales with |p|² elsewhere, and its derivative is the one that goes with the matrix `G`
below.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..xla.indexing import take
from .types import Array, Mat3, Vec3, Vec4, library_of
from .vectors import skew


def to_matrix(p: Vec4) -> Mat3:
    """The rotation matrix of `p`."""
    xp = library_of(p)
    e0, e = p[0], p[1:]
    return (e0 * e0 - e @ e) * xp.eye(3, dtype=p.dtype) + 2.0 * (xp.outer(e, e) + e0 * skew(e))


def from_matrix(A: Mat3) -> Vec4:
    """Euler parameters of a rotation matrix (Shepperd's method), with the largest component
    positive.
    """
    # Row k of this symmetric matrix is 4 p_k p.
    S = jnp.sum(_SHEPPERD.astype(A.dtype) * A.reshape(1, 1, 9), axis=2) + np.eye(4, dtype=A.dtype)
    k = jnp.argmax(jnp.diagonal(S))
    row = jnp.sum(jnp.where(np.arange(4)[:, None] == k, S, 0.0), axis=0)
    return row / jnp.sqrt(jnp.sum(row * row))


def _shepperd() -> np.ndarray:
    """What the entries of a rotation matrix add to 4 p pᵀ: (4, 4, 9)."""
    table = np.zeros((4, 4, 3, 3))
    table[0, 0] = np.eye(3)
    for k in range(3):
        table[k + 1, k + 1] = -np.eye(3)
        table[k + 1, k + 1, k, k] = 1.0
        i, j = (k + 1) % 3, (k + 2) % 3
        for at in ((0, k + 1), (k + 1, 0)):
            table[(*at, j, i)], table[(*at, i, j)] = 1.0, -1.0
        for at in ((i + 1, j + 1), (j + 1, i + 1)):
            table[(*at, i, j)] = table[(*at, j, i)] = 1.0
    return table.reshape(4, 4, 9)


_SHEPPERD = _shepperd()


def G(p: Vec4) -> Float[Array, "3 4"]:
    """The 3 x 4 matrix of omega_bar = 2 G p_dot and p_dot = 1/2 Gᵀ omega_bar (Kissel et al. Eq.
    39c).
    """
    e0, e = p[0], p[1:]
    return jnp.concatenate([-e[:, None], e0 * np.eye(3, dtype=p.dtype) - skew(e)], axis=1)


def turned_back(m: Vec3) -> Float[Array, "4 4"]:
    """M with G(p)ᵀ m = M p for every p."""
    first = jnp.concatenate([jnp.zeros(1, m.dtype), -m])
    return jnp.concatenate([first[None], jnp.concatenate([m[:, None], -skew(m)], axis=1)])


def _bends() -> np.ndarray:
    """Second derivatives of the homogeneous matrix by p, constant: (3, 3, 4, 4)."""
    table, eye = np.zeros((3, 3, 4, 4)), np.eye(3)
    table[:, :, 0, 0] = 2.0 * eye
    for k in range(3):
        axis = np.zeros((3, 3))
        i, j = (k + 1) % 3, (k + 2) % 3
        axis[j, i], axis[i, j] = 2.0, -2.0
        table[:, :, 0, k + 1] = table[:, :, k + 1, 0] = axis
        for m in range(3):
            dyad = np.outer(eye[k], eye[m])
            table[:, :, k + 1, m + 1] = 2.0 * (dyad + dyad.T) - 2.0 * (k == m) * eye
    return table


BENDS = _bends()
# Every element of the first derivatives is one of the parameters, doubled, with a sign.
_PLACE, _SIGN = np.argmax(np.abs(BENDS), axis=3), np.sum(BENDS, axis=3)


def slopes(p: Vec4) -> Float[Array, "3 3 4"]:
    """∂A/∂p_k: B(p, s) of Kissel et al. Eq. 23a is its product with s, for the homogeneous
    matrix.
    """
    return jnp.asarray(_SIGN, p.dtype) * take(p, _PLACE)
