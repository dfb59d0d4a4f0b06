"""Actuators: a torque about the axis of a joint, or a force along it."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from ..motions import Motion
from ..state import Pose, Twist
from .base import OF_FORCE, OF_TORQUE, AbstractActuator, Output, point_wrench, power_of

ACTIONS = ("torque", "force")


class AxisActuator(AbstractActuator):
    """A torque on body j about an axis of body i, or a force along it, and the opposite on body i.

    Attributes:
        axis_i_bar: The axis in body i [-].
        s_j_bar: The joint's point in body j [m], where a force acts on both bodies.
        given: The control [N·m] or [N], a number or a motion.
        action: "torque" or "force".
    """

    axis_i_bar: Vec3
    s_j_bar: Vec3
    given: Scalar | Motion
    action: str = eqx.field(static=True)

    @property
    def is_motor(self) -> bool:
        return True

    @property
    def control_units(self) -> tuple[str, str]:
        return OF_TORQUE if self.action == "torque" else OF_FORCE

    def unit_wrench(self, pose: Pose) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        A_i, A_j = pose.A[0], pose.A[1]
        axis = A_i @ self.axis_i_bar
        if self.action == "torque":
            return jnp.zeros((2, 3), axis.dtype), jnp.stack([-self.axis_i_bar, A_j.T @ axis])
        arm_j = A_j @ self.s_j_bar
        f_i, n_i = point_wrench(A_i, -axis, pose.r[1] + arm_j - pose.r[0])
        f_j, n_j = point_wrench(A_j, axis, arm_j)
        return jnp.stack([f_i, f_j]), jnp.stack([n_i, n_j])

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        force, torque = self.unit_wrench(pose)
        return self.control(t) * force, self.control(t) * torque

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The torque or force on body j, and the rate of the joint that it acts on."""
        rate = power_of(self.unit_wrench(pose), twist)
        effort, unit = ("torque", "N·m") if self.action == "torque" else ("force", "N")
        return (
            Output(effort, unit, self.control(t)),
            Output("rate", "rad/s" if self.action == "torque" else "m/s", rate),
            self.power(pose, twist, t),
        )

    def control(self, t: Scalar) -> Scalar:
        return jnp.asarray(self.given(t), t.dtype) if callable(self.given) else self.given
