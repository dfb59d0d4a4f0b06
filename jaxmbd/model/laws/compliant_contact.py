"""A contact that gives way: a force element with the geometry of the rigid contact."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from ...rotations.vectors import cross
from ..forces.base import AbstractForce
from ..state import Pose, Twist
from .base import CONTACT
from .hunt_crossley import HuntCrossley
from .narrow import AbstractPair


class CompliantContact(AbstractForce):
    """Contact of two surfaces that give way, with a spring and a damper at each place.

    Friction opposes the sliding velocity w: μ F w / √(|w|² + w_s²). It is Coulomb's law for |w| far
    above w_s, and viscous below.

    Attributes:
        pair: Of which surfaces; its places are different points.
        law: Of the force along the normal.
        friction: μ [-].
        slip_speed: w_s [m/s].
    """

    stiff: ClassVar[bool] = True
    kind: ClassVar[str] = CONTACT

    pair: AbstractPair
    law: HuntCrossley
    friction: Scalar
    slip_speed: Scalar

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        points, force = self.forces(pose, twist)
        torques = [
            pose.A[k].T @ jnp.sum(jax.vmap(lambda p, f, r=pose.r[k]: cross(p - r, f))(points, f), 0)
            for k, f in enumerate((force, -force))
        ]
        total = jnp.sum(force, axis=0)
        return jnp.stack([total, -total]), jnp.stack(torques)

    def forces(self, pose: Pose, twist: Twist) -> tuple[Float[Array, "n 3"], Float[Array, "n 3"]]:
        """Points and forces on body i, global; both bodies are taken at one point, halfway between
        their surfaces, so that the forces on them share one line.
        """
        gap, normal, on_i, on_j = self.pair.witness(pose)
        points = 0.5 * (on_i + on_j)

        def velocity(k: int, p: Vec3) -> Vec3:
            return twist.v[k] + cross(pose.A[k] @ twist.omega[k], p - pose.r[k])

        def at(depth: Scalar, n: Vec3, p: Vec3) -> Vec3:
            slip = velocity(0, p) - velocity(1, p)
            speed = n @ slip
            push = self.law.force(depth[None], -speed[None])[0]
            across = slip - speed * n
            drag = push * self.friction / jnp.sqrt(across @ across + self.slip_speed**2)
            return push * n - drag * across

        return points, jax.vmap(at)(-gap, normal, points)

    def potential(self, pose: Pose) -> Scalar:
        return jnp.sum(self.law.energy(-self.pair.witness(pose)[0]))
