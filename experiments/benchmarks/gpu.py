"""All that is to be known of a GPU, in one run of a few minutes that checks itself: members that
are wrong and called successful, throughput in both precisions with MJX beside it, and gradients.

python -m experiments gpu [--out DIR] [--quick] [--budget SECONDS]

Writes device_cpu.json or device_gpu.json, and the members that are wrong and successful into
results.json. What does not fit into the budget is left out and named. Without a GPU it runs on the
CPU, with smaller batches.
"""

import json
import time
from collections.abc import Callable
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

from . import peers

H = 1e-3
MODELS = ("double_pendulum", "four_bar")
PRECISIONS = ("float64", "float32")
# Violation in lengths of the mechanism, from which a member is wrong.
WRONG = {"float64": 1e-12, "float32": 1e-5}
_TOGETHER = 65_536  # members whose beginnings are computed at once
_MEMBER_STEPS, _RATE_STEPS = 5, 100
_PATIENCE = 3.0  # seconds for the repetitions of a rate

Budget = Annotated[float, typer.Option(help="Seconds after which no further part begins.")]
Members = Annotated[
    int | None, typer.Option(help="Among how many members to look for wrong ones; a million.")
]


def _model(name: str, precision: str):
    """A mechanism and its state in a precision."""

    def cast(x):
        return x.astype(precision) if eqx.is_inexact_array(x) else x

    return jax.tree.map(cast, mbd.load(name))


def _ends(name: str, precision: str, steps: int) -> Callable:
    """A function of a factor of all masses: heights of bodies, violation in lengths, success."""
    system, state = _model(name, precision)

    def member(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * factor)
        sol = mbd.simulate(heavier, state, steps=steps, save_every=steps, h=H)
        open_by = jnp.max(jnp.abs(sol.violation(heavier).position[-1])) / system.length
        return sol.r[-1, :, 2], open_by, sol.result == mbd.RESULTS.successful

    return member


def _wrong(name: str, precision: str, count: int) -> dict[str, Any]:
    """Members that are wrong and called successful, of random masses."""
    factors = jax.random.uniform(jax.random.key(7), (count,), precision, 0.5, 2.0)
    member, together = _ends(name, precision, _MEMBER_STEPS), min(count, _TOGETHER)

    @jax.jit
    def found(factors):
        _, open_by, good = jax.lax.map(member, factors, batch_size=together)
        wrong = good & ~(open_by <= WRONG[precision])
        return jnp.sum(wrong), jnp.sum(~good), jnp.max(open_by)

    wrong, failed, largest = found(factors)
    return {
        "wrong_and_successful": int(wrong),
        "failed": int(failed),
        "of": count,
        "largest_violation": float(largest),
    }


def _rate(program: Callable, factors: jax.Array) -> float:
    """State-steps per second, the best of a few runs."""
    jax.block_until_ready(program(factors))
    best, end = np.inf, time.perf_counter() + _PATIENCE
    while time.perf_counter() < end:
        begin = time.perf_counter()
        jax.block_until_ready(program(factors))
        best = min(best, time.perf_counter() - begin)
    return factors.size * _RATE_STEPS / best


def _throughput(name: str, precision: str, size: int) -> dict[str, Any]:
    program = jax.jit(jax.vmap(_ends(name, precision, _RATE_STEPS)))
    factors = jnp.linspace(0.8, 1.2, size, dtype=precision)
    _, open_by, good = program(factors)
    return {
        "state_steps_per_s": _rate(program, factors),
        "violation": float(jnp.max(open_by)),
        "failed": int(jnp.sum(~good)),
    }


def _of_mjx(size: int) -> dict[str, Any]:
    lowered, speeds = peers.mjx_four_bar_lowered(size, _RATE_STEPS)
    program = lowered.compile()
    gap = float(jnp.max(program(speeds)))
    return {"state_steps_per_s": _rate(program, speeds), "violation": gap}


