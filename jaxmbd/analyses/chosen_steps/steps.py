"""One step of a run whose steps are chosen: its motion, its error, and the size of the next."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...formulations import AbstractFormulation
from ...integrators import AbstractIntegrator, Motion
from ...model.system import System
from ...outcomes import RESULTS
from ...results.saved_rows import Row, make_row
from ...rotations.types import Scalar
from ..events.acting import Held, coasted
from ..events.search import ACTING, Search
from ..running.initial_state import angles_ahead, checked_motion
from ..running.one_step import FixedSteps, holding
from ..running.schedule import Schedule
from .path import RunInputs

_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 2.0  # BDF2 is stable for ratios of steps below 1 + √2


class Run(eqx.Module):
    """What stays as it is over a run.

    Attributes:
        system: The mechanism.
        formulation: Coordinates.
        integrator: The step method.
        tolerance: On the error of a step.
        t0: Initial time [s].
        t_end: The last time [s].
        schedule: The inputs, or None.
    """

    system: System
    formulation: AbstractFormulation
    integrator: AbstractIntegrator
    tolerance: Scalar
    t0: Scalar
    t_end: Scalar
    schedule: Schedule | None

    @property
    def order(self) -> int:
        """The power of the step that errors grow with, less one."""
        return self.integrator.error_order or 1

    def of_size(self, h: Scalar) -> FixedSteps:
        """Steps of one size."""
        return FixedSteps(self.t0, h, self.formulation, self.integrator)


class ActingEvents(eqx.Module):
    """What a run knows whose events act.

    Attributes:
        held: RunInputs that events have set.
        values: Of every event, less the value that is passed, at the last knot, (E,).
        quiet: Events that have acted, whose values have stayed at zero since, (E,).
        fired: Those that have acted at this very instant, (E,).
        largest: The largest magnitude of each value so far, (E,).
        search: Within the step at hand.
        span: Length of the step in which the search is [s].
        told: The event that the last turn reached, -1 for none.
        counts: How many of each, (E,).
        through: Bounces of each after which the value was beyond zero all the same, (E,).
    """

    held: Held
    values: Float[Array, " E"]
    quiet: Bool[Array, " E"]
    fired: Bool[Array, " E"]
    largest: Float[Array, " E"]
    search: Search
    span: Scalar
    told: Int[Array, ""]
    counts: Int[Array, " E"]
    through: Int[Array, " E"]

    @property
    def due(self) -> Bool[Array, ""]:
        """Whether an event has been reached that has not acted yet."""
        return self.search.stage == ACTING


class Progress(eqx.Module):
    """State of a run: the last good motion and row, the next step size, and the numbers of accepted
    and rejected steps.
    """

    motion: Motion
    row: Row
    t: Scalar
    h: Scalar
    accepted: Int[Array, ""]
    rejected: Int[Array, ""]
    result: RESULTS
    acts: ActingEvents | None = None


class Tried(eqx.Module):
    """The end of a step, whether it is taken or not.

    Attributes:
        motion: There.
        row: Of it.
        error: Relative to the tolerance.
        converged: Whether the equations of the step were solved.
        outcome: What checks say of the motion.
    """

    motion: Motion
    row: Row
    error: Scalar
    converged: Bool[Array, ""]
    outcome: RESULTS

    @property
    def solved(self) -> Bool[Array, ""]:
        """Whether the motion is one of the mechanism, whatever its error."""
        return self.converged & (self.outcome == RESULTS.successful)

    @property
    def good(self) -> Bool[Array, ""]:
        """Whether the step may be taken."""
        return self.solved & (self.error <= 1.0)


def proposed(run: Run, p: Progress) -> Scalar:
    """Length of the next step: the rest of the span in one, or in two of a size."""
    left = run.t_end - p.t
    return jnp.where(left <= 1.01 * p.h, left, jnp.where(left < 2.0 * p.h, 0.5 * left, p.h))


def tried(
    run: Run,
    p: Progress,
    times: tuple[Scalar, Scalar],
    inputs: RunInputs,
    least: Scalar | None = None,
) -> Tried:
    """A step from the last good motion.

    Args:
        run: What stays.
        p: Before it.
        times: Its end and its length [s].
        inputs: During it.
        least: What is shorter is no step, but Taylor's series [s]; None where that does not occur.
    """
    (t, h), (formulation, integrator) = times, (run.formulation, run.integrator)
    now = run.system.wound(angles_ahead(run.system, formulation, p.motion, p.row.angles, h))
    given = inputs.during(t, h)
    if given is not None:
        now = now.given(given, t)
    length = h if least is None else jnp.maximum(h, least)
    going = p.result == RESULTS.successful
    new, info = integrator.taken(formulation, now, p.motion, t, length, going)
    position, velocity = integrator.error(p.motion, new, length)
    if least is not None:
        by_series = coasted(now, run.of_size(length), p.motion, t - h, h)
        new = jax.tree.map(lambda a, b: jnp.where(h < least, a, b), by_series, new)
    row = make_row(
        formulation,
        holding(now, new),
        *(new.q, new.u, new.a, new.lam, info.iterations, info.converged),
    )
    size = jnp.maximum(_size(run.system, position), _size(run.system, velocity) / rate(run, row))
    outcome = RESULTS.where(info.singular, RESULTS.singular, RESULTS.successful)
    poses = jax.vmap(formulation.pose)(formulation.with_ground(new.q))
    outcome = checked_motion(now, poses, t, outcome)
    return Tried(new, row, size / run.tolerance, info.converged, outcome)


def growth(run: Run, found: Tried) -> Scalar:
    """Ratio of the next step to this one, from its error relative to the tolerance."""
    # NaN counts as a large error.
    error = found.error
    factor = jnp.where(error > 0.0, _SAFETY * error ** (-1.0 / (run.order + 1)), _GROW)
    known = found.converged & jnp.isfinite(error)
    factor = jnp.where(known, jnp.clip(factor, _SHRINK, _GROW), _SHRINK)
    return jnp.where(found.outcome == RESULTS.successful, factor, _SHRINK)


def first_length(run: Run, row: Row, t: Scalar) -> Scalar:
    """Length of the first step from an instant, from velocities and accelerations there."""
    by_rate = run.tolerance ** (1.0 / (run.order + 1)) / rate(run, row)
    return jax.lax.stop_gradient(jnp.minimum(0.1 * (run.t_end - t), by_rate))


def rate(run: Run, row: Row) -> Scalar:
    """Rate of change of the motion [1/s]: velocities, and square roots of accelerations, relative
    to the system's length.
    """
    v = _larger(run.system, row.twist.v, row.twist.omega)
    a = _larger(run.system, row.a, row.alpha)
    return jax.lax.stop_gradient(v + jnp.sqrt(a) + jnp.finfo(v.dtype).tiny ** 0.25)


def _size(system: System, gap: Float[Array, "nb d"]) -> Scalar:
    """Largest component of an error, with lengths relative to the system's."""
    return _larger(system, gap[:, :3], gap[:, 3:])


def _larger(system: System, along: Float[Array, "nb 3"], around: Float[Array, "nb k"]) -> Scalar:
    return jnp.maximum(jnp.max(jnp.abs(along)) / system.length, jnp.max(jnp.abs(around)))
