"""Events that act in a run whose steps are chosen.

A step in which such an event happens is not taken: on the curve between its ends the instant is
found nearly, then as the root of a step from the same beginning, one evaluation a turn.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...model.events import Event
from ...model.system import System
from ...outcomes import RESULTS
from ...results.saved_rows import Row, make_row
from ...rotations.types import Scalar
from ..events.acting import Held, Renewal, coasted, renewed
from ..events.between_steps import PARTS, Acted
from ..events.effects import Effect
from ..events.looking import SHORT, where
from ..events.runs import picked
from ..events.search import (
    ACTING,
    BAND,
    CORRECTING,
    NARROWING,
    SHORTLY,
    THERE,
    WHOLE,
    Search,
    bracketed,
    corrected,
    narrowed,
    passes,
)
from ..events.values import signs_of, values_of, which_act
from ..running import one_step
from .path import Path, RunInputs, row_between
from .steps import ActingEvents, Progress, Run, Tried, first_length, growth, proposed, tried


class Switching(eqx.Module):
    """The events of a run some of which act.

    Attributes:
        system: The mechanism, with the names of its quantities.
        events: All of them.
        effects: What each does.
    """

    system: System
    events: tuple[Event, ...]
    effects: tuple[Effect, ...]

    def values(self, row: Row, t: Scalar, inputs: RunInputs) -> Float[Array, " E"]:
        """Of every event, less the value that is passed, at an instant."""
        return values_of(self.system, self.events, row, t, inputs.at(t))


def acting_from(run: Run, switching: Switching, first: Row) -> ActingEvents:
    """What is known before the first turn."""
    inputs = RunInputs(run.schedule)
    given = inputs.at(run.t0)
    assert given is not None
    values = switching.values(first, run.t0, inputs)
    none, no = jnp.zeros(values.shape, int), jnp.zeros(values.shape, bool)
    return ActingEvents(
        held=Held.none(given),
        values=values,
        quiet=no,
        fired=no,
        largest=jnp.abs(values),
        search=Search.none(run.t0),
        span=jnp.zeros_like(run.t0),
        told=jnp.asarray(-1, int),  # a weak type would change within a loop
        counts=none,
        through=none,
    )


class _Turn(eqx.Module):
    """What a turn has found, that the next state of a run follows from.

    Attributes:
        found: The end of the step, or the motion anew.
        t: Its time [s].
        h: Length of the step [s].
        held: Inputs that events have set.
        values: Of every event there, less the value that is passed, (E,).
        shortly: Shortly after it, where an event has acted, (E,).
        restart: Length of the first step from there [s].
        happens: Whether an event acts in a whole step, which is not taken then.
        begin: The search for it.
        taken: Whether a whole step is done.
        landed: Whether an event was reached that acts.
        chains: Whether another one is due at the same instant as one that has acted.
        due: Which of them is.
        goes_on: Whether all that is due at an instant has been done.
        over: Whether the run ends with it.
        full: Whether more events are due than are kept.
    """

    found: Tried
    t: Scalar
    h: Scalar
    held: Held
    values: Float[Array, " E"]
    shortly: Float[Array, " E"]
    restart: Scalar
    happens: Bool[Array, ""]
    begin: Search
    taken: Bool[Array, ""]
    landed: Bool[Array, ""]
    chains: Bool[Array, ""]
    due: Int[Array, ""]
    goes_on: Bool[Array, ""]
    over: Bool[Array, ""]
    full: Bool[Array, ""]


def turn_in_search(run: Run, switching: Switching, p: Progress) -> Progress:
    """A turn: a step, taken where it is good enough and no event acts within it; a part of one, in
    search of that event; or the motion anew there.
    """
    turn = _turned(run, switching, p)
    stage, found = _acts(p).search.stage, turn.found
    whole, moves = stage == WHOLE, turn.taken | turn.landed | turn.goes_on | turn.chains
    motion, row = where(moves, (found.motion, found.row), (p.motion, p.row))
    h = jnp.where(whole, turn.h * jnp.where(turn.happens, 1.0, growth(run, found)), p.h)
    h = jax.lax.stop_gradient(jnp.where(turn.goes_on, turn.restart, h))
    refused = whole & ~found.good
    fails = jnp.where(whole, refused & (h < 1e-9 * (run.t_end - run.t0)), ~found.solved)
    outcome = found.outcome
    why = RESULTS.where(outcome == RESULTS.successful, RESULTS.step_too_small, outcome)
    result = RESULTS.where(fails, why, p.result)
    result = RESULTS.where(turn.over, RESULTS.ended_by_event, result)
    result = RESULTS.where(turn.full, RESULTS.too_many_events, result)
    return Progress(
        motion,
        row,
        jnp.where(moves, turn.t, p.t),
        h,
        p.accepted + (turn.taken | turn.landed).astype(int),
        p.rejected + refused.astype(int),
        result,
        _events_after(switching, _acts(p), turn, moves),
    )


def _turned(run: Run, switching: Switching, p: Progress) -> _Turn:
    """The step that is due, and what happens in it."""
    acts = _acts(p)
    search, held = acts.search, acts.held
    stage, event = search.stage, search.event
    whole, anew = stage == WHOLE, stage == ACTING
    least = SHORT * jax.lax.stop_gradient(p.h)
    h = jnp.where(whole, proposed(run, p), search.share * acts.span)
    h = jnp.where(anew, 0.0, h)
    # The last instant is met exactly.
    t = jnp.where(whole & (h == run.t_end - p.t), run.t_end, p.t + h)

    def stepped(p: Progress) -> tuple[Tried, Held, Float[Array, " E"], Scalar]:
        found = tried(run, p, (t, h), RunInputs(run.schedule, held), least)
        return found, held, jnp.zeros_like(acts.values), p.h

    found, held, shortly, restart = jax.lax.cond(
        anew, lambda p: _renewed(run, switching, p), stepped, p
    )
    values = switching.values(found.row, t, RunInputs(run.schedule, held))
    values = jnp.where(acts.quiet & _still(acts, values) & ~anew, 0.0, values)
    candidate = found.good & whole
    happens, begin = jax.lax.cond(
        candidate,
        lambda: _first(run, switching, p, found.row, (t, h, values)),
        lambda: (jnp.asarray(False), Search.none(t)),
    )
    landed, acted = (stage == THERE) & found.solved, anew & found.solved
    # What passes there with it, or by what happens there, is due at once.
    ends = jnp.asarray([event.terminal for event in switching.events])
    crossed = passes(acts.values, values, jnp.asarray(signs_of(switching.events))) & ~acts.fired
    crossed = crossed & jnp.asarray(which_act(switching.events))
    over = acted & ends[event]
    chains = acted & ~over & jnp.any(crossed)
    due = jnp.where(chains, jnp.argmax(crossed), event)
    most = jnp.asarray([event.most for event in switching.events])
    full = (landed | chains) & (acts.counts[due] >= most[due])
    flags = candidate & ~happens, landed, chains, due, acted & ~chains, over, full
    return _Turn(found, t, h, held, values, shortly, restart, happens, begin, *flags)


def _events_after(
    switching: Switching, acts: ActingEvents, turn: _Turn, moves: Bool[Array, ""]
) -> ActingEvents:
    """What the next turn knows of events."""
    signs, values = jnp.asarray(signs_of(switching.events)), turn.values
    due = turn.landed | turn.chains
    fires = due & (jnp.arange(len(switching.events)) == turn.due)
    search, stage = acts.search, acts.search.stage
    better = corrected(search, values[search.event])
    better = dataclasses.replace(better, share=jnp.maximum(better.share, 0.0))
    none = Search.none(turn.t)
    then = dataclasses.replace(none, stage=jnp.asarray(ACTING), event=turn.due)
    search = where((stage >= CORRECTING) & (stage < THERE), better, search)
    search = where(due, then, where(turn.goes_on, none, search))
    # What has acted is at zero: shortly after it, it has a sign.
    after = jnp.where(acts.fired, turn.shortly, values)
    beyond = acts.fired & (turn.shortly * signs > BAND * acts.largest)
    bounces = jnp.asarray([bool(effect.bounces) for effect in switching.effects])
    quiet = acts.quiet & (_still(acts, values) | ~turn.taken)
    return ActingEvents(
        held=turn.held,
        values=jnp.where(turn.taken, values, jnp.where(turn.goes_on, after, acts.values)),
        quiet=quiet | fires,
        fired=(acts.fired & ~(turn.goes_on | turn.taken)) | fires,
        largest=jnp.maximum(acts.largest, jnp.where(moves, jnp.abs(values), 0.0)),
        search=where(turn.happens, turn.begin, search),
        span=jax.lax.stop_gradient(jnp.where(turn.happens, turn.h, acts.span)),
        told=jnp.where(due & ~turn.full, turn.due, -1),
        counts=acts.counts + (fires & ~turn.full).astype(int),
        through=acts.through + (turn.goes_on & beyond & bounces).astype(int),
    )


def _acts(p: Progress) -> ActingEvents:
    assert p.acts is not None
    return p.acts


def _still(acts: ActingEvents, values: Float[Array, " E"]) -> Bool[Array, " E"]:
    """Which values are at zero but for rounding."""
    return jnp.abs(values) <= BAND * acts.largest


def _renewed(
    run: Run, switching: Switching, p: Progress
) -> tuple[Tried, Held, Float[Array, " E"], Scalar]:
    """The motion anew where an event acts, with the inputs that are held then; the values of all
    events shortly after it; and the length of the first step from there.
    """
    acts, t, formulation = _acts(p), p.t, run.formulation
    h = first_length(run, p.row, t)
    steps = run.of_size(h)
    now = RunInputs(run.schedule, acts.held)
    given, zero = RunInputs(run.schedule).at(t), jnp.zeros((), int)
    assert given is not None
    before = one_step.Progress(p.motion, p.row.angles, zero, zero, p.result, now.at(t))
    new = Renewal(jnp.zeros_like(t), t, h, acts.search.event, jnp.asarray(True), given)
    progress, held = renewed(run.system, steps, switching.effects, (before, acts.held), new)
    after = RunInputs(run.schedule, held)

    def row_of(motion: one_step.Motion, t: Scalar) -> Row:
        system = one_step.holding(after.of(run.system.wound(p.row.angles), t), motion)
        numbers = motion.q, motion.u, motion.a, motion.lam, zero, jnp.asarray(True)
        return make_row(formulation, system, *numbers)

    motion, ahead = progress.motion, SHORTLY * h
    row = row_of(motion, t)
    found = Tried(motion, row, jnp.zeros_like(t), jnp.asarray(True), progress.result)
    system = after.of(run.system.wound(p.row.angles), t)
    shortly = t + ahead
    peeked = row_of(coasted(system, steps, motion, shortly, ahead), shortly)
    values = switching.values(peeked, shortly, after)
    values = jnp.where(_still(acts, values), 0.0, values)
    return found, held, jax.lax.stop_gradient(values), h


def _first(
    run: Run,
    switching: Switching,
    p: Progress,
    end: Row,
    at_end: tuple[Scalar, Scalar, Float[Array, " E"]],
) -> tuple[Bool[Array, ""], Search]:
    """Whether an event acts within a step, and the search for the first that does, at the share
    where the curve between the step's ends has it.
    """
    acts, (t, h, last) = _acts(p), jax.lax.stop_gradient(at_end)
    begin, values, held = jax.lax.stop_gradient((p.row, acts.values, acts.held))
    end, begin_t = jax.lax.stop_gradient((end, p.t))
    acting, signs = (
        jnp.asarray(which_act(switching.events)),
        jnp.asarray(signs_of(switching.events)),
    )
    two = jax.tree.map(lambda a, b: jnp.stack([a, b]), (begin, held), (end, held))
    here = Path(jnp.stack([begin_t, t]), two[0], t, jnp.asarray(True), two[1])
    inputs, zero = RunInputs(run.schedule, held), jnp.zeros((), int)

    def at(share: Scalar) -> Float[Array, " E"]:
        time = begin_t + share * h
        row, _ = row_between(run.system, run.schedule, here, time, zero)
        found = switching.values(row, time, inputs)
        return jnp.where(acts.quiet & _still(acts, found), 0.0, found)

    shares = jnp.arange(PARTS + 1, dtype=t.dtype) / PARTS
    inner = jax.vmap(at)(shares[1:-1])
    known = jnp.concatenate([values[None], inner, last[None]])
    crossed = jax.vmap(lambda a, b: passes(a, b, signs))(known[:-1], known[1:])
    crossed = crossed & acting[None]
    happens = jnp.any(crossed)
    part = jnp.argmax(jnp.any(crossed, axis=1))
    ends = (shares[part], known[part]), (shares[part + 1], known[part + 1])

    def between(crossed: Array, early: tuple, late: tuple) -> Search:
        """The search between two shares for what a chord says is first of what passes."""
        (x0, f0), (x1, f1) = early, late
        gap = f0 - f1
        event = jnp.argmin(jnp.where(crossed, f0 / jnp.where(gap == 0.0, 1.0, gap), jnp.inf))
        x, f = jnp.stack([x1, x0]), jnp.stack([f1[event], f0[event]])
        return bracketed(event, jnp.asarray(False), x, f)

    def narrow(search: Search) -> Search:
        found = at(search.share)
        # Another one may have happened first, by more than rounding.
        passed = jnp.abs(found) > BAND * jnp.abs(ends[0][1])
        order = jnp.arange(len(found))
        sooner = passes(ends[0][1], found, signs) & acting & passed & (order != search.event)
        closed = search.stage == CORRECTING
        hurry = closed & jnp.any(sooner)
        other = between(sooner, ends[0], (search.share, found))
        done = dataclasses.replace(search, stage=search.stage + 1)
        new = narrowed(search, found[search.event])
        return where(hurry, other, where(closed, done, new))

    search = between(crossed[part], *ends)
    search = jax.lax.while_loop(
        lambda s: happens & ((s.stage == NARROWING) | (s.stage == CORRECTING)), narrow, search
    )
    return happens, dataclasses.replace(search, stage=jnp.asarray(CORRECTING))


def acted_instants(path: Path, events: tuple[Event, ...]) -> Acted | None:
    """The instants at which events have acted, (E, most), and how often each has; None where none
    acts.
    """
    told = path.told
    if told is None:
        return None
    most = max(event.most for event in events)
    found = [picked(path.knots, told == e, most) for e in range(len(events))]
    counts = [jnp.sum(told == e) for e in range(len(events))]
    assert path.through is not None
    return Acted(jnp.stack(found), jnp.stack(counts), path.through)
