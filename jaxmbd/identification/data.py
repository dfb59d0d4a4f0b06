"""The samples and inputs of several experiments as arrays of the same shape, for one batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..analyses.running.schedule import as_mapping, over_a_run
from ..model.expressions import Expression
from ..model.inputs import all_given
from ..model.motions import Sampled, is_motion
from ..model.system import System
from .experiments import Experiment


class Samples(eqx.Module):
    """Samples of E experiments, or of one under `vmap`; experiments that are shorter than others
    are filled up with samples of no weight.

    Attributes:
        t: Times, (E, T) [s].
        y: Samples, (E, q, T); zero where there is none.
        weight: What residuals are multiplied by, (E, q, T); zero where there is no sample.
        whitening: Matrices (E, T, q, q) that make correlated noise independent, or None.
        wrapped: One for angles that are known up to whole turns, (E, q).
        inputs: By name, of each experiment.
    """

    t: Float[Array, "*e T"]
    y: Float[Array, "*e q T"]
    weight: Float[Array, "*e q T"]
    whitening: Float[Array, "*e T q q"] | None
    wrapped: Float[Array, "*e q"]
    inputs: dict[str, PyTree]

    @staticmethod
    def of(experiments: Sequence[Experiment], inputs: dict[str, PyTree]) -> "Samples":
        """From experiments, in the order of `names_of`."""
        names = names_of(experiments)
        longest = max(len(e.measurements.t) for e in experiments)
        shape = len(experiments), len(names), longest
        t, y, weight = np.zeros((shape[0], longest)), np.zeros(shape), np.zeros(shape)
        wrapped = np.zeros(shape[:2])
        correlated = any(e.measurements.covariance is not None for e in experiments)
        whitening = np.zeros((shape[0], longest, shape[1], shape[1])) if correlated else None
        for k, e in enumerate(experiments):
            own = e.measurements
            count, gap = len(own.t), np.diff(own.t)[-1] if len(own.t) > 1 else 1.0
            t[k, :count] = own.t
            t[k, count:] = own.t[-1] + gap * np.arange(1, longest - count + 1)
            rows = [names.index(name) for name in own.values]
            found = np.stack(list(own.values.values()))
            there = np.isfinite(found)
            y[k, rows, :count] = np.where(there, found, 0.0)
            matrices = own.whitening()
            scale = np.ones_like(found) if matrices is not None else 1.0 / own.deviations()
            weight[k, rows, :count] = np.where(there, scale, 0.0) * np.sqrt(float(e.weight))
            wrapped[k, rows] = [float(name in (own.wrapped or ())) for name in own.values]
            if whitening is not None:
                whitening[k] = np.eye(shape[1])
                if matrices is not None:
                    whitening[k, :count, np.array(rows)[:, None], np.array(rows)] = np.moveaxis(
                        matrices, 0, -1
                    )
        return Samples(
            t=jnp.asarray(t),
            y=jnp.asarray(y),
            weight=jnp.asarray(weight),
            whitening=None if whitening is None else jnp.asarray(whitening),
            wrapped=jnp.asarray(wrapped),
            inputs=inputs,
        )

    def weighted(
        self, predicted: Float[Array, "q T"], instants: Float[Array, "q T"]
    ) -> Float[Array, "q T"]:
        """Residuals of one experiment in standard deviations; zero where there is no sample, and
        for instants before the motion began.
        """
        off = predicted - self.y
        turns = jnp.round(jax.lax.stop_gradient(off) / (2.0 * np.pi))
        off = off - 2.0 * np.pi * turns * self.wrapped[:, None]
        # An instant that is NaN, of a delay that makes no sense, must not count as one before.
        known = (self.weight > 0.0) & ~(instants < -1e-9)
        off = jnp.where(known, self.weight * off, 0.0)
        return off if self.whitening is None else jnp.einsum("tij,jt->it", self.whitening, off)


def names_of(experiments: Sequence[Experiment]) -> list[str]:
    """The quantities that were measured in any experiment."""
    return list(dict.fromkeys(name for e in experiments for name in e.measurements.values))


def stacked_inputs(
    experiments: Sequence[Experiment], system: System, steps: int, h: float
) -> tuple[dict[str, Any], dict[str, Callable[..., Any]]]:
    """Inputs of several experiments by name: those that each has its own, with a leading axis, and
    functions of time that all share.

    Functions that differ become samples at every half step, of fourth order like the methods.

    Raises:
        ValueError: An input is missing, unknown, or of a wrong shape.
    """
    given = [
        all_given(system.inputs, as_mapping(e.inputs, f"fit: {e.title}"), f"fit: {e.title}")
        for e in experiments
    ]
    own: dict[str, Any] = {}
    shared: dict[str, Callable[..., Any]] = {}
    for label in system.inputs:
        found = (g[label.name] for g in given)
        each: list[Any] = [Expression(x) if isinstance(x, str) else x for x in found]
        if all(is_motion(x) for x in each):
            if all(x is each[0] or (isinstance(x, Expression) and x == each[0]) for x in each):
                over_a_run(label, each[0], steps, f"fit: {experiments[0].title}")
                shared[label.name] = each[0]
            else:
                own[label.name] = _stacked([_sampled(x, steps, h) for x in each])
            continue
        if any(is_motion(x) for x in each):
            raise ValueError(
                f"fit: input {label.name!r} is a function of time in some experiments and an "
                "array by step in others; give all in the same way"
            )
        rows = []
        for e, x in zip(experiments, each, strict=True):
            size = np.shape(x)[0] if np.ndim(x) > len(label.shape) else steps
            needed = _steps_of(e, h)
            if size < needed:
                raise ValueError(
                    f"fit: {e.title}: input {label.name!r} has {size} rows, but the samples need "
                    f"{needed} steps of {h:g} s"
                )
            value = np.broadcast_to(np.asarray(x, float), (size, *label.shape))
            fill = np.broadcast_to(value[-1:], (max(steps - size, 0), *label.shape))
            rows.append(np.concatenate([value[:steps], fill]))
        own[label.name] = jnp.asarray(np.stack(rows))
    return own, shared


def _steps_of(e: Experiment, h: float) -> int:
    return max(1, int(np.ceil(float(e.measurements.t[-1]) / h - 1e-9)))


def steps_of(experiments: Sequence[Experiment], h: float) -> int:
    """How many steps reach the last sample of all."""
    return max(_steps_of(e, h) for e in experiments)


def _sampled(function: Callable[..., Any], steps: int, h: float) -> Sampled:
    if isinstance(function, Sampled):
        return function
    t = 0.5 * h * np.arange(2 * steps + 1) if steps > 1 else h * np.arange(4) / 3.0
    return Sampled(t, jax.vmap(function)(jnp.asarray(t)))


def _stacked(samples: Sequence[Sampled]) -> Any:
    """Samples with a leading axis; the last cubic of shorter ones goes on."""
    longest = max(x.values.shape[0] for x in samples)

    def filled(x: Sampled) -> Sampled:
        count = x.values.shape[0]
        if count == longest:
            return x
        after = x.start + x.interval * jnp.arange(count, longest, dtype=x.values.dtype)
        more = jnp.concatenate([x.values, jax.vmap(x)(after)])
        return eqx.tree_at(lambda y: y.values, x, more)

    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(filled, samples))


def of_one(
    own: Mapping[str, PyTree], shared: Mapping[str, Callable[..., Array]]
) -> dict[str, Any] | None:
    """The inputs of one experiment, of `Samples.inputs` under `vmap`; None for no input."""
    return {**own, **shared} or None
