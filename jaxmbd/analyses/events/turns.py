"""The turns of a run that looks for events: each of them tries one step."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ...outcomes import RESULTS
from ...rotations.types import Scalar
from ..running.one_step import Progress
from .acting import Held
from .looking import SHORT, ActingRun, EventRun, Looking, share_of, tried, where
from .search import (
    ACTING,
    BAND,
    CORRECTING,
    NARROWING,
    PEEKING,
    PROBING,
    RENEWING,
    SHORTLY,
    THERE,
    WHOLE,
    Search,
    bracketed,
    corrected,
    narrowed,
    passes,
)
from .values import signs_of, which_act

# An event at less than this share of a step is looked for from the step before: very short steps
# leave rounding divided by their square in accelerations.
_EARLY = 0.3


class _Turn(eqx.Module):
    """What a turn has found, that the next state of a run follows from.

    Attributes:
        done: Whether a whole step is done.
        commits: Whether an event was reached that acts.
        acted: Whether it has.
        chains: Whether another one is due at the same instant.
        event: Which of them is due.
        rests: Whether the rest of its step is done.
        peeked: Whether values shortly after it are known.
        values: At the end of the turn.
    """

    done: Bool[Array, ""]
    commits: Bool[Array, ""]
    acted: Bool[Array, ""]
    chains: Bool[Array, ""]
    event: Int[Array, ""]
    rests: Bool[Array, ""]
    peeked: Bool[Array, ""]
    values: Float[Array, " E"]


def turn_of(looking: Looking) -> Callable[[EventRun], EventRun]:
    """A function that takes one turn: a whole step, or a part of one in search of an event."""
    steps, signs = looking.steps, jnp.asarray(signs_of(looking.events))
    most = jnp.asarray([event.most for event in looking.events])
    ends = jnp.asarray([event.terminal for event in looking.events])
    acting = jnp.asarray(which_act(looking.events))
    order = jnp.arange(len(looking.events))

    def turn(run: EventRun) -> EventRun:
        search, acts = run.search, run.acts
        found, held, row, t, values = tried(looking, run)
        failed = found.result != RESULTS.successful
        stage, event = search.stage, search.event
        acts_here = jnp.asarray(False) if acts is None else acting[event]

        # A whole step: is there an event in it, or may there be two?
        crossed = passes(run.values, values, signs) & ~run.seen
        begin = _earliest(looking, run, values, crossed)
        turning, vertex, grazes = _turning(run, values, ~run.seen & ~run.probed)
        probe = _probe(looking, run, turning, vertex)
        whole = stage == WHOLE
        to_search = whole & jnp.any(crossed)
        to_probe = whole & ~to_search & jnp.any(turning)
        ended = whole & ~to_search & ~to_probe & ~failed
        rests = jnp.asarray(False) if acts is None else ended & acts.split
        done = (ended & ~rests) | ((stage == RENEWING) & ~failed)

        # A turning point: beyond zero, there is an event before it and one after it.
        beyond = jnp.sign(values[event]) * jnp.sign(run.values[event]) < 0.0
        after_probe = _between(run, search, values, signs)

        # The instant of an event, by its last correction.
        next_one = corrected(search, values[event])
        if acts is not None:
            least = jnp.where(acts.split, acts.share, -jnp.inf)
            next_one = dataclasses.replace(next_one, share=jnp.maximum(next_one.share, least))
        last = (stage == THERE - 1) & ~failed
        told = last & ~(ends[event] | acts_here)
        there = (stage == THERE) & ~failed
        # Another one may have happened first, by more than rounding.
        passed = jnp.abs(values) > BAND * jnp.abs(run.values)
        sooner = crossed & (order != event) & passed
        hurry = there & jnp.any(sooner)
        arrived = there & ~hurry
        commits, acted = arrived & acts_here, (stage == ACTING) & ~failed
        over = (arrived & ~acts_here) | (acted & ends[event])
        # What passes at that instant, or by what happens there, is due at once.
        chains = acted & ~over & jnp.any(crossed)
        due = jnp.where(chains, jnp.argmax(crossed), event)
        instant = jnp.where(arrived | chains, t, steps.t0 + share_of(run, next_one) * steps.h)
        full = (told | commits | chains) & (run.counts[due] >= most[due])
        kept = ((told | commits | chains) & ~full) | (arrived & ~acts_here)

        peeked = (stage == PEEKING) & ~failed
        now = _Turn(done, commits, acted, chains, due, rests, peeked, values)
        search = _chosen(
            (to_search, begin),
            (to_probe, probe),
            ((stage == PROBING) & beyond, after_probe),
            (stage == NARROWING, narrowed(search, values[event])),
            (hurry, _sooner(run, search, values, sooner)),
            ((stage >= CORRECTING) & (stage < THERE) & ~told, next_one),
            (told & search.again, _second(run, search)),
            *([] if acts is None else _after_event(acts, search, now)),
            otherwise=Search.none(t),
        )
        seen = jnp.where(done | commits, False, run.seen | (told & (order == event)))
        missed = (stage == PROBING) & ~beyond
        grazed = run.grazed + (missed & (order == event)).astype(int)
        grazed = grazed + (done & grazes & ~run.noticed).astype(int)

        reached = done | over
        progress = _progress(run, found, now, over, failed)
        result = RESULTS.where(full, RESULTS.too_many_events, progress.result)
        progress = dataclasses.replace(progress, result=result)
        new = dataclasses.replace(
            run,
            progress=progress,
            before=where(done, run.progress, run.before),
            n=run.n + done.astype(int),
            values=jnp.where(done, values, run.values),
            values_before=jnp.where(done, run.values, run.values_before),
            seen=seen,
            probed=jnp.where(done, False, run.probed | (to_probe & (order == probe.event))),
            search=search,
            told=jnp.where(kept, due, -1),
            instant=instant,
            counts=run.counts + (kept & (order == due)).astype(int),
            noticed=jnp.where(done, run.seen | run.probed, run.noticed),
            grazed=grazed,
            row=where(reached | failed, row, run.row),
            t=jnp.where(reached | failed, t, run.t),
            saved=reached | failed,
            iterations=run.iterations + row.iterations,
        )
        if acts is not None and held is not None:
            new = _acted(looking, run, new, now, where(acted, held, acts.held))
        return _commanded(looking, new, done)

    return turn


def _commanded(looking: Looking, run: EventRun, done: Bool[Array, ""]) -> EventRun:
    """With the commands of the next step, where one is done."""
    commanding, commands, inputs = looking.commanding, run.commands, run.progress.inputs
    if commanding is None or commands is None or inputs is None:
        return run
    commands = jax.lax.cond(
        done,
        lambda before: before.next(commanding, run.row, (run.n, run.t), inputs),
        lambda before: before,
        commands,
    )
    return dataclasses.replace(run, commands=commands)


def _progress(
    run: EventRun,
    found: Progress,
    now: _Turn,
    over: Bool[Array, ""],
    failed: Bool[Array, ""],
) -> Progress:
    """The motion from which the next turn starts."""
    goes_on = now.done | over | now.commits | now.acted | now.rests | failed
    progress = where(goes_on, found, run.progress)
    # A step in two parts is one.
    anew = now.done & (run.search.stage == RENEWING)
    completed = run.progress.completed + anew.astype(int)
    completed = jnp.where((now.done | over) & ~anew, found.completed, completed)
    result = RESULTS.where(over, RESULTS.ended_by_event, progress.result)
    return dataclasses.replace(progress, completed=completed, result=result)


def _acted(looking: Looking, run: EventRun, new: EventRun, now: _Turn, held: Held) -> EventRun:
    """What events that act change of the next state of a run."""
    acts, signs = run.acts, jnp.asarray(signs_of(looking.events))
    assert acts is not None
    order = jnp.arange(len(looking.events))
    anew, values = run.search.stage == RENEWING, now.values
    fired = (now.commits | now.chains) & (order == now.event)
    # Those that passed meanwhile, together with one that acted, are still to come.
    passed = passes(run.values, values, signs) & ~run.seen & (now.peeked | (now.done & anew))
    least = jnp.sign(run.values) * jnp.finfo(values.dtype).tiny
    known = now.done | now.peeked
    quiet = (acts.quiet | fired) & ~(known & (jnp.abs(values) > BAND * acts.largest))
    settled = jnp.where(passed, least, jnp.where(quiet, 0.0, values))
    kept = jnp.where(fired | (now.commits & run.seen), 0.0, run.values)
    early = run.search.share_from_before.astype(acts.share.dtype)
    share = jnp.where(now.commits, run.search.share - early, acts.share)
    share = jnp.where(now.rests, 1.0, jnp.where(now.done, 0.0, share))
    base = jnp.where(now.peeked, run.search.share, jnp.where(now.commits, share, acts.base))
    no_before = now.commits | (now.done & anew)
    return dataclasses.replace(
        new,
        values=jnp.where(known, settled, kept),
        values_before=jnp.where(no_before, jnp.nan, new.values_before),
        grazed=new.grazed + _through(looking, run, now).astype(int),
        acts=ActingRun(
            split=(acts.split | now.commits) & ~now.done,
            share=share,
            base=jax.lax.stop_gradient(jnp.where(now.done, 0.0, base)),
            fresh=jnp.where(now.done, anew, acts.fresh | now.commits),
            quiet=quiet,
            largest=jnp.maximum(acts.largest, jnp.where(now.done, jnp.abs(values), 0.0)),
            held=held,
        ),
    )


def _through(looking: Looking, run: EventRun, now: _Turn) -> Bool[Array, " E"]:
    """Bounces after which the value is beyond zero all the same: too slow for the step."""
    acts = run.acts
    assert acts is not None
    bounces = np.asarray([bool(effect.bounces) for effect in looking.effects])
    beyond = now.values * jnp.asarray(signs_of(looking.events)) > BAND * acts.largest
    return (now.peeked | now.rests) & acts.quiet & beyond & jnp.asarray(bounces)


def _after_event(
    acts: ActingRun, search: Search, now: _Turn
) -> list[tuple[Bool[Array, ""], Search]]:
    """What comes next where an event acts."""
    none, one = Search.none(acts.share), jnp.ones_like(acts.share)
    early = search.share_from_before.astype(acts.share.dtype)
    peek = acts.share + SHORTLY * (one - acts.share)

    def then(stage: int, share: Scalar) -> Search:
        return dataclasses.replace(none, stage=jnp.asarray(stage), event=search.event, share=share)

    at_end = now.acted & (one - acts.share < SHORT)
    return [
        (now.commits, then(ACTING, search.share - early)),
        (now.chains, dataclasses.replace(then(ACTING, acts.share), event=now.event)),
        (now.rests | at_end, then(RENEWING, one)),
        (now.acted, then(PEEKING, peek)),
    ]


def _chosen(*choices: tuple[Bool[Array, ""], Search], otherwise: Search) -> Search:
    """The search of the first condition that holds."""
    found = otherwise
    for condition, search in reversed(choices):
        found = where(condition, search, found)
    return found


def _begin(looking: Looking, run: EventRun, share: Scalar) -> tuple[Bool[Array, ""], Scalar]:
    """Whether to look from the step before, and where on the scale of shares the values are known
    then.
    """
    early = (share < _EARLY) & (run.n > 0) & looking.may_be_early
    if run.acts is not None:
        early = early & ~run.acts.fresh
    return early, _start(run, early)


def _start(run: EventRun, early: Bool[Array, ""]) -> Scalar:
    start = early.astype(run.t.dtype)
    return start if run.acts is None else start + run.acts.base


def _earliest(
    looking: Looking, run: EventRun, values: Float[Array, " E"], crossed: Bool[Array, " E"]
) -> Search:
    """The search for the event that a chord says comes first; of those that act or end the run, if
    there are any: others count only if they are sooner.
    """
    first = which_act(looking.events) & (len(looking.effects) > 0)
    if np.any(first):
        first = first | np.asarray([event.terminal for event in looking.events])
        crossed = crossed & (jnp.asarray(first) | ~jnp.any(crossed & first))
    gap = run.values - values
    share = run.values / jnp.where(gap == 0.0, 1.0, gap)
    if run.acts is not None:
        share = run.acts.base + (1.0 - run.acts.base) * share
    share = jnp.where(crossed, share, jnp.inf)
    event = jnp.argmin(share)
    early, start = _begin(looking, run, share[event])
    x = jnp.stack([1.0 + early.astype(start.dtype), start])
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
    looking: Looking, run: EventRun, turning: Bool[Array, " E"], vertex: Float[Array, " E"]
) -> Search:
    """A look at the first turning point."""
    share = jax.lax.stop_gradient(jnp.where(turning, vertex, jnp.inf))
    event = jnp.argmin(share)
    early, from_here = _begin(looking, run, share[event])
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
    goes_up = values[event] > 0.0
    first = jnp.where(signs[event] == 0.0, True, (signs[event] > 0.0) == goes_up)
    end = jnp.where(first, _start(run, early), 1.0 + early.astype(search.share.dtype))
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
    """The search for another event that happened before the one that acts or ends the run."""
    event = jnp.argmin(jnp.where(sooner, run.values / (run.values - values), jnp.inf))
    early = search.share_from_before
    x = jnp.stack([search.share, _start(run, early)])
    return bracketed(event, early, x, jnp.stack([values[event], run.values[event]]))
