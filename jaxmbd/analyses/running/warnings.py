"""Warnings about a finished run: numbers that may be wrong although no step failed."""

import warnings

import numpy as np

from ...model.system import System
from ...model.validation import users_line
from ...results.solution import Solution
from ...rotations.types import Scalar

# Where a body turns by more than this in a step [rad], while its angular velocity changes by more
# than that share of it, generalized-alpha may be unstable (measured; the manual, "Choosing").
_MUCH_TURNED, _MUCH_CHANGED = 0.3, 0.1


class SingularPoseWarning(UserWarning):
    """A run passed close to a singular pose, where the reactions of some steps are undetermined."""


class DroppedBounceWarning(UserWarning):
    """Impacts of some steps had no restitution, because the laws had no solution with it, or
    because the step was too large for them.
    """


class BentBeamWarning(UserWarning):
    """A beam element bends so far that its strains are ambiguous."""


class LostContactWarning(UserWarning):
    """The normal force of a rolling or sliding pair is tensile, so a real contact would open."""


class LargeRotationWarning(UserWarning):
    """A body turns so far in a step that the method may be inaccurate, or unstable."""


class GrazedEventWarning(UserWarning):
    """A quantity may have touched the value of an event without passing it."""


def warn_of_grazing(system: System, solution: Solution) -> None:
    """Warn of events that smaller steps might have seen."""
    events = solution.events
    if events is None:
        return
    grazed = np.asarray(events.grazed)
    for name, count in zip(events.names, grazed, strict=True):
        if count:
            warnings.warn(
                f"mechanism {system.name!r}: in {int(count)} step(s) the quantity of event "
                f"{name!r} may have touched its value without passing it; smaller steps tell",
                GrazedEventWarning,
                stacklevel=users_line(),
            )


def warn_of_run(system: System, solution: Solution, h: Scalar | float | None = None) -> None:
    """Issue every warning about a finished run, of steps h if they were equal [s]."""
    warn_of_undetermined_forces(system, solution)
    warn_of_lost_contact(system, solution)
    warn_of_bent_beams(system, solution)
    warn_of_dropped_bounces(system, solution)
    if h is not None:
        warn_of_large_rotations(system, solution, float(h))


def warn_of_dropped_bounces(system: System, solution: Solution) -> None:
    """Warn where impacts went without restitution because the laws had no solution with it."""
    counts = solution.stats.get("law_bounces_dropped")
    if counts is None or not (dropped := int(np.asarray(counts)[-1])):
        return
    warnings.warn(
        f"mechanism {system.name!r}: in {dropped} step(s) impacts had no restitution. Several "
        "points struck at once and Newton's law had no solution that keeps the energy, or more "
        "impacts fell into a step than Moreau(most_impacts=) resolves, or flights were shorter "
        "than a quarter of a step; smaller steps resolve the last two",
        DroppedBounceWarning,
        stacklevel=users_line(),
    )


def warn_of_undetermined_forces(system: System, solution: Solution) -> None:
    """Warn if the multipliers of some steps leave out a part of the reactions."""
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


def warn_of_bent_beams(system: System, solution: Solution) -> None:
    """Warn if an element bends beyond the range of its strains at a saved row."""
    for beam in system.beams:
        bend = bends(np.asarray(solution.A)[:, list(beam.nodes)])
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


def bends(A: np.ndarray) -> np.ndarray:
    """The angles between neighboring nodes of a beam, (T, n) [rad], from (T, n + 1, 3, 3)."""
    turns = np.swapaxes(A[:, :-1], 2, 3) @ A[:, 1:]
    return np.arccos(np.clip(0.5 * (np.trace(turns, axis1=2, axis2=3) - 1.0), -1.0, 1.0))


def warn_of_lost_contact(system: System, solution: Solution) -> None:
    """Warn if the normal force of a rolling or sliding pair is tensile."""
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


def warn_of_large_rotations(system: System, solution: Solution, h: float) -> None:
    """Warn if a body turns far in a step of h [s] at a changing rate, at saved rows.

    Impacts change a rate at once, and time stepping with laws is made for that.
    """
    if system.laws:
        return
    h = abs(h)
    rate = np.nan_to_num(np.linalg.norm(np.asarray(solution.omega), axis=2))
    change = h * np.nan_to_num(np.linalg.norm(np.asarray(solution.alpha), axis=2))
    over = (h * rate > _MUCH_TURNED) & (change > _MUCH_CHANGED * rate)
    if np.any(over):
        row, body = np.argwhere(over)[0]
        warnings.warn(
            f"mechanism {system.name!r}: body {system.bodies[body]!r} turns by "
            f"{np.degrees(h * rate[row, body]):.0f} degrees in a step at t = "
            f"{float(np.asarray(solution.t)[row]):g} s, and its angular velocity changes by "
            f"{100.0 * change[row, body] / rate[row, body]:.0f} %. The motion may be inaccurate or "
            "unstable, although no step failed; use smaller steps",
            LargeRotationWarning,
            stacklevel=users_line(),
        )
