"""How sure a fit is of one number: the likelihood along it."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from .least_squares import least_squares
from .parameters import Point
from .problem import FitProblem
from .reports import FitReport, known_number


@dataclass(frozen=True, eq=False)
class Profile:
    """The likelihood along one number, all others being fitted anew.

    Attributes:
        name: Of the number.
        values: Of the number, increasing, (n,).
        deviance: Twice the rise of the negative logarithm of the likelihood, (n,); zero at the
            estimate.
        estimate: Where it is least.
    """

    name: str
    values: Float[np.ndarray, " n"]
    deviance: Float[np.ndarray, " n"]
    estimate: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The values whose deviance is below the quantile of a chi-square distribution with one
        degree of freedom; infinite where the profile does not reach it.
        """
        from scipy.stats import chi2

        limit = np.sqrt(chi2.ppf(level, 1))
        # The signed root is nearly straight, so that lines between its values serve.
        root = np.sign(self.values - self.estimate) * np.sqrt(np.maximum(self.deviance, 0.0))
        low = np.interp(-limit, root, self.values, left=-np.inf)
        high = np.interp(limit, root, self.values, right=np.inf)
        return float(low), float(high)


def profile_likelihood(
    report: FitReport,
    name: str,
    *,
    points: int = 7,
    reach: float = 3.0,
    max_evaluations: int = 30,
    progress: bool = True,
) -> Profile:
    """The likelihood along one number, from fits of all the others.

    Args:
        report: Of the fit.
        name: The number, one of `report.names`, that is a function of one coordinate alone.
        points: On either side of the estimate.
        reach: How far, in standard errors.
        max_evaluations: Limit of each fit.
        progress: Show a progress bar on standard error.

    Raises:
        ValueError: There is no such number, it depends on several coordinates, or the data do not
            see it.
    """
    problem = report.problem
    row = report.names.index(known_number(name, report.names))
    z = np.array(report.coordinates)
    carry = np.asarray(problem.values_jacobian(jnp.asarray(z)))[row]
    moves = np.flatnonzero(np.abs(carry) > 0.0)
    if len(moves) != 1:
        raise ValueError(f"profile_likelihood: {name} depends on {len(moves)} coordinates, not one")
    k = int(moves[0])
    error = float(np.sqrt(report.covariance[row, row])) / abs(float(carry[k]))
    if not np.isfinite(error):
        raise ValueError(f"profile_likelihood: the data do not see {name} at all")
    others = np.delete(np.arange(z.size), k)
    best = _deviance(problem, z, report.sigma)
    found = [(float(np.asarray(problem.flat_values(jnp.asarray(z)))[row]), 0.0)]
    with tqdm(
        total=2 * points, disable=not progress, desc=f"profile of {name}", leave=False
    ) as bar:
        for side in (-1.0, 1.0):
            at = z.copy()
            for step in range(1, points + 1):
                at[k] = z[k] + side * reach * error * step / points
                held = _Held(problem, at, others)
                limits = 1e-8, max_evaluations
                with tqdm(disable=True) as silent:
                    at[others], _, _ = least_squares(held, at[others], limits, [], silent)
                value = float(np.asarray(problem.flat_values(jnp.asarray(at)))[row])
                found.append((value, _deviance(problem, at, report.sigma) - best))
                bar.update(1)
    found.sort()
    values, deviance = np.array(found).T
    return Profile(name, values, deviance, float(values[int(np.argmin(np.abs(deviance)))]))


class _Held:
    """A least-squares problem with one coordinate held."""

    def __init__(self, problem: FitProblem, at: np.ndarray, others: np.ndarray):
        self._problem, self._at, self._others = problem, at.copy(), others

    def _whole(self, x: Point) -> np.ndarray:
        at = self._at.copy()
        at[self._others] = x
        return at

    def residuals(self, z: Point) -> np.ndarray:
        return self._problem.residuals(self._whole(z))

    def jacobian(self, z: Point) -> np.ndarray:
        return self._problem.jacobian(self._whole(z))[:, self._others]


def _deviance(problem: FitProblem, z: np.ndarray, sigma: float) -> float:
    found = problem.residuals(z)
    return float(found @ found) / sigma**2
