"""Directors: the mass centre and the columns of the rotation matrix; constant mass, quadratic constraints."""

from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.primitives import PrimitiveStack
from ..model.state import Pose, Twist
from ..model.system import System
from ..rotations import so3
from ..rotations.types import Mat3, Scalar, Vec3
from ..solvers import Coupling
from ..solvers.saddle import pairs
from .base import AbstractFormulation, StepScales

Vec12 = Float[Array, "12"]


class Directors(AbstractFormulation):
    """Coordinates (r, d1, d2, d3), velocities and accelerations their rates; six constraints of rigidity per body.

    The directors d_I are the columns of A. The mass matrix is constant, made of the mass and Euler's tensor
    E = ½ tr(J) I - J, which need not be diagonal; every primitive is at most quadratic in these coordinates.

    Reference:
        Betsch, Leyendecker, "The discrete null space method for the energy consistent integration of constrained
        mechanical systems. Part II", section 3, Eqs. 16 to 25.
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

    def body_balance(self, mass: Scalar, inertia: Mat3, q, u, a, force: Vec3, torque: Vec3) -> Vec12:
        return mass_times(mass, inertia, a) - self.generalized(q, force, torque)

    # rows by automatic differentiation of primitives, for which these coordinates are nothing but a pose

    def rows(self, system: System, q: Float[Array, "nb 12"]) -> Float[Array, "m 2 12"]:
        rows = self.joint_rows(system.constraints, self.with_ground(q))
        own = jax.vmap(self.normalization_rows)(q).reshape(-1, 12)
        return jnp.concatenate([rows, jnp.stack([own, jnp.zeros_like(own)], axis=1)])

    def joint_rows(self, stacks: Sequence[PrimitiveStack], padded: Float[Array, "b 12"]) -> Float[Array, "m 2 12"]:
        """Rows of some primitives; `padded` are the coordinates of all bodies and the ground."""
        rows = [jnp.zeros((0, 2, 12), padded.dtype)]
        for stack in stacks:
            each = jax.vmap(lambda p, x, y: jnp.stack(jax.grad(self._geometry(p), (0, 1))(x, y)))
            rows.append(each(stack.primitive, *self.local(padded, stack.i, stack.j)))
        return jnp.concatenate(rows)

    def joint_phi(self, stacks: Sequence[PrimitiveStack], padded: Float[Array, "b 12"]) -> Float[Array, " m"]:
        """Values of some primitives."""
        values = [jnp.zeros(0, padded.dtype)]
        for stack in stacks:
            local = self.local(padded, stack.i, stack.j)
            values.append(jax.vmap(lambda p, x, y: self._geometry(p)(x, y) - p.f)(stack.primitive, *local))
        return jnp.concatenate(values)

    def row_variations(self, system: System, q: Float[Array, "nb 12"], lam: Float[Array, " m"]) -> list[Coupling]:
        padded = self.with_ground(q)
        couplings, start = [], 0
        for stack in system.constraints:
            weights = lam[start : start + len(stack)]

            def variation(p, weight, x, y):
                function = self._geometry(p)

                def gradient(z):
                    return weight * jnp.stack(jax.grad(function, (0, 1))(z[0], z[1]))

                return jax.jacfwd(gradient)(jnp.stack([x, y]))

            local = self.local(padded, stack.i, stack.j)
            blocks = jax.vmap(variation)(stack.primitive, weights, *local)
            couplings.append(Coupling(blocks, pairs(stack.i, stack.j)))
            start += len(stack)
        return couplings

    def _geometry(self, primitive):
        return lambda x, y: primitive.geometry(self.pose(x), self.pose(y))

    def body_blocks(self, system: System, q, u, a, force, torque, scales: StepScales) -> Float[Array, "nb 12 12"]:
        def block(mass, inertia, torque):
            def load(delta):
                return self.generalized(scales.position * delta, jnp.zeros_like(torque), torque)

            # The load is linear in q for a torque that is held.
            return mass_block(mass, inertia) - jax.jacfwd(load)(jnp.zeros(12, torque.dtype))

        return jax.vmap(block)(system.mass, system.inertia, torque)


def euler_tensor(inertia: Mat3) -> Mat3:
    """E = ½ tr(J) I - J = ∫ X Xᵀ dm (Eqs. 18 and 20)."""
    return 0.5 * jnp.trace(inertia) * jnp.eye(3, dtype=inertia.dtype) - inertia


def mass_block(mass: Scalar, inertia: Mat3) -> Float[Array, "12 12"]:
    """The mass matrix of one body (Eq. 23)."""
    scalars = jnp.zeros((4, 4), inertia.dtype).at[0, 0].set(mass).at[1:, 1:].set(euler_tensor(inertia))
    return jnp.kron(scalars, jnp.eye(3, dtype=inertia.dtype))


def mass_times(mass: Scalar, inertia: Mat3, a: Vec12) -> Vec12:
    """The mass matrix times a vector."""
    directors = euler_tensor(inertia) @ a[3:].reshape(3, 3)
    return jnp.concatenate([mass * a[:3], directors.reshape(9)])
