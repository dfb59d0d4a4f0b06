"""What the command says, and how."""

from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

out, err = Console(), Console(stderr=True)
INTERRUPTED = 130


def complain(text: str) -> None:
    """Print an error on standard error."""
    err.print(f"[bold red]error:[/] {escape(text)}", highlight=False, soft_wrap=True)


def say(text: str, *, to: Console = out) -> None:
    """Print text that holds names or paths of the user's."""
    to.print(text, markup=False, highlight=False, soft_wrap=True)


def new_table(*headings: str) -> Table:
    """An empty table with these headings."""
    return Table(*(escape(h) for h in headings), box=None)


def add_row(table: Table, *cells: str) -> None:
    """Add cells of plain text."""
    table.add_row(*(Text(c) for c in cells))


@contextmanager
def busy(text: str):
    """A spinner beside a line of text; Ctrl-C ends the command with exit code 130."""
    try:
        with err.status(escape(text)):
            yield
    except KeyboardInterrupt:
        complain("interrupted; nothing was written")
        raise typer.Exit(INTERRUPTED) from None
