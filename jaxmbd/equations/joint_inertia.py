"""Inertia of joint coordinates in the coordinates of a formulation: a term of the balance, and
blocks of the matrices that couple two bodies through their accelerations.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, BodyMotion, Coordinates
from ..linalg import Coupling
from ..linalg.saddle import with_identity
from ..linalg.small_matrices import times_last
from ..model.forces.inertias import AbstractInertia
from ..model.system import System
from ..rotations.types import Scalar
from ..xla.indexing import take

Load = Callable[
    [AbstractInertia, Coordinates, Float[Array, "2 d"], Float[Array, "2 d"]],
    Float[Array, "2 d"],
]


def _resistance(formulation: AbstractFormulation) -> Load:
    """The generalized forces that an element takes, (2, d), from coordinates of its two bodies."""

    def load(
        element: AbstractInertia,
        q: Coordinates,
        u: Float[Array, "2 d"],
        a: Float[Array, "2 d"],
    ) -> Float[Array, "2 d"]:
        pose = jax.vmap(formulation.pose)(q)
        twist = jax.vmap(formulation.twist)(q, u)
        force, torque = element.resistance(
            pose, twist, *jax.vmap(formulation.physical_accelerations)(q, u, a)
        )
        return jax.vmap(formulation.generalized)(q, force, torque)

    return load


def _padded(x: Float[Array, "nb d"]) -> Float[Array, "nb+1 d"]:
    return jnp.concatenate([x, jnp.zeros((1, x.shape[1]), x.dtype)])


def joint_inertia(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    a: Float[Array, "nb d"],
) -> Float[Array, "nb d"]:
    """What the inertia of joints adds to the balance of all bodies."""
    load = _resistance(formulation)
    states = (formulation.with_ground(q), _padded(u), _padded(a))
    total = jnp.zeros_like(states[1])
    for stack in system.inertias:
        local = jax.tree.map(lambda x, index=stack.index: take(x, index), states)
        total = total.at[stack.index].add(stack.each(load, *local))
    return total[: system.nb]


def joint_inertia_blocks(
    formulation: AbstractFormulation,
    system: System,
    motion: BodyMotion,
    velocity: Scalar,
    position: Scalar,
    tangent: Float[Array, "nb s s"] | None = None,
) -> list[Coupling]:
    """Derivatives of that by accelerations which velocities follow by `velocity` and coordinates
    by `position`, a turn by `tangent` included; with both zero the inertia itself.
    """
    if not system.inertias:
        return []
    load = _resistance(formulation)
    turns = None if tangent is None else with_identity(tangent)
    q, u, a = motion
    states = (formulation.with_ground(q), _padded(u), _padded(a), turns)

    def block(
        element: AbstractInertia,
        q: Coordinates,
        u: Float[Array, "2 d"],
        a: Float[Array, "2 d"],
        T: Float[Array, "2 s s"] | None,
    ) -> Float[Array, "2 d 2 d"]:
        def moved(delta: Float[Array, "2 d"]) -> Float[Array, "2 d"]:
            turned = delta if T is None else times_last(T, delta)
            q_new = jax.vmap(formulation.retract)(q, position * turned)
            return load(element, q_new, u + velocity * delta, a + delta)

        return jax.jacfwd(moved)(jnp.zeros_like(u))

    couplings = []
    for stack in system.inertias:
        local = jax.tree.map(lambda x, index=stack.index: take(x, index), states)
        couplings.append(Coupling(stack.each(block, *local), stack.bodies))
    return couplings
