"""Couplings: gears, belts, racks, screws, and any polynomial of one joint's coordinate by
another's.

They act on angles over any number of turns, so that a ratio holds to machine precision after
thousands of turns.
"""

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
from .validation import array, concrete, nonzero, positive, vector

_PARALLEL = 1e-9  # of |axis_i × axis_j|, below which two axes count as parallel
_MEETING = 1e-6  # of the distance of two axes to that of their points, below which they intersect


@dataclass(frozen=True, eq=False)
class _AbstractWheels(AbstractConstraint):
    """Two wheels, each about an axis of its own body.

    Attributes:
        axis_i, axis_j: Axes of the wheels, global at the initial pose; `axis_j` defaults to
            `axis_i`.
        point_i, point_j: Points on the axes in the planes of the wheels, global at the initial pose
            [m]; they default to the mass centers.
    """

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

    def _rolling_of_circles(self, i: Body, j: Body, ratio: Array) -> Coupled:
        """The row of two circles in one plane that roll on each other: each sees the center of the
        other in a direction that moves round it.
        """
        a_i, a_j, p_i, p_j = self._wheels(i, j)
        first = Sight.point(i, j, a_i, p_i, p_j)
        second = Sight.point(j, i, a_j, p_j, p_i, of=(1, 0))
        return Coupled(first, second, _linear(ratio))

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        return self._wheels(i, j)[:2]

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        return self._wheels(i, j)[2:]

    def reference_point(self, i: Body, j: Body) -> Array:
        return self._wheels(i, j)[3]


@dataclass(frozen=True, eq=False)
class Gear(_AbstractWheels):
    """Two gears in mesh: their pitch circles, or pitch cones, roll on each other. Removes 1
    degree of freedom.

    The bodies are held by joints of their own, to the ground or to a carrier that may move itself:
    planetary sets and differentials need nothing more. The tooth force acts along the pitch line,
    so that the bearings' reactions contain it; a pressure angle's part, which pushes the gears
    apart, is left out.

    Attributes:
        ratio: Turns of gear j about `axis_j` for one turn of gear i about `axis_i`, seen from what
            holds their axes. With parallel axes that point the same way it is -z_i / z_j for
            external teeth, and z_i / z_j where one of them is a ring; with bevel gears its sign
            says on which side of gear j the teeth are.
        axis_i, axis_j: Axes of the gears, parallel or intersecting, global at the initial pose;
            `axis_j` defaults to `axis_i`.
        point_i, point_j: The gears' centers, global at the initial pose [m]; they default to the
            mass centers.
    """

    ratio: Any = given.number("-")

    def rows(self, i: Body, j: Body) -> Rows:
        ratio = nonzero(self.ratio, f"{self.title}: ratio")
        a_i, a_j, p_i, p_j = self._wheels(i, j)
        if self._is_bevel(i, j):
            first = Sight.direction(i, j, a_i, a_j)
            second = Sight.direction(j, i, a_j, a_i, of=(1, 0))
            return [("tooth force", Coupled(first, second, _linear(ratio)))]
        known = concrete(_across(p_j - p_i, a_i))
        if known is not None and not np.linalg.norm(known) > 1e-12:
            raise ValueError(
                f"{self.title}: gears on one shaft cannot mesh; give point_i and point_j, or use a "
                "Coupler for a gearbox of that ratio"
            )
        turns = concrete(ratio * (a_i @ a_j))
        if turns is not None and abs(turns - 1.0) < 1e-12:
            raise ValueError(
                f"{self.title}: an internal gear of ratio 1 would be as large as its ring; they "
                "cannot mesh at a distance. For two external gears of equal size the ratio is -1"
            )
        return [("tooth force", self._rolling_of_circles(i, j, ratio))]

    def _is_bevel(self, i: Body, j: Body) -> bool:
        """Whether the axes intersect; refused where they are skew. Traced axes count as parallel
        where only one is given.
        """
        a_i, a_j, p_i, p_j = self._wheels(i, j)
        if self.axis_j is None:
            return False
        known = _all_concrete(a_i, a_j, p_i, p_j)
        if known is None:
            return True
        k_i, k_j, c_i, c_j = known
        normal = np.cross(k_i, k_j)
        if np.linalg.norm(normal) < _PARALLEL:
            return False
        apart = abs(normal @ (c_j - c_i)) / np.linalg.norm(normal)
        if apart > _MEETING * np.linalg.norm(c_j - c_i):
            raise ValueError(
                f"{self.title}: the axes pass each other at {apart:.4g} m; gears mesh with "
                "parallel or intersecting axes. Give point_i and point_j on the axes, or use a "
                "Coupler for a worm or hypoid pair"
            )
        return True

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        a_i, a_j, p_i, p_j = (np.asarray(x) for x in self._wheels(i, j))
        ratio = plain(self.ratio)
        if self._is_bevel(i, j):
            radii = _cone_radii(a_i, a_j, p_i, p_j, ratio)
        else:
            signed = ratio * float(a_i @ a_j)
            distance = float(np.linalg.norm(_across(p_j - p_i, a_i)))
            radii = distance * abs(signed / (1.0 - signed)), distance / abs(1.0 - signed)
        return [circle(p_i, a_i, radii[0])], [circle(p_j, a_j, radii[1])]


