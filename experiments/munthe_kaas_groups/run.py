"""Which configuration group? The examples of Mueller and Terze on SE(3), SO(3)xR3 and mixed groups.

python -m experiments munthe_kaas_groups [--out DIR] [--quick]

Writes results.json, violation.png, energy.png and precision.png.
"""

import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from tqdm import tqdm

import jaxmbd as mbd

from .models import EXAMPLES, PRECISION

matplotlib.use("Agg")
import matplotlib.pyplot as plt

INSTANTS = (0.1, 0.5, 1.0, 2.0, 5.0)
METHODS = {
    "none": lambda group: mbd.MuntheKaas(group=group),
    "baumgarte": lambda group: mbd.MuntheKaas(group=group, stabilization="baumgarte", rate=20.0),
    "projection": lambda group: mbd.MuntheKaas(group=group, stabilization="projection"),
    "generalized_alpha": lambda group: mbd.GeneralizedAlpha(group=group),
    "bdf2": lambda group: mbd.BDF2(group=group),
}
IMPLICIT = ("generalized_alpha", "bdf2")
GROUPS = {
    name: ("SE3", "SO3xR3") if name in IMPLICIT else ("SE3", "SO3xR3", "mixed") for name in METHODS
}
STEPS = (1e-3, 5e-4, 2.5e-4)
SLOW_STEPS = (5e-3, 2.5e-3, 1.25e-3)  # free of gravity, at shorter steps rounding hides the order
H = 1e-3


def long_run(system, state, integrator, seconds):
    """The motion with every tenth step saved."""
    return mbd.simulate(
        system, state, h=H, steps=round(seconds / H), save_every=10, integrator=integrator
    )


def measures(system, sol):
    """Violation per joint at the instants, largest energy deviation, and their histories."""
    gap = np.abs(np.asarray(sol.violation(system).position))
    t, joints = np.asarray(sol.t), {}
    for c in system.connections:
        joints[c.name] = np.linalg.norm(gap[:, list(c.rows)], axis=1)
    energy = sol.energy(system)
    scale = float(np.max(np.asarray(energy.kinetic)))
    drift = np.abs(np.asarray(energy.total) - float(energy.total[0])) / scale
    rows = {s: int(np.argmin(np.abs(t - s))) for s in INSTANTS if s <= t[-1] + H / 2}
    return {
        "violation": {
            name: {str(s): float(g[k]) for s, k in rows.items()} for name, g in joints.items()
        },
        "violation_velocity_max": float(np.max(np.abs(np.asarray(sol.violation(system).velocity)))),
        "energy_drift_max": float(np.max(drift)),
    }, (t, joints, drift)


def orders(system, state, integrator, seconds, truth, steps):
    """Observed orders of rotation, position and velocity between the two finer steps."""
    errors = {"rotation": [], "position": [], "velocity": []}
    for h in steps:
        n = round(seconds / h)
        sol = mbd.simulate(
            system,
            state,
            h=h,
            steps=n,
            save_every=20,
            integrator=integrator,
        )
        for name, key in (("rotation", "A"), ("position", "r"), ("velocity", "v")):
            errors[name].append(
                float(np.linalg.norm(getattr(sol, key)[-1] - getattr(truth, key)[-1]))
            )
    return {f"order_{name}": float(np.log2(e[1] / e[2])) for name, e in errors.items()}


def reference(system, state, seconds):
    """The end of the motion by the fifth order, projected, with a step of 25 µs."""
    method = mbd.MuntheKaas(group="SO3xR3", tableau="rk5", stabilization="projection")
    n = round(seconds / 2.5e-5)
    return mbd.simulate(
        system,
        state,
        h=2.5e-5,
        steps=n,
        save_every=n // 10,
        integrator=method,
    )


