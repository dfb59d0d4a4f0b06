"""What a formulation is: how coordinates become poses, how they move, and the equations of motion in them.

The physics is written once on poses and wrenches; everything here follows from seven small maps of one body. Rows and
their variations are taken by automatic differentiation of one primitive on the coordinates of its two bodies, never of
the whole residual; a formulation that has them in closed form (rA) overrides them.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.state import Pose, State, Twist, ground_pose
from ..model.system import System
from ..rotations.so3 import cross
from ..rotations.types import Mat3, Scalar, Vec3
from ..solvers.saddle import Coupling, SaddleMatrix, apply_tangent, pairs, scatter_rows
from .pose_jet import PoseJet, jet_row, jet_row_gamma, jet_row_variation

Coordinates = Any  # of all bodies: a pytree with leading axis nb


class StepScales(eqx.Module):
    """How velocities and coordinates at the end of a step follow a change of the unknown accelerations.

    Attributes:
        velocity: ∂u/∂a, h for implicit Euler [s].
        position: ∂q/∂a, h² for implicit Euler [s²].
    """

    velocity: Scalar
    position: Scalar


class AbstractFormulation(eqx.Module):
    """Coordinates q, velocities u and accelerations a of a body; u and a are plain vectors of `size` numbers.

    Class attributes:
        name: Its name in files and on the command line.
        size: Velocity coordinates per body.
        normalizations: Constraints among the coordinates of one body (1 for Euler parameters).
        regular_mass: Whether the mass matrix of a body with inertia in all directions can be inverted.
    """

    name: ClassVar[str]
    size: ClassVar[int]
    normalizations: ClassVar[int]
    regular_mass: ClassVar[bool] = True

    # --- one body --------------------------------------------------------------------------------

    @abc.abstractmethod
    def coordinates(self, pose: Pose) -> Coordinates:
        """The coordinates of a pose."""

    @abc.abstractmethod
    def pose(self, q: Coordinates) -> Pose:
        """The pose that coordinates describe."""

    @abc.abstractmethod
    def rates(self, q: Coordinates, v: Vec3, omega: Vec3) -> Float[Array, " d"]:
        """Velocity coordinates of a twist."""

    @abc.abstractmethod
    def twist(self, q: Coordinates, u: Float[Array, " d"]) -> Twist:
        """The twist (v global, omega body frame) that velocity coordinates describe."""

    @abc.abstractmethod
    def accelerations(self, q: Coordinates, u: Float[Array, " d"], a: Vec3, alpha: Vec3) -> Float[Array, " d"]:
        """Second derivatives of the coordinates from those of position and the rate of omega."""

    @abc.abstractmethod
    def physical_accelerations(self, q: Coordinates, u: Float[Array, " d"], a: Float[Array, " d"]) -> tuple[Vec3, Vec3]:
        """The inverse of `accelerations`: (r_ddot global, omega_dot body frame)."""

    @abc.abstractmethod
    def generalized(self, q: Coordinates, force: Vec3, torque: Vec3) -> Float[Array, " d"]:
        """The generalised force of a wrench: the transpose of `twist`."""

    @abc.abstractmethod
    def retract(self, q: Coordinates, delta: Float[Array, " d"]) -> Coordinates:
        """Move coordinates by a finite increment: addition, or multiplication by exp for rA."""

    def tangent(self, delta: Float[Array, " d"]) -> Float[Array, "d d"] | None:
        """T with retract(q, delta + e) = retract(retract(q, delta), T e) to first order; None for the identity."""
        return None

    def normalization(self, q: Coordinates) -> Float[Array, " k"]:
        """Constraints among the coordinates of one body."""
        return jnp.zeros(0, jax.tree.leaves(q)[0].dtype)

    # --- what a formulation may add --------------------------------------------------------------

    def check(self, system: System) -> None:
        """Refuse a mechanism that these coordinates cannot describe; called with concrete values where there are any.

        Raises:
            ValueError: The message names the body and the cure.
        """

    def eliminate(self, system: System, q: Coordinates, rows, bias, gamma):
        """(a, λ) of M a + bias + Rᵀ λ = 0 and R a = γ by a method of its own; None leaves it to the linear solvers."""
        return None

    def observed(self, system: System, lam: Float[Array, " m"]) -> dict[str, Any]:
        """Numbers of its own that `stats` of a solution should hold, from all multipliers."""
        return {}

    # --- gather ----------------------------------------------------------------------------------

    def with_ground(self, x: Any) -> Any:
        """Append the ground's row to the coordinates of all bodies."""
        ground = self.coordinates(ground_pose(jax.tree.leaves(x)[0].dtype))
        return jax.tree.map(lambda b, g: jnp.concatenate([b, g[None]]), x, ground)

    def local(self, x: Any, i: Any, j: Any) -> tuple[Any, Any]:
        """Rows of bodies i and of bodies j (static indices)."""
        at_i, at_j = np.array(i, int), np.array(j, int)
        return jax.tree.map(lambda b: b[at_i], x), jax.tree.map(lambda b: b[at_j], x)

    # --- states ----------------------------------------------------------------------------------

    def from_state(self, state: State) -> tuple[Coordinates, Float[Array, "nb d"]]:
        """Coordinates and velocities of all bodies."""
        q = jax.vmap(self.coordinates)(state.pose)
        return q, jax.vmap(self.rates)(q, state.v, state.omega)

    def to_state(self, q: Coordinates, u: Float[Array, "nb d"]) -> State:
        """Poses and twists of all bodies."""
        pose, twist = jax.vmap(self.pose)(q), jax.vmap(self.twist)(q, u)
        return State(pose.r, pose.A, twist.v, twist.omega)

    def rechart(self, q: Coordinates, u: Float[Array, "nb d"], a: Float[Array, "nb d"]):
        """(q, u, a) of all bodies in the charts best for their poses; as they are where one chart covers all."""
        return q, u, a

    # --- constraints: stacked rows of the joints, then the normalisations ------------------------

    def row_bodies(self, system: System) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Bodies i and j of every row, normalisations (body against ground) included."""
        k, nb = self.normalizations, system.nb
        own = tuple(b for b in range(nb) for _ in range(k))
        return tuple(system.rows_i.tolist()) + own, tuple(system.rows_j.tolist()) + (nb,) * (nb * k)

    def inner_rows(self, system: System) -> int:
        """Number of normalisations, the last of the rows."""
        return system.nb * self.normalizations

    def phi(self, system: System, q: Coordinates) -> Float[Array, " m"]:
        """All constraint values; `system` is at the instant (see `System.at`)."""
        pose = jax.vmap(self.pose)(self.with_ground(q))
        values = [jnp.zeros(0, system.dtype)]
        for stack in system.constraints:
            pose_i, pose_j = self.local(pose, stack.i, stack.j)
            values.append(jax.vmap(lambda p, x, y: p.geometry(x, y) - p.f)(stack.primitive, pose_i, pose_j))
        values.append(jax.vmap(self.normalization)(q).reshape(-1))
        return jnp.concatenate(values)

    def rows(self, system: System, q: Coordinates) -> Float[Array, "m 2 d"]:
        """The constraint Jacobian, each row on the velocity coordinates of its two bodies."""
        jets = jax.vmap(self.pose_jet)(self.with_ground(q))
        rows = [jnp.zeros((0, 2, self.size), system.dtype)]
        for stack in system.constraints:
            rows.append(jax.vmap(jet_row)(stack.primitive, *self.local(jets, stack.i, stack.j)))
        if self.normalizations:
            own = jax.vmap(self.normalization_rows)(q).reshape(-1, self.size)
            rows.append(jnp.stack([own, jnp.zeros_like(own)], axis=1))
        return jnp.concatenate(rows)

    def row_variations(self, system: System, q: Coordinates, lam: Float[Array, " m"]) -> list[Coupling]:
        """Derivatives of Rᵀ λ with respect to the coordinates, on the coordinates of two bodies per row."""
        jets = jax.vmap(self.pose_jet)(self.with_ground(q))
        couplings, start = [], 0
        for stack in system.constraints:
            weights = lam[start : start + len(stack)]
            variation = jax.vmap(jet_row_variation)(stack.primitive, *self.local(jets, stack.i, stack.j))
            couplings.append(Coupling(variation * weights[:, None, None, None, None], pairs(stack.i, stack.j)))
            start += len(stack)
        return couplings

    def gamma(self, system: System, q: Coordinates, u: Float[Array, "nb d"]) -> Float[Array, " m"]:
        """Minus the second derivative of the constraints along the free motion; `system` from `System.jet`."""
        padded_u = jnp.concatenate([u, jnp.zeros((1, self.size), u.dtype)])
        motions = jax.vmap(self.free_motion)(self.with_ground(q), padded_u)
        values = [jnp.zeros(0, system.dtype)]
        for stack in system.constraints:
            values.append(jax.vmap(jet_row_gamma)(stack.primitive, *self.local(motions, stack.i, stack.j)))
        if self.normalizations:
            values.append(jax.vmap(self.normalization_gamma)(q, u).reshape(-1))
        return jnp.concatenate(values)

    def explicit_rate(self, system: System, q: Coordinates) -> Float[Array, " m"]:
        """The partial time derivative of the geometry of all rows; `system` from `System.jet`."""
        pose = jax.vmap(self.pose)(self.with_ground(q))
        values = [jnp.zeros(0, system.dtype)]
        for stack in system.constraints:
            pose_i, pose_j = self.local(pose, stack.i, stack.j)
            values.append(jax.vmap(lambda p, x, y: p.geometry_rate(x, y))(stack.primitive, pose_i, pose_j))
        values.append(jnp.zeros(system.nb * self.normalizations, system.dtype))
        return jnp.concatenate(values)

    # one body, by automatic differentiation of its pose

    def pose_jet(self, q: Coordinates) -> PoseJet:
        """The pose with its first two derivatives by the velocity coordinates.

        Sines and products of parameters are differentiated once per body; primitives then see polynomials.
        """
        zero = jnp.zeros(self.size, jax.tree.leaves(q)[0].dtype)

        def moved(delta):
            pose = self.pose(self.retract(q, delta))
            return jnp.concatenate([pose.r, pose.A.reshape(9)])

        return PoseJet(moved(zero), jax.jacfwd(moved)(zero), jax.jacfwd(jax.jacfwd(moved))(zero))

    def free_motion(self, q: Coordinates, u: Float[Array, " d"]) -> PoseJet:
        """The pose along s -> retract(q, s u), with two derivatives by s."""
        zero, one = jnp.zeros((), u.dtype), jnp.ones((), u.dtype)

        def moved(s):
            pose = self.pose(self.retract(q, s * u))
            return jnp.concatenate([pose.r, pose.A.reshape(9)])

        def rate(s):
            return jax.jvp(moved, (s,), (one,))

        (value, first), (_, second) = jax.jvp(rate, (zero,), (one,))
        return PoseJet(value, first[:, None], second[:, None, None])

    def normalization_rows(self, q: Coordinates) -> Float[Array, "k d"]:
        """Derivative of the normalisations of one body."""
        zero = jnp.zeros(self.size, jax.tree.leaves(q)[0].dtype)
        return jax.jacfwd(lambda delta: self.normalization(self.retract(q, delta)))(zero)

    def normalization_gamma(self, q: Coordinates, u: Float[Array, " d"]) -> Float[Array, " k"]:
        """γ of the normalisations of one body."""
        zero, one = jnp.zeros((), u.dtype), jnp.ones((), u.dtype)

        def rate(s):
            return jax.jvp(lambda s: self.normalization(self.retract(q, s * u)), (s,), (one,))[1]

        return -jax.jvp(rate, (zero,), (one,))[1]

    # --- dynamics --------------------------------------------------------------------------------

    def body_balance(self, mass: Scalar, inertia: Mat3, q, u, a, force: Vec3, torque: Vec3) -> Float[Array, " d"]:
        """Newton and Euler for one body, inertia minus applied wrench, in its coordinates (Kissel et al. Eq. 31)."""
        r_ddot, omega_dot = self.physical_accelerations(q, u, a)
        omega = self.twist(q, u).omega
        gyroscopic = cross(omega, inertia @ omega)
        return self.generalized(q, mass * r_ddot - force, inertia @ omega_dot + gyroscopic - torque)

    def applied(self, system: System, q: Coordinates, u: Float[Array, "nb d"], t: Scalar):
        """Applied forces and torques on all bodies (see `System.wrenches`)."""
        pose = jax.vmap(self.pose)(self.with_ground(q))
        twist = jax.vmap(self.twist)(q, u)
        zero = jnp.zeros((1, 3), u.dtype)
        padded = Twist(jnp.concatenate([twist.v, zero]), jnp.concatenate([twist.omega, zero]))
        return system.wrenches(pose, padded, t)

    def balance(self, system: System, q: Coordinates, u, a, lam: Float[Array, " m"], t: Scalar) -> Float[Array, "nb d"]:
        """Equations of motion of all bodies, Mq̈ + h - Q + Rᵀλ; `system` is at time t."""
        force, torque = self.applied(system, q, u, t)
        free = jax.vmap(self.body_balance)(system.mass, system.inertia, q, u, a, force, torque)
        i, j = self.row_bodies(system)
        return free + scatter_rows(self.rows(system, q), lam, i, j, system.nb)

    def mass_matrix(self, system: System, q: Coordinates) -> Float[Array, "nb d d"]:
        """Mass matrix of every body in its coordinates."""
        zero = jnp.zeros((system.nb, self.size), system.dtype)
        scales = StepScales(jnp.zeros((), system.dtype), jnp.zeros((), system.dtype))
        no_load = jnp.zeros((system.nb, 3), system.dtype)
        return self.body_blocks(system, q, zero, zero, no_load, no_load, scales)

    def body_blocks(self, system: System, q, u, a, force, torque, scales: StepScales) -> Float[Array, "nb d d"]:
        """Derivative of `body_balance` by the accelerations through a step, the applied wrench held."""

        def block(mass, inertia, q, u, a, force, torque):
            def moved(delta):
                q_new = self.retract(q, scales.position * delta)
                return self.body_balance(mass, inertia, q_new, u + scales.velocity * delta, a + delta, force, torque)

            return jax.jacfwd(moved)(jnp.zeros(self.size, u.dtype))

        return jax.vmap(block)(system.mass, system.inertia, q, u, a, force, torque)

    def force_blocks(self, system: System, q, u, t: Scalar, scales: StepScales, tangent) -> list[Coupling]:
        """Derivatives of the applied forces (with the sign of the balance) on the coordinates of their bodies."""
        eye = jnp.eye(self.size, dtype=u.dtype)
        if tangent is None:
            tangent = jnp.broadcast_to(eye, (system.nb, self.size, self.size))
        tangent = jnp.concatenate([tangent, eye[None]])
        padded = self.with_ground(q)
        padded_u = jnp.concatenate([u, jnp.zeros((1, self.size), u.dtype)])
        couplings = []
        for stack in system.forces:
            index = stack.index
            q_k, u_k = jax.tree.map(lambda x, index=index: x[index], padded), padded_u[index]

            def block(element, q_k, u_k, tangent_k):
                def moved(delta):
                    turned = jnp.einsum("kij,kj->ki", tangent_k, delta)
                    q_new = jax.vmap(self.retract)(q_k, scales.position * turned)
                    u_new = u_k + scales.velocity * delta
                    pose, twist = jax.vmap(self.pose)(q_new), jax.vmap(self.twist)(q_new, u_new)
                    force, torque = element.wrench(pose, twist, t)
                    return -jax.vmap(self.generalized)(q_k, force, torque)

                return jax.jacfwd(moved)(jnp.zeros_like(u_k))

            couplings.append(Coupling(stack.each(block, q_k, u_k, tangent[index]), stack.bodies))
        return couplings

    def step_matrix(
        self,
        system: System,
        q: Coordinates,
        u: Float[Array, "nb d"],
        a: Float[Array, "nb d"],
        lam: Float[Array, " m"],
        t: Scalar,
        scales: StepScales,
        increment: Float[Array, "nb d"] | None,
    ) -> SaddleMatrix:
        """Newton's matrix of [balance; Φ / scales.position] with respect to (a, λ); `system` is at time t.

        `increment` is the argument of the last `retract`: with it the matrix is exact; with None it is the quasi-Newton
        matrix, which leaves out the terms of second order in the step (reaction variations, the tangent of `retract`)
        but keeps those of applied forces and gyroscopic terms.
        """
        exact = increment is not None
        tangent = jax.vmap(self.tangent)(increment) if exact and self.moves_on_manifold else None
        rows = self.rows(system, q)
        held = StepScales(scales.velocity, scales.position if exact else jnp.zeros_like(scales.position))
        if exact:
            force, torque = self.applied(system, q, u, t)
        else:
            force = torque = jnp.zeros((system.nb, 3), u.dtype)  # held: they do not matter at fixed position
        diagonal = self.body_blocks(system, q, u, a, force, torque, held)
        couplings = self.force_blocks(system, q, u, t, scales, tangent)
        left = rows
        i, j = self.row_bodies(system)
        if exact:
            for c in self.row_variations(system, q, lam):
                blocks = scales.position * c.blocks
                if tangent is not None:
                    blocks = apply_tangent(blocks, tangent, c.bodies)
                couplings.append(Coupling(blocks, c.bodies))
            if self.normalizations:
                diagonal = diagonal + scales.position * self.normalization_variations(system, q, lam)
            if tangent is not None:
                left = apply_tangent(rows, tangent, pairs(i, j))
        regularisation = self.regularisation(system, diagonal, rows)
        return SaddleMatrix(diagonal, tuple(couplings), rows, left, regularisation, i, j, self.inner_rows(system))

    @property
    def moves_on_manifold(self) -> bool:
        return type(self).tangent is not AbstractFormulation.tangent

    def normalization_variations(self, system: System, q: Coordinates, lam) -> Float[Array, "nb d d"]:
        """Derivatives of the normalisations' part of Rᵀ λ, body by body."""
        weights = lam[system.nc :].reshape(system.nb, self.normalizations)

        def one(q, w):
            zero = jnp.zeros(self.size, w.dtype)
            return jax.jacfwd(lambda d: w @ self.normalization_rows(self.retract(q, d)))(zero)

        return jax.vmap(one)(q, weights)

    def regularisation(self, system: System, mass, rows: Float[Array, "m 2 d"]) -> Float[Array, " m"] | None:
        """A small multiple of the geometric mean of the diagonal of R M⁻¹ Rᵀ, the same for all rows of joints.

        It picks multipliers of minimum norm where rows repeat. Light bodies beside heavy ones spread that diagonal over
        orders of magnitude, and an arithmetic mean would be large beside the smallest eigenvalues.
        Only where topology allows redundancy. It enters the matrix, never the residual, so constraints stay exact.
        """
        if not system.has_loops:
            return None
        return jnp.sqrt(jnp.finfo(mass.dtype).eps) * self.compliance(system, mass, rows)

    def compliance(self, system: System, mass, rows: Float[Array, "m 2 d"]) -> Float[Array, " m"]:
        """The geometric mean of the diagonal of R M⁻¹ Rᵀ for all rows of joints, zero for normalisations, (m,)."""
        # Mean inertias of translation and rotation stand in for M, which may be singular.
        trans = 3.0 / jnp.maximum(jnp.trace(mass[:, :3, :3], axis1=1, axis2=2), jnp.finfo(mass.dtype).tiny)
        spin = jnp.trace(mass[:, 3:, 3:], axis1=1, axis2=2)
        rot = jnp.where(spin > 0.0, 3.0 / jnp.where(spin > 0.0, spin, 1.0), 0.0)
        weight = jnp.concatenate([jnp.stack([trans, rot], axis=1), jnp.zeros((1, 2), mass.dtype)])
        i, j = self.row_bodies(system)
        w = weight[np.stack([np.array(i, int), np.array(j, int)], axis=1)]  # (m, 2, 2)
        squares = jnp.stack([jnp.sum(rows[..., :3] ** 2, -1), jnp.sum(rows[..., 3:] ** 2, -1)], -1)
        diagonal = jnp.sum(w * squares, axis=(1, 2))
        floor = jnp.finfo(mass.dtype).eps * jnp.max(diagonal)  # a row may vanish at a singular point
        scale = jnp.exp(jnp.mean(jnp.log(jnp.maximum(diagonal, floor))))
        # Normalisations never repeat; without E they stay out of the norm, which then is the same in all formulations.
        uniform = np.arange(len(i)) < len(i) - self.inner_rows(system)
        return scale * jnp.asarray(uniform, mass.dtype)
