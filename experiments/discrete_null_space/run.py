"""Energy and momenta over long runs: the examples of Betsch and Leyendecker by the constrained and
the reduced scheme.

python -m experiments discrete_null_space [--out DIR] [--quick] [--part ...]

Writes results.json, conservation.png, convergence.png, relative.png, cost.png, long_run.png,
snapshots_*.png and linkage.gif.
"""

import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.equations.rows import row_bodies
from jaxmbd.equations.spanning_tree import spanning_tree

from ..options import parts
from . import figures
from .condition import conditions, over_time
from .gradients import CASES as GRADIENT_CASES
from .gradients import errors as gradient_errors
from .models import MODELS, precession
from .size_reduction import compared

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
FURTHER = {  # figures that the paper draws with another step [s]; steps
    "gyro_top": ("figure_9", 0.01, 200),
    "planar_pair": ("figure_17", 0.01, 100),
}
BALANCES = ("gyro_top", "cylindrical_pair", "figure_17", "six_body_linkage")  # Figs 10 to 23
INSTANT_STEP, INSTANTS = 1e-3, 50  # of the planar pair's condition numbers over time
COST = {  # seconds, and steps in them
    "gyro_top": (0.5, (250, 500, 1000, 2000)),
    "cylindrical_pair": (0.5, (125, 250, 500, 1000)),
    "planar_pair": (0.1, (50, 100, 200, 400)),
}
TIMED_STEPS, TIMED_ROUNDS = 200, 40  # short runs, of which the best is hardly disturbed
COST_ERROR = 1e-4  # relative to the largest distance from the origin
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


