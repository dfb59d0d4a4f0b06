"""Rotation-matrix elements: pseudo-translation and rotation from the initial pose, twelve numbers
per body.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..model.state import Pose, Twist
from ..model.system import System
from ..model.validation import is_concrete
from ..rotations import so3
from ..rotations.types import Array, Mat3, Scalar, Vec3, host
from .base import AbstractFormulation
from .directors import euler_tensor
from .symmetric import packed, unpacked

Vec12 = Float[Array, "12"]

ELIMINATIONS = ("two_step", "one_shot")
# A smaller part of the largest eigenvalue than this is a flat or a thin body, not a body that is
# nearly so.
_SINGULAR = 1e-9


class Elements(eqx.Module):
    """Coordinates of a body: where its points are is T* + R x, with x where they were at the
    reference pose.

    Attributes:
        T: Pseudo-translation T* = r - R r₀, (3,) [m].
        R: Rotation from the reference pose, nine numbers, (3, 3).
        reference: The pose (r₀, A₀) at which T* = 0 and R = I: that at the start of a run.
    """

    T: Float[Array, "*n 3"]
    R: Float[Array, "*n 3 3"]
    reference: Pose


class RotationElements(AbstractFormulation):
    """Coordinates (T*, R), twelve per body, with Rᵀ R = I; velocities and accelerations are their
    rates.

        m T̈* + m R̈ r₀ = X,   R̈ K₀ + m T̈* ⊗ r₀ = Y + R Λ

    K₀ is Poinsot's inertia ∫ x ⊗ x dm about the origin at the reference pose. Mass is constant, the
    equations are linear in the accelerations and alike for all bodies, and the constraints of
    spherical joints
    are linear: every Runge-Kutta method keeps them to rounding. Other joints are quadratic in these
    coordinates.

    Joints may be any; `RungeKutta` integrates it explicitly, and any implicit integrator takes it
    too.

    Attributes:
        elimination: How accelerations are found from positions and velocities. "two_step": the
            multipliers Λ of rigidity from those of the joints by a Lyapunov equation per body, then
            the joints' multipliers from a system of their own size. "one_shot": all multipliers
            from one system, 6 more per body.

    Raises:
        ValueError: At the start of a run, where K of some body is singular: an ideal rod or a flat
            disc.

    Reference:
        Dumitriu, Margaritescu, "Validation of new rigid body dynamics formulation using rotation
        matrices elements as dependent parameters", sections 3 and 5, Eqs. 1 to 14 and 23 to 25, as
        corrected in the manual's theory.
    """

    name: ClassVar[str] = "rotation_elements"
    size: ClassVar[int] = 12
    normalizations: ClassVar[int] = 6

    elimination: str = eqx.field(static=True, default="two_step")

    def __check_init__(self):
        if self.elimination not in ELIMINATIONS:
            raise ValueError(
                f"RotationElements: elimination must be one of {ELIMINATIONS}, not "
                f"{self.elimination!r}"
            )

    # --- one body --------------------------------------------------------------------------------

    def coordinates(self, pose: Pose) -> Elements:
        zero = jnp.zeros_like(pose.r)
        return Elements(zero, host.eye(3, dtype=zero.dtype), pose)

    def pose(self, q: Elements) -> Pose:
        return Pose(q.T + q.R @ q.reference.r, q.R @ q.reference.A)

    def rates(self, q: Elements, v: Vec3, omega: Vec3) -> Vec12:
        return _packed(q, v, self.pose(q).A @ so3.skew(omega))

    def twist(self, q: Elements, u: Vec12) -> Twist:
        v, A_dot = _unpacked(q, u)
        return Twist(v, so3.vee(self.pose(q).A.T @ A_dot))

    def accelerations(self, q: Elements, u: Vec12, a: Vec3, alpha: Vec3) -> Vec12:
        W = so3.skew(self.twist(q, u).omega)
        return _packed(q, a, self.pose(q).A @ (so3.skew(alpha) + W @ W))

    def physical_accelerations(self, q: Elements, u: Vec12, a: Vec12):
        r_ddot, A_ddot = _unpacked(q, a)
        return r_ddot, so3.vee(self.pose(q).A.T @ A_ddot)

    def generalized(self, q: Elements, force: Vec3, torque: Vec3) -> Vec12:
        turning = 0.5 * self.pose(q).A @ so3.skew(torque) @ q.reference.A.T
        return jnp.concatenate([force, (jnp.outer(force, q.reference.r) + turning).reshape(9)])

    def retract(self, q: Elements, delta: Vec12) -> Elements:
        return Elements(q.T + delta[:3], q.R + delta[3:].reshape(3, 3), q.reference)

    def normalization(self, q: Elements) -> Float[Array, "6"]:
        return packed(q.R.T @ q.R - host.eye(3, dtype=q.R.dtype))

    def normalization_gamma(self, q: Elements, u: Vec12) -> Float[Array, "6"]:
        # What an integrator adds to RᵀR - I would grow with the square of time. This asks for
        # oscillation at the rate of the body's own rotation instead, which adds no stiffness and is
        # nothing where R is a rotation.
        R_dot = u[3:].reshape(3, 3)
        gap = q.R.T @ q.R - host.eye(3, dtype=q.R.dtype)
        return packed(-2.0 * R_dot.T @ R_dot - 0.5 * jnp.sum(R_dot**2) * gap)

    # constant mass; the gyroscopic terms are in the reactions of rigidity

    def body_balance(
        self,
        mass: Scalar,
        inertia: Mat3,
        q: Elements,
        u: Vec12,
        a: Vec12,
        force: Vec3,
        torque: Vec3,
    ) -> Vec12:
        r_ddot, _ = _unpacked(q, a)
        X = mass * r_ddot
        Y = jnp.outer(X, q.reference.r) + a[3:].reshape(3, 3) @ poinsot(inertia, q.reference.A)
        return jnp.concatenate([X, Y.reshape(9)]) - self.generalized(q, force, torque)

    def observed(self, system: System, lam: Float[Array, " m"]) -> dict[str, Any]:
        # Λ stands on the right-hand side in the paper, the multipliers of all rows on the left.
        own = lam[system.nc :].reshape(system.nb, 6)
        return {"rigidity": -jax.vmap(unpacked)(own)}

    def check(self, system: System) -> None:
        system.refuse_inertias(
            "the elimination of RotationElements", "take another formulation, such as mbd.RA()"
        )
        if not is_concrete(system.inertia):
            return
        for name, inertia in zip(system.bodies, np.asarray(system.inertia), strict=True):
            moments = np.linalg.eigvalsh(0.5 * np.trace(inertia) * host.eye(3) - inertia)
            if not moments[0] > _SINGULAR * moments[2]:
                raise ValueError(
                    f"body {name!r}: its Poinsot inertia ½ tr(J) I - J has the eigenvalues "
                    f"{', '.join(f'{x:.3g}' for x in moments)} kg·m² and cannot be inverted; a "
                    "body without extent in some direction (an ideal rod, a flat disc) needs a "
                    "thickness, for instance mbd.Cylinder instead of mbd.Rod, or another "
                    "formulation, for instance mbd.RA()"
                )


def poinsot(inertia: Mat3, A: Mat3) -> Mat3:
    """Poinsot's inertia about the mass center, ∫ x ⊗ x dm, in global components at the orientation
    A (Eqs. 10, 11).
    """
    return A @ euler_tensor(inertia) @ A.T


def _packed(q: Elements, r_rate: Vec3, A_rate: Mat3) -> Vec12:
    """Rates of (T*, R) from those of (r, A), of first or second order alike."""
    R_rate = A_rate @ q.reference.A.T
    return jnp.concatenate([r_rate - R_rate @ q.reference.r, R_rate.reshape(9)])


def _unpacked(q: Elements, u: Vec12) -> tuple[Vec3, Mat3]:
    """The inverse of `_packed`."""
    R_rate = u[3:].reshape(3, 3)
    return u[:3] + R_rate @ q.reference.r, R_rate @ q.reference.A
