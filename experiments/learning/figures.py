"""The figures of this experiment, from its results."""

import numpy as np

from ..drawing import REFERENCE, legend_above, panels, save

# Of the trainings: where in the results, name, color, line.
STYLES = (
    (("exact",), "gradients, this package", "tab:blue", "-"),
    (("soft",), "gradients, MJX", "tab:green", "-"),
    (("by_hand", "gradients"), "gradients, minimal coordinates", "tab:purple", "--"),
    (("evolution",), "evolution, this package", "tab:orange", "-"),
    (("by_hand", "evolution"), "evolution, minimal coordinates", "tab:brown", "--"),
)


def _band(ax, x, y, color, line, label):
    """The median of seeds, (n, T), and all of them."""
    ax.fill_between(x, np.min(y, axis=0), np.max(y, axis=0), color=color, alpha=0.15, lw=0)
    ax.plot(x, np.median(y, axis=0), line, color=color, lw=1.5, label=label)


def _seeds(results, path):
    """The trainings at a path of the results, none where that part was not run."""
    for name in path:
        results = results.get(name, {})
    return results.get("seeds", [])


def policies(results, folder):
    """Learning curves of the policies against simulated time and processor time."""
    shown = [(_seeds(results, path), *style) for path, *style in STYLES]
    shown = [(seeds, *style) for seeds, *style in shown if seeds]
    if not shown:
        return
    figure, axes = panels(2, width=5.2)
    for ax, what, label in (
        (axes[0], "simulated_s", "simulated time [s]"),
        (axes[1], "processor_s", "processor time without compilation [s]"),
    ):
        for seeds, name, color, line in shown:
            x = np.median([run[what] for run in seeds], axis=0)
            y = np.array([run["score"] for run in seeds])
            _band(ax, x[1:], y[:, 1:], color, line, name)
        if "regulator" in results:
            best = results["regulator"]["end"]["mean_cost"]
            ax.axhline(best, color="0.4", ls=":", lw=1.4, label="LQR, best weight")
        ax.set(xlabel=label, ylabel="mean cost of the test", xscale="log", yscale="log")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        fontsize=8,
        frameon=False,
    )
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
    law.set(xlabel="rate of the rocker [rad/s]", ylabel="torque at 2.1 rad [N·m]")
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
