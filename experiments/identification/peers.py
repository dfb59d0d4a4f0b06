"""The same fit by MuJoCo's `sysid`, which differentiates by finite differences: estimates, runs,
time and the error of its Jacobian. Both know everything but the lower arm and the friction of two
hinges.
"""

import contextlib
import io
import time

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

from ..minimal_coordinates import integrate
from . import minimal, rig

TRUTH = {"m": [0.25, 0.2], "a": [0.12, 0.11], "L": [0.17], "I": [6e-4, 5e-4], "k": [6e-4, 3e-4],
         "g": 9.81}  # fmt: skip
GUESS = TRUTH | {"m": [0.25, 0.14], "a": [0.12, 0.15], "I": [6e-4, 8e-4], "k": [1e-3, 1e-3]}
START = np.array([2.2, 1.5])  # absolute angles from upright, released at rest [rad]
SIGMA, STEP, SECONDS, EVERY = 1e-3, 2e-3, 3.0, 5
METHOD = mbd.MuntheKaas()
NAMES = ("m2", "a2", "I2", "k1", "k2")
BOUNDS = {"m2": (0.02, 1.0), "a2": (0.02, 0.4), "I2": (1e-5, 5e-3), "k1": (1e-6, 1e-2),
          "k2": (1e-6, 1e-2)}  # fmt: skip


def mjcf(numbers):
    """The same two arms for MuJoCo; angles are relative."""

    def arm(k, inner):
        m, a, inertia, friction = (numbers[name][k] for name in "maIk")
        height = numbers["L"][0] if k else 0.0
        return (
            f'<body name="arm{k + 1}" pos="0 0 {height}"><inertial pos="0 0 {a}" mass="{m}" '
            f'diaginertia="{inertia} {inertia} {inertia}"/><joint name="hinge{k + 1}" '
            f'axis="0 1 0" damping="{friction}"/>{inner}</body>'
        )

    return (
        f'<mujoco><option timestep="{STEP}" integrator="RK4" gravity="0 0 {-numbers["g"]}"/>'
        f"<worldbody>{arm(0, arm(1, ''))}</worldbody><actuator>"
        '<motor name="motor" joint="hinge1"/></actuator></mujoco>'
    )


def data(seconds, sigma=SIGMA, seed=4):
    """Times and noisy relative angles, by minimal coordinates."""
    t = EVERY * STEP * np.arange(1, round(seconds / (EVERY * STEP)) + 1)
    arms = minimal.Arms(**{k: x if k == "g" else jnp.asarray(x) for k, x in TRUTH.items()})
    times = np.concatenate([[0.0], t])
    q, _ = integrate(arms.accelerations, START, np.zeros(2), times, rtol=1e-11, atol=1e-13)
    relative = np.diff(np.asarray(q)[1:], axis=1, prepend=0.0)
    return t, relative + sigma * np.random.default_rng(seed).normal(size=relative.shape)


def by_jaxmbd(t, read):
    """The fit and what it took."""
    relative = np.diff(START, prepend=0.0)
    start = {f"hinge{k + 1}": float(x) for k, x in enumerate(relative)}
    measured = {f"hinge{k + 1}.angle": read[:, k] for k in range(2)}
    experiment = mbd.Experiment(mbd.Measurements(t, measured, sigma=SIGMA), start=start)
    every = rig.unknowns(2)
    free = {
        path: every[path]
        for path in ("bodies.arm2.mass", "bodies.arm2.r", "bodies.arm2.inertia",
                     "forces.friction1.damping", "forces.friction2.damping")
    }  # fmt: skip
    options = {"h": STEP, "integrator": METHOD}
    begin = time.process_time()
    report = mbd.fit(rig.rig(GUESS), free, [experiment], tolerance=1e-8, progress=False, **options)
    seconds = time.process_time() - begin
    numbers = rig.named(rig.numbers_of(report.mechanism))
    return {
        "estimate": {name: numbers[name] for name in NAMES},
        "evaluations_that_improved": len(report.history),
        "processor_seconds": {"all": seconds, **report.seconds},
        "cost": report.history[-1],
    }


