"""Which gaps close within a part of a step, when, and how fast."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ...complementarity import AbstractGuards
from ...equations.laws import LawRows, gaps
from ...formulations.base import AbstractFormulation, Coordinates
from ...model.system import System
from ...rotations.types import Array, Scalar
from ...xla.indexing import take
from .sliding_ends import TINY

# A flight that is shorter than this part of a step is none: the impact before it is plastic.
SHORTEST_FLIGHT = 0.25
# Newton iterations for the instant of an impact, from the root of the parabola.
_ITERATIONS = 6


class Closing(NamedTuple):
    """Gaps that close, by place.

    Attributes:
        closes: Whether the gap closes within the time considered, (c,).
        speed: Its approach speed then, not negative, (c,) [m/s] or [rad/s].
        time: From the beginning on, (c,) [s].
    """

    closes: Bool[Array, " c"]
    speed: Float[Array, " c"]
    time: Float[Array, " c"]


def closing(
    gap: Float[Array, " c"],
    rate: Float[Array, " c"],
    bend: Float[Array, " c"],
    closed: Bool[Array, " c"],
    slow: Float[Array, " c"],
    span: Scalar,
) -> Closing:
    """What closes within `span`, for gaps g + ġ t + b t²/2.

    A closed gap counts where it approaches, or opens and returns, faster than `slow` in each case.
    A gap that is negative for a moment in the middle is found too.
    """
    squared = rate**2 - 2.0 * bend * gap
    root = jnp.sqrt(jnp.maximum(squared, 0.0) + TINY)
    hops = closed & (rate > slow) & (bend < 0.0)
    back = jnp.where(hops, -2.0 * rate / jnp.where(bend < 0.0, bend, -1.0), 0.0)
    below = root - rate
    first = jnp.where(below > 0.0, 2.0 * gap / jnp.where(below > 0.0, below, 1.0), 0.0)
    later = gap + span * (rate + 0.5 * span * bend)
    dips = (rate < 0.0) & (-rate < bend * span) & (squared > 0.0)
    opens = closed & (rate > slow)
    meets = jnp.where(closed, rate < -slow, (later <= 0.0) | dips)
    return Closing(
        jnp.where(opens, hops & (back <= span), meets),
        jnp.where(opens, rate, root),
        jnp.where(opens, back, first),
    )


class Guards(AbstractGuards):
    """Open places, by place, that would stay open without impulses of others.

    Attributes:
        places: Which ones, (c,).
        gap, rate: At the beginning, (c,) [m] or [rad] and per second.
        later: Gaps at the end without impulses, (c,).
        reach: What unit impulses add to these, (c, w).
        closed, falling, restitution, slow: As in `Plan`, (c,).
        span, h: Of the part and of the whole step [s].
        last: Whether no impact may follow.
    """

    places: Bool[Array, " c"]
    gap: Float[Array, " c"]
    rate: Float[Array, " c"]
    later: Float[Array, " c"]
    reach: Float[Array, "c w"]
    closed: Bool[Array, " c"]
    falling: Float[Array, " c"]
    restitution: Float[Array, " c"]
    slow: Float[Array, " c"]
    span: Scalar
    h: Scalar
    last: Bool[Array, ""]

    def closed_by(self, P: Float[Array, " w"]) -> Bool[Array, " c"]:
        """Which ones close without an impact at an instant of its own, (c,)."""
        per = jnp.where(self.span > 0.0, self.span, 1.0)
        end = self.later + self.reach @ P
        bend = 2.0 * (end - self.gap - self.span * self.rate) / per**2
        meets = closing(self.gap, self.rate, bend, self.closed, self.slow, self.span)
        fast = deserves_an_impact(meets.speed, self.falling, self.restitution, self.slow, self.h)
        return self.places & meets.closes & ~(fast & ~self.last)


def deserves_an_impact(
    speed: Float[Array, " c"],
    falling: Float[Array, " c"],
    restitution: Float[Array, " c"],
    slow: Float[Array, " c"],
    h: Scalar,
) -> Bool[Array, " c"]:
    """Whether an approach is an impact at an instant of its own, (c,).

    Slower ones are those of bodies at rest, which accelerations of the size `falling` push together
    within a step h; their impulses are those of forces that last.
    """
    bounces = long_flight(restitution * speed, falling, h)
    return (speed > slow) & ((speed >= falling * h) | bounces)


def long_flight(
    speed: Float[Array, " c"], falling: Float[Array, " c"], h: Scalar
) -> Bool[Array, " c"]:
    """Whether the flight that begins at this speed is long enough to be resolved, (c,)."""
    return (speed > 0.0) & (2.0 * speed >= SHORTEST_FLIGHT * falling * h)


def instant_of_impact(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    path: Callable[[Array], Array],
    time: Float[Array, " c"],
    hits: Bool[Array, " c"],
    near: Float[Array, " c"],
) -> tuple[Scalar, Bool[Array, " c"]]:
    """The first instant at which one of the gaps `hits` closes on a path, from the beginning on
    [s], and which gaps do so together, within `near`, (c,) [m] or [rad].

    `path` gives displacements at an instant, (nb, d); `time` are estimates, (c,) [s]. The instant
    is differentiable: it is the last of Newton's iterations on the gap itself.
    """

    def at(s: Array) -> tuple[Array, Array]:
        def gap(s: Array) -> Array:
            return gaps(formulation, system, jax.vmap(formulation.retract)(q, path(s)))

        return jax.jvp(gap, (s,), (jnp.ones_like(s),))

    def first(time: Array) -> tuple[Array, Array]:
        time = jnp.where(hits, time, jnp.inf)
        which = jnp.argmin(time)
        return take(time, which), which

    def improved(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        time, s = state
        gap, rate = at(s)
        falls = rate < 0.0
        better = s - gap / jnp.where(falls, rate, -1.0)
        time = jnp.where(falls, better, time)
        return (time, first(time)[0]), s

    time = jax.lax.stop_gradient(time)
    (time, s), _ = jax.lax.scan(improved, (time, first(time)[0]), None, length=_ITERATIONS)
    gap, rate = at(s)
    together = hits & (jnp.abs(gap) <= near) & (rate < 0.0)
    which = first(time)[1]
    return s, together | (jnp.arange(gap.shape[0]) == which)


def parting(
    rows: LawRows, normal: np.ndarray, a: Float[Array, "nb d"], closed: Bool[Array, " c"]
) -> Float[Array, " c"]:
    """The largest acceleration of a gap if one of its bodies were held, where something touches
    one of them; zero elsewhere, (c,).
    """
    blocks, bodies = rows.blocks[normal], rows.bodies[normal]
    ground = a.shape[0]
    borne = jnp.zeros(ground + 1, bool).at[bodies].max(closed[:, None])
    borne = jnp.any(borne[bodies] & (bodies < ground), axis=1)
    a = jnp.concatenate([a, jnp.zeros((1, a.shape[1]), a.dtype)])
    each = jnp.abs(jnp.sum(blocks * take(a, bodies), axis=2))
    return jnp.where(borne, jnp.max(each, axis=1, initial=0.0), 0.0)
