"""Identification: what noisy motion says about masses, geometry and friction, whether its
intervals hold, and what exact derivatives save.

python -m experiments identification [--out DIR] [--quick] [--part ...]
"""

import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import least_squares
from tqdm import tqdm

import jaxmbd as mbd

from ..control.minimal import FourBar
from ..minimal_coordinates import integrate
from ..options import parts
from . import excitation, figures, minimal, peers, problems, replicates, rig
from .coverage import Model, covered, standard_errors

METHOD = mbd.GeneralizedAlpha(rho_inf=0.8)
REPLAY = mbd.BDF2()
FINER = 10  # steps of the replay in a step of the fit


def rms(x):
    return float(np.sqrt(np.mean(np.asarray(x) ** 2)))


def largest(x):
    return float(np.max(np.abs(np.asarray(x))))


def labels(values):
    """A name for every number of a dictionary of values, in the order of its keys."""
    return [
        path + (f"[{', '.join(map(str, index))}]" if index else "")
        for path in sorted(values)
        for index in np.ndindex(np.shape(values[path]))
    ]


def compared(report, truth):
    """True and estimated values, and errors in standard errors, of all numbers that the data
    see.
    """
    found = {}
    for path, value in truth.items():
        estimate, error = np.asarray(report.estimate[path]), np.asarray(report.standard_error[path])
        for index in np.ndindex(estimate.shape):
            if len(index) == 2 and index[0] > index[1]:
                continue  # inertia matrices are symmetric
            label = path + (f"[{', '.join(map(str, index))}]" if index else "")
            true, e, s = (float(x[index]) for x in (np.asarray(value), estimate, error))
            entry = {"true": true, "estimated": e, "standard_error": s if np.isfinite(s) else None}
            entry["error_in_standard_errors"] = (
                (e - true) / s if np.isfinite(s) and s > 0.0 else None
            )
            found[label] = entry
    return found


def by_parameter(names, coverage):
    """What `covered` found, by name, with the binomial standard deviation of a right interval."""
    seen, draws = coverage["seen"], coverage["draws"] - coverage["failed_draws"]
    return {
        "draws": coverage["draws"],
        "failed_draws": coverage["failed_draws"],
        "binomial_deviation_of_0.95": float(np.sqrt(0.95 * 0.05 / draws)),
        "median_and_largest_step_left": coverage["step_left_in_standard_errors"].tolist(),
        "parameters": {
            name: {
                "covered": float(coverage["covered"][k]),
                "mean_error_in_standard_errors": float(coverage["mean"][k]),
                "spread_in_standard_errors": float(coverage["spread"][k]),
            }
            for k, name in enumerate(names)
            if seen[k]
        },
    }


def discretization(model: Model, true, clean):
    """The model's own error at the true values, and what it does to the estimates."""
    z = jnp.asarray(true)
    predicted, jacobian = jax.jit(lambda z: (model.predicted(z), jax.jacfwd(model.predicted)(z)))(z)
    error = np.asarray(predicted) - clean
    bias = jax.jacfwd(model.flat_values)(z) @ jnp.linalg.pinv(jacobian, rtol=1e-8) @ -error
    errors = standard_errors(model, z, jacobian)
    shift = np.where(np.isfinite(errors) & (errors > 0.0), bias / errors, 0.0)
    return {
        "rms_over_sigma": rms(error),
        "largest_over_sigma": largest(error),
        "largest_bias_in_standard_errors": largest(shift),
    }


# Slider crank


def simulated(h, seconds, integrator=METHOD, finer=1):
    """The motion of a system and a state, saved every h."""

    def motion(system, state):
        return mbd.simulate(
            system,
            state,
            h=h / finer,
            steps=round(seconds / h) * finer,
            save_every=finer,
            integrator=integrator,
            throw=False,
        )

    return motion


