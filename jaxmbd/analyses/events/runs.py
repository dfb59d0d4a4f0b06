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
from ...results.solution import Row, Solution, make_solution
from ...xla.checkpoint import checkpointed
from ..fixed_steps import begin, has_least, refuse_host_work, run_stats, times
from ..running.chunked_run import HostLoop, counted_loop
from ..running.failure import raise_failure
from ..running.one_step import Progress
from ..running.request import RunRequest
from ..running.warnings import warn_of_grazing, warn_of_run
from .turns import EventRun, Looking, begun, goes_on, turn_of

# Turns of a traced run that each event that is kept may take beyond whole steps; six to ten are
# usual, and a value that jumps takes some more.
_TURNS = 16


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
    system: System, state: State, events: Sequence[Event], asked: RunRequest
) -> Solution:
    """`simulate` with events."""
    events = named_once(events, "simulate")
    for event in events:
        if event.quantity is not None:
            refuse_unknown([event.quantity], system)
    if system.laws:
        raise ValueError(
            "simulate: events need a mechanism without rigid stops, contacts and dry friction, "
            "whose steps pass impacts at instants of their own; give them stiffness, or ask the "
            "solution for the instants afterwards"
        )
    if asked.checkpoints != 1:
        raise ValueError("simulate: checkpoints are not for runs with events")
    start = begin(system, state, asked)
    steps, saves = start.steps, start.saves
    steps = dataclasses.replace(steps, integrator=steps.integrator.for_parts_of_steps())
    every, count = saves.every, saves.count

    def solution_of(rows: _Saved, run: EventRun) -> Solution:
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
        instants = EventTimes(
            tuple(event.name for event in events), run.times, run.counts, run.grazed
        )
        ended = run.progress.result == RESULTS.ended_by_event
        end = jnp.where(ended, run.t, jnp.inf)
        return dataclasses.replace(
            solution, iterations=jnp.maximum(iterations, 0), events=before(instants, end)
        )

    looking = Looking(system, events, steps, start.schedule)
    if is_concrete((looking, start.run)):
        run = _first(looking, start.run, start.first)
        loop = HostLoop(
            lambda run, first, count, size: _some_rows(looking, run, first, count, size, every),
            lambda run: ended_as(run.progress.result, RESULTS.successful),
            solution_of,
            system.name,
            every,
        )
        watching = {"progress": asked.progress, "on_chunk": asked.on_chunk}
        solution = loop.run(run, _saved(run), count, **watching)
        if asked.throw:
            raise_failure(start.begun, solution, start.state, steps.h)
        warn_of_run(system, solution, steps.h)
        warn_of_grazing(system, solution)
        return solution
    refuse_host_work(asked.progress, asked.on_chunk)
    run, rows = _all_rows(looking, start.run, start.first, count, every)
    return solution_of(rows, run)


def _saved(run: EventRun) -> _Saved:
    return _Saved(run.row, run.t, run.progress.inputs, run.iterations)


@eqx.filter_jit
def _first(looking: Looking, progress: Progress, row: Row) -> EventRun:
    return begun(looking, progress, row)


@eqx.filter_jit
def _some_rows(
    looking: Looking, run: EventRun, first: Array, count: Array, size: int, every: int
) -> tuple[EventRun, _Saved]:
    """The run after `count` rows from the `first` on, and these; their number does not
    recompile.
    """
    turn = turn_of(looking)

    def save(run: EventRun, target: Int[Array, ""]) -> tuple[EventRun, _Saved]:
        run = jax.lax.while_loop(lambda run: goes_on(run, target), turn, run)
        return run, _saved(run)

    return counted_loop(
        save, run, lambda m: (first + m + 1) * every, count, size, lambda run: run.progress.result
    )


@eqx.filter_jit
def _all_rows(
    looking: Looking, progress: Progress, row: Row, count: int, every: int
) -> tuple[EventRun, _Saved]:
    """The run after all steps and all rows; this loop can be differentiated."""
    first, turn = begun(looking, progress, row), checkpointed(turn_of(looking))
    whole = count * every

    def one(run: EventRun, _: None) -> tuple[EventRun, tuple[_Saved, Array]]:
        active = goes_on(run, whole)
        run = jax.lax.cond(active, turn, lambda run: run, run)
        ended = run.progress.result != RESULTS.successful
        kept = active & run.saved & ((run.n % every == 0) | ended)
        return run, (_saved(run), kept)

    turns = whole + _TURNS * sum(event.most for event in looking.events)
    run, (rows, kept) = jax.lax.scan(one, first, length=turns)
    short = goes_on(run, whole)
    result = RESULTS.where(short, RESULTS.too_many_events, run.progress.result)
    run = eqx.tree_at(
        lambda r: r.progress.result, run, result, is_leaf=lambda x: isinstance(x, RESULTS)
    )
    done = jnp.cumsum(kept)
    place = jnp.minimum(jnp.searchsorted(done, jnp.arange(1, count + 1)), turns - 1)
    reached = jnp.arange(count) < done[-1]

    def at_row(x: Array, begin: Array) -> Array:
        found = x[place]
        if jnp.issubdtype(x.dtype, jnp.inexact):
            there = reached.reshape(-1, *[1] * (x.ndim - 1))
            found = jnp.where(there, found, jnp.nan)
        return jnp.concatenate([begin[None], found])

    return run, jax.tree.map(at_row, rows, _saved(first))
