"""Equations of motion in the speeds of a chart: what the joints leave of them nearby.

With the independent rows R of all joints near a center, the speeds w = Mᵀ u there determine all
velocities, u = Z w + C (R C)⁻¹ ν with Z = M - C (R C)⁻¹ R M, where C are displacements that change
one row each: R C is the identity at the center. The equations of motion then are as many as there
are speeds, Zᵀ M Z ẇ = Zᵀ (Q - h - M a₀), and multipliers follow where they are asked for.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...equations.motion import unbalanced
from ...equations.rows import acceleration_right_side, dense, velocity_right_side
from ...equations.rows import rows as constraint_rows
from ...formulations import RA
from ...linalg.small_matrices import gauss_jordan
from ...model.state import Pose
from ...model.system import System
from ...rotations.types import Scalar
from .charts import Chart


class Reduced(NamedTuple):
    """The motion at one instant.

    Attributes:
        u: Velocities of all bodies, (nb, 6).
        rates: Of the speeds, (f,).
        a: Accelerations of all bodies, (nb, 6).
        multipliers: Of all rows, of least norm, (m,).
    """

    u: Float[Array, "nb 6"]
    rates: Float[Array, " f"]
    a: Float[Array, "nb 6"]
    multipliers: Float[Array, " m"]


def reduced(now: System, here: Chart, pose: Pose, w: Float[Array, " f"], t: Scalar) -> Reduced:
    """Velocities and accelerations at a pose near a chart's center; `now` has the inputs and the
    states of its elements.
    """
    ra, units = RA(), jnp.tile(now.units(), now.nb)
    jet_system, f_dot, f_ddot = now.jet(t)
    blocks = constraint_rows(ra, jet_system, pose)
    picked, moves, M = here.match.rows, here.match.moves, here.speeds
    R = picked.T @ dense(ra, now, blocks) * units[None]
    by_row = moves @ inverse(R @ moves)
    Z = M - by_row @ (R @ M)

    def physical(x: Float[Array, " n"]) -> Float[Array, "nb 6"]:
        return (x * units).reshape(-1, 6)

    u = physical(Z @ w + by_row @ (picked.T @ velocity_right_side(ra, jet_system, f_dot, pose)))
    gamma = acceleration_right_side(ra, jet_system, f_dot, f_ddot, pose, u)
    a0 = by_row @ (picked.T @ gamma)

    def unbalanced_by(a: Float[Array, " n"]) -> Float[Array, " n"]:
        return unbalanced(ra, jet_system, pose, u, physical(a), t).reshape(-1) * units

    # What is unbalanced is linear in accelerations: of all of them at once it is one program.
    each = jax.vmap(unbalanced_by)(jnp.concatenate([jnp.zeros_like(a0)[None], a0[None], Z.T]))
    mass = (each[2:] - each[:1]).T
    rates = inverse(Z.T @ mass) @ (-Z.T @ each[1])
    multipliers = -picked @ (by_row.T @ (each[1] + mass @ rates))
    return Reduced(u, rates, physical(a0 + Z @ rates), multipliers)


@jax.custom_jvp
def inverse(A: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The inverse of a matrix that needs no pivots: near the identity, or positive definite."""
    if A.shape[0] == 0:
        return A
    return gauss_jordan(A[None])[0]


@inverse.defjvp
def _of_inverse(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    X = inverse(primals[0])
    return X, -X @ tangents[0] @ X
