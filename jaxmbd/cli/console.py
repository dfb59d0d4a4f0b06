"""What the command says, and how."""

import codecs
import sys
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

out, err = Console(), Console(stderr=True)
INTERRUPTED = 130


_PLAIN = {"²": "^2", "³": "^3", "·": "*", "±": "+-", "…": "...", "Φ": "Phi"}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Characters that a stream cannot write, in those that every stream can."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(_PLAIN.get(x) or _spelled(x) for x in found), error.end


def _spelled(x: str) -> str:
    """A drawn line as a line; anything else as Python writes it, since names must stay apart."""
    return "-" if "\u2500" <= x <= "\u28ff" else ascii(x)[1:-1]


def write_anywhere() -> None:
    """Let standard output and error take any text, whatever the encoding of the terminal."""
    codecs.register_error("jaxmbd", _plain)
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) in ("strict", "backslashreplace"):
            stream.reconfigure(errors="jaxmbd")  # pyright: ignore[reportAttributeAccessIssue]


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
