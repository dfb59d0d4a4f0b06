"""Animation of bodies and joints in three dimensions."""

import io
import math
import operator
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D

from ..files import check_writable, placed
from ..model.system import System
from ..model.validation import Numbers
from ..results.figures import label, quiet_fonts, save_figure
from ..results.solution import Solution
from . import ffmpeg
from .beams import beam_lines
from .data import (
    Picture,
    cube,
    drawn,
    ends,
    outlines,
    parts,
    picture,
)

MAX_FRAMES = 20_000

Update: TypeAlias = Callable[[int], list[Any]]  # draws a row and returns its artists

_GROUND = "0.45"
_LINK = "0.25"
_COLORS = plt.rcParams["axes.prop_cycle"].by_key()["color"]
_TRACE = 0.35  # opacity of the path of mass centers
_TRACE_POINTS = 1000  # drawn of a path at most
_AXIS = 0.14  # half the length of a joint's axis, in half edges of the picture
_TRIAD = 0.12  # length of the axes of a body that has no outline, likewise
_FORCE = 0.5  # length of a large contact force, likewise
_MAX_LEGEND = 8  # bodies
_MAX_SIZE = 50.0  # [inch]
_MAX_FPS, _MAX_GIF_FPS = (
    240,
    50,
)  # a GIF counts in 1/100 s, and viewers slow down what takes less than two


def animate(
    source: Solution | str | Path,
    system: System | None = None,
    *,
    out: str | Path | None = None,
    fps: int = 25,
    speed: float = 1.0,
    size: float = 5.5,
    view: tuple[float, float] = (22.0, -55.0),
    trace: bool = True,
) -> FuncAnimation:
    """Animate a motion: bodies as outlines and as sticks to their joints, joints as dots with their
    axes.

    The ground is gray, massless links are thin dark lines, springs are green. Contacts that are
    closed are dots, blue where they stick and red where they slide, with their forces on body i as
    lines; the largest twentieth of all forces is drawn at one length. A body without a
    shape has the outline of the solid box with its mass and inertia; a body without mass has three
    short axes.

    Args:
        source: A solution, or the path of a result file.
        system: Its system, for shapes and joints (a result file carries its own).
        out: Where to save: .gif, .html (self-contained, with controls) or .mp4 (needs ffmpeg,
            on the path or by the package `imageio-ffmpeg`).
        fps: Frames per second, 1 to 240 (.gif: 1 to 50).
        speed: Seconds of motion per second of animation.
        size: Edge of the picture [inch], up to 50.
        view: Elevation and azimuth of the camera [degrees].
        trace: Draw the paths of the mass centers.

    Returns:
        The matplotlib animation.

    Raises:
        ValueError: An argument out of range, more than 20000 frames, another ending, .mp4 without
            ffmpeg, or a result without a finite row.
        OSError: The file cannot be written, or would replace one of another kind.
    """
    path = None if out is None else Path(out)
    _check_arguments(path, fps, speed, size, view)
    data = picture(source, system)
    frames = _frames(data.arrays["t"], fps, speed)
    figure, artists, title = _stage(data, size, view, trace)

    def update(k: int):
        artists.move(int(k))
        title.set_text(_title(data, int(k)))
        return artists.all

    update(int(frames[0]))
    film = FuncAnimation(figure, update, frames=frames, interval=1000.0 / fps, blit=False)
    if path is not None:
        _save(film, figure, update, frames, path, fps)
        saved: Any = film
        saved._draw_was_started = True  # without that it warns of never having been drawn
    return film


def snapshot(
    source: Solution | str | Path,
    system: System | None = None,
    *,
    k: int = -1,
    out: str | Path | None = None,
):
    """One row of a motion as a still picture; returns the matplotlib figure.

    Args:
        source: A solution, or the path of a result file.
        system: Its system, for shapes and joints (a result file carries its own).
        k: Which of the finite rows; negative ones count from the end.
        out: Where to save the figure (PNG, PDF, SVG by its ending).

    Raises:
        ValueError: There is no row k.
    """
    data = picture(source, system)
    count = len(data.arrays["t"])
    k = operator.index(k)
    if not -count <= k < count:
        raise ValueError(
            f"there is no row {k}: k goes from {-count} to {count - 1}, the finite rows of the "
            "motion"
        )
    figure, artists, title = _stage(data, 5.5, (22.0, -55.0), True)
    artists.move(k % count)
    title.set_text(_title(data, k))
    if out is not None:
        save_figure(figure, out)
    return figure


# --- arguments and files ---


