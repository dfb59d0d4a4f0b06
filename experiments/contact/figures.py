"""Pictures of the contact experiment."""

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

import jaxmbd as mbd

from . import scenes


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
    dry = scenes.pendulum(mbd.CoulombFriction("dry", "pin", bound=0.6))
    sol = mbd.simulate(*dry, t_end=6.0, h=5e-3)
    axes[2].plot(sol.t, sol.joint("pin").angle)
    stuck = np.asarray(sol.friction("dry").state)[:, 0] == 1
    held = np.where(stuck, sol.joint("pin").angle, np.nan)
    axes[2].plot(sol.t, held, lw=3, label="sticks")
    axes[2].set(xlabel="time [s]", ylabel="angle [rad]", title="dry friction in the pin")
    axes[2].legend(frameon=False)
    figure.savefig(out / "motions.png", dpi=130)
    plt.close(figure)
