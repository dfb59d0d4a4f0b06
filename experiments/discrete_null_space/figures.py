"""Pictures of the discrete null space experiment."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from jaxmbd import viz

from .models import precession

INSTANTS = {  # of the paper's snapshots [s]
    "cylindrical_pair": (0.1, 0.3, 0.7),
    "planar_pair": (0.02, 0.04, 0.05, 0.06, 0.07, 0.08),
    "six_body_linkage": (0.02, 0.04, 0.08, 0.09, 0.13, 0.26),
}


COLORS = {"constrained": "tab:blue", "reduced": "tab:orange", "generalized_alpha": "tab:green"}
LABELS = {
    "constrained": "constrained scheme",
    "reduced": "reduced scheme",
    "generalized_alpha": "generalized-α in rA",
}
_LEAST = 1e-17


def _legend(fig, ax):
    """One legend for all panels, above them."""
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)


def _title(name):
    return {"figure_9": "gyro top", "figure_17": "planar pair"}.get(name, name.replace("_", " "))


def _grid(count, width=3.2, height=2.7, columns=4, **options):
    """Panels in rows of `columns`; those that stay empty are switched off."""
    columns = min(columns, count)
    rows = -(-count // columns)
    fig, axes = plt.subplots(
        rows,
        columns,
        figsize=(width * columns, height * rows),
        squeeze=False,
        layout="constrained",
        **options,
    )
    for ax in axes.flat[count:]:
        ax.set_axis_off()
    return fig, axes


def conservation(histories, out):
    """Deviations of energy and of angular momentum over time (Figs 10, 13, 17, 23)."""
    fig, axes = _grid(len(histories), sharey=True)
    for (name, methods), ax in zip(histories.items(), axes.flat, strict=False):
        for method, (t, energy, turning) in methods.items():
            for values, style, what in ((energy, "-", "energy"), (turning, ":", "momentum")):
                if values is not None:
                    label = f"{LABELS[method]}, {what}"
                    y = np.maximum(values[1:], _LEAST)
                    ax.semilogy(t[1:], y, style, color=COLORS[method], label=label, lw=1)
        times = methods["reduced"][0]
        ax.set_title(f"{_title(name)}, h = {times[1] - times[0]:.2g} s", fontsize=9)
        ax.set_xlabel("t [s]")
        ax.grid(alpha=0.3)
    for ax in axes[:, 0]:
        ax.set_ylabel("relative deviation")
    axes[0, 0].set_ylim(_LEAST, 1.0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    fig.savefig(out / "conservation.png", dpi=110)
    plt.close(fig)


def balances(found, out):
    """Energies and angular momenta themselves over time (Figs 10, 13, 17, 23)."""
    fig, axes = plt.subplots(
        2, len(found), figsize=(3.2 * len(found), 5.0), squeeze=False, layout="constrained"
    )
    for (name, (system, sol)), (top, bottom) in zip(found.items(), axes.T, strict=True):
        t, energy = np.asarray(sol.t), sol.energy(system)
        angular = np.asarray(sol.momentum(system).angular)
        top.plot(t, energy.kinetic, label="kinetic", lw=1)
        top.plot(t, energy.potential, label="potential", lw=1)
        top.plot(t, energy.total, "k:", label="total")
        for k, axis in enumerate("xyz"):
            bottom.plot(t, angular[:, k], label=axis, lw=1)
        top.set_title(f"{_title(name)}, h = {t[1] - t[0]:.2g} s", fontsize=9)
        bottom.set_xlabel("t [s]")
        for ax in (top, bottom):
            ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("energy [J]")
    axes[1, 0].set_ylabel("angular momentum [kg m²/s]")
    axes[0, 0].legend(fontsize=8)
    axes[1, 0].legend(fontsize=8)
    fig.savefig(out / "energies.png", dpi=130)
    plt.close(fig)


def cost(found, out):
    """Error against computing time."""
    fig, axes = plt.subplots(1, len(found), figsize=(3.4 * len(found), 3.6), layout="constrained")
    for ax, (name, row) in zip(axes, found.items(), strict=True):
        for method, label in LABELS.items():
            each = row[method]
            spent = [int(n) * us * 1e-3 for n, us in each["us_per_step"].items()]
            errors = list(each["relative_error"].values())
            ax.loglog(spent, errors, "o-", ms=4, color=COLORS[method], label=label)
        ax.set(xlabel="time of the steps [ms]", title=f"{_title(name)}, {row['seconds']:g} s")
        ax.set_xlim(0.5, 100.0)
        ax.grid(alpha=0.3, which="both", lw=0.4)
    axes[0].set_ylabel("relative error of the mass centers")
    _legend(fig, axes[0])
    fig.savefig(out / "cost.png", dpi=110)
    plt.close(fig)


def convergence(errors, out):
    """Error of the top's mass center against steady precession by step."""
    fig, ax = plt.subplots(figsize=(4.5, 3.5), layout="constrained")
    for (scheme, rows), style in zip(errors.items(), ("o-", "x--"), strict=True):
        h = np.array([float(k) for k in rows])
        ax.loglog(h, list(rows.values()), style, label=scheme)
    ax.loglog(h, list(rows.values())[0] * (h / h[0]) ** 2, "k:", label="second order")
    ax.set(
        xlabel="step [s]",
        ylabel="error of the mass center [m]",
        title="steady precession of the top",
    )
    ax.set(xlim=(1e-4, 1e-2), ylim=(1e-6, 1e-4))
    ax.grid(alpha=0.3, which="both")
    ax.legend(fontsize=8, loc="lower right")
    fig.savefig(out / "convergence.png", dpi=110)
    plt.close(fig)


