"""rA: the rotation matrix itself, moved by the exponential."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.state import Pose, Twist
from ..rotations import so3
from ..rotations.types import Mat3, Scalar, Vec3
from .base import AbstractFormulation, BodyMotion, Wrench, check_rows, kind_of_rows
from .pose_jet import PoseJet


class RA(AbstractFormulation):
    """Coordinates (r, A), velocities (ṙ, ω̄), accelerations (r̈, ω̄̇).

    Attributes:
        rows: "closed", or "paper", takes the rows of DP1, DP2, D and CD as written by hand;
            "automatic" differentiates their geometry, as in `RP`, to compare like with like.

    Reference:
        Kissel, Taves, Negrut, "Constrained multibody kinematics and dynamics in absolute
        coordinates", sections 2.1 and 3.1; rows in closed form, Tables 2 to 6 as corrected in the
        manual's theory, are in `equations.closed_forms`.
    """

    name: ClassVar[str] = "rA"
    size: ClassVar[int] = 6
    normalizations: ClassVar[int] = 0
    plain: ClassVar[bool] = True

    rows: str = eqx.field(static=True, default="closed", converter=kind_of_rows)

    def __check_init__(self):
        check_rows("RA", self.rows)

    def coordinates(self, pose: Pose) -> Pose:
        return pose

    def pose(self, q: Pose) -> Pose:
        return q

    def rates(self, q: Pose, v: Vec3, omega: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([v, omega])

    def twist(self, q: Pose, u: Float[Array, "6"]) -> Twist:
        return Twist(u[:3], u[3:])

    def accelerations(
        self, q: Pose, u: Float[Array, "6"], a: Vec3, alpha: Vec3
    ) -> Float[Array, "6"]:
        return jnp.concatenate([a, alpha])

    def physical_accelerations(self, q: Pose, u: Float[Array, "6"], a: Float[Array, "6"]):
        return a[:3], a[3:]

    def generalized(self, q: Pose, force: Vec3, torque: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([force, torque])

    def retract(self, q: Pose, delta: Float[Array, "6"]) -> Pose:
        return Pose(q.r + delta[:3], q.A @ so3.exp(delta[3:]))

    def tangent(self, delta: Float[Array, "6"]) -> Float[Array, "3 3"]:
        # The right Jacobian of exp, which the paper's Eq. 37 drops: without it the matrix is exact
        # to O(h) only.
        return so3.right_jacobian(delta[3:])

    # closed forms of what automatic differentiation of `retract` gives

    def pose_jet(self, q: Pose) -> PoseJet:
        # A exp(δ) exp(ε) = A (I + δ̃) (I + ε̃) to first order in each.
        turns = jnp.einsum("ij,ajk->aik", q.A, _SKEW.astype(q.A.dtype))  # A ẽ_a
        twice = jnp.einsum("bij,ajk->abik", turns, _SKEW.astype(q.A.dtype))  # A ẽ_b ẽ_a
        first = jnp.zeros((12, 6), q.A.dtype).at[:3, :3].set(np.eye(3, dtype=q.A.dtype))
        first = first.at[3:, 3:].set(turns.reshape(3, 9).T)
        second = (
            jnp.zeros((12, 6, 6), q.A.dtype)
            .at[3:, 3:, 3:]
            .set(jnp.moveaxis(twice, (0, 1), (2, 3)).reshape(9, 3, 3))
        )
        return PoseJet(jnp.concatenate([q.r, q.A.reshape(9)]), first, second)

    def free_motion(self, q: Pose, u: Float[Array, "6"]) -> PoseJet:
        rate = q.A @ so3.skew(u[3:])
        first = jnp.concatenate([u[:3], rate.reshape(9)])
        second = jnp.concatenate([jnp.zeros_like(q.r), (rate @ so3.skew(u[3:])).reshape(9)])
        return PoseJet(
            jnp.concatenate([q.r, q.A.reshape(9)]), first[:, None], second[:, None, None]
        )

    def body_block(
        self,
        mass: Scalar,
        inertia: Mat3,
        motion: BodyMotion,
        wrench: Wrench,
        velocity: Scalar,
        position: Float[Array, ""] | Float[Array, "6 6"],
    ) -> Float[Array, "6 6"]:
        # M, J and the gyroscopic term h (ω̃ J - sk(Jω)) of Eq. 38c; neither depends on position.
        omega, dtype = motion.u[3:], motion.u.dtype
        gyroscopic = so3.skew(omega) @ inertia - so3.skew(inertia @ omega)
        eye, zero = np.eye(3, dtype=dtype), jnp.zeros((3, 3), dtype)
        return jnp.block([[mass * eye, zero], [zero, inertia + velocity * gyroscopic]])


# ẽ_a of the three axes.
_SKEW = np.zeros((3, 3, 3))
for _a, _b, _c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    _SKEW[_a, _c, _b], _SKEW[_a, _b, _c] = 1.0, -1.0
