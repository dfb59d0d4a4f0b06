"""Newton's method in two stages: a frozen quasi-Newton matrix first, the exact matrix where that is
not enough.

Where the exact matrix contracts poorly as well, it is nearly singular; a careful solver then takes
over, if given.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..rotations.types import Scalar
from ..xla.lazy_cond import where_needed
from .kept_factors import KeptFactors, iterate_with

Vector = Float[Array, " n"]


@runtime_checkable
class Factors(Protocol):
    """Of a Jacobian J."""

    def solve(self, b: Vector, /) -> Vector:
        """X with J x = b."""
        ...


class NewtonInfo(eqx.Module):
    """Outcome of one solve.

    Attributes:
        iterations: Used in both stages.
        converged: Whether the last iterate is a root.
        correction: The last correction's norm.
        careful: Whether the exact matrix contracted poorly, so that the careful solver took over.
        undetermined: Whether the root leaves undetermined a part of what it holds; False unless the
            caller of `newton` finds that out.
        singular: Whether that ends a run; found out by the caller too.
        contraction: Of the last two corrections by the frozen matrix, NaN where there was one, and
            1 where the exact matrix was needed.
        factors: Of the frozen stage, where some were kept for it.
        renewed: Whether those are new.
        found: What `doubtful` found out about the last iterate of the frozen stage.
        left: Whether the root is another one than that iterate, where that is asked.
    """

    iterations: Int[Array, ""]
    converged: Bool[Array, ""]
    correction: Scalar
    careful: Bool[Array, ""]
    undetermined: Bool[Array, ""]
    singular: Bool[Array, ""]
    contraction: Scalar = eqx.field(default_factory=lambda: jnp.ones(()))
    factors: Any = None
    renewed: Bool[Array, ""] | None = None
    found: Any = None
    left: Bool[Array, ""] | None = None

    @staticmethod
    def without_unknowns(dtype: Any) -> "NewtonInfo":
        """Of equations that have nothing to find."""
        zero, no = jnp.zeros((), dtype), jnp.zeros((), bool)
        return NewtonInfo(jnp.zeros((), int), ~no, zero, no, no, no, zero)


class NewtonOptions(eqx.Module):
    """Settings of the iteration.

    Attributes:
        tolerance: On the norm of the correction (the error that remains is smaller by the rate of
            contraction).
        max_steps: Limit of the frozen stage; 0 leaves it out.
        max_exact_steps: Limit of the exact stage; 0 switches it off.
        estimate_error: Stop on the estimated remaining error θ/(1-θ) |δ| with θ the observed
            contraction; otherwise, as the paper does, on the correction |δ| itself.
        contraction: The frozen stage ends where a correction is not smaller than the last one by
            this factor; infinity goes on as long as corrections are finite.
        halvings: How often the exact stage may halve a correction that does not make the residual
            smaller.
    """

    tolerance: float | Scalar
    max_steps: int = eqx.field(static=True, default=8)
    max_exact_steps: int = eqx.field(static=True, default=20)
    estimate_error: bool = eqx.field(static=True, default=True)
    contraction: float = eqx.field(static=True, default=0.5)
    halvings: int = eqx.field(static=True, default=0)


# Kept factors are given up where they contract worse than this.
_POOR = 0.1
# Shares of the tolerance below which the estimated error must be: after the first correction by
# kept factors, whose contraction is not observed, and after the second by any frozen matrix. A
# first correction is large along what the matrix sees best, so that the second is smaller beside it
# than the rate of those that follow (a fifth of it in a linkage of six bodies).
_UNSEEN, _SEEN_ONCE = 0.05, 0.2


class _Loop(eqx.Module):
    x: Vector
    k: Int[Array, ""]
    norm: Scalar
    previous: Scalar
    done: Bool[Array, ""]
    careful: Bool[Array, ""]


def newton(
    residual: Callable[[Vector], Vector],
    quasi_factors: Callable[[Vector], Factors] | None,
    exact_factors: Callable[[Vector], Factors],
    norm: Callable[..., Scalar],
    x0: Vector,
    options: NewtonOptions,
    active: Bool[Array, ""] | bool = True,
    careful: Callable[[Any, Vector], tuple[Vector, Scalar, Bool[Array, ""]]] | None = None,
    doubtful: Callable[[Vector, Any, Any], tuple[Bool[Array, ""], Any]] | None = None,
    assumed: float | Scalar = 0.5,
    anew: Vector | None = None,
    kept: KeptFactors | None = None,
    pull: Callable[[Vector, Any], Vector] | None = None,
    excessive: Callable[[Vector], Bool[Array, ""]] | None = None,
    cleaned: Callable[[Vector, Any], Vector] | None = None,
) -> tuple[Vector, NewtonInfo]:
    """Solve residual(x) = 0.

    Args:
        residual: The function whose root is sought.
        quasi_factors: Factors of an approximate Jacobian, made at most once, at x0; None where
            `max_steps` is 0.
        exact_factors: Factors of the exact Jacobian, made at every step of the second stage.
        norm: Measures a correction by some factors; compared with the tolerance.
        x0: Starting point.
        options: Tolerance and limits.
        active: False makes no iteration at all (a run that has failed already).
        careful: From `exact_factors` and a residual the correction for a matrix that is nearly
            singular, its norm, and whether the iterate is a root however long the correction. It
            takes over, from `anew`, once the exact stage contracts poorly.
        doubtful: Whether an iterate of the frozen stage, a root or not, is one for the careful
            solver from `anew` on, and what else it found out; where there is no exact stage, it is
            no root. From the iterate, the factors, and whether they were made in this solve.
        assumed: The contraction of the frozen matrix before it was observed.
        anew: A safer starting point, for the exact stage where the frozen one diverged; x0 by
            default.
        kept: Factors of an earlier solve for the frozen stage. Where they do not lead to a root,
            new ones take their place; `factors` of the information are those to go on with.
        pull: By kept factors: what is added to the last components of the residual of a start, for
            unknowns that the equations leave undetermined; `norm` gets it as a third argument.
        excessive: Whether an iterate by kept factors is no root, because they have made too much of
            such unknowns.
        cleaned: Takes them away from a start, by new factors.

    Returns:
        The last iterate and what happened. Nothing raises; `converged` tells.
    """
    infinity = jnp.asarray(jnp.inf, x0.dtype)
    active, no = jnp.asarray(active), jnp.zeros((), bool)
    again = x0 if anew is None else anew

    def converged(step_norm, previous, assumed: float | Scalar = 0.5, share: float | Scalar = 1.0):
        if not options.estimate_error:
            return step_norm <= options.tolerance
        seen = jnp.isfinite(previous)
        theta = jnp.where(seen, step_norm / previous, assumed)
        remaining = jnp.where(theta < 1.0, theta / (1.0 - theta), jnp.inf) * step_norm
        remaining = remaining / share
        # A correction far below the tolerance ends the iteration even where rounding hides the
        # contraction.
        return (remaining <= options.tolerance) | (step_norm <= 0.1 * options.tolerance)

    def correct(
        loop: _Loop, factors: Factors, share: float | Scalar = 1.0, pulled: Vector | None = None
    ) -> _Loop:
        value = residual(loop.x)
        if pulled is None:
            delta = factors.solve(-value)
            step_norm = norm(delta, factors)
        else:
            n = value.size - pulled.size
            delta = factors.solve(jnp.concatenate([-value[:n], -value[n:] - pulled]))
            step_norm = norm(delta, factors, pulled)
        share = jnp.where(jnp.isfinite(loop.norm), _SEEN_ONCE, share)
        share = jnp.where(jnp.isfinite(loop.previous), 1.0, share)
        done = converged(step_norm, loop.norm, assumed, share)
        return _Loop(loop.x + delta, loop.k + 1, step_norm, loop.norm, done, loop.careful)

    def correct_exactly(loop: _Loop) -> _Loop:
        value, factors = residual(loop.x), exact_factors(loop.x)
        delta = factors.solve(-value)
        step_norm, root, takes_over, anew = norm(delta, factors), no, loop.careful, no
        if careful is not None:
            solve = careful
            poor = ~(step_norm < options.contraction * loop.norm) & ~converged(step_norm, loop.norm)
            anew, takes_over = poor & ~takes_over, takes_over | poor
            delta, step_norm, root = where_needed(
                loop.careful & active, lambda: solve(factors, value), (delta, step_norm, root)
            )
        done = converged(step_norm, loop.norm) | root
        if options.halvings:
            delta = _shortened(residual, loop.x, value, delta, jnp.where(done, 0, options.halvings))
        new = _Loop(loop.x + delta, loop.k + 1, step_norm, loop.norm, done, takes_over)
        if careful is not None:
            # Poor corrections may have led far along the direction that the matrix hardly sees.
            start = _Loop(again, loop.k + 1, infinity, infinity, no, takes_over)
            new = jax.tree.map(lambda a, b: jnp.where(anew, a, b), start, new)
        return new

    def frozen_continues(loop: _Loop, first: Any = 0, enough: float | Scalar = options.contraction):
        # Leave early where the frozen matrix hardly contracts; NaN compares false and leaves too.
        k = loop.k - first
        contracting = (k < 2) | (loop.norm < enough * loop.previous)
        return active & ~loop.done & (k < options.max_steps) & contracting

    def by_kept(factors: Factors, old, loop: _Loop) -> _Loop:
        # A second start, by new factors, goes on from where the old ones led, if that is nearer.
        done = loop.done
        begin = _Loop(
            jnp.where(done | (loop.norm < loop.previous), loop.x, x0),
            loop.k,
            jnp.where(done, loop.norm, infinity),
            jnp.where(done, loop.previous, infinity),
            done,
            no,
        )
        if (clean := cleaned) is not None:
            fresh = where_needed(~old, lambda: clean(begin.x, factors), begin.x)
            begin = eqx.tree_at(lambda s: s.x, begin, fresh)
        enough = jnp.where(old, _POOR, options.contraction)
        share = jnp.where(old, _UNSEEN, 1.0)
        at_start = None if pull is None else pull(begin.x, factors)

        def correct_by_kept(s: _Loop) -> _Loop:
            pulled = None if at_start is None else jnp.where(s.k == begin.k, at_start, 0.0)
            return correct(s, factors, share, pulled)

        end = jax.lax.while_loop(
            lambda s: frozen_continues(s, begin.k, enough), correct_by_kept, begin
        )
        if excessive is None:
            return end
        return eqx.tree_at(lambda s: s.done, end, end.done & ~(old & excessive(end.x)))

    loop = _Loop(x0, jnp.zeros((), int), infinity, infinity, no, no)
    frozen, renewed = None, None
    if options.max_steps:
        assert quasi_factors is not None
        make = quasi_factors
        if kept is None:
            frozen = make(x0)
            loop = jax.lax.while_loop(frozen_continues, lambda s: correct(s, frozen), loop)
        else:
            loop, frozen, renewed = iterate_with(
                kept, lambda: make(x0), by_kept, loop, lambda s: active & ~s.done
            )

    seen = jnp.isfinite(loop.previous)
    contraction = jnp.where(seen, loop.norm / loop.previous, jnp.nan)
    contraction = jnp.where(loop.done, contraction, 1.0)
    doubt, found, left = no, None, None
    if doubtful is not None:
        doubt, found = doubtful(loop.x, frozen, renewed)

    if options.max_exact_steps:
        limit = loop.k + options.max_exact_steps

        def exact_continues(loop: _Loop):
            started = (loop.k == first) | loop.careful
            return active & ~loop.done & (loop.k < limit) & (started | jnp.isfinite(loop.norm))

        # Where the frozen matrix contracted, however slowly, go on from there; where it diverged,
        # start anew.
        restart = jnp.where(loop.norm < loop.previous, loop.x, again)
        first = loop.k
        begin = jnp.where(doubt, again, jnp.where(loop.done, loop.x, restart))
        second = _Loop(begin, loop.k, infinity, infinity, loop.done & ~doubt, doubt)
        left = ~second.done
        loop = jax.lax.while_loop(exact_continues, correct_exactly, second)
    else:
        loop = eqx.tree_at(lambda s: s.done, loop, loop.done & ~doubt)
    ended = loop.done & jnp.all(jnp.isfinite(loop.x))
    info = NewtonInfo(loop.k, ended, loop.norm, loop.careful, no, no, contraction)
    if renewed is not None:
        info = dataclasses.replace(info, factors=frozen, renewed=renewed)
    if found is not None:
        info = dataclasses.replace(info, found=found, left=left)
    return loop.x, info


def _shortened(residual, x: Vector, value: Vector, delta: Vector, halvings) -> Vector:
    """The correction, halved until the residual falls; as it is where that does not help."""
    size = jnp.linalg.norm(value)

    def too_long(trial):
        scale, k = trial
        return (k < halvings) & ~(jnp.linalg.norm(residual(x + scale * delta)) < size)

    scale, k = jax.lax.while_loop(
        too_long,
        lambda trial: (0.5 * trial[0], trial[1] + 1),
        (jnp.ones((), x.dtype), jnp.zeros((), int)),
    )
    return jnp.where(k < halvings, scale, 1.0) * delta
