"""Whether intervals hold where an encoder is late and off, one run is released from an unknown
place and one pushed with an unknown speed, and noise is drawn anew hundreds of times. Samples are
those of a closed form.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.identification.experiments import named
from jaxmbd.identification.least_squares import least_squares
from jaxmbd.identification.problem import FitProblem, Settings
from jaxmbd.identification.reports import Outcome, report_of

from . import minimal

MASS, STIFFNESS, DAMPING = 2.0, 50.0, 0.8
swing = minimal.Oscillator(MASS, STIFFNESS, DAMPING).displacement
DELAY, BIAS, NOISE = 3.7e-3, 2e-3, 1e-3  # [s], [m], [m]
STEP = 4e-3  # Munthe-Kaas steps: (omega h)^4 is 2e-7
# Displacement, speed, seconds. Where both were unknown a delay would be the same as another start.
RUNS = ((0.3, 0.0, 1.5), (0.0, 1.2, 1.0))
METHOD = mbd.MuntheKaas()


def oscillator():
    """A mass on a spring with guesses of what is unknown."""
    m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
    body = m.add_body("body", mass=MASS, inertia=(0.1, 0.1, 0.1), r=(1.0, 0, 0))
    m.add(mbd.Translational("rail", m.ground, body, point=(1.0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.JointSpring("spring", "rail", stiffness=45.0, damping=0.6))
    m.add(mbd.Encoder("encoder", "rail", delay=2e-3))
    return m


def experiments(share):
    """What a late and biased encoder reads without noise."""
    found = []
    for k, (x0, v0, seconds) in enumerate(RUNS):
        t = np.arange(2 * STEP, share * seconds, STEP)
        data = mbd.Measurements(
            t, {"encoder.displacement": swing(x0, v0, t - DELAY) + BIAS}, sigma=NOISE
        )
        start = {
            "displacement": mbd.Unknown(x0 + 0.02) if k == 0 else x0,
            "speed": mbd.Unknown(v0 - 0.1) if k == 1 else v0,
        }
        found.append(mbd.Experiment(data, start={"rail": start}, name=f"run {k + 1}"))
    return found


PARAMETERS = {
    "forces.spring.stiffness": mbd.Positive(),
    "forces.spring.damping": mbd.Positive(),
    "sensors.encoder.delay": mbd.Positive(),
    "sensors.encoder.bias": mbd.Free(),
}


def run(quick, _):
    """Shares of 95 % intervals that hold the truth, by number."""
    draws = 2 if quick else 500
    runs = named(experiments(0.4 if quick else 1.0))
    problem = FitProblem(oscillator(), PARAMETERS, runs, Settings(STEP, integrator=METHOD))
    names = problem.parameters.names() + problem.own_labels
    true = {
        "forces.spring.stiffness": STIFFNESS,
        "forces.spring.damping": DAMPING,
        "sensors.encoder.delay": DELAY,
        "sensors.encoder.bias": BIAS,
    }
    true["run 1: start of rail.displacement"] = RUNS[0][0]
    true["run 2: start of rail.speed"] = RUNS[1][1]
    clean, rng = np.asarray(problem.samples.y), np.random.default_rng(11)
    start, ratios, failed = problem.z0, [], 0
    for _ in tqdm(range(draws), desc="replicates", leave=False):
        drawn = jnp.asarray(clean + NOISE * rng.normal(size=clean.shape))
        problem.samples = eqx.tree_at(lambda s: s.y, problem.samples, drawn)
        problem.forget()
        z, converged, _ = least_squares(problem, start, (1e-9, 50), [], tqdm(disable=True))
        if not converged:
            failed += 1
            continue
        start = z  # the next one is near
        report = report_of(problem, Outcome(z, [], converged, "", {}))
        ratios.append([
            (float(report.estimate[name]) - true[name]) / float(report.standard_error[name])
            for name in names
        ])  # fmt: skip
    ratio = np.array(ratios)
    inside = np.abs(ratio) < 1.959964
    return {
        "draws": draws,
        "failed_draws": failed,
        "binomial_deviation_of_0.95": float(np.sqrt(0.95 * 0.05 / max(len(ratio), 1))),
        "covered_of_all": float(inside.mean()),
        "parameters": {
            name: {
                "covered": float(inside[:, k].mean()),
                "mean_error_in_standard_errors": float(ratio[:, k].mean()),
                "spread_in_standard_errors": float(ratio[:, k].std(ddof=1)),
            }
            for k, name in enumerate(names)
        },
    }
