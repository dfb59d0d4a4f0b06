"""Round shapes: rods, cylinders, spheres, capsules, cones."""

import math

import numpy as np

from ...rotations.types import Mat3, Scalar
from .. import given, surfaces
from ..collision.capsules import Core
from ..collision.narrow import Balls
from ..surfaces import AXES, Surface
from ..validation import Numbers, number, positive, require
from .base import AbstractShape, axial, axis_field, check_axis, circle, mass_of, side_lines, turned


class Rod(AbstractShape):
    """A thin rod of length [m] along a body axis; no inertia about its own axis."""

    length: Scalar = given.number("m")
    mass: Scalar
    axis: str = axis_field("x")

    def __init__(self, length: Numbers, *, mass: Numbers, axis: str = "x"):
        check_axis("Rod", axis)
        self.length, self.axis = positive(length, "Rod: length"), axis
        self.mass = number(mass, "Rod: mass")

    @property
    def inertia(self) -> Mat3:
        return axial(self.axis, 0.0 * self.mass, self.mass * self.length**2 / 12.0)

    def outline(self) -> list[np.ndarray]:
        half = float(self.length) / 2.0
        return [turned(np.array([[0.0, 0.0, -half], [0.0, 0.0, half]]), self.axis)]

    def surface(self, faces: int) -> Surface:
        length = float(self.length)
        return surfaces.cylinder(0.012 * length, length, 0.0, faces).turned(self.axis)

    def balls(self) -> Balls:
        half = 0.5 * self.length * np.eye(3)[AXES[self.axis]]
        return Balls.of([-half, half], 0.0)


class HollowCylinder(AbstractShape):
    """A tube along a body axis with inner and outer radius and length [m]."""

    inner_radius: Scalar = given.number("m")
    radius: Scalar = given.number("m")
    length: Scalar = given.number("m")
    mass: Scalar
    axis: str = axis_field("z")

    def __init__(
        self,
        inner_radius: Numbers,
        radius: Numbers,
        length: Numbers,
        *,
        mass: Numbers | None = None,
        density: Numbers | None = None,
        axis: str = "z",
    ):
        check_axis("HollowCylinder", axis)
        self.radius = positive(radius, "HollowCylinder: radius")
        self.length, self.axis = positive(length, "HollowCylinder: length"), axis
        inner = number(inner_radius, "HollowCylinder: inner_radius")
        lies = (inner >= 0.0) & (inner < self.radius)
        self.inner_radius = require(
            lies, inner, "HollowCylinder: inner_radius must lie in [0, radius)"
        )
        volume = math.pi * (self.radius**2 - self.inner_radius**2) * self.length
        self.mass = mass_of("HollowCylinder", mass, density, volume)

    @property
    def inertia(self) -> Mat3:
        squares = self.radius**2 + self.inner_radius**2
        across = self.mass * (3.0 * squares + self.length**2) / 12.0
        return axial(self.axis, self.mass * squares / 2.0, across)

    def outline(self) -> list[np.ndarray]:
        r0, r1, half = float(self.inner_radius), float(self.radius), float(self.length) / 2.0
        rings = [circle(r, z, self.axis) for r in {r0, r1} - {0.0} for z in (-half, half)]
        return rings + side_lines(r1, -half, r1, half, self.axis)

    def surface(self, faces: int) -> Surface:
        r0, r1, length = float(self.inner_radius), float(self.radius), float(self.length)
        return surfaces.cylinder(r1, length, r0, faces).turned(self.axis)


def Cylinder(
    radius: Numbers,
    length: Numbers,
    *,
    mass: Numbers | None = None,
    density: Numbers | None = None,
    axis: str = "z",
) -> HollowCylinder:
    """A solid cylinder along a body axis."""
    return HollowCylinder(0.0, radius, length, mass=mass, density=density, axis=axis)


class Sphere(AbstractShape):
    """A solid sphere of a radius [m]."""

    radius: Scalar = given.number("m")
    mass: Scalar

    def __init__(
        self, radius: Numbers, *, mass: Numbers | None = None, density: Numbers | None = None
    ):
        self.radius = positive(radius, "Sphere: radius")
        self.mass = mass_of("Sphere", mass, density, 4.0 / 3.0 * math.pi * self.radius**3)

    @property
    def inertia(self) -> Mat3:
        return 0.4 * self.mass * self.radius**2 * np.eye(3, dtype=self.mass.dtype)

    def outline(self) -> list[np.ndarray]:
        return [circle(float(self.radius), 0.0, axis) for axis in AXES]

    def surface(self, faces: int) -> Surface:
        return surfaces.ball(float(self.radius), faces)

    def balls(self) -> Balls:
        return Balls.of([[0.0] * 3], self.radius)


