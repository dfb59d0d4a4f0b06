"""Newton's method in two stages: a frozen quasi-Newton matrix first, the exact matrix where that is
not enough.

Where the exact matrix contracts poorly as well, it is nearly singular; a careful solver then takes
over, if given.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..rotations.types import Scalar

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
    """

    iterations: Int[Array, ""]
    converged: Bool[Array, ""]
    correction: Scalar
    careful: Bool[Array, ""]
    undetermined: Bool[Array, ""]
    singular: Bool[Array, ""]
    contraction: Scalar = eqx.field(default_factory=lambda: jnp.ones(()))


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
    norm: Callable[[Vector], Scalar],
    x0: Vector,
    options: NewtonOptions,
    active: Bool[Array, ""] | bool = True,
    careful: Callable[[Any, Vector], tuple[Vector, Scalar, Bool[Array, ""]]] | None = None,
    doubtful: Callable[[Vector], Bool[Array, ""]] | None = None,
    assumed: float | Scalar = 0.5,
    anew: Vector | None = None,
) -> tuple[Vector, NewtonInfo]:
    """Solve residual(x) = 0.

    Args:
        residual: The function whose root is sought.
        quasi_factors: Factors of an approximate Jacobian, made once at x0; None where `max_steps`
            is 0.
        exact_factors: Factors of the exact Jacobian, made at every step of the second stage.
        norm: Measures a correction; compared with the tolerance.
        x0: Starting point.
        options: Tolerance and limits.
        active: False makes no iteration at all (a run that has failed already).
        careful: From `exact_factors` and a residual the correction for a matrix that is nearly
            singular, its norm, and whether the iterate is a root however long the correction. It
            takes over, from `anew`, once the exact stage contracts poorly.
        doubtful: Whether an iterate of the frozen stage, a root or not, is one for the careful
            solver from `anew` on; where there is no exact stage, it is no root.
        assumed: The contraction of the frozen matrix before it was observed.
        anew: A safer starting point, for the exact stage where the frozen one diverged; x0 by
            default.

    Returns:
        The last iterate and what happened. Nothing raises; `converged` tells.
    """
    infinity = jnp.asarray(jnp.inf, x0.dtype)
    active, no = jnp.asarray(active), jnp.zeros((), bool)
    again = x0 if anew is None else anew

    def converged(step_norm, previous, assumed: float | Scalar = 0.5):
        if not options.estimate_error:
            return step_norm <= options.tolerance
        theta = jnp.where(jnp.isfinite(previous), step_norm / previous, assumed)
        remaining = jnp.where(theta < 1.0, theta / (1.0 - theta), jnp.inf) * step_norm
        # A correction far below the tolerance ends the iteration even where rounding hides the
        # contraction.
        return (remaining <= options.tolerance) | (step_norm <= 0.1 * options.tolerance)

    def correct(loop: _Loop, factors: Factors) -> _Loop:
        delta = factors.solve(-residual(loop.x))
        step_norm = norm(delta)
        done = converged(step_norm, loop.norm, assumed)
        return _Loop(loop.x + delta, loop.k + 1, step_norm, loop.norm, done, loop.careful)

    def correct_exactly(loop: _Loop) -> _Loop:
        value, factors = residual(loop.x), exact_factors(loop.x)
        delta = factors.solve(-value)
        step_norm, root, takes_over, anew = norm(delta), no, loop.careful, no
        if careful is not None:
            solve = careful
            poor = ~(step_norm < options.contraction * loop.norm) & ~converged(step_norm, loop.norm)
            anew, takes_over = poor & ~takes_over, takes_over | poor
            first = step_norm, delta, root, loop.careful & active

            def carefully(state):
                delta, step_norm, root = solve(factors, value)
                return step_norm, delta, root, jnp.zeros((), bool)

            # A loop of at most one turn: under vmap it runs only while some member needs it.
            step_norm, delta, root, _ = jax.lax.while_loop(lambda state: state[3], carefully, first)
        done = converged(step_norm, loop.norm) | root
        if options.halvings:
            delta = _shortened(residual, loop.x, value, delta, jnp.where(done, 0, options.halvings))
        new = _Loop(loop.x + delta, loop.k + 1, step_norm, loop.norm, done, takes_over)
        if careful is not None:
            # Poor corrections may have led far along the direction that the matrix hardly sees.
            start = _Loop(again, loop.k + 1, infinity, infinity, no, takes_over)
            new = jax.tree.map(lambda a, b: jnp.where(anew, a, b), start, new)
        return new

    def frozen_continues(loop: _Loop):
        # Leave early where the frozen matrix hardly contracts; NaN compares false and leaves too.
        contracting = (loop.k < 2) | (loop.norm < options.contraction * loop.previous)
        return active & ~loop.done & (loop.k < options.max_steps) & contracting

    start = _Loop(x0, jnp.zeros((), int), infinity, infinity, no, no)
    if options.max_steps:
        assert quasi_factors is not None
        frozen = quasi_factors(x0)
        loop = jax.lax.while_loop(frozen_continues, lambda s: correct(s, frozen), start)
    else:
        loop = start

    contraction = jnp.where(loop.k > 1, loop.norm / loop.previous, jnp.nan)
    contraction = jnp.where(loop.done, contraction, 1.0)

    if options.max_exact_steps:
        limit = loop.k + options.max_exact_steps

        def exact_continues(loop: _Loop):
            started = (loop.k == first) | loop.careful
            return active & ~loop.done & (loop.k < limit) & (started | jnp.isfinite(loop.norm))

        # Where the frozen matrix contracted, however slowly, go on from there; where it diverged,
        # start anew.
        restart = jnp.where(loop.norm < loop.previous, loop.x, again)
        first, doubt = loop.k, no
        if careful is not None and doubtful is not None:
            doubt = doubtful(loop.x)
        begin = jnp.where(doubt, again, jnp.where(loop.done, loop.x, restart))
        second = _Loop(begin, loop.k, infinity, infinity, loop.done & ~doubt, doubt)
        loop = jax.lax.while_loop(exact_continues, correct_exactly, second)
    elif doubtful is not None:
        loop = eqx.tree_at(lambda s: s.done, loop, loop.done & ~doubtful(loop.x))
    ended = loop.done & jnp.all(jnp.isfinite(loop.x))
    return loop.x, NewtonInfo(loop.k, ended, loop.norm, loop.careful, no, no, contraction)


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
