"""The `jaxmbd` command."""

import json
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import jaxmbd as mbd

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Simulate rigid multibody mechanisms with exact constraints. MODEL is a packaged name (see `jaxmbd list`) or "
    "the path of a JSON model file. Try: jaxmbd demo",
)
out, err = Console(), Console(stderr=True)

# Enumerations made from the tables, so that --help lists whatever there is.
FormulationName: Any = StrEnum("FormulationName", {name: name for name in mbd.FORMULATIONS})
IntegratorName: Any = StrEnum("IntegratorName", {name: name for name in mbd.INTEGRATORS})
_RA, _EULER = FormulationName("rA"), IntegratorName("implicit_euler")

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Packaged name, or path of a JSON model file.")]
TEnd = Annotated[float, typer.Option("--t-end", help="Final time, in seconds.")]
Step = Annotated[float, typer.Option("--h", help="Step size, in seconds.")]
Formulation = Annotated[FormulationName, typer.Option(help="Coordinates of orientation.")]
Integrator = Annotated[IntegratorName, typer.Option(help="Step method.")]
Out = Annotated[Path, typer.Option("--out", help="Result file (.npz or .csv).")]
Result = Annotated[Path, typer.Argument(metavar="RESULT", help="Result file (.npz).")]


def main() -> None:
    """Run the command; errors of the user's making become one line and exit code 1."""
    mbd.enable_x64()
    try:
        app()
    except (ValueError, RuntimeError, NotImplementedError, OSError) as error:
        err.print(f"[bold red]error:[/] {_plain(error)}", highlight=False, soft_wrap=True)
        sys.exit(1)


def _plain(error: BaseException) -> str:
    return str(error).replace("[", r"\[")


@app.command("list")
def list_models() -> None:
    """List the packaged mechanisms."""
    from jaxmbd.library import GENERATORS, SIZED, names

    table = Table("name", "bodies", "rows", "what it is", box=None)
    for name in names():
        m = mbd.load_mechanism(name)
        system, _ = m.build()
        what = (GENERATORS[name].__doc__ or "").split("\n")[0] if name in GENERATORS else _description(name)
        table.add_row(f"{name}\\[:N]" if name in SIZED else name, str(system.nb), str(system.nc), what)
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


@app.command()
def info(model: Model) -> None:
    """Show bodies, joints, freedoms and redundant joints of MODEL."""
    system, state = mbd.load(model)
    state, report = mbd.assemble(system, state)
    closed = bool(report.closed)
    out.print(f"[bold]{system.name}[/]  gravity {np.asarray(system.gravity).tolist()} m/s²")
    bodies = Table(
        "body", r"mass \[kg]", r"principal moments \[kg·m²]", r"assembly moved \[m]", r"turned \[rad]", box=None
    )
    for k, name in enumerate(system.bodies):
        known = name not in system.massless
        moments = ", ".join(f"{x:.4g}" for x in np.linalg.eigvalsh(np.asarray(system.inertia[k]))) if known else "none"
        mass = f"{float(system.mass[k]):.4g}" if known else "none"
        bodies.add_row(name, mass, moments, f"{float(report.displacement[k]):.1e}", f"{float(report.rotation[k]):.1e}")
    out.print(bodies)
    names = [*system.bodies, "ground"]
    joints = Table("joint", "kind", "bodies", "rows", "violation", box=None)
    for c in system.connections:
        gap = float(np.max(np.abs(np.asarray(report.violation)[list(c.rows)])))
        joints.add_row(c.name, c.kind, f"{names[c.i]} - {names[c.j]}", str(len(c.rows)), f"{gap:.1e}")
    out.print(joints)
    m = mbd.mobility(system, state)
    out.print(
        f"{m.coordinates} coordinates, {m.rows} rows of rank {m.rank}: [bold]{m.freedoms} freedom(s)[/], "
        f"{m.redundant_rows} redundant row(s), condition of the Jacobian {m.condition:.1f}"
    )
    out.print(f"linear systems: {system.linear_solver.replace('_', '-')}")
    if m.redundant_joints or m.redundant_drivers:
        out.print("redundant together: " + ", ".join([*m.redundant_joints, *m.redundant_drivers]))
    if not closed:
        raise ValueError(f"mechanism {system.name!r} cannot be assembled: see the column 'violation'")


