"""Newton's method for one step on the index-3 form: which matrices it iterates by, how corrections
are measured, and what it must know where rows are redundant or nearly so.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from ..linalg import SaddleMatrix, damped_correction, factorize, only_forces
from ..linalg.saddle import scatter_rows
from ..linalg.strategy import DENSE_LIMIT
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import (
    AbstractEquations,
    AbstractUndetermined,
    KeptFactors,
    NewtonInfo,
    NewtonOptions,
    Start,
    newton,
)
from ..solvers.predictor import UNKNOWN, Multipliers, Past, SolvedStep
from ..xla.lazy_cond import where_needed
from .index1 import minimum_norm, undetermined_part
from .index3_step import Step
from .rows import row_bodies, row_sizes, rows
from .step_factors import ExactFactors, SoftenedFactors, kept_of

# Share of the multipliers that leaves the range of determined ones in a step, from which the
# careful solver is asked. A direction turns out of it by less than rotations within a step, unless
# it fades.
_TURNED = 0.05
# Share of the forces that multipliers hold which a pose leaves undetermined: from which a step is
# told, and which the multipliers of drivers may hold before they end a run.
_NOTICED, _UNBEARABLE = 0.01, 0.2
# Share of the multipliers up to which nobody need ask what forces they exert.
_UNNOTICED = 1e-9
# Share of the tolerance that holding undetermined multipliers may leave of the constraints.
_PULLED = 0.02

Vector = Float[Array, " n"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of `Newton` that a step needs.

    Attributes:
        mode: "auto", "quasi", "exact" or "frozen".
        criterion: "position" or "correction".
        max_steps: Limit of iterations by a frozen matrix.
    """

    mode: str
    criterion: str
    max_steps: int

    def options(self, tolerance: float | Scalar | None, dtype: np.dtype) -> NewtonOptions:
        """Options of the iteration, with the default tolerance for None."""
        by_position = self.criterion == "position"
        default = float(jnp.finfo(dtype).eps) ** 0.75 if by_position else 1e-3
        return NewtonOptions(
            default if tolerance is None else tolerance,
            max_steps=0 if self.mode == "exact" else self.max_steps,
            max_exact_steps=0 if self.mode in ("frozen", "quasi") else 30,
            estimate_error=by_position,
            contraction=float("inf") if self.mode == "frozen" else 0.5,
        )


@dataclasses.dataclass(frozen=True)
class Guess:
    """Information about earlier steps.

    Attributes:
        last: The unknowns of the last one.
        undetermined: Whether that left multipliers undetermined.
        past: What earlier ones say, or None.
    """

    last: Vector
    undetermined: Bool[Array, ""] | bool
    past: Past | None


def solve_step(
    step: Step,
    settings: Settings,
    tolerance: Scalar | float | None,
    guess: Guess,
    active: Bool[Array, ""],
) -> tuple[Vector, tuple[NewtonInfo, Past | None]]:
    """The unknowns at the end of a step, what Newton's method says, and what the next step may know
    of this one. A failed solve returns those of the last step: finite, so that a masked member of
    a batch has finite derivatives.
    """
    last, past = guess.last, guess.past
    options = settings.options(tolerance, last.dtype)
    x0, assumed, observe, kept = last, UNKNOWN, False, None
    if past is not None:
        x0, (assumed, observe, kept) = past.guess(last), past.trusted(guess.undetermined)
    start = Start(x0, last, assumed)
    if kept is None:
        equations = OwnMatrix(step, settings, options, guess, x0)
        x, info = newton(equations, start, options, active)
        x, info = equations.finished(x, info)
        x = jnp.where(info.converged, x, last)
        if past is None:
            return x, (info, None)
        multipliers = Multipliers(step.most(step.split(x)[1]))
        solved = SolvedStep(last, x0, x, info.converged, info.contraction, observe)
        return x, (info, past.after(solved, equations.length, None, multipliers))
    assert past is not None
    equations = KeptMatrix(step, settings, options, guess, past, kept)
    unknown = equations if equations.redundant else None
    x, info = newton(equations, start, options, active, kept, unknown)
    x, info, told = equations.finished(x, x0, info)
    kept = KeptFactors(tuple(jax.tree.leaves(info.factors)), told.renewed)
    info = dataclasses.replace(info, factors=None, renewed=None)
    x = jnp.where(info.converged, x, last)
    multipliers = Multipliers(step.most(step.split(x)[1]), told.idle, told.blind)
    solved = SolvedStep(told.before, x0, x, info.converged, info.contraction, observe)
    return x, (info, told.past.after(solved, equations.length, kept, multipliers))


