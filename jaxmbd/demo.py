"""The demonstration behind `jaxmbd demo`: one mechanism with its pictures, then all formulations
side by side.
"""

import time
from pathlib import Path
from types import ModuleType

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import jaxmbd as mbd
from jaxmbd.files import stem_of


def run_demo(
    model: str, folder: Path, t_end: float, h: float, console: Console, viz: ModuleType
) -> None:
    """Simulate `model`, leave results, plots and an animation in `folder`, and compare the
    formulations that take it.
    """
    began = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    system, state = mbd.load(model)
    stem = stem_of(system.name)
    consistent, _ = mbd.assemble(system, state)
    m = mbd.mobility(system, consistent)
    console.print(
        f"[bold]{escape(system.name)}[/]: {system.nb} bodies, {system.nc} constraint rows, "
        f"{m.freedoms} freedom(s); {t_end:g} s in steps of {h:g} s"
    )
    formulations = {}
    for name, formulation in mbd.FORMULATIONS.items():
        try:
            formulation().check(system)
            formulations[name] = formulation()
        except ValueError as error:
            console.print(f"without {name}: {error}", highlight=False)

    def simulated(name: str) -> tuple[mbd.Solution, float]:
        start = time.perf_counter()
        solution = mbd.simulate(
            system, state, t_end=t_end, h=h, formulation=formulations[name], progress=True
        )
        took = time.perf_counter() - start
        solution.to_npz(folder / f"{stem}_{name}.npz")
        return solution, took

    first, *others = formulations
    reference, took = simulated(first)
    viz.snapshot(reference, k=len(reference.t) // 5, out=folder / f"{stem}_pose.png")
    viz.plot(reference, out=folder / f"{stem}.png")
    reference.to_csv(folder / f"{stem}_{first}.csv")
    console.print(
        f"the motion and its first pictures are in [bold]{folder}[/] after "
        f"{time.perf_counter() - began:.0f} s; now the animation, and the same motion by the other "
        "formulations"
    )
    viz.animate(reference, out=folder / f"{stem}.gif", speed=0.5)

    table = Table(box=None)
    for heading in ("formulation", r"took \[s]", "iterations", "|Φ| max", rf"to {first} \[m]"):
        table.add_column(heading, no_wrap=True)

    def add(name: str, solution: mbd.Solution, took: float) -> None:
        table.add_row(
            name,
            f"{took:.1f}",
            f"{np.mean(np.asarray(solution.iterations)[1:]):.2f}",
            f"{np.max(np.abs(np.asarray(solution.violation().position)), initial=0.0):.1e}",
            f"{np.max(np.abs(np.asarray(solution.r) - np.asarray(reference.r))):.1e}",
        )

    add(first, reference, took)
    for name in others:
        add(name, *simulated(name))
    console.print(table)
    console.print(
        "(nearly all of the time is compilation, once per mechanism and formulation)",
        highlight=False,
    )
    console.print(f"results, plots and an animation are in [bold]{folder}[/]:")
    for file in sorted(folder.iterdir()):
        if file.name.startswith(stem):
            console.print(f"  {file.name}  ({file.stat().st_size / 1024:.0f} kB)", highlight=False)
