"""Masses, lengths and friction of a real rig from its recorded swings.

Nothing here knows the true numbers. Fits are judged by pieces of the record that they have not
seen, beside the numbers that the rig's authors published.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmbd as mbd

from . import figures
from .minimal import SLIDING

DATA = Path(__file__).parent / "multi_arm_pendulum" / "pieces.npz"
METHOD, STEP = mbd.MuntheKaas(), 1e-2  # 5 ms are off by 0.001 mrad at the liveliest
WINDOWS = (0.5, 1.5, np.inf)  # spans of the pieces that are fitted, one after the other [s]
FOLDS = 7
# Where friction of a hinge goes to zero its logarithm never ends; the rest has settled by then.
TOLERANCE = 1e-5

# What a ruler and a kitchen scale would say.
RULER = {
    1: {"m": [0.15], "a": [0.12], "L": [], "I": [5e-4], "k": [2e-4], "g": 9.81},
    2: {"m": [0.2, 0.15], "a": [0.1, 0.12], "L": [0.172], "I": [5e-4] * 2, "k": [2e-4, 1e-4],
        "g": 9.81},
    3: {"m": [0.25, 0.25, 0.12], "a": [0.12, 0.15, 0.15], "L": [0.173, 0.229], "I": [5e-4] * 3,
        "k": [1e-3, 2e-4, 1e-4], "g": 9.81},
}  # fmt: skip

# What the authors published (arXiv 2205.06231), for comparison alone.
PUBLISHED = {
    1: {"m": [0.147754901], "a": [0.147584572], "L": [], "I": [1.09118505e-4],
        "k": [2.23940125e-4], "g": 9.81001310},
    2: {"m": [0.0938439748, 0.137595970], "a": [0.108565215, 0.116779018], "L": [0.172719204],
        "I": [4.37529430e-4, 1.26882939e-3], "k": [2.37142783e-4, 1.00000019e-5],
        "g": 9.80858023},
    3: {"m": [0.258171998, 0.279427783, 0.118624232], "a": [0.159999928, 0.202939213, 0.183708742],
        "L": [0.172799737, 0.228700000], "I": [1.00043469e-4, 3.14159516e-4, 1.68739037e-4],
        "k": [1.47709548e-3, 2.59576628e-4, 1.0e-5], "g": 9.80834384},
}  # fmt: skip

NAMES = {1: "single", 2: "double", 3: "triple"}


class Dry(eqx.Module):
    """Dry friction in all hinges, smoothed: -c tanh(rate / SLIDING).

    Attributes:
        log_c: Logarithms of the torques c, (n,) [N·m].
    """

    log_c: jax.Array

    def __call__(self, pose, twist, t):
        rate = twist.omega[:, 1]
        relative = jnp.diff(rate, prepend=jnp.zeros(1, rate.dtype))
        torque = -jnp.exp(self.log_c) * jnp.tanh(relative / SLIDING)
        about_y = torque - jnp.concatenate([torque[1:], jnp.zeros(1, rate.dtype)])
        zero = jnp.zeros_like(twist.omega)
        return zero, zero.at[:, 1].set(about_y)


def rig(numbers, dry=None):
    """Arms above each other, upright, that turn about y; `dry` are torques [N·m]."""
    m = mbd.Mechanism("rig", gravity=(0.0, 0.0, -numbers["g"]))
    last, height = m.ground, 0.0
    for k, mass in enumerate(numbers["m"]):
        arm, hinge = f"arm{k + 1}", f"hinge{k + 1}"
        inertia = (numbers["I"][k],) * 3  # only that about y acts
        body = m.add_body(arm, mass=mass, inertia=inertia, r=(0, 0, height + numbers["a"][k]))
        m.add(mbd.Revolute(hinge, last, body, point=(0, 0, height), axis=(0, 1, 0)))
        m.add(mbd.JointSpring(f"friction{k + 1}", hinge, damping=numbers["k"][k]))
        last, height = body, height + (numbers["L"][k] if k < len(numbers["L"]) else 0.0)
    if dry is not None:
        m.add(mbd.UserForce("dry", list(m.bodies), Dry(jnp.log(jnp.asarray(dry)))))
    return m


def unknowns(arms, *, dry=False):
    """Every number of the model."""
    up = mbd.Along((0, 0, 0), (0, 0, 1))
    free = {"gravity": mbd.Along((0, 0, 0), (0, 0, -1))}
    for k in range(1, arms + 1):
        free |= {
            f"bodies.arm{k}.mass": mbd.Positive(),
            f"bodies.arm{k}.r": up,
            f"bodies.arm{k}.inertia": mbd.Scaled((1e-3,) * 3),
            f"forces.friction{k}.damping": mbd.Positive(),
        }
        if k > 1:
            free[f"joints.hinge{k}.point"] = up
    if dry:
        free["forces.dry.function"] = mbd.Free()
    return free


def numbers_of(mechanism):
    """The numbers of the plane model."""
    values = mechanism.values()
    arms = len(mechanism.bodies)
    hinge = [float(values[f"joints.hinge{k + 1}.point"][2]) for k in range(arms)]
    center = [float(values[f"bodies.arm{k + 1}.r"][2]) for k in range(arms)]
    found = {
        "m": [float(values[f"bodies.arm{k + 1}.mass"]) for k in range(arms)],
        "a": [c - h for c, h in zip(center, hinge, strict=True)],
        "L": np.diff(hinge).tolist(),
        "I": [float(np.asarray(values[f"bodies.arm{k + 1}.inertia"])[1, 1]) for k in range(arms)],
        "k": [float(values[f"forces.friction{k + 1}.damping"]) for k in range(arms)],
        "g": -float(values["gravity"][2]),
    }
    dry = values.get("forces.dry.function")
    return found if dry is None else found | {"c": np.exp(dry.log_c).tolist()}


def named(numbers):
    """The numbers by the names of the publication: m1, m2, ..., g."""
    return {
        (name if name == "g" else f"{name}{k + 1}"): float(x)
        for name, each in numbers.items()
        for k, x in enumerate(np.ravel(each))
    }


@dataclass(frozen=True)
class Record:
    """Pieces of the record of one pendulum.

    Attributes:
        t: Times of angles [s].
        angles: Absolute, (pieces, arms, T) [rad].
        t_rates: Times of rates [s].
        rates: (pieces, arms, R) [rad/s].
    """

    t: np.ndarray
    angles: np.ndarray
    t_rates: np.ndarray
    rates: np.ndarray

    @staticmethod
    def of(arms, pieces=None):
        """From the excerpt that comes with this experiment."""
        with np.load(DATA, allow_pickle=False) as file:
            angles, rates = (
                file[f"{NAMES[arms]}_{what}"].astype(float)[:pieces] for what in ("angles", "rates")
            )
            gaps = float(file["angle_interval"]), float(file["rate_interval"])
        t, t_rates = (
            gap * np.arange(x.shape[2]) for gap, x in zip(gaps, (angles, rates), strict=True)
        )
        return Record(t, angles, t_rates, rates)

    @property
    def starts(self):
        """Relative angles and rates of the first sample, (pieces, arms) each."""
        return tuple(np.diff(x[:, :, 0], axis=1, prepend=0.0) for x in (self.angles, self.rates))

    def experiments(self, *, window=np.inf, weights=None, starts=None):
        """One for each piece, whose start is unknown; samples after a window are left out."""
        names = angle_names(self.angles.shape[1])
        angles, rates = self.starts if starts is None else starts
        found = []
        for k, piece in enumerate(self.angles):
            seen = np.where(self.t <= window, piece, np.nan)
            start = {
                f"hinge{i + 1}": {
                    "angle": mbd.Unknown(angles[k, i]),
                    "rate": mbd.Unknown(rates[k, i]),
                }
                for i in range(len(names))
            }
            data = mbd.Measurements(self.t, dict(zip(names, seen, strict=True)), wrapped=())
            weight = 1.0 if weights is None else float(weights[k])
            found.append(mbd.Experiment(data, start=start, weight=weight, name=f"piece {k}"))
        return found


def angle_names(arms):
    """Absolute angles are sums of the joints'."""
    return [" + ".join(f"hinge{j + 1}.angle" for j in range(k + 1)) for k in range(arms)]


