"""This tree beside another checkout of the package, job by job in turns: processor time per step.

python -m experiments paired --other PATH [--only WORDS ...] [--repeats N] [--out DIR] [--quick]

A busy machine changes its speed from minute to minute, and two runs one after the other take that
for a difference of the code. Here a process of either tree compiles the same job, and both run it
in turns. Writes paired.json: microseconds of processor time per step and batch element, the least
of all turns; the seconds that the first run took with its compilation; and the largest relative
difference of the results.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import jax
import typer
from rich.console import Console
from rich.table import Table

_HERE = Path(__file__).resolve()
_THIS = _HERE.parents[2]
_INTEGRATORS = ("ImplicitEuler", "GeneralizedAlpha")
_SMALL = ("double_pendulum", "four_bar", "slider_crank")

Job = tuple[str, str, str, int]


def jobs() -> list[Job]:
    """Kind, mechanism, integrator and steps of all jobs."""
    found: list[Job] = []
    for method in _INTEGRATORS:
        for model in _SMALL:
            found.append(("host", model, method, 4000))
            for kind in ("forward", "gradient", "tangent"):
                found.append((kind, model, method, 1000))
            found.append(("batch:1024", model, method, 60))
        found.append(("gradients:64", "four_bar", method, 100))
        for model, steps in (("revolute_chain:32", 200), ("gear_train:100", 60)):
            found += [(kind, model, method, steps) for kind in ("forward", "gradient")]
    return found


class _Tree:
    """A process that has imported the package of one tree."""

    def __init__(self, path: Path):
        self.process = subprocess.Popen(
            [sys.executable, str(_HERE.with_name("paired_worker.py"))],
            env=os.environ | {"PYTHONPATH": str(path), "TF_CPP_MIN_LOG_LEVEL": "3"},
            cwd=path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, job: Job | None):
        """Compile a job, or run the last one if None."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(job) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise RuntimeError(f"the benchmark's process of {job} ended; its message stands above")
        return json.loads(answer)

    def end(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def _difference(a, b) -> float:
    """Largest relative difference of nested lists of numbers."""
    if isinstance(a, list):
        return max((_difference(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    return 0.0 if a is None else abs(a - b) / max(abs(a), abs(b), 1e-300)


def _compared(job: Job, trees: dict[str, _Tree], repeats: int) -> dict:
    first = {key: tree.ask(job) for key, tree in trees.items()}
    turns = [{key: tree.ask(None) for key, tree in trees.items()} for _ in range(repeats)]
    row: dict = {
        key: {"us": min(turn[key] for turn in turns), "first_s": first[key][0]} for key in trees
    }
    row["ratio"] = row["this"]["us"] / row["other"]["us"]
    row["difference"] = _difference(*(first[key][1] for key in trees))
    return row


def run(
    out: Path,
    quick: bool,
    other: Annotated[Path, typer.Option(help="The checkout to compare with.")] = _THIS,
    only: Annotated[list[str] | None, typer.Option(help="Jobs whose name has all words.")] = None,
    job: Annotated[
        list[str] | None, typer.Option(help="KIND,MECHANISM,INTEGRATOR,STEPS instead.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each tree.")] = 7,
) -> None:
    """One job with few turns where `quick`."""
    chosen: list[Job] = jobs()[:1] if quick else jobs()
    if job:
        chosen = [(a, b, c, int(d)) for a, b, c, d in (x.split(",") for x in job)]
    trees = {"other": _Tree(other.resolve()), "this": _Tree(_THIS)}
    results: dict = {"jax": jax.__version__, "rows": {}}
    heads = ("job", r"other \[µs]", r"this \[µs]", "ratio", r"first runs \[s]", "difference")
    table = Table(*heads, box=None)
    for each in chosen:
        name = " ".join(each[:3])
        if only and not all(word in name for word in only):
            continue
        row = _compared(each, trees, 2 if quick else repeats)
        results["rows"][name] = row
        times = [f"{row[key]['us']:.2f}" for key in trees]
        firsts = ", ".join(f"{row[key]['first_s']:.1f}" for key in trees)
        cells = (name, *times, f"{row['ratio']:.2f}", firsts, f"{row['difference']:.0e}")
        table.add_row(*cells)
        print(*cells, sep="  ", flush=True)
        (out / "paired.json").write_text(json.dumps(results, indent=2) + "\n")
    for tree in trees.values():
        tree.end()
    Console(width=120).print(table)
