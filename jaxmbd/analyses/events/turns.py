"""The turns of a run that looks for events: each of them tries one step."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from ...model.events import Event
from ...model.system import System
from ...outcomes import RESULTS
from ...results.columns import columns_by_name
from ...results.solution import Row, make_solution
from ...rotations.types import Scalar
from ..running.one_step import FixedSteps, Progress, one_step, row_after
from ..running.schedule import OfTime, Schedule, StepNumber, earlier
from .search import (
    CORRECTING,
    NARROWING,
    PROBING,
    THERE,
    WHOLE,
    Search,
    bracketed,
    corrected,
    narrowed,
    passes,
)

# An event at less than this share of a step is looked for from the step before: very short steps
# leave rounding divided by their square in accelerations.
_EARLY = 0.3

_SIGNS = {"rising": 1.0, "falling": -1.0, "both": 0.0}


class _PartOfStep(FixedSteps):
    """A step of another length that ends at a given time."""

    end: Scalar

    def at(self, n: StepNumber) -> Scalar:
        return self.end


class _PartOfSchedule(Schedule):
    """Inputs of a step of length h within a part of it that ends `ahead` of its end."""

    ahead: Scalar
    h: Scalar

    def at(self, n: StepNumber | int, t: Scalar, h: Scalar) -> Float[Array, "3 n"]:
        """Values, rates and accelerations in the part of length h that ends at t."""
        found = [
            part.at(n, t, h)
            if isinstance(part, OfTime)
            else earlier(part.at(n, t + self.ahead, self.h), self.ahead)
            for part in self.parts
        ]
        return jnp.concatenate(found, axis=1)


class EventRun(eqx.Module):
    """State of a run that looks for events.

    Attributes:
        progress: At the last whole step, or where the run ended.
        before: A step before.
        n: Whole steps done.
        values: Of every event, less the value that is passed, at the last whole step, (E,).
        values_before: A step before, (E,).
        seen: Events that happened in the step at hand, (E,).
        probed: Whose turning point in the step at hand has been looked at, (E,).
        search: Within the step at hand.
        told: The event that the last turn found, -1 for none.
        instant: Its time [s].
        counts: How many instants of each were found, (E,).
        noticed: Which were seen or looked at in the step before, (E,).
        grazed: Steps in which a value may have touched zero without passing it, (E,).
        row: The last one that was reached.
        t: Its time [s].
        saved: Whether the last turn reached a row.
        iterations: Since the first row, those of steps that were tried included.
    """

    progress: Progress
    before: Progress
    n: Int[Array, ""]
    values: Float[Array, " E"]
    values_before: Float[Array, " E"]
    seen: Bool[Array, " E"]
    probed: Bool[Array, " E"]
    search: Search
    told: Int[Array, ""]
    instant: Scalar
    counts: Int[Array, " E"]
    noticed: Bool[Array, " E"]
    grazed: Int[Array, " E"]
    row: Row
    t: Scalar
    saved: Bool[Array, ""]
    iterations: Int[Array, ""]


class Looking(eqx.Module):
    """A run that looks for events: what stays as it is.

    Attributes:
        system: The mechanism, with the names of its quantities.
        events: That are looked for.
        steps: Size and method.
        schedule: The inputs, or None.
    """

    system: System
    events: tuple[Event, ...]
    steps: FixedSteps
    schedule: Schedule | None

    @property
    def signs(self) -> Float[np.ndarray, " E"]:
        """1 for events that rise, -1 for those that fall, 0 for both."""
        return np.asarray([_SIGNS[event.direction] for event in self.events])

    @property
    def may_be_early(self) -> bool:
        """Whether a step may begin before the last whole one, which had inputs of its own."""
        return self.schedule is None or not np.any(self.schedule.jumps)

    def values(self, row: Row, t: Scalar, progress: Progress) -> Float[Array, " E"]:
        """Of every event, less the value that is passed, at an instant."""
        rows = jax.tree.map(lambda x: x[None], row)
        inputs = None if progress.inputs is None else progress.inputs[None]
        now = make_solution(t[None], rows, progress.result, {}, self.system, inputs=inputs)
        found, state = [], now.at(0)
        for event in self.events:
            if event.function is not None:
                value = event.function(state.pose, state.twist, state.element_states, t)
            else:
                assert event.quantity is not None
                value = columns_by_name(now, self.system, [event.quantity])[0][0]
            found.append(jnp.asarray(value, t.dtype).reshape(()) - event.value)
        return jnp.stack(found)


def begun(looking: Looking, progress: Progress, row: Row) -> EventRun:
    """Before the first turn."""
    t0, count = looking.steps.t0, len(looking.events)
    values = looking.values(row, t0, progress)
    none, no = jnp.zeros(count, int), jnp.zeros(count, bool)
    return EventRun(
        progress=progress,
        before=progress,
        n=jnp.zeros((), int),
        values=values,
        values_before=jnp.full_like(values, jnp.nan),
        seen=no,
        probed=no,
        search=Search.none(t0),
        told=jnp.asarray(-1),
        instant=t0,
        counts=none,
        noticed=no,
        grazed=none,
        row=row,
        t=t0,
        saved=jnp.asarray(True),
        iterations=jnp.zeros((), int),
    )


def goes_on(run: EventRun, count: Int[Array, ""] | int) -> Bool[Array, ""]:
    """Whether there is another turn before `count` whole steps are done."""
    return (run.n < count) & (run.progress.result == RESULTS.successful)


def _tried(looking: Looking, run: EventRun) -> tuple[Progress, Row, Scalar, Float[Array, " E"]]:
    """The motion after the share of the step, its row, its time, and the values there."""
    system, steps, search = looking.system, looking.steps, run.search
    early, h = search.share_from_before, steps.h
    base = _where(early, run.before, run.progress)
    t, length = steps.t0 + _share_of(run, search) * h, search.share * h
    # A step from the one before begins a step earlier, and ends in that at hand.
    part = None
    if looking.schedule is not None:
        part = _PartOfSchedule(looking.schedule.parts, steps.at(run.n + 1) - t, h)
    own = _PartOfStep(steps.t0, length, steps.formulation, steps.integrator, t)
    found, iterations = one_step(system, own, part)(base, run.n + 1)
    found, row = row_after(system, found, own, run.n + 1, iterations)
    found = dataclasses.replace(
        found,
        completed=run.progress.completed + found.completed - base.completed,
        undetermined=run.progress.undetermined + found.undetermined - base.undetermined,
    )
    return found, row, t, looking.values(row, t, found)


def turn_of(looking: Looking) -> Callable[[EventRun], EventRun]:
    """A function that takes one turn: a whole step, or a part of one in search of an event."""
    steps, signs, early = looking.steps, jnp.asarray(looking.signs), looking.may_be_early
    most = jnp.asarray([event.most for event in looking.events])
    ends = jnp.asarray([event.terminal for event in looking.events])
    order = jnp.arange(len(looking.events))

    def turn(run: EventRun) -> EventRun:
        search = run.search
        found, row, t, values = _tried(looking, run)
        failed = found.result != RESULTS.successful
        stage, event = search.stage, search.event

        # A whole step: is there an event in it, or may there be two?
        crossed = passes(run.values, values, signs) & ~run.seen
        begin = _earliest(run, values, crossed, early)
        turning, vertex, grazes = _turning(run, values, ~run.seen & ~run.probed)
        probe = _probe(run, turning, vertex, early)
        whole = stage == WHOLE
        to_search = whole & jnp.any(crossed)
        to_probe = whole & ~to_search & jnp.any(turning)
        done = whole & ~to_search & ~to_probe & ~failed

        # A turning point: beyond zero, there is an event before it and one after it.
        beyond = jnp.sign(values[event]) * jnp.sign(run.values[event]) < 0.0
        after_probe = _between(run, search, values, signs)

        # The instant of an event, by its last correction.
        next_one = corrected(search, values[event])
        last = (stage == THERE - 1) & ~failed
        terminal = ends[event]
        told = last & ~terminal
        there = (stage == THERE) & ~failed
        # Another one may have happened first.
        sooner = passes(run.values, values, signs) & ~run.seen & (order != event)
        hurry = there & jnp.any(sooner)
        over = there & ~hurry
        instant = jnp.where(over, t, steps.t0 + _share_of(run, next_one) * steps.h)
        full = told & (run.counts[event] >= most[event])
        kept = (told & ~full) | over

        search = _chosen(
            (to_search, begin),
            (to_probe, probe),
            ((stage == PROBING) & beyond, after_probe),
            (stage == NARROWING, narrowed(search, values[event])),
            (hurry, _sooner(run, search, values, sooner)),
            ((stage >= CORRECTING) & (stage < THERE) & ~told, next_one),
            (told & search.again, _second(run, search)),
            otherwise=Search.none(t),
        )
        seen = jnp.where(done, False, run.seen | (told & (order == event)))
        missed = (stage == PROBING) & ~beyond
        grazed = run.grazed + (missed & (order == event)).astype(int)
        grazed = grazed + (done & grazes & ~run.noticed).astype(int)

        reached = done | over
        progress = _where(reached | failed, found, run.progress)
        result = RESULTS.where(over, RESULTS.ended_by_event, progress.result)
        result = RESULTS.where(full, RESULTS.too_many_events, result)
        progress = eqx.tree_at(
            lambda p: p.result, progress, result, is_leaf=lambda x: isinstance(x, RESULTS)
        )
        return EventRun(
            progress,
            _where(done, run.progress, run.before),
            run.n + done.astype(int),
            jnp.where(done, values, run.values),
            jnp.where(done, run.values, run.values_before),
            seen,
            jnp.where(done, False, run.probed | (to_probe & (order == probe.event))),
            search,
            jnp.where(kept, event, -1),
            instant,
            run.counts + (kept & (order == event)).astype(int),
            jnp.where(done, run.seen | run.probed, run.noticed),
            grazed,
            _where(reached | failed, row, run.row),
            jnp.where(reached | failed, t, run.t),
            reached | failed,
            run.iterations + row.iterations,
        )

    return turn


def _where(condition: Bool[Array, ""], a: PyTree, b: PyTree) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), a, b)


def _chosen(*choices: tuple[Bool[Array, ""], Search], otherwise: Search) -> Search:
    """The search of the first condition that holds."""
    found = otherwise
    for condition, search in reversed(choices):
        found = _where(condition, search, found)
    return found


def _share_of(run: EventRun, search: Search) -> Scalar:
    """How many steps after the initial time."""
    return (run.n - search.share_from_before.astype(int)).astype(search.share.dtype) + search.share


def _begin(run: EventRun, share: Scalar, may_be_early: bool) -> tuple[Bool[Array, ""], Scalar]:
    """Whether to look from the step before, and by how much the shares count on then."""
    early = (share < _EARLY) & (run.n > 0) & may_be_early
    return early, early.astype(share.dtype)


def _earliest(
    run: EventRun, values: Float[Array, " E"], crossed: Bool[Array, " E"], may_be_early: bool
) -> Search:
    """The search for the event that a chord says comes first."""
    gap = run.values - values
    share = jnp.where(crossed, run.values / jnp.where(gap == 0.0, 1.0, gap), jnp.inf)
    event = jnp.argmin(share)
    early, from_here = _begin(run, share[event], may_be_early)
    x = jnp.stack([1.0 + from_here, from_here])
    return bracketed(event, early, x, jnp.stack([values[event], run.values[event]]))


def _turning(
    run: EventRun, values: Float[Array, " E"], free: Bool[Array, " E"]
) -> tuple[Bool[Array, " E"], Float[Array, " E"], Bool[Array, " E"]]:
    """Which values turn round beyond zero within the step, by the parabola through three of them,
    and where; and which did so in the step before, where nothing was seen of it.
    """
    bend = 0.5 * (values + run.values_before) - run.values
    slope = 0.5 * (values - run.values_before)
    vertex = -0.5 * slope / jnp.where(bend == 0.0, jnp.inf, bend)
    least = run.values + 0.5 * slope * vertex
    stays = (jnp.sign(values) == jnp.sign(run.values)) & (values != 0.0)
    beyond = stays & (jnp.sign(least) * jnp.sign(run.values) < 0.0) & free
    inside = (vertex > 0.0) & (vertex < 1.0)
    return beyond & inside, vertex, beyond & (vertex <= 0.0) & (vertex > -1.0)


def _probe(
    run: EventRun, turning: Bool[Array, " E"], vertex: Float[Array, " E"], may_be_early: bool
) -> Search:
    """A look at the first turning point."""
    share = jax.lax.stop_gradient(jnp.where(turning, vertex, jnp.inf))
    event = jnp.argmin(share)
    early, from_here = _begin(run, share[event], may_be_early)
    none = Search.none(share[event])
    return dataclasses.replace(
        none,
        stage=jnp.asarray(PROBING),
        event=event,
        share=jnp.where(jnp.isfinite(share[event]), share[event] + from_here, 1.0),
        share_from_before=early,
    )


def _between(
    run: EventRun, search: Search, values: Float[Array, " E"], signs: Float[Array, " E"]
) -> Search:
    """The search on the side of a turning point beyond zero on which the event has its direction;
    of both, the first one.
    """
    event, early = search.event, search.share_from_before
    from_here = early.astype(search.share.dtype)
    goes_up = values[event] > 0.0
    first = jnp.where(signs[event] == 0.0, True, (signs[event] > 0.0) == goes_up)
    end = jnp.where(first, from_here, 1.0 + from_here)
    # Beyond it the value is back on its old side, about where it was.
    other = run.values[event]
    x, f = jnp.stack([search.share, end]), jnp.stack([values[event], other])
    turning = jax.lax.stop_gradient(jnp.stack([search.share, values[event]]))
    found = bracketed(event, early, x, f)
    return dataclasses.replace(found, turning=turning, again=signs[event] == 0.0)


def _second(run: EventRun, search: Search) -> Search:
    """The search behind a turning point, after that before it."""
    early = search.share_from_before
    share, value = search.turning
    x = jnp.stack([share, 1.0 + early.astype(share.dtype)])
    return bracketed(search.event, early, x, jnp.stack([value, run.values[search.event]]))


def _sooner(
    run: EventRun, search: Search, values: Float[Array, " E"], sooner: Bool[Array, " E"]
) -> Search:
    """The search for another event that happened before the one that would end the run."""
    event = jnp.argmax(sooner)
    early = search.share_from_before
    from_here = early.astype(search.share.dtype)
    x = jnp.stack([search.share, from_here])
    return bracketed(event, early, x, jnp.stack([values[event], run.values[event]]))
