"""A bushing: stiffness and damping in all six directions between two bodies."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations import so3
from ...rotations.types import Array, Mat3, Scalar, Vec3, host
from ...rotations.vectors import cross
from .. import given
from ..body import Body
from ..state import Pose, Twist
from ..validation import array, default_dtype, is_concrete, require
from .base import AbstractForce, Output, point_wrench
from .descriptions import AbstractPairForce

_DIRECTIONS = ("x", "y", "z")
# Axes are perpendicular to this part of their length.
_SKEW = 1e-6


class SixDirections(AbstractForce):
    """Force and torque on body j by the displacement d of its point and the rotation vector φ of
    its axes, both in axes of body i.

        F = -K d - C ḋ + F₀,   T = -J(φ)⁻ᵀ K_φ φ - C_φ ω + T₀.

    The springs have the potential ½ dᵀ K d + ½ φᵀ K_φ φ for turns of any size below half a turn; J
    is the right Jacobian of the rotation vector. The opposite acts on body i, at the same place.

    Attributes:
        s_i_bar, s_j_bar: The point in bodies i and j, where d is zero [m].
        axes_i_bar, axes_j_bar: The axes in bodies i and j, as columns.
        stiffness, damping: K and C of translations, (3,) or (3, 3) [N/m], [N·s/m].
        rotational_stiffness, rotational_damping: K_φ and C_φ [N·m/rad], [N·m·s/rad].
        preload, preload_torque: F₀ and T₀, (3,) [N], [N·m].
    """

    s_i_bar: Vec3
    s_j_bar: Vec3
    axes_i_bar: Mat3
    axes_j_bar: Mat3
    stiffness: Mat3
    damping: Mat3
    rotational_stiffness: Mat3
    rotational_damping: Mat3
    preload: Vec3
    preload_torque: Vec3

    def _displaced(self, pose: Pose) -> tuple[Vec3, Vec3]:
        """D and φ."""
        axes = pose.A[0] @ self.axes_i_bar
        point = pose.r[1] + pose.A[1] @ self.s_j_bar
        d = axes.T @ (point - pose.r[0] - pose.A[0] @ self.s_i_bar)
        return d, so3.log(axes.T @ (pose.A[1] @ self.axes_j_bar))

    def _efforts(self, pose: Pose, twist: Twist) -> tuple[Vec3, Vec3]:
        """Force and torque on body j, in the axes of body i and of body j."""
        A_i, A_j = pose.A[0], pose.A[1]
        axes = A_i @ self.axes_i_bar
        d, turn = self._displaced(pose)
        arm_j = A_j @ self.s_j_bar
        arm_i = pose.r[1] + arm_j - pose.r[0]
        omega_i, omega_j = A_i @ twist.omega[0], A_j @ twist.omega[1]
        moving = twist.v[1] + cross(omega_j, arm_j) - twist.v[0] - cross(omega_i, arm_i)
        force = self.preload - self.stiffness @ d - self.damping @ (axes.T @ moving)
        springs = so3.inverse_right_jacobian(turn).T @ (self.rotational_stiffness @ turn)
        rest = self.preload_torque - self.rotational_damping @ (axes.T @ (omega_j - omega_i))
        return force, so3.exp(turn).T @ rest - springs

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        A_i, A_j = pose.A[0], pose.A[1]
        force, torque = self._efforts(pose, twist)
        force, torque = A_i @ self.axes_i_bar @ force, A_j @ self.axes_j_bar @ torque
        arm_j = A_j @ self.s_j_bar
        f_i, n_i = point_wrench(A_i, -force, pose.r[1] + arm_j - pose.r[0])
        f_j, n_j = point_wrench(A_j, force, arm_j)
        return jnp.stack([f_i, f_j]), jnp.stack([n_i - A_i.T @ torque, n_j + A_j.T @ torque])

    def potential(self, pose: Pose) -> Scalar:
        """Of its springs and of constant preloads along translations [J]."""
        d, turn = self._displaced(pose)
        springs = d @ self.stiffness @ d + turn @ self.rotational_stiffness @ turn
        return 0.5 * springs - self.preload @ d

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """Force on body j in the axes of body i, torque on it in its own, displacement and rotation
        vector.
        """
        force, torque = self._efforts(pose, twist)
        d, turn = self._displaced(pose)
        return (
            Output.vector("force", "N", force),
            Output.vector("torque", "N·m", torque),
            Output.vector("displacement", "m", d),
            Output.vector("rotation", "rad", turn),
            self.power(pose, twist, t),
        )


@dataclass(frozen=True, eq=False)
class Bushing(AbstractPairForce):
    """A bushing, as a rubber mount: stiffness and damping of three displacements and three
    rotations in axes of body i, with preloads.

    Stiffness and damping are three numbers along the axes, or matrices, (3, 3). Turns are measured
    by the rotation vector, up to half a turn, so that their springs have a potential.

    Attributes:
        body_i, body_j: The bodies (objects or names); either may be the ground.
        point: Where it sits, global at the initial pose [m].
        axes: Its axes as rows, global at the initial pose, perpendicular; x, y and z by default.
        stiffness: [N/m].
        damping: [N·s/m].
        rotational_stiffness: [N·m/rad].
        rotational_damping: [N·m·s/rad].
        preload: Force on body j at the initial pose, in its axes [N].
        preload_torque: Torque on body j, in axes of body i [N·m].
    """

    point: Any = given.point()
    stiffness: Any = given.numbers("N/m", 0.0)
    rotational_stiffness: Any = given.numbers("N·m/rad", 0.0)
    damping: Any = given.numbers("N·s/m", 0.0)
    rotational_damping: Any = given.numbers("N·m·s/rad", 0.0)
    preload: Any = given.vector("N", (0.0, 0.0, 0.0))
    preload_torque: Any = given.vector("N·m", (0.0, 0.0, 0.0))
    axes: Any = given.numbers("-", None)

    def element(self, *bodies: Body) -> SixDirections:
        i, j = bodies
        point, axes = self._point("point"), self._axes()
        return SixDirections(
            i.point(point),
            j.point(point),
            i.A.T @ axes,
            j.A.T @ axes,
            self._matrix("stiffness"),
            self._matrix("damping"),
            self._matrix("rotational_stiffness"),
            self._matrix("rotational_damping"),
            self._point("preload"),
            self._point("preload_torque"),
        )

    def _axes(self) -> Array:
        """As columns of unit length."""
        if self.axes is None:
            return host.eye(3, dtype=default_dtype())
        rows = array(self.axes, (3, 3), f"{self.title}: axes")
        lengths = (rows**2).sum(axis=1) ** 0.5
        units = rows / lengths[:, None]
        miss = abs(units @ units.T - np.eye(3)).max()
        return require(
            miss < _SKEW, units, f"{self.title}: axes must be three perpendicular directions"
        ).T

    def _matrix(self, field: str) -> Array:
        value, what = getattr(self, field), f"{self.title}: {field}"
        shape = np.shape(value) if is_concrete(value) else jnp.asarray(value).shape
        if shape == (3, 3):
            return array(value, (3, 3), what)
        if shape not in ((), (3,)):
            raise ValueError(f"{what} must be a number, three numbers or a matrix, (3, 3)")
        along = array(value, shape, what)
        return (along[:, None] if shape else along) * np.eye(3)
