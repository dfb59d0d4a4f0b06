"""Newton's method in two stages: a frozen quasi-Newton matrix first, the exact matrix where that is not enough."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..rotations.types import Scalar

Vector = Float[Array, " n"]


class NewtonInfo(eqx.Module):
    """Outcome of one solve: iterations used (both stages), whether it converged, the last correction's norm."""

    iterations: Int[Array, ""]
    converged: Bool[Array, ""]
    correction: Scalar


class NewtonOptions(eqx.Module):
    """Settings of the iteration.

    Attributes:
        tolerance: On the norm of the correction (the error that remains is smaller by the rate of contraction).
        max_steps: Limit of the frozen stage; 0 leaves it out.
        max_exact_steps: Limit of the exact stage; 0 switches it off.
        estimate_error: Stop on the estimated remaining error θ/(1-θ) |δ| with θ the observed contraction; otherwise, as
            the paper does, on the correction |δ| itself.
        contraction: The frozen stage ends where a correction is not smaller than the last one by this factor.
        halvings: How often the exact stage may halve a correction that does not make the residual smaller.
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


def newton(
    residual: Callable[[Vector], Vector],
    quasi_factors: Callable[[Vector], object],
    exact_factors: Callable[[Vector], object],
    norm: Callable[[Vector], Scalar],
    x0: Vector,
    options: NewtonOptions,
    active: Bool[Array, ""] | bool = True,
) -> tuple[Vector, NewtonInfo]:
    """Solve residual(x) = 0.

    Args:
        residual: The function whose root is sought.
        quasi_factors: Factors of an approximate Jacobian, made once at x0; an object with `solve`.
        exact_factors: Factors of the exact Jacobian, made at every step of the second stage.
        norm: Measures a correction; compared with the tolerance.
        x0: Starting point.
        options: Tolerance and limits.
        active: False makes no iteration at all (a run that has failed already).

    Returns:
        The last iterate and what happened. Nothing raises; `converged` tells.
    """
    infinity = jnp.asarray(jnp.inf, x0.dtype)
    active = jnp.asarray(active)

    def converged(step_norm, previous):
        if not options.estimate_error:
            return step_norm <= options.tolerance
        theta = jnp.where(jnp.isfinite(previous), step_norm / previous, 0.5)
        remaining = jnp.where(theta < 1.0, theta / (1.0 - theta), jnp.inf) * step_norm
        # A correction far below the tolerance ends the iteration even where rounding hides the contraction.
        return (remaining <= options.tolerance) | (step_norm <= 0.1 * options.tolerance)

    def correct(loop: _Loop, factors, halvings: int = 0) -> _Loop:
        value = residual(loop.x)
        delta = factors.solve(-value)
        step_norm = norm(delta)
        done = converged(step_norm, loop.norm)
        if halvings:
            delta = _shortened(residual, loop.x, value, delta, jnp.where(done, 0, halvings))
        return _Loop(loop.x + delta, loop.k + 1, step_norm, loop.norm, done)

    def frozen_continues(loop: _Loop):
        # Leave early where the frozen matrix hardly contracts; NaN compares false and leaves too.
        contracting = (loop.k < 2) | (loop.norm < options.contraction * loop.previous)
        if not options.max_exact_steps:
            contracting = jnp.isfinite(loop.norm) | (loop.k == 0)
        return active & ~loop.done & (loop.k < options.max_steps) & contracting

    start = _Loop(x0, jnp.zeros((), int), infinity, infinity, jnp.zeros((), bool))
    if options.max_steps:
        frozen = quasi_factors(x0)
        loop = jax.lax.while_loop(frozen_continues, lambda s: correct(s, frozen), start)
    else:
        loop = start

    if options.max_exact_steps:
        limit = loop.k + options.max_exact_steps

        def exact_continues(loop: _Loop):
            return active & ~loop.done & (loop.k < limit) & ((loop.k == first) | jnp.isfinite(loop.norm))

        # Where the frozen matrix contracted, however slowly, go on from there; where it diverged, start anew.
        restart = jnp.where(loop.norm < loop.previous, loop.x, x0)
        first = loop.k
        second = _Loop(jnp.where(loop.done, loop.x, restart), loop.k, infinity, infinity, loop.done)
        loop = jax.lax.while_loop(exact_continues, lambda s: correct(s, exact_factors(s.x), options.halvings), second)
    return loop.x, NewtonInfo(loop.k, loop.done & jnp.all(jnp.isfinite(loop.x)), loop.norm)


def _shortened(residual, x: Vector, value: Vector, delta: Vector, halvings) -> Vector:
    """The correction, halved until the residual falls; as it is where that does not help."""
    size = jnp.linalg.norm(value)

    def too_long(trial):
        scale, k = trial
        return (k < halvings) & ~(jnp.linalg.norm(residual(x + scale * delta)) < size)

    scale, k = jax.lax.while_loop(
        too_long, lambda trial: (0.5 * trial[0], trial[1] + 1), (jnp.ones((), x.dtype), jnp.zeros((), int))
    )
    return jnp.where(k < halvings, scale, 1.0) * delta
