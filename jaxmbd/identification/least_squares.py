"""Least squares by Gauss-Newton steps in a trust region, of what has residuals and a Jacobian."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from tqdm import tqdm

from .parameters import Point

# A pull towards the start, relative to the largest singular value: without effect on what the data
# determine.
_HOLD = 1e-7


# A step of this size from the best point that still gives no numbers: that point is on an edge.
_EDGE = 1e-9


class _OnEdgeError(Exception):
    """The best point is at the edge of where the motion can be computed."""


@runtime_checkable
class LeastSquares(Protocol):
    """Residuals, half of whose sum of squares is the cost, and their Jacobian."""

    def residuals(self, z: Point) -> np.ndarray: ...

    def jacobian(self, z: Point) -> np.ndarray: ...


def least_squares(
    problem: LeastSquares,
    z: np.ndarray,
    limits: tuple[float, int],
    history: list[float],
    bar: tqdm,
) -> tuple[np.ndarray, bool, str]:
    """Where the sum of squares is least, whether the tolerance was met, and a message.

    Args:
        problem: Residuals and their Jacobian.
        z: Where to begin.
        limits: The tolerance, and how many evaluations at most.
        history: Costs are added to it.
        bar: Shows progress.
    """
    from scipy import optimize  # late: it would take a fifth of the import of the package

    z0 = best = np.array(z)
    # Directions that the data do not see stay at the start instead of following rounding errors.
    hold = _HOLD * np.linalg.norm(np.asarray(problem.jacobian(z0)), 2)

    def jacobian(z: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(problem.jacobian(z)), hold * np.eye(z.size)])

    def residuals(z: np.ndarray) -> np.ndarray:
        nonlocal best
        found = np.concatenate([problem.residuals(z), hold * (z - z0)])
        cost = 0.5 * float(found @ found)
        if np.isfinite(cost) and (not history or cost < history[-1]):
            history.append(cost)
            best = np.array(z)
            bar.set_postfix(cost=f"{cost:.4g}")
        bar.update(1)
        if not np.isfinite(cost) and np.linalg.norm(z - best) < _EDGE * (1.0 + np.linalg.norm(z)):
            raise _OnEdgeError
        return found

    tolerance, evaluations = limits
    options: dict[str, Any] = {
        "jac": jacobian,
        "ftol": tolerance,
        "xtol": tolerance,
        "gtol": 1e-14,
        "max_nfev": evaluations,
    }
    try:
        found = optimize.least_squares(residuals, z0, **options)
    except _OnEdgeError:
        return best, False, "stopped: beyond the last point the motion cannot be computed"
    except np.linalg.LinAlgError:
        return best, False, "stopped: the motion has no finite derivative at the last point"
    return found.x, bool(found.status > 0), found.message