def simulated(name, h, steps, scheme, formulation=None):
    """System, and the motion with every step saved, as far as it went."""
    system, state = built(name)
    sol = mbd.simulate(
        system,
        state,
        h=h,
        steps=steps,
        formulation=formulation or mbd.Directors(),
        integrator=scheme,
        throw=False,
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
    """Largest deviations of energy and momentum, relative to the largest value, and their
    histories: times, energy, and the momentum where it is kept.
    """
    energy, angular = np.asarray(sol.energy(system).total), np.asarray(sol.momentum(system).angular)
    good = np.isfinite(energy)
    energy, angular = energy[good], angular[good]
    scale = np.max(np.abs(np.asarray(sol.energy(system).kinetic)[good]))
    axes = kept_momentum(name, system)
    drift = np.abs(energy - energy[0]) / scale
    row = {
        "energy_rel_dev_max": float(np.max(drift)),
        "violation_max": float(np.max(np.abs(np.asarray(sol.violation(system).position)[good]))),
        "iterations_mean": float(np.mean(np.asarray(sol.iterations)[good][1:])),
        "seconds_reached": float(np.asarray(sol.t)[good][-1]),
    }
    turning = None
    if axes:
        gap = np.max(np.abs(angular - angular[0])[:, axes], axis=1)
        turning = gap / np.max(np.abs(angular))
        row["angular_momentum_rel_dev_max"] = float(np.max(turning))
    return row, (np.asarray(sol.t)[good], drift, turning)


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
    """Processor microseconds a step, best of five; nothing saved on the way."""
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
        start = time.process_time()
        compiled(state).block_until_ready()
        times.append(time.process_time() - start)
    return min(times) / steps * 1e6


def unknowns(system):
    """Of Newton's method in both schemes, and in generalized-alpha with rA; rows of loops that
    others imply included.
    """
    coordinates = 12 * system.nb
    return {
        "constrained": coordinates + len(row_bodies(mbd.Directors(), system)),
        "reduced": spanning_tree(system).freedoms,
        "generalized_alpha": 6 * system.nb + len(row_bodies(mbd.RA(), system)),
    }


def exact_end(name, system, state, seconds):
    """Mass centers at the end: in closed form for the top, else by a fifth-order method in rA with
    short steps.
    """
    if name == "gyro_top":
        return precession([seconds])
    n = round(seconds / 2.5e-5)
    method = mbd.MuntheKaas(group="SO3xR3", tableau="rk5", stabilization="projection")
    sol = mbd.simulate(
        system, state, h=seconds / n, steps=n, save_every=n, formulation=mbd.RA(), integrator=method
    )
    return np.asarray(sol.r[-1])


def cost_of_accuracy(name):
    """By method: largest error of a mass center and microseconds a step, by number of steps."""
    seconds, counts = COST[name]
    system, state = built(name)
    exact = exact_end(name, system, state, seconds)
    scale = float(np.max(np.linalg.norm(exact, axis=1)))
    found = {"seconds": seconds, "unknowns": unknowns(system)}
    methods = {k: (mbd.Directors(), method) for k, method in SCHEMES.items()}
    methods["generalized_alpha"] = (mbd.RA(), mbd.GeneralizedAlpha())
    timed = {}
    for method, (formulation, integrator) in methods.items():

        def end(h, steps, formulation=formulation, integrator=integrator):
            return mbd.simulate(
                system,
                state,
                h=h,
                steps=steps,
                save_every=steps,
                formulation=formulation,
                integrator=integrator,
            ).r[-1]

        errors = {}
        for n in counts:
            gap = np.linalg.norm(np.asarray(end(seconds / n, n)) - exact, axis=1)
            errors[str(n)] = float(np.max(gap)) / scale
        found[method] = {"relative_error": errors, "us_per_step": {}}
        timed[method] = jax.jit(lambda h, end=end: end(h, TIMED_STEPS)).lower(1.0).compile()
    for n in counts:  # in turn, so that what else the machine does meets all of them
        best = dict.fromkeys(methods, np.inf)
        for _ in range(TIMED_ROUNDS):
            for method, run in timed.items():
                start = time.process_time()
                run(jnp.asarray(seconds / n)).block_until_ready()
                best[method] = min(best[method], time.process_time() - start)
        for method, least in best.items():
            found[method]["us_per_step"][str(n)] = least / TIMED_STEPS * 1e6
    for method in methods:
        errors = np.log(list(found[method]["relative_error"].values()))
        spent = np.log([int(n) * us * 1e-3 for n, us in found[method]["us_per_step"].items()])
        slope, offset = np.polyfit(errors, spent, 1)
        found[method]["ms_for_error"] = float(np.exp(slope * np.log(COST_ERROR) + offset))
    return found


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


def motions(results, names, out, quick):
    """Conservation at the paper's steps, both schemes and generalized-alpha beside them."""
    histories, relative, films, balances = {}, {}, {}, {}
    for name in tqdm(names, desc="examples", leave=False):
        h, steps = RUNS[name]
        found = {scheme: simulated(name, h, steps, method) for scheme, method in SCHEMES.items()}
        row = results.setdefault(name, {})
        row |= {"h": h, "seconds": h * steps}
        histories[name] = {}
        for scheme, (system, sol) in found.items():
            new, histories[name][scheme] = conservation(name, system, sol)
            row[scheme] = row.get(scheme, {}) | new
        system, sol = simulated(name, h, steps, mbd.GeneralizedAlpha(), mbd.RA())
        new, histories[name]["generalized_alpha"] = conservation(name, system, sol)
        row["generalized_alpha"] = new
        row["schemes_max_difference"] = max(
            float(
                jnp.max(
                    jnp.abs(getattr(found["constrained"][1], k) - getattr(found["reduced"][1], k))
                )
            )
            for k in "rA"
        )
        system, sol = films[name] = found["reduced"]
        relative[name] = np.asarray(sol.t), relative_coordinates(name, sol)
        every = max(1, steps // 10)
        row["relative_coordinates"] = {"t": np.asarray(sol.t)[::every].tolist()} | {
            k: np.asarray(x)[::every].tolist() for k, x in relative[name][1].items()
        }
        save(results, out)
    for name, (figure, h, steps) in FURTHER.items():
        if name not in names:
            continue
        row, histories[figure] = {}, {}
        for scheme, method in SCHEMES.items():
            system, sol = simulated(name, h, steps, method)
            row[scheme], histories[figure][scheme] = conservation(name, system, sol)
        relative[figure] = np.asarray(sol.t), relative_coordinates(name, sol)
        balances[figure] = system, sol
        system, sol = simulated(name, h, steps, mbd.GeneralizedAlpha(), mbd.RA())
        row["generalized_alpha"], histories[figure]["generalized_alpha"] = conservation(
            name, system, sol
        )
        results[name][figure] = {"h": h, "seconds": h * steps} | row
    if "six_body_linkage" in names:
        a, b = (relative["six_body_linkage"][1][k] for k in ("theta1", "theta2"))
        gap = (1 + np.cos(np.pi / 2 + a)) * (1 + np.cos(np.pi / 2 - b)) - 1
        results["six_body_linkage"]["closed_form_gap"] = float(np.max(np.abs(gap)))
    save(results, out)
    figures.conservation(histories, out)
    figures.relative(relative, out)
    found = films | balances
    shown = {name: found[name] for name in BALANCES if name in found}
    figures.balances(shown, out)
    figures.snapshots(films, out)
    if not quick:
        figures.film(*films["six_body_linkage"], out)


def condition_numbers(results, names, out, quick):
    """Tables II to V."""
    for name, (steps, instant) in tqdm(CONDITIONS.items(), desc="conditions", leave=False):
        if name in names:
            results.setdefault(name, {}).update(conditions(*built(name), steps, instant))
            save(results, out)
    if "planar_pair" in names:
        found = over_time(*built("planar_pair"), INSTANT_STEP, INSTANTS)
        results["planar_pair"]["condition_over_time"] = found
        save(results, out)


def order(results, names, out, quick):
    """The top against steady precession."""
    for scheme, method in SCHEMES.items():
        order, errors = order_of_the_top(method)
        row = results.setdefault("gyro_top", {}).setdefault(scheme, {})
        row |= {"order": order, "errors": errors}
    save(results, out)
    figures.convergence({k: results["gyro_top"][k]["errors"] for k in SCHEMES}, out)


def costs(results, names, out, quick):
    """Time for an accuracy."""
    if quick:
        return
    for name in tqdm(COST, desc="costs", leave=False):
        results.setdefault(name, {})["cost"] = cost_of_accuracy(name)
        save(results, out)
    figures.cost({name: results[name]["cost"] for name in COST}, out)


def long_runs(results, names, out, quick):
    """A hundred seconds."""
    if quick:
        return
    drifts = {}
    for name in tqdm(names, desc="long runs", leave=False):
        row = results.setdefault(name, {})
        row["long_run"], row["us_per_step"], drifts[name] = {}, {}, {}
        for method, (formulation, integrator) in LONG.items():
            row["us_per_step"][method] = cost(name, formulation, integrator, 1e-3)
            row["long_run"][method], drifts[name][method] = long_run(
                name, formulation, integrator, 1e-3, 100.0
            )
            save(results, out)
    figures.long_runs(drifts, out)


def gradients(results, names, out, quick):
    """Gradients against differences."""
    if quick:
        return
    for name in tqdm(GRADIENT_CASES, desc="gradients", leave=False):
        results.setdefault(name, {})["gradients"] = gradient_errors(name)
        save(results, out)


def size_reduction(results, names, out, quick):
    """The reduced scheme without reparametrization."""
    if quick:
        return
    for name in tqdm(names, desc="size reduction", leave=False):
        found = compared(*built(name), *RUNS[name])
        results.setdefault(name, {})["size_reduction"] = found
        save(results, out)


def save(results, out):
    """Write what there is, and let go of compiled programs: a process may map only so many."""
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    jax.clear_caches()


PARTS = {
    part.__name__: part
    for part in (motions, condition_numbers, order, costs, long_runs, gradients, size_reduction)
}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """The top alone, without costs and long runs, where `quick`."""
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() and chosen else {}
    names = ("gyro_top",) if quick else tuple(MODELS)
    for name in [name for name in PARTS if name in (chosen or PARTS)]:
        PARTS[name](results, names, out, quick)
    print(f"wrote results.json and the pictures to {out}")
