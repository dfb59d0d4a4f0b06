"""Pictures of the contact experiment."""

import json

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

import jaxmbd as mbd

from . import mechanisms, scenes


def draw(out, quick):
    """All pictures into a folder."""
    figure, axes = plt.subplots(1, 3, figsize=(12.0, 3.4), layout="constrained")
    ball = mbd.simulate(*scenes.ball(), t_end=2.0, h=0.05)
    t = np.linspace(0.0, 2.0, 1000)
    axes[0].plot(t, [scenes.bouncing_height(x, 0.8) for x in t], c="0.7", label="closed form")
    axes[0].plot(ball.t, ball.r[:, 0, 2] - 0.1, "o", ms=3, label="h = 50 ms")
    axes[0].set(xlabel="time [s]", ylabel="height [m]", title="restitution 0.8", ylim=(-0.05, 1.35))
    axes[0].legend(frameon=False, loc="upper right", ncols=2)
    rolling = scenes.ball(height=0.0, restitution=0.0, friction=0.3, v=(2.0, 0.0, 0.0))
    sol = mbd.simulate(*rolling, t_end=0.5, h=1e-2)
    axes[1].plot(sol.t, sol.v[:, 0, 0], label="speed of the center")
    axes[1].plot(sol.t, 0.1 * np.asarray(sol.omega[:, 0, 1]), label="speed of the rim")
    axes[1].axhline(10.0 / 7.0, c="0.7", lw=0.8)
    axes[1].set(xlabel="time [s]", ylabel="[m/s]", title="slipping into rolling")
    axes[1].legend(frameon=False)
    sol = mbd.simulate(*scenes.dry_oscillator(), t_end=25.0, h=2e-2)
    x = np.asarray(sol.r[:, 0, 0])
    axes[2].plot(sol.t, x)
    stuck = np.asarray(sol.friction("dry").state)[:, 0] == 1
    axes[2].plot(sol.t, np.where(stuck, x, np.nan), lw=3, label="sticks")
    axes[2].set(xlabel="time [s]", ylabel="x [m]", title="dry oscillator")
    axes[2].legend(frameon=False)
    figure.savefig(out / "motions.png", dpi=130)
    plt.close(figure)
    play(out, quick)
    path = out / "results.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if "scale" in found:
        scale(out, found["scale"])


def play(out, quick):
    """Slider crank with play: height and tilt of the slider, energy."""
    sol, _ = mechanisms.with_play(quick)
    t = 1e3 * np.asarray(sol.t)
    figure, axes = plt.subplots(1, 3, figsize=(12.0, 3.2), layout="constrained")
    axes[0].plot(t, 1e3 * np.asarray(sol.r[:, 2, 2]), lw=1)
    for side in (-1, 1):
        axes[0].axhline(1e3 * side * mechanisms.PLAY, c="0.6", lw=0.8, ls="--")
    axes[0].set(xlabel="time [ms]", ylabel="[mm]", title="height of the slider in its guide")
    tilt = np.arcsin(np.asarray(sol.A[:, 2, 0, 2]))
    axes[1].plot(t, 1e3 * tilt, lw=1)
    axes[1].set(xlabel="time [ms]", ylabel="[mrad]", title="tilt of the slider")
    axes[2].plot(t, sol.energy().total, lw=1)
    axes[2].set(xlabel="time [ms]", ylabel="[J]", title="energy")
    figure.savefig(out / "play.png", dpi=130)
    plt.close(figure)


def scale(out, found):
    """Time of a step against the number of closed contacts."""
    figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    for kind, marker in (("wall", "s"), ("balls", "o")):
        rows = [x for name, x in found.items() if kind in name]
        counts = [x["most_closed"] for x in rows]
        ax.loglog(counts, [x["ms_per_step"] for x in rows], marker=marker, label=kind)
    ax.set(xlabel="closed contacts, at most", ylabel="processor time of a step [ms]")
    ax.legend(frameon=False)
    figure.savefig(out / "scale.png", dpi=130)
    plt.close(figure)