def precision(make, quick, tick):
    """Seconds, error in position at 0.2 s, and step or tolerance, of every integrator."""
    system, state = make().build()
    state, _ = mbd.assemble(system, state)
    seconds = 0.05 if quick else 0.2
    truth = np.asarray(reference(system, state, seconds).r[-1])
    fixed = {
        "implicit Euler": (mbd.ImplicitEuler(), (1e-3, 2e-6)),
        "BDF2": (mbd.BDF2(), (1e-3, 3e-5)),
        "generalized-α": (mbd.GeneralizedAlpha(), (1e-3, 3e-5)),
        "Munthe-Kaas rk2": (
            mbd.MuntheKaas(tableau="heun", stabilization="projection"),
            (1e-3, 1e-4),
        ),
        "Munthe-Kaas rk4": (
            mbd.MuntheKaas(tableau="rk4", stabilization="projection"),
            (2.5e-3, 2.5e-4),
        ),
        "Munthe-Kaas rk5": (
            mbd.MuntheKaas(tableau="rk5", stabilization="projection"),
            (2.5e-3, 2.5e-4),
        ),
    }
    adaptive = {
        "generalized-α, adaptive": (mbd.GeneralizedAlpha(), (1e-5, 1e-8)),
        "Munthe-Kaas 5(4), adaptive": (
            mbd.MuntheKaas(tableau="rk5", stabilization="projection"),
            (1e-5, 1e-10),
        ),
    }
    found = {name: [] for name in (*fixed, *adaptive)}

    def measure(name, end, setting):
        error = float(np.max(np.abs(np.asarray(end(setting)) - truth)))
        best = np.inf
        for _ in range(3):
            begin = time.perf_counter()
            jax.block_until_ready(end(setting))
            best = min(best, time.perf_counter() - begin)
        if np.isfinite(error):  # a tolerance may ask for more steps than there are
            found[name].append([best, error, float(setting)])
        tick()

    for name, (integrator, (coarse, fine)) in fixed.items():
        for h in np.geomspace(coarse, fine, 2 if quick else 4):
            n = max(1, round(seconds / h))

            @jax.jit
            def end(h, n=n, integrator=integrator):
                return mbd.simulate(
                    system, state, h=h, steps=n, save_every=n, integrator=integrator
                ).r[-1]

            measure(name, end, jnp.asarray(seconds / n))
    for name, (integrator, (coarse, fine)) in adaptive.items():

        @jax.jit
        def end(tolerance, integrator=integrator):
            ts = jnp.array([0.0, seconds])
            run = mbd.simulate(
                system,
                state,
                save_at=ts,
                step=mbd.Adaptive(tolerance, max_steps=2048),
                integrator=integrator,
            )
            return run.r[-1]

        for tolerance in np.geomspace(coarse, fine, 2 if quick else 4):
            measure(name, end, jnp.asarray(tolerance))
    return found


def seconds_for(points, error):
    """Time at which a method reaches an error: between its measured points in logarithms, beyond
    them extrapolated.
    """
    t, e = np.log([p[0] for p in points]), np.log([p[1] for p in points])
    order = np.argsort(e)
    if e.min() <= np.log(error) <= e.max():
        return float(np.exp(np.interp(np.log(error), e[order], t[order])))
    if np.log(error) > e.max():  # coarser steps than any that was run: an upper bound
        return float(np.exp(t.min()))
    slope, offset = np.polyfit(e, t, 1)
    return float(np.exp(slope * np.log(error) + offset))


def plot_histories(histories, out):
    """Violation of every joint and energy deviation, SE(3) beside SO(3)xR3, without
    stabilization.
    """
    n = len(histories)
    fig, axes = plt.subplots(
        n, 2, figsize=(9, 2.2 * n), sharex=True, squeeze=False, layout="constrained"
    )
    for (example, by_group), (left, right) in zip(histories.items(), axes, strict=True):
        for group, ax in (("SE3", left), ("SO3xR3", right)):
            t, joints, _ = by_group[group, "none"]
            for name, gap in joints.items():
                ax.semilogy(t[1:], np.maximum(gap[1:], 1e-17), label=name)
            ax.set_title(f"{example}, {group}", fontsize=9)
            ax.set_ylim(1e-17, 1e-1)
            ax.grid(alpha=0.3)
        left.set_ylabel("violation [m]")
        left.legend(fontsize=7)
    axes[-1, 0].set_xlabel("t [s]")
    axes[-1, 1].set_xlabel("t [s]")
    fig.savefig(out / "violation.png", dpi=110)
    fig, axes = plt.subplots(1, n, figsize=(3.2 * n, 3), squeeze=False, layout="constrained")
    for (example, by_group), ax in zip(histories.items(), axes[0], strict=True):
        for key, style in (
            (("SE3", "none"), "-"),
            (("SO3xR3", "none"), "--"),
            (("SO3xR3", "generalized_alpha"), ":"),
        ):
            if key not in by_group:
                continue
            t, _, drift = by_group[key]
            ax.semilogy(t[1:], np.maximum(drift[1:], 1e-17), style, label=", ".join(key))
        ax.set(title=example, xlabel="t [s]")
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("energy deviation / largest kinetic energy")
    axes[0, 0].legend(fontsize=7)
    fig.savefig(out / "energy.png", dpi=110)


