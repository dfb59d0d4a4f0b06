"""Higher pairs: cams, points and curves on curves, points on surfaces.

Contact is kept from both sides. Whether it would be lost is told by the sign of the normal force,
see `Solution.normal_forces`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ..rotations.types import Array, Scalar, host, library_of
from . import given
from .body import Body
from .curves import Curve, Foot, Meeting, upward
from .functions import numbers_of_shape, traced_shape
from .joints import AbstractConstraint, Rows
from .motions import hoist
from .outlines import circle, plain
from .primitives.curves import CurvesTouch, OnCurve, OnSurface
from .validation import default_dtype, number, require

_TURN = (0.0, 2.0 * np.pi)
_LONG = 3.0  # half the length of a flat face, in sizes of the cam


@dataclass(frozen=True, eq=False)
class AbstractCurved(AbstractConstraint):
    """A joint whose body i has a curve; to be derived from.

    Attributes:
        curve: Of body i: points (n, 3) for a cubic spline, three expressions of a parameter t, or a
            smooth function of a parameter that returns (3,); global at the initial pose [m].
        axis: Normal of the plane of the curve, global at the initial pose.
        closed: Whether the curve returns to its start.
        span: Range of the parameter of a function or of expressions.
        inside: Body j is outside of a closed curve, and of an open one on the side axis × tangent;
            with `inside` it is on the other side.
    """

    mark: ClassVar[str] = "outline"

    curve: Any = given.curve()
    axis: Any = given.axis()
    closed: bool = given.flag(True)
    span: Any = given.numbers("-", _TURN)
    inside: bool = given.flag(False)

    normal_rows: ClassVar[tuple[str, ...]] = ("normal",)

    def _curve(self, i: Body) -> Curve:
        return Curve.on(
            i, self.curve, closed=self.closed, span=self.span, what=f"{self.title}: curve"
        )

    def _upward(self, i: Body, curve: Curve) -> Array:
        """The axis in body i, turned so that its product with the tangent points to body j."""
        return upward(curve, i.direction(self._axis()), inside=self.inside)

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        none = host.zeros(3, default_dtype())
        return none, none


@dataclass(frozen=True, eq=False)
class PointOnCurve(AbstractCurved):
    """A point of body j on a curve of body i, or at a distance from it: a pin in a curved slot, a
    bead on a wire, a roller on a rail. Removes 1 degree of freedom, 2 with `hold_axially`.

    Attributes:
        point: Of body j, global at the initial pose [m].
        offset: Distance from the curve [m]: the radius of a roller.
        hold_axially: Whether the point is also kept on the curve in the direction of the axis.
        curve, axis, closed, span, inside: The curve, see `AbstractCurved`.
    """

    point: Any = given.point()
    offset: Any = given.number("m", 0.0)
    hold_axially: bool = given.flag(False)

    one_sided: ClassVar[bool] = False

    def rows(self, i: Body, j: Body) -> Rows:
        curve = self._curve(i)
        foot = Foot.between(curve, i, j, j.point(self._point()))
        axis = self._upward(i, curve)
        offset = number(self.offset, f"{self.title}: offset")
        zero = host.zeros((), default_dtype())
        table: Rows = [("normal", OnCurve(foot, axis, offset, zero))]
        if self.hold_axially:
            table.append(("axial", OnCurve(foot, axis, zero, zero + 1.0)))
        return table

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        radius = abs(plain(number(self.offset, f"{self.title}: offset")))
        roller = [circle(self._point(), self._axis(), radius)] if radius else []
        return [self._curve(i).outline(i)], roller


@dataclass(frozen=True, eq=False)
class CurveOnCurve(AbstractCurved):
    """A curve of body j touches a curve of body i in a plane: a cam on a flat or a curved follower.
    Both slide. Removes 1 degree of freedom.

    Attributes:
        curve_j: Of body j, given as `curve` is.
        closed_j: Whether it returns to its start.
        span_j: Range of its parameter.
        curve, axis, closed, span, inside: The curve of body i, see `AbstractCurved`.
    """

    curve_j: Any = given.curve()
    closed_j: bool = given.flag(False)
    span_j: Any = given.numbers("-", _TURN)

    def _curve_j(self, j: Body) -> Curve:
        what = f"{self.title}: curve_j"
        return Curve.on(j, self.curve_j, closed=self.closed_j, span=self.span_j, what=what)

    def rows(self, i: Body, j: Body) -> Rows:
        curve = self._curve(i)
        meeting = Meeting.between(curve, self._curve_j(j), self._upward(i, curve), i, j)
        return [("normal", CurvesTouch(meeting))]

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return [self._curve(i).outline(i)], [self._curve_j(j).outline(j)]


@dataclass(frozen=True, eq=False)
class PointOnSurface(AbstractConstraint):
    """A point of body j on a surface of body i, or at a small distance from it. Removes 1 degree of
    freedom.

    Attributes:
        point: Of body j, global at the initial pose [m].
        surface: A smooth function of a point (3,), global at the initial pose [m], that is zero on
            the surface and positive on the side from which body j presses: `lambda x: x[2] -
            x[0]**2`.
        offset: Distance from the surface [m].
    """

    mark: ClassVar[str] = "outline"

    point: Any = given.point()
    surface: Any = given.function()
    offset: Any = given.number("m", 0.0)

    in_files: ClassVar[bool] = False
    normal_rows: ClassVar[tuple[str, ...]] = ("normal",)

    def rows(self, i: Body, j: Body) -> Rows:
        what = f"{self.title}: surface"
        if not callable(self.surface):
            raise ValueError(f"{what} must be a function of a point, not {self.surface!r}")
        point = self._point()
        shape = traced_shape(lambda x: jnp.asarray(self.surface(x)), (point,), what)
        numbers_of_shape(shape, (), what)
        offset = number(self.offset, f"{self.title}: offset")
        function = hoist(self.surface, host.zeros(3, default_dtype()))
        return [("normal", OnSurface(function, i.r, i.A, j.point(point), offset))]


@dataclass(frozen=True, eq=False)
class Cam(AbstractCurved):
    """A cam, body i, and its follower, body j, with a roller, a knife edge or a flat face. The
    follower's own joint makes it translate or oscillate. Removes 1 degree of freedom.

    Attributes:
        point: Center of the roller, or a point of the flat face, on the follower, global at the
            initial pose [m].
        radius: Of the roller [m]; 0 for a knife edge.
        face: Direction along the flat face in the plane of the cam, global at the initial pose;
            None for a roller.
        curve, axis, closed, span, inside: The profile of the cam, see `AbstractCurved`.
    """

    point: Any = given.point()
    radius: Any = given.number("m", 0.0)
    face: Any = given.vector("-", None)

    def rows(self, i: Body, j: Body) -> Rows:
        if self.face is not None:
            return self._flat(i, j).rows(i, j)
        return self._roller(j).rows(i, j)

    def _profile(self, j: Body) -> dict[str, Any]:
        return {
            "name": self.name,
            "body_i": self.body_i,
            "body_j": j,
            "curve": self.curve,
            "axis": self.axis,
            "closed": self.closed,
            "span": self.span,
            "inside": self.inside,
        }

    def _roller(self, j: Body) -> PointOnCurve:
        return PointOnCurve(**self._profile(j), point=self.point, offset=self.radius)

    def _flat(self, i: Body, j: Body) -> CurveOnCurve:
        # A straight line; its parameter is the distance along it in parts of its length.
        point, face = self._point(), self._axis("face")
        axis = require(
            number(self.radius, f"{self.title}: radius") == 0.0,
            self._axis(),
            f"{self.title}: give radius for a roller or face, not both",
        )
        reach = _LONG * _reach(self._curve(i).samples()[1])
        profile: dict[str, Any] = self._profile(j) | {"axis": axis}
        return CurveOnCurve(
            **profile,
            curve_j=lambda s: point + s * reach * face,
            closed_j=False,
            span_j=(-1.0, 1.0),
        )

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        profile = self._curve(i).outline(i)
        point = np.asarray(self._point())
        if self.face is None:
            radius = plain(number(self.radius, f"{self.title}: radius"))
            return [profile], [circle(point, self._axis(), radius)] if radius else []
        reach = 0.6 * float(np.max(np.ptp(profile, axis=0))) if len(profile) else 0.0
        face = np.asarray(self._axis("face"))
        return [profile], [np.stack([point - reach * face, point + reach * face])]


def _reach(points: Array) -> Scalar:
    """The largest extent of points along an axis."""
    xp = library_of(points)
    return xp.max(xp.ptp(points, axis=0))
