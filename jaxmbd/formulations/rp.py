"""rp: Euler parameters, with one normalization constraint per body; rows by automatic
differentiation.
"""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.state import Pose, Twist
from ..rotations import euler_parameters as ep
from ..rotations.types import Vec3
from .base import AbstractFormulation

Vec7 = Float[Array, "7"]


class RP(AbstractFormulation):
    """Coordinates (r, p), velocities (ṙ, ṗ), accelerations (r̈, p̈); (pᵀp - 1)/2 = 0 for every
    body.

    The rotation matrix is the homogeneous one (see `rotations.euler_parameters`), and ω̄ = 2 G ṗ,
    ω̄̇ = 2 G p̈.

    Reference:
        Kissel, Taves, Negrut, sections 2.2 and 3.2. The equations of motion are 2 Gᵀ times Newton
        and Euler; they differ from Eq. 39 by a multiple of p, which the normalization's multiplier
        takes up.
    """

    name: ClassVar[str] = "rp"
    size: ClassVar[int] = 7
    normalizations: ClassVar[int] = 1
    regular_mass: ClassVar[bool] = False  # p itself is no rotation

    def coordinates(self, pose: Pose) -> Vec7:
        return jnp.concatenate([pose.r, ep.from_matrix(pose.A)])

    def pose(self, q: Vec7) -> Pose:
        return Pose(q[:3], ep.to_matrix(q[3:]))

    def rates(self, q: Vec7, v: Vec3, omega: Vec3) -> Vec7:
        return jnp.concatenate([v, 0.5 * ep.G(q[3:]).T @ omega])

    def twist(self, q: Vec7, u: Vec7) -> Twist:
        return Twist(u[:3], 2.0 * ep.G(q[3:]) @ u[3:])

    def accelerations(self, q: Vec7, u: Vec7, a: Vec3, alpha: Vec3) -> Vec7:
        # pᵀp̈ = -ṗᵀṗ, because the norm is constant.
        p, p_dot = q[3:], u[3:]
        return jnp.concatenate([a, 0.5 * ep.G(p).T @ alpha - (p_dot @ p_dot) * p])

    def physical_accelerations(self, q: Vec7, u: Vec7, a: Vec7):
        return a[:3], 2.0 * ep.G(q[3:]) @ a[3:]

    def generalized(self, q: Vec7, force: Vec3, torque: Vec3) -> Vec7:
        return jnp.concatenate([force, 2.0 * ep.G(q[3:]).T @ torque])

    def retract(self, q: Vec7, delta: Vec7) -> Vec7:
        return q + delta

    def normalization(self, q: Vec7) -> Float[Array, "1"]:
        p = q[3:]
        return (0.5 * (p @ p) - 0.5)[None]
