"""`simulate` with steps chosen for a tolerance."""

import dataclasses
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PyTree

from ...model.compiled import runs_now, telling_forward_mode
from ...model.events import Event, named_once
from ...model.motions import is_motion
from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers, is_concrete
from ...results.columns import refuse_unknown
from ...results.solution import Solution
from ..events.between_steps import Curve, with_events
from ..events.effects import effects_of
from ..running.checks import check_run, chosen_formulation, chosen_integrator, instants
from ..running.failure import raise_failure
from ..running.initial_state import InitialState, assembled
from ..running.request import RunRequest
from ..running.schedule import Inputs, Schedule, as_mapping, schedule_of
from ..running.warnings import warn_of_grazing, warn_of_run
from .acting import Switching, acted_instants
from .adaptive import Adaptive
from .loop import run_acting, run_chosen
from .path import Path, RunInputs, row_between
from .steps import Run


@telling_forward_mode
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
    events = _checked(system, events)
    acting = any(event.actions for event in events)
    given_inputs = asked.inputs
    if acting and given_inputs is None and system.held:
        given_inputs = system.held_inputs()
    schedule = _schedule(system, given_inputs)
    if acting and schedule is None:  # no inputs: there are none to set
        schedule = Schedule(())
    given = state = system.with_turns(state)
    begun = RunInputs(schedule).of(system, ts[0])
    state, report = assembled(begun, state, ts[0], metric=asked.metric)
    start = InitialState(given, state, report)
    tolerance = jnp.asarray(tolerance, system.dtype)
    run = Run(system, formulation, integrator, tolerance, ts[0], ts[-1], schedule)
    if acting:
        switching = Switching(system, events, effects_of(system, events))
        solution, path = run_acting(run, start, ts, step, switching)
    else:
        switching = None
        like = (system.unnamed(), formulation, integrator, ts, schedule)
        program = run_chosen
        if runs_now(like, state, tolerance):  # a guess of how many steps are used
            program = run_chosen.for_work(step.max_steps * system.nb // 4, like)
        solution, path = program(run, start, ts, step, bool(events))
    solution = dataclasses.replace(solution, system=system)
    if path is not None:
        solution = _with_events(system, schedule, path, solution, events)
    if asked.throw and is_concrete(solution):
        raise_failure(system, solution, state)
    if is_concrete(solution):
        warn_of_run(system, solution)
        warn_of_grazing(system, solution)
    return solution


def _checked(system: System, events: Sequence[Event]) -> tuple[Event, ...]:
    """The events of a run.

    Raises:
        ValueError: One is unknown.
    """
    found = named_once(events, "simulate")
    for event in found:
        if event.quantity is not None:
            refuse_unknown([event.quantity], system)
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
        lambda t, k: path.inputs(schedule, k).at(t),
    )
    return with_events(solution, curve, events, acted_instants(path, events))
