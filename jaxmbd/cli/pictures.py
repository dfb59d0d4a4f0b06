"""Commands that draw: plot, animate, view, report, demo."""

from pathlib import Path
from typing import Annotated

import typer

import jaxmbd as mbd

from .app import app
from .console import busy, out, say
from .files import check_out
from .options import ModelOfResult, Result, Step, TEnd


@app.command()
def plot(
    result: Result,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Picture (.png, .pdf, .svg).")
    ] = None,
    quantity: Annotated[
        list[str] | None,
        typer.Option(
            "--quantity",
            "-q",
            help="r, v, a, omega, alpha or lam of bodies, or a column of tables such as pin.angle "
            "or energy.total; repeat for more.",
        ),
    ] = None,
    body: Annotated[
        list[str] | None, typer.Option("--body", "-b", help="Only this body; repeat for more.")
    ] = None,
    against: Annotated[
        str, typer.Option(help="The column along the other axis, instead of time.")
    ] = "t",
    model: ModelOfResult = None,
) -> None:
    """Plot quantities of RESULT over time."""
    viz = _viz()
    target = out_file or result.with_suffix(".png")
    check_out(target, (".png", ".pdf", ".svg"))
    from jaxmbd.viz.plots import QUANTITIES

    asked = tuple(quantity or ("r", "v", "a"))
    if set(asked) <= set(QUANTITIES) and against == "t":
        with busy(f"drawing {target.name}"):
            viz.plot(result, quantities=asked, bodies=body, out=target)
    else:
        if body:
            raise ValueError(f"--body is for r, v, a and the like; name a body, {body[0]}.v.x")
        with busy(f"drawing {target.name}"):
            _solution(result, model).plot(asked, against=against, out=target)
    say(f"wrote {target}")


def _solution(result: Path, model: str | None) -> mbd.Solution:
    """A result file with the system that it holds, or that of a model."""
    from jaxmbd.viz.result_files import solution_of, system_in

    system = system_in(result) if model is None else mbd.load(model)[0]
    if system is None:
        raise ValueError(f"{result} does not hold its model: name it by --model")
    return solution_of(result, system)


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
    check_out(target, (".gif", ".html", ".mp4"))
    with busy(f"drawing {target.name}"):
        viz.animate(result, out=target, fps=fps, speed=speed)
    say(f"wrote {target}")


@app.command()
def view(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RESULT|MODEL", help="Result file (.npz), packaged name, or model file."
        ),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Page (.html), film (.mp4, .webm, .gif), picture (.png), or the model (.glb).",
        ),
    ] = None,
    plot: Annotated[
        list[str] | None,
        typer.Option("--plot", "-p", help="Plot this quantity, such as pin.angle; repeat."),
    ] = None,
    model: ModelOfResult = None,
    sweep: Annotated[
        bool,
        typer.Option("--sweep", help="Move MODEL a little along each of its degrees of freedom."),
    ] = False,
    speed: Annotated[float, typer.Option(help="Seconds of motion per second.")] = 1.0,
    size: Annotated[
        tuple[int, int], typer.Option(help="Width and height of a film or picture, in pixels.")
    ] = (960, 540),
) -> None:
    """Show RESULT, or MODEL as it is described, in three dimensions: one page for any browser."""
    from jaxmbd.viz.viewer import ENDINGS

    stem = Path(source.partition(":")[0])
    target = out_file or stem.with_suffix(".html")
    check_out(target, ENDINGS)
    system = None if model is None else mbd.load(model)[0]
    with busy(f"drawing {target.name}"):
        made = mbd.view(source, system, plots=plot or (), sweep=sweep, speed=speed)
        made.save(target, size=size)
    say(f"wrote {target}")


@app.command()
def report(
    result: Result,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Page (.html); by default RESULT_report.html.")
    ] = None,
    model: ModelOfResult = None,
) -> None:
    """Write one page about RESULT: what happened, tables, peaks, plots, a view."""
    _viz()
    target = out_file or result.with_name(f"{result.stem}_report.html")
    check_out(target, (".html",))
    system = None if model is None else mbd.load(model)[0]
    with busy(f"writing {target.name}"):
        mbd.save_report(result, target, system=system)
    say(f"wrote {target}")


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
