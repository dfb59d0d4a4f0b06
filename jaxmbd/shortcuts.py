"""Model files, foreign formats and pictures by one call: their packages are imported when they are
used, since computing needs none of them.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .analyses import Equilibrium
from .model.mechanism import Mechanism
from .model.state import State
from .model.system import System
from .results.solution import Solution

if TYPE_CHECKING:
    from .identification import FitReport, Posterior
    from .io import ImportReport
    from .viz import View


def load(model: str | Path) -> tuple[System, State]:
    """Return system and state, as described, of a packaged mechanism or a model file.

    Args:
        model: A packaged name ("slider_crank", "n_pendulum:16"; see `jaxmbd list`) or a path.

    Returns:
        The same as `Mechanism.build`.

    Raises:
        ValueError: No such name or file, or a file that makes no sense; the message names the part
            and the cure.
    """
    from .library import load

    return load(model)


def load_mechanism(model: str | Path) -> Mechanism:
    """The mechanism of a packaged name or a JSON file, to be changed before it is built; see
    `load`.
    """
    from .library import load_mechanism

    return load_mechanism(model)


def save(mechanism: Mechanism, path: str | Path) -> None:
    """Write a mechanism to a model file, which `load` reads back: the same numbers to the last bit.

    Functions of time are written where they are expressions (`angle="0.5*sin(t)"`); a Python
    function is refused. A fitted mechanism, a packaged one and a generated one are saved alike.

    Args:
        mechanism: As described; the `Mechanism`, not the `System` that it was built to.
        path: With a suffix that names the format: ".json", or one of `register_format`.

    Raises:
        ValueError: The file cannot hold something of the mechanism, or no format has the suffix;
            the message names it.
        OSError: The file cannot be written.
    """
    from .io import write_file

    if not isinstance(mechanism, Mechanism):
        raise TypeError(
            f"save: needs a Mechanism (see load_mechanism), not a {type(mechanism).__name__}"
        )
    write_file(mechanism, path)


def from_mjcf(
    source: str | Path,
    *,
    keyframe: str | None = None,
    limits: bool = False,
    friction: bool = False,
    merge_fixed: bool = False,
    strict: bool = True,
    anywhere: bool = False,
) -> "tuple[Mechanism, ImportReport]":
    """The mechanism of an MJCF file of MuJoCo, and a report of the parts that were left out.

        mechanism, report = mbd.from_mjcf("robot.xml", keyframe="home")

    Trees move as in MuJoCo. Equality constraints (`connect`, `weld`, `joint`, `tendon`) become
    exact joints and couplings, which MuJoCo holds by stiff forces. Joint coordinates are zero at
    the pose as described: the file's reference, or the keyframe.

    Args:
        source: A path, or the XML text itself.
        keyframe: Name of a keyframe whose positions, speeds and controls are the description; by
            default the one called "initial", which `save` writes, if there is one.
        limits: Make stops of the joints' ranges; the mechanism then takes `mbd.Moreau`.
        friction: Make dry friction of `frictionloss`; likewise.
        merge_fixed: Merge links without joints into their parents; those without mass are always.
        strict: Refuse a file with anything that changes the motion and is not supported. With
            False such things are left out, and the report names them.
        anywhere: Allow files outside of the model's folder.

    Returns:
        The mechanism and its `mbd.ImportReport`.

    Raises:
        ValueError: The file cannot be read; the message names file, line and element.
    """
    from .io import read_mjcf

    return read_mjcf(
        source,
        keyframe=keyframe,
        limits=limits,
        friction=friction,
        merge_fixed=merge_fixed,
        strict=strict,
        anywhere=anywhere,
    )


def from_urdf(
    source: str | Path,
    *,
    base: str = "fixed",
    loops: str | Path | Sequence[Sequence[str]] = (),
    packages: Mapping[str, str | Path] | None = None,
    limits: bool = False,
    friction: bool = False,
    merge_fixed: bool = False,
    strict: bool = True,
    anywhere: bool = False,
) -> "tuple[Mechanism, ImportReport]":
    """The mechanism of a URDF file, and a report of the parts that were left out.

        mechanism, report = mbd.from_urdf("arm.urdf", loops=[("tip", "rod_end")])

    Joint coordinates are zero at the pose of the file. Every link has a frame of its name, see
    `Solution.frame`.

    Args:
        source: A path, or the XML text itself.
        base: "fixed": the root link is part of the ground; "free": it is a free body.
        loops: Loops to close: pairs of links (or of the joints above them), each held together at
            the origins of their frames, or with a third entry "6d" as whole frames; or the path of
            an extended URDF's YAML file with `closed_loop` and `type`.
        packages: Folders of ROS packages by name, for meshes of `package://`; the model's own
            folder by default.
        limits: Make stops of the joints' ranges; the mechanism then takes `mbd.Moreau`.
        friction: Make dry friction of `friction`; likewise.
        merge_fixed: Merge links on fixed joints into their parents; those without mass are always.
        strict: Refuse what changes the motion and is not supported, as in `from_mjcf`. A mesh that
            cannot be read is left out and listed either way: meshes are drawn alone.
        anywhere: Allow files outside of the model's folder.

    Returns:
        The mechanism and its `mbd.ImportReport`.

    Raises:
        ValueError: The file cannot be read; the message names file, line and element.
    """
    from .io import UrdfOptions, read_urdf

    options = UrdfOptions(
        base=base,
        loops=loops,
        packages=packages,
        limits=limits,
        friction=friction,
        merge_fixed=merge_fixed,
        strict=strict,
        anywhere=anywhere,
    )
    return read_urdf(source, options)


def view(
    source: Solution | Equilibrium | Mechanism | State | str | Path,
    system: System | None = None,
    **options: Any,
) -> "View":
    """Show a motion, or a mechanism before it is simulated, in three dimensions: see
    `jaxmbd.viz.view`.

        mbd.view(sol)                                  # in a notebook: shows it
        mbd.view(sol, out="view.html")                 # one file, with everything inside
        mbd.view("four_bar", out="four_bar.glb")       # a packaged mechanism, as binary glTF

    Args:
        source: A solution, the path of a result file, an equilibrium, a mechanism, a packaged name,
            the path of a model file, or one or more states of `system`.
        system: The system of a solution that carries none, or of a state.
        options: out, plots, show, paths and others of `jaxmbd.viz.view`.

    Returns:
        A `jaxmbd.viz.View`.
    """
    from .viz import view

    if isinstance(source, Equilibrium):
        source = source.motion
    return view(source, system, **options)


def register_format(
    suffix: str,
    *,
    read: Callable[[Path], Mechanism] | None = None,
    write: Callable[[Mechanism, Path], object] | None = None,
) -> None:
    """Make `load`, `save` and the command line know a file format.

    Args:
        suffix: With its dot, such as ".xml".
        read: A function from a path to a `Mechanism`; what it raises as ValueError is shown with
            the file's name.
        write: A function of a mechanism and a path.
    """
    from .io import register_format

    register_format(suffix, read=read, write=write)


def save_report(
    report: "FitReport | Solution | Equilibrium | str | Path",
    path: str | Path,
    *,
    posterior: "Posterior | None" = None,
    system: System | None = None,
) -> None:
    """Write one HTML page about a fit or a run, which opens anywhere. Needs matplotlib (extra
    `viz`).

    About a fit: estimates with intervals, what the data do not determine, correlations, and for
    every measurement model, residuals, their histogram and their autocorrelation. About a run: how
    it ended, a view in three dimensions, the mechanism, extremes of joint coordinates, of reactions
    and of forces with their times, energy, violation, versions.

    Args:
        report: What `fit` returned, a solution, an equilibrium, or the path of a result file.
        path: Of the page, "report.html".
        posterior: Of `laplace_posterior` or `sample_posterior`: intervals and predictive bands are
            then its.
        system: Of a run whose solution carries none, or whose file holds no model.

    Raises:
        OSError: The file cannot be written.
        ValueError: Another ending; the system of a run is unknown, or no row of it is finite.
    """
    if Path(path).suffix.lower() != ".html":
        raise ValueError(f"a report is a page, .html, not {Path(path).name!r}")
    if isinstance(report, Equilibrium):
        report = report.motion
    if isinstance(report, Solution | str | Path):
        from .viz.run_page import save_run_page

        save_run_page(report, path, system)
        return
    from .viz.fit_page import save_fit_page

    save_fit_page(report, path, posterior)
