"""Solid shapes: mass, center and inertia of homogeneous bodies, and outlines for pictures.

Every shape is given in a body frame at its own mass center, axes as said. Give either a mass [kg]
or a density [kg/m³].
"""

import abc
import math
from collections.abc import Iterable, Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..rotations.types import Array, Mat3, Scalar, Vec3, host, library_of
from .validation import Numbers, array, concrete, number, positive, require, vector

AXES = {"x": 0, "y": 1, "z": 2}


class AbstractShape(eqx.Module):
    """A homogeneous solid with its body frame at the mass center."""

    mass: eqx.AbstractVar[Scalar]

    @property
    @abc.abstractmethod
    def inertia(self) -> Mat3:
        """Inertia matrix about the mass center, (3, 3) [kg·m²], body frame."""

    @abc.abstractmethod
    def outline(self) -> list[np.ndarray]:
        """Polylines (k, 3) [m] in the body frame that show the shape."""


def _mass(name: str, mass: Numbers | None, density: Numbers | None, volume: Scalar | int) -> Scalar:
    if (mass is None) == (density is None):
        raise ValueError(f"{name}: give either mass or density")
    return (
        number(mass, f"{name}: mass")
        if mass is not None
        else number(density, f"{name}: density") * volume
    )


def _axial(axis: str, along: Scalar, across: Scalar) -> Mat3:
    diagonal = [across, across, across]
    diagonal[AXES[axis]] = along
    xp = library_of(along, across)
    return xp.diag(xp.stack(diagonal))


def _stacked(values: list) -> Array:
    return library_of(*values).stack(values)


def _check_axis(name: str, axis: str) -> None:
    if axis not in AXES:
        raise ValueError(f"{name}: axis must be 'x', 'y' or 'z', not {axis!r}")


def _turned(points: np.ndarray, axis: str) -> np.ndarray:
    # Points drawn along z, turned cyclically so that z becomes the axis.
    return np.roll(points, AXES[axis] - 2, axis=-1)


def _circle(radius: float, z: float, axis: str, count: int = 25) -> np.ndarray:
    s = np.linspace(0.0, 2.0 * math.pi, count)
    return _turned(np.stack([radius * np.cos(s), radius * np.sin(s), np.full(count, z)], 1), axis)


def _side_lines(
    r0: float, z0: float, r1: float, z1: float, axis: str, count: int = 4
) -> list[np.ndarray]:
    lines = []
    for s in np.arange(count) * 2.0 * math.pi / count:
        c, d = math.cos(s), math.sin(s)
        lines.append(_turned(np.array([[r0 * c, r0 * d, z0], [r1 * c, r1 * d, z1]]), axis))
    return lines


class Box(AbstractShape):
    """A rectangular block with edges (a, b, c) [m] along the body axes."""

    size: Vec3
    mass: Scalar

    def __init__(
        self, size: Numbers, *, mass: Numbers | None = None, density: Numbers | None = None
    ):
        self.size = vector(size, 3, "Box: size")
        for k in range(3):
            positive(self.size[k], "Box: size")
        self.mass = _mass("Box", mass, density, library_of(self.size).prod(self.size))

    @property
    def inertia(self) -> Mat3:
        xp = library_of(self.size, self.mass)
        s2 = self.size**2
        return xp.diag(self.mass / 12.0 * (xp.sum(s2) - s2))

    def outline(self) -> list[np.ndarray]:
        a, b, c = np.asarray(self.size) / 2.0
        ring = np.array([[a, b, c], [-a, b, c], [-a, -b, c], [a, -b, c], [a, b, c]])
        low = ring * np.array([1, 1, -1])
        return [ring, low] + [np.stack([ring[k], low[k]]) for k in range(4)]


class Rod(AbstractShape):
    """A thin rod of length [m] along a body axis; no inertia about its own axis."""

    length: Scalar
    mass: Scalar
    axis: str = eqx.field(static=True)

    def __init__(self, length: Numbers, *, mass: Numbers, axis: str = "x"):
        _check_axis("Rod", axis)
        self.length, self.axis = positive(length, "Rod: length"), axis
        self.mass = number(mass, "Rod: mass")

    @property
    def inertia(self) -> Mat3:
        return _axial(self.axis, 0.0 * self.mass, self.mass * self.length**2 / 12.0)

    def outline(self) -> list[np.ndarray]:
        half = float(self.length) / 2.0
        return [_turned(np.array([[0.0, 0.0, -half], [0.0, 0.0, half]]), self.axis)]


