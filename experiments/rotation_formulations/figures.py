"""The pictures of this experiment, drawn from its results."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

COLORS = {"rA": "tab:blue", "rp": "tab:orange", "reps": "tab:green", "one chart": "tab:red"}
COLORS["rp as printed"] = "tab:brown"
MARKERS = {"rA": "o", "rp": "s", "reps": "^", "one chart": "x", "rp as printed": "v"}
LABELS = {"rA": "rA", "rp": "rp", "reps": "r-ε", "one chart": "r-ε, one chart"}
LABELS["rp as printed"] = "rp, Eqs. 39 to 41 as printed"


# Coinciding curves stay visible: open markers and widths become smaller from the first to the last.
SIZES = {"rA": 10, "rp": 6.5, "reps": 3.5, "one chart": 6, "rp as printed": 5}
WIDTHS = {"rA": 3.2, "rp": 2.0, "reps": 1.0, "one chart": 1.2, "rp as printed": 1.0}


def _style(name, **extra):
    return {
        "color": COLORS[name],
        "marker": MARKERS[name],
        "label": LABELS[name],
        "ms": SIZES[name],
        "mfc": "white" if name in ("rA", "rp") else COLORS[name],
        "lw": WIDTHS[name],
    } | extra


def _legend(figure, ax, **options):
    """One legend for all panels, above them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 6), **options)


def _axes(columns, width=4.6, height=3.6):
    figure, axes = plt.subplots(
        1, columns, figsize=(width * columns, height), squeeze=False, layout="constrained"
    )
    for ax in axes[0]:
        ax.grid(True, which="major", alpha=0.3)
    return figure, axes[0]


def _save(figure, path):
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _clean(values):
    return np.array([np.nan if v is None else v for v in values], float)


def iterations(results, folder):
    titles = {
        "fig2_iterations": "kinematics, frozen matrix (Fig. 2)",
        "fig4_iterations": "dynamics, frozen matrix (Fig. 4)",
        "fig4_tangent": "the same with exp's tangent",
        "fig4_newton": "dynamics, exact matrix",
    }
    figure, axes = _axes(len(titles), width=3.4)
    h = results["fig_steps"]
    for ax, (key, title) in zip(axes, titles.items(), strict=True):
        for name, values in results[key]["four_link"].items():
            ax.semilogx(h, _clean(values), **_style(name))
        ax.set(xlabel="step size h [s]", title=title, ylim=(0, 11))
    axes[0].set_ylabel("mean iterations, four link")
    _legend(figure, axes[0])
    return _save(figure, folder / "fig2_fig4_iterations.png")


def double_pendulum(results, history, folder):
    figure, axes = _axes(3)
    for ax, h in zip(axes, results["fig3_steps"], strict=True):
        for name in (n for n in LABELS if n in history):
            gap = np.maximum(history[name][f"{h:g}"], 1e-12)
            ax.semilogy(history["t"], gap, **_style(name, marker="", lw=1.3 * WIDTHS[name]))
        ax.set(
            xlabel="t [s]",
            title=f"double pendulum, h = {h:g} s",
            ylim=(1e-6, 4),
        )
    axes[0].set_ylabel("|Δz| of the second bar [m]")
    _legend(figure, axes[0])
    return _save(figure, folder / "fig3_double_pendulum.png")


