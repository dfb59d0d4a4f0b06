"""Stops, dry friction and contacts in the coordinates of a formulation: gaps, rows, constants.

Laws come in the order of `System.laws`: contacts, then stops, then dry friction. A contact has
three rows, the others one.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, Coordinates
from ..indexing import take
from ..linalg.saddle import Index
from ..model.laws import LawStack
from ..model.laws.base import CONTACT, DRY, STOP
from ..model.system import System


def places(system: System, kind: str) -> int:
    """How many places laws of a kind act at."""
    return sum(len(stack) * stack.places for stack in system.laws if stack.kind == kind)


def _width(stack: LawStack) -> int:
    """Rows of one place."""
    return 3 if stack.kind == CONTACT else 1


def gaps(formulation: AbstractFormulation, system: System, q: Coordinates) -> Float[Array, " c"]:
    """Gaps of all places [m] or [rad]; zero for dry friction."""
    poses = jax.vmap(formulation.pose)(formulation.with_ground(q))
    found = [jnp.zeros(0, system.dtype)]
    for stack in system.laws:
        local = jax.tree.map(lambda x, index=stack.index: take(x, index), poses)
        found.append(stack.each(lambda law, pose: law.gaps(pose), local).reshape(-1))
    return jnp.concatenate(found)


def law_rows(
    formulation: AbstractFormulation, system: System, q: Coordinates
) -> tuple[Float[Array, "w 2 d"], Index]:
    """Rows W of all laws on the velocity coordinates of their two bodies, and these bodies."""
    padded = formulation.with_ground(q)
    zero = jnp.zeros((2, formulation.size), system.dtype)
    blocks, bodies = [jnp.zeros((0, 2, formulation.size), system.dtype)], []
    for stack in system.laws:
        local = jax.tree.map(lambda x, index=stack.index: take(x, index), padded)

        def one(law, q):
            pose = jax.vmap(formulation.pose)(q)
            return jax.jacfwd(lambda u: law.rates(pose, jax.vmap(formulation.twist)(q, u)))(zero)

        blocks.append(stack.each(one, local).reshape(-1, 2, formulation.size))
        for pair in stack.bodies:
            bodies += [pair] * (stack.places * _width(stack))
    return jnp.concatenate(blocks), tuple(bodies)


def normal_rows(system: System) -> np.ndarray:
    """The row of every place that is the rate of its gap, (c,)."""
    n = places(system, CONTACT)
    rest = places(system, STOP) + places(system, DRY)
    return np.concatenate([3 * np.arange(n), 3 * n + np.arange(rest)]).astype(int)


def each_place(system: System, function, kind: str | None = None) -> Float[Array, " c"]:
    """`function(law)`, one number or one per place, for all places of a kind, or of all kinds."""
    found = [jnp.zeros(0, system.dtype)]
    for stack in system.laws:
        if kind in (None, stack.kind):
            value = stack.each(
                lambda law, _: jnp.broadcast_to(function(law), (law.places,)), stack.index
            )
            found.append(value.reshape(-1).astype(system.dtype))
    return jnp.concatenate(found)


def joint_forces(
    system: System, rows: Float[Array, "m k d"], lam: Float[Array, "m *n"]
) -> Float[Array, "dry 3 *n"]:
    """The forces of the joints that bound dry friction, global, from their multipliers; zero where
    no joint does.

    The first three velocity coordinates of a body are the velocity of its mass center.
    """
    found = [jnp.zeros((0, 3, *lam.shape[1:]), rows.dtype)]
    for stack in system.laws:
        if stack.kind != DRY:
            continue
        for pair, joint in zip(stack.bodies, stack.joints, strict=True):
            stacked = np.array([system.order[row] for row in joint], int)
            slot = 1 if pair[1] < system.nb else 0
            force = jnp.tensordot(rows[stacked, slot, :3].T, lam[stacked], 1)
            found.append(force[None])
    return jnp.concatenate(found)