def slider_positions(values, t):
    """Positions of the slider at times t by minimal coordinates."""
    body, spring = "bodies.rod.", "forces.spring."
    crank = minimal.SliderCrank(
        rod_mass=values[body + "mass"],
        slider_mass=values["bodies.slider.mass"],
        rod_inertia=jnp.asarray(values[body + "inertia"]),
        stiffness=values[spring + "stiffness"],
        damping=values[spring + "damping"],
    )
    times = np.concatenate([[0.0], t])
    q, _ = integrate(crank.accelerations, np.pi / 2.0, 0.0, times, rtol=1e-11, atol=1e-13)
    return np.asarray(jax.vmap(crank.slider)(jnp.asarray(q)))[1:]


def slider_data(seconds, spacing, sigma, seed=1):
    """Noisy positions of the slider, and the same without noise."""
    t = spacing * np.arange(1, round(seconds / spacing) + 1)
    clean = slider_positions(problems.SLIDER_TRUTH, t)
    noise = sigma * np.random.default_rng(seed).normal(size=t.size)
    return mbd.Measurements(t, {"slider.r.x": clean + noise}, sigma=sigma), clean


def slider_guess():
    """Wrong by up to half."""
    rng = np.random.default_rng(4)
    return problems.slider_crank(
        {path: float(np.exp(rng.uniform(-0.5, 0.5))) for path in problems.SLIDER_TRUTH}
    )


def slider_fit(guess, free, data, clean, h, quick):
    """A fit to the slider's motion, and its replays."""
    seconds, sigma = float(data.t[-1]), float(data.sigma)
    spacing, finer = float(data.t[0]), round(float(data.t[0]) / h)
    motion = simulated(spacing, seconds, METHOD, finer)
    begin = time.process_time()
    report = mbd.fit(
        guess, free, data, h=h, integrator=METHOD, max_evaluations=10 if quick else 200
    )
    took = time.process_time() - begin
    fitted = report.mechanism
    fine = simulated(spacing, seconds, REPLAY, finer * (2 if quick else FINER))(*fitted.build())
    exact = slider_positions(problems.SLIDER_TRUTH | report.estimate, data.t)
    measured = data.values["slider.r.x"]
    truth = {path: problems.SLIDER_TRUTH[path] for path in free}
    model = Model(fitted, free, data, motion)
    true = Model(problems.slider_crank(), free, data, motion).start
    return report, {
        "parameters": compared(report, truth),
        "rms_weighted_residual": {
            "fit": report.rms,
            "replay": rms((np.asarray(fine.r)[1:, 2, 0] - measured) / sigma),
            "minimal_coordinates": rms((exact - measured) / sigma),
        },
        "discretization_error": discretization(model, true, clean / sigma),
        "singular_values": report.singular_values.tolist(),
        "unidentified_combinations": [report.combinations[k] for k in report.unidentified],
        "identified_combinations": len(report.singular_values) - len(report.unidentified),
        "evaluations_that_improved": len(report.history),
        "converged": report.converged,
        "seconds": took,
    }


def slider_coverage(mechanism, free, data, clean, motion, quick):
    """How often the intervals of a fit to the slider's motion hold the truth, by parameter."""
    truth = {path: problems.SLIDER_TRUTH[path] for path in sorted(free)}
    model = Model(mechanism, free, data, motion)
    begin = time.process_time()
    draws = covered(
        model,
        model.start,
        np.concatenate([np.ravel(x) for x in truth.values()]),
        clean / data.sigma,
        draws=4 if quick else 200,
        iterations=2 if quick else 4,
    )
    return by_parameter(labels(truth), draws) | {"seconds": time.process_time() - begin}


