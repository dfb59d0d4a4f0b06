"""Pictures of the rotation-elements experiment."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from ..reference_solutions import bar_pendulum

_ELEMENTS = ("11", "12", "22")


def _save(figure, path):
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def _legend_above(ax, columns=3):
    ax.legend(
        fontsize=8, ncols=columns, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0)
    )


def angles(t, found, path):
    """φ and ψ against minimal coordinates (the paper's Fig. 2), and their differences."""
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7.5, 5), sharex=True, layout="constrained")
    reference = bar_pendulum(t)
    for k, name in enumerate("φψ"):
        (line,) = top.plot(t, np.degrees(found[:, k]), label=f"{name}, rotation-matrix elements")
        top.plot(
            t[::20], np.degrees(reference[::20, k]), "o", ms=3, mfc="none", color=line.get_color()
        )
        bottom.semilogy(
            t[1:], np.abs(found - reference)[1:, k], color=line.get_color(), lw=0.8, label=name
        )
    top.plot([], [], "o", ms=3, mfc="none", color="k", label="minimal coordinates")
    top.set_ylabel("angle [°]")
    _legend_above(top)
    bottom.set(ylabel="difference [rad]", xlabel="t [s]")
    _save(figure, path)


def multipliers(t, values, path):
    """Λ of both bars and the forces of both joints (the paper's Figs. 3 to 6)."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 5.5), sharex=True, layout="constrained")
    for ax, columns, labels, title, unit in (
        (
            axes[0, 0],
            slice(0, 3),
            [f"Λ₁,{x}" for x in _ELEMENTS],
            "rigidity of bar 1 (Fig. 3)",
            "N·m",
        ),
        (
            axes[0, 1],
            slice(3, 6),
            [f"Λ₂,{x}" for x in _ELEMENTS],
            "rigidity of bar 2 (Fig. 4)",
            "N·m",
        ),
        (axes[1, 0], slice(6, 9), [f"λ₀₁,{x}" for x in "xyz"], "joint O (Fig. 5)", "N"),
        (axes[1, 1], slice(9, 12), [f"λ₁₂,{x}" for x in "xyz"], "joint H (Fig. 6)", "N"),
    ):
        for values_k, label in zip(values[:, columns].T, labels, strict=True):
            ax.plot(t, values_k, lw=0.9, label=label)
        ax.set_ylabel(f"{title} [{unit}]", fontsize=9)
        _legend_above(ax)
    for ax in axes[1]:
        ax.set_xlabel("t [s]")
    _save(figure, path)


def order(found, path):
    """Errors by step with multipliers solved at every stage, and frozen over the step; each panel
    at one time.
    """
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.9), layout="constrained")
    panels = (
        ("psi_error", "error of ψ at 0.5 s [rad]", "every_stage_0.5s", "frozen"),
        ("psi_error", "error of ψ at 5 s [rad]", "every_stage", "frozen_5s"),
        ("orthogonality", "largest |RᵀR - I| in 5 s", "every_stage", "frozen_5s"),
    )
    for ax, (quantity, title, *kinds) in zip(axes, panels, strict=True):
        for kind, color, marker, power in zip(kinds, ("C0", "C1"), ("o", "s"), (4, 1), strict=True):
            rows = found.get(kind, {}).get(quantity, {})
            pairs = [(float(h), e) for h, e in rows.items() if e is not None]
            if not pairs:
                continue
            h, e = np.array(pairs).T
            label = kind.split("_0")[0].split("_5")[0].replace("_", " ")
            ax.loglog(h, e, color=color, marker=marker, ls="", ms=5, label=label)
            ax.loglog(h, e[-1] * (h / h[-1]) ** power, f"{color}:", lw=1, label=f"order {power}")
        ax.set(xlabel="h [s]", xlim=(1e-4, 2e-2))
        ax.set_title(title, fontsize=10)
        ax.grid(alpha=0.3, which="both", lw=0.4)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    _save(figure, path)


def legs(histories, path):
    """Lengths and pushes of the legs for the prescribed loop, both variants."""
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(7.5, 5.5), sharex=True, layout="constrained"
    )
    for k in range(6):
        h = histories["massless"]
        (line,) = top.plot(h["t"], h["lengths"][:, k], label=f"leg {k + 1}")
        bottom.plot(h["t"], h["pushes"][:, k], color=line.get_color())
        if "legs" in histories:
            h = histories["legs"]
            bottom.plot(h["t"], h["pushes"][:, k], "--", color=line.get_color(), lw=0.9)
    top.set_ylabel("length [m]")
    _legend_above(top, columns=6)
    bottom.set(ylabel="actuator force [N]", xlabel="t [s]")
    if "legs" in histories:
        bottom.set_title("solid: massless legs; dashed: cylinders and rods", fontsize=9)
    _save(figure, path)


def workspace(cuts, yaw, singular, path):
    """Reciprocal condition of the leg Jacobian inside the reach of the legs, and along yaw at
    home.
    """
    figure, axes = plt.subplots(1, 3, figsize=(13.5, 4), layout="constrained")
    mesh = None
    for ax, (name, (points, inside, quality)) in zip(axes[:2], cuts.items(), strict=True):
        i, j = (0, 2) if name.startswith("y") else (0, 1)
        x, y = points[..., i], points[..., j]
        mesh = ax.pcolormesh(
            x, y, np.where(inside, quality, np.nan), shading="nearest", vmin=0.0, cmap="viridis"
        )
        ax.contour(x, y, inside.astype(float), [0.5], colors="k", linewidths=0.8)
        ax.set(
            xlabel="xyz"[i] + " [m]",
            ylabel="xyz"[j] + " [m]",
            title=f"level platform, {name}",
            aspect="equal",
        )
    figure.colorbar(mesh, ax=axes[:2], label="σ_min / σ_max of the legs", shrink=0.8)
    angle, quality, determinant = yaw
    axes[2].plot(np.degrees(angle), quality, label="σ_min / σ_max")
    axes[2].plot(
        np.degrees(angle),
        determinant / np.max(np.abs(determinant)),
        lw=0.9,
        label="determinant, scaled",
    )
    for a in singular:
        axes[2].axvline(a, color="r", lw=0.7, ls=":")
    axes[2].axhline(0.0, color="k", lw=0.5)
    axes[2].set(xlabel="yaw at home [°]", title="singular where the determinant changes sign")
    axes[2].legend(fontsize=8, loc="lower center", frameon=False)
    _save(figure, path)


def calibration(errors, spread, before, after, path):
    """Errors of the 36 anchor coordinates with their standard errors, and of unseen poses before
    and after.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    n = errors.size
    left.errorbar(
        np.arange(n), 1e3 * errors.ravel(), yerr=1e3 * spread.ravel(), fmt="o", ms=3, lw=0.8
    )
    left.axhline(0.0, color="k", lw=0.5)
    left.set(
        xlabel="coordinate of an anchor (18 of the base, 18 of the platform)",
        ylabel="error after the fit [mm]",
    )
    bins = np.logspace(
        np.log10(1e3 * min(after.min(), before.min())), np.log10(1e3 * before.max()), 25
    )
    right.hist(1e3 * before, bins, alpha=0.7, label="before")
    right.hist(1e3 * after, bins, alpha=0.7, label="after the calibration")
    right.set(xscale="log", xlabel="error of unseen poses [mm]", ylabel="poses")
    right.legend(fontsize=8, frameon=False)
    _save(figure, path)