@dataclass(frozen=True, eq=False)
class Belt(_AbstractWheels):
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
        known = _all_concrete(a_i, a_j, p_i, p_j)
        sign = 1.0
        if known is not None:
            k_i, k_j, c_i, c_j = known
            if np.linalg.norm(np.cross(k_i, k_j)) > 1e-6:
                raise ValueError(f"{self.title}: the axes of the pulleys must be parallel")
            if not np.linalg.norm(_across(c_j - c_i, k_i)) > 1e-12:
                raise ValueError(f"{self.title}: the pulleys are on one axis; give their points")
            sign = float(np.sign(k_i @ k_j))
        ratio = r_i / r_j * (-sign if self.crossed else sign)
        return [("belt force", self._rolling_of_circles(i, j, ratio))]

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

    Attributes:
        axis: Of the pinion, global at the initial pose.
        along: Direction of the rack, normal to the axis, global at the initial pose. A turn of the
            pinion about `axis` moves its center by 2π `radius` along it, relative to the rack.
        radius: Of the pitch circle [m]; negative where the rack is on the other side, so that the
            pinion moves against `along`.
        point: Center of the pinion, global at the initial pose [m]; defaults to its mass center.
    """

    axis: Any = given.axis()
    along: Any = given.axis()
    radius: Any = given.number("m")
    point: Any = given.point(None)

    def rows(self, i: Body, j: Body) -> Rows:
        radius = nonzero(self.radius, f"{self.title}: radius")
        axis, along = self._axis(), self._axis("along")
        known = concrete(axis @ along)
        if known is not None and abs(known) > 1e-6:
            raise ValueError(f"{self.title}: the rack must be normal to the axis of the pinion")
        point = self.reference_point(i, j)
        turned = Angle.between(i, j, axis)
        moved = Displacement.between(i, j, along, point)
        return [("tooth force", Coupled(turned, moved, _linear(radius)))]

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        axis, along, center = (
            np.asarray(x) for x in (self._axis(), self._axis("along"), self.reference_point(i, j))
        )
        radius = plain(self.radius)
        # Rolling along means that the contact is where the turn moves the rim backwards.
        touch = center + radius * np.cross(along, axis)
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
    """A relation between the coordinates of two joints, which have been added before it; to be
    derived from.

    Attributes:
        name: Unique among the parts of a mechanism.
        joint_1, joint_2: The joints (objects or names).
    """

    joint_1: Any = given.joint()
    joint_2: Any = given.joint()

    what: ClassVar[str] = "coupling"

    def targets(self) -> tuple[Body | str, ...]:
        """The bodies of both joints, those that the joints move first, each once."""
        return bodies_of_joints(self.title, (self.joint_1, self.joint_2))


@dataclass(frozen=True, eq=False)
class Coupler(AbstractCoupling):
    """The coordinate of joint 2 is a polynomial of that of joint 1, x₂ = Σ c_k x₁ᵏ. Removes 1
    degree of freedom.

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
        known = concrete(c)
        if known is not None and not np.any(known[1:]):
            raise ValueError(
                f"{self.title}: all coefficients of joint 1 are zero, which couples nothing; use a "
                "driver to hold joint 2"
            )
        first = coordinate_among(self.title, self.joint_1, self.coordinate_1, bodies)
        second = coordinate_among(self.title, self.joint_2, self.coordinate_2, bodies)
        if self.joint_1.name == self.joint_2.name and type(first) is type(second):
            raise ValueError(
                f"{self.title}: couples joint {self.joint_1.name!r} with itself, which would lock "
                "it; name two joints or the angle and the displacement of one, or use a driver"
            )
        return [("coupling", Coupled(first, second, c))]


def _all_concrete(*values: Array) -> list[np.ndarray] | None:
    known = [concrete(x) for x in values]
    return None if any(x is None for x in known) else [np.asarray(x) for x in known]


def _linear(ratio: Array) -> Array:
    """The coefficients (0, ratio)."""
    xp = library_of(ratio)
    return xp.stack([xp.zeros_like(ratio), ratio])


def _across(x: Any, axis: Any) -> Any:
    """The part of x normal to a unit axis."""
    return x - (axis @ x) * axis


def _cone_radii(
    a_i: np.ndarray, a_j: np.ndarray, p_i: np.ndarray, p_j: np.ndarray, ratio: float
) -> tuple[float, float]:
    """Radii of the pitch circles of bevel gears at their points."""
    apex = np.linalg.lstsq(np.stack([a_i, -a_j], axis=1), p_j - p_i, rcond=None)[0]
    line = a_i - ratio * a_j  # the instantaneous axis of one gear on the other
    line = line / np.linalg.norm(line)
    return tuple(
        abs(along) * float(np.linalg.norm(np.cross(a, line))) / max(abs(float(a @ line)), 1e-9)
        for along, a in zip(apex, (a_i, a_j), strict=True)
    )