def by_sysid(t, read):
    """The fit by MuJoCo and what it took, its residuals as a function, its Jacobian at the end."""
    import mujoco
    from mujoco import sysid

    spec = mujoco.MjSpec.from_string(mjcf(GUESS))
    rows = np.round(t / STEP).astype(int) - 1  # a rollout leaves out the start
    runs = 0

    def changed(spec, parameter):
        value = float(parameter.value[0])
        body = spec.body("arm2")
        if parameter.name == "m2":
            body.mass = value
        elif parameter.name == "a2":
            body.ipos = [0.0, 0.0, value]
        elif parameter.name == "I2":
            body.inertia = [value] * 3
        else:
            damping = np.array(spec.joint("hinge" + parameter.name[1:]).damping)
            damping.flat[0] = value  # MuJoCo 4 has coefficients of a polynomial
            spec.joint("hinge" + parameter.name[1:]).damping = damping

    def residual(params, predicted, measured, model, every, *, state, **_):
        nonlocal runs
        runs += 1
        return (state[rows, 1:3] - read) / SIGMA, predicted, predicted

    guess = rig.named(GUESS)
    parameters = sysid.ParameterDict()
    for name in NAMES:
        parameters.add(sysid.Parameter(name, guess[name], *BOUNDS[name], modifier=changed))
    model = spec.compile()
    start = sysid.create_initial_state(model, np.diff(START, prepend=0.0))
    steps = int(rows[-1]) + 2
    control = sysid.TimeSeries(
        STEP * np.arange(steps), np.zeros((steps, 1)),
        sysid.TimeSeries.compute_all_control_mapping(model),
    )  # fmt: skip
    seen = sysid.TimeSeries(t, read, {
        f"hinge{k + 1}": (sysid.SignalType.MjStateQPos, np.array([k])) for k in range(2)
    })  # fmt: skip
    record = sysid.ModelSequences(
        "rig", spec, "swing", start, control, seen, allow_missing_sensors=True
    )
    function = sysid.build_residual_fn(models_sequences=[record], modify_residual=residual)
    begin = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):  # it prints every iteration
        found, result = sysid.optimize(
            parameters, function, optimizer="scipy", verbose=False, ftol=1e-8, xtol=1e-8,
            x_scale="jac",
        )  # fmt: skip
    seconds, used = time.process_time() - begin, runs
    x = found.as_vector()
    final = np.concatenate(function(x, found)[0])
    return (
        {
            "estimate": dict(zip(NAMES, x.tolist(), strict=True)),
            "simulations": used,
            "processor_seconds": {"all": seconds},
            "cost": 0.5 * float(final @ final),
        },
        (lambda x: np.concatenate(function(np.asarray(x), found)[0])),
        np.asarray(result.jac),
    )


def run(quick, _):
    """Both on the same samples.

    Raises:
        ImportError: MuJoCo's `sysid` is not installed (extra `bench`).
    """
    t, read = data(0.3 if quick else SECONDS)
    ours = by_jaxmbd(t, read)
    theirs, function, jacobian = by_sysid(t, read)
    x = np.array([theirs["estimate"][name] for name in NAMES])
    central = np.stack([
        (function(x + s) - function(x - s)) / (2.0 * s[k])
        for k, s in enumerate(np.diag(1e-4 * x))
    ], axis=1)  # fmt: skip
    errors = np.sqrt(np.diagonal(np.linalg.inv(central.T @ central)))
    apart = x - np.array([ours["estimate"][name] for name in NAMES])
    off = np.abs(jacobian - central) / np.max(np.abs(central), axis=0)
    return {
        "true": {name: rig.named(TRUTH)[name] for name in NAMES},
        "standard_error": dict(zip(NAMES, errors.tolist(), strict=True)),
        "samples": int(read.size),
        "steps": round(t[-1] / STEP),
        "jaxmbd": ours,
        "mujoco_sysid": theirs,
        "largest_error_of_its_jacobian": float(np.max(off)),
        "largest_difference_in_standard_errors": float(np.max(np.abs(apart) / errors)),
    }
