"""Where a part of a step ends: at the next impact, on the joints and on closed contacts."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ...equations.laws import gap_sizes, gaps
from ...formulations.base import AbstractFormulation, Coordinates
from ...rotations.types import Scalar
from ...xla.indexing import take
from ...xla.lazy_cond import anywhere
from .free_motion import Free
from .impacts import closing, deserves_an_impact, instant_of_impact
from .laws import by_size
from .part import CLOSED, Chosen, Part, Plan, Pushed, Reached, Stretch
from .projection import ClosedPlaces, projected

# Gaps of this many roundings of the mechanism's length are closed to rounding.
_ROUNDING = 32.0


def next_impact(
    formulation: AbstractFormulation,
    free: Free,
    plan: Plan,
    pushed: Pushed,
    part: Part,
    stretch: Stretch,
) -> tuple[Bool[Array, " c"], Scalar]:
    """Places that strike before this part would end, and how long it lasts [s]: its aim without."""
    aim, span, h = stretch.aim, stretch.span, stretch.h
    system, per = free.system, jnp.where(span > 0.0, span, 1.0)

    def path(s: Array) -> Array:
        return s * free.u0 + 0.5 * s**2 * free.a0 + (s / per) ** 2 * pushed.shift

    end = jax.vmap(formulation.retract)(free.q0, path(span))
    later = gaps(formulation, system, jax.lax.stop_gradient(end))
    bend = 2.0 * (later - plan.gap - span * plan.rate) / per**2
    meets = closing(plan.gap, plan.rate, bend, plan.closed, plan.slow, part.left)
    fast = deserves_an_impact(meets.speed, plan.falling, plan.restitution, plan.slow, h)
    open_ = ~plan.acts & plan.closable & ~(plan.guarded & pushed.touching)
    # What waited for its impact has it, though impulses of others made it slower: no law held it.
    hits = open_ & meets.closes & (fast | plan.waits) & ~plan.last & (span > 0.0)
    hits = jax.lax.stop_gradient(hits)

    def found(_: None) -> tuple[Array, Array]:
        near = CLOSED * gap_sizes(system)
        time, together = instant_of_impact(
            formulation, system, free.q0, path, meets.time, hits, near
        )
        return together, time

    def whole(_: None) -> tuple[Array, Array]:
        return jnp.zeros_like(hits), aim

    some = jnp.any(hits)
    together, time = jax.lax.cond(anywhere(some), found, whole, None)
    return together & some, jnp.where(some, time, aim)


def struck_again(
    free: Free,
    plan: Plan,
    part: Part,
    u: Array,
    strikes: Bool[Array, ""],
    h: Scalar,
) -> Bool[Array, " c"]:
    """What impulses of an impact press together although it touched without pressing before,
    (c,): the next impact, at the same instant.
    """
    speed = -free.rows.velocities(u)[plan.normal]
    fast = deserves_an_impact(speed, part.falling, plan.restitution, plan.slow, h)
    return strikes & ~plan.last & plan.closable & plan.closed & ~plan.acts & fast


def on_closed_places(
    formulation: AbstractFormulation,
    free: Free,
    plan: Plan,
    pushed: Pushed,
    end: Reached,
    hits: Bool[Array, " c"],
    strikes: Bool[Array, ""],
) -> tuple[Coordinates, Array, Scalar]:
    """Positions on the joints and on closed contacts, velocities on the joints, and how far a
    contact moved a body.
    """
    system, (q, u, t) = free.system, end

    def none():
        return projected(formulation, system, q, u, t, None)

    def some(chosen: Int[Array, " k"]):
        at = Chosen.of(system, plan, chosen)
        # What touched in the laws may be open where the part ends: crossing edges that have
        # left each other have a gap of the size of their bodies.
        lowest = jnp.minimum(take(plan.gap, at.spots), 0.0) - plan.way
        shut = ClosedPlaces(
            free.rows.some(at.lines[at.normal]),
            at.spots,
            free.matrix,
            free.factors,
            take(pushed.touching, at.spots),
            # What strikes has its gap, whose derivative is that of its instant.
            jnp.bitwise_and(at.closable, ~take(hits, at.spots)) & ~strikes,
            lowest,
            plan.way,
            _ROUNDING * jnp.finfo(u.dtype).eps * system.length,
        )
        return projected(formulation, system, q, u, t, shut)

    return by_size(plan, jnp.any(plan.near) & ~strikes, none, some)
