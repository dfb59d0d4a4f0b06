"""The Stewart platform: six legs that change their length between a base and a platform."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..model.body import Body
from ..model.forces import SpringDamper
from ..model.joints import Spherical, Translational, Universal
from ..model.mechanism import Mechanism
from ..model.shapes import Cylinder
from ..model.validation import array, number
from ..rotations.types import Array, Scalar, Vec3, host, library_of
from ..rotations.vectors import cross

BASE_ANGLES = np.radians([15.0, 105.0, 135.0, 225.0, 255.0, 345.0])
PLATFORM_ANGLES = np.radians([45.0, 75.0, 165.0, 195.0, 285.0, 315.0])
HOME = np.array([0.0, 0.0, 0.6])
_START_V, _START_OMEGA = np.array([0.1, 0.2, 0.0]), np.array([0.5, -0.3, 1.0])
_LENGTH = 0.4  # of the cylinder and of the rod of a leg [m]; mass centers are in their middle


class Push(eqx.Module):
    """A sinusoidal push, amplitude sin(2π t + phase) [N]."""

    amplitude: Scalar
    phase: Scalar

    def __call__(self, t: Scalar) -> Scalar:
        return self.amplitude * jnp.sin(2.0 * jnp.pi * t + self.phase)

    @property
    def text(self) -> str:
        """The expression that a model file holds in its place."""
        return f"{float(self.amplitude)!r}*sin(2*pi*t + {float(self.phase)!r})"


def anchors() -> tuple[Float[np.ndarray, "6 3"], Float[np.ndarray, "6 3"]]:
    """The joints on the base, global, and those on the platform, from its mass center in its frame
    [m].
    """

    def circle(radius: float, angles: np.ndarray) -> np.ndarray:
        return radius * np.stack([np.cos(angles), np.sin(angles), np.zeros(6)], axis=1)

    return circle(0.5, BASE_ANGLES), circle(0.3, PLATFORM_ANGLES)


def stewart_platform(
    *,
    legs: bool = False,
    base: Any = None,
    platform: Any = None,
    home: Any = HOME,
    push: Any = 30.0,
) -> Mechanism:
    """A 6-6 platform on six sprung, damped and pushed legs, thrown from its home pose; freedom six.

    Every leg pushes with -4000 (L - L_home) - 20 dL/dt + push sin(2π t + i π/3) [N], i = 0..5.

    Args:
        legs: False for legs without mass, which are forces only (1 body). True for legs of a
            cylinder and a rod: a universal joint at the base, a slide between the two, a ball at
            the platform (13 bodies, no redundancy).
        base: Joints on the base, (6, 3) [m], global; by default on a circle of 0.5 m.
        platform: Joints on the platform from its mass center, (6, 3) [m], in its frame; by default
            on a circle of 0.3 m.
        home: The platform's mass center at home, (3,) [m].
        push: Amplitude of the pushes [N].
    """
    own_base, own_platform = anchors()
    B = array(own_base if base is None else base, (6, 3), "stewart_platform: base")
    P = array(own_platform if platform is None else platform, (6, 3), "stewart_platform: platform")
    home = array(home, (3,), "stewart_platform: home")
    v, omega = host.asarray(_START_V, B.dtype), host.asarray(_START_OMEGA, B.dtype)
    m = Mechanism("stewart_platform_legs" if legs else "stewart_platform")
    disc = m.add_body("platform", shape=Cylinder(0.3, 0.04, mass=20.0), r=home, v=v, omega=omega)
    for k in range(6):
        low, high = B[k], home + P[k]
        ends: tuple[Body, Body] = (m.ground, disc)
        if legs:
            ends = _leg(m, k, low, high, v + cross(omega, P[k]), disc)
        m.add(
            SpringDamper(
                f"leg {k + 1}",
                *ends,
                point_i=low,
                point_j=high,
                stiffness=4000.0,
                damping=20.0,
                actuator=Push(number(push, "push"), host.asarray(k * np.pi / 3.0, B.dtype)),
            )
        )
    return m


def stewart_platform_legs() -> Mechanism:
    """The same on legs of a cylinder and a rod each, with universal joint, slide and ball; freedom
    six.
    """
    return stewart_platform(legs=True)


def _leg(
    m: Mechanism, k: int, low: Vec3, high: Vec3, velocity: Vec3, disc: Body
) -> tuple[Body, Body]:
    """A cylinder and a rod between two points; `velocity` is that of the upper one."""
    span = high - low
    length = (span @ span) ** 0.5
    n = span / length
    # Tangent to the base circle.
    e = host.asarray([-np.sin(BASE_ANGLES[k]), np.cos(BASE_ANGLES[k]), 0.0], n.dtype)
    pin = _unit(cross(e, n))
    # The leg turns as its ends do, and about itself so that the pin stays perpendicular to e.
    turn = cross(n, velocity) / length
    normal = n - (n @ e) * e
    omega = turn - (turn @ normal) / (n @ normal) * n
    A = library_of(n).stack([pin, cross(n, pin), n], axis=1)
    cylinder = m.add_body(
        f"cylinder {k + 1}",
        shape=Cylinder(0.03, _LENGTH, mass=2.0),
        r=low + 0.5 * _LENGTH * n,
        A=A,
        v=0.5 * _LENGTH * cross(omega, n),
        omega=A.T @ omega,
    )
    rod = m.add_body(
        f"rod {k + 1}",
        shape=Cylinder(0.015, _LENGTH, mass=1.0),
        r=high - 0.5 * _LENGTH * n,
        A=A,
        v=velocity - 0.5 * _LENGTH * cross(omega, n),
        omega=A.T @ omega,
    )
    m.add(Universal(f"foot {k + 1}", m.ground, cylinder, point=low, axis_i=e, axis_j=pin))
    mouth = low + _LENGTH * n  # the upper end of the cylinder
    m.add(Translational(f"slide {k + 1}", cylinder, rod, point=mouth, axis=n))
    m.add(Spherical(f"head {k + 1}", rod, disc, point=high))
    return cylinder, rod


def _unit(x: Vec3) -> Float[Array, "3"]:
    return x / (x @ x) ** 0.5
