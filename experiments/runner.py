"""One command for all experiments: the table of their names, and the options that they share.

Nothing here imports JAX: an experiment is imported once the cores that it may use are known.
"""

import ast
import functools
import importlib
import inspect
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import provenance
from .figures_of_pages import unsupported

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Experiment:
    """A program of this package.

    Attributes:
        module: Where its function `run(out, quick, ...)` is, relative to this package.
        cores: How many it uses unless told otherwise, 0 for all. Timings that compare take one.
        quick_cores: The same for a quick run, whose timings nobody compares; None for `cores`.
    """

    module: str
    cores: int = 0
    quick_cores: int | None = None

    @property
    def path(self) -> Path:
        """Its source."""
        return _HERE.joinpath(*self.module.split(".")).with_suffix(".py")

    @property
    def about(self) -> str:
        """The first paragraph of its docstring, read without an import."""
        text = ast.get_docstring(ast.parse(self.path.read_text(encoding="utf-8"))) or ""
        return " ".join(text.split("\n\n")[0].split())


EXPERIMENTS = {
    "rotation_formulations": Experiment("rotation_formulations.run", cores=1, quick_cores=0),
    "munthe_kaas_groups": Experiment("munthe_kaas_groups.run"),
    "discrete_null_space": Experiment("discrete_null_space.run"),
    "rotation_elements": Experiment("rotation_elements.run"),
    "gradients": Experiment("gradients.run", cores=1),
    "identification": Experiment("identification.run"),
    "control": Experiment("control.run"),
    "bicycle": Experiment("bicycle.run"),
    "contact": Experiment("contact.run", cores=1),
    "learning": Experiment("learning.run", cores=1),
    "environments": Experiment("environments.run", cores=1),
    "limits": Experiment("limits.run"),
    "beams": Experiment("beams.run", cores=1),
    "benchmarks": Experiment("benchmarks.run", cores=1),
    "scale": Experiment("benchmarks.scale", cores=1),
    "batch": Experiment("benchmarks.batch"),
    "gpu": Experiment("benchmarks.gpu"),
    "paired": Experiment("benchmarks.paired", cores=1),
    "first_result": Experiment("benchmarks.first_result"),
}
Name: Any = StrEnum("Name", {name: name for name in EXPERIMENTS})

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def main(
    context: typer.Context,
    name: Annotated[Name | None, typer.Argument(metavar="NAME", help="See --list.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Say which results are older than the code, and refuse numbers of pages that no "
            "result supports.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for results and pictures; by default the experiment's own, whose "
            "results are replaced, and for a quick run one of its own.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small and short, as tests do.")] = False,
    cores: Annotated[
        int | None,
        typer.Option(
            min=0, help="Cores to use, 0 for all; by default one where timings are compared."
        ),
    ] = None,
    asked: Annotated[
        bool, typer.Option("--help", help="Show this, or the options of NAME alone.")
    ] = False,
) -> None:
    """Run the experiment NAME. It may have options of its own: NAME --help."""
    if listed:
        _show_list()
    elif check:
        _show_ages()
        _check_pages()
    elif name is None:
        typer.echo(context.get_help())
        raise typer.Exit(0 if asked else 2)
    else:
        arguments = context.args + ["--help"] * asked
        _run(name, EXPERIMENTS[name], arguments, out=out, quick=quick, cores=cores)


def _show_list() -> None:
    table = Table("name", "what it is", box=None)
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, Text(experiment.about))
    Console().print(table)


def _show_ages() -> None:
    """Results that are older than the package or than their own experiment."""
    table = Table("run", "date", "commit", "commits to the package since", "to the experiment")
    without = []
    for folder in dict.fromkeys(e.path.parent for e in EXPERIMENTS.values()):
        found = provenance.ages(folder)
        if not found:
            without.append(folder.name)
        for age in found:
            counts = ["unknown" if n is None else str(n) for n in (age.package, age.own)]
            style = "yellow" if age.package != 0 or age.own != 0 else None
            table.add_row(age.command, age.date[:10], age.commit, *counts, style=style)
    Console().print(table)
    if without:
        typer.echo(f"results of unknown age: {', '.join(without)}", err=True)


def _check_pages() -> None:
    """Numbers in tables that the files of results do not hold."""
    folders = dict.fromkeys(e.path.parent for e in EXPERIMENTS.values())
    found = {folder.name: unsupported(folder) for folder in folders}
    for name, missing in found.items():
        for entry in missing:
            typer.echo(f"{name}: no result supports {entry}", err=True)
    if any(found.values()):
        raise typer.Exit(1)


def _run(
    name: str,
    experiment: Experiment,
    arguments: list[str],
    *,
    out: Path | None,
    quick: bool,
    cores: int | None,
) -> None:
    """Import the experiment and run it with the arguments that are its own."""
    if cores is None:
        few = quick and experiment.quick_cores is not None
        cores = experiment.quick_cores if few else experiment.cores
    _use_cores(cores)
    importlib.import_module("jaxmbd").enable_x64()
    module = importlib.import_module(f".{experiment.module}", __package__)
    own = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    text = f"{inspect.getdoc(module)}\n\nIt takes --out, --quick and --cores too."
    folder, began = out or experiment.path.parent, datetime.now(UTC)
    if quick and out is None and "--help" not in arguments:
        # What is small and short must not stand where the pages' numbers come from.
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-quick-"))
        typer.echo(f"quick results go to {folder}")
    own.command(help=text)(_with_own_options(module.run, folder, quick))
    code = own(arguments, prog_name=f"python -m experiments {name}", standalone_mode=False)
    if "--help" not in arguments:
        given = arguments + ["--quick"] * quick
        provenance.record(folder, name, given, _cores_in_use(cores), began)
    raise typer.Exit(code if isinstance(code, int) else 0)


def _use_cores(count: int) -> None:
    """Keep this process to some of its cores. JAX starts its threads when it is imported."""
    if count and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def _cores_in_use(asked: int) -> int:
    """How many this process may run on, which a caller may have limited; as asked for where the
    system does not tell.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else asked


def _with_own_options(run: Callable, out: Path, quick: bool) -> Callable:
    """`run`, its folder made, as a function of its other parameters."""

    @functools.wraps(run)
    def command(**own):
        out.mkdir(parents=True, exist_ok=True)
        run(out, quick, **own)

    signature = inspect.signature(run)
    others = [p for p in signature.parameters.values() if p.name not in ("out", "quick")]
    command.__signature__ = signature.replace(parameters=others)
    return command
