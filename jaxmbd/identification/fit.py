"""Fitting numbers of a mechanism to measured motion, with what the data say about each of them."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from ..analyses import breaks_redundancy, kinematics, simulate
from ..analyses.running.schedule import ByStep, as_mapping, schedule_of
from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator
from ..model.mechanism import Mechanism
from ..xla.shared_programs import shared_jit
from .measurements import Measurements, observed
from .shooting import STAGES, ShootingProblem
from .transforms import AbstractTransform

# Directions whose singular value is this much smaller than the largest are not seen by the data at
# all.
_UNSEEN = 1e-8

# A pull towards the start, relative to the largest singular value: without effect on what the data
# determine.
_HOLD = 1e-7


class FitError(RuntimeError):
    """No motion could be computed to compare with the data."""


@dataclass(frozen=True, eq=False)
class FitReport:
    """Estimated numbers of a fit, with their standard errors and diagnostics.

    Attributes:
        mechanism: The mechanism with the estimates.
        estimate: By path.
        standard_error: By path, in the units of the estimate; infinite where the data do not see
            it.
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
        history: Cost (half the sum of squares) of every evaluation that lowered it.
        converged: Whether the optimizer met its tolerance.
        message: What it said.
    """

    mechanism: Mechanism
    estimate: dict[str, Any]
    standard_error: dict[str, Any]
    rms: float
    sigma: float
    singular_values: np.ndarray
    combinations: list[dict[str, float]]
    unidentified: list[int]
    at_bounds: list[str]
    history: list[float]
    converged: bool
    message: str

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
        ]
        lines += self.at_bounds
        for k in self.unidentified:
            shares = ", ".join(
                f"{c:+.2f} {name}" for name, c in list(self.combinations[k].items())[:4]
            )
            lines.append(f"not determined by these data: {shares} (relative changes)")
        return "\n".join(lines)


def fit(
    mechanism: Mechanism,
    parameters: Mapping[str, AbstractTransform],
    data: Measurements,
    *,
    h: float | None = None,
    analysis: str = "simulate",
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    inputs: Mapping[str, Any] | None = None,
    segments: int = 1,
    starts: int = 1,
    spread: float = 0.3,
    seed: int = 0,
    tolerance: float = 1e-10,
    max_evaluations: int = 200,
    optimizer: Any = None,
    progress: bool = True,
) -> FitReport:
    """Estimate numbers of a mechanism from measured motion, by least squares.

    The motion starts from the described state, assembled; initial positions and velocities may be
    parameters too. Gauss-Newton steps in a trust region (scipy's `least_squares`) with forward-mode
    Jacobians, one compiled program.

    Args:
        mechanism: The mechanism with first guesses.
        parameters: Paths of `Mechanism.values` with their restrictions: `Positive()`, `Bounded(a,
            b)`, `PhysicalInertia()`, `Free()`.
        data: What was measured. The motion starts at t = 0.
        h: Step size [s] of "simulate"; by default the smallest spacing of the samples.
        analysis: "simulate", or "kinematics" for a mechanism that its drivers determine (masses
            then do not matter).
        formulation: As in `simulate`.
        integrator: As in `simulate`.
        inputs: What the mechanism's inputs were, by name, see `Input`: functions of time, samples
            as `Sampled(t, values)`, numbers, or, without `segments`, arrays by step as in
            `simulate`.
        segments: Parts of the time span that start anew, joined in the course of the fit (multiple
            shooting): for long or chaotic data, where the error of one simulation has many minima.
            Two to three oscillations each.
        starts: Starting points: the guess and others around it, all evaluated in one batch; the
            best one is refined.
        spread: Their standard deviation in unrestricted coordinates (about a relative change for
            `Positive`).
        seed: Of the other starting points.
        tolerance: Relative change of the cost and of the parameters at which to stop.
        max_evaluations: Limit of evaluations of the motion.
        optimizer: An `optax` optimizer, for many parameters such as a network's: `max_evaluations`
            of its steps with reverse-mode gradients come first, and least squares only where
            parameters are fewer than samples.
        progress: Show a progress bar on standard error.

    Returns:
        Estimates, standard errors from the Fisher information, and the combinations of parameters
        that the data do not determine.

    Raises:
        ValueError: A path, a name or a starting value makes no sense, or a number that breaks a
            redundant loop is to be fitted alone.
        FitError: The motion cannot be computed at the starting values.
    """
    options = {"formulation": formulation, "integrator": integrator, "inputs": inputs}
    problem = _Problem(mechanism, parameters, data, h, analysis, options)
    _check_inputs(problem, inputs, segments)
    z = _best_start(problem, starts, spread, seed)
    history: list[float] = []
    with tqdm(
        total=max_evaluations,
        unit="run",
        disable=not progress,
        desc=f"fit {mechanism.name}",
        leave=False,
    ) as bar:
        if segments > 1:
            z = _by_segments(problem, z, segments, tolerance, max_evaluations, history, bar)
            history.clear()
        if optimizer is not None:
            z = _descend(problem, z, optimizer, max_evaluations, history, bar)
        if optimizer is None or z.size < problem.samples:
            z, converged, message = _least_squares(
                problem, z, tolerance, max_evaluations, history, bar
            )
        else:
            converged, message = True, f"{max_evaluations} steps of the optimizer"
    return _report(problem, z, history, converged, message)


class _Problem:
    """The weighted residuals as a function of one vector of unrestricted coordinates."""

    def __init__(
        self,
        mechanism: Mechanism,
        parameters: Mapping[str, AbstractTransform],
        data: Measurements,
        h: float | None,
        analysis: str,
        options: dict[str, Any],
    ):
        if analysis not in ("simulate", "kinematics"):
            raise ValueError(f"analysis must be 'simulate' or 'kinematics', not {analysis!r}")
        if not parameters:
            raise ValueError("fit: no parameter is given")
        known = mechanism.values()
        for path in parameters:
            if path not in known:
                mechanism.with_values({path: 0.0})  # names the nearest path
                raise ValueError(
                    f"fit: {path} has no value to start from; give the mechanism a first guess"
                )
        data.check(mechanism.build()[0])
        _refuse_broken_loops(mechanism, parameters)
        self.mechanism, self.data, self.transforms = mechanism, data, dict(parameters)
        coordinates = {}
        for path, transform in parameters.items():
            try:
                coordinates[path] = transform.inverse(known[path])
            except ValueError as error:
                raise ValueError(f"fit: {path}: {error}") from None
        numbers, self._rest = eqx.partition(coordinates, eqx.is_inexact_array)
        self.z0, self._unravel = ravel_pytree(numbers)
        self.y, self.there = observed(data)
        self.samples = self.y.size
        last = float(data.t[-1])
        if analysis == "simulate":
            if data.t[0] < 0.0:
                raise ValueError(
                    f"fit: the motion starts at t = 0, but the first sample is at {data.t[0]:g} s"
                )
            self.h = h or float(np.min(np.diff(np.concatenate([[0.0], data.t[data.t > 0]]))))
            self.steps = max(1, int(np.ceil(last / self.h - 1e-9)))
        self.analysis = analysis
        known_there = ("formulation",) if analysis == "kinematics" else tuple(options)
        self.options = {name: options[name] for name in known_there if name in options}
        self._compiled = shared_jit(self.predicted)
        self.jacobian = shared_jit(jax.jacfwd(self.predicted))
        self.values_jacobian = jax.jacfwd(self._flat_values)

    def values(self, z) -> dict[str, Any]:
        coordinates = eqx.combine(self._unravel(z), self._rest)
        return {path: transform(coordinates[path]) for path, transform in self.transforms.items()}

    def _flat_values(self, z):
        return ravel_pytree(eqx.filter(self.values(z), eqx.is_inexact_array))[0]

    def names(self, *, coordinates: bool = False) -> list[str]:
        """A name for every number of the flat values, or of the unrestricted coordinates."""
        found = []
        tree = (
            self._unravel(self.z0)
            if coordinates
            else eqx.filter(self.values(self.z0), eqx.is_inexact_array)
        )
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
            label = path[0].key + "".join(str(p) for p in path[1:])
            found += [
                label + (f"[{', '.join(map(str, k))}]" if k else "") for k in np.ndindex(leaf.shape)
            ]
        return found

    def at_bounds(self, z) -> list[str]:
        """Which numbers are at a bound of their restriction, and at which."""
        found, values = [], self.values(z)
        for path, transform in self.transforms.items():
            for side, bound, at in transform.bounds_met(values[path]):
                for index in np.argwhere(at):
                    label = path + (f"[{', '.join(map(str, index))}]" if len(index) else "")
                    which = np.broadcast_to(bound, at.shape)[tuple(index)]
                    found.append(f"{label} is at its {side} bound, {which:g}")
        return found

    def residuals(self, z) -> np.ndarray:
        """Predictions less samples, both over the deviation of the noise."""
        return np.asarray(self._compiled(z)) - self.y

    def built(self, z):
        """System and state of the mechanism at some coordinates."""
        return self.mechanism.with_values(self.values(z)).build()

    def simulated(self, z, steps: int):
        """The motion at some coordinates."""
        return self._run(jnp.asarray(z), steps)[1]

    def _run(self, z, steps):
        system, state = self.built(z)
        return system, simulate(system, state, h=self.h, steps=steps, throw=False, **self.options)

    def predicted(self, z):
        if self.analysis == "simulate":
            system, sol = self._run(z, self.steps)
        else:
            system, state = self.built(z)
            sol = kinematics(system, state, self.data.t, throw=False, **self.options)
        weighted = self.data.predicted(system, sol) / jnp.asarray(self.data.deviations())[:, None]
        return weighted[self.there]


def _check_inputs(problem: _Problem, inputs: Mapping[str, Any] | None, segments: int) -> None:
    """Refuse inputs that are missing, unknown, or cannot be cut into segments.

    Raises:
        ValueError: As it says.
    """
    if problem.analysis != "simulate":
        if inputs is not None:
            raise ValueError("fit: inputs are for analysis='simulate'")
        return
    schedule = schedule_of(problem.built(problem.z0)[0], inputs, problem.steps, "fit")
    if schedule is None or segments == 1:
        return
    for name, part in zip(as_mapping(inputs, "fit"), schedule.parts, strict=True):
        if isinstance(part, ByStep) and part.values.shape[0] > 1:
            raise ValueError(
                f"fit: input {name!r} is an array by step, which segments cannot cut; give a "
                "function of time or mbd.Sampled(t, values)"
            )


def _refuse_broken_loops(mechanism, parameters) -> None:
    broken = breaks_redundancy(
        mechanism, [p for p in parameters if p.startswith("joints.") or p.endswith(".r")]
    )
    if broken:
        raise ValueError(
            f"fit: {', '.join(broken)} cannot be fitted alone: a change locks or opens a loop of "
            "redundant joints. Free the loop (Spherical or Cylindrical in place of a Revolute), or "
            "fit numbers that keep its geometry"
        )


def _best_start(problem: _Problem, starts: int, spread: float, seed: int) -> np.ndarray:
    """The starting point of least cost; all in one batch."""
    z = np.asarray(problem.z0)
    if starts > 1:
        noise = np.random.default_rng(seed).normal(size=(starts, z.size)) * spread
        noise[0] = 0.0
        predicted = shared_jit(jax.vmap(problem.predicted))(jnp.asarray(z + noise))
        cost = np.nan_to_num(np.sum((np.asarray(predicted) - problem.y) ** 2, axis=1), nan=np.inf)
        z = z + noise[int(np.argmin(cost))]
    if not np.all(np.isfinite(problem.residuals(jnp.asarray(z)))):
        raise FitError(
            f"fit: the motion of {problem.mechanism.name!r} cannot be computed at the starting "
            "values; run the analysis itself with them to see why, or use more starts"
        )
    return z


def _by_segments(problem: _Problem, z, segments, tolerance, max_evaluations, history, bar):
    """The parameters after multiple shooting, with gaps that weigh more from stage to stage."""
    if problem.analysis != "simulate":
        raise ValueError(
            "fit: segments are for analysis='simulate'; kinematics has no motion to cut"
        )
    shooting = ShootingProblem(problem, segments)
    x = shooting.start()
    for weight in STAGES:
        shooting.weight = weight
        history.clear()
        bar.set_description(f"fit {problem.mechanism.name}, {segments} segments, gaps x{weight:g}")
        x, _, _ = _least_squares(shooting, x, max(tolerance, 1e-6), max_evaluations, history, bar)
    bar.set_description(f"fit {problem.mechanism.name}")
    own = shooting.own(x)
    # The gaps may have closed on nothing better than the start.
    better = [
        np.nan_to_num(np.linalg.norm(problem.residuals(jnp.asarray(k))), nan=np.inf)
        for k in (z, own)
    ]
    return own if better[1] <= better[0] else z


def _least_squares(problem: Any, z, tolerance, max_evaluations, history, bar):
    from scipy import optimize  # late: it would take a fifth of the import of the package

    z0 = best = np.array(z)
    # Directions that the data do not see stay at the start instead of following rounding errors.
    hold = _HOLD * np.linalg.norm(np.asarray(problem.jacobian(jnp.asarray(z0))), 2)

    def jacobian(z):
        return np.concatenate([np.asarray(problem.jacobian(jnp.asarray(z))), hold * np.eye(z.size)])

    def residuals(z):
        nonlocal best
        found = np.concatenate([problem.residuals(jnp.asarray(z)), hold * (z - z0)])
        cost = 0.5 * float(found @ found)
        if np.isfinite(cost) and (not history or cost < history[-1]):
            history.append(cost)
            best = np.array(z)
            bar.set_postfix(cost=f"{cost:.4g}")
        bar.update(1)
        return found

    options: dict[str, Any] = {
        "jac": jacobian,
        "ftol": tolerance,
        "xtol": tolerance,
        "gtol": 1e-14,
        "max_nfev": max_evaluations,
    }
    try:
        found = optimize.least_squares(residuals, z0, **options)
    except np.linalg.LinAlgError:
        return best, False, "stopped: the motion has no finite derivative at the last point"
    return found.x, bool(found.status > 0), found.message


def _descend(problem: _Problem, z, optimizer, steps, history, bar):
    """Steps of an optax optimizer on the mean square; the best point seen is kept."""

    def cost(z):
        return jnp.mean((problem.predicted(z) - problem.y) ** 2)

    @jax.jit
    def step(z, state):
        value, gradient = jax.value_and_grad(cost)(z)
        with jax.numpy_dtype_promotion("standard"):  # optax counts its steps in single precision
            updates, state = optimizer.update(gradient, state, z)
        return z + updates.astype(z.dtype), state, value

    z = jnp.asarray(z)
    state, best = optimizer.init(z), (np.inf, z)
    for _ in range(steps):
        new, state, value = step(z, state)
        if float(value) < best[0]:
            best = (float(value), z)
            history.append(0.5 * problem.samples * float(value))
            bar.set_postfix(cost=f"{history[-1]:.4g}")
        if not np.all(np.isfinite(new)):
            break
        z = new
        bar.update(1)
    return np.asarray(best[1])


def _errors_of_values(jacobian: np.ndarray, carry: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Standard errors of values for a noise of one; infinite where the data do not see a value.

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
    errors = np.linalg.norm(spread[:, seen] / s[seen], axis=1)
    # An error of the Jacobian, up to _UNSEEN of its largest singular value, turns the directions
    # that are not seen: into those of determined values too, by this much.
    mixed = _UNSEEN * s[0] * errors + 1e-6 * np.linalg.norm(spread, axis=1)
    return np.where(np.linalg.norm(spread[:, ~seen], axis=1) > mixed, np.inf, errors)


def _report(problem: _Problem, z, history, converged, message) -> FitReport:
    z = jnp.asarray(z)
    residuals, jacobian = problem.residuals(z), np.asarray(problem.jacobian(z))
    values, names = problem.values(z), problem.names()
    count, p = jacobian.shape
    given = problem.data.sigma is not None
    sigma = 1.0 if given else float(np.sqrt(residuals @ residuals / max(count - p, 1)))
    carry = np.asarray(problem.values_jacobian(z))
    # Combinations by relative changes: what one per cent of each number does.
    flat = np.asarray(problem._flat_values(z))
    scale = np.where(np.abs(flat) > 0.0, np.abs(flat), 1.0)
    errors = sigma * _errors_of_values(jacobian, carry, scale)
    tree = eqx.filter(values, eqx.is_inexact_array)
    error_tree = ravel_pytree(tree)[1](jnp.asarray(errors))
    if carry.shape[0] == carry.shape[1] and np.linalg.matrix_rank(carry) == p:
        compared, labels = jacobian @ np.linalg.inv(carry) * scale, names
    else:
        compared = jacobian
        labels = [f"coordinate of {name}" for name in problem.names(coordinates=True)]
    _, s, Vt = np.linalg.svd(compared, full_matrices=False)
    combinations = []
    for row in Vt:
        order = np.argsort(-np.abs(row))
        combinations.append({labels[k]: float(row[k]) for k in order if abs(row[k]) > 0.05})
    return FitReport(
        mechanism=problem.mechanism.with_values(values),
        estimate=values,
        standard_error=error_tree,
        rms=float(np.sqrt(np.mean(residuals**2))),
        sigma=sigma,
        at_bounds=problem.at_bounds(z),
        singular_values=s,
        combinations=combinations,
        unidentified=[int(k) for k in np.nonzero(s < sigma)[0]],
        history=history,
        converged=converged,
        message=message,
    )
