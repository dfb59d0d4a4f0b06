"""The search for an optimal plan: a line search with a filter on the host, over compiled programs.

Reference:
    Waechter, Biegler, "On the implementation of an interior-point filter line-search algorithm for
    large-scale nonlinear programming", Mathematical Programming 106 (2006), section 2.
"""

import dataclasses
import math
import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool
from tqdm import tqdm

from ...outcomes import RESULTS
from ...rotations.types import Scalar
from .expansion import Expansion, expanded, moved
from .interior import (
    Errors,
    Step,
    barrier_of,
    cost_of,
    each,
    errors,
    misses_of,
    mixed,
    slopes_of_cost,
    step_of,
)
from .problem import Gaps, Multipliers, Point, Problem, Values, values_at

_FIRST_BARRIER, _FIRST_SLACK = 0.1, 1e-2
_SUFFICIENT = 10.0  # errors in parts of the barrier at which it goes down
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-4, 1e-12, 1e10
_SMALLEST_SHARE = 1e-7
_APART = 1e10  # how far products of slacks and multipliers may be from the barrier


class Iteration(NamedTuple):
    """One iteration, as reports show it.

    Attributes:
        cost: Of the guess before it.
        misses: Of motion, conditions and limits, the largest, without units.
        slope: Of the Lagrangian, the largest.
        barrier: Of limits.
        damping: Added to second derivatives.
        share: Of the step that was taken.
    """

    cost: float
    misses: float
    slope: float
    barrier: float
    damping: float
    share: float


@dataclasses.dataclass
class Found:
    """Where a search ended.

    Attributes:
        problem: With the scale of its costs.
        point, slacks, multipliers: The last guess.
        expansion: There.
        gains: Of the last step, see `riccati.Solved`.
        residual: How far it is from the conditions of optimality.
        misses: Of motion, conditions and limits.
        cost: Its cost.
        iterations: Of the search.
        result: The outcome.
        seconds: Of processor time in programs and of compiling them, "run" and "compile".
    """

    problem: Problem
    point: Point
    slacks: Gaps
    multipliers: Multipliers
    expansion: Expansion
    residual: float
    misses: float
    cost: float
    iterations: list[Iteration]
    result: RESULTS
    seconds: dict[str, float]


class _Trial(eqx.Module):
    """A guess that is tried."""

    point: Point
    slacks: Gaps
    values: Values
    misses: Scalar
    cost: Scalar
    logarithms: Scalar
    good: Bool[Array, ""]


class Programs:
    """The compiled programs of a search, with the processor time that they take."""

    def __init__(self) -> None:
        self.seconds = {"compile": 0.0, "run": 0.0}

    def __call__(self, name: str, *args: Any) -> Any:
        begin = time.process_time()
        kinds = [
            (x.shape, x.dtype, getattr(x, "weak_type", False)) if eqx.is_array(x) else x
            for x in jax.tree.leaves(args)
        ]
        like = name, jax.tree.structure(args), tuple(kinds)
        found = jax.block_until_ready(_PROGRAMS[name](*args))
        self.seconds["run" if like in _SEEN else "compile"] += time.process_time() - begin
        _SEEN.add(like)
        return found


def _tried(problem: Problem, expansion: Expansion, at: tuple, step: Step, share: Scalar) -> _Trial:
    point, slacks = at
    new, closed = moved(problem, point, expansion.charts, share * step.x, share * step.u)
    values = values_at(problem, new)
    slacks = each(lambda s, d: s + share * d, slacks, step.slacks)
    apart = misses_of(values, slacks)
    misses, cost = jnp.sqrt(apart @ apart), cost_of(values)
    good = closed & jnp.isfinite(misses) & jnp.isfinite(cost)
    return _Trial(new, slacks, values, misses, cost, barrier_of(slacks), good)


_FUNCTIONS = {"expand": expanded, "errors": errors, "step": step_of, "try": _tried}
_PROGRAMS = {name: eqx.filter_jit(function) for name, function in _FUNCTIONS.items()}
_SEEN: set[Any] = set()


