"""Motor commands that are chosen for what they will say, against a thousand random ones within the
same limits: a four-bar that lies flat, and a hanging arm of two links with two motors.
"""

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.identification.design import _Search
from jaxmbd.identification.problem import FitProblem, Settings

SECONDS, STEP = 1.0, 0.02
SIGMA = 1e-3  # of encoders [rad]


def four_bar():
    """The mechanism, what is unknown, the command, what is measured, and limits."""
    m = mbd.load_mechanism("four_bar").with_values({"gravity": (0.0, 0.0, 0.0)})
    m.add(mbd.JointSpring("friction", "pin_crank", damping=20.0))
    m.add(mbd.Actuator("motor", "pin_crank", control=mbd.Input("torque", unit="N·m")))
    free = {
        "bodies.coupler.mass": mbd.Positive(),
        "bodies.rocker.mass": mbd.Positive(),
        "forces.friction.damping": mbd.Positive(),
    }
    limits = {
        "torque": (-300.0, 300.0),
        "pin_crank.angle": (-1.0, 1.0),
        "pin_crank.rate": (-4.0, 4.0),
    }
    return m, free, {"torque": mbd.Fourier(SECONDS, 2)}, {"pin_crank.angle": SIGMA}, limits


def arm():
    """The same of two links."""
    m = mbd.Mechanism("arm")
    last, height = m.ground, 0.0
    for k, (mass, length) in enumerate(((1.0, 0.4), (0.6, 0.3)), start=1):
        inertia = (mass * length**2 / 12.0,) * 3
        link = m.add_body(f"link{k}", mass=mass, inertia=inertia, r=(0, 0, height - 0.5 * length))
        m.add(mbd.Revolute(f"pin{k}", last, link, point=(0, 0, height), axis=(0, 1, 0)))
        m.add(mbd.JointSpring(f"friction{k}", f"pin{k}", damping=0.05))
        m.add(mbd.Actuator(f"motor{k}", f"pin{k}", control=mbd.Input(f"torque{k}", unit="N·m")))
        last, height = link, height - length
    free = {f"bodies.link{k}.mass": mbd.Positive() for k in (1, 2)}
    free |= {f"forces.friction{k}.damping": mbd.Positive() for k in (1, 2)}
    limits = {"torque1": (-3.0, 3.0), "torque2": (-1.0, 1.0)}
    for k in (1, 2):
        limits |= {f"pin{k}.angle": (-1.2, 1.2), f"pin{k}.rate": (-6.0, 6.0)}
    commands = {f"torque{k}": mbd.Fourier(SECONDS, 2) for k in (1, 2)}
    return m, free, commands, {f"pin{k}.angle": SIGMA for k in (1, 2)}, limits


def judged(described, quick):
    """A design, its gradient against differences, its limits seen from the motion itself, and the
    best of random commands that keep them.
    """
    mechanism, free, commands, measured, limits = described
    seconds = 0.2 if quick else SECONDS
    t = np.arange(0.0, seconds + 0.5 * STEP, STEP)
    design = mbd.design_experiment(
        mechanism, free, commands, measured, t=t, limits=limits, h=STEP,
        starts=2 if quick else 4, max_evaluations=8 if quick else 60,
    )  # fmt: skip
    data = mbd.Measurements(t, {name: 0.0 * t for name in measured}, sigma=measured)
    problem = FitProblem(
        mechanism, free, [mbd.Experiment(data, inputs=commands, name="run")], Settings(h=STEP)
    )
    search = _Search(problem, commands, limits)
    c = search.random(np.random.default_rng(1), 0.05)
    slope, e = search.at(c)[2], 1e-6 * np.abs(c).max()
    differences = [
        (search.at(c + e * x)[0] - search.at(c - e * x)[0]) / (2.0 * e) for x in np.eye(c.size)
    ]
    # Limits are looked up in a run of its own.
    sol = mbd.simulate(*mechanism.build(), h=STEP, steps=t.size - 1, inputs=design.inputs)
    passed = 0.0
    for name, (low, high) in limits.items():
        given = design.inputs.get(name)
        x = np.asarray(sol[name] if given is None else [given(s) for s in np.asarray(sol.t)])
        passed = max(passed, (x.max() - high) / (high - low), (low - x.min()) / (high - low))
    outcomes = jax.jit(lambda c: search.outcomes(c)[:2])
    rng, found, tried = np.random.default_rng(0), [], 5 if quick else 1000
    for _ in tqdm(range(tried), desc="random commands", leave=False):
        c = search.random(rng, 0.3) * rng.uniform(0.05, 1.0)
        J, room = (np.asarray(x) for x in outcomes(jnp.asarray(c)))
        if room.min() >= 0.0 and np.isfinite(J).all():
            found.append(float(np.linalg.slogdet(J.T @ J)[1]))
    return {
        "log_det": design.log_det,
        "standard_error": design.standard_error,
        "margins": design.margins,
        "limits_passed_in_parts_of_the_range": float(passed),
        "evaluations": design.evaluations,
        "error_of_the_gradient": float(
            np.max(np.abs(slope - differences)) / np.max(np.abs(slope))
        ),
        "random": {"tried": tried, "within_limits": len(found),
                   "best_log_det": max(found) if found else None},
    }  # fmt: skip


def run(quick, _):
    """Both mechanisms; quick: the arm."""
    both = {"arm": arm} if quick else {"four_bar": four_bar, "arm": arm}
    return {name: judged(make(), quick) for name, make in both.items()}
