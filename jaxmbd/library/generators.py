"""Families of mechanisms."""

from collections.abc import Callable

import numpy as np

from ..model.joints import Revolute, Spherical
from ..model.mechanism import Mechanism
from ..model.shapes import Box, Cone
from .beams import (
    cantilever,
    flexible_slider_crank,
    four_bar_flexible_coupler,
    spin_up_beam,
)
from .bicycle import whipple_bicycle
from .couplings import cam_follower, differential, gear_train, planetary_gear, rolling_disc
from .six_body_linkage import six_body_linkage
from .stewart import stewart_platform, stewart_platform_legs

# Gravity of the published N-pendulum runs: 9.81 m/s² along this unit vector.
_GRAVITY = 9.81 * np.array([0.07169162, 0.68473815, 0.72525442])


def n_pendulum(n: int = 4, *, seed: int = 0) -> Mechanism:
    """A chain of n steel bars, 2 m long and 0.05 m square, on spherical joints, hanging down and
    spun at random.

    Rates are uniform in [-10, 10] rad/s; velocities of the mass centers follow when the state is
    assembled.

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
        body = m.add_body(
            f"bar{k + 1}", shape=bar, r=(0.0, 0.0, -(2.0 * k + 1.0)), A=A, omega=rates[k]
        )
        m.add(Spherical(f"joint{k + 1}", last, body, point=(0.0, 0.0, -2.0 * k)))
        last = body
    return m


def revolute_chain(n: int = 8) -> Mechanism:
    """A chain of n bars of 1 m and 1 kg, hanging down on hinges whose axes alternate between x and
    y; gravity is askew.

    Args:
        n: Number of bars.
    """
    if n < 1:
        raise ValueError(f"revolute_chain needs at least one bar, not {n}")
    m = Mechanism(f"revolute_chain:{n}", gravity=(3.0, 1.0, -9.0))
    last = m.ground
    for k in range(n):
        body = m.add_body(
            f"bar{k + 1}", mass=1.0, inertia=(1 / 12, 1 / 12, 1e-3), r=(0.0, 0.0, -(k + 0.5))
        )
        axis = (1.0, 0.0, 0.0) if k % 2 == 0 else (0.0, 1.0, 0.0)
        m.add(Revolute(f"hinge{k + 1}", last, body, point=(0.0, 0.0, -float(k)), axis=axis))
        last = body
    return m


def four_bar_ladder(n: int = 8) -> Mechanism:
    """N four-bars side by side that share their rockers: n + 1 rockers of 1 m on the ground and n
    couplers, 1 kg each.

    Every hinge turns about y, so each loop has three redundant rows; the whole has one freedom. It
    starts upright, every bar with the velocities of rockers that turn at 1 rad/s.

    Args:
        n: Number of loops.
    """
    if n < 1:
        raise ValueError(f"four_bar_ladder needs at least one loop, not {n}")
    m = Mechanism(f"four_bar_ladder:{n}")
    y, thin, thick = (0.0, 1.0, 0.0), 1e-3, 1 / 12
    rockers = []
    for k in range(n + 1):
        inertia = (thick, thick, thin)
        rocker = m.add_body(
            f"rocker{k}",
            mass=1.0,
            inertia=inertia,
            r=(k, 0.0, 0.5),
            v=(0.5, 0.0, 0.0),
            omega=(0.0, 1.0, 0.0),
        )
        m.add(Revolute(f"ground{k}", m.ground, rocker, point=(k, 0.0, 0.0), axis=y))
        rockers.append(rocker)
    for k in range(n):
        coupler = m.add_body(
            f"coupler{k + 1}",
            mass=1.0,
            inertia=(thin, thick, thick),
            r=(k + 0.5, 0.0, 1.0),
            v=(1.0, 0.0, 0.0),
        )
        m.add(Revolute(f"left{k + 1}", rockers[k], coupler, point=(k, 0.0, 1.0), axis=y))
        m.add(Revolute(f"right{k + 1}", coupler, rockers[k + 1], point=(k + 1.0, 0.0, 1.0), axis=y))
    return m


def gyro_top(*, theta: float = np.pi / 3, precession: float = 10.0) -> Mechanism:
    """A cone on its tip under gravity in steady precession (Betsch and Leyendecker, section 5.1).

    Its mass center stays at the angle `theta` from the vertical and turns about it at the rate
    `precession`; the spin about the cone's own axis follows from the two (Eq. 165).

    Args:
        theta: From the vertical to the cone's axis [rad].
        precession: About the vertical [rad/s], not zero.
    """
    if precession == 0.0:
        raise ValueError("gyro_top: precession must not be zero; the spin would be infinite")
    height, radius, g = 0.1, 0.05, 9.81
    mass, arm = 2700 * np.pi * radius**2 * height / 3, 0.75 * height
    J1, J3 = 3 * mass / 80 * (4 * radius**2 + height**2), 3 * mass / 10 * radius**2
    M1 = J1 + mass * arm**2  # about the tip
    spin = mass * g * arm / (J3 * precession) + (M1 - J3) / J3 * precession * np.cos(theta)
    c, s = np.cos(theta), np.sin(theta)
    A = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    omega = precession * np.array([0, 0, 1.0]) + spin * A[:, 2]
    r = arm * A[:, 2]
    m = Mechanism("gyro_top", gravity=(0.0, 0.0, -g))
    m.add_body(
        "top",
        mass=mass,
        inertia=(J1, J1, J3),
        shape=Cone(radius, height, mass=mass),
        r=r,
        A=A,
        omega=A.T @ omega,
        v=np.cross(omega, r),
    )
    m.add(Spherical("tip", m.ground, "top", point=(0.0, 0.0, 0.0)))
    return m


# Those of a size take it as their argument; the number of bodies that this makes.
SIZED: dict[str, Callable[[int], int]] = {
    "n_pendulum": lambda n: n,
    "revolute_chain": lambda n: n,
    "four_bar_ladder": lambda n: 2 * n + 1,
    "gear_train": lambda n: n,
    "cantilever": lambda n: n + 1,
    "spin_up_beam": lambda n: n + 1,
    "flexible_slider_crank": lambda n: n + 3,
    "four_bar_flexible_coupler": lambda n: n + 3,
}
GENERATORS = {
    "n_pendulum": n_pendulum,
    "revolute_chain": revolute_chain,
    "four_bar_ladder": four_bar_ladder,
    "gyro_top": gyro_top,
    "six_body_linkage": six_body_linkage,
    "stewart_platform": stewart_platform,
    "stewart_platform_legs": stewart_platform_legs,
    "gear_train": gear_train,
    "planetary_gear": planetary_gear,
    "differential": differential,
    "cam_follower": cam_follower,
    "rolling_disc": rolling_disc,
    "whipple_bicycle": whipple_bicycle,
    "cantilever": cantilever,
    "spin_up_beam": spin_up_beam,
    "flexible_slider_crank": flexible_slider_crank,
    "four_bar_flexible_coupler": four_bar_flexible_coupler,
}
