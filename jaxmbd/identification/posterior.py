"""How sure a fit is: draws from the posterior of its numbers.

The prior is flat in the numbers, within their restrictions. What else is known beforehand, `fit`
takes as `priors`.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..xla.shared_programs import shared_jit
from .problem import FitProblem
from .reports import FitReport, known_number

if TYPE_CHECKING:
    from arviz import InferenceData

# Directions of coordinates whose singular value is this much smaller than the largest are not seen
# by the data.
_UNSEEN = 1e-8


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of the numbers of a fit.

    Attributes:
        names: Of the numbers, as in `FitReport.names`.
        draws: Of each number, (chains, draws, n).
        coordinates: The same as unrestricted coordinates, (chains, draws, p).
        diverged: Draws at which the sampler lost its way, (chains, draws); none for `laplace`.
        method: "laplace" or "nuts".
        problem: The fit as a function of coordinates.
        sigma: Noise in parts of the given one.
    """

    names: list[str]
    draws: Float[np.ndarray, "chains draws n"]
    coordinates: Float[np.ndarray, "chains draws p"]
    diverged: np.ndarray
    method: str
    problem: FitProblem = field(repr=False)
    sigma: float = 1.0

    def __getitem__(self, name: str) -> Float[np.ndarray, " N"]:
        """All draws of one number."""
        return self.draws[:, :, self.names.index(known_number(name, self.names))].reshape(-1)

    def mean(self) -> dict[str, float]:
        """Of every number."""
        return {name: float(np.mean(self[name])) for name in self.names}

    def deviation(self) -> dict[str, float]:
        """Standard deviation of every number."""
        return {name: float(np.std(self[name], ddof=1)) for name in self.names}

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Between which values a number lies with a probability, as much below as above."""
        low, high = np.quantile(self[name], [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return float(low), float(high)

    def bands(
        self, *, level: float = 0.95, draws: int = 200, seed: int = 0, noise: bool = False
    ) -> list[dict[str, Float[np.ndarray, "3 T"]]]:
        """Predictive bands of every experiment: lower end, median and upper end of each quantity at
        the times of its samples.

        Args:
            level: Probability of the band.
            draws: How many motions, from draws at random.
            seed: Of the choice, and of the noise.
            noise: Whether the band is that of measurements, and not of the motion.
        """
        rng = np.random.default_rng(seed)
        every = self.coordinates.reshape(-1, self.coordinates.shape[-1])
        some = every[rng.integers(len(every), size=draws)]
        problem = self.problem
        predicted = np.array(problem.predictions(jnp.asarray(some)))  # (draws, E, q, T)
        if noise:  # as it was measured, however often an experiment counts
            for e, own in enumerate(problem.experiments):
                rows = [problem.names.index(name) for name in own.measurements.values]
                deviation = self.sigma * own.measurements.deviations()
                shape = (draws, *deviation.shape)
                predicted[:, e, rows, : deviation.shape[1]] += deviation * rng.normal(size=shape)
        quantiles = [0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level]
        found = np.quantile(predicted, quantiles, axis=0)
        return [
            {
                name: found[:, e, problem.names.index(name), : len(own.measurements.t)]
                for name in own.measurements.values
            }
            for e, own in enumerate(problem.experiments)
        ]

    def to_arviz(self) -> "InferenceData":
        """For ArviZ; needs the package `arviz` (extra `bayes`).

        Raises:
            ModuleNotFoundError: It is missing; the message names the extra.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of its next version
                import arviz
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "Posterior.to_arviz needs arviz; pip install 'jaxmbd[bayes]'"
            ) from None
        return arviz.from_dict(
            posterior={name: self.draws[:, :, k] for k, name in enumerate(self.names)},
            sample_stats={"diverging": self.diverged},
        )

    def __str__(self) -> str:
        lines = [f"{self.method}: {self.draws.shape[0]} x {self.draws.shape[1]} draws"]
        if self.diverged.any():
            lost = f"{int(self.diverged.sum())} diverged"
            lines[0] += f", {lost}: do not trust the intervals, ask for a higher acceptance"
        for name in self.names:
            low, high = self.interval(name)
            lines.append(f"  {name}: {np.mean(self[name]):.6g}, 95 % in [{low:.6g}, {high:.6g}]")
        return "\n".join(lines)


def laplace_posterior(report: FitReport, *, draws: int = 4000, seed: int = 0) -> Posterior:
    """The normal distribution around the estimates of a fit, in unrestricted coordinates (the
    logarithm of a positive number): draws of it cost no motion.

    Right where residuals are linear in the coordinates within the spread; `sample_posterior` shows
    where they are not.

    Args:
        report: Of the fit.
        draws: How many.
        seed: Of the draws.

    Raises:
        ValueError: The data do not see some combination of numbers; the message names it.
    """
    root = _root(report)
    normal = np.random.default_rng(seed).normal(size=(draws, root.shape[1]))
    return _posterior(report, (report.coordinates + normal @ root.T)[None], "laplace")