def _analytic(name, t, values):
    """What is known in closed form of the coordinates, by name, on a fine grid of time."""
    fine = np.linspace(0.0, t[-1], 801)
    if "x" in values:
        r = precession(fine)
        return fine, {"x": r[:, 0], "z": r[:, 2]}
    if name == "six_body_linkage":  # θ₂ by θ₁, (1 + cos a)(1 + cos b) = 1 on the branch of the run
        a = np.pi / 2 + values["theta1"]
        b = np.arccos(np.clip(1.0 / (1.0 + np.cos(a)) - 1.0, -1.0, 1.0))
        first, second = np.pi / 2 - b, np.pi / 2 + b
        near = np.abs(first - values["theta2"]) < np.abs(second - values["theta2"])
        return t, {"theta2": np.where(near, first, second)}
    return None


def relative(found, out):
    """Relative coordinates over time (Figs 8, 9, 14, 18, 25), and closed forms where there are."""
    fig, axes = _grid(len(found), height=3.1)
    for (name, (t, values)), ax in zip(found.items(), axes.flat, strict=False):
        known = _analytic(name, t, values)
        for k, (key, x) in enumerate(values.items()):
            label = key.replace("theta", "θ").replace("1", "₁").replace("2", "₂")
            ax.plot(t, x, f"C{k}o" if known else f"C{k}-", ms=3, label=label)
            if known and key in known[1]:
                ax.plot(known[0], known[1][key], f"C{k}-", lw=1, label=f"{label}, closed form")
        ax.set_title(f"{_title(name)}, h = {t[1] - t[0]:.2g} s", fontsize=9)
        ax.set_xlabel("t [s]")
        ax.grid(alpha=0.3)
        ax.legend(
            fontsize=7, ncols=2, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2)
        )
    for ax in axes[:, 0]:
        ax.set_ylabel("[m] or [rad]")
    fig.savefig(out / "relative.png", dpi=110)
    plt.close(fig)


# Half the edge of the part of space that a picture shows [m]; around the first body, or around all.
VIEWS = {"cylindrical_pair": 15.0, "planar_pair": 11.0, "six_body_linkage": 0.14}