def _check_arguments(
    path: Path | None, fps: int, speed: float, size: float, view: tuple[float, float]
) -> None:
    ending = None if path is None else path.suffix.lower()
    if path is not None and ending not in (".gif", ".html", ".mp4"):
        raise ValueError(f"cannot write an animation to {path.name!r}; use .gif, .html or .mp4")
    most = _MAX_GIF_FPS if ending == ".gif" else _MAX_FPS
    if not isinstance(fps, int | np.integer) or isinstance(fps, bool) or not 1 <= fps <= most:
        kind = "a .gif" if ending == ".gif" else "an animation"
        raise ValueError(f"fps must be a whole number from 1 to {most} for {kind}, not {fps}")
    if not (math.isfinite(speed) and speed > 0.0):
        raise ValueError(f"speed must be positive and finite, not {speed}")
    if not 0.0 < size <= _MAX_SIZE:
        raise ValueError(f"size must be positive and at most {_MAX_SIZE:g} inches, not {size}")
    if len(view) != 2 or not all(math.isfinite(angle) for angle in view):
        raise ValueError(
            f"view must be two finite angles in degrees, elevation and azimuth, not {view}"
        )
    if ending == ".mp4" and ffmpeg.find() is None:
        raise ValueError(
            "writing .mp4 needs ffmpeg, which is not on the path: pip install imageio-ffmpeg, or "
            "write .gif or .html instead"
        )
    if path is not None and not path.absolute().parent.is_dir():
        raise ValueError(f"cannot write {str(path)!r}: there is no such folder")
    if path is not None:
        check_writable(path, "animation")


def _frames(t: np.ndarray, fps: int, speed: float) -> np.ndarray:
    """The rows nearest to the times of the frames; a row that lasts longer than a frame is
    repeated.
    """
    if np.any(np.diff(t) < 0.0):
        raise ValueError("the times of the result decrease somewhere, so it cannot be animated")
    seconds = float(t[-1] - t[0]) / speed
    if seconds * fps >= MAX_FRAMES:
        raise ValueError(
            f"the animation would have {seconds * fps + 1:.6g} frames, and {MAX_FRAMES} are the "
            "most: raise speed or lower fps"
        )
    times = np.linspace(t[0], t[-1], max(2, round(seconds * fps) + 1) if len(t) > 1 else 1)
    return np.searchsorted(0.5 * (t[1:] + t[:-1]), times)


def _save(
    film: FuncAnimation, figure: Figure, update: Update, frames: np.ndarray, path: Path, fps: int
) -> None:
    ending = path.suffix.lower()
    with quiet_fonts(), placed(path, "animation") as target:
        if ending == ".gif":
            _write(PillowWriter(fps=fps), figure, update, frames, target, dpi=80)
        elif ending == ".html":
            # Beyond this limit [MB] matplotlib would leave frames out; their number is limited
            # already.
            with plt.rc_context({"animation.embed_limit": 1e6}):
                target.write_text(film.to_jshtml(fps=fps), encoding="utf-8")
        else:
            with plt.rc_context({"animation.ffmpeg_path": ffmpeg.find()}):
                _write(FFMpegWriter(fps=fps), figure, update, frames, target, dpi=110)


def _write(
    writer: AbstractMovieWriter,
    figure: Figure,
    update: Update,
    frames: np.ndarray,
    target: Path,
    *,
    dpi: int,
) -> None:
    """Frames to a file. Matplotlib's own function draws each of them twice, and the axes with it,
    which here do not change.
    """
    before = figure.dpi
    figure.set_dpi(dpi)
    axes, background = _background(figure, dpi)
    try:
        with writer.saving(figure, str(target), dpi):
            for k in frames:
                update(int(k))
                writer.grab_frame()
    finally:
        background.remove()
        axes.set_axis_on()
        axes.patch.set_visible(True)
        figure.set_dpi(before)


def _background(figure: Figure, dpi: int) -> tuple[Any, Any]:
    """The axes of a figure, switched off, and an image in their place."""
    (axes,) = figure.axes
    hidden = [*axes.lines, *axes.collections, *axes.texts, *figure.texts, *figure.legends]
    seen = [artist.get_visible() for artist in hidden]
    for artist in hidden:
        artist.set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="raw", dpi=dpi)
    for artist, visible in zip(hidden, seen, strict=True):
        artist.set_visible(visible)
    width, height = figure.canvas.get_width_height()
    image = np.frombuffer(buffer.getvalue(), np.uint8).reshape(height, width, 4)
    axes.set_axis_off()
    axes.patch.set_visible(False)
    return axes, figure.figimage(image, zorder=-10, origin="upper")