def slider_crank(quick, out):
    """All ten numbers, and the four that the data determine."""
    seconds, spacing, sigma = (0.4, 4e-3, 5e-4) if quick else (2.0, 2e-3, 5e-4)
    h, motion = 0.5 * spacing, simulated(spacing, seconds, METHOD, 2)
    data, clean = slider_data(seconds, spacing, sigma)
    guess = slider_guess()
    _, everything = slider_fit(guess, problems.SLIDER_FREE, data, clean, h, quick)
    known = {p: v for p, v in problems.SLIDER_TRUTH.items() if p not in problems.SLIDER_DETERMINED}
    free = {p: problems.SLIDER_FREE[p] for p in problems.SLIDER_DETERMINED}
    guess = guess.with_values(known)
    report, few = slider_fit(guess, free, data, clean, h, quick)
    # Only here: an interval of a number that the data leave open means nothing.
    few["coverage"] = slider_coverage(report.mechanism, free, data, clean, motion, quick)
    before, after = (motion(*m.build()) for m in (guess, report.mechanism))
    figures.slider(data, before, after, few["coverage"], out / "slider_crank.png")
    return {
        "step_s": h,
        "samples": data.t.size,
        "sigma_m": sigma,
        "all": everything,
        "determined": few,
    }


# Four-bar


def four_bar(quick, out):
    """Geometry from the curve of a point; kinematics has no step."""
    t = np.linspace(0.0, 6.0, 13 if quick else 61)
    sigma = 1e-3
    true = problems.four_bar()
    # Positions by the intersection of circles, not by the package's Newton iteration.
    r = jax.vmap(FourBar().poses)(jnp.asarray(np.pi / 3.0 - t)[:, None])[0][:, 1]
    clean = {f"coupler.r.{x}": np.asarray(r[:, k]) for x, k in (("x", 0), ("z", 2))}
    rng = np.random.default_rng(2)
    noisy = {name: x + sigma * rng.normal(size=t.size) for name, x in clean.items()}
    data = mbd.Measurements(t, noisy, sigma=sigma)
    free = problems.FOUR_BAR_FREE
    truth = {path: np.asarray(true.values()[path]) for path in free}
    shift = {path: p + rng.uniform(-0.2, 0.2, 3) * [1, 0, 1] for path, p in truth.items()}
    guess = problems.four_bar(shift)
    begin = time.process_time()
    report = mbd.fit(guess, free, data, analysis="kinematics", max_evaluations=100)
    took = time.process_time() - begin
    before, after = (mbd.kinematics(*m.build(), t) for m in (guess, report.mechanism))

    def motion(system, state):
        return mbd.kinematics(system, state, t, throw=False)

    model = Model(report.mechanism, free, data, motion)
    begin = time.process_time()
    draws = covered(
        model,
        model.start,
        np.concatenate([truth[path] for path in sorted(truth)]),
        np.concatenate(list(clean.values())) / sigma,
        draws=4 if quick else 200,
        iterations=2 if quick else 5,
    )
    coverage = by_parameter(labels(truth), draws) | {"seconds": time.process_time() - begin}
    figures.curve(data, before, after, coverage, out / "four_bar.png")
    found = {k: v for k, v in compared(report, truth).items() if v["standard_error"] is not None}
    return {
        "samples": 2 * t.size,
        "sigma_m": sigma,
        "parameters": found,
        "rms_weighted_residual": report.rms,
        "seconds": took,
        "coverage": coverage,
    }


# Friction


def relative_rates(omega):
    """Rates in the hinges of the chain from rates (T, n) of the bars."""
    return np.diff(np.asarray(omega), axis=1, prepend=0.0)


def chain_positions(law, t):
    """Positions (T, bars, 3) and rates (T, bars) of the chain at times t by minimal
    coordinates.
    """
    chain = minimal.Chain(law)
    start = np.array(problems.CHAIN_START)
    times = np.concatenate([[0.0], t])
    q, v = integrate(chain.accelerations, start, 0.0 * start, times, rtol=1e-11, atol=1e-13)
    return np.asarray(jax.vmap(chain.poses)(jnp.asarray(q))[0])[1:], v[1:]