class StepEquations(AbstractEquations):
    """The equations of a step for Newton's method, whatever its frozen matrix."""

    def __init__(self, step: Step, settings: Settings, options: NewtonOptions, guess: Guess):
        self.step, self.settings, self.options, self.guess = step, settings, options, guess
        self.args, self.system = step.args, step.args.system
        self.redundant = self.system.has_loops
        # Trees have no E that could stall the iteration; the paper's criterion has other units.
        small = guess.last.size <= DENSE_LIMIT
        self.stalls = self.redundant and small and settings.criterion == "position"
        # Factors of a body's unknowns that make translations and rotations comparable.
        self.weights = 1.0 / self.system.units(self.args.u.shape[1])

    def residual(self, x: Vector) -> Vector:
        return self.step.residual(x)

    def exact_factors(self, x: Vector) -> ExactFactors:
        matrix = self.step.matrix(x, exact=True)
        return ExactFactors(matrix, self.unchecked(matrix))

    def unchecked(self, matrix: SaddleMatrix) -> PyTree:
        """Factors: the iteration itself tells whether they are good enough."""
        return factorize(matrix, self.system.linear_solver, checked=False)

    def length(
        self, delta: Vector, softness: Float[Array, " m"] | None = None, less: Array | float = 0.0
    ) -> Scalar:
        """The length of a correction in position units, and what E of some factors leaves of the
        constraints' values: E δλ, less what is to be left. By the paper's criterion its norm.
        """
        if self.settings.criterion == "correction":
            return jnp.linalg.norm(delta)
        n, args = self.step.size, self.args
        length = jnp.max(jnp.abs(delta[:n].reshape(args.u.shape)) * self.weights[None, :])
        if softness is not None:
            length = jnp.maximum(length, self.step.largest(softness * delta[n:] - less))
        return args.scales.position * length

    def norm(self, delta: Vector, factors: PyTree, pulled: Array | float = 0.0) -> Scalar:
        return self.length(delta, factors.regularization)

    def turned(self, part: Float[Array, " m"], lam: Float[Array, " m"]) -> Bool[Array, ""]:
        """Whether so much of the multipliers is undetermined that the careful solver is asked."""
        return self.step.most(part) > _TURNED * self.step.most(lam)

    def careful(
        self, factors: ExactFactors, value: Vector
    ) -> tuple[Vector, Scalar, Bool[Array, ""]]:
        """Newton's correction where constraints nearly lose rank, its norm, and whether the iterate
        is a root.

        Beside a singular pose the rows see some direction of the motion by a singular value s only,
        and the force F that they must bear along it takes multipliers F/s. On the pose itself no
        multipliers do: the accelerations that keep the constraints exist, those multipliers do not.
        A root is therefore an iterate that satisfies the constraints to the tolerance and balances
        the forces that the rows do not bear, which is a matter of motion alone. Until the
        constraints hold, directions are damped below the s of a quadratic violation of the
        tolerance; from then on below that of the usual E, so that rounding of the constraints does
        not become acceleration.
        """
        matrix, tolerance = factors.matrix, self.options.tolerance
        n, eps = self.step.size, jnp.finfo(value.dtype).eps
        violation = self.args.scales.position * self.step.largest(value[n:])
        closed = violation <= tolerance
        damping = jnp.where(closed, eps**0.25, tolerance**0.5)
        units = 1.0 / self.weights
        sizes = row_sizes(self.step.formulation, self.system, matrix.right)
        scales = jnp.concatenate([jnp.tile(units, self.system.nb), 1.0 / sizes])
        scaled = matrix.scaled(units, sizes)

        def correction(value: Vector) -> Vector:
            return scales * damped_correction(scaled, scales * value, damping)

        delta = correction(value)
        unbalanced = self.length(correction(only_forces(value, n)))
        return delta, self.length(delta), closed & (unbalanced <= tolerance)

    def lost(
        self, x: Vector, least: Vector, right: Float[Array, "m k d"]
    ) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        """Whether the multipliers that those of least norm leave out bear a noticed part of the
        forces that rows `right` exert, and as drivers'.
        """
        step, n = self.step, self.step.size
        bodies = row_bodies(step.formulation, self.system)

        def force(lam: Array):  # at the system's length beside a moment
            forces = scatter_rows(right, lam, bodies, self.system.nb) / self.weights[None]
            return jnp.max(jnp.abs(forces), initial=0.0)

        lost, lam = x[n:] - least[n:], least[n:]
        most = step.most(lost)

        def of_forces():
            driving = jnp.where(_of_drivers(self.system, lost.size), lost, 0.0)
            share = step.most(driving)
            part, borne = force(lost), force(lam)
            driven = (share > _NOTICED * most) & (part > _UNBEARABLE * borne)
            return part > _NOTICED * borne, driven

        no = jnp.zeros((), bool)
        some = most > _UNNOTICED * step.most(lam)
        return where_needed(some, of_forces, (no, no))


