"""Throughput of batches on whatever device JAX uses: state-steps per second of `vmap` over
masses.

python -m experiments batch [--out DIR] [--quick] [--size N ...] [--steps N] [--formulation ...]

Writes batch.json.
"""

import json
import time
from pathlib import Path
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import jaxmbd as mbd

from ..options import repeated

MODELS = ("double_pendulum", "four_bar", "slider_crank")
SIZES = (1, 256, 4096)
Sizes = Annotated[
    list[int] | None, typer.Option("--size", help=f"Batch size; repeat for more. {SIZES} if none.")
]
Steps = Annotated[int, typer.Option(help="Of 1 ms each.")]
Formulations = repeated("--formulation", mbd.FORMULATIONS, "Instead of rA")


def throughput(model, formulation, size, steps):
    """State-steps per second (best of three) and the largest constraint violation of all
    members.
    """
    system, state = mbd.load(model)
    factors = jnp.linspace(0.8, 1.2, size)

    @eqx.filter_jit
    @eqx.filter_vmap(in_axes=(None, None, 0))
    def run(system, state, factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * factor)
        sol = mbd.simulate(
            heavier, state, steps=steps, save_every=steps, h=1e-3, formulation=formulation
        )
        return sol.r[-1], sol.A[-1], jnp.max(jnp.abs(sol.violation(heavier).position[-1]))

    violation = np.max(np.asarray(jax.block_until_ready(run(system, state, factors))[2]))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(run(system, state, factors))
        best = min(best, time.perf_counter() - start)
    return size * steps / best, float(violation)


def run(
    out: Path,
    quick: bool,
    *,
    sizes: Sizes = None,
    steps: Steps = 200,
    formulations: Formulations = None,
):
    """One mechanism and small batches where `quick`."""
    sizes = sizes or (SIZES[:1] + (8,) if quick else SIZES)
    device = jax.devices()[0]
    results = {
        "device": f"{device.platform}: {device.device_kind}",
        "jax": jax.__version__,
        "rows": [],
    }
    table = Table(
        "model",
        "formulation",
        "batch",
        "state-steps per second",
        "|Φ| max",
        title=results["device"],
    )
    for model in MODELS[:1] if quick else MODELS:
        for name in formulations or ("rA",):
            for size in sizes:
                rate, violation = throughput(model, mbd.FORMULATIONS[name](), size, steps)
                results["rows"].append([model, name, size, rate, violation])
                table.add_row(model, name, str(size), f"{rate:.3g}", f"{violation:.1e}")
    Console(width=110).print(table)
    (out / "batch.json").write_text(json.dumps(results, indent=2) + "\n")
