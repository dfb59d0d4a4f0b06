"""rp: Euler parameters, with one normalization constraint per body."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.state import Pose, Twist
from ..rotations import euler_parameters as ep
from ..rotations import so3
from ..rotations.types import Mat3, Scalar, Vec3
from ..rotations.vectors import cross
from .base import AbstractFormulation, BodyMotion, Wrench, check_rows, kind_of_rows
from .pose_jet import PoseJet
from .turn_jet import TurnJet

Vec7 = Float[Array, "7"]


class RP(AbstractFormulation):
    """Coordinates (r, p), velocities (ṙ, ṗ), accelerations (r̈, p̈); (pᵀp - 1)/2 = 0 for every
    body.

    The rotation matrix is the homogeneous one (see `rotations.euler_parameters`), and ω̄ = 2 G ṗ,
    ω̄̇ = 2 G p̈.

    Attributes:
        rows: "automatic" differentiates the geometry of constraints; "closed", or "paper", has the
            rows of DP1, DP2, D and CD by hand, by the matrix B(p, s) of Eqs. 23 and 24, and the
            derivatives of the inertia forces.
        inertia_forces: "newton_euler" is 2 Gᵀ (J ω̄̇ + ω̄ × J ω̄); "lagrange" is the paper's form,
            4 Gᵀ J G p̈ - 8 Ġᵀ J Ġ p with G of ṗ in Ġ. The two differ by a multiple of p, which the
            multiplier of the normalization takes up, where p · ṗ = 0. A method that keeps this
            approximately, as implicit Euler does, has other errors by each.

    Reference:
        Kissel, Taves, Negrut, sections 2.2 and 3.2; Eqs. 24a, 39d and 41 as corrected in the
        manual's theory.
    """

    name: ClassVar[str] = "rp"
    size: ClassVar[int] = 7
    normalizations: ClassVar[int] = 1
    regular_mass: ClassVar[bool] = False  # p itself is no rotation

    rows: str = eqx.field(static=True, default="automatic", converter=kind_of_rows)
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
        return Pose(q[:3], ep.to_matrix(q[3:]))

    def rates(self, q: Vec7, v: Vec3, omega: Vec3) -> Vec7:
        return jnp.concatenate([v, 0.5 * ep.G(q[3:]).T @ omega])

    def twist(self, q: Vec7, u: Vec7) -> Twist:
        return Twist(u[:3], 2.0 * ep.G(q[3:]) @ u[3:])

    def accelerations(self, q: Vec7, u: Vec7, a: Vec3, alpha: Vec3) -> Vec7:
        # pᵀp̈ = -ṗᵀṗ, because the norm is constant.
        p, p_dot = q[3:], u[3:]
        return jnp.concatenate([a, 0.5 * ep.G(p).T @ alpha - (p_dot @ p_dot) * p])

    def physical_accelerations(self, q: Vec7, u: Vec7, a: Vec7):
        return a[:3], 2.0 * ep.G(q[3:]) @ a[3:]

    def generalized(self, q: Vec7, force: Vec3, torque: Vec3) -> Vec7:
        return jnp.concatenate([force, 2.0 * ep.G(q[3:]).T @ torque])

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

    # closed forms of what automatic differentiation of `pose` gives

    def turn_jet(self, q: Vec7) -> TurnJet:
        return TurnJet(ep.slopes(q[3:]), jnp.asarray(ep.BENDS, q.dtype))

    def free_motion(self, q: Vec7, u: Vec7) -> PoseJet:
        if self.rows == "automatic":
            return super().free_motion(q, u)
        rate = ep.slopes(q[3:]) @ u[3:]
        first = jnp.concatenate([u[:3], rate.reshape(9)])
        # The matrix is quadratic: B(ṗ, s) ṗ = 2 A(ṗ) s.
        second = jnp.concatenate([jnp.zeros_like(u[:3]), 2.0 * ep.to_matrix(u[3:]).reshape(9)])
        value = jnp.concatenate([q[:3], ep.to_matrix(q[3:]).reshape(9)])
        return PoseJet(value, first[:, None], second[:, None, None])

    def body_block(
        self,
        mass: Scalar,
        inertia: Mat3,
        motion: BodyMotion,
        wrench: Wrench,
        velocity: Scalar,
        position: Float[Array, ""] | Float[Array, "7 7"],
    ) -> Float[Array, "7 7"]:
        if self.rows != "closed":
            return super().body_block(mass, inertia, motion, wrench, velocity, position)
        # G(x) y = -G(y) x turns every derivative by p into a product.
        G, G_dot, G_ddot = (ep.G(x) for x in (motion.q[3:], motion.u[3:], motion.a[3:]))
        momentum_rate = 2.0 * inertia @ (G @ motion.a[3:]) - wrench.torque
        by_unknown = 2.0 * inertia @ (G - position * G_ddot)
        if self.inertia_forces == "newton_euler":
            omega = 2.0 * G @ motion.u[3:]
            momentum_rate += cross(omega, inertia @ omega)
            gyroscopic = so3.skew(omega) @ inertia - so3.skew(inertia @ omega)
            by_unknown += 2.0 * gyroscopic @ (velocity * G - position * G_dot)
            rest = 0.0
        else:
            k = inertia @ (G_dot @ motion.q[3:])
            turned = inertia @ (position * G_dot - velocity * G)
            rest = 8.0 * (velocity * ep.turned_back(k) + G_dot.T @ turned)
        turning = 2.0 * (G.T @ by_unknown + position * ep.turned_back(momentum_rate)) - rest
        moving = jnp.concatenate([mass * np.eye(3, dtype=G.dtype), jnp.zeros((3, 4), G.dtype)], 1)
        return jnp.concatenate([moving, jnp.pad(turning, ((0, 0), (3, 0)))])

    def normalization(self, q: Vec7) -> Float[Array, "1"]:
        p = q[3:]
        return (0.5 * (p @ p) - 0.5)[None]
