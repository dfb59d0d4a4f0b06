"""Stops, dry friction and contact: reference cases with known answers, gradients, cost.

python -m experiments contact [--out DIR] [--quick]
"""

import json
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.complementarity import LawProblem, Laws, solve_laws
from jaxmbd.rotations import so3

from . import figures, scenes
from .scenes import G

TOSS = {
    "mass": 1.0,
    "height": 0.5,
    "v_x": 1.5,
    "v_z": 1.0,
    "friction": 0.05,
    "restitution": 0.7,
}


def bounces(quick):
    """A dropped ball against its closed form, and its energy without loss."""
    out = {"ball_height_error": {}}
    for h in (1e-2, 5e-3, 1e-3):
        sol = mbd.simulate(*scenes.ball(), t_end=2.0, h=h)
        exact = [scenes.bouncing_height(t, 0.8) for t in np.asarray(sol.t)]
        error = np.max(np.abs(np.asarray(sol.r[:, 0, 2]) - 0.1 - exact))
        out["ball_height_error"][f"{h:g}"] = float(error)
    seconds = 10.0 if quick else 100.0
    sol = mbd.simulate(*scenes.ball(restitution=1.0), t_end=seconds, h=5e-3, save_every=20)
    energy = np.asarray(sol.energy().total)
    out["ball_energy_drift_100s"] = float(np.max(np.abs(energy / energy[0] - 1.0)))
    return out


def sticks(quick):
    """Creep below the friction angle, the threshold itself, sliding and rolling."""
    seconds = 1.0 if quick else 10.0

    def moved(friction, seconds=seconds):
        sol = mbd.simulate(*scenes.incline(friction), t_end=seconds, h=1e-3, save_every=100)
        return float(sol.r[-1, 0, 0])

    # What slides below the threshold by d μ has gone g cos(α) d μ t²/2.
    slope = 0.3093
    cosine = np.cos(np.arctan(slope))

    def gone(friction):
        return moved(friction, 1.0) - 1e-9

    threshold = brentq(gone, slope - 1e-4, slope + 1e-4, xtol=1e-9)
    out = {
        "creep_10s": abs(moved(1.0001 * slope)),
        # The place of 1e-9 m is itself beside the threshold by 2e-9/(g cos α).
        "threshold_error_mu": abs(threshold - slope + 2e-9 / (G * cosine)),
        "sliding_error": abs(moved(0.2, 1.0) - 0.5 * G * cosine * (slope - 0.2)),
    }
    sol = mbd.simulate(
        *scenes.ball(height=0.0, restitution=0.0, friction=0.3, v=(2.0, 0, 0)), t_end=1.0, h=1e-2
    )
    out["rolling_speed_error"] = abs(float(sol.v[-1, 0, 0]) - 10.0 / 7.0)
    sol = mbd.simulate(*scenes.cube(), t_end=1.5, h=1e-3, save_every=10)
    out["sliding_cube_lift"] = float(np.max(np.abs(np.asarray(sol.r[:, 0, 2]) - 0.1)))
    sol = mbd.simulate(*scenes.stack(), t_end=0.2 if quick else 1.0, h=2e-3, save_every=10)
    base = float(np.asarray(sol.contact("on0").force)[-1, :, 0].sum())
    out["stack_base_force_error"] = abs(base - 20.0 * G)
    out["stack_drift"] = float(np.max(np.abs(np.asarray(sol.r[-1] - sol.r[0]))))
    out["stack_iterations_mean"] = float(np.asarray(sol.iterations)[1:].mean() / 10)
    return out


