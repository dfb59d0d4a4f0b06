"""Environments as gymnax knows them, without a need for gymnax itself."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from .environment import Environment, Episode


class Box(NamedTuple):
    """A space of arrays between bounds, with the attributes and methods of gymnax's.

    Attributes:
        low, high: Bounds, broadcast against the shape.
        shape: Of one array.
        dtype: Of one array.
    """

    low: Array | float
    high: Array | float
    shape: tuple[int, ...]
    dtype: DTypeLike

    def sample(self, key: Array) -> Array:
        """An array at random, uniform between finite bounds."""
        return jax.random.uniform(key, self.shape, self.dtype, self.low, self.high)

    def contains(self, x: Array) -> Bool[Array, ""]:
        """Whether an array lies within the bounds."""
        return jnp.all((x >= self.low) & (x <= self.high))


def _box(low: Array | float, high: Array | float, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    """The space of gymnax where it is installed: some of its wrappers ask for that type."""
    try:
        from gymnax.environments import spaces  # pyright: ignore[reportMissingImports]
    except ImportError:
        return Box(low, high, shape, dtype)
    return spaces.Box(low, high, shape, dtype)


class GymnaxParameters(NamedTuple):
    """What libraries read from `default_params`; changing it has no effect on the environment.

    Attributes:
        max_steps_in_episode: Actions of an episode.
    """

    max_steps_in_episode: int


class GymnaxEnvironment:
    """An environment with the methods that libraries written for gymnax call, such as rejax; see
    `Environment.to_gymnax`. Its states are episodes of the environment.
    """

    def __init__(self, env: Environment, split_done: bool = False):
        self.env, self.split_done = env, split_done
        seen = jax.eval_shape(lambda key: env.reset(key)[0], jax.random.key(0))
        self._observations = _box(-np.inf, np.inf, seen.shape, seen.dtype)
        self._actions = _box(env.low, env.high, env.low.shape, env.low.dtype)

    @property
    def name(self) -> str:
        """Of the mechanism."""
        return self.env.system.name

    @property
    def num_actions(self) -> int:
        """Numbers in an action."""
        return self.env.action_size

    @property
    def default_params(self) -> GymnaxParameters:
        """The horizon under the name that gymnax uses."""
        return GymnaxParameters(self.env.horizon)

    def reset(self, key: Array, params: object = None) -> tuple[Float[Array, " n"], Episode]:
        """The first observation and a new episode."""
        return self.env.reset(key)

    def step(
        self, key: Array, state: Episode, action: Float[Array, "..."], params: object = None
    ) -> tuple[Any, ...]:
        """One action, and a new episode where this one ends: observation, episode, reward, done and
        info; with `split_done` terminated and truncated in place of done.
        """
        # A library may have squeezed the only number of an action.
        action = jnp.reshape(action, self.env.low.shape)
        seen, state, reward, done, info = self.env.step(key, state, action)
        ends = (info["terminated"], info["truncated"]) if self.split_done else (done,)
        return seen, state, reward, *ends, info

    def action_space(self, params: object = None) -> Any:
        """Actions within the bounds of the environment."""
        return self._actions

    def observation_space(self, params: object = None) -> Any:
        """Observations, which have no bounds."""
        return self._observations
