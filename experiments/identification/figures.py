"""The pictures of this experiment."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np


def _axes(columns, width=4.8, height=3.6):
    figure, axes = plt.subplots(
        1, columns, figsize=(width * columns, height), squeeze=False, layout="constrained"
    )
    for ax in axes[0]:
        ax.grid(alpha=0.3)
    return figure, axes[0]


def _save(figure, path):
    figure.savefig(path, dpi=130)
    plt.close(figure)


def slider(data, before, after, path):
    """Position of the slider before and after the fit, and what the fit leaves."""
    figure, (left, right) = _axes(2)
    x = data.values["slider.r.x"]
    left.plot(data.t, x, ".", ms=2, color="0.4", label="measured")
    left.plot(before.t, before.r[:, 2, 0], "--", color="tab:red", lw=1.2, label="first guess")
    left.plot(after.t, after.r[:, 2, 0], color="tab:blue", lw=1.2, label="fitted")
    left.set(xlabel="t [s]", ylabel="slider position [m]")
    left.legend(fontsize=8)
    right.plot(data.t, (x - np.interp(data.t, after.t, after.r[:, 2, 0])) / data.sigma, ".", ms=2)
    right.set(xlabel="t [s]", ylabel="residual / noise")
    _save(figure, path)


def curve(data, before, after, path):
    """The coupler's mass center: measured, guessed, fitted."""
    figure, (ax,) = _axes(1)
    ax.plot(before.r[:, 1, 0], before.r[:, 1, 2], "--", color="tab:red", label="first guess")
    ax.plot(after.r[:, 1, 0], after.r[:, 1, 2], color="tab:blue", label="fitted")
    ax.plot(
        data.values["coupler.r.x"],
        data.values["coupler.r.z"],
        ".",
        color="0.3",
        ms=4,
        label="measured",
    )
    ax.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
    ax.legend(fontsize=8)
    _save(figure, path)


def friction(rate, true, learned, history, data, before, after, path):
    """The law learned, the cost on the way, the motion of the tip."""
    figure, (law, cost, tip) = _axes(3)
    law.plot(rate, true, color="0.3", label="true")
    law.plot(rate, learned, "--", color="tab:blue", label="learned")
    law.set(xlabel="relative rate [rad/s]", ylabel="friction torque [N·m]")
    law.legend(fontsize=8)
    cost.semilogy(history)
    cost.set(xlabel="improving step", ylabel="cost")
    tip.plot(data.t, data.values["bar3.r.x"], ".", ms=2, color="0.4", label="measured")
    tip.plot(before.t, before.r[:, 2, 0], "--", color="tab:red", lw=1.2, label="untrained")
    tip.plot(after.t, after.r[:, 2, 0], color="tab:blue", lw=1.2, label="trained")
    tip.set(xlabel="t [s]", ylabel="x of the last bar [m]")
    tip.legend(fontsize=8)
    _save(figure, path)
