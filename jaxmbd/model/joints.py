"""Joints: short tables of primitives.

Points and axes are given in global components at the initial pose; a joint turns them into body-fixed vectors.
`perpendicular_1` and `perpendicular_2` are the two pairs of rows that most joints are made of (Kissel et al. Table 1).
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..rotations.so3 import basis_from_axis
from .body import Body
from .motions import Squared, is_motion
from .primitives import CD, DP1, DP2, AbstractPrimitive, D
from .validation import concrete, default_dtype, direction, number, vector

Rows = list[tuple[str, AbstractPrimitive]]


def coincident(i: Body, j: Body, point: Array) -> Rows:
    """Three CD rows: a point of body i stays at a point of body j."""
    eye, s_i, s_j = np.eye(3, dtype=default_dtype()), i.point(point), j.point(point)
    return [(f"position {n}", CD(jnp.asarray(eye[k]), s_i, s_j)) for k, n in enumerate("xyz")]


def perpendicular_1(i: Body, j: Body, normal: Array, axis: Array) -> Rows:
    """Two DP1 rows: `axis` of body j stays perpendicular to the plane of body i that has the given normal."""
    e1, e2, _ = basis_from_axis(normal)
    return [(f"axis perpendicular to e{k}", DP1(i.direction(e), j.direction(axis))) for k, e in ((1, e1), (2, e2))]


def perpendicular_2(i: Body, j: Body, normal: Array, point_i: Array, point_j: Array) -> Rows:
    """Two DP2 rows: the vector between two points stays along the normal of a plane of body i."""
    e1, e2, _ = basis_from_axis(normal)
    s_i, s_j = i.point(point_i), j.point(point_j)
    return [(f"offset along e{k}", DP2(i.direction(e), s_i, s_j)) for k, e in ((1, e1), (2, e2))]


@dataclass(frozen=True, eq=False)
class AbstractConstraint(abc.ABC):
    """A joint, a driver or a free set of primitives between two bodies, as described.

    Attributes:
        name: Unique among the parts of a mechanism.
        body_i, body_j: The two bodies (objects or names); either may be the ground.
    """

    name: str
    body_i: Body | str
    body_j: Body | str
    is_driver: ClassVar[bool] = False

    @abc.abstractmethod
    def rows(self, i: Body, j: Body) -> Rows:
        """Its table of primitives, with labels."""

    def reference_point(self, i: Body, j: Body) -> Array:
        """Its point on body j, where reactions are given, global at the initial pose [m]."""
        point = getattr(self, "point", None)
        return (i.r if j.is_ground else j.r) if point is None else self._point()

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        """Its points on body i and on body j, global at the initial pose [m]; most joints have one common point."""
        point = self.reference_point(i, j)
        return point, point

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        """Its axes on body i and on body j, global at the initial pose; zero where it has none."""
        axis = jnp.zeros(3, default_dtype()) if getattr(self, "axis", None) is None else self._axis()
        return axis, axis

    def _point(self) -> Array:
        return vector(self.point, 3, f"joint {self.name!r}: point")

    def _axis(self, which: str = "axis") -> Array:
        return direction(getattr(self, which), f"joint {self.name!r}: {which}")


@dataclass(frozen=True, eq=False)
class Spherical(AbstractConstraint):
    """A ball joint: a common point. Removes 3 freedoms."""

    point: Any = field(kw_only=True)

    def rows(self, i: Body, j: Body) -> Rows:
        return coincident(i, j, self._point())


@dataclass(frozen=True, eq=False)
class Revolute(AbstractConstraint):
    """A hinge: a common point and a common axis. Removes 5 freedoms."""

    point: Any = field(kw_only=True)
    axis: Any = field(kw_only=True)

    def rows(self, i: Body, j: Body) -> Rows:
        return coincident(i, j, self._point()) + perpendicular_1(i, j, self._axis(), self._axis())


@dataclass(frozen=True, eq=False)
class Universal(AbstractConstraint):
    """A cross joint: a common point, and `axis_i` of body i stays perpendicular to `axis_j` of body j. Removes 4."""

    point: Any = field(kw_only=True)
    axis_i: Any = field(kw_only=True)
    axis_j: Any = field(kw_only=True)

    def rows(self, i: Body, j: Body) -> Rows:
        a_i, a_j = self._axis("axis_i"), self._axis("axis_j")
        known = concrete(a_i @ a_j)
        if known is not None and abs(known) > 0.2:
            raise ValueError(
                f"joint {self.name!r}: the axes of a universal joint must be perpendicular, but axis_i and axis_j "
                f"enclose {np.degrees(np.arccos(np.clip(known, -1, 1))):.1f} degrees"
            )
        row = ("axes perpendicular", DP1(i.direction(a_i), j.direction(a_j)))
        return coincident(i, j, self._point()) + [row]

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        return self._axis("axis_i"), self._axis("axis_j")


@dataclass(frozen=True, eq=False)
class Cylindrical(AbstractConstraint):
    """A sleeve: a common axis, free to turn and to slide. Removes 4 freedoms."""

    point: Any = field(kw_only=True)
    axis: Any = field(kw_only=True)

    def rows(self, i: Body, j: Body) -> Rows:
        point, axis = self._point(), self._axis()
        return perpendicular_1(i, j, axis, axis) + perpendicular_2(i, j, axis, point, point)


@dataclass(frozen=True, eq=False)
class Translational(AbstractConstraint):
    """A slide (prismatic joint): a common axis, no relative rotation. Removes 5 freedoms."""

    point: Any = field(kw_only=True)
    axis: Any = field(kw_only=True)

    def rows(self, i: Body, j: Body) -> Rows:
        point, axis = self._point(), self._axis()
        e1, e2, _ = basis_from_axis(axis)
        no_turn = ("no turn about the axis", DP1(i.direction(e1), j.direction(e2)))
        return perpendicular_1(i, j, axis, axis) + perpendicular_2(i, j, axis, point, point) + [no_turn]


@dataclass(frozen=True, eq=False)
class Planar(AbstractConstraint):
    """Plane on plane: a common normal `axis` through `point`. Removes 3 freedoms."""

    point: Any = field(kw_only=True)
    axis: Any = field(kw_only=True)

    def rows(self, i: Body, j: Body) -> Rows:
        point, axis = self._point(), self._axis()
        distance = ("distance of the planes", DP2(i.direction(axis), i.point(point), j.point(point)))
        return perpendicular_1(i, j, axis, axis) + [distance]


@dataclass(frozen=True, eq=False)
class Fixed(AbstractConstraint):
    """A weld: no relative motion. Removes 6 freedoms. `point` says where reactions are given."""

    point: Any = field(kw_only=True)

    def rows(self, i: Body, j: Body) -> Rows:
        e = jnp.eye(3, dtype=default_dtype())
        turns = [
            (f"no turn about {n}", DP1(i.direction(e[(k + 1) % 3]), j.direction(e[(k + 2) % 3])))
            for k, n in enumerate("xyz")
        ]
        return coincident(i, j, self._point()) + turns


@dataclass(frozen=True, eq=False)
class Distance(AbstractConstraint):
    """A massless link: the distance of two points. Removes 1 freedom. `length` defaults to the initial distance [m]."""

    point_i: Any = field(kw_only=True)
    point_j: Any = field(kw_only=True)
    length: Any = field(kw_only=True, default=None)

    def rows(self, i: Body, j: Body) -> Rows:
        what = f"joint {self.name!r}"
        p_i, p_j = vector(self.point_i, 3, f"{what}: point_i"), vector(self.point_j, 3, f"{what}: point_j")
        length = self.length
        if is_motion(length):
            squared: Any = Squared(length)
        else:
            squared = (p_j - p_i) @ (p_j - p_i) if length is None else number(length, f"{what}: length") ** 2
            known = concrete(squared)
            if known is not None and not known > 0.0:
                raise ValueError(f"{what}: the length must be positive; use Spherical for coincident points")
        return [("distance", D(i.point(p_i), j.point(p_j), squared))]

    def reference_point(self, i: Body, j: Body) -> Array:
        return vector(self.point_j, 3, f"joint {self.name!r}: point_j")

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        return vector(self.point_i, 3, f"joint {self.name!r}: point_i"), self.reference_point(i, j)


@dataclass(frozen=True, eq=False)
class PointOnLine(AbstractConstraint):
    """`point` of body j stays on the line of body i through the same place along `axis`. Removes 2 freedoms."""

    point: Any = field(kw_only=True)
    axis: Any = field(kw_only=True)

    def rows(self, i: Body, j: Body) -> Rows:
        return perpendicular_2(i, j, self._axis(), self._point(), self._point())

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        return self._axis(), jnp.zeros(3, default_dtype())  # the line belongs to body i alone


@dataclass(frozen=True, eq=False)
class Constraint(AbstractConstraint):
    """Any primitives between two bodies, their vectors given in the body frames.

    `primitives` is a list of `DP1`, `DP2`, `D` and `CD`; any `f` may be a function of time. `point_j_bar` says where
    reactions are given, in body j [m]; it defaults to the first point that the primitives name, else the mass centre.
    """

    primitives: Sequence[AbstractPrimitive] = field(kw_only=True)
    point_j_bar: Any = field(kw_only=True, default=None)
    driver: bool = field(kw_only=True, default=False)

    @property
    def is_driver(self) -> bool:  # type: ignore[override]
        return self.driver or any(is_motion(p.f) for p in self.primitives)

    def rows(self, i: Body, j: Body) -> Rows:
        if not self.primitives:
            raise ValueError(f"constraint {self.name!r}: has no primitives")
        return [(type(p).__name__ + f" {k + 1}", self._checked(p, k)) for k, p in enumerate(self.primitives)]

    def _checked(self, p: AbstractPrimitive, k: int) -> AbstractPrimitive:
        what = f"constraint {self.name!r}, primitive {k + 1} ({type(p).__name__})"
        values: dict[str, Any] = {}
        for name in ("a_i_bar", "a_j_bar", "c"):
            if hasattr(p, name):
                value = getattr(p, name)
                values[name] = value if is_motion(value) else _nonzero(value, f"{what}: {name}")
        for name in ("s_i_bar", "s_j_bar"):
            if hasattr(p, name):
                values[name] = vector(getattr(p, name), 3, f"{what}: {name}")
        values["f"] = p.f if is_motion(p.f) else number(p.f, f"{what}: f")
        return type(p)(**values)

    def reference_point(self, i: Body, j: Body) -> Array:
        s_j = self.point_j_bar
        if s_j is None:
            s_j = next((p.s_j_bar for p in self.primitives if hasattr(p, "s_j_bar")), None)
        if s_j is None:
            return super().reference_point(i, j)
        return j.r + j.A @ vector(s_j, 3, f"constraint {self.name!r}: point_j_bar")

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        point_j = self.reference_point(i, j)
        s_i = next((p.s_i_bar for p in self.primitives if hasattr(p, "s_i_bar")), None)
        point_i = point_j if s_i is None else i.r + i.A @ vector(s_i, 3, f"constraint {self.name!r}: s_i_bar")
        return point_i, point_j


def _nonzero(value: Any, what: str) -> Array:
    # Not normalised: a primitive's vector is the user's own, and its length scales the row and its multiplier.
    result = vector(value, 3, what)
    direction(result, what)
    return result
