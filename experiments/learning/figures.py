"""The figures of this experiment, from its results."""

import numpy as np

from ..drawing import REFERENCE, legend_above, panels, save

STYLES = {
    "exact": ("exact gradients", "tab:blue"),
    "evolution": ("evolution strategy", "tab:orange"),
    "soft": ("gradients of MJX", "tab:green"),
}


def _band(ax, x, y, color, label):
    """The median of seeds, (n, T), and all of them."""
    ax.fill_between(x, np.min(y, axis=0), np.max(y, axis=0), color=color, alpha=0.15, lw=0)
    ax.plot(x, np.median(y, axis=0), color=color, lw=1.5, label=label)


def policies(results, folder):
    """Learning curves of the policies against simulated time and processor time."""
    shown = {k: results[k]["seeds"] for k in STYLES if "seeds" in results.get(k, {})}
    if not shown:
        return
    figure, axes = panels(2, width=4.6)
    for ax, what, label in (
        (axes[0], "simulated_s", "simulated time [s]"),
        (axes[1], "processor_s", "processor time [s]"),
    ):
        for method, seeds in shown.items():
            name, color = STYLES[method]
            x = np.median([run[what] for run in seeds], axis=0)
            _band(ax, x[1:], np.array([run["score"] for run in seeds])[:, 1:], color, name)
        if "regulator" in results:
            best = results["regulator"]["end"]["mean_cost"]
            ax.axhline(best, color="0.4", ls=":", lw=1.4, label="LQR, best weight")
        ax.set(xlabel=label, ylabel="mean cost of the test", xscale="log", yscale="log")
        legend_above(ax)
    save(figure, folder / "policy.png")


def linkage(results, folder):
    """Errors on held-out motions, the learned law, and one motion."""
    if "residual" not in results:
        return
    found = results["residual"]
    figure, (errors, law, motion) = panels(3, width=4.4)
    kinds = {"no network": [found["model_without"]["same_length_rad"]]}
    for window, seeds in found["differences"].items():
        kinds[f"differences, {window} rows"] = [x["same_length_rad"] for x in seeds]
    kinds["through the simulator"] = [x["same_length_rad"] for x in found["simulator"]["seeds"]]
    for k, (name, values) in enumerate(kinds.items()):
        color = "tab:blue" if "simulator" in name else "tab:orange" if "rows" in name else "0.5"
        errors.plot(values, [k] * len(values), "o", color=color, ms=5, alpha=0.7)
    errors.set_yticks(range(len(kinds)), list(kinds))
    errors.set(xscale="log", xlabel="error on held-out motions, rms [rad]")
    errors.invert_yaxis()
    best = min(
        found["differences"],
        key=lambda w: np.median([x["same_length_rad"] for x in found["differences"][w]]),
    )
    rate = found["law"]["rate"]
    law.plot(rate, found["law"]["true"][1], **REFERENCE, label="true")
    law.plot(
        rate,
        found["law"]["differences"][best][1],
        color="tab:orange",
        lw=1.4,
        label=f"differences, {best} rows",
    )
    for k, one in enumerate(found["law"]["simulator"]):
        name = {"label": "through the simulator"} if k == 0 else {}
        law.plot(rate, one[1], color="tab:blue", lw=1.0, alpha=0.7, **name)
    law.set(xlabel="rate of the rocker [rad/s]", ylabel="torque on the rocker at 2.1 rad [N·m]")
    legend_above(law)
    example = found["example"]
    motion.plot(example["t"], example["true"], **REFERENCE, label="true")
    motion.plot(example["t"], example["without"], color="0.3", ls="--", lw=1.2, label="no network")
    motion.plot(
        example["t"],
        example["differences"][best],
        color="tab:orange",
        lw=1.2,
        label=f"differences, {best} rows",
    )
    motion.plot(
        example["t"], example["simulator"], color="tab:blue", lw=1.2, label="through the simulator"
    )
    motion.axvline(found["seconds"], color="0.6", ls=":", lw=1.0)
    motion.set(xlabel="t [s]", ylabel="angle of the crank [rad]")
    legend_above(motion)
    save(figure, folder / "residual.png")
