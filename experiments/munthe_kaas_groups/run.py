"""Which configuration group? The examples of Mueller and Terze on SE(3), SO(3)xR3 and mixed groups.

python -m experiments munthe_kaas_groups [--out DIR] [--quick] [--part ...]

Writes results.json, violation.png, energy.png, tableaus.png, moving_base.png and precision.png.
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

from ..options import parts
from ..reference_solutions import crank_of, free_slider_crank, spherical_chain
from .models import EXAMPLES, PRECISION, chain_of, on_moving_base

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
TABLEAUS = ("euler", "heun", "rk3", "rk4", "rk5")
BASE_MOTIONS = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # rad/s, or m/s
COST_STEPS, COST_ROUNDS = 300, 100  # short runs, of which the best is hardly disturbed


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
    scale = float(np.nanmax(np.asarray(energy.kinetic)))
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
    """Processor seconds, error in position at 0.2 s, and step or tolerance, of every integrator."""
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
            begin = time.process_time()
            jax.block_until_ready(end(setting))
            best = min(best, time.process_time() - begin)
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


LABELS = {"SE3": "SE(3)", "SO3xR3": "SO(3)×R³", "mixed": "a group for each body"}


def _title(name):
    return name.replace("_", " ")


def plot_histories(histories, out):
    """Violation of every joint and energy deviation, SE(3) beside SO(3)xR3, without
    stabilization.
    """
    n = len(histories)
    fig, axes = plt.subplots(
        n, 2, figsize=(10, 2.3 * n), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for (example, by_group), (left, right) in zip(histories.items(), axes, strict=True):
        for group, ax in (("SE3", left), ("SO3xR3", right)):
            t, joints, _ = by_group[group, "none"]
            for name, gap in joints.items():
                ax.semilogy(t[1:], np.maximum(gap[1:], 1e-17), lw=1, label=_title(name))
            ax.set_title(f"{_title(example)}, {LABELS[group]}", fontsize=9)
            ax.set_ylim(1e-17, 1e-2)
            ax.grid(alpha=0.3)
        left.set_ylabel("violation [m]")
        right.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes[-1, 0].set_xlabel("t [s]")
    axes[-1, 1].set_xlabel("t [s]")
    fig.savefig(out / "violation.png", dpi=110)
    plt.close(fig)
    fig, axes = plt.subplots(
        1, n, figsize=(3.2 * n, 3.4), sharey=True, squeeze=False, layout="constrained"
    )
    for (example, by_group), ax in zip(histories.items(), axes[0], strict=True):
        for key, style in (
            (("SE3", "none"), "-"),
            (("SO3xR3", "none"), "--"),
            (("SO3xR3", "generalized_alpha"), ":"),
        ):
            if key not in by_group:
                continue
            t, _, drift = by_group[key]
            method = {"none": "RK4", "generalized_alpha": "generalized-α"}[key[1]]
            label = f"{method}, {LABELS[key[0]]}"
            ax.semilogy(t[1:], np.maximum(drift[1:], 1e-17), style, label=label)
        ax.set_title(_title(example), fontsize=10)
        ax.set_xlabel("t [s]")
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("energy deviation / largest kinetic energy")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    fig.savefig(out / "energy.png", dpi=110)
    plt.close(fig)


def plot_precision(found, out):
    """Error against time for three mechanisms."""
    fig, axes = plt.subplots(1, len(found), figsize=(4 * len(found) + 2, 3.6), layout="constrained")
    for (model, rows), ax in zip(found.items(), axes, strict=True):
        for name, points in rows.items():
            ax.loglog(
                [p[0] * 1e3 for p in points], [p[1] for p in points], "o-", label=name, markersize=4
            )
        ax.set(title=_title(model), xlabel="time [ms]")
        ax.grid(alpha=0.3, which="both")
    axes[0].set_ylabel("error in position [m]")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside right upper", fontsize=8, frameon=False)
    fig.savefig(out / "precision.png", dpi=110)
    plt.close(fig)


def plot_tableaus(found, out):
    """Energy deviation and pivot of the heavy top by order of the method."""
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    found = {k: row for k, row in found.items() if row["SE3"]["seconds_reached"] > 4.99}
    x = np.arange(len(found))
    for ax, key, what in zip(
        axes,
        ("energy_drift_max", "violation_max"),
        ("largest energy deviation, relative", "largest violation of the pivot [m]"),
        strict=True,
    ):
        for k, group in enumerate(("SE3", "SO3xR3")):
            values = [row[group][key] for row in found.values()]
            ax.bar(x + 0.38 * (k - 0.5), values, 0.36, label=LABELS[group])
        ax.set(yscale="log", ylabel=what)
        ax.set_xticks(x, [f"{name}\norder {TABLEAUS.index(name) + 1}" for name in found])
        ax.grid(alpha=0.3, axis="y")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    fig.savefig(out / "tableaus.png", dpi=110)
    plt.close(fig)


def plot_moving_base(found, out):
    """Violation of the joint against the speed of the body that bears it."""
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for ax, kind, what in zip(
        axes,
        ("turning", "travelling"),
        ("angular velocity of the base [rad/s]", "velocity of the base [m/s]"),
        strict=True,
    ):
        for group, style in (("SE3", "o-"), ("SO3xR3", "s--")):
            gaps = found[kind][group]
            ax.plot([float(x) for x in gaps], list(gaps.values()), style, ms=4, label=LABELS[group])
        ax.set_xscale("symlog", linthresh=1e-3)
        ax.set(yscale="log", xlabel=what)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("largest violation of the joint [m]")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    fig.savefig(out / "moving_base.png", dpi=110)
    plt.close(fig)


def save(results, out):
    """Write what there is, and let go of compiled programs: a process may map only so many."""
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    jax.clear_caches()


def groups(results, out, quick):
    """Violation, energy and order of every example, group and method."""
    examples = {"heavy_top": EXAMPLES["heavy_top"]} if quick else EXAMPLES
    methods = {k: METHODS[k] for k in ("none", "projection")} if quick else METHODS
    seconds = 0.1 if quick else 5.0
    histories = {}
    runs = sum(len(GROUPS[m]) for m in methods) * len(examples)
    with tqdm(total=runs, desc="groups", leave=False) as bar:
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


def tableaus(results, out, quick):
    """The heavy top by methods of order one to five, without stabilization."""
    if quick:
        return
    system, state = EXAMPLES["heavy_top"]().build()
    found = {}
    for tableau in tqdm(TABLEAUS, desc="tableaus", leave=False):
        found[tableau] = {}
        for group in ("SE3", "SO3xR3"):
            method = mbd.MuntheKaas(group=group, tableau=tableau)
            sol = mbd.simulate(
                system,
                state,
                h=H,
                steps=round(5.0 / H),
                save_every=10,
                integrator=method,
                throw=False,
            )
            _, (t, joints, drift) = measures(system, sol)
            good = np.isfinite(drift)  # the first order does not reach the end
            found[tableau][group] = {
                "energy_drift_max": float(np.max(drift[good])),
                "violation_max": float(np.max(joints["pivot"][good])),
                "seconds_reached": float(t[good][-1]),
            }
        results["tableaus"] = found
        save(results, out)
    plot_tableaus(found, out)


def moving_base(results, out, quick):
    """A body on a ball joint of a heavy one that turns or travels, one second."""
    if quick:
        return
    found = {}
    for kind, key in (("turning", "rate"), ("travelling", "speed")):
        found[kind] = {}
        for group in tqdm(("SE3", "SO3xR3"), desc=f"{kind} base", leave=False):
            found[kind][group] = {}
            for x in BASE_MOTIONS:
                system, state = on_moving_base(**{key: x}).build()
                sol = long_run(system, state, mbd.MuntheKaas(group=group), 1.0)
                gap = np.abs(np.asarray(sol.violation(system).position))
                found[kind][group][f"{x:g}"] = float(np.max(np.linalg.norm(gap, axis=1)))
        results["moving_base"] = found
        save(results, out)
    plot_moving_base(found, out)


def cost(results, out, quick):
    """Processor microseconds a step of RK4 without stabilization on each group, in turn."""
    if quick:
        return
    found = {}
    for name, make in tqdm(EXAMPLES.items(), desc="cost", leave=False):
        if name == "floating_pair_no_momentum":
            continue
        system, state = make().build()
        timed = {}
        for group in ("SE3", "SO3xR3", "mixed"):

            def end(h, group=group, system=system, state=state):
                return mbd.simulate(
                    system,
                    state,
                    h=h,
                    steps=COST_STEPS,
                    save_every=COST_STEPS,
                    integrator=mbd.MuntheKaas(group=group),
                ).r

            timed[group] = jax.jit(end).lower(1.0).compile()
        us = dict.fromkeys(timed, np.inf)
        for _ in range(COST_ROUNDS):
            for group, end in timed.items():
                begin = time.process_time()
                jax.block_until_ready(end(jnp.asarray(1e-4)))
                us[group] = min(us[group], (time.process_time() - begin) / COST_STEPS * 1e6)
        found[name] = {"us_per_step": us, "SE3_over_SO3xR3": us["SE3"] / us["SO3xR3"]}
        results["cost"] = found
        save(results, out)


def work_precision(results, out, quick):
    """Error against time."""
    if quick:
        return
    results["precision"] = {}
    with tqdm(total=32 * len(PRECISION), desc="precision", leave=False) as bar:
        for name, make in PRECISION.items():
            results["precision"][name] = precision(make, quick, bar.update)
            save(results, out)
    results["seconds_for_1e-5"] = {
        name: {method: seconds_for(points, 1e-5) for method, points in rows.items()}
        for name, rows in results["precision"].items()
    }
    plot_precision(results["precision"], out)
    save(results, out)


def independent(results, out, quick):
    """Explicit methods with and without coordinates that leave no room for drift, and index 3."""
    if quick:
        return
    group = "SO3xR3"
    methods = {
        "rk4": mbd.MuntheKaas(group),
        "rk4, Baumgarte": mbd.MuntheKaas(group, stabilization="baumgarte", rate=20.0),
        "rk4, projection": mbd.MuntheKaas(group, stabilization="projection"),
        "rk4, independent coordinates": mbd.IndependentCoordinates("rk4"),
        "rk5, projection": mbd.MuntheKaas(group, "rk5", stabilization="projection"),
        "rk5, independent coordinates": mbd.IndependentCoordinates("rk5"),
        "generalized-α, index 3": mbd.GeneralizedAlpha(),
    }
    models = {"four_bar": lambda: mbd.load_mechanism("four_bar")}
    models["slider_crank_free"] = PRECISION["slider_crank_free"]
    results["independent"] = {}
    with tqdm(total=len(models) * len(methods), desc="independent", leave=False) as bar:
        for name, make in models.items():
            system, state = make().build()
            truth = reference(system, state, 1.0)
            results["independent"][name] = found = {}
            for label, method in methods.items():
                found[label] = _explicit(system, state, method, truth)
                bar.update()
            save(results, out)


def _explicit(system, state, method, truth):
    """Error after a second, order, violation, time of a step and of the first call."""
    errors = []
    for n in (500, 1000):
        run = jax.jit(
            lambda h, n=n: mbd.simulate(
                system, state, h=h, steps=n, save_every=n // 10, integrator=method
            )
        )
        h = jnp.asarray(1.0 / n)
        begin = time.process_time()
        sol = jax.block_until_ready(run(h))
        first = time.process_time() - begin
        errors.append(float(jnp.max(jnp.abs(sol.r[-1] - truth.r[-1]))))
        best = np.inf
        for _ in range(5):
            begin = time.process_time()
            jax.block_until_ready(run(h))
            best = min(best, time.process_time() - begin)
    violation = sol.violation(system)
    return {
        "error_1ms": errors[1],
        "order": float(np.log2(errors[0] / errors[1])),
        "violation_position": float(jnp.max(jnp.abs(violation.position))),
        "violation_velocity": float(jnp.max(jnp.abs(violation.velocity))),
        "us_per_step": best / 1000 * 1e6,
        "first_call_seconds": first,
    }


def truth(results, out, quick):
    """What errors against time are measured by, against equations of motion without this package's
    mechanics, by SciPy: largest difference of positions after 0.2 s [m].
    """
    if quick:
        return
    seconds, found = 0.2, {}
    for name, make in PRECISION.items():
        system, state = make().build()
        state, _ = mbd.assemble(system, state)
        r = np.asarray(reference(system, state, seconds).r[-1])
        if name == "slider_crank_free":
            exact = free_slider_crank(*crank_of(state), seconds)[2]
            found[name] = float(abs(r[2, 0] - exact))
            continue
        exact = spherical_chain(**chain_of(system, state), t_end=seconds)[0]
        found[name] = float(np.max(np.abs(r - exact)))
    results["truth_miss"] = found
    save(results, out)


PARTS = {
    part.__name__: part
    for part in (groups, tableaus, moving_base, cost, truth, work_precision, independent)
}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """The heavy top alone, for a tenth of a second, where `quick`."""
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() and chosen else {}
    for name in [name for name in PARTS if name in (chosen or PARTS)]:
        PARTS[name](results, out, quick)
    save(results, out)
    print(f"wrote results.json and the pictures to {out}")
