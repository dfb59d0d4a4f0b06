"""Equilibrium: where a mechanism rests, or turns steadily as one, and the forces that hold it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...equations.statics import Spin
from ...formulations import RA
from ...model.compiled import compiled_once
from ...model.forces.stateful import stateful
from ...model.readable import counted, known, listed, readable
from ...model.state import State, Twist
from ...model.system import System
from ...model.validation import as_jax, is_concrete
from ...outcomes import RESULTS, ended_as
from ...results.solution import Reaction, Row, Solution, make_solution
from ...results.summaries import outcomes
from ...rotations import so3
from ...rotations.types import Scalar
from ..assembly import assemble
from ..running.checks import check_system, needs_state, valid_numbers
from ..running.failure import most_bent
from ..running.initial_state import assembled, outcome_of_assembly
from ..running.warnings import warn_of_bent_beams
from .equilibrium_search import Balanced, balance_poses, yielding_pose
from .stability import LARGEST, Stability, stability_if_made, stability_of
from .steadiness import Unsteadiness, unsteadiness

# Saddles that a search leaves again, and how far aside it then starts [rad, or lengths].
_KICKS, _KICK = 5, 0.1
_SINGULAR = 1e-2  # of the largest stiffness


class EquilibriumError(RuntimeError):
    """No equilibrium was found; `equilibrium` holds where the search ended.

    Attributes:
        equilibrium: An `Equilibrium` whose `result` says what happened.
    """

    def __init__(self, message: str, equilibrium=None):
        super().__init__(message)
        self.equilibrium = equilibrium


class Equilibrium(eqx.Module):
    """An equilibrium of a mechanism; a pytree.

    Attributes:
        state: Poses, and the velocities of the steady rotation or zeros.
        lam: Multipliers, (nc,), in the order of `System.row_names`.
        residual: The largest unbalanced force or torque over the system's length at a body,
            relative to the forces that balance each other there; in stiff elements also to the
            forces that rounding of their poses makes, over the tolerance.
        iterations: Factorizations of the tangent stiffness.
        result: Outcome, a member of `RESULTS`.
        t: The instant at which drivers and loads are held [s].
        spin: The steady rotation, or None at rest.
        motion: The same as a solution of one row, for reactions, pictures and files.
    """

    state: State
    lam: Float[Array, " nc"]
    residual: Scalar
    iterations: Int[Array, ""]
    result: RESULTS
    t: Scalar
    spin: Spin | None
    motion: Solution

    def __repr__(self) -> str:
        return readable(self, _described)

    def stability(self) -> Stability:
        """The stiffness against the displacements that all joints allow, and whether it is
        positive; concrete values only.

        Raises:
            ValueError: The values are traced, or the mechanism has more than 3000 unknowns.
        """
        if not is_concrete(self) or self.motion.system is None:
            raise ValueError(
                "stability looks at concrete values: call it outside jit, vmap and grad"
            )
        found = stability_of(self.motion.system, self.state, self.lam, self.t, self.spin)
        if found is None:
            raise ValueError(f"stability: more than {LARGEST} unknowns take minutes")
        return found

    def reactions(self) -> dict[str, Reaction]:
        """Force and moment at each joint, by name, (1, 3) each; see `Solution.reactions`."""
        return self.motion.reactions()


@needs_state
def equilibrium(
    system: System,
    state: State,
    *,
    t: Any = 0.0,
    spin: Any = None,
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

    def search(state: State, shares, used):
        parts = _equilibrium(
            system, given, state, report, t, spin, shares, limit, used, not unstable
        )
        return _made(system, t, spin, *parts)

    found, last, changes = search(state, shares, jnp.zeros((), int))
    if is_concrete((found, given)):
        for _ in range(_KICKS):
            aside = None if unstable else _off_saddle(system, found)
            if aside is None:
                break
            found, last, changes = search(aside, shares[-1:], found.iterations)
        if throw:
            refuse_failure(system, given, found, last, changes)
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


def _described(found: Equilibrium) -> str:
    """Outcome, angles of the joints and stability, from numbers that are there already."""
    system = found.motion.system
    name = "" if system is None else f" of {system.name!r}"
    if not known(found.t, found.state.r, found.result._value) or found.t.ndim or system is None:
        batch = " x ".join(map(str, getattr(found.t, "shape", ()))) or "traced"
        return f"Equilibrium{name} ({batch})"
    turning = "at rest" if found.spin is None else "in steady rotation"
    lines = [
        f"Equilibrium{name} {turning}, t = {float(np.asarray(found.t)):g} s",
        f"  outcome: {outcomes(found.result)}, residual {float(np.asarray(found.residual)):.1e}",
        f"  stability: {_stability(system, found)}",
    ]
    angles = np.asarray(found.state.angles)
    rows = [
        (repr(c.name), f"{angles[c.angle]:.6g} rad", f"({np.degrees(angles[c.angle]):.4g} degrees)")
        for c in system.connections
        if c.angle is not None
    ]
    return "\n".join(lines + listed(rows))


def _stability(system: System, found: Equilibrium) -> str:
    state, lam = found.state, found.lam
    judged = stability_if_made(system, state, lam, found.t, found.spin)
    if judged is None:
        return "see .stability()"
    words = ["stable" if judged.stable else f"unstable in {counted(judged.unstable, 'direction')}"]
    if judged.indifferent:
        words.append(f"indifferent in {judged.indifferent}")
    return ", ".join(words)


def _made(system: System, t: Scalar, spin, row: Row, result: RESULTS, residual, last, changes):
    """The result, the last correction and what is not steady."""
    motion = make_solution(t[None], row, result, {}, system)
    state = jax.tree.map(lambda x: x[0], motion.state)
    numbers = residual, motion.iterations[0], result
    return Equilibrium(state, motion.lam[0], *numbers, t, spin, motion), last, changes


def _off_saddle(system: System, found: Equilibrium) -> State | None:
    """A state beside an equilibrium that the search reached though loads drive away from it; None
    where that is not so.

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
    """The state, moved a little by its loads where joints do not close from it.

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
    given: State,
    state: State,
    report,
    t,
    spin,
    shares,
    max_steps,
    used,
    downhill: bool,
):
    angles = system.turns() if state.angles is None else state.angles
    found = balance_poses(system, state.pose, angles, t, spin, shares, max_steps, downhill)
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
    result = _outcome(system, given, report, found, t, changes)
    return row, result, found.residual, found.last, changes


def _states_at_rest(system: System, state: State, t: Scalar) -> Float[Array, " s"]:
    """The states of force elements whose rates vanish."""
    if not system.state_count:
        return system.held_element_states()
    ground = jnp.zeros((1, 3), system.dtype)
    twist = Twist(*(jnp.concatenate([x, ground]) for x in (state.v, state.omega)))
    return system.element_states_at(RA().with_ground(state.pose), twist, t)


def _outcome(system: System, given: State, report, found: Balanced, t, changes) -> RESULTS:
    result = RESULTS.where(changes.steady, RESULTS.successful, RESULTS.not_steady)
    result = RESULTS.where(found.found, result, RESULTS.no_equilibrium)
    result = RESULTS.where(found.finite, result, RESULTS.non_finite)
    on_branch = system.wound(found.angles).at(t).on_branch(RA().with_ground(found.pose))
    result = RESULTS.where(on_branch, result, RESULTS.wrong_branch)
    result = outcome_of_assembly(report, result)
    return RESULTS.where(valid_numbers(system, given, t), result, RESULTS.invalid_input)


def as_spin(spin: Any, system: System) -> Spin | None:
    """The steady rotation as arrays, checked where its numbers are known."""
    if spin is None:
        return None
    if not isinstance(spin, Spin):
        try:
            spin = Spin(*spin)
        except TypeError:
            raise TypeError(
                "equilibrium: spin must be mbd.Spin(axis, rate, point) or a pair (axis, rate), "
                f"not {spin!r}"
            ) from None
    parts = [numbers(x, system.dtype) for x in (spin.axis, spin.rate, spin.point)]
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


def numbers(x: Any, dtype) -> Array:
    """Numbers, some of which may be traced, as one array."""
    return as_jax(x, dtype) if is_concrete(x) else jnp.asarray(x, dtype)


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"equilibrium: {name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def _refuse_loose_bodies(system: System) -> None:
    """Raise where a body has neither a joint nor a force element."""
    held = {b for c in system.connections for b in c.bodies}
    held |= {b for stack in system.forces for bodies in stack.bodies for b in bodies}
    loose = [repr(name) for b, name in enumerate(system.bodies) if b not in held]
    if loose:
        raise ValueError(
            f"equilibrium: nothing holds {', '.join(loose)} of mechanism {system.name!r}: neither "
            "a joint nor a force element; it would fall for ever, or rest anywhere. Connect it, "
            "or leave it out"
        )


def refuse_failure(
    system: System, given: State, found: Equilibrium, last, changes: Unsteadiness
) -> None:
    """Raise `EquilibriumError` where no equilibrium was found, with the body that runs away."""
    if ended_as(found.result, RESULTS.successful):
        return
    parts = [f"mechanism {system.name!r}: {RESULTS[found.result]}"]
    if ended_as(found.result, RESULTS.not_steady):
        parts.append(f"It is {changes.blame(system)} that changes")
    if ended_as(found.result, RESULTS.no_equilibrium):
        parts.append(_runaway(system, given, found, last))
        parts += most_bent(found.motion) or _singular_tangent(system, found, last)
    raise EquilibriumError(". ".join(parts), found)


def _runaway(system: System, given: State, found: Equilibrium, last) -> str:
    last = np.abs(np.asarray(last))
    way = np.max(last[:, :3], axis=1) / float(system.length) + np.max(last[:, 3:], axis=1)
    b = int(np.argmax(np.nan_to_num(way, nan=np.inf)))
    moved = np.linalg.norm(np.asarray(found.state.r)[b] - np.asarray(given.r)[b])
    turned = np.linalg.norm(so3.log(given.A[b].T @ found.state.A[b]))
    return (
        f"The body that runs away is {system.bodies[b]!r}: it moved by {moved:.3g} m and turned by "
        f"{turned:.3g} rad; {float(found.residual):.1e} of the loads are left unbalanced"
    )


def _singular_tangent(system: System, found: Equilibrium, last) -> list[str]:
    """That the tangent stiffness is singular where the search ended, along the last correction,
    with the body that it lets go.
    """
    judged = stability_of(system, found.state, found.lam, found.t, found.spin)
    if judged is None or not judged.stiffness.size or judged.indifferent:
        return []
    k = int(np.argmin(judged.relative))
    weights = np.array([1.0 / float(system.length)] * 3 + [1.0] * 3)
    way, step = judged.shapes[k] * weights, np.asarray(last) * weights
    aligned = np.abs(np.vdot(way, step)) / (np.linalg.norm(way) * np.linalg.norm(step) + 1e-300)
    if not (judged.relative[k] < _SINGULAR and aligned > 0.9):
        return []
    b = int(np.argmax(np.max(np.abs(way), axis=1)))
    return [
        f"The tangent stiffness is nearly singular there, and lets {system.bodies[b]!r} go: it "
        "looks like a limit point, beyond which no equilibrium is near. mbd.continuation passes it"
    ]
