"""Equilibrium: the pose at which a mechanism rests, or turns steadily as one, and the reactions."""

import dataclasses
from collections.abc import Iterable
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...equations.statics import Spin
from ...formulations import RA
from ...model.compiled import compiled_once
from ...model.forces.stateful import stateful
from ...model.state import State, Twist
from ...model.system import System
from ...model.validation import Numbers, as_jax, is_concrete
from ...outcomes import RESULTS, ended_as
from ...results.saved_rows import Row, make_solution
from ...rotations.types import Scalar
from ..assembly import assemble
from ..running.checks import check_system, needs_state, valid_numbers
from ..running.initial_state import InitialState, assembled, outcome_of_assembly
from ..running.warnings import warn_of_bent_beams
from .balance import balance_poses
from .equilibrium_failure import refuse_failure
from .equilibrium_result import Equilibrium
from .equilibrium_search import Balanced, Loading, yielding_pose
from .stability import stability_of
from .steadiness import Unsteadiness, unsteadiness

# Saddles that a search leaves again, and how far aside it then starts [rad, or lengths].
_KICKS, _KICK = 5, 0.1


@needs_state
def equilibrium(
    system: System,
    state: State,
    *,
    t: Numbers = 0.0,
    spin: Spin | Numbers | None = None,
    unstable: bool = False,
    load_steps: int = 1,
    max_steps: int = 200,
    throw: bool = True,
) -> Equilibrium:
    """The poses at which all forces balance, with drivers and loads held at time t.

    Loops, redundant joints, drivers, joints that constrain velocities and steady loads without a
    potential are part of it. The search moves downhill from the given state: it follows the loads
    until they do no more work, and so finds where the mechanism comes to rest. Where the
    equilibrium is not isolated, such as that of a wheel that turns freely, the directions without
    stiffness stay as near to the given state as they can. Differentiable in everything, by the
    implicit function theorem; the state from which the search starts carries no derivative.

    Args:
        system: The mechanism.
        state: Where the search starts; it is assembled first. Its velocities are not used.
        t: Time at which drivers and loads are held [s].
        spin: None at rest, or a steady rotation of the whole mechanism: `mbd.Spin(axis, rate,
            point)`, or (axis, rate) about the origin. The result then carries the velocities of
            that rotation, and its load is the centrifugal one.
        unstable: True looks for the nearest equilibrium, stable or not, instead of moving downhill.
        load_steps: Apply gravity, the centrifugal load and all loads that store no energy in so
            many equal steps.
        max_steps: Limit of the iteration for each step of the load.
        throw: Raise where no equilibrium is found; without effect inside `jit` or `vmap`.

    Returns:
        The equilibrium, and how it was found.

    Raises:
        ValueError: The mechanism has stops, dry friction or contacts, a body that nothing holds, or
            cannot turn about the axis; the message names the part.
        AssemblyError: The joints do not close.
        EquilibriumError: No equilibrium was found and `throw=True`; the message names the body that
            runs away.

    Reference:
        Damping in proportion to the residual keeps quadratic convergence to equilibria that are
        not isolated: Yamashita, Fukushima, "On the rate of convergence of the Levenberg-Marquardt
        method", Computing Suppl. 15 (2001).
    """
    check_system(system, state, "equilibrium")
    system.refuse_laws("equilibrium", "leave them out, or simulate until the motion has died away")
    _refuse_elements_that_never_rest(system)
    spin = as_spin(spin, system)
    if spin is not None:
        system.refuse_velocity_rows("equilibrium with spin=", "simulate the steady motion instead")
    _refuse_loose_bodies(system)
    steps, limit = (_count(x, n) for x, n in ((load_steps, "load_steps"), (max_steps, "max_steps")))
    t = as_jax(t, system.dtype)
    given = state = system.with_turns(state)
    system = system.with_element_states(state.element_states, share=0.0, weight=1.0)
    state, report = assembled(system, _off_dead_center(system, state, t, spin), t, velocities=False)
    shares = np.asarray(np.arange(1, steps + 1) / steps, system.dtype)
    shares, limit = as_jax(shares, system.dtype), jax.device_put(np.asarray(limit))

    start = InitialState(given, state, report)

    def search(start: InitialState, shares: Float[Array, " s"], used: Int[Array, ""]) -> _Found:
        return _equilibrium(system, start, Loading(t, spin, shares), limit, used, not unstable)

    end = search(start, shares, jnp.zeros((), int))
    found = _made(system, t, spin, end)
    if is_concrete((found, given)):
        for _ in range(_KICKS):
            aside = None if unstable else _off_saddle(system, found)
            if aside is None:
                break
            end = search(dataclasses.replace(start, state=aside), shares[-1:], found.iterations)
            found = _made(system, t, spin, end)
        if throw:
            refuse_failure(system, given, found, end.last, end.changes)
        warn_of_bent_beams(system, found.motion)
    return found