def plot_precision(found, out):
    """Error against time for three mechanisms."""
    fig, axes = plt.subplots(1, len(found), figsize=(4 * len(found), 3.6), layout="constrained")
    for (model, rows), ax in zip(found.items(), axes, strict=True):
        for name, points in rows.items():
            ax.loglog(
                [p[0] * 1e3 for p in points], [p[1] for p in points], "o-", label=name, markersize=4
            )
        ax.set(title=model, xlabel="time [ms]")
        ax.grid(alpha=0.3, which="both")
    axes[0].set_ylabel("error in position [m]")
    axes[-1].legend(fontsize=7)
    fig.savefig(out / "precision.png", dpi=110)


def save(results, out):
    """Write what there is, and let go of compiled programs: a process may map only so many."""
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    jax.clear_caches()


def run(out: Path, quick: bool):
    """The heavy top alone, for a tenth of a second, where `quick`."""
    examples = {"heavy_top": EXAMPLES["heavy_top"]} if quick else EXAMPLES
    methods = {k: METHODS[k] for k in ("none", "projection")} if quick else METHODS
    models = {} if quick else PRECISION
    seconds = 0.1 if quick else 5.0
    results, histories = {}, {}
    runs = sum(len(GROUPS[m]) for m in methods) * len(examples)
    with tqdm(total=runs + 32 * len(models), desc="groups", leave=False) as bar:
        for example, make in examples.items():
            system, state = make().build()
            truth = reference(system, state, 0.1)
            steps = SLOW_STEPS if example.startswith("floating") else STEPS
            results[example], histories[example], rotations = {}, {}, {}
            for method, integrator in methods.items():
                for group in GROUPS[method]:
                    sol = long_run(system, state, integrator(group), seconds)
                    row, histories[example][group, method] = measures(system, sol)
                    if method in ("none", *IMPLICIT):
                        row |= orders(system, state, integrator(group), 0.1, truth, steps)
                    if method == "none":
                        rotations[group] = np.asarray(sol.A[10])
                    results[example].setdefault(group, {})[method] = row
                    bar.update()
            results[example]["rotations_difference"] = float(
                np.max(np.abs(rotations["SE3"] - rotations["SO3xR3"]))
            )
            save(results, out)
        plot_histories(histories, out)
        if models:
            results["precision"] = {}
            for name, make in models.items():
                results["precision"][name] = precision(make, quick, bar.update)
                save(results, out)
            results["seconds_for_1e-5"] = {
                name: {method: seconds_for(points, 1e-5) for method, points in rows.items()}
                for name, rows in results["precision"].items()
            }
            plot_precision(results["precision"], out)
    save(results, out)
    for example in examples:
        for group in ("SE3", "SO3xR3", "mixed"):
            for method, row in results[example].get(group, {}).items():
                last = {name: f"{list(v.values())[-1]:.1e}" for name, v in row["violation"].items()}
                o = [f"{row[k]:.2f}" for k in row if k.startswith("order")]
                print(
                    f"{example:26s} {group:7s} {method:18s} energy {row['energy_drift_max']:.1e}",
                    last,
                    *o,
                )
        print(
            f"{example}: rotations differ by {results[example]['rotations_difference']:.1e} after "
            "0.1 s"
        )
