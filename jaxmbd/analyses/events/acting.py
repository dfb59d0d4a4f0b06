"""The motion after an event: what its actions change, and the method started anew."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ...equations.row_switches import on_rows
from ...equations.rows import phi, row_sizes
from ...integrators import Motion
from ...integrators.element_states import rates
from ...model.state import State
from ...model.system import System
from ...outcomes import RESULTS
from ...rotations.types import Scalar
from ..running.anew import started_anew
from ..running.one_step import FixedSteps, Progress, holding
from .effects import Effect


class Held(eqx.Module):
    """Inputs that events have set.

    Attributes:
        values: Of all inputs, with their rates and accelerations, (3, n).
        mask: Which of them were set, (n,).
    """

    values: Float[Array, "3 n"]
    mask: Bool[Array, " n"]

    @staticmethod
    def none(like: Float[Array, "3 n"]) -> "Held":
        """Before the first event."""
        return Held(jnp.zeros_like(like), jnp.zeros(like.shape[1], bool))

    def over(self, given: Float[Array, "3 n"]) -> Float[Array, "3 n"]:
        """All inputs: these, and what was given for the others."""
        return jnp.where(self.mask, self.values, given)


class Renewal(eqx.Module):
    """How a motion goes on.

    Attributes:
        ahead: By how much it moves on first [s]; a little, where no step is worth it.
        t: Then [s].
        h: Length of the next step [s].
        event: That acts there.
        acting: Whether it does.
        given: The inputs then, (3, n).
    """

    ahead: Scalar
    t: Scalar
    h: Scalar
    event: Int[Array, ""]
    acting: Bool[Array, ""]
    given: Float[Array, "3 n"]


def coasted(system: System, steps: FixedSteps, motion: Motion, t: Scalar, dt: Scalar) -> Motion:
    """The motion a very short time later, by Taylor's series: its error is dt³, or dt² where
    accelerations have impacts in them.
    """
    formulation = steps.formulation
    if steps.integrator.takes_laws:
        motion = dataclasses.replace(motion, a=jnp.zeros_like(motion.a))
    move = dt * motion.u + 0.5 * dt**2 * motion.a
    states = motion.states
    if states is not None:
        z_rate = rates(formulation, holding(system, motion), motion.q, motion.u, t)
        states = dataclasses.replace(states, z=states.z + dt * z_rate)
    q = jax.vmap(formulation.retract)(motion.q, move)
    return dataclasses.replace(motion, q=q, u=motion.u + dt * motion.a, states=states)


def renewed(
    system: System,
    steps: FixedSteps,
    effects: tuple[Effect, ...],
    before: tuple[Progress, Held],
    new: Renewal,
) -> tuple[Progress, Held]:
    """The motion after an event or after the rest of its step, with consistent velocities and
    accelerations and a method that knows nothing of earlier steps.
    """
    progress, held = before
    formulation, integrator, t = steps.formulation, steps.integrator, new.t
    system = system.wound(progress.angles)
    known = held.over(new.given)
    motion = coasted(system.given(known, t), steps, progress.motion, t, new.ahead)
    state = formulation.to_state(motion.q, motion.u)
    z = None if motion.states is None else motion.states.z
    state = dataclasses.replace(state, angles=progress.angles, element_states=z)

    restitution = jnp.zeros_like(motion.lam)
    struck = jnp.zeros(known.shape[1], bool)
    for k, effect in enumerate(effects):
        mine = new.acting & (new.event == k)
        held, z = _set(effect, mine, (held, z), (state, t))
        for bounce in effect.bounces:
            rows = np.array(bounce.places)
            own = jnp.where(mine, bounce.at(state, t), restitution[rows])
            restitution = restitution.at[rows].set(own)
        places = np.array(effect.struck, int)
        struck = struck.at[places].set(struck[places] | mine)
    held = _held_here(system, steps, effects, (held, motion), new)
    if motion.states is not None:
        motion = dataclasses.replace(motion, states=dataclasses.replace(motion.states, z=z))

    inputs = held.over(new.given)
    as_it_was = system.given(known, t)
    system = holding(system, motion)
    strikes = system.given(inputs.at[0].set(jnp.where(struck, 1.0, inputs[0])), t)
    system = system.given(inputs, t)
    method, times = (formulation, integrator), (t, new.h)
    begin = started_anew(method, (strikes, system), motion, times, restitution)

    closed = _closed(steps, as_it_was, system, motion, t)
    finite = jnp.all(jnp.isfinite(begin.a)) & jnp.all(jnp.isfinite(begin.u))
    result = RESULTS.where(finite, progress.result, RESULTS.singular)
    result = RESULTS.where(closed | ~new.acting, result, RESULTS.open_at_event)
    return dataclasses.replace(progress, motion=begin, result=result, inputs=inputs), held


def _closed(
    steps: FixedSteps, before: System, after: System, motion: Motion, t: Scalar
) -> Bool[Array, ""]:
    """Whether the rows that begin to act hold at an instant, to a part of the length that a step
    may close at once.
    """
    old, new = on_rows(before), on_rows(after)
    if old is None or new is None:
        return jnp.asarray(True)
    gaps = phi(steps.formulation, after.at(t), motion.q) / row_sizes(steps.formulation, after)
    begins = jnp.where(new & ~old, jnp.abs(gaps[: new.shape[0]]), 0.0)
    return jnp.max(begins, initial=0.0) <= jnp.sqrt(jnp.finfo(begins.dtype).eps)


def _set(
    effect: Effect,
    mine: Bool[Array, ""],
    before: tuple[Held, Float[Array, " s"] | None],
    at: tuple[State, Scalar],
) -> tuple[Held, Float[Array, " s"] | None]:
    """Inputs and states after one event, where it is the one that acts."""
    held, z = before
    values, mask = held.values, held.mask
    for change in effect.inputs:
        places = np.array(change.places)
        rows = jnp.zeros((3, len(places)), values.dtype).at[0].set(change.at(*at))
        values = values.at[:, places].set(jnp.where(mine, rows, values[:, places]))
        mask = mask.at[places].set(mask[places] | mine)
    for change in effect.states:
        assert z is not None
        places = np.array(change.places)
        z = z.at[places].set(jnp.where(mine, change.at(*at), z[places]))
    return Held(values, mask), z


def _held_here(
    system: System,
    steps: FixedSteps,
    effects: tuple[Effect, ...],
    at: tuple[Held, Motion],
    new: Renewal,
) -> Held:
    """With the offsets of joints that hold their coordinates where these are."""
    held, motion = at
    for k, effect in enumerate(effects):
        if not effect.here:
            continue
        offsets, rows = np.array(effect.here).T
        inputs = held.over(new.given)
        inputs = inputs.at[:, offsets].set(0.0)
        gaps = phi(steps.formulation, system.given(inputs, new.t).at(new.t), motion.q)[rows]
        own = jnp.zeros((3, len(rows)), gaps.dtype).at[0].set(gaps)
        mine = new.acting & (new.event == k)
        values = held.values.at[:, offsets].set(jnp.where(mine, own, held.values[:, offsets]))
        held = Held(values, held.mask.at[offsets].set(held.mask[offsets] | mine))
    for k, effect in enumerate(effects):
        mine = new.acting & (new.event == k)
        for first, rows in effect.welds:
            places = np.arange(first, first + 12)
            own = jnp.zeros((3, 12), motion.u.dtype).at[0].set(_base(system, steps, motion, rows))
            values = held.values.at[:, places].set(jnp.where(mine, own, held.values[:, places]))
            held = Held(values, held.mask.at[places].set(held.mask[places] | mine))
    return held


def _base(
    system: System, steps: FixedSteps, motion: Motion, rows: tuple[int, ...]
) -> Float[Array, "12"]:
    """The shift and the turn of a weld's vectors in body j with which its rows hold at a pose."""
    formulation = steps.formulation
    poses = jax.vmap(formulation.pose)(formulation.with_ground(motion.q))
    starts = np.cumsum([0, *(len(stack) for stack in system.holonomic)])

    def found(row: int) -> tuple[Any, tuple[int, ...]]:
        of = int(np.searchsorted(starts, row, side="right")) - 1
        stack, place = system.holonomic[of], row - int(starts[of])
        return jax.tree.map(lambda x: x[place], stack.primitive), stack.bodies[place]

    point, (i, j) = found(rows[0])
    turns = [found(row)[0] for row in rows[3:]]
    # Row k holds e_{k+1} of the one body normal to e_{k+2} of the other.
    relative = sum(
        jnp.outer(turns[(k + 2) % 3].a_i_bar, turns[(k + 1) % 3].a_j_bar) for k in range(3)
    )
    r_i, A_i, r_j, A_j = poses.r[i], poses.A[i], poses.r[j], poses.A[j]
    turn = A_j.T @ A_i @ relative
    shift = A_j.T @ (r_i + A_i @ point.s_i_bar - r_j) - turn @ point.s_j_bar
    return jnp.concatenate([shift, (turn - jnp.eye(3, dtype=turn.dtype)).reshape(9)])
