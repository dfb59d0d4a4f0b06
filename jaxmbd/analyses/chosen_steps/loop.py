"""Dynamics with steps chosen for a tolerance, and the motion at any requested times."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..equations.index1 import dynamic_accelerations, judged_accelerations
from ..formulations import RA, AbstractFormulation
from ..integrators import AbstractIntegrator, Motion
from ..model.compiled import Compiled, runs_now
from ..model.events import Event, named_once
from ..model.motions import is_motion
from ..model.state import State
from ..model.system import System
from ..model.validation import Numbers, is_concrete
from ..outcomes import RESULTS
from ..results.columns import refuse_unknown
from ..results.interpolation import between
from ..results.saved_rows import Row, make_row, make_solution
from ..results.solution import Solution
from ..rotations.types import Scalar
from ..xla.checkpoint import checkpointed, saved
from ..xla.cpu_fusion import one_kernel
from .events.between_steps import Curve, with_events
from .running.checks import check_run, chosen_formulation, chosen_integrator, instants
from .running.failure import raise_failure
from .running.initial_state import InitialState, angles_ahead, assembled, checked_motion, first_row
from .running.one_step import holding
from .running.request import RunRequest
from .running.schedule import Inputs, Schedule, as_mapping, schedule_of
from .running.warnings import warn_of_grazing, warn_of_run

_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 2.0  # BDF2 is stable for ratios of steps below 1 + √2


class _Progress(eqx.Module):
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


class Path(eqx.Module):
    """The ends of all steps of a run: rejected ones repeat the one before.

    Attributes:
        knots: Their times, (K,) [s].
        rows: The motion there, with a leading axis.
        reached: The time that the run reached [s].
        started: Whether it began at all.
    """

    knots: Float[Array, " K"]
    rows: Row
    reached: Scalar
    started: Bool[Array, ""]


class Adaptive(eqx.Module):
    """Steps chosen for a tolerance: `simulate(..., step=mbd.Adaptive(1e-6), save_at=ts)`.

    Steps are free of the times of the rows: positions and velocities between two steps are
    interpolated to sixth order. Accelerations and multipliers of every row solve the equations of
    motion at its positions and velocities, so they are as accurate as the motion, whatever the
    method. Derivatives hold the chosen steps fixed.

    A compiled run reserves memory for `max_steps` rows, and in a batch every element takes that
    many turns, most of
    them idle: choose it near what is needed there.

    Attributes:
        tolerance: On the estimated error that one step adds: of positions relative to the system's
            length, of rotations [rad], and of velocities relative to those lengths over the
            motion's own time.
        h0: First step [s]; by default from the accelerations at the start.
        max_steps: Largest number of steps, refused ones included.
    """

    tolerance: Any = 1e-6
    h0: Any = None
    max_steps: int = eqx.field(static=True, default=4096)


def simulate_chosen(
    system: System,
    state: State,
    save_at: Numbers | None,
    step: Adaptive,
    asked: RunRequest,
    events: Sequence[Event] = (),
) -> Solution:
    """`simulate` with chosen steps."""
    if not isinstance(step, Adaptive):
        raise TypeError(f"simulate: step must be mbd.Adaptive(tolerance), not {step!r}")
    formulation = chosen_formulation(asked.formulation)
    integrator = chosen_integrator(asked.integrator)
    integrator = integrator.for_chosen_steps()
    if integrator.error_order is None:
        raise ValueError(
            f"{integrator.name} has no error estimate, so its steps cannot be chosen for a "
            "tolerance"
        )
    if save_at is None:
        raise ValueError("simulate: step=mbd.Adaptive(...) needs save_at, the times of the rows")
    ts = instants(save_at, system.dtype, "simulate")
    if len(ts) < 2:
        raise ValueError("simulate: save_at needs two or more increasing times")
    tolerance = step.tolerance
    if is_concrete(tolerance) and not 0.0 < float(tolerance) < float("inf"):
        raise ValueError(f"the tolerance must be positive and finite, not {tolerance}")
    check_run(system, step.max_steps, 1, formulation, integrator)
    schedule = _schedule(system, asked.inputs)
    events = _checked(system, events)
    given = state = system.with_turns(state)
    state, report = assembled(_given(system, schedule, ts[0]), state, ts[0], metric=asked.metric)
    start = InitialState(given, state, report)
    step = dataclasses.replace(step, tolerance=jnp.asarray(tolerance, system.dtype))
    like = (system.unnamed(), formulation, integrator, ts, schedule)
    integrate = _integrate
    if runs_now(like, state, step.tolerance):  # a guess of how many steps are used
        integrate = _integrate.for_work(step.max_steps * system.nb // 4, like)
    solution, path = integrate(
        system, start, ts, step, (formulation, integrator), schedule, bool(events)
    )
    solution = dataclasses.replace(solution, system=system)
    if path is not None:
        solution = _with_events(system, schedule, path, solution, tuple(events))
    if asked.throw and is_concrete(solution):
        raise_failure(system, solution, state)
    if is_concrete(solution):
        warn_of_run(system, solution)
        warn_of_grazing(system, solution)
    return solution


def _checked(system: System, events: Sequence[Event]) -> tuple[Event, ...]:
    """Events that chosen steps can tell.

    Raises:
        ValueError: One is unknown or acts.
    """
    found = named_once(events, "simulate")
    for event in found:
        if event.quantity is not None:
            refuse_unknown([event.quantity], system)
        if event.actions:
            raise ValueError(
                f"simulate: Event {event.name!r} acts, which needs steps of one size, h; with "
                "step=mbd.Adaptive events are told and end a run"
            )
    return found


def _schedule(system: System, inputs: Inputs | None) -> Schedule | None:
    """The inputs of a run whose steps are not known beforehand.

    Raises:
        ValueError: One is given step by step; or it is missing, unknown or of a wrong shape.
    """
    if inputs is None and system.held:
        return None
    labels = {label.name: label for label in system.inputs}
    given: Mapping[str, PyTree] = as_mapping(inputs, "simulate")
    for name, value in given.items():
        if name in labels and not (is_motion(value) or isinstance(value, str)):
            if labels[name].drives or jnp.ndim(value) > len(labels[name].shape):
                raise ValueError(
                    f"simulate: input {name!r}: steps of a chosen size take a function of time, "
                    "such as mbd.Sampled(times, values), or one that stays; an array by step needs "
                    "the step size h"
                )
    return schedule_of(system, inputs, 1, "simulate")


@eqx.filter_jit
def _with_events(
    system: System,
    schedule: Schedule | None,
    path: Path,
    solution: Solution,
    events: tuple[Event, ...],
) -> Solution:
    curve = Curve(
        system,
        path.knots,
        path.reached,
        lambda t, k: row_between(system, schedule, path, t, k)[0],
        lambda t: None if schedule is None else inputs_at(schedule, t),
    )
    return with_events(solution, curve, events)


def inputs_at(schedule: Schedule, t: Scalar) -> Float[Array, "3 n"]:
    """The inputs at an instant."""
    return schedule.first(t, jnp.zeros_like(t))


def _given(system: System, schedule: Schedule | None, t: Scalar) -> System:
    """The system with its inputs as they are at an instant."""
    return system if schedule is None else system.given(schedule.first(t, jnp.zeros_like(t)), t)


@Compiled
def _integrate(
    system: System,
    start: InitialState,
    ts: Float[Array, " T"],
    step: Adaptive,
    method: tuple[AbstractFormulation, AbstractIntegrator],
    schedule: Schedule | None,
    keep: bool = False,
) -> tuple[Solution, Path | None]:
    formulation, integrator = method
    tolerance, h0, report = step.tolerance, step.h0, start.report
    order = integrator.error_order or 1
    t0, t_end = ts[0], ts[-1]
    system = system.at_state(start.given)
    begun = _given(system, schedule, t0)
    q, u = formulation.from_state(start.state)
    motion = Motion(q, u, *dynamic_accelerations(formulation, begun, q, u, t0))
    first, result = first_row(begun, start, formulation, motion, t0)
    started = result == RESULTS.successful
    rate = _rate(system, first)
    if h0 is None:
        h0 = jnp.minimum(0.1 * (t_end - t0), tolerance ** (1.0 / (order + 1)) / rate)
    h0 = jax.lax.stop_gradient(jnp.asarray(h0, system.dtype))
    motion = integrator.begun(formulation, begun, motion, t0, h0)
    zero = jnp.zeros((), int)

    def attempt(p: _Progress) -> _Progress:
        # The rest of the span in one step, or in two of a size.
        left = t_end - p.t
        h = jnp.where(left <= 1.01 * p.h, left, jnp.where(left < 2.0 * p.h, 0.5 * left, p.h))
        h = jax.lax.stop_gradient(h)
        now = system.wound(angles_ahead(system, formulation, p.motion, p.row.angles, h))
        if schedule is not None:
            now = now.given(schedule.at(1, p.t + h, h), p.t + h)
        new, info = integrator.taken(
            formulation, now, p.motion, p.t + h, h, p.result == RESULTS.successful
        )
        position, velocity = integrator.error(p.motion, new, h)
        row = make_row(
            formulation,
            holding(now, new),
            *(new.q, new.u, new.a, new.lam, info.iterations, info.converged),
        )
        error = jnp.maximum(_size(system, position), _size(system, velocity) / _rate(system, row))
        error = error / tolerance
        outcome = RESULTS.where(info.singular, RESULTS.singular, RESULTS.successful)
        poses = jax.vmap(formulation.pose)(formulation.with_ground(new.q))
        outcome = checked_motion(now, poses, p.t + h, outcome)
        good = saved(info.converged & (error <= 1.0) & (outcome == RESULTS.successful))
        factor = _growth(error, order, info.converged, outcome)
        motion, row = jax.tree.map(
            lambda a, b: jnp.where(good, a, b), (new, row), (p.motion, p.row)
        )
        next_h = jax.lax.stop_gradient(h * factor)
        tiny = ~good & (next_h < 1e-9 * (t_end - t0))
        why = RESULTS.where(outcome == RESULTS.successful, RESULTS.step_too_small, outcome)
        result = RESULTS.where(tiny, why, p.result)
        # The last instant is met exactly.
        t = jnp.where(good, jnp.where(h == left, t_end, p.t + h), p.t)
        return _Progress(
            motion,
            row,
            t,
            next_h,
            p.accepted + good.astype(int),
            p.rejected + (~good).astype(int),
            result,
        )

    attempt = checkpointed(attempt)

    def turn(p: _Progress, _: None):
        goes_on = (p.t < t_end) & (p.result == RESULTS.successful)
        p = jax.lax.cond(goes_on, attempt, lambda p: p, p)
        return p, (p.t, p.row)

    progress = _Progress(motion, first, t0, h0, zero, zero, result)
    end, (knots, rows) = one_kernel(
        lambda start: jax.lax.scan(turn, start, None, length=step.max_steps), progress
    )
    knots = jnp.concatenate([t0[None], knots])
    rows = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rows)
    short = (end.t < t_end) & (end.result == RESULTS.successful)
    result = RESULTS.where(short, RESULTS.too_many_steps, end.result)

    path = Path(knots, rows, end.t, started)
    rows, undetermined = _requested(system, schedule, ts, path)
    stats = {
        "assembly_displacement": report.displacement,
        "assembly_rotation": report.rotation,
        "accepted_steps": end.accepted,
        "rejected_steps": end.rejected,
        "undetermined_rows": jnp.sum(undetermined),
    }
    inputs = None
    if schedule is not None:
        inputs = jax.vmap(lambda t: inputs_at(schedule, t))(ts)
    solution = make_solution(ts, rows, result, stats, inputs=inputs)
    return solution, path if keep else None


def _growth(error: Scalar, order: int, converged: Bool[Array, ""], outcome: RESULTS) -> Scalar:
    """Ratio of the next step to this one, from its error relative to the tolerance."""
    # NaN counts as a large error.
    factor = jnp.where(error > 0.0, _SAFETY * error ** (-1.0 / (order + 1)), _GROW)
    factor = jnp.where(converged & jnp.isfinite(error), jnp.clip(factor, _SHRINK, _GROW), _SHRINK)
    return jnp.where(outcome == RESULTS.successful, factor, _SHRINK)


def _requested(
    system: System, schedule: Schedule | None, ts: Float[Array, " T"], path: Path
) -> tuple[Row, Bool[Array, " T"]]:
    """Rows at the times `ts`, and whether the multipliers of each leave out a part of the
    forces.
    """
    # Refused steps repeat a knot; the interval of a time is the one that grows past it.
    knots = path.knots
    k = jnp.clip(jnp.searchsorted(knots, ts, side="left") - 1, 0, len(knots) - 2)
    return jax.vmap(lambda t, k: row_between(system, schedule, path, t, k))(ts, k)


def row_between(
    system: System, schedule: Schedule | None, path: Path, t: Scalar, k: Int[Array, ""]
) -> tuple[Row, Bool[Array, ""]]:
    """The row at a time in the k-th step, interpolated between its ends, NaN after the instant that
    was reached; and whether its multipliers leave out a part of the forces.
    """
    knots = path.knots
    h = knots[k + 1] - knots[k]
    inside = h > 0.0
    s = jnp.where(inside, (t - knots[k]) / jnp.where(inside, h, 1.0), 0.0)
    ends = [jax.tree.map(lambda x, i=i: x[i], path.rows) for i in (k, k + 1)]
    row, undetermined = _balanced(
        _given(system, schedule, t), between(*ends, h=jnp.where(inside, h, 1.0), s=s), t
    )
    known = (t <= path.reached) & path.started
    row = jax.tree.map(
        lambda x: jnp.where(known, x, jnp.nan) if eqx.is_inexact_array(x) else x, row
    )
    return row, known & undetermined


def _balanced(system: System, row: Row, t: Scalar) -> tuple[Row, Bool[Array, ""]]:
    """The row with the accelerations and multipliers of the index-1 equations at its positions and
    velocities, and whether these leave out a part of the forces.

    Those of an index-3 method carry its positions' error divided by the step squared, and
    derivatives of the curve between two steps multiply it again.
    """
    u = jnp.concatenate([row.twist.v, row.twist.omega], axis=1)
    # Between those at the ends of the step.
    system = system.wound(row.angles).with_element_states(row.element_states)
    angles = system.angle_values(RA().with_ground(row.pose))
    a, lam, undetermined = judged_accelerations(RA(), system, row.pose, u, t)
    new = (a[:, :3], a[:, 3:], system.to_natural(lam), angles)
    return eqx.tree_at(lambda r: (r.a, r.alpha, r.lam, r.angles), row, new), undetermined


def _size(system: System, gap: Float[Array, "nb d"]) -> Scalar:
    """Largest component of an error, with lengths relative to the system's."""
    return jnp.maximum(jnp.max(jnp.abs(gap[:, :3])) / system.length, jnp.max(jnp.abs(gap[:, 3:])))


def _rate(system: System, row: Row) -> Scalar:
    """Rate of change of the motion [1/s]: velocities, and square roots of accelerations, relative
    to the system's length.
    """
    v = jnp.maximum(
        jnp.max(jnp.abs(row.twist.v)) / system.length, jnp.max(jnp.abs(row.twist.omega))
    )
    a = jnp.maximum(jnp.max(jnp.abs(row.a)) / system.length, jnp.max(jnp.abs(row.alpha)))
    return jax.lax.stop_gradient(v + jnp.sqrt(a) + jnp.finfo(v.dtype).tiny ** 0.25)
