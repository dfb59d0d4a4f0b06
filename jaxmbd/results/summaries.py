"""What people read when they print a motion; nothing is compiled for it."""

from typing import Any

import numpy as np

from ..model.readable import counted, known
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
        if solution.events is not None:
            lines += [f"  {line}" for line in repr(solution.events).splitlines()]
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
    found = by_rows_if_made(energies, solution.system, solution.state, solution._moments)
    if found is None:
        return "see sol.energy()"
    kinetic = np.asarray(solution.stats.get("kinetic_energy", found[0]))
    total = (kinetic + np.asarray(found[1]))[np.isfinite(np.asarray(found[1]))]
    if not total.size:
        return "no row without NaN"
    return f"{total[0]:.6g} J at the start, change {total[-1] - total[0]:.3g} J at the end"
