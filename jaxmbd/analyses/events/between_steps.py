"""Events of a run with steps of chosen sizes: on the curve through the ends of its steps, which is
what rows at any time are taken from.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ...model.events import Event
from ...model.system import System
from ...outcomes import RESULTS
from ...results.events import EventTimes, before
from ...results.saved_rows import Row, make_solution
from ...results.solution import Solution
from ...rotations.types import Scalar
from .kinks import Kink
from .search import BAND, CORRECTIONS, NARROWING, bracketed, corrected, narrowed, passes
from .values import signs_of, values_of, which_act

# Of every step: chosen steps are long, and a value may pass and come back within one.
PARTS = 4


class Curve(eqx.Module):
    """A motion between the ends of steps.

    Attributes:
        system: The mechanism, with the names of its quantities.
        knots: Times at the ends of steps; what was rejected repeats one, (K,) [s].
        reached: The time that was reached [s].
        row_in: The row at a time in the k-th step, `row_in(t, k)`.
        inputs_in: The inputs at a time in the k-th step, `inputs_in(t, k)`, or None.
    """

    system: System
    knots: Float[Array, " K"]
    reached: Scalar
    row_in: Callable[[Scalar, Int[Array, ""]], Row]
    inputs_in: Callable[[Scalar, Int[Array, ""]], Float[Array, "3 n"] | None]

    def values(self, events: tuple[Event, ...], t: Scalar, k: Int[Array, ""]) -> Float[Array, " E"]:
        """Of all events, at a time in the k-th step."""
        return values_of(self.system, events, self.row_in(t, k), t, self.inputs_in(t, k))


class Acted(eqx.Module):
    """Instants at which events have acted while the run went on.

    Attributes:
        t: Of each, NaN beyond the last, (E, most) [s].
        counts: How many, (E,).
        through: Bounces of each after which its value was beyond zero all the same, (E,).
    """

    t: Float[Array, "E most"]
    counts: Int[Array, " E"]
    through: Int[Array, " E"]


def with_events(
    solution: Solution, curve: Curve, events: tuple[Event, ...], acted: Acted | None = None
) -> Solution:
    """The solution with the instants of its events, ended at the first that ends it; those of
    events that act are known.
    """
    most = max(event.most for event in events)
    signs = jnp.asarray(signs_of(events))
    steps = len(curve.knots) - 1
    part = (jnp.arange(PARTS) / PARTS)[None, :]
    begin, end = curve.knots[:-1, None], curve.knots[1:, None]
    times = jnp.concatenate([(begin + part * (end - begin)).reshape(-1), curve.knots[-1:]])
    of_step = np.minimum(np.arange(len(times)) // PARTS, steps - 1)
    values = jax.vmap(lambda t, k: curve.values(events, t, k))(times, jnp.asarray(of_step))
    known = times[1:] <= curve.reached
    passed = jax.vmap(lambda a, b: passes(a, b, signs))(values[:-1], values[1:])
    crossed = passed & known[:, None]
    touches = _touches(times, values, times <= curve.reached)
    acting = which_act(events)[None]
    if acted is not None:
        # At the instant of an action values may jump; what is at zero there is so but for rounding.
        band = BAND * jnp.max(jnp.abs(values), axis=0, keepdims=True)
        jumped = jnp.abs(values[1:] - values[:-1]) > band
        crossed = crossed & ((times[1:] > times[:-1])[:, None] | jumped) & ~acting
        # No parabola runs through an action, and what a joint holds at zero does not touch it.
        touches = touches & ~jnp.isin(times, acted.t.reshape(-1))[:, None]
        touches = touches & (jnp.abs(values) > band)

    def instants(e: int) -> Float[Array, " most"]:
        (place,) = jnp.nonzero(crossed[:, e], size=most, fill_value=-1)
        bounds = times[place], times[place + 1], values[place, e], values[place + 1, e]
        step = jnp.asarray(of_step)[place]
        found = jax.vmap(lambda x, k: _instant(curve, events[e], x, k))(bounds, step)
        return jnp.where(place < 0, jnp.nan, found)

    counts, grazed = jnp.sum(crossed, axis=0), jnp.sum(touches, axis=0)
    found = jnp.stack([instants(e) for e in range(len(events))])
    if acted is not None:
        found = jnp.where(acting.T, acted.t, found)
        counts = jnp.where(acting[0], acted.counts, counts)
        # A kink that is touched costs nothing.
        bends = np.asarray([isinstance(event.function, Kink) for event in events])
        grazed = jnp.where(bends, 0, grazed + acted.through)
    kept = jnp.asarray([event.most for event in events])
    found = jnp.where(jnp.arange(most)[None, :] < kept[:, None], found, jnp.nan)
    told = EventTimes(
        tuple(event.name for event in events), found, jnp.minimum(counts, kept), grazed
    )
    ends = np.asarray([event.terminal for event in events])
    last = jnp.min(jnp.where(jnp.isnan(found[:, 0]) | ~ends, jnp.inf, found[:, 0]))
    over = jnp.any((counts > kept) & ~ends)
    result = RESULTS.where(over, RESULTS.too_many_events, solution.result)
    result = RESULTS.where(jnp.isfinite(last), RESULTS.ended_by_event, result)
    solution = dataclasses.replace(solution, result=result, events=before(told, last))
    return _ended(solution, curve, last) if np.any(ends) else solution


def _instant(
    curve: Curve, event: Event, bounds: tuple[Array, Array, Array, Array], step: Int[Array, ""]
) -> Scalar:
    """The instant between two times with values of different signs, with derivatives."""
    begin, end, f_begin, f_end = bounds
    one, zero = jnp.ones_like(begin), jnp.zeros_like(begin)

    def value(share: Scalar) -> Scalar:
        return curve.values((event,), begin + share * (end - begin), step)[0]

    x, f = jnp.stack([one, zero]), jnp.stack([f_end, f_begin])
    search = bracketed(jnp.zeros((), int), jnp.asarray(False), x, f)
    search = jax.lax.while_loop(
        lambda s: s.stage == NARROWING,
        lambda s: narrowed(s, value(s.share)),
        jax.lax.stop_gradient(search),
    )
    search = jax.lax.stop_gradient(search)
    for _ in range(CORRECTIONS):
        search = corrected(search, value(search.share))
    return begin + search.share * (end - begin)


def _touches(
    times: Float[Array, " n"], values: Float[Array, "n E"], known: Bool[Array, " n"]
) -> Bool[Array, "n E"]:
    """Where the parabola through a value and those at the times before and after it turns beyond
    zero, which they do not pass.
    """
    n = jnp.arange(len(times), dtype=jnp.int32)
    before = jnp.searchsorted(times, times, side="left") - 1
    after = jnp.searchsorted(times, times, side="right")
    # Each time once.
    first = (before == n - 1) & (before >= 0) & (after < len(times))
    after = jnp.minimum(after, len(times) - 1)
    a, b, c = values[jnp.maximum(before, 0)], values, values[after]
    bend, slope = 0.5 * (c + a) - b, 0.5 * (c - a)
    vertex = -0.5 * slope / jnp.where(bend == 0.0, jnp.inf, bend)
    least = b + 0.5 * slope * vertex
    same = (jnp.sign(a) == jnp.sign(b)) & (jnp.sign(b) == jnp.sign(c)) & (b != 0.0)
    inside = (vertex > -0.5) & (vertex <= 0.5)
    there = (first & known[after])[:, None]
    return same & inside & (jnp.sign(least) != jnp.sign(b)) & there


def _ended(solution: Solution, curve: Curve, last: Scalar) -> Solution:
    """With the row of the event in the place of the next one, and none after it."""
    there = jnp.isfinite(last)
    t = jnp.where(there, last, solution.t[-1])
    # After what is done there.
    k = jnp.clip(jnp.searchsorted(curve.knots, t, side="right") - 1, 0, len(curve.knots) - 2)
    row, given = curve.row_in(t, k), curve.inputs_in(t, k)
    rows = jax.tree.map(lambda x: x[None], row)
    inputs = None if given is None else given[None]
    one = make_solution(t[None], rows, solution.result, {}, inputs=inputs)
    place = jnp.searchsorted(solution.t, t, side="left")
    number = jnp.arange(len(solution.t), dtype=place.dtype)

    def of(x: Array, new: Array) -> Array:
        blank = jnp.nan if jnp.issubdtype(x.dtype, jnp.inexact) else 0
        at = number.reshape(-1, *[1] * (x.ndim - 1))
        after = jnp.where(at > place, jnp.asarray(blank, x.dtype), x)
        return jnp.where(there, jnp.where(at == place, new, after), x)

    changes = {}
    for name in solution.rows_by_name():
        changes[name] = of(getattr(solution, name), getattr(one, name))
    changes["t"] = jnp.where(there & (number == place), t, solution.t)
    return dataclasses.replace(solution, **changes)