def _refuse_elements_that_never_rest(system: System) -> None:
    names = [
        repr(name)
        for k, force in stateful(system.forces)
        if not force.rests
        for name in system.forces[k].names
    ]
    if names:
        raise ValueError(
            f"equilibrium: the states of {', '.join(names)} rest at any value, or at none; leave "
            "the elements out, or simulate until the motion has died away"
        )


class _Found(eqx.Module):
    """End of a search for an equilibrium.

    Attributes:
        row: Poses, twists and multipliers, with a leading axis of one.
        result: Outcome.
        residual: As in `Equilibrium`.
        last: The last correction, (nb, 6).
        changes: What would change if the mechanism were left here.
    """

    row: Row
    result: RESULTS
    residual: Scalar
    last: Float[Array, "nb 6"]
    changes: Unsteadiness


def _made(system: System, t: Scalar, spin: Spin | None, found: _Found) -> Equilibrium:
    motion = make_solution(t[None], found.row, found.result, {}, system)
    state = jax.tree.map(lambda x: x[0], motion.state)
    numbers = found.residual, motion.iterations[0], found.result
    return Equilibrium(state, motion.lam[0], *numbers, t, spin, motion)


def _off_saddle(system: System, found: Equilibrium) -> State | None:
    """A state beside a saddle that the search reached although loads drive away from it; None if
    the equilibrium is no saddle.

    Newton's method may run up a saddle in one direction while it goes downhill in the others.
    """
    if not ended_as(found.result, RESULTS.successful) or not int(found.iterations):
        return None
    judged = stability_of(system, found.state, found.lam, found.t, found.spin)
    if judged is None or not judged.unstable:
        return None
    lowest = judged.stiffness[0]
    if not lowest.real < 0.0 or abs(lowest.imag) > 1e-6 * abs(lowest):
        return None
    way = judged.shapes[0].real
    size = np.max(np.abs(way[:, 3:])) + np.max(np.abs(way[:, :3])) / float(system.length)
    return _moved(found.state, as_jax(_KICK / size * way, system.dtype))


@compiled_once
def _moved(state: State, way: Float[Array, "nb 6"]) -> State:
    pose = jax.vmap(RA().retract)(state.pose, way)
    return State(pose.r, pose.A, state.v, state.omega, state.angles, state.element_states)


def _off_dead_center(system: System, state: State, t: Scalar, spin: Spin | None) -> State:
    """The state, moved a little along its loads if joints do not close from it.

    From a straight chain whose ends are too far apart no small motion brings them closer: its
    weight tells which way it sags. With concrete values only.
    """
    if not is_concrete((system, state, t, spin)):
        return state
    if bool(assemble(system, state, t=t, velocities=False)[1].closed):
        return state
    moved = _yielded(system, state, t, spin)
    closes = bool(assemble(system, moved, t=t, velocities=False)[1].closed)
    return moved if closes else state


@compiled_once
def _yielded(system: System, state: State, t: Scalar, spin: Spin | None) -> State:
    pose = yielding_pose(system.wound(state.angles).at(t), t, spin, state.pose)
    return State(pose.r, pose.A, state.v, state.omega, state.angles, state.element_states)


