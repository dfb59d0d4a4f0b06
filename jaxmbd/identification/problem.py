"""A fit as a function: weighted residuals of all experiments by one vector of numbers without
restrictions, in one compiled program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ..analyses import kinematics, set_joints, simulate
from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator
from ..model.mechanism import Mechanism
from ..model.state import State
from ..model.system import System
from ..results.solution import Solution
from ..rotations.types import Scalar
from ..xla.shared_programs import shared_jit
from .data import Samples, names_of, of_one, stacked_inputs, steps_of
from .evaluation import Evaluation, one_by_one, reduced
from .experiments import Experiment, OwnNumbers, smallest_spacing
from .losses import AbstractLoss, Squares
from .parameters import Key, Parameters, Point
from .priors import AbstractPrior
from .sampling import at_rows, delayed, predicted
from .transforms import AbstractTransform, Values


@dataclass(frozen=True)
class Settings:
    """How motions are computed and residuals are counted.

    Attributes:
        h: Step size [s], or None for the smallest spacing of the samples.
        analysis: "simulate" or "kinematics".
        formulation, integrator: As in `simulate`.
        loss: Of residuals.
        priors: What is known beforehand.
    """

    h: float | None = None
    analysis: str = "simulate"
    formulation: AbstractFormulation | None = None
    integrator: AbstractIntegrator | None = None
    loss: AbstractLoss = Squares()
    priors: Sequence[AbstractPrior] = ()

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the analysis."""
        if self.analysis == "kinematics":
            return {"formulation": self.formulation}
        return {"formulation": self.formulation, "integrator": self.integrator}


