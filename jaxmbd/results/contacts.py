"""Where contacts act in a motion and with which force: for questions, pictures and tables."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ..formulations import RA
from ..model.compiled import Compiled
from ..model.forces import ForceStack
from ..model.laws.base import CONTACT
from ..model.laws.compliant_contact import CompliantContact
from ..model.names import ContactsByName
from ..model.state import Pose, State, Twist
from ..model.system import System
from ..rotations.vectors import basis_from_axis
from ..xla.indexing import take
from .by_rows import by_rows
from .laws import slices


class ContactPlaces(eqx.Module):
    """The n places of a contact in a motion, global components.

    Attributes:
        points: On the surface of body i, (T, n, 3) [m]; nearest to body j where it is apart.
        normals: Out of body j, (T, n, 3).
        forces: On body i, means over the step that ends at each row, (T, n, 3) [N]; those at the
            row of a contact with stiffness.
        state: 0 open, 1 closed without sliding, 2 sliding, (T, n); of a contact with stiffness
            sliding faster than its slip_speed.
    """

    points: Float[Array, "T n 3"]
    normals: Float[Array, "T n 3"]
    forces: Float[Array, "T n 3"]
    state: Int[Array, "T n"]


@Compiled
def witnesses(system: System, states: State, forces: Float[Array, "T w"]) -> list[Any]:
    """Points, normals and forces of every law that is a contact, in their order."""
    contacts = [stack for stack in system.laws if stack.kind == CONTACT]

    def one(state: State, force: Float[Array, " w"]):
        poses = Pose(
            jnp.concatenate([state.r, jnp.zeros((1, 3), state.r.dtype)]),
            jnp.concatenate([state.A, jnp.eye(3, dtype=state.A.dtype)[None]]),
        )
        found, row = [], 0
        for stack in contacts:
            local = jax.tree.map(lambda x, index=stack.index: take(x, index), poses)
            _, normals, points, _ = stack.each(lambda law, pose: law.pair.witness(pose), local)
            shape = (len(stack), stack.places, 3)
            own = force[row : row + 3 * len(stack) * stack.places].reshape(shape)
            row += own.size

            def total(n: Float[Array, "3"], f: Float[Array, "3"]) -> Float[Array, "3"]:
                e1, e2, n = basis_from_axis(n)
                return f[0] * n + f[1] * e1 + f[2] * e2

            found.append((points, normals, jax.vmap(jax.vmap(total))(normals, own)))
        return found

    return jax.vmap(one)(states, forces)


def _soft_contacts(system: System) -> list[ForceStack]:
    """Contacts with stiffness."""
    return [stack for stack in system.forces if isinstance(stack.force, CompliantContact)]


@Compiled
def _soft_places(system: System, states: State) -> list[Any]:
    """Points, normals, forces and states of contacts with stiffness, in their order."""

    def one(state: State):
        pose = RA().with_ground(state.pose)
        zero = jnp.zeros((1, 3), state.r.dtype)
        twist = Twist(jnp.concatenate([state.v, zero]), jnp.concatenate([state.omega, zero]))
        found = []
        for stack in _soft_contacts(system.at_state(state)):
            local = jax.tree.map(lambda x, index=stack.index: take(x, index), (pose, twist))
            found.append(stack.each(lambda contact, *x: contact.places(*x), *local))
        return found

    return jax.vmap(one)(states)


def contact_places(
    system: System, states: State, stats: Mapping[str, PyTree]
) -> dict[str, ContactPlaces]:
    """`ContactPlaces` of all contacts by name."""
    soft = _soft_contacts(system)
    out = ContactsByName()
    if soft:
        for stack, parts in zip(soft, by_rows(_soft_places, system, states), strict=True):
            for k, name in enumerate(stack.names):
                out[name] = ContactPlaces(*(x[:, k] for x in parts))
    stacks = [stack for stack in system.laws if stack.kind == CONTACT]
    if not stacks or "law_forces" not in stats:
        return out
    found = by_rows(witnesses, system, states, stats["law_forces"])
    where = slices(system)
    for stack, (points, normals, forces) in zip(stacks, found, strict=True):
        for k, name in enumerate(stack.names):
            state = jnp.asarray(stats["law_states"][:, where[CONTACT, name][0]])
            out[name] = ContactPlaces(points[:, k], normals[:, k], forces[:, k], state)
    return out
