"""Poses, multipliers and stability of an equilibrium."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from ...equations.statics import Spin
from ...model.readable import counted, known, listed, readable
from ...model.state import State
from ...model.system import System
from ...model.validation import is_concrete
from ...outcomes import RESULTS
from ...results.solution import Reaction, Solution
from ...results.summaries import outcomes
from ...rotations.types import Scalar
from .stability import LARGEST, Stability, stability_if_made, stability_of


class Equilibrium(eqx.Module):
    """An equilibrium of a mechanism; a pytree.

    Attributes:
        state: Poses, and the velocities of the steady rotation or zeros.
        lam: Multipliers, (nc,), in the order of `System.row_names`.
        residual: The largest unbalanced force or torque over the system's length at a body,
            relative to the forces that balance each other there; in stiff elements also to the
            forces that rounding of their poses makes, over the tolerance.
        iterations: Factorizations of the tangent stiffness.
        result: Outcome, one of `RESULTS`.
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