class FitProblem:
    """Weighted residuals as a function of one vector z of unrestricted coordinates: those of the
    parameters (p of them), then each experiment's own unknown numbers.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        parameters: Mapping[Key, AbstractTransform],
        experiments: Sequence[Experiment],
        settings: Settings,
    ):
        if settings.analysis not in ("simulate", "kinematics"):
            raise ValueError(
                f"analysis must be 'simulate' or 'kinematics', not {settings.analysis!r}"
            )
        self.mechanism, self.settings, self.experiments = mechanism, settings, list(experiments)
        self.parameters = Parameters(mechanism, parameters)
        self.p = self.parameters.size
        system = mechanism.build()[0]
        for e in experiments:
            e.measurements.check(system)
        self.own = OwnNumbers.of(experiments, mechanism, system)
        if not parameters and not self.own.is_unknown.any():
            raise ValueError("fit: no parameter is given")
        for prior in settings.priors:
            prior.check(dict.fromkeys(self.parameters.paths))
        self._check_noise()
        self._own0 = self.own.coordinates()
        # Columns of the Jacobian that experiments have of their own, and the others' numbers.
        self.moving = np.flatnonzero(self.own.is_unknown.any(axis=0))
        self.columns = self._columns()
        self.z0 = np.concatenate([self.parameters.start, self._own0[self.own.is_unknown]])
        self.names = names_of(experiments)
        self.h = settings.h or smallest_spacing(experiments)
        self.steps = steps_of(experiments, self.h) + self._margin()
        self._delayed = delayed(system, self.names)
        self._check_times()
        own_inputs: dict[str, Any] = {}
        self._inputs: dict[str, Any] = {}
        if settings.analysis == "simulate":
            own_inputs, self._inputs = stacked_inputs(experiments, system, self.steps, self.h)
        self.samples = Samples.of(experiments, own_inputs)
        self.count = int(np.count_nonzero(np.asarray(self.samples.weight)))
        self.kept = np.ones(len(self.experiments), bool)
        self._evaluated: tuple[bytes, Evaluation] | None = None
        self._evaluate = shared_jit(self._all)
        self._predict = shared_jit(self._residuals)
        self._prior = shared_jit(self._prior_of)
        self._predictions = shared_jit(self._predictions_of)
        self.values_jacobian = jax.jacfwd(self.flat_values)

    # --- numbers ---

    def values(self, z: Point) -> dict[str, Any]:
        """Parameters by path."""
        return self.parameters.values(jnp.asarray(z)[: self.p])

    def own_values(self, z: Point) -> Float[Array, "E k"]:
        """Each experiment's own numbers, known ones too."""
        return jax.vmap(self._numbers)(self.own_coordinates(z))

    def flat_values(self, z: Point) -> Float[Array, " v"]:
        """Every estimated number once: parameters, tied ones once, then own numbers."""
        shared = ravel_pytree(self.parameters.once(self.values(z)))[0]
        return jnp.concatenate([shared, self.own_values(z)[self.own.is_unknown]])

    @property
    def own_labels(self) -> list[str]:
        """Names of the estimated own numbers."""
        return self.own.labels([str(e.name) for e in self.experiments])

    def _numbers(self, own: Float[Array, " k"]) -> Float[Array, " k"]:
        """Own numbers of one experiment by their coordinates."""
        restrictions = self.own.restrictions
        found = [r(x) for r, x in zip(restrictions, own, strict=True)]
        return jnp.stack(found) if found else own

    def own_coordinates(self, z: Point) -> Float[Array, "E k"]:
        """Unrestricted coordinates of the own numbers at a point, (E, k)."""
        at = np.nonzero(self.own.is_unknown)
        base = jnp.asarray(self._own0)
        return base.at[at].set(jnp.asarray(z)[self.p :]) if at[0].size else base

    # --- motions ---

    def built(self, z: Point, e: int = 0) -> tuple[System, State]:
        """System and state of one experiment at a point."""
        return self.built_with(jnp.asarray(z)[: self.p], self.own_coordinates(z)[e])

    def built_with(
        self, shared: Float[Array, " p"], own: Float[Array, " k"]
    ) -> tuple[System, State]:
        """The same by the coordinates of parameters and of own numbers."""
        return self._built(self.values(shared), self._numbers(own))

    def inputs_with(self, samples: Samples) -> dict[str, Any] | None:
        """Inputs of one experiment, by its samples."""
        return of_one(samples.inputs, self._inputs)

    def predicted(
        self, system: System, solution: Solution, t: Float[Array, " T"], offset: Scalar
    ) -> tuple[Float[Array, "q T"], Float[Array, "q T"]]:
        """The quantities of all experiments at samples of a clock that is later by an offset, and
        their instants.
        """
        return predicted(system, solution, self.names, t - offset)

    def clock_offset(self, own: Float[Array, " k"]) -> Scalar:
        """Of one experiment, by the coordinates of its own numbers [s]."""
        place = ("clock_offset",)
        if place not in self.own.places:
            return jnp.zeros((), own.dtype)
        return self._numbers(own)[self.own.places.index(place)]

    def run(
        self,
        system: System,
        state: State,
        inputs: Values | None,
        steps: int,
        t0: Scalar | float = 0.0,
    ) -> Solution:
        """A motion with the settings of the fit."""
        return simulate(
            system,
            state,
            h=self.h,
            steps=steps,
            t0=t0,
            throw=False,
            inputs=inputs,
            **self.settings.options,
        )

    def _built(self, values: Values, own: Float[Array, " k"]) -> tuple[System, State]:
        start: dict[str, dict[str, Any]] = {}
        for k, place in enumerate(self.own.places):
            if place[0] == "values":
                values = {**values, place[1]: own[k]}
            elif place[0] == "start":
                start.setdefault(place[1], {})[place[2]] = own[k]
        system, state = self.mechanism.with_values(values).build()
        return system, set_joints(system, state, start) if start else state

    def _one(
        self, shared: Float[Array, " p"], own: Float[Array, " k"], samples: Samples
    ) -> tuple[Float[Array, "q T"], tuple[Float[Array, "q T"], Any]]:
        """Weighted residuals of one experiment, predictions, and how the motion ended."""
        system, state = self.built_with(shared, own)
        if self.settings.analysis == "kinematics":
            sol = kinematics(system, state, samples.t, throw=False, **self.settings.options)
            found, instants = at_rows(system, sol, self.names)
        else:
            sol = self.run(system, state, self.inputs_with(samples), self.steps)
            found, instants = self.predicted(system, sol, samples.t, self.clock_offset(own))
        return samples.weighted(found, instants), (found, sol.result)

    def _all(self, z: Float[Array, " n"], samples: Samples, kept: Array) -> Evaluation:
        own = self.own_coordinates(z)
        moving = self.moving

        def one(own: Float[Array, " k"], samples: Samples, kept: Array) -> Evaluation:
            def by(x: Float[Array, " c"]):
                found = own.at[moving].set(x[self.p :]) if moving.size else own
                residual, others = self._one(x[: self.p], found, samples)
                residual = jnp.where(kept, residual, 0.0)
                return residual, (residual, *others)

            x = jnp.concatenate([z[: self.p], own[moving]])
            jacobian, (residual, found, result) = jax.jacfwd(by, has_aux=True)(x)
            triangle, excess = reduced(jacobian, residual, self.settings.loss)
            return Evaluation(residual, found, result, triangle, excess)

        return one_by_one(one, own, samples, kept)

    def _residuals(
        self, z: Float[Array, " n"], samples: Samples, kept: Array
    ) -> Float[Array, "E q T"]:
        def one(own: Float[Array, " k"], samples: Samples, kept: Array) -> Float[Array, "q T"]:
            return jnp.where(kept, self._one(z[: self.p], own, samples)[0], 0.0)

        return one_by_one(one, self.own_coordinates(z), samples, kept)

    def predictions(self, z: Float[Array, "N n"]) -> Float[Array, "N E q T"]:
        """The quantities at the times of the samples, at several points."""
        return self._predictions(z, self.samples)

    def _predictions_of(self, z: Float[Array, "N n"], samples: Samples) -> Float[Array, "N E q T"]:
        def at(z: Float[Array, " n"]) -> Float[Array, "E q T"]:
            def one(own: Float[Array, " k"], samples: Samples) -> Float[Array, "q T"]:
                return self._one(z[: self.p], own, samples)[1][0]

            return one_by_one(one, self.own_coordinates(z), samples)

        return jax.lax.map(at, z)

    # --- what optimizers ask for ---

    def evaluation(self, z: Point) -> Evaluation:
        """At a point; kept until another point is asked for."""
        z = np.asarray(z, float)
        if self._evaluated is None or self._evaluated[0] != z.tobytes():
            found = self._evaluate(jnp.asarray(z), self.samples, jnp.asarray(self.kept))
            self._evaluated = z.tobytes(), jax.tree.map(np.asarray, found)
        return self._evaluated[1]

    def forget(self) -> None:
        """After a change of samples, or of the experiments that are kept."""
        self._evaluated = None
        self.count = int(np.count_nonzero(np.asarray(self.samples.weight)[self.kept]))

    def residuals(self, z: Point) -> np.ndarray:
        """What a sum of squares is made of: half of it is the cost. For a step it is as good as the
        residuals of all samples, which are far more numbers.
        """
        found = self.evaluation(z)
        triangles = np.asarray(found.triangles)
        excess = np.sqrt(np.maximum(np.asarray(found.excess), 0.0))
        prior = np.asarray(self._prior(jnp.asarray(z))[0])
        return np.concatenate([triangles[:, :, -1].reshape(-1), excess, prior])

    def jacobian(self, z: Point) -> np.ndarray:
        """Of `residuals`."""
        triangles = np.asarray(self.evaluation(z).triangles)
        E, m, _ = triangles.shape
        full = np.zeros((E, m, len(self.z0)))
        for e in range(E):
            known = self.columns[e] >= 0
            full[e][:, self.columns[e][known]] = triangles[e][:, :-1][:, known]
        prior = self.prior_jacobian(z)
        return np.concatenate([full.reshape(E * m, -1), np.zeros((E, len(self.z0))), prior])

    def mean_cost(self, z: Point, samples: Samples, kept: Array) -> Float[Array, ""]:
        """The cost of a sample that is there: a delay leaves early ones out, which is no merit."""
        used = jnp.count_nonzero(self._residuals(jnp.asarray(z), samples, kept))
        return self.cost(z, samples, kept) / jnp.maximum(used, 1).astype(samples.t.dtype)

    def cost(self, z: Point, samples: Samples, kept: Array) -> Float[Array, ""]:
        """Half the sum of squares, or of the loss, without a Jacobian; can be differentiated."""
        found = self._residuals(jnp.asarray(z), samples, kept)
        prior = self._prior_residual(jnp.asarray(z))
        return 0.5 * (jnp.sum(self.settings.loss(found**2)) + jnp.sum(prior**2))

    def cost_and_gradient(
        self, z: Float[Array, " n"], samples: Samples, kept: Array
    ) -> tuple[Float[Array, ""], Float[Array, " n"]]:
        """The same with its gradient, from forward-mode Jacobians: of few numbers they compile and
        run faster than a reverse pass.
        """
        found, (prior, slopes) = self._all(z, samples, kept), self._prior_of(z)
        residual = found.triangles[:, :, -1]
        cost = 0.5 * (jnp.sum(residual**2) + jnp.sum(found.excess) + jnp.sum(prior**2))
        own = jnp.sum(found.triangles[:, :, :-1] * residual[:, :, None], axis=1)
        # A column that an experiment does not have, -1, is dropped past the end.
        place = np.where(self.columns < 0, z.size, self.columns)
        return cost, (prior @ slopes).at[place].add(own, mode="drop")

    def prior_residual(self, z: Point) -> np.ndarray:
        """How many standard deviations numbers are away from what was known beforehand."""
        return np.asarray(self._prior(jnp.asarray(z))[0])

    def prior_jacobian(self, z: Point) -> np.ndarray:
        """Of `prior_residual`."""
        return np.asarray(self._prior(jnp.asarray(z))[1])

    def _prior_residual(self, z: Float[Array, " n"]) -> Float[Array, " m"]:
        values = self.values(z)
        found = [prior.residual(values) for prior in self.settings.priors]
        known = self.own.is_unknown & np.isfinite(self.own.sigmas)
        if known.any():
            off = (self.own_values(z) - self.own.values)[known]
            found.append(off / jnp.asarray(self.own.sigmas[known]))
        return jnp.concatenate([jnp.zeros(0), *found])

    def _prior_of(self, z: Float[Array, " n"]) -> tuple[Array, Array]:
        return self._prior_residual(z), jax.jacfwd(self._prior_residual)(z)

    def _columns(self) -> np.ndarray:
        """For each experiment where the columns of its own Jacobian stand among all, (E, p + d);
        -1 for a number that it knows.
        """
        unknown = self.own.is_unknown
        found = np.full((len(unknown), self.p + self.moving.size), -1)
        found[:, : self.p] = np.arange(self.p)
        own = np.full(unknown.shape, -1)
        own[unknown] = self.p + np.arange(np.count_nonzero(unknown))
        found[:, self.p :] = own[:, self.moving]
        return found

    # --- checks ---

    def _check_noise(self) -> None:
        """Priors and robust losses count in standard deviations, so that noise must be known."""
        settings, unknown = self.settings, self.own.is_unknown & np.isfinite(self.own.sigmas)
        needs = "priors" if settings.priors or unknown.any() else ""
        needs = needs if isinstance(settings.loss, Squares) else type(settings.loss).__name__
        without = [e.title for e in self.experiments if not e.measurements.knows_noise]
        if needs and without:
            raise ValueError(
                f"fit: {needs} count in standard deviations of the noise; give the measurements "
                f"of {', '.join(without)} a sigma"
            )
        if 0 < len(without) < len(self.experiments):
            raise ValueError(f"fit: give all measurements a sigma or none; {without[0]} has none")

    def _margin(self) -> int:
        """Steps beyond the last sample, for a clock that is slow."""
        place = ("clock_offset",)
        if place not in self.own.places:
            return 0
        least = float(np.min(self.own.values[:, self.own.places.index(place)]))
        return 4 + int(np.ceil(max(-least, 0.0) / self.h))

    def _check_times(self) -> None:
        if self.settings.analysis == "kinematics":
            if self._delayed:
                raise ValueError(
                    f"fit: {', '.join(self._delayed)} has a delay, which kinematics cannot take"
                )
            if self.own.places or any(e.inputs is not None for e in self.experiments):
                raise ValueError(
                    "fit: inputs, starts, own values and clock offsets are for analysis='simulate'"
                )
            return
        for e in self.experiments:
            first = e.measurements.t[0]
            if first < 0.0:
                raise ValueError(
                    f"fit: the motion starts at t = 0, but the first sample of {e.title} is at "
                    f"{first:g} s"
                )
