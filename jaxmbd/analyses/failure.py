"""Say what failed: the time, the joint, the cure."""

import warnings
from collections import OrderedDict
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..equations.laws import gaps
from ..formulations import RA
from ..model.higher_pairs import AbstractCurved
from ..model.joints import Constraint
from ..model.laws.base import DRY
from ..model.state import Pose, State, Twist
from ..model.system import System
from ..model.validation import users_line
from ..results import RESULTS, ended_as
from .compiled import compiled_once, runs_now
from .export import result_name
from .mobility import freedoms_lost_nearby, mobility, nearly_repeating

# Assembly may change this share of a length, an angle [rad] or a speed without a word: three digits
# are described.
_ROUNDING = 5e-3
# Of the largest singular value; ordinary mechanisms have smallest ones of 0.01 and more.
_NEAR_SINGULAR = 5e-3
_MUCH_BENT = 1.5  # rad, of one element of a beam: a step or two from half a turn
# Rows up to which drivers are checked for redundancy, which takes singular values.
_LARGEST = 600
# Depth at the start that is rounding, of the length; time stepping removes it at once.
INSIDE = 1e-6


class AssemblyError(ValueError):
    """The mechanism cannot be closed at the initial pose; the message names the joint and the
    gap.
    """


class AssemblyWarning(UserWarning):
    """Assembly changed a position or a velocity by more than the rounding of its description."""


class SingularPoseWarning(UserWarning):
    """A run passed a singular pose so closely that reactions of some steps leave out forces without
    bound.
    """


class DroppedBounceWarning(UserWarning):
    """Impacts of some steps went without restitution, because the laws had no solution with it."""


class RedundantJointWarning(UserWarning):
    """Dry friction follows the force of a joint whose force is not unique."""


class BentBeamWarning(UserWarning):
    """An element of a beam bends by more than its strains can tell."""


class LostContactWarning(UserWarning):
    """The normal force of a rolling or sliding pair pulls, where a real contact would be lost."""


class SimulationError(RuntimeError):
    """A run failed part of the way; `solution` holds the steps before the failure.

    Attributes:
        solution: The solution with NaN rows after the failure.
    """

    def __init__(self, message: str, solution=None):
        super().__init__(message)
        self.solution = solution


def open_joints(system: System, violation) -> list[tuple[str, str, float]]:
    """Joints by decreasing violation: (name, worst row, value)."""
    violation = np.asarray(violation)
    table = []
    for c in system.connections:
        values = violation[list(c.rows)]
        worst = int(np.argmax(np.where(np.isnan(values), np.inf, np.abs(values))))
        table.append((c.name, c.labels[worst], float(values[worst])))
    return sorted(table, key=lambda row: -abs(row[2]))


def refuse_open(system: System, report, t) -> None:
    """Raise `AssemblyError` where joints stay open, or where a driven rotation closed half a turn
    away.
    """
    if not bool(report.closed):
        joints = [
            f"{name!r} by {abs(gap):.3g} ({row})"
            for name, row, gap in open_joints(system, report.violation)[:3]
        ]
        raise AssemblyError(
            f"mechanism {system.name!r} cannot be assembled at t = {float(t):g} s: open are joint "
            + ", ".join(joints)
            + ". Check the points and axes of these joints, or describe the bodies closer to a "
            "closed pose"
        )
    if not bool(report.on_branch):
        drivers = " or ".join(repr(c.name) for c in system.connections if c.is_driver)
        raise AssemblyError(
            f"driver {drivers}: at t = {float(t):g} s the angle lies more than a quarter turn from "
            "the described pose, and assembly found the opposite root. Angles count from the "
            "described pose: describe the bodies near angle(t0), or subtract the initial angle"
        )


def warn_of_dropped_bounces(system: System, solution) -> None:
    """Warn where impacts went without restitution because the laws had no solution with it."""
    counts = solution.stats.get("law_bounces_dropped")
    if counts is None or not (dropped := int(np.asarray(counts)[-1])):
        return
    warnings.warn(
        f"mechanism {system.name!r}: {dropped} step(s) let impacts go without restitution, because "
        "the laws of several points that strike at once had no solution with it",
        DroppedBounceWarning,
        stacklevel=users_line(),
    )


def _closed_laws(row) -> list[str]:
    """Which laws acted at a row."""
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