def friction(quick, out):
    """A friction law as a network."""
    seconds, spacing, h, sigma = (0.3, 1e-2, 5e-3, 1e-3) if quick else (3.0, 5e-3, 2.5e-3, 1e-3)
    t = spacing * np.arange(1, round(seconds / spacing) + 1)
    true_law = problems.TrueLaw()
    r, rates = chain_positions(true_law, t)
    rng = np.random.default_rng(3)
    columns = {f"bar{k + 1}.r.{x}": (k, c) for k in range(3) for x, c in (("x", 0), ("z", 2))}
    clean = {name: r[:, k, c] for name, (k, c) in columns.items()}
    noisy = {name: x + sigma * rng.normal(size=t.size) for name, x in clean.items()}
    data = mbd.Measurements(t, noisy, sigma=sigma)

    def weighted(r, samples):
        """Positions (T, bars, 3) against samples, over the noise."""
        gaps = [np.asarray(r)[:, k, c] - samples[n] for n, (k, c) in columns.items()]
        return np.stack(gaps) / sigma

    guess = problems.chain(problems.NeuralLaw(jax.random.key(0)))
    begin = time.process_time()
    # Fewer weights than samples: least squares, without an optimizer of optax before.
    report = mbd.fit(
        guess,
        {"forces.friction.function": mbd.Free()},
        data,
        h=h,
        integrator=METHOD,
        max_evaluations=3 if quick else 200,
    )
    took = time.process_time() - begin
    learned = report.estimate["forces.friction.function"].law
    seen = np.quantile(np.abs(relative_rates(rates)), 0.95)
    grid = jnp.linspace(-seen, seen, 201)
    laws = [np.asarray(jax.vmap(law)(grid)) for law in (true_law, learned)]
    finer = round(spacing / h)
    motion = simulated(spacing, seconds, METHOD, finer)
    truth, before, after = (
        motion(*m.build()) for m in (problems.chain(true_law), guess, report.mechanism)
    )
    replay = simulated(spacing, seconds, REPLAY, finer * (2 if quick else FINER))
    fine = replay(*report.mechanism.build())
    figures.friction(
        np.asarray(grid), *laws, report.history, data, before, after, out / "friction.png"
    )
    error = weighted(truth.r[1:], clean)
    return {
        "step_s": h,
        "spacing_s": spacing,
        "duration_s": seconds,
        "samples": 6 * t.size,
        "sigma_m": sigma,
        "evaluations_that_improved": len(report.history),
        "converged": report.converged,
        "rms_weighted_residual": {
            "fit": report.rms,
            "replay": rms(weighted(fine.r[1:], noisy)),
            "minimal_coordinates": rms(weighted(chain_positions(learned, t)[0], noisy)),
        },
        "discretization_error": {
            "rms_over_sigma": rms(error),
            "largest_over_sigma": largest(error),
        },
        "rms_distance_to_the_clean_motion_over_sigma": rms(weighted(after.r[1:], clean)),
        "law_rms_error_over_rms": rms(laws[1] - laws[0]) / rms(laws[0]),
        "rates_up_to_rad_per_s": float(seen),
        "weights": sum(x.size for x in jax.tree.leaves(learned) if hasattr(x, "size")),
        "seconds": took,
    }


# Derivatives


