"""rA: the rotation matrix itself, moved by the exponential; rows and their variations hand-coded."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.primitives import RowFactors, variation_of_sums
from ..model.state import Pose, Twist
from ..model.system import System
from ..rotations import so3
from ..rotations.types import Vec3
from ..solvers import Coupling
from ..solvers.saddle import add_groups, pairs
from .base import AbstractFormulation, StepScales


class RA(AbstractFormulation):
    """Coordinates (r, A), velocities (ṙ, ω̄), accelerations (r̈, ω̄̇).

    Reference:
        Kissel, Taves, Negrut, "Constrained multibody kinematics and dynamics in absolute coordinates", sections 2.1 and
        3.1, Tables 2 to 6 as corrected in the project's notes.
    """

    name: ClassVar[str] = "rA"
    size: ClassVar[int] = 6
    normalizations: ClassVar[int] = 0

    def coordinates(self, pose: Pose) -> Pose:
        return pose

    def pose(self, q: Pose) -> Pose:
        return q

    def rates(self, q: Pose, v: Vec3, omega: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([v, omega])

    def twist(self, q: Pose, u: Float[Array, "6"]) -> Twist:
        return Twist(u[:3], u[3:])

    def accelerations(self, q: Pose, u: Float[Array, "6"], a: Vec3, alpha: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([a, alpha])

    def physical_accelerations(self, q: Pose, u: Float[Array, "6"], a: Float[Array, "6"]):
        return a[:3], a[3:]

    def generalized(self, q: Pose, force: Vec3, torque: Vec3) -> Float[Array, "6"]:
        return jnp.concatenate([force, torque])

    def retract(self, q: Pose, delta: Float[Array, "6"]) -> Pose:
        return Pose(q.r + delta[:3], q.A @ so3.exp(delta[3:]))

    def tangent(self, delta: Float[Array, "6"]) -> Float[Array, "6 6"]:
        # The right Jacobian of exp, which the paper's Eq. 37 drops: without it the matrix is exact to O(h) only.
        eye, zero = jnp.eye(3, dtype=delta.dtype), jnp.zeros((3, 3), delta.dtype)
        return jnp.block([[eye, zero], [zero, so3.right_jacobian(delta[3:])]])

    # hand-coded rows

    def _row_factors(self, system: System, q: Pose) -> tuple[RowFactors, Pose, Pose]:
        """The vectors of all rows together, so that one assembly serves all types of primitives."""
        padded = self.with_ground(q)
        factors = []
        for stack in system.constraints:
            factors.append(
                jax.vmap(lambda p, x, y: p.factors(x, y))(stack.primitive, *self.local(padded, stack.i, stack.j))
            )
        together = jax.tree.map(lambda *x: jnp.concatenate(x), *factors)
        return together, *self.local(padded, system.rows_i, system.rows_j)

    def rows(self, system: System, q: Pose) -> Float[Array, "m 2 6"]:
        if not system.nc:
            return jnp.zeros((0, 2, 6), system.dtype)
        factors, _, _ = self._row_factors(system, q)
        return jax.vmap(lambda f: f.row())(factors)

    def row_variations(self, system: System, q: Pose, lam: Float[Array, " m"]) -> list[Coupling]:
        if not system.nc:
            return []
        factors, pose_i, pose_j = self._row_factors(system, q)
        sums = lam[:, None] * jax.vmap(lambda f, x, y: f.variation_sums(x, y))(factors, pose_i.A, pose_j.A)
        # Rows between the same two bodies are added up while they are few numbers.
        bodies = pairs(*self.row_bodies(system))
        distinct = tuple(dict.fromkeys(bodies))
        sums = add_groups(sums, tuple(distinct.index(pair) for pair in bodies), len(distinct))
        pose_i, pose_j = self.local(self.with_ground(q), *zip(*distinct, strict=True))
        return [Coupling(jax.vmap(variation_of_sums)(sums, pose_i.A, pose_j.A), distinct)]

    def gamma(self, system: System, q: Pose, u: Float[Array, "nb 6"]) -> Float[Array, " m"]:
        padded = self.with_ground(q)
        padded_u = jnp.concatenate([u, jnp.zeros((1, 6), u.dtype)])
        twist = Twist(padded_u[:, :3], padded_u[:, 3:])
        values = [jnp.zeros(0, system.dtype)]
        for stack in system.constraints:
            pose_i, pose_j = self.local(padded, stack.i, stack.j)
            twist_i, twist_j = self.local(twist, stack.i, stack.j)
            each = jax.vmap(lambda p, x, v, y, w: p.gamma(x, v, y, w))
            values.append(each(stack.primitive, pose_i, twist_i, pose_j, twist_j))
        return jnp.concatenate(values)

    def body_blocks(self, system: System, q, u, a, force, torque, scales: StepScales) -> Float[Array, "nb 6 6"]:
        # M, J and the gyroscopic term h (ω̃ J - sk(Jω)) of Eq. 38c; neither depends on position.
        def block(mass, inertia, u):
            omega = u[3:]
            gyroscopic = so3.skew(omega) @ inertia - so3.skew(inertia @ omega)
            eye, zero = jnp.eye(3, dtype=u.dtype), jnp.zeros((3, 3), u.dtype)
            return jnp.block([[mass * eye, zero], [zero, inertia + scales.velocity * gyroscopic]])

        return jax.vmap(block)(system.mass, system.inertia, u)
