"""Parts of pages that report something: tables, pictures inside the page, the page itself.

Names reach a page only as escaped text, so that none of them can act as HTML.
"""

import html
import io
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from ..results.figures import quiet_fonts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page_of(title: str, body: Sequence[str]) -> str:
    """A page with a title and parts that are HTML already."""
    assets = resources.files(__package__ or "") / "assets"
    template = Template((assets / "report.html").read_text(encoding="utf-8"))
    return template.substitute(title=html.escape(title), body="\n".join(body))


def svg(figure: "Figure") -> str:
    """A figure as SVG inside a page; the same figure gives the same text."""
    import matplotlib as mpl

    text = io.StringIO()
    with quiet_fonts(), mpl.rc_context({"svg.hashsalt": "jaxmbd", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    found = text.getvalue()
    return found[found.index("<svg") :]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts, with a line of heads."""
    head = "".join(f"<th>{html.escape(x)}</th>" for x in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def folded(shown: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """What is shown, and behind a click the rows that were left out of it."""
    if not rows:
        return shown
    return f"{shown}<details><summary>{len(rows)} more</summary>{table(heads, rows)}</details>"


def short(name: str, most: int = 34) -> str:
    """A name of bounded length."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
