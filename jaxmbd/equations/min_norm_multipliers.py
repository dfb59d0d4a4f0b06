"""Multipliers of least norm among those that exert the same forces."""

from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations import RA
from ..linalg import factorize
from ..linalg.linear_solve import linear_solve
from ..model.state import Pose
from ..model.system import System
from .index1 import PROJECTIONS, saddle_matrix
from .motion import mass_matrix
from .rows import rows


def min_norm_multipliers(system: System, pose: Pose, lam: Float[Array, " m"]) -> Float[Array, " m"]:
    """What redundant rows leave undetermined is taken away from multipliers of the joints' rows, in
    the stacked order; `system` is at the time of the pose.

    The part to take away is Pᵏ λ with P = (S + E)⁻¹ E and S = R M⁻¹ Rᵀ, see `index1.minimum_norm`,
    here with the derivative of P: where the rows move, so does what they leave undetermined.
    """
    matrix = saddle_matrix(RA(), system, mass_matrix(RA(), system, pose), rows(RA(), system, pose))
    if matrix.regularization is None:
        return lam
    factors = factorize(matrix, system.linear_solver)
    regularized = partial(matrix.matvec, regularized=True)
    n = 6 * system.nb
    part = lam
    for _ in range(PROJECTIONS):
        right = jnp.concatenate([jnp.zeros(n, lam.dtype), -matrix.regularization * part])
        part = linear_solve(regularized, factors, right)[n:]
    return lam - part
