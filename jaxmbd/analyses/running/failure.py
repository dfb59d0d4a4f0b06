"""Messages about failed runs: the time, the joint, the cure."""

import jax
import jax.numpy as jnp
import numpy as np

from ...equations.rows import row_sizes
from ...formulations import RA
from ...model.forces.base import ForceStack
from ...model.higher_pairs import AbstractCurved
from ...model.joints import Constraint
from ...model.state import Pose, State, Twist
from ...model.system import System
from ...outcomes import RESULTS, ended_as
from ...results.export import result_name
from ...results.solution import Solution
from ...rotations.types import Scalar
from ..mobility import moving_without_inertia, nearly_repeating
from .start_checks import LARGEST, open_joints
from .warnings import bends

# Of the largest singular value; ordinary mechanisms have smallest ones of 0.01 and more.
_NEAR_SINGULAR = 5e-3
_MUCH_BENT = 1.5  # rad, of one element of a beam: a step or two from half a turn


class SimulationError(RuntimeError):
    """A run failed part of the way; `solution` holds the steps before the failure.

    Attributes:
        solution: The solution with NaN rows after the failure.
    """

    def __init__(self, message: str, solution: Solution | None = None):
        super().__init__(message)
        self.solution = solution


def _closed_laws(row: Solution) -> list[str]:
    """Names of the laws that acted at a row."""
    system, states = row.system, row.stats.get("law_states")
    if states is None or system is None:
        return []
    closed, place = [], 0
    for stack in system.laws:
        for name in stack.names:
            if np.any(np.asarray(states)[0, place : place + stack.places]):
                closed.append(repr(name))
            place += stack.places
    return ["Closed there: " + (", ".join(closed) or "none")]


def raise_failure(
    system: System, solution: Solution, state: State | None = None, h: Scalar | float | None = None
) -> None:
    """Raise `SimulationError` if a run failed; the steps before are in its `solution`."""
    good = RESULTS.successful, RESULTS.interrupted, RESULTS.ended_by_event
    if not ended_as(solution.result, *good):
        raise SimulationError(describe_failure(system, solution, state, h), solution)


def describe_failure(
    system: System, solution: Solution, state: State | None = None, h: Scalar | float | None = None
) -> str:
    """A sentence with the outcome, the time of the last good row, the worst joint and the fastest
    body there.
    """
    good = np.flatnonzero(np.all(np.isfinite(np.asarray(solution.r)), axis=(1, 2)))
    sentence = RESULTS[solution.result]
    name = result_name(solution.result)
    if name == "singular":
        at = solution.at(int(good[-1])) if len(good) else state
        sentence = _moving_without_inertia(system, at, float(solution.t[0])) or sentence
    if not len(good):
        parts = [f"mechanism {system.name!r}: the run failed at the start ({name}): {sentence}"]
        if state is not None:
            parts += _culprits(system, state, [float(solution.t[0])])
        advice = _advice(system, name) if sentence == RESULTS[solution.result] else []
        return ". ".join(parts + advice)
    k = int(good[-1])
    t = float(solution.t[k])
    parts = [f"mechanism {system.name!r}: the run failed after t = {t:g} s (row {k}): {sentence}"]
    if name == "too_many_events":
        return parts[0]
    last = solution.rows(slice(k, k + 1))
    later = t + float(h) if h is not None else float(solution.t[min(k + 1, len(solution.t) - 1)])
    found = (
        _culprits(system, solution.at(k), [t, later])
        if name in ("non_finite", "newton_max_steps")
        else []
    )
    if found:
        return ". ".join(parts + found)
    parts += _advice(system, name) if sentence == RESULTS[solution.result] else []
    if name in ("non_finite", "newton_max_steps"):
        parts += most_bent(last)
    if name == "contact_not_converged":
        parts += _closed_laws(last)
    if name in ("singular", "newton_max_steps", "step_too_small"):
        parts += _singular_pose(system, solution.at(k), t)
    if system.nc:
        rates = np.asarray(last.violation(system).velocity[0])
        sizes = system.to_natural(row_sizes(RA(), system))
        joint, row, _ = open_joints(system, rates, rates / np.asarray(sizes))[0]
        load = {
            n: float(np.linalg.norm(r.force[0]) + np.linalg.norm(r.moment[0]))
            for n, r in last.reactions(system).items()
        }
        loaded = sorted(load, key=lambda n: -np.nan_to_num(load[n], nan=np.inf))[:2]
        parts.append(
            f"There the joint with the largest velocity error is {joint!r} ({row}), the largest "
            "loads are at " + " and ".join(repr(n) for n in loaded)
        )
    speed = np.linalg.norm(np.asarray(last.a[0]), axis=1) + np.linalg.norm(
        np.asarray(last.alpha[0]), axis=1
    )
    parts.append(
        f"The body with the largest acceleration is {system.bodies[int(np.argmax(speed))]!r}"
    )
    return ". ".join(parts)