def _of_drivers(system: System, m: int) -> np.ndarray:
    """Which of the m rows, in the stacked order, belong to drivers."""
    found = np.zeros(m, bool)
    found[[system.order[row] for c in system.connections if c.is_driver for row in c.rows]] = True
    return found


class OwnMatrix(StepEquations):
    """Every step makes its own matrix, at its first guess x0."""

    def __init__(
        self, step: Step, settings: Settings, options: NewtonOptions, guess: Guess, x0: Vector
    ):
        super().__init__(step, settings, options, guess)
        self.matrix = step.matrix(x0, exact=settings.mode == "exact")
        self.factors = self.unchecked(self.matrix)

    def frozen_factors(self, x: Vector) -> PyTree:
        return self.factors

    def doubt(
        self, x: Vector, factors: PyTree, renewed: Bool[Array, ""] | None
    ) -> tuple[Bool[Array, ""], PyTree]:
        part = undetermined_part(x, self.factors)
        return self.guess.undetermined | self.turned(part, self.step.split(x)[1]), part

    def finished(self, x: Vector, info: NewtonInfo) -> tuple[Vector, NewtonInfo]:
        """With multipliers of least norm, and what those leave out told."""
        if not self.redundant:
            return x, info
        first = info.found
        if first is not None and info.left is not None:
            first = where_needed(info.left, lambda: undetermined_part(x, self.factors), first)
        # E of frozen factors is large, and of few digits in S.
        least = minimum_norm(x, self.factors, rough=True, first=first)
        lost = self.lost(x, least, self.matrix.right)
        info = eqx.tree_at(lambda i: (i.undetermined, i.singular), info, tuple(lost))
        return least, dataclasses.replace(info, found=None, left=None)


class _Told(eqx.Module):
    """Information about multipliers from new factors.

    Attributes:
        renewed: Whether factors are new.
        before: The unknowns of the last step without what they leave undetermined.
        blind: What they leave undetermined of a probe, each times the size of its row.
        idle: The largest part of a multiplier of the last step that they found undetermined.
        past: What earlier steps say, without that part.
    """

    renewed: Bool[Array, ""]
    before: Vector
    blind: Float[Array, " m"] | None
    idle: Scalar | float
    past: Past


