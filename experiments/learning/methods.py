"""Two ways to train a policy: by gradients, and by an evolution strategy. Both keep the policies on
the way, with the simulated time and the processor time that they took.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from tqdm import tqdm

import jaxmbd as mbd


class Course(NamedTuple):
    """Policies on the way of a training.

    Attributes:
        policies: The first is the untrained one.
        runs: Simulated so far, for each.
        seconds: Processor time so far, without compilation and the first update [s].
        compiling: Processor time of compilation and the first update [s].
    """

    policies: list[Any]
    runs: list[int]
    seconds: list[float]
    compiling: float


class _Recorder:
    """Keeps a policy every few updates."""

    def __init__(self, policy, runs_of_update: int, every: int):
        self.course = Course([policy], [0], [0.0], 0.0)
        self.runs, self.every = runs_of_update, every
        self.begin = time.process_time()

    def __call__(self, k: int, policy) -> None:
        if k == 0:
            self.course = self.course._replace(compiling=time.process_time() - self.begin)
            self.begin = time.process_time()
        if (k + 1) % self.every == 0:
            # The first update is not in the time; the mean of the others stands for it.
            spent = (time.process_time() - self.begin) * (k + 1) / max(k, 1)
            self.course.policies.append(policy)
            self.course.runs.append((k + 1) * self.runs)
            self.course.seconds.append(spent)


def by_gradients(
    loss: Callable, draw: Callable, policy, optimizer, *, updates, batch, seed, every
) -> Course:
    """`mbd.train`; `loss` returns a cost and `Solution.result`."""
    record = _Recorder(policy, batch, every)
    mbd.train(
        policy,
        loss,
        draw,
        updates=updates,
        batch=batch,
        optimizer=optimizer,
        seed=seed,
        log=lambda k, numbers, policy: record(k, policy),
        progress=False,
    )
    return record.course


def adam(rate: float, updates: int):
    """Adam with cosine decay and clipped gradients, as `mbd.train` has it by default."""
    schedule = optax.cosine_decay_schedule(rate, updates)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))


class Evolution(NamedTuple):
    """Settings of the evolution strategy.

    Attributes:
        pairs: Antithetic pairs of perturbed policies in an update.
        starts: Drawn in each update, the same for all policies.
        deviation: Of the perturbations of a weight.
        rate: Of Adam, with cosine decay.
    """

    pairs: int = 8
    starts: int = 4
    deviation: float = 0.3
    rate: float = 0.1

    @property
    def runs(self) -> int:
        """Simulated in an update."""
        return 2 * self.pairs * self.starts


def evolution_program(cost: Callable, draw: Callable, settings: Evolution, updates: int):
    """An update of the strategy: from a policy, Adam's state, a key and the
    share of the updates done to a new policy and state.

    Salimans et al., "Evolution strategies as a scalable alternative to reinforcement learning",
    arXiv 1703.03864 (2017): antithetic perturbations, ranks in place of costs, Adam.

    Args:
        cost: Of a policy and a start; infinite or NaN where a run fails.
        draw: A start from a key and the share of the updates that are done.
        settings: Of the strategy.
        updates: Over which the rate decays.
    """
    optimizer = optax.adam(optax.cosine_decay_schedule(settings.rate, updates))

    @eqx.filter_jit
    def update(policy, state, key, share):
        arrays, rest = eqx.partition(policy, eqx.is_inexact_array)
        flat, shaped = jax.flatten_util.ravel_pytree(arrays)
        of_starts, of_noise = jax.random.split(key)
        keys = jax.random.split(of_starts, settings.starts)
        starts = jax.vmap(lambda key: draw(key, share))(keys)
        noise = jax.random.normal(of_noise, (settings.pairs, flat.size), flat.dtype)
        both = settings.deviation * jnp.concatenate([noise, -noise])

        def mean(change):
            perturbed = eqx.combine(shaped(flat + change), rest)
            return jnp.mean(jax.vmap(lambda start: cost(perturbed, start))(starts))

        costs = jnp.nan_to_num(jax.vmap(mean)(both), nan=jnp.inf)
        ranks = jnp.argsort(jnp.argsort(costs)).astype(flat.dtype) / (costs.size - 1.0) - 0.5
        change = ranks[: settings.pairs] - ranks[settings.pairs :]
        slope = shaped(change @ noise / (2.0 * settings.pairs * settings.deviation))
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers
            step, state = optimizer.update(slope, state, arrays)
        return eqx.apply_updates(policy, step), state

    return update, lambda policy: optimizer.init(eqx.filter(policy, eqx.is_inexact_array))


def by_evolution(program, policy, settings: Evolution, *, updates, seed, every) -> Course:
    """The policies of an evolution strategy, by `evolution_program`."""
    update, begin = program
    record, state = _Recorder(policy, settings.runs, every), begin(policy)
    keys = jax.random.split(jax.random.key(seed), updates)
    for k in tqdm(range(updates), desc="evolution", leave=False):
        found = update(policy, state, keys[k], jnp.asarray(k / updates))
        policy, state = jax.block_until_ready(found)
        record(k, policy)
    return record.course
