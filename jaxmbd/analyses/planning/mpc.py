"""Model predictive control: a plan that is made anew at every sample, in one compiled program."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...model.state import State
from ...model.validation import Numbers
from ...rotations.types import Scalar
from .expansion import expanded, moved
from .interior import Step, each, mixed, step_of
from .plan import Plan
from .problem import Gaps, Multipliers, Point, Problem, charts_of
from .seen import AbstractStateController, closed_at, state_of
from .track import samples, within_bounds

_WHO = "mpc"
_DAMPINGS = 8  # that are tried, each ten times the one before, where a problem is not convex
_FIRST_DAMPING = 1e-4
_APART = 1e3  # how far multipliers may be from what slacks and the barrier say


class Guess(eqx.Module):
    """What a predictive controller takes from one sample to the next.

    Attributes:
        point, slacks, multipliers: The last plan.
        begin: When it begins [s].
    """

    point: Point
    slacks: Gaps
    multipliers: Multipliers
    begin: Scalar


class MPC(AbstractStateController):
    """Newton steps for the plan from the present state, at every sample; see `mpc`.

    Attributes:
        problem: Of the plan.
        first: The plan to begin with.
        barrier: Of limits.
        iterations: A sample.
        exact: Whether second derivatives are.
    """

    problem: Problem
    first: Guess
    barrier: Scalar
    iterations: int = eqx.field(static=True)
    exact: bool = eqx.field(static=True)

    def start(self) -> Guess:
        return self.first

    def __call__(self, memory: Guess, seen: Float[Array, " n"], t: Scalar) -> tuple:
        near = memory.point.states.angles
        assert near is not None
        state = state_of(self.problem.system, seen, near[0])
        memory = self.planned(memory, state, t)
        u = memory.point.controls[0] * self.problem.inputs.sizes
        return memory, within_bounds(self.problem, u)

    def planned(self, guess: Guess, state: State, t: Scalar) -> Guess:
        """The plan from a state at a time, from that of the last sample."""
        length = self.problem.length / self.problem.knots
        late = (t - guess.begin) >= 0.5 * length
        guess = jax.tree.map(lambda a, b: jnp.where(late, a, b), _shifted(guess, length), guess)
        problem = eqx.tree_at(lambda p: p.t0, self.problem, t)
        closed, _ = closed_at(problem, state, t)
        states = jax.tree.map(lambda all, one: all.at[0].set(one), guess.point.states, closed)
        point = eqx.tree_at(lambda p: p.states, guess.point, states)
        guess = dataclasses.replace(guess, point=point)
        # The other knots are closed at their old instants, which matters where drivers move.
        zero = jnp.zeros((problem.knots + 1, problem.local), length.dtype)
        still = jnp.zeros_like(point.controls)
        again, fine = moved(problem, point, charts_of(problem, point), zero, still)
        point = jax.tree.map(lambda a, b: jnp.where(fine, a, b), again, point)
        guess = dataclasses.replace(guess, point=point)

        def one(guess: Guess, _: None) -> tuple[Guess, None]:
            return self._improved(problem, guess), None

        return jax.lax.scan(one, guess, length=self.iterations)[0]

    def _improved(self, problem: Problem, guess: Guess) -> Guess:
        """The plan after one Newton step; the same plan where there is none."""
        expansion = expanded(problem, guess.point, guess.multipliers, self.exact)
        args = problem, expansion, guess.slacks, guess.multipliers, self.barrier

        def step(damping: Scalar) -> Step:
            return step_of(*args, damping, expansion.values)

        def harder(c: tuple[Step, Scalar, Array]) -> tuple[Step, Scalar, Array]:
            _, damping, k = c
            damping = jnp.maximum(10.0 * damping, _FIRST_DAMPING)
            return step(damping), damping, k + 1

        def refused(c: tuple[Step, Scalar, Array]) -> Bool[Array, ""]:
            return ~jnp.isfinite(c[0].along) & (c[2] < _DAMPINGS)

        zero = jnp.zeros((), guess.begin.dtype)
        found, _, _ = jax.lax.while_loop(refused, harder, (step(zero), zero, jnp.zeros((), int)))
        share = found.share
        point, closed = moved(
            problem, guess.point, expansion.charts, share * found.x, share * found.u
        )
        slacks = each(lambda s, d: s + share * d, guess.slacks, found.slacks)
        multipliers = mixed(guess.multipliers, found.multipliers, share, found.share_z)
        kept = each(
            lambda z, s: jnp.clip(z, self.barrier / (_APART * s), _APART * self.barrier / s),
            multipliers.gaps,
            slacks,
        )
        multipliers = dataclasses.replace(multipliers, gaps=kept)
        new = Guess(point, slacks, multipliers, guess.begin)
        good = closed & jnp.isfinite(found.along)
        for x in jax.tree.leaves(new):
            good = good & jnp.all(jnp.isfinite(x))
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, guess)


def _shifted(guess: Guess, length: Scalar) -> Guess:
    """The plan an interval later; at its end it stays."""

    def later(x: Array) -> Array:
        return jnp.concatenate([x[1:], x[-1:]])

    point = dataclasses.replace(
        guess.point,
        states=jax.tree.map(later, guess.point.states),
        first=guess.point.controls[0] if guess.point.first.size else guess.point.first,
        controls=later(guess.point.controls),
    )

    def later_gaps(gaps: Gaps) -> Gaps:
        return dataclasses.replace(gaps, each=later(gaps.each))

    m = guess.multipliers
    multipliers = dataclasses.replace(
        m,
        forces=later(m.forces),
        momenta=later(m.momenta),
        others=later(m.others),
        gaps=later_gaps(m.gaps),
    )
    return Guess(point, later_gaps(guess.slacks), multipliers, guess.begin + length)


def mpc(
    plan: Plan,
    *,
    h: float,
    every: float,
    iterations: int = 1,
    barrier: float = 1e-4,
    hessian: str = "exact",
    delay: Numbers = 0.0,
) -> MPC:
    """The controller that plans anew at every sample: model predictive control, by a few Newton
    steps from the plan of the sample before (real-time iterations).

        plan = mbd.optimal_control(system, state, ["push"], 1.0, stage=..., limits=..., knots=25)
        controller = mbd.mpc(plan, h=1e-3, every=0.02)
        sol = mbd.simulate(system, other, h=1e-3, t_end=5.0, controller=controller)

    It sees poses and velocities of all bodies. Where a Newton step has no numbers, the last plan
    goes on. Inputs never leave their bounds; other limits may be left where the mechanism is
    pushed beyond them.

    Args:
        plan: With the horizon, costs and limits that shall be kept to; its motion is the first
            guess, at the first sample. The horizon must not be free.
        h: Step size of the simulation [s].
        every: Time between two samples [s], a multiple of it.
        iterations: Newton steps a sample.
        barrier: Of limits: larger ones keep farther away from them, and make steps calmer.
        hessian: As of `optimal_control`.
        delay: See `Controller`, in times between two samples.

    Raises:
        ValueError: Numbers make no sense, or the horizon is free.

    Reference:
        Diehl, Bock, Schloeder, "A real-time iteration scheme for nonlinear optimization in optimal
        feedback control", SIAM J. Control Optim. 43 (2005).
    """
    problem = plan.problem
    if problem.horizon is not None:
        raise ValueError(f"{_WHO}: the plan's horizon is free; give a horizon of one length")
    if not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"{_WHO}: iterations must be a positive integer, not {iterations!r}")
    if not barrier > 0.0:
        raise ValueError(f"{_WHO}: the barrier must be positive, not {barrier}")
    period = samples(h, every, _WHO)
    number = jnp.asarray(barrier, problem.system.dtype)
    gaps = plan.multipliers.gaps
    # From a small barrier to a larger one, slacks and multipliers keep their places on the path.
    root = jnp.sqrt(number)
    slacks = each(
        lambda s, z: jnp.where(s > z, s, jnp.maximum(number / z, 1e-2 * root)), plan.slacks, gaps
    )
    fresh = each(lambda s: number / s, slacks)
    multipliers = dataclasses.replace(plan.multipliers, gaps=fresh)
    first = Guess(plan.point, slacks, multipliers, problem.t0)
    return MPC(
        problem,
        first,
        number,
        iterations,
        hessian == "exact",
        period=period,
        delay=delay,
    )
