"""Sections of beams: stiffness and inertia per length.

The x axis of a section is the tangent of its beam, y and z are its principal axes through the
centroid.
"""

import dataclasses
import math
from typing import Any, cast

import numpy as np
from jax.typing import ArrayLike

from ..rotations.types import Array, host, library_of
from . import given
from .validation import POSITIVE, Bounds, Numbers, number, positive, require, vector

_POISSON = Bounds(above=-1.0, most=0.5, text="must lie in (-1, 0.5]")


@dataclasses.dataclass(frozen=True, eq=False)
class Section:
    """A section of one material; `rectangle`, `circle` and `tube` compute the numbers.

    Attributes:
        E, G: Young's modulus and shear modulus [Pa].
        A: Area [m²].
        I: Second moments of area about y and about z, (2,), or one number for both [m⁴].
        J: Torsion constant [m⁴].
        rho: Density [kg/m³].
        shear: Shear correction factors along y and z, (2,), or one number for both [-].
    """

    E: Any = given.number("Pa")
    G: Any = given.number("Pa")
    A: Any = given.number("m²")
    I: Any = given.numbers("m⁴")  # noqa: E741
    J: Any = given.number("m⁴")
    rho: Any = given.number("kg/m³")
    shear: Any = given.numbers("-", 1.0)

    @staticmethod
    def rectangle(
        width: Numbers, height: Numbers, *, E: Numbers, nu: Numbers = 0.3, rho: Numbers
    ) -> "Section":
        """A solid rectangle, `width` along y and `height` along z [m].

        The torsion constant is Saint-Venant's series, the shear factor Cowper's (1966).
        """
        b, h = positive(width, "Section: width"), positive(height, "Section: height")
        nu = _poisson(nu)
        shear = 10.0 * (1.0 + nu) / (12.0 + 11.0 * nu)
        moments = library_of(b, h).stack([b * h**3, b**3 * h]) / 12.0
        return _isotropic(E, nu, rho, b * h, moments, _torsion(b, h), shear)

    @staticmethod
    def circle(radius: Numbers, *, E: Numbers, nu: Numbers = 0.3, rho: Numbers) -> "Section":
        """A solid circle of the radius [m]; shear factor by Cowper (1966)."""
        return Section.tube(radius, 0.0, E=E, nu=nu, rho=rho)

    @staticmethod
    def tube(
        radius: Numbers, inner_radius: Numbers, *, E: Numbers, nu: Numbers = 0.3, rho: Numbers
    ) -> "Section":
        """A circular tube with outer and inner radius [m]; shear factor by Cowper (1966)."""
        r, q = positive(radius, "Section: radius"), number(inner_radius, "Section: inner_radius")
        q = require((q >= 0.0) & (q < r), q, "Section: inner_radius must lie in [0, radius)")
        nu, ratio = _poisson(nu), (q / r) ** 2
        rest = (20.0 + 12.0 * nu) * ratio
        shear = 6.0 * (1.0 + nu) * (1.0 + ratio) ** 2
        shear = shear / ((7.0 + 6.0 * nu) * (1.0 + ratio) ** 2 + rest)
        area, moment = math.pi * (r**2 - q**2), 0.25 * math.pi * (r**4 - q**4)
        return _isotropic(E, nu, rho, area, moment, 2.0 * moment, shear)

    def checked(self, what: str) -> "Section":
        """The section with its numbers as arrays.

        Raises:
            ValueError: A number that is not positive; `what` names the beam.
        """
        single = {
            k: positive(getattr(self, k), f"{what}: section: {k}") for k in ("E", "G", "A", "J")
        }
        rho = positive(self.rho, f"{what}: section: rho")
        pairs = {k: _pair(getattr(self, k), f"{what}: section: {k}") for k in ("I", "shear")}
        return Section(**single, **pairs, rho=rho)

    @property
    def stiffness(self) -> Array:
        """(EA, GA_y, GA_z, GJ, EI_y, EI_z), (6,) [N, N·m²]."""
        own = self.checked("Section")
        stack = library_of(own.E, own.G, own.A, own.I, own.J, own.shear).stack
        shear = own.G * own.A * own.shear
        bending = own.E * own.I
        return stack([own.E * own.A, shear[0], shear[1], own.G * own.J, bending[0], bending[1]])

    @property
    def mass_per_length(self) -> Array:
        """[kg/m]."""
        return self.rho * self.A

    @property
    def inertia_per_length(self) -> Array:
        """Rotary inertia about x, y, z, (3,) [kg·m]."""
        own = self.checked("Section")
        polar = own.I[0] + own.I[1]
        return own.rho * library_of(own.I).stack([polar, own.I[0], own.I[1]])

    @property
    def extents(self) -> Array:
        """Edges along y and z of the rectangle with this area's radii of gyration, (2,) [m]."""
        own = self.checked("Section")
        xp = library_of(own.I, own.A)
        return xp.sqrt(12.0 * xp.stack([own.I[1], own.I[0]]) / own.A)


def _poisson(nu: Numbers) -> Array:
    return _POISSON.required(number(nu, "Section: nu"), "Section: nu")


def _isotropic(
    E: Any, nu: Array, rho: Numbers, area: Array, moments: Array, torsion: Array, shear: Array
) -> Section:
    return Section(
        E=E, G=E / (2.0 * (1.0 + nu)), A=area, I=moments, J=torsion, rho=rho, shear=shear
    )


def _torsion(b: Array, h: Array) -> Array:
    """Saint-Venant's torsion constant of a rectangle, by its series to rounding."""
    xp = library_of(b, h)
    long, short = xp.maximum(b, h), xp.minimum(b, h)
    odd = np.arange(1, 16, 2)
    series = sum(xp.tanh(k * math.pi * long / (2.0 * short)) / k**5 for k in odd.tolist())
    # tanh is one from the ninth term on; the tail of Σ 1/k⁵ = 31/32 ζ(5) is known.
    tail = 31.0 / 32.0 * 1.0369277551433699 - float(np.sum(1.0 / odd**5.0))
    return long * short**3 / 3.0 * (1.0 - 192.0 / math.pi**5 * short / long * (series + tail))


def _pair(value: object, what: str) -> Array:
    """Two positive numbers, from two or from one for both."""
    try:
        single = np.ndim(cast(ArrayLike, value)) == 0  # traced numbers have one too
    except (TypeError, ValueError):
        single = False
    if single:
        one = positive(value, what)
        return host.stack([one, one]) if library_of(one) is np else library_of(one).stack([one] * 2)
    return POSITIVE.required(vector(value, 2, what), what)
