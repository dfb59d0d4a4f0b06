"""r-epsilon: Euler angles z-x-z, with three charts per body so that a run never meets their
singularity.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..model.state import Pose, Twist
from ..rotations import euler_angles as ea
from ..rotations import so3
from ..rotations.types import Mat3, Scalar, Vec3
from ..rotations.vectors import cross
from ..xla.batch_last import anyone
from .base import AbstractFormulation, BodyMotion, Wrench, check_rows, kind_of_rows
from .pose_jet import PoseJet
from .turn_jet import TurnJet

# A chart is left when |cos(theta)| exceeds this (theta within 26 degrees of 0 or π). The best of
# three charts always has |cos(theta)| <= 1/sqrt(3) = 0.58, so a switch is never followed by another
# at once.
_LEAVE_ABOVE = 0.9
# Where the second derivatives by two angles stand among the six different ones.
_PAIRS = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])


class AngleCoordinates(eqx.Module):
    """Position, Euler angles and the chart they refer to: A = A(eps) chart.

    Attributes:
        x: (r, eps), (..., 6) [m, rad].
        chart: A cyclic permutation of the body axes, (..., 3, 3): it makes one of them the chart's
            third axis.
    """

    x: Float[Array, "*n 6"]
    chart: Float[Array, "*n 3 3"]


class REps(AbstractFormulation):
    """Coordinates (r, ε) with ε = (φ, θ, ψ) in the sequence z-x-z, velocities (ṙ, ε̇),
    accelerations (r̈, ε̈).

    Euler angles are singular where the third axis is along global z. Each body chooses which of its
    axes plays that part, at the start and again, between two steps, whenever θ comes within 26
    degrees of 0 or π. Poses, twists and accelerations are carried over exactly, so a switch changes
    coordinates, not the motion.

    Attributes:
        rows: "automatic" differentiates the geometry of constraints; "closed", or "paper", has the
            rows of DP1, DP2, D and CD by hand, by the derivatives of the single-axis rotations of
            Eqs. 28 and 29, and the derivatives of the inertia forces.

    Reference:
        Kissel, Taves, Negrut, sections 2.3 and 3.3 (one fixed chart).
    """

    name: ClassVar[str] = "reps"
    size: ClassVar[int] = 6
    normalizations: ClassVar[int] = 0

    rows: str = eqx.field(static=True, default="automatic", converter=kind_of_rows)

    def __check_init__(self):
        check_rows("REps", self.rows)

    def coordinates(self, pose: Pose) -> AngleCoordinates:
        return self._in_chart(pose, _best_chart(pose.A))

    def _in_chart(self, pose: Pose, chart: Mat3) -> AngleCoordinates:
        return AngleCoordinates(jnp.concatenate([pose.r, ea.from_matrix(pose.A @ chart.T)]), chart)

    def pose(self, q: AngleCoordinates) -> Pose:
        return Pose(q.x[:3], ea.to_matrix(q.x[3:]) @ q.chart)

    def _B(self, q: AngleCoordinates) -> Mat3:
        return q.chart.T @ ea.B(q.x[3:])

    def rates(self, q: AngleCoordinates, v: Vec3, omega: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([v, ea.rates(q.x[3:], q.chart @ omega)])

    def twist(self, q: AngleCoordinates, u: Float[Array, "6"]) -> Twist:
        return Twist(u[:3], self._B(q) @ u[3:])

    def _B_dot_eps_dot(self, q: AngleCoordinates, u: Float[Array, "6"]) -> Vec3:
        eps, eps_dot = q.x[3:], u[3:]
        _, B_dot = jax.jvp(ea.B, (eps,), (eps_dot,))
        return q.chart.T @ (B_dot @ eps_dot)

    def accelerations(
        self, q: AngleCoordinates, u: Float[Array, "6"], a: Vec3, alpha: Vec3
    ) -> Float[Array, "6"]:
        return jnp.concatenate(
            [a, ea.rates(q.x[3:], q.chart @ (alpha - self._B_dot_eps_dot(q, u)))]
        )

    def physical_accelerations(
        self, q: AngleCoordinates, u: Float[Array, "6"], a: Float[Array, "6"]
    ):
        return a[:3], self._B(q) @ a[3:] + self._B_dot_eps_dot(q, u)

    def generalized(self, q: AngleCoordinates, force: Vec3, torque: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([force, self._B(q).T @ torque])

    def retract(self, q: AngleCoordinates, delta: Float[Array, "6"]) -> AngleCoordinates:
        return AngleCoordinates(q.x + delta, q.chart)

    # closed forms of what automatic differentiation of `pose` gives

    def turn_jet(self, q: AngleCoordinates) -> TurnJet:
        first, second = ea.jet(q.x[3:])
        return TurnJet(
            jnp.stack([A @ q.chart for A in first], axis=2),
            jnp.stack([A @ q.chart for A in second], axis=2)[..., _PAIRS],
        )

    def free_motion(self, q: AngleCoordinates, u: Float[Array, "6"]) -> PoseJet:
        if self.rows == "automatic":
            return super().free_motion(q, u)
        A, A_dot, D = (x @ q.chart for x in ea.motion(q.x[3:], u[3:]))
        first = jnp.concatenate([u[:3], A_dot.reshape(9)])
        second = jnp.concatenate([jnp.zeros_like(u[:3]), D.reshape(9)])
        value = jnp.concatenate([q.x[:3], A.reshape(9)])
        return PoseJet(value, first[:, None], second[:, None, None])

    def body_block(
        self,
        mass: Scalar,
        inertia: Mat3,
        motion: BodyMotion,
        wrench: Wrench,
        velocity: Scalar,
        position: Float[Array, ""] | Float[Array, "6 6"],
    ) -> Float[Array, "6 6"]:
        if self.rows != "closed":
            return super().body_block(mass, inertia, motion, wrench, velocity, position)
        eps, chart, rates = motion.q.x[3:], motion.q.chart, motion.u[3:]
        B, (first, second) = ea.B(eps), ea.B_jet(eps)
        by_rate = [
            first[0] * rates[1] + first[1] * rates[2],
            *(second[k] * rates[1] + second[k + 1] * rates[2] for k in (0, 1)),
        ]

        def along(x: Vec3, y: Vec3) -> Mat3:
            return jnp.stack([jnp.zeros_like(x), x, y], axis=1)

        turned = along(*(b @ rates for b in first))  # ∂ω/∂ε
        omega, alpha = B @ rates, B @ motion.a[3:] + by_rate[0] @ rates
        bent = along(
            *(b @ motion.a[3:] + c @ rates for b, c in zip(first, by_rate[1:], strict=True))
        )
        inertia = chart @ inertia @ chart.T
        gyroscopic = so3.skew(omega) @ inertia - so3.skew(inertia @ omega)
        momentum_rate = inertia @ alpha + cross(omega, inertia @ omega) - chart @ wrench.torque
        turning = B.T @ (
            inertia @ (B + velocity * (by_rate[0] + turned) + position * bent)
            + gyroscopic @ (velocity * B + position * turned)
        ) + position * along(*(b.T @ momentum_rate for b in first))
        moving, zero = mass * np.eye(3, dtype=eps.dtype), np.zeros((3, 3), eps.dtype)
        return jnp.block([[moving, zero], [zero, turning]])

    def rechart(self, q: AngleCoordinates, u: Float[Array, "nb 6"], a: Float[Array, "nb 6"]):
        leave = jnp.abs(jnp.cos(q.x[:, 4])) > _LEAVE_ABOVE
        return jax.lax.cond(
            anyone(jnp.any(leave)),
            jax.vmap(self._switch),
            lambda q, u, a, leave: (q, u, a),
            q,
            u,
            a,
            leave,
        )

    def _switch(
        self,
        q: AngleCoordinates,
        u: Float[Array, "6"],
        a: Float[Array, "6"],
        leave: Bool[Array, ""],
    ) -> tuple[AngleCoordinates, Float[Array, "6"], Float[Array, "6"]]:
        pose, twist = self.pose(q), self.twist(q, u)
        r_ddot, omega_dot = self.physical_accelerations(q, u, a)
        # The new chart is regular everywhere, also where it is not taken, so gradients stay finite.
        new_q = self._in_chart(pose, _best_chart(pose.A))
        new_u = self.rates(new_q, twist.v, twist.omega)
        new_a = self.accelerations(new_q, new_u, r_ddot, omega_dot)
        return jax.tree.map(
            lambda new, old: jnp.where(leave, new, old), (new_q, new_u, new_a), (q, u, a)
        )


def _best_chart(A: Mat3) -> Mat3:
    """The cyclic permutation that puts the body axis farthest from global z in third place."""
    k = jnp.argmin(jnp.abs(A[2]))
    third = jnp.eye(3, dtype=A.dtype)
    # Row m of the permutation is the body axis that plays the part of chart axis m: (k+1, k+2, k)
    # modulo 3.
    return third[jnp.array([k + 1, k + 2, k]) % 3]
