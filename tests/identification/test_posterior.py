"""Posteriors and profiles of a fit, and the page about it."""

import numpy as np
import pytest

import jaxmbd as mbd

from .test_experiments import oscillator, swing

NOISE = 1e-3
STIFFNESS = "forces.spring.stiffness"


def release(seed=0):
    t = np.arange(0.0, 1.0, 0.02)
    noise = NOISE * np.random.default_rng(seed).normal(size=t.size)
    data = mbd.Measurements(t, {"rail.displacement": swing(0.2, 0.0, t) + noise}, sigma=NOISE)
    return mbd.Experiment(data, start={"rail": {"displacement": 0.2, "speed": mbd.Unknown(0.0)}},
                          name="release <b>")  # fmt: skip


def fitted(**parameters):
    return mbd.fit(oscillator(45.0), parameters, [release()], h=2e-2, progress=False)


def test_a_normal_posterior_its_profile_and_its_page(tmp_path):
    """Three ways to the same interval where the posterior is normal."""
    report = fitted(**{STIFFNESS: mbd.Positive(), "forces.spring.damping": mbd.Positive()})
    posterior = mbd.laplace_posterior(report, draws=20000)
    for name, error in zip(report.names, np.sqrt(np.diagonal(report.covariance)), strict=True):
        # 20000 draws give a deviation to half a per cent.
        np.testing.assert_allclose(posterior.deviation()[name], error, rtol=0.02)
    profile = mbd.profile_likelihood(report, STIFFNESS, points=3, progress=False)
    error = float(report.standard_error[STIFFNESS])
    middle = float(report.estimate[STIFFNESS])
    for found in (profile.interval(), posterior.interval(STIFFNESS)):
        np.testing.assert_allclose(
            found, [middle - 1.96 * error, middle + 1.96 * error], atol=0.05 * error
        )
    speed = "release <b>: start of rail.speed"
    assert report.unidentified == [] and speed in posterior.mean()
    (band,) = posterior.bands(draws=40)
    low, _, high = band["rail.displacement"]
    inside = (low <= report.experiments[0].predicted["rail.displacement"]) & (
        report.experiments[0].predicted["rail.displacement"] <= high
    )
    assert inside.all() and np.all(high[1:] > low[1:])
    (noisy,) = posterior.bands(draws=400, noise=True)
    width = np.median(noisy["rail.displacement"][2] - noisy["rail.displacement"][0])
    np.testing.assert_allclose(width, 2.0 * 1.96 * NOISE, rtol=0.15)
    with pytest.raises(ValueError, match="no number 'forces.spring.stifness'; did you mean"):
        mbd.profile_likelihood(report, "forces.spring.stifness")
    page = tmp_path / "report.html"
    mbd.save_report(report, page, posterior=posterior)
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 1 and "95 % interval" in text
    assert "release &lt;b&gt;" in text and "release <b>" not in text
    assert "https://" not in text.replace("https://matplotlib.org", "")  # nothing is loaded


def test_what_the_data_do_not_see_has_no_posterior(tmp_path):
    report = fitted(
        **{
            STIFFNESS: mbd.Positive(),
            "forces.spring.damping": mbd.Positive(),
            "bodies.body.mass": mbd.Positive(),
        }
    )
    with pytest.raises(ValueError, match="do not see the combination .*bodies.body.mass"):
        mbd.laplace_posterior(report)
    mbd.save_report(report, tmp_path / "report.html")
    assert "can change together" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_sampler_agrees_where_the_posterior_is_normal_and_not_at_a_bound():
    report = fitted(**{STIFFNESS: mbd.Positive()})
    drawn = mbd.sample_posterior(report, draws=6000, warmup=200, chains=2)
    assert not drawn.diverged.any()
    for name, error in zip(report.names, np.sqrt(np.diagonal(report.covariance)), strict=True):
        # As good as 12000 independent draws: a mean and a deviation to 1 %.
        np.testing.assert_allclose(drawn.deviation()[name], error, rtol=0.02)
        middle = np.ravel(report.estimate[name])[0]
        np.testing.assert_allclose(drawn.mean()[name], middle, atol=0.03 * error)
    found = drawn.to_arviz()
    assert set(found.posterior.data_vars) == set(report.names)

    # Cut off at the estimate: half a normal distribution, whose mean is 0.8 deviations inside.
    middle, error = float(report.estimate[STIFFNESS]), float(report.standard_error[STIFFNESS])
    cut = fitted(**{STIFFNESS: mbd.Bounded(40.0, middle)})
    half = mbd.sample_posterior(cut, draws=1500, warmup=300, chains=2)
    mean = middle - np.sqrt(2.0 / np.pi) * error
    np.testing.assert_allclose(half.mean()[STIFFNESS], mean, atol=0.08 * error)


@pytest.mark.slow
def test_the_sampler_follows_a_product_where_a_normal_distribution_cannot():
    """An encoder of unknown gain and an unknown first displacement: the data see their product, and
    what was known of each before bounds the hyperbola. Against the posterior on a grid, with the
    motion in closed form.
    """
    t, noise = np.arange(0.0, 1.0, 0.05), 0.05
    read = 1.2 * swing(0.2, 0.0, t) + noise * np.random.default_rng(0).normal(size=t.size)
    (gain, gain_error), (place, place_error) = (1.0, 0.3), (0.25, 0.1)
    start = {"rail": {"displacement": mbd.Unknown(place, place_error), "speed": 0.0}}
    run = mbd.Experiment(mbd.Measurements(t, {"encoder.displacement": read}, noise), start=start)
    name = "sensors.encoder.gain"
    prior = mbd.NormalPrior(name, gain, gain_error)
    # Such steps are off by 0.5 % of the frequency, far less than the noise.
    report = mbd.fit(
        oscillator(), {name: mbd.Free()}, [run], h=5e-2, priors=[prior], progress=False
    )
    drawn = mbd.sample_posterior(report, draws=2500, acceptance=0.95)
    assert drawn.diverged.mean() < 1e-3

    at, unit = np.linspace(0.02, 2.5, 1500), swing(1.0, 0.0, t)
    product = at[:, None] * np.linspace(0.02, 0.8, 1500)
    misfit = (product**2 * (unit @ unit) - 2.0 * product * (unit @ read)) / noise**2
    known = ((at - gain) / gain_error) ** 2
    weight = np.exp(
        -0.5 * (misfit + known[:, None] + ((product / at[:, None] - place) / place_error) ** 2)
    )
    weight = weight.sum(axis=1) / weight.sum()
    mean = weight @ at
    deviation = np.sqrt(weight @ (at - mean) ** 2)
    ends = np.interp([0.025, 0.975], np.cumsum(weight), at)
    # Some 900 independent draws: a mean to 0.03 deviations, and an end of the interval to 0.1.
    np.testing.assert_allclose(drawn.mean()[name], mean, atol=0.1 * deviation)
    np.testing.assert_allclose(drawn.deviation()[name], deviation, rtol=0.08)
    np.testing.assert_allclose(drawn.interval(name), ends, atol=0.25 * deviation)
    # The normal distribution puts the lower end elsewhere, by far more than that.
    assert ends[0] - mbd.laplace_posterior(report).interval(name)[0] > 0.35 * deviation
