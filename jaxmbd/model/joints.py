"""Joints: short tables of primitives.

Points and axes are given in global components at the initial pose; a joint turns them into
body-fixed vectors. `perpendicular_1` and `perpendicular_2` are the two pairs of rows that most
joints are made of (Kissel et al. Table 1).
"""

import abc
import dataclasses
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..rotations.types import Array, Scalar, host
from ..rotations.vectors import basis_from_axis
from . import given
from .body import Body
from .elements import AbstractElement
from .expressions import Expression
from .functions import numbers_of_shape, traced_shape
from .motions import Squared, is_motion
from .primitives import (
    CD,
    DP1,
    DP2,
    AbstractNormalForm,
    AbstractPrimitive,
    AbstractVelocityPrimitive,
    D,
)
from .state import Twist
from .validation import array, concrete, default_dtype, direction, number, require, vector

Rows = list[tuple[str, Any]]  # labels and primitives of either level


def coincident(i: Body, j: Body, point: Array) -> Rows:
    """Three CD rows: a point of body i stays at a point of body j."""
    eye, s_i, s_j = np.eye(3, dtype=default_dtype()), i.point(point), j.point(point)
    return [(f"position {n}", CD(eye[k], s_i, s_j)) for k, n in enumerate("xyz")]


def perpendicular_1(i: Body, j: Body, normal: Array, axis: Array) -> Rows:
    """Two DP1 rows: `axis` of body j stays perpendicular to the plane of body i that has the given
    normal.
    """
    e1, e2, _ = basis_from_axis(normal)
    return [
        (f"axis perpendicular to e{k}", DP1(i.direction(e), j.direction(axis)))
        for k, e in ((1, e1), (2, e2))
    ]


def perpendicular_2(i: Body, j: Body, normal: Array, point_i: Array, point_j: Array) -> Rows:
    """Two DP2 rows: the vector between two points stays along the normal of a plane of body i."""
    e1, e2, _ = basis_from_axis(normal)
    s_i, s_j = i.point(point_i), j.point(point_j)
    return [(f"offset along e{k}", DP2(i.direction(e), s_i, s_j)) for k, e in ((1, e1), (2, e2))]


