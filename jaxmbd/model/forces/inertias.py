"""Inertia of joint coordinates: rotors that turn with a joint, in a gearbox of a robot's for
instance.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from ...rotations.vectors import cross
from ..coordinates import Angle, Displacement
from ..state import Pose, Twist
from .along import coordinate_wrench


class AbstractInertia(eqx.Module):
    """A kinetic energy ½ I |w|² of n rates w of the relative motion of two bodies, written on
    poses.

    The equations of motion get I ẇ along the directions of w, as d/dt ∂T/∂q̇ - ∂T/∂q says.
    """

    inertia: eqx.AbstractVar[Scalar]

    @abc.abstractmethod
    def rates(self, pose: Pose, twist: Twist) -> Float[Array, " n"]:
        """The rates w; `pose` and `twist` have a leading axis over the two bodies."""

    @abc.abstractmethod
    def accelerations(
        self, pose: Pose, twist: Twist, a: Float[Array, "2 3"], alpha: Float[Array, "2 3"]
    ) -> Float[Array, " n"]:
        """Their derivatives by time; `a` global of the mass centers, `alpha` body frame."""

    @abc.abstractmethod
    def directions(self, pose: Pose) -> tuple[Float[Array, "n 2 3"], Float[Array, "n 2 3"]]:
        """Forces (global) and torques (body frame) of generalized forces of one along w."""

    def kinetic(self, pose: Pose, twist: Twist) -> Scalar:
        """Its kinetic energy [J]."""
        return 0.5 * self.inertia * jnp.sum(self.rates(pose, twist) ** 2)

    def resistance(
        self, pose: Pose, twist: Twist, a: Float[Array, "2 3"], alpha: Float[Array, "2 3"]
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        """Forces and torques that the acceleration of the rotor takes."""
        weights = self.inertia * self.accelerations(pose, twist, a, alpha)
        force, torque = self.directions(pose)
        return jnp.tensordot(weights, force, 1), jnp.tensordot(weights, torque, 1)


class AlongCoordinate(AbstractInertia):
    """The inertia of an angle [kg·m²] or of a displacement [kg]."""

    coordinate: Angle | Displacement
    inertia: Scalar

    def rates(self, pose: Pose, twist: Twist) -> Float[Array, "1"]:
        i, j = ((Pose(pose.r[k], pose.A[k]), Twist(twist.v[k], twist.omega[k])) for k in (0, 1))
        return self.coordinate.rate(*i, *j)[None]

    def directions(self, pose: Pose) -> tuple[Float[Array, "1 2 3"], Float[Array, "1 2 3"]]:
        i, j = (Pose(pose.r[k], pose.A[k]) for k in (0, 1))
        force, torque = coordinate_wrench(self.coordinate, i, j)
        return force[None], torque[None]

    def accelerations(
        self, pose: Pose, twist: Twist, a: Float[Array, "2 3"], alpha: Float[Array, "2 3"]
    ) -> Float[Array, "1"]:
        x, axis = self.coordinate, pose.A[0] @ self.coordinate.axis_i_bar
        w_i, w_j = pose.A[0] @ twist.omega[0], pose.A[1] @ twist.omega[1]
        e_i, e_j = pose.A[0] @ alpha[0], pose.A[1] @ alpha[1]
        if isinstance(x, Angle):
            return (axis @ (e_j - e_i) + cross(w_i, axis) @ w_j)[None]
        s = pose.A[1] @ x.s_j_bar
        d = pose.r[1] + s - pose.r[0]
        v = twist.v[1] + cross(w_j, s) - twist.v[0]  # of the point on j against the center of i
        slip = v - cross(w_i, d)
        moved = a[1] + cross(e_j, s) + cross(w_j, cross(w_j, s)) - a[0]
        # What an observer on body i sees: Euler, centrifugal and Coriolis parts taken out.
        seen = moved - cross(e_i, d) - cross(w_i, cross(w_i, d)) - 2.0 * cross(w_i, slip)
        return (axis @ seen)[None]


class OfRotation(AbstractInertia):
    """The same inertia of the relative rotation about all axes, as of a ball joint [kg·m²].

    The rates are the components of body j's angular velocity relative to body i, in body j.
    """

    inertia: Scalar

    def rates(self, pose: Pose, twist: Twist) -> Float[Array, "3"]:
        return twist.omega[1] - _seen(pose, twist.omega[0])

    def directions(self, pose: Pose) -> tuple[Float[Array, "3 2 3"], Float[Array, "3 2 3"]]:
        eye = np.eye(3, dtype=pose.A.dtype)
        torque = jnp.stack([-(pose.A[1].T @ pose.A[0]), eye], axis=1)
        return jnp.zeros_like(torque), torque

    def accelerations(
        self, pose: Pose, twist: Twist, a: Float[Array, "2 3"], alpha: Float[Array, "2 3"]
    ) -> Float[Array, "3"]:
        carried = _seen(pose, twist.omega[0])
        return alpha[1] - _seen(pose, alpha[0]) + cross(twist.omega[1], carried)


def _seen(pose: Pose, x: Vec3) -> Vec3:
    """A vector of body i in components of body j."""
    return pose.A[1].T @ (pose.A[0] @ x)
