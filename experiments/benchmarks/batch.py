"""Throughput of batches on whatever device JAX uses: state-steps per second of `vmap` over initial
rates.

python experiments/benchmarks/batch.py [--sizes 1 256 4096] [--steps 200] [--out FILE.json]
"""

import argparse
import json
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import jaxmbd as mbd

mbd.enable_x64()
MODELS = ("double_pendulum", "four_bar", "slider_crank")


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


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 256, 4096])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--formulations", nargs="+", default=["rA"])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
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
    for model in MODELS:
        for name in args.formulations:
            for size in args.sizes:
                rate, violation = throughput(model, mbd.FORMULATIONS[name](), size, args.steps)
                results["rows"].append([model, name, size, rate, violation])
                table.add_row(model, name, str(size), f"{rate:.3g}", f"{violation:.1e}")
    Console(width=110).print(table)
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
