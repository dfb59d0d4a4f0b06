"""Time against size: chains, ladders of loops, trains of gears, batches, gradients, compile time,
with peers in the same run.

python -m experiments scale [--part single ...] [--out DIR] [--quick] [--cores N]

Writes scale.json and scale.png.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.analyses import fixed_steps
from jaxmbd.equations import rows as equations

from .. import options
from ..drawing import legend_above
from . import peers

H = 1e-3
CHUNK = 128


@dataclass(frozen=True)
class Settings:
    """Sizes of a run."""

    steps: int = 400
    repeats: int = 5
    chains: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    ladders: tuple[int, ...] = (5, 10, 20, 40)
    gears: tuple[int, ...] = (10, 20, 50, 100, 200)
    batch: int = 1024
    formulations: tuple[str, ...] = ("rA", "rp", "reps")
    differentiated: tuple[str, ...] = (
        "double_pendulum",
        "four_bar",
        "revolute_chain:32",
        "gear_train:100",
    )


QUICK = Settings(50, 2, (2, 16), (2, 4), (2, 4), 64, ("rA",), ("revolute_chain:8",))
LEARNING = mbd.GeneralizedAlpha()
KEEPING = mbd.GeneralizedAlpha(newton=mbd.Newton(keep_factors=True))


def best_of(job, repeats):
    """Least seconds of several runs."""
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(job())
        best = min(best, time.perf_counter() - begin)
    return best


def single(model, settings, integrator=LEARNING):
    """Microseconds per step, seconds of compilation and the largest violation of one trajectory by
    rA.
    """
    begin = time.perf_counter()
    system, state = mbd.load(model)
    build = time.perf_counter() - begin
    formulation = mbd.RA()
    t0 = jnp.zeros(())
    steps = fixed_steps.FixedSteps(t0, jnp.asarray(H), formulation, integrator)
    begin = time.perf_counter()
    state, report = fixed_steps.assembled(system, state, t0)
    system = system.unnamed()  # what compiled programs get
    start = fixed_steps.InitialState(state, state, report)
    progress, _ = fixed_steps.start_run(system, start, steps)
    preparation = time.perf_counter() - begin
    saves = fixed_steps.Saves(1, settings.steps)
    begin = time.perf_counter()
    job = fixed_steps.advance.lower(system, progress, steps, saves).compile()
    compiled = time.perf_counter() - begin
    end, _ = job(system, progress, steps, saves)
    seconds = best_of(lambda: job(system, progress, steps, saves)[0].motion.q.r, settings.repeats)
    now = system.wound(end.angles).at(t0 + settings.steps * H)
    phi = equations.phi(mbd.RA(), now, end.motion.q)
    return {
        "bodies": system.nb,
        "linear_solver": system.linear_solver,
        "us_per_step": seconds / settings.steps * 1e6,
        "us_per_body": seconds / settings.steps * 1e6 / system.nb,
        "build_s": build,
        "preparation_s": preparation,
        "compile_s": compiled,
        "violation": float(jnp.max(jnp.abs(phi))),
    }


def batch(model, formulation, integrator, size, steps):
    """State-steps per second of one core: one `vmap` over members that differ in mass, and chunks
    of 128 of them.
    """
    system, state = mbd.load(model)

    def member(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * factor)
        sol = mbd.simulate(
            heavier,
            state,
            steps=steps,
            save_every=steps,
            h=H,
            formulation=formulation,
            integrator=integrator,
        )
        return jnp.max(jnp.abs(sol.violation(heavier).position[-1]))

    factors = jnp.linspace(0.8, 1.2, size)
    row = {}
    chunked = (
        {"state_steps_per_s_in_chunks": lambda x: jax.lax.map(member, x, batch_size=CHUNK)}
        if size > CHUNK
        else {}
    )
    for name, function in ({"state_steps_per_s": jax.vmap(member)} | chunked).items():
        mapped = jax.jit(function)
        row["violation"] = float(jnp.max(mapped(factors)))
        row[name] = size * steps / best_of(lambda mapped=mapped: mapped(factors), 3)
    return row


def batches(settings, mjx):
    """Model, formulation and integrator of each row of batches; MJX has none of ours."""
    rows = []
    for model in ("double_pendulum", "four_bar"):
        rows.append((model, "rA", KEEPING))
        rows += [(model, name, LEARNING) for name in settings.formulations]
    return [*rows, ("four_bar", "MJX", None)] if mjx else rows


def gradient(model, integrator, settings):
    """Time of a reverse gradient by all masses over that of the simulation, and of the product of
    a Hessian with a vector over that of the gradient.
    """
    system, state = mbd.load(model)
    steps = settings.steps // 4

    def end(mass):
        heavier = eqx.tree_at(lambda s: s.mass, system, mass)
        sol = mbd.simulate(
            heavier, state, h=H, steps=steps, save_every=steps, integrator=integrator, throw=False
        )
        return sol.r[-1, -1, 2] + sol.omega[-1, -1] @ sol.omega[-1, -1]

    times = []
    along = jnp.linspace(0.5, 1.5, system.mass.size)
    product = jax.jit(lambda mass: jax.jvp(jax.grad(end), (mass,), (along,))[1])
    for job in (jax.jit(end), jax.jit(jax.grad(end)), product):
        jax.block_until_ready(job(system.mass))
        times.append(best_of(lambda job=job: job(system.mass), settings.repeats))
    forward, reverse, second = times
    return {
        "forward_us_per_step": forward / steps * 1e6,
        "ratio": reverse / forward,
        "hessian_product_ratio": second / reverse,
    }


def plot(results, path):
    """Time per step against the number of links."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    rows = results["chain"]
    if not rows:
        return
    n = [int(k) for k in rows]
    ax.loglog(
        n,
        [r["us_per_step"] for r in rows.values()],
        "o-",
        label="jaxmbd, absolute coordinates, generalized-α",
    )
    ax.loglog(n, [r["kept_us_per_step"] for r in rows.values()], "o:", label="with kept factors")
    for name, key in (
        ("Exudyn, absolute coordinates, generalized-α", "exudyn_us"),
        ("MuJoCo, minimal coordinates", "mujoco_us"),
    ):
        if key in next(iter(rows.values())):
            ax.loglog(n, [r.get(key, np.nan) for r in rows.values()], "s--", label=name)
    ladder = results["ladder"]
    ax.loglog(
        [r["bodies"] for r in ladder.values()], [r["us_per_step"] for r in ladder.values()], "^-"
    )
    ax.lines[-1].set_label("jaxmbd, ladder of redundant loops")
    if gears := results["gears"]:
        ax.loglog(
            [r["bodies"] for r in gears.values()],
            [r["us_per_step"] for r in gears.values()],
            "v-",
            label="jaxmbd, train of gears",
        )
    ax.loglog(n, 16.0 * np.array(n), ":", color="gray", label="16 µs per body")
    ax.set(xlabel="bodies", ylabel="time of a step of 1 ms, one core [µs]")
    legend_above(ax)
    ax.grid(alpha=0.3, which="both")
    fig.savefig(path, dpi=130)


