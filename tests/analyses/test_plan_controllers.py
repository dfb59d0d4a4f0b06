"""Controllers made of plans: feedback along a plan, and plans made anew at every sample."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from planned import pendulum, sliding_block
from scipy import linalg

import jaxmbd as mbd

MASS, LENGTH = 1.0, 0.1  # of the block [kg], between two knots [s]


def block_at(x, v):
    system, state = sliding_block()
    return system, mbd.set_joints(system, state, {"rail": {"displacement": x, "speed": v}})


def exact_samples():
    """x and ẋ of the block after an interval with a held force."""
    A = np.array([[1.0, LENGTH], [0.0, 1.0]])
    return A, np.array([[0.5 * LENGTH**2], [LENGTH]]) / MASS


@pytest.fixture(scope="module")
def pull():
    """The block goes home, at least ∫ x² + f²/10 dt and ten times what is left at the end."""
    system, state = block_at(0.4, 0.0)
    return mbd.optimal_control(
        *(system, state, ["f"], 10 * LENGTH),
        stage=lambda now: jnp.stack([now["rail.displacement"], 10.0**-0.5 * now["f"]]),
        final=lambda now: 10.0**0.5 * jnp.stack([now["rail.displacement"], now["rail.speed"]]),
        limits={"f": (-8.0, 8.0)},
        knots=10,
        steps=2,
        tolerance=1e-10,
        hessian="gauss_newton",
    )


@pytest.mark.essential
def test_along_a_plan_of_a_linear_motion_the_gain_is_that_of_the_regulator(pull):
    controller = mbd.track(
        pull, {"rail.displacement": 4.0, "rail.speed": 1.0}, {"f": 0.1}, h=LENGTH / 20
    )
    A, B = exact_samples()
    Q, R = np.diag([4.0, 1.0]) * LENGTH, np.array([[0.1]]) * LENGTH
    P = linalg.solve_discrete_are(A, B, Q, R)
    gain = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)[0]
    system = pull.problem.system
    x = np.array([0.05, -0.2])
    _, state = block_at(float(pull.states.r[3, 0, 0]) + x[0], float(pull.states.v[3, 0, 0]) + x[1])
    carry = mbd.start(system, state, h=0.01, inputs={"f": 0.0})
    seen = mbd.observe(system, carry, controller.observes)
    _, command = controller((), seen, pull.t[3])
    assert float(command[0]) == pytest.approx(float(pull.inputs["f"][3]) - gain @ x, abs=1e-9)
    assert controller.period == 20
    _, between = controller((), seen, 0.5 * (pull.t[3] + pull.t[4]))  # of a run with other steps
    assert np.isnan(between[0])


def test_feedback_brings_a_pendulum_back_to_its_plan():
    system, state = pendulum()
    plan = mbd.optimal_control(
        *(system, state, ["torque"], 1.2),
        stage=lambda now: now["torque"] ** 2,
        reach={"pin.angle": 2.5, "pin.rate": 0.0},
        knots=24,
        steps=2,
    )
    h = 0.05 / 10
    controller = mbd.track(plan, {"pin.angle": 40.0, "pin.rate": 1.0}, {"torque": 0.1}, h=h)
    aside = mbd.set_joints(system, state, {"pin": {"angle": 0.2, "rate": -0.5}})
    alone = mbd.simulate(system, aside, h=h, steps=240, inputs=plan.inputs_by_step(10))
    led = mbd.simulate(system, aside, h=h, steps=240, controller=controller)
    assert abs(led["pin.angle"][-1] - 2.5) < 0.05 * abs(alone["pin.angle"][-1] - 2.5)


def test_what_a_tracker_cannot_be_made_of_is_refused(pull):
    weights = {"rail.displacement": 1.0}
    with pytest.raises(ValueError, match="the weight of 'f' is missing"):
        mbd.track(pull, weights, {}, h=0.01)
    with pytest.raises(ValueError, match="no planned input 'g'"):
        mbd.track(pull, weights, {"f": 1.0, "g": 1.0}, h=0.01)
    with pytest.raises(ValueError, match="did you mean 'rail.displacement'"):
        mbd.track(pull, {"rail.displacment": 1.0}, {"f": 1.0}, h=0.01)
    with pytest.raises(ValueError, match=r"must be a multiple of the step, h=0\.03 s"):
        mbd.track(pull, weights, {"f": 1.0}, h=0.03)


def test_a_predictive_controller_gives_what_a_plan_from_the_same_state_begins_with(pull):
    controller = mbd.mpc(
        pull, h=0.01, every=0.05, iterations=3, barrier=1e-9, hessian="gauss_newton"
    )
    sample = eqx.filter_jit(lambda c, *given: c(*given))
    for x, v in ((0.4, 0.0), (-0.3, 1.0), (1.5, 2.0)):  # the last at the limit of the force
        system, state = block_at(x, v)
        carry = mbd.start(system, state, h=0.01, inputs={"f": 0.0})
        seen = mbd.observe(system, carry, controller.observes)
        memory = controller.start()
        for _ in range(6):
            memory, command = sample(controller, memory, seen, jnp.asarray(0.0))
        plan = mbd.optimal_control(
            *(system, state, ["f"], 10 * LENGTH),
            stage=lambda now: jnp.stack([now["rail.displacement"], 10.0**-0.5 * now["f"]]),
            final=lambda now: 10.0**0.5 * jnp.stack([now["rail.displacement"], now["rail.speed"]]),
            limits={"f": (-8.0, 8.0)},
            knots=10,
            steps=2,
            hessian="gauss_newton",
        )
        assert float(command[0]) == pytest.approx(float(plan.inputs["f"][0]), abs=1e-5)


def test_a_predictive_controller_brings_the_block_home_within_its_limit(pull):
    controller = mbd.mpc(pull, h=0.01, every=0.05, hessian="gauss_newton")
    system, state = block_at(1.5, 2.0)
    sol = mbd.simulate(system, state, h=0.01, t_end=8.0, controller=controller)
    force = np.asarray(sol["f"])[1:]
    assert np.max(np.abs(force)) <= 8.0 and np.max(np.abs(force)) > 7.9
    assert abs(sol["rail.displacement"][-1]) < 2e-3 and abs(sol["rail.speed"][-1]) < 2e-3


def test_what_a_predictive_controller_cannot_be_made_of_is_refused(pull):
    with pytest.raises(ValueError, match="must be a multiple of the step"):
        mbd.mpc(pull, h=0.03, every=0.05)
    with pytest.raises(ValueError, match="iterations must be a positive integer"):
        mbd.mpc(pull, h=0.01, every=0.05, iterations=0)
    with pytest.raises(ValueError, match="barrier must be positive"):
        mbd.mpc(pull, h=0.01, every=0.05, barrier=0.0)
