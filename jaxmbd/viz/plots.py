"""Time plots of any quantity of a result."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..model.system import System
from ..results.figures import keep_flat, label, save_figure, thinned
from ..results.solution import Solution
from .data import Picture, listed, picture

QUANTITIES = {
    "r": "position [m]",
    "v": "velocity [m/s]",
    "a": "acceleration [m/s²]",
    "omega": "angular velocity, body frame [rad/s]",
    "alpha": "angular acceleration, body frame [rad/s²]",
    "lam": "multipliers [N, N·m]",
    "iterations": "Newton iterations",
}
FIRST_BODIES, MAX_BODIES = 8, 40  # drawn by default, and when named

_WITHOUT_BODY = {"lam", "iterations"}


def plot(
    source: Solution | str | Path,
    system: System | None = None,
    *,
    quantities: Sequence[str] = ("r", "v", "a"),
    bodies: Sequence[str] | None = None,
    out: str | Path | None = None,
) -> Figure:
    """Plot quantities over time: a row of axes for each quantity, a column for each body.

    Args:
        source: A solution, or the path of a result file.
        system: Its system, for names (a result file carries its own).
        quantities: Any of `QUANTITIES`.
        bodies: Names of bodies, at most 40; by default all, or the first 8 of more than 8 with a
            warning.
        out: Where to save the figure (PNG, PDF, SVG by its ending).

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: An unknown quantity or body, or more than 40 bodies.
    """
    data = picture(source, system, multipliers="lam" in quantities)
    quantities = _known(quantities, tuple(QUANTITIES), "quantity", "known are")
    chosen, left_out = data.bodies[:FIRST_BODIES], ""
    if bodies:
        chosen = _known(bodies, data.bodies, "body", "the bodies are")
        if len(chosen) > MAX_BODIES:
            raise ValueError(f"plot draws {MAX_BODIES} bodies at most, not {len(chosen)}")
    elif len(data.bodies) > FIRST_BODIES and not set(quantities) <= _WITHOUT_BODY:
        left_out = f" (first {FIRST_BODIES} of {len(data.bodies)} bodies)"
        warnings.warn(
            f"{data.drawing['name']!r} has {len(data.bodies)} bodies; drawn are the first "
            f"{FIRST_BODIES}: name others with bodies=",
            UserWarning,
            stacklevel=2,
        )
    if set(quantities) <= _WITHOUT_BODY:
        chosen = chosen[:1]
    figure, axes = plt.subplots(
        len(quantities),
        len(chosen),
        figsize=(max(3.6 * len(chosen) + 1.0, 6.4), 2.2 * len(quantities) + 0.6),
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    for row, quantity in enumerate(quantities):
        shown = axes[row, :1] if quantity in _WITHOUT_BODY else axes[row]
        for ax, body in zip(shown, chosen, strict=False):
            _draw(ax, data, quantity, data.bodies.index(body), first=ax is axes[row, 0])
        for ax in axes[row, len(shown) :]:
            ax.set_visible(False)
        axes[row, 0].set_ylabel(QUANTITIES[quantity], fontsize=8)
    for column, body in enumerate(chosen):
        visible = [ax for ax in axes[:, column] if ax.get_visible()]
        visible[-1].set_xlabel("t [s]")
        visible[-1].tick_params(labelbottom=True)
        named = [
            ax for ax, q in zip(axes[:, column], quantities, strict=True) if q not in _WITHOUT_BODY
        ]
        if named:
            named[0].set_title(label(body, 28), fontsize=10)
    stopped = "" if data.result == "successful" else f" (stopped: {label(data.result)})"
    figure.suptitle(label(data.drawing["name"]) + left_out + stopped)
    if out is not None:
        save_figure(figure, out)
    return figure


def _known(chosen: Sequence[str], known: Sequence[str], kind: str, introduction: str) -> list[str]:
    """The chosen names, each once, all of them known; a text is one name."""
    names = list(dict.fromkeys([chosen] if isinstance(chosen, str) else chosen))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = repr(unknown[0]) if unknown else "(none)"
        raise ValueError(f"unknown {kind} {what}; {introduction} {listed(known)}")
    return names


def _draw(ax: Axes, data: Picture, quantity: str, body: int, *, first: bool) -> None:
    t, values = data.arrays["t"], data.arrays[quantity]
    if quantity in _WITHOUT_BODY:
        names = data.drawing["rows"] if quantity == "lam" else [""]
        for k, name in enumerate(names):
            ax.plot(*thinned(t, np.atleast_2d(values.T)[k]), lw=1.0, label=label(name))
        if quantity == "lam" and len(names) <= 12:
            ax.legend(fontsize=6, ncols=2)
    else:
        for k, axis in enumerate("xyz"):
            ax.plot(*thinned(t, values[:, body, k]), lw=1.2, label=axis)
        if first:
            ax.legend(fontsize=7, ncols=3, loc="upper right")
        keep_flat(ax, values[:, body])
    ax.grid(alpha=0.3)
    ax.margins(x=0.0)
