"""Directors: the mass center and the columns of the rotation matrix; constant mass, quadratic
constraints.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.state import Pose, Twist
from ..rotations import so3
from ..rotations.types import Mat3, Scalar, Vec3
from .base import AbstractFormulation, BodyMotion, Wrench

Vec12 = Float[Array, "12"]


class Directors(AbstractFormulation):
    """Coordinates (r, d1, d2, d3), velocities and accelerations their rates; six constraints of
    rigidity per body.

    The directors d_I are the columns of A. The mass matrix is constant, made of the mass and
    Euler's tensor E = ½ tr(J) I - J, which need not be diagonal; every primitive is at most
    quadratic in these coordinates.

    Reference:
        Betsch, Leyendecker, "The discrete null space method for the energy consistent integration
        of constrained mechanical systems. Part II", section 3, Eqs. 16 to 25.
    """

    name: ClassVar[str] = "directors"
    size: ClassVar[int] = 12
    normalizations: ClassVar[int] = 6

    def coordinates(self, pose: Pose) -> Vec12:
        return jnp.concatenate([pose.r, pose.A.T.reshape(9)])

    def pose(self, q: Vec12) -> Pose:
        return Pose(q[:3], q[3:].reshape(3, 3).T)

    def rates(self, q: Vec12, v: Vec3, omega: Vec3) -> Vec12:
        return self.coordinates(Pose(v, self.pose(q).A @ so3.skew(omega)))

    def twist(self, q: Vec12, u: Vec12) -> Twist:
        return Twist(u[:3], so3.vee(self.pose(q).A.T @ self.pose(u).A))

    def accelerations(self, q: Vec12, u: Vec12, a: Vec3, alpha: Vec3) -> Vec12:
        W = so3.skew(self.twist(q, u).omega)
        return self.coordinates(Pose(a, self.pose(q).A @ (so3.skew(alpha) + W @ W)))

    def physical_accelerations(self, q: Vec12, u: Vec12, a: Vec12):
        return a[:3], so3.vee(self.pose(q).A.T @ self.pose(a).A)

    def generalized(self, q: Vec12, force: Vec3, torque: Vec3) -> Vec12:
        return self.coordinates(Pose(force, 0.5 * self.pose(q).A @ so3.skew(torque)))

    def retract(self, q: Vec12, delta: Vec12) -> Vec12:
        return q + delta

    def normalization(self, q: Vec12) -> Float[Array, "6"]:
        d1, d2, d3 = q[3:].reshape(3, 3)
        lengths = [0.5 * (d @ d) - 0.5 for d in (d1, d2, d3)]
        return jnp.stack([*lengths, d1 @ d2, d1 @ d3, d2 @ d3])

    # constant mass; the gyroscopic terms are in the reactions of rigidity

    def body_balance(
        self, mass: Scalar, inertia: Mat3, q: Vec12, u: Vec12, a: Vec12, force: Vec3, torque: Vec3
    ) -> Vec12:
        return mass_times(mass, inertia, a) - self.generalized(q, force, torque)

    def body_block(
        self,
        mass: Scalar,
        inertia: Mat3,
        motion: BodyMotion,
        wrench: Wrench,
        velocity: Scalar,
        position: Scalar,
    ) -> Float[Array, "12 12"]:
        torque = wrench.torque

        def load(delta: Vec12) -> Vec12:
            return self.generalized(position * delta, jnp.zeros_like(torque), torque)

        # The load is linear in q for a torque that is held.
        return mass_block(mass, inertia) - jax.jacfwd(load)(jnp.zeros(12, torque.dtype))


def euler_tensor(inertia: Mat3) -> Mat3:
    """E = ½ tr(J) I - J = ∫ X Xᵀ dm (Eqs. 18 and 20)."""
    return 0.5 * jnp.trace(inertia) * np.eye(3, dtype=inertia.dtype) - inertia


def mass_block(mass: Scalar, inertia: Mat3) -> Float[Array, "12 12"]:
    """The mass matrix of one body (Eq. 23)."""
    scalars = (
        jnp.zeros((4, 4), inertia.dtype).at[0, 0].set(mass).at[1:, 1:].set(euler_tensor(inertia))
    )
    return jnp.kron(scalars, np.eye(3, dtype=inertia.dtype))


def mass_times(mass: Scalar, inertia: Mat3, a: Vec12) -> Vec12:
    """The mass matrix times a vector."""
    directors = euler_tensor(inertia) @ a[3:].reshape(3, 3)
    return jnp.concatenate([mass * a[:3], directors.reshape(9)])