KINDS = ("chain", "ladder", "gears", "single", "batch", "gradient")


def run(out: Path, quick: bool, *, part: options.parts(KINDS) = None):
    """Small sizes and few steps where `quick`; everything, or some parts beside those of an earlier
    run.
    """
    settings = QUICK if quick else Settings()
    steps = settings.steps
    found = peers.versions()
    results = {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "peers": found,
        "steps": steps,
    }
    jobs = (
        [("chain", n) for n in settings.chains]
        + [("ladder", n) for n in settings.ladders]
        + [("gears", n) for n in settings.gears]
        + [("single", None)]
        + [("batch", row) for row in batches(settings, "mujoco-mjx" in found)]
        + [("gradient", model) for model in settings.differentiated]
    )
    wanted = KINDS if part is None else [str(x) for x in part]
    jobs = [(kind, n) for kind, n in jobs if kind in wanted]
    path = out / "scale.json"
    known = json.loads(path.read_text()) if part is not None and path.exists() else {}
    results |= {kind: {} if kind in wanted else known.get(kind, {}) for kind in KINDS}
    for kind, n in tqdm(jobs, desc="scale", leave=False):
        if kind == "chain":
            row = single(f"revolute_chain:{n}", settings)
            kept = single(f"revolute_chain:{n}", settings, KEEPING)
            row |= {f"kept_{key}": kept[key] for key in ("us_per_step", "compile_s", "violation")}
            if "exudyn" in found:
                row["exudyn_us"] = peers.exudyn_us(f"revolute_chain:{n}", min(steps, 200))
            if "mujoco" in found and n <= 256:  # its files nest no deeper
                row["mujoco_us"] = peers.mujoco_chain_us(n, steps)
            results["chain"][str(n)] = row
        elif kind == "ladder":
            results["ladder"][str(n)] = single(f"four_bar_ladder:{n}", settings)
        elif kind == "gears":
            results["gears"][str(n)] = single(f"gear_train:{n}", settings)
        elif kind == "single":
            for model in ("double_pendulum", "four_bar", "slider_crank"):
                row = results["single"][model] = single(model, settings)
                for name, integrator in (
                    ("kept", KEEPING),
                    ("implicit_euler", mbd.ImplicitEuler()),
                    ("implicit_euler_kept", mbd.ImplicitEuler(newton=KEEPING.newton)),
                ):
                    other = single(model, settings, integrator)
                    row[f"{name}_us_per_step"] = other["us_per_step"]
                if "exudyn" in found and model == "four_bar":  # of revolute joints alone
                    row["exudyn_us"] = peers.exudyn_us(model, min(steps, 200))
            if "mujoco" in found:
                us, gap = peers.mujoco_four_bar(steps)
                results["single"]["four_bar"] |= {"mujoco_us": us, "mujoco_gap": gap}
        elif kind == "batch":
            model, way, integrator = n
            if integrator is None:
                rate, gap = peers.mjx_four_bar(settings.batch, steps // 2)
                row = {"state_steps_per_s": rate, "violation": gap}
            else:
                formulation = mbd.FORMULATIONS[way]()
                row = batch(model, formulation, integrator, settings.batch, steps // 2)
            label = f"{model} {way}" + " kept" * (integrator is KEEPING)
            results["batch"][label] = row
        else:
            for name, integrator in (("", LEARNING), (" kept", KEEPING)):
                results["gradient"][n + name] = gradient(n, integrator, settings)
        jax.clear_caches()  # a process has room for so many programs only
        # JSON has no NaN: a peer that gave up is null.
        text = json.dumps(json.loads(json.dumps(results), parse_constant=lambda _: None), indent=2)
        path.write_text(text + "\n")
    plot(results, out / "scale.png")
    Console(width=120).print_json(text)