class Capsule(AbstractShape):
    """A solid cylinder along a body axis with half balls on both ends; `length` [m] is the length
    of the cylinder alone.
    """

    radius: Scalar = given.number("m")
    length: Scalar = given.number("m")
    mass: Scalar
    axis: str = axis_field("z")

    def __init__(
        self,
        radius: Numbers,
        length: Numbers,
        *,
        mass: Numbers | None = None,
        density: Numbers | None = None,
        axis: str = "z",
    ):
        check_axis("Capsule", axis)
        self.radius = positive(radius, "Capsule: radius")
        self.length, self.axis = positive(length, "Capsule: length"), axis
        self.mass = mass_of("Capsule", mass, density, sum(self._volumes()))

    def _volumes(self) -> tuple[Scalar, Scalar]:
        """Of the cylinder, and of both ends."""
        area = math.pi * self.radius**2
        return area * self.length, 4.0 / 3.0 * area * self.radius

    @property
    def inertia(self) -> Mat3:
        r, length = self.radius, self.length
        tube, ends = self._volumes()
        tube, ends = self.mass * tube / (tube + ends), self.mass * ends / (tube + ends)
        along = 0.5 * tube * r**2 + 0.4 * ends * r**2
        across = tube * (3.0 * r**2 + length**2) / 12.0
        # A half ball's center lies 3/8 of its radius from its base.
        across = across + ends * (0.4 * r**2 + 0.25 * length**2 + 0.375 * length * r)
        return axial(self.axis, along, across)

    def outline(self) -> list[np.ndarray]:
        r, half = float(self.radius), float(self.length) / 2.0
        rings = [circle(r, z, self.axis) for z in (-half, half)]
        s = np.linspace(0.0, math.pi, 13)
        arc = np.stack([r * np.cos(s), np.zeros(13), half + r * np.sin(s)], axis=1)
        caps = [
            turned(end[:, order], self.axis)
            for end in (arc, arc * np.array([1, 1, -1]))
            for order in ([0, 1, 2], [1, 0, 2])
        ]
        return rings + caps + side_lines(r, -half, r, half, self.axis)

    def surface(self, faces: int) -> Surface:
        return surfaces.capsule(float(self.radius), float(self.length), faces).turned(self.axis)

    def core(self) -> Core:
        """Its middle line."""
        return Core(0.5 * self.length * np.eye(3)[AXES[self.axis]], self.radius)

    def balls(self) -> Balls:
        return self.core().ends()


class Cone(AbstractShape):
    """A solid cone along a body axis; its tip is 3/4 of the height below the mass center, its base
    1/4 above.
    """

    radius: Scalar = given.number("m")
    height: Scalar = given.number("m")
    mass: Scalar
    axis: str = axis_field("z")

    def __init__(
        self,
        radius: Numbers,
        height: Numbers,
        *,
        mass: Numbers | None = None,
        density: Numbers | None = None,
        axis: str = "z",
    ):
        check_axis("Cone", axis)
        self.radius, self.height = (
            positive(radius, "Cone: radius"),
            positive(height, "Cone: height"),
        )
        self.axis = axis
        self.mass = mass_of("Cone", mass, density, math.pi / 3.0 * self.radius**2 * self.height)

    @property
    def inertia(self) -> Mat3:
        across = 3.0 / 80.0 * self.mass * (4.0 * self.radius**2 + self.height**2)
        return axial(self.axis, 0.3 * self.mass * self.radius**2, across)

    def outline(self) -> list[np.ndarray]:
        r, h = float(self.radius), float(self.height)
        return [circle(r, h / 4.0, self.axis)] + side_lines(
            0.0, -0.75 * h, r, h / 4.0, self.axis, count=8
        )

    def surface(self, faces: int) -> Surface:
        r, h = float(self.radius), float(self.height)
        base = [(r, 0.25 * h, 0, 1), (0.0, 0.25 * h, 0, 1)]
        side = [(0.0, -0.75 * h, h, -r), (r, 0.25 * h, h, -r)]
        return surfaces.revolved(side, base, count=faces).turned(self.axis)
