"""The data of a part of a step: where it begins, what is planned, what the laws do in it."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ...complementarity import RowOrder
from ...equations.laws import row_order
from ...formulations.base import Coordinates
from ...model.system import System
from ...rotations.types import Scalar

# A gap of this part of the mechanism's length is closed.
CLOSED = 1e-10


class Part(eqx.Module):
    """Where the parts of a step have come to, and what they did so far.

    Attributes:
        q: Coordinates.
        u: Velocities, (nb, d).
        left: What is left of the step [s].
        aim: How long the next motion lasts as far as is known [s].
        aimed: Whether that is the instant of an impact, and not the end of the step.
        count: Parts so far.
        going: Whether another one follows.
        struck: What impacts at this instant, (c,).
        falling: Accelerations that push bodies together which rest, (c,) [m/s²] or [rad/s²].
        bend: Second derivatives of gaps without impulses, (c,).
        ends: Coordinates between which corners, edges and faces were chosen, if laws have any.
        impulse: So far, (w,).
        velocity: Changes of velocities so far, (nb, d).
        lam: Impulses of joints so far, (m,).
        lasting: See `Impulses`, as all that follows.
    """

    q: Coordinates
    u: Float[Array, "nb d"]
    left: Scalar
    aim: Scalar
    aimed: Bool[Array, ""]
    count: Int[Array, ""]
    going: Bool[Array, ""]
    struck: Bool[Array, " c"]
    falling: Float[Array, " c"]
    bend: Float[Array, " c"]
    ends: tuple[Coordinates, Coordinates] | None
    impulse: Float[Array, " w"]
    velocity: Float[Array, "nb d"]
    lam: Float[Array, " m"]
    lasting: Float[Array, "nb d"]
    lasting_force: Float[Array, " w"]
    slides: Bool[Array, " c"]
    state: Int[Array, " c"]
    impact: Float[Array, " c"]
    dropped: Bool[Array, ""]
    merged: Bool[Array, ""]
    rough: Bool[Array, ""]
    crowded: Bool[Array, ""]
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]


class Stretch(NamedTuple):
    """The time that a part of a step takes.

    Attributes:
        begin: Its beginning [s].
        span: How long its motion is computed for; zero for an impact [s].
        aim: How long it lasts if nothing strikes [s].
        h: The whole step [s].
        strikes: Whether it is an impact at its beginning.
        last: Whether it must take the motion to the end of the step.
    """

    begin: Scalar
    span: Scalar
    aim: Scalar
    h: Scalar
    strikes: Bool[Array, ""]
    last: Bool[Array, ""]


class Reached(NamedTuple):
    """Coordinates, velocities (nb, d) and the instant [s] that a part of a step leads to."""

    q: Coordinates
    u: Float[Array, "nb d"]
    t: Scalar


class Plan(NamedTuple):
    """What every place does in a part of a step, (c,) unless said otherwise.

    Attributes:
        gap: At the beginning [m] or [rad].
        rate: Its rate there.
        later: Gaps at the end of a motion without impulses.
        bend: Their second derivatives.
        falling: Accelerations that push bodies together which rest.
        slow: Velocities below this are rounding.
        restitution: e.
        closed: Whether the gap is closed at the beginning.
        acts: Whether a law on velocities acts.
        guarded: Whether impulses of others may close the gap.
        waits: Whether the gap closes fast enough for an impact, without impulses.
        bounces: Whether an impact has restitution.
        wanted: Normal velocities asked for.
        turning: The others, by row, (w,).
        weight: For how long impulses act on positions [s].
        near: Contacts and stops whose laws are solved.
        dropped: Whether a restitution is not respected.
        merged: Whether impacts act over the rest of the step, for want of parts, ().
        last: Whether this part must take the motion to the end of the step, ().
        way: How far positions may be moved, () [m].
        normal: Which rows are those of gaps.
        contacts: Number of places of contact.
        closable: Which places have a gap.
        sizes: Numbers of contacts that programs are made for.
    """

    gap: Array
    rate: Array
    later: Array
    bend: Array
    falling: Array
    slow: Array
    restitution: Array
    closed: Array
    acts: Array
    guarded: Array
    waits: Array
    bounces: Array
    wanted: Array
    turning: Array
    weight: Array
    near: Array
    dropped: Array
    merged: Array
    last: Array
    way: Array
    normal: np.ndarray
    contacts: int
    closable: np.ndarray
    sizes: tuple[int, ...]


class Pushed(NamedTuple):
    """What the laws do in a part of a step.

    Attributes:
        impulse: P, (w,) [N·s] or [N·m·s].
        change: What they change of velocities, (nb, d).
        shift: What they add to displacements, (nb, d).
        lasting: Acceleration by those of places that were closed, (nb, d).
        lam: Impulses of joints by them, (m,).
        state: Open, sticks or slips, (c,).
        touching: Which places the laws found closed, (c,).
        dropped: Whether an impact had no solution with restitution.
        converged: Whether the laws are satisfied.
        residual: See `Outcome`.
        iterations: Of all attempts.
    """

    impulse: Float[Array, " w"]
    change: Float[Array, "nb d"]
    shift: Float[Array, "nb d"]
    lasting: Float[Array, "nb d"]
    lam: Float[Array, " m"]
    state: Int[Array, " c"]
    touching: Bool[Array, " c"]
    dropped: Bool[Array, ""]
    converged: Bool[Array, ""]
    residual: Scalar
    iterations: Int[Array, ""]


class Chosen(NamedTuple):
    """Some contacts and all stops and dry frictions.

    Attributes:
        spots: Their places among all, (k,).
        lines: Their rows, (w,).
        normal: Which of these are normal.
        closable: Which places have a gap, (k,).
        stops: How many are stops.
    """

    spots: Int[Array, " k"]
    lines: Int[Array, " w"]
    normal: np.ndarray
    closable: np.ndarray
    stops: int

    @staticmethod
    def of(system: System, plan: Plan, chosen: Int[Array, " n"]) -> "Chosen":
        every = row_order(system)
        others = jnp.arange(every.stops + every.dry)
        lines = (3 * chosen[:, None] + jnp.arange(3)[None, :]).reshape(-1)
        some = RowOrder(chosen.shape[0], every.stops, every.dry)
        return Chosen(
            jnp.concatenate([chosen, every.contacts + others]),
            jnp.concatenate([lines, every.of_stops.start + others]),
            some.normal,
            some.has_gap,
            every.stops,
        )
