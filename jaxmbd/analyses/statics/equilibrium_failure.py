"""Messages about a search that found no equilibrium, with the body that runs away."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ...model.state import State
from ...model.system import System
from ...outcomes import RESULTS, ended_as
from ...rotations import so3
from ..running.failure import most_bent
from .equilibrium_result import Equilibrium
from .stability import stability_of
from .steadiness import Unsteadiness

_SINGULAR = 1e-2  # of the largest stiffness


class EquilibriumError(RuntimeError):
    """No equilibrium was found; `equilibrium` holds where the search ended.

    Attributes:
        equilibrium: An `Equilibrium` whose `result` says what happened.
    """

    def __init__(self, message: str, equilibrium: eqx.Module | None = None):
        super().__init__(message)
        self.equilibrium = equilibrium


def refuse_failure(
    system: System,
    given: State,
    found: Equilibrium,
    last: Float[Array, "nb 6"],
    changes: Unsteadiness,
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


def _runaway(system: System, given: State, found: Equilibrium, last: Float[Array, "nb 6"]) -> str:
    size = np.abs(np.asarray(last))
    way = np.max(size[:, :3], axis=1) / float(system.length) + np.max(size[:, 3:], axis=1)
    b = int(np.argmax(np.nan_to_num(way, nan=np.inf)))
    moved = np.linalg.norm(np.asarray(found.state.r)[b] - np.asarray(given.r)[b])
    turned = np.linalg.norm(so3.log(given.A[b].T @ found.state.A[b]))
    return (
        f"The body that runs away is {system.bodies[b]!r}: it moved by {moved:.3g} m and turned by "
        f"{turned:.3g} rad; {float(found.residual):.1e} of the loads are left unbalanced"
    )


def _singular_tangent(system: System, found: Equilibrium, last: Float[Array, "nb 6"]) -> list[str]:
    """A sentence if the tangent stiffness is singular along the last correction, with the body that
    moves most in that direction.
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
