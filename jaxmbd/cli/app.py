"""The command itself: settings of all commands, warnings, and errors in one line."""

import functools
import sys
import warnings
from typing import Annotated

import typer
from rich.markup import escape

import jaxmbd as mbd
from jaxmbd.model.functions import debugging
from jaxmbd.timing import Spent

from .console import add_row, complain, err, new_table, write_anywhere

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Simulate rigid multibody mechanisms with exact constraints. MODEL is a packaged name "
    "(see `jaxmbd list`) or the path of a model file (.json, .xml, .urdf). Try: jaxmbd demo",
)


@app.callback()
def _begin(
    context: typer.Context,
    cache: Annotated[
        bool,
        typer.Option(
            help="Keep compiled programs in the user's cache folder (or in JAXMBD_CACHE), so that "
            "the next command starts at once."
        ),
    ] = True,
    timing: Annotated[
        bool, typer.Option("--timing", help="Say at the end what tracing and compiling took.")
    ] = False,
) -> None:
    if timing:
        from jaxmbd.timing import watch

        context.call_on_close(functools.partial(_show_timing, watch()))
    if not cache:
        return
    try:
        mbd.enable_compilation_cache()
    except ValueError as error:  # the command works without
        warnings.warn(str(error), stacklevel=1)


def _show_timing(programs: dict[str, Spent]) -> None:
    """The programs that took longest, on standard error."""
    table = new_table("program", "traced [s]", "lowered [s]", "compiled or read [s]")
    slowest = sorted(programs.items(), key=lambda item: -item[1].total)
    for name, spent in slowest[:12]:
        add_row(table, name, *(f"{x:.2f}" for x in (spent.traced, spent.lowered, spent.compiled)))
    add_row(
        table,
        f"all {len(slowest)}",
        *(
            f"{sum(getattr(spent, stage) for _, spent in slowest):.2f}"
            for stage in ("traced", "lowered", "compiled")
        ),
    )
    err.print(table)


def main() -> None:
    """Run the command; errors of the user's making become one line and exit code 1."""
    mbd.enable_x64()
    write_anywhere()
    warnings.showwarning = _show_warning
    try:
        app()
    except (
        ValueError,
        TypeError,
        RuntimeError,
        NotImplementedError,
        OSError,
        MemoryError,
    ) as error:
        if debugging():
            raise
        complain(str(error) or type(error).__name__)
        sys.exit(1)


def _show_warning(
    message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    if issubclass(category, UserWarning):
        err.print(
            f"[bold yellow]warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True
        )