def _title(data: Picture, k: int) -> str:
    return f"{label(data.drawing['name'], 32)}\nt = {data.arrays['t'][k]:.2f} s"


# --- what is drawn ---


def _stage(data: Picture, size: float, view: tuple[float, float], trace: bool):
    """A figure with axes that hold the whole motion, its artists, and its title."""
    middle, half = cube(data)
    figure = plt.figure(figsize=(size, size))
    ax: Any = figure.add_axes((-0.02, 0.0, 0.98, 0.96), projection="3d")
    _frame_axes(ax, middle, half, view)
    return (
        figure,
        _Artists(ax, data, trace, half),
        figure.text(0.02, 0.985, "", fontsize=10, va="top"),
    )


class _Artists:
    """The lines of a picture: points fixed in bodies, and paths of mass centers."""

    def __init__(self, ax: Axes3D, data: Picture, trace: bool, half: float):
        self.ax, self.data = ax, data
        self.lines: list[tuple[np.ndarray, np.ndarray, Any]] = []
        self.traces: list[tuple[int, Any]] = []
        self.beams: list[tuple[np.ndarray, np.ndarray, Any, Any]] = []
        fixed = [p for part in parts(data) for b, p in ends(part) if b == len(data.bodies)]
        if fixed:
            ax.plot(*np.array(fixed).T, "s", color=_GROUND, ms=8.0, alpha=0.7)
        nodes = _nodes(data)
        for b in range(len(data.bodies)):
            if b not in nodes:
                self._draw_body(b, half, trace)
        first = len(data.bodies) - len(nodes)  # colors go on after those of single bodies
        for k, beam in enumerate(_beams(data)):
            self._draw_beam(beam, _COLORS[(first + k) % len(_COLORS)])
        for spring in data.drawing["springs"]:
            self._add(*zip(*ends(spring), strict=True), color="tab:green", lw=1.4)
        for connection in drawn(data):
            self._draw_connection(connection, half)
        dots = [end for c in drawn(data) for end in (ends(c) if c["link"] else ends(c)[1:])]
        if dots:
            self._add(*zip(*dots, strict=True), marker="o", ls="", mfc="white", mec="black", ms=5.0)
        self.contacts = _Contacts(ax, data, half) if "contact_points" in data.arrays else None
        if len(data.bodies) - len(nodes) + len(_beams(data)) <= _MAX_LEGEND:
            ax.figure.legend(loc="upper right", fontsize=8, frameon=False)

    def _draw_body(self, b: int, half: float, trace: bool) -> None:
        color, outline = _COLORS[b % len(_COLORS)], self.data.drawing["outlines"][b]
        arms = [
            p
            for c in drawn(self.data)
            for body, p in ends(c)
            if body == b and np.linalg.norm(p) > 1e-9
        ]
        if arms:
            points = [x for p in arms for x in (np.zeros(3), p)]
            self._add(b, points, color=color, lw=3.0, solid_capstyle="round", alpha=0.9)
        if outline:
            # The equivalent cuboid is thinner, because the body need not look like it.
            style = {"lw": 1.1} if self.data.drawing["shaped"][b] else {"lw": 0.8, "alpha": 0.6}
            self._add(b, _joined(outline), color=color, **style)
        else:
            axes = np.stack([np.zeros((3, 3)), _TRIAD * half * np.eye(3)], axis=1)
            self._add(b, _joined(axes), color=color, lw=1.6)
        self._add(
            b,
            np.zeros((1, 3)),
            marker="o",
            ls="",
            color=color,
            ms=4.0,
            label=label(self.data.bodies[b], 24),
        )
        if trace:
            self.traces.append((b, self.ax.plot([], [], [], color=color, lw=0.8, alpha=_TRACE)[0]))

    def _draw_beam(self, beam: dict, color: str) -> None:
        name = label(beam["name"], 24)
        (center,) = self.ax.plot([], [], [], color=color, lw=2.2, label=name)
        (edges,) = self.ax.plot([], [], [], color=color, lw=0.8, alpha=0.7)
        self.beams.append((np.array(beam["nodes"]), np.array(beam["extents"]), center, edges))

    def _draw_connection(self, c: dict, half: float) -> None:
        for (b, p), axis in zip(ends(c), (c["axis_i_bar"], c["axis_j_bar"]), strict=True):
            if np.any(axis):
                along = _AXIS * half * np.array(axis) / np.linalg.norm(axis)
                self._add(b, [p - along, p + along], color="black", lw=1.2)
        if c["link"]:
            self._add(*zip(*ends(c), strict=True), color=_LINK, lw=1.2)
        for (b, _), lines in zip(ends(c), outlines(c), strict=True):
            if lines:
                count = len(self.data.bodies)
                color = _COLORS[b % len(_COLORS)] if b < count else _GROUND
                self._add(b, _joined(lines), color=color, lw=1.3)

    def _add(self, bodies: Numbers, points: Numbers, **style: Any) -> None:
        places = np.array(points, float)
        owners = np.broadcast_to(np.asarray(bodies, int), len(places))
        (line,) = self.ax.plot([], [], [], **style)
        self.lines.append((owners, places, line))

    @property
    def all(self):
        beams = [line for *_, center, edges in self.beams for line in (center, edges)]
        own = [line for _, _, line in self.lines] + [line for _, line in self.traces] + beams
        return own + (self.contacts.all if self.contacts else [])

    def move(self, k: int) -> None:
        arrays = self.data.arrays
        r = np.concatenate([arrays["r"][k], np.zeros((1, 3))])  # the last one is the ground
        A = np.concatenate([arrays["A"][k], np.eye(3)[None]])
        for bodies, points, line in self.lines:
            line.set_data_3d(*(r[bodies] + np.einsum("nij,nj->ni", A[bodies], points)).T)
        for nodes, extents, center, edges in self.beams:
            line, around = beam_lines(r[nodes], A[nodes], extents)
            center.set_data_3d(*line.T)
            edges.set_data_3d(*_joined(around).T)
        rows = np.unique(np.append(np.arange(0, k, math.ceil(len(arrays["t"]) / _TRACE_POINTS)), k))
        for b, line in self.traces:
            line.set_data_3d(*arrays["r"][rows, b].T)
        if self.contacts:
            self.contacts.move(k)


