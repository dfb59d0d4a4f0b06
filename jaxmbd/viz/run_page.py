"""One HTML page about a run: what the mechanism is, what happened, tables, peaks, plots, a view."""

import html
import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..analyses.mobility import mobility
from ..files import check_writable, written
from ..model.readable import counted
from ..model.system import System
from ..results.columns import Column, table_of
from ..results.export import check_fit, result_name
from ..results.solution import Solution
from ..results.summaries import outcomes
from .data import finite_rows
from .html_parts import folded, page_of, short, svg, table
from .result_files import solution_of, system_in
from .viewer import events_of, view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LISTED = 24  # rows of a table that are shown at once
_LINES = 8  # of a diagram
_COORDINATES = ("angle", "rate", "displacement", "speed")
_COLORS = ("#2f6fc4", "#c8443f", "#2f8f4e", "#8a5fc0", "#b7791f", "#3b8f98", "#6a7482", "#d579b4")


def save_run_page(
    source: Solution | str | Path, path: str | Path, system: System | None = None
) -> None:
    """Write the page; see `jaxmbd.save_report`."""
    check_writable(Path(path), "page")
    text = run_page(source, system)
    with written(path, "w", "page", encoding="utf-8") as file:
        file.write(text)


def run_page(source: Solution | str | Path, system: System | None = None) -> str:
    """The text of the page.

    Args:
        source: A solution, or the path of a result file.
        system: Its system, of a solution that carries none or a file that holds no model.

    Raises:
        ValueError: The system is unknown, the solution is a batch, or of another system, or no row
            is finite.
    """
    events = events_of(source)
    if isinstance(source, Solution):
        sol, system = source, source.system if system is None else system
    else:
        system = system_in(source) if system is None else system
        sol = None if system is None else solution_of(source, system)
    if sol is None or system is None:
        raise ValueError(
            "a report needs the mechanism, which this result does not hold: name its model, "
            "`--model FILE` on the command line or system= in Python"
        )
    check_fit(sol, system)
    good = np.flatnonzero(finite_rows(*(np.asarray(x) for x in (sol.t, sol.r, sol.A))))
    if not good.size:
        raise ValueError("the result holds no finite row: the run failed at its start")
    whole, sol = sol, sol.rows(good)
    about = _Run(sol, system)
    shown = view(sol, system, autoplay=False)
    body = [
        *_head(whole, about, events),
        f'<div class="view">{shown._repr_html_()}</div>',
        "<h2>The mechanism</h2>",
        *_mechanism(about),
        *_section("Joint coordinates", _extremes(about, about.coordinates)),
        *_section("Largest reactions", _reactions(about)),
        *_section("Forces, contacts, sensors and frames", _extremes(about, about.others)),
        "<h2>Energy and constraints</h2>",
        *_checks(about),
        "<h2>Made with</h2>",
        f'<p class="soft">{html.escape(_versions(sol))}</p>',
    ]
    return page_of(f"Report on {system.name}", body)


class _Run:
    """A motion with finite rows, and its usual table."""

    def __init__(self, sol: Solution, system: System):
        self.sol, self.system = sol, system
        self.t = np.asarray(sol.t)
        columns, rows = table_of(sol, system, None)
        self.columns = list(zip(columns, rows.T, strict=True))
        joints = {c.name for c in system.connections}
        of_joints = {f"{name}.{field}" for name in joints for field in _COORDINATES}
        of_bodies = {f"{b}.{field}" for b in system.bodies for field in ("r", "v", "omega")}

        def plain(column: Column) -> str:
            return column.name.removeprefix("joints.").removeprefix("bodies.")

        self.coordinates = [x for x in self.columns if plain(x[0]) in of_joints]
        left_out = {id(x) for x in self.coordinates}
        self.others = [
            x
            for x in self.columns[1:]
            if id(x) not in left_out
            and ".reaction_" not in x[0].name
            and not x[0].name.startswith(("energy.", "event."))
            and plain(x[0]).rpartition(".")[0] not in of_bodies
        ]
        self.reactions = sol.reactions(system) if system.nc else {}


# --- what happened ---


def _head(whole: Solution, about: _Run, events: Sequence[tuple[float, str]]) -> Iterator[str]:
    t = about.t
    yield f"<p><b>{html.escape(outcomes(whole.result))}</b></p>"
    span = f"{counted(len(t), 'row')} from t = {t[0]:g} s to {t[-1]:g} s"
    steps = whole.stats.get("completed_steps")
    if steps is not None and np.ndim(steps) == 0:
        span += f", {counted(int(np.asarray(steps)), 'step')}"
    yield f'<p class="soft">{html.escape(span)}.</p>'
    for warning in _warnings(whole, about):
        yield f'<p class="warn">{html.escape(warning)}</p>'
    if events:
        rows = [[said.rpartition(":")[0], f"{instant:.6g}"] for instant, said in events]
        heads = ["event", "t [s]"]
        yield folded(table(heads, rows[:_LISTED]), heads, rows[_LISTED:])