def order(results, folder):
    paths = []
    figures = {
        "single_pendulum": ("fig5", "z of the bar"),
        "slider_crank": ("fig6", "x of the slider"),
    }
    figures["four_link"] = ("fig7", "z of the third link")
    h = np.array(results["order_steps"])
    for model, table in results["order_errors"].items():
        number, what = figures[model]
        figure, axes = _axes(3)
        for k, (ax, level) in enumerate(
            zip(axes, ("position", "velocity", "acceleration"), strict=True)
        ):
            for name, errors in table.items():
                e = np.array([[np.nan if x is None else x for x in row] for row in errors], float)[
                    :, k
                ]
                ax.loglog(h, np.maximum(e, 1e-17), **_style(name))
            if k:
                first = next(iter(table.values()))
                ax.loglog(
                    h,
                    h * float(first[len(h) // 2][k]) / h[len(h) // 2],
                    "k:",
                    lw=1,
                    label="order 1",
                )
            else:
                ax.set_ylim(1e-16, 1e-10)  # rounding
            unit = ("m", "m/s", "m/s²")[k]
            title = f"{model.replace('_', ' ')}: {level}"
            ax.set(xlabel="h [s]", ylabel=f"error at 3 s, {what} [{unit}]", title=title)
        _legend(figure, axes[1])
        paths.append(_save(figure, folder / f"{number}_order_{model}.png"))
    return paths


def work_precision(results, folder):
    models = results["spatial"]
    figure, axes = _axes(len(models))
    for ax, (model, table) in zip(axes, models.items(), strict=True):
        steps = table["seconds"] / np.array(table["h"])
        for name in ("rA", "rp", "reps"):
            cost = steps * table[name]["us_per_step"] * 1e-3
            ax.loglog(cost, table[name]["position_error"], **_style(name))
        ax.set(xlabel="computing time [ms]", title=model.replace("_", " "))
    axes[0].set_ylabel("position error at the end [m]")
    _legend(figure, axes[0])
    return _save(figure, folder / "work_precision.png")


def conditioning(results, folder):
    table = results["condition"]
    figure, axes = _axes(len(table), width=4.0)
    for ax, (model, rows) in zip(axes, table.items(), strict=True):
        for name in ("rA", "rp", "reps"):
            ax.loglog(rows["h"], rows[name]["scaled"], **_style(name))
            ax.loglog(rows["h"], rows[name]["unscaled"], **_style(name, ls="--", label="_"))
        ax.set(xlabel="h [s]", title=model.replace("_", " "), ylim=(10, 1e17))
    axes[0].set_ylabel("condition number")
    _legend(figure, axes[0], title="solid: rows Φ/h²,   dashed: rows Φ")
    return _save(figure, folder / "conditioning.png")


def singularity(results, folder):
    table = results["singularity"]
    figure, axes = _axes(3)
    for name in ("rA", "rp", "reps", "one chart"):
        for ax, key in zip(axes, ("angle_error", "iterations", "condition_max"), strict=True):
            values = _clean(table[name][key])
            ax.plot(
                table["miss"],
                np.maximum(values, 1e-17) if key == "angle_error" else values,
                **_style(name),
            )
    for ax, label in zip(
        axes,
        ("attitude error at the end [rad]", "mean iterations", "condition number"),
        strict=True,
    ):
        ax.set(xscale="log", yscale="linear" if label.startswith("mean") else "log", ylabel=label)
        ax.set_xlabel("smallest angle of the third axis to the vertical [rad]")
    _legend(figure, axes[0])
    return _save(figure, folder / "singularity.png")


def rows(results, folder):
    """Steps with rows by hand and with automatic ones, beside each other."""
    table = results["rows_us_per_step"]
    figure, axes = _axes(2, width=5.6)
    titles = {"single": "dynamics, the paper's iteration", "gradient": "gradient in reverse mode"}
    for ax, (column, title) in zip(axes, titles.items(), strict=True):
        shown = {m: t for m, t in table.items() if any(column in row for row in t.values())}
        x = np.arange(len(shown))
        for k, name in enumerate(("rA", "rp", "reps")):
            for kind, shift, alpha in (("closed", -0.065, 1.0), ("automatic", 0.065, 0.45)):
                values = [t.get(f"{name} {kind}", {}).get(column, np.nan) for t in shown.values()]
                label = f"{LABELS[name]}, {'by hand' if kind == 'closed' else 'automatic'}"
                ax.bar(
                    x + 0.28 * (k - 1) + shift,
                    values,
                    0.12,
                    color=COLORS[name],
                    alpha=alpha,
                    label=label,
                )
        ax.set_xticks(x, [m.replace("_", "\n") for m in shown], fontsize=8)
        ax.set(title=title, ylabel="µs a step")
    _legend(figure, axes[0])
    return _save(figure, folder / "rows.png")


def speed(results, folder, batch_column):
    table = results["us_per_step"]
    columns = ("single", batch_column, "gradient")
    figure, axes = _axes(3, width=4.2)
    x = np.arange(len(table))
    for ax, column in zip(axes, columns, strict=True):
        for k, name in enumerate(("rA", "rp", "reps")):
            values = [table[m]["rp"][column] / table[m][name][column] for m in table]
            ax.bar(x + 0.27 * (k - 1), values, 0.25, color=COLORS[name], label=LABELS[name])
        ax.set_xticks(x, [m.replace("_", "\n") for m in table], fontsize=8)
        title = {"single": "one mechanism", "gradient": "gradient in reverse mode"}.get(
            column, column.replace("batch", "batch of ")
        )
        ax.set(title=title, ylim=(0, 3.2))
    axes[0].set_ylabel("speed of dynamics relative to rp")
    _legend(figure, axes[0])
    return _save(figure, folder / "speed.png")
