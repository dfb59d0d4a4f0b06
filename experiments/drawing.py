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


def film(sol, sizes, path, *, pins=(), rail=None, fps=12, width=4.2, margin=0.08):
    """A GIF of boxes in the plane of x and z, as large as the motion allows.

    Args:
        sol: The motion.
        sizes: Edges of every body's box along its own x and z axes [m].
        path: Where to save.
        pins: (body, (x, z) in its frame) of hinges; body None for the ground.
        rail: Height of a line across the picture [m], or None.
        fps: Frames per second.
        width: Of the picture [inch].
        margin: Around the motion, relative to its larger extent.
    """
    t, r, A = (np.asarray(x) for x in (sol.t, sol.r, sol.A))
    frames = np.searchsorted(t, np.arange(t[0], t[-1] + 0.5 / fps, 1.0 / fps) - 1e-9)
    frames = np.minimum(frames, t.size - 1)
    r, A, t = (x[frames] for x in (r, A, t))

    def placed(b, points):
        """Points of a body, (n, 2), in the plane at all frames, (T, n, 2)."""
        points = np.asarray(points, float).reshape(-1, 2)
        return r[:, b][:, None, [0, 2]] + points @ np.swapaxes(A[:, b][:, [[0], [2]], [0, 2]], 1, 2)

    corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    boxes = [placed(b, 0.5 * corners * size) for b, size in enumerate(sizes)]
    hinges = [
        np.broadcast_to(point, (t.size, 1, 2)) if b is None else placed(b, point)
        for b, point in pins
    ]
    every = np.concatenate([x.reshape(-1, 2) for x in boxes + hinges])
    low, high = every.min(0), every.max(0)
    edge = margin * np.max(high - low)
    low, high = low - edge, high + edge
    ratio = (high[1] - low[1]) / (high[0] - low[0])
    figure = plt.figure(figsize=(width, width * ratio + 0.3))
    share = 0.3 / (width * ratio + 0.3)
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0 - share))
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_axis_off()
    if rail is not None:
        ax.axhline(rail, color="0.75", lw=2.0, zorder=0)
    colors = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    shapes = [ax.fill(*box[0].T, color=colors[b], alpha=0.85)[0] for b, box in enumerate(boxes)]
    (dots,) = ax.plot([], [], "o", mfc="white", mec="black", ms=4.5)
    clock = figure.text(0.02, 1.0 - 0.5 * share, "", fontsize=9, va="center")

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
