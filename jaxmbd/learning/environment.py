"""Environments for reinforcement learning: a mechanism with actions, observations and rewards."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..analyses.carry import Carry, observe, row_of
from ..analyses.sensing import Sensing, looks_kept, sensors_among
from ..analyses.stepping import start, step
from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator
from ..model.readable import counted, readable
from ..model.state import State
from ..model.system import System
from ..model.validation import default_dtype
from ..outcomes import RESULTS
from ..rotations.types import Scalar
from ..xla.indexing import take
from ..xla.lazy_cond import where_needed

if TYPE_CHECKING:
    from .gym import SingleEnvironment, VectorEnvironment
    from .gymnax import GymnaxEnvironment


class Episode(eqx.Module):
    """The state of an episode; a pytree.

    Attributes:
        carry: The motion.
        steps: Actions taken so far, ().
        key: For the next reset.
        goal: Of this episode, see `Environment.goal`; None in environments without goals.
        sensing: Of sensors with noise, delay or a sampling period among what is observed, or None.
    """

    carry: Carry
    steps: Int[Array, ""]
    key: Array
    goal: PyTree = None
    sensing: Sensing | None = None


@dataclass(frozen=True, eq=False)
class Environment:
    """A mechanism whose inputs are actions, with the interface of gymnax; `reset` and `step` are
    pure and can be jitted, batched by `jax.vmap` and differentiated.

        observation, episode = env.reset(key)
        observation, episode, reward, done, info = env.step(key, episode, action)

    Attributes:
        system: The mechanism; all its inputs are actions.
        begin: `begin(key) -> State` at the beginning of an episode, random or not; it is assembled,
            so that `set_joints` with drawn coordinates serves, loops too.
        observed: Names of quantities (see `quantities`), or `observed(system, carry) -> (n,)`. The
            names of sensors are readings, with noise from the episode's key, delay and samples; a
            function that calls `observe` gets them without.
        reward: `reward(system, before, action, after)` of the carries around an action.
        terminated: `terminated(system, carry) -> ()`, or None for episodes that end by time alone.
        low, high: Bounds of the actions, (k,), in the order of `System.inputs`.
        h: Step of the integration [s].
        substeps: Steps of each action.
        horizon: Actions of an episode, after which it is truncated.
        formulation, integrator: As in `simulate`.
        goal: `goal(key)`, drawn in every reset: a pytree of arrays, such as the target of the
            episode. `observed`, `reward` and `terminated` get it as a further, last argument;
            where `observed` are names, its numbers follow them in the observation.
        starts: Beginnings that resets choose from, see `with_starts`; None to make each one anew.
    """

    system: System
    begin: Callable[[Array], State]
    observed: Callable[..., Array] | Sequence[str]
    reward: Callable[..., Array]
    low: Any
    high: Any
    _: KW_ONLY
    h: Any
    substeps: int
    horizon: int
    terminated: Callable[..., Array] | None = None
    formulation: AbstractFormulation | None = None
    integrator: AbstractIntegrator | None = None
    goal: Callable[[Array], PyTree] | None = None
    starts: Carry | None = None

    def __post_init__(self):
        for name in ("low", "high"):
            numbers = jnp.atleast_1d(jnp.asarray(getattr(self, name), default_dtype()))
            object.__setattr__(self, name, numbers)
        object.__setattr__(self, "h", jnp.asarray(self.h, default_dtype()))
        system, width = self.system, sum(x.width for x in self.system.inputs)
        who = f"Environment of mechanism {system.name!r}"
        if not width:
            raise ValueError(
                f"{who}: it has no input to act by; give a force or a motor mbd.Input('name')"
            )
        driving = [repr(x.name) for x in system.inputs if x.drives]
        if driving:
            raise ValueError(
                f"{who}: {', '.join(driving)} leads a driver, which needs rates and accelerations; "
                "act by forces, such as a Servo or a PID with an input as its set point"
            )
        for name in ("low", "high"):
            if getattr(self, name).shape != (width,):
                raise ValueError(
                    f"{who}: {name} must have {width} numbers, one for each of the actions, not "
                    f"shape {getattr(self, name).shape}"
                )
        for name in ("substeps", "horizon"):
            if getattr(self, name) < 1:
                raise ValueError(f"{who}: {name} must be at least 1, not {getattr(self, name)}")

    def __repr__(self) -> str:
        return readable(self, _described)

    @property
    def action_size(self) -> int:
        """Number of actions."""
        return self.low.shape[0]

    @property
    def period(self) -> Scalar:
        """Time from one action to the next [s]."""
        return self.h * self.substeps

    def with_starts(self, key: Array, count: int = 256) -> "Environment":
        """The environment whose resets choose among beginnings that were made once: assembly costs
        as much as many steps, and in a large batch some episode ends at every one.
        """
        starts = jax.jit(jax.vmap(self._started))(jax.random.split(key, count))
        return dataclasses.replace(self, starts=starts)

    def reset(self, key: Array) -> tuple[Float[Array, " n"], Episode]:
        """The first observation and a new episode."""
        own, following = jax.random.split(key)
        carry, goal = self._begun(own), self._drawn(own)
        observation, sensing = self._seen(carry, goal, self._sensing(own))
        return observation, Episode(carry, jnp.zeros((), int), following, goal, sensing)

    def step(
        self, key: Array, episode: Episode, action: Float[Array, " k"]
    ) -> tuple[Float[Array, " n"], Episode, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """One action, and a new episode where this one ends.

        Args:
            key: For what is random in a reset.
            episode: Of `reset` or of the action before.
            action: (k,), cut off at its bounds.

        Returns:
            The observation, of the new episode where this one ended; the episode; the reward;
            whether one ended; and `info`: "terminated", "truncated", "failed", and
            "final_observation", the last one of the episode that the action belongs to.
        """
        last, after, reward, done, info = self.step_within(episode, action)
        kept = jax.tree.map(jax.lax.stop_gradient, after.carry)
        # Nothing is done where no episode of a batch ends.
        fresh = where_needed(done, lambda: _arrays(self._begun(key)), _arrays(kept))
        carry = _selected(done, fresh, after.carry)
        goal = _selected(done, self._drawn(key), after.goal)
        steps = jnp.where(done, 0, after.steps)
        first, sensing = self._seen(carry, goal, self._sensing(key))
        observation = jnp.where(done, first, last)
        return (
            observation,
            Episode(carry, steps, after.key, goal, _selected(done, sensing, after.sensing)),
            reward,
            done,
            info | {"final_observation": last},
        )

    def step_within(
        self, episode: Episode, action: Float[Array, " k"]
    ) -> tuple[Float[Array, " n"], Episode, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """`step` without a new episode where this one ends: what gradients go through."""
        action = jnp.clip(jnp.asarray(action, self.low.dtype), self.low, self.high)
        before, goal = episode.carry, self._further(episode.goal)
        carry = step(self.system, before, self._inputs(action), steps=self.substeps)
        failed = carry.result != RESULTS.successful
        ended = jnp.zeros((), bool)
        if self.terminated is not None:
            ended = jnp.asarray(self.terminated(self.system, carry, *goal), bool)
        steps = episode.steps + 1
        terminated = ended | failed
        truncated = (steps >= self.horizon) & ~terminated
        found = self.reward(self.system, before, action, carry, *goal)
        reward = jnp.asarray(found, self.low.dtype)
        info = {"terminated": terminated, "truncated": truncated, "failed": failed}
        observation, sensing = self._seen(carry, episode.goal, episode.sensing)
        after = Episode(carry, steps, episode.key, episode.goal, sensing)
        return observation, after, reward, terminated | truncated, info

    def observe(self, carry: Carry, goal: PyTree = None) -> Float[Array, " n"]:
        """The observation at an instant of an episode with a goal, or without one; sensors without
        noise, delay and samples, which belong to an episode.
        """
        if callable(self.observed):
            return jnp.asarray(self.observed(self.system, carry, *self._further(goal)))
        return _with_goal(observe(self.system, carry, self.observed), goal)

    def to_gymnasium(
        self, count: int | None = None, *, seed: int = 0
    ) -> "SingleEnvironment | VectorEnvironment":
        """The environment for programs that know gymnasium: a `gymnasium.Env`, or with `count` a
        `gymnasium.vector.VectorEnv` of so many, which resets episodes in the step that ends them.

        Raises:
            ImportError: gymnasium is not there.
        """
        from .gym import SingleEnvironment, VectorEnvironment

        if count is None:
            return SingleEnvironment(self, seed)
        return VectorEnvironment(self, count, seed)

    def to_gymnax(self, *, split_done: bool = False) -> "GymnaxEnvironment":
        """The environment for libraries written for gymnax: an object with `default_params`,
        `reset(key, params)`, `step(key, state, action, params)`, `action_space(params)`,
        `observation_space(params)`, `num_actions` and `name`. gymnax need not be installed.

        Args:
            split_done: Whether `step` returns six values, with terminated and truncated in place of
                done, as gymnax does from version 1.0. The default, five values, is the interface of
                gymnax 0.0.x, which rejax 0.1 calls.
        """
        from .gymnax import GymnaxEnvironment

        return GymnaxEnvironment(self, split_done)

    def _sensing(self, key: Array) -> Sensing | None:
        """Before the first look of an episode at its sensors, with noise from another key than the
        state and the goal.
        """
        if callable(self.observed):
            return None
        names = list(self.observed)
        sensors = sensors_among(self.system, names)
        if not sensors:
            return None
        looks = looks_kept(sensors, self.h, self.substeps, "Environment")
        return Sensing.begun(self.system, names, looks, jax.random.fold_in(key, 2))

    def _seen(
        self, carry: Carry, goal: PyTree, sensing: Sensing | None
    ) -> tuple[Float[Array, " n"], Sensing | None]:
        """The observation, and the sensing after it."""
        if sensing is None or callable(self.observed):
            return self.observe(carry, goal), sensing
        place = (carry.steps, self.substeps, carry.h)
        now = row_of(self.system, carry)
        sensing, seen = sensing.look(self.system, list(self.observed), now, place)
        return _with_goal(seen, goal), sensing

    def _inputs(self, action: Float[Array, " k"]) -> dict[str, Array]:
        """Actions by the names of inputs."""
        parts = jnp.split(action, np.cumsum([x.width for x in self.system.inputs])[:-1])
        return {
            x.name: part.reshape(x.shape) for x, part in zip(self.system.inputs, parts, strict=True)
        }

    def _drawn(self, key: Array) -> PyTree:
        """A goal, from another key than the state that `begin` draws from this one."""
        return None if self.goal is None else self.goal(jax.random.fold_in(key, 1))

    def _further(self, goal: PyTree) -> tuple[PyTree, ...]:
        """The last argument of `observed`, `reward` and `terminated`, where there are goals."""
        return () if self.goal is None else (goal,)

    def _started(self, key: Array) -> Carry:
        state: State = self.begin(key)
        return start(
            self.system,
            state,
            h=self.h,
            inputs=self._inputs(jnp.zeros_like(self.low)),
            formulation=self.formulation,
            integrator=self.integrator,
        )

    def _begun(self, key: Array) -> Carry:
        if self.starts is None:
            return self._started(key)
        which = jax.random.randint(key, (), 0, self.starts.h.shape[0])
        return jax.tree.map(lambda x: take(x, which), self.starts)


def _with_goal(seen: Float[Array, " n"], goal: PyTree) -> Float[Array, " m"]:
    """The numbers of a goal behind what is seen."""
    return jnp.concatenate([seen, *(jnp.ravel(x) for x in jax.tree.leaves(goal))])


def _arrays(carry: Carry) -> PyTree:
    return eqx.filter(carry, eqx.is_array)


def _selected(flag: Bool[Array, ""], fresh: PyTree, old: PyTree) -> PyTree:
    arrays, rest = eqx.partition(old, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda a, b: jnp.where(flag, a, b), fresh, arrays), rest)


def _described(env: Environment) -> str:
    seen = "of its own"
    if not callable(env.observed):
        seen = counted(len(env.observed), "quantity", "quantities")
    return (
        f"Environment of mechanism {env.system.name!r}: {counted(env.action_size, 'action')}, "
        f"observation {seen}, {counted(env.horizon, 'action')} an episode"
    )
