"""Equilibrium: the balance of all bodies at rest, or turning steadily as one, and its exact tangent
matrix.

At rest the unknowns are the poses q and the multipliers λ of

    g(q, λ) = f(q) + Rᵀ λ = 0,   Φ(q) = 0

where f holds minus the applied wrenches and, in a steady rotation, the inertia of the turning
bodies. The tangent matrix is [[K, Rᵀ], [R, 0]] with K = ∂g/∂q on small displacements of rA: of the
mass centers, global, and small turns, body frame. K is symmetric where the loads have a potential.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations import RA
from ..linalg import Coupling, SaddleMatrix
from ..linalg.saddle import apply_rows, scatter_rows
from ..model.forces.base import AbstractForce, ForceStack
from ..model.state import Pose, Twist
from ..model.system import System
from ..rotations.types import Mat3, Scalar, Vec3
from ..xla.indexing import take
from .motion import regularization
from .rows import coupling_rows, phi, row_bodies, row_variations, rows

_RA = RA()

# Of the bodies of an element: one, or zero for the ground, and their own angular velocities.
Moving = tuple[Float[Array, "*n k"], Float[Array, "*n k 3"]]


class Spin(eqx.Module):
    """A steady rotation of the whole mechanism about a fixed axis.

    Attributes:
        axis: Its direction, global, of any length, (3,) [-].
        rate: Angular velocity about the axis [rad/s].
        point: A point of the axis, global, (3,) [m].
    """

    axis: Any
    rate: Any
    point: Any = (0.0, 0.0, 0.0)

    @property
    def direction(self) -> Vec3:
        """The unit vector of the axis."""
        return self.axis / jnp.sqrt(self.axis @ self.axis)

    def twist(self, pose: Pose) -> Twist:
        """The twist of a body that turns with the whole."""
        w = self.rate * self.direction
        return Twist(jnp.cross(w, pose.r - self.point), pose.A.T @ w)

    def acceleration(self, pose: Pose) -> Vec3:
        """Of its mass center [m/s²]."""
        w = self.rate * self.direction
        return jnp.cross(w, jnp.cross(w, pose.r - self.point))


class Rest(eqx.Module):
    """What is to be balanced: a system at an instant, held or turning.

    Attributes:
        system: At the instant (`System.at`), its angles counted from where the bodies are.
        t: The instant, at which loads act [s].
        share: Of gravity, of the centrifugal load and of all loads that store no energy; one for
            the whole.
        spin: The steady rotation, or None at rest.
        parts: Angular velocities of parts that turn about axes of symmetry of their own, body
            frame, (nb, 3) [rad/s], or None.
    """

    system: System
    t: Scalar
    share: Scalar
    spin: Spin | None = None
    parts: Float[Array, "nb 3"] | None = None

    @property
    def own_spin(self) -> Float[Array, "nb 3"]:
        """Angular velocity of every body beside that of the whole, body frame."""
        system = self.system
        return jnp.zeros((system.nb, 3), system.dtype) if self.parts is None else self.parts

    def twist(self, pose: Pose, own: Vec3) -> Twist:
        """The twist of one body."""
        if self.spin is None:
            return Twist(jnp.zeros_like(pose.r), own)
        twist, root = self.spin.twist(pose), jnp.sqrt(self.share)
        return Twist(root * twist.v, root * twist.omega + own)


def static_loads(args: Rest, pose: Pose) -> tuple[Float[Array, "nb 6"], Float[Array, "nb 6"]]:
    """f, inertia of the steady rotation minus applied wrenches, body by body; and the sum of the
    magnitudes of its terms.
    """
    system = args.system
    own = jax.vmap(lambda m, J, p: _own_load(args, m, J, p))(system.mass, system.inertia, pose)
    total, size, padded = own, jnp.abs(own), _RA.with_ground(pose)
    for stack in system.forces:
        local = jax.tree.map(lambda x, stack=stack: take(x, stack.index), padded)
        load = stack.each(
            lambda element, at, moving: element_load(args, element, at, moving),
            local,
            moving_bodies(stack, args),
        )
        total = total.at[stack.index].add(load, mode="drop")
        size = size.at[stack.index].add(jnp.abs(load), mode="drop")
    return total, size


def reactions(
    args: Rest, held: Float[Array, "m k 6"], lam: Float[Array, " m"]
) -> Float[Array, "nb 6"]:
    """Rᵀ λ, body by body, of the rows `held`."""
    return scatter_rows(held, lam, row_bodies(_RA, args.system), args.system.nb)


def load_scale(
    args: Rest, held: Float[Array, "m k 6"], lam: Float[Array, " m"], size: Float[Array, "nb 6"]
) -> Scalar:
    """The largest sum of magnitudes of loads and reactions at a body [N], torques divided by the
    system's length; `size` is that of the loads.
    """
    total = size + reactions(args, jnp.abs(held), jnp.abs(lam))
    return jnp.max(total * force_units(args.system)[None, :])


def force_units(system: System) -> Float[Array, "6"]:
    """Factors that turn a body's force and torque into forces [N, N]."""
    return jnp.ones(6, system.dtype).at[3:].set(1.0 / system.length)


