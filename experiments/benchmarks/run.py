"""Time per step, compile time and iterations of every formulation, against a tight NumPy step in
the same run.

python -m experiments benchmarks [--out DIR] [--quick] [--cores N] [--model ...] [--formulation ...]

Writes results.json.
"""

import json
import os
import time
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.analyses import fixed_steps

from ..options import repeated
from .numpy_step import NumpySystem

MODELS = ("double_pendulum", "slider_crank", "four_link", "four_bar")
FORMULATIONS = ("rA", "rp", "reps")
H = 1e-3
Models = Annotated[
    list[str] | None,
    typer.Option("--model", help="Packaged name, instead of the README's; repeat for more."),
]
Formulations = repeated("--formulation", FORMULATIONS, "This formulation alone")


def numpy_yardstick(system, state, steps):
    """Seconds per step and mean iterations of the NumPy step, and the final positions."""
    s = NumpySystem(system, np.arange(1, steps + 1) * H)
    motion = [np.asarray(state.r), np.asarray(state.A), np.concatenate([state.v, state.omega], 1)]
    motion += [np.zeros((s.nb, 6)), np.zeros(s.m)]
    count, start = 0, time.perf_counter()
    for n in range(steps):
        *motion, k = s.step(*motion, n, H, 1.8e-12)
        count += k
    return (time.perf_counter() - start) / steps, count / steps, motion[0]


def compiled(system, state, formulation, steps, repeats):
    """Seconds to trace and compile the stepping, best seconds per step, mean iterations."""
    method = fixed_steps.FixedSteps(jnp.zeros(()), jnp.asarray(H), formulation, mbd.ImplicitEuler())
    state, report = mbd.assemble(system, state)
    system = system.unnamed()  # what compiled programs get
    start = fixed_steps.InitialState(state, state, report)
    progress, _ = fixed_steps.start_run(system, start, method)
    begin = time.perf_counter()
    saves = fixed_steps.Saves(steps, 1)
    job = fixed_steps.advance.lower(system, progress, method, saves).compile()
    compile_seconds = time.perf_counter() - begin
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        _, rows = job(system, progress, method, saves)
        jax.block_until_ready(rows)
        best = min(best, time.perf_counter() - begin)
    return compile_seconds, best / steps, float(jnp.mean(rows.iterations))


def _cores():
    """How many this process may use; the command has set them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def run(out: Path, quick: bool, *, models: Models = None, formulations: Formulations = None):
    """Fewer steps and repetitions where `quick`."""
    steps, repeats = (300, 2) if quick else (3000, 10)
    results = {
        "device": str(jax.devices()[0]),
        "jax": jax.__version__,
        "cores": _cores(),
        "steps": steps,
        "models": {},
    }
    table = Table(
        "model",
        "formulation",
        "us/step",
        r"compile \[s]",
        "iterations",
        "NumPy us/step",
        "times faster than NumPy",
    )
    for model in tqdm(models or MODELS, desc="benchmarks"):
        system, state = mbd.load(model)
        redundant = system.nc > 6 * system.nb  # the yardstick's plain LU cannot take redundant rows
        consistent, _ = mbd.assemble(system, state)
        yard = None if redundant else numpy_yardstick(system, consistent, steps // 3)
        rows = results["models"][model] = {}
        for name in formulations or FORMULATIONS:
            formulation = mbd.FORMULATIONS[name]()
            seconds, step, iterations = compiled(system, state, formulation, steps, repeats)
            ratio = yard[0] / step if yard else None
            rows[name] = {
                "us_per_step": step * 1e6,
                "compile_s": seconds,
                "iterations": iterations,
                "ratio_to_numpy": ratio,
            }
            table.add_row(
                model,
                name,
                f"{step * 1e6:.1f}",
                f"{seconds:.1f}",
                f"{iterations:.2f}",
                f"{yard[0] * 1e6:.0f}" if yard else "-",
                f"{ratio:.0f}" if ratio else "-",
            )
        if yard:
            rows["numpy"] = {"us_per_step": yard[0] * 1e6, "iterations": yard[1]}
    console = Console(width=120)
    console.print(table)
    path = out / "results.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    # Of the experiment `gpu`.
    results |= {key: x for key, x in known.items() if key.startswith("wrong_and_successful")}
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    console.print(f"wrote {out / 'results.json'}")


def yardstick_agrees(model="slider_crank", steps=50):
    """Largest distance between the yardstick's positions and the package's after some steps [m]."""
    system, state = mbd.load(model)
    consistent, _ = mbd.assemble(system, state)
    _, _, r = numpy_yardstick(system, consistent, steps)
    sol = mbd.simulate(system, state, steps=steps, h=H, integrator=mbd.ImplicitEuler())
    return float(np.max(np.abs(r - sol.r[-1])))
