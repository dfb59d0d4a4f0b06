"""Translational and torsional spring-damper-actuators between two bodies."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...rotations.so3 import cross
from ...rotations.types import Scalar, Vec3
from ..motions import Motion
from ..state import Pose, Twist
from .base import AbstractActuator, point_wrench


class LineForce(AbstractActuator):
    """Spring, damper and actuator along the line from P (body i) to Q (body j).

        f = stiffness (L - free_length) + damping dL/dt - actuator(t),   a pull on both bodies when positive

    Attributes:
        s_i_bar: P in body i [m].
        s_j_bar: Q in body j [m].
        stiffness: [N/m].
        damping: [N·s/m].
        free_length: [m].
        actuator: Push [N], a motion, or None.
    """

    s_i_bar: Vec3
    s_j_bar: Vec3
    stiffness: Scalar
    damping: Scalar
    free_length: Scalar
    actuator: Motion | None = None

    def wrench(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        A_i, A_j = pose.A[0], pose.A[1]
        arm_i, arm_j = A_i @ self.s_i_bar, A_j @ self.s_j_bar
        d = pose.r[1] + arm_j - pose.r[0] - arm_i
        d_dot = (
            twist.v[1]
            + A_j @ cross(twist.omega[1], self.s_j_bar)
            - twist.v[0]
            - A_i @ cross(twist.omega[0], self.s_i_bar)
        )
        length, direction = _length(d)
        pull = self.stiffness * (length - self.free_length) + self.damping * (direction @ d_dot)
        pull = pull - self.control(t)
        force, torque = self._push(A_i, A_j, arm_i, arm_j, direction)
        return -pull * force, -pull * torque

    def unit_wrench(self, pose: Pose) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        A_i, A_j = pose.A[0], pose.A[1]
        arm_i, arm_j = A_i @ self.s_i_bar, A_j @ self.s_j_bar
        _, direction = _length(pose.r[1] + arm_j - pose.r[0] - arm_i)
        return self._push(A_i, A_j, arm_i, arm_j, direction)

    def _push(self, A_i, A_j, arm_i: Vec3, arm_j: Vec3, direction: Vec3):
        f_i, n_i = point_wrench(A_i, -direction, arm_i)
        f_j, n_j = point_wrench(A_j, direction, arm_j)
        return jnp.stack([f_i, f_j]), jnp.stack([n_i, n_j])

    def control(self, t: Scalar) -> Scalar:
        return jnp.zeros_like(t) if self.actuator is None else self.actuator(t)

    def invariants(self, pose: Pose) -> Float[Array, "1"]:
        d = pose.r[1] + pose.A[1] @ self.s_j_bar - pose.r[0] - pose.A[0] @ self.s_i_bar
        return (d @ d)[None]

    def stored(self, invariants: Float[Array, "1"]) -> Scalar:
        return 0.5 * self.stiffness * (_root(invariants[0]) - self.free_length) ** 2

    def dissipative(self) -> "LineForce":
        return dataclasses.replace(self, stiffness=jnp.zeros_like(self.stiffness))


def _root(squared: Scalar) -> Scalar:
    """The square root, with derivative zero at zero."""
    return jnp.where(squared > 0.0, jnp.sqrt(jnp.where(squared > 0.0, squared, 1.0)), 0.0)


def _length(d: Vec3) -> tuple[Scalar, Vec3]:
    """Length and direction; at zero length the direction is zero, and so is its derivative."""
    length = _root(d @ d)
    return length, d / jnp.where(length > 0.0, length, 1.0)


class AngleTorque(AbstractActuator):
    """Torsional spring, damper and actuator about an axis common to both bodies.

        n = stiffness (φ - free_angle) + damping dφ/dt - actuator(t),   opposing positive rotation of body j

    The angle φ of body j relative to body i is measured from the initial pose, in (-π, π]: a spring wound beyond half
    a turn is outside this element's range, and a run that winds it further ends with `RESULTS.wound_too_far`.

    Attributes:
        axis_i_bar: Unit axis in body i [-].
        e_i_bar: Unit reference direction in body i, normal to the axis [-].
        e_j_bar: The same direction in body j at φ = 0 [-].
        stiffness: [N·m/rad].
        damping: [N·m·s/rad].
        free_angle: [rad].
        actuator: Torque on body j [N·m], a motion, or None.
    """

    axis_i_bar: Vec3
    e_i_bar: Vec3
    e_j_bar: Vec3
    stiffness: Scalar
    damping: Scalar
    free_angle: Scalar
    actuator: Motion | None = None

    def invariants(self, pose: Pose) -> Float[Array, "2"]:
        # Cosine and sine of the angle.
        e_j = pose.A[0].T @ (pose.A[1] @ self.e_j_bar)
        return jnp.stack([self.e_i_bar @ e_j, cross(self.axis_i_bar, self.e_i_bar) @ e_j])

    def _angle(self, pose: Pose) -> Scalar:
        cos, sin = self.invariants(pose)
        return jnp.arctan2(sin, cos)

    def broken(self, before: Pose, after: Pose) -> Bool[Array, ""] | None:
        # Past half a turn the angle jumps by a whole one, and the spring's torque with it.
        jumped = jnp.abs(self._angle(after) - self._angle(before)) > jnp.pi
        return jumped & (self.stiffness != 0.0)

    def stored(self, invariants: Float[Array, "2"]) -> Scalar:
        angle = jnp.arctan2(invariants[1], invariants[0])
        return 0.5 * self.stiffness * (angle - self.free_angle) ** 2

    def dissipative(self) -> "AngleTorque":
        return dataclasses.replace(self, stiffness=jnp.zeros_like(self.stiffness))

    def wrench(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        axis = pose.A[0] @ self.axis_i_bar
        rate = axis @ (pose.A[1] @ twist.omega[1] - pose.A[0] @ twist.omega[0])
        torque = self.stiffness * (self._angle(pose) - self.free_angle) + self.damping * rate
        force, unit = self.unit_wrench(pose)
        return force, (self.control(t) - torque) * unit

    def unit_wrench(self, pose: Pose) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        axis = pose.A[0] @ self.axis_i_bar
        return jnp.zeros((2, 3), axis.dtype), jnp.stack([-self.axis_i_bar, pose.A[1].T @ axis])

    def control(self, t: Scalar) -> Scalar:
        return jnp.zeros_like(t) if self.actuator is None else self.actuator(t)