class Search:
    """A search; `run` goes on until the conditions of optimality hold to a tolerance."""

    def __init__(
        self,
        problem: Problem,
        *,
        exact: bool,
        tolerance: float,
        limit: int,
    ):
        self.problem, self.programs, self.exact = problem, Programs(), exact
        self.tolerance, self.limit = tolerance, limit
        self.filter: list[tuple[float, float]] = []
        self.damping = 0.0
        self.barrier = 0.0

    def begin(self, point: Point, multipliers: Multipliers | None, barrier: float | None) -> None:
        """Take a first guess; multipliers are those of a search before, where there was one."""
        self.point, self.given = point, multipliers
        self.multipliers = multipliers or no_multipliers(self.problem, point)
        self.first = barrier

    def _scaled(self, expansion: Expansion) -> Expansion:
        """The first expansion with costs that matter as much as limits and the motion do."""
        if self.given is not None:
            return expansion
        inside, end = slopes_of_cost(expansion)
        parts = inside, end, expansion.hessian, expansion.hessian_end
        largest = max(float(jnp.max(jnp.abs(x))) for x in parts)
        scale = self._number(1.0 / min(max(largest, 1e-8), 1e8) if largest else 1.0)
        whole = scale * self.problem.scale
        self.problem = eqx.tree_at(lambda p: p.scale, self.problem, whole)
        v, s, root = expansion.values, expansion.slopes, jnp.sqrt(scale)

        def costs(x: Values) -> Values:
            return dataclasses.replace(
                x,
                cost=scale * x.cost,
                cost_end=scale * x.cost_end,
                residuals=root * x.residuals,
                residuals_end=root * x.residuals_end,
            )

        # Multipliers are zero as yet: all second derivatives are those of costs.
        return dataclasses.replace(
            expansion,
            values=costs(v),
            slopes=costs(s),
            hessian=scale * expansion.hessian,
            hessian_end=scale * expansion.hessian_end,
        )

    def _number(self, x: float) -> Scalar:
        # With a type of its own: programs are compiled anew for one that follows others.
        return jnp.asarray(x, self.problem.system.dtype)

    def _limits(self, expansion: Expansion) -> None:
        """First slacks, and multipliers where there are none yet."""
        gaps = expansion.values.gaps
        self.limited = any(x.size for x in (gaps.first, gaps.each, gaps.last))
        first = _FIRST_BARRIER if self.first is None else self.first
        self.barrier = first if self.limited else 0.0
        least = _FIRST_SLACK if self.first is None else min(_FIRST_SLACK, math.sqrt(first))
        self.slacks = each(lambda g: jnp.maximum(g, least), gaps)
        fresh = each(lambda s: self.barrier / s, self.slacks)
        if self.given is not None:
            fresh = each(lambda z, f: jnp.maximum(z, 0.1 * f), self.given.gaps, fresh)
        self.multipliers = dataclasses.replace(self.multipliers, gaps=fresh)

    def run(self, bar: tqdm | None = None) -> Found:
        """Iterate; what was found is returned where the search is interrupted too."""
        history: list[Iteration] = []
        result = RESULTS.optimum_not_found
        residual = misses = cost = math.inf
        expansion = None
        try:
            while True:
                expansion = self.programs(
                    "expand", self.problem, self.point, self.multipliers, self.exact
                )
                if not history:
                    expansion = self._scaled(expansion)
                    self._limits(expansion)
                own = self.programs(
                    "errors", self.problem, expansion, self.slacks, self.multipliers
                )
                residual, misses = self._largest(own, 0.0), float(own.misses)
                cost = float(own.cost)
                if residual <= self.tolerance:
                    result = RESULTS.successful
                    break
                if len(history) >= self.limit or not math.isfinite(residual):
                    break
                self._lower(own)
                share = self._advance(expansion, own)
                numbers = float(own.slope), self.barrier, self.damping, share
                history.append(Iteration(cost / float(self.problem.scale), misses, *numbers))
                if bar is not None:
                    bar.update(1)
                    bar.set_postfix(cost=f"{history[-1].cost:.4g}", residual=f"{residual:.1e}")
                if share == 0.0:
                    break
        except KeyboardInterrupt:
            if expansion is None:
                raise
            result = RESULTS.interrupted
        assert expansion is not None
        return Found(
            self.problem,
            *(self.point, self.slacks, self.multipliers, expansion, residual, misses, cost),
            history,
            result,
            dict(self.programs.seconds),
        )

    def _largest(self, own: Errors, barrier: float) -> float:
        """The largest error at a barrier."""
        z, s = self.multipliers.gaps, self.slacks
        products = [
            np.max(np.abs(np.asarray(a) * np.asarray(b) - barrier), initial=0.0)
            for a, b in ((z.first, s.first), (z.each, s.each), (z.last, s.last))
        ]
        return max(float(own.slope), float(own.misses), float(max(products)) / float(own.scale))

    def _lower(self, own: Errors) -> None:
        """Lower the barrier as often as its problem is solved well enough."""
        least = 0.1 * self.tolerance
        while self.barrier > least and self._largest(own, self.barrier) <= (
            _SUFFICIENT * self.barrier
        ):
            self.barrier = max(least, min(0.2 * self.barrier, self.barrier**1.5))
            self.filter = []

    def _advance(self, expansion: Expansion, own: Errors) -> float:
        """Take a step; the share of it that was taken, or zero."""
        damping = 0.0
        for _ in range(60):
            step = self._step(expansion, damping)
            if not np.isfinite(float(step.along)):
                damping = self._more(damping)
                if damping > _MOST_DAMPING:
                    return 0.0
                continue
            share = self._line_search(expansion, own, step)
            if share > 0.0:
                self.damping = damping
                return share
            damping = max(1e-2, 10.0 * damping)
            if damping > _MOST_DAMPING:
                return 0.0
        return 0.0

    def _more(self, damping: float) -> float:
        if damping == 0.0:
            return max(_LEAST_DAMPING, self.damping / 3.0) if self.damping else _FIRST_DAMPING
        return damping * (8.0 if self.damping else 100.0)

    def _step(self, expansion: Expansion, damping: float, misses: Values | None = None) -> Step:
        numbers = self._number(self.barrier), self._number(damping)
        gone = expansion.values if misses is None else misses
        args = self.problem, expansion, self.slacks, self.multipliers, *numbers, gone
        return self.programs("step", *args)

    def _line_search(self, expansion: Expansion, own: Errors, step: Step) -> float:
        gone = float(own.gone)
        cost = float(own.cost) - self.barrier * float(own.logarithms)
        along, share, first = float(step.along), float(step.share), True
        if not self.filter:
            self.filter = [(1e4 * max(1.0, gone), -math.inf)]
        small = 1e-4 * max(1.0, self.filter[0][0] / 1e4)
        while share > _SMALLEST_SHARE:
            trial = self._try(expansion, step, share)
            verdict = self._judged(trial, (gone, cost), along, share, small)
            if verdict is None and first and bool(trial.good) and float(trial.misses) >= gone:
                corrected = self._corrected(expansion, step, trial, share)
                if corrected is not None:
                    other, with_it, by = corrected
                    verdict = self._judged(other, (gone, cost), along, by, small)
                    if verdict is not None:
                        trial, step, share = other, with_it, by
            if verdict is not None:
                if verdict == "filter":
                    self.filter.append((gone * (1.0 - 1e-5), cost - 1e-5 * gone))
                self._take(trial, step, share)
                return share
            share, first = 0.5 * share, False
        return 0.0

    def _try(self, expansion: Expansion, step: Step, share: float) -> _Trial:
        at = self.point, self.slacks
        return self.programs("try", self.problem, expansion, at, step, self._number(share))

    def _corrected(
        self, expansion: Expansion, step: Step, trial: _Trial, share: float
    ) -> tuple[_Trial, Step, float] | None:
        """A step that takes into account by how much the first one missed."""
        v, t = expansion.values, trial.values
        beyond = each(lambda g, s: g - s, t.gaps, trial.slacks)
        gaps = each(lambda g, s, b: s + share * (g - s) + b, v.gaps, self.slacks, beyond)
        misses = dataclasses.replace(
            v, ends=share * v.ends + t.ends, misses=share * v.misses + t.misses, gaps=gaps
        )
        again = self._step(expansion, self.damping, misses)
        if not np.isfinite(float(again.along)):
            return None
        by = float(again.share)
        return self._try(expansion, again, by), again, by

    def _judged(
        self,
        trial: _Trial,
        now: tuple[float, float],
        along: float,
        share: float,
        small: float,
    ) -> str | None:
        """Whether a trial is taken, and why."""
        if not bool(trial.good):
            return None
        gone, cost = now
        missing = float(trial.misses)
        new = float(trial.cost) - self.barrier * float(trial.logarithms)
        rounding = 10.0 * np.finfo(float).eps * max(1.0, abs(cost))
        if any(missing >= m and new >= c for m, c in self.filter):
            return None
        if gone <= small and along < 0.0 and share * (-along) ** 2.3 > gone**1.1:
            return "cost" if new <= cost + 1e-4 * share * along + rounding else None
        better = missing <= (1.0 - 1e-5) * gone or new <= cost - 1e-5 * gone + rounding
        return "filter" if better else None

    def _take(self, trial: _Trial, step: Step, share: float) -> None:
        self.point, self.slacks = trial.point, trial.slacks
        new = mixed(self.multipliers, step.multipliers, self._number(share), step.share_z)
        kept = each(
            lambda z, s: jnp.clip(z, self.barrier / (_APART * s), _APART * self.barrier / s),
            new.gaps,
            self.slacks,
        )
        self.multipliers = dataclasses.replace(new, gaps=kept)


def no_multipliers(problem: Problem, point: Point) -> Multipliers:
    """Multipliers of a first guess: zero."""
    n, dtype = 6 * problem.system.nb, problem.system.dtype
    others = problem.system.state_count + (problem.horizon is not None)
    others += problem.inputs.count if problem.carried else 0
    shapes = eqx.filter_eval_shape(values_at, problem, point)
    zero = jnp.zeros((problem.knots, n), dtype)
    gaps = jax.tree.map(lambda x: jnp.zeros(x.shape, dtype), shapes.gaps)
    none = jnp.zeros((problem.knots, others), dtype)
    return Multipliers(zero, zero, none, jnp.zeros(shapes.misses.shape, dtype), gaps)
