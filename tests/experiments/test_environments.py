"""The task of the environments experiment: targets, the soft loop, and its quick form."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from experiments.environments import problem, soft
from helpers import quick_experiment

JOINTS = ["left.angle", "left knee.angle", "right.angle", "right knee.angle"]


@functools.cache
def five_bar():
    return mbd.environments.five_bar()


def test_crank_angles_in_closed_form_put_the_tip_at_the_target():
    env, target = five_bar(), jnp.array([0.1, 0.75])
    left, right = problem.crank_angles(target)
    state = mbd.set_joints(env.system, env.begin(jax.random.key(0)), {"left": left, "right": right})
    sol = mbd.simulate(
        env.system, state, h=1e-3, steps=1, inputs={"left torque": 0.0, "right torque": 0.0}
    )
    # Poses are assembled to 1e-10 of the mechanism's size.
    place = [sol["tip.r.x"][0], sol["tip.r.z"][0]]
    np.testing.assert_allclose(place, target, atol=1e-8)
    # The plane geometry of the soft model from the angles of all four joints.
    tips = soft.tips([sol[name][0] for name in JOINTS])
    np.testing.assert_allclose(tips, [target, target], atol=1e-8)


@pytest.mark.slow
def test_mujoco_moves_the_arm_as_the_environment_does():
    mujoco = pytest.importorskip("mujoco")
    env = dataclasses.replace(five_bar(), h=1e-3, substeps=40)
    actions = np.array([[0.5, -0.3], [-0.2, 0.6], [0.4, 0.4]])
    _, episode = jax.jit(env.reset)(jax.random.key(1))
    start = mbd.observe(env.system, episode.carry, JOINTS)
    h = 1e-4
    model = mujoco.MjModel.from_xml_string(soft.described(h))
    data = mujoco.MjData(model)
    data.qpos[:] = np.asarray(start)
    take = jax.jit(env.step_within)
    for action in actions:
        _, episode, _, _, info = take(episode, action)
        assert not info["failed"]
        data.qfrc_applied[:] = 2.0 * np.array([action[0], 0.0, action[1], 0.0])
        for _ in range(400):
            mujoco.mj_step(model, data)
    ours = soft.tips(mbd.observe(env.system, episode.carry, JOINTS))
    theirs = soft.tips(jnp.asarray(data.qpos))
    moved = np.linalg.norm(ours[0] - soft.tips(start)[0])
    assert moved > 0.01
    # MuJoCo's Euler steps are of first order, at a thousandth of this time.
    assert np.max(np.abs(theirs.mean(axis=0) - ours[0])) < 5e-3 * moved
    # The loop of the environment is closed, that of MuJoCo almost.
    assert np.linalg.norm(ours[0] - ours[1]) < 1e-8
    assert np.linalg.norm(theirs[0] - theirs[1]) < 1e-4


@pytest.mark.slow
def test_the_quick_form_tests_control_by_hand(tmp_path):
    results = quick_experiment("environments", tmp_path)
    assert set(results) == {"by_hand"}
    assert results["by_hand"]["by_hand"]["mean_return"] < 0.0


@pytest.mark.slow
def test_the_quick_form_trains_by_gradients_and_draws_the_curves(tmp_path):
    results = quick_experiment("environments", tmp_path, "--part", "exact")
    (seed,) = results["exact"]["seeds"]
    assert np.all(np.isfinite(seed["mean_return"])) and seed["failed"] == 0
    assert {x.name for x in tmp_path.glob("*.png")} == {"learning_curves.png"}
