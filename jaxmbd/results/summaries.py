"""What people read when they print a result; nothing is compiled for it."""

from typing import Any

import numpy as np

from ..model.readable import counted, known, listed
from ..outcomes import RESULTS
from .by_rows import by_rows_if_made
from .energy import energies
from .solution import Solution
from .violation import violations


def of_solution(solution: Solution) -> str:
    """What a motion is and how it ended, in numbers that are there already."""
    rows = solution.t.shape[-1]
    system, batch = solution.system, solution.t.shape[:-1]
    name = "" if system is None else f" of {system.name!r}"
    many = f" a batch of {' x '.join(map(str, batch))} motions," if batch else ""
    head = f"Solution{name}:{many} {counted(rows, 'row')}"
    bodies = counted(solution.r.shape[-2], "body", "bodies")
    sizes = f"{bodies}, {counted(solution.multipliers.shape[-1], 'constraint row')}"
    if not known(solution.t, solution.r, solution.result._value):
        return f"{head}, {sizes} (traced)"
    t = np.asarray(solution.t)
    head += f" from t = {np.min(t):g} to {np.max(t):g} s, {sizes}"
    lines = [f"  outcome: {outcomes(solution.result)}{_completed(solution)}"]
    if not batch:
        lines += [f"  violation: {_worst(solution)}", f"  energy: {_energy_change(solution)}"]
    return "\n".join([head, *lines])


def outcomes(result: RESULTS) -> str:
    """The name of an outcome with its sentence; of a batch how often each came."""
    codes = np.asarray(result._value)
    names = {int(item._value): name for name, item in RESULTS._name_to_item.items()}
    if codes.ndim:
        values, counts = np.unique(codes, return_counts=True)
        return ", ".join(f"{n} {names[int(k)]}" for k, n in zip(values, counts, strict=True))
    name, sentence = names[int(codes)], RESULTS[result]
    return name if sentence == name else f"{name}: {sentence}"


def _completed(solution: Solution) -> str:
    steps: Any = solution.stats.get("completed_steps")
    if not known(steps) or np.ndim(steps):
        return ""
    return f", {counted(int(np.asarray(steps)), 'step')}"


def _worst(solution: Solution) -> str:
    """The largest violation at any row, if its program is there."""
    asked = (solution.state, solution._moments)
    found = by_rows_if_made(violations, solution.system, *asked)
    if found is None or solution.system is None:
        return "see sol.violation()"
    if not solution.multipliers.shape[-1]:
        return "none, without constraint rows"
    gaps = np.abs(np.asarray(found[0]))
    worst = np.max(np.nan_to_num(gaps), axis=0)
    k = int(np.argmax(worst))
    return f"at most {worst[k]:.1e}, in {solution.system.row_names[k]!r}"


def _energy_change(solution: Solution) -> str:
    """The total energy at the first row and at the last good one, if its program is there."""
    found = by_rows_if_made(energies, solution.system, solution.state)
    if found is None:
        return "see sol.energy()"
    kinetic = np.asarray(solution.stats.get("kinetic_energy", found[0]))
    total = (kinetic + np.asarray(found[1]))[np.isfinite(np.asarray(found[1]))]
    if not total.size:
        return "no row without NaN"
    return f"{total[0]:.6g} J at the start, change {total[-1] - total[0]:.3g} J at the end"


def of_modes(modes: Any) -> str:
    """A table of frequencies and damping ratios."""
    count = modes.frequency.shape[-1]
    if not known(modes.frequency, modes.damping_ratio) or np.ndim(modes.frequency) != 1:
        return f"{counted(count, 'mode')} (traced or a batch)"
    rows = [
        (str(k), f"{f:.6g} Hz", f"damping ratio {d:.4g}")
        for k, (f, d) in enumerate(
            zip(np.asarray(modes.frequency), np.asarray(modes.damping_ratio), strict=True)
        )
    ]
    return "\n".join([f"Modes: {count}", *listed(rows)])


def of_linearization(found: Any) -> str:
    """Names of coordinates, speeds and inputs."""
    inputs, states = ", ".join(x.name for x in found.inputs) or "none", found.element_states
    return "\n".join(
        [
            f"Linearization: {counted(len(found.coordinates), 'coordinate')}, "
            f"{counted(len(found.speeds), 'speed')}, {counted(len(found.inputs), 'input')}",
            f"  coordinates: {', '.join(found.coordinates) or 'none'}",
            f"  speeds: {', '.join(found.speeds) or 'none'}",
            f"  inputs: {inputs}",
            *([f"  states of elements: {', '.join(states)}"] if states else []),
        ]
    )


def of_inverse_dynamics(found: Any) -> str:
    """The motion, and the largest effort of each driver or actuator."""
    if not known(found.unbalanced, *found.efforts.values()) or np.ndim(found.unbalanced) != 1:
        return f"InverseDynamics of {', '.join(found.efforts)} (traced or a batch)"
    peaks = {name: np.asarray(effort) for name, effort in found.efforts.items()}
    rows = [
        (repr(name), f"at most {np.max(np.abs(np.nan_to_num(effort))):.6g} N·m or N")
        for name, effort in peaks.items()
    ]
    left = np.max(np.nan_to_num(np.asarray(found.unbalanced)), initial=0.0)
    head = f"InverseDynamics: {counted(len(rows), 'effort')}, unbalanced at most {left:.1e}"
    return "\n".join([head, *listed(rows), f"  {of_solution(found.solution).splitlines()[0]}"])


def of_stability(found: Any) -> str:
    """Whether it is stable, and the lowest stiffness."""
    word = "stable" if found.stable else f"unstable in {counted(found.unstable, 'direction')}"
    lowest = f", lowest stiffness {found.stiffness[0].real:.6g}" if len(found.stiffness) else ""
    return (
        f"Stability: {word}, {found.indifferent} indifferent, of "
        f"{counted(len(found.stiffness), 'freedom')}{lowest}"
    )


def of_path(path: Any) -> str:
    """Range, stability and special points."""
    values, stable = np.asarray(path.parameter), int(np.sum(path.stable))
    end = "complete" if path.complete else f"ended early: {path.reason}"
    rows = [(p.kind, f"at {p.parameter:.6g}", f"moves {p.body!r} most") for p in path.points]
    head = (
        f"Path: {counted(len(values), 'point')} from {values[0]:g} to {values[-1]:g}, {stable} "
        f"stable, {end}"
    )
    return "\n".join([head, *listed(rows)])


def of_periodic(found: Any) -> str:
    """Outcome, period and the largest multiplier."""
    if not known(found.period, found.multipliers, found.result._value) or np.ndim(found.period):
        return "Periodic (traced or a batch)"
    sizes = np.abs(np.asarray(found.multipliers))
    return (
        f"Periodic motion of period {float(np.asarray(found.period)):.6g} s\n"
        f"  outcome: {outcomes(found.result)}, residual {float(np.asarray(found.residual)):.1e}\n"
        f"  largest multiplier: {np.max(sizes, initial=0.0):.6g}"
    )
