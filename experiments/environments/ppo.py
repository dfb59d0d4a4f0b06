"""Proximal policy optimization by rejax, through the adapter for gymnax."""

import time
from typing import NamedTuple

import jax
import numpy as np

from . import problem


class Settings(NamedTuple):
    """Of PPO; the others are rejax's defaults.

    Attributes:
        num_envs: Episodes at a time.
        num_steps: Actions of each between two updates.
        num_epochs, num_minibatches: Of an update.
        learning_rate: Of Adam.
        gamma, gae_lambda: Discount, and weight of later rewards in advantages.
        ent_coef: Weight of the entropy.
        iterations: Updates of a training.
        evaluations: Tests on the way.
    """

    num_envs: int = 64
    num_steps: int = 40
    num_epochs: int = 4
    num_minibatches: int = 8
    learning_rate: float = 1e-3
    gamma: float = 0.97
    gae_lambda: float = 0.95
    ent_coef: float = 0.0
    iterations: int = 120
    evaluations: int = 12

    @property
    def between(self) -> int:
        """Actions from one test to the next."""
        return self.num_envs * self.num_steps * (self.iterations // self.evaluations)


def installed() -> bool:
    """Whether rejax can be imported."""
    try:
        import rejax  # noqa: F401
    except ImportError:
        return False
    return True


def algorithm(settings: Settings, begun, horizon: int):
    """PPO on the five-bar, tested on the way without exploration."""
    from rejax import PPO

    env = problem.environment().to_gymnax()
    options = settings._asdict()
    iterations, _ = options.pop("iterations"), options.pop("evaluations")
    algo = PPO.create(
        env=env,
        agent_kwargs={"hidden_layer_sizes": (64, 64), "activation": "tanh"},
        normalize_rewards=False,
        total_timesteps=iterations * settings.num_envs * settings.num_steps,
        eval_freq=settings.between,
        max_grad_norm=0.5,
        skip_initial_evaluation=True,
        **options,
    )
    low, high = problem.environment().low, problem.environment().high

    def score(algo, state, key):
        def act(seen):
            mean = algo.actor.apply(state.actor_ts.params, seen, method=_mean)
            return mean.clip(low, high).astype(low.dtype)

        return problem.tested(act, begun, horizon)

    return algo.replace(eval_callback=score)


def _mean(actor, seen):
    """The most likely action."""
    return actor._action_dist(seen[None]).mode()[0]


def train(settings: Settings, seeds: int, begun, horizon: int, keep) -> dict:
    """Trainings from several seeds by one compiled program."""
    algo = algorithm(settings, begun, horizon)
    began = time.process_time()
    program = jax.jit(algo.train).lower(jax.random.key(0)).compile()
    found = {"settings": settings._asdict(), "compiling_s": time.process_time() - began}
    found["actions"] = [settings.between * k for k in range(1, settings.evaluations + 1)]
    found["seeds"] = []
    for seed in range(seeds):
        began = time.process_time()
        _, score = jax.block_until_ready(program(jax.random.key(seed)))
        spent = time.process_time() - began
        value, distance = (np.asarray(x) for x in score)
        found["seeds"].append(
            {
                "processor_s": spent,
                "mean_return": value.mean(axis=1).tolist(),
                "median_distance_m": np.median(distance, axis=1).tolist(),
            }
        )
        keep(found)
    return found