class _Contacts:
    """Dots where contacts are closed, by state, and lines for their forces."""

    def __init__(self, ax: Axes3D, data: Picture, half: float):
        self.points = data.arrays["contact_points"]
        self.states = data.arrays["contact_states"]
        forces = data.arrays["contact_forces"]
        size = np.linalg.norm(forces, axis=-1, keepdims=True)
        pushed = size[size > 0.0]
        large = float(np.quantile(pushed, 0.95)) if pushed.size else 1.0
        unit = forces / np.where(size > 0.0, size, 1.0)
        self.arrows = _FORCE * half * unit * np.minimum(size / large, 1.0)
        style: dict[str, Any] = {"marker": "o", "ls": "", "ms": 3.5, "zorder": 5}
        self.dots: dict[int, Any] = {
            state: ax.plot([], [], [], color=color, **style)[0]
            for state, color in ((1, "tab:blue"), (2, "tab:red"))
        }
        self.lines: Any = ax.plot([], [], [], color="tab:red", lw=1.2, alpha=0.8)[0]

    @property
    def all(self) -> list[Any]:
        return [*self.dots.values(), self.lines]

    def move(self, k: int) -> None:
        for state, dots in self.dots.items():
            dots.set_data_3d(*self.points[k][self.states[k] == state].T)
        closed = self.states[k] > 0
        ends = self.points[k][closed], (self.points[k] + self.arrows[k])[closed]
        lines = list(np.stack(ends, axis=1))
        self.lines.set_data_3d(*(_joined(lines) if lines else np.zeros((0, 3))).T)


def _beams(data: Picture) -> list[dict]:
    """Beams; files of earlier versions have none."""
    return data.drawing.get("beams", [])


def _nodes(data: Picture) -> set[int]:
    """Bodies that are drawn as parts of beams."""
    return {n for beam in _beams(data) for n in beam["nodes"]}


def _joined(polylines: Iterable[Numbers]) -> np.ndarray:
    """Polylines as one, with a gap (NaN) between two."""
    gap = np.full((1, 3), np.nan)
    return np.concatenate([x for line in polylines for x in (np.array(line, float), gap)][:-1])


def _frame_axes(ax: Axes3D, middle: np.ndarray, half: float, view: tuple[float, float]) -> None:
    """Equal scales on all axes of a cube."""
    for k, axis in enumerate("xyz"):
        getattr(ax, f"set_{axis}lim")(middle[k] - half, middle[k] + half)
        getattr(ax, f"set_{axis}label")(f"{axis} [m]", fontsize=8)
    ax.tick_params(labelsize=7)
    ax.set_box_aspect((1, 1, 1), zoom=0.92)  # pyright: ignore[reportArgumentType]
    ax.view_init(*view)
