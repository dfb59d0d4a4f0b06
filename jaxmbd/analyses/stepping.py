"""One step of a motion at a time, for a caller's own loops: controllers, learning, environments."""

import dataclasses
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator
from ..model.compiled import telling_forward_mode
from ..model.inputs import one_value
from ..model.state import State
from ..model.system import System
from ..model.validation import Numbers, as_jax, concrete, is_concrete
from ..outcomes import RESULTS, ended_as
from ..results.saved_rows import make_solution
from ..results.solution import Solution
from ..rotations.types import host
from .carry import Carry, row_of, taken
from .commanded import check_controller, commanded, commanded_step, left_to_caller
from .controllers import Control, Controller
from .fixed_steps import refuse_host_work, times
from .running.checks import (
    check_run,
    check_system,
    chosen_formulation,
    chosen_integrator,
    count_steps,
    needs_state,
    solved_by,
)
from .running.chunked_run import HostLoop, counted_loop
from .running.failure import raise_failure
from .running.initial_state import InitialState, assembled
from .running.one_step import FixedSteps
from .running.request import RunRequest
from .running.run_start import start_run
from .running.schedule import (
    FromStep,
    InputPart,
    Inputs,
    as_mapping,
    held_from,
    instant,
    over_a_run,
)
from .running.warnings import warn_of_run


@needs_state
@telling_forward_mode
def start(
    system: System,
    state: State,
    *,
    h: Numbers,
    inputs: Inputs | None = None,
    controller: Controller | None = None,
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    linear_solver: str | None = None,
    t0: Numbers = 0.0,
    metric: str | None = None,
    key: Array | None = None,
    throw: bool = True,
) -> Carry:
    """Assemble a state and return the carry from which `step` continues: accelerations and the
    memory of the method included. A pure function that can be jitted, batched and differentiated.

    Args:
        system: The mechanism; see `Mechanism.build`.
        state: Poses and twists at t0; assembled first, as by `simulate`.
        h: Step size [s] of all steps.
        inputs: What the mechanism's inputs are at t0, by name, see `Input`.
        controller: That will give some of the inputs, see `Controller`.
        formulation: As in `simulate`.
        integrator: As in `simulate`.
        linear_solver: As in `simulate`.
        t0: Initial time [s].
        metric: Of the velocities' assembly, see `assemble`.
        key: Of `jax.random`, for the noise of the sensors that the controller reads; without it
            they have none.
        throw: Raise when no motion can begin; without effect inside `jit` or `vmap`, where
            `Carry.result` tells.

    Raises:
        ValueError: The request makes no sense; an input is missing or unknown.
        RuntimeError: No motion can begin from the state; the message names the joint and the cure.
    """
    check_system(system, state, "start")
    system.refuse_events("start")
    named, system = system, solved_by(system, linear_solver)
    formulation = chosen_formulation(formulation)
    integrator = chosen_integrator(integrator, system)
    check_run(system, 1, 1, formulation, integrator)
    control = None
    refuse_unused_key(key, controller, "start")
    if controller is not None:
        check_controller(named, controller, "start")
        control = Control.begun(named, controller, h, key)
        nothing = {x.name: np.zeros(x.shape) for x in commanded(named, controller)}
        inputs = nothing | dict(as_mapping(inputs, "start"))
    if inputs is not None or not system.held:
        values = instant(system, inputs, "start")
    else:  # so that a step may change them
        values = system.held_values(t0)
    known = concrete(h)
    if known is not None and not (known > 0.0 and np.isfinite(known)):
        raise ValueError(f"start: the step size h must be positive, not {h}")
    now = host.asarray(t0, system.dtype) if is_concrete(t0) else as_jax(t0, system.dtype)
    h, t0 = as_jax(h, system.dtype), as_jax(t0, system.dtype)
    begun = system if values is None else system.given(values, t0)
    state = system.with_turns(state)
    found, report = assembled(begun, state, now, metric=metric)
    steps = FixedSteps(t0, h, formulation, integrator)
    run, row = start_run(begun, InitialState(state, found, report), steps, values)
    carry = Carry(run, t0, h, formulation, integrator, linear_solver, control)
    if throw and is_concrete(carry):
        if not ended_as(carry.result, RESULTS.successful):
            rows = jax.tree.map(lambda x: x[None], row)
            failed = make_solution(t0[None], rows, run.result, {"completed_steps": 0}, named)
            raise_failure(begun, failed, found, h)
    return carry


