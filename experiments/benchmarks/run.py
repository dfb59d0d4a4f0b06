"""Time per step, compile time and iterations of every formulation, against a tight NumPy step in
the same run.

python experiments/benchmarks/run.py [--out DIR] [--quick] [--cores N]
"""

import argparse
import json
import os
import time
from pathlib import Path

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--out", type=Path, default=None, help="folder for results.json and the table")
parser.add_argument("--quick", action="store_true", help="fewer steps and repetitions")
parser.add_argument("--cores", type=int, default=1, help="cores the run may use (0: all)")
parser.add_argument("--models", nargs="+", help="packaged names (default: the table in the README)")
parser.add_argument("--formulations", nargs="+", help="any of rA, rp, reps (default: all)")
args = parser.parse_args()
if args.cores and hasattr(os, "sched_setaffinity"):  # before JAX starts its threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.analyses import dynamics
from numpy_step import NumpySystem

mbd.enable_x64()
MODELS = args.models or ["double_pendulum", "slider_crank", "four_link", "four_bar"]
H = 1e-3
STEPS = 300 if args.quick else 3000
REPEATS = 2 if args.quick else 10


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


def compiled(system, state, formulation):
    """Seconds to trace and compile the stepping, best seconds per step, mean iterations."""
    integrator = mbd.ImplicitEuler()
    t0, h, zero = jnp.zeros(()), jnp.asarray(H), jnp.zeros((), int)
    state, report = mbd.assemble(system, state)
    system = system.unnamed()  # what compiled programs get
    progress, _ = dynamics.start(system, state, state, report, t0, h, formulation, integrator)
    begin = time.perf_counter()
    job = dynamics.advance.lower(
        system, progress, t0, h, zero, STEPS, 1, formulation, integrator
    ).compile()
    compile_seconds = time.perf_counter() - begin
    best = np.inf
    for _ in range(REPEATS):
        begin = time.perf_counter()
        _, rows = job(system, progress, t0, h, zero, STEPS, 1, formulation, integrator)
        jax.block_until_ready(rows)
        best = min(best, time.perf_counter() - begin)
    return compile_seconds, best / STEPS, float(jnp.mean(rows.iterations))


def main():
    results = {
        "device": str(jax.devices()[0]),
        "jax": jax.__version__,
        "cores": args.cores or os.cpu_count(),
        "steps": STEPS,
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
    for model in tqdm(MODELS, desc="benchmarks"):
        system, state = mbd.load(model)
        redundant = system.nc > 6 * system.nb  # the yardstick's plain LU cannot take redundant rows
        consistent, _ = mbd.assemble(system, state)
        yard = None if redundant else numpy_yardstick(system, consistent, STEPS // 3)
        rows = results["models"][model] = {}
        for name in args.formulations or ("rA", "rp", "reps"):
            seconds, step, iterations = compiled(system, state, mbd.FORMULATIONS[name]())
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
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
        console.print(f"wrote {args.out / 'results.json'}")


def yardstick_agrees(model="slider_crank", steps=50):
    """Largest distance between the yardstick's positions and the package's after some steps [m]."""
    system, state = mbd.load(model)
    consistent, _ = mbd.assemble(system, state)
    _, _, r = numpy_yardstick(system, consistent, steps)
    return float(np.max(np.abs(r - mbd.simulate(system, state, steps=steps, h=H).r[-1])))


if __name__ == "__main__":
    main()
