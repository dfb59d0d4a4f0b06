"""Rolling without slipping, and edges that cut: wheels, spheres, skates.

Each is a row at position level where the bodies touch, and rows at velocity level for the motions
that contact does not allow. Contact is kept from both sides: whether it would be lost is told by
the sign of the normal force, see `Solution.normal_forces`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..rotations.types import Array, host
from ..rotations.vectors import basis_from_axis
from . import given
from .body import Body
from .joints import AbstractConstraint, Rows
from .outlines import circle, plain
from .primitives.rolling import NotAcross, NotSlipping, RimsNotSlipping, Touching
from .validation import NOT_NEGATIVE, POSITIVE, default_dtype, require, shown, vector


@dataclass(frozen=True, eq=False)
class KnifeEdge(AbstractConstraint):
    """A point of body j does not move across an edge, relative to body i: a skate, a sleigh, a
    wheel seen from above. Removes 1 degree of freedom of the velocities, none of the positions.

    Attributes:
        point: Where the edge cuts, on body j, global at the initial pose [m].
        axis: The direction across the edge, in which body j does not move; it turns with body j.
            Global at the initial pose.
    """

    mark: ClassVar[str] = "outline"

    point: Any = given.point()
    axis: Any = given.axis()

    def rows(self, i: Body, j: Body) -> Rows:
        return [("across", NotAcross(j.direction(self._axis()), j.point(self._point())))]


@dataclass(frozen=True, eq=False)
class _AbstractRolling(AbstractConstraint):
    """A body j that rolls on a plane of body i.

    Attributes:
        point: A point of the plane, global at the initial pose [m].
        normal: Of the plane, towards body j, global at the initial pose; upwards by default.
        center: Center of what rolls, on body j, global at the initial pose [m]; the mass center by
            default.
    """

    mark: ClassVar[str] = "outline"

    point: Any = given.point((0.0, 0.0, 0.0))
    normal: Any = given.vector("-", (0.0, 0.0, 1.0))
    center: Any = given.point(None)

    normal_rows: ClassVar[tuple[str, ...]] = ("normal",)

    def _rolling_rows(self, i: Body, j: Body, axis: Array | None, radius, tube) -> Rows:
        e1, e2, normal = basis_from_axis(self._axis("normal"))
        center = self._center(i, j)
        s_i, s_j = i.point(self._point()), j.point(center)
        disc = (None if axis is None else j.direction(axis), radius, tube)
        slips: Rows = [
            (f"no slip along e{k}", NotSlipping(i.direction(e), i.direction(normal), s_j, *disc))
            for k, e in ((1, e1), (2, e2))
        ]
        return [("normal", Touching(i.direction(normal), s_i, s_j, *disc)), *slips]

    def _center(self, i: Body, j: Body) -> Array:
        if self.center is not None:
            return vector(self.center, 3, f"{self.title}: center")
        if j.is_ground:
            raise ValueError(
                f"{self.title}: body j rolls, and the ground cannot; name the plane's body first"
            )
        return j.r

    def reference_point(self, i: Body, j: Body) -> Array:
        return self._center(i, j)

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        axis = getattr(self, "axis", None)
        none = host.zeros(3, default_dtype())
        return none, none if axis is None else self._axis()


@dataclass(frozen=True, eq=False)
class RollingDisc(_AbstractRolling):
    """A thin disc, or a wheel with a round tyre, that rolls on a plane without slipping.

    Removes 1 degree of freedom of the positions and 2 more of the velocities. With a tyre, the
    contact moves over the tread as the wheel leans.

    Attributes:
        axis: Of the disc, body j's, global at the initial pose.
        radius: Of the disc, or of the circle in the middle of the tyre's tube [m]. The wheel's
            largest radius is `radius + tyre_radius`.
        tyre_radius: Of the tube [m]; 0 for a thin disc with a sharp edge.
        point, normal: The plane of body i: a point of it [m], and its normal towards the disc
            (upwards by default), global at the initial pose.
        center: Of the disc, global at the initial pose [m]; the mass center by default.
    """

    axis: Any = given.axis()
    radius: Any = given.number("m", bounds=POSITIVE)
    tyre_radius: Any = given.number("m", 0.0, bounds=NOT_NEGATIVE)

    def rows(self, i: Body, j: Body) -> Rows:
        axis, normal = self._axis(), self._axis("normal")
        axis = require(
            abs(axis @ normal) <= 1.0 - 1e-9,
            axis,
            f"{self.title}: the axis of the disc is normal to the plane: a disc that lies flat "
            "touches it with its whole rim, and cannot roll",
        )
        return self._rolling_rows(i, j, axis, self._number("radius"), self._number("tyre_radius"))

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        reach = plain(self.radius) + plain(self.tyre_radius)
        return [], [circle(self._center(i, j), self._axis(), reach)]


@dataclass(frozen=True, eq=False)
class RollingSphere(_AbstractRolling):
    """A sphere that rolls on a plane without slipping; the plane may belong to a turning table.

    Removes 1 degree of freedom of the positions and 2 more of the velocities; it may spin about the
    normal.

    Attributes:
        radius: [m]
        point, normal: The plane of body i: a point of it [m], and its normal towards the sphere
            (upwards by default), global at the initial pose.
        center: Of the sphere, global at the initial pose [m]; the mass center by default.
    """

    radius: Any = given.number("m", bounds=POSITIVE)

    def rows(self, i: Body, j: Body) -> Rows:
        zero = host.zeros((), default_dtype())
        return self._rolling_rows(i, j, None, zero, self._number("radius"))


@dataclass(frozen=True, eq=False)
class NoSlip(AbstractConstraint):
    """Two circles of two bodies roll on each other without slipping, with parallel axes: friction
    wheels, a roller on a drum. Joints of their own keep them in touch. Removes 1 degree of freedom
    of the velocities.

    Attributes:
        axis: Of both circles, global at the initial pose; it stays with body i.
        point_i, point_j: Their centers, global at the initial pose [m]; mass centers by default.
        radius_i, radius_j: [m]; the circles touch where these radii divide the line of centers.
        inside: Whether the smaller circle rolls in the larger one.
    """

    mark: ClassVar[str] = "outline"

    axis: Any = given.axis()
    radius_i: Any = given.number("m", bounds=POSITIVE)
    radius_j: Any = given.number("m", bounds=POSITIVE)
    point_i: Any = given.point(None)
    point_j: Any = given.point(None)
    inside: bool = given.flag(False)

    def rows(self, i: Body, j: Body) -> Rows:
        r_i, r_j = self._radii()
        p_i, p_j = self.reference_points(i, j)
        line = p_j - p_i
        distance = (line @ line) ** 0.5
        wanted = abs(r_i - r_j) if self.inside else r_i + r_j
        share = require(
            abs(distance - wanted) <= 1e-6 * distance,
            r_i / (r_i - r_j) if self.inside else r_i / (r_i + r_j),
            f"{self.title}: the centers are {shown(distance)} m apart, but the circles touch at "
            f"{shown(wanted)} m; correct the radii or give point_i and point_j",
        )
        axis = i.direction(self._axis())
        return [("no slip", RimsNotSlipping(axis, i.point(p_i), j.point(p_j), share))]

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        points = []
        for body, field in ((i, "point_i"), (j, "point_j")):
            if getattr(self, field) is not None:
                points.append(vector(getattr(self, field), 3, f"{self.title}: {field}"))
            elif body.is_ground:
                raise ValueError(f"{self.title}: give {field}: the ground has no mass center")
            else:
                points.append(body.r)
        return points[0], points[1]

    def reference_point(self, i: Body, j: Body) -> Array:
        return self.reference_points(i, j)[1]

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        (p_i, p_j), (r_i, r_j) = self.reference_points(i, j), map(plain, self._radii())
        axis = self._axis()
        return [circle(p_i, axis, r_i)], [circle(p_j, axis, r_j)]

    def _radii(self) -> tuple[Array, Array]:
        return (
            self._number("radius_i"),
            self._number("radius_j"),
        )
