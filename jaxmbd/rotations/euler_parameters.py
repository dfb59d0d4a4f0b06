"""Euler parameters p = (e0, e1, e2, e3): unit quaternions, scalar first.

The rotation matrix is the homogeneous one, `A = (e0² - e·e) I + 2 (e eᵀ + e0 skew(e))`: it is a
rotation only for
|p| = 1, scales with |p|² elsewhere, and its derivative is the one that goes with the matrix `G`
below.
"""

import jax.numpy as jnp
from jaxtyping import Float

from .types import Array, Mat3, Vec4, library_of
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
    trace = jnp.trace(A)
    squares = jnp.concatenate([trace[None], jnp.diagonal(A)])
    k = jnp.argmax(squares)
    # Row k of this symmetric matrix is 4 p_k p.
    S = jnp.array(
        [
            [1.0 + trace, A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1]],
            [0.0, 1.0 + 2 * A[0, 0] - trace, A[0, 1] + A[1, 0], A[0, 2] + A[2, 0]],
            [0.0, 0.0, 1.0 + 2 * A[1, 1] - trace, A[1, 2] + A[2, 1]],
            [0.0, 0.0, 0.0, 1.0 + 2 * A[2, 2] - trace],
        ]
    )
    S = S + jnp.triu(S, 1).T
    row = S[k]
    return row / jnp.linalg.norm(row)


def G(p: Vec4) -> Float[Array, "3 4"]:
    """The 3 x 4 matrix of omega_bar = 2 G p_dot and p_dot = 1/2 Gᵀ omega_bar (Kissel et al. Eq.
    39c).
    """
    e0, e = p[0], p[1:]
    return jnp.concatenate([-e[:, None], e0 * jnp.eye(3, dtype=p.dtype) - skew(e)], axis=1)