def refuse_unused_key(key: Array | None, controller: Controller | None, who: str) -> None:
    """Raise for a random key without a controller that reads noisy sensors.

    Raises:
        ValueError: There is a key and no controller.
    """
    if key is not None and controller is None:
        raise ValueError(
            f"{who}: the key is for the noise of sensors that a controller reads, and there is no "
            "controller; after a run ask sol.sensor(name, key=key)"
        )


def step(
    system: System,
    carry: Carry,
    inputs: Inputs | None = None,
    *,
    controller: Controller | None = None,
    steps: int = 1,
) -> Carry:
    """Take some time steps of `simulate` from a carry; a pure function that can be jitted, scanned,
    batched and differentiated.

    Nothing is raised where a step fails: `Carry.result` says why, and the motion stays where it
    was, in a batch that of the failed element alone.

    Args:
        system: The mechanism that the motion began with; its numbers may have changed.
        carry: Of `start` or of the step before.
        inputs: What the mechanism's inputs are, by name; held over all the steps. A driver's input
            is a tuple of its value, rate and acceleration at the end of the first of them, and
            goes on from there.
        controller: The one that the motion began with, which gives the other inputs; its numbers
            may have changed.
        steps: How many.

    Raises:
        ValueError: An input is missing, unknown or of a wrong shape.
        TypeError: The carry is none.
    """
    if not isinstance(carry, Carry):
        raise TypeError(
            f"step: the second argument must be the carry of mbd.start(system, state, h=...) or of "
            f"the step before, not {type(carry).__name__}"
        )
    bodies, rows = carry.run.motion.u.shape[-2], carry.run.motion.lam.shape[-1]
    if bodies != system.nb or rows < system.nc:
        raise ValueError(
            f"step: the carry is of a motion of {bodies} bodies with {rows} rows, and mechanism "
            f"{system.name!r} has {system.nb} with {system.nc}; give the system that it began with"
        )
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"step: steps must be a positive integer, not {steps!r}")
    if (controller is None) != (carry.control is None):
        raise ValueError(
            "step: give the controller to mbd.start as well, which makes its memory"
            if carry.control is None
            else "step: the motion began with a controller; give it"
        )
    if controller is not None:
        check_controller(system, controller, "step")
        others = {} if inputs is None else dict(as_mapping(inputs, "step"))
        held = left_to_caller(
            system,
            controller,
            others,
            lambda label, value: FromStep(
                jnp.asarray(one_value(label, value, "step")), carry.steps + 1, label.drives
            ),
        )

        def one(carry: Carry, _: None) -> tuple[Carry, None]:
            return commanded_step(system, carry, controller, held)[0], None

        return one(carry, None)[0] if steps == 1 else jax.lax.scan(one, carry, length=steps)[0]
    schedule = None
    if inputs is not None or not system.held:
        schedule = held_from(system, inputs, carry.steps + 1, "step")
    return taken(system, carry, schedule, steps)[0]


