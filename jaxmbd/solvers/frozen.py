"""Iteration by one matrix for all corrections: made at the start, or kept from earlier solves."""

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from ..rotations.types import Scalar
from ..xla.lazy_cond import where_needed
from .iteration import (
    AbstractEquations,
    Factors,
    Iterate,
    NewtonOptions,
    Start,
    Vector,
    corrected,
)
from .kept_factors import KeptFactors, iterate_with

# Kept factors are given up where they contract worse than this.
_POOR = 0.1
# Share of the tolerance below which the estimated error must be after the first correction by kept
# factors, whose contraction is not observed.
_UNSEEN = 0.05


@dataclasses.dataclass(frozen=True)
class FrozenStage:
    """A matrix that is made at the start serves all corrections."""

    equations: AbstractEquations
    options: NewtonOptions
    start: Start
    active: Bool[Array, ""]

    def init(self) -> Iterate:
        """Before the first correction."""
        infinity, no = jnp.asarray(jnp.inf, self.start.x.dtype), jnp.zeros((), bool)
        return Iterate(self.start.x, jnp.zeros((), int), infinity, infinity, no, no)

    def step(self, state: Iterate, factors: Factors) -> Iterate:
        """One correction."""
        return corrected(self.equations, self.options, self.start.assumed, state, factors)

    def goes_on(
        self, state: Iterate, first: Int[Array, ""] | int = 0, enough: float | Scalar | None = None
    ) -> Bool[Array, ""]:
        """Whether another correction is worth it: not where the matrix hardly contracts; NaN
        compares false and ends it too. `first` is the number of corrections before this stage.
        """
        enough = self.options.contraction if enough is None else enough
        k = state.k - first
        contracting = (k < 2) | (state.norm < enough * state.previous)
        return self.active & ~state.done & (k < self.options.max_steps) & contracting

    def run(self, state: Iterate) -> tuple[Iterate, PyTree, Bool[Array, ""] | None]:
        """The last state, the factors, and whether kept ones were renewed."""
        factors = self.equations.frozen_factors(self.start.x)
        state = jax.lax.while_loop(self.goes_on, lambda s: self.step(s, factors), state)
        return state, factors, None


class AbstractUndetermined(abc.ABC):
    """Treatment of unknowns that the equations leave undetermined, for kept factors."""

    @abc.abstractmethod
    def pull(self, x: Vector, factors: PyTree) -> Vector:
        """A term added to the last components of the residual at the starting point."""

    @abc.abstractmethod
    def excessive(self, x: Vector) -> Bool[Array, ""]:
        """Whether reused factors have inflated undetermined unknowns, so that the iterate is
        rejected.
        """

    @abc.abstractmethod
    def cleaned(self, x: Vector, factors: PyTree) -> Vector:
        """The starting point without its undetermined part, by new factors."""


@dataclasses.dataclass(frozen=True)
class ReusedStage(FrozenStage):
    """Factors of an earlier solve; where they do not lead to a root, new ones take their place."""

    kept: KeptFactors
    undetermined: AbstractUndetermined | None = None

    def run(self, state: Iterate) -> tuple[Iterate, PyTree, Bool[Array, ""]]:
        """The last state, the factors to go on with, and whether they are new."""
        return iterate_with(
            self.kept,
            lambda: self.equations.frozen_factors(self.start.x),
            self._by,
            state,
            lambda s: self.active & ~s.done,
        )

    def _by(self, factors: Factors, old: Bool[Array, ""], state: Iterate) -> Iterate:
        """The end of an iteration by some factors."""
        begin = self._begin(state)
        unknown = self.undetermined
        if unknown is not None:
            fresh = where_needed(~old, lambda: unknown.cleaned(begin.x, factors), begin.x)
            begin = eqx.tree_at(lambda s: s.x, begin, fresh)
        enough = jnp.where(old, _POOR, self.options.contraction)
        share = jnp.where(old, _UNSEEN, 1.0)
        at_start = None if unknown is None else unknown.pull(begin.x, factors)

        def correct(s: Iterate) -> Iterate:
            pulled = None if at_start is None else jnp.where(s.k == begin.k, at_start, 0.0)
            assumed = self.start.assumed
            return corrected(self.equations, self.options, assumed, s, factors, share, pulled)

        end = jax.lax.while_loop(lambda s: self.goes_on(s, begin.k, enough), correct, begin)
        if unknown is None:
            return end
        return eqx.tree_at(lambda s: s.done, end, end.done & ~(old & unknown.excessive(end.x)))

    def _begin(self, state: Iterate) -> Iterate:
        """The start: a second one, by new factors, goes on from where the old ones led, if that is
        nearer.
        """
        infinity, no = jnp.asarray(jnp.inf, state.x.dtype), jnp.zeros((), bool)
        done = state.done
        return Iterate(
            jnp.where(done | (state.norm < state.previous), state.x, self.start.x),
            state.k,
            jnp.where(done, state.norm, infinity),
            jnp.where(done, state.previous, infinity),
            done,
            no,
        )
