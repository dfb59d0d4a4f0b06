"""What every place of the laws has to do in a part of a step."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ...equations.laws import LawRows, each_place, gap_rates, gap_sizes, gaps, row_order
from ...formulations.base import AbstractFormulation
from ...rotations.types import Scalar
from ...xla.indexing import take
from .free_motion import Free
from .impacts import Closing, closing, deserves_an_impact, long_flight, parting
from .part import CLOSED, Part, Plan, Stretch

# How far impulses may reach in a step: this many times what the fastest impact would cross.
_REACH = 4.0
# Approach speeds below this part of the largest one are rounding, and those that would take longer
# than a step for this part of the mechanism's length.
_SLOW, _STILL = 1e-9, 1e-12
# Bodies that bounce for more than about 64 flights, each shorter than the one before.
_LONG_BOUNCING = 1.0 / 64.0


def planned(
    formulation: AbstractFormulation,
    free: Free,
    part: Part,
    stretch: Stretch,
    most_contacts: int,
) -> Plan:
    """What each place has to do in this part of the step, before impulses are known."""
    strikes, span, h, last = stretch.strikes, stretch.span, stretch.h, stretch.last
    system, rows = free.system, free.rows
    gap, rate = gap_rates(formulation, system, free.q0, free.u0)
    later = gaps(formulation, system, free.moved(formulation))
    order = row_order(system)
    contacts, normal, dry = order.contacts, order.normal, ~order.has_gap
    v = rows.velocities(free.u0)[normal]
    lengths = gap_sizes(system)
    slow = jnp.maximum(
        _SLOW * _largest_speed(rows, normal, contacts, free.u0), _STILL * lengths / h
    )
    slow = jax.lax.stop_gradient(slow)
    bend = jnp.where(
        strikes, 0.0, 2.0 * (later - gap - span * rate) / jnp.where(strikes, 1.0, span) ** 2
    )
    closed = (gap <= CLOSED * lengths) | part.struck
    falling = jnp.maximum(jnp.abs(bend), parting(rows, normal, free.a0, closed & ~dry))
    falling = jax.lax.stop_gradient(falling)
    restitution = each_place(system, lambda law: law.bounces())

    # In a motion: what closes at speed waits for its impact, what closes slowly is stopped.
    meets = closing(gap, rate, bend, closed, slow, span)
    meets = meets._replace(closes=meets.closes & ~dry & ~strikes)
    waits = meets.closes & deserves_an_impact(meets.speed, falling, restitution, slow, h)
    # What was held leaves by more than what a step misses of its rate. Held by its gap instead, it
    # would have too large a force in one step and too small a one in the next.
    held = part.lasting_force[normal] > 0.0
    hops = closed & (rate > slow) & ~(held & ~long_flight(rate, falling, h))
    late = waits & last
    waits = waits & ~last
    acts = (closed & ~hops) | (meets.closes & ~waits)
    # In an impact: what approaches, and what rests on it.
    speed = jnp.where(part.struck, jnp.maximum(-rate, 0.0), 0.0)
    wanted_speed = restitution * speed
    bounces = part.struck & (speed > slow) & long_flight(wanted_speed, part.falling, h)
    short = part.struck & (speed > slow) & (wanted_speed > 0.0) & ~bounces
    acts = jnp.where(strikes, part.struck | (closed & (rate <= slow)), acts & ~waits)
    # Places that close together have the instant of the first one; the others' own instants
    # differ by nothing, but not so their derivatives.
    delay = jnp.where(speed > slow, gap / jnp.where(speed > slow, speed, 1.0), 0.0)
    bounce = -restitution * (rate + part.bend * delay) - part.bend * delay
    # Rows turn with the bodies: what is zero at the start and at the end of a motion is not so on
    # those of its middle. Without that, sliding along what is curved loses energy, and what turns
    # about a corner that sticks does so to first order.
    wanted = jnp.where(bounces, bounce, jnp.where(closed & ~dry & ~strikes, rate - v, 0.0))
    fastest = jnp.max(jnp.where(acts & ~dry, -(rate + bend * span), 0.0), initial=0.0)
    guarded = ~acts & ~waits & ~strikes & ~dry & (later < _REACH * span * jnp.maximum(fastest, 0.0))
    closes_late = (acts & meets.closes & ~closed) | late
    weight = jnp.where(closes_late, _acting_for(meets, bend, span), 0.5 * span)
    # Impacts for which there is no part left act from the beginning on, with all that they reach:
    # bodies move as they do afterwards, and none into another.
    weight = jnp.where(jnp.any(late), span, weight)
    weight = jnp.where(strikes, -delay, weight)
    speeds = jnp.maximum(
        jnp.max(jnp.abs(rows.velocities(free.u1)), initial=0.0),
        jnp.max(jnp.abs(free.u1[:, :3]), initial=0.0),
    )
    dropped = (late & (restitution > 0.0)) | (short & (1.0 - restitution < _LONG_BOUNCING))
    return Plan(
        gap=gap,
        rate=rate,
        later=later,
        bend=bend,
        falling=falling,
        slow=slow,
        restitution=restitution,
        closed=closed,
        acts=acts | dry,
        guarded=guarded,
        waits=waits,
        bounces=bounces,
        wanted=wanted,
        turning=_across(free.turning, normal[order.has_gap], closed & ~strikes, contacts),
        weight=weight,
        near=(acts | guarded) & ~dry,
        dropped=dropped,
        merged=jnp.any(late),
        last=last,
        way=_REACH * h * speeds + CLOSED * system.length,
        normal=normal,
        contacts=contacts,
        closable=~dry,
        sizes=_sizes(contacts, most_contacts),
    )


def _sizes(contacts: int, most_contacts: int) -> tuple[int, ...]:
    """Numbers of contacts for which the laws of a step are compiled: what does not touch should
    cost little.
    """
    most = min(contacts, most_contacts)
    sizes = [most]
    while sizes[0] > 6:
        sizes.insert(0, max(4, sizes[0] // 2 if most <= 64 else sizes[0] // 3))
    return tuple(sizes)


def _largest_speed(
    rows: LawRows, normal: np.ndarray, contacts: int, u: Float[Array, "nb d"]
) -> Float[Array, " c"]:
    """The largest normal velocity of a body at places of contact, or at the others, by place."""
    padded = jnp.concatenate([u, jnp.zeros((1, u.shape[1]), u.dtype)])
    blocks, bodies = rows.blocks[normal], rows.bodies[normal]
    each = jnp.sum(jnp.abs(blocks * take(padded, bodies)), axis=(1, 2))
    one, other = (jnp.max(x, initial=0.0) for x in (each[:contacts], each[contacts:]))
    return jnp.where(np.arange(normal.size) < contacts, one, other)


def _across(
    turning: Float[Array, " w"], normal: np.ndarray, closed: Bool[Array, " c"], contacts: int
) -> Float[Array, " w"]:
    """What is asked for along rows of friction at closed places, zero on all others, (w,)."""
    across = ~np.isin(np.arange(turning.shape[0]), normal)
    rows = jnp.concatenate([jnp.repeat(closed[:contacts], 3), closed[contacts:]])
    return jnp.where(across & rows, turning, 0.0)


def _acting_for(meets: Closing, bend: Float[Array, " c"], span: Scalar) -> Float[Array, " c"]:
    """For how long the impulse of what closes within a part acts on positions, (c,) [s]: what stops
    the approach from its instant on, what holds it there half of the rest.
    """
    rest = jnp.clip(span - meets.time, 0.0, span)
    hold = jnp.maximum(-bend, 0.0) * rest
    needed = meets.speed + hold
    return rest * (1.0 - 0.5 * hold / jnp.where(needed > 0.0, needed, 1.0))
