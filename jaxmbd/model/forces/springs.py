"""Translational and torsional spring-damper-actuators between two bodies."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from ...rotations.vectors import cross
from ..coordinates import Angle
from ..motions import Motion
from ..state import Pose, Twist
from ..tables import (
    Characteristic,
    at_rate,
    has_potential,
    kinks_of,
    stored_energy,
    without_potential,
)
from .base import OF_FORCE, OF_TORQUE, AbstractActuator, Output, point_wrench


class LineForce(AbstractActuator):
    """Spring, damper and actuator along the line from P (body i) to Q (body j).

        f = stiffness (L - free_length) + damping dL/dt - actuator(t)

    A characteristic F(L, dL/dt) may stand in place of the first term. f is a pull on both bodies
    when positive. A rope only pulls and a bumper only pushes: spring and damper together, and only
    where the length is beyond `free_length` on that side.

    Attributes:
        s_i_bar: P in body i [m].
        s_j_bar: Q in body j [m].
        stiffness: [N/m].
        damping: [N·s/m].
        free_length: [m].
        actuator: Push [N], a motion, or None.
        side: 1 for what only pulls, -1 for what only pushes, 0 for both.
        apart: Whether what has a potential is left out, as `dissipative` asks.
        characteristic: F [N], or None.
    """

    s_i_bar: Vec3
    s_j_bar: Vec3
    stiffness: Scalar
    damping: Scalar
    free_length: Scalar
    actuator: Motion | None = None
    side: int = eqx.field(static=True, default=0)
    apart: bool = eqx.field(static=True, default=False)
    characteristic: Characteristic | None = None

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        _, _, pull = self._motion(pose, twist, t)
        force, torque = self.unit_wrench(pose)
        return -pull * force, -pull * torque

    def _motion(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Length, its rate, and the pull."""
        length, rate = line_motion(self.s_i_bar, self.s_j_bar, pose, twist)
        longer = length - self.free_length
        spring, damper = self.stiffness * longer, self.damping * rate
        if self.characteristic is not None:
            spring = at_rate(self.characteristic, length, rate)
        if self.side:
            touches = self.side * longer > 0.0
            spring = jnp.where(touches, spring, 0.0)
            damper = jnp.where(touches, damper, 0.0)
            damper = self.side * jnp.maximum(self.side * damper, -self.side * spring)
        apart = self.apart and has_potential(self.characteristic)
        pull = damper if apart else spring + damper
        return length, rate, pull - self.control(t)

    def kinks(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " n"]:
        """Where a table has points; of what acts on one side the slack, and the pull of spring and
        damper together.
        """
        length, rate = line_motion(self.s_i_bar, self.s_j_bar, pose, twist)
        table = kinks_of(self.characteristic, length)
        if not self.side:
            return table
        longer = length - self.free_length
        spring = self.stiffness * longer
        if self.characteristic is not None:
            spring = at_rate(self.characteristic, length, rate)
        return jnp.concatenate([table, jnp.stack([longer, spring + self.damping * rate])])

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The pull, positive in tension, and the distance of its points."""
        length, rate, pull = self._motion(pose, twist, t)
        return (
            Output("force", "N", pull),
            Output("length", "m", length),
            Output("rate", "m/s", rate),
            self.power(pose, twist, t),
        )

    @property
    def control_units(self) -> tuple[str, str]:
        return OF_FORCE

    def unit_wrench(self, pose: Pose) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        return push_apart(self.s_i_bar, self.s_j_bar, pose)

    def control(self, t: Scalar) -> Scalar:
        return jnp.zeros_like(t) if self.actuator is None else self.actuator(t)

    def invariants(self, pose: Pose) -> Float[Array, "1"]:
        d = pose.r[1] + pose.A[1] @ self.s_j_bar - pose.r[0] - pose.A[0] @ self.s_i_bar
        return (d @ d)[None]

    def stored(self, invariants: Float[Array, "1"]) -> Scalar:
        longer = _root(invariants[0]) - self.free_length
        if self.side:
            longer = self.side * jnp.maximum(self.side * longer, 0.0)
        return stored_energy(self.stiffness, self.characteristic, self.free_length, longer)

    def line(self) -> tuple[Float[Array, "*n 3"], Float[Array, "*n 3"]] | None:
        return self.s_i_bar, self.s_j_bar

    def dissipative(self) -> "LineForce":
        return dataclasses.replace(self, apart=True)


def _root(squared: Scalar) -> Scalar:
    """The square root, with derivative zero at zero."""
    return jnp.where(squared > 0.0, jnp.sqrt(jnp.where(squared > 0.0, squared, 1.0)), 0.0)


def _length(d: Vec3) -> tuple[Scalar, Vec3]:
    """Length and direction; at zero length the direction is zero, and so is its derivative."""
    length = _root(d @ d)
    return length, d / jnp.where(length > 0.0, length, 1.0)


def line_motion(s_i_bar: Vec3, s_j_bar: Vec3, pose: Pose, twist: Twist) -> tuple[Scalar, Scalar]:
    """The distance of points P of body i and Q of body j [m], and its rate [m/s]."""
    A_i, A_j = pose.A[0], pose.A[1]
    d = pose.r[1] + A_j @ s_j_bar - pose.r[0] - A_i @ s_i_bar
    d_dot = (
        twist.v[1]
        + A_j @ cross(twist.omega[1], s_j_bar)
        - twist.v[0]
        - A_i @ cross(twist.omega[0], s_i_bar)
    )
    length, direction = _length(d)
    return length, direction @ d_dot


def push_apart(
    s_i_bar: Vec3, s_j_bar: Vec3, pose: Pose
) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
    """The wrench of a unit force that pushes the two points apart."""
    A_i, A_j = pose.A[0], pose.A[1]
    arm_i, arm_j = A_i @ s_i_bar, A_j @ s_j_bar
    _, direction = _length(pose.r[1] + arm_j - pose.r[0] - arm_i)
    f_i, n_i = point_wrench(A_i, -direction, arm_i)
    f_j, n_j = point_wrench(A_j, direction, arm_j)
    return jnp.stack([f_i, f_j]), jnp.stack([n_i, n_j])


class AngleTorque(AbstractActuator):
    """Torsional spring, damper and actuator about an axis common to both bodies.

        n = stiffness (φ - free_angle) + damping dφ/dt - actuator(t)

    A characteristic N(φ, dφ/dt) may stand in place of the first term. n opposes positive rotation
    of body j.

    Attributes:
        angle: φ, of body j relative to body i, over any number of turns [rad].
        stiffness: [N·m/rad].
        damping: [N·m·s/rad].
        free_angle: [rad].
        actuator: Torque on body j [N·m], a motion, or None.
        characteristic: N [N·m], or None.
    """

    angle: Angle
    stiffness: Scalar
    damping: Scalar
    free_angle: Scalar
    actuator: Motion | None = None
    characteristic: Characteristic | None = None

    def invariants(self, pose: Pose) -> Float[Array, "2"]:
        return jnp.stack(self.angle.cosine_and_sine(*_pair(pose)))

    def stored(self, invariants: Float[Array, "2"]) -> Scalar:
        turned = self.angle.unwound(*invariants) - self.free_angle
        return stored_energy(self.stiffness, self.characteristic, self.free_angle, turned)

    def dissipative(self) -> "AngleTorque":
        return without_potential(self)

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        _, _, torque = self._motion(pose, twist, t)
        force, unit = self.unit_wrench(pose)
        return force, torque * unit

    def kinks(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " n"]:
        """Where a table has points."""
        return kinks_of(self.characteristic, self.angle.value(*_pair(pose)))

    def _motion(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """The angle, its rate, and the torque on body j."""
        axis = pose.A[0] @ self.angle.axis_i_bar
        angle = self.angle.value(*_pair(pose))
        rate = axis @ (pose.A[1] @ twist.omega[1] - pose.A[0] @ twist.omega[0])
        opposing = self.stiffness * (angle - self.free_angle) + self.damping * rate
        if self.characteristic is not None:
            opposing += at_rate(self.characteristic, angle, rate)
        return angle, rate, self.control(t) - opposing

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The torque on body j about the axis, and the angle of body j against body i."""
        angle, rate, torque = self._motion(pose, twist, t)
        return (
            Output("torque", "N·m", torque),
            Output("angle", "rad", angle),
            Output("rate", "rad/s", rate),
            self.power(pose, twist, t),
        )

    @property
    def control_units(self) -> tuple[str, str]:
        return OF_TORQUE

    def unit_wrench(self, pose: Pose) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        axis = pose.A[0] @ self.angle.axis_i_bar
        return jnp.zeros((2, 3), axis.dtype), jnp.stack(
            [-self.angle.axis_i_bar, pose.A[1].T @ axis]
        )

    def control(self, t: Scalar) -> Scalar:
        return jnp.zeros_like(t) if self.actuator is None else self.actuator(t)


def _pair(pose: Pose) -> tuple[Pose, Pose]:
    return Pose(pose.r[0], pose.A[0]), Pose(pose.r[1], pose.A[1])
