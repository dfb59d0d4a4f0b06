"""The `jaxmbd` command."""

import functools
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import jaxmbd as mbd
from jaxmbd.analyses.arguments import check_memory
from jaxmbd.model.functions import debugging
from jaxmbd.model.given import summary

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Simulate rigid multibody mechanisms with exact constraints. MODEL is a packaged name "
    "(see `jaxmbd list`) or the path of a JSON model file. Try: jaxmbd demo",
)
out, err = Console(), Console(stderr=True)

# Enumerations made from the tables, so that --help lists whatever there is.
FormulationName: Any = StrEnum("FormulationName", {name: name for name in mbd.FORMULATIONS})
IntegratorName: Any = StrEnum("IntegratorName", {name: name for name in mbd.INTEGRATORS})
_RA = FormulationName("rA")

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Packaged name, or path of a JSON model file.")
]
TEnd = Annotated[float, typer.Option("--t-end", help="Final time, in seconds.")]
Step = Annotated[float, typer.Option("--h", help="Step size, in seconds.")]
Formulation = Annotated[FormulationName, typer.Option(help="Coordinates of orientation.")]
Integrator = Annotated[
    IntegratorName | None,
    typer.Option(
        help="Step method; by default generalized_alpha, and moreau for stops, dry friction and "
        "contacts."
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Result file (.npz or .csv).")]
Result = Annotated[Path, typer.Argument(metavar="RESULT", help="Result file (.npz).")]
RhoInf = Annotated[
    float | None, typer.Option(help="generalized_alpha: spectral radius at infinite frequency.")
]
Tableau = Annotated[
    str | None, typer.Option(help="munthe_kaas, runge_kutta: euler, heun, rk3, rk4 or rk5.")
]
Group = Annotated[str | None, typer.Option(help="SO3xR3 or SE3; munthe_kaas also mixed.")]
Projection = Annotated[
    bool,
    typer.Option(
        "--projection", help="Project onto the constraints after every step (velocities, or both)."
    ),
]
NewtonTolerance = Annotated[
    float | None, typer.Option(help="Implicit methods: tolerance of Newton's method.")
]
Tolerance = Annotated[
    float | None,
    typer.Option(help="Choose the steps for this tolerance; rows stay at multiples of --h."),
]
_INTERRUPTED = 130


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


def _show_timing(programs: dict[str, Any]) -> None:
    """The programs that took longest, on standard error."""
    table = _table("program", "traced [s]", "lowered [s]", "compiled or read [s]")
    slowest = sorted(programs.items(), key=lambda item: -item[1].total)
    for name, spent in slowest[:12]:
        _row(table, name, *(f"{x:.2f}" for x in (spent.traced, spent.lowered, spent.compiled)))
    _row(
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
        _complain(str(error) or type(error).__name__)
        sys.exit(1)


def _show_warning(message, category, *_, **__) -> None:
    if issubclass(category, UserWarning):
        err.print(
            f"[bold yellow]warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True
        )


def _complain(text: str) -> None:
    err.print(f"[bold red]error:[/] {escape(text)}", highlight=False, soft_wrap=True)


def _say(text: str, *, to: Console = out) -> None:
    """Print text that holds names or paths of the user's."""
    to.print(text, markup=False, highlight=False, soft_wrap=True)


def _table(*headings: str) -> Table:
    return Table(*(escape(h) for h in headings), box=None)


def _row(table: Table, *cells: str) -> None:
    table.add_row(*(Text(c) for c in cells))


@contextmanager
def _busy(text: str):
    """A spinner beside a line of text; Ctrl-C ends the command with exit code 130."""
    try:
        with err.status(escape(text)):
            yield
    except KeyboardInterrupt:
        _complain("interrupted; nothing was written")
        raise typer.Exit(_INTERRUPTED) from None


@app.command("list")
def list_models() -> None:
    """List the packaged mechanisms."""
    from jaxmbd.library import GENERATORS, SIZED, names

    table = _table("name", "bodies", "rows", "what it is")
    for name in names():
        m = mbd.load_mechanism(name)
        system, _ = m.build()
        what = summary(GENERATORS[name]) if name in GENERATORS else _description(name)
        _row(table, f"{name}[:N]" if name in SIZED else name, str(system.nb), str(system.nc), what)
    out.print(table)


def _description(name: str) -> str:
    from importlib import resources

    text = (resources.files("jaxmbd.library") / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text).get("description") or ""


@app.command()
def schema() -> None:
    """Print the JSON Schema of model files."""
    from jaxmbd.io import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


_LISTED = 40  # rows of a table; the rest is counted


@app.command()
def info(model: Model) -> None:
    """Show bodies, joints, degrees of freedom and redundant joints of MODEL."""
    from jaxmbd.analyses.failure import warn_of_changes

    system, state = mbd.load(model)
    with _busy(f"assembling {system.name}"):
        assembled, report = mbd.assemble(system, state)
    closed = bool(report.closed)
    gravity = ", ".join(f"{x:g}" for x in np.asarray(system.gravity))
    _say(f"{system.name}: gravity ({gravity}) m/s²")
    bodies = _table(
        "body", "mass [kg]", "principal moments [kg·m²]", "assembly moved [m]", "turned [rad]"
    )
    for k, name in enumerate(system.bodies[:_LISTED]):
        known = name not in system.massless
        moments = (
            ", ".join(f"{x:.4g}" for x in np.linalg.eigvalsh(np.asarray(system.inertia[k])))
            if known
            else "none"
        )
        mass = f"{float(system.mass[k]):.4g}" if known else "none"
        _row(
            bodies,
            name,
            mass,
            moments,
            f"{float(report.displacement[k]):.1e}",
            f"{float(report.rotation[k]):.1e}",
        )
    out.print(bodies)
    _and_more(len(system.bodies), "bodies")
    names = [*system.bodies, "ground"]
    joints = _table("joint", "kind", "bodies", "rows", "violation")
    violation = np.asarray(report.violation)
    for c in system.connections[:_LISTED]:
        gap = float(np.max(np.abs(violation[list(c.rows)])))
        _row(joints, c.name, c.kind, f"{names[c.i]} - {names[c.j]}", str(len(c.rows)), f"{gap:.1e}")
    out.print(joints)
    _and_more(len(system.connections), "joints")
    if system.laws:
        laws = _table("law", "kind", "bodies", "places")
        for stack in system.laws:
            for name, pair in zip(stack.names, stack.bodies, strict=True):
                _row(laws, name, stack.kind, " - ".join(names[b] for b in pair), str(stack.places))
        out.print(laws)
    _say(f"linear systems: {system.linear_solver.replace('_', '-')}")
    if not closed:
        raise ValueError(
            f"mechanism {system.name!r} cannot be assembled: see the column 'violation'"
        )
    warn_of_changes(system, state, assembled, report)
    _report_mobility(mbd.mobility(system, assembled))


def _and_more(count: int, what: str) -> None:
    if count > _LISTED:
        _say(f"... and {count - _LISTED} more {what}")


def _report_mobility(m: mbd.Mobility) -> None:
    condition = f", condition of the Jacobian {m.condition:.1f}" if np.isfinite(m.condition) else ""
    positions = (
        f" of the velocities and {m.position_freedoms} of the positions"
        if m.position_freedoms != m.freedoms
        else ""
    )
    _say(
        f"{m.coordinates} coordinates, {m.rows} rows of rank {m.rank}: {m.freedoms} freedom(s)"
        f"{positions}, {m.redundant_rows} redundant row(s){condition}"
    )
    for found in m.redundant_sets[:_LISTED]:
        _say(
            f"redundant: {len(found.rows)} row(s) in the loop of {', '.join(found.joints)}; could "
            "go: " + "; ".join(found.rows)
        )
    _and_more(len(m.redundant_sets), "redundant sets")


@app.command()
def kinematics(
    model: Model, out_file: Out, t_end: TEnd = 3.0, h: Step = 1e-3, formulation: Formulation = _RA
) -> None:
    """Move a fully driven MODEL and write the motion."""
    _check_out(out_file, (".npz", ".csv"))
    system, state = mbd.load(model)
    ts = _instants(system, t_end, h)
    _keep(
        lambda: mbd.kinematics(
            system, state, ts, formulation=mbd.FORMULATIONS[formulation](), progress=True
        ),
        system,
        out_file,
    )


def _instants(system: mbd.System, t_end: float, h: float) -> np.ndarray:
    steps = mbd.count_steps(h, t_end, None)
    check_memory(system, steps + 1, "take a larger --h")
    return np.arange(steps + 1) * h


@app.command()
def simulate(
    model: Model,
    out_file: Out,
    t_end: TEnd = 3.0,
    h: Step = 1e-3,
    formulation: Formulation = _RA,
    integrator: Integrator = None,
    save_every: Annotated[int, typer.Option(help="Save every k-th step.")] = 1,
    rho_inf: RhoInf = None,
    tableau: Tableau = None,
    group: Group = None,
    projection: Projection = False,
    newton_tolerance: NewtonTolerance = None,
    tolerance: Tolerance = None,
) -> None:
    """Integrate MODEL in time and write the motion."""
    _check_out(out_file, (".npz", ".csv"))
    system, state = mbd.load(model)
    method = _integrator(
        integrator or _usual(system), rho_inf, tableau, group, projection, newton_tolerance
    )
    options: dict[str, Any] = {"formulation": mbd.FORMULATIONS[formulation](), "integrator": method}
    if tolerance is None:
        _keep(
            lambda: mbd.simulate(
                system, state, t_end=t_end, h=h, save_every=save_every, progress=True, **options
            ),
            system,
            out_file,
        )
        return
    if save_every != 1:
        raise ValueError(
            "--save-every is for fixed steps; with --tolerance rows are at multiples of --h"
        )
    ts = _instants(system, t_end, h)

    def adaptive() -> mbd.Solution:
        with _busy(f"simulating {system.name}"):
            return mbd.simulate(system, state, step=mbd.Adaptive(tolerance), save_at=ts, **options)

    solution = _keep(adaptive, system, out_file)
    _say(
        f"{int(solution.stats['accepted_steps'])} steps, {int(solution.stats['rejected_steps'])} "
        "rejected"
    )


def _usual(system: mbd.System) -> str:
    """The method that `simulate` chooses."""
    return "moreau" if system.laws else "generalized_alpha"


def _integrator(name: str, rho_inf, tableau, group, projection: bool, newton_tolerance) -> Any:
    """The method with those options that were given; one that it does not have is refused."""
    method = mbd.INTEGRATORS[name]
    fields = set(method.__dataclass_fields__)
    chosen: dict[str, Any] = {}
    newton = None if newton_tolerance is None else mbd.Newton(newton_tolerance)
    given = {"rho_inf": rho_inf, "tableau": tableau, "group": group, "newton": newton}
    for field, value in given.items():
        if value is not None:
            if field not in fields:
                option = "newton-tolerance" if field == "newton" else field.replace("_", "-")
                others = [n for n, m in mbd.INTEGRATORS.items() if field in m.__dataclass_fields__]
                raise ValueError(
                    f"--{option}: {name} has no such setting; it belongs to {', '.join(others)}"
                )
            chosen[field] = value
    if projection:
        settings = {"velocity_projection": True, "projection": True, "stabilization": "projection"}
        field = next((f for f in settings if f in fields), None)
        if field is None:
            raise ValueError(
                f"--projection: {name} has no such setting; its constraints hold at every step"
            )
        chosen[field] = settings[field]
    return method(**chosen)


def _check_out(path: Path, suffixes: tuple[str, ...]) -> None:
    """Refuse, before any work, a file that could not be written after it."""
    if path.suffix not in suffixes:
        raise ValueError(f"--out must end in {' or '.join(suffixes)}, not {path.name!r}")
    folder = path.absolute().parent
    try:
        if path.is_dir():
            raise ValueError(f"--out: {str(path)!r} is a folder; name a file in it")
        if not folder.is_dir():
            raise ValueError(f"--out: the folder {str(folder)!r} does not exist")
        with tempfile.TemporaryFile(dir=folder):
            pass
        # Longest of the names that writing needs.
        os.lstat(path.with_name(path.name + ".partial"))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ValueError(
            f"--out: cannot write to {str(path)!r}: {error.strerror or error}"
        ) from None


def _keep(job: Callable[[], mbd.Solution], system: mbd.System, path: Path) -> mbd.Solution:
    """Do the job and write its solution; after a failure, the steps before it, and the error goes
    on.
    """
    try:
        solution = job()
    except mbd.SimulationError as error:
        _keep_part(error.solution, system, path)
        raise
    except KeyboardInterrupt:
        _complain("interrupted before the first step; nothing was written")
        raise typer.Exit(_INTERRUPTED) from None
    if _is_interrupted(solution):
        _keep_part(solution, system, path)
        raise typer.Exit(_INTERRUPTED)
    _write(solution, system, path)
    worst = float(np.nanmax(np.abs(np.asarray(solution.violation(system).position)), initial=0.0))
    iterations = np.asarray(solution.iterations)[1:]
    _say(
        f"{system.name}: {len(solution.t)} rows to t = {float(solution.t[-1]):g} s, "
        f"{float(np.mean(iterations)) if iterations.size else 0.0:.2f} iterations a row, "
        f"largest constraint violation {worst:.1e}; wrote {path}"
    )
    return solution


def _is_interrupted(solution: mbd.Solution) -> bool:
    return bool(solution.result == mbd.RESULTS.interrupted)


def _keep_part(solution: mbd.Solution | None, system: mbd.System, path: Path) -> None:
    """Write the rows that were computed, and say what the file holds."""
    good = (
        0 if solution is None else int(np.sum(np.isfinite(np.asarray(solution.r)).all(axis=(1, 2))))
    )
    if solution is None or not good:
        _say("no row was computed, so nothing was written", to=err)
        return
    _write(solution, system, path)
    _say(f"the {good} rows to t = {float(solution.t[good - 1]):g} s are in {path}", to=err)


def _write(solution: mbd.Solution, system: mbd.System, path: Path) -> None:
    if path.suffix == ".csv":
        solution.to_csv(path, system)
    else:
        solution.to_npz(path, system)


@app.command("inverse-dynamics")
def inverse_dynamics(
    model: Model,
    out_file: Out,
    t_end: TEnd = 3.0,
    h: Step = 1e-3,
    actuator: Annotated[
        list[str] | None,
        typer.Option(
            "--actuator", "-a", help="An actuator that makes the motion; repeat for more."
        ),
    ] = None,
    formulation: Formulation = _RA,
) -> None:
    """Find the efforts of drivers, or of actuators in their place, that MODEL's motion takes."""
    _check_out(out_file, (".npz", ".csv"))
    system, state = mbd.load(model)
    ts = _instants(system, t_end, h)
    with _busy(f"inverse dynamics of {system.name} at {len(ts)} instants"):
        found = mbd.inverse_dynamics(
            system, state, ts, actuators=actuator, formulation=mbd.FORMULATIONS[formulation]()
        )
    power = found.power
    columns = {"t": np.asarray(found.solution.t)}
    for name in found.efforts:
        columns |= {
            f"{name}.effort": np.asarray(found.efforts[name]),
            f"{name}.rate": np.asarray(found.rates[name]),
            f"{name}.power": np.asarray(power[name]),
        }
    _write_columns(out_file, columns)
    table = _table("effort of", "smallest", "largest", "mean power [W]")
    for name, effort in found.efforts.items():
        values = np.asarray(effort)
        _row(
            table,
            name,
            f"{values.min():.4g}",
            f"{values.max():.4g}",
            f"{np.mean(np.asarray(power[name])):.4g}",
        )
    out.print(table)
    _say(f"{system.name}: {len(ts)} rows to t = {ts[-1]:g} s; wrote {out_file}")


def _write_columns(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Arrays under their names, as one NPZ file or as columns of a CSV file."""
    from jaxmbd.analyses.export import write_table

    write_table(path, columns)


@app.command()
def linearize(
    model: Model,
    t: Annotated[
        float, typer.Option("--t", help="Instant at which drivers and loads are held, in seconds.")
    ] = 0.0,
    coordinate: Annotated[
        list[str] | None,
        typer.Option(
            "--coordinate", "-c", help="A minimal coordinate, such as rod.theta.y; repeat."
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="An input; repeat for more.")
    ] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="File for A, B and the modes (.npz).")
    ] = None,
) -> None:
    """Linearize MODEL at its initial state: frequencies, damping, matrices A and B."""
    if out_file is not None:
        _check_out(out_file, (".npz",))
    system, state = mbd.load(model)
    with _busy(f"linearizing {system.name}"):
        found = mbd.linearize(system, state, t=t, coordinates=coordinate, inputs=inputs)
    modes = found.modes()
    _say(f"{system.name}: minimal coordinates {', '.join(found.coordinates)}")
    drift = float(np.max(np.abs(np.asarray(found.drift)), initial=0.0))
    if drift > 1e-6:
        _say(
            f"not an equilibrium: rates of up to {drift:.3g} remain, so frequencies are those of "
            "the moment"
        )
    table = _table("mode", "eigenvalue [1/s]", "frequency [Hz]", "damping ratio")
    for k, value in enumerate(modes.eigenvalues):
        pair = f"{value.real:.5g}" + (f" ± {value.imag:.5g}i" if value.imag else "")
        _row(table, str(k + 1), pair, f"{modes.frequency[k]:.5g}", f"{modes.damping_ratio[k]:.4g}")
    out.print(table)
    if out_file is not None:
        _write_columns(
            out_file,
            {
                "A": np.asarray(found.A),
                "B": np.asarray(found.B),
                "drift": np.asarray(found.drift),
                "eigenvalues": np.asarray(modes.eigenvalues),
                "coordinates": np.array(found.coordinates),
                "inputs": np.array([x.name for x in found.inputs], dtype=str),
            },
        )
        _say(f"wrote {out_file}")


@app.command()
def equilibrium(
    model: Model,
    t: Annotated[
        float, typer.Option("--t", help="Instant at which drivers and loads are held, in seconds.")
    ] = 0.0,
    unstable: Annotated[
        bool, typer.Option("--unstable", help="Find the nearest balance, stable or not.")
    ] = False,
    load_steps: Annotated[
        int, typer.Option("--load-steps", help="Apply gravity and loads in so many steps.")
    ] = 1,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Result file of one row (.npz).")
    ] = None,
) -> None:
    """Find where MODEL rests: poses, stability, and the forces in its joints."""
    if out_file is not None:
        _check_out(out_file, (".npz",))
    system, found = _rest(model, t=t, unstable=unstable, load_steps=load_steps)
    table = _table("body", "x [m]", "y [m]", "z [m]")
    for name, r in zip(system.bodies, np.asarray(found.state.r), strict=True):
        _row(table, name, *(f"{x:.6g}" for x in r))
    out.print(table)
    table = _table("joint", "force [N]", "moment [N·m]")
    for name, reaction in found.reactions().items():
        sizes = (np.linalg.norm(np.asarray(x)) for x in (reaction.force, reaction.moment))
        _row(table, name, *(f"{x:.5g}" for x in sizes))
    out.print(table)
    judged = found.stability()
    kind = "stable" if judged.stable else f"unstable in {judged.unstable} direction(s)"
    free = f", {judged.indifferent} direction(s) without stiffness" if judged.indifferent else ""
    _say(f"{system.name}: {kind}{free}; {int(found.iterations)} iterations")
    if out_file is not None:
        _write(found.motion, system, out_file)
        _say(f"wrote {out_file}")


@app.command()
def modes(
    model: Model,
    t: Annotated[
        float, typer.Option("--t", help="Instant at which drivers and loads are held, in seconds.")
    ] = 0.0,
    undamped: Annotated[
        bool, typer.Option("--undamped", help="Leave damping and gyroscopic forces out.")
    ] = False,
) -> None:
    """Vibration of MODEL about the equilibrium where it rests: frequencies and damping."""
    system, found = _rest(model, t=t)
    with _busy(f"modes of {system.name}"):
        vibration = mbd.modes(system, found, damped=not undamped)
    table = _table("mode", "eigenvalue [1/s]", "frequency [Hz]", "damping ratio")
    for k, value in enumerate(np.asarray(vibration.eigenvalues)):
        pair = f"{value.real:.5g}" + (f" ± {value.imag:.5g}i" if value.imag else "")
        numbers = (vibration.frequency[k], vibration.damping_ratio[k])
        _row(table, str(k + 1), pair, *(f"{float(x):.5g}" for x in numbers))
    out.print(table)


def _rest(model: Any, **options: Any):
    system, state = mbd.load(model)
    with _busy(f"equilibrium of {system.name}"):
        return system, mbd.equilibrium(system, state, **options)


@app.command()
def batch(
    model: Model,
    out_file: Annotated[Path, typer.Option("--out", help="Result file (.npz).")],
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            help="PATH=FIRST:LAST:COUNT, a number to vary, such as bodies.rod.mass=1:2:11; repeat.",
        ),
    ],
    t_end: TEnd = 3.0,
    h: Step = 1e-3,
    save_every: Annotated[int, typer.Option(help="Save every k-th step.")] = 10,
    chunk: Annotated[int, typer.Option(help="Batch elements that are computed together.")] = 128,
    formulation: Formulation = _RA,
    integrator: Integrator = None,
    rho_inf: RhoInf = None,
    tableau: Tableau = None,
    group: Group = None,
    projection: Projection = False,
    newton_tolerance: NewtonTolerance = None,
) -> None:
    """Simulate MODEL for every combination of some of its numbers."""
    _check_out(out_file, (".npz",))
    m = mbd.load_mechanism(model)
    ranges = dict(_range(text, m) for text in vary)
    grid = np.array(list(product(*ranges.values())))
    steps = mbd.count_steps(h, t_end, None)
    system, _ = m.build()
    method = _integrator(
        integrator or _usual(system), rho_inf, tableau, group, projection, newton_tolerance
    )
    check_memory(
        system,
        len(grid) * (steps // max(save_every, 1) + 1),
        "vary fewer numbers, or save fewer rows",
    )

    def one(values):
        system, state = m.with_values(dict(zip(ranges, values, strict=True))).build()
        sol = mbd.simulate(
            system,
            state,
            h=h,
            steps=steps,
            save_every=save_every,
            formulation=mbd.FORMULATIONS[formulation](),
            integrator=method,
            throw=False,
        )
        kept = {name: getattr(sol, name) for name in ("t", "r", "A", "v", "omega", "lam")}
        return kept | {"result": sol.result._value}

    interrupted = False
    try:
        found = mbd.run_batch(one, grid, chunk=chunk)
        interrupted = len(found["result"]) < len(grid)
    except KeyboardInterrupt:
        _complain("interrupted before the first chunk; nothing was written")
        raise typer.Exit(_INTERRUPTED) from None
    done = len(found["result"])
    columns = {path: grid[:done, k] for k, path in enumerate(ranges)}
    _write_columns(
        out_file, columns | found | {"t": found["t"][0], "bodies": np.array(system.bodies)}
    )
    failed = int(np.sum(found["result"] != int(mbd.RESULTS.successful._value)))
    _say(
        f"{m.name}: {done} of {len(grid)} runs, {failed} of them failed (see the array result); "
        f"wrote {out_file}"
    )
    if interrupted:
        raise typer.Exit(_INTERRUPTED)
    if failed:
        raise typer.Exit(1)


def _range(text: str, m: mbd.Mechanism) -> tuple[str, np.ndarray]:
    """The path and the values of --vary."""
    path, equals, numbers = text.rpartition("=")
    parts = numbers.split(":")
    try:
        first, last, count = float(parts[0]), float(parts[1]), int(parts[2])
        if not (
            equals and len(parts) == 3 and np.isfinite([first, last]).all() and 1 <= count <= 10**6
        ):
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(
            f"--vary must be PATH=FIRST:LAST:COUNT, such as bodies.rod.mass=1:2:11, not {text!r}"
        ) from None
    m.with_values({path: first})  # refuses an unknown path, or a number that is impossible there
    return path, np.linspace(first, last, count)


@app.command()
def plot(
    result: Result,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Picture (.png, .pdf, .svg).")
    ] = None,
    quantity: Annotated[
        list[str] | None, typer.Option("--quantity", "-q", help="r, v, a, omega, alpha, lam, ...")
    ] = None,
    body: Annotated[
        list[str] | None, typer.Option("--body", "-b", help="Only this body; repeat for more.")
    ] = None,
) -> None:
    """Plot quantities of RESULT over time."""
    viz = _viz()
    target = out_file or result.with_suffix(".png")
    _check_out(target, (".png", ".pdf", ".svg"))
    with _busy(f"drawing {target.name}"):
        viz.plot(result, quantities=tuple(quantity or ("r", "v", "a")), bodies=body, out=target)
    _say(f"wrote {target}")


@app.command()
def animate(
    result: Result,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Animation (.gif, .html, .mp4).")
    ] = None,
    fps: Annotated[int, typer.Option(help="Frames per second.")] = 25,
    speed: Annotated[
        float, typer.Option(help="Seconds of motion per second of the animation.")
    ] = 1.0,
) -> None:
    """Animate RESULT."""
    viz = _viz()
    target = out_file or result.with_suffix(".gif")
    _check_out(target, (".gif", ".html", ".mp4"))
    with _busy(f"drawing {target.name}"):
        viz.animate(result, out=target, fps=fps, speed=speed)
    _say(f"wrote {target}")


def _viz():
    try:
        import matplotlib

        matplotlib.use("Agg")
        from jaxmbd import viz
    except ImportError as error:
        raise RuntimeError(
            f"pictures need the extra viz: pip install 'jaxmbd[viz]' ({error})"
        ) from None
    return viz


@app.command()
def demo(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Packaged name or file.")
    ] = "slider_crank",
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for results and pictures.")] = Path(
        "demo"
    ),
    t_end: TEnd = 2.0,
    h: Step = 1e-3,
) -> None:
    """Simulate MODEL with every formulation; leave results, plots and an animation."""
    from jaxmbd.demo import run_demo

    if out_dir.exists() and not out_dir.is_dir():
        raise ValueError(f"--out: {str(out_dir)!r} is a file; name a folder")
    run_demo(model, out_dir, t_end, h, out, _viz())


if __name__ == "__main__":
    main()
