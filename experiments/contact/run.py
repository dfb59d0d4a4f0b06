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

from .. import options
from . import (
    derivatives,
    figures,
    juggling,
    learned,
    mechanisms,
    orders,
    peers,
    scale,
    scenes,
    stops,
    woodpecker,
)
from .scenes import G


def bounces(quick):
    """A dropped ball against its closed form, and its energy without loss."""
    by_step = {}
    for h in (1e-2, 5e-3, 1e-3):
        sol = mbd.simulate(*scenes.ball(), t_end=2.0, h=h)
        exact = [scenes.bouncing_height(t, 0.8) for t in np.asarray(sol.t)]
        error = np.max(np.abs(np.asarray(sol.r[:, 0, 2]) - 0.1 - exact))
        by_step[f"{h:g}"] = float(error)
    seconds = 10.0 if quick else 100.0
    sol = mbd.simulate(*scenes.ball(restitution=1.0), t_end=seconds, h=5e-3, save_every=20)
    energy = np.asarray(sol.energy().total)
    return {
        "ball_height_error": by_step["0.01"],
        "ball_height_error_by_step": by_step,
        "ball_energy_drift_100s": float(np.max(np.abs(energy / energy[0] - 1.0))),
    }


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


def dry(quick):
    """Dry friction: where an oscillator and a pendulum come to rest."""
    sol = mbd.simulate(*scenes.dry_oscillator(), t_end=25.0, h=1e-2)
    x = np.asarray(sol.r[:, 0, 0])
    out = {
        "dry_oscillator_error": float(abs(x[-1] - scenes.oscillator_rest())),
        "dry_oscillator_creep": float(abs(x[-1] - x[-200])),
        "dry_pendulum_error": {},
    }
    built = scenes.pendulum(mbd.CoulombFriction("dry", "pin", bound=2.0))
    for h in (5e-3, 2.5e-3, 1.25e-3):
        sol = mbd.simulate(*built, t_end=4.0, h=h)
        angle = np.asarray(sol.joint("pin").angle)
        out["dry_pendulum_error"][f"{h:g}"] = float(abs(angle[-1] - scenes.pendulum_rest(2.0)))
        out["dry_pendulum_creep"] = float(abs(angle[-1] - angle[-200]))
    return out


def thrown(restitution, quick):
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


def throws(quick):
    """Both restitutions."""
    out = {}
    for name, restitution in (("e0", 0.0), ("e03", 0.3)):
        found = thrown(restitution, quick)
        out |= {f"throws_{name}": found, f"throws_{name}_failures": found["failures"]}
    return out


def gradients(quick):
    """Derivatives across impacts against the closed form, and of an elastic impact."""
    traced = {name: jnp.asarray(x) for name, x in scenes.TOSS.items()}

    def end(numbers):
        sol = mbd.simulate(*scenes.toss(numbers), steps=150, h=1e-2, save_every=150)
        return sol.r[-1, 0, ::2] - jnp.array([0.0, 0.1])

    slopes = jax.jit(jax.jacrev(end))(traced)
    differences = {}
    for name, x in scenes.TOSS.items():
        step = 1e-6 * max(abs(x), 1.0)
        high, low = (
            scenes.tossed_in_closed_form(scenes.TOSS | {name: x + s * step}) for s in (1.0, -1.0)
        )
        differences[name] = (high - low) / (2.0 * step)
    largest = max(np.max(np.abs(x)) for x in differences.values())
    worst = max(np.max(np.abs(np.asarray(slopes[n]) - differences[n])) for n in scenes.TOSS)

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


def reverse_mode(quick):
    """What a gradient costs, and 256 of them in a batch."""
    return {
        "gradient_cost": derivatives.cost(quick),
        "gradient_batches": derivatives.batches(quick),
    }


# Contacts, velocities of the bodies, largest coefficient of friction.
SETS = {"box4": (4, 6, 1.2), "bodies8": (8, 18, 1.2), "one12": (12, 6, 1.2)}
SETS["friction_to_5"] = (8, 18, 5.0)


