"""Viscous friction in a joint."""

import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from ...rotations.vectors import cross
from ..state import Pose, Twist
from .base import AbstractForce, Output, point_wrench


class RelativeDamping(AbstractForce):
    """A couple and a force that oppose the relative rotation and translation at a joint.

    The directions that the joint blocks have no relative velocity, so the same two coefficients
    serve every joint.

    Attributes:
        s_i_bar: Joint point in body i [m].
        s_j_bar: Joint point in body j [m].
        rotational: [N·m·s/rad].
        translational: [N·s/m].
    """

    s_i_bar: Vec3
    s_j_bar: Vec3
    rotational: Scalar
    translational: Scalar

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        arm_i, arm_j, force, couple = self._loads(pose, twist)
        f_i, n_i = point_wrench(pose.A[0], -force, arm_i)
        f_j, n_j = point_wrench(pose.A[1], force, arm_j)
        turned_i, turned_j = pose.A[0].T @ couple, pose.A[1].T @ couple
        return jnp.stack([f_i, f_j]), jnp.stack([n_i - turned_i, n_j + turned_j])

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """Force and couple on body j, global."""
        _, _, force, couple = self._loads(pose, twist)
        return (
            Output.vector("force", "N", force),
            Output.vector("torque", "N·m", couple),
            self.power(pose, twist, t),
        )

    def _loads(self, pose: Pose, twist: Twist) -> tuple[Vec3, Vec3, Vec3, Vec3]:
        """Lever arms on both bodies, force and couple on body j, global."""
        A_i, A_j = pose.A[0], pose.A[1]
        omega_i, omega_j = A_i @ twist.omega[0], A_j @ twist.omega[1]
        arm_j = A_j @ self.s_j_bar
        # Both bodies are taken at body j's joint point, where the force acts: action and reaction
        # share one line.
        arm_i = pose.r[1] + arm_j - pose.r[0]
        slip = twist.v[1] + cross(omega_j, arm_j) - twist.v[0] - cross(omega_i, arm_i)
        return arm_i, arm_j, -self.translational * slip, -self.rotational * (omega_j - omega_i)
