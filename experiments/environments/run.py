"""A five-bar with a closed loop learns to reach: PPO of a library, exact gradients through the same
environment, control by hand, and the same mechanism with a soft loop in MJX.

python -m experiments environments [--out DIR] [--quick] [--part ...]
"""

import dataclasses
import functools
import json
import time
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm import tqdm

import jaxmbd as mbd

from ..options import parts
from . import figures, ppo, problem, soft

RATE = 5e-3  # of Adam


class Size(NamedTuple):
    """Of a run of this experiment.

    Attributes:
        seeds: Trainings of each kind.
        tests: Episodes of the test.
        horizon: Actions of an episode.
        updates: Of a training by gradients.
        batch: Episodes in each of them.
        every: Updates between two tests.
        of_ppo: Settings of PPO.
        batch_of_steps: Episodes at a time where steps are timed.
        fine: How many times as many steps a reference takes.
    """

    seeds: int = 5
    tests: int = 64
    horizon: int = 40
    updates: int = 150
    batch: int = 16
    every: int = 10
    of_ppo: ppo.Settings = ppo.Settings()
    batch_of_steps: int = 64
    fine: int = 16


QUICK = Size(
    seeds=1,
    tests=4,
    horizon=4,
    updates=2,
    batch=2,
    every=1,
    of_ppo=ppo.Settings(num_envs=4, num_steps=4, num_minibatches=2, iterations=2, evaluations=2),
    batch_of_steps=4,
    fine=2,
)
QUICK_PARTS = ("by_hand",)  # the others compile for longer


def by_hand(size: Size, keep) -> dict:
    """No torques; and proportional and derivative control to the angles that the target needs."""
    begun, found = problem.beginnings(size.tests), {}

    @jax.jit
    def test(share):
        return problem.tested(lambda seen: share * problem.by_hand(seen), begun, size.horizon)

    for name, share in (("nothing", 0.0), ("by_hand", 1.0)):
        score = test(share)
        found[name] = {
            "mean_return": float(jnp.mean(score.value)),
            "median_distance_m": float(jnp.median(score.distance)),
            "largest_distance_m": float(jnp.max(score.distance)),
        }
    return found


def by_ppo(size: Size, keep) -> dict:
    """PPO of rejax."""
    if not ppo.installed():
        return {"missing": "rejax is not installed: pip install rejax==0.1.3"}
    begun = problem.beginnings(size.tests)
    return ppo.train(size.of_ppo, size.seeds, begun, size.horizon, keep)


def exact(size: Size, keep) -> dict:
    """`mbd.train` by gradients of the return, of short beginnings of episodes first."""
    return _by_gradients(size, keep, lambda share: jnp.minimum(1.0, 0.1 + 1.2 * share))


def whole_episodes(size: Size, keep) -> dict:
    """The same by gradients of the return of whole episodes from the first update on."""
    return _by_gradients(size, keep, jnp.ones_like)


def _by_gradients(size: Size, keep, until) -> dict:
    """Trainings whose loss counts rewards up to a share of the episode; `until` is that share by
    the share of the updates already done.
    """
    env, begun = problem.environment(), problem.beginnings(size.tests)
    instants = np.arange(size.horizon) / size.horizon  # the first counts always

    def loss(policy, start):
        begun, until = start
        rewards, _, result = problem.played(env, policy, begun, size.horizon)
        counts = jnp.where(instants < until, 1.0, 0.0)
        return -jnp.sum(counts * rewards) / jnp.sum(counts), result

    def starts(key, share):
        return env.reset(key), until(share)

    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(RATE, size.updates))
    )
    test = eqx.filter_jit(lambda policy: problem.tested(policy, begun, size.horizon))
    found = {"actions_of_an_update": size.batch * size.horizon, "seeds": []}
    for seed in range(size.seeds):
        course = _Course(test, size.every)
        done = mbd.train(
            problem.Policy(jax.random.key(seed)),
            loss,
            starts,
            updates=size.updates,
            batch=size.batch,
            optimizer=optimizer,
            seed=seed,
            log=course,
            progress=False,
        )
        found["seeds"].append(course.summary() | {"failed": int(done.failed.sum())})
        keep(found)
    return found