@compiled_once
def _equilibrium(
    system: System,
    start: InitialState,
    loading: Loading,
    max_steps: Int[Array, ""],
    used: Int[Array, ""],
    downhill: bool,
) -> _Found:
    state, t, spin = start.state, loading.t, loading.spin
    angles = system.turns() if state.angles is None else state.angles
    found = balance_poses(system, state.pose, angles, loading, max_steps, downhill)
    pose, zero = found.pose, jnp.zeros_like(found.pose.r)
    v, omega, a = zero, zero, zero
    if spin is not None:
        twist = jax.vmap(spin.twist)(pose)
        v, omega, a = twist.v, twist.omega, jax.vmap(spin.acceleration)(pose)
    state = State(pose.r, pose.A, v, omega, found.angles, state.element_states)
    lam = system.to_natural(found.lam[: system.nc])
    iterations = used + found.iterations
    row = Row(
        *(pose, state.twist, a, zero, lam, found.angles),
        _states_at_rest(system.wound(found.angles), state, t),
        iterations,
        {},
    )
    row = jax.tree.map(lambda x: x[None], row)
    changes = jax.lax.stop_gradient(unsteadiness(system.wound(found.angles), pose, t, spin))
    result = _outcome(system, start, found, t, changes)
    return _Found(row, result, found.residual, found.last, changes)


def _states_at_rest(system: System, state: State, t: Scalar) -> Float[Array, " s"]:
    """States of force elements at which their rates vanish."""
    if not system.state_count:
        return system.held_element_states()
    ground = jnp.zeros((1, 3), system.dtype)
    twist = Twist(*(jnp.concatenate([x, ground]) for x in (state.v, state.omega)))
    return system.element_states_at(RA().with_ground(state.pose), twist, t)


def _outcome(
    system: System, start: InitialState, found: Balanced, t: Scalar, changes: Unsteadiness
) -> RESULTS:
    result = RESULTS.where(changes.steady, RESULTS.successful, RESULTS.not_steady)
    result = RESULTS.where(found.found, result, RESULTS.no_equilibrium)
    result = RESULTS.where(found.finite, result, RESULTS.non_finite)
    on_branch = system.wound(found.angles).at(t).on_branch(RA().with_ground(found.pose))
    result = RESULTS.where(on_branch, result, RESULTS.wrong_branch)
    result = outcome_of_assembly(start.report, result)
    return RESULTS.where(valid_numbers(system, start.given, t), result, RESULTS.invalid_input)


def as_spin(spin: Spin | Numbers | None, system: System) -> Spin | None:
    """The steady rotation as arrays, checked where its numbers are known."""
    if spin is None:
        return None
    if not isinstance(spin, Spin):
        try:
            spin = Spin(*cast("Iterable[Numbers]", spin))
        except TypeError:
            raise TypeError(
                "equilibrium: spin must be mbd.Spin(axis, rate, point) or a pair (axis, rate), "
                f"not {spin!r}"
            ) from None
    parts = [as_jax(x, system.dtype) for x in (spin.axis, spin.rate, spin.point)]
    for x, shape, name in zip(parts, ((3,), (), (3,)), ("axis", "rate", "point"), strict=True):
        if x.shape != shape:
            raise ValueError(
                f"equilibrium: spin: {name} must have the shape {shape}, not {x.shape}"
            )
        if is_concrete(x) and not np.isfinite(np.asarray(x)).all():
            raise ValueError(f"equilibrium: spin: {name} contains NaN or infinity")
    if is_concrete(parts[0]) and not np.any(np.asarray(parts[0])):
        raise ValueError("equilibrium: spin: the axis has length zero")
    return Spin(*parts)


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"equilibrium: {name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def _refuse_loose_bodies(system: System) -> None:
    """Raise if a body has neither a joint nor a force element."""
    held = {b for c in system.connections for b in c.bodies}
    held |= {b for stack in system.forces for bodies in stack.bodies for b in bodies}
    loose = [repr(name) for b, name in enumerate(system.bodies) if b not in held]
    if loose:
        raise ValueError(
            f"equilibrium: nothing holds {', '.join(loose)} of mechanism {system.name!r}: neither "
            "a joint nor a force element; it would fall for ever, or rest anywhere. Connect it, "
            "or leave it out"
        )
