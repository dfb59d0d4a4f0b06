"""Environments that the package brings along: resets, episodes, gradients, gymnasium's checker."""

import dataclasses
import functools
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.analyses.carry import row_of

NAMES = mbd.environments.names()
CLOSED = 1e-8  # residual of a reset [m], [-]; assembly stops at 1e-10 of the mechanism's size
# Programs of closed loops take longer than a default test may; each test keeps its cheapest.
FIRST = [
    pytest.param(name, marks=[] if name == "cart_pole" else pytest.mark.slow) for name in NAMES
]


@functools.cache
def made(name):
    return getattr(mbd.environments, name)()


def residual(env, carry):
    found = row_of(env.system, carry).violation()
    return jnp.max(jnp.abs(found.position)), jnp.max(jnp.abs(found.velocity))


def test_the_list_names_functions_that_return_environments():
    assert NAMES == ["cart_pole", "five_bar", "hopping_leg", "stewart"]
    env = mbd.environments.cart_pole()
    assert isinstance(env, mbd.Environment) and "cart_pole" in repr(env)


def test_nothing_is_computed_when_the_package_is_imported():
    code = (
        "import sys, jax, jaxmbd\n"
        "from jax._src import xla_bridge\n"
        "sys.exit(bool(xla_bridge._backends))"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n in ("hopping_leg", "stewart") else [])
        for n in NAMES
    ],
)
def test_resets_are_random_and_close_the_loops(name):
    env = made(name)

    @jax.jit
    def begun(key):
        seen, episode = env.reset(key)
        return seen, residual(env, episode.carry), episode.carry.result

    seen, open_by, result = jax.vmap(begun)(jax.random.split(jax.random.key(0), 8))
    assert np.all(np.asarray(open_by) < CLOSED)
    assert np.all(result == mbd.RESULTS.successful)
    assert np.all(np.isfinite(seen)) and len(np.unique(np.asarray(seen)[:, 0])) == 8


@pytest.mark.parametrize("name", FIRST)
def test_random_actions_stay_finite_and_episodes_begin_anew(name):
    env, count = dataclasses.replace(made(name), horizon=8), 8

    @jax.jit
    def play(key):
        seen, episodes = jax.vmap(env.reset)(jax.random.split(key, count))

        def one(carry, key):
            shape = (count, env.action_size)
            actions = jax.random.uniform(key, shape, minval=env.low[0], maxval=env.high[0])
            seen, episodes, rewards, done, info = jax.vmap(env.step)(
                jax.random.split(key, count), carry[1], actions
            )
            open_by = jax.vmap(functools.partial(residual, env))(episodes.carry)
            told = (seen, rewards, done, info["failed"], episodes.steps, open_by[0])
            return (seen, episodes), told

        return jax.lax.scan(one, (seen, episodes), jax.random.split(key, 20))[1]

    seen, rewards, done, failed, steps, open_by = map(np.asarray, play(jax.random.key(1)))
    assert np.all(np.isfinite(seen)) and np.all(np.isfinite(rewards)) and not failed.any()
    # Every episode ends after eight actions or before, and the next one begins.
    assert np.all(done.sum(axis=0) >= 2) and np.all(steps[done] == 0) and np.all(steps < 8)
    assert len(np.unique(seen[done][:, 0])) == done.sum()
    # Newton's method ends at 1e-9 of the mechanism's size after a step.
    assert np.all(open_by < 1e-6)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if n == "cart_pole" else pytest.mark.slow)
        for n in ("cart_pole", "five_bar", "stewart")  # those without contact
    ],
)
def test_the_slope_of_a_return_by_a_policy_is_that_of_differences(name):
    env = made(name)
    shape = (env.action_size, *jax.eval_shape(env.reset, jax.random.key(0))[0].shape)
    law = jnp.asarray(np.random.default_rng(0).normal(size=shape))
    begin = jax.jit(env.reset)(jax.random.key(4))

    def total(gain):
        def one(carry, _):
            seen, episode = carry
            action = jnp.tanh(gain * (law @ seen))
            seen, episode, reward, _, _ = env.step_within(episode, action)
            return (seen, episode), reward

        return jnp.sum(jax.lax.scan(one, begin, length=10)[1])

    # One program for all three: compiling takes the time of this test.
    both, gain, step = jax.jit(jax.value_and_grad(total)), jnp.asarray(0.3), 1e-4
    value, slope = both(gain)
    ahead, behind = (both(gain + k * step)[0] for k in (1, -1))
    assert np.isfinite(value)
    # Differences err by step² and by the tolerance of Newton's method over the step.
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize("name", FIRST)
def test_gymnasium_accepts_every_environment(name):
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        # It warns of unbounded observations, which angles and rates are.
        warnings.filterwarnings("ignore", ".*infinity.*")
        warnings.filterwarnings("ignore", ".*(spec|render).*")
        check_env(made(name).to_gymnasium(), skip_render_check=True)


def test_the_motor_of_the_cart_gives_less_where_the_cart_is_fast():
    env = made("cart_pole")
    system, state = env.system, env.begin(jax.random.key(0))
    efforts = []
    for speed in (0.0, 2.0, 5.0):
        moving = mbd.set_joints(system, state, {"rail": {"speed": speed}})
        carry = mbd.start(system, moving, h=1e-3, inputs={"effort": 1.0})
        efforts.append(float(mbd.observe(system, carry, "motor.force")))
    np.testing.assert_allclose(efforts, [10.0, 5.0, 0.0], atol=1e-9)


@pytest.mark.slow
def test_the_target_of_the_platform_moves_as_its_rate_says():
    from jaxmbd.learning.environments.stewart import target_pose

    goal = jnp.stack([jnp.linspace(0.01, 0.1, 6), jnp.linspace(0.0, 3.0, 6)])
    env = made("stewart")
    seen, episode = jax.jit(env.reset)(jax.random.key(2))
    episode = dataclasses.replace(episode, goal=goal)
    seen, episode, reward, _, _ = jax.jit(env.step_within)(episode, jnp.zeros(6))
    t = float(episode.carry.t)
    ahead, behind = (np.concatenate(target_pose(goal, jnp.asarray(t + d))) for d in (1e-6, -1e-6))
    # A difference quotient at 1e-6 s.
    np.testing.assert_allclose(seen[24:], (ahead - behind) / 2e-6, atol=1e-8)
    np.testing.assert_allclose(
        seen[18:21], episode.carry.state.r[env.system.bodies.index("platform")] - ahead[:3],
        atol=1e-6,
    )  # fmt: skip


@pytest.mark.slow
def test_the_leg_stands_still_under_its_spring():
    # Twice the length of a link at 40 degrees, and the weight on a contact of 1e5 N/m^1.5.
    env = made("hopping_leg")
    system = env.system.with_inputs({"torque": 0.0})
    rest = mbd.equilibrium(system, env.begin(jax.random.key(0))).motion
    assert abs(float(rest["slide.displacement"][0])) < 0.03
    sunk = (9.81 * 2.45 / 1e5) ** (2 / 3)
    np.testing.assert_allclose(rest["foot.r.z"][0], 0.02 - sunk, atol=1e-5)
