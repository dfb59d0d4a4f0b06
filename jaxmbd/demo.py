"""The demonstration behind `jaxmbd demo`: one mechanism, all formulations, side by side."""

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import jaxmbd as mbd


def run_demo(model: str, folder: Path, t_end: float, h: float, console: Console, viz) -> None:
    """Simulate `model` by every formulation that takes it and leave results, plots and an animation
    in `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    system, state = mbd.load(model)
    consistent, _ = mbd.assemble(system, state)
    m = mbd.mobility(system, consistent)
    console.print(
        f"[bold]{system.name}[/]: {system.nb} bodies, {system.nc} constraint rows, {m.freedoms} "
        f"freedom(s); {t_end:g} s in steps of {h:g} s"
    )
    table = Table(box=None)
    for heading in (
        "formulation",
        r"first \[s]",
        r"then \[us/step]",
        "iterations",
        "|Φ| max",
        r"to rA \[m]",
    ):
        table.add_column(heading, no_wrap=True)
    reference = None
    for name, formulation in mbd.FORMULATIONS.items():
        try:
            formulation().check(system)
        except ValueError as error:
            console.print(f"without {name}: {error}", highlight=False)
            continue
        start = time.perf_counter()
        solution = mbd.simulate(
            system, state, t_end=t_end, h=h, formulation=formulation(), progress=True
        )
        first = time.perf_counter() - start
        start = time.perf_counter()
        mbd.simulate(system, state, t_end=t_end, h=h, formulation=formulation())
        again = (time.perf_counter() - start) / (len(solution.t) - 1) * 1e6
        reference = solution if reference is None else reference
        table.add_row(
            name,
            f"{first:.1f}",
            f"{again:.0f}",
            f"{np.mean(np.asarray(solution.iterations)[1:]):.2f}",
            f"{np.max(np.abs(np.asarray(solution.violation(system).position)), initial=0.0):.1e}",
            f"{np.max(np.abs(np.asarray(solution.r - reference.r))):.1e}",
        )
        solution.to_npz(folder / f"{system.name}_{name}.npz", system)
    console.print(table)
    assert reference is not None
    reference.to_csv(folder / f"{system.name}_rA.csv", system)
    viz.plot(reference, system, out=folder / f"{system.name}.png")
    viz.snapshot(reference, system, k=len(reference.t) // 5, out=folder / f"{system.name}_pose.png")
    viz.animate(reference, system, out=folder / f"{system.name}.gif", speed=0.5)
    console.print(f"results, plots and an animation are in [bold]{folder}[/]:")
    for file in sorted(folder.iterdir()):
        if file.name.startswith(system.name):
            console.print(f"  {file.name}  ({file.stat().st_size / 1024:.0f} kB)", highlight=False)
