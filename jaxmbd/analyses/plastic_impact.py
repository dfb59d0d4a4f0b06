"""The plastic impact of joints that begin to act on a motion."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..equations.index1 import velocity_jump
from ..formulations import RA
from ..model.compiled import compiled_once
from ..model.state import State
from ..model.system import System
from ..model.validation import Numbers, as_jax
from ..results.energy import energies
from ..results.moment import Moment
from ..rotations.types import Scalar
from .running.checks import needs_state


class Impact(eqx.Module):
    """What joints do that begin to act at an instant.

    Attributes:
        state: With the velocities after it.
        impulses: Of all rows, (nc,), in the order of `System.row_names` [N·s], [N·m·s]; of minimum
            norm where rows repeat.
        energy: What kinetic energy the impact takes, () [J].
        undetermined: Whether the pose is so close to a singular one that `impulses` leaves out a
            part.
    """

    state: State
    impulses: Float[Array, " nc"]
    energy: Scalar
    undetermined: Bool[Array, ""]


@needs_state
def plastic_impact(system: System, state: State, t: Numbers = 0.0) -> Impact:
    """Velocities after all joints and drivers of a mechanism begin to act at once, without rebound:
    M Δu + Rᵀ P = 0 and R u = ν; a pure function that can be differentiated.

    Where a run goes on with a joint more, the motion has to stop along it at once:
    `simulate(locked, plastic_impact(locked, sol.last_state).state, ...)`. Assembly only looks for
    velocities nearby; its weights are not exactly those of an impact, nor differentiated by masses.

    Args:
        system: The mechanism with the joint.
        state: Poses that satisfy the constraints, and the velocities before.
        t: Time, for drivers [s].

    Returns:
        The velocities after, impulses, and the loss of kinetic energy; NaN where the constraints
        leave them undetermined.

    Raises:
        ValueError: There are rigid stops, dry friction or contacts.
    """
    system.refuse_laws("plastic_impact", "a run with mbd.Moreau has impacts of its own")
    return _impact(system, system.with_turns(state), as_jax(t, system.dtype))


@compiled_once
def _impact(system: System, state: State, t: Scalar) -> Impact:
    system = system.at_state(state)
    q, u = RA().from_state(state)
    change, impulses, undetermined = velocity_jump(RA(), system, q, u, t)
    after = RA().to_state(q, u + change)
    new = State(after.r, after.A, after.v, after.omega, state.angles, state.element_states)
    both = jax.tree.map(lambda *x: jnp.stack(x), state, new)
    kinetic, _ = energies(system, both, Moment(jnp.stack([t, t]), None))
    return Impact(new, system.to_natural(impulses), kinetic[0] - kinetic[1], undetermined)
