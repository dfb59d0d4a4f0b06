"""The laws of a step with bounces, and without them where those contradict each other."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..linalg.linear_solve import held
from ..roots.implicit import implicit_root, saved
from .problem import LawProblem, Laws, Outcome

# Gains of kinetic energy below this part of the work of all impulses are rounding of the iteration.
_ROUNDING = 1e-11


class _Attempts(LawProblem):
    """Impulses with bounces, or without where there are none or where they would add energy; never
    differentiated.
    """

    def solve(self, guess: Float[Array, " w"], args: Any) -> tuple[Array, Any]:
        laws, plain, sure, bounces = args
        gives_way = bounces | jnp.any(laws.active & ~sure)

        def attempt(state):
            outcome, again = state[1], state[2]
            asked = _without(laws, plain, sure, again)
            scaled, unit = asked.scaled()
            start = jnp.where(again, 0.0, guess) / unit
            x, found = super(_Attempts, self).solve(start, scaled)
            P = unit * x
            # Velocities go from b to b + G P: what impulses give to the kinetic energy. By Newton's
            # law several points with friction, or of different restitution, may give some.
            given = P @ (plain + 0.5 * (laws.matrix @ P))
            gains = bounces & (given > _ROUNDING * (jnp.abs(P) @ jnp.abs(plain)))
            # Iterations of both count.
            total = found.iterations + outcome.iterations
            found = dataclasses.replace(found, iterations=total)
            works = (found.converged & ~gains) | ~gives_way
            return P, found, again | ~works, again | works

        no, none = jnp.zeros((), bool), jnp.zeros((), int)
        nothing = Outcome(none, no, jnp.zeros((), guess.dtype), none)
        first = jnp.zeros_like(guess), nothing, no, no
        P, outcome, fails, _ = jax.lax.while_loop(lambda s: ~s[3], attempt, first)
        return P, (outcome, fails)


class _Found(LawProblem):
    """The derivatives of impulses that are known."""

    def solve(self, guess: Float[Array, " w"], args: Laws) -> tuple[Array, Any]:
        return guess, None


def solve_with_bounces(
    laws: Laws,
    plain: Float[Array, " w"],
    sure: Bool[Array, " c"],
    bounces: Bool[Array, ""],
    guess: Float[Array, " w"],
    problem: LawProblem,
) -> tuple[Float[Array, " w"], Outcome, Bool[Array, ""]]:
    """Impulses that satisfy the laws, or what is left of them where they have no solution.

    Args:
        laws: All of them, with velocities that impacts ask for.
        plain: Free velocities without restitution, (w,) [m/s] or [rad/s].
        sure: Laws that act in any case, (c,); the others of `laws.active` only prevent gaps from
            closing.
        bounces: Whether any impact has restitution.
        guess: Impulses to start from, (w,) [N·s] or [N·m·s].
        problem: Settings of the iteration.

    Returns:
        Impulses, (w,) [N·s] or [N·m·s]; how they were found; and whether they are those of the sure
        laws without restitution, because all had no solution or one that adds energy. The
        derivatives are those of the laws that hold at the end: one linear solve, however many
        attempts it took.
    """
    settings = problem.tolerance, problem.gradient_smoothing
    # Nothing in it varies, so that no rule for derivatives names what is found.
    P, (outcome, fails) = saved(
        implicit_root(_Attempts(*settings), guess, held((laws, plain, sure, bounces)))
    )
    kept = _without(laws, plain, sure, fails)
    scaled, unit = kept.scaled()
    x, _ = implicit_root(_Found(*settings), P / unit, scaled)
    return unit * x, outcome, fails


def _without(
    laws: Laws, plain: Float[Array, " w"], sure: Bool[Array, " c"], flag: Bool[Array, ""]
) -> Laws:
    """The sure laws without restitution where the flag is set."""
    return dataclasses.replace(
        laws,
        free=jnp.where(flag, plain, laws.free),
        active=jnp.where(flag, sure & laws.active, laws.active),
    )
