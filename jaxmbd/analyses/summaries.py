"""What people read when they print the result of an analysis; nothing is compiled for it."""

import numpy as np

from ..model.readable import counted, known, listed
from ..results.summaries import of_solution, outcomes
from .inverse_dynamics import InverseDynamics
from .statics.continuation import Path
from .statics.stability import Stability
from .vibration.linearization import Linearization, Modes
from .vibration.periodic import Periodic


def of_modes(modes: Modes) -> str:
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


def of_linearization(found: Linearization) -> str:
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


def of_inverse_dynamics(found: InverseDynamics) -> str:
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


def of_stability(found: Stability) -> str:
    """Whether it is stable, and the lowest stiffness."""
    word = "stable" if found.stable else f"unstable in {counted(found.unstable, 'direction')}"
    lowest = f", lowest stiffness {found.stiffness[0].real:.6g}" if len(found.stiffness) else ""
    return (
        f"Stability: {word}, {found.indifferent} indifferent, of "
        f"{counted(len(found.stiffness), 'freedom')}{lowest}"
    )


def of_path(path: Path) -> str:
    """Range, stability and special points."""
    values, stable = np.asarray(path.parameter), int(np.sum(path.stable))
    end = "complete" if path.complete else f"ended early: {path.reason}"
    rows = [(p.kind, f"at {p.parameter:.6g}", f"moves {p.body!r} most") for p in path.points]
    head = (
        f"Path: {counted(len(values), 'point')} from {values[0]:g} to {values[-1]:g}, {stable} "
        f"stable, {end}"
    )
    return "\n".join([head, *listed(rows)])


def of_periodic(found: Periodic) -> str:
    """Outcome, period and the largest multiplier."""
    if not known(found.period, found.multipliers, found.result._value) or np.ndim(found.period):
        return "Periodic (traced or a batch)"
    sizes = np.abs(np.asarray(found.multipliers))
    return (
        f"Periodic motion of period {float(np.asarray(found.period)):.6g} s\n"
        f"  outcome: {outcomes(found.result)}, residual {float(np.asarray(found.residual)):.1e}\n"
        f"  largest multiplier: {np.max(sizes, initial=0.0):.6g}"
    )
