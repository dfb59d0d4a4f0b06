"""Exact gradients: their error against differences, their time, memory and compile time as ratios
to a forward run.

python -m experiments gradients [--out DIR] [--quick] [--part ...] [--model ...]
"""

import json
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import jaxmbd as mbd

from ..options import parts, repeated
from . import cases

TIMED = ("double_pendulum", "four_bar")
PARTS = ("errors", "ratios", "batch")
Parts = parts(PARTS)
Models = repeated("--model", cases.MODELS, "Errors of this mechanism alone")


def rollout(model, steps, checkpoints=1):
    """A scalar of the last positions as a function of the masses."""
    system, state = mbd.load(model)

    def run(mass):
        heavier = eqx.tree_at(lambda s: s.mass, system, mass)
        sol = mbd.simulate(
            heavier,
            state,
            h=1e-3,
            steps=steps,
            save_every=steps,
            checkpoints=checkpoints,
            integrator=mbd.ImplicitEuler(),
        )
        return jnp.sum(sol.r[-1] ** 2)

    return run, system.mass


def timed(function, *args, repeats):
    """Processor seconds to compile (tracing included) and to run (best), bytes of memory."""
    begin = time.process_time()
    job = jax.jit(function).lower(*args).compile()
    compiled = time.process_time() - begin
    best = np.inf
    for _ in range(repeats):
        begin = time.process_time()
        jax.block_until_ready(job(*args))
        best = min(best, time.process_time() - begin)
    return compiled, best, job.memory_analysis().temp_size_in_bytes


def ratios(model, steps, checkpoints, repeats):
    """Time of the gradient and of one jvp over that of the forward run."""
    run, mass = rollout(model, steps, checkpoints)
    _, forward, _ = timed(run, mass, repeats=repeats)
    compiled, reverse, memory = timed(jax.grad(run), mass, repeats=repeats)
    _, tangent, _ = timed(lambda m: jax.jvp(run, (m,), (jnp.ones_like(m),)), mass, repeats=repeats)
    return {
        "steps": steps,
        "checkpoints": checkpoints,
        "forward_us_per_step": forward / steps * 1e6,
        "gradient_over_forward": reverse / forward,
        "jvp_over_forward": tangent / forward,
        "gradient_memory_MB": memory / 1e6,
        "gradient_compile_s": compiled,
    }


def batch_gap(size, steps=200):
    """Largest difference between a batch of parameter sets and the loop over them."""
    run, mass = rollout("four_bar", steps)
    sets = mass * jnp.linspace(0.8, 1.2, size)[:, None]
    both = jax.value_and_grad(run)
    together = jax.jit(jax.vmap(both))(sets)
    one = jax.jit(both)
    alone = jax.tree.map(lambda *x: jnp.stack(x), *[one(m) for m in sets])
    return [
        float(jnp.max(jnp.abs(a - b) / jnp.max(jnp.abs(b))))
        for a, b in zip(together, alone, strict=True)
    ]


def run(out: Path, quick: bool, *, chosen: Parts = None, models: Models = None):
    """One mechanism and short runs where `quick`."""
    chosen = chosen or PARTS
    models = models or cases.MODELS
    models, formulations = (models[:1], ["rA"]) if quick else (models, ["rA", "rp", "reps"])
    repeats = 2 if quick else 7
    settings = [(100, 1), (100, 10)] if quick else [(1000, 1), (10000, 1), (1000, 25), (10000, 100)]
    device = jax.devices()[0].device_kind
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    results |= {"device": f"{device}, one core"} | {
        k: {} for k in ("relative_error", "ratios") if k not in results
    }
    jobs = [(m, f) for m in models for f in formulations] if "errors" in chosen else []
    if "ratios" in chosen:
        results["ratios"] = {}
        jobs += [(m, s) for m in TIMED[: 1 if quick else None] for s in settings]
    for model, what in tqdm(jobs, desc="gradients"):
        if isinstance(what, str):
            found = cases.errors(model, mbd.FORMULATIONS[what]())
            table = results["relative_error"].setdefault(model, {})
            table[what] = {kind: entry["relative_error"] for kind, entry in found.items()}
        else:
            results["ratios"].setdefault(model, []).append(ratios(model, *what, repeats))
        jax.clear_caches()
        target.write_text(json.dumps(results, indent=1) + "\n")
    if "batch" in chosen:
        results["batch_gap"] = batch_gap(8 if quick else 256)
    target.write_text(json.dumps(results, indent=1) + "\n")
    report(results)


def report(results):
    """Print what was found."""
    console = Console(width=130)
    table = Table("mechanism", "formulation", "largest relative error", "of")
    for model, by_formulation in results["relative_error"].items():
        for name, kinds in by_formulation.items():
            worst = max(kinds, key=kinds.get)
            table.add_row(model, name, f"{kinds[worst]:.1e}", worst)
    console.print(table)
    table = Table(
        "mechanism",
        "steps",
        "checkpoints",
        "forward us/step",
        "gradient",
        "jvp",
        "memory MB",
        "compile s",
    )
    for model, rows in results["ratios"].items():
        for r in rows:
            numbers = [
                f"{r[k]:.2f}"
                for k in ("forward_us_per_step", "gradient_over_forward", "jvp_over_forward")
            ]
            memory, seconds = f"{r['gradient_memory_MB']:.2f}", f"{r['gradient_compile_s']:.1f}"
            table.add_row(model, str(r["steps"]), str(r["checkpoints"]), *numbers, memory, seconds)
    console.print(table)
    console.print(f"batch against loop, value and gradient: {results.get('batch_gap')}")