def static_balance(args: Rest, pose: Pose, lam: Float[Array, " m"]) -> Float[Array, "nb 6"]:
    """g: what is left of loads and reactions, body by body; zero at an equilibrium."""
    return static_loads(args, pose)[0] + reactions(args, rows(_RA, args.system, pose), lam)


def static_gaps(
    args: Rest, pose: Pose, base: Pose, moved: Float[Array, "nb 6"]
) -> Float[Array, " m"]:
    """Φ at position level, and what joints at velocity level see of a displacement `moved` from
    `base`: they allow no other.
    """
    system = args.system
    values = phi(_RA, system, pose)
    if not system.nonholonomic:
        return values
    along = apply_rows(rows(_RA, system, base), moved, row_bodies(_RA, system))
    return jnp.where(np.arange(values.size) >= system.holonomic_rows, along, values)


def static_matrix(args: Rest, pose: Pose, lam: Float[Array, " m"], damping: Scalar) -> SaddleMatrix:
    """[[K + damping W, Rᵀ], [R, -E]] at a pose, W counting meters and length-scaled radians."""
    system = args.system
    weights = metric(system)
    held = rows(_RA, system, pose)
    diagonal = damping * weights + own_stiffness(args, pose)
    couplings = (*stiffness_blocks(args, pose), *row_variations(_RA, system, pose, lam))
    # E is small beside R (K + ..)⁻¹ Rᵀ, for which the largest stiffness [N/m] stands in.
    units = force_units(system)
    units = units[:, None] * units[None, :]
    largest = jnp.max(jnp.abs(diagonal) * units[None])
    for c in couplings:
        size = jnp.abs(c.padded(6)) * units[None, None, :, None, :]
        largest = jnp.maximum(largest, jnp.max(size, initial=0.0))
    return SaddleMatrix(
        diagonal,
        couplings,
        held,
        held,
        regularization(_RA, system, weights * largest, held),
        row_bodies(_RA, system),
        0,
        coupling_rows(system),
    ).localized()


def metric(system: System) -> Float[Array, "nb 6 6"]:
    """W: meters and length-scaled radians count alike."""
    one = jnp.ones(3, system.dtype)
    block = jnp.diag(jnp.concatenate([one, one * system.length**2]))
    return jnp.broadcast_to(block, (system.nb, 6, 6))


def own_stiffness(args: Rest, pose: Pose) -> Float[Array, "nb 6 6"]:
    """The part of K of single bodies: the centrifugal load's."""
    system = args.system
    if args.spin is None:
        return jnp.zeros((system.nb, 6, 6), system.dtype)

    def one(mass: Scalar, inertia: Mat3, pose: Pose) -> Float[Array, "6 6"]:
        return jax.jacfwd(lambda d: _own_load(args, mass, inertia, _RA.retract(pose, d)))(
            jnp.zeros(6, system.dtype)
        )

    return jax.vmap(one)(system.mass, system.inertia, pose)


def stiffness_blocks(args: Rest, pose: Pose) -> list[Coupling]:
    """The part of K of force elements, on their bodies."""
    system, padded = args.system, _RA.with_ground(pose)
    couplings = []
    for stack in system.forces:

        def block(element: AbstractForce, at: Pose, moving: Moving) -> Float[Array, "k 6 k 6"]:
            def load(delta: Float[Array, "k 6"]) -> Float[Array, "k 6"]:
                moved = jax.vmap(_RA.retract)(at, delta)
                return element_load(args, element, moved, moving)

            return jax.jacfwd(load)(jnp.zeros((len(moving[0]), 6), system.dtype))

        local = jax.tree.map(lambda x, stack=stack: take(x, stack.index), padded)
        couplings.append(
            Coupling(stack.each(block, local, moving_bodies(stack, args)), stack.bodies)
        )
    return couplings


