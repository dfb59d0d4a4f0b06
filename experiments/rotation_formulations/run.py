"""The three formulations head to head: every table and figure of the paper, and what compilation
changes.

python -m experiments rotation_formulations [--out DIR] [--quick] [--part ...]
"""

import json
import platform
from dataclasses import dataclass
from pathlib import Path

import jax
from tqdm import tqdm

import jaxmbd as mbd

from ..options import parts
from . import accuracy, beyond, figures, speed, tables


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
    "rows": (speed.rows, 6),
    "operations": (speed.operations, 4),
    "table9": (accuracy.table_9, 3),
    "iterations": (accuracy.figures_2_and_4, 3),
    "double_pendulum": (accuracy.figure_3, 4),
    "default_method": (accuracy.default_method, 2),
    "order": (accuracy.figures_5_to_7, 3),
    "spatial": (beyond.spatial, 2),
    "conditioning": (beyond.conditioning, 4),
    "singularity": (beyond.singularity, 4),
    "columns": (speed.columns, 21),
}
Parts = parts(PARTS)


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
        "rows_us_per_step": lambda: figures.rows(results, folder),
        "us_per_step": lambda: figures.speed(results, folder, f"batch{batch}"),
    }
    for key, job in jobs.items():
        if key in results:
            job()


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """One mechanism a part and short runs where `quick`."""
    settings = QUICK if quick else Settings(False)
    target = out / "results.json"
    # A run of some parts renews them and leaves the others as they were.
    results = json.loads(target.read_text()) if target.exists() and chosen else {}
    chosen = chosen or list(PARTS)
    results["device"] = f"{jax.devices()[0].device_kind}, one core, {platform.machine()}"
    results["versions"] = {"jax": jax.__version__, "jaxmbd": mbd.__version__}
    results["quick"] = quick
    history = None
    with tqdm(total=sum(PARTS[name][1] for name in chosen), unit="piece") as bar:
        for name in chosen:
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
    draw(tables.with_gaps(drawable), tables.with_gaps(history), out, settings.batch)
    text = tables.report(results, settings.batch)
    (out / "tables.md").write_text(text)
    print(f"wrote results.json, tables.md and the pictures to {out}")