def _warnings(whole: Solution, about: _Run) -> Iterator[str]:
    result = result_name(whole.result)
    if result not in ("successful", "ended_by_event"):
        yield f"The run stopped at t = {about.t[-1]:g} s: {result}. Rows after that are left out."
    for name, of in (("undetermined_steps", "steps"), ("undetermined_rows", "rows")):
        count = int(np.asarray(whole.stats.get(name, 0)))
        if count:
            yield (
                f"At {count} {of} the pose was so close to a singular one that the reactions leave "
                "out a part of the forces."
            )
    if about.system.nc:
        for name, force in about.sol.normal_forces(about.system).items():
            force = np.asarray(force)
            if np.any(force < 0.0):
                k = int(np.argmax(force < 0.0))
                yield (
                    f"{name!r} pulls from t = {about.t[k]:.4g} s on, as no real contact can: it "
                    "would be lost there."
                )


# --- what it is ---


def _mechanism(about: _Run) -> Iterator[str]:
    system = about.system
    found = mobility(system, about.sol.at(0), t=about.t[0])
    facts = [*repr(system).splitlines()]
    left = counted(found.freedoms, "degree")
    drivers = any(c.is_driver for c in system.connections)
    facts += [f"{left} of freedom at the start" + (", those that drivers take left out" * drivers)]
    if found.redundant_rows:
        facts.append(
            f"{counted(found.redundant_rows, 'redundant row')}: single reactions of the joints "
            f"{', '.join(found.redundant_joints)} are not unique; those of least norm are listed"
        )
    for fact in facts:
        yield f"<p>{html.escape(fact.strip())}</p>"
    masses, inertias = np.asarray(system.mass), np.asarray(system.inertia)
    moments = np.linalg.eigvalsh(0.5 * (inertias + np.swapaxes(inertias, -1, -2)))
    rows = [
        [name, f"{mass:.5g}", ", ".join(f"{x:.4g}" for x in own)]
        for name, mass, own in zip(system.bodies, masses, moments, strict=True)
    ]
    heads = ["body", "mass [kg]", "principal moments of inertia [kg m²]"]
    yield folded(table(heads, rows[:_LISTED]), heads, rows[_LISTED:])
    names = [*system.bodies, "ground"]
    rows = [[c.name, c.kind, names[c.i], names[c.j], str(len(c.rows))] for c in system.connections]
    if rows:
        heads = ["joint or driver", "type", "body i", "body j", "rows"]
        yield folded(table(heads, rows[:_LISTED]), heads, rows[_LISTED:])
    rows = [
        [name, "–".join(dict.fromkeys(names[b] for b in bodies))]
        for stack in (*system.forces, *system.laws)
        for name, bodies in zip(stack.names, stack.bodies, strict=True)
    ]
    if rows:
        heads = ["force, stop, friction or contact", "bodies"]
        yield folded(table(heads, rows[:_LISTED]), heads, rows[_LISTED:])


# --- tables ---


def _section(title: str, parts: Iterator[str]) -> Iterator[str]:
    found = list(parts)
    if found:
        yield f"<h2>{title}</h2>"
        yield from found


def _extremes(about: _Run, columns: Sequence[tuple[Column, np.ndarray]]) -> Iterator[str]:
    """The least and the largest value of quantities with their times, and a diagram by unit."""
    if not columns:
        return
    heads = ["quantity", "unit", "start", "end", "least", "at t [s]", "largest", "at t [s]"]
    rows = []
    for column, values in columns:
        if not np.any(np.isfinite(values)):
            continue
        # What is rounding beside the rest of it is no number to read.
        values = np.where(np.abs(values) < 1e-12 * np.nanmax(np.abs(values)), 0.0, values)
        low, high = int(np.nanargmin(values)), int(np.nanargmax(values))
        numbers = (values[0], values[-1], values[low], about.t[low], values[high], about.t[high])
        rows.append([short(column.name, 48), column.unit, *(f"{x:.5g}" for x in numbers)])
    yield folded(table(heads, rows[:_LISTED]), heads, rows[_LISTED:])
    for unit in dict.fromkeys(column.unit for column, _ in columns):
        lines = {column.name: y for column, y in columns if column.unit == unit}
        if unit != "-":
            yield svg(_diagram(about.t, lines, unit))


