"""What stops, dry friction and contacts did in a motion, at their places."""

from collections.abc import Mapping

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..model.laws.base import CONTACT, DRY, STOP
from ..model.names import unknown
from ..model.system import System
from .by_rows import part_of

_CALLED = {
    CONTACT: ("contact", "contacts"),
    STOP: ("stop", "stops"),
    DRY: ("dry friction", "laws of dry friction"),
}


class LawMotion(eqx.Module):
    """What a stop, dry friction or a contact did, at its n places.

    All of it is about the one step that ends at each row. With `save_every` > 1 the steps between
    two rows leave no trace here: a force is no mean over the interval between rows, and an impact
    within it may be missed.

    Attributes:
        gap: (T, n) [m] or [rad]; zero for friction.
        force: Mean over that step, impulses included. For a contact (T, n, 3) [N], on body i, along
            the normal first and positive where it pushes. For a stop (T, n) [N] or [N·m], positive
            where it pushes: the lower one towards larger coordinates, the upper one towards smaller
            ones. For dry friction (T, n) [N] or [N·m], along the joint's coordinate: against its
            rate, so negative where the coordinate grows.
        state: 0 open, 1 closed without sliding, 2 sliding, (T, n).
        impact: How long after the start of that step an impact happened, (T, n) [s]; zero where
            there was none.
    """

    gap: Float[Array, "T n"]
    force: Float[Array, "T n *k"]
    state: Int[Array, "T n"]
    impact: Float[Array, "T n"]


def slices(system: System) -> dict[tuple[str, str], tuple[slice, slice]]:
    """By kind and name of a law, its places and its rows among those of all laws."""
    found, place, row = {}, 0, 0
    for stack in system.laws:
        n, w = stack.places, stack.places * stack.rows_of_place
        for name in stack.names:
            found[stack.kind, name] = slice(place, place + n), slice(row, row + w)
            place, row = place + n, row + w
    return found


def law_motion(system: System, stats: Mapping[str, PyTree], name: str, kind: str) -> LawMotion:
    """What a law of a kind did, from the `stats` of a solution.

    Raises:
        ValueError: There is no such law, or it has a stiffness.
    """
    where = slices(system)
    if (kind, name) not in where:
        giving_way = [
            stack for stack in system.forces if getattr(stack.force, "kind", None) == kind
        ]
        if any(name in stack.names for stack in giving_way):
            raise ValueError(
                f"{kind} {name!r} has a stiffness, and is a force: ask element({name!r})"
            )
        names = [n for k, n in where if k == kind]
        raise ValueError(unknown(*_CALLED[kind], name, names))
    places, rows_of_law = where[kind, name]
    force = part_of(stats["law_forces"], np.s_[:, rows_of_law])
    if kind == CONTACT:
        force = force.reshape(*force.shape[:-1], -1, 3)
    keys = "law_gaps", "law_states", "law_impacts"
    gap, state, impact = (part_of(stats[key], np.s_[:, places]) for key in keys)
    return LawMotion(gap, force, state, impact)
