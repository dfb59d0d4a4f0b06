"""The pictures and films of this experiment."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from jaxmbd import viz

BEFORE = {"color": "tab:red", "ls": "--", "lw": 1.2}
AFTER = {"color": "tab:blue", "lw": 1.4}


def _axes(columns, width=4.4, height=3.4):
    figure, axes = plt.subplots(
        1, columns, figsize=(width * columns, height), squeeze=False, layout="constrained"
    )
    for ax in axes[0]:
        ax.grid(alpha=0.3)
    return figure, axes[0]


def _save(figure, path):
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _upright(sol):
    """Angle of the pole from upright [degrees]."""
    return np.degrees(
        np.arctan2(-np.asarray(sol.A[..., 1, 0, 2]), -np.asarray(sol.A[..., 1, 2, 2]))
    )


def films(system, before, after, name, folder):
    """Two animations."""
    for which, sol in (("before", before), ("after", after)):
        film = viz.animate(
            sol, system, out=folder / f"{name}_{which}.gif", fps=15, size=4.0, view=(8.0, -90.0)
        )
        plt.close(film._fig)


def swing_up(t, first, best, before, after, history, folder):
    figure, (force, angle, cost) = _axes(3)
    force.plot(t, first, **BEFORE, label="first guess")
    force.plot(t, best, **AFTER, label="optimized")
    force.set(xlabel="t [s]", ylabel="force on the cart [N]")
    force.legend(fontsize=8)
    for sol, style in ((before, BEFORE), (after, AFTER)):
        angle.plot(sol.t, np.unwrap(_upright(sol), period=360.0), **style)
    angle.set(xlabel="t [s]", ylabel="pole from upright [°]")
    cost.semilogy(history)
    cost.set(xlabel="iteration", ylabel="cost")
    _save(figure, folder / "swing_up.png")


def four_bar(t, torque, target, wanted, before, after, history, folder):
    figure, (profile, path, cost) = _axes(3)
    profile.plot(target.t, wanted, color="0.4", lw=2.5, label="inverse dynamics")
    profile.plot(t, torque, **AFTER, label="optimized")
    profile.set(xlabel="t [s]", ylabel="motor torque [N·m]")
    profile.legend(fontsize=8)
    for k, c in enumerate((0, 2)):
        path.plot(
            target.t, target.r[:, 1, c], color="0.4", lw=2.5, label="wanted" if not k else None
        )
        path.plot(before.t, before.r[:, 1, c], **BEFORE, label="no torque" if not k else None)
        path.plot(after.t, after.r[:, 1, c], **AFTER, label="optimized" if not k else None)
    path.set(xlabel="t [s]", ylabel="coupler's x and z [m]")
    path.legend(fontsize=8)
    cost.semilogy(history)
    cost.set(xlabel="iteration", ylabel="cost")
    _save(figure, folder / "four_bar.png")


def policy(before, after, history, folder):
    figure, (left, right, cost) = _axes(3)
    for ax, sol, style, title in (
        (left, before, BEFORE, "untrained"),
        (right, after, AFTER, "trained"),
    ):
        ax.plot(sol.t[0], _upright(sol).T[:, :40], **(style | {"lw": 0.6, "ls": "-"}))
        ax.set(xlabel="t [s]", ylabel="pole from upright [°]", title=title)
    cost.semilogy(history)
    cost.set(xlabel="update", ylabel="mean cost of the batch")
    _save(figure, folder / "policy.png")


def lqr(before, after, folder):
    figure, (tilt, position) = _axes(2)
    for sol, style, label in ((before, BEFORE, "free"), (after, AFTER, "linear feedback")):
        angle = np.degrees(
            np.unwrap(np.arctan2(np.asarray(sol.A[:, 1, 0, 2]), np.asarray(sol.A[:, 1, 2, 2])))
        )
        tilt.plot(sol.t, angle, **style, label=label)
        position.plot(sol.t, sol.r[:, 0, 0], **style)
    tilt.set(xlabel="t [s]", ylabel="tilt of the poles [°]", ylim=(-60, 200))
    tilt.legend(fontsize=8)
    position.set(xlabel="t [s]", ylabel="cart [m]")
    _save(figure, folder / "lqr.png")
