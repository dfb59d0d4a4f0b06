"""First guesses of a plan."""

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...formulations import RA
from ...model.state import Pose, State, Twist
from ...model.validation import Numbers
from ...results.solution import Solution
from .charts import at, chart, coordinates_of
from .plan import Plan
from .problem import Multipliers, Point, Problem
from .request import WHO
from .shooting import flown


def begun(problem: Problem, start: State, guess: Mapping[str, Numbers] | Solution | None) -> Point:
    """A first guess: the motion by some inputs, or another motion, or the way to a state that has
    to be reached, or none.
    """
    system, N, m = problem.system, problem.knots, problem.inputs.count
    dtype = system.dtype
    controls = _middle(problem)
    names = problem.inputs.names(system)
    motion = guess if isinstance(guess, Solution) else None
    guess = None if isinstance(guess, Solution) else guess
    if guess is not None:
        for name in guess:
            if name not in names:
                raise ValueError(f"{WHO}: guess: there is no planned input {name!r}")
        for k, name in enumerate(names):
            if name in guess:
                values = np.asarray(guess[name], float)
                if values.shape not in ((), (N,)):
                    raise ValueError(
                        f"{WHO}: guess of {name!r} must be a number or have one for each of {N} "
                        f"intervals, not shape {values.shape}"
                    )
                controls = controls.at[:, k].set(values / problem.inputs.sizes[k])
    horizon = jnp.ones(1 if problem.horizon is not None else 0, dtype)
    first = controls[0] if problem.carried else jnp.zeros(0, dtype)
    if motion is not None:
        states = _along(problem, start, *_at_knots(problem, motion))
    elif guess is not None:
        states = _rolled_out(problem, start, controls)
    elif problem.goal is not None:
        states = _straight(problem, start)
    else:
        states = jax.tree.map(lambda x: jnp.broadcast_to(x, (N + 1, *x.shape)), start)
    assert controls.shape == (N, m)
    return Point(states, first, controls, horizon)


def _at_knots(problem: Problem, motion: Solution) -> tuple[Pose, Twist]:
    """Poses and twists of a motion at the knots.

    Raises:
        ValueError: It is of another mechanism, or does not last as long.
    """
    if motion.r.shape[1] != problem.system.nb:
        raise ValueError(
            f"{WHO}: guess: the motion is of {motion.r.shape[1]} bodies, and mechanism "
            f"{problem.system.name!r} has {problem.system.nb}"
        )
    t, t0, length = np.asarray(motion.t), float(problem.t0), float(problem.length)
    times = t0 + length * np.arange(problem.knots + 1) / problem.knots
    rows = np.abs(t[None, :] - times[:, None]).argmin(axis=1)
    if np.max(np.abs(t[rows] - times)) > 0.5 * length / problem.knots:
        raise ValueError(
            f"{WHO}: guess: the motion has rows from {t[0]:g} to {t[-1]:g} s, and knots are from "
            f"{t0:g} to {times[-1]:g} s; give one with a row near each of them"
        )
    found = (np.asarray(x)[rows] for x in (motion.r, motion.A, motion.v, motion.omega))
    r, A, v, omega = (jnp.asarray(x, problem.system.dtype) for x in found)
    return Pose(r, A), Twist(v, omega)


@eqx.filter_jit
def _along(problem: Problem, start: State, poses: Pose, twists: Twist) -> State:
    """Closed states near some poses and twists, the first of them the start, with turns counted
    from there.
    """
    system = problem.system
    length = problem.length / problem.knots

    def one(before: State, given: tuple[Pose, Twist, Array]) -> tuple[State, State]:
        pose, twist, k = given
        assert before.angles is not None
        angles = system.wound(before.angles).angle_values(RA().with_ground(pose))
        state = dataclasses.replace(
            before, r=pose.r, A=pose.A, v=twist.v, omega=twist.omega, angles=angles
        )
        t = problem.t0 + k * length
        here = chart(system, state, t, problem.ranks)
        closed, good = at(system, here, jnp.zeros(problem.local, length.dtype), t)
        state = jax.tree.map(lambda a, b: jnp.where(good, a, b), closed, before)
        return state, state

    k = jnp.arange(problem.knots + 1, dtype=length.dtype)
    _, states = jax.lax.scan(one, start, (poses, twists, k))
    return jax.tree.map(lambda a, b: a.at[0].set(b), states, start)


