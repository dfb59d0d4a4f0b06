"""Checks of an initial state: open joints, bodies inside each other, drivers in conflict."""

import warnings
from collections import OrderedDict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...equations.laws import gap_shares, gaps
from ...equations.pressing import pressing_loads
from ...formulations import RA
from ...model.compiled import compiled_once
from ...model.laws.base import DRY, LawStack
from ...model.state import State
from ...model.system import System
from ...model.validation import as_jax, users_line
from ...rotations.types import Array, Scalar
from ..assembly import AssemblyReport
from ..mobility import freedoms_lost_nearby, mobility, scaled_rows

# Assembly may change this share of a length, an angle [rad] or a speed without a word: three digits
# are described.
_ROUNDING = 5e-3
# Of a load, the part along what joints leave free; of the largest singular value, what binds.
_YIELDING, _BOUND = 1e-6, 1e-7
# Rows up to which drivers are checked for redundancy, which takes singular values.
LARGEST = 600
# Depth at the start that is rounding, of the length; time stepping removes it at once.
INSIDE = 1e-6


class AssemblyError(ValueError):
    """The mechanism cannot be closed at the initial pose; the message names the joint and the
    gap.
    """


class AssemblyWarning(UserWarning):
    """Assembly changed a position or a velocity by more than the rounding of its description."""


class YieldingAxesWarning(UserWarning):
    """No joint resists the force that separates two gears, and the motion leaves that force out."""


class RedundantJointWarning(UserWarning):
    """Dry friction depends on the force of a joint that is not unique."""


def open_joints(
    system: System,
    violation: Float[np.ndarray | Array, " nc"],
    shares: Float[np.ndarray | Array, " nc"],
) -> list[tuple[str, str, float]]:
    """Joints by decreasing violation: (name, worst row, value in its unit). `shares` are the
    violations without units, by which they are compared.
    """
    violation = np.asarray(violation)
    shares = np.abs(np.asarray(shares))
    shares = np.where(np.isnan(shares), np.inf, shares)
    table = []
    for c in system.connections:
        worst = max(c.rows, key=lambda row: shares[row])
        label = c.labels[c.rows.index(worst)]
        table.append((shares[worst], c.name, label, float(violation[worst])))
    return [row[1:] for row in sorted(table, key=lambda row: -row[0])]


def refuse_open(system: System, report: AssemblyReport, t: Scalar | float) -> None:
    """Raise `AssemblyError` where joints stay open, or where a driven rotation closed half a turn
    away.
    """
    if not bool(report.closed):
        joints = [
            f"{name!r} by {abs(gap):.3g} ({row})"
            for name, row, gap in open_joints(system, report.violation, report.shares)[:3]
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


def refuse_penetration(system: System, state: State) -> None:
    """Raise where bodies stand inside each other, or joints beyond their stops, at the start; with
    the depths.

    Raises:
        ValueError: It names them.
    """
    if not system.laws:
        return
    found, shares = (np.asarray(x) for x in _gaps(system, state))
    worst, place = [], 0
    for stack in system.laws:
        for name in stack.names:
            k = place + int(np.argmin(shares[place : place + stack.places]))
            if stack.kind != DRY and shares[k] < 0.0:
                worst.append((shares[k], stack.kind, name, found[k]))
            place += stack.places
    if worst and min(worst)[0] < -INSIDE:
        listed = ", ".join(
            f"{kind} {name!r} by {-gap:.3g}" for _, kind, name, gap in sorted(worst)[:5]
        )
        raise ValueError(
            f"mechanism {system.name!r} starts beyond its limits [m or rad]: {listed}. Move the "
            "bodies apart by that much, with r=, set_joints or move_apart, or change the limit"
        )


def warn_of_shared_friction(system: System, state: State, t: Scalar | float) -> None:
    """Warn where dry friction is bounded by the force of a joint that shares it with others."""
    joints = {rows: name for stack in system.laws for rows, name in _carriers(stack)}
    if not joints or not system.has_loops or system.nc > LARGEST:
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


def warn_of_yielding_axes(system: System, state: State, t: Scalar | float) -> None:
    """Warn where the part of a tooth force that presses bodies apart would move them."""
    if not (system.presses and system.forces) or max(system.nc, 6 * system.nb) > LARGEST:
        return
    rows, loads = (
        scaled_rows(system, state, t),
        np.asarray(_unit_presses(system, state, as_jax(t, system.dtype))),
    )
    _, values, right = np.linalg.svd(rows)
    free = right[int(np.sum(values > _BOUND * values[0])) :]
    for c in system.connections:
        load = loads[list(c.rows)]
        if np.linalg.norm(load @ free.T) > _YIELDING * np.linalg.norm(load):
            warnings.warn(
                f"mechanism {system.name!r}: joints do not hold the axes of {c.name!r}, which the "
                "force of its pressure angle would move apart; the motion leaves that force out. "
                "Hold the axes by joints, or give pressure_angle=0",
                YieldingAxesWarning,
                stacklevel=users_line(),
            )


@compiled_once
def _unit_presses(system: System, state: State, t: Scalar):
    """Loads on all bodies that accompany a unit force of each row, (nc, 6 nb), in the order of
    description.
    """
    now = system.at_state(state).at(t)

    def one(sizes: Float[Array, " nc"]):
        return (pressing_loads(now, state.pose, sizes) * system.units()[None, :]).reshape(-1)

    return system.to_natural(jax.vmap(one)(jnp.eye(system.nc, dtype=system.dtype)).T).T


def _carriers(stack: LawStack) -> list[tuple[tuple[int, ...], str]]:
    return [(rows, name) for rows, name in zip(stack.joints, stack.names, strict=True) if rows]


@compiled_once
def _gaps(system: System, state: State):
    formulation = RA()
    q, _ = formulation.from_state(state)
    now = system.at_state(state)
    return gaps(formulation, now, q), gap_shares(formulation, now, q)


def warn_of_changes(
    system: System, given: State, state: State, report: AssemblyReport, *, velocities: bool = True
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


def warn_of_change_point(system: System, given: State, state: State, t: Scalar | float) -> None:
    """Warn where the mechanism stands on a change point, where motions branch; `state` is what
    `given` was assembled to.
    """
    if not system.has_loops or max(system.nc, 6 * system.nb) > LARGEST:
        return
    pose = tuple(np.asarray(x).tobytes() for x in (given.r, given.A))
    key = id(system.constraints), pose, float(t)
    if key not in _lost:
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


def refuse_redundant_drivers(system: System, state: State, t: Scalar | float) -> None:
    """Raise where a driver prescribes what other constraints determine already; `state` is
    assembled.
    """
    if not any(c.is_driver for c in system.connections) or system.nc > LARGEST:
        return
    found = mobility(system, state, t=t)
    if found.redundant_drivers:
        others = ", ".join(repr(n) for n in [*found.redundant_joints, *found.redundant_drivers])
        raise ValueError(
            f"driver {found.redundant_drivers[-1]!r} is redundant or in conflict at t = "
            f"{float(t):g} s: its motion is determined already by constraints among {others}. "
            "Remove it, or free the motion it should drive"
        )
