"""Pictures of the discrete null space experiment."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from jaxmbd import viz

INSTANTS = {  # of the paper's snapshots [s]
    "cylindrical_pair": (0.1, 0.3, 0.7),
    "planar_pair": (0.02, 0.04, 0.05, 0.06, 0.07, 0.08),
    "six_body_linkage": (0.02, 0.04, 0.08, 0.09, 0.13, 0.26),
}


def conservation(histories, out):
    """Energy and components of angular momentum over time (Figs 10, 13, 17, 23)."""
    n = len(histories)
    fig, axes = plt.subplots(2, n, figsize=(3.4 * n, 5), squeeze=False, layout="constrained")
    for (name, (t, energy, angular)), column in zip(histories.items(), axes.T, strict=True):
        column[0].plot(t, energy)
        column[0].set_title(name, fontsize=10)
        low, high = np.min(energy), np.max(energy)
        pad = 0.5 * max(abs(low), abs(high))
        column[0].set_ylim(low - pad, high + pad)
        for k in range(3):
            column[1].plot(t, angular[:, k], label=f"L{k + 1}")
        column[1].set_xlabel("t [s]")
    axes[0, 0].set_ylabel("total energy [J]")
    axes[1, 0].set_ylabel("angular momentum [kg m²/s]")
    axes[1, 0].legend(fontsize=8)
    fig.savefig(out / "conservation.png", dpi=110)
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
    ax.grid(alpha=0.3, which="both")
    ax.legend(fontsize=8)
    fig.savefig(out / "convergence.png", dpi=110)
    plt.close(fig)


def relative(found, out):
    """Relative coordinates over time (Figs 8, 9, 14, 18, 25)."""
    n = len(found)
    fig, axes = plt.subplots(1, n, figsize=(3.4 * n, 2.8), squeeze=False, layout="constrained")
    for (name, (t, values)), ax in zip(found.items(), axes[0], strict=True):
        for key, x in values.items():
            ax.plot(t, x, label=key)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("t [s]")
        ax.legend(fontsize=8)
    axes[0, 0].set_ylabel("[m] or [rad]")
    fig.savefig(out / "relative.png", dpi=110)
    plt.close(fig)


def snapshots(films, out):
    """The instants of the paper's pictures (Figs 12, 16, 24), side by side."""
    for name, (system, sol) in films.items():
        times = [s for s in INSTANTS.get(name, ()) if s <= float(sol.t[-1]) + 1e-9]
        if not times:
            continue
        fig, axes = plt.subplots(
            1, len(times), figsize=(2.6 * len(times), 2.8), layout="constrained"
        )
        for ax, instant in zip(np.atleast_1d(axes), times, strict=True):
            row = int(np.argmin(np.abs(np.asarray(sol.t) - instant)))
            one = viz.snapshot(sol, system, k=row)
            one.canvas.draw()
            ax.imshow(np.asarray(one.canvas.buffer_rgba()))
            plt.close(one)
            ax.set_title(f"t = {instant} s", fontsize=9)
            ax.axis("off")
        fig.savefig(out / f"snapshots_{name}.png", dpi=130)
        plt.close(fig)


def long_runs(drifts, out):
    """Deviation of energy over a hundred seconds by every method."""
    n = len(drifts)
    fig, axes = plt.subplots(
        1, n, figsize=(3.4 * n, 3.2), squeeze=False, sharey=True, layout="constrained"
    )
    for (name, methods), ax in zip(drifts.items(), axes[0], strict=True):
        for method, (t, drift) in methods.items():
            ax.semilogy(t[1:], np.maximum(drift[1:], 1e-17), label=method, lw=1)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("t [s]")
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("energy deviation / kinetic energy")
    axes[0, 0].legend(fontsize=7)
    fig.savefig(out / "long_run.png", dpi=110)
    plt.close(fig)


def film(system, sol, out):
    """The linkage in motion, slowed down ten times."""
    viz.animate(sol, system, out=out / "linkage.gif", speed=0.1, size=4.0)