def refuse_penetration(system: System, state: State) -> None:
    """Raise where bodies stand inside each other, or joints beyond their stops, at the start; with
    the depths.

    Raises:
        ValueError: It names them.
    """
    if not system.laws:
        return
    found = np.asarray(_gaps(system, state))
    worst, place = [], 0
    for stack in system.laws:
        for name in stack.names:
            n = stack.places
            if stack.kind != DRY and (least := float(found[place : place + n].min())) < 0.0:
                worst.append((least, stack.kind, name))
            place += n
    if worst and min(worst)[0] < -INSIDE * float(system.length):
        listed = ", ".join(
            f"{kind} {name!r} by {-gap:.3g}" for gap, kind, name in sorted(worst)[:5]
        )
        raise ValueError(
            f"mechanism {system.name!r} starts beyond its limits [m or rad]: {listed}. Move the "
            "bodies apart by that much, with r=, set_joints or move_apart, or change the limit"
        )


def warn_of_shared_friction(system: System, state: State, t: Any) -> None:
    """Warn where dry friction is bounded by the force of a joint that shares it with others."""
    joints = {rows: name for stack in system.laws for rows, name in _carriers(stack)}
    if not joints or not system.has_loops or system.nc > _LARGEST:
        return
    shared = set(mobility(system, state, t=t).redundant_joints)
    for c in system.connections:
        if c.rows in joints and c.name in shared:
            warnings.warn(
                f"mechanism {system.name!r}: friction {joints[c.rows]!r} follows the force of "
                f"joint {c.name!r}, which is not unique, because constraints there repeat; the one "
                "of least norm is taken. Release a row of a joint of that loop, or give bound= in "
                "place of friction=",
                RedundantJointWarning,
                stacklevel=users_line(),
            )


def _carriers(stack) -> list[tuple[tuple[int, ...], str]]:
    return [(rows, name) for rows, name in zip(stack.joints, stack.names, strict=True) if rows]


@compiled_once
def _gaps(system: System, state: State):
    formulation = RA()
    q, _ = formulation.from_state(state)
    return gaps(formulation, system.wound(state.angles), q)


def warn_of_changes(
    system: System, given: State, state: State, report, *, velocities: bool = True
) -> None:
    """Warn where assembly changed what was described by more than its rounding, with the body and
    the cure.
    """
    sentences = []
    # In a derivative by a place the report is known, as it has none, and the length is traced.
    length = float(np.asarray(jax.lax.stop_gradient(system.length)))
    moved, turned = np.asarray(report.displacement), np.asarray(report.rotation)
    far, wide = moved > _ROUNDING * length, turned > _ROUNDING
    if far.any() or wide.any():
        size = moved / length + turned
        k = int(np.argmax(size))
        sentences.append(
            f"assembly moved body {system.bodies[k]!r} by {moved[k]:.3g} m and turned it by "
            f"{turned[k]:.3g} rad to close the joints ({int(np.sum(far | wide))} of {system.nb} "
            "bodies moved); describe the bodies where the joints meet, or take the assembled pose "
            "from mbd.assemble"
        )
    if velocities:
        sentences += _changed_velocities(system, given, state, length)
    if sentences:
        warnings.warn(
            f"mechanism {system.name!r}: " + "; ".join(sentences),
            AssemblyWarning,
            stacklevel=users_line(),
        )


def _changed_velocities(system: System, given: State, state: State, length: float) -> list[str]:
    """A sentence where a velocity that was described is not kept; one that was left out may follow
    the others.
    """
    flags = np.array(system.described or [(True, True)] * system.nb)
    before = [np.asarray(given.v), np.asarray(given.omega) * length]
    after = [np.asarray(state.v), np.asarray(state.omega) * length]
    scale = max(float(np.max(np.abs(x))) for x in (*before, *after))
    worst, where = 0.0, (0, 0)
    for part in (0, 1):
        stated = flags[:, part] | np.any(before[part] != 0.0, axis=1)
        change = np.where(stated, np.linalg.norm(after[part] - before[part], axis=1), 0.0)
        k = int(np.argmax(change))
        if change[k] > worst:
            worst, where = float(change[k]), (k, part)
    if not worst > _ROUNDING * scale:
        return []
    k, part = where
    names, units = ("velocity", "angular velocity"), ("m/s", "rad/s")
    values = [np.round(x[part][k] / (length if part else 1.0), 6).tolist() for x in (before, after)]
    return [
        f"the described {names[part]} of body {system.bodies[k]!r}, {values[0]} {units[part]}, "
        f"does not satisfy the joints and drivers and became {values[1]} {units[part]}; describe "
        "velocities that agree with the joints, or leave out those that should follow from the "
        "others"
    ]


