"""What a fit found: estimates with their errors, and what is left."""

import io
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

from ..model.mechanism import Mechanism
from ..model.names import nearest
from ..model.system import System
from ..results.asking import full_name
from ..results.columns import columns_of
from .measurements import terms_of
from .parameters import Point
from .problem import Evaluation, FitProblem

# Directions whose singular value is this much smaller than the largest are not seen by the data at
# all.
_UNSEEN = 1e-8


@dataclass(frozen=True, eq=False)
class ExperimentReport:
    """What a fit leaves of one experiment.

    Attributes:
        name: Of the experiment.
        t: Times of the samples, (T,) [s].
        measured: Samples by name, (T,); NaN where missing.
        predicted: What the fitted mechanism predicts there, (T,).
        units: By name.
        weighted: Residuals in standard deviations by name, (T,); NaN where missing.
        rms: Root mean square of measured less predicted by name, in the units of the quantity.
        is_used: Whether the fit used it; not where its motion could not be computed at the start.
    """

    name: str
    t: np.ndarray
    measured: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray]
    units: dict[str, str]
    weighted: dict[str, np.ndarray]
    rms: dict[str, float]
    is_used: bool


@dataclass(frozen=True, eq=False)
class FitReport:
    """Estimated numbers of a fit, with their standard errors and diagnostics.

    Attributes:
        mechanism: The mechanism with the estimates.
        estimate: By path; own numbers of experiments by "experiment 1: start of pin.rate".
        standard_error: By path, in the units of the estimate; infinite where the data do not see
            it.
        covariance: Of all estimated numbers in the order of `names`, (n, n); infinite rows where
            the data do not see one.
        names: Of the numbers.
        experiments: What is left of each experiment.
        rms: Root mean square of the weighted residuals; about one where `sigma` is right and the
            model too.
        sigma: Noise used for the standard errors: one where sigma was given, else from the
            residuals.
        singular_values: Of the weighted Jacobian by relative changes of the parameters, largest
            first.
        combinations: The direction of each singular value as {number's name: share}, largest shares
            first.
        at_bounds: Numbers whose estimate is at a bound of their restriction, "NAME at its upper
            bound 2": the data pull them beyond it, and their standard errors mean nothing.
        unidentified: Indices of the combinations that the data determine to no better than a factor
            of two.
        history: Cost (half the sum of squares, or of the loss) of every evaluation that lowered it.
        converged: Whether the optimizer met its tolerance.
        message: What it said.
        seconds: Processor time of compiling and of running motions, by "compile" and "run" [s].
        problem: The fit as a function of unrestricted coordinates.
        coordinates: Those of the estimates.
    """

    mechanism: Mechanism
    estimate: dict[str, Any]
    standard_error: dict[str, Any]
    covariance: Float[np.ndarray, "n n"]
    names: list[str]
    experiments: list[ExperimentReport]
    rms: float
    sigma: float
    singular_values: np.ndarray
    combinations: list[dict[str, float]]
    unidentified: list[int]
    at_bounds: list[str]
    history: list[float]
    converged: bool
    message: str
    seconds: dict[str, float]
    problem: FitProblem = field(repr=False)
    coordinates: np.ndarray = field(repr=False)

    @property
    def correlation(self) -> Float[np.ndarray, "n n"]:
        """Correlations of all estimated numbers, in the order of `names`; NaN for a number that the
        data do not see.
        """
        errors = np.sqrt(np.diagonal(self.covariance))
        with np.errstate(invalid="ignore"):
            return self.covariance / errors[:, None] / errors[None, :]

    def __str__(self) -> str:
        table = Table(
            "parameter", "estimate", "standard error", title=f"fit of {self.mechanism.name}"
        )
        for path, value in self.estimate.items():
            if isinstance(value, eqx.Module):
                table.add_row(path, "(module)", "")
                continue
            error = np.asarray(self.standard_error[path])
            for index in np.ndindex(np.shape(value)):
                label = path + (f"[{', '.join(map(str, index))}]" if index else "")
                table.add_row(label, f"{np.asarray(value)[index]:.6g}", f"{error[index]:.2g}")
        text = io.StringIO()
        Console(width=110, file=text, force_jupyter=False, color_system=None).print(table)
        lines = [
            text.getvalue().rstrip(),
            f"weighted residuals: rms {self.rms:.3g}; {self.message}",
            f"processor time: {self.seconds['compile']:.1f} s to compile, "
            f"{self.seconds['run']:.1f} s to run",
        ]
        lines += [
            f"{e.name}: not used, its motion could not be computed at the first guesses"
            for e in self.experiments
            if not e.is_used
        ]
        lines += self.at_bounds
        for k in self.unidentified:
            shares = ", ".join(
                f"{c:+.2f} {name}" for name, c in list(self.combinations[k].items())[:4]
            )
            lines.append(f"not determined by these data: {shares} (relative changes)")
        return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """How an optimizer ended.

    Attributes:
        z: Where.
        history: Cost of every evaluation that lowered it.
        converged: Whether it met its tolerance.
        message: What it said.
        seconds: As in `FitReport`.
    """

    z: np.ndarray
    history: list[float]
    converged: bool
    message: str
    seconds: dict[str, float]