@dataclass(frozen=True, eq=False)
class AbstractRelation(AbstractElement):
    """Base class of elements that add constraint rows: see `AbstractConstraint` for relations
    between bodies, and `AbstractCoupling` for relations between joints.

    Attributes:
        name: Unique among the parts of a mechanism.
        active: Whether it acts at the beginning, where that may change within a run: True, False or
            an `Input` that is on above one half. None, the default, of one that always acts. Off,
            its rows hold nothing and its reactions are zero.

    Class attributes:
        is_driver: Whether it prescribes a motion.
        is_link: Whether it is drawn as a link between its two points.
        mark: How views draw it: "hinge", "ball", "cross", "sleeve", "screw", "slide", "table",
            "weld", "track", "dot", or by its `outlines` alone as "outline", of gears as "teeth".
        freedoms: What a tree of bodies may use it for: the freedoms it leaves, as slots of
            (translations along e1, e2 and the axis, rotations about them); None for one that closes
            loops.
        tree_rows: How many of its first rows such a tree satisfies by itself; None for all.
        has_angle: Whether it leaves or drives a rotation about its axis that `Solution.joint`
            tells.
        has_displacement: Whether it leaves or drives a displacement along its axis.
        actions: What an actuator may do along its axis, the usual first.
        normal_rows: Labels of its rows along the normal of a contact, see `Solution.normal_forces`.
        one_sided: Whether a real contact could only push along them.
        rebases: Whether it may hold its second body in another pose than it was described in: rows
            of `coincident`, then those of three directions as in `Fixed`.
    """

    _: KW_ONLY
    active: Any = given.switch()

    what: ClassVar[str] = "joint"
    is_driver: ClassVar[bool] = False
    is_link: ClassVar[bool] = False
    mark: ClassVar[str] = "dot"
    freedoms: ClassVar[tuple[int, ...] | None] = None
    tree_rows: ClassVar[int | None] = None
    has_angle: ClassVar[bool] = False
    has_displacement: ClassVar[bool] = False
    actions: ClassVar[tuple[str, ...]] = ()
    normal_rows: ClassVar[tuple[str, ...]] = ()
    one_sided: ClassVar[bool] = True
    rebases: ClassVar[bool] = False

    # An element names its own bodies. `*bodies: Any, **_: Any` is how a base class leaves
    # parameters open; type checkers then accept every override.

    @abc.abstractmethod
    def rows(self, *bodies: Any, **_: Any) -> Rows:
        """Its table of primitives on its bodies, with labels; data that make no sense are refused
        here. Where `targets` names more than two bodies, the others follow i and j.
        """

    @staticmethod
    def effort(lam: Scalar, f: Scalar) -> Scalar:
        """What a driver of one row does along its driven coordinate, from its multiplier and
        prescribed value.

        The joint force is -Φ_qᵀ λ, and Φ = coordinate - f(t).
        """
        return -lam

    def reference_point(self, i: Body, j: Body) -> Array:
        """Its point on body j, where reactions are given, global at the initial pose [m]."""
        point = getattr(self, "point", None)
        return (i.r if j.is_ground else j.r) if point is None else self._point()

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        """Its points on body i and on body j, global at the initial pose [m]; most joints have one
        common point.
        """
        point = self.reference_point(i, j)
        return point, point

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        """Its axes on body i and on body j, global at the initial pose; zero where it has none."""
        axis = (
            host.zeros(3, default_dtype()) if getattr(self, "axis", None) is None else self._axis()
        )
        return axis, axis

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Lines that pictures draw on body i and on body j, each (n, 3), global at the initial pose
        [m].
        """
        return [], []

    def _point(self, which: str = "point") -> Array:
        return vector(getattr(self, which), 3, f"{self.title}: {which}")

    def _axis(self, which: str = "axis") -> Array:
        return direction(getattr(self, which), f"{self.title}: {which}")


@dataclass(frozen=True, eq=False)
class AbstractConstraint(AbstractRelation):
    """Base class of joints, drivers and free sets of primitives between bodies, as described.

    A joint is its fields, declared with `given`, and its `rows`:

        @dataclass(frozen=True, eq=False)
        class Ball(mbd.AbstractConstraint):
            point: Any = given.point()

            def rows(self, i, j):
                return [("distance", mbd.D(i.point(self.point), j.point(self.point), 0.0)), ...]

    Attributes:
        name: Unique among the parts of a mechanism.
        body_i, body_j: The first two bodies (objects or names); one of them may be the ground.
    """

    body_i: Body | str = given.body()
    body_j: Body | str = given.body()

    def targets(self) -> tuple[Body | str, ...]:
        return self.body_i, self.body_j


@dataclass(frozen=True, eq=False)
class Spherical(AbstractConstraint):
    """A ball joint: a common point. Removes 3 degrees of freedom."""

    mark: ClassVar[str] = "ball"

    point: Any = given.point()

    freedoms: ClassVar[tuple[int, ...] | None] = (3, 4, 5)

    def rows(self, i: Body, j: Body) -> Rows:
        return coincident(i, j, self._point())


@dataclass(frozen=True, eq=False)
class Revolute(AbstractConstraint):
    """A hinge: a common point and a common axis. Removes 5 degrees of freedom."""

    mark: ClassVar[str] = "hinge"

    point: Any = given.point()
    axis: Any = given.axis()

    freedoms: ClassVar[tuple[int, ...] | None] = (5,)
    has_angle: ClassVar[bool] = True
    actions: ClassVar[tuple[str, ...]] = ("torque",)

    def rows(self, i: Body, j: Body) -> Rows:
        return coincident(i, j, self._point()) + perpendicular_1(i, j, self._axis(), self._axis())


@dataclass(frozen=True, eq=False)
class Universal(AbstractConstraint):
    """A cross joint: a common point, and `axis_i` of body i stays perpendicular to `axis_j` of body
    j. Removes 4 degrees of freedom.
    """

    mark: ClassVar[str] = "cross"

    point: Any = given.point()
    axis_i: Any = given.axis()
    axis_j: Any = given.axis()

    freedoms: ClassVar[tuple[int, ...] | None] = (
        3,
        4,
        5,
    )  # as a ball, its fourth row left to the closures
    tree_rows: ClassVar[int | None] = 3

    def rows(self, i: Body, j: Body) -> Rows:
        a_i, a_j = self._axis("axis_i"), self._axis("axis_j")
        cosine = a_i @ a_j
        angle = np.nan if (c := concrete(cosine)) is None else np.degrees(np.arccos(c.clip(-1, 1)))
        a_i = require(
            abs(cosine) <= 0.2,
            a_i,
            f"joint {self.name!r}: the axes of a universal joint must be perpendicular, but "
            f"axis_i and axis_j enclose {angle:.1f} degrees",
        )
        row = ("axes perpendicular", DP1(i.direction(a_i), j.direction(a_j)))
        return coincident(i, j, self._point()) + [row]

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        return self._axis("axis_i"), self._axis("axis_j")


@dataclass(frozen=True, eq=False)
class Cylindrical(AbstractConstraint):
    """A sleeve: a common axis, free to turn and to slide. Removes 4 degrees of freedom."""

    mark: ClassVar[str] = "sleeve"

    point: Any = given.point()
    axis: Any = given.axis()

    freedoms: ClassVar[tuple[int, ...] | None] = (2, 5)
    has_angle: ClassVar[bool] = True
    has_displacement: ClassVar[bool] = True
    actions: ClassVar[tuple[str, ...]] = ("torque", "force")

    def rows(self, i: Body, j: Body) -> Rows:
        point, axis = self._point(), self._axis()
        return perpendicular_1(i, j, axis, axis) + perpendicular_2(i, j, axis, point, point)


@dataclass(frozen=True, eq=False)
class Translational(AbstractConstraint):
    """A prismatic joint: a common axis, no relative rotation. Removes 5 degrees of freedom."""

    mark: ClassVar[str] = "slide"

    point: Any = given.point()
    axis: Any = given.axis()

    freedoms: ClassVar[tuple[int, ...] | None] = (2,)
    has_displacement: ClassVar[bool] = True
    actions: ClassVar[tuple[str, ...]] = ("force",)

    def rows(self, i: Body, j: Body) -> Rows:
        point, axis = self._point(), self._axis()
        e1, e2, _ = basis_from_axis(axis)
        no_turn = ("no turn about the axis", DP1(i.direction(e1), j.direction(e2)))
        return (
            perpendicular_1(i, j, axis, axis)
            + perpendicular_2(i, j, axis, point, point)
            + [no_turn]
        )


@dataclass(frozen=True, eq=False)
class Planar(AbstractConstraint):
    """Plane on plane: a common normal `axis` through `point`. Removes 3 degrees of freedom."""

    mark: ClassVar[str] = "table"

    point: Any = given.point()
    axis: Any = given.axis()

    freedoms: ClassVar[tuple[int, ...] | None] = (0, 1, 5)
    has_angle: ClassVar[bool] = True
    actions: ClassVar[tuple[str, ...]] = ("torque",)

    def rows(self, i: Body, j: Body) -> Rows:
        point, axis = self._point(), self._axis()
        distance = (
            "distance of the planes",
            DP2(i.direction(axis), i.point(point), j.point(point)),
        )
        return perpendicular_1(i, j, axis, axis) + [distance]


@dataclass(frozen=True, eq=False)
class Fixed(AbstractConstraint):
    """A weld: no relative motion. Removes 6 degrees of freedom. Reactions are given at `point`.

    Off at first, with `active=False`, it is a gripper: `mbd.Activate(name, here=True)` holds the
    second body where it is found.
    """

    mark: ClassVar[str] = "weld"

    point: Any = given.point()

    freedoms: ClassVar[tuple[int, ...] | None] = ()
    rebases: ClassVar[bool] = True

    def rows(self, i: Body, j: Body) -> Rows:
        e = np.eye(3, dtype=default_dtype())
        turns = [
            (f"no turn about {n}", DP1(i.direction(e[(k + 1) % 3]), j.direction(e[(k + 2) % 3])))
            for k, n in enumerate("xyz")
        ]
        return coincident(i, j, self._point()) + turns


@dataclass(frozen=True, eq=False)
class Distance(AbstractConstraint):
    """A massless link: the distance of two points. Removes 1 degree of freedom. `length` defaults
    to the initial distance [m].
    """

    point_i: Any = given.point()
    point_j: Any = given.point()
    length: Any = given.value("m", None)

    is_link: ClassVar[bool] = True

    def rows(self, i: Body, j: Body) -> Rows:
        what = f"joint {self.name!r}"
        p_i, p_j = (
            vector(self.point_i, 3, f"{what}: point_i"),
            vector(self.point_j, 3, f"{what}: point_j"),
        )
        length = Expression(self.length) if isinstance(self.length, str) else self.length
        if is_motion(length):
            squared: Any = Squared(length)
        else:
            squared = (
                (p_j - p_i) @ (p_j - p_i)
                if length is None
                else number(length, f"{what}: length") ** 2
            )
            squared = require(
                squared > 0.0,
                squared,
                f"{what}: the length must be positive; use Spherical for coincident points",
            )
        return [("distance", D(i.point(p_i), j.point(p_j), squared))]

    def reference_point(self, i: Body, j: Body) -> Array:
        return vector(self.point_j, 3, f"joint {self.name!r}: point_j")

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        return vector(self.point_i, 3, f"joint {self.name!r}: point_i"), self.reference_point(i, j)


@dataclass(frozen=True, eq=False)
class PointOnLine(AbstractConstraint):
    """`point` of body j stays on the line of body i through the same place along `axis`. Removes 2
    degrees of freedom.
    """

    mark: ClassVar[str] = "track"

    point: Any = given.point()
    axis: Any = given.axis()

    has_displacement: ClassVar[bool] = True
    actions: ClassVar[tuple[str, ...]] = ("force", "torque")

    def rows(self, i: Body, j: Body) -> Rows:
        return perpendicular_2(i, j, self._axis(), self._point(), self._point())

    def reference_axes(self, i: Body, j: Body) -> tuple[Array, Array]:
        return self._axis(), host.zeros(3, default_dtype())  # the line belongs to body i alone


@dataclass(frozen=True, eq=False)
class Constraint(AbstractConstraint):
    """Any primitives on two to four bodies, their vectors given in the body frames.

    `primitives` is a list of `DP1`, `DP2`, `D`, `CD` and of your own (`AbstractPrimitive`); any `f`
    may be a function of time. Each of them sees body i, body j and the `others` in that order.
    `point_j_bar` says where reactions are given, in body j [m]; it defaults to the first point that
    the primitives name, else the mass center.
    """

    primitives: Sequence[Any] = given.primitives()
    others: Sequence[Body | str] = given.bodies(())
    point_j_bar: Any = given.vector("m", None)
    driver: bool = given.flag(False)

    @property
    def is_driver(self) -> bool:  # type: ignore[override]
        return self.driver or any(
            is_motion(p.prescribed) or isinstance(p.prescribed, str) for p in self.primitives
        )

    @property
    def is_link(self) -> bool:  # type: ignore[override]
        return [type(p) for p in self.primitives] == [D]

    def targets(self) -> tuple[Body | str, ...]:
        return self.body_i, self.body_j, *self.others

    def rows(self, i: Body, j: Body, *others: Body) -> Rows:
        if not self.primitives:
            raise ValueError(f"constraint {self.name!r}: has no primitives")
        table: Rows = [
            (type(p).__name__ + f" {k + 1}", self._checked(p, k))
            for k, p in enumerate(self.primitives)
        ]
        for (_, p), k in zip(table, range(len(table)), strict=True):
            self._check_bodies(p, k, (i, j, *others))
        return table

    def _checked(self, p: object, k: int) -> Any:
        """The primitive with its numbers as arrays, every field of it."""
        what = f"constraint {self.name!r}, primitive {k + 1} ({type(p).__name__})"
        if not isinstance(p, AbstractPrimitive | AbstractVelocityPrimitive):
            raise TypeError(f"{what}: not a primitive; derive it from mbd.AbstractPrimitive")
        values: dict[str, Any] = {}
        for name, (spec, _) in given.primitive_specs(type(p)).items():
            value = getattr(p, name)
            if isinstance(value, str) and name in p.driven:
                values[name] = Expression(value)
            elif is_motion(value):
                values[name] = value
            elif spec.kind is given.Kind.VECTOR:
                check = _nonzero if spec.unit == "-" else vector3
                values[name] = check(value, f"{what}: {name}")
            elif spec.kind is given.Kind.VALUE:
                values[name] = number(value, f"{what}: {name}")
            else:
                values[name] = _numeric(value, f"{what}: {name}")
        return dataclasses.replace(p, **values)

    def _check_bodies(self, p: Any, k: int, bodies: tuple[Body, ...]) -> None:
        """Refuse a primitive that cannot be evaluated on these bodies, with its own error."""
        kind = type(p).__name__
        what = f"constraint {self.name!r}, primitive {k + 1} ({kind}) on {len(bodies)} bodies"
        poses = tuple(b.pose for b in bodies)
        if isinstance(p, AbstractVelocityPrimitive):
            twists = tuple(Twist(b.v, b.omega) for b in bodies)
            found = traced_shape(lambda *x: jnp.asarray(p.rate(*x)), (poses, twists), what)
        else:
            if isinstance(p, AbstractNormalForm) and len(bodies) != 2:
                raise ValueError(
                    f"{what}: {type(p).__name__} takes two bodies; give others=() or another "
                    "primitive"
                )
            if is_motion(getattr(p, "a_i_bar", None)):
                return
            found = traced_shape(lambda *x: jnp.asarray(p.geometry(*x)), poses, what)
        numbers_of_shape(found, (), what)

    def reference_point(self, i: Body, j: Body) -> Array:
        s_j = self.point_j_bar
        if s_j is None:
            s_j = next(
                (p.s_j_bar for p in self.primitives if "s_j_bar" in given.specs(type(p))), None
            )
        if s_j is None:
            return super().reference_point(i, j)
        return j.r + j.A @ vector(s_j, 3, f"constraint {self.name!r}: point_j_bar")

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        point_j = self.reference_point(i, j)
        s_i = next((p.s_i_bar for p in self.primitives if "s_i_bar" in given.specs(type(p))), None)
        point_i = (
            point_j
            if s_i is None
            else i.r + i.A @ vector(s_i, 3, f"constraint {self.name!r}: s_i_bar")
        )
        return point_i, point_j


def vector3(value: object, what: str) -> Array:
    """A finite vector of three numbers."""
    return vector(value, 3, what)


def _numeric(value: object, what: str) -> Any:
    """Numbers, or lists of them, as an array of the default dtype, finite where known; anything
    else as it is.
    """
    if isinstance(value, eqx.Module):
        return jax.tree.map(lambda x: _numeric(x, what), value)
    if isinstance(value, bool) or not (eqx.is_array_like(value) or isinstance(value, list | tuple)):
        return value
    return array(value, jnp.shape(jnp.asarray(value)), what)


def _nonzero(value: object, what: str) -> Array:
    # Not normalized: a primitive's vector is the user's own, and its length scales the row and its
    # multiplier.
    result = vector(value, 3, what)
    direction(result, what)
    return result
