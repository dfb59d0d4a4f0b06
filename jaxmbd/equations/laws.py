"""Stops, dry friction and contacts in the coordinates of a formulation: gaps, rows, constants.

Laws come in the order of `System.laws`, which is that of `RowOrder`.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..complementarity import RowOrder
from ..formulations.base import AbstractFormulation, Coordinates
from ..model.laws.base import DRY, KINDS, AbstractLaw
from ..model.system import System
from ..xla.indexing import take


def row_order(system: System) -> RowOrder:
    """Which rows belong to which laws."""
    places: dict[str, int] = dict.fromkeys(KINDS, 0)
    for stack in system.laws:
        places[stack.kind] += len(stack) * stack.places
    return RowOrder(*(places[kind] for kind in KINDS))


def gaps(formulation: AbstractFormulation, system: System, q: Coordinates) -> Float[Array, " c"]:
    """Gaps of all places [m] or [rad]; zero for dry friction."""
    poses = jax.vmap(formulation.pose)(formulation.with_ground(q))
    found = [jnp.zeros(0, system.dtype)]
    for stack in system.laws:
        local = jax.tree.map(lambda x, index=stack.index: take(x, index), poses)
        found.append(stack.each(lambda law, pose: law.gaps(pose), local).reshape(-1))
    return jnp.concatenate(found)


def gap_shares(
    formulation: AbstractFormulation, system: System, q: Coordinates
) -> Float[Array, " c"]:
    """Gaps of all places, distances in parts of the system's length."""
    return gaps(formulation, system, q) / gap_sizes(system)


def gap_sizes(system: System) -> Float[Array, " c"]:
    """What gaps of all places are compared with: the system's length [m], or one radian."""
    sizes = [jnp.ones(0, system.dtype)]
    for stack in system.laws:
        of_each = jnp.broadcast_to(stack.law.gap_size(system.length), (len(stack) * stack.places,))
        sizes.append(of_each)
    return jnp.concatenate(sizes)


def held(
    formulation: AbstractFormulation, system: System, before: Coordinates, after: Coordinates
) -> System:
    """The system for a step between two positions: its laws act at the same corners, edges and
    faces all over it.
    """
    if not any(stack.law.holds for stack in system.laws):
        return system
    ends = [jax.vmap(formulation.pose)(formulation.with_ground(q)) for q in (before, after)]
    stacks = []
    for stack in system.laws:
        if stack.law.holds:
            local = [
                jax.tree.map(lambda x, index=stack.index: take(x, index), poses) for poses in ends
            ]
            law = stack.each(lambda law, *poses: law.held(*poses), *local)
            stack = dataclasses.replace(stack, law=law)
        stacks.append(stack)
    return dataclasses.replace(system, laws=tuple(stacks))


def gap_rates(
    formulation: AbstractFormulation, system: System, q: Coordinates, u: Float[Array, "nb d"]
) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """Gaps as `gaps` gives them, and their rates."""
    zero = jnp.zeros((), u.dtype)

    def after(s: Array) -> Array:
        return gaps(formulation, system, jax.vmap(formulation.retract)(q, s * u))

    return jax.jvp(after, (zero,), (jnp.ones_like(zero),))


class LawRows(eqx.Module):
    """Rows W on the velocity coordinates of two bodies each.

    Attributes:
        blocks: (w, 2, d).
        bodies: (w, 2), the ground is nb.
    """

    blocks: Float[Array, "w 2 d"]
    bodies: Int[Array, "w 2"]

    def velocities(self, u: Float[Array, "nb d"]) -> Float[Array, " w"]:
        """W u."""
        u = jnp.concatenate([u, jnp.zeros((1, u.shape[1]), u.dtype)])
        return jnp.sum(self.blocks * take(u, self.bodies), axis=(1, 2))

    def pushes(self, nb: int) -> Float[Array, "w nb d"]:
        """What unit impulses do to the bodies, Wᵀ."""
        rows, _, size = self.blocks.shape
        total = jnp.zeros((rows, nb + 1, size), self.blocks.dtype)
        return total.at[np.arange(rows)[:, None], self.bodies].add(self.blocks)[:, :nb]

    def some(self, rows: Int[Array, " k"]) -> "LawRows":
        """Those of some rows."""
        return LawRows(take(self.blocks, rows), take(self.bodies, rows))


def law_rows(formulation: AbstractFormulation, system: System, q: Coordinates) -> LawRows:
    """Rows of all laws."""
    padded = formulation.with_ground(q)
    zero = jnp.zeros((2, formulation.size), system.dtype)
    blocks, bodies = [jnp.zeros((0, 2, formulation.size), system.dtype)], []
    for stack in system.laws:
        local = jax.tree.map(lambda x, index=stack.index: take(x, index), padded)

        def one(law: AbstractLaw, q: Coordinates) -> Float[Array, "*k 2 d"]:
            pose = jax.vmap(formulation.pose)(q)
            return jax.jacfwd(lambda u: law.rates(pose, jax.vmap(formulation.twist)(q, u)))(zero)

        blocks.append(stack.each(one, local).reshape(-1, 2, formulation.size))
        for pair in stack.bodies:
            bodies += [pair] * (stack.places * stack.rows_of_place)
    return LawRows(jnp.concatenate(blocks), jnp.asarray(np.array(bodies, int).reshape(-1, 2)))


def rates_along(
    formulation: AbstractFormulation,
    system: System,
    frame: Coordinates,
    q: Coordinates,
    u: Float[Array, "nb d"],
) -> Float[Array, " w"]:
    """Velocities of all rows at a position q, in the directions that they have at `frame`."""
    frame, q = formulation.with_ground(frame), formulation.with_ground(q)
    u = jnp.concatenate([u, jnp.zeros((1, u.shape[1]), u.dtype)])
    poses = (jax.vmap(formulation.pose)(x) for x in (frame, q))
    states = (*poses, jax.vmap(formulation.twist)(q, u))
    found = [jnp.zeros(0, system.dtype)]
    for stack in system.laws:
        local = jax.tree.map(lambda x, index=stack.index: take(x, index), states)
        found.append(stack.each(lambda law, x: law.rates_along(*x), local).reshape(-1))
    return jnp.concatenate(found)


def each_place(
    system: System, function: Callable[[AbstractLaw], Array], kind: str | None = None
) -> Float[Array, " c"]:
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