class _Course:
    """Tests on the way of a training, and its processor time without them and without the first
    update, which compiles.
    """

    def __init__(self, test, every: int):
        self.test, self.every = test, every
        self.began, self.first, self.spent, self.rows = time.process_time(), 0.0, 0.0, []

    def __call__(self, k: int, numbers, policy) -> None:
        took = time.process_time() - self.began
        if k:
            self.spent += took
        else:
            self.first = took
        if (k + 1) % self.every == 0:
            score = self.test(policy)
            self.rows.append(
                (k + 1, self.spent, float(score.value.mean()), float(jnp.median(score.distance)))
            )
        self.began = time.process_time()

    def summary(self) -> dict:
        names = ("updates", "processor_s", "mean_return", "median_distance_m")
        return {"first_update_s": self.first} | {
            name: [row[i] for row in self.rows] for i, name in enumerate(names)
        }


def loops(size: Size, keep) -> dict:
    """The same motions with the exact loop and with a soft one: what is left open, how far the tips
    are from those of small steps, and steps per second.
    """
    if not soft.installed():
        return {"missing": "mujoco and mujoco-mjx are not installed: pip install 'jaxmbd[bench]'"}
    env = problem.environment()
    _, episodes = problem.beginnings(size.batch_of_steps)
    names = ["left.angle", "left knee.angle", "right.angle", "right knee.angle"]
    angles = functools.partial(mbd.observe, env.system, names=names)
    begun = jax.vmap(angles)(episodes.carry)
    shape = (size.batch_of_steps, size.horizon, 2)
    actions = jnp.asarray(np.random.default_rng(0).uniform(-0.5, 0.5, shape))

    def ours(refined: int):
        """Episodes at a step of h / refined."""
        own = dataclasses.replace(env, h=env.h / refined, substeps=env.substeps * refined)

        def one(episode, actions):
            carry = dataclasses.replace(episode.carry, h=own.h)

            def act(episode, action):
                _, episode, reward, _, _ = own.step_within(episode, action)
                return episode, (reward, angles(episode.carry))

            return jax.lax.scan(act, dataclasses.replace(episode, carry=carry), actions)[1]

        return jax.vmap(one)

    h, substeps = float(env.h), env.substeps
    found: dict = {"batch": size.batch_of_steps, "step_s": h}
    steps = size.batch_of_steps * size.horizon * substeps
    compiling, took, (_, q) = soft.timed(ours(1), episodes, actions, repeats=3)
    motions = {"exact": q}
    found["exact"] = {"compiling_s": compiling, "steps_per_s": steps / took}
    run = functools.partial(soft.played, soft.model(h), substeps=substeps)
    given = (begun, episodes.goal, actions)
    compiling, took, (_, motions["soft"]) = soft.timed(jax.vmap(run), *given, repeats=3)
    found["soft"] = {"compiling_s": compiling, "steps_per_s": steps / took}
    keep(found)
    fine = size.fine * substeps
    _, _, (_, reference) = soft.timed(ours(size.fine), episodes, actions, repeats=1)
    run = functools.partial(soft.played, soft.model(h / size.fine), substeps=fine)
    _, _, (_, other) = soft.timed(jax.vmap(run), *given, repeats=1)
    tips = jax.vmap(jax.vmap(soft.tips))
    place = jnp.mean(tips(reference), axis=2)
    found["fine"] = {
        "step_s": h / size.fine,
        "largest_difference_from_mjx_m": _largest(jnp.mean(tips(other), axis=2) - place),
    }
    for name, q in motions.items():
        ends = tips(q)
        found[name]["largest_opening_m"] = _largest(ends[:, :, 0] - ends[:, :, 1])
        off = jnp.linalg.norm(jnp.mean(ends, axis=2) - place, axis=-1)
        found[name]["rms_error_of_tip_m"] = float(jnp.sqrt(jnp.mean(off**2)))
    return found


def _largest(x) -> float:
    """Largest length of vectors, (..., 2)."""
    return float(jnp.max(jnp.linalg.norm(x, axis=-1)))


PARTS = {
    "by_hand": by_hand,
    "ppo": by_ppo,
    "exact": exact,
    "whole_episodes": whole_episodes,
    "loops": loops,
}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """Short episodes, few updates and one part where `quick`."""
    jax.config.update("jax_disable_most_optimizations", quick)
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() else {}

    def keep(part, found):
        results[part] = found
        target.write_text(json.dumps(results, indent=1) + "\n")

    for part in tqdm(chosen or (QUICK_PARTS if quick else PARTS), desc="environments"):
        begin = time.process_time()
        size = QUICK if quick else Size()
        found = PARTS[part](size, functools.partial(keep, part))
        keep(part, found | {"total_processor_s": time.process_time() - begin})
    figures.curves(results, out)
    print(json.dumps(results, indent=1))
