"""A four-bar whose rocker has friction and a buffer that its model does not have: the measured
motions, the model with a network in the place of the unknown torque, and two ways to fit it.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.signal import savgol_filter

import jaxmbd as mbd

from ..control import problems
from ..control.minimal import FourBar
from ..minimal_coordinates import box_inertia, integrate, kinetic_energy
from .problem import runge_kutta

SCALE = 500.0  # of the network [N·m]
NOISE = 1e-3  # of a measured angle [rad]
BEGIN = np.pi / 3.0  # of the crank, at rest [rad]
_BASE = FourBar().base


class Drive(NamedTuple):
    """Torque of the motor, bias + amplitude sin(rate t + phase), scalars or (n,) [N·m, rad/s]."""

    bias: jax.Array
    amplitude: jax.Array
    rate: jax.Array
    phase: jax.Array

    def __call__(self, t):
        return self.bias + self.amplitude * jnp.sin(self.rate * t + self.phase)


def drives(key, count: int, largest: float = 600.0) -> Drive:
    """Drives at random, (count,) each."""
    a, b, c, d = jax.random.uniform(key, (4, count), dtype=jnp.float64)
    amplitude = largest * (0.4 + 0.6 * a)
    return Drive(0.3 * largest * (2.0 * b - 1.0), amplitude, 2.0 + 5.0 * c, 2.0 * jnp.pi * d)


def true_torque(angle, rate):
    """On the rocker about its pin [N·m]: Stribeck friction, and a buffer below 1.5 rad."""
    friction = 120.0 + 180.0 * jnp.exp(-((rate / 0.3) ** 2))
    buffer = 3000.0 * jnp.maximum(1.5 - angle, 0.0) ** 1.5
    return -friction * jnp.tanh(rate / 0.1) + buffer


class Residual(eqx.Module):
    """A torque on the rocker as a function of its angle from x towards z and of its rate."""

    net: eqx.nn.MLP

    def __init__(self, key):
        self.net = eqx.nn.MLP(3, "scalar", 16, 2, jnp.tanh, key=key, dtype=jnp.float64)

    def __call__(self, angle, rate):
        seen = jnp.stack([2.0 * (angle - 1.8), rate, jnp.tanh(4.0 * rate)])
        return SCALE * self.net(seen)


def nothing(angle, rate):
    """The model without it."""
    return 0.0 * rate


# The mechanism, in minimal coordinates


def rocker(q):
    """Angle of the rocker from x towards z at the angle q, (1,), of the crank."""
    center = FourBar().poses(q)[0][2]
    return jnp.arctan2(center[2], center[0] - _BASE)


def accelerations(torque: Callable, drive: Drive) -> Callable:
    """q̈(t, q, v) of the crank's angle, with `torque(angle, rate)` on the rocker.

    One degree of freedom: m(q) q̈ + m'(q) q̇² / 2 = Q with the kinetic energy m(q) q̇² / 2.
    """
    p = FourBar()
    mass = p.density * p.width**2 * np.array(p.lengths)
    sizes = [(length, p.width, p.width) for length in p.lengths]
    inertia = np.stack([np.diag(box_inertia(m, s)) for m, s in zip(mass, sizes, strict=True)])
    energy = kinetic_energy(p.poses, mass, inertia)

    def equations(t, q, v):
        one = jnp.ones_like(q)
        m, slope = jax.jvp(lambda q: 2.0 * energy(q, one), (q,), (one,))
        angle, lever = jax.jvp(rocker, (q,), (one,))
        load = drive(t) - p.damping * v + torque(angle, lever * v[0]) * lever
        return (load - 0.5 * slope * v**2) / m

    return equations


def measured(drives: Drive, t) -> np.ndarray:
    """Angles of the crank of the true linkage, (n, T), under n drives, without noise, by DOP853."""
    n = drives.bias.size

    def together(t, q, v):
        one = lambda drive, q, v: accelerations(true_torque, drive)(t, q[None], v[None])[0]  # noqa: E731
        return jax.vmap(one)(drives, q, v)

    q, _ = integrate(together, np.full(n, BEGIN), np.zeros(n), t, rtol=1e-9, atol=1e-10)
    return q.T


def followed(torque: Callable, drive: Drive, *, h: float, steps: int):
    """Angle of the crank, (steps + 1,), of a model in minimal coordinates."""
    first = jnp.array([BEGIN])
    q, _ = runge_kutta(accelerations(torque, drive), first, jnp.zeros_like(first), h=h, steps=steps)
    return q[:, 0]


# The same by this package


def simulated(torque: Callable, drive: Drive, *, h: float, steps: int, integrator, save_every=1):
    """Angle of the crank, (T,), and how the run ended."""

    def on_rocker(pose, twist, t):
        angle = jnp.arctan2(pose.A[0, 2, 0], pose.A[0, 0, 0])
        moment = -torque(angle, -twist.omega[0, 1])
        return jnp.zeros((1, 3)), moment * jnp.array([[0.0, 1.0, 0.0]])

    m = problems.four_bar_motor(lambda t: -drive(t))
    m.add(mbd.UserForce("residual", ["rocker"], on_rocker))
    sol = mbd.simulate(
        *m.build(), h=h, steps=steps, integrator=integrator, save_every=save_every, throw=False
    )
    along, across = sol.A[:, 0, 0, 0], sol.A[:, 0, 2, 0]
    sin = across[1:] * along[:-1] - along[1:] * across[:-1]
    cos = along[1:] * along[:-1] + across[1:] * across[:-1]
    turned = jnp.cumsum(jnp.arctan2(sin, cos))
    return BEGIN + jnp.concatenate([jnp.zeros(1), turned]), sol.result


# From differences of the measured angles


def differences(measured, spacing: float, window: int):
    """Angles, rates and accelerations, (n, T) each, by local cubic polynomials over a window, or by
    central differences for a window of 3.
    """
    if window == 3:
        rate = (measured[:, 2:] - measured[:, :-2]) / (2.0 * spacing)
        second = (measured[:, 2:] - 2.0 * measured[:, 1:-1] + measured[:, :-2]) / spacing**2
        return measured[:, 1:-1], rate, second
    return tuple(
        savgol_filter(measured, window, 3, deriv=k, delta=spacing, axis=1) for k in range(3)
    )


@jax.jit
def needed(drives: Drive, t, q, v, a):
    """What the torque on the rocker must have been for accelerations a, all (n, T): its angle, its
    rate, its lever and its generalized force [N·m].
    """

    def one(drive, t, q, v, a):
        q, v = q[None], v[None]
        equations = accelerations(lambda angle, rate: 0.0, drive)
        # The equations are linear in the load: one more unit of it gives the inverse of the mass.
        more = accelerations(lambda angle, rate: 0.0, drive._replace(bias=drive.bias + 1.0))
        free = equations(t, q, v)[0]
        angle, rate = jax.jvp(rocker, (q,), (v,))
        return angle, rate, jax.grad(rocker)(q)[0], (a - free) / (more(t, q, v)[0] - free)

    rows = jax.vmap(one, (None, 0, 0, 0, 0))
    return jax.vmap(rows, (0, None, 0, 0, 0))(drives, t, q, v, a)