# Degrees of freedom lost by constraints and pose, of the last mechanisms: two singular value
# decompositions of a hundred bodies take longer than a short run.
_lost: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
_LOST_AT_MOST = 32


def warn_of_change_point(system: System, given: State, state: State, t: Any) -> None:
    """Warn where the mechanism stands on a change point, where motions branch; `state` is what
    `given` was assembled to.
    """
    if not system.has_loops or max(system.nc, 6 * system.nb) > _LARGEST:
        return
    pose = tuple(np.asarray(x).tobytes() for x in (given.r, given.A))
    key = id(system.constraints), pose, float(t)
    if key not in _lost:
        # Known numbers are computed now, also while a user's program is being traced.
        with nullcontext() if runs_now() else jax.ensure_compile_time_eval():
            lost = freedoms_lost_nearby(system, state, t)
        # The constraints are held so that their id stays theirs.
        _lost[key] = system.constraints, lost
        if len(_lost) > _LOST_AT_MOST:
            _lost.popitem(last=False)
    lost = _lost[key][-1]
    if lost > 0:
        warnings.warn(
            f"mechanism {system.name!r}: at t = {float(t):g} s it stands in a singular pose with "
            f"{lost} degree(s) of freedom more than beside it, where several motions branch off; "
            "which one a run takes follows the initial velocities, and rounding where these are "
            "zero. Start beside this pose to choose",
            AssemblyWarning,
            stacklevel=users_line(),
        )


def warn_of_undetermined_forces(system: System, solution) -> None:
    """Warn where reactions of some steps are not those that the motion takes."""
    chosen = "undetermined_rows" in solution.stats
    count = int(solution.stats["undetermined_rows" if chosen else "undetermined_steps"])
    if count:
        warnings.warn(
            f"mechanism {system.name!r}: {count} {'row(s) stand' if chosen else 'step(s) end'} so "
            "close to a singular pose, where reactions grow without bound, that their multipliers "
            "were not determined: those of minimum norm are returned, which leave out a part of "
            "the forces. Positions satisfy the joints there as elsewhere",
            SingularPoseWarning,
            stacklevel=users_line(),
        )


def warn_of_bent_beams(system: System, solution) -> None:
    """Warn where an element bends by more than its strains can tell, at the saved rows."""
    for beam in system.beams:
        bend = _bends(np.asarray(solution.A)[:, list(beam.nodes)])
        limit = system.forces[beam.elements[0][0]].force.largest_bend
        over = np.nan_to_num(bend) > limit
        if np.any(over):
            row, k = np.argwhere(over)[0]
            warnings.warn(
                f"mechanism {system.name!r}: element {k} of beam {beam.name!r} bends by "
                f"{np.degrees(bend[row, k]):.0f} degrees at t = "
                f"{float(np.asarray(solution.t)[row]):g} s, beyond the {np.degrees(limit):.0f} up "
                "to which its strains hold; use more elements",
                BentBeamWarning,
                stacklevel=users_line(),
            )


def warn_of_lost_contact(system: System, solution) -> None:
    """Warn where the normal force of a contact pulls, which is modelled and does not happen."""
    one_sided = {c.name for c in system.connections if c.element.one_sided}
    for name, force in solution.normal_forces(system).items():
        if name not in one_sided:
            continue
        force = np.asarray(force)
        force = force[np.isfinite(force)]
        # Rounding at rest is no pull.
        pulling = force < -1e-6 * np.max(np.abs(force), initial=0.0)
        if np.any(pulling):
            k = int(np.argmax(pulling))
            warnings.warn(
                f"mechanism {system.name!r}: the normal force of joint {name!r} pulls from t = "
                f"{float(np.asarray(solution.t)[k]):g} s on (down to {np.min(force):.3g} N): the "
                "bodies are held together, where a real contact would be lost",
                LostContactWarning,
                stacklevel=users_line(),
            )


