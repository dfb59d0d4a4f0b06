"""What a formulation is: how the coordinates of one body become its pose, and how they move.

The physics is written once on poses and wrenches; `equations` makes rows and equations of motion of
these maps, by automatic differentiation where no closed form is known.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.state import Pose, State, Twist, ground_pose
from ..model.system import System
from ..rotations.types import Mat3, Scalar, Vec3
from ..rotations.vectors import cross
from .pose_jet import PoseJet
from .turn_jet import TurnJet

Coordinates = Any  # of all bodies: a pytree with leading axis nb


class BodyMotion(NamedTuple):
    """Coordinates of one body or, with leading axis nb, of all bodies, and their rates.

    Attributes:
        q: Coordinates.
        u: Velocities, (d,).
        a: Accelerations, (d,).
    """

    q: Coordinates
    u: Float[Array, " *nb d"]
    a: Float[Array, " *nb d"]


class Wrench(NamedTuple):
    """Force and torque on one body or, with leading axis nb, on all bodies.

    Attributes:
        force: In global components, (3,) [N].
        torque: In the body frame, (3,) [N·m].
    """

    force: Float[Array, " *nb 3"]
    torque: Float[Array, " *nb 3"]


class AbstractFormulation(eqx.Module):
    """Coordinates q, velocities u and accelerations a of a body; u and a are plain vectors of
    `size` numbers.

    Class attributes:
        name: Its name in files and on the command line.
        size: Velocity coordinates per body.
        normalizations: Constraints among the coordinates of one body (1 for Euler parameters).
        plain: Whether u is (v, ω̄), generalized forces are the wrench, and `retract` moves (r, θ̄):
            derivatives of forces in closed form then need no map.
        regular_mass: Whether the mass matrix of a body with inertia in all directions can be
            inverted.
    """

    name: ClassVar[str]
    size: ClassVar[int]
    normalizations: ClassVar[int]
    plain: ClassVar[bool] = False
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
    def accelerations(
        self, q: Coordinates, u: Float[Array, " d"], a: Vec3, alpha: Vec3
    ) -> Float[Array, " d"]:
        """Second derivatives of the coordinates from the acceleration and the rate of omega."""

    @abc.abstractmethod
    def physical_accelerations(
        self, q: Coordinates, u: Float[Array, " d"], a: Float[Array, " d"]
    ) -> tuple[Vec3, Vec3]:
        """The inverse of `accelerations`: (r_ddot global, omega_dot body frame)."""

    @abc.abstractmethod
    def generalized(self, q: Coordinates, force: Vec3, torque: Vec3) -> Float[Array, " d"]:
        """The generalized force of a wrench: the transpose of `twist`."""

    @abc.abstractmethod
    def retract(self, q: Coordinates, delta: Float[Array, " d"]) -> Coordinates:
        """Move coordinates by a finite increment: addition, or multiplication by exp for rA."""

    def tangent(self, delta: Float[Array, " d"]) -> Float[Array, "s s"] | None:
        """T with retract(q, delta + e) = retract(retract(q, delta), T e) to first order; of the
        last s coordinates alone where T leaves the others as they are, None for the identity.
        """
        return None

    def normalization(self, q: Coordinates) -> Float[Array, " k"]:
        """Constraints among the coordinates of one body."""
        return jnp.zeros(0, jax.tree.leaves(q)[0].dtype)

    # --- what a formulation may add --------------------------------------------------------------

    def check(self, system: System) -> None:
        """Refuse a mechanism that these coordinates cannot describe; called with concrete values
        where there are any.

        Raises:
            ValueError: The message names the body and the cure.
        """

    def observed(self, system: System, lam: Float[Array, " m"]) -> dict[str, Any]:
        """Numbers of its own that `stats` of a solution should hold, from all multipliers."""
        return {}

    # --- all bodies
    # ----------------------------------------------------------------------------------

    def with_ground(self, x: Coordinates) -> Coordinates:
        """Append the ground's row to the coordinates of all bodies."""
        ground = self.coordinates(ground_pose(jax.tree.leaves(x)[0].dtype))
        return jax.tree.map(lambda b, g: jnp.concatenate([b, g[None]]), x, ground)

    def from_state(self, state: State) -> tuple[Coordinates, Float[Array, "nb d"]]:
        """Coordinates and velocities of all bodies."""
        q = jax.vmap(self.coordinates)(state.pose)
        return q, jax.vmap(self.rates)(q, state.v, state.omega)

    def to_state(self, q: Coordinates, u: Float[Array, "nb d"]) -> State:
        """Poses and twists of all bodies."""
        pose, twist = jax.vmap(self.pose)(q), jax.vmap(self.twist)(q, u)
        return State(pose.r, pose.A, twist.v, twist.omega)

    def rechart(self, q: Coordinates, u: Float[Array, "nb d"], a: Float[Array, "nb d"]):
        """(q, u, a) of all bodies in the charts best for their poses; as they are where one chart
        covers all.
        """
        return q, u, a

    # --- one body, by automatic differentiation of its pose --------------------------------------

    def pose_jet(self, q: Coordinates) -> PoseJet:
        """The pose with its first two derivatives by the velocity coordinates.

        Sines and products of parameters are differentiated once per body; primitives then see
        polynomials. The second derivative is that of the first along a move, which need not be
        symmetric where `retract` is no addition.
        """
        zero = jnp.zeros(self.size, jax.tree.leaves(q)[0].dtype)

        def slope(delta: Float[Array, " d"]) -> Float[Array, "12 d"]:
            at = self.retract(q, delta)
            return jax.jacfwd(lambda e: _numbers(self.pose(self.retract(at, e))))(zero)

        return PoseJet(_numbers(self.pose(q)), slope(zero), jax.jacfwd(slope)(zero))

    def free_motion(self, q: Coordinates, u: Float[Array, " d"]) -> PoseJet:
        """The pose along s -> retract(q, s u), with two derivatives by s."""
        zero, one = jnp.zeros((), u.dtype), jnp.ones((), u.dtype)

        def moved(s: Scalar) -> Float[Array, "12"]:
            return _numbers(self.pose(self.retract(q, s * u)))

        def rate(s: Scalar) -> tuple[Float[Array, "12"], Float[Array, "12"]]:
            return jax.jvp(moved, (s,), (one,))

        (value, first), (_, second) = jax.jvp(rate, (zero,), (one,))
        return PoseJet(value, first[:, None], second[:, None, None])

    def turn_jet(self, q: Coordinates) -> TurnJet:
        """The derivatives of the rotation matrix by the coordinates of rotation, where r is the
        first part of the coordinates.
        """
        jet = self.pose_jet(q)
        n = self.size - 3
        return TurnJet(
            jet.first[3:, 3:].reshape(3, 3, n), jet.second[3:, 3:, 3:].reshape(3, 3, n, n)
        )

    def normalization_rows(self, q: Coordinates) -> Float[Array, "k d"]:
        """Derivative of the normalizations of one body."""
        zero = jnp.zeros(self.size, jax.tree.leaves(q)[0].dtype)
        return jax.jacfwd(lambda delta: self.normalization(self.retract(q, delta)))(zero)

    def normalization_gamma(self, q: Coordinates, u: Float[Array, " d"]) -> Float[Array, " k"]:
        """γ of the normalizations of one body."""
        zero, one = jnp.zeros((), u.dtype), jnp.ones((), u.dtype)

        def rate(s: Scalar) -> Float[Array, " k"]:
            return jax.jvp(lambda s: self.normalization(self.retract(q, s * u)), (s,), (one,))[1]

        return -jax.jvp(rate, (zero,), (one,))[1]

    # --- the equations of motion of one body -----------------------------------------------------

    def body_balance(
        self,
        mass: Scalar,
        inertia: Mat3,
        q: Coordinates,
        u: Float[Array, " d"],
        a: Float[Array, " d"],
        force: Vec3,
        torque: Vec3,
    ) -> Float[Array, " d"]:
        """Newton and Euler for one body, inertia minus applied wrench, in its coordinates (Kissel
        et al. Eq. 31).
        """
        r_ddot, omega_dot = self.physical_accelerations(q, u, a)
        omega = self.twist(q, u).omega
        gyroscopic = cross(omega, inertia @ omega)
        return self.generalized(q, mass * r_ddot - force, inertia @ omega_dot + gyroscopic - torque)

    def body_block(
        self,
        mass: Scalar,
        inertia: Mat3,
        motion: BodyMotion,
        wrench: Wrench,
        velocity: Scalar,
        position: Float[Array, ""] | Float[Array, "d d"],
    ) -> Float[Array, "d d"]:
        """Derivative of `body_balance` by accelerations that velocities and coordinates follow, the
        wrench held.

        `velocity` is ∂u/∂a; `position` is ∂q/∂a at q, a number, or a matrix (d, d) where `retract`
        is no addition.
        """
        q, u, a = motion

        def moved(delta: Float[Array, " d"]) -> Float[Array, " d"]:
            q_new = self.retract(q, position @ delta if position.ndim else position * delta)
            return self.body_balance(mass, inertia, q_new, u + velocity * delta, a + delta, *wrench)

        return jax.jacfwd(moved)(jnp.zeros(self.size, u.dtype))

    @property
    def moves_on_manifold(self) -> bool:
        """Whether `retract` is more than an addition."""
        return type(self).tangent is not AbstractFormulation.tangent


def kind_of_rows(rows: str) -> str:
    """The kind that is meant: the papers' own rows are those in closed form."""
    return "closed" if rows == "paper" else rows


def check_rows(name: str, rows: str) -> None:
    """Refuse a kind of rows that there is not."""
    if rows not in ("closed", "automatic"):
        raise ValueError(
            f"{name}: rows must be 'closed' (also 'paper') or 'automatic', not {rows!r}"
        )


def _numbers(pose: Pose) -> Float[Array, "12"]:
    return jnp.concatenate([pose.r, pose.A.reshape(9)])
