"""Couplings: belts, racks, screws, and any polynomial of one joint's coordinate by another's; gears
have a file of their own.

They act on angles over any number of turns, so that a ratio holds to machine precision after
thousands of turns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..rotations.types import Array, library_of
from . import given
from .body import Body
from .coordinates import COORDINATES, Angle, Displacement, Sight
from .joint_coordinates import bodies_of_joints, coordinate_among
from .joints import AbstractConstraint, AbstractRelation, Cylindrical, Rows
from .outlines import circle, plain
from .primitives.coupled import Coupled
from .primitives.mesh import RackMesh
from .validation import Numbers, array, concrete, nonzero, number, positive, require, shown, vector

PRESSURE_ANGLE = math.radians(20.0)
_ALONG = 1e-12  # of a length, below which its part across an axis is rounding


@dataclass(frozen=True, eq=False)
class AbstractWheels(AbstractConstraint):
    """Two wheels, each about an axis of its own body.

    Attributes:
        axis_i, axis_j: Axes of the wheels, global at the initial pose; `axis_j` defaults to
            `axis_i`.
        point_i, point_j: Points on the axes in the planes of the wheels, global at the initial pose
            [m]; they default to the mass centers.
    """

    mark: ClassVar[str] = "outline"

    axis_i: Any = given.axis()
    axis_j: Any = given.vector("-", None)
    point_i: Any = given.point(None)
    point_j: Any = given.point(None)

    def _wheels(self, i: Body, j: Body) -> tuple[Array, Array, Array, Array]:
        """Axes and points of both wheels, global at the initial pose."""
        a_i = self._axis("axis_i")
        a_j = a_i if self.axis_j is None else self._axis("axis_j")
        return a_i, a_j, self._center(i, "point_i"), self._center(j, "point_j")

    def _center(self, body: Body, which: str) -> Array:
        if getattr(self, which) is not None:
            return vector(getattr(self, which), 3, f"{self.title}: {which}")
        if body.is_ground:
            raise ValueError(f"{self.title}: give {which}: the ground has no mass center")
        return body.r

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        return self._wheels(i, j)[:2]

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        return self._wheels(i, j)[2:]

    def reference_point(self, i: Body, j: Body) -> Array:
        return self._wheels(i, j)[3]


@dataclass(frozen=True, eq=False)
class Belt(AbstractWheels):
    """A belt or chain that does not slip, over two pulleys with parallel axes. Removes 1 degree of
    freedom.

    The difference of the forces in its two spans acts on the bearings too; pretension is left out.

    Attributes:
        radius_i, radius_j: Of the pulleys [m].
        crossed: Whether the spans cross, so that the pulleys turn opposite ways.
    """

    radius_i: Any = given.number("m")
    radius_j: Any = given.number("m")
    crossed: bool = given.flag(False)

    def rows(self, i: Body, j: Body) -> Rows:
        r_i, r_j = self._radii()
        a_i, a_j, p_i, p_j = self._wheels(i, j)
        slant = across(a_j, a_i)
        ratio = r_i / r_j * library_of(a_i, a_j).sign(a_i @ a_j) * (-1.0 if self.crossed else 1.0)
        ratio = require(
            slant @ slant <= 1e-12, ratio, f"{self.title}: the axes of the pulleys must be parallel"
        )
        ratio = require(
            ~on_one_axis(a_i, p_i, p_j),
            ratio,
            f"{self.title}: the pulleys are on one axis; give their points",
        )
        first, second = seen_points(i, j, a_i, a_j, p_i, p_j)
        return [("belt force", Coupled(first, second, _linear(ratio)))]

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        a_i, a_j, p_i, p_j = (np.asarray(x) for x in self._wheels(i, j))
        r_i, r_j = map(plain, self._radii())
        return [circle(p_i, a_i, r_i)], [circle(p_j, a_j, r_j)]

    def _radii(self) -> tuple[Array, Array]:
        return (
            positive(self.radius_i, f"{self.title}: radius_i"),
            positive(self.radius_j, f"{self.title}: radius_j"),
        )


@dataclass(frozen=True, eq=False)
class RackAndPinion(AbstractConstraint):
    """A pinion, body j, that rolls on a straight rack of body i. Removes 1 degree of freedom.

    The tooth force acts at the pitch point: along the rack, and off the rack by the pressure angle,
    see `Gear`.

    Attributes:
        axis: Of the pinion, global at the initial pose.
        along: Direction of the rack, normal to the axis, global at the initial pose. A turn of the
            pinion about `axis` moves its center by 2π `radius` along it, relative to the rack.
        radius: Of the pitch circle [m]; negative where the rack is on the other side, so that the
            pinion moves against `along`.
        point: Center of the pinion, global at the initial pose [m]; defaults to its mass center.
        pressure_angle: Between the tooth force and the rack [rad]; 20 degrees by default.
    """

    mark: ClassVar[str] = "outline"

    axis: Any = given.axis()
    along: Any = given.axis()
    radius: Any = given.number("m")
    point: Any = given.point(None)
    pressure_angle: Any = given.number("rad", PRESSURE_ANGLE)

    def rows(self, i: Body, j: Body) -> Rows:
        radius = nonzero(self.radius, f"{self.title}: radius")
        axis, along = self._axis(), self._axis("along")
        along = require(
            abs(axis @ along) <= 1e-6,
            along,
            f"{self.title}: the rack must be normal to the axis of the pinion",
        )
        point = self.reference_point(i, j)
        turned = Angle.between(i, j, axis)
        moved = Displacement.between(i, j, along, point)
        # The pitch point is where the turn moves the rim backwards; the rack presses from there.
        xp = library_of(radius, axis, along)
        off = -xp.sign(radius) * pressure_tangent(self.title, self.pressure_angle)
        push = i.direction(off * xp.cross(axis, along))
        return [("tooth force", RackMesh(turned, moved, radius, push))]

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        axis, along, center = (
            np.asarray(x) for x in (self._axis(), self._axis("along"), self.reference_point(i, j))
        )
        radius = plain(self.radius)
        # Rolling along means that the contact is where the turn moves the rim backwards.
        touch = center + radius * np.cross(axis, along)
        rack = np.stack([touch - 4.0 * abs(radius) * along, touch + 4.0 * abs(radius) * along])
        return [rack], [circle(center, axis, abs(radius))]


@dataclass(frozen=True, eq=False)
class Screw(AbstractConstraint):
    """A screw joint: a common axis, along which body j moves by `lead` for every turn. Removes 5
    degrees of freedom.

    Attributes:
        point, axis: On the axis, and its direction, global at the initial pose.
        lead: Displacement of a turn [m]; positive for a right-handed thread.
    """

    mark: ClassVar[str] = "screw"

    point: Any = given.point()
    axis: Any = given.axis()
    lead: Any = given.number("m")

    has_angle: ClassVar[bool] = True
    has_displacement: ClassVar[bool] = True
    actions: ClassVar[tuple[str, ...]] = ("torque", "force")

    def rows(self, i: Body, j: Body) -> Rows:
        lead = nonzero(self.lead, f"{self.title}: lead")
        point, axis = self._point(), self._axis()
        sleeve = Cylindrical(self.name, i, j, point=point, axis=axis).rows(i, j)
        turned, moved = Angle.between(i, j, axis), Displacement.between(i, j, axis, point)
        return [*sleeve, ("thread", Coupled(turned, moved, _linear(lead / (2.0 * np.pi))))]


@dataclass(frozen=True, eq=False)
class AbstractCoupling(AbstractRelation):
    """Base class of relations between the coordinates of two joints that were added before.

    Attributes:
        name: Unique among the parts of a mechanism.
        joint_1, joint_2: The joints (objects or names).
    """

    mark: ClassVar[str] = "outline"

    joint_1: Any = given.joint()
    joint_2: Any = given.joint()

    what: ClassVar[str] = "coupling"

    def targets(self) -> tuple[Body | str, ...]:
        """The bodies of both joints, those that the joints move first, each once."""
        return bodies_of_joints(self.title, (self.joint_1, self.joint_2))

    def _coordinates(
        self, bodies: Sequence[Body], kind_1: str | None = None, kind_2: str | None = None
    ) -> tuple[Angle | Displacement, Angle | Displacement]:
        """The coordinates of both joints on the bodies that `rows` is given: by their kinds, or the
        angle where a joint has one.
        """
        return (
            coordinate_among(self.title, self.joint_1, kind_1, bodies),
            coordinate_among(self.title, self.joint_2, kind_2, bodies),
        )


@dataclass(frozen=True, eq=False)
class Coupler(AbstractCoupling):
    """The coordinate of joint 2 is a polynomial in the coordinate of joint 1, x₂ = Σ c_k x₁ᵏ.
    Removes 1 degree of freedom.

    The `equality/joint` of MJCF and the `mimic` of URDF; also the ratio of a gearbox, of a worm or
    of a hypoid pair. Coordinates are zero at the initial pose as described.

    Attributes:
        joint_1, joint_2: The joints (objects or names).
        coefficients: c, lowest power first; for instance (0, 2.5) for x₂ = 2.5 x₁ [rad or m by
            powers of rad or m].
        coordinate_1, coordinate_2: "angle" or "displacement"; the angle by default where a joint
            has both.
    """

    coefficients: Any = given.numbers("-", (0.0, 1.0))
    coordinate_1: str | None = given.choice(*COORDINATES, default=None)
    coordinate_2: str | None = given.choice(*COORDINATES, default=None)

    def rows(self, *bodies: Body) -> Rows:
        given_ones = self.coefficients
        count = len(given_ones) if hasattr(given_ones, "__len__") else 0
        if not count:
            raise ValueError(f"{self.title}: coefficients must be a list of numbers")
        c = array(given_ones, (count,), f"{self.title}: coefficients")
        c = require(
            library_of(c).any(c[1:] != 0.0),
            c,
            f"{self.title}: all coefficients of joint 1 are zero, which couples nothing; use a "
            "driver to hold joint 2",
        )
        first, second = self._coordinates(bodies, self.coordinate_1, self.coordinate_2)
        if self.joint_1.name == self.joint_2.name and type(first) is type(second):
            raise ValueError(
                f"{self.title}: couples joint {self.joint_1.name!r} with itself, which would lock "
                "it; name two joints or the angle and the displacement of one, or use a driver"
            )
        return [("coupling", Coupled(first, second, c))]


def all_concrete(*values: Array) -> list[np.ndarray] | None:
    """The values as NumPy arrays; None where one is traced."""
    known = [concrete(x) for x in values]
    return None if any(x is None for x in known) else [np.asarray(x) for x in known]


def _linear(ratio: Array) -> Array:
    """The coefficients (0, ratio)."""
    xp = library_of(ratio)
    return xp.stack([xp.zeros_like(ratio), ratio])


def seen_points(i: Body, j: Body, a_i: Array, a_j: Array, p_i: Array, p_j: Array):
    """The angles at which each of two wheels sees the center of the other about its own axis: they
    move round it as the wheels roll on each other.
    """
    return Sight.point(i, j, a_i, p_i, p_j), Sight.point(j, i, a_j, p_j, p_i, of=(1, 0))


def across(x: Array | np.ndarray, axis: Array | np.ndarray) -> Any:
    """The part of x normal to a unit axis."""
    return x - (axis @ x) * axis


def on_one_axis(axis: Array | np.ndarray, p_i: Array | np.ndarray, p_j: Array | np.ndarray) -> Any:
    """Whether two points lie on one line along an axis."""
    xp = library_of(axis, p_i, p_j)
    apart = across(p_j - p_i, axis)
    return ~(apart @ apart > _ALONG**2 * xp.maximum(p_i @ p_i, p_j @ p_j))


def pressure_tangent(title: str, angle: Numbers) -> Array:
    """The tangent of a pressure angle, checked."""
    value = number(angle, f"{title}: pressure_angle")
    value = require(
        (value >= 0.0) & (value < 0.5 * np.pi),
        value,
        f"{title}: pressure_angle must be between 0 and π/2 rad, not {shown(value)}; 20 degrees "
        "are 0.349 rad",
    )
    return library_of(value).tan(value)
