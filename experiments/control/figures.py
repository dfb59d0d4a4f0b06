"""The figures and films of this experiment."""

import numpy as np
from matplotlib.ticker import MultipleLocator

from ..drawing import AFTER, BEFORE, REFERENCE, films, legend_above, panels, save

CART_POLE = [(0.3, 0.1), (0.02, 1.0)]
FOUR_BAR = [(1.0, 0.05), (3.5, 0.05), (2.5, 0.05)]
PARALLELOGRAM = [(0.6, 0.1), (0.03, 0.8), (0.03, 0.8), (0.5, 0.05)]


def _pair(before, after, name, folder):
    return {folder / f"{name}_before.gif": before, folder / f"{name}_after.gif": after}


def cart_pole_films(before, after, name, folder):
    films(_pair(before, after, name, folder), CART_POLE, pins=[(1, (0.0, 0.5))], rail=0.0)


def four_bar_films(before, after, folder):
    pins = [(None, (0.0, 0.0)), (None, (4.0, 0.0)), (1, (-1.75, 0.0)), (1, (1.75, 0.0))]
    films(_pair(before, after, "four_bar", folder), FOUR_BAR, pins=pins)


def parallelogram_films(before, after, folder):
    pins = [(b, (0.0, z)) for b in (1, 2) for z in (-0.4, 0.4)]
    films(_pair(before, after, "lqr", folder), PARALLELOGRAM, pins=pins, rail=0.0)


def _cost(ax, history, label):
    ax.semilogy(history, color="tab:blue", lw=1.2)
    ax.set(xlabel=label, ylabel="cost")


def swing_up(t, first, best, before, after, exact, histories, step_sizes, folder):
    figure, (force, angle, cost) = panels(3)
    force.plot(t, first, **BEFORE, label="first guess")
    force.plot(t, best, **AFTER, label="optimized")
    force.set(xlabel="t [s]", ylabel="force on the cart [N]")
    legend_above(force)
    angle.plot(
        after.t, np.degrees(exact[0][:, 1]), **REFERENCE, label="optimized, minimal coordinates"
    )
    for sol, style, label in ((before, BEFORE, "first guess"), (after, AFTER, "optimized")):
        A = np.asarray(sol.A)[:, 1]
        turned = np.unwrap(np.arctan2(-A[:, 0, 2], A[:, 2, 2]))
        angle.plot(sol.t, np.degrees(turned), **style, label=label)
    low, high = angle.get_ylim()
    turns = [x for x in range(-1800, 1801, 180) if low <= x <= high]
    for upright in turns:
        if upright % 360:
            angle.axhline(upright, color="0.6", lw=0.8, ls=":")
    angle.set(xlabel="t [s]", ylabel="pole from hanging [°]", yticks=turns)
    legend_above(angle)
    done = 0
    for k, (history, h) in enumerate(zip(histories, step_sizes, strict=True)):
        at = done + np.arange(len(history))
        cost.semilogy(at, history, color=f"C{k}", lw=1.2, label=f"step {1e3 * h:g} ms")
        done = at[-1]
    cost.set(xlabel="iteration", ylabel="cost")
    legend_above(cost)
    save(figure, folder / "swing_up.png")


def four_bar(t, torque, target, wanted, after, exact, folder):
    figure, (profile, path, miss) = panels(3)
    profile.plot(target.t, wanted, **REFERENCE, label="inverse dynamics")
    profile.plot(t, torque, **AFTER, label="optimized")
    profile.set(xlabel="t [s]", ylabel="motor torque [N·m]")
    legend_above(profile)
    goal = np.asarray(target.r)[:, 1]
    path.plot(goal[:, 0], goal[:, 2], **REFERENCE, label="path")
    path.plot(exact[:, 0], exact[:, 2], **AFTER, label="optimized, minimal coordinates")
    path.set(xlabel="coupler's x [m]", ylabel="coupler's z [m]")
    legend_above(path)
    for r, style, label in (
        (np.asarray(after.r)[:, 1], BEFORE | {"ls": "-", "lw": 0.7}, "step of training"),
        (exact, AFTER, "minimal coordinates"),
    ):
        gap = np.linalg.norm(r - goal, axis=1)
        miss.semilogy(target.t[1:], gap[1:], **style, label=label)
    miss.set(xlabel="t [s]", ylabel="distance to the path [m]", ylim=(1e-9, None))
    legend_above(miss)
    save(figure, folder / "four_bar.png")


def policy(before, after, t, history, folder):
    figure, (left, right, cost) = panels(3)
    for ax, angles, style, title in (
        (left, before, BEFORE, "untrained"),
        (right, after, AFTER, "trained, by minimal coordinates"),
    ):
        tilt = np.degrees(angles[:40].T - np.pi)
        ax.plot(t, tilt, **(style | {"lw": 0.6, "ls": "-"}))
        ax.set(xlabel="t [s]", ylabel="pole from upright [°]")
        ax.set_title(title, fontsize=9)
    left.yaxis.set_major_locator(MultipleLocator(360.0))
    _cost(cost, history, "update")
    cost.set_ylabel("mean cost of the batch")
    save(figure, folder / "policy.png")


def lqr(before, after, exact, folder):
    figure, (both, tilt, position) = panels(3)
    tilt.plot(after.t, np.degrees(exact[:, 1]), **REFERENCE, label="feedback, minimal coordinates")
    position.plot(after.t, exact[:, 0], **REFERENCE)
    for sol, style, label in ((before, BEFORE, "free"), (after, AFTER, "feedback")):
        A = np.asarray(sol.A)[:, 1]
        angle = np.degrees(np.unwrap(np.arctan2(A[:, 0, 2], A[:, 2, 2])))
        both.plot(sol.t, angle, **style, label=label)
        if sol is after:
            tilt.plot(sol.t, angle, **style, label=label)
        position.plot(sol.t, np.asarray(sol.r)[:, 0, 0], **style)
    both.set(xlabel="t [s]", ylabel="tilt of the poles [°]")
    both.yaxis.set_major_locator(MultipleLocator(90.0))
    legend_above(both)
    tilt.set(xlabel="t [s]", ylabel="tilt of the poles [°]")
    legend_above(tilt)
    position.set(xlabel="t [s]", ylabel="cart [m]")
    save(figure, folder / "lqr.png")
