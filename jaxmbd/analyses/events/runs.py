"""Runs with steps of one size that look for events."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...model.compiled import telling_forward_mode
from ...model.events import Event, named_once
from ...model.state import State
from ...model.system import System
from ...model.validation import is_concrete
from ...outcomes import RESULTS, ended_as
from ...results.columns import refuse_unknown
from ...results.events import EventTimes, before
from ...results.saved_rows import Row, make_solution
from ...results.solution import Solution
from ...xla.checkpoint import checkpointed
from ..commanded import check_controller, with_commands
from ..controllers import Control, Controller
from ..fixed_steps import begin, has_least, refuse_host_work, run_stats, times
from ..running.checks import chosen_integrator
from ..running.chunked_run import HostLoop, counted_loop
from ..running.failure import raise_failure
from ..running.one_step import Progress
from ..running.request import RunRequest
from ..running.schedule import Schedule
from ..running.warnings import warn_of_grazing, warn_of_run
from .commands import Commanding
from .effects import effects_of
from .kinks import Kink
from .looking import EventRun, Looking, begun, goes_on
from .turns import turn_of

# Turns of a traced run that each event that is kept may take beyond whole steps; six to ten are
# usual, and a value that jumps takes some more.
_TURNS = 16
# And one that acts: the motion anew, a look ahead, the rest of the step, and that anew; once more
# where it was searched from a step that had to be left.
_ACTING = 8


class _Saved(eqx.Module):
    """What is kept of a row.

    Attributes:
        row: The instant.
        t: Its time [s].
        inputs: There, (3, n), or None.
        iterations: Since the first row.
    """

    row: Row
    t: Float[Array, ""]
    inputs: Float[Array, "3 n"] | None
    iterations: Int[Array, ""]


@telling_forward_mode
def simulate_events(
    system: System,
    state: State,
    events: Sequence[Event],
    asked: RunRequest,
    controller: Controller | None = None,
    key: Array | None = None,
) -> Solution:
    """`simulate` with events, and perhaps with a controller; `key` is that of the noise of its
    sensors.
    """
    events = named_once(events, "simulate")
    for event in events:
        if event.quantity is not None:
            refuse_unknown([event.quantity], system)
    acting = any(event.actions for event in events)
    if asked.checkpoints != 1:
        raise ValueError("simulate: checkpoints are not for runs with events")
    effects = effects_of(system, events) if acting else ()
    if acting and asked.inputs is None and system.held:
        asked = dataclasses.replace(asked, inputs=system.held_inputs())
    commanding = control = None
    if controller is not None:
        check_controller(system, controller, "simulate")
        _refuse_commanded(system, controller, events)
        asked = dataclasses.replace(asked, inputs=with_commands(system, controller, asked.inputs))
        control = Control.begun(system, controller, asked.h, key)
    method = chosen_integrator(asked.integrator, system).for_parts_of_steps()
    start = begin(system, state, dataclasses.replace(asked, integrator=method))
    steps, saves = start.steps, start.saves
    at_start, schedule = start.run, start.schedule
    if acting and schedule is None:  # no inputs: there are none to set
        schedule = Schedule(())
        none = jnp.zeros((3, 0), system.dtype)
        at_start = eqx.tree_at(lambda r: r.inputs, at_start, none, is_leaf=lambda x: x is None)
    every, count = saves.every, saves.count

    def solution_of(rows: _Saved, told: tuple[EventRun, Float[Array, "E most"]]) -> Solution:
        run, found = told
        planned = times(steps, np.arange(rows.t.shape[0]) * every)
        t = jnp.where(jnp.isnan(rows.t), planned, rows.t)
        iterations = jnp.diff(rows.iterations, prepend=0)
        solution = make_solution(
            t,
            rows.row,
            run.progress.result,
            run_stats(start.report, run.progress),
            system,
            least=has_least(run.progress),
            inputs=rows.inputs,
        )
        # A kink that is touched costs nothing.
        bends = np.asarray([isinstance(event.function, Kink) for event in events])
        grazed = jnp.where(bends, 0, run.grazed)
        instants = EventTimes(tuple(event.name for event in events), found, run.counts, grazed)
        ended = run.progress.result == RESULTS.ended_by_event
        end = jnp.where(ended, run.t, jnp.inf)
        return dataclasses.replace(
            solution, iterations=jnp.maximum(iterations, 0), events=before(instants, end)
        )

    if controller is not None:
        commanding = Commanding(system, controller, steps.h)
    looking = Looking(system, events, steps, schedule, effects, commanding)
    if is_concrete((looking, at_start, control)):
        told = _first(looking, at_start, start.first, control)
        loop = HostLoop(
            lambda told, first, count, size: _some_rows(looking, told, first, count, size, every),
            lambda told: ended_as(told[0].progress.result, RESULTS.successful),
            solution_of,
            system.name,
            every,
        )
        watching = {"progress": asked.progress, "on_chunk": asked.on_chunk}
        solution = loop.run(told, _saved(told[0]), count, **watching)
        if asked.throw:
            raise_failure(start.begun, solution, start.state, steps.h)
        warn_of_run(system, solution, steps.h)
        warn_of_grazing(system, solution)
        return solution
    refuse_host_work(asked.progress, asked.on_chunk)
    rows, run, found = _all_rows(looking, (at_start, start.first, control), count, every)
    return solution_of(rows, (run, found))


def _refuse_commanded(system: System, controller: Controller, events: Sequence[Event]) -> None:
    """Raise where an event sets what the controller commands.

    Raises:
        ValueError: It would command in vain from then on.
    """
    for event, effect in zip(events, effects_of(system, events), strict=True):
        names = [label.name for label in system.inputs for _ in range(label.width)]
        places = {place for change in effect.inputs for place in change.places}
        for name in sorted({names[place] for place in places} & set(controller.commands)):
            raise ValueError(
                f"simulate: Event {event.name!r} sets the input {name!r}, which "
                f"{type(controller).__name__} commands; give it an input of its own, or let the "
                "controller see when it has happened"
            )


def _saved(run: EventRun) -> _Saved:
    return _Saved(run.row, run.t, run.progress.inputs, run.iterations)


def _most(looking: Looking) -> int:
    return max(event.most for event in looking.events)


@eqx.filter_jit
def _first(
    looking: Looking, progress: Progress, row: Row, control: Control | None
) -> tuple[EventRun, Float[Array, "E most"]]:
    """The run before its first turn, and a buffer for instants."""
    blank = jnp.full((len(looking.events), _most(looking)), jnp.nan, looking.steps.h.dtype)
    return begun(looking, progress, row, control), blank


@eqx.filter_jit
def _some_rows(
    looking: Looking,
    told: tuple[EventRun, Float[Array, "E most"]],
    first: Array,
    count: Array,
    size: int,
    every: int,
) -> tuple[tuple[EventRun, Float[Array, "E most"]], _Saved]:
    """The run and its instants after `count` rows from the `first` on, and these; their number does
    not recompile.
    """
    turn = turn_of(looking)

    def one(told: tuple[EventRun, Array]) -> tuple[EventRun, Array]:
        run, times = turn(told[0]), told[1]
        place = jnp.maximum(run.told, 0), run.counts[run.told] - 1
        written = times.at[place].set(run.instant)
        return run, jnp.where(run.told < 0, times, written)

    def save(
        told: tuple[EventRun, Array], target: Int[Array, ""]
    ) -> tuple[tuple[EventRun, Array], _Saved]:
        told = jax.lax.while_loop(lambda told: goes_on(told[0], target), one, told)
        return told, _saved(told[0])

    def target(m: Array) -> Array:
        return (first + m + 1) * every

    return counted_loop(save, told, target, count, size, lambda told: told[0].progress.result)


@eqx.filter_jit
def _all_rows(
    looking: Looking, at_start: tuple[Progress, Row, Control | None], count: int, every: int
) -> tuple[_Saved, EventRun, Float[Array, "E most"]]:
    """All rows, the run after all steps, and its instants; this loop can be differentiated.

    Instants are what turns return: the reverse pass would keep a buffer once for every turn.
    """
    first, turn = begun(looking, *at_start), checkpointed(turn_of(looking))
    whole = count * every

    def one(run: EventRun, _: None) -> tuple[EventRun, tuple[_Saved, Array, Array, Array]]:
        active = goes_on(run, whole)
        run = jax.lax.cond(active, turn, lambda run: run, run)
        ended = run.progress.result != RESULTS.successful
        kept = active & run.saved & ((run.n % every == 0) | ended)
        return run, (_saved(run), kept, jnp.where(active, run.told, -1), run.instant)

    each = [(_ACTING if event.actions else 0) + _TURNS for event in looking.events]
    most = [event.most for event in looking.events]
    turns = whole + sum(n * k for n, k in zip(each, most, strict=True))
    run, (rows, kept, told, instants) = jax.lax.scan(one, first, length=turns)
    result = RESULTS.where(goes_on(run, whole), RESULTS.too_many_events, run.progress.result)
    run = eqx.tree_at(
        lambda r: r.progress.result, run, result, is_leaf=lambda x: isinstance(x, RESULTS)
    )
    found = jax.tree.map(lambda x: picked(x, kept, count), rows)
    rows = jax.tree.map(lambda x, more: jnp.concatenate([x[None], more]), _saved(first), found)
    of_each = [picked(instants, told == e, _most(looking)) for e in range(len(looking.events))]
    return rows, run, jnp.stack(of_each)


def picked(x: Float[Array, "n *s"] | Int[Array, "n *s"], mask: Array, count: int) -> Array:
    """Its entries where a mask holds, and NaN, or any integer, beyond the last of them."""
    done = jnp.cumsum(mask)
    place = jnp.minimum(jnp.searchsorted(done, jnp.arange(1, count + 1)), len(mask) - 1)
    found = x[place]
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return found
    there = (jnp.arange(count) < done[-1]).reshape(-1, *[1] * (x.ndim - 1))
    return jnp.where(there, found, jnp.nan)