def simulate_controlled(
    system: System, state: State, controller: Controller, key: Array | None, asked: RunRequest
) -> Solution:
    """`simulate` with a controller; `key` is that of the noise of its sensors."""
    assert asked.h is not None
    check_controller(system, controller, "simulate")
    count, save_every = count_steps(asked.h, asked.t_end, asked.steps, asked.t0), asked.save_every
    integrator = chosen_integrator(asked.integrator, system)
    formulation = chosen_formulation(asked.formulation)
    check_run(system, count, save_every, formulation, integrator)
    given = as_mapping(asked.inputs, "simulate")
    others = left_to_caller(
        system,
        controller,
        given,
        lambda label, value: over_a_run(label, value, count, "simulate"),
    )
    h, t0 = as_jax(asked.h, system.dtype), as_jax(asked.t0, system.dtype)
    first = {name: part.first(t0, h) for name, part in others.items()}
    labels = {label.name: label for label in system.inputs}
    begin = {
        name: tuple(x.reshape(labels[name].shape) for x in rows)
        if labels[name].drives
        else rows[0].reshape(labels[name].shape)
        for name, rows in first.items()
    }
    begun = start(
        system,
        state,
        h=asked.h,
        t0=t0,
        inputs=begin,
        controller=controller,
        formulation=asked.formulation,
        integrator=asked.integrator,
        linear_solver=asked.linear_solver,
        metric=asked.metric,
        key=key,
        throw=asked.throw,
    )
    saves, steps = count // save_every, FixedSteps(t0, h, formulation, integrator)
    begin_row = _first_row(system, begun)
    row, rest = eqx.partition(begin_row, eqx.is_array)

    def solution_of(rows: Solution, carry: Carry) -> Solution:
        # A row is a solution of one instant; numbers about the whole run are those of its end.
        arrays = jax.tree.map(lambda one, all: all[:, 0] if one.ndim else all[-1], row, rows)
        found = eqx.combine(arrays, rest)
        stats = {
            "completed_steps": carry.run.completed,
            "undetermined_steps": carry.run.undetermined,
        }
        return dataclasses.replace(
            found,
            t=times(steps, np.arange(found.r.shape[0]) * save_every),
            result=carry.result,
            stats=found.stats | stats,
            system=system,
        )

    if is_concrete((begin_row, begun, controller, others)):
        loop = HostLoop(
            lambda carry, first, count, size: _some_rows(
                system, carry, controller, others, count, size, save_every
            ),
            lambda carry: ended_as(carry.result, RESULTS.successful),
            solution_of,
            system.name,
            save_every,
        )
        solution = loop.run(begun, row, saves, progress=asked.progress, on_chunk=asked.on_chunk)
        if asked.throw:
            raise_failure(system, solution, state, h)
        warn_of_run(system, solution, h)
        return solution
    refuse_host_work(asked.progress, asked.on_chunk)
    carry, rows = _all_rows(system, begun, controller, others, saves, save_every)
    rows = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), row, rows)
    return solution_of(rows, carry)


def _row(system: System, carry: Carry, iterations: Int[Array, ""]) -> Solution:
    """The present instant, as a part of a solution."""
    return dataclasses.replace(row_of(system, carry, iterations), system=None)


@eqx.filter_jit
def _first_row(system: System, carry: Carry) -> Solution:
    return _row(system, carry, jnp.zeros((), int))


def _to_next_row(
    system: System, controller: Controller, others: Mapping[str, InputPart], save_every: int
) -> Callable[[Carry, object], tuple[Carry, Solution]]:
    """A function that takes the steps from one saved row to the next one."""

    def one(carry: Carry, _: None) -> tuple[Carry, Array]:
        return commanded_step(system, carry, controller, others)

    def save(carry: Carry, _: object) -> tuple[Carry, Solution]:
        carry, each = jax.lax.scan(one, carry, length=save_every)
        return carry, eqx.filter(_row(system, carry, jnp.sum(each)), eqx.is_array)

    return save


@eqx.filter_jit
def _all_rows(
    system: System,
    carry: Carry,
    controller: Controller,
    others: Mapping[str, InputPart],
    saves: int,
    save_every: int,
) -> tuple[Carry, Solution]:
    """The carry at the end, and all rows but the first."""
    save = _to_next_row(system, controller, others, save_every)
    return jax.lax.scan(save, carry, length=saves)


@eqx.filter_jit
def _some_rows(
    system: System,
    carry: Carry,
    controller: Controller,
    others: Mapping[str, InputPart],
    count: Int[Array, ""],
    size: int,
    save_every: int,
) -> tuple[Carry, Solution]:
    """The carry after the next `count` rows, and these; their number does not recompile."""
    save = _to_next_row(system, controller, others, save_every)
    return counted_loop(save, carry, lambda m: m, count, size, lambda carry: carry.result)
