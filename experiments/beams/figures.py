"""Pictures of the experiment."""

import json

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

import jaxmbd as mbd
from jaxmbd.viz.beams import beam_lines

from . import scenes


def draw(out, quick):
    """All pictures into a folder."""
    figure, axes = plt.subplots(1, 2 if quick else 3, figsize=(12.0, 3.6), layout="constrained")
    _circle(axes[0])
    _spin_up(axes[1], quick)
    if not quick:
        _orders(axes[2], json.loads((out / "results.json").read_text(encoding="utf-8")))
    figure.savefig(out / "beams.png", dpi=130)
    plt.close(figure)


def _circle(ax):
    section = scenes.stout()  # its shapes are those of any section
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        m, last = scenes.clamped(section, 8)
        moment = share * 2.0 * np.pi * section.E * section.I
        m.add(mbd.Torque("moment", last, torque=moment * scenes.Y, frame="body"))
        state = mbd.equilibrium(*m.build(), max_steps=400).state
        line, _ = beam_lines(np.asarray(state.r), np.asarray(state.A), np.zeros(2))
        ax.plot(line[:, 0], -line[:, 2], c="tab:blue", lw=1.2)
        ax.plot(state.r[:, 0], -state.r[:, 2], "o", c="tab:blue", ms=3)
    ax.set(aspect="equal", xlabel="x [m]", ylabel="deflection [m]")
    ax.set_title("pure bending, 8 elements")


def _spin_up(ax, quick):
    seconds = 1.0 if quick else 20.0
    sol = mbd.simulate(
        *mbd.load("spin_up_beam:4" if quick else "spin_up_beam:16"),
        t_end=seconds,
        h=5e-3,
        save_every=4,
        integrator=mbd.GeneralizedAlpha(),
    )
    tip = np.einsum("tji,tj->ti", np.asarray(sol.A[:, 0]), np.asarray(sol.r[:, -1]))
    ax.plot(sol.t, tip[:, 1])
    ax.set(xlabel="time [s]", ylabel="deflection of the tip [m]", title="spin-up (Simo, Vu-Quoc)")


def _orders(ax, results):
    for name, key, k in (
        ("first frequency", "frequencies", 0),
        ("third frequency", "frequencies", 2),
        ("Euler load", "buckling", None),
        ("lateral buckling", "lateral_buckling", None),
    ):
        found = results.get(key, {})
        n = np.array([int(x) for x in found])
        errors = [abs(x if k is None else x[k]) for x in found.values()]
        if len(n):
            ax.loglog(n, errors, "o-", ms=4, label=name)
    n = np.array([8.0, 32.0])
    ax.loglog(n, 0.3 / n**2, c="0.7", lw=0.8, label="second order")
    ax.set(xlabel="elements", ylabel="relative error", title="refinement")
    ax.set_xticks([8, 16, 32], ["8", "16", "32"])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize=8)
