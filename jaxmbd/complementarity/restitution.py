"""The laws of a step with bounces, or without them where those contradict each other, and with
places that impulses of others close.
"""

import abc
import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ..linalg.linear_solve import held
from ..solvers.implicit_diff import implicit_root
from ..xla.checkpoint import saved
from .laws import Laws
from .problem import LawProblem, Outcome

# Gains of kinetic energy below this part of the work of all impulses are rounding of the iteration.
_ROUNDING = 1e-11


class AbstractGuards(eqx.Module):
    """Places that touch only if impulses of others close them."""

    @abc.abstractmethod
    def closed_by(self, P: Float[Array, " w"]) -> Bool[Array, " c"]:
        """Which of them these impulses close, where they do nothing against it themselves."""


class _Attempt(NamedTuple):
    P: Array
    guess: Array
    outcome: Outcome
    fails: Array
    closes: Array
    done: Array


class _Attempts(LawProblem):
    """Impulses with bounces, or without where there are none or where they would add energy, and of
    all guarded places that close; never differentiated.
    """

    def solve(self, guess: Float[Array, " w"], args: PyTree) -> tuple[Array, PyTree]:
        laws, plain, guards, bounces = args

        def attempt(state: _Attempt) -> _Attempt:
            asked = _asked(laws, plain, state.fails, state.closes)
            scaled, unit = asked.scaled()
            x, found = super(_Attempts, self).solve(state.guess / unit, scaled)
            P = unit * x
            # Velocities go from b to b + G P: what impulses give to the kinetic energy. By Newton's
            # law several points with friction, or of different restitution, may give some.
            given = P @ (plain + 0.5 * (laws.matrix @ P))
            gains = bounces & (given > _ROUNDING * (jnp.abs(P) @ jnp.abs(plain)))
            # Iterations of all count.
            total = found.iterations + state.outcome.iterations
            found = dataclasses.replace(found, iterations=total)
            wrong = (~found.converged | gains) & (bounces | jnp.any(state.closes)) & ~state.fails
            more = guards.closed_by(P) & ~asked.active & found.converged & ~state.fails & ~wrong
            fails = state.fails | wrong
            closes = (state.closes | more) & ~fails
            again = jnp.where(wrong, 0.0, P)
            return _Attempt(P, again, found, fails, closes, ~wrong & ~jnp.any(more))

        no, none = jnp.zeros((), bool), jnp.zeros((), int)
        nothing = Outcome(none, no, jnp.zeros((), guess.dtype), none)
        closes = jnp.zeros_like(laws.active)
        first = _Attempt(jnp.zeros_like(guess), guess, nothing, no, closes, no)
        ended = jax.lax.while_loop(lambda s: ~s.done, attempt, first)
        return ended.P, (ended.outcome, ended.fails, ended.closes)


class _Found(LawProblem):
    """The derivatives of impulses that are known."""

    def solve(self, guess: Float[Array, " w"], args: Laws) -> tuple[Array, Any]:
        return guess, None


def solve_with_bounces(
    laws: Laws,
    plain: Float[Array, " w"],
    guards: AbstractGuards,
    bounces: Bool[Array, ""],
    guess: Float[Array, " w"],
    problem: LawProblem,
) -> tuple[Float[Array, " w"], Outcome, Bool[Array, ""], Bool[Array, " c"]]:
    """Impulses that satisfy the laws, or what is left of them where they have no solution.

    Args:
        laws: All of them, with velocities that impacts ask for; those of guarded places do not act.
        plain: Free velocities without restitution, (w,) [m/s] or [rad/s].
        guards: Say which places impulses of others close. Their laws act then.
        bounces: Whether any impact has restitution.
        guess: Impulses to start from, (w,) [N·s] or [N·m·s].
        problem: Settings of the iteration.

    Returns:
        Impulses, (w,) [N·s] or [N·m·s]; how they were found; whether they are those without
        restitution and without guards, because all had no solution or one that adds energy; and
        which laws act, (c,). The derivatives are those of the laws that hold at the end: one linear
        solve, however many attempts it took.
    """
    settings = problem.tolerance, problem.gradient_smoothing
    # Nothing in it varies, so that no rule for derivatives names what is found.
    P, (outcome, fails, closes) = saved(
        implicit_root(_Attempts(*settings), guess, held((laws, plain, guards, bounces)))
    )
    kept = _asked(laws, plain, fails, closes)
    scaled, unit = kept.scaled()
    x, _ = implicit_root(_Found(*settings), P / unit, scaled)
    return unit * x, outcome, fails, kept.active


def _asked(
    laws: Laws, plain: Float[Array, " w"], fails: Bool[Array, ""], closes: Bool[Array, " c"]
) -> Laws:
    """The laws with those of places that close, and without restitution where this fails."""
    free = jnp.where(fails, plain, laws.free)
    return dataclasses.replace(laws, free=free, active=laws.active | closes)
