"""Commands about rest and small motions: linearize, equilibrium, modes."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import jaxmbd as mbd
from jaxmbd.rotations.types import Array

from .app import app
from .console import add_row, busy, new_table, out, say
from .files import check_out, write, write_columns
from .options import Given, Model, with_given

Instant = Annotated[
    float, typer.Option("--t", help="Instant at which drivers and loads are held, in seconds.")
]


@app.command()
def linearize(
    model: Model,
    t: Instant = 0.0,
    coordinate: Annotated[
        list[str] | None,
        typer.Option(
            "--coordinate", "-c", help="A minimal coordinate, such as rod.theta.y; repeat."
        ),
    ] = None,
    given: Given = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="An input; repeat for more.")
    ] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="File for A, B and the modes (.npz).")
    ] = None,
) -> None:
    """Linearize MODEL at its initial state: frequencies, damping, matrices A and B."""
    if out_file is not None:
        check_out(out_file, (".npz",))
    system, state = mbd.load(model)
    system = with_given(system, given)
    with busy(f"linearizing {system.name}"):
        found = mbd.linearize(system, state, t=t, coordinates=coordinate, inputs=inputs)
    modes = found.modes()
    say(f"{system.name}: minimal coordinates {', '.join(found.coordinates)}")
    drift = float(np.max(np.abs(np.asarray(found.drift)), initial=0.0))
    if drift > 1e-6:
        say(
            f"not an equilibrium: rates of up to {drift:.3g} remain, so frequencies are those of "
            "the moment"
        )
    _print_modes(modes.eigenvalues, modes.frequency, modes.damping_ratio)
    if out_file is not None:
        write_columns(
            out_file,
            {
                "A": np.asarray(found.A),
                "B": np.asarray(found.B),
                "drift": np.asarray(found.drift),
                "eigenvalues": np.asarray(modes.eigenvalues),
                "coordinates": np.array(found.coordinates),
                "inputs": np.array([x.name for x in found.inputs], dtype=str),
            },
        )
        say(f"wrote {out_file}")


@app.command()
def equilibrium(
    model: Model,
    t: Instant = 0.0,
    unstable: Annotated[
        bool, typer.Option("--unstable", help="Find the nearest balance, stable or not.")
    ] = False,
    load_steps: Annotated[
        int, typer.Option("--load-steps", help="Apply gravity and loads in so many steps.")
    ] = 1,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Result file of one row (.npz).")
    ] = None,
    given: Given = None,
) -> None:
    """Find where MODEL rests: poses, stability, and the forces in its joints."""
    if out_file is not None:
        check_out(out_file, (".npz",))
    system, found = _rest(model, given, t=t, unstable=unstable, load_steps=load_steps)
    table = new_table("body", "x [m]", "y [m]", "z [m]")
    for name, r in zip(system.bodies, np.asarray(found.state.r), strict=True):
        add_row(table, name, *(f"{x:.6g}" for x in r))
    out.print(table)
    table = new_table("joint", "force [N]", "moment [N·m]")
    for name, reaction in found.reactions().items():
        sizes = (np.linalg.norm(np.asarray(x)) for x in (reaction.force, reaction.moment))
        add_row(table, name, *(f"{x:.5g}" for x in sizes))
    out.print(table)
    judged = found.stability()
    kind = "stable" if judged.stable else f"unstable in {judged.unstable} direction(s)"
    free = f", {judged.indifferent} direction(s) without stiffness" if judged.indifferent else ""
    say(f"{system.name}: {kind}{free}; {int(found.iterations)} iterations")
    if out_file is not None:
        write(found.motion, system, out_file)
        say(f"wrote {out_file}")


@app.command()
def modes(
    model: Model,
    t: Instant = 0.0,
    undamped: Annotated[
        bool, typer.Option("--undamped", help="Leave damping and gyroscopic forces out.")
    ] = False,
    given: Given = None,
) -> None:
    """Vibration of MODEL about the equilibrium where it rests: frequencies and damping."""
    system, found = _rest(model, given, t=t)
    with busy(f"modes of {system.name}"):
        vibration = mbd.modes(system, found, damped=not undamped)
    _print_modes(vibration.eigenvalues, vibration.frequency, vibration.damping_ratio)


def _rest(model: str, given: list[str] | None, **options: Any):
    system, state = mbd.load(model)
    system = with_given(system, given)
    with busy(f"equilibrium of {system.name}"):
        return system, mbd.equilibrium(system, state, **options)


def _print_modes(
    eigenvalues: np.ndarray | Array,
    frequency: np.ndarray | Array,
    damping_ratio: np.ndarray | Array,
) -> None:
    table = new_table("mode", "eigenvalue [1/s]", "frequency [Hz]", "damping ratio")
    for k, value in enumerate(np.asarray(eigenvalues)):
        pair = f"{value.real:.5g}" + (f" ± {value.imag:.5g}i" if value.imag else "")
        add_row(table, str(k + 1), pair, f"{frequency[k]:.5g}", f"{damping_ratio[k]:.4g}")
    out.print(table)
