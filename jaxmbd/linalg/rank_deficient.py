"""Newton corrections for saddle matrices whose rows nearly lose rank, by singular values."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rotations.types import Scalar
from .dense import DenseFactors
from .lapack import thin_svd
from .saddle import SaddleMatrix

# Of the largest singular value; rows whose singular values are below repeat others to rounding.
_REPEATED = 0.6


def damped_correction(
    matrix: SaddleMatrix, value: Float[Array, " n"], damping: Scalar
) -> Float[Array, " n"]:
    """The correction K x = -value, with unknowns of the rows as forces in orthonormal directions.

    With R = U S Wᵀ the multipliers y enter as the forces S Uᵀ y along W, which stay finite where a
    singular value s goes to zero and y grows as 1/s. In the rows' equations 1/s becomes s / (s² +
    damping²), relative to the largest singular value, so that a direction which the rows hardly see
    moves by what they can tell of it, and is held apart
    from that: forces that act along it are taken by the rows, however large the y they need. E is
    left out.

    Args:
        matrix: K without units (`SaddleMatrix.scaled`), whose left rows follow from the right ones
            by a map of each body's unknowns.
        value: The residual.
        damping: Relative to the largest singular value.
    """
    n = matrix.diagonal.shape[0] * matrix.diagonal.shape[1]
    dense = matrix.dense()
    balance, closure = dense[:n, :n], dense[n:, :n]
    U, s, Wt = thin_svd(dense[:n, n:].T)
    seen = s > jnp.finfo(value.dtype).eps ** _REPEATED * s[0]
    inverse = jnp.where(seen, 1.0 / jnp.where(seen, s, 1.0), 0.0)
    damped = jnp.where(seen, s / (s**2 + (damping * s[0]) ** 2), 0.0)
    directions = jnp.where(seen[:, None], inverse[:, None] * (U.T @ closure), 0.0)
    forces = jnp.where(seen[:, None], Wt, 0.0).T
    unseen = jnp.diag(jnp.where(seen, 0.0, 1.0))
    # Forces have another unit than accelerations; pivots are then chosen among like numbers.
    unit = jnp.max(jnp.abs(balance))
    whole = jnp.block([[balance / unit, forces], [directions, -unseen]])
    right = jnp.concatenate([-value[:n] / unit, -damped * (U.T @ value[n:])])
    x = DenseFactors.of(whole).solve(right)
    return jnp.concatenate([x[:n], U @ (inverse * (x[n:] * unit))])


def only_forces(value: Float[Array, " n"], n: int) -> Float[Array, " n"]:
    """The residual with the constraints' values, after the first n numbers, set to zero."""
    return jnp.where(np.arange(value.size) < n, value, 0.0)
