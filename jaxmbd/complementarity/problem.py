"""The iteration that solves all laws of one step together: impulses P with v = G P + b that
satisfy every law.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..linalg.dense import DenseFactors
from ..rotations.types import Scalar
from ..solvers.implicit_diff import AbstractRootProblem, implicit_root
from .groups import MANY
from .laws import Laws

# What keeps the matrix of a hyperstatic set regular in derivatives; it is never in the residual.
_PROXIMAL = 1e-10


class _Plan(NamedTuple):
    """One attempt of the iteration.

    Attributes:
        kappa: First κ.
        factor: Its factor.
        halvings: Of a step that does not shorten the residual.
        limit: Of iterations.
        proximal: ρ, which pulls impulses to a center: v + ρ (P - center) in place of v.
        holds: Whether the center stays until the iteration at one κ is done. Otherwise it is the
            iterate, and ρ does no more than keep the matrix regular.
    """

    kappa: float
    factor: float
    halvings: int
    limit: int
    proximal: float
    holds: bool = False


# Full steps fail less often than monotone ones; sets on which schedules fail hardly overlap.
# In hyperstatic sets, as in piles of boxes, many impulses satisfy the same velocities, and an
# iteration jumps among them from one branch of the laws to another. A center that stays
# (proximal point method) chooses the nearest. Faces that slide and turn on each other take a slow κ
# and up to 150 iterations.
_COLD = (
    _Plan(1.0, 0.1, 0, 25, _PROXIMAL),
    _Plan(1.0, 0.3, 0, 120, 1e-4, holds=True),
    _Plan(1.0, 0.3, 0, 120, _PROXIMAL),
    _Plan(0.1, 0.7, 0, 150, 1e-8),
    _Plan(10.0, 0.7, 0, 200, _PROXIMAL),
    _Plan(1.0, 0.3, 2, 40, _PROXIMAL),
    _Plan(10.0, 0.5, 3, 60, _PROXIMAL),
    _Plan(0.01, 0.5, 3, 60, _PROXIMAL),
    _Plan(100.0, 0.5, 1, 100, _PROXIMAL),
)
_WARM = _Plan(1e-6, 0.1, 0, 25, 1e-9)
# A warm start whose residual is beyond the largest velocity after so many iterations was none.
_TRIAL = 4
# Of `MANY` rows the second plan is done in some 20 iterations, where the first mostly fails.
# With a center that stays, ρ shrinks with κ down to the first of these numbers, and below the
# second κ is zero.
_LEAST_PULL, _LEAST_KAPPA = 1e-7, 1e-8
# The iteration for one center is done here.
_SETTLED = 1e-12
# Where a place of a hyperstatic set is between two branches of its law, iterations go round at this
# residual. An attempt that ends there has found the root.
_ENOUGH = 1e-8


class Outcome(eqx.Module):
    """How a solution was found.

    Attributes:
        iterations: Newton iterations of all attempts.
        converged: Whether the exact laws are satisfied to the tolerance, or to 1e-8 where rounding
            allows no more.
        residual: The largest of the exact laws, in units of the largest velocity.
        attempts: How many attempts it took.
    """

    iterations: Int[Array, ""]
    converged: Bool[Array, ""]
    residual: Scalar
    attempts: Int[Array, ""]


class _Iteration(eqx.Module):
    x: Float[Array, " w"]
    center: Float[Array, " w"]
    kappa: Scalar
    rho: Scalar
    exact: Scalar
    best: Float[Array, " w"]
    least: Scalar
    attempt: Int[Array, ""]
    within: Int[Array, ""]
    total: Int[Array, ""]


class LawProblem(AbstractRootProblem):
    """Semismooth Newton iteration on all laws at once, κ going to zero, with restarts.

    Attributes:
        tolerance: On the exact laws, relative to the largest velocity.
        gradient_smoothing: κ of the derivative.
    """

    tolerance: float = eqx.field(static=True, default=1e-11)
    gradient_smoothing: float = eqx.field(static=True, default=0.0)

    def residual(self, x: Float[Array, " w"], args: Laws) -> Float[Array, " w"]:
        return args.residual(x, jnp.asarray(self.gradient_smoothing, x.dtype))

    def factors(self, x: Float[Array, " w"], args: Laws) -> DenseFactors:
        return DenseFactors.of(
            args.jacobian(x, jnp.asarray(self.gradient_smoothing, x.dtype))
            + _PROXIMAL * np.eye(x.size, dtype=x.dtype)
        )

    def solve(self, guess: Float[Array, " w"], args: Laws) -> tuple[Array, Outcome]:
        dtype = guess.dtype
        plans = (_WARM, *_COLD)
        if args.width >= MANY:
            plans = (_WARM, _COLD[1], _COLD[0], *_COLD[2:])
        numbers = jnp.asarray([(p.kappa, p.factor, p.proximal) for p in plans], dtype)
        counts = jnp.asarray([(p.halvings, p.limit, p.holds) for p in plans], int)
        most = len(plans)
        zero = jnp.zeros((), dtype)

        def size(laws: Laws, x: Float[Array, " w"], kappa: Scalar) -> Scalar:
            return jnp.max(jnp.abs(laws.residual(x, kappa)), initial=0.0)

        def started(
            x: Float[Array, " w"],
            exact: Scalar,
            best: tuple[Float[Array, " w"], Scalar],
            attempt: Int[Array, ""],
            total: Int[Array, ""],
        ) -> _Iteration:
            kappa, _, rho = numbers[jnp.minimum(attempt, most - 1)]
            found, least = best
            none = jnp.zeros((), int)
            return _Iteration(x, x, kappa, rho, exact, found, least, attempt, none, total)

        def goes_on(state: _Iteration) -> Bool[Array, ""]:
            return (state.exact > self.tolerance) & (state.attempt < most)

        def once(state: _Iteration) -> _Iteration:
            factor = numbers[state.attempt, 1]
            halvings, limit, holds = counts[state.attempt]
            holds = holds > 0
            near = args.pulled(state.rho, jnp.where(holds, state.center, state.x))
            value = near.residual(state.x, state.kappa)
            before = jnp.max(jnp.abs(value), initial=0.0)
            delta = near.newton_step(state.x, state.kappa, value)
            # What steps without a center reach is judged without ρ.
            judged = args.pulled(jnp.where(holds, state.rho, 0.0), state.center)

            # Full steps where the plan allows no halvings, as the first ones do.
            def worse(trial: tuple[Int[Array, ""], Scalar, Scalar, Scalar]) -> Bool[Array, ""]:
                k, _, found, _ = trial
                return (k == 0) | ((k <= halvings) & (found >= before))

            def shorter(
                trial: tuple[Int[Array, ""], Scalar, Scalar, Scalar],
            ) -> tuple[Int[Array, ""], Scalar, Scalar, Scalar]:
                k, scale, *_ = trial
                scale = jnp.where(k == 0, scale, 0.5 * scale)
                x = state.x + scale * delta
                return k + 1, scale, size(judged, x, state.kappa), size(args, x, zero)

            whole = jnp.zeros((), int), jnp.ones((), dtype), zero, zero
            _, scale, found, exact = jax.lax.while_loop(worse, shorter, whole)
            x = state.x + scale * delta
            least = jnp.where(holds, _SETTLED, self.tolerance)
            ready = found < 0.5 * jnp.maximum(state.kappa, least)
            kappa = jnp.where(ready, factor * state.kappa, state.kappa)
            pull = jnp.maximum(factor * state.rho, _LEAST_PULL)
            better = exact < state.least
            after = _Iteration(
                x,
                jnp.where(ready, x, state.center),
                jnp.where(holds & (kappa < _LEAST_KAPPA), 0.0, kappa),
                jnp.where(holds & ready, pull, state.rho),
                exact,
                jnp.where(better, x, state.best),
                jnp.where(better, exact, state.least),
                state.attempt,
                state.within + 1,
                state.total + 1,
            )
            # Nearer to the center there is nothing.
            settled = holds & ready & (state.kappa <= 0.0) & (exact <= _ENOUGH)
            astray = (state.attempt == 0) & (after.within >= _TRIAL) & (found > 1.0)
            over = (after.within >= limit) | ~jnp.isfinite(found) | settled | astray
            spent = ~(exact <= self.tolerance) & over
            following = jnp.where(after.least <= _ENOUGH, most, state.attempt + 1)
            far = jnp.asarray(jnp.inf, dtype)
            best = after.best, after.least
            anew = started(jnp.zeros_like(x), far, best, following, after.total)
            return jax.tree.map(lambda a, b: jnp.where(spent, a, b), anew, after)

        # Without a guess there is nothing to be warm from.
        first = jnp.where(jnp.any(guess != 0.0), 0, 1)
        guess = jnp.where(jnp.isfinite(guess), guess, 0.0)
        none = jnp.asarray(jnp.inf, dtype)
        exact = size(args, guess, zero)
        state = started(guess, exact, (guess, none), first, jnp.zeros((), int))
        # A guess that is nearer than the first κ would be worse after an iteration at that one, and
        # what it leaves is the next step's work.
        near = jnp.where(first == 0, jnp.minimum(state.kappa, exact), state.kappa)
        state = eqx.tree_at(lambda s: s.kappa, state, near)
        state = jax.lax.while_loop(goes_on, once, state)
        done = state.exact <= self.tolerance
        residual = jnp.where(done, state.exact, state.least)
        converged = done | (state.least <= _ENOUGH)
        # What failed must stay finite: it is masked afterwards, and its derivative too.
        x = jnp.where(done, state.x, jnp.where(converged, state.best, 0.0))
        return x, Outcome(state.total, converged, residual, state.attempt + 1)


def solve_laws(
    laws: Laws, guess: Float[Array, " w"], problem: LawProblem
) -> tuple[Float[Array, " w"], Any]:
    """Impulses that satisfy all laws, (w,), and how they were found; derivatives by the implicit
    function theorem.
    """
    scaled, unit = laws.scaled()
    x, outcome = implicit_root(problem, guess / unit, scaled)
    return unit * x, outcome