# The package has no pyramids; the base of this one lies where it touches the plate.
_PYRAMID = np.array([[1, 1, -1], [-1, 1, -1], [-1, -1, -1], [1, -1, -1], [0, 0, 2.0]])
_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4), (2, 4), (3, 4))


def snapshots(films, out):
    """The instants of the paper's pictures (Figs 12, 16, 24), side by side."""
    for name, (system, sol) in films.items():
        times = [s for s in INSTANTS.get(name, ()) if s <= float(sol.t[-1]) + 1e-9]
        if not times:
            continue
        columns = min(3, len(times))
        rows = -(-len(times) // columns)
        fig, axes = plt.subplots(
            rows, columns, figsize=(3.2 * columns, 3.2 * rows), layout="constrained", squeeze=False
        )
        for ax, instant in zip(axes.flat, times, strict=True):
            row = int(np.argmin(np.abs(np.asarray(sol.t) - instant)))
            ax.imshow(_picture(name, system, sol, row))
            ax.set_title(f"t = {instant} s", fontsize=10)
            ax.axis("off")
        fig.savefig(out / f"snapshots_{name}.png", dpi=110)
        plt.close(fig)


def _picture(name, system, sol, row):
    """Pixels of one instant, cut to the bodies."""
    one = viz.snapshot(sol, system, k=row)
    half, r = VIEWS[name], np.asarray(sol.r[row])
    middle = r.mean(axis=0) if len(r) > 2 else r[0]
    (space,) = (ax for ax in one.axes if hasattr(ax, "set_zlim"))
    if name == "planar_pair":
        corners = r[1] + _PYRAMID @ np.asarray(sol.A[row, 1]).T
        for edge in _EDGES:
            space.plot(*corners[list(edge)].T, color="tab:orange", lw=2)
    space.set(**{f"{x}lim": (c - half, c + half) for x, c in zip("xyz", middle, strict=True)})
    space.set_axis_off()
    space.set_position((-0.1, -0.1, 1.2, 1.2))
    for text in (*one.texts, *space.texts, space.title):
        text.set_visible(False)
    for legend in (*one.legends, space.get_legend()):
        if legend is not None:
            legend.set_visible(False)
    one.canvas.draw()
    pixels = np.asarray(one.canvas.buffer_rgba()).copy()
    plt.close(one)
    used = np.any(pixels[..., :3] < 250, axis=2)
    height, width = pixels.shape[:2]
    low, high = np.argwhere(used).min(0), np.argwhere(used).max(0)
    center, reach = (low + high) // 2, int(np.max(high - low) // 2 + 8)
    top, left = np.maximum(center - reach, 0)
    return pixels[top : min(height, center[0] + reach), left : min(width, center[1] + reach)]


def long_runs(drifts, out):
    """Deviation of energy over a hundred seconds by every method."""
    names = {
        "energy_momentum": "constrained scheme",
        "energy_momentum_reduced": "reduced scheme",
        "generalized_alpha": "generalized-α in rA",
        "implicit_euler": "implicit Euler in rA",
    }
    fig, axes = _grid(len(drifts), columns=3, sharey=True)
    for (name, methods), ax in zip(drifts.items(), axes.flat, strict=False):
        for method, (t, drift) in methods.items():
            ax.semilogy(t[1:], np.maximum(drift[1:], _LEAST), label=names[method], lw=1)
        ax.set_title(_title(name), fontsize=10)
        ax.set_xlabel("t [s]")
        ax.grid(alpha=0.3)
    for ax in axes[:, 0]:
        ax.set_ylabel("relative energy deviation")
    _legend(fig, axes[0, 0])
    fig.savefig(out / "long_run.png", dpi=110)
    plt.close(fig)


def film(system, sol, out):
    """The linkage in motion, slowed down ten times."""
    viz.animate(sol, system, out=out / "linkage.gif", speed=0.1)  # smaller ones crowd the ticks