def _reactions(about: _Run) -> Iterator[str]:
    if not about.reactions:
        return
    heads = ["joint", "largest force [N]", "at t [s]", "x, y, z then [N]"]
    heads += ["largest moment [N m]", "at t [s]", "x, y, z then [N m]"]
    rows, forces, moments = [], {}, {}
    for name, reaction in about.reactions.items():
        row = [name]
        for vectors, sizes in ((reaction.force, forces), (reaction.moment, moments)):
            vectors = np.asarray(vectors)
            sizes[name] = np.linalg.norm(vectors, axis=1)
            if not np.any(np.isfinite(sizes[name])):
                row += ["", "", ""]
                continue
            k = int(np.nanargmax(sizes[name]))
            least = 1e-12 * sizes[name][k]  # beside the rest it is rounding
            parts = ", ".join(f"{x if abs(x) > least else 0.0:.4g}" for x in vectors[k])
            row += [f"{sizes[name][k]:.5g}", f"{about.t[k]:.4g}", parts]
        rows.append(row)
    yield folded(table(heads, rows[:_LISTED]), heads, rows[_LISTED:])
    yield (
        '<p class="soft">Forces and moments on body j, at the joint&#x27;s point on it, in '
        "global components.</p>"
    )
    yield svg(_diagram(about.t, forces, "N", "size of the force"))
    if any(np.nanmax(x, initial=0.0) > 1e-9 for x in moments.values()):
        yield svg(_diagram(about.t, moments, "N m", "size of the moment"))


def _checks(about: _Run) -> Iterator[str]:
    sol, system = about.sol, about.system
    energy = sol.energy(system)
    parts = {name: np.asarray(getattr(energy, name)) for name in ("kinetic", "potential", "total")}
    change = parts["total"] - parts["total"][0]
    k = int(np.nanargmax(np.abs(change)))
    yield (
        f"<p>Total energy {parts['total'][0]:.6g} J at the start and {parts['total'][-1]:.6g} J at "
        f"the end; it is farthest from its start at t = {about.t[k]:.4g} s, by {change[k]:.4g} J. "
        f"{_why_energy_changes(system)}</p>"
    )
    if not system.massless:
        yield svg(_diagram(about.t, parts, "J"))
    if system.nc:
        gaps = np.abs(np.asarray(sol.violation(system).position))
        row, column = np.unravel_index(int(np.nanargmax(gaps)), gaps.shape)
        place = f"row {system.row_names[column]!r}, t = {about.t[row]:.4g} s"
        yield (
            f"<p>Joints are open by at most {gaps[row, column]:.1e} ({html.escape(place)}; lengths "
            "in m, directions without unit).</p>"
        )


def _why_energy_changes(system: System) -> str:
    moved = any(c.is_driver for c in system.connections) or system.forces or system.laws
    if moved or system.inputs:
        return "Drivers, motors, dampers and friction change it, and the error of the method."
    return "Nothing here does work or dissipates: this is the error of the method."


def _diagram(t: np.ndarray, lines: dict[str, np.ndarray], unit: str, what: str = "") -> "Figure":
    """The lines that reach farthest, of one unit."""
    from matplotlib.figure import Figure

    from ..results.figures import keep_flat, label, thinned

    reach = {name: np.nanmax(np.abs(y), initial=0.0) for name, y in lines.items()}
    chosen = sorted(lines, key=lambda name: -reach[name])[:_LINES]
    figure = Figure(figsize=(10.5, 2.6), layout="constrained")
    ax = figure.subplots()
    for name, color in zip((n for n in lines if n in chosen), _COLORS, strict=False):
        ax.plot(*thinned(t, lines[name]), lw=1.2, color=color, label=label(short(name)))
    more = f" ({len(chosen)} of {len(lines)})" if len(lines) > len(chosen) else ""
    ax.set_xlabel("t [s]", fontsize=8)
    ax.set_ylabel(f"{what}{more} [{unit}]".strip(), fontsize=8)
    ax.legend(fontsize=7, frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0.0, 0.98))
    keep_flat(ax, np.array([lines[name] for name in chosen]))
    ax.grid(alpha=0.25)
    ax.margins(x=0.0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=7)
    return figure


def _versions(sol: Solution) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("jaxmbd", "jax", "jaxlib", "numpy"))
    precision = "single" if np.asarray(sol.r).dtype == np.float32 else "double"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return f"{packages}; {precision} precision; {system}; {now}"
