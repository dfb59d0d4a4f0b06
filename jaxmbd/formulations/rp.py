"""rp: Euler parameters, with one normalization constraint per body."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.state import Pose, Twist
from ..rotations import euler_parameters as ep
from ..rotations.types import Mat3, Scalar, Vec3, Vec4
from .base import AbstractFormulation, check_rows

Vec7 = Float[Array, "7"]


class RP(AbstractFormulation):
    """Coordinates (r, p), velocities (ṙ, ṗ), accelerations (r̈, p̈); (pᵀp - 1)/2 = 0 for every
    body.

    The rotation matrix is the homogeneous one (see `rotations.euler_parameters`), and ω̄ = 2 G ṗ,
    ω̄̇ = 2 G p̈.

    Attributes:
        rows: "automatic" differentiates the geometry of constraints; "closed" maps the hand-written
            rows of `RA` by 2 G.
        inertia_forces: "newton_euler" is 2 Gᵀ (J ω̄̇ + ω̄ × J ω̄); "lagrange" is the paper's form,
            4 Gᵀ J G p̈ - 8 Ġᵀ J Ġ p with G of ṗ in Ġ. The two differ by a multiple of p, which the
            multiplier of the normalization takes up, where p · ṗ = 0. A method that keeps this
            approximately, as implicit Euler does, has other errors by each.

    Reference:
        Kissel, Taves, Negrut, sections 2.2 and 3.2; Eq. 39d as corrected in the manual's theory.
    """

    name: ClassVar[str] = "rp"
    size: ClassVar[int] = 7
    normalizations: ClassVar[int] = 1
    regular_mass: ClassVar[bool] = False  # p itself is no rotation

    rows: str = eqx.field(static=True, default="automatic")
    inertia_forces: str = eqx.field(static=True, default="newton_euler")

    def __check_init__(self):
        check_rows("RP", self.rows)
        if self.inertia_forces not in ("newton_euler", "lagrange"):
            raise ValueError(
                "RP: inertia_forces must be 'newton_euler' or 'lagrange', not "
                f"{self.inertia_forces!r}"
            )

    def coordinates(self, pose: Pose) -> Vec7:
        return jnp.concatenate([pose.r, ep.from_matrix(pose.A)])

    def pose(self, q: Vec7) -> Pose:
        return Pose(q[:3], ep.to_matrix(q[3:]) * self._scale(q[3:]))

    def _scale(self, p: Vec4) -> Scalar | float:
        """What makes the homogeneous matrix a rotation: mapped rows know of rotations alone."""
        return 1.0 / (p @ p) if self.rows == "closed" else 1.0

    def _turn(self, p: Vec4) -> Float[Array, "3 4"]:
        """E with ω̄ = E ṗ."""
        return 2.0 * self._scale(p) * ep.G(p)

    def rates(self, q: Vec7, v: Vec3, omega: Vec3) -> Vec7:
        return jnp.concatenate([v, 0.5 * ep.G(q[3:]).T @ omega])

    def twist(self, q: Vec7, u: Vec7) -> Twist:
        return Twist(u[:3], self._turn(q[3:]) @ u[3:])

    def accelerations(self, q: Vec7, u: Vec7, a: Vec3, alpha: Vec3) -> Vec7:
        # pᵀp̈ = -ṗᵀṗ, because the norm is constant.
        p, p_dot = q[3:], u[3:]
        return jnp.concatenate([a, 0.5 * ep.G(p).T @ alpha - (p_dot @ p_dot) * p])

    def physical_accelerations(self, q: Vec7, u: Vec7, a: Vec7):
        return a[:3], self._turn(q[3:]) @ a[3:]

    def generalized(self, q: Vec7, force: Vec3, torque: Vec3) -> Vec7:
        return jnp.concatenate([force, self._turn(q[3:]).T @ torque])

    def retract(self, q: Vec7, delta: Vec7) -> Vec7:
        return q + delta

    def body_balance(
        self, mass: Scalar, inertia: Mat3, q: Vec7, u: Vec7, a: Vec7, force: Vec3, torque: Vec3
    ) -> Vec7:
        if self.inertia_forces == "newton_euler":
            return super().body_balance(mass, inertia, q, u, a, force, torque)
        p, G_dot = q[3:], ep.G(u[3:])
        momentum_rate = inertia @ (2.0 * ep.G(p) @ a[3:]) - torque
        balance = 2.0 * ep.G(p).T @ momentum_rate - 8.0 * G_dot.T @ (inertia @ (G_dot @ p))
        return jnp.concatenate([mass * a[:3] - force, balance])

    def normalization(self, q: Vec7) -> Float[Array, "1"]:
        p = q[3:]
        return (0.5 * (p @ p) - 0.5)[None]