class HollowCylinder(AbstractShape):
    """A tube along a body axis with inner and outer radius and length [m]."""

    inner_radius: Scalar
    radius: Scalar
    length: Scalar
    mass: Scalar
    axis: str = eqx.field(static=True)

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
        _check_axis("HollowCylinder", axis)
        self.radius = positive(radius, "HollowCylinder: radius")
        self.length, self.axis = positive(length, "HollowCylinder: length"), axis
        inner = number(inner_radius, "HollowCylinder: inner_radius")
        lies = (inner >= 0.0) & (inner < self.radius)
        self.inner_radius = require(
            lies, inner, "HollowCylinder: inner_radius must lie in [0, radius)"
        )
        volume = math.pi * (self.radius**2 - self.inner_radius**2) * self.length
        self.mass = _mass("HollowCylinder", mass, density, volume)

    @property
    def inertia(self) -> Mat3:
        squares = self.radius**2 + self.inner_radius**2
        across = self.mass * (3.0 * squares + self.length**2) / 12.0
        return _axial(self.axis, self.mass * squares / 2.0, across)

    def outline(self) -> list[np.ndarray]:
        r0, r1, half = float(self.inner_radius), float(self.radius), float(self.length) / 2.0
        rings = [_circle(r, z, self.axis) for r in {r0, r1} - {0.0} for z in (-half, half)]
        return rings + _side_lines(r1, -half, r1, half, self.axis)


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

    radius: Scalar
    mass: Scalar

    def __init__(
        self, radius: Numbers, *, mass: Numbers | None = None, density: Numbers | None = None
    ):
        self.radius = positive(radius, "Sphere: radius")
        self.mass = _mass("Sphere", mass, density, 4.0 / 3.0 * math.pi * self.radius**3)

    @property
    def inertia(self) -> Mat3:
        return 0.4 * self.mass * self.radius**2 * np.eye(3, dtype=self.mass.dtype)

    def outline(self) -> list[np.ndarray]:
        return [_circle(float(self.radius), 0.0, axis) for axis in AXES]


class Capsule(AbstractShape):
    """A solid cylinder along a body axis with half balls on both ends; `length` [m] is the length
    of the cylinder alone.
    """

    radius: Scalar
    length: Scalar
    mass: Scalar
    axis: str = eqx.field(static=True)

    def __init__(
        self,
        radius: Numbers,
        length: Numbers,
        *,
        mass: Numbers | None = None,
        density: Numbers | None = None,
        axis: str = "z",
    ):
        _check_axis("Capsule", axis)
        self.radius = positive(radius, "Capsule: radius")
        self.length, self.axis = positive(length, "Capsule: length"), axis
        self.mass = _mass("Capsule", mass, density, sum(self._volumes()))

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
        return _axial(self.axis, along, across)

    def outline(self) -> list[np.ndarray]:
        r, half = float(self.radius), float(self.length) / 2.0
        rings = [_circle(r, z, self.axis) for z in (-half, half)]
        s = np.linspace(0.0, math.pi, 13)
        arc = np.stack([r * np.cos(s), np.zeros(13), half + r * np.sin(s)], axis=1)
        caps = [
            _turned(end[:, order], self.axis)
            for end in (arc, arc * np.array([1, 1, -1]))
            for order in ([0, 1, 2], [1, 0, 2])
        ]
        return rings + caps + _side_lines(r, -half, r, half, self.axis)


class Cone(AbstractShape):
    """A solid cone along a body axis; its tip is 3/4 of the height below the mass center, its base
    1/4 above.
    """

    radius: Scalar
    height: Scalar
    mass: Scalar
    axis: str = eqx.field(static=True)

    def __init__(
        self,
        radius: Numbers,
        height: Numbers,
        *,
        mass: Numbers | None = None,
        density: Numbers | None = None,
        axis: str = "z",
    ):
        _check_axis("Cone", axis)
        self.radius, self.height = (
            positive(radius, "Cone: radius"),
            positive(height, "Cone: height"),
        )
        self.axis = axis
        self.mass = _mass("Cone", mass, density, math.pi / 3.0 * self.radius**2 * self.height)

    @property
    def inertia(self) -> Mat3:
        across = 3.0 / 80.0 * self.mass * (4.0 * self.radius**2 + self.height**2)
        return _axial(self.axis, 0.3 * self.mass * self.radius**2, across)

    def outline(self) -> list[np.ndarray]:
        r, h = float(self.radius), float(self.height)
        return [_circle(r, h / 4.0, self.axis)] + _side_lines(
            0.0, -0.75 * h, r, h / 4.0, self.axis, count=8
        )


