"""A run that looks for events: what it is made of, and the step that is tried next."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from ...model.events import Event
from ...model.system import System
from ...outcomes import RESULTS
from ...results.saved_rows import Row
from ...rotations.types import Scalar
from ..controllers import Control
from ..running.one_step import FixedSteps, Progress, one_step, row_after
from ..running.schedule import InputPart, OfTime, Schedule, StepNumber, earlier
from .acting import Held, Renewal, coasted, renewed
from .commands import Commanding, Commands
from .effects import Effect
from .search import ACTING, RENEWING, Search
from .values import values_of

# Of a step: what is shorter is no step, as that would leave rounding divided by its length in
# velocities, but Taylor's series.
SHORT = 1e-4


class _PartOfStep(FixedSteps):
    """A step of another length that ends at a given time."""

    end: Scalar

    def at(self, n: StepNumber) -> Scalar:
        return self.end


class _PartOfSchedule(Schedule):
    """Inputs of a step of length h within a part of it that ends `ahead` of its end, some of them
    set by events.
    """

    ahead: Scalar
    h: Scalar
    held: Held | None

    def at(self, n: StepNumber | int, t: Scalar, h: Scalar) -> Float[Array, "3 n"]:
        given = self.given(n, t, h)
        return given if self.held is None else self.held.over(given)

    def given(self, n: StepNumber | int, t: Scalar, h: Scalar) -> Float[Array, "3 n"]:
        """Values, rates and accelerations in the part of length h that ends at t, as the run was
        given them.
        """
        found = [
            part.at(n, t, h)
            if isinstance(part, OfTime)
            else earlier(part.at(n, t + self.ahead, self.h), self.ahead)
            for part in self.parts
        ]
        none = jnp.zeros((3, 0), t.dtype)  # concatenated where there are no inputs at all
        return jnp.concatenate([none, *found], axis=1)


class ActingRun(eqx.Module):
    """What a run beside knows whose events act.

    Attributes:
        split: Whether an event has acted in the step at hand.
        share: Where in that step the last motion stands then, in steps; else zero.
        base: Where the values are known.
        fresh: Whether the step before, or this one, had such an event: none may begin before it.
        quiet: Events that have acted, whose values have stayed at zero since, (E,).
        largest: The largest magnitude of each value so far, (E,).
        held: Inputs that events have set.
    """

    split: Bool[Array, ""]
    share: Scalar
    base: Scalar
    fresh: Bool[Array, ""]
    quiet: Bool[Array, " E"]
    largest: Float[Array, " E"]
    held: Held


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
        acts: Of events that act; None where none does.
        commands: Of a controller, or None.
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
    acts: ActingRun | None = None
    commands: Commands | None = None


class Looking(eqx.Module):
    """A run that looks for events: what stays as it is.

    Attributes:
        system: The mechanism, with the names of its quantities.
        events: That are looked for.
        steps: Size and method.
        schedule: The inputs, or None.
        effects: What each event does; none where none does anything.
        commanding: The controller, or None.
    """

    system: System
    events: tuple[Event, ...]
    steps: FixedSteps
    schedule: Schedule | None
    effects: tuple[Effect, ...] = ()
    commanding: Commanding | None = None

    @property
    def may_be_early(self) -> bool:
        """Whether a step may begin before the last whole one, which had inputs of its own."""
        return self.schedule is None or not np.any(self.schedule.jumps)

    def parts(self, run: "EventRun") -> tuple[InputPart, ...]:
        """Of the schedule, in the step at hand."""
        assert self.schedule is not None
        if self.commanding is None or run.commands is None:
            return self.schedule.parts
        return self.commanding.parts(self.schedule.parts, run.commands.command, run.n + 1)

    def values(self, row: Row, t: Scalar, progress: Progress) -> Float[Array, " E"]:
        """Of every event, less the value that is passed, at an instant."""
        return values_of(self.system, self.events, row, t, progress.inputs)


def begun(
    looking: Looking, progress: Progress, row: Row, control: Control | None = None
) -> EventRun:
    """Before the first turn."""
    t0, count = looking.steps.t0, len(looking.events)
    values = looking.values(row, t0, progress)
    none, no = jnp.zeros(count, int), jnp.zeros(count, bool)
    acts = None
    if looking.effects:
        assert progress.inputs is not None
        zero, false = jnp.zeros_like(t0), jnp.asarray(False)
        acts = ActingRun(false, zero, zero, false, no, jnp.abs(values), Held.none(progress.inputs))
    commands = None
    if looking.commanding is not None and control is not None:
        assert progress.inputs is not None
        commands = Commands.begun(looking.commanding, control, row, t0, progress.inputs)
    return EventRun(
        progress=progress,
        before=progress,
        n=jnp.zeros((), int),
        values=values,
        values_before=jnp.full_like(values, jnp.nan),
        seen=no,
        probed=no,
        search=Search.none(t0),
        told=jnp.asarray(-1, int),  # a weak type would change within a loop
        instant=t0,
        counts=none,
        noticed=no,
        grazed=none,
        row=row,
        t=t0,
        saved=jnp.asarray(True),
        iterations=jnp.zeros((), int),
        acts=acts,
        commands=commands,
    )


def goes_on(run: EventRun, count: Int[Array, ""] | int) -> Bool[Array, ""]:
    """Whether there is another turn before `count` whole steps are done."""
    return (run.n < count) & (run.progress.result == RESULTS.successful)


def tried(
    looking: Looking, run: EventRun
) -> tuple[Progress, Held | None, Row, Scalar, Float[Array, " E"]]:
    """The motion after the share of the step, or anew at an event, with the inputs that events have
    set; its row, its time, and the values there.
    """
    system, steps, search, acts = looking.system, looking.steps, run.search, run.acts
    early, h = search.share_from_before, steps.h
    base = where(early, run.before, run.progress)
    t, length = steps.t0 + share_of(run, search) * h, search.share * h
    if acts is not None:
        length = length - jnp.where(early, 0.0, acts.share * h)
    # A step from the one before begins a step earlier, and ends in that at hand.
    part = None
    if looking.schedule is not None:
        held = None if acts is None else acts.held
        part = _PartOfSchedule(looking.parts(run), steps.at(run.n + 1) - t, h, held)
    least = length if acts is None else jnp.maximum(length, SHORT * h)
    own = _PartOfStep(steps.t0, least, steps.formulation, steps.integrator, t)
    if acts is None:
        found, iterations = one_step(system, own, part)(base, run.n + 1)
        now_held = None
    else:
        assert part is not None
        found, now_held, iterations = _stepped_or_renewed(looking, run, (base, own, part), length)
    found, row = row_after(system, found, own, run.n + 1, iterations)
    found = dataclasses.replace(
        found,
        completed=run.progress.completed + found.completed - base.completed,
        undetermined=run.progress.undetermined + found.undetermined - base.undetermined,
    )
    return found, now_held, row, t, looking.values(row, t, found)


def _stepped_or_renewed(
    looking: Looking,
    run: EventRun,
    step: tuple[Progress, _PartOfStep, _PartOfSchedule],
    length: Scalar,
) -> tuple[Progress, Held, Int[Array, ""]]:
    """A step of some length from a motion, or that motion anew."""
    base, own, part = step
    system, search, acts, h = looking.system, run.search, run.acts, looking.steps.h
    assert acts is not None
    held, n, t = acts.held, run.n + 1, own.end

    def stepped(base: Progress) -> tuple[Progress, Held, Int[Array, ""]]:
        found, iterations = one_step(system, own, part)(base, n)
        now = system.wound(base.angles).given(part.at(n, t, h), t)
        motion = coasted(now, own, base.motion, t - length, length)
        return (
            where(length < SHORT * h, dataclasses.replace(base, motion=motion), found),
            held,
            iterations,
        )

    def anew(base: Progress) -> tuple[Progress, Held, Int[Array, ""]]:
        acting, left = search.stage == ACTING, 1.0 - acts.share
        ahead = jnp.where(acting, 0.0, left * h)
        following = jnp.where(acting, jnp.maximum(left, SHORT) * h, h)
        given = part.given(n, t, h)
        new = Renewal(ahead, t, following, search.event, acting, given)
        return *renewed(system, own, looking.effects, (base, held), new), jnp.zeros((), int)

    again = (search.stage == ACTING) | (search.stage == RENEWING)
    return jax.lax.cond(again, anew, stepped, base)


def share_of(run: EventRun, search: Search) -> Scalar:
    """How many steps after the initial time."""
    return (run.n - search.share_from_before.astype(int)).astype(search.share.dtype) + search.share


def where(condition: Bool[Array, ""], a: PyTree, b: PyTree) -> Any:
    """One of two trees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), a, b)
