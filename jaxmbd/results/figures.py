"""What figures of matplotlib have in common: labels, lines of bounded length, files."""

import contextlib
import warnings
from collections.abc import Generator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..files import placed

_POINTS = 2000  # of a line at most, several for every dot of a picture


def label(text: str, most: int = 40) -> str:
    """A name as matplotlib may print it: one line, of bounded length, without formulas."""
    # Whatever is not printable (line breaks, control characters, halves of surrogate pairs) becomes
    # a space.
    text = "".join(c if c.isprintable() else " " for c in text)
    text = text if len(text) <= most else text[: most - 1] + "…"
    # A leading underscore would leave a line out of the legend, and a pair of "$" would be read as
    # a formula.
    return (" " + text if text.startswith("_") else text).replace("$", r"\$")


@contextlib.contextmanager
def quiet_fonts() -> Generator[None, None, None]:
    """Leave out matplotlib's warnings for characters that its font lacks; it draws a box for
    each.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def save_figure(figure: Figure, out: str | Path) -> None:
    """Write a matplotlib figure in the format that the suffix names, PNG by default."""
    path = Path(out)
    path = path if path.suffix else path.with_name(f"{path.name}.png")
    with quiet_fonts(), placed(path, "picture") as target:
        figure.savefig(target, dpi=130)


def keep_flat(ax: Axes, values: np.ndarray) -> None:
    """Limits in which rounding noise around a constant looks constant."""
    finite = values[np.isfinite(values)]
    largest = float(np.max(np.abs(finite), initial=1e-12))
    low, high = ax.get_ylim()
    if high - low < 1e-6 * largest:
        middle = 0.5 * (low + high)
        ax.set_ylim(middle - 0.1 * largest, middle + 0.1 * largest)


def thinned(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A line with the lowest and the highest point of every short interval, so that no peak is
    lost.
    """
    if len(t) <= _POINTS:
        return t, y
    parts = np.array_split(np.arange(len(t)), _POINTS // 2 - 1)
    rows = np.unique([0, len(t) - 1, *(p[k(y[p])] for p in parts for k in (np.argmin, np.argmax))])
    return t[rows], y[rows]
