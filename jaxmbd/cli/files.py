"""Files that commands write: checked before any work, and kept from a run that fails."""

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import typer

import jaxmbd as mbd
from jaxmbd.files import check_writable

from .console import INTERRUPTED, complain, err, say


def check_out(path: Path, suffixes: tuple[str, ...]) -> None:
    """Refuse, before any work, a file that could not be written after it."""
    if path.suffix not in suffixes:
        raise ValueError(f"--out must end in {' or '.join(suffixes)}, not {path.name!r}")
    folder = path.absolute().parent
    if os.path.isdir(path):
        raise ValueError(f"--out: {str(path)!r} is a folder; name a file in it")
    if not os.path.isdir(folder):
        raise ValueError(f"--out: the folder {str(folder)!r} does not exist")
    try:
        check_writable(path)
    except OSError as error:
        raise ValueError(f"--out: {error}") from None


def check_columns(path: Path, system: mbd.System, columns: list[str] | None) -> None:
    """Refuse, before any work, columns that a table would not have."""
    if columns:
        if path.suffix != ".csv":
            raise ValueError(f"--column is for tables, --out NAME.csv, not {path.name!r}")
        from jaxmbd.results.columns import column_names

        column_names(system, columns)


def keep(
    job: Callable[[], mbd.Solution],
    system: mbd.System,
    path: Path,
    columns: list[str] | None = None,
    model: str | None = None,
) -> mbd.Solution:
    """Do the job and write its solution; after a failure, the steps before it, and the error goes
    on.
    """
    try:
        solution = job()
    except mbd.SimulationError as error:
        _keep_part(error.solution, system, path, columns, model)
        raise
    except KeyboardInterrupt:
        complain("interrupted before the first step; nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    if _is_interrupted(solution):
        _keep_part(solution, system, path, columns, model)
        raise typer.Exit(INTERRUPTED)
    write(solution, system, path, columns, model)
    worst = float(np.nanmax(np.abs(np.asarray(solution.violation(system).position)), initial=0.0))
    iterations = np.asarray(solution.iterations)[1:]
    say(
        f"{system.name}: {len(solution.t)} rows to t = {float(solution.t[-1]):g} s, "
        f"{float(np.mean(iterations)) if iterations.size else 0.0:.2f} iterations a row, "
        f"largest constraint violation {worst:.1e}; wrote {path}"
    )
    return solution


def _is_interrupted(solution: mbd.Solution) -> bool:
    return bool(solution.result == mbd.RESULTS.interrupted)


def _keep_part(
    solution: mbd.Solution | None,
    system: mbd.System,
    path: Path,
    columns: list[str] | None,
    model: str | None,
) -> None:
    """Write the rows that were computed, and say what the file holds."""
    good = (
        0 if solution is None else int(np.sum(np.isfinite(np.asarray(solution.r)).all(axis=(1, 2))))
    )
    if solution is None or not good:
        say("no row was computed, so nothing was written", to=err)
        return
    write(solution, system, path, columns, model)
    say(f"the {good} rows to t = {float(solution.t[good - 1]):g} s are in {path}", to=err)


def write(
    solution: mbd.Solution,
    system: mbd.System,
    path: Path,
    columns: list[str] | None = None,
    model: str | None = None,
) -> None:
    """Write a motion as its file name asks; a result file with the model, where it is known."""
    if path.suffix == ".csv":
        solution.to_csv(path, system, columns=columns or None)
        return
    from jaxmbd.results.export import write_npz

    write_npz(path, solution, system, None if model is None else _described(model))


def _described(model: str) -> dict[str, Any] | None:
    """A model as the JSON object of a model file; None where no such file could hold it."""
    from jaxmbd.io.writer import mechanism_to_dict

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reading it has warned already
        try:
            return mechanism_to_dict(mbd.load_mechanism(model))
        except ValueError:
            return None


def write_columns(
    path: Path, columns: dict[str, np.ndarray], units: Mapping[str, str] | None = None
) -> None:
    """Arrays under their names, as one NPZ file or as columns of a CSV file with `units`."""
    from jaxmbd.results.export import write_table

    write_table(path, columns, units or {})
