"""The experiment that says most about the numbers of a mechanism, within the limits of a rig."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from tqdm import tqdm

from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator
from ..model.mechanism import Mechanism
from ..model.system import System
from ..results.asking import full_name
from ..results.columns import columns_of
from ..results.solution import Solution
from ..xla.shared_programs import shared_jit
from .excitations import AbstractExcitation
from .experiments import Experiment
from .measurements import Measurements, quantities
from .parameters import Key
from .problem import FitProblem, Settings
from .sampling import predicted
from .transforms import AbstractTransform, Values

Limits = Mapping[str, tuple[float, float]]
_At = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray, np.ndarray]]

_KEPT = 1e-9  # by how much a limit may be passed, in parts of its range


class DesignError(RuntimeError):
    """No excitation that keeps the limits was found."""


@dataclass(frozen=True, eq=False)
class Design:
    """An experiment that was chosen.

    Attributes:
        inputs: The excitations by name, for `Experiment` and `simulate`.
        log_det: Of the Fisher information, by the unrestricted coordinates of the parameters: per
            unit of it the volume of the confidence region shrinks by √e.
        information: The Fisher information itself, (p, p).
        standard_error: That this experiment promises, by number, in unrestricted coordinates: about
            relative errors for `Positive`.
        margins: How far each limited quantity stays within its limits, in parts of the range
            between them; zero where it touches one.
        solution: The motion.
        evaluations: How often it was computed.
    """

    inputs: dict[str, AbstractExcitation]
    log_det: float
    information: Float[np.ndarray, "p p"]
    standard_error: dict[str, float]
    margins: dict[str, float]
    solution: Solution
    evaluations: int

    def __str__(self) -> str:
        lines = [f"design: log det of the information {self.log_det:.4g}"]
        lines += [f"  {name}: {error:.2g}" for name, error in self.standard_error.items()]
        lines += [f"  {name}: margin {x:.3g}" for name, x in self.margins.items()]
        return "\n".join(lines)


def design_experiment(
    mechanism: Mechanism,
    parameters: Mapping[Key, AbstractTransform],
    excitations: Mapping[str, AbstractExcitation],
    measured: Mapping[str, float],
    *,
    t: Sequence[float] | np.ndarray,
    limits: Limits,
    start: Values | None = None,
    h: float | None = None,
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    starts: int = 4,
    spread: float = 0.3,
    seed: int = 0,
    max_evaluations: int = 60,
    progress: bool = True,
) -> Design:
    """Choose inputs so that a fit will know the parameters as well as possible: D-optimal design.

    The logarithm of the determinant of the Fisher information is maximized by sequential quadratic
    programming (scipy's SLSQP) with exact gradients: derivatives of the sensitivities of the motion
    by the coefficients of the inputs. It depends on the parameters, so give the mechanism the best
    guess there is.

    Args:
        mechanism: With inputs (`Input`) that the excitations drive.
        parameters: What will be fitted, as in `fit`.
        excitations: `Fourier` or `Spline` by input; their coefficients are the first start.
        measured: Quantities that will be measured, with the standard deviation of their noise.
        t: When they will be [s].
        limits: Lower and upper limits by quantity or input. They hold at every step.
        start: Of joints, as in `Experiment`.
        h: Step size [s]; by default the smallest spacing of the samples.
        formulation: As in `simulate`.
        integrator: As in `simulate`.
        starts: First guesses: the given coefficients, and random ones.
        spread: Of the random ones, in parts of the input's range, which `limits` gives, or 1.
        seed: Of the random ones.
        max_evaluations: Limit of the iterations from each.
        progress: Show a progress bar on standard error.

    Raises:
        ValueError: A name makes no sense, or a limit is empty.
        DesignError: No start led to an excitation within the limits.
    """
    times = np.asarray(t, float)
    values = {name: np.zeros(times.shape) for name in measured}
    data = Measurements(times, values, sigma=dict(measured), wrapped=())
    experiment = Experiment(data, inputs=dict(excitations), start=start or {})
    settings = Settings(h=h, formulation=formulation, integrator=integrator)
    search = _Search(FitProblem(mechanism, parameters, [experiment], settings), excitations, limits)
    rng, best = np.random.default_rng(seed), None
    with tqdm(total=starts, disable=not progress, desc="design", leave=False) as bar:
        for k in range(starts):
            c = search.first if k == 0 else search.random(rng, spread)
            found = search.improved(c, max_evaluations)
            if found is not None and (best is None or found[1] > best[1]):
                best = found
                bar.set_postfix(log_det=f"{found[1]:.4g}")
            bar.update(1)
    if best is None:
        raise DesignError(
            "design_experiment: no excitation within the limits was found; widen them, or start "
            "from coefficients that keep them"
        )
    return search.design(best[0])


class _Search:
    """The information, the limited quantities, and their derivatives by all coefficients."""

    def __init__(
        self, problem: FitProblem, excitations: Mapping[str, AbstractExcitation], limits: Limits
    ):
        self.problem, self.excitations = problem, dict(excitations)
        system = problem.mechanism.build()[0]
        _check(system, limits, self.excitations)
        self.limits = {name: (float(low), float(high)) for name, (low, high) in limits.items()}
        self.first = np.concatenate([np.asarray(x.coefficients) for x in excitations.values()])
        self.evaluations = 0
        self._value = shared_jit(self._value_and_slope)

    def inputs(self, c: Float[Array | np.ndarray, " n"]) -> dict[str, AbstractExcitation]:
        """Excitations with given coefficients."""
        found, begin = {}, 0
        for name, x in self.excitations.items():
            end = begin + x.coefficients.shape[0]
            found[name] = x.with_coefficients(jnp.asarray(c[begin:end]))
            begin = end
        return found

    def random(self, rng: np.random.Generator, spread: float) -> np.ndarray:
        """Coefficients at random."""
        sizes = []
        for name, x in self.excitations.items():
            low, high = self.limits.get(name, (-1.0, 1.0))
            sizes.append(np.full(x.coefficients.shape[0], spread * (high - low)))
        return np.concatenate(sizes) * rng.normal(size=self.first.size)

    def motion(self, c: Float[Array | np.ndarray, " n"], z: Float[Array, " p"]):
        """The system, and its motion."""
        problem = self.problem
        system, state = problem.built(z)
        return system, problem.run(system, state, self.inputs(c), problem.steps)

    def outcomes(self, c: Float[Array, " n"]) -> tuple[Array, Array, Solution]:
        """The Jacobian of the weighted measurements, the room that is left to every limit at every
        step, in parts of its range, and the motion.
        """
        problem, samples = self.problem, jax.tree.map(lambda x: x[0], self.problem.samples)

        def measured(z: Float[Array, " p"]) -> tuple[Array, tuple[Array, Solution]]:
            system, sol = self.motion(c, z)
            found, _ = predicted(system, sol, problem.names, samples.t)
            return (samples.weight * found).reshape(-1), (self._room(c, system, sol), sol)

        J, (room, sol) = jax.jacfwd(measured, has_aux=True)(jnp.asarray(problem.z0))
        return J, room, sol

    def _room(self, c: Float[Array, " n"], system: System, sol: Solution) -> Float[Array, " m"]:
        if not self.limits:
            return jnp.zeros(0, sol.t.dtype)
        own = self.inputs(c)
        names = [name for name in self.limits if name not in own]
        columns = dict(zip(names, quantities(system, sol, names), strict=True))
        rooms = []
        for name, (low, high) in self.limits.items():
            x = jax.vmap(own[name])(sol.t) if name in own else columns[name]
            rooms += [(x - low) / (high - low), (high - x) / (high - low)]
        return jnp.concatenate(rooms)

    def _value_and_slope(self, c: Float[Array, " n"]) -> tuple[tuple, tuple, tuple]:
        """-log det F and the room, their derivatives, and what else a report needs: one program."""

        def both(c: Float[Array, " n"]) -> tuple[tuple, tuple]:
            J, room, sol = self.outcomes(c)
            value = -jnp.linalg.slogdet(J.T @ J)[1], room
            return value, (value, J, sol)

        slopes, (values, J, sol) = jax.jacfwd(both, has_aux=True)(c)
        return values, slopes, (J, sol)

    def at(self, c: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """-log det F, the room, and their derivatives."""
        self.evaluations += 1
        (value, room), (slope, rooms), _ = self._value(jnp.asarray(c))
        return float(value), np.asarray(room), np.asarray(slope), np.asarray(rooms)

    def improved(self, c: np.ndarray, limit: int) -> tuple[np.ndarray, float] | None:
        """The best coefficients from a start that keep the limits, and their log det F."""
        from scipy import optimize

        known: dict[bytes, tuple[float, np.ndarray, np.ndarray, np.ndarray]] = {}
        best: list[tuple[np.ndarray, float]] = []

        def at(c: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
            key = c.tobytes()
            if key not in known:
                known.clear()
                known[key] = found = self.at(c)
                kept = np.min(found[1], initial=0.0) >= -_KEPT and np.isfinite(found[0])
                if kept and (not best or -found[0] > best[-1][1]):
                    best.append((c.copy(), -found[0]))
            return known[key]

        def value(c: np.ndarray) -> tuple[float, np.ndarray]:
            found = at(c)
            if not np.isfinite(found[0]):
                return 1e6, np.zeros(c.size)
            return found[0], np.nan_to_num(found[2])

        room: Any = {
            "type": "ineq",
            "fun": lambda c: np.nan_to_num(at(c)[1], nan=-1.0),
            "jac": lambda c: np.nan_to_num(at(c)[3]),
        }
        found = optimize.minimize(
            value, c, jac=True, method="SLSQP", constraints=[room] if self.limits else [],
            options={"maxiter": limit, "ftol": 1e-8},
        )  # fmt: skip
        self._shrunk(found.x, at, best)
        return best[-1] if best else None

    def _shrunk(self, c: np.ndarray, at: _At, best: list[tuple[np.ndarray, float]]) -> None:
        """Try the end itself, and nearer to the best point within the limits where it passes one by
        the tolerance of the method.
        """
        inside = best[-1][0] if best else np.zeros_like(c)
        for share in (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
            count = len(best)
            at(c + share * (inside - c))
            if len(best) > count:
                return

    def design(self, c: np.ndarray) -> Design:
        """What is told of the coefficients."""
        (_, room), _, (J, solution) = self._value(jnp.asarray(c))
        J, room = np.asarray(J), np.asarray(room)
        information = J.T @ J
        errors = np.sqrt(np.diagonal(np.linalg.pinv(information)))
        names = self.problem.parameters.names_of_coordinates() + self.problem.own_labels
        margins = np.min(room.reshape(len(self.limits), -1), axis=1) if self.limits else []
        return Design(
            inputs=self.inputs(c),
            log_det=float(np.linalg.slogdet(information)[1]),
            information=information,
            standard_error=dict(zip(names, map(float, errors), strict=True)),
            margins=dict(zip(self.limits, map(float, margins), strict=True)),
            solution=solution,
            evaluations=self.evaluations,
        )


def _check(system: System, limits: Limits, excitations: Mapping[str, AbstractExcitation]) -> None:
    columns = {column.name: column for column in columns_of(system)}
    for name, (low, high) in limits.items():
        if not low < high:
            raise ValueError(f"design_experiment: the limits of {name!r} leave no room")
        if name not in excitations and full_name(name, columns) not in columns:
            Measurements([0.0], {name: [0.0]}, wrapped=()).check(system)  # names the nearest
    for name, x in excitations.items():
        if not isinstance(x, AbstractExcitation):
            raise TypeError(
                f"design_experiment: the excitation of {name!r} must be Fourier or Spline, not "
                f"{type(x).__name__}"
            )
