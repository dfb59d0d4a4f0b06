"""Pictures of the bicycle experiment."""

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt


def draw(results, out):
    """All pictures of `results` into a folder."""
    stability(results, out / "eigenvalues.png")
    pushed(results["nonlinear"], out / "pushed.png")
    design(results["design"], results["design_growth"], out / "design.png")


def stability(results, path):
    """Eigenvalues over the speed, as in the paper's Figure 3."""
    speeds = np.array(results["over_speed"]["speeds"])
    values = np.array(results["over_speed"]["values"])
    real, imaginary = values[..., 0], values[..., 1]
    figure, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    v = np.repeat(speeds, 4)
    oscillates = np.abs(imaginary.reshape(-1)) > 1e-6
    ax.plot(
        v[~oscillates], real.reshape(-1)[~oscillates], ".", ms=3, c="C0", label="real eigenvalue"
    )
    ax.plot(
        v[oscillates], real.reshape(-1)[oscillates], ".", ms=3, c="C1", label="real part of a pair"
    )
    up = oscillates & (imaginary.reshape(-1) > 0)
    ax.plot(v[up], imaginary.reshape(-1)[up], ".", ms=2, c="0.6", label="imaginary part of a pair")
    ax.axhline(0.0, c="0.3", lw=0.8)
    for name in ("weave", "capsize"):
        speed = results[f"{name}_speed"]
        ax.axvline(speed, c="0.5", lw=0.8, ls="--")
        side = "right" if name == "weave" else "left"
        ax.text(speed, 10.2, f"{name} {speed:.3f} m/s", ha=side, va="bottom")
    ax.set(xlim=(0, 10), ylim=(-10, 10), xlabel="speed [m/s]", ylabel="eigenvalue [1/s]")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, markerscale=3)
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


def design(history, growth, path):
    """The descent of the weave speed, the geometry on its way, and the growth before and after."""
    figure, axes = plt.subplots(1, 3, figsize=(12.0, 3.4), layout="constrained")
    axes[0].plot([x["speed"] for x in history], "o-", ms=3)
    axes[0].set(xlabel="iteration", ylabel="weave speed [m/s]")
    for name in ("wheelbase", "trail", "steer_tilt", "front_radius"):
        start = history[0][name]
        axes[1].plot([x[name] / start for x in history], "o-", ms=3, label=name.replace("_", " "))
    axes[1].set(xlabel="iteration", ylabel="part of its first value")
    axes[1].legend(frameon=False, fontsize=8)
    for when in ("before", "after"):
        axes[2].plot(growth["speeds"], growth[when], label=f"{when} the descent")
    axes[2].axhline(0.0, c="0.3", lw=0.8)
    axes[2].set(xlabel="speed [m/s]", ylabel="largest real part [1/s]", xlim=(1, 6), ylim=(-1, 3))
    axes[2].legend(frameon=False)
    figure.savefig(path, dpi=140)
    plt.close(figure)