def report_of(problem: FitProblem, outcome: Outcome) -> FitReport:
    """The report of a fit that ended somewhere."""
    z = jnp.asarray(outcome.z)
    jacobian, evaluation = problem.jacobian(z), problem.evaluation(z)
    values, names = problem.values(z), problem.parameters.names() + problem.own_labels
    used = np.asarray(problem.samples.weight)[problem.kept] > 0.0
    residuals = np.asarray(evaluation.residuals)[problem.kept][used]
    squares = float(residuals @ residuals)
    given = problem.experiments[0].measurements.knows_noise
    sigma = 1.0 if given else float(np.sqrt(squares / max(problem.count - len(z), 1)))
    carry = np.asarray(problem.values_jacobian(z))
    # Combinations by relative changes: what one per cent of each number does.
    flat = np.asarray(problem.flat_values(z))
    scale = np.where(np.abs(flat) > 0.0, np.abs(flat), 1.0)
    # Starts and the like may be near zero, where a relative change says nothing.
    count = len(problem.parameters.names())
    scale[count:] = np.maximum(scale[count:], 1.0)
    covariance = sigma**2 * covariance_of_values(jacobian, carry, scale)
    estimate, standard_error = _by_path(problem, z, np.sqrt(np.diagonal(covariance)))
    if carry.shape[0] == carry.shape[1] and np.linalg.matrix_rank(carry) == len(z):
        compared, labels = jacobian @ np.linalg.inv(carry) * scale, names
    else:
        compared = jacobian
        known = problem.parameters.names_of_coordinates() + problem.own_labels
        labels = [f"coordinate of {name}" for name in known]
    _, s, Vt = np.linalg.svd(compared, full_matrices=False)
    combinations = []
    for row in Vt:
        order = np.argsort(-np.abs(row))
        combinations.append({labels[k]: float(row[k]) for k in order if abs(row[k]) > 0.05})
    return FitReport(
        mechanism=problem.mechanism.with_values(values),
        estimate=estimate,
        standard_error=standard_error,
        covariance=covariance,
        names=names,
        experiments=_experiments(problem, evaluation),
        rms=float(np.sqrt(squares / max(problem.count, 1))),
        sigma=sigma,
        at_bounds=problem.parameters.at_bounds(values),
        singular_values=s,
        combinations=combinations,
        unidentified=[int(k) for k in np.nonzero(s < sigma)[0]],
        history=outcome.history,
        converged=outcome.converged,
        message=outcome.message,
        seconds=outcome.seconds,
        problem=problem,
        coordinates=np.asarray(z),
    )


def _by_path(
    problem: FitProblem, z: Point, errors: np.ndarray
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Estimates and their standard errors by path, own numbers of experiments after parameters."""
    values, count = problem.values(z), len(problem.parameters.names())
    own = np.asarray(problem.own_values(z))[problem.own.is_unknown]
    labels = problem.own_labels
    error = problem.parameters.by_path(errors[:count], values)
    estimate = values | dict(zip(labels, own, strict=True))
    return estimate, error | dict(zip(labels, errors[count:], strict=True))


def _experiments(problem: FitProblem, evaluation: Evaluation) -> list[ExperimentReport]:
    system: System = problem.mechanism.build()[0]
    unit = {column.name: column.unit for column in columns_of(system)}
    found = []
    for k, e in enumerate(problem.experiments):
        own = e.measurements
        count = len(own.t)
        rows = {name: problem.names.index(name) for name in own.values}
        predicted, weighted = (
            {name: np.asarray(x)[k, row, :count] for name, row in rows.items()}
            for x in (evaluation.predicted, evaluation.residuals)
        )
        off = {name: own.values[name] - predicted[name] for name in rows}
        for name in own.wrapped or ():
            off[name] = off[name] - 2.0 * np.pi * np.round(off[name] / (2.0 * np.pi))
        there = {name: np.isfinite(x) for name, x in own.values.items()}
        found.append(
            ExperimentReport(
                name=str(e.name),
                t=own.t,
                measured=dict(own.values),
                predicted=predicted,
                units={name: unit[full_name(terms_of(name)[0][1], unit)] for name in rows},
                weighted={n: np.where(there[n], x, np.nan) for n, x in weighted.items()},
                rms={n: float(np.sqrt(np.mean(off[n][there[n]] ** 2))) for n in rows},
                is_used=bool(problem.kept[k]),
            )
        )
    return found


def covariance_of_values(jacobian: np.ndarray, carry: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Covariance of values for a noise of one, (n, n); infinite where the data do not see a value.

    Args:
        jacobian: Of the weighted residuals by unrestricted coordinates, (samples, p).
        carry: Of the values by them, (n, p).
        scale: Of the values, (n,): coordinates are compared by what relative change they make.
    """
    p = carry.shape[1]
    change = np.max(np.abs(carry) / scale[:, None], axis=0)
    unit = 1.0 / np.where(change > 0.0, change, 1.0)
    padded = np.concatenate([jacobian * unit, np.zeros((max(p - len(jacobian), 0), p))])
    _, s, Vt = np.linalg.svd(padded, full_matrices=False)
    seen = s > _UNSEEN * s[0]
    spread = carry * unit @ Vt.T
    own = spread[:, seen] / s[seen]
    covariance = own @ own.T
    errors = np.sqrt(np.diagonal(covariance))
    # An error of the Jacobian, up to _UNSEEN of its largest singular value, turns the directions
    # that are not seen: into those of determined values too, by this much.
    mixed = _UNSEEN * s[0] * errors + 1e-6 * np.linalg.norm(spread, axis=1)
    unseen = np.linalg.norm(spread[:, ~seen], axis=1) > mixed
    covariance[unseen, :], covariance[:, unseen] = np.inf, np.inf
    return covariance


def known_number(name: str, names: list[str]) -> str:
    """The name, if a fit has such a number.

    Raises:
        ValueError: It has none; the message names the nearest.
    """
    if name not in names:
        meant = " or ".join(nearest(name, names)) or ", ".join(names[:5])
        raise ValueError(f"this fit has no number {name!r}; did you mean {meant}?")
    return name
