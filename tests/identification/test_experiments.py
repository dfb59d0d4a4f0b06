"""Fits to several experiments with sensors and starts of their own, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from experiments.identification import minimal
from jaxmbd.identification.losses import Squares
from jaxmbd.identification.sampling import interpolated

MASS, STIFFNESS, DAMPING = 2.0, 50.0, 0.8
swing = minimal.Oscillator(MASS, STIFFNESS, DAMPING).displacement
STEP = 1e-3


def oscillator(stiffness=STIFFNESS, damping=DAMPING, delay=0.0, bias=0.0):
    """A mass on a horizontal spring, with an encoder; at rest where the spring is not stretched."""
    m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
    body = m.add_body("body", mass=MASS, inertia=(0.1, 0.1, 0.1), r=(1.0, 0, 0))
    m.add(mbd.Translational("rail", m.ground, body, point=(1.0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.JointSpring("spring", "rail", stiffness=stiffness, damping=damping))
    m.add(mbd.Encoder("encoder", "rail", delay=delay, bias=bias))
    return m


@pytest.mark.essential
def test_delay_bias_and_starts_are_found_beside_parameters():
    """Two runs of different lengths, an encoder that is late and off, unknown starting speeds."""
    delay, bias, noise = 3.7e-3, 2e-3, 1e-3
    rng = np.random.default_rng(0)
    runs = []
    for x0, v0, end in ((0.3, 0.5, 1.5), (-0.2, 1.0, 0.8)):
        t = np.arange(0.01, end, 5 * STEP)
        read = swing(x0, v0, t - delay) + bias + noise * rng.normal(size=t.size)
        data = mbd.Measurements(t, {"encoder.displacement": read}, sigma=noise)
        start = {"rail": {"displacement": x0, "speed": mbd.Unknown(0.7)}}
        runs.append(mbd.Experiment(data, start=start))
    parameters = {
        "forces.spring.stiffness": mbd.Positive(),
        "forces.spring.damping": mbd.Positive(),
        "sensors.encoder.delay": mbd.Positive(),
        "sensors.encoder.bias": mbd.Free(),
    }
    report = mbd.fit(
        oscillator(40.0, 0.5, delay=1e-3), parameters, runs, h=5 * STEP, progress=False
    )
    truth = {
        "forces.spring.stiffness": STIFFNESS,
        "forces.spring.damping": DAMPING,
        "sensors.encoder.delay": delay,
        "sensors.encoder.bias": bias,
        "experiment 1: start of rail.speed": 0.5,
        "experiment 2: start of rail.speed": 1.0,
    }
    # The method is off by (omega h)^2 / 12 = 5e-5 of the frequency, some 0.005 of the stiffness.
    for name, value in truth.items():
        error = float(report.standard_error[name])
        assert abs(float(report.estimate[name]) - value) < 3.0 * error + 1e-4 * value, name
    assert report.standard_error["sensors.encoder.delay"] < 1e-3
    assert abs(report.rms - 1.0) < 0.1 and report.unidentified == []
    assert [e.t.size for e in report.experiments] == [298, 158]
    assert all(abs(e.rms["encoder.displacement"] - noise) < 2e-4 for e in report.experiments)
    np.testing.assert_allclose(np.diagonal(report.correlation), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        np.sqrt(np.diagonal(report.covariance)),
        np.ravel([report.standard_error[name] for name in report.names]),
    )


def test_what_is_known_beforehand_completes_what_data_do_not_say():
    """Only the ratio of stiffness to mass moves a free oscillator: the rest is what the scale said,
    with its deviation."""
    t = np.arange(0.0, 1.0, 0.01)
    data = mbd.Measurements(t, {"rail.displacement": swing(0.2, 0.0, t)}, sigma=1e-4)
    run = mbd.Experiment(data, start={"rail": 0.2})
    paths = ("bodies.body.mass", "forces.spring.stiffness", "forces.spring.damping")
    free = dict.fromkeys(paths, mbd.Positive())
    options = {"h": 2e-3, "progress": False}
    report = mbd.fit(
        oscillator(),
        free,
        [run],
        priors=[mbd.NormalPrior(paths[0], 2.1, 0.05)],
        **options,
    )
    assert report.unidentified == []
    np.testing.assert_allclose(report.estimate[paths[0]], 2.1, rtol=1e-5)
    np.testing.assert_allclose(report.standard_error[paths[0]], 0.05, rtol=1e-3)
    np.testing.assert_allclose(report.estimate[paths[1]] / 2.1, STIFFNESS / MASS, rtol=1e-4)
    # The logarithm of a sum of two numbers, in closed form.
    prior = mbd.LogNormalPrior({paths[0]: 1.0, paths[1]: 2.0}, 10.0, 0.1)
    np.testing.assert_allclose(
        prior.residual({paths[0]: 1.0, paths[1]: 3.0}), [np.log(0.7) / 0.1], rtol=1e-12
    )
    with pytest.raises(ValueError, match="NormalPrior: gravity is no parameter of this fit"):
        mbd.fit(oscillator(), free, [run], priors=[mbd.NormalPrior("gravity", 9.8, 1.0)])
    without = mbd.Experiment(mbd.Measurements(t, {"rail.displacement": t}))
    with pytest.raises(ValueError, match="priors count in standard deviations"):
        mbd.fit(oscillator(), free, [without], priors=[mbd.NormalPrior(paths[0], 2.0, 1.0)])


@pytest.mark.parametrize(
    "loss",
    [mbd.Huber(), pytest.param(mbd.StudentT(), marks=pytest.mark.slow)],
    ids=["huber", "student"],
)
def test_outliers_move_a_robust_fit_little(loss):
    t = np.arange(0.0, 1.0, 0.01)
    rng = np.random.default_rng(1)
    read = swing(0.2, 0.0, t) + 1e-3 * rng.normal(size=t.size)
    read[7::10] += 0.05
    run = mbd.Experiment(
        mbd.Measurements(t, {"rail.displacement": read}, sigma=1e-3), start={"rail": 0.2}
    )
    free = {"forces.spring.stiffness": mbd.Positive()}
    options = {"h": 5e-3, "progress": False}
    off = [
        abs(float(mbd.fit(oscillator(45.0), free, [run], loss=x, **options)
                  .estimate["forces.spring.stiffness"]) - STIFFNESS)
        for x in (loss, None)
    ]  # fmt: skip
    assert off[0] < 0.2 < off[1]


def test_losses_are_squares_near_zero_and_have_their_slopes():
    s = jnp.array([1e-6, 0.5, 3.0, 50.0])
    for loss in (Squares(), mbd.Huber(), mbd.StudentT()):
        slopes = jax.vmap(jax.grad(lambda x, loss=loss: jnp.sum(loss(x))))(s)
        np.testing.assert_allclose(loss.slope(s), slopes, rtol=1e-12)
        np.testing.assert_allclose(loss(s[:1]), s[:1], rtol=1e-5)
        # Concave: squares with the weights of the slope cost no more than the loss.
        assert np.all(loss(s) - loss.slope(s) * s >= -1e-12)


def test_numbers_that_are_tied_are_one():
    t = np.arange(0.0, 1.0, 0.02)
    m = mbd.Mechanism("pair", gravity=(0, 0, 0))
    for name, y in (("a", 0.0), ("b", 1.0)):
        body = m.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1), r=(1.0, y, 0))
        m.add(mbd.Translational(f"rail {name}", m.ground, body, point=(1.0, y, 0), axis=(1, 0, 0)))
        m.add(mbd.JointSpring(f"spring {name}", f"rail {name}", stiffness=20.0))
    tied = {("forces.spring a.stiffness", "forces.spring b.stiffness"): mbd.Positive()}
    # A mass of one on a spring of 25 N/m.
    data = mbd.Measurements(t, {"rail a.displacement + rail b.displacement": 0.3 * np.cos(5.0 * t)})
    start = {"rail a": 0.1, "rail b": 0.2}
    report = mbd.fit(m, tied, [mbd.Experiment(data, start=start)], h=2e-3, progress=False)
    for name in ("a", "b"):
        stiffness = report.estimate[f"forces.spring {name}.stiffness"]
        np.testing.assert_allclose(stiffness, 25.0, rtol=1e-4)
    assert report.names == ["forces.spring a.stiffness"]
    other = m.with_values({"forces.spring b.stiffness": 30.0})
    with pytest.raises(ValueError, match="tied to .* but the first guesses differ"):
        mbd.fit(other, tied, [mbd.Experiment(data, start=start)])


def slider_crank():
    """A crank longer than its rod, so that not every angle of it has a position."""
    m = mbd.Mechanism("slider crank", gravity=(0, 0, 0))
    crank = m.add_body("crank", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0.25, 0, 0))
    block = m.add_body("block", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0.8, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, crank, point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.Translational("rail", m.ground, block, point=(0.8, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Distance("rod", crank, block, point_i=(0.5, 0, 0), point_j=(0.8, 0, 0)))
    m.add(mbd.JointSpring("spring", "pin", stiffness=20.0))
    return m


def test_an_experiment_that_cannot_be_assembled_is_named_and_the_others_are_kept():
    t = np.arange(0.0, 0.2, 0.01)
    system, state = slider_crank().build()
    sol = mbd.simulate(
        system, mbd.set_joints(system, state, {"pin": 0.3}), h=1e-3, t_end=0.2,
        integrator=mbd.MuntheKaas(),
    )  # fmt: skip
    data = mbd.Measurements(t, {"pin.angle": np.asarray(sol.joint("pin").angle)[:200:10]})
    good, bad = (
        mbd.Experiment(data, start={"pin": angle}, name=name)
        for name, angle in (("within", 0.3), ("beyond", 1.5))
    )
    guess = slider_crank().with_values({"forces.spring.stiffness": 18.0})
    free = {"forces.spring.stiffness": mbd.Positive()}
    with pytest.warns(mbd.FitWarning, match="left out: 'beyond'"):
        report = mbd.fit(guess, free, [good, bad], h=5e-3, integrator=mbd.BDF2(), progress=False)
    np.testing.assert_allclose(report.estimate["forces.spring.stiffness"], 20.0, rtol=1e-2)
    assert [e.is_used for e in report.experiments] == [True, False]
    assert "beyond: not used" in str(report)


def test_experiments_that_make_no_sense_are_refused_by_name():
    t = np.arange(0.0, 0.5, 0.01)
    data = mbd.Measurements(t, {"rail.displacement": swing(0.2, 0.0, t)})
    free = {"forces.spring.stiffness": mbd.Positive()}

    def refused(message, *experiments, **options):
        with pytest.raises(ValueError, match=message):
            mbd.fit(oscillator(), free, list(experiments), progress=False, **options)

    refused("no experiment is given")
    refused("there is no joint 'rial'; did you mean rail", mbd.Experiment(data, start={"rial": 0}))
    refused("joint 'rail' has no 'angle'", mbd.Experiment(data, start={"rail": {"angle": 0.1}}))
    refused("no value 'bodies.body.mas'", mbd.Experiment(data, values={"bodies.body.mas": 1.0}))
    refused(
        "say nothing about the start of rail.displacement",
        mbd.Experiment(data, start={"rail": 0.2}),
        mbd.Experiment(data),
    )
    refused("called run", mbd.Experiment(data, name="run"), mbd.Experiment(data, name="run"))
    refused("give each experiment its inputs", mbd.Experiment(data), inputs={})
    with pytest.raises(ValueError, match=r"0\.01 s follows 0\.02 s; give pieces that overlap"):
        mbd.Measurements([0.0, 0.02, 0.01], {"rail.displacement": [0.0, 0.0, 0.0]})
    with pytest.raises(ValueError, match="Unknown: sigma must be positive"):
        mbd.Unknown(1.0, sigma=0.0)


def pendulum():
    m = mbd.Mechanism("pendulum")
    m.add_body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0, 0, 0.5))
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.JointSpring("friction", "pin", damping=0.1))
    return m


def test_wrapped_angles_and_degrees_are_told():
    system, state = pendulum().build()
    begin = mbd.set_joints(system, state, {"pin": {"angle": 1.0, "rate": 9.0}})
    sol = mbd.simulate(system, begin, h=1e-3, t_end=1.5)
    angle = np.asarray(sol.joint("pin").angle)
    assert np.ptp(angle) > 2.0 * np.pi
    t, wrapped = np.asarray(sol.t)[::20], np.mod(angle + np.pi, 2 * np.pi)[::20] - np.pi
    with pytest.raises(ValueError, match="'pin.angle' jumps by a turn after t = .*wrapped="):
        mbd.Measurements(t, {"pin.angle": wrapped}).check(system)
    mbd.Measurements(t, {"pin.angle": wrapped}, wrapped=()).check(system)
    free = {"forces.friction.damping": mbd.Positive()}
    start = {"pin": {"angle": 1.0, "rate": 9.0}}
    data = mbd.Measurements(t, {"pin.angle": wrapped}, wrapped=("pin.angle",))
    run = mbd.Experiment(data, start=start)
    guess = pendulum().with_values({"forces.friction.damping": 0.12})
    report = mbd.fit(guess, free, [run], h=2e-3, progress=False)
    # Truth has half the step: the methods differ by their error of second order.
    np.testing.assert_allclose(report.estimate["forces.friction.damping"], 0.1, rtol=2e-3)
    degrees = mbd.Measurements(t, {"pin.angle": np.rad2deg(angle[::20])})
    with pytest.warns(mbd.FitWarning, match="are the samples in degrees"):
        mbd.fit(guess, free, [mbd.Experiment(degrees, start=start)], h=2e-2,
                max_evaluations=1, progress=False)  # fmt: skip


def test_correlated_noise_weighs_as_its_covariance_says():
    """Whitened residuals against the definition, with samples missing."""
    covariance = np.array([[4.0, 1.0], [1.0, 2.0]])
    x = np.array([[1.0, np.nan, 3.0], [0.5, 0.7, np.nan]])
    data = mbd.Measurements([0.0, 0.1, 0.2], {"a": x[0], "b": x[1]}, covariance=covariance)
    W = data.whitening()
    e = np.array([0.3, -0.2])
    np.testing.assert_allclose(
        np.sum((W[0] @ e) ** 2), e @ np.linalg.solve(covariance, e), rtol=1e-12
    )
    np.testing.assert_allclose(W[1], [[0.0, 0.0], [0.0, 1.0 / np.sqrt(2.0)]], rtol=1e-12)
    np.testing.assert_allclose(W[2], [[0.5, 0.0], [0.0, 0.0]], rtol=1e-12)
    with pytest.raises(ValueError, match="covariance must be positive definite"):
        mbd.Measurements([0.0], {"a": [1.0], "b": [1.0]}, covariance=[[1.0, 2.0], [2.0, 1.0]])


def test_samples_between_rows_are_of_fourth_order():
    def error(n):
        rows = jnp.sin(jnp.linspace(0.0, 2.0, n + 1))
        at = jnp.linspace(0.3, 1.7, 1999)  # away from the ends, whose cubics are one-sided
        found = interpolated(rows, at * n / 2.0, linear=False)
        return float(jnp.max(jnp.abs(found - jnp.sin(at))))

    assert 15.0 < error(40) / error(80) < 17.0


def test_a_delay_that_would_be_negative_is_told_and_makes_no_perfect_fit():
    """Samples that are early by a millisecond: a free delay wants to be negative."""
    t = np.arange(0.05, 1.0, 0.01)
    data = mbd.Measurements(t, {"encoder.displacement": swing(0.2, 0.0, t + 1e-3)}, sigma=1e-3)
    run = mbd.Experiment(data, start={"rail": 0.2})
    delay = "sensors.encoder.delay"
    options = {"h": 1e-2, "progress": False, "integrator": mbd.MuntheKaas()}
    report = mbd.fit(oscillator(delay=2e-3), {delay: mbd.Free()}, [run], **options)
    assert not report.converged and "beyond the last point" in report.message
    assert 0.0 <= float(report.estimate[delay]) < 1e-4 and report.rms > 0.1
    bounded = mbd.Bounded(0.0, 1e-2)
    report = mbd.fit(oscillator(delay=2e-3), {delay: bounded}, [run], **options)
    assert report.at_bounds == [f"{delay} is at its lower bound, 0"] and report.rms > 0.1