def sample_posterior(
    report: FitReport,
    *,
    draws: int = 1000,
    warmup: int = 300,
    chains: int = 2,
    acceptance: float = 0.9,
    seed: int = 0,
) -> Posterior:
    """Draws from the posterior of a fit by the No-U-Turn Sampler, with exact gradients.

    It moves in coordinates in which the normal distribution of `laplace_posterior` is round. Needs
    the package `blackjax` (extra `bayes`). One program with all chains and draws: a draw takes
    some five gradients of all motions.

    Args:
        report: Of the fit; chains start near its estimates.
        draws: Of each chain.
        warmup: Draws before, in which the step of the sampler is found.
        chains: How many.
        acceptance: Share of its proposals that the sampler aims to accept, between 0 and 1: nearer
            to one it takes shorter steps, which a narrow bent posterior needs.
        seed: Of the draws.

    Raises:
        ValueError: The data do not see some combination of numbers, as in `laplace_posterior`; a
            number at a bound is no reason, since its posterior ends there.
        ModuleNotFoundError: blackjax is missing; the message names the extra.

    Reference:
        Hoffman, Gelman, "The No-U-Turn Sampler", J. Machine Learning Research 15 (2014).
    """
    try:
        from blackjax.adaptation.step_size import dual_averaging_adaptation
        from blackjax.mcmc import nuts
        from blackjax.mcmc.hmc import HMCState
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "sample_posterior needs blackjax; pip install 'jaxmbd[bayes]'"
        ) from None
    problem, root = report.problem, jnp.asarray(_root(report, sampling=True))
    center, scale = jnp.asarray(report.coordinates), report.sigma**2
    samples, kept = problem.samples, jnp.asarray(problem.kept)
    kernel: Any = nuts.build_kernel()
    adapted: Any = dual_averaging_adaptation(acceptance)
    began, adapt, _ = adapted

    def flatness(z: Float[Array, " p"]) -> Float[Array, ""]:
        """Flat in the numbers is not flat in the coordinates."""
        stretch = problem.values_jacobian(z)
        return 0.5 * jnp.linalg.slogdet(stretch.T @ stretch)[1]

    def slope(x: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, " p"]]:
        z = center + root @ x
        cost, rise = problem.cost_and_gradient(z, samples, kept)
        flat, stretch = jax.value_and_grad(flatness)(z)
        found, gradient = flat - cost / scale, (stretch - rise / scale) @ root
        lost = ~jnp.isfinite(found)
        return jnp.where(lost, -jnp.inf, found), jnp.where(lost, 0.0, gradient)

    @jax.custom_vjp
    def density(x: Float[Array, " p"]) -> Float[Array, ""]:
        return slope(x)[0]

    density.defvjp(slope, lambda gradient, seed: (seed * gradient,))

    def chain(key: Array) -> tuple[Array, Array]:
        """Warm-up and draws by one loop, which holds the motion once: a sampler's own loops hold it
        three times, and compiling it is what a user waits for.
        """
        start, run = jax.random.split(key)
        x = 0.5 * jax.random.normal(start, center.shape)
        # Nothing is known there yet; the first proposal that has a motion is taken.
        state: Any = HMCState(x, -jnp.inf, jnp.zeros_like(x))
        state = jax.tree.map(lambda leaf: jnp.asarray(leaf, x.dtype), state)

        def one(carry: PyTree, each: tuple[Array, Array]) -> tuple[PyTree, tuple[Array, Array]]:
            (state, step), (k, key) = carry, each
            warm = k < warmup
            size = jnp.exp(jnp.where(warm, step.log_step_size, step.log_step_size_avg))
            state, info = kernel(key, state, density, size, jnp.ones_like(x))
            after = adapt(step, info.acceptance_rate)
            step = jax.tree.map(lambda new, old: jnp.where(warm, new, old), after, step)
            return (state, step), (state.position, info.is_divergent)

        every = jnp.arange(warmup + draws), jax.random.split(run, warmup + draws)
        _, (x, diverged) = jax.lax.scan(one, (state, began(1.0)), every)
        return x[warmup:], diverged[warmup:]

    # The sampler's own counters and masks do not follow the strict rules for shapes and types.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        keys = jax.random.split(jax.random.key(seed), chains)
        x, diverged = jax.jit(lambda keys: jax.lax.map(chain, keys))(keys)
    z = np.asarray(report.coordinates) + np.asarray(x) @ np.asarray(root).T
    return _posterior(report, z, "nuts", np.asarray(diverged))


def _root(report: FitReport, *, sampling: bool = False) -> Float[np.ndarray, "p p"]:
    """A square root of the covariance of the coordinates; for a sampler no more than one unit wide
    in any direction, since a number at its bound has no normal distribution.

    Raises:
        ValueError: A combination is not seen.
    """
    J = np.asarray(report.problem.jacobian(report.coordinates))
    _, s, Vt = np.linalg.svd(J, full_matrices=False)
    unseen = len(s) < J.shape[1] or s[-1] <= _UNSEEN * s[0]
    if unseen and not (sampling and report.at_bounds):
        k = len(report.combinations) - 1
        shares = ", ".join(f"{c:+.2f} {n}" for n, c in list(report.combinations[k].items())[:4])
        raise ValueError(
            f"posterior: the data do not see the combination {shares} (relative changes); give a "
            "prior that does, or hold one of these numbers"
        )
    if sampling:
        s = np.maximum(s, report.sigma)
    return report.sigma * (Vt.T / s)


def _posterior(
    report: FitReport, z: np.ndarray, method: str, diverged: np.ndarray | None = None
) -> Posterior:
    values: Callable[..., Array] = shared_jit(jax.vmap(report.problem.flat_values))
    flat = np.asarray(values(jnp.asarray(z.reshape(-1, z.shape[-1]))))
    none = np.zeros(z.shape[:2], bool)
    return Posterior(
        names=list(report.names),
        draws=flat.reshape(*z.shape[:2], -1),
        coordinates=z,
        diverged=none if diverged is None else diverged,
        method=method,
        problem=report.problem,
        sigma=report.sigma,
    )