def _own_load(args: Rest, mass: Scalar, inertia: Mat3, pose: Pose) -> Float[Array, "6"]:
    """Inertia in the steady rotation minus gravity, of one body."""
    force, torque = -args.share * mass * args.system.gravity, jnp.zeros_like(pose.r)
    if args.spin is not None:
        omega = args.spin.twist(pose).omega
        force = force + args.share * mass * args.spin.acceleration(pose)
        torque = args.share * jnp.cross(omega, inertia @ omega)
    return jnp.concatenate([force, torque])


def moving_bodies(stack: ForceStack, args: Rest) -> Moving:
    """For the bodies of every element: zero for the ground, which does not turn with the others,
    one for the others, (n, k); and their own angular velocities, (n, k, 3).
    """
    system = args.system
    own = jnp.concatenate([args.own_spin, jnp.zeros((1, 3), system.dtype)])
    return jnp.asarray(stack.index < system.nb, system.dtype), take(own, stack.index)


def element_twist(args: Rest, pose: Pose, moving: Moving) -> Twist:
    """The twists of an element's bodies in the steady state."""
    flags, own = moving
    twist = jax.vmap(args.twist)(pose, own)
    return jax.tree.map(lambda x: x * flags[:, None], twist)


def element_load(
    args: Rest, element: AbstractForce, pose: Pose, moving: Moving
) -> Float[Array, "k 6"]:
    """Minus the wrench of one element, of which loads count by their share and stored energy
    counts whole.
    """
    twist = element_twist(args, pose, moving)

    def load(element: AbstractForce) -> Float[Array, "k 6"]:
        return -jnp.concatenate(element.acting(pose, twist, args.t), axis=1)

    whole = load(element)
    if not _stores_energy(element):
        return args.share * whole
    rest = element.dissipative()
    if rest is None or rest is element:
        return whole
    return whole - (1.0 - args.share) * load(rest)


def _stores_energy(element: AbstractForce) -> bool:
    own = type(element)
    return own.potential is not AbstractForce.potential or own.stored is not AbstractForce.stored


# --- small motions about the steady state
# ------------------------------------------------------------------------------------------------


def rate_blocks(args: Rest, pose: Pose) -> tuple[Float[Array, "nb 6 6"], list[Coupling]]:
    """C: derivatives of the forces by the rates of small displacements, components in the turning
    frame and the bodies: gyroscopic forces of single bodies, and damping on elements' bodies.
    """
    system, padded = args.system, _RA.with_ground(pose)
    zero = jnp.zeros(6, system.dtype)
    w = jnp.zeros(3, system.dtype)
    if args.spin is not None:
        w = args.spin.rate * args.spin.direction

    def inertial(mass: Scalar, inertia: Mat3, pose: Pose, own: Vec3) -> Float[Array, "6 6"]:
        turning = pose.A.T @ w

        def force(rate: Float[Array, "6"]) -> Float[Array, "6"]:
            omega = turning + own + rate[3:]
            # The frame of displacements turns with the whole, not with parts that turn in it.
            alpha = jnp.cross(turning, rate[3:])
            moment = inertia @ alpha + jnp.cross(rate[3:] + turning, inertia @ omega)
            return jnp.concatenate([2.0 * mass * jnp.cross(w, rate[:3]), moment])

        return jax.jacfwd(force)(zero)

    own = jax.vmap(inertial)(system.mass, system.inertia, pose, args.own_spin)
    couplings = []
    for stack in system.forces:

        def block(element: AbstractForce, at: Pose, moving: Moving) -> Float[Array, "k 6 k 6"]:
            steady = element_twist(args, at, moving)

            def load(rate: Float[Array, "k 6"]) -> Float[Array, "k 6"]:
                twist = Twist(steady.v + rate[:, :3], steady.omega + rate[:, 3:])
                return -jnp.concatenate(element.acting(at, twist, args.t), axis=1)

            return jax.jacfwd(load)(jnp.zeros((len(moving[0]), 6), system.dtype))

        local = jax.tree.map(lambda x, stack=stack: take(x, stack.index), padded)
        blocks = stack.each(block, local, moving_bodies(stack, args))
        couplings.append(Coupling(blocks, stack.bodies))
    return own, couplings
