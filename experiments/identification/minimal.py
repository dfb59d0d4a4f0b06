"""The identified mechanisms in minimal coordinates, written by hand: the source of all
measurements of dynamics.

Each class has the poses of the bodies of `problems`, in their order, as a function of the
coordinates, and the accelerations of the coordinates.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..minimal_coordinates import box_inertia, kinetic_energy, lagrange, tilted

GRAVITY = 9.81
SLIDING = 0.05  # rate at which smoothed dry friction has turned [rad/s]


class SliderCrank(NamedTuple):
    """The spatial slider crank: q = (angle of the crank about x, 0 where its arm points along y,).

    The crank's pin P turns about (·, 0.1, 0.12) in the plane of y and z. The slider C on the x axis
    is where the rod's length puts it, and the rod's y axis stays perpendicular to x.

    Attributes:
        rod_inertia: (3, 3), in the rod's frame [kg·m²].
    """

    rod_mass: Any = 0.5
    slider_mass: Any = 2.0
    rod_inertia: Any = np.diag([4e-3, 4e-4, 4e-3])
    pivot: tuple = (0.0, 0.1, 0.12)
    arm: float = 0.08
    rod: float = 0.3
    anchor: float = 0.6  # of the spring, on the x axis
    free_length: float = 0.38
    stiffness: Any = 60.0
    damping: Any = 4.0

    def slider(self, q):
        """Position of the slider along x."""
        pin = self._pin(q)
        return jnp.sqrt(self.rod**2 - pin[1] ** 2 - pin[2] ** 2)

    def _pin(self, q):
        arm = jnp.concatenate([jnp.zeros(1), jnp.cos(q), jnp.sin(q)])
        return jnp.array(self.pivot) + self.arm * arm

    def poses(self, q):
        pin, slider = self._pin(q), jnp.zeros(3).at[0].set(self.slider(q))
        along = (slider - pin) / self.rod
        across = jnp.stack([0.0, -along[2], along[1]]) / jnp.hypot(along[1], along[2])
        rod = jnp.stack([along, across, jnp.cross(along, across)], axis=1)
        (c,), (s,) = jnp.cos(q), jnp.sin(q)
        crank = jnp.eye(3).at[1:, 1:].set(jnp.array([[c, -s], [s, c]]))
        fixed = jnp.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
        r = jnp.stack([jnp.array(self.pivot), 0.5 * (pin + slider), slider])
        return r, jnp.stack([crank, rod, fixed])

    def accelerations(self, t, q, v):
        mass = jnp.stack([0.12, self.rod_mass, self.slider_mass])
        crank, slider = jnp.diag(jnp.array([1e-4, 1e-5, 1e-4])), 1e-4 * jnp.eye(3)
        kinetic = kinetic_energy(self.poses, mass, jnp.stack([crank, self.rod_inertia, slider]))
        return lagrange(kinetic, self._potential, self._load)(t, q, v)

    def _stretch(self, q):
        return self.anchor - self.slider(q) - self.free_length

    def _potential(self, q):
        return 0.5 * self.stiffness * self._stretch(q) ** 2

    def _load(self, t, q, v):
        slope = jax.grad(self._stretch)(q)
        motor = 0.15 * (jnp.sin(5.0 * t) + 0.5 * jnp.sin(13.0 * t))
        return motor - self.damping * slope * (slope @ v)


class Oscillator(NamedTuple):
    """A mass on a spring and a damper, in closed form."""

    mass: float
    stiffness: float
    damping: float

    def displacement(self, x0, v0, t):
        """At times t, from a displacement and a speed at t = 0."""
        decay = self.damping / (2.0 * self.mass)
        omega = np.sqrt(self.stiffness / self.mass - decay**2)
        swing = x0 * np.cos(omega * t) + (v0 + decay * x0) / omega * np.sin(omega * t)
        return np.exp(-decay * t) * swing


class Chain(NamedTuple):
    """Hinged bars in a vertical plane: q = (angles of the bars to the vertical).

    Attributes:
        law: From a relative rate to a friction torque in every hinge [N·m].
    """

    law: Callable
    mass: float = 1250.0 * 0.04 * 0.04 * 0.5
    size: tuple = (0.04, 0.04, 0.5)

    def poses(self, q):
        length = self.size[2]
        along = jnp.stack([jnp.sin(q), jnp.zeros_like(q), -jnp.cos(q)], axis=1)
        ends = length * jnp.cumsum(along, axis=0)
        return ends - 0.5 * length * along, tilted(q)

    def accelerations(self, t, q, v):
        n = q.size
        inertia = np.broadcast_to(np.diag(box_inertia(self.mass, self.size)), (n, 3, 3))
        kinetic = kinetic_energy(self.poses, np.full(n, self.mass), inertia)
        return lagrange(kinetic, self._potential, self._load)(t, q, v)

    def _potential(self, q):
        return self.mass * GRAVITY * jnp.sum(self.poses(q)[0][:, 2])

    def _load(self, t, q, v):
        torque = jax.vmap(self.law)(jnp.diff(v, prepend=0.0))
        return jnp.diff(torque, append=0.0)


class Arms(NamedTuple):
    """Arms above each other in a plane: q = absolute angles from upright (n,).

    Attributes:
        m: Masses [kg].
        a: Distances of the mass centers from their hinges [m].
        L: Distances of the hinges, (n - 1,) [m].
        I: Moments of inertia about the mass centers [kg·m²].
        k: Viscous friction of the hinges [N·m·s].
        g: Gravity [m/s²].
        c: Dry friction of the hinges, smoothed: c tanh(rate / SLIDING) [N·m].
    """

    m: Any
    a: Any
    L: Any
    I: Any  # noqa: E741
    k: Any
    g: Any
    c: Any = 0.0

    def accelerations(self, t, q, v):
        n = len(self.m)
        # Distance along arm j to mass center i.
        reach = jnp.stack([
            jnp.array([*self.L[:i], self.a[i], *[0.0] * (n - 1 - i)]) for i in range(n)
        ])  # fmt: skip
        weights = jnp.einsum("k,ki,kj->ij", jnp.asarray(self.m), reach, reach)
        difference = q[:, None] - q[None, :]
        relative = jnp.diff(v, prepend=jnp.zeros(1))
        torque = -jnp.asarray(self.k) * relative
        torque = torque - jnp.asarray(self.c) * jnp.tanh(relative / SLIDING)
        load = self.g * jnp.sin(q) * (jnp.asarray(self.m) @ reach)
        load = load + torque - jnp.concatenate([torque[1:], jnp.zeros(1)])
        M = weights * jnp.cos(difference) + jnp.diag(jnp.asarray(self.I))
        return jnp.linalg.solve(M, load - (weights * jnp.sin(difference)) @ v**2)
