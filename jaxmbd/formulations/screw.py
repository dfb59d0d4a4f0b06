"""rA on SE(3): the pose moves along screws, its velocity is the twist in the body frame."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.state import Pose, Twist
from ..model.system import System
from ..rotations import se3
from ..rotations.so3 import cross, skew
from ..rotations.types import Vec3
from ..solvers import Coupling
from .base import AbstractFormulation
from .ra import RA


class Screw(AbstractFormulation):
    """Coordinates (r, A), velocities V = (Aᵀ ṙ, ω̄), accelerations V̇; q moves by q exp(ξ) on SE(3).

    The integrators' choice of group; `RA` is the same with SO(3) x R³. A body that a lower pair joins to the ground
    stays in the pair's subgroup whatever the step.

    Reference:
        Mueller, Terze, sections 2 and 3, for the motion; Kissel, Taves, Negrut for the rows.
    """

    name: ClassVar[str] = "rA on SE(3)"
    size: ClassVar[int] = 6
    normalizations: ClassVar[int] = 0

    def coordinates(self, pose: Pose) -> Pose:
        return pose

    def pose(self, q: Pose) -> Pose:
        return q

    def rates(self, q: Pose, v: Vec3, omega: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([q.A.T @ v, omega])

    def twist(self, q: Pose, u: Float[Array, "6"]) -> Twist:
        return Twist(q.A @ u[:3], u[3:])

    def accelerations(self, q: Pose, u: Float[Array, "6"], a: Vec3, alpha: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([q.A.T @ a - cross(u[3:], u[:3]), alpha])

    def physical_accelerations(self, q: Pose, u: Float[Array, "6"], a: Float[Array, "6"]):
        return q.A @ (a[:3] + cross(u[3:], u[:3])), a[3:]

    def generalized(self, q: Pose, force: Vec3, torque: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([q.A.T @ force, torque])

    def retract(self, q: Pose, delta: Float[Array, "6"]) -> Pose:
        return Pose(*se3.compose(q.r, q.A, *se3.exp(delta)))

    def tangent(self, delta: Float[Array, "6"]) -> Float[Array, "6 6"]:
        return se3.right_jacobian(delta)

    def rows(self, system: System, q: Pose) -> Float[Array, "m 2 6"]:
        return self._in_body_frame(system, q, RA().rows(system, q))

    def row_variations(self, system: System, q: Pose, lam: Float[Array, " m"]) -> list[Coupling]:
        # Rᵀ λ holds Aᵀ f, which turns with A beside the variation of f: Aᵀ f moves by (Aᵀ f) x δθ.
        turn = self.with_ground(q).A
        eye, zero = jnp.eye(3, dtype=turn.dtype), jnp.zeros((3, 3), turn.dtype)
        frames = jax.vmap(lambda A: jnp.block([[A, zero], [zero, eye]]))(turn)
        couplings = []
        for c in RA().row_variations(system, q, lam):
            at = frames[jnp.array(c.bodies)]  # (n, k, 6, 6)
            couplings.append(Coupling(jnp.einsum("nkea,nkelf,nlfb->nkalb", at, c.blocks, at), c.bodies))
        return [*couplings, *self._turned_forces(system, q, lam)]

    def _turned_forces(self, system: System, q: Pose, lam) -> list[Coupling]:
        i, j = self.row_bodies(system)
        rows = self.rows(system, q)
        total = jnp.zeros((system.nb + 1, 6), rows.dtype)
        total = total.at[jnp.array([i, j]).T].add(rows * lam[:, None, None])[: system.nb]

        def block(y):
            return jnp.zeros((6, 6), y.dtype).at[:3, 3:].set(skew(y[:3]))

        return [Coupling(jax.vmap(block)(total)[:, None, :, None, :], tuple((b,) for b in range(system.nb)))]

    def _in_body_frame(self, system: System, q: Pose, rows):
        if not system.nc:
            return rows
        A_i, A_j = self.local(self.with_ground(q).A, *self.row_bodies(system))
        forces = jnp.einsum("mkb,mkba->mka", rows[..., :3], jnp.stack([A_i, A_j], axis=1))
        return jnp.concatenate([forces, rows[..., 3:]], axis=-1)
