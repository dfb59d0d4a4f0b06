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


def swing_up(plan, fine, exact, limits, folder):
    figure, (force, angle, place, errors) = panels(4)
    for ax, limit in ((force, limits[0]), (place, limits[1])):
        for side in (-limit, limit):
            ax.axhline(side, color="0.4", lw=0.8, ls=":")
    force.plot(plan.t, plan.inputs["push"], **AFTER)
    force.set(xlabel="t [s]", ylabel="force on the cart [N]")
    A = np.asarray(fine.A)[:, 1]
    turned = np.unwrap(np.arctan2(-A[:, 0, 2], A[:, 2, 2]))
    angle.plot(fine.t, np.degrees(exact[0][:, 1]), **REFERENCE, label="minimal coordinates")
    angle.plot(fine.t, np.degrees(turned), **AFTER, label="replay")
    angle.set(xlabel="t [s]", ylabel="pole from hanging [°]")
    angle.yaxis.set_major_locator(MultipleLocator(90.0))
    legend_above(angle)
    place.plot(fine.t, exact[0][:, 0], **REFERENCE)
    place.plot(fine.t, np.asarray(fine.r)[:, 0, 0], **AFTER)
    place.plot(plan.t, np.asarray(plan.states.r)[:, 0, 0], ls="", marker=".", ms=4, color="k")
    place.set(xlabel="t [s]", ylabel="cart [m]")
    errors.semilogy([i.misses for i in plan.iterations], **BEFORE, label="motion and limits")
    errors.semilogy([i.slope for i in plan.iterations], **AFTER, label="slope of the Lagrangian")
    errors.set(xlabel="iteration", ylabel="error")
    legend_above(errors)
    save(figure, folder / "swing_up.png")


def fastest(plans, folder):
    figure, axes = panels(3)
    for ax, (name, plan) in zip(axes, plans.items(), strict=False):
        for k, (label, torque) in enumerate(plan.inputs.items()):
            ax.step(plan.t[:-1], torque, where="post", color=f"C{k}", lw=1.2, label=label)
        ax.set(xlabel="t [s]", ylabel=f"{name.replace('_', '-')}: torque [N·m]")
        legend_above(ax, 3)
    plan = plans["delta"]
    for k, (label, slopes) in enumerate(plan.switching.items()):
        axes[2].plot(plan.t[:-1], slopes, color=f"C{k}", lw=1.2, label=label)
    axes[2].axhline(0.0, color="0.4", lw=0.8, ls=":")
    axes[2].set(xlabel="t [s]", ylabel="delta: slope of the Hamiltonian [1/(N·m)]")
    save(figure, folder / "fastest.png")


def predictive(runs, rates, stands, limit, folder):
    only = [k for k in range(len(rates)) if stands["mpc"][k] and not stands["lqr"][k]]
    k = only[-1] if only else 0
    figure, (angle, force) = panels(2, width=5.0)
    for name, style in (("lqr", BEFORE), ("mpc", AFTER)):
        sol = runs[name][k]
        angle.plot(sol.t, np.degrees(np.asarray(sol["hinge.angle"])), **style, label=name.upper())
        force.plot(sol.t, sol["push"], **style)
    angle.set(xlabel="t [s]", ylabel="pole from upright [°]", ylim=(-60.0, 60.0))
    legend_above(angle)
    for side in (-limit, limit):
        force.axhline(side, color="0.4", lw=0.8, ls=":")
    force.set(xlabel="t [s]", ylabel="force on the cart [N]")
    save(figure, folder / "predictive.png")


def four_bar(t, torque, target, wanted, after, exact, folder):
    figure, (profile, path, miss) = panels(3)
    profile.plot(target.t, wanted, **REFERENCE, label="inverse dynamics")
    profile.plot(t, torque, **AFTER, label="plan")
    profile.set(xlabel="t [s]", ylabel="motor torque [N·m]")
    legend_above(profile)
    goal = np.asarray(target.r)[:, 1]
    path.plot(goal[:, 0], goal[:, 2], **REFERENCE, label="path")
    path.plot(exact[:, 0], exact[:, 2], **AFTER, label="plan, minimal coordinates")
    path.set(xlabel="coupler's x [m]", ylabel="coupler's z [m]")
    legend_above(path)
    for r, style, label in (
        (np.asarray(after.r)[:, 1], BEFORE | {"ls": "-", "lw": 0.7}, "replay"),
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
