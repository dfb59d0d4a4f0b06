"""Rows of higher pairs: points and curves that touch curves, points on surfaces."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ...rotations.types import Mat3, Scalar, Vec3
from ...rotations.vectors import cross
from ..curves import Foot, Meeting
from ..state import Pose
from .base import AbstractPrimitive


def left_normal(axis: Vec3, tangent: Vec3) -> Vec3:
    """The unit normal of a curve to its left, seen against the axis."""
    normal = cross(axis, tangent)
    return normal / jnp.sqrt(normal @ normal)


class OnCurve(AbstractPrimitive):
    """A point of body j keeps a distance from a curve of body i, along its normal: Φ = n · (p - c)
    - f.

    Attributes:
        foot: The nearest point of the curve.
        axis_i_bar: Unit normal of the plane of the curve in body i, seen against which the point is
            on the left of the curve [-].
        offset: Distance along n = axis × tangent [m].
        across: Whether the row is that along the axis instead, which keeps the point in the plane.
        f: As in every primitive.
    """

    in_files: ClassVar[bool] = False

    foot: Foot
    axis_i_bar: Vec3
    offset: Scalar
    across: Scalar
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def geometry(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        s = self.foot.value(pose_i, pose_j)
        line = self.foot.target(pose_i, pose_j) - self.foot.curve.at(s)
        tangent = self.foot.curve.tangent(s)
        normal = left_normal(self.axis_i_bar, tangent)
        second = cross(tangent, normal)
        second = second / jnp.sqrt(second @ second)
        return jnp.where(self.across > 0.0, second @ line, normal @ line - self.offset)

    def branch(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        return self.foot.curve.inside(self.foot.value(pose_i, pose_j))


class CurvesTouch(AbstractPrimitive):
    """A curve of body j touches a curve of body i in a plane: Φ = n · (c_j - c_i).

    Attributes:
        meeting: Where.
        f: As in every primitive.
    """

    in_files: ClassVar[bool] = False

    meeting: Meeting
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def geometry(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        m = self.meeting
        s = m.value(pose_i, pose_j)
        on_j = pose_i.A.T @ (pose_j.r + pose_j.A @ m.curve_j.at(s[1]) - pose_i.r)
        normal = left_normal(m.axis_i_bar, m.curve_i.tangent(s[0]))
        return normal @ (on_j - m.curve_i.at(s[0]))

    def branch(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        s = self.meeting.value(pose_i, pose_j)
        m = self.meeting
        return jnp.minimum(m.curve_i.inside(s[0]), m.curve_j.inside(s[1]))


class OnSurface(AbstractPrimitive):
    """A point of body j stays on a surface of body i, or at a distance from it: Φ = σ / |∇σ| - f.

    Attributes:
        surface: σ, a smooth function of a point, global at the initial pose of body i; zero on the
            surface, positive on the side of the point.
        r, A: That initial pose.
        s_j_bar: The point in body j [m].
        f: The distance [m], exact to first order in it.
    """

    in_files: ClassVar[bool] = False

    surface: Callable
    r: Vec3
    A: Mat3
    s_j_bar: Vec3
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def geometry(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        own = pose_i.A.T @ (pose_j.r + pose_j.A @ self.s_j_bar - pose_i.r)
        value, slope = jax.value_and_grad(lambda x: jnp.asarray(self.surface(x), x.dtype))(
            self.r + self.A @ own
        )
        return value / jnp.sqrt(slope @ slope)
