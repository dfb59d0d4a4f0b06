"""The view of a motion or a mechanism: a page for browsers and notebooks, or binary glTF."""

import functools
import html
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..analyses.sweep import Sweep, sweeps
from ..files import written
from ..io.results import read_npz
from ..library import load_mechanism
from ..model.mechanism import Mechanism
from ..model.state import State
from ..model.system import System
from ..model.validation import Numbers
from ..results.export import drawing
from ..results.solution import Solution
from .batches import ghosts, one_of
from .data import Picture, finite_rows, listed, picture
from .film import chosen, film
from .gltf import glb
from .nodes import LOOK, look
from .page import VIEWER, page, told, viewer
from .recording import ENDINGS as RECORDED
from .recording import record
from .result_files import solution_of, system_in
from .scene import scene

SHOWN = ("reactions", "moments", "efforts", "labels", "axes", "paths", "frames")
_PER_SECOND, _MOST_ROWS = 60.0, 2000  # rows of a view
_SWEEP = 2.0  # what a degree of freedom is shown for [s]
ENDINGS = (".html", ".glb", *RECORDED)


@dataclass(frozen=True)
class View:
    """A view that has been made; a notebook shows it.

    Attributes:
        name: Of the mechanism.
        told: What the page knows about the motion, packed.
        glb: The animated model as binary glTF 2.0.
    """

    name: str
    told: str
    glb: bytes

    @functools.cached_property
    def html(self) -> str:
        """The page, with everything inside."""
        return page(self.name, self.told, self.glb)

    def save(
        self,
        path: str | Path,
        *,
        size: tuple[int, int] = (960, 540),
        fps: int = 25,
        at: float | None = None,
        shared: bool = False,
        progress: bool = False,
    ) -> Path:
        """Write the page (.html), the model (.glb), a film (.mp4, .webm, .gif) or a picture (.png).

        Films and pictures are drawn by a Chromium, Chrome or Edge on this machine, which needs no
        screen and no graphics card; films also need ffmpeg, on the path or by the package
        `imageio-ffmpeg`. They show the scene as the page does at its start, the plots side by
        side below it; a film lasts the motion's time over `speed`.

        Args:
            path: The file; its ending says what is written.
            size: Width and height of a film or picture [pixels]; those of films are even.
            fps: Frames per second of a film, up to 120 (.gif: 50).
            at: Instant of a picture [s]; by default the first one.
            shared: Leave the code of a page, 0.7 MB, to a file `jaxmbd-viewer.js` beside it, which
                all such pages in a folder share; for web sites with several views.
            progress: Show a progress bar on standard error while a film is drawn.

        Raises:
            ValueError: An argument out of range, or another ending.
            OSError: The file cannot be written, or there is no browser or no ffmpeg.
            RuntimeError: The browser could not draw the page, or ffmpeg failed.
        """
        path = Path(path)
        ending = _ending(path)
        if ending in RECORDED:
            record(self.html, path, size=size, fps=fps, at=at, progress=progress)
            return path
        if ending == ".html" and shared:
            with written(path.with_name(VIEWER), "w", "view", encoding="utf-8") as file:
                file.write(viewer())
            data = page(self.name, self.told, self.glb, whole=False).encode()
        else:
            data = self.glb if ending == ".glb" else self.html.encode()
        with written(path, "wb", "view") as file:
            file.write(data)
        return path

    def __repr__(self) -> str:
        size = f"{len(self.html) // 1000} kB"
        return f"<view of {self.name!r}: .save('view.html') writes a page of {size}>"

    def _repr_html_(self) -> str:
        """For notebooks: the page in a frame of its own."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" title="{html.escape(self.name)}" '
            'style="width:100%; height:520px; border:1px solid #8883; border-radius:8px" '
            'allow="fullscreen"></iframe>'
        )


def view(
    source: Solution | Mechanism | State | str | Path,
    system: System | None = None,
    *,
    out: str | Path | None = None,
    plots: Sequence[str] = (),
    show: Sequence[str] = (),
    paths: Sequence[str] = (),
    forces: bool = True,
    sweep: bool = False,
    speed: float = 1.0,
    autoplay: bool = True,
    theme: str | None = None,
    camera: tuple[float, float] | None = None,
    member: int = 0,
    time: float | None = None,
    times: Numbers | None = None,
) -> View:
    """A motion, or a mechanism before it is simulated, in three dimensions.

    The page holds everything it needs and opens from the file system without a network. It plays,
    pauses and scrubs; a click chooses a body or a joint, whose quantities can then be plotted
    beside the scene.

    Events of a run are marks below the slider of time, and are told from their instants on.

    Of a batch of motions one is shown in full, the first 63 others as ghosts beside it.

    A motion is shown with at most 60 rows per second of motion and 2000 altogether, taken from the
    rows of the solution; between them poses are interpolated.

    Args:
        source: A solution, the path of a result file, a mechanism, a packaged name, the path of a
            model file, or a state of `system`; also states stacked by `lax.scan`, as the episode
            of an environment, with their `times`.
        system: The system of a solution or state that carries none, or of a result file, whose
            reactions and contact forces it gives.
        out: Where to write it: .html, .glb for the model alone, or a film or picture, see
            `View.save`.
        plots: Quantities that are plotted from the start, by owner and name, such as "pin.angle",
            "rod.velocity", "pin.reaction force", "slider_crank.energy"; names of columns of tables
            do as well, "rod.v.x", "pin.reaction_force.z", "energy.total".
        show: What is switched on from the start, of `reactions`, `moments`, `efforts` of springs,
            motors and stops, `labels`, `axes`, `paths`, `frames` (and sensors).
        paths: Bodies whose mass centers leave their paths from the start.
        forces: Compute reactions, contact forces and energies of a solution. Without them a large
            view is made faster.
        sweep: Move a mechanism a little along each of its degrees of freedom, drivers left out.
            Where its loops cannot be closed, its joints are swept as a tree; red lines show what
            stays open.
        speed: Seconds of motion per second.
        autoplay: Play from the start.
        theme: "light" or "dark"; by default as the browser is set.
        camera: Elevation and azimuth from which the scene is seen at the start [degrees], by
            default (22, -55).
        member: Which motion of a batch is shown in full.
        time: The instant at which it opens [s]; by default the first one.
        times: Of stacked states, growing, (T,) [s].

    Returns:
        The view. A notebook shows it; `View.save` writes it.

    Raises:
        ValueError: An argument out of range, an unknown name, another ending, or a result without
            a finite row.
    """
    if out is not None:
        _ending(Path(out))
    _check(show, speed, theme, camera)
    if isinstance(source, State):
        data, captions = _of_states(source, system, times), []
        said = film(data, None, None, forces=False)
    elif sweep:
        data, captions = _swept(source)
        said = film(data, None, None, forces=False)
    else:
        batch = None
        if isinstance(source, Solution) and source.r.ndim > 3:
            source, batch = one_of(source, operator.index(member))
        captions = events_of(source)
        data, solution, system = _opened(source, system)
        if batch is not None:
            data = _with_ghosts(data, batch, member)
        said = film(data, solution, system, forces=forces)
    stage = scene(data)
    settings = {
        "plots": chosen(said, [plots] if isinstance(plots, str) else plots),
        "paths": _bodies(data, [paths] if isinstance(paths, str) else paths),
        "show": list(show),
        "speed": float(speed),
        "autoplay": bool(autoplay),
        "theme": theme,
        "captions": captions,
        "time": _opening(time, data),
        "camera": look(stage, *(camera or LOOK)),
    }
    made = View(stage.name, told(stage, said, settings), glb(stage))
    if out is not None:
        made.save(out)
    return made


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"cannot write a view to {path.name!r}; use one of {listed(ENDINGS)}")
    return ending


def _check(
    show: Sequence[str], speed: float, theme: str | None, camera: tuple[float, float] | None
) -> None:
    unknown = [x for x in show if x not in SHOWN]
    if unknown:
        raise ValueError(f"view: show knows {listed(SHOWN)}, not {unknown[0]!r}")
    if not (np.isfinite(speed) and speed > 0.0):
        raise ValueError(f"view: speed must be positive and finite, not {speed}")
    if theme not in (None, "light", "dark"):
        raise ValueError(f"view: theme must be 'light' or 'dark', not {theme!r}")
    if camera is not None and (len(camera) != 2 or not np.all(np.isfinite(camera))):
        raise ValueError(
            f"view: camera must be two finite angles, elevation and azimuth [degrees], not {camera}"
        )


def _bodies(data: Picture, names: Sequence[str]) -> list[int]:
    for name in names:
        if name not in data.bodies:
            raise ValueError(f"view: unknown body {name!r}; the bodies are {listed(data.bodies)}")
    return [data.bodies.index(name) for name in names]


# --- what is shown ---


def _opening(time: float | None, data: Picture) -> float:
    """The instant at which a view opens, within the motion."""
    t = data.arrays["t"]
    if time is not None and np.isnan(time):
        raise ValueError("view: time must be a number, not nan")
    return float(t[0] if time is None else np.clip(time, t[0], t[-1]))


def _of_states(states: State, system: System | None, times: Numbers | None) -> Picture:
    """One state, or states at growing times, as a motion without velocities."""
    if system is None:
        raise ValueError("view: a state needs its system: mbd.view(state, system)")
    r, A = np.asarray(states.r), np.asarray(states.A)
    if r.ndim == 2:
        return still(system, r[None], A[None])
    if r.ndim != 3:
        raise ValueError(
            f"view: states are shown one after another; these are a batch, r has shape {r.shape}"
        )
    t = np.asarray(times, float) if times is not None else np.zeros(0)
    if t.shape != r.shape[:1] or not np.all(np.diff(t) > 0.0):
        raise ValueError(f"view: {len(r)} states need as many growing times=, (T,) [s]")
    good = finite_rows(t, r, A)
    if not np.any(good):
        raise ValueError("view: no state is finite")
    data = still(system, r[good], A[good], t[good])
    rows = _rows(t[good])
    return Picture({k: x[rows] for k, x in data.arrays.items()}, data.drawing, data.result)


def _with_ghosts(data: Picture, batch: Solution, member: int) -> Picture:
    """A motion with those of the rest of its batch."""
    r, A = ghosts(batch, member, data.arrays["t"])
    arrays = data.arrays | {"ghosts_r": r, "ghosts_A": A}
    return Picture(arrays, data.drawing, data.result)


def _opened(
    source: Solution | Mechanism | str | Path, system: System | None
) -> tuple[Picture, Solution | None, System | None]:
    """The poses with their drawing, and the solution that forces are found from."""
    if isinstance(source, str | Path) and not str(source).endswith(".npz"):
        source = load_mechanism(source)
    if isinstance(source, Mechanism):
        built, state = source.build()
        return still(built, np.asarray(state.r)[None], np.asarray(state.A)[None]), None, None
    if not isinstance(source, Solution) and system is None:
        system = system_in(source)
    if not isinstance(source, Solution) and system is not None:
        source = solution_of(source, system)
    data = picture(source, system)
    rows = _rows(data.arrays["t"])
    data = Picture({k: x[rows] for k, x in data.arrays.items()}, data.drawing, data.result)
    if not isinstance(source, Solution):
        return data, None, None
    poses = (np.asarray(x) for x in (source.t, source.r, source.A))
    finite = np.flatnonzero(finite_rows(*poses))
    return data, source.rows(finite[rows]), source.system if system is None else system


def events_of(source: Solution | Mechanism | str | Path) -> list[tuple[float, str]]:
    """What happened at events of a motion, and when."""
    if isinstance(source, Solution):
        found = [] if source.events is None else source.events.table()
    elif isinstance(source, str | Path) and str(source).endswith(".npz"):
        found = read_npz(source)["stats"].get("events", [])
    else:
        return []
    return [(float(t), f"{name}: t = {float(t):.6g} s") for t, name in found]


def _rows(t: np.ndarray) -> np.ndarray:
    """Which rows a view has: the first and the last one and some between, with growing times."""
    growing = np.flatnonzero(np.diff(np.maximum.accumulate(t), prepend=-np.inf) > 0.0)
    span = float(t[growing[-1]] - t[0])
    count = int(min(_MOST_ROWS, max(2, round(span * _PER_SECOND) + 1, min(len(growing), 200))))
    if len(growing) <= count:
        return growing
    times = np.linspace(t[0], t[growing[-1]], count)
    grown = t[growing]
    near = np.searchsorted(0.5 * (grown[1:] + grown[:-1]), times)
    rows = growing[np.unique(near)]
    # glTF counts in single precision, in which times must grow too.
    return rows[np.diff((t[rows] - t[0]).astype(np.float32), prepend=-1.0) > 0.0]


def still(
    system: System, r: np.ndarray, A: np.ndarray, t: np.ndarray | tuple[float, ...] = (0.0,)
) -> Picture:
    """Poses of a mechanism, (T, nb, 3) and (T, nb, 3, 3), as a motion without velocities."""
    if not system.nb:
        raise ValueError(f"mechanism {system.name!r} has no bodies")
    zero, rows = np.zeros_like(r), len(r)
    arrays: dict[str, Any] = {"t": np.asarray(t, float), "r": r, "A": A}
    arrays |= {name: zero for name in ("v", "omega", "a", "alpha")}
    held = np.asarray(system.held_element_states())
    arrays |= {
        "lam": np.zeros((rows, system.nc)),
        "angles": np.zeros((rows, 0)),
        "element_states": np.broadcast_to(held, (rows, held.size)),
    }
    arrays |= {"iterations": np.zeros(rows, int)}
    return Picture(arrays, drawing(system), "successful")


# --- degrees of freedom ---


def _swept(source: Solution | Mechanism | str | Path) -> tuple[Picture, list[tuple[float, str]]]:
    """A mechanism that moves along one degree of freedom after another, and what to say when."""
    if isinstance(source, str | Path) and not str(source).endswith(".npz"):
        source = load_mechanism(source)
    if not isinstance(source, Mechanism):
        raise ValueError("view: sweep=True needs a mechanism, not the result of a run")
    system, state = source.build()
    found = sweeps(system, state)
    end = "" if found.closed else "; the loops do not close"
    if not found.sweeps:
        picture = still(system, np.asarray(state.r)[None], np.asarray(state.A)[None])
        return picture, [(0.0, f"no degree of freedom{end}")]
    t, r, A, captions = [], [], [], []
    for k, one in enumerate(found.sweeps):
        rows, times = _there_and_back(one)
        t.append(_SWEEP * k + times)
        r.append(one.r[rows])
        A.append(one.A[rows])
        captions.append((_SWEEP * k, f"{k + 1} of {found.freedoms}: {one.name}{end}"))
    return still(system, *(np.concatenate(x) for x in (r, A, t))), captions


def _there_and_back(one: Sweep) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a sweep from its middle to both ends and back, and times as of a pendulum [s]."""
    last = len(one.r) - 1
    up, down = np.arange(one.middle, last), np.arange(last, one.middle, -1)
    below, again = np.arange(one.middle, 0, -1), np.arange(0, one.middle + 1)
    reach = max(one.middle, last - one.middle, 1)

    def quarter(rows: np.ndarray) -> np.ndarray:
        return np.arcsin(np.abs(rows - one.middle) / reach) / (2.0 * np.pi)

    shares = [quarter(up), 0.5 - quarter(down), 0.5 + quarter(below), 1.0 - quarter(again)]
    rows, times = np.concatenate([up, down, below, again]), np.concatenate(shares)
    grows = np.diff(times, prepend=-1.0) > 1e-9
    # The next one begins a moment after this one ends.
    return rows[grows], 0.999 * _SWEEP * times[grows]
