"""Time plots of any quantity of a result."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ..analyses.solution import Solution
from ..model.system import System
from .data import Picture, picture

QUANTITIES = {
    "r": "position [m]",
    "v": "velocity [m/s]",
    "a": "acceleration [m/s²]",
    "omega": "angular velocity, body frame [rad/s]",
    "alpha": "angular acceleration, body frame [rad/s²]",
    "lam": "multipliers [N, N·m]",
    "iterations": "Newton iterations",
}


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
        bodies: Names of bodies; all by default.
        out: Where to save the figure (PNG, PDF, SVG by its ending).

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: An unknown quantity or body.
    """
    data = picture(source, system)
    unknown = [q for q in quantities if q not in QUANTITIES]
    if unknown or not quantities:
        raise ValueError(f"unknown quantity {', '.join(unknown) or '(none)'}; known are {', '.join(QUANTITIES)}")
    chosen = list(bodies) if bodies else data.bodies
    for name in chosen:
        if name not in data.bodies:
            raise ValueError(f"unknown body {name!r}; the bodies are {', '.join(data.bodies)}")
    figure, axes = plt.subplots(
        len(quantities),
        len(chosen),
        figsize=(3.6 * len(chosen) + 1.0, 2.2 * len(quantities) + 0.6),
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    for row, quantity in enumerate(quantities):
        for column, body in enumerate(chosen):
            _draw(axes[row, column], data, quantity, data.bodies.index(body), first=column == 0)
            if row == 0 and quantity not in ("lam", "iterations"):
                axes[row, column].set_title(body, fontsize=10)
        axes[row, 0].set_ylabel(QUANTITIES[quantity], fontsize=8)
    for ax in axes[-1]:
        ax.set_xlabel("t [s]")
    figure.suptitle(data.drawing["name"] + ("" if data.result == "successful" else f" (stopped: {data.result})"))
    if out is not None:
        figure.savefig(out, dpi=130)
    return figure


def _draw(ax, data: Picture, quantity: str, body: int, *, first: bool) -> None:
    t, values = data.arrays["t"], data.arrays[quantity]
    if quantity in ("lam", "iterations"):
        if not first:
            ax.set_visible(False)
            return
        names = data.drawing["rows"] if quantity == "lam" else [""]
        for k, name in enumerate(names):
            ax.plot(t, np.atleast_2d(values.T)[k], lw=1.0, label=name)
        if quantity == "lam" and len(names) <= 12:
            ax.legend(fontsize=6, ncols=2)
    else:
        for k, axis in enumerate("xyz"):
            ax.plot(t, values[:, body, k], lw=1.2, label=axis)
        if first:
            ax.legend(fontsize=7, ncols=3, loc="upper right")
        # Rounding noise around a constant should look constant.
        least = 1e-6 * float(np.max(np.abs(values), initial=1e-12))
        low, high = ax.get_ylim()
        if high - low < least:
            ax.set_ylim(0.5 * (low + high - least), 0.5 * (low + high + least))
    ax.grid(alpha=0.3)
    ax.margins(x=0.0)
