"""The figure of this experiment, from its results."""

import numpy as np

from ..drawing import panels, save


def _band(ax, x, runs, color, label):
    """Median and range over seeds, (n, T)."""
    y = -np.array(runs)
    ax.fill_between(x, y.min(axis=0), y.max(axis=0), color=color, alpha=0.2, lw=0)
    ax.plot(x, np.median(y, axis=0), color=color, lw=1.6, label=label)


def curves(results, folder):
    """Cost in the test against actions and processor time."""
    ppo, exact, whole = (results.get(name, {}) for name in ("ppo", "exact", "whole_episodes"))
    if not any(x.get("seeds") for x in (ppo, exact, whole)):
        return
    figure, axes = panels(2, width=4.8, height=3.8)
    if seeds := ppo.get("seeds"):
        y = [run["mean_return"] for run in seeds]
        n = np.array(ppo["actions"])
        spent = np.median([run["processor_s"] for run in seeds])
        _band(axes[0], n, y, "tab:orange", "PPO (rejax)")
        # All updates of PPO take the same time.
        _band(axes[1], spent * n / n[-1], y, "tab:orange", "PPO (rejax)")
    for part, color, name in (
        (exact, "tab:blue", "gradients, growing horizon"),
        (whole, "tab:green", "gradients, whole episodes"),
    ):
        if seeds := part.get("seeds"):
            y = [run["mean_return"] for run in seeds]
            n = part["actions_of_an_update"] * np.array(seeds[0]["updates"])
            spent = np.median([run["processor_s"] for run in seeds], axis=0)
            _band(axes[0], n, y, color, name)
            _band(axes[1], spent, y, color, name)
    for ax, label in (
        (axes[0], "actions simulated in training"),
        (axes[1], "processor time without compilation [s]"),
    ):
        for name, text, line in (
            ("nothing", "no torque", ":"),
            ("by_hand", "control by hand", "--"),
        ):
            if name in results.get("by_hand", {}):
                cost = -results["by_hand"][name]["mean_return"]
                ax.axhline(cost, color="0.4", ls=line, lw=1.2, label=text)
        ax.set(xlabel=label, ylabel="- mean return of the test", xscale="log", yscale="log")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        fontsize=8,
        frameon=False,
    )
    save(figure, folder / "learning_curves.png")