def random_laws(name, count):
    """Contact problems of random rows and masses."""
    contacts, unknowns, largest = SETS[name]
    rng, none = np.random.default_rng(5), jnp.zeros(0)
    for _ in range(count):
        W = rng.normal(size=(3 * contacts, unknowns))
        G_ = W @ np.diag(10.0 ** rng.uniform(-1.0, 1.5, unknowns)) @ W.T
        yield Laws(
            matrix=jnp.asarray(G_),
            free=jnp.asarray(W @ rng.normal(size=unknowns)),
            active=jnp.ones(contacts, bool),
            friction=jnp.asarray(rng.uniform(0.05, largest, contacts)),
            bound=none,
            share=none,
            carried=jnp.zeros((0, 3)),
            carries=jnp.zeros((0, 3, 3 * contacts)),
            spent=jnp.zeros(3 * contacts),
            stops=0,
        )


def random_problems(quick):
    """Solved from nothing."""
    count = 50 if quick else 1000
    problem = LawProblem()
    solve = jax.jit(lambda laws: solve_laws(laws, jnp.zeros(laws.width), problem)[1])
    out = {}
    for name in SETS:
        outcomes = [solve(x) for x in tqdm(random_laws(name, count), name, count, leave=False)]
        iterations = [int(x.iterations) for x in outcomes]
        out[name] = {
            "problems": count,
            "failures": sum(not bool(x.converged) for x in outcomes),
            "iterations": np.quantile(iterations, [0.5, 0.9, 1.0]).tolist(),
        }
    counted = sum(x["failures"] for n, x in out.items() if n != "friction_to_5")
    return {"random_problems": out, "random_problems_failures": counted}


def cost(quick):
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
    steps, repeats = (100, 1) if quick else (1000, 15)
    for name, (system, state) in built.items():
        run = jax.jit(
            lambda s, system=system: (
                mbd.simulate(system, s, steps=steps, h=1e-3, save_every=steps).r
            )
        )
        jax.block_until_ready(run(state))
        best = np.inf
        for _ in range(repeats):
            start = time.process_time()
            jax.block_until_ready(run(state))
            best = min(best, time.process_time() - start)
        out[name] = best * 1e6 / steps
    return {"us_per_step": out}


def slider_cranks(quick):
    """With play, and with dry guides."""
    return {
        "slider_crank_with_play": mechanisms.with_play(quick)[1],
        "slider_crank_dry_guide": mechanisms.with_dry_guide(quick),
    }


def stop(quick):
    """A slider crank against a stop."""
    return {"slider_crank_with_stop": stops.against_minimal_coordinates(quick)}


def event_orders(quick):
    """Orders across a detachment and impacts of turning and curved bodies."""
    return {"orders": orders.measured(quick)}


def toy(quick):
    """The woodpecker toy."""
    return {"woodpecker": woodpecker.compared(quick)}


def juggled(quick):
    """A motion of a bat that is optimized across impacts."""
    return {"juggling": juggling.compared(quick)}


def learning(quick):
    """Laws that are identified from a noisy motion."""
    report, truth = learned.identified()
    fitted = {
        path.split(".")[-1]: {"estimate": float(x), "error": float(report.standard_error[path])}
        for path, x in report.estimate.items()
    }
    for name, x in truth.items():
        fitted[name]["truth"] = x
    return {"identified": fitted | {"rms": float(report.rms)}}


def many(quick):
    """Walls of boxes and boxes of balls."""
    return {"scale": scale.by_number(quick)}


def mujoco(quick):
    """The same scenes in MuJoCo, where it is installed."""
    return {"mujoco": peers.side_by_side(quick)} if peers.installed() else {}


def siconos(quick):
    """The same random problems by Siconos, where it is installed."""
    count = 20 if quick else 100
    found = peers.agreement({name: list(random_laws(name, count)) for name in SETS})
    return {"siconos": found} if found else {}


PARTS = {
    f.__name__: f
    for f in (bounces, sticks, dry, throws, gradients, reverse_mode, random_problems, cost)
    + (slider_cranks, stop, event_orders, toy, juggled, learning, many, mujoco, siconos)
}


def run(out, quick, *, part: options.parts([*PARTS, "pictures"]) = None):
    """Everything, or some parts; results.json and pictures."""
    path = out / "results.json"
    wanted = [*PARTS, "pictures"] if part is None else [str(x) for x in part]
    known = path.exists() and part is not None
    results = json.loads(path.read_text(encoding="utf-8")) if known else {}
    for name in wanted:
        if name == "pictures":
            figures.draw(out, quick)
            continue
        results.update(PARTS[name](quick))
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name, value in results.items():
        if not isinstance(value, dict):
            print(f"{name}: {value:.3g}")
