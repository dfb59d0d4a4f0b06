"""The controlled mechanisms in minimal coordinates, written by hand: the reference for every
replay.

Each class has the poses of the bodies of `problems`, in their order, as a function of the
coordinates, and the accelerations of the coordinates.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ..minimal_coordinates import box_inertia, kinetic_energy, lagrange, tilted

GRAVITY = 9.81


class CartPole(NamedTuple):
    """A cart and a pole: q = (position x of the cart, angle φ of the pole, 0 where it hangs).

        (M + m) ẍ + m l (φ̈ cos φ - φ̇² sin φ) = F
        m l ẍ cos φ + (J + m l²) φ̈ + m g l sin φ = -d φ̇

    Attributes:
        force: F(t, q, v) on the cart [N].
    """

    force: Callable = lambda t, q, v: 0.0
    cart_mass: float = 1.0
    mass: float = 0.2
    length: float = 0.5  # from the hinge to the mass center
    size: tuple = (0.02, 0.02, 1.0)
    damping: float = 0.005

    def poses(self, q):
        x, phi = q
        s, c = jnp.sin(phi), jnp.cos(phi)
        r = jnp.stack([x, 0.0, 0.0, x + self.length * s, 0.0, -self.length * c]).reshape(2, 3)
        return r, jnp.stack([jnp.eye(3), tilted(phi)])

    def accelerations(self, t, q, v):
        s, c = jnp.sin(q[1]), jnp.cos(q[1])
        ml = self.mass * self.length
        J = box_inertia(self.mass, self.size)[1] + ml * self.length
        M = jnp.array([[self.cart_mass + self.mass, ml * c], [ml * c, J]])
        force = self.force(t, q, v) + ml * s * v[1] ** 2
        return jnp.linalg.solve(M, jnp.stack([force, -ml * GRAVITY * s - self.damping * v[1]]))


class Parallelogram(NamedTuple):
    """A cart, two poles that tilt by φ and the bar on them, which only translates: q = (x, φ).

        (M + 2m + m_b) ẍ + (2 m l + m_b L) (φ̈ cos φ - φ̇² sin φ) = F
        (2 m l + m_b L) ẍ cos φ + (2 J + 2 m l² + m_b L²) φ̈ = (2 m l + m_b L) g sin φ

    Attributes:
        force: F(t, q, v) on the cart [N].
    """

    force: Callable = lambda t, q, v: 0.0
    cart_mass: float = 2.0
    pole: tuple = (0.03, 0.03, 0.8)
    pole_mass: float = 500.0 * 0.03 * 0.03 * 0.8
    bar_mass: float = 1000.0 * 0.5 * 0.05 * 0.05
    feet: tuple = (-0.2, 0.2)

    def poses(self, q):
        x, phi = q
        along = jnp.stack([jnp.sin(phi), 0.0, jnp.cos(phi)])
        cart = jnp.stack([x, 0.0, 0.0])
        feet = [cart + jnp.array([foot, 0.0, 0.0]) for foot in self.feet]
        half, length = 0.5 * self.pole[2], self.pole[2]
        r = jnp.stack([cart, *(foot + half * along for foot in feet), cart + length * along])
        return r, tilted(jnp.stack([0.0, -phi, -phi, 0.0]))

    def accelerations(self, t, q, v):
        s, c = jnp.sin(q[1]), jnp.cos(q[1])
        half, length = 0.5 * self.pole[2], self.pole[2]
        ml = 2.0 * self.pole_mass * half + self.bar_mass * length
        J = 2.0 * box_inertia(self.pole_mass, self.pole)[1]
        J = J + 2.0 * self.pole_mass * half**2 + self.bar_mass * length**2
        total = self.cart_mass + 2.0 * self.pole_mass + self.bar_mass
        M = jnp.array([[total, ml * c], [ml * c, J]])
        force = self.force(t, q, v) + ml * s * v[1] ** 2
        return jnp.linalg.solve(M, jnp.stack([force, ml * GRAVITY * s]))


class FourBar(NamedTuple):
    """Crank, coupler and rocker, closed by the intersection of two circles: q = (angle ψ of the
    crank from x towards z,).

    Attributes:
        torque: τ(t) of the motor about y [N·m], against ψ.
    """

    torque: Callable = lambda t: 0.0
    lengths: tuple = (1.0, 3.5, 2.5)
    base: float = 4.0
    width: float = 0.05
    density: float = 7800.0
    damping: float = 20.0

    def poses(self, q):
        crank, coupler, rocker = self.lengths
        base = jnp.array([self.base, 0.0])
        near = crank * jnp.concatenate([jnp.cos(q), jnp.sin(q)])
        gap = base - near
        distance = jnp.sqrt(gap @ gap)
        along = (coupler**2 - rocker**2 + distance**2) / (2.0 * distance)
        across = jnp.sqrt(coupler**2 - along**2)
        normal = jnp.stack([-gap[1], gap[0]])
        far = near + (along * gap + across * normal) / distance
        ends = jnp.stack([near, far - near, far - base])
        middle = jnp.stack([0.5 * near, 0.5 * (near + far), 0.5 * (far + base)])
        r = jnp.stack([middle[:, 0], jnp.zeros(3), middle[:, 1]], axis=1)
        angles = jnp.arctan2(ends[:, 1], ends[:, 0])
        return r, tilted(angles)

    def accelerations(self, t, q, v):
        mass = self.density * self.width**2 * np.array(self.lengths)
        sizes = [(length, self.width, self.width) for length in self.lengths]
        inertia = np.stack(
            [np.diag(box_inertia(m, size)) for m, size in zip(mass, sizes, strict=True)]
        )
        kinetic = kinetic_energy(self.poses, mass, inertia)
        return lagrange(kinetic, lambda q: 0.0 * q[0], self._load)(t, q, v)

    def _load(self, t, q, v):
        return -self.torque(t) - self.damping * v
