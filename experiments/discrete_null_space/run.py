"""Energy and momenta over long runs: the examples of Betsch and Leyendecker by the constrained and
the reduced scheme.

python -m experiments discrete_null_space [--out DIR] [--quick] [--gradients]

Writes results.json, conservation.png, convergence.png, relative.png, long_run.png, snapshots_*.png
and linkage.gif.
"""

import json
import time
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer
from tqdm import tqdm

import jaxmbd as mbd

from . import figures
from .condition import conditions
from .gradients import CASES as GRADIENT_CASES
from .gradients import errors as gradient_errors
from .models import MODELS, precession

Gradients = Annotated[
    bool, typer.Option("--gradients", help="Renew only the gradients in results.json.")
]
SCHEMES = {"constrained": mbd.EnergyMomentum(), "reduced": mbd.EnergyMomentum(reduced=True)}
RUNS = {  # step [s] and steps of the paper's figures
    "gyro_top": (0.05, 40),
    "cylindrical_pair": (0.01, 100),
    "planar_pair": (0.001, 100),
    "six_body_chain": (0.01, 50),
    "six_body_linkage": (0.01, 50),
}
CONDITIONS = {  # steps, and the instant at whose end the matrix is taken: the first step where None
    "gyro_top": ((5e-2, 5e-3, 5e-4), None),
    "cylindrical_pair": ((1e-2, 1e-3, 1e-4), 0.1),
    "planar_pair": ((1e-2, 1e-3, 1e-4), None),
    "six_body_linkage": ((1e-2, 1e-3, 1e-4), 0.04),
}
ORDER_STEPS, ORDER_TIME = (1e-3, 5e-4, 2.5e-4), 0.5
LONG = {
    "energy_momentum": (mbd.Directors(), mbd.EnergyMomentum()),
    "energy_momentum_reduced": (mbd.Directors(), mbd.EnergyMomentum(reduced=True)),
    "generalized_alpha": (mbd.RA(), mbd.GeneralizedAlpha()),
    "implicit_euler": (mbd.RA(), mbd.ImplicitEuler()),
}


def built(name):
    """System and assembled state of an example."""
    system, state = MODELS[name]().build()
    return system, mbd.assemble(system, state)[0]


def simulated(name, h, steps, scheme, save_every=1):
    system, state = built(name)
    sol = mbd.simulate(
        system,
        state,
        h=h,
        steps=steps,
        save_every=save_every,
        formulation=mbd.Directors(),
        integrator=scheme,
    )
    return system, sol


def kept_momentum(name, system):
    """Axes about which loads are symmetric: all in free flight, the vertical for the top, none on a
    fixed hinge.
    """
    if not np.any(np.asarray(system.gravity)):
        return [0, 1, 2]
    return [2] if name == "gyro_top" else []


def conservation(name, system, sol):
    """Largest deviations, relative to the largest value, and their histories."""
    energy, angular = np.asarray(sol.energy(system).total), np.asarray(sol.momentum(system).angular)
    scale = np.max(np.abs(np.asarray(sol.energy(system).kinetic)))
    axes = kept_momentum(name, system)
    row = {
        "energy_rel_dev_max": float(np.max(np.abs(energy - energy[0])) / scale),
        "violation_max": float(np.max(np.abs(np.asarray(sol.violation(system).position)))),
        "iterations_mean": float(np.mean(np.asarray(sol.iterations)[1:])),
    }
    if axes:
        gap = np.abs(angular - angular[0])[:, axes]
        row["angular_momentum_rel_dev_max"] = float(np.max(gap) / np.max(np.abs(angular)))
    return row, (np.asarray(sol.t), energy, angular)


def turn(sol, axis, i, j):
    """Angle [rad] of body j against body i (None: the ground) about an axis that is global at the
    start, (T,).
    """
    A_j = np.asarray(sol.A[:, j])
    A_i = np.broadcast_to(np.eye(3), A_j.shape) if i is None else np.asarray(sol.A[:, i])
    relative = np.einsum(
        "tki,tkj->tij", A_i @ A_i[0].T, A_j @ A_j[0].T
    )  # the identity at the start
    sine = 0.5 * np.stack(
        [relative[:, 2, 1] - relative[:, 1, 2], relative[:, 0, 2] - relative[:, 2, 0]]
        + [relative[:, 1, 0] - relative[:, 0, 1]],
        1,
    )
    return np.unwrap(
        np.arctan2(
            sine @ np.asarray(axis, float), 0.5 * (np.trace(relative, axis1=1, axis2=2) - 1.0)
        )
    )


def relative_coordinates(name, sol):
    """The joint coordinates that the paper plots, by name, (T,) each."""
    r, A = np.asarray(sol.r), np.asarray(sol.A)
    if name == "cylindrical_pair":
        return {
            "u2": np.einsum("tk,tk->t", r[:, 1] - r[:, 0], A[:, 0, :, 2]),
            "theta2": turn(sol, (0, 0, 1), 0, 1),
        }
    if name == "planar_pair":
        contact = r[:, 1] - A[:, 1, :, 2]
        slide = np.einsum("tk,tki->ti", contact - r[:, 0], A[:, 0])
        return {"u1": slide[:, 0], "u2": slide[:, 1], "theta2": turn(sol, (0, 0, 1), 0, 1)}
    if name.startswith("six_body"):
        return {"theta1": turn(sol, (0, 0, -1), None, 0), "theta2": turn(sol, (0, -1, 0), 0, 1)}
    return {"x": r[:, 0, 0], "z": r[:, 0, 2]}


