"""Charts of quantities of a motion, asked for by their names in tables."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..model.system import System
from .columns import Column, table_of
from .export import check_fit, result_name
from .figures import keep_flat, label, save_figure, thinned
from .solution import Solution
from .units import split

_MOST_IN_LEGEND = 12


def chart(
    solution: Solution,
    names: Sequence[str] | str,
    system: System | None = None,
    *,
    against: str = "t",
    out: str | Path | None = None,
) -> Figure:
    """See `Solution.plot`."""
    system = solution.system if system is None else system
    check_fit(solution, system)
    asked = [names] if isinstance(names, str) else list(names)
    columns, rows = table_of(solution, system, asked)
    base, x = _one(solution, system, against)
    # The time comes first in a table, asked for or not.
    lines = list(zip(columns, rows.T, strict=True))[
        0 if any(split(x)[0] == "t" for x in asked) else 1 :
    ]
    if not lines:
        raise ValueError("plot: name at least one quantity; mbd.quantities(system) lists them")
    units = list(dict.fromkeys(column.unit for column, _ in lines))
    figure, axes = plt.subplots(
        len(units),
        figsize=(7.0, 2.3 * len(units) + 0.7),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    for ax, unit in zip(axes[:, 0], units, strict=True):
        own = [(column, y) for column, y in lines if column.unit == unit]
        _draw(ax, x, own, rising=base.name == "t")
        if (base.name, base.unit) == ("t", "s") and solution.events is not None:
            for instant, _ in solution.events.table():
                ax.axvline(instant, color="0.6", lw=0.8, ls=":")
    axes[-1, 0].set_xlabel(f"{label(base.name)} [{base.unit}]")
    result = result_name(solution.result)
    if result not in ("successful", "ended_by_event"):
        figure.suptitle(f"stopped: {result}", fontsize=10)
    if out is not None:
        save_figure(figure, out)
    return figure


def _one(solution: Solution, system: System | None, name: str) -> tuple[Column, np.ndarray]:
    """The one column of that name."""
    if not isinstance(name, str):
        raise ValueError(f"plot: against must be one name, not {name!r}")
    columns, rows = table_of(solution, system, [name])
    if len(columns) > (1 if split(name)[0] == "t" else 2):
        raise ValueError(f"plot: against must name one quantity; {name!r} fits several")
    return columns[-1], rows[:, -1]


def _draw(ax: Axes, x: np.ndarray, lines: list[tuple[Column, np.ndarray]], *, rising: bool) -> None:
    """Lines of one unit; what all their names begin with stands at the axis."""
    names = [column.name for column, _ in lines]
    owner = names[0].rpartition(".")[0]
    shared = f"{owner}." if owner and all(n.startswith(f"{owner}.") for n in names) else ""
    if len(lines) == 1:
        shared = names[0]
    for name, (_, y) in zip(names, lines, strict=True):
        ax.plot(*(thinned(x, y) if rising else (x, y)), lw=1.3, label=label(name[len(shared) :]))
    unit = lines[0][0].unit
    ax.set_ylabel(f"{label(shared.removesuffix('.'))}\n[{unit}]" if shared else f"[{unit}]")
    if 1 < len(lines) <= _MOST_IN_LEGEND:
        ax.legend(fontsize=8, ncols=3, frameon=False, loc="lower left", bbox_to_anchor=(0.0, 0.98))
    keep_flat(ax, np.array([y for _, y in lines]))
    ax.grid(alpha=0.3)
    ax.margins(x=0.0)