def raise_failure(system: System, solution, state: State | None = None, h: Any = None) -> None:
    """Raise `SimulationError` if a run failed; the steps before are in its `solution`."""
    if not ended_as(solution.result, RESULTS.successful, RESULTS.interrupted):
        raise SimulationError(describe_failure(system, solution, state, h), solution)


def describe_failure(system: System, solution, state: State | None = None, h: Any = None) -> str:
    """A sentence with the outcome, the time of the last good row, the worst joint and the fastest
    body there.
    """
    good = np.flatnonzero(np.all(np.isfinite(np.asarray(solution.r)), axis=(1, 2)))
    sentence = RESULTS[solution.result]
    name = result_name(solution.result)
    if not len(good):
        parts = [f"mechanism {system.name!r}: the run failed at the start ({name}): {sentence}"]
        if state is not None:
            parts += _culprits(system, state, [float(solution.t[0])])
        return ". ".join(parts + _advice(system, name))
    k = int(good[-1])
    t = float(solution.t[k])
    parts = [f"mechanism {system.name!r}: the run failed after t = {t:g} s (row {k}): {sentence}"]
    last = solution.rows(slice(k, k + 1))
    later = t + float(h) if h is not None else float(solution.t[min(k + 1, len(solution.t) - 1)])
    found = (
        _culprits(system, solution.at(k), [t, later])
        if name in ("non_finite", "newton_max_steps")
        else []
    )
    if found:
        return ". ".join(parts + found)
    parts += _advice(system, name)
    if name in ("non_finite", "newton_max_steps"):
        parts += most_bent(last)
    if name == "contact_not_converged":
        parts += _closed_laws(last)
    if name in ("singular", "newton_max_steps", "step_too_small"):
        parts += _singular_pose(system, solution.at(k), t)
    if system.nc:
        joint, row, _ = open_joints(system, last.violation(system).velocity[0])[0]
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
    """What helps against an outcome in this mechanism."""
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


def _bends(A: np.ndarray) -> np.ndarray:
    """The angles between neighboring nodes of a beam, (T, n) [rad], from (T, n + 1, 3, 3)."""
    turns = np.swapaxes(A[:, :-1], 2, 3) @ A[:, 1:]
    return np.arccos(np.clip(0.5 * (np.trace(turns, axis1=2, axis2=3) - 1.0), -1.0, 1.0))


def most_bent(row) -> list[str]:
    """The element of a beam that bends most, where that is much."""
    bends = {b.name: _bends(np.asarray(row.A)[:, list(b.nodes)])[0] for b in row.system.beams}
    found = [(float(bend.max()), name) for name, bend in bends.items()]
    if not found or max(found)[0] < _MUCH_BENT:
        return []
    angle, name = max(found)
    k = int(np.argmax(bends[name]))
    return [
        f"Element {k} of beam {name!r} bends by {np.degrees(angle):.0f} degrees there, and its "
        "strains are defined up to half a turn; use more elements"
    ]


def _singular_pose(system: System, state: State, t: float) -> list[str]:
    """That a pose is close to a singular one, with the joints; the last good row is beside it, not
    on it.
    """
    if max(system.nc, 6 * system.nb) > _LARGEST:
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
    system = system.wound(state.angles)
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
            loads = stack.each(lambda element, p, w, t=t: element.wrench(p, w, t), *local)
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


def _bent(stack, k: int, bodies: list[str]) -> str:
    i, j = (bodies[b] for b in stack.bodies[k])
    return (
        f"Beam element {stack.names[k]!r}, between {i!r} and {j!r}, bends by more than its strains "
        "can tell, nearly half a turn; use more elements or smaller steps"
    )


def _bad_motions(system: System, t) -> list[tuple[str, str]]:
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


def refuse_redundant_drivers(system: System, state: State, t) -> None:
    """Raise where a driver prescribes what other constraints determine already; `state` is
    assembled.
    """
    if not any(c.is_driver for c in system.connections) or system.nc > _LARGEST:
        return
    found = mobility(system, state, t=t)
    if found.redundant_drivers:
        others = ", ".join(repr(n) for n in [*found.redundant_joints, *found.redundant_drivers])
        raise ValueError(
            f"driver {found.redundant_drivers[-1]!r} is redundant or in conflict at t = "
            f"{float(t):g} s: its motion is determined already by constraints among {others}. "
            "Remove it, or free the motion it should drive"
        )