def fitted(mechanism, free, experiments, evaluations):
    """A fit of the numbers and of all starts."""
    return mbd.fit(
        mechanism, free, experiments, h=STEP, integrator=METHOD, tolerance=TOLERANCE,
        max_evaluations=evaluations,
    )  # fmt: skip


def starts_of(report, record):
    """Starts that a fit found, as `Record.starts`."""
    pieces, arms = record.angles.shape[:2]
    return tuple(
        np.array([
            [
                float(report.estimate[f"piece {k}: start of hinge{i + 1}.{what}"])
                for i in range(arms)
            ]
            for k in range(pieces)
        ])
        for what in ("angle", "rate")
    )  # fmt: skip


def grown(mechanism, free, record, evaluations):
    """A fit to longer and longer parts of the pieces: over the whole, a guess from a ruler has many
    minima around it.
    """
    starts = None
    for window in WINDOWS if evaluations > 3 else WINDOWS[-1:]:
        report = fitted(
            mechanism, free, record.experiments(window=window, starts=starts), evaluations
        )
        mechanism, starts = report.mechanism, starts_of(report, record)
    return report, starts


def misses(mechanism, record, starts):
    """Rms of angles [mrad] and of rates [rad/s] of every piece, from given starts."""
    system, state = mechanism.build()
    joints = [f"hinge{i + 1}" for i in range(len(mechanism.bodies))]
    steps = round(record.t[-1] / STEP) + 1

    def one(angles, rates):
        start = {joint: {"angle": angles[i], "rate": rates[i]} for i, joint in enumerate(joints)}
        sol = mbd.simulate(
            system, mbd.set_joints(system, state, start), h=STEP, steps=steps, integrator=METHOD,
            throw=False,
        )  # fmt: skip
        moved = [sol.joint(joint) for joint in joints]
        return (
            sol.t,
            jnp.cumsum(jnp.stack([x.angle for x in moved]), axis=0),
            jnp.cumsum(jnp.stack([x.rate for x in moved]), axis=0),
        )

    t, angles, rates = (np.asarray(x) for x in jax.jit(jax.vmap(one))(*map(jnp.asarray, starts)))

    def rms(t_samples, found, measured):
        at = np.stack([
            [_cubic(t[k], row, t_samples) for row in found[k]] for k in range(len(found))
        ])  # fmt: skip
        return np.sqrt(np.mean((at - measured) ** 2, axis=(1, 2)))

    return {
        "angle_mrad": (1e3 * rms(record.t, angles, record.angles)).tolist(),
        "rate_rad_per_s": rms(record.t_rates, rates, record.rates).tolist(),
    }


