"""Experiments that are chosen: gradients against differences, limits, and random excitations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.identification.design import _Search
from jaxmbd.identification.problem import FitProblem, Settings


def arm():
    m = mbd.Mechanism("arm")
    m.add_body("link", mass=1.0, inertia=(0.02, 0.02, 0.02), r=(0, 0, -0.3))
    m.add(mbd.Revolute("pin", m.ground, "link", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.JointSpring("friction", "pin", damping=0.1))
    m.add(mbd.Actuator("motor", "pin", control=mbd.Input("torque")))
    return m


FREE = {"bodies.link.mass": mbd.Positive(), "forces.friction.damping": mbd.Positive()}
LIMITS = {"torque": (-2.0, 2.0), "pin.angle": (-1.2, 1.2), "pin.rate": (-5.0, 5.0)}


@pytest.mark.slow
def test_the_chosen_excitation_beats_random_ones_within_the_same_limits():
    t, h = np.arange(0.0, 1.001, 0.05), 0.05
    excitation = {"torque": mbd.Fourier(1.0, 2)}
    design = mbd.design_experiment(
        arm(), FREE, excitation, {"pin.angle": 1e-3}, t=t, limits=LIMITS, h=h, starts=3,
        progress=False,
    )  # fmt: skip
    assert min(design.margins.values()) >= -1e-9
    # The same limits, seen from the motion itself.
    motion = mbd.simulate(*arm().build(), h=h, steps=20, inputs=design.inputs)
    assert np.abs(motion["pin.angle"]).max() <= 1.2 + 1e-8

    data = mbd.Measurements(t, {"pin.angle": 0.0 * t}, sigma={"pin.angle": 1e-3})
    run = mbd.Experiment(data, inputs=excitation)
    search = _Search(FitProblem(arm(), FREE, [run], Settings(h=h)), excitation, LIMITS)
    c, e = np.array([0.1, 0.3, 0.2, -0.4, 0.5]), 1e-5
    slope = search.at(c)[2]
    differences = [
        (search.at(c + e * x)[0] - search.at(c - e * x)[0]) / (2.0 * e) for x in np.eye(5)
    ]
    np.testing.assert_allclose(slope, differences, rtol=1e-6, atol=1e-6 * np.abs(slope).max())

    outcomes = jax.jit(lambda c: search.outcomes(c)[:2])
    rng, best = np.random.default_rng(0), -np.inf
    for _ in range(1000):
        c = rng.uniform(0.1, 1.5) * rng.normal(size=5)
        J, room = (np.asarray(x) for x in outcomes(jnp.asarray(c)))
        if room.min() >= 0.0:
            best = max(best, np.linalg.slogdet(J.T @ J)[1])
    assert np.isfinite(best) and design.log_det > best


def test_excitations_are_what_they_say():
    series = mbd.Fourier(2.0, 2, np.array([0.5, 1.0, 0.0, 0.0, 2.0]))
    t = jnp.asarray(0.3)
    exact = 0.5 + np.sin(np.pi * 0.3) + 2.0 * np.cos(2.0 * np.pi * 0.3)
    np.testing.assert_allclose(series(t), exact, rtol=1e-12)
    # A cubic is its own spline.
    knots = np.linspace(0.0, 2.0, 9)
    spline = mbd.Spline(2.0, 9, knots**3 - knots)
    np.testing.assert_allclose(spline(t), 0.3**3 - 0.3, rtol=1e-9)
    with pytest.raises(ValueError, match="Fourier: coefficients must have shape"):
        mbd.Fourier(1.0, 2, np.zeros(3))
    with pytest.raises(ValueError, match="knots at least 4"):
        mbd.Spline(1.0, 2)


def test_limits_that_make_no_sense_are_refused():
    def refused(limits, message):
        with pytest.raises(ValueError, match=message):
            mbd.design_experiment(
                arm(), FREE, {"torque": mbd.Fourier(1.0)}, {"pin.angle": 1e-3},
                t=[0.1, 0.2], limits=limits, progress=False,
            )  # fmt: skip

    refused({"torque": (1.0, -1.0)}, "the limits of 'torque' leave no room")
    refused({"pin.agle": (-1.0, 1.0)}, "has no 'pin.agle'; did you mean pin.angle")