def _check_corners(corners: np.ndarray) -> None:
    size = np.max(np.abs(corners))
    if np.max(np.abs(np.mean(corners, axis=0))) > 1e-6 * size:  # a file may hold rounded ones
        raise ValueError("Tetrahedron: give corners from the mass center; subtract their mean")
    if abs(np.linalg.det(corners[1:] - corners[:1])) <= 1e-6 * size**3:
        raise ValueError("Tetrahedron: the four corners lie in a plane")


class Tetrahedron(AbstractShape):
    """A solid tetrahedron by its corners from the mass center, which is their mean, (4, 3) [m]."""

    corners: Float[Array, "4 3"]
    mass: Scalar

    def __init__(
        self, corners: Numbers, *, mass: Numbers | None = None, density: Numbers | None = None
    ):
        self.corners = array(corners, (4, 3), "Tetrahedron: corners")
        known = concrete(self.corners)
        if known is not None:
            _check_corners(known)
        edges = self.corners[1:] - self.corners[:1]
        self.mass = _mass(
            "Tetrahedron", mass, density, abs(library_of(edges).linalg.det(edges)) / 6.0
        )

    @property
    def inertia(self) -> Mat3:
        second_moment = self.mass / 20.0 * self.corners.T @ self.corners
        return second_moment.trace() * np.eye(3, dtype=self.mass.dtype) - second_moment

    def outline(self) -> list[np.ndarray]:
        corners = np.asarray(self.corners)
        return [corners[[0, 1, 2, 3, 0, 2]], corners[[1, 3]]]


class Composite(AbstractShape):
    """Several shapes as one rigid body, in a frame at their common mass center with the given axes.

    Attributes:
        parts: The shapes.
        offsets: Their mass centers from the common one, (n, 3) [m].
        rotations: Their orientations in the composite, (n, 3, 3).
        center: The common mass center in the frame in which the positions were given, (3,) [m].
    """

    parts: tuple[AbstractShape, ...]
    offsets: Float[Array, "n 3"]
    rotations: Float[Array, "n 3 3"]
    center: Vec3
    mass: Scalar

    def __init__(
        self,
        parts: Sequence[AbstractShape],
        positions: Iterable[Numbers],
        rotations: Iterable[Numbers] | None = None,
    ):
        if not parts:
            raise ValueError("Composite: needs at least one part")
        self.parts = tuple(parts)
        masses = _stacked([p.mass for p in parts])
        points = _stacked([vector(p, 3, "Composite: position") for p in positions])
        if len(points) != len(parts):
            raise ValueError(f"Composite: {len(parts)} parts but {len(points)} positions")
        eye = np.eye(3, dtype=masses.dtype)
        turns = (
            [eye] * len(parts)
            if rotations is None
            else [array(A, (3, 3), "Composite: rotation") for A in rotations]
        )
        self.rotations = _stacked(turns)
        self.mass = masses.sum()
        self.center = masses @ points / self.mass
        self.offsets = points - self.center[None, :]

    @property
    def inertia(self) -> Mat3:
        total = host.zeros((3, 3), self.mass.dtype)
        for part, d, A in zip(self.parts, self.offsets, self.rotations, strict=True):
            outer = library_of(d).outer(d, d)
            steiner = part.mass * ((d @ d) * np.eye(3, dtype=d.dtype) - outer)
            total = total + A @ part.inertia @ A.T + steiner
        return total

    def outline(self) -> list[np.ndarray]:
        lines = []
        for part, d, A in zip(
            self.parts, np.asarray(self.offsets), np.asarray(self.rotations), strict=True
        ):
            lines += [line @ A.T + d for line in part.outline()]
        return lines
