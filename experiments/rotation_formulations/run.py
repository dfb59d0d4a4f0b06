"""The three formulations head to head: every table and figure of the paper, and what compilation
changes.

python experiments/rotation_formulations/run.py --out DIR [--quick]
"""

import argparse
import json
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # reference solutions, shared by the experiments
# One core for everything, before JAX starts its threads: timings that compare. A quick run is a
# test and shows none.
if hasattr(os, "sched_setaffinity") and "--quick" not in sys.argv:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])

import jax
from tqdm import tqdm

import accuracy
import beyond
import figures
import jaxmbd as mbd
import speed
import tables


@dataclass(frozen=True)
class Settings:
    """Sizes of a run; `quick` is the version of the test suite: fewer models, steps and
    repetitions.
    """

    quick: bool
    repeats: int = 10
    steps: int = 3000
    batch: int = 256
    batch_steps: int = 100
    gradient_steps: int = 500
    seconds: float = 3.0

    @property
    def formulations(self):
        """The paper's formulations by name; a quick run leaves out the one that takes longest to
        compile.
        """
        return {
            name: mbd.FORMULATIONS[name]
            for name in ("rA", "rp", "reps")
            if not (self.quick and name == "reps")
        }

    def choose(self, models):
        """The mechanisms of a part: all of them, or the first of a quick run."""
        return models[:1] if self.quick else models


QUICK = Settings(
    True, repeats=2, steps=200, batch=8, batch_steps=20, gradient_steps=50, seconds=0.2
)

# Name, function, ticks of the progress bar in a full run.
PARTS = {
    "tables": (speed.tables_8_and_10, 7),
    "operations": (speed.operations, 4),
    "table9": (accuracy.table_9, 3),
    "iterations": (accuracy.figures_2_and_4, 3),
    "double_pendulum": (accuracy.figure_3, 3),
    "order": (accuracy.figures_5_to_7, 3),
    "spatial": (beyond.spatial, 2),
    "conditioning": (beyond.conditioning, 4),
    "singularity": (beyond.singularity, 4),
    "columns": (speed.columns, 21),
}


def draw(results, history, folder, batch):
    """All pictures that the results allow."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = {
        "fig2_iterations": lambda: figures.iterations(results, folder),
        "fig3_max_dz": lambda: figures.double_pendulum(results, history, folder),
        "order_errors": lambda: figures.order(results, folder),
        "spatial": lambda: figures.work_precision(results, folder),
        "condition": lambda: figures.conditioning(results, folder),
        "singularity": lambda: figures.singularity(results, folder),
        "us_per_step": lambda: figures.speed(results, folder, f"batch{batch}"),
    }
    for key, job in jobs.items():
        if key in results:
            job()


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for results.json, tables.md and the pictures",
    )
    parser.add_argument("--quick", action="store_true", help="one mechanism a part, short runs")
    parser.add_argument(
        "--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="default: all"
    )
    args = parser.parse_args(argv)
    mbd.enable_x64()
    settings = QUICK if args.quick else Settings(False)
    args.out.mkdir(parents=True, exist_ok=True)
    target = args.out / "results.json"
    # A run of some parts renews them and leaves the others as they were.
    results = (
        json.loads(target.read_text()) if target.exists() and len(args.parts) < len(PARTS) else {}
    )
    results["device"] = f"{jax.devices()[0].device_kind}, one core, {platform.machine()}"
    results["versions"] = {"jax": jax.__version__, "jaxmbd": mbd.__version__}
    results["quick"] = args.quick
    history = None
    with tqdm(total=sum(PARTS[name][1] for name in args.parts), unit="piece") as bar:
        for name in args.parts:
            function, weight = PARTS[name]
            bar.set_description(name)
            before = bar.n

            def tick():
                bar.update(1)
                # Every piece compiles its own programs, and the memory maps of a process are
                # limited.
                jax.clear_caches()

            found = function(settings, tick)
            history = found.pop("_fig3_history", history)
            results.update(found)
            bar.update(before + weight - bar.n)
            target.write_text(json.dumps(results, indent=1) + "\n")
    drawable = (
        results if history is not None else {k: v for k, v in results.items() if k != "fig3_max_dz"}
    )
    draw(tables.with_gaps(drawable), tables.with_gaps(history), args.out, settings.batch)
    text = tables.report(results, settings.batch)
    (args.out / "tables.md").write_text(text)
    print(f"wrote results.json, tables.md and the pictures to {args.out}")


if __name__ == "__main__":
    main()
