"""Throughput of batches on whatever device JAX uses: state-steps per second of a `vmap` over
masses, by the size of the batch; on a GPU too, with MJX beside it where that is installed.

python -m experiments batch [--out DIR] [--quick] [--size N ...] [--steps N] [--single]
                            [--formulation ...]

Writes batch_cpu.json or batch_gpu.json, and a picture of it; rows of the other precision and of
other sizes stay, if the device, the version of JAX and the number of steps are the same.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import jaxmbd as mbd

from ..drawing import legend_above
from ..options import repeated
from . import peers

H = 1e-3
MODELS = ("double_pendulum", "four_bar")
SIZES = (1024, 16384)
GPU_SIZES = (1024, 16384, 131072, 1048576)
KEEPING = mbd.Newton(keep_factors=True)
_PATIENCE = 3.0  # seconds for the repetitions of a row

Sizes = Annotated[
    list[int] | None,
    typer.Option(
        "--size", help=f"Batch size; repeat for more. {SIZES} if none, {GPU_SIZES} on a GPU."
    ),
]
Steps = Annotated[int, typer.Option(help="Of 1 ms each.")]
Single = Annotated[bool, typer.Option("--single", help="Single precision instead of double.")]
Formulations = repeated("--formulation", mbd.FORMULATIONS, "Instead of rA")


@dataclass(frozen=True)
class Job:
    """One row: a mechanism, how it is stepped, and how many of them.

    Attributes:
        keep: Whether factors are kept from step to step.
    """

    model: str
    formulation: str
    keep: bool
    size: int

    @property
    def label(self) -> str:
        """Its name in the results."""
        return f"{self.model} {self.formulation}" + " kept" * self.keep


def _lowered(job: Job, steps: int):
    """The program of a batch whose members differ in mass, not yet compiled; and its argument."""
    system, state = mbd.load(job.model)
    newton = {"newton": KEEPING} if job.keep else {}
    integrator = mbd.GeneralizedAlpha(**newton)

    def member(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * factor)
        sol = mbd.simulate(
            heavier,
            state,
            steps=steps,
            save_every=steps,
            h=H,
            formulation=mbd.FORMULATIONS[job.formulation](),
            integrator=integrator,
        )
        violation = jnp.max(jnp.abs(sol.violation(heavier).position[-1]))
        return sol.r[-1], violation, sol.result == mbd.RESULTS.successful

    factors = jnp.linspace(0.8, 1.2, job.size)
    return jax.jit(jax.vmap(member)).lower(factors), factors


def _rate(program: Any, argument: Any, steps: int) -> float:
    """State-steps per second, the best of a few runs."""
    best, end = np.inf, time.perf_counter() + _PATIENCE
    for _ in range(5):
        begin = time.perf_counter()
        jax.block_until_ready(program(argument))
        best = min(best, time.perf_counter() - begin)
        if time.perf_counter() > end:
            break
    return argument.size * steps / best


def _measured(program: Any, factors: Any, steps: int) -> dict[str, Any]:
    """State-steps per second, the largest violation, and how many members failed."""
    _, violation, good = program(factors)
    return {
        "state_steps_per_s": _rate(program, factors, steps),
        "violation": float(jnp.max(violation)),
        "failed": int(jnp.sum(~good)),
    }


def plot(results: dict[str, Any], path: Path) -> None:
    """State-steps per second against the size of the batch."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    styles = {"float64": "o-", "float32": "s:"}
    for k, (label, of) in enumerate(results["rows"].items()):
        for precision, row in of.items():
            sizes = sorted(row, key=int)
            rates = [row[n]["state_steps_per_s"] for n in sizes]
            name = f"{label.replace('_', ' ')}, {precision}"
            ax.loglog([int(n) for n in sizes], rates, styles[precision], color=f"C{k}", label=name)
    ax.set(xlabel="batch size", ylabel=f"state-steps per second, {results['device']}")
    legend_above(ax)
    ax.grid(alpha=0.3, which="both")
    fig.savefig(path, dpi=130)
    plt.close(fig)


def run(
    out: Path,
    quick: bool,
    *,
    sizes: Sizes = None,
    steps: Steps = 200,
    single: Single = False,
    formulations: Formulations = None,
):
    """One mechanism and small batches where `quick`."""
    if single:
        jax.config.update("jax_enable_x64", False)
    device = jax.devices()[0]
    usual = GPU_SIZES if device.platform == "gpu" else SIZES
    sizes = sizes or ((8,) if quick else usual)
    models = MODELS[:1] if quick else MODELS
    # Kept factors need the digits of double precision.
    ways = [("rA", True)] * (not single)
    ways += [(str(name), False) for name in formulations or ("rA",)]
    jobs = [Job(m, name, keep, n) for m in models for name, keep in ways for n in sizes]
    precision = "float32" if single else "float64"
    about = {
        "device": device.device_kind,
        "jax": jax.__version__,
        "peers": {k: v for k, v in peers.versions().items() if k.startswith("mujoco")},
        "steps": steps,
    }
    path = out / f"batch_{device.platform}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    same = all(known.get(key) == about[key] for key in ("device", "jax", "steps"))
    rows = known["rows"] if same else {}

    def keep(label: str, size: int, row: dict[str, Any]) -> None:
        rows.setdefault(label, {}).setdefault(precision, {})[str(size)] = row
        # JSON has neither NaN nor infinity: what went wrong is null.
        clean = json.loads(json.dumps(rows), parse_constant=lambda _: None)
        path.write_text(json.dumps(about | {"rows": clean}, indent=2) + "\n")

    # What is traced in turn compiles side by side; nothing is timed before all of it is done.
    with ThreadPoolExecutor() as pool:
        programs = []
        for job in jobs:
            lowered, factors = _lowered(job, steps)
            programs.append((job, pool.submit(lowered.compile), factors))
        others = []
        if "mujoco-mjx" in about["peers"] and not quick:
            for size in sizes:
                lowered, speeds = peers.mjx_four_bar_lowered(size, steps)
                others.append((size, pool.submit(lowered.compile), speeds))
    for job, compiled, factors in programs:
        keep(job.label, job.size, _measured(compiled.result(), factors, steps))
    for size, compiled, speeds in others:
        program = compiled.result()
        gap = float(jnp.max(program(speeds)))
        row = {"state_steps_per_s": _rate(program, speeds, steps), "violation": gap}
        keep("four_bar MJX", size, row)
    plot(about | {"rows": rows}, path.with_suffix(".png"))
    table = Table("batch", "size", "state-steps per second", "|Φ| max", title=about["device"])
    for label, of in rows.items():
        for size, row in of.get(precision, {}).items():
            rate, violation = row["state_steps_per_s"], row["violation"]
            table.add_row(label, size, f"{rate:.3g}", f"{violation:.1e}")
    Console(width=110).print(table)
