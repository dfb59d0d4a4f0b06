"""Predictor of a time step: extrapolated initial guess, reusable factorization, and estimated
contraction rate of the iteration.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..rotations.types import Scalar
from ..xla.batch_last import anyone
from . import KeptFactors

# Steps after which factors are made anew, and after which the contraction is observed again, by a
# second correction.
_KEPT, _OBSERVED = 16, 16
# Steps before the last that a cubic extrapolation takes.
_CUBIC = 3
# By how much what rows leave undetermined is assumed to turn in a step, before that was seen.
_TURN = 1e-3
# An observed contraction may grow until then, and none counts as better than _LEAST: the remaining
# error is that factor times a correction which itself must then be small. Of factors that every
# step makes anew it may grow by _FRESH and by _GROWTH more with each step, to ten times in the end;
# of those that are kept by _MARGIN, beside what they have aged.
_FRESH, _GROWTH, _MARGIN, _LEAST = 2.0, 0.5, 10.0, 1e-3
# By what factor multipliers may grow before kept factors are given up, and which share of them new
# factors may find to be undetermined before the extrapolation begins anew.
_GROWN, _IDLE = 2.0, 0.01
# What Newton's method assumes of a matrix that it knows nothing about.
UNKNOWN = 0.5


class SolvedStep(NamedTuple):
    """Unknowns and iteration of one solved step.

    Attributes:
        last: Unknowns of the step before it.
        guess: Where its iteration began.
        x: Its unknowns.
        converged: Whether they are a root.
        contraction: Ratio of the last two corrections; NaN where there was one correction only.
        observe: Whether the contraction was to be observed.
    """

    last: Float[Array, " n"]
    guess: Float[Array, " n"]
    x: Float[Array, " n"]
    converged: Bool[Array, ""]
    contraction: Scalar
    observe: Bool[Array, ""] | bool


class Multipliers(NamedTuple):
    """Sizes of multipliers, each times the size of its row [N·m].

    Attributes:
        largest: The largest multiplier of the step.
        idle: The largest part of a multiplier that new factors found to be undetermined.
        blind: What kept factors leave undetermined of a fixed probe; None where that is not asked.
    """

    largest: Scalar | float
    idle: Scalar | float = 0.0
    blind: Float[Array, " m"] | None = None


class Past(eqx.Module):
    """Predictor: unknowns of earlier steps, a reusable factorization, and the contraction rate of
    the iteration.

    Attributes:
        x: Unknowns of the last steps but one, but two and so on, (k, n).
        known: How many of them continue smoothly to the last step.
        scale: ∂q/∂a of the step that they belong to.
        contraction: The last observed.
        seen: The age of the factors whose contraction that was; where every step makes its own, the
            steps since.
        age: Steps since the factors were made.
        limit: The age at which they are made anew.
        kept: The factors, or None where every step makes its own.
        blind: What those factors leave undetermined of multipliers that are the same at all times,
            each times the size of its row.
        turn: By how much that changed in a step, relative to them.
        most: The largest multiplier, times the size of its row, when the factors were made, where
            some may be undetermined [N·m].
        ringing: The root by which errors of the method alternate and decay, 0 where none do.
    """

    x: Float[Array, "k n"]
    known: Int[Array, ""]
    scale: Scalar
    contraction: Scalar
    seen: Int[Array, ""]
    age: Int[Array, ""]
    limit: Int[Array, ""]
    kept: KeptFactors | None
    blind: Float[Array, " m"] | None
    turn: Scalar
    most: Scalar
    ringing: float = eqx.field(static=True)

    @staticmethod
    def none(
        a: Float[Array, "nb d"],
        lam: Float[Array, " m"],
        kept: KeptFactors | None,
        *,
        redundant: bool,
        ringing: float,
    ) -> "Past":
        """Before the first step."""
        zero, one = jnp.zeros((), int), jnp.ones((), a.dtype)
        x = jnp.zeros((_CUBIC + 2 * bool(ringing), a.size + lam.size), a.dtype)
        blind = jnp.zeros_like(lam) if kept is not None and redundant else None
        limit = jnp.asarray(1 if redundant else _KEPT, zero.dtype)
        turn, most = _TURN * one, jnp.inf * one
        return Past(x, zero, one, one, zero, zero, limit, kept, blind, turn, most, ringing)

    def guess(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The unknowns of the next step, extrapolated from those of the last, x, and before."""
        steps = jnp.concatenate([x[None], self.x])
        # One set of coefficients for each number of steps that are known.
        weights = jnp.asarray(self._coefficients, x.dtype)[self.known]
        return jnp.sum(weights[:, None] * steps, axis=0)

    def line(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The linear extrapolation of the unknowns."""
        return x + jnp.where(self.known > 0, x - self.x[0], 0.0)

    @property
    def _coefficients(self) -> np.ndarray:
        """Coefficients of the known steps, last first: each row is exact for one more power of
        time, the last one for what rings as well.
        """
        most = len(self.x)
        table = np.zeros((most + 1, most + 1))
        for known in range(most + 1):
            roots = [1.0] * (min(known, _CUBIC) + 1)
            if known == most:
                roots += [-self.ringing] * (most - _CUBIC)
            table[known, : len(roots)] = -np.poly(roots)[1:]
        return table

    def valid(self, scale: Scalar, moved: Bool[Array, ""] | bool) -> "Past":
        """The predictor, reset if the step size or the chart of the coordinates has changed."""
        same = (scale == self.scale) & ~jnp.asarray(moved)
        return dataclasses.replace(
            self,
            known=jnp.where(same, self.known, 0),
            scale=scale,
            contraction=jnp.where(same, self.contraction, 1.0),
            seen=jnp.where(same, self.seen, 0),
            age=self.age if self.kept is None else jnp.where(same, self.age, _KEPT),
        )

    def trusted(
        self, undetermined: Bool[Array, ""] | bool = False
    ) -> tuple[Scalar, Bool[Array, ""], KeptFactors | None]:
        """The contraction to assume in the next step, whether that is to observe it, and the
        factors, with whether to renew them.

        Steps that leave multipliers `undetermined` are told by new factors alone.
        """
        if self.kept is None:
            observe = anyone(self.age >= _OBSERVED)
            margin = _FRESH + _GROWTH * self.seen.astype(self.contraction.dtype)
            assumed = jnp.clip(margin * self.contraction, _LEAST, UNKNOWN)
            return jnp.where(observe, UNKNOWN, assumed), observe, None
        age = self.age + 1
        renew = anyone((age >= self.limit) | undetermined)
        # That of factors just made says nothing about older ones. Older ones contract worse by as
        # much as the mechanism has moved since.
        old = jnp.where(renew, 0, age)
        observe = anyone(((old > 0) & (self.seen == 0)) | (age + 1 >= self.limit)) & ~renew
        grown = jnp.maximum(old, self.seen) / jnp.maximum(self.seen, 1)
        grown = jnp.maximum(1.0, grown.astype(self.contraction.dtype))
        assumed = jnp.clip(_MARGIN * grown * self.contraction, _LEAST, UNKNOWN)
        kept = KeptFactors(self.kept.leaves, renew)
        return jnp.where(observe, UNKNOWN, assumed), observe, kept

    def turned(self, kept: KeptFactors | None) -> Scalar | float:
        """Relative change of the undetermined multipliers since the factors were made."""
        if kept is None:
            return 0.0
        return jnp.where(kept.renewed, 0.0, self.turn * (self.age + 1).astype(self.turn.dtype))

    def excessive(self, most: Scalar) -> Bool[Array, ""]:
        """Whether the largest multiplier `most` [N·m] has grown by more than forces do in a few
        steps. The undetermined part of multipliers may grow from step to step until the matrix is
        factored again.
        """
        return most > _GROWN * self.most

    def after(
        self,
        step: SolvedStep,
        size: Callable[[Float[Array, " n"]], Scalar],
        kept: KeptFactors | None,
        multipliers: Multipliers,
    ) -> "Past":
        """Predictor of the step that follows a solved one.

        Where the motion is not smooth, extrapolation is worse than none: it begins anew.

        Args:
            step: The solved step.
            size: The norm of a difference of unknowns.
            kept: The factors to go on with, or None where every step makes its own.
            multipliers: Their size, and what the factors leave undetermined of them.
        """
        x, guess, new, contraction = step.last, step.guess, step.x, step.contraction
        converged, observe, blind = step.converged, step.observe, multipliers.blind
        idle, largest = multipliers.idle, multipliers.largest
        smooth = size(new - guess) <= 0.5 * size(new - x)
        known = jnp.where(
            self.known == 0, 1, jnp.where(smooth, jnp.minimum(self.known + 1, len(self.x)), 0)
        )
        known = jnp.where(converged, known, 0)
        # Of what was undetermined and grew, only the last step has been told.
        grown = idle > _IDLE * self.most
        known = jnp.where(grown, jnp.minimum(known, 1), known)
        observed = jnp.isfinite(contraction)
        past = dataclasses.replace(
            self,
            x=jnp.concatenate([x[None], self.x[:-1]]),
            known=known,
            contraction=jnp.where(observed, contraction, self.contraction),
            kept=kept,
        )
        if kept is None:
            age, seen = (
                jnp.where(x, 0, n + 1) for x, n in ((observe, self.age), (observed, self.seen))
            )
            return dataclasses.replace(past, age=age, seen=seen)
        age = jnp.where(kept.renewed, 0, self.age + 1)
        age = jnp.where(converged, age, _KEPT)
        # Factors that did not lead to a root are kept for half as long from then on, later on
        # longer again.
        early = kept.renewed & (self.age + 1 < self.limit)
        limit = jnp.where(early, self.age // 2, 2 * self.limit)
        limit = jnp.where(kept.renewed, jnp.clip(limit, 1, _KEPT), self.limit)
        turn, most = self.turn, self.most
        if blind is not None:
            assert self.blind is not None
            most = jnp.where(kept.renewed, largest, most)
            steps = (self.age + 1).astype(self.turn.dtype)
            seen = jnp.max(jnp.abs(blind - self.blind)) / steps
            turn = jnp.where(kept.renewed & (self.known > 0), seen, turn)
        # Nothing is known of factors made anew where there was no other observation.
        later = observed & ((age > 0) | (self.seen == 0))
        return dataclasses.replace(
            past,
            contraction=jnp.where(later, contraction, self.contraction),
            seen=jnp.where(later, age, self.seen),
            age=age,
            limit=limit,
            blind=blind,
            turn=turn,
            most=most,
        )
