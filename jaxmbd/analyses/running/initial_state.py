"""The start of a run from a state, and checks of every step, for fixed and for chosen steps."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...equations.motion import applied
from ...formulations import AbstractFormulation
from ...integrators import Motion
from ...model.compiled import computed_now
from ...model.state import Pose, State
from ...model.system import System
from ...model.validation import is_concrete
from ...outcomes import RESULTS
from ...results.saved_rows import Row, make_row
from ...rotations.types import Scalar
from ..assembly import AssemblyReport, assemble
from .checks import valid_numbers
from .start_checks import (
    refuse_open,
    refuse_penetration,
    refuse_redundant_drivers,
    warn_of_change_point,
    warn_of_changes,
    warn_of_shared_friction,
    warn_of_yielding_axes,
)

# What a step may change of the turn [rad] and of the way of the next one: so many turns, and
# lengths of the mechanism.
_TURNED, _LENGTHS = 100.0 * 2.0 * math.pi, 1e9


class InitialState(eqx.Module):
    """The state from which an analysis starts.

    Attributes:
        given: As described.
        state: Assembled.
        report: What assembly changed.
    """

    given: State
    state: State
    report: AssemblyReport


def assembled(
    system: System, state: State, t: Scalar, *, metric: str | None = None, velocities: bool = True
) -> tuple[State, AssemblyReport]:
    """The assembled state and its report. Raises for an open mechanism if values are concrete;
    otherwise the result code says so.

    Warns where assembly changes what was described, of velocities only where the analysis uses
    them.
    """
    given = state
    state, report = assemble(system, state, t=t, metric=metric, velocities=velocities)
    if is_concrete(report):
        refuse_open(system, report, t)
        if state is not given:
            # Masses weigh velocities: in a gradient by them the pose is known and the velocities
            # are not.
            warn_of_changes(
                system, given, state, report, velocities=velocities and is_concrete((given, state))
            )
        if is_concrete((system, state)):
            with computed_now():
                refuse_redundant_drivers(system, state, t)
                warn_of_change_point(system, given, state, t)
                refuse_penetration(system, state)
                warn_of_shared_friction(system, state, t)
                warn_of_yielding_axes(system, state, t)
    return state, report


def first_row(
    system: System,
    start: InitialState,
    formulation: AbstractFormulation,
    motion: Motion,
    t0: Scalar,
    h: Scalar | None = None,
) -> tuple[Row, RESULTS]:
    """The row of the motion at the first instant, and whether that motion could be found."""
    q, u, a, lam = motion.q, motion.u, motion.a, motion.lam
    finite = jnp.all(jnp.isfinite(a)) & jnp.all(jnp.isfinite(lam))
    loads = jnp.stack([jnp.all(jnp.isfinite(x)) for x in applied(formulation, system, q, u, t0)])
    why = RESULTS.where(jnp.all(loads), RESULTS.singular, RESULTS.non_finite)
    result = RESULTS.where(finite, RESULTS.successful, why)
    result = outcome_of_assembly(start.report, result)
    valid = valid_numbers(system, start.given, t0, h)
    result = RESULTS.where(valid, result, RESULTS.invalid_input)
    ok = result == RESULTS.successful
    return make_row(formulation, system, q, u, a, lam, jnp.zeros((), int), ok), result


def outcome_of_assembly(report: AssemblyReport, result: RESULTS) -> RESULTS:
    """`result`, unless the assembly failed."""
    result = RESULTS.where(report.on_branch, result, RESULTS.wrong_branch)
    return RESULTS.where(report.closed, result, RESULTS.assembly_failed)


def angles_ahead(
    system: System,
    formulation: AbstractFormulation,
    motion: Motion,
    angles: Float[Array, " w"],
    dt: Scalar,
) -> Float[Array, " w"]:
    """Angles extrapolated over a step of dt: an angle is found within half a turn of that value,
    whatever its rate.
    """
    if not angles.size:
        return angles
    padded = formulation.with_ground(motion.q)
    u = jnp.concatenate([motion.u, jnp.zeros((1, motion.u.shape[1]), motion.u.dtype)])
    rates = system.angle_rates(
        jax.vmap(formulation.pose)(padded), jax.vmap(formulation.twist)(padded, u)
    )
    return angles + dt * rates


def blown_up(
    system: System, formulation: AbstractFormulation, before: Motion, after: Motion, h: Scalar
) -> Bool[Array, ""]:
    """Whether velocities changed in a step of h by more than any sensible motion.

    A constant rate is no reason, however many turns it makes in a step: methods on rotations follow
    it exactly. Where the rate changes by a turn per step, the turn that the step made is uncertain
    by half a turn, and `warn_of_large_rotations` speaks long before. The bound is a hundred times
    that, because sensible runs do change rates by some turns per step: an impact spins a small ball
    up at once, and the velocities that an energy-momentum method carries alternate about the true
    ones, for a fast top by three turns per step.
    """
    old, new = (jax.vmap(formulation.twist)(x.q, x.u) for x in (before, after))
    turned = h**2 * jnp.max(jnp.sum((new.omega - old.omega) ** 2, axis=1))
    moved = h**2 * jnp.max(jnp.sum((new.v - old.v) ** 2, axis=1))
    return (turned > _TURNED**2) | (moved > (_LENGTHS * system.length) ** 2)


def checked_motion(system: System, poses: Pose, t: Scalar, result: RESULTS) -> RESULTS:
    """`result`, unless a driver took the wrong root; `poses` have nb + 1 rows."""
    wrong = (result == RESULTS.successful) & ~system.at(t).on_branch(poses)
    return RESULTS.where(wrong, RESULTS.wrong_branch, result)