def fastest(job, repeats=7):
    """Processor time [s] of the fastest of some calls, which other programs disturb little."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        jax.block_until_ready(job())
        times.append(time.process_time() - begin)
    return min(times)


def counted_fit(predicted, jacobian, y, z0, limit, exact):
    """Least squares with counted simulations, with exact derivatives or differences."""
    calls = {"simulations": 0, "jacobians": 0}

    def residuals(z):
        calls["simulations"] += 1
        return np.asarray(predicted(jnp.asarray(z))) - y

    def derivatives(z):
        calls["jacobians"] += 1
        return np.asarray(jacobian(jnp.asarray(z)))

    begin = time.process_time()
    jac = derivatives if exact else "2-point"
    found = least_squares(residuals, z0, jac=jac, max_nfev=limit, ftol=1e-10, xtol=1e-10)
    return calls | {
        "processor_seconds": time.process_time() - begin,
        "cost": float(found.cost),
        "converged": bool(found.status > 0),
    }


def derivatives_of(model, y):
    """Compiled predictions and their Jacobian, and what derivatives cost."""
    z = jnp.asarray(model.start)
    predicted, jacobian = jax.jit(model.predicted), jax.jit(jax.jacfwd(model.predicted))
    cost = jax.jit(jax.value_and_grad(lambda z: jnp.mean((model.predicted(z) - y) ** 2)))
    jobs = {
        name: lambda f=f: f(z) for name, f in zip("pjc", (predicted, jacobian, cost), strict=True)
    }
    for job in jobs.values():
        jax.block_until_ready(job())  # compile
    seconds = {name: fastest(job) for name, job in jobs.items()}
    exact, here = np.asarray(jacobian(z)), np.asarray(predicted(z))

    def error(step, central):
        """Of differences, relative to the largest entry of the Jacobian."""
        columns = [
            (predicted(z + step * e) - (predicted(z - step * e) if central else here))
            / (2.0 * step if central else step)
            for e in np.eye(z.size)
        ]
        return largest(np.stack(columns, axis=1) - exact) / largest(exact)

    return (predicted, jacobian), {
        "unknowns": int(z.size),
        "processor_seconds_of_a_simulation": seconds["p"],
        "jacobian_over_simulation": seconds["j"] / seconds["p"],
        "gradient_over_simulation": seconds["c"] / seconds["p"],
        "error_of_differences_by_step": [
            {"step": step, "forward": error(step, False), "central": error(step, True)}
            for step in (1.5e-8, 1e-6, 1e-5, 1e-4, 1e-3)
        ],
    }


def differences(quick, _):
    """The same least squares with exact derivatives and with forward differences, simulations and
    seconds counted.
    """
    seconds, h, sigma = (0.4, 4e-3, 5e-4) if quick else (2.0, 2e-3, 5e-4)
    data, _ = slider_data(seconds, h, sigma)
    y, motion = data.values["slider.r.x"] / sigma, simulated(h, seconds)
    guess, free = slider_guess(), problems.SLIDER_FREE
    known = {p: v for p, v in problems.SLIDER_TRUTH.items() if p not in problems.SLIDER_DETERMINED}
    few = {p: free[p] for p in problems.SLIDER_DETERMINED}
    model = Model(guess.with_values(known), few, data, motion)
    programs, four = derivatives_of(model, y)
    for name in ("exact", "differences"):
        four[name] = counted_fit(*programs, y, model.start, 5 if quick else 100, name == "exact")
    _, ten = derivatives_of(Model(guess, free, data, motion), y)
    return {"steps": round(seconds / h), "four_unknowns": four, "ten_unknowns": ten}


PARTS = {
    "slider_crank": slider_crank,
    "four_bar": four_bar,
    "friction": friction,
    "differences": differences,
    "rig": rig.run,
    "replicates": replicates.run,
    "excitation": excitation.run,
    "sysid": peers.run,
}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """Short data and few steps where `quick`, and programs that compile fast."""
    jax.config.update("jax_disable_most_optimizations", quick)
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    for part in tqdm(chosen or PARTS, desc="identification"):
        results[part] = PARTS[part](quick, out)
        target.write_text(json.dumps(results, indent=1) + "\n")
        jax.clear_caches()
    _print(results)


def _print(results):
    """Tables of estimates and of coverage."""
    slider = results.get("slider_crank", {})
    fits = {
        "slider crank, all": slider.get("all", {}),
        "slider crank, determined": slider.get("determined", {}),
        "four-bar": results.get("four_bar", {}),
    }
    for name, fit in fits.items():
        shares = fit.get("coverage", {}).get("parameters", {})
        table = Table("number", "true", "estimated", "standard error", "covered", title=name)
        for number, x in fit.get("parameters", {}).items():
            if x["standard_error"] is not None:
                numbers = (f"{x[k]:.5g}" for k in ("true", "estimated", "standard_error"))
                share = shares.get(number, {}).get("covered")
                table.add_row(number, *numbers, "" if share is None else f"{share:.3f}")
        Console(width=120).print(table)
