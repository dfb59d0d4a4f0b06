"""The wait for a first result: fresh processes with an empty and with a filled cache of programs.

python -m experiments first_result [--out DIR] [--quick] [--repeats N]

Writes first_result.json: seconds, and of several processes the smallest, the median and the
largest.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import jax
import typer
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

_SIMULATE = """
import time
import jaxmbd as mbd
mbd.enable_x64()
mbd.enable_compilation_cache()
began = time.perf_counter()
system, state = mbd.load({model!r})
mbd.simulate(system, state, h=1e-3, steps={steps})
print(time.perf_counter() - began)
"""
_GRADIENT = """
import time
import equinox as eqx
import jax
import jaxmbd as mbd
mbd.enable_x64()
mbd.enable_compilation_cache()
began = time.perf_counter()
system, state = mbd.load("double_pendulum")

def height(mass):
    heavier = eqx.tree_at(lambda s: s.mass, system, mass)
    return mbd.simulate(heavier, state, h=1e-3, steps=1000).r[-1, -1, 2]

jax.block_until_ready(jax.jit(jax.grad(height))(system.mass))
print(time.perf_counter() - began)
"""


def _environment(cache: Path) -> dict[str, str]:
    return os.environ | {
        "JAXMBD_CACHE": str(cache),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "MPLBACKEND": "Agg",
    }


def in_python(code: str, cache: Path) -> float:
    """Seconds that a fresh process reports, after its imports."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=_environment(cache),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def in_the_shell(arguments: list[str], cache: Path, folder: Path) -> float:
    """Seconds of the command, from its start to its end."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "jaxmbd", *arguments],
        env=_environment(cache),
        cwd=folder,
        capture_output=True,
        check=True,
    )
    return time.perf_counter() - began


def run(
    out: Path,
    quick: bool,
    repeats: Annotated[int, typer.Option(min=1, help="Processes of each kind.")] = 5,
) -> None:
    """Measure all rows, and write them after each."""
    four_bar = ["simulate", "four_bar", "--t-end", "1", "--out", "o.npz"]
    rows = {"shell: simulate four_bar --t-end 1": lambda c, f: in_the_shell(four_bar, c, f)}
    models = {"double_pendulum": 1000, "slider_crank": 1000, "four_bar": 1000}
    if not quick:
        models["revolute_chain:128"] = 100
    for model, steps in models.items():
        code = _SIMULATE.format(model=model, steps=steps)
        rows[f"Python: load, build, simulate {model}"] = lambda c, f, code=code: in_python(code, c)
    if not quick:
        rows["Python: reverse gradient of 1000 steps, double_pendulum"] = lambda c, f: in_python(
            _GRADIENT, c
        )
        rows["shell: demo"] = lambda c, f: in_the_shell(["demo"], c, f)
    repeats = 1 if quick else repeats
    results = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "jax": jax.__version__,
        "repeats": repeats,
        "rows": {},
    }
    table = Table("first result of a process", r"empty cache \[s]", r"filled cache \[s]", box=None)
    for name, measure in tqdm(rows.items(), desc="first results"):
        seconds = {"cold": [], "warm": []}
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as folder:
                cache = Path(folder) / "programs"
                for kind in seconds:
                    seconds[kind].append(measure(cache, Path(folder)))
        results["rows"][name] = {
            kind: {"min": min(x), "median": statistics.median(x), "max": max(x)}
            for kind, x in seconds.items()
        }
        table.add_row(name, *(_shown(x) for x in seconds.values()))
        (out / "first_result.json").write_text(json.dumps(results, indent=2) + "\n")
    Console(width=120).print(table)


def _shown(seconds: list[float]) -> str:
    middle = f"{statistics.median(seconds):.1f}"
    return middle if len(seconds) == 1 else f"{middle} ({min(seconds):.1f} to {max(seconds):.1f})"