class KeptMatrix(StepEquations, AbstractUndetermined):
    """Factors of an earlier step serve, until they are too old."""

    def __init__(
        self,
        step: Step,
        settings: Settings,
        options: NewtonOptions,
        guess: Guess,
        past: Past,
        kept: KeptFactors,
    ):
        super().__init__(step, settings, options, guess)
        self.past: Past = past
        self.turn = past.turned(kept)

    def frozen_factors(self, x: Vector) -> SoftenedFactors:
        return kept_of(self.step.matrix(x, exact=False), self.system.linear_solver)

    def norm(self, delta: Vector, factors: PyTree, pulled: Array | float = 0.0) -> Scalar:
        if not isinstance(factors, SoftenedFactors):
            return self.length(delta, factors.regularization)
        size = self.length(delta, factors.regularization, pulled)
        if self.redundant:
            # What rows have turned by lets multipliers exert forces that cancel no longer.
            size = jnp.maximum(size, self.length(delta * self.turn, factors.compliance))
        return size

    def doubt(
        self, x: Vector, factors: PyTree, renewed: Bool[Array, ""] | None
    ) -> tuple[Bool[Array, ""], PyTree]:
        assert renewed is not None
        lam = self.step.split(x)[1]
        # Only factors of this pose know what is undetermined here.
        here = where_needed(
            renewed,
            lambda: self.turned(undetermined_part(x, factors.judge), lam),
            jnp.zeros((), bool),
        )
        return self.guess.undetermined | here, None

    def pull(self, x: Vector, factors: PyTree) -> Float[Array, " m"]:
        # The part of the multipliers that E alone determines stays what extrapolation makes of it,
        # whose errors grow from step to step, the faster the higher its order.
        n = self.step.size
        part = factors.regularization * (self.past.line(self.guess.last) - x)[n:]
        seen = self.args.scales.position * self.step.largest(part)
        return part * jnp.minimum(1.0, _PULLED * self.options.tolerance / seen)

    def excessive(self, x: Vector) -> Bool[Array, ""]:
        return self.past.excessive(self.step.most(self.step.split(x)[1]))

    def cleaned(self, x: Vector, factors: PyTree) -> Vector:
        return minimum_norm(x, factors.judge, rough=True)

    def finished(self, x: Vector, x0: Vector, info: NewtonInfo) -> tuple[Vector, NewtonInfo, _Told]:
        """With multipliers of least norm where factors are new, which alone tell them."""
        step, last, past, renewed = self.step, self.guess.last, self.past, info.renewed
        assert renewed is not None
        if not self.redundant:
            return x, info, _Told(renewed, last, None, 0.0, past)
        sizes = row_sizes(step.formulation, self.system)

        def least():
            right = rows(step.formulation, self.system, step.coordinates(x0))
            judge = info.factors.judge
            # A probe of what rows leave undetermined, whatever multipliers there are: of like size
            # in all rows.
            probe = jnp.asarray(np.cos(np.arange(x0.size) ** 2.0), x0.dtype)
            probe = probe / jnp.concatenate([jnp.ones(step.size, x0.dtype), sizes])
            new, before, rest = jax.vmap(lambda x: minimum_norm(x, judge, rough=True))(
                jnp.stack([x, last, probe])
            )
            lost = self.lost(x, new, right)
            return new, before, sizes * (probe - rest)[step.size :], *lost

        no = jnp.zeros((), bool)
        x, before, blind, *lost = where_needed(renewed, least, (x, last, past.blind, no, no))
        idle = step.most((before - last)[step.size :])
        # What is taken away from the last step stayed the same over those before.
        past = dataclasses.replace(past, x=past.x + (before - last)[None])
        info = eqx.tree_at(lambda i: (i.undetermined, i.singular), info, tuple(lost))
        return x, info, _Told(renewed, before, blind, idle, past)
