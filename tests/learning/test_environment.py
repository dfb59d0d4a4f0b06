"""Environments: episodes, automatic resets, gradients, and gymnasium's own checker."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.rotations import so3

gymnasium = pytest.importorskip("gymnasium")


def five_bar():
    """Two cranks and two rods in a plane, which close a loop; a force element drives each crank."""
    m = mbd.Mechanism("five_bar", gravity=(0, 0, 0))
    places = {"a": (0, 0), "b": (0, 1), "c": (0.75, 1.6), "d": (1.5, 1), "e": (1.5, 0)}
    points = {name: (x, y, 0) for name, (x, y) in places.items()}
    for name, (one, other) in {"left": "ab", "upper": "bc", "lower": "cd", "right": "de"}.items():
        p, q = (np.array(points[x]) for x in (one, other))
        along = q - p
        size = (np.linalg.norm(along), 0.05, 0.05)
        turn = jnp.array([0.0, 0.0, np.arctan2(along[1], along[0])])
        m.add_body(
            name,
            shape=mbd.Box(size, mass=1.0),
            r=(p + q) / 2,
            A=so3.exp(turn),
        )
    joints = {"a": ("ground", "left"), "b": ("left", "upper"), "c": ("upper", "lower"),
              "d": ("lower", "right"), "e": ("right", "ground")}  # fmt: skip
    for name, (i, j) in joints.items():
        m.add(mbd.Revolute(name, i, j, point=points[name], axis=(0, 0, 1)))
    m.add(mbd.Frame("tip", "upper", point=points["c"]))
    for name, joint in (("left_motor", "a"), ("right_motor", "e")):
        m.add(mbd.Motor(name, joint, command=mbd.Input(name), effort_limit=2.0))
        m.add(mbd.JointSpring(f"{name}_friction", joint, damping=0.2))
    return m.build()


@pytest.fixture(scope="module")
def env():
    system, state = five_bar()

    def begin(key):
        angle = 0.2 * jax.random.uniform(key, (), minval=-1.0)
        return mbd.set_joints(system, state, {"a": angle})

    def reward(system, before, action, after):
        far = mbd.observe(system, after, ["tip.r.x", "tip.r.y"]) - jnp.array([0.9, 1.4])
        return -jnp.sum(far**2)

    return mbd.Environment(
        system,
        begin,
        ["a.angle", "e.angle", "a.rate", "e.rate"],
        reward,
        low=[-2.0, -2.0],
        high=[2.0, 2.0],
        h=5e-3,
        substeps=4,
        horizon=5,
    )


def test_an_episode_is_a_run_with_the_same_inputs(env):
    seen, episode = jax.jit(env.reset)(jax.random.key(3))
    state, actions = episode.carry.state, np.array([[1.0, -0.5], [5.0, 0.3], [-0.4, 0.0]])
    for action in actions:
        seen, episode, reward, done, info = jax.jit(env.step)(jax.random.key(0), episode, action)
        assert not bool(done) and not bool(info["failed"])
    held = np.repeat(np.clip(actions, -2.0, 2.0), 4, axis=0)
    sol = mbd.simulate(
        env.system,
        state,
        h=5e-3,
        steps=12,
        inputs={"left_motor": held[:, 0], "right_motor": held[:, 1]},
    )
    expected = [sol[x][-1] for x in ("a.angle", "e.angle", "a.rate", "e.rate")]
    # It starts without a torque, so that Newton's first guess differs.
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-6)
    tip = np.array([sol["tip.r.x"][-1], sol["tip.r.y"][-1]])
    np.testing.assert_allclose(reward, -np.sum((tip - [0.9, 1.4]) ** 2), atol=1e-6)
    # The loop is closed at the beginning, at a drawn angle.
    assert abs(float(sol["a.angle"][0])) > 1e-3
    assert float(jnp.max(jnp.abs(sol.violation().position))) < 1e-10


@pytest.mark.parametrize("pool", [False, True])
def test_episodes_end_by_time_and_begin_anew_in_a_batch(env, pool):
    own = env.with_starts(jax.random.key(7), 8) if pool else env
    count = 3
    seen, episodes = jax.jit(jax.vmap(own.reset))(jax.random.split(jax.random.key(0), count))
    take = jax.jit(jax.vmap(own.step))
    rng = np.random.default_rng(0)
    for k in range(11):
        actions = jnp.asarray(rng.uniform(-2, 2, (count, 2)))
        seen, episodes, rewards, done, info = take(
            jax.random.split(jax.random.key(k), count), episodes, actions
        )
        assert np.all(np.isfinite(seen)) and np.all(np.isfinite(rewards))
        assert np.all(done == ((k + 1) % 5 == 0)) and np.all(info["truncated"] == done)
        if done[0]:
            # New episodes are at rest; the last observation of the old ones is not.
            np.testing.assert_array_equal(seen[:, 2:], 0.0)
            assert np.all(np.abs(info["final_observation"][:, 2:]) > 0.0)
            assert np.all(episodes.steps == 0) and np.all(episodes.carry.steps == 0)
            if not pool:
                assert len(set(np.asarray(seen[:, 0]).tolist())) == count


def test_gradients_by_actions_are_those_of_differences(env):
    _, episode = jax.jit(env.reset)(jax.random.key(1))

    def total(actions):
        def one(episode, action):
            _, episode, reward, _, _ = env.step_within(episode, action)
            return episode, reward

        return jnp.sum(jax.lax.scan(one, episode, actions)[1])

    actions = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, (3, 2)))
    slope = jax.jit(jax.grad(total))(actions)
    value = jax.jit(total)
    for k in np.ndindex(3, 2):
        step = jnp.zeros((3, 2)).at[k].set(1e-5)
        difference = (value(actions + step) - value(actions - step)) / 2e-5
        np.testing.assert_allclose(slope[k], difference, rtol=1e-5, atol=1e-9)


def test_gymnasium_accepts_single_and_vector_environments(env):
    from gymnasium.utils.env_checker import check_env
    from gymnasium.wrappers.vector import RecordEpisodeStatistics

    with warnings.catch_warnings():
        # It warns of unbounded observations, which angles and rates are.
        warnings.filterwarnings("ignore", ".*infinity.*")
        warnings.filterwarnings("ignore", ".*normalized space.*")
        warnings.filterwarnings("ignore", ".*(spec|render).*")
        check_env(env.to_gymnasium(), skip_render_check=True)
    several = RecordEpisodeStatistics(env.to_gymnasium(4, seed=1))
    first, _ = several.reset(seed=5)
    assert first.shape == several.observation_space.shape
    for _ in range(5):
        actions = several.action_space.sample()
        seen, rewards, terminated, truncated, info = several.step(actions)
    assert truncated.all() and not terminated.any() and several.observation_space.contains(seen)
    assert info["final_obs"][0].shape == (4,) and info["episode"]["l"].tolist() == [5] * 4
    again, _ = several.reset(seed=5)
    np.testing.assert_array_equal(first, again)


def test_environments_that_make_no_sense_are_refused(env):
    numbers = {"h": 1e-3, "substeps": 1, "horizon": 1}
    m = mbd.Mechanism("ball")
    m.add_body("b", mass=1.0, inertia=(1, 1, 1))
    still, state = m.build()
    with pytest.raises(ValueError, match="'ball': it has no input to act by"):
        mbd.Environment(still, lambda k: state, [], lambda *x: 0.0, low=[], high=[], **numbers)
    with pytest.raises(ValueError, match="low must have 2 numbers"):
        mbd.Environment(
            env.system, env.begin, [], env.reward, low=[0.0], high=[1.0, 1.0], **numbers
        )
    with pytest.raises(ValueError, match="horizon must be at least 1"):
        mbd.Environment(
            env.system, env.begin, [], env.reward, low=[0, 0], high=[1, 1], h=1.0, substeps=1,
            horizon=0,
        )  # fmt: skip
    assert "2 actions" in repr(env)


def test_a_goal_is_drawn_in_every_reset_and_seen_by_all(env):
    def reward(system, before, action, after, goal):
        return -jnp.abs(mbd.observe(system, after, "a.angle") - goal["angle"])

    def begin(key):
        return env.begin(jax.random.key(0))  # the same state each time

    own = dataclasses.replace(
        env,
        begin=begin,
        reward=reward,
        terminated=lambda system, carry, goal: goal["angle"] > 2.0,
        goal=lambda key: {"angle": jax.random.uniform(key, ())},
        horizon=2,
    ).with_starts(jax.random.key(1), 1)
    take, action = jax.jit(own.step), jnp.zeros(2)
    seen, episode = jax.jit(own.reset)(jax.random.key(5))
    first = episode.goal["angle"]
    assert seen.shape == (5,) and seen[4] == first
    seen, episode, reward, done, _ = take(jax.random.key(6), episode, action)
    assert not done and seen[4] == episode.goal["angle"] == first
    np.testing.assert_allclose(reward, -abs(seen[0] - first))
    seen, episode, _, done, info = take(jax.random.key(7), episode, action)
    assert done and info["final_observation"][4] == first
    assert seen[4] == episode.goal["angle"] != first
    # A goal may end an episode.
    late = dataclasses.replace(episode, goal={"angle": jnp.asarray(3.0)})
    _, _, _, done, info = take(jax.random.key(8), late, action)
    assert done and info["terminated"]


def test_the_adapter_for_gymnax_is_the_environment_with_gymnax_signatures(env, monkeypatch):
    adapted, split = env.to_gymnax(), env.to_gymnax(split_done=True)
    params = adapted.default_params
    assert params.max_steps_in_episode == env.horizon
    assert adapted.name == "five_bar" and adapted.num_actions == 2
    actions, seen_space = adapted.action_space(params), adapted.observation_space(params)
    assert actions.shape == (2,) and seen_space.shape == (4,)
    action = actions.sample(jax.random.key(0))
    assert actions.contains(action) and not actions.contains(3.0 * env.high)

    key = jax.random.key(3)
    first, episode = jax.eval_shape(adapted.reset, key, params)
    assert first.shape == seen_space.shape and first.dtype == seen_space.dtype
    taken = []

    def step(self, *given):  # what it returns is taken apart; the step itself has its own tests
        taken.append((self, *given))
        info = {"terminated": "over", "truncated": "late"}
        return "seen", "episode", "reward", "done", info

    monkeypatch.setattr(mbd.Environment, "step", step)
    five, six = (x.step(key, episode, action, params) for x in (adapted, split))
    assert five[:4] == ("seen", "episode", "reward", "done") and len(five) == 5
    assert six[:5] == ("seen", "episode", "reward", "over", "late") and len(six) == 6
    for environment, *given in taken:
        assert environment is env and given[:2] == [key, episode]
        np.testing.assert_array_equal(given[2], action)


def test_a_squeezed_action_is_taken_by_the_adapter():
    adapted = mbd.environments.cart_pole().to_gymnax()
    begun = jax.eval_shape(adapted.reset, jax.random.key(0))
    found = jax.eval_shape(adapted.step, jax.random.key(0), begun[1], jnp.zeros(()))
    assert found[0].shape == (4,) and found[2].shape == ()


def sensed_cart(**errors):
    """A cart that is pushed and seen by an encoder."""
    m = mbd.Mechanism("cart", gravity=(0, 0, 0))
    body = m.add_body("cart", mass=2.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.Translational("rail", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "rail", control=mbd.Input("u", unit="N")))
    m.add(mbd.Encoder("encoder", "rail", **errors))
    system, state = m.build()
    return mbd.Environment(
        system,
        lambda key: state,
        ["rail.displacement", "encoder.displacement"],
        lambda system, before, action, after: 0.0,
        low=[-1.0],
        high=[1.0],
        h=0.01,
        substeps=2,
        horizon=6,
    )


def observations(env, count, key):
    """What is seen under a constant push, (count + 1, 2), over automatic resets."""
    first, episode = env.reset(key)

    def one(episode, key):
        seen, episode, _, _, info = env.step(key, episode, jnp.ones(1))
        return episode, (seen, info["final_observation"])

    _, (seen, last) = jax.lax.scan(one, episode, jax.random.split(key, count))
    return jnp.concatenate([first[None], seen]), last


def test_an_encoder_is_seen_with_its_delay_bias_and_noise_of_the_episode():
    """x = t²/4; a delay of two actions shows it later, in each episode anew."""
    late = sensed_cart(delay=0.04, bias=0.5, gain=2.0)
    seen, last = jax.jit(lambda key: observations(late, 9, key))(jax.random.key(0))
    # Six actions make an episode: the seventh observation is the first of the next one.
    t = np.array([0, 1, 2, 3, 4, 5, 0, 1, 2, 3]) * 0.02
    np.testing.assert_allclose(seen[:, 0], t**2 / 4, atol=1e-12)
    delayed = np.maximum(t - 0.04, 0.0)
    np.testing.assert_allclose(seen[:, 1], 2.0 * delayed**2 / 4 + 0.5, atol=1e-12)
    np.testing.assert_allclose(last[5], [0.12**2 / 4, 2.0 * 0.08**2 / 4 + 0.5], atol=1e-12)

    density, period = 1e-3, 0.02
    noisy = sensed_cart(noise_density=density, period=period)
    run = jax.jit(jax.vmap(lambda key: observations(noisy, 9, key)[0]))
    keys = jax.random.split(jax.random.key(1), 400)
    noise = np.asarray(run(keys)[:, :, 1] - run(keys)[:, :, 0])
    np.testing.assert_array_equal(noise, run(keys)[:, :, 1] - run(keys)[:, :, 0])
    # White noise of a density, sampled: deviation density/sqrt(period), independent from one
    # sample, one element and one episode to the next.
    wanted = density / np.sqrt(period)
    np.testing.assert_allclose(np.std(noise), wanted, rtol=5.0 / np.sqrt(2 * noise.size))
    correlation = np.corrcoef(noise, rowvar=False) - np.eye(10)
    assert np.max(np.abs(correlation)) < 5.0 / np.sqrt(len(keys))
