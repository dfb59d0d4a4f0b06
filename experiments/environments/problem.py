"""The task: the five-bar that reaches a target, its policy, its test, and control by hand."""

import dataclasses
import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.learning.environments.five_bar import BASE, KNEE, TIP

SCALE = np.array([1.0, 1.0, 0.2, 0.2, 1.0, 1.0, 1.0, 1.0])  # of the observation
GAINS = (8.0, 1.6)  # of the controller by hand: [1/rad], [s/rad], in shares of the torque


@functools.cache
def environment() -> mbd.Environment:
    """The packaged environment, its resets chosen among 256 beginnings."""
    return mbd.environments.five_bar().with_starts(jax.random.key(99), 256)


class Policy(eqx.Module):
    """A network from an observation to an action in (-1, 1)."""

    net: eqx.nn.MLP

    def __init__(self, key):
        net = eqx.nn.MLP(8, 2, 64, 2, activation=jnp.tanh, key=key, dtype=jnp.float64)
        # Small torques first: a random network throws the arm around.
        self.net = eqx.tree_at(lambda net: net.layers[-1].weight, net, replace_fn=lambda x: 0.1 * x)

    def __call__(self, seen):
        return jnp.tanh(self.net(SCALE * seen))


def played(env: mbd.Environment, act, beginning, horizon: int):
    """An episode from an observation and an episode: returns rewards, and observations after each
    action.
    """

    def one(carry, _):
        seen, episode = carry
        seen, episode, reward, _, _ = env.step_within(episode, act(seen))
        return (seen, episode), (reward, seen)

    (_, episode), (rewards, seen) = jax.lax.scan(one, beginning, length=horizon)
    return rewards, seen, episode.carry.result


class Score(NamedTuple):
    """Of a policy in the test.

    Attributes:
        value: Sum of rewards of each episode, (n,).
        distance: Of the tip from the target at the end of each [m], (n,).
    """

    value: jax.Array
    distance: jax.Array


@functools.cache
def beginnings(count: int):
    """Observations and episodes of the test, which no training draws."""
    env = dataclasses.replace(environment(), starts=None)
    drawn = jax.random.split(jax.random.key(54321), count)
    return jax.block_until_ready(jax.jit(jax.vmap(env.reset))(drawn))


def tested(act, begun, horizon: int) -> Score:
    """A policy without noise in the episodes of the test."""
    rewards, seen, _ = jax.vmap(lambda x: played(environment(), act, x, horizon))(begun)
    away = seen[:, -1, 4:6] - seen[:, -1, 6:8]
    return Score(jnp.sum(rewards, axis=1), jnp.linalg.norm(away, axis=1))


def crank_angles(target):
    """Angles of the left and of the right crank that put the tip at a target [rad], by the law of
    cosines; knees outward.
    """
    x0, z0 = BASE
    crank = np.linalg.norm(KNEE - BASE)
    rod = np.linalg.norm(TIP - KNEE)

    def right(x, z):
        dx, dz = x - x0, z - z0
        far = jnp.sqrt(dx**2 + dz**2)
        opened = jnp.arccos((crank**2 + far**2 - rod**2) / (2.0 * crank * far))
        return jnp.arctan2(dz, dx) - opened

    at_home = np.arctan2(*(KNEE - BASE)[::-1])
    # The left half is the mirror image: its cranks turn the other way.
    return jnp.stack([at_home - right(-target[0], target[1]), right(*target) - at_home])


def by_hand(seen):
    """Proportional and derivative control of the cranks, with the target's closed form."""
    wanted = crank_angles(seen[6:8])
    return jnp.clip(GAINS[0] * (wanted - seen[:2]) - GAINS[1] * seen[2:4], -1.0, 1.0)
