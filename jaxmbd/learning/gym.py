"""Environments as gymnasium knows them."""

from typing import Any

import jax
import numpy as np

from ..model.validation import Numbers
from .environment import Environment

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:  # pragma: no cover
    raise ImportError("to_gymnasium needs gymnasium: pip install 'jaxmbd[rl]'") from error


def _spaces(env: Environment) -> tuple[Any, Any]:
    """Of one observation and one action."""
    seen = jax.eval_shape(lambda key: env.reset(key)[0], jax.random.key(0))
    observation = gymnasium.spaces.Box(-np.inf, np.inf, seen.shape, np.float64)
    low, high = (np.asarray(x, np.float64) for x in (env.low, env.high))
    return observation, gymnasium.spaces.Box(low, high, dtype=np.float64)


class SingleEnvironment(gymnasium.Env):
    """One environment; rows of NumPy, seeds, and no automatic reset, as gymnasium has it."""

    metadata = {"render_modes": []}

    def __init__(self, env: Environment, seed: int = 0):
        self.env, self.key = env, jax.random.key(seed)
        self.observation_space, self.action_space = _spaces(env)
        self.episode = None
        self._reset, self._step = jax.jit(env.reset), jax.jit(env.step_within)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        """The first observation of a new episode."""
        super().reset(seed=seed)
        if seed is not None:
            self.key = jax.random.key(seed)
        self.key, own = jax.random.split(self.key)
        observation, self.episode = self._reset(own)
        return np.array(observation, np.float64), {}

    def step(self, action: Numbers) -> tuple[Any, float, bool, bool, dict]:
        """One action."""
        if self.episode is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        observation, self.episode, reward, _, info = self._step(self.episode, np.asarray(action))
        return (
            np.array(observation, np.float64),
            float(reward),
            bool(info["terminated"]),
            bool(info["truncated"]),
            {"failed": bool(info["failed"])},
        )


class VectorEnvironment(VectorEnv):
    """Many environments in one program; an episode that ends is reset in the same step, and its
    last observation stands in `info["final_obs"]`.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, env: Environment, count: int, seed: int = 0):
        self.env, self.num_envs, self.key = env, count, jax.random.key(seed)
        self.single_observation_space, self.single_action_space = _spaces(env)
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self.episodes = None
        self._reset, self._step = jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step))

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict | None = None
    ) -> tuple[Any, dict]:
        """The first observations, (n, ...)."""
        if seed is not None:
            first = seed if isinstance(seed, int) else next((x for x in seed if x is not None), 0)
            self.key = jax.random.key(first)
        observations, self.episodes = self._reset(self._keys())
        return np.array(observations, np.float64), {}

    def step(self, actions: Numbers) -> tuple[Any, Any, Any, Any, dict]:
        """One action each."""
        if self.episodes is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        observations, self.episodes, rewards, done, info = self._step(
            self._keys(), self.episodes, np.asarray(actions)
        )
        done = np.array(done)
        more = {"failed": np.array(info["failed"]), "_failed": np.ones(self.num_envs, bool)}
        if done.any():
            last = np.array(info["final_observation"], np.float64)
            rows = np.empty(self.num_envs, object)
            for k in np.nonzero(done)[0]:
                rows[k] = last[k]
            more |= {"final_obs": rows, "_final_obs": done}
        return (
            np.array(observations, np.float64),
            np.array(rewards, np.float64),
            np.array(info["terminated"]),
            np.array(info["truncated"]),
            more,
        )

    def _keys(self) -> Any:
        self.key, own = jax.random.split(self.key)
        return jax.random.split(own, self.num_envs)
