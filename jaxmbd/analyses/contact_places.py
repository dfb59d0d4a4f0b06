"""Where bodies touch, and with which force, in global components: what a view draws."""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from ..formulations import RA
from ..indexing import take
from ..model.laws.base import CONTACT
from ..model.state import State
from ..model.system import System
from ..model.validation import as_jax
from ..rotations.vectors import basis_from_axis
from .compiled import Compiled
from .solution import Solution, _by_rows


class ContactPlaces(eqx.Module):
    """The n places of one contact over a motion, global components.

    Attributes:
        point: On body i, (T, n, 3) [m].
        normal: From body j to body i, (T, n, 3).
        force: On body i, a mean over the step that ends at each row, (T, n, 3) [N].
        state: 0 open, 1 sticking, 2 sliding, (T, n).
        bodies: Indices of i and j; the ground is nb.
    """

    point: Float[Array, "T n 3"]
    normal: Float[Array, "T n 3"]
    force: Float[Array, "T n 3"]
    state: Int[Array, "T n"]
    bodies: tuple[int, int] = eqx.field(static=True)


def contact_places(solution: Solution, system: System | None = None) -> dict[str, ContactPlaces]:
    """Points, normals and forces of all contacts by name; empty where there are none."""
    system = solution._own(system)
    stacks = [stack for stack in system.laws if stack.kind == CONTACT]
    if not stacks:
        return {}
    found = _by_rows(_witnesses, system, solution.state)
    places = {}
    for stack, (basis, point) in zip(stacks, found, strict=True):
        for k, (name, (i, j)) in enumerate(zip(stack.names, stack.bodies, strict=True)):
            motion = solution.contact(name, system)
            local = np.asarray(motion.force)  # along the normal and two tangents
            e1, e2, n = np.moveaxis(np.asarray(basis[:, k]), -2, 0)
            force = local[..., :1] * n + local[..., 1:2] * e1 + local[..., 2:] * e2
            places[name] = ContactPlaces(
                point[:, k],
                as_jax(n, system.dtype),
                as_jax(force, system.dtype),
                motion.state,
                (i, j),
            )
    return places


@Compiled
def _witnesses(system: System, states: State):
    """Tangents and normals as rows, (T, laws, n, 3, 3), and points on body i, (T, laws, n, 3), of
    all contacts, stack by stack.
    """
    stacks = [stack for stack in system.laws if stack.kind == CONTACT]

    def one(state: State):
        pose, found = RA().with_ground(state.pose), []
        for stack in stacks:
            local = jax.tree.map(lambda x, index=stack.index: take(x, index), pose)
            _, normal, on_i, _ = stack.each(lambda law, p: law.pair.witness(p), local)
            found.append((jax.vmap(jax.vmap(basis_from_axis))(normal), on_i))
        return found

    return jax.vmap(one)(states)