def _cubic(t, x, at):
    from scipy.interpolate import CubicSpline

    return CubicSpline(t, x)(at)


def autocorrelation(record, report):
    """Correlation of residuals 5, 25 and 100 ms apart, mean over pieces and arms."""
    lags = {"5_ms": 1, "25_ms": 5, "100_ms": 20}
    left = [x for e in report.experiments for x in e.weighted.values()]

    def at(lag):
        return float(np.mean([np.mean(x[lag:] * x[:-lag]) / np.mean(x**2) for x in left]))

    return {name: at(lag) for name, lag in lags.items()}


def lost_energy(mechanism, record):
    """How much of its energy a piece loses from its first to its last sample, in the model from the
    measured start, over what the measured samples say; by piece.
    """
    system, state = mechanism.build()
    joints = [f"hinge{i + 1}" for i in range(len(mechanism.bodies))]
    last = int(np.argmin(np.abs(record.t - record.t_rates[-1])))
    steps = round(record.t[last] / STEP)
    ends = (
        np.diff(record.angles[:, :, last], axis=1, prepend=0.0),
        np.diff(record.rates[:, :, -1], axis=1, prepend=0.0),
    )

    def energies(angles, rates, steps):
        start = {joint: {"angle": angles[i], "rate": rates[i]} for i, joint in enumerate(joints)}
        sol = mbd.simulate(
            system, mbd.set_joints(system, state, start), h=STEP, steps=steps, integrator=METHOD,
            throw=False,
        )  # fmt: skip
        return sol.energy().total

    moved = jax.jit(jax.vmap(lambda *x: energies(*x, steps)))(*map(jnp.asarray, record.starts))
    ended = jax.jit(jax.vmap(lambda *x: energies(*x, 1)))(*map(jnp.asarray, ends))
    return ((moved[:, 0] - moved[:, -1]) / (moved[:, 0] - ended[:, 0])).tolist()


def medians(found):
    return {name: float(np.median(x)) for name, x in found.items()}


