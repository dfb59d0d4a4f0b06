"""Identification: what noisy motion says about masses, geometry and friction, and what exact
derivatives save.

python -m experiments identification [--out DIR] [--quick] [--part ...]
"""

import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.table import Table
from scipy.optimize import least_squares
from tqdm import tqdm

import jaxmbd as mbd

from ..options import parts
from . import figures, problems

METHOD = mbd.ImplicitEuler()


def slider_data(seconds, h, sigma, seed=1):
    """Noisy positions of the slider."""
    sol = mbd.simulate(*problems.slider_crank().build(), h=h, t_end=seconds, integrator=METHOD)
    t = np.asarray(sol.t)[1:]
    noise = sigma * np.random.default_rng(seed).normal(size=t.size)
    return mbd.Measurements(t, {"slider.r.x": np.asarray(sol.r[1:, 2, 0]) + noise}, sigma=sigma)


def slider_guess():
    """Wrong by up to half."""
    rng = np.random.default_rng(4)
    return problems.slider_crank(
        {path: float(np.exp(rng.uniform(-0.5, 0.5))) for path in problems.SLIDER_TRUTH}
    )


def compared(report, truth):
    """True and estimated values, and errors in standard errors, of all numbers that the data
    see.
    """
    found = {}
    for path, value in truth.items():
        estimate, error = np.asarray(report.estimate[path]), np.asarray(report.standard_error[path])
        for index in np.ndindex(estimate.shape):
            label = path + (f"[{', '.join(map(str, index))}]" if index else "")
            true, e, s = (
                float(np.asarray(value)[index]),
                float(estimate[index]),
                float(error[index]),
            )
            entry = {"true": true, "estimated": e, "standard_error": s if np.isfinite(s) else None}
            entry["error_in_standard_errors"] = (
                (e - true) / s if np.isfinite(s) and s > 0.0 else None
            )
            found[label] = entry
    return found


def slider_crank(quick, out):
    seconds, h, sigma = (0.4, 4e-3, 5e-4) if quick else (2.0, 2e-3, 5e-4)
    data, guess = slider_data(seconds, h, sigma), slider_guess()
    begin = time.perf_counter()
    report = mbd.fit(
        guess,
        problems.SLIDER_FREE,
        data,
        h=h,
        integrator=METHOD,
        max_evaluations=10 if quick else 400,
    )
    before = mbd.simulate(*guess.build(), h=h, t_end=seconds, integrator=METHOD)
    after = mbd.simulate(*report.mechanism.build(), h=h, t_end=seconds, integrator=METHOD)
    figures.slider(data, before, after, out / "slider_crank.png")
    return {
        "parameters": compared(report, problems.SLIDER_TRUTH),
        "rms_weighted_residual": report.rms,
        "singular_values": report.singular_values.tolist(),
        "unidentified_combinations": [report.combinations[k] for k in report.unidentified],
        "identified_combinations": len(report.singular_values) - len(report.unidentified),
        "evaluations_that_improved": len(report.history),
        "seconds": time.perf_counter() - begin,
    }


def four_bar(quick, out):
    t = np.linspace(0.0, 6.0, 13 if quick else 61)
    sigma = 1e-3
    true = problems.four_bar()
    motion = mbd.kinematics(*true.build(), t)
    rng = np.random.default_rng(2)
    curve = {
        f"coupler.r.{x}": motion.r[:, 1, k] + sigma * rng.normal(size=t.size)
        for x, k in (("x", 0), ("z", 2))
    }
    data = mbd.Measurements(t, curve, sigma=sigma)
    truth = {path: true.values()[path] for path in problems.FOUR_BAR_FREE}
    shift = {
        path: np.asarray(p) + rng.uniform(-0.2, 0.2, 3) * [1, 0, 1] for path, p in truth.items()
    }
    guess = problems.four_bar(shift)
    begin = time.perf_counter()
    report = mbd.fit(
        guess, problems.FOUR_BAR_FREE, data, analysis="kinematics", max_evaluations=100
    )
    before, after = (mbd.kinematics(*m.build(), t) for m in (guess, report.mechanism))
    figures.curve(data, before, after, out / "four_bar.png")
    found = {k: v for k, v in compared(report, truth).items() if v["standard_error"] is not None}
    return {
        "parameters": found,
        "rms_weighted_residual": report.rms,
        "seconds": time.perf_counter() - begin,
    }


