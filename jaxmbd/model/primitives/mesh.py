"""Rows of teeth in mesh: gears of any axes, a rack and its pinion."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from ...rotations.vectors import cross
from ..coordinates import Angle, Displacement, Sight
from ..state import Pose
from .base import AbstractPrimitive


class GearMesh(AbstractPrimitive):
    """Gear j follows gear i, and the force of the row acts at the pitch point alone.

        Φ = θ_j - ratio θ_i + τ · (d · a_i, d · a_j, d · (a_i × a_j)) - f,  d = F_j - F_i

    with the angles θ at which each gear sees the other about its own axis. Where the axes are held,
    d and its components along the axes are what they were, and the last term adds to the force of
    the row without a change of the motion.

    Attributes:
        first, second: θ_i and θ_j.
        ratio: dθ_j / dθ_i [-].
        axis_i_bar, axis_j_bar: Unit axes a_i and a_j in the bodies [-].
        s_i_bar, s_j_bar: F_i and F_j in the bodies [m]: the apex of pitch cones, otherwise the
            points of the axes that are nearest to each other.
        tie: τ [1/m, 1/m, 1/m].
        push: What presses the gears apart, per unit of |λ|: the force on body j as a combination of
            a_i, a_j [1/m] and d [1/m²].
        arm: The pitch point, from F_i, as a combination of a_i and a_j [m]; without its part along
            d, which is the line of that force.
        f: As in every primitive.
    """

    in_files: ClassVar[bool] = False
    couples: ClassVar[bool] = True
    presses: ClassVar[bool] = True

    first: Sight
    second: Sight
    ratio: Scalar
    axis_i_bar: Vec3
    axis_j_bar: Vec3
    s_i_bar: Vec3
    s_j_bar: Vec3
    tie: Vec3
    push: Vec3
    arm: Float[Array, "2"]
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return jnp.ones_like(length)

    def _frame(self, pose_i: Pose, pose_j: Pose) -> tuple[Vec3, Vec3, Vec3, Vec3]:
        """a_i, a_j, d and F_i, global."""
        start = pose_i.r + pose_i.A @ self.s_i_bar
        d = pose_j.r + pose_j.A @ self.s_j_bar - start
        return pose_i.A @ self.axis_i_bar, pose_j.A @ self.axis_j_bar, d, start

    def geometry(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        a_i, a_j, d, _ = self._frame(pose_i, pose_j)
        turned = self.second.value(pose_j, pose_i) - self.ratio * self.first.value(pose_i, pose_j)
        return turned + self.tie @ jnp.stack([d @ a_i, d @ a_j, d @ cross(a_i, a_j)])

    def pressing(self, pose_i: Pose, pose_j: Pose) -> Float[Array, "2 6"]:
        a_i, a_j, d, start = self._frame(pose_i, pose_j)
        force = self.push @ jnp.stack([a_i, a_j, d])
        return opposite_forces(pose_i, pose_j, start + self.arm @ jnp.stack([a_i, a_j]), force)


class RackMesh(AbstractPrimitive):
    """A pinion, body j, rolls on a rack, body i: Φ = x - radius θ - f.

    Attributes:
        turned: θ, about an axis of the rack.
        moved: x, of the center of the pinion along the rack [m].
        radius: [m]
        push_i_bar: The force on body j that presses it off the rack, per unit of |λ|, in body
            i [-].
        f: As in every primitive.
    """

    in_files: ClassVar[bool] = False
    couples: ClassVar[bool] = True
    presses: ClassVar[bool] = True

    turned: Angle
    moved: Displacement
    radius: Scalar
    push_i_bar: Vec3
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def geometry(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        return self.moved.value(pose_i, pose_j) - self.radius * self.turned.value(pose_i, pose_j)

    def pressing(self, pose_i: Pose, pose_j: Pose) -> Float[Array, "2 6"]:
        center = pose_j.r + pose_j.A @ self.moved.s_j_bar
        return opposite_forces(pose_i, pose_j, center, pose_i.A @ self.push_i_bar)


def opposite_forces(pose_i: Pose, pose_j: Pose, point: Vec3, force: Vec3) -> Float[Array, "2 6"]:
    """A global force on body j at a point and its reaction on body i, as forces and body-frame
    torques about the mass centers.
    """

    def of_body(pose: Pose, force: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([force, pose.A.T @ cross(point - pose.r, force)])

    return jnp.stack([of_body(pose_i, -force), of_body(pose_j, force)])
