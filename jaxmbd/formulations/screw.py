"""rA on SE(3): the pose moves along screws, its velocity is the twist in the body frame."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.state import Pose, Twist
from ..rotations import se3
from ..rotations.types import Vec3
from ..rotations.vectors import cross
from .base import AbstractFormulation


class Screw(AbstractFormulation):
    """Coordinates (r, A), velocities V = (Aᵀ ṙ, ω̄), accelerations V̇; q moves by q exp(ξ) on
    SE(3).

    The integrators' choice of group; `RA` is the same with SO(3) x R³. A body that a lower pair
    joins to the ground stays in the pair's subgroup whatever the step.

    Reference:
        Mueller, Terze, sections 2 and 3, for the motion; Kissel, Taves, Negrut for the rows.
    """

    name: ClassVar[str] = "rA on SE(3)"
    size: ClassVar[int] = 6
    normalizations: ClassVar[int] = 0

    def coordinates(self, pose: Pose) -> Pose:
        return pose

    def pose(self, q: Pose) -> Pose:
        return q

    def rates(self, q: Pose, v: Vec3, omega: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([q.A.T @ v, omega])

    def twist(self, q: Pose, u: Float[Array, "6"]) -> Twist:
        return Twist(q.A @ u[:3], u[3:])

    def accelerations(
        self, q: Pose, u: Float[Array, "6"], a: Vec3, alpha: Vec3
    ) -> Float[Array, "6"]:
        return jnp.concatenate([q.A.T @ a - cross(u[3:], u[:3]), alpha])

    def physical_accelerations(self, q: Pose, u: Float[Array, "6"], a: Float[Array, "6"]):
        return q.A @ (a[:3] + cross(u[3:], u[:3])), a[3:]

    def generalized(self, q: Pose, force: Vec3, torque: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([q.A.T @ force, torque])

    def retract(self, q: Pose, delta: Float[Array, "6"]) -> Pose:
        return Pose(*se3.compose(q.r, q.A, *se3.exp(delta)))

    def tangent(self, delta: Float[Array, "6"]) -> Float[Array, "6 6"]:
        return se3.right_jacobian(delta)
