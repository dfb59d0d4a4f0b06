"""Multiple shooting over several experiments, against a closed form and finite differences."""

import numpy as np

import jaxmbd as mbd
from experiments.identification import minimal
from jaxmbd.identification.experiments import named
from jaxmbd.identification.problem import FitProblem, Settings
from jaxmbd.identification.shooting import ShootingProblem

MASS, STIFFNESS, DAMPING = 2.0, 500.0, 0.8
swing = minimal.Oscillator(MASS, STIFFNESS, DAMPING).displacement
DELAY, OFFSET, NOISE = 3e-3, 2e-3, 1e-3


def oscillator(stiffness):
    """A mass on a horizontal spring, with an encoder."""
    m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
    body = m.add_body("body", mass=MASS, inertia=(0.1, 0.1, 0.1), r=(1.0, 0, 0))
    m.add(mbd.Translational("rail", m.ground, body, point=(1.0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.JointSpring("spring", "rail", stiffness=stiffness, damping=DAMPING))
    m.add(mbd.Encoder("encoder", "rail", delay=1e-3))
    return m


def runs(end):
    """Two runs of different lengths; the second one's samples have a clock of their own."""
    rng = np.random.default_rng(0)
    found = []
    for k, (x0, v0, share) in enumerate(((0.3, 0.5, 1.0), (-0.2, 1.0, 0.6))):
        t = np.arange(0.02, share * end, 0.02)
        read = swing(x0, v0, t - DELAY - k * OFFSET) + NOISE * rng.normal(size=t.size)
        data = mbd.Measurements(t, {"encoder.displacement": read}, sigma=NOISE)
        start = {"rail": {"displacement": mbd.Unknown(x0 + 0.05), "speed": mbd.Unknown(0.0)}}
        offset = mbd.Unknown(0.0) if k else 0.0
        found.append(mbd.Experiment(data, start=start, clock_offset=offset, name=f"run {k}"))
    return found


PARAMETERS = {"forces.spring.stiffness": mbd.Positive(), "sensors.encoder.delay": mbd.Positive()}


def test_segments_find_what_one_long_simulation_does_not():
    """Ten periods and a stiffness half the true one: the error of a single simulation has minima in
    between. Starts, a delay and a clock are unknown too."""
    options = {"h": 5e-3, "progress": False, "max_evaluations": 60}
    single = mbd.fit(oscillator(250.0), PARAMETERS, runs(4.0), **options)
    report = mbd.fit(oscillator(250.0), PARAMETERS, runs(4.0), segments=8, **options)
    assert abs(float(single.estimate["forces.spring.stiffness"]) - STIFFNESS) > 50.0
    truth = {
        "forces.spring.stiffness": STIFFNESS,
        "sensors.encoder.delay": DELAY,
        "run 1: clock offset": OFFSET,
        "run 0: start of rail.displacement": 0.3,
        "run 1: start of rail.speed": 1.0,
    }
    # The method is off by (omega h)^2 / 12 = 5.2e-4 of the frequency, twice that of the stiffness;
    # over ten periods that is 0.03 rad of phase, on average 1e-3 s of all instants.
    for name, value in truth.items():
        error = 3.0 * float(report.standard_error[name])
        error += STIFFNESS / MASS * 5e-3**2 / 6.0 * value if "forces" in name else 1.5e-3
        assert abs(float(report.estimate[name]) - value) < error, name
    assert report.rms < 30.0 and single.rms > 100.0


def test_their_jacobian_is_that_of_differences():
    problem = FitProblem(oscillator(250.0), PARAMETERS, named(runs(0.5)), Settings(0.01))
    shooting = ShootingProblem(problem, 3)
    rng = np.random.default_rng(0)
    z = shooting.start() + 1e-2 * rng.normal(size=shooting.start().size)
    d = rng.normal(size=z.size)

    def cost(z):
        return 0.5 * np.sum(shooting.residuals(z) ** 2)

    # Residuals of samples are turned into a triangle, which leaves the cost and what a step needs.
    slope = shooting.residuals(z) @ (shooting.jacobian(z) @ d)
    step = 1e-6
    difference = (cost(z + step * d) - cost(z - step * d)) / (2 * step)
    np.testing.assert_allclose(slope, difference, rtol=1e-6)
    gaps = slice(-3 * shooting.width, None)  # two in the first experiment, one in the second
    ahead, behind = (shooting.residuals(z + s * step * d)[gaps] for s in (1.0, -1.0))
    difference = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(
        (shooting.jacobian(z) @ d)[gaps], difference, atol=1e-7 * np.max(np.abs(difference))
    )
