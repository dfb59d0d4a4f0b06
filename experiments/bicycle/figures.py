"""Pictures of the bicycle experiment."""

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt


def draw(results, out):
    """All pictures of `results` into a folder."""
    stability(results, out / "eigenvalues.png")
    pushed(results["nonlinear"], out / "pushed.png")
    design(results["design"], out / "design.png")


def stability(results, path):
    """Eigenvalues over the speed, as in the paper's Figure 3."""
    speeds = np.array(results["over_speed"]["speeds"])
    values = np.array(results["over_speed"]["values"])
    real, imaginary = values[..., 0], values[..., 1]
    figure, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    v = np.repeat(speeds, 4)
    oscillates = np.abs(imaginary.reshape(-1)) > 1e-6
    ax.plot(v[~oscillates], real.reshape(-1)[~oscillates], ".", ms=3, c="C0", label="real")
    ax.plot(v[oscillates], real.reshape(-1)[oscillates], ".", ms=3, c="C1", label="real part, pair")
    up = oscillates & (imaginary.reshape(-1) > 0)
    ax.plot(v[up], imaginary.reshape(-1)[up], ".", ms=2, c="0.6", label="imaginary part, pair")
    ax.axhline(0.0, c="0.3", lw=0.8)
    for name in ("weave", "capsize"):
        speed = results[f"{name}_speed"]
        ax.axvline(speed, c="0.5", lw=0.8, ls="--")
        ax.annotate(f"{name} {speed:.3f} m/s", (speed, 8.6), rotation=90, ha="right", va="top")
    ax.set(xlim=(0, 10), ylim=(-10, 10), xlabel="speed [m/s]", ylabel="eigenvalue [1/s]")
    ax.legend(loc="lower left", frameon=False, markerscale=3)
    figure.savefig(path, dpi=140)
    plt.close(figure)


def pushed(runs, path):
    """Lean, steering and energy after a push."""
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.4), layout="constrained")
    finest = runs[list(runs)[-1]]
    t = np.array(finest["t"])
    axes[0].plot(t, np.degrees(finest["roll"]), label="lean")
    axes[0].plot(t, np.degrees(finest["steer"]), label="steering")
    axes[0].set(xlabel="time [s]", ylabel="angle [°]")
    axes[0].legend(frameon=False)
    x, y = np.array(finest["path"]).T
    axes[1].plot(x, y)
    axes[1].set(xlabel="x [m]", ylabel="y [m]", title="rear wheel's center, from above")
    for name, run in runs.items():
        change = np.abs(np.array(run["energy"])) + 1e-16
        axes[2].semilogy(run["t"][1:], change[1:], label=f"h = {float(name) * 1e3:g} ms")
    axes[2].set(xlabel="time [s]", ylabel="change of the energy [J]")
    axes[2].legend(frameon=False)
    figure.savefig(path, dpi=140)
    plt.close(figure)


def design(history, path):
    """The descent of the weave speed, and the geometry on its way."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    axes[0].plot([x["speed"] for x in history], "o-", ms=3)
    axes[0].set(xlabel="iteration", ylabel="weave speed [m/s]")
    for name in ("wheelbase", "trail", "steer_tilt", "front_radius"):
        start = history[0][name]
        axes[1].plot([x[name] / start for x in history], "o-", ms=3, label=name.replace("_", " "))
    axes[1].set(xlabel="iteration", ylabel="part of its first value")
    axes[1].legend(frameon=False)
    figure.savefig(path, dpi=140)
    plt.close(figure)
