"""The tasks of the learning experiment by the package and by minimal coordinates, its evolution
strategy on a problem with a known optimum, and its quick form.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from experiments.learning import linkage, methods, problem, run
from helpers import quick_experiment

METHOD = mbd.GeneralizedAlpha(rho_inf=0.8)


def test_a_policy_moves_the_loop_as_it_moves_the_minimal_coordinates():
    policy = problem.Policy(jax.random.key(3))
    start = problem.draw(jax.random.key(4), 1.0)
    q, v = problem.followed(policy, start, h=1e-3, steps=200)
    errors = []
    for h in (0.02, 0.01):
        sol = mbd.simulate(
            *problem.built(policy, start), h=h, steps=round(0.2 / h), integrator=METHOD
        )
        got, rates = problem.coordinates(sol)
        every = slice(None, None, round(h / 1e-3))
        errors.append(np.max(np.abs(got - q[every])) + np.max(np.abs(rates - v[every])))
    assert errors[1] < 1e-2
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=1.0)  # second order


def test_the_torque_on_the_rocker_is_the_same_in_both_models():
    drive = jax.tree.map(lambda x: x[0], linkage.drives(jax.random.key(0), 1))
    exact = linkage.followed(linkage.true_torque, drive, h=1e-3, steps=200)
    without = linkage.followed(linkage.nothing, drive, h=1e-3, steps=200)
    h = 4e-3
    angle, result = linkage.simulated(linkage.true_torque, drive, h=h, steps=50, integrator=METHOD)
    assert result == mbd.RESULTS.successful
    miss = np.max(np.abs(angle - exact[::4]))
    assert miss < 0.02 * np.max(np.abs(without - exact))


def test_accelerations_determine_the_torque_on_the_rocker():
    drives = linkage.drives(jax.random.key(1), 2)
    t = np.linspace(0.1, 0.5, 5)
    random = np.random.default_rng(0)
    q, v = 1.0 + random.uniform(size=(2, 5)), random.normal(size=(2, 5))
    one = lambda drive, t, q, v: linkage.accelerations(linkage.true_torque, drive)(  # noqa: E731
        t, q[None], v[None]
    )[0]
    a = jax.vmap(jax.vmap(one, (None, 0, 0, 0)), (0, None, 0, 0))(drives, t, q, v)
    angle, rate, lever, load = linkage.needed(drives, t, q, v, a)
    np.testing.assert_allclose(load, linkage.true_torque(angle, rate) * lever, rtol=1e-8)


def test_evolution_finds_the_least_cost_and_counts_its_runs():
    class Point(eqx.Module):
        x: jax.Array

    def cost(point, start):
        return jnp.sum((point.x - 1.0) ** 2) + 0.1 * start

    settings = methods.Evolution(pairs=8, starts=2, deviation=0.1, rate=0.1)
    program = methods.evolution_program(
        cost, lambda key, share: jax.random.uniform(key), settings, 100
    )
    course = methods.by_evolution(
        program, Point(jnp.zeros(3)), settings, updates=100, seed=0, every=50
    )
    assert course.runs == [0, 50 * 32, 100 * 32]
    assert np.max(np.abs(course.policies[-1].x - 1.0)) < 0.1
    assert np.all(np.diff(course.seconds) > 0.0)


@pytest.mark.slow
def test_the_quick_form_trains_and_judges(tmp_path):
    results = quick_experiment("learning", tmp_path)
    assert set(results) == {"regulator", "by_hand"}
    for method in ("gradients", "evolution"):
        assert np.all(np.isfinite(results["by_hand"][method]["seeds"][0]["score"]))
    assert {x.name for x in tmp_path.glob("*.png")} == {"policy.png"}


@pytest.mark.slow
def test_the_quick_form_trains_through_the_simulator(tmp_path):
    results = quick_experiment("learning", tmp_path, "--part", "exact", "--part", "residual")
    assert np.all(np.isfinite(results["exact"]["seeds"][0]["score"]))
    assert results["residual"]["true_law"]["twice_the_length_rad"] < 1e-4
    assert {x.name for x in tmp_path.glob("*.png")} == {"policy.png", "residual.png"}


@pytest.mark.slow
def test_the_replay_by_the_package_agrees_with_the_judgement():
    size = run.QUICK._replace(starts=2, replayed=2)
    gain = [-10.0, -134.1, -14.3, -31.3]  # the best regulator of the experiment
    end = run.judged(problem.from_gain(gain), size)
    assert end["replay"]["failed"] == 0
    assert end["replay"]["largest_difference_of_tilt_deg"] < 1e-3
