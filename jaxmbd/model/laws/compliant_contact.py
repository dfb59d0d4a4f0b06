"""A contact that gives way: a force element with the geometry of the rigid contact."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from ...rotations.types import Array, Scalar, Vec3
from ...rotations.vectors import cross
from ..collision.narrow import AbstractPair
from ..forces.base import AbstractForce, Output
from ..state import Pose, Twist
from .base import CONTACT
from .normal_force import AbstractNormalForce
from .sliding_friction import AbstractSlidingFriction


class CompliantContact(AbstractForce):
    """Contact of two surfaces that give way, with a spring and a damper at each place.

    Attributes:
        pair: Of which surfaces; its places are different points.
        law: Of the force along the normal.
        friction: Across it.
    """

    stiff: ClassVar[bool] = True
    kind: ClassVar[str] = CONTACT

    pair: AbstractPair
    law: AbstractNormalForce
    friction: AbstractSlidingFriction

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        points, _, _, push, drag = self._places(pose, twist)
        force = push + drag
        torques = [
            pose.A[k].T @ jnp.sum(jax.vmap(lambda p, f, r=pose.r[k]: cross(p - r, f))(points, f), 0)
            for k, f in enumerate((force, -force))
        ]
        total = jnp.sum(force, axis=0)
        return jnp.stack([total, -total]), jnp.stack(torques)

    def _places(self, pose: Pose, twist: Twist) -> tuple[Array, Array, Array, Array, Array]:
        """Of every place the point, the gap, its rate, and the forces along the normal and of
        friction on body i, global.

        Both bodies are taken at one point, halfway between their surfaces, so that the forces on
        them share one line.
        """
        gap, normal, on_i, on_j = self.pair.witness(pose)
        points = 0.5 * (on_i + on_j)

        def velocity(k: int, p: Vec3) -> Vec3:
            return twist.v[k] + cross(pose.A[k] @ twist.omega[k], p - pose.r[k])

        def at(depth: Scalar, n: Vec3, p: Vec3) -> tuple[Scalar, Vec3, Vec3]:
            slip = velocity(0, p) - velocity(1, p)
            rate = n @ slip
            push = self.law.force(depth[None], -rate[None])[0]
            return rate, push * n, self.friction.force(push, slip - rate * n)

        return points, gap, *jax.vmap(at)(-gap, normal, points)

    def places(
        self, pose: Pose, twist: Twist
    ) -> tuple[Float[Array, "n 3"], Float[Array, "n 3"], Float[Array, "n 3"], Int[Array, " n"]]:
        """Points on body i, normals out of body j, forces on body i, global, and states: 0 open, 1
        closed, 2 closed and sliding.
        """
        _, normal, on_i, _ = self.pair.witness(pose)
        _, gap, _, push, drag = self._places(pose, twist)
        squares = [jnp.sum(x**2, axis=1) for x in (push, drag)]
        slides = self.friction.slides(*squares)
        state = jnp.where(gap < 0.0, jnp.where(slides, 2, 1), 0)
        return on_i, normal, push + drag, state

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """Of every place the gap, its rate, and the force along the normal; friction on body i,
        global.
        """
        _, gap, rate, _, drag = self._places(pose, twist)
        return (
            Output("force", "N", self.law.force(-gap, -rate)),
            Output("gap", "m", gap),
            Output("rate", "m/s", rate),
            Output.vector("friction", "N", drag),
            self.power(pose, twist, t),
        )

    def kinks(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " n"]:
        """The gaps."""
        return self.pair.witness(pose)[0]

    def potential(self, pose: Pose) -> Scalar:
        return jnp.sum(self.law.energy(-self.pair.witness(pose)[0]))
