"""The command that simulates a model for a grid of numbers."""

import math
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer
from jax.typing import ArrayLike

import jaxmbd as mbd
from jaxmbd.analyses.running.checks import check_memory

from .app import app
from .console import INTERRUPTED, complain, say
from .files import check_out, write_columns
from .options import (
    RA,
    Formulation,
    Group,
    Integrator,
    Model,
    NewtonTolerance,
    Projection,
    RhoInf,
    Step,
    Tableau,
    TEnd,
    integrator_of,
    usual,
)


@app.command()
def batch(
    model: Model,
    out_file: Annotated[Path, typer.Option("--out", help="Result file (.npz).")],
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            help="PATH=FIRST:LAST:COUNT, a number to vary, such as bodies.rod.mass=1:2:11; repeat.",
        ),
    ],
    t_end: TEnd = 3.0,
    h: Step = 1e-3,
    save_every: Annotated[int, typer.Option(help="Save every k-th step.")] = 10,
    chunk: Annotated[int, typer.Option(help="Batch elements that are computed together.")] = 128,
    formulation: Formulation = RA,
    integrator: Integrator = None,
    rho_inf: RhoInf = None,
    tableau: Tableau = None,
    group: Group = None,
    projection: Projection = False,
    newton_tolerance: NewtonTolerance = None,
) -> None:
    """Simulate MODEL for every combination of some of its numbers."""
    check_out(out_file, (".npz",))
    m = mbd.load_mechanism(model)
    ranges = _ranges(vary, m)
    count = math.prod(len(values) for values in ranges.values())
    steps = mbd.count_steps(h, t_end, None)
    system, _ = m.build()
    method = integrator_of(
        integrator or usual(system), rho_inf, tableau, group, projection, newton_tolerance
    )
    check_memory(
        system,
        count * (steps // max(save_every, 1) + 1),
        f"these are {count} combinations: vary fewer numbers, or save fewer rows",
    )
    grid = np.stack(np.meshgrid(*ranges.values(), indexing="ij"), axis=-1).reshape(count, -1)

    def one(values: jax.Array) -> dict[str, ArrayLike]:
        system, state = m.with_values(dict(zip(ranges, values, strict=True))).build()
        sol = mbd.simulate(
            system,
            state,
            h=h,
            steps=steps,
            save_every=save_every,
            formulation=mbd.FORMULATIONS[formulation](),
            integrator=method,
            throw=False,
        )
        kept = {name: getattr(sol, name) for name in ("t", "r", "A", "v", "omega", "lam")}
        return kept | {"result": sol.result._value}

    interrupted = False
    try:
        found = mbd.run_batch(one, grid, chunk=chunk)
        interrupted = len(found["result"]) < count
    except KeyboardInterrupt:
        complain("interrupted before the first chunk; nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    done = len(found["result"])
    columns = {path: grid[:done, k] for k, path in enumerate(ranges)}
    write_columns(
        out_file, columns | found | {"t": found["t"][0], "bodies": np.array(system.bodies)}
    )
    failed = int(np.sum(found["result"] != int(mbd.RESULTS.successful._value)))
    say(
        f"{m.name}: {done} of {count} runs, {failed} of them failed (see the array result); "
        f"wrote {out_file}"
    )
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(1)


def _ranges(vary: list[str], m: mbd.Mechanism) -> dict[str, np.ndarray]:
    """The values of every path of --vary."""
    ranges: dict[str, np.ndarray] = {}
    for text in vary:
        path, values = _range(text, m)
        if path in ranges:
            raise ValueError(f"--vary: {path!r} is given twice; give one range for it")
        ranges[path] = values
    return ranges


def _range(text: str, m: mbd.Mechanism) -> tuple[str, np.ndarray]:
    """The path and the values of --vary."""
    path, equals, numbers = text.rpartition("=")
    parts = numbers.split(":")
    try:
        first, last, count = float(parts[0]), float(parts[1]), int(parts[2])
        if not (
            equals and len(parts) == 3 and np.isfinite([first, last]).all() and 1 <= count <= 10**6
        ):
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(
            f"--vary must be PATH=FIRST:LAST:COUNT, such as bodies.rod.mass=1:2:11, not {text!r}"
        ) from None
    m.with_values({path: first})  # refuses an unknown path, or a number that is impossible there
    return path, np.linspace(first, last, count)