def order_of_the_top(scheme):
    """Observed order, and errors of the mass center against steady precession by step."""
    system, state = built("gyro_top")
    errors = []
    for h in ORDER_STEPS:
        n = round(ORDER_TIME / h)
        sol = mbd.simulate(
            system,
            state,
            h=h,
            steps=n,
            save_every=100,
            formulation=mbd.Directors(),
            integrator=scheme,
        )
        errors.append(float(np.linalg.norm(sol.r[-1, 0] - precession([ORDER_TIME])[0])))
    slope = np.polyfit(np.log(ORDER_STEPS), np.log(errors), 1)[0]
    return float(slope), dict(zip(map(str, ORDER_STEPS), errors, strict=True))


def cost(name, formulation, integrator, h, steps=1000):
    """Microseconds a step, best of five; nothing saved on the way."""
    system, state = built(name)

    def end(state):
        return mbd.simulate(
            system,
            state,
            h=h,
            steps=steps,
            save_every=steps,
            formulation=formulation,
            integrator=integrator,
        ).r[-1]

    compiled = jax.jit(end).lower(state).compile()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        compiled(state).block_until_ready()
        times.append(time.perf_counter() - start)
    return min(times) / steps * 1e6


def long_run(name, formulation, integrator, h, seconds):
    """Largest relative deviation of energy, its history, and what happened."""
    system, state = built(name)
    steps = round(seconds / h)
    every = max(1, steps // 1000)
    sol = mbd.simulate(
        system,
        state,
        h=h,
        steps=steps,
        save_every=every,
        formulation=formulation,
        integrator=integrator,
        throw=False,
    )
    energy = np.asarray(sol.energy(system).total)
    good = np.isfinite(energy)
    drift = np.abs(energy - energy[0]) / np.max(
        np.abs(np.asarray(sol.energy(system).kinetic)[good])
    )
    return {
        "energy_rel_dev_max": float(np.nanmax(drift)),
        "seconds_reached": float(np.asarray(sol.t)[good][-1]),
        "violation_max": float(np.nanmax(np.abs(np.asarray(sol.violation(system).position)))),
    }, (np.asarray(sol.t)[good], drift[good])


def run(out: Path, quick: bool, *, gradients: Gradients = False):
    """The top alone, without costs and long runs, where `quick`."""
    if gradients:
        target = out / "results.json"
        results = json.loads(target.read_text()) if target.exists() else {}
        for name in tqdm(GRADIENT_CASES, desc="gradients", leave=False):
            results.setdefault(name, {})["gradients"] = gradient_errors(name)
            target.write_text(json.dumps(results, indent=2) + "\n")
            jax.clear_caches()
        return
    names = ("gyro_top",) if quick else tuple(MODELS)
    results, histories, relative, films = {}, {}, {}, {}

    def save():
        (out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
        jax.clear_caches()  # a process may map only so many programs

    for name in tqdm(names, desc="examples", leave=False):
        h, steps = RUNS[name]
        found = {scheme: simulated(name, h, steps, method) for scheme, method in SCHEMES.items()}
        results[name] = {"h": h, "seconds": h * steps}
        for scheme, (system, sol) in found.items():
            results[name][scheme], history = conservation(name, system, sol)
        gap = max(
            float(
                jnp.max(
                    jnp.abs(getattr(found["constrained"][1], k) - getattr(found["reduced"][1], k))
                )
            )
            for k in "rA"
        )
        results[name]["schemes_max_difference"] = gap
        system, sol = found["reduced"]
        histories[name], films[name] = history, (system, sol)
        relative[name] = sol.t, relative_coordinates(name, sol)
        every = max(1, steps // 10)
        results[name]["relative_coordinates"] = {"t": np.asarray(sol.t)[::every].tolist()} | {
            k: np.asarray(x)[::every].tolist() for k, x in relative[name][1].items()
        }
        save()
    if "six_body_linkage" in names:
        a, b = (relative["six_body_linkage"][1][k] for k in ("theta1", "theta2"))
        gap = (1 + np.cos(np.pi / 2 + a)) * (1 + np.cos(np.pi / 2 - b)) - 1
        results["six_body_linkage"]["closed_form_gap"] = float(np.max(np.abs(gap)))
    for name, (steps, instant) in tqdm(CONDITIONS.items(), desc="conditions", leave=False):
        if name in names:
            results[name] |= conditions(*built(name), steps, instant)
            save()
    for scheme, method in SCHEMES.items():
        order, errors = order_of_the_top(method)
        results["gyro_top"][scheme] |= {"order": order, "errors": errors}
    save()
    figures.conservation(histories, out)
    figures.convergence({k: results["gyro_top"][k]["errors"] for k in SCHEMES}, out)
    figures.relative(relative, out)
    figures.snapshots(films, out)
    if not quick:
        drifts = {}
        for name in tqdm(names, desc="long runs", leave=False):
            results[name]["long_run"], results[name]["us_per_step"], drifts[name] = {}, {}, {}
            for method, (formulation, integrator) in LONG.items():
                results[name]["us_per_step"][method] = cost(name, formulation, integrator, 1e-3)
                row, drifts[name][method] = long_run(name, formulation, integrator, 1e-3, 100.0)
                results[name]["long_run"][method] = row
                save()
        figures.long_runs(drifts, out)
        for name in tqdm(GRADIENT_CASES, desc="gradients", leave=False):
            results[name]["gradients"] = gradient_errors(name)
            save()
        figures.film(*films["six_body_linkage"], out)
    save()
    for name in names:
        row = results[name]
        print(
            f"{name}: energy {row['reduced']['energy_rel_dev_max']:.1e}, schemes "
            f"{row['schemes_max_difference']:.1e}"
        )
        for key in ("condition_constrained", "condition_scaled", "condition_reduced"):
            if key in row:
                print(f"    {key}", {h: f"{value:.3g}" for h, value in row[key].items()})
    print("order of the top", {k: round(results["gyro_top"][k]["order"], 3) for k in SCHEMES})
