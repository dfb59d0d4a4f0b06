"""One plain style for figures of the experiments, and side views of planar mechanisms as films."""

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter

BEFORE = {"color": "tab:red", "ls": "--", "lw": 1.2}
AFTER = {"color": "tab:blue", "lw": 1.4}
REFERENCE = {"color": "0.65", "lw": 3.2}
DATA = {"color": "0.55", "ls": "", "marker": ".", "ms": 2.5}


def panels(count, width=4.2, height=3.4):
    """A figure of panels side by side; legends stand above them."""
    figure, axes = plt.subplots(
        1, count, figsize=(width * count, height), squeeze=False, layout="constrained"
    )
    for ax in axes[0]:
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes[0]


def legend_above(ax, columns=2):
    """The legend of a panel, above it, so that it hides no curve."""
    ax.legend(
        fontsize=8, frameon=False, ncols=columns, loc="lower center", bbox_to_anchor=(0.5, 1.0)
    )


def save(figure, path):
    figure.savefig(path, dpi=110)
    plt.close(figure)


def films(motions, sizes, *, pins=(), rail=None, fps=12, width=5.6, margin=0.05, thinnest=0.014):
    """GIFs of boxes in the plane of x and z, all at the scale that shows every motion whole.

    Args:
        motions: Solutions by the path where to save.
        sizes: Edges of every body's box along its own x and z axes [m].
        pins: (body, (x, z) in its frame) of hinges; body None for the ground.
        rail: Height of a line across the picture [m], or None.
        fps: Frames per second.
        width: Of the picture [inch].
        margin: Around the motions, relative to their larger extent.
        thinnest: Least edge of a box as drawn, relative to the width of the picture.
    """
    frames = [_frames(sol, fps) for sol in motions.values()]
    every = np.concatenate(
        [
            _placed(r, A, body, corners).reshape(-1, 2)
            for _, r, A in frames
            for body, corners in [*enumerate(_corners(sizes)), *((b, [x]) for b, x in pins)]
        ]
    )
    low, high = every.min(0), every.max(0)
    edge = margin * np.max(high - low)
    low, high = low - edge, high + edge
    drawn = _corners(np.maximum(sizes, thinnest * (high[0] - low[0])))
    for path, (t, r, A) in zip(motions, frames, strict=True):
        boxes = [_placed(r, A, body, corners) for body, corners in enumerate(drawn)]
        hinges = [_placed(r, A, body, [point]) for body, point in pins]
        _film(t, boxes, hinges, low, high, path, rail, fps, width)


def _frames(sol, fps):
    """Times, positions and orientations of the frames."""
    t, r, A = (np.asarray(x) for x in (sol.t, sol.r, sol.A))
    rows = np.searchsorted(t, np.arange(t[0], t[-1] + 0.5 / fps, 1.0 / fps) - 1e-9)
    rows = np.minimum(rows, t.size - 1)
    return t[rows], r[rows], A[rows]


def _corners(sizes):
    """Of boxes, (n, 4, 2), in their own frames."""
    return 0.5 * np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * np.asarray(sizes)[:, None]


def _placed(r, A, body, points):
    """Points of a body or of the ground, (n, 2), in the plane at all frames, (T, n, 2)."""
    points = np.asarray(points, float)
    if body is None:
        return np.broadcast_to(points, (len(r), *points.shape))
    plane = A[:, body][:, [[0], [2]], [0, 2]]
    return r[:, body][:, None, [0, 2]] + points @ np.swapaxes(plane, 1, 2)


def _film(t, boxes, hinges, low, high, path, rail, fps, width):
    """One GIF, with a clock and a scale above the picture."""
    across, up = high - low
    strip = 0.3  # for clock and scale [inch]
    height = width * up / across + strip
    figure = plt.figure(figsize=(width, height))
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0 - strip / height))
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_axis_off()
    if rail is not None:
        ax.axhline(rail, color="0.75", lw=2.0, zorder=0)
    colors = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    shapes = [ax.fill(*box[0].T, color=colors[b], alpha=0.85)[0] for b, box in enumerate(boxes)]
    (dots,) = ax.plot([], [], "o", mfc="white", mec="black", ms=4.5)
    middle = 1.0 - 0.5 * strip / height
    clock = figure.text(0.02, middle, "", fontsize=9, va="center")
    scale = max(x for x in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if x < max(0.35 * across, 0.11))
    bar = plt.Line2D([0.98 - scale / across, 0.98], [middle] * 2, color="0.3", lw=2.0)
    figure.add_artist(bar)
    figure.text(0.97 - scale / across, middle, f"{scale:g} m", fontsize=9, va="center", ha="right")

    def update(k):
        for shape, box in zip(shapes, boxes, strict=True):
            shape.set_xy(box[k])
        if hinges:
            dots.set_data(*np.concatenate([x[k] for x in hinges]).T)
        clock.set_text(f"t = {t[k]:.1f} s")
        return [*shapes, dots, clock]

    animation = FuncAnimation(figure, update, frames=len(t), blit=False)
    animation.save(path, writer=PillowWriter(fps=fps), dpi=80)
    plt.close(figure)
