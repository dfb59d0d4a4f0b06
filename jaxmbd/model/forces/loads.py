"""Applied loads on one body: forces at points, torques."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from ..motions import Motion
from ..state import Pose, Twist
from .base import AbstractForce, point_wrench


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
        force = _value(self.force, t, A)
        if self.frame == "body":
            force = A @ force
        f, n = point_wrench(A, force, A @ self.s_bar)
        return f[None], n[None]


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
