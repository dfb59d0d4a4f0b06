"""Animation of bodies and joints in three dimensions."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter

from ..analyses.solution import Solution
from ..model.system import System
from .data import Picture, picture

_GROUND = "0.45"
_COLOURS = plt.rcParams["axes.prop_cycle"].by_key()["color"]
_TRACE = 0.35  # opacity of the path of mass centres


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
    """Animate a motion: bodies as outlines and as sticks to their joints, joints as dots, the ground in grey.

    Args:
        source: A solution, or the path of a result file.
        system: Its system, for shapes and joints (a result file carries its own).
        out: Where to save: .gif, .html (self-contained, with controls) or .mp4 (needs ffmpeg).
        fps: Frames per second.
        speed: Seconds of motion per second of film.
        size: Edge of the picture [inch].
        view: Elevation and azimuth of the camera [degrees].
        trace: Draw the paths of the mass centres.

    Returns:
        The matplotlib animation.

    Raises:
        ValueError: An ending other than those, or a result without a finite row.
    """
    if out is not None and Path(out).suffix not in (".gif", ".html", ".mp4"):
        raise ValueError(f"cannot write an animation to {Path(out).name!r}; use .gif, .html or .mp4")
    data = picture(source, system)
    t = data.arrays["t"]
    count = max(2, int(round((t[-1] - t[0]) / speed * fps)) + 1) if len(t) > 1 else 1
    frames = np.unique(np.searchsorted(t, np.linspace(t[0], t[-1], count) - 1e-12).clip(0, len(t) - 1))
    figure = plt.figure(figsize=(size, size))
    ax = figure.add_axes((-0.02, 0.0, 0.98, 0.96), projection="3d")
    _frame_axes(ax, data, view)
    artists = _Artists(ax, data, trace)
    title = figure.text(0.02, 0.96, "", fontsize=10)

    def update(k: int):
        artists.move(int(k))
        title.set_text(f"{data.drawing['name']}   t = {t[k]:.2f} s")
        return artists.all

    update(int(frames[0]))
    film = FuncAnimation(figure, update, frames=frames, interval=1000.0 / fps, blit=False)
    if out is not None:
        _save(film, Path(out), fps)
    return film


def snapshot(
    source: Solution | str | Path, system: System | None = None, *, k: int = -1, out: str | Path | None = None
):
    """One row of a motion as a still picture; returns the matplotlib figure."""
    data = picture(source, system)
    figure = plt.figure(figsize=(5.5, 5.5))
    ax = figure.add_axes((-0.02, 0.0, 0.98, 0.96), projection="3d")
    _frame_axes(ax, data, (22.0, -55.0))
    _Artists(ax, data, True).move(range(len(data.arrays["t"]))[k])
    figure.text(0.02, 0.96, f"{data.drawing['name']}   t = {data.arrays['t'][k]:.2f} s", fontsize=10)
    if out is not None:
        figure.savefig(out, dpi=130)
    return figure


def _save(film: FuncAnimation, path: Path, fps: int) -> None:
    if path.suffix == ".gif":
        film.save(path, writer=PillowWriter(fps=fps), dpi=80)
    elif path.suffix == ".html":
        path.write_text(film.to_jshtml(fps=fps), encoding="utf-8")
    elif not FFMpegWriter.isAvailable():
        raise ValueError("writing .mp4 needs ffmpeg, which is not installed; write .gif or .html instead")
    else:
        film.save(path, writer=FFMpegWriter(fps=fps), dpi=110)


class _Artists:
    """The moving lines of a picture."""

    def __init__(self, ax, data: Picture, trace: bool):
        self.data = data
        nb = len(data.bodies)
        self.sticks, self.outlines, self.traces = [], [], []
        self.points = _body_points(data)
        for b in range(nb):
            colour = _COLOURS[b % len(_COLOURS)]
            for point in self.points[b]:
                (line,) = ax.plot([], [], [], color=colour, lw=3.0, solid_capstyle="round", alpha=0.9)
                self.sticks.append((b, np.stack([np.zeros(3), point]), line))
            for polyline in data.drawing["outlines"][b]:
                (line,) = ax.plot([], [], [], color=colour, lw=1.1)
                self.outlines.append((b, np.array(polyline), line))
            (centre,) = ax.plot([], [], [], "o", color=colour, ms=4.0, label=data.bodies[b])
            self.sticks.append((b, np.zeros((1, 3)), centre))
            if trace:
                (line,) = ax.plot([], [], [], color=colour, lw=0.8, alpha=_TRACE)
                self.traces.append((b, line))
        (self.joints,) = ax.plot([], [], [], "o", mfc="white", mec="black", ms=5.0)
        self.springs = [(s, ax.plot([], [], [], color="tab:green", lw=1.4)[0]) for s in data.drawing["springs"]]
        fixed = [
            np.array(c["s_j_bar"] if c["j"] == nb else c["s_i_bar"]) for c in _drawn(data) if nb in (c["i"], c["j"])
        ]
        if fixed:
            ax.plot(*np.array(fixed).T, "s", color=_GROUND, ms=8.0, alpha=0.7)
        if nb <= 8:
            ax.figure.legend(loc="upper right", fontsize=8, frameon=False)

    @property
    def all(self):
        lines = [line for _, _, line in self.sticks + self.outlines] + [line for _, line in self.traces]
        return [*lines, self.joints, *(line for _, line in self.springs)]

    def _place(self, b: int, points: np.ndarray, k: int) -> np.ndarray:
        if b == len(self.data.bodies):
            return points
        return self.data.arrays["r"][k, b] + points @ self.data.arrays["A"][k, b].T

    def move(self, k: int) -> None:
        for b, points, line in self.sticks + self.outlines:
            line.set_data_3d(*self._place(b, points, k).T)
        for b, line in self.traces:
            line.set_data_3d(*self.data.arrays["r"][: k + 1, b].T)
        ends = [self._place(c["j"], np.array([c["s_j_bar"]]), k)[0] for c in _drawn(self.data)]
        if ends:
            self.joints.set_data_3d(*np.array(ends).T)
        for s, line in self.springs:
            ends = [
                self._place(b, np.array([p]), k)[0]
                for b, p in zip(s["bodies"], (s["s_i_bar"], s["s_j_bar"]), strict=True)
            ]
            line.set_data_3d(*np.array(ends).T)


def _drawn(data: Picture) -> list[dict]:
    # A driver sits at a joint that is drawn already.
    return [c for c in data.drawing["connections"] if not c["kind"].endswith("Driver")]


def _body_points(data: Picture) -> list[list[np.ndarray]]:
    """Joint points of every body in its own frame, away from the mass centre."""
    points: list[list[np.ndarray]] = [[] for _ in data.bodies]
    for c in _drawn(data):
        for b, p in ((c["i"], c["s_i_bar"]), (c["j"], c["s_j_bar"])):
            if b < len(points) and np.linalg.norm(p) > 1e-9:
                points[b].append(np.array(p))
    return points


def _frame_axes(ax, data: Picture, view: tuple[float, float]) -> None:
    """One cube that holds the whole motion, equal scales on all axes."""
    corners = [data.arrays["r"].reshape(-1, 3)]
    for b, points in enumerate(_body_points(data)):
        extra = [*points, *(p for line in data.drawing["outlines"][b] for p in np.array(line))]
        for p in extra:
            corners.append(data.arrays["r"][:, b] + data.arrays["A"][:, b] @ p)
    nb = len(data.bodies)
    corners += [
        np.array([c["s_i_bar"] if c["i"] == nb else c["s_j_bar"]]) for c in _drawn(data) if nb in (c["i"], c["j"])
    ]
    every = np.concatenate(corners)
    low, high = every.min(0), every.max(0)
    middle, half = 0.5 * (low + high), 0.55 * max(float(np.max(high - low)), 1e-6)
    for k, axis in enumerate("xyz"):
        getattr(ax, f"set_{axis}lim")(middle[k] - half, middle[k] + half)
        getattr(ax, f"set_{axis}label")(f"{axis} [m]", fontsize=8)
    ax.tick_params(labelsize=7)
    ax.set_box_aspect((1, 1, 1), zoom=0.92)
    ax.view_init(*view)
