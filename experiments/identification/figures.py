"""The figures of this experiment."""

import numpy as np

from ..drawing import AFTER, BEFORE, DATA, REFERENCE, legend_above, panels, save


def _short(name):
    return name.replace("bodies.", "").replace("forces.", "").replace("joints.", "")


def _coverage(ax, found):
    """Shares of intervals that contain the truth, with 1.96 binomial deviations of a right one."""
    own, reach = found["parameters"], 1.96 * found["binomial_deviation_of_0.95"]
    ax.axvspan(0.95 - reach, 0.95 + reach, color="0.9", lw=0)
    ax.axvline(0.95, color="0.5", lw=0.8)
    shares = [x["covered"] for x in own.values()]
    ax.plot(shares, range(len(own)), "o", color="tab:blue", ms=5)
    ax.set_yticks(range(len(own)), [_short(name) for name in own], fontsize=7)
    ax.set(
        xlabel="share of 95 % intervals\nthat contain the truth",
        xlim=(min(0.88, *shares) - 0.01, 1.01),
    )
    ax.margins(y=0.2)


def slider(data, before, after, coverage, path):
    """Position of the slider before and after the fit, what the fit leaves, and how often the
    intervals hold.
    """
    figure, (left, right, share) = panels(3)
    x = data.values["slider.r.x"]
    left.plot(data.t, x, **DATA, label="measured")
    left.plot(before.t, before.r[:, 2, 0], **BEFORE, label="first guess")
    left.plot(after.t, after.r[:, 2, 0], **AFTER, label="fitted")
    left.set(xlabel="t [s]", ylabel="slider position [m]")
    legend_above(left, 3)
    residual = (x - np.interp(data.t, after.t, after.r[:, 2, 0])) / data.sigma
    right.plot(data.t, residual, **DATA)
    right.axhline(0.0, color="0.3", lw=0.8)
    right.set(xlabel="t [s]", ylabel="residual / noise", ylim=(-4.5, 4.5))
    _coverage(share, coverage)
    save(figure, path)


def curve(data, before, after, coverage, path):
    """The coupler's mass center: measured, guessed, fitted; and how often the intervals hold."""
    figure, (ax, share) = panels(2, width=4.6, height=3.6)
    ax.plot(before.r[:, 1, 0], before.r[:, 1, 2], **BEFORE, label="first guess")
    ax.plot(after.r[:, 1, 0], after.r[:, 1, 2], **AFTER, label="fitted")
    ax.plot(
        data.values["coupler.r.x"],
        data.values["coupler.r.z"],
        **(DATA | {"ms": 4, "color": "0.3"}),
        label="measured",
    )
    ax.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
    legend_above(ax, 3)
    _coverage(share, coverage)
    save(figure, path)


def friction(rate, true, learned, history, data, before, after, path):
    """The law learned, the cost on the way, the motion of the tip."""
    figure, (law, cost, tip) = panels(3)
    law.plot(rate, true, **REFERENCE, label="true")
    law.plot(rate, learned, **AFTER, label="learned")
    law.set(xlabel="relative rate [rad/s]", ylabel="friction torque [N·m]")
    legend_above(law)
    cost.loglog(np.arange(1, len(history) + 1), history, color="tab:blue", lw=1.2)
    cost.set(xlabel="accepted points, the first guess included", ylabel="cost")
    tip.plot(data.t, data.values["bar3.r.x"], **DATA, label="measured")
    tip.plot(before.t, before.r[:, 2, 0], **BEFORE, label="untrained")
    tip.plot(after.t, after.r[:, 2, 0], **AFTER, label="trained")
    tip.set(xlabel="t [s]", ylabel="x of the last bar [m]")
    legend_above(tip, 3)
    save(figure, path)


def rig(record, viscous, dry, found, path):
    """What two models leave of the liveliest piece, and what every piece misses, from numbers that
    were fitted without it.
    """
    figure, (left, middle, right) = panels(3)
    report = viscous.experiments[0]
    for k, x in enumerate(report.measured.values()):
        left.plot(report.t, x, **DATA, label="measured" if k == 0 else None)
    for k, x in enumerate(report.predicted.values()):
        left.plot(report.t, x, **AFTER, label="fitted" if k == 0 else None)
    left.set(xlabel="t [s]", ylabel="absolute angles, liveliest piece [rad]")
    legend_above(left)
    for report, style, label in ((viscous, BEFORE, "viscous"), (dry, AFTER, "viscous and dry")):
        every = np.concatenate([np.stack(list(e.weighted.values())) for e in report.experiments])
        middle.plot(record.t, 1e3 * np.sqrt(np.mean(every**2, axis=0)), **style, label=label)
    middle.set(xlabel="t [s]", ylabel="rms residual of all pieces [mrad]")
    legend_above(middle)
    models = (
        ("published", found["published"]["pieces"], REFERENCE),
        ("viscous", found["viscous"]["left_out"]["pieces"], BEFORE),
        ("viscous and dry", found["viscous_and_dry"]["left_out"]["pieces"], AFTER),
    )
    for label, pieces, style in models:
        x = pieces["from_fitted_starts"]["angle_mrad"]
        right.plot(range(len(x)), x, marker="o", ms=3, **style, label=label)
    right.set(xlabel="piece", ylabel="rms angle, starts fitted [mrad]", ylim=(0.0, None))
    legend_above(right, 3)
    save(figure, path)
