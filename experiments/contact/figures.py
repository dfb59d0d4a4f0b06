"""Pictures of the contact experiment."""

import json

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

import jaxmbd as mbd

from . import juggling, mechanisms, scenes, stops, woodpecker


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
    events(out, quick)
    path = out / "results.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if "scale" in found:
        scale(out, found["scale"])
    if "juggling" in found:
        juggled(out, found["juggling"])


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


def events(out, quick):
    """Slider crank with a stop, and woodpecker toy, on their reference motions."""
    figure, axes = plt.subplots(1, 3, figsize=(12.0, 3.4), layout="constrained")
    sol = mbd.simulate(*stops.slider_crank(), t_end=stops.SECONDS, h=1e-3)
    t = np.linspace(0.0, stops.SECONDS, 1000)
    exact = {"c": "0.75", "lw": 4.0}
    angle = stops.exact(stops.SECONDS)[0](t)
    turned = stops.ANGLE + np.asarray(sol.joint("main").angle)
    axes[0].plot(t, angle, label="minimal coordinate, events", **exact)
    axes[0].plot(sol.t, turned, lw=1, label="h = 1 ms")
    axes[0].set(xlabel="time [s]", ylabel="[rad]", title="crank of a slider crank with a stop")
    seconds = 0.1 if quick else 0.4
    t, q, _ = woodpecker.minimal(seconds, 1e-5)
    sol = mbd.simulate(*woodpecker.toy(), t_end=seconds, h=1e-4)
    moved = woodpecker.coordinates(sol)
    parts = (("height of the sleeve", "[mm]", 0, 1e3), ("angle of the bird", "[rad]", 2, 1.0))
    for ax, (title, unit, k, scale) in zip(axes[1:], parts, strict=True):
        ax.plot(t, scale * q[:, k], label="minimal coordinates, h = 10 µs", **exact)
        ax.plot(sol.t, scale * moved[:, k], lw=1, label="h = 100 µs")
        ax.set(xlabel="time [s]", ylabel=unit, title=f"woodpecker: {title}")
    for ax in axes:
        low, high = ax.get_ylim()
        ax.set_ylim(low, high + 0.25 * (high - low))
        ax.legend(frameon=False, loc="upper right", fontsize=8)
    figure.savefig(out / "events.png", dpi=130)
    plt.close(figure)


def juggled(out, found):
    """The motion of a ball that is juggled, and the way to it by every method."""
    figure, axes = plt.subplots(1, 2, figsize=(10.0, 3.6), layout="constrained")
    h, steps = juggling.PERIOD / juggling.PER_PERIOD, juggling.STRIKES * juggling.PER_PERIOD
    sol = mbd.simulate(*juggling.scene(np.array(found["moves"])), steps=steps, h=h)
    x, z = np.asarray(sol.r[:, 1, 0]), np.asarray(sol.r[:, 1, 2]) - juggling.RADIUS
    axes[0].plot(x, z, lw=1)
    axes[0].plot(juggling.MARKS, [juggling.HEIGHT] * juggling.STRIKES, "x", c="tab:red")
    axes[0].set(
        xlabel="x [m]", ylabel="height of the ball [m]", title="four strikes, and the marks"
    )
    tab = ("tab:blue", "tab:red", "tab:orange", "tab:green")
    colors = dict(zip(juggling.METHODS, tab, strict=True))
    for name, color in colors.items():
        if name not in found:
            continue
        curves = found[name]["miss_by_runs"]
        for k, miss in enumerate(curves["miss"]):
            label = None if k else name.replace("_", " ")
            axes[1].semilogy(curves["runs"], miss, c=color, lw=1, label=label)
    axes[1].set(xlabel="simulated runs", ylabel="miss [m]", title="best so far, by start")
    axes[1].legend(frameon=False)
    figure.savefig(out / "juggling.png", dpi=130)
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