def friction(quick, out):
    seconds, h, sigma = (0.3, 1e-2, 1e-3) if quick else (3.0, 5e-3, 1e-3)
    sol = mbd.simulate(
        *problems.chain(problems.TrueLaw()).build(), h=h, t_end=seconds, integrator=METHOD
    )
    rng = np.random.default_rng(3)
    t = np.asarray(sol.t)[1:]
    positions = {
        f"bar{k + 1}.r.{x}": np.asarray(sol.r[1:, k, c]) + sigma * rng.normal(size=t.size)
        for k in range(3)
        for x, c in (("x", 0), ("z", 2))
    }
    data = mbd.Measurements(t, positions, sigma=sigma)
    guess = problems.chain(problems.NeuralLaw(jax.random.key(0)))
    begin = time.perf_counter()
    steps = 3 if quick else 600
    optimizer = optax.adam(optax.cosine_decay_schedule(0.02, steps))
    free = {"forces.friction.function": mbd.Free()}
    report = mbd.fit(
        guess, free, data, h=h, integrator=METHOD, optimizer=optimizer, max_evaluations=steps
    )
    took = time.perf_counter() - begin
    learned = report.estimate["forces.friction.function"].law
    rates = sol.omega[:, :, 1] - jnp.concatenate(
        [jnp.zeros((sol.t.size, 1)), sol.omega[:, :-1, 1]], axis=1
    )
    seen = np.quantile(np.abs(np.asarray(rates)), 0.95)
    grid = jnp.linspace(-seen, seen, 201)
    laws = [np.asarray(jax.vmap(law)(grid)) for law in (problems.TrueLaw(), learned)]
    before = mbd.simulate(*guess.build(), h=h, t_end=seconds, integrator=METHOD)
    after = mbd.simulate(*report.mechanism.build(), h=h, t_end=seconds, integrator=METHOD)
    figures.friction(
        np.asarray(grid), *laws, report.history, data, before, after, out / "friction.png"
    )
    scale = float(np.sqrt(np.mean(laws[0] ** 2)))
    return {
        "rms_weighted_residual": report.rms,
        "law_rms_error_over_rms": float(np.sqrt(np.mean((laws[1] - laws[0]) ** 2))) / scale,
        "weights": int(sum(x.size for x in jax.tree.leaves(learned) if hasattr(x, "size"))),
        "seconds": took,
    }


def differences(quick, _):
    """The same least squares and the same descent with derivatives by forward differences,
    simulations counted.
    """
    seconds, h, sigma = (0.4, 4e-3, 5e-4) if quick else (2.0, 2e-3, 5e-4)
    data, guess = slider_data(seconds, h, sigma), slider_guess()
    from jaxmbd.identification.fit import _Problem

    problem = _Problem(guess, problems.SLIDER_FREE, data, h, "simulate", None, None)
    z0 = np.asarray(problem.z0)
    cost = jax.jit(jax.value_and_grad(lambda z: jnp.mean((problem.predicted(z) - problem.y) ** 2)))
    for job in (problem.residuals, problem.jacobian, cost):
        jax.block_until_ready(job(jnp.asarray(z0)))  # compile

    def best(job, repeats=3):
        times = []
        for _ in range(repeats):
            begin = time.perf_counter()
            jax.block_until_ready(job(jnp.asarray(z0)))
            times.append(time.perf_counter() - begin)
        return min(times)

    calls = {"simulations": 0, "jacobians": 0}

    def residuals(z):
        calls["simulations"] += 1
        found = problem.residuals(jnp.asarray(z))
        return np.concatenate([found, 1e-3 * (z - z0)])

    def jacobian(z):
        calls["jacobians"] += 1
        return np.concatenate([np.asarray(problem.jacobian(jnp.asarray(z))), 1e-3 * np.eye(z.size)])

    result = {"unknowns": int(z0.size)}
    options = {"max_nfev": 5 if quick else 100, "ftol": 1e-10, "xtol": 1e-10}
    for name, jac in (("exact", jacobian), ("differences", "2-point")):
        calls |= {"simulations": 0, "jacobians": 0}
        begin = time.perf_counter()
        found = least_squares(residuals, z0, jac=jac, **options)
        result[name] = dict(calls) | {
            "seconds": time.perf_counter() - begin,
            "cost": float(found.cost),
        }
    result["time_of_a_simulation"] = best(problem.residuals)
    result["jacobian_over_simulation"] = best(problem.jacobian) / result["time_of_a_simulation"]
    result["gradient_over_simulation"] = best(cost) / result["time_of_a_simulation"]
    exact = np.asarray(problem.jacobian(jnp.asarray(z0)))
    by_differences = np.stack(
        [
            (problem.residuals(jnp.asarray(z0 + 1.5e-8 * e)) - problem.residuals(jnp.asarray(z0)))
            / 1.5e-8
            for e in np.eye(z0.size)
        ],
        axis=1,
    )
    result["error_of_the_differences"] = float(
        np.max(np.abs(by_differences - exact)) / np.max(np.abs(exact))
    )
    result["time_ratio"] = result["differences"]["seconds"] / result["exact"]["seconds"]
    return result


PARTS = {
    "slider_crank": slider_crank,
    "four_bar": four_bar,
    "friction": friction,
    "differences": differences,
}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """Short data and few steps where `quick`."""
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    for part in tqdm(chosen or PARTS, desc="identification"):
        results[part] = PARTS[part](quick, out)
        target.write_text(json.dumps(results, indent=1) + "\n")
        jax.clear_caches()
    table = Table("number", "true", "estimated", "standard error", "error / standard error")
    for part in ("slider_crank", "four_bar"):
        for name, x in results.get(part, {}).get("parameters", {}).items():
            if x["standard_error"] is not None:
                ratio = x["error_in_standard_errors"]
                numbers = (f"{x[k]:.5g}" for k in ("true", "estimated", "standard_error"))
                table.add_row(name, *numbers, "" if ratio is None else f"{ratio:.2f}")
    Console(width=120).print(table)