def _gradient(name: str, size: int) -> dict[str, Any]:
    """Reverse gradients by the mass beside plain runs, and how they differ from those of a CPU."""
    member = _ends(name, "float64", _RATE_STEPS)

    def height(factor):
        return jnp.sum(member(factor)[0])

    plain, reverse = jax.jit(jax.vmap(height)), jax.jit(jax.vmap(jax.grad(height)))
    factors = jnp.linspace(0.8, 1.2, size)
    forward, backward = _rate(plain, factors), _rate(reverse, factors)
    some = factors[:: max(1, size // 64)]
    here = reverse(some)
    with jax.default_device(jax.devices("cpu")[0]):
        there = reverse(jax.device_put(some, jax.devices("cpu")[0]))
    gap = np.max(np.abs(np.asarray(here) - np.asarray(there))) / np.max(np.abs(np.asarray(there)))
    return {"ratio_to_forward": forward / backward, "gap_to_cpu": float(gap)}


def _parts(sizes: tuple[int, ...], members: int, gradients: int, quick: bool):
    """Names and functions of all parts, the most wanted first."""
    models = MODELS[:1] if quick else MODELS
    for name in models:
        for precision in PRECISIONS:
            yield f"wrong {name} {precision}", lambda n=name, p=precision: _wrong(n, p, members)
    for size in sizes:
        for name in models[::-1]:
            for precision in PRECISIONS:
                yield (
                    f"rate {name} {precision} {size}",
                    lambda n=name, p=precision, s=size: _throughput(n, p, s),
                )
        if "mujoco-mjx" in peers.versions() and not quick:
            yield f"rate four_bar MJX {size}", lambda s=size: _of_mjx(s)
    yield f"gradient {models[-1]} {gradients}", lambda: _gradient(models[-1], gradients)


def _keep_wrong(path: Path, rows: dict[str, Any], where: str) -> None:
    """Enter the wrong members of every precision into the results."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for precision in PRECISIONS:
        found = [x for n, x in rows.items() if n.startswith("wrong") and n.endswith(precision)]
        if found:
            known[f"wrong_and_successful_{precision}"] = {
                "count": sum(x["wrong_and_successful"] for x in found),
                "of": sum(x["of"] for x in found),
                "where": where,
            }
    path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def run(out: Path, quick: bool, *, budget: Budget = 360.0, members: Members = None):
    """A few members of one mechanism where `quick`."""
    device, end = jax.devices()[0], time.perf_counter() + budget
    on_gpu = device.platform == "gpu"
    sizes = (16_384, 131_072, 1_048_576) if on_gpu else (1024,)
    parts = _parts(
        (64,) if quick else sizes,
        members or (256 if quick else 1_000_000),
        64 if quick else 65_536 if on_gpu else 1024,
        quick,
    )
    path = out / f"device_{device.platform}.json"
    rows: dict[str, Any] = {}
    found = {"device": device.device_kind, "driver": str(device.client.platform_version)}
    found |= {"jax": jax.__version__, "peers": peers.versions(), "rows": rows, "left_out": []}
    for name, part in parts:
        if time.perf_counter() > end:
            found["left_out"].append(name)
            continue
        begin = time.perf_counter()
        try:
            rows[name] = part()
        except Exception as error:  # one part, such as a peer's or one out of memory
            rows[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
        rows[name]["seconds"] = round(time.perf_counter() - begin, 1)
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    _keep_wrong(out / "results.json", {n: x for n, x in rows.items() if "of" in x}, str(device))
    table = Table("part", "found", title=found["device"], box=None)
    for name, row in rows.items():
        text = [f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()]
        table.add_row(name, ", ".join(text))
    Console(width=140).print(table)
    if found["left_out"]:
        Console().print("left out, for want of time: " + ", ".join(found["left_out"]))
    if any(row.get("wrong_and_successful") for row in rows.values()):
        raise typer.Exit(1)