@app.command()
def kinematics(model: Model, out_file: Out, t_end: TEnd = 3.0, h: Step = 1e-3, formulation: Formulation = _RA) -> None:
    """Move a fully driven MODEL and write the motion."""
    _check_out(out_file)
    system, state = mbd.load(model)
    ts = np.arange(mbd.count_steps(h, t_end, None) + 1) * h
    with err.status(f"kinematics of {system.name} at {len(ts)} instants"):
        _keep(lambda: mbd.kinematics(system, state, ts, formulation=mbd.FORMULATIONS[formulation]()), system, out_file)


@app.command()
def simulate(
    model: Model,
    out_file: Out,
    t_end: TEnd = 3.0,
    h: Step = 1e-3,
    formulation: Formulation = _RA,
    integrator: Integrator = _EULER,
    save_every: Annotated[int, typer.Option(help="Save every k-th step.")] = 1,
) -> None:
    """Integrate MODEL in time and write the motion."""
    _check_out(out_file)
    system, state = mbd.load(model)

    def job() -> mbd.Solution:
        return mbd.run(
            system,
            state,
            t_end=t_end,
            h=h,
            formulation=mbd.FORMULATIONS[formulation](),
            integrator=mbd.INTEGRATORS[integrator](),
            save_every=save_every,
        )

    _keep(job, system, out_file)


def _check_out(path: Path) -> None:
    if path.suffix not in (".npz", ".csv"):
        raise ValueError(f"--out must end in .npz or .csv, not {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--out: the folder {str(path.absolute().parent)!r} does not exist")


def _keep(job: Callable[[], mbd.Solution], system: mbd.System, path: Path) -> None:
    """Do the job and write its solution; after a failure, the steps before it, and the error goes on."""
    try:
        solution = job()
    except mbd.SimulationError as error:
        if error.solution is not None:
            _write(error.solution, system, path)
            err.print(f"the steps before the failure are in {path}", highlight=False, soft_wrap=True)
        raise
    _write(solution, system, path)
    worst = float(np.nanmax(np.abs(np.asarray(solution.violation(system).position)), initial=0.0))
    out.print(
        f"{system.name}: {len(solution.t)} rows to t = {float(solution.t[-1]):g} s, "
        f"{float(np.mean(np.asarray(solution.iterations)[1:])):.2f} iterations a row, "
        f"largest constraint violation {worst:.1e}; wrote {path}",
        highlight=False,
        soft_wrap=True,
    )


def _write(solution: mbd.Solution, system: mbd.System, path: Path) -> None:
    if path.suffix == ".csv":
        solution.to_csv(path, system)
    else:
        solution.to_npz(path, system)


@app.command()
def plot(
    result: Result,
    out_file: Annotated[Path | None, typer.Option("--out", help="Picture (.png, .pdf, .svg).")] = None,
    quantity: Annotated[
        list[str] | None, typer.Option("--quantity", "-q", help="r, v, a, omega, alpha, lam, ...")
    ] = None,
    body: Annotated[list[str] | None, typer.Option("--body", "-b", help="Only this body; repeat for more.")] = None,
) -> None:
    """Plot quantities of RESULT over time."""
    viz = _viz()
    target = out_file or result.with_suffix(".png")
    viz.plot(result, quantities=tuple(quantity or ("r", "v", "a")), bodies=body, out=target)
    out.print(f"wrote {target}", highlight=False, soft_wrap=True)


@app.command()
def animate(
    result: Result,
    out_file: Annotated[Path | None, typer.Option("--out", help="Film (.gif, .html, .mp4).")] = None,
    fps: Annotated[int, typer.Option(help="Frames per second.")] = 25,
    speed: Annotated[float, typer.Option(help="Seconds of motion per second of film.")] = 1.0,
) -> None:
    """Animate RESULT."""
    viz = _viz()
    target = out_file or result.with_suffix(".gif")
    with err.status(f"drawing {target.name}"):
        viz.animate(result, out=target, fps=fps, speed=speed)
    out.print(f"wrote {target}", highlight=False, soft_wrap=True)


def _viz():
    try:
        import matplotlib

        matplotlib.use("Agg")
        from jaxmbd import viz
    except ImportError as error:
        raise RuntimeError(f"pictures need the extra viz: pip install 'jaxmbd\\[viz]' ({error})") from None
    return viz


@app.command()
def demo(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Packaged name or file.")] = "slider_crank",
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for results and pictures.")] = Path("demo"),
    t_end: TEnd = 2.0,
    h: Step = 1e-3,
) -> None:
    """Simulate MODEL with every formulation, compare them, and leave results, plots and an animation."""
    from jaxmbd.demo import run_demo

    run_demo(model, out_dir, t_end, h, out, _viz())


if __name__ == "__main__":
    main()
