"""Fitting numbers of a mechanism to measured motions, with what the data say about each of them."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from tqdm import tqdm

from ..analyses.running.schedule import Inputs
from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator
from ..model.mechanism import Mechanism
from ..outcomes import RESULTS
from ..xla.shared_programs import shared_jit
from .experiments import Experiment, named
from .least_squares import least_squares
from .losses import AbstractLoss, Squares
from .measurements import Measurements
from .parameters import Key, Point
from .priors import AbstractPrior
from .problem import FitProblem, Settings
from .reports import FitReport, Outcome, report_of
from .shooting import STAGES, ShootingProblem
from .transforms import AbstractTransform

# Relative change of the cost at which a stage of multiple shooting is left: the next one starts
# near enough, and the ordinary fit comes last.
_NEAR = 1e-4


class FitError(RuntimeError):
    """No motion could be computed to compare with the data."""


class FitWarning(UserWarning):
    """Data look as if they meant something else, or an experiment is left out of a fit."""


@runtime_checkable
class GradientMethod(Protocol):
    """A method of steps along gradients, as optax has them."""

    @property
    def init(self) -> Callable[..., Any]: ...

    @property
    def update(self) -> Callable[..., Any]: ...


def fit(
    mechanism: Mechanism,
    parameters: Mapping[Key, AbstractTransform],
    experiments: Measurements | Experiment | Sequence[Experiment],
    *,
    h: float | None = None,
    analysis: str = "simulate",
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    inputs: Inputs | None = None,
    loss: AbstractLoss | None = None,
    priors: Sequence[AbstractPrior] = (),
    segments: int = 1,
    starts: int = 1,
    spread: float = 0.3,
    seed: int = 0,
    tolerance: float = 1e-10,
    max_evaluations: int = 200,
    optimizer: GradientMethod | None = None,
    progress: bool = True,
) -> FitReport:
    """Estimate numbers of a mechanism from measured motions, by least squares or a robust loss.

    Several experiments of different lengths run as one batch. Each motion starts from the described
    state with the experiment's own `start`, assembled; initial positions and velocities may be
    parameters too. Gauss-Newton steps in a trust region (scipy's `least_squares`) with forward-mode
    Jacobians, one compiled program.

    Args:
        mechanism: The mechanism with first guesses.
        parameters: Paths of `Mechanism.values` with their restrictions: `Positive()`, `Bounded(a,
            b)`, `PhysicalInertia()`, `Free()`. A tuple of paths ties numbers that are equal.
            Biases, gains and delays of sensors are parameters too, "sensors.encoder.delay".
        experiments: What was measured: `Measurements` of one run, or a list of `Experiment` with
            inputs, starts and numbers of their own. Motions start at t = 0; samples before a
            sensor's delay or a clock's offset has passed are left out.
        h: Step size [s] of "simulate"; by default the smallest spacing of the samples.
        analysis: "simulate", or "kinematics" for a mechanism that its drivers determine (masses
            then do not matter).
        formulation: As in `simulate`.
        integrator: As in `simulate`.
        inputs: What the mechanism's inputs were where `experiments` are `Measurements`, by name,
            see `Input`: functions of time, samples as `Sampled(t, values)`, numbers, or arrays by
            step as in `simulate`.
        loss: `Huber()` or `StudentT()` for data with outliers; squares by default. Standard errors
            then are those of its weights.
        priors: What is known beforehand: `NormalPrior`, `LogNormalPrior`, of parameters or
            combinations. They count in standard deviations, so that measurements need a sigma.
        segments: Parts of the time span of the longest experiment that start anew, joined in the
            course of the fit (multiple shooting); shorter experiments have as many parts of that
            length as they fill. For long or chaotic experiments, where the error of one simulation
            has many minima. Two to three oscillations each.
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
        FitError: No motion can be computed at the starting values. Where some can, a `FitWarning`
            names those that are left out.
    """
    found = named(experiments)
    if inputs is not None:
        if not isinstance(experiments, Measurements):
            raise ValueError("fit: give each experiment its inputs, Experiment(..., inputs=...)")
        if analysis != "simulate":
            raise ValueError("fit: inputs are for analysis='simulate'")
        found = [replace(found[0], inputs=inputs)]
    settings = Settings(h, analysis, formulation, integrator, loss or Squares(), tuple(priors))
    search = _Search(segments, starts, spread, seed, (tolerance, max_evaluations), optimizer)
    return _searched(FitProblem(mechanism, parameters, found, settings), search, progress=progress)


@dataclass(frozen=True)
class _Search:
    """How a fit looks for the best numbers: arguments of `fit`, and limits (tolerance, number of
    evaluations).
    """

    segments: int
    starts: int
    spread: float
    seed: int
    limits: tuple[float, int]
    optimizer: GradientMethod | None


def _searched(problem: FitProblem, search: _Search, *, progress: bool) -> FitReport:
    """The report of a fit."""
    if search.segments > 1 and problem.settings.analysis != "simulate":
        raise ValueError(
            "fit: segments are for analysis='simulate'; kinematics has no motion to cut"
        )
    clock = _Clock()
    z = _best_start(problem, search)
    clock.compiled()
    history: list[float] = []
    name, limit = problem.mechanism.name, search.limits[1]
    with tqdm(
        total=limit, unit="run", disable=not progress, desc=f"fit {name}", leave=False
    ) as bar:
        if search.segments > 1:
            z = _by_segments(problem, z, search.segments, search.limits, history, bar)
            history.clear()
        if search.optimizer is not None:
            z = _descend(problem, z, search.optimizer, limit, history, bar)
        if search.optimizer is None or z.size < problem.count:
            z, converged, message = least_squares(problem, z, search.limits, history, bar)
        else:
            converged, message = True, f"{limit} steps of the optimizer"
    return report_of(problem, Outcome(z, history, converged, message, clock.seconds()))


class _Clock:
    """Processor time before and after the program is there [s]."""

    def __init__(self) -> None:
        self._begin = self._there = time.process_time()

    def compiled(self) -> None:
        """The program has run for the first time."""
        self._there = time.process_time()

    def seconds(self) -> dict[str, float]:
        """So far."""
        run = time.process_time() - self._there
        return {"compile": self._there - self._begin, "run": run}


def _best_start(problem: FitProblem, search: _Search) -> np.ndarray:
    """The starting point of least cost, all in one batch; experiments whose motion cannot be
    computed there are left out.
    """
    z = np.asarray(problem.z0)
    if search.starts > 1:
        draws = np.random.default_rng(search.seed).normal(size=(search.starts, z.size))
        noise = search.spread * draws
        noise[0] = 0.0
        cost = shared_jit(jax.vmap(problem.mean_cost, in_axes=(0, None, None)))(
            jnp.asarray(z + noise), problem.samples, jnp.asarray(problem.kept)
        )
        z = z + noise[int(np.argmin(np.nan_to_num(np.asarray(cost), nan=np.inf)))]
    found = problem.evaluation(z)
    finite = np.all(np.isfinite(np.asarray(found.residuals)), axis=(1, 2))
    if not finite.any():
        raise FitError(
            f"fit: the motion of {problem.mechanism.name!r} cannot be computed at the starting "
            "values; run the analysis itself with them to see why, or use more starts"
        )
    if not finite.all():
        reasons = [
            f"{problem.experiments[k].name!r} ({_reason(found.results, int(k))})"
            for k in np.flatnonzero(~finite)
        ]
        warnings.warn(
            f"fit: left out: {', '.join(reasons)}; the motion cannot be computed at the starting "
            "values",
            FitWarning,
            stacklevel=3,
        )
        problem.kept = finite
        problem.forget()
    _warn_of_degrees(problem, np.asarray(problem.evaluation(z).predicted))
    return z


def _reason(results: RESULTS, k: int) -> str:
    code = jax.tree.map(lambda x: jnp.asarray(x)[k], results)
    return " ".join(str(RESULTS[code]).split("\n")[0].split())


def _warn_of_degrees(problem: FitProblem, predicted: np.ndarray) -> None:
    """Warn where samples of an angle are some 57 times what the motion at the first guesses shows,
    or a 57th.
    """
    for k in np.flatnonzero(problem.kept):
        measurements = problem.experiments[k].measurements
        for name, x in measurements.values.items():
            if not any(word in name for word in ("angle", "rate", "omega", "angular")):
                continue
            there = np.isfinite(x)
            model = predicted[k, problem.names.index(name), : len(x)][there]
            ratio = np.ptp(x[there]) / max(np.ptp(model), 1e-12)
            for factor, unit in ((180.0 / np.pi, "degrees"), (np.pi / 180.0, "radians of degrees")):
                if 0.75 * factor < ratio < factor / 0.75:
                    warnings.warn(
                        f"fit: {name!r} of {problem.experiments[k].title} moves {ratio:.3g} times "
                        f"as far as the model does at the first guesses: are the samples in {unit}?"
                        " Angles are in radians",
                        FitWarning,
                        stacklevel=4,
                    )


def _by_segments(
    problem: FitProblem,
    z: np.ndarray,
    segments: int,
    limits: tuple[float, int],
    history: list[float],
    bar: tqdm,
) -> np.ndarray:
    """The parameters after multiple shooting, with gaps that weigh more from stage to stage."""
    shooting = ShootingProblem(problem, segments, z)
    x = shooting.start()
    name = problem.mechanism.name
    for weight in STAGES:
        shooting.weight = weight
        history.clear()
        bar.set_description(f"fit {name}, {segments} segments, gaps x{weight:g}")
        x, _, _ = least_squares(shooting, x, (max(limits[0], _NEAR), limits[1]), history, bar)
    bar.set_description(f"fit {name}")
    own = shooting.own(x)
    # The gaps may have closed on nothing better than the start.
    better = [
        np.nan_to_num(np.linalg.norm(problem.residuals(jnp.asarray(k))), nan=np.inf)
        for k in (z, own)
    ]
    return own if better[1] <= better[0] else z


def _descend(
    problem: FitProblem,
    z: np.ndarray,
    optimizer: GradientMethod,
    steps: int,
    history: list[float],
    bar: tqdm,
) -> np.ndarray:
    """Steps of an optax optimizer on the mean square; the best point seen is kept."""
    samples, kept, count = problem.samples, jnp.asarray(problem.kept), problem.count

    def mean(z: Point) -> Float[Array, ""]:
        return 2.0 * problem.cost(z, samples, kept) / count

    @jax.jit
    def step(z: Point, state: PyTree) -> tuple[Point, PyTree, Float[Array, ""]]:
        value, gradient = jax.value_and_grad(mean)(z)
        with jax.numpy_dtype_promotion("standard"):  # optax counts its steps in single precision
            updates, state = optimizer.update(gradient, state, z)
        return z + jnp.asarray(updates).astype(z.dtype), state, value

    at = jnp.asarray(z)
    state, best = optimizer.init(at), (np.inf, at)
    for _ in range(steps):
        new, state, value = step(at, state)
        if float(value) < best[0]:
            best = (float(value), at)
            history.append(0.5 * count * float(value))
            bar.set_postfix(cost=f"{history[-1]:.4g}")
        if not np.all(np.isfinite(new)):
            break
        at = new
        bar.update(1)
    return np.asarray(best[1])
