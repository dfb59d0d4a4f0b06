"""How far constraints are from being met in a motion."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..equations.rows import phi, row_bodies, rows, velocity_right_side
from ..formulations import RA
from ..linalg.saddle import apply_rows
from ..model.compiled import Compiled
from ..model.state import State
from ..model.system import System
from .moment import Moment


class Violation(eqx.Module):
    """Constraint violation, (T, nc) each, in the order of `System.row_names`.

    Attributes:
        position: Φ [m, or - for directions].
        velocity: Φ_q u - ν, per second.
    """

    position: Float[Array, "T nc"]
    velocity: Float[Array, "T nc"]


@Compiled
def violations(
    system: System, states: State, moments: Moment
) -> tuple[Float[Array, "T nc"], Float[Array, "T nc"]]:
    """Violations at position and velocity level at all instants."""

    def one(state: State, moment: Moment):
        jet_system, f_dot, _ = moment.of(system, state).jet(moment.t)
        u = jnp.concatenate([state.v, state.omega], axis=1)
        rate = apply_rows(rows(RA(), jet_system, state.pose), u, row_bodies(RA(), system))
        nu = velocity_right_side(RA(), jet_system, f_dot, state.pose)
        gaps = system.to_natural(phi(RA(), jet_system, state.pose))
        return gaps, system.to_natural(rate - nu)

    return jax.vmap(one)(states, moments)
