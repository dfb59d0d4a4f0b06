"""Families of mechanisms."""

import numpy as np

from ..model.joints import Spherical
from ..model.mechanism import Mechanism
from ..model.shapes import Box

# Gravity of the published N-pendulum runs: 9.81 m/s² along this unit vector.
_GRAVITY = 9.81 * np.array([0.07169162, 0.68473815, 0.72525442])


def n_pendulum(n: int = 4, *, seed: int = 0) -> Mechanism:
    """A chain of n steel bars, 2 m long and 0.05 m square, on spherical joints, hanging down and spun at random.

    Rates are uniform in [-10, 10] rad/s; velocities of the mass centres follow when the state is assembled.

    Args:
        n: Number of bars.
        seed: Of the random rates.
    """
    if n < 1:
        raise ValueError(f"n_pendulum needs at least one bar, not {n}")
    rates = np.random.default_rng(seed).uniform(-10.0, 10.0, (n, 3))
    m = Mechanism(f"n_pendulum:{n}", gravity=_GRAVITY)
    bar = Box((2.0, 0.05, 0.05), density=7800.0)
    A = [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]
    last = m.ground
    for k in range(n):
        body = m.add_body(f"bar{k + 1}", shape=bar, r=(0.0, 0.0, -(2.0 * k + 1.0)), A=A, omega=rates[k])
        m.add(Spherical(f"joint{k + 1}", last, body, point=(0.0, 0.0, -2.0 * k)))
        last = body
    return m


GENERATORS = {"n_pendulum": n_pendulum}
