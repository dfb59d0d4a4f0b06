"""Rows of wheels, spheres and edges: the distance of a rolling body to its plane, and the
velocities that contact does not allow.
"""

from typing import Any, ClassVar

import jax.numpy as jnp

from ...rotations.types import Scalar, Vec3
from ...rotations.vectors import cross
from ..state import Pose, Twist
from .base import AbstractPrimitive, AbstractVelocityPrimitive


def _velocity(pose: Pose, twist: Twist, arm: Vec3) -> Vec3:
    """Velocity of the point of a body at `arm` from its mass center, global."""
    return twist.v + pose.A @ cross(twist.omega, pose.A.T @ arm)


def _lowest(normal: Vec3, axis: Vec3, radius: Scalar, tube: Scalar) -> Vec3:
    """From the center of a disc, or of a torus with this tube radius, to its lowest point; all
    global.
    """
    down = -(normal - (axis @ normal) * axis)
    return radius * down / jnp.sqrt(down @ down) - tube * normal


class Touching(AbstractPrimitive):
    """A sphere, disc or torus of body j touches a plane of body i: Φ = the height of its lowest
    point.

    Attributes:
        normal_i_bar: Unit normal of the plane in body i, towards body j [-].
        s_i_bar: A point of the plane in body i [m].
        s_j_bar: The center in body j [m].
        axis_j_bar: Unit axis of the disc in body j [-]; None for a sphere.
        radius: Of the disc, or of the circle in the middle of the tube [m].
        tube: Radius of a sphere, or of the tube [m].
        f: Prescribed height [m].
    """

    in_files: ClassVar[bool] = False

    normal_i_bar: Vec3
    s_i_bar: Vec3
    s_j_bar: Vec3
    axis_j_bar: Vec3 | None
    radius: Scalar
    tube: Scalar
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def geometry(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        normal = pose_i.A @ self.normal_i_bar
        center = pose_j.r + pose_j.A @ self.s_j_bar - pose_i.r - pose_i.A @ self.s_i_bar
        reach = self.tube
        if self.axis_j_bar is not None:
            tilt = normal @ (pose_j.A @ self.axis_j_bar)
            reach = reach + self.radius * jnp.sqrt(1.0 - tilt * tilt)
        return normal @ center - reach


class NotSlipping(AbstractVelocityPrimitive):
    """The lowest point of a sphere, disc or torus of body j has the velocity of the plane of body i
    there, along one direction of the plane.

    Attributes:
        along_i_bar: That direction, a unit vector of body i [-].
        The others: as in `Touching`.
    """

    in_files: ClassVar[bool] = False

    along_i_bar: Vec3
    normal_i_bar: Vec3
    s_j_bar: Vec3
    axis_j_bar: Vec3 | None
    radius: Scalar
    tube: Scalar
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def rate(self, poses: tuple[Pose, ...], twists: tuple[Twist, ...]) -> Scalar:
        (pose_i, pose_j), (twist_i, twist_j) = poses, twists
        normal = pose_i.A @ self.normal_i_bar
        if self.axis_j_bar is None:
            down = -self.tube * normal
        else:
            down = _lowest(normal, pose_j.A @ self.axis_j_bar, self.radius, self.tube)
        arm = pose_j.A @ self.s_j_bar + down
        slip = _velocity(pose_j, twist_j, arm) - _velocity(
            pose_i, twist_i, pose_j.r + arm - pose_i.r
        )
        return slip @ (pose_i.A @ self.along_i_bar)


class NotAcross(AbstractVelocityPrimitive):
    """A point of body j does not move along a direction of body j, relative to body i.

    Attributes:
        across_j_bar: That direction, a unit vector of body j [-].
        s_j_bar: The point in body j [m].
    """

    in_files: ClassVar[bool] = False

    across_j_bar: Vec3
    s_j_bar: Vec3
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def rate(self, poses: tuple[Pose, ...], twists: tuple[Twist, ...]) -> Scalar:
        (pose_i, pose_j), (twist_i, twist_j) = poses, twists
        arm = pose_j.A @ self.s_j_bar
        slip = _velocity(pose_j, twist_j, arm) - _velocity(
            pose_i, twist_i, pose_j.r + arm - pose_i.r
        )
        return slip @ (pose_j.A @ self.across_j_bar)


class RimsNotSlipping(AbstractVelocityPrimitive):
    """Two circles of two bodies have one velocity where the line of their centers meets them, along
    their rims.

    Attributes:
        axis_i_bar: Unit axis of circle i in body i [-].
        s_i_bar, s_j_bar: Centers in the bodies [m].
        share: The contact's place on the line of centers, from i (0) to j (1); outside for a circle
            that rolls in the other [-].
    """

    in_files: ClassVar[bool] = False

    axis_i_bar: Vec3
    s_i_bar: Vec3
    s_j_bar: Vec3
    share: Scalar
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def rate(self, poses: tuple[Pose, ...], twists: tuple[Twist, ...]) -> Scalar:
        (pose_i, pose_j), (twist_i, twist_j) = poses, twists
        arm_i, arm_j = pose_i.A @ self.s_i_bar, pose_j.A @ self.s_j_bar
        line = pose_j.r + arm_j - pose_i.r - arm_i
        contact = pose_i.r + arm_i + self.share * line
        slip = _velocity(pose_j, twist_j, contact - pose_j.r) - _velocity(
            pose_i, twist_i, contact - pose_i.r
        )
        along = cross(pose_i.A @ self.axis_i_bar, line)
        return slip @ along / jnp.sqrt(along @ along)
