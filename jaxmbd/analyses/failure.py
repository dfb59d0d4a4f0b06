"""Say what failed: the time, the joint, the cure."""

import jax
import jax.numpy as jnp
import numpy as np

from ..formulations import RA
from ..model.primitives import DP1
from ..model.state import State
from ..model.system import System
from ..results import RESULTS
from .export import result_name
from .mobility import mobility


class AssemblyError(ValueError):
    """The mechanism cannot be closed at the initial pose; the message names the joint and the gap."""


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


def refuse_wrong_branch(system: System, state: State, report, t) -> None:
    """Raise `AssemblyError` where joints stay open, or where a rotation driver closed half a turn away."""
    if not bool(report.closed):
        joints = [f"{name!r} by {abs(gap):.3g} ({row})" for name, row, gap in open_joints(system, report.violation)[:3]]
        raise AssemblyError(
            f"mechanism {system.name!r} cannot be assembled at t = {float(t):g} s: open are joint "
            + ", ".join(joints)
            + ". Check the points and axes of these joints, or describe the bodies closer to a closed pose"
        )
    for name, cosine in _driver_alignment(system, state, t):
        if cosine < 0.0:
            raise AssemblyError(
                f"driver {name!r}: at t = {float(t):g} s the angle lies more than a quarter turn from the described "
                "pose, and assembly found the opposite root. Angles count from the described pose: describe the bodies "
                "near angle(t0), or subtract the initial angle"
            )


def _driver_alignment(system: System, state: State, t) -> list[tuple[str, float]]:
    """For every RotationDriver the cosine between where its reference direction should be and where it is."""
    found = []
    pose = RA().with_ground(state.pose)
    start = 0
    for stack in system.constraints:
        if isinstance(stack.primitive, DP1) and stack.driven:
            primitive = stack.at(jnp.asarray(t)).primitive
            for c in system.connections:
                if c.kind != "RotationDriver":
                    continue
                k = system.order[c.rows[0]] - start
                e1 = jnp.cross(primitive.a_j_bar[k], c.axis_j_bar)  # e2 x n = e1
                cosine = (pose.A[c.j] @ e1) @ (pose.A[c.i] @ primitive.a_i_bar[k])
                found.append((c.name, float(cosine)))
        start += len(stack)
    return found


def raise_failure(system: System, solution, h=None) -> None:
    """Raise `SimulationError` if a run failed; the steps before are in its `solution`."""
    if bool(jnp.all(solution.result == RESULTS.successful)):
        return
    raise SimulationError(describe_failure(system, solution), solution)


def describe_failure(system: System, solution) -> str:
    """A sentence with the outcome, the time of the last good row, the worst joint and the fastest body there."""
    good = np.flatnonzero(np.all(np.isfinite(np.asarray(solution.r)), axis=(1, 2)))
    sentence = RESULTS[solution.result]
    if not len(good):
        return f"mechanism {system.name!r}: the run failed at the start ({result_name(solution.result)}): {sentence}"
    k = int(good[-1])
    parts = [f"mechanism {system.name!r}: the run failed after t = {float(solution.t[k]):g} s (row {k}): {sentence}"]
    last = jax.tree.map(lambda x: x[k : k + 1] if _is_row(x, solution) else x, solution)
    if system.nc:
        name, row, _ = open_joints(system, last.violation(system).velocity[0])[0]
        load = {
            n: float(np.linalg.norm(r.force[0]) + np.linalg.norm(r.moment[0]))
            for n, r in last.reactions(system).items()
        }
        loaded = sorted(load, key=lambda n: -np.nan_to_num(load[n], nan=np.inf))[:2]
        parts.append(
            f"There the joint with the largest velocity error is {name!r} ({row}), the largest loads are at "
            + " and ".join(repr(n) for n in loaded)
        )
    speed = np.linalg.norm(np.asarray(last.a[0]), axis=1) + np.linalg.norm(np.asarray(last.alpha[0]), axis=1)
    parts.append(f"The body with the largest acceleration is {system.bodies[int(np.argmax(speed))]!r}")
    return ". ".join(parts)


def refuse_redundant_drivers(system: System, state: State, t) -> None:
    """Raise where a driver prescribes what other constraints determine already; `state` is assembled."""
    if not any(c.is_driver for c in system.connections):
        return
    found = mobility(system, state, t=t)
    if found.redundant_drivers:
        others = ", ".join(repr(n) for n in [*found.redundant_joints, *found.redundant_drivers])
        raise ValueError(
            f"driver {found.redundant_drivers[-1]!r} is redundant or in conflict at t = {float(t):g} s: its motion is "
            f"determined already by constraints among {others}. Remove it, or free the motion it should drive"
        )


def _is_row(x, solution) -> bool:
    """Whether an array of a solution has one row per instant."""
    return hasattr(x, "shape") and x.ndim > 0 and x.shape[0] == solution.t.shape[0]