def _middle(problem: Problem) -> Float[Array, "N m"]:
    """Controls between their bounds: zero where that is allowed."""
    values = []
    for x in problem.bounds:
        low = -np.inf if x is None or x.lower is None else float(x.lower)
        high = np.inf if x is None or x.upper is None else float(x.upper)
        inside = low < 0.0 < high
        values.append(0.0 if inside else np.clip(0.0, low, high))
        if not inside and np.isfinite(low) and np.isfinite(high):
            values[-1] = 0.5 * (low + high)
    one = jnp.asarray(values, problem.system.dtype)
    return jnp.broadcast_to(one, (problem.knots, len(values)))


@eqx.filter_jit
def _rolled_out(problem: Problem, start: State, controls: Float[Array, "N m"]) -> State:
    """The states at all knots of the motion by some controls."""
    length = problem.length / problem.knots

    def one(state: State, given: tuple[Array, Array]) -> tuple[State, State]:
        control, k = given
        begin = problem.t0 + k * length
        here = chart(problem.system, state, begin, problem.ranks)
        inputs = problem.inputs

        def of_share(share: Array) -> Array:
            return inputs.during(control, control, share, length)

        end, _ = flown(problem.system, here, state, of_share, begin, length, problem.steps)
        there = chart(problem.system, end, begin + length, problem.ranks)
        zero = jnp.zeros(problem.local, length.dtype)
        end, _ = at(problem.system, there, zero, begin + length)
        return end, end

    k = jnp.arange(problem.knots, dtype=length.dtype)
    _, others = jax.lax.scan(one, start, (controls, k))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, others)


@eqx.filter_jit
def _straight(problem: Problem, start: State) -> State:
    """States on the way to the one that has to be reached, in the coordinates of the first; where
    that way is not open, the first.
    """
    system, N = problem.system, problem.knots
    assert problem.goal is not None
    here = chart(system, start, problem.t0, problem.ranks)
    way = coordinates_of(system, here, problem.goal.center)
    still = here.free.shape[1]

    def one(share: Array) -> State:
        moved = (share * way).at[still:].set(0.0)
        state, closed = at(system, here, moved, problem.t0)
        return jax.tree.map(lambda a, b: jnp.where(closed, a, b), state, start)

    states = jax.vmap(one)(jnp.linspace(0.0, 1.0, N + 1, dtype=system.dtype))
    return jax.tree.map(lambda a, b: a.at[0].set(b), states, start)


def continued(problem: Problem, start: State, guess: Plan) -> tuple[Point, Multipliers | None]:
    """The guess of another plan, from the start of this one."""
    if guess.point.controls.shape != (problem.knots, problem.inputs.count):
        raise ValueError(
            f"{WHO}: the plan to begin with has {guess.point.controls.shape[0]} intervals and "
            f"{guess.point.controls.shape[1]} inputs, and {problem.knots} and "
            f"{problem.inputs.count} are asked for"
        )
    states = jax.tree.map(lambda all, one: all.at[0].set(one), guess.point.states, start)
    controls = guess.point.controls * (guess.problem.inputs.sizes / problem.inputs.sizes)[None]
    first = jnp.zeros(0, problem.system.dtype)
    if problem.carried:
        sizes = guess.problem.inputs.sizes / problem.inputs.sizes
        first = guess.point.first * sizes if guess.problem.carried else controls[0]
    horizon = guess.point.horizon[: 1 if problem.horizon is not None else 0]
    if problem.horizon is not None and not horizon.size:
        horizon = jnp.ones(1, problem.system.dtype)
    alike = jax.tree.structure((problem.bounds, problem.limits, problem.ends, problem.rates)) == (
        jax.tree.structure(
            (
                guess.problem.bounds,
                guess.problem.limits,
                guess.problem.ends,
                guess.problem.rates,
            )
        )
    )
    same = alike and problem.free == guess.problem.free and problem.carried == guess.problem.carried
    return Point(states, first, controls, horizon), guess.multipliers if same else None