def judged(mechanism, record, starts):
    """Misses from the measured first samples, and from the starts that suit the numbers best."""
    return {
        "from_measured_starts": misses(mechanism, record, record.starts),
        "from_fitted_starts": misses(mechanism, record, starts),
    }


def own_starts(mechanism, record, evaluations):
    """The starts of all pieces that suit a mechanism best."""
    report = fitted(mechanism, {}, record.experiments(), evaluations)
    return starts_of(report, record)


def held_out(mechanism, free, record, starts, evaluations):
    """Misses of every piece by numbers that were fitted without it and some others."""
    pieces = len(record.angles)
    found = [None] * pieces
    for fold in tqdm(range(FOLDS), desc="folds", leave=False):
        outside = np.arange(pieces) % FOLDS == fold
        weights = np.where(outside, 0.0, 1.0)
        report = fitted(
            mechanism, free, record.experiments(weights=weights, starts=starts), evaluations // 4
        )
        best = own_starts(report.mechanism, record, evaluations // 4)
        own = judged(report.mechanism, record, best)
        for k in np.flatnonzero(outside):
            found[k] = {
                name: {what: x[k] for what, x in each.items()} for name, each in own.items()
            }
        jax.clear_caches()  # a process can hold so many compiled programs only
    return {
        name: {what: [x[name][what] for x in found] for what in ("angle_mrad", "rate_rad_per_s")}
        for name in ("from_measured_starts", "from_fitted_starts")
    }


def summary(found):
    return {name: medians(each) for name, each in found.items()}


def one_model(record, mechanism, free, evaluations):
    """A fit to all pieces, its starts, and what it leaves."""
    begin = time.process_time()
    report, starts = grown(mechanism, free, record, evaluations)
    seconds = time.process_time() - begin
    found = judged(report.mechanism, record, starts)
    numbers = named(numbers_of(report.mechanism))
    return (report, starts), {
        "numbers": numbers,
        "determined_combinations": len(numbers) - len(open_combinations(report)),
        "undetermined_combinations": open_combinations(report),
        "medians": summary(found),
        "pieces": found,
        "residual_autocorrelation": autocorrelation(record, report),
        "energy_lost_over_measured": lost_energy(report.mechanism, record),
        "seconds": {"all": seconds, "last_fit": report.seconds},
        "evaluations_that_improved_the_last_fit": len(report.history),
    }


def open_combinations(report):
    """The combinations of numbers that no piece determines to better than a factor of two."""
    return [
        {name: share for name, share in report.combinations[k].items() if "piece" not in name}
        for k in report.unidentified
    ]


def run(quick, out):
    """All three pendulums, dry friction in the double one, then cross-validation of both its
    models. Quick: two pieces of the single one. What is done is saved at once.
    """
    target = out / "results.json"
    results, evaluations = {}, 3 if quick else 40

    def save():
        stored = json.loads(target.read_text()) if target.exists() else {}
        target.write_text(json.dumps(stored | {"rig": results}, indent=1) + "\n")
        jax.clear_caches()  # a process can hold so many compiled programs only

    fits = {}
    for arms in (1,) if quick else (2, 1, 3):
        name, record = NAMES[arms], Record.of(arms, 2 if quick else None)
        fits["viscous"], found = one_model(record, rig(RULER[arms]), unknowns(arms), evaluations)
        results[f"{name}_viscous"] = found["numbers"]
        results[name] = {"viscous": found}
        save()
        if quick:
            return results
        published = rig(PUBLISHED[arms])
        own = judged(published, record, own_starts(published, record, evaluations))
        results[name]["published"] = {"medians": summary(own), "pieces": own}
        save()
        if arms == 2:
            double = fits["viscous"]
    fits, record = {"viscous": double}, Record.of(2)
    dry = rig(numbers_of(double[0].mechanism), dry=[2e-4] * 2)
    fits["viscous_and_dry"], found = one_model(record, dry, unknowns(2, dry=True), evaluations)
    results["double"]["viscous_and_dry"] = found
    save()
    for model, (report, starts) in fits.items():
        free = unknowns(2, dry=model == "viscous_and_dry")
        left_out = held_out(report.mechanism, free, record, starts, evaluations)
        results["double"][model]["left_out"] = {"medians": summary(left_out), "pieces": left_out}
        save()
    reports = [report for report, _ in fits.values()]
    figures.rig(record, *reports, results["double"], out / "rig.png")
    return results