def _advice(system: System, name: str) -> list[str]:
    """Advice against an outcome in this mechanism."""
    curves = [repr(c.name) for c in system.connections if issubclass(c.element, AbstractCurved)]
    if name == "wrong_branch" and curves:
        return [f"The curves of this mechanism are those of {', '.join(curves[:6])}"]
    if name != "singular":
        return []
    plain = [
        c.name for c in system.connections if c.is_driver and issubclass(c.element, Constraint)
    ]
    if plain:
        return [
            f"A driver f = cos(angle) such as {plain[0]!r} is singular at 0 and 180 degrees; use a "
            "RotationDriver"
        ]
    return ["Check where the joints' axes or points fall together at this pose"]


def most_bent(row: Solution) -> list[str]:
    """A sentence about the beam element that bends most, if it bends far."""
    beams = () if row.system is None else row.system.beams
    each = {b.name: bends(np.asarray(row.A)[:, list(b.nodes)])[0] for b in beams}
    found = [(float(bend.max()), name) for name, bend in each.items()]
    if not found or max(found)[0] < _MUCH_BENT:
        return []
    angle, name = max(found)
    k = int(np.argmax(each[name]))
    return [
        f"Element {k} of beam {name!r} bends by {np.degrees(angle):.0f} degrees there, and its "
        "strains are defined up to half a turn; use more elements"
    ]


def _moving_without_inertia(system: System, state: State | None, t: float) -> str:
    """A sentence naming bodies that move without inertia, or nothing; otherwise the matrix of the
    equations of motion is singular because rows are dependent.
    """
    if state is None or max(system.nc, 6 * system.nb) > LARGEST:
        return ""
    names = moving_without_inertia(system, state, t)
    if not names:
        return ""
    several = len(names) > 1
    return (
        f"bod{'ies' if several else 'y'} {', '.join(map(repr, names[:6]))} can move without moving "
        "anything that has inertia, so that no acceleration is determined; give "
        f"{'them' if several else 'it'} mass and inertia (not massless=True, no zero moment about "
        "an axis of free rotation), or connect it to a body that has them"
    )


def _singular_pose(system: System, state: State, t: float) -> list[str]:
    """A sentence naming the joints of a nearly singular pose, or none; the last good row is beside
    that pose, not on it.
    """
    if max(system.nc, 6 * system.nb) > LARGEST:
        return []
    value, joints = nearly_repeating(system, state, t)
    if not value < _NEAR_SINGULAR:
        return []
    return [
        f"The pose at t = {t:g} s is close to a singular one: the rows of "
        f"{', '.join(map(repr, joints[:6]))} nearly repeat each other (smallest singular value "
        f"{value:.1e} of the largest), so that motions branch there or forces grow without bound"
    ]


def _culprits(system: System, state: State, instants: list[float]) -> list[str]:
    """Force elements and motions of drivers whose values are not finite at a state, at the first
    such instant.
    """
    system = system.at_state(state)
    pose = RA().with_ground(state.pose)
    zero = jnp.zeros((1, 3), system.dtype)
    twist = Twist(jnp.concatenate([state.v, zero]), jnp.concatenate([state.omega, zero]))
    bodies = [*system.bodies, "ground"]
    for instant in instants:
        t = jnp.asarray(instant, system.dtype)
        sentences = []
        for stack in system.forces:
            local = (
                Pose(pose.r[stack.index], pose.A[stack.index]),
                Twist(twist.v[stack.index], twist.omega[stack.index]),
            )
            loads = stack.each(lambda element, p, w, t=t: element.acting(p, w, t), *local)
            finite = np.all([np.isfinite(np.asarray(x)).all(axis=(1, 2)) for x in loads], axis=0)
            broken = stack.each(lambda element, p: element.broken(p), local[0])
            broken = np.broadcast_to(np.asarray(broken), finite.shape)
            for k in np.flatnonzero(broken):
                sentences.append(_bent(stack, int(k), bodies))
            for k in np.flatnonzero(~finite & ~broken):
                on = " and ".join(repr(bodies[b]) for b in stack.bodies[k])
                sentences.append(
                    f"Force {stack.names[k]!r} on {on} is NaN or infinite at t = {instant:g} s"
                )
        for joint, what in _bad_motions(system, t):
            sentences.append(
                f"The motion of {joint!r} ({what}) is NaN or infinite at t = {instant:g} s"
            )
        if sentences:
            return sentences[:3]
    return []


def _bent(stack: ForceStack, k: int, bodies: list[str]) -> str:
    i, j = (bodies[b] for b in stack.bodies[k])
    return (
        f"Beam element {stack.names[k]!r}, between {i!r} and {j!r}, bends by more than its strains "
        "can tell, nearly half a turn; use more elements or smaller steps"
    )


def _bad_motions(system: System, t: Scalar) -> list[tuple[str, str]]:
    """Joints and rows whose prescribed values, or their rates, are not finite."""
    bad = np.zeros(system.nc, bool)
    start = 0
    for stack in system.constraints:
        now, f_dot, f_ddot = stack.jet(t)
        rows = np.isfinite(np.asarray(f_dot)) & np.isfinite(np.asarray(f_ddot))
        for leaf in jax.tree.leaves(now.primitive):
            rows &= np.isfinite(np.asarray(leaf)).reshape(len(stack), -1).all(axis=1)
        bad[start : start + len(stack)] = ~rows
        start += len(stack)
    natural = bad[np.array(system.order, int)]
    return [
        (c.name, c.labels[n])
        for c in system.connections
        for n, row in enumerate(c.rows)
        if natural[row]
    ]
