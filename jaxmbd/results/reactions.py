"""Forces and moments of joints in a motion, from its multipliers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..equations.min_norm_multipliers import min_norm_multipliers
from ..equations.pressing import pressed, pressing_on_j
from ..equations.rows import rows
from ..formulations import RA
from ..model.compiled import Compiled
from ..model.names import ByName
from ..model.state import State
from ..model.system import System
from ..xla.batch_last import batched_in_lanes
from .by_rows import by_rows, part_of
from .moment import Moment


class Reaction(eqx.Module):
    """What a joint does to its body j, at the joint's point on that body, global components; body
    i gets the opposite.

    The moment is taken about that point: the center of gear, pulley, wheel or rolling body j for
    gears, belts and rolling pairs, where it contains the lever arm of the tooth or contact force;
    the center of the pinion, the point on the axis of a screw, and the mass center of body j for a
    joint or driver without a point.

    Attributes:
        force: (T, 3) [N].
        moment: About the joint's point on body j, (T, 3) [N·m].
    """

    force: Float[Array, "T 3"]
    moment: Float[Array, "T 3"]


def reactions(
    system: System, states: State, multipliers: Float[Array, "T nc"], moments: Moment
) -> dict[str, Reaction]:
    """See `Solution.reactions`."""
    found = by_rows(_wrenches, system, states, multipliers, moments)
    names = [c.name for c in system.connections]
    return ByName((name, Reaction(*pair)) for name, pair in zip(names, found, strict=True))


def normal_forces(
    system: System, multipliers: Float[Array, "T nc"]
) -> dict[str, Float[Array, " T"]]:
    """See `Solution.normal_forces`."""
    return ByName(
        (c.name, -part_of(multipliers, np.s_[:, c.rows[c.labels.index(label)]]))
        for c in system.connections
        for label in c.element.normal_rows
        if label in c.labels
    )


@Compiled
def least_norm(
    system: System, states: State, multipliers: Float[Array, "T nc"], moments: Moment
) -> Float[Array, "T nc"]:
    """The multipliers of least norm that exert the same forces at all instants."""

    def of_pose(system: System, state: State, lam: Float[Array, " nc"], moment: Moment):
        now = moment.of(system, state).at(moment.t)
        least = min_norm_multipliers(now, state.pose, system.to_stacked(lam))
        return system.to_natural(pressed(now, state.pose, least))

    def one(*instant):
        return batched_in_lanes(of_pose, system, *instant)

    return jax.vmap(one)(states, multipliers, moments)


@Compiled
def _wrenches(
    system: System, states: State, multipliers: Float[Array, "T nc"], moments: Moment
) -> list[tuple[Float[Array, "T 3"], Float[Array, "T 3"]]]:
    """Forces and moments on body j at its point, of all connections in their order."""

    def one(state: State, lam: Float[Array, " nc"], moment: Moment) -> Float[Array, "nc 6"]:
        now = moment.of(system, state).at(moment.t)
        blocks, lam = rows(RA(), now, state.pose), system.to_stacked(lam)
        on_j = -blocks[:, 1] * lam[:, None]  # (nc, 6)
        if system.presses:
            on_j = on_j + pressing_on_j(now, state.pose, jnp.abs(lam))
        return system.to_natural(on_j.T).T

    # (T, nc, 6): force, body-frame torque about the center
    on_j = jax.vmap(one)(states, multipliers, moments)
    found = []
    for c in system.connections:
        total = jnp.sum(on_j[:, np.array(c.rows)], axis=1)
        force, torque = total[:, :3], total[:, 3:]
        if c.j < system.nb:
            A = states.A[:, c.j]
            arm, moment = A @ c.s_j_bar, jnp.einsum("tij,tj->ti", A, torque)
        else:
            arm, moment = jnp.broadcast_to(c.s_j_bar, force.shape), torque
        found.append((force, moment - jnp.cross(arm, force)))
    return found
