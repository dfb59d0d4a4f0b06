"""Applied loads on one body: forces at points, torques."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from ..motions import Motion
from ..state import Pose, Twist
from .base import AbstractForce, Output, point_wrench


def _value(load: Vec3 | Motion, t: Scalar, like: Array) -> Vec3:
    return jnp.asarray(load(t), like.dtype) if callable(load) else load


class AppliedForce(AbstractForce):
    """A force at a point of a body.

    Attributes:
        s_bar: The point in the body [m].
        force: Components [N], (3,), or a motion that returns them.
        frame: "global" or "body": the frame of the components.
    """

    s_bar: Vec3
    force: Vec3 | Motion
    frame: str = eqx.field(static=True, default="global")

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "1 3"], Float[Array, "1 3"]]:
        A = pose.A[0]
        f, n = point_wrench(A, self._global(A, t), A @ self.s_bar)
        return f[None], n[None]

    def _global(self, A: Float[Array, "3 3"], t: Scalar) -> Vec3:
        force = _value(self.force, t, A)
        return A @ force if self.frame == "body" else force

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The force, global."""
        force = self._global(pose.A[0], t)
        return Output.vector("force", "N", force), self.power(pose, twist, t)


class AppliedTorque(AbstractForce):
    """A torque on a body.

    Attributes:
        torque: Components [N·m], (3,), or a motion that returns them.
        frame: "global" or "body": the frame of the components.
    """

    torque: Vec3 | Motion
    frame: str = eqx.field(static=True, default="global")

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "1 3"], Float[Array, "1 3"]]:
        A = pose.A[0]
        torque = _value(self.torque, t, A)
        if self.frame == "global":
            torque = A.T @ torque
        return jnp.zeros((1, 3), A.dtype), torque[None]

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The torque, global."""
        _, torque = self.wrench(pose, twist, t)
        torque = pose.A[0] @ torque[0]
        return Output.vector("torque", "N·m", torque), self.power(pose, twist, t)
