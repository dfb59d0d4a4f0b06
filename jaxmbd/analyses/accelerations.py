"""The equations of motion as an ordinary differential equation, for integrators of other
libraries.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..equations.index1 import judged_accelerations
from ..equations.pressing import pressed
from ..formulations import RA
from ..model.compiled import compiled_once
from ..model.state import State, Twist
from ..model.system import System
from ..model.validation import Numbers, as_jax
from ..rotations import so3
from ..rotations.types import Scalar
from .running.checks import needs_state


class Accelerations(eqx.Module):
    """Accelerations of all bodies at a state, with the multipliers.

    Attributes:
        a: r̈ of the mass centers, (nb, 3) [m/s²], global.
        alpha: Rates of omega, (nb, 3) [rad/s²], body frame.
        lam: Multipliers, (nc,), in the order of `System.row_names`; of minimum norm where rows
            repeat.
        undetermined: Whether the pose is so close to a singular one that `lam` leaves out a part of
            the forces.
    """

    a: Float[Array, "nb 3"]
    alpha: Float[Array, "nb 3"]
    lam: Float[Array, " nc"]
    undetermined: Bool[Array, ""]


@needs_state
def accelerations(
    system: System, state: State, t: Numbers = 0.0, *, rate: Numbers | None = None
) -> Accelerations:
    """Solve the index-1 equations of motion at a state; a pure function.

    Args:
        system: The mechanism.
        state: Poses and twists that satisfy the constraints; it is not assembled.
        t: Time [s].
        rate: α = β of Baumgarte's feedback [1/s], Φ̈ = -2α Φ̇ - β² Φ; without it Φ̈ = 0.

    Returns:
        Accelerations and multipliers; NaN where the constraints leave them undetermined.

    Raises:
        ValueError: There are stops, dry friction or contacts.
    """
    system.refuse_laws("accelerations", "read `Solution.a` of a run with mbd.Moreau")
    # A number of Python's would be a constant of the program.
    rate = None if rate is None else as_jax(rate, system.dtype)
    state = system.with_turns(state)
    return _accelerations(system, state, as_jax(t, system.dtype), rate)


@compiled_once
def _accelerations(system: System, state: State, t: Scalar, rate: Scalar | None) -> Accelerations:
    system = system.at_state(state)
    q, u = RA().from_state(state)
    feedback = None if rate is None else (rate, rate)
    a, lam, undetermined = judged_accelerations(RA(), system, q, u, t, feedback=feedback)
    lam = pressed(system.at(t), state.pose, lam)
    return Accelerations(a[:, :3], a[:, 3:], system.to_natural(lam), undetermined)


def state_rate(t: Numbers, state: State, system: System, *, rate: Numbers | None = None) -> State:
    """The time derivative of a state, f(t, y, args) as diffrax and others take it.

    Its numbers are (ṙ, Ȧ = A skew(ω̄), r̈, ω̄̇). A rotation matrix that a foreign integrator adds
    up leaves SO(3) by the integrator's error, and constraints drift unless `rate` feeds them back.

    Args:
        t: Time [s].
        state: As in `accelerations`.
        system: The mechanism.
        rate: As in `accelerations` [1/s].
    """
    acc = accelerations(system, state, t, rate=rate)
    rates, of_elements = None, None
    ground = jnp.zeros((1, 3), system.dtype)
    padded = Twist(jnp.concatenate([state.v, ground]), jnp.concatenate([state.omega, ground]))
    if state.angles is not None:
        rates = system.angle_rates(RA().with_ground(state.pose), padded)
    if state.element_states is not None:
        held = system.at_state(state)
        of_elements = held.element_state_rates(
            RA().with_ground(state.pose), padded, as_jax(t, system.dtype)
        )
    turning = state.A @ jax.vmap(so3.skew)(state.omega)
    return State(state.v, turning, acc.a, acc.alpha, rates, of_elements)