def throws(restitution, quick):
    """Boxes that are thrown with random states: steps without a solution, depth, cost."""
    count, steps = (8, 200) if quick else (200, 1000)
    system, state = scenes.thrown_box(restitution)
    rng = np.random.default_rng(0)
    turns, v, omega = (jnp.asarray(rng.normal(size=(count, 3)) * x) for x in (1.0, 2.0, 5.0))

    def run(turn, v, omega):
        start = mbd.State(state.r, so3.exp(turn)[None], v[None], omega[None], state.angles)
        sol = mbd.simulate(system, start, steps=steps, h=2e-3, save_every=steps // 20)
        stats = sol.stats
        return (
            stats["completed_steps"],
            stats["law_bounces_dropped"][-1],
            jnp.min(stats["law_gaps"]),
            jnp.sum(sol.iterations),
        )

    found = jax.jit(jax.vmap(run))(turns, v, omega)
    done, dropped, depth, iterations = (np.asarray(x) for x in found)
    return {
        "failures": int(count * steps - done.sum()),
        "without_restitution": int(dropped.sum()),
        "steps": count * steps,
        "depth": float(-depth.min()),
        "iterations_mean": float(iterations.sum() / (count * steps)),
    }


def gradients():
    """Derivatives across impacts against the closed form, and of an elastic impact."""
    traced = {name: jnp.asarray(x) for name, x in TOSS.items()}

    def end(numbers):
        sol = mbd.simulate(*scenes.toss(numbers), steps=150, h=1e-2, save_every=150)
        return sol.r[-1, 0, ::2] - jnp.array([0.0, 0.1])

    slopes = jax.jit(jax.jacrev(end))(traced)
    differences = {}
    for name, x in TOSS.items():
        step = 1e-6 * max(abs(x), 1.0)
        high, low = (scenes.tossed_in_closed_form(TOSS | {name: x + s * step}) for s in (1.0, -1.0))
        differences[name] = (high - low) / (2.0 * step)
    largest = max(np.max(np.abs(x)) for x in differences.values())
    worst = max(np.max(np.abs(np.asarray(slopes[n]) - differences[n])) for n in TOSS)

    def after(r, v):
        sol = mbd.simulate(*scenes.two_balls(r, v), steps=10, h=0.1, save_every=10)
        return jnp.concatenate([sol.r[-1, :, 0], sol.v[-1, :, 0]])

    by_r, by_v = jax.jit(jax.jacfwd(after, (0, 1)))(jnp.array([0.0, 0.63]), jnp.array([1.0, 0.0]))
    exact_r = np.array([[0, 1], [1, 0], [0, 0], [0, 0]])
    exact_v = np.array([[0, 1], [1, 0], [0, 1], [1, 0]])
    return {
        "gradient_tossed_ball": float(worst / largest),
        "gradient_two_balls": float(
            max(np.max(np.abs(by_r - exact_r)), np.max(np.abs(by_v - exact_v)))
        ),
        "toss_derivatives": {n: np.asarray(x).tolist() for n, x in slopes.items()},
    }


def random_problems(quick):
    """Contact problems of random rows and masses, solved from nothing."""
    sets = {"box4": (4, 6, 1.2), "bodies8": (8, 18, 1.2), "one12": (12, 6, 1.2)}
    sets["friction_to_5"] = (8, 18, 5.0)
    count = 50 if quick else 1000
    problem = LawProblem()
    solve = jax.jit(lambda laws: solve_laws(laws, jnp.zeros(laws.width), problem)[1])
    out = {}
    for name, (contacts, unknowns, largest) in sets.items():
        rng = np.random.default_rng(5)
        failures, iterations = 0, []
        for _ in tqdm(range(count), desc=name, leave=False):
            W = rng.normal(size=(3 * contacts, unknowns))
            G_ = W @ np.diag(10.0 ** rng.uniform(-1.0, 1.5, unknowns)) @ W.T
            none = jnp.zeros(0)
            laws = Laws(
                jnp.asarray(G_),
                jnp.asarray(W @ rng.normal(size=unknowns)),
                jnp.ones(contacts, bool),
                jnp.asarray(rng.uniform(0.05, largest, contacts)),
                none,
                none,
                jnp.zeros((0, 3)),
                jnp.zeros((0, 3, 3 * contacts)),
                0,
            )
            outcome = solve(laws)
            failures += not bool(outcome.converged)
            iterations.append(int(outcome.iterations))
        quantiles = np.quantile(iterations, [0.5, 0.9, 1.0]).tolist()
        out[name] = {"problems": count, "failures": failures, "iterations": quantiles}
    return out


def cost():
    """Processor time of a step, compiled, by scene [µs]."""
    built = {
        "open contact": scenes.ball(height=1000.0),
        "one contact": scenes.ball(height=0.0, restitution=0.0, friction=0.3, v=(2.0, 0, 0)),
        "eight corners": scenes.incline(0.35),
        "stack, 20 corners closed of 40": scenes.stack(),
        "pendulum with stop": scenes.pendulum(mbd.JointLimit("stop", "pin", upper=1.2)),
        "pendulum with dry friction": scenes.pendulum(mbd.CoulombFriction("dry", "pin", bound=2.0)),
    }
    out = {}
    for name, (system, state) in built.items():
        run = jax.jit(
            lambda s, system=system: mbd.simulate(system, s, steps=1000, h=1e-3, save_every=1000).r
        )
        jax.block_until_ready(run(state))
        best = np.inf
        for _ in range(5):
            start = time.process_time()
            jax.block_until_ready(run(state))
            best = min(best, time.process_time() - start)
        out[name] = best * 1e3
    return out


def run(out, quick):
    """Everything; results.json and pictures."""
    results = {}

    def keep(more):
        results.update(more)
        text = json.dumps(results, indent=1)
        (out / "results.json").write_text(text + "\n", encoding="utf-8")

    keep(bounces(quick))
    keep(sticks(quick))
    for name, restitution in (("e0", 0.0), ("e03", 0.3)):
        found = throws(restitution, quick)
        keep({f"throws_{name}": found, f"throws_{name}_failures": found["failures"]})
    keep(gradients())
    found = random_problems(quick)
    keep(
        {
            "random_problems": found,
            "random_problems_failures": sum(
                x["failures"] for n, x in found.items() if n != "friction_to_5"
            ),
        }
    )
    if not quick:
        keep({"us_per_step": cost()})
    figures.draw(out, quick)
    for name, value in results.items():
        if not isinstance(value, dict):
            print(f"{name}: {value:.3g}")
