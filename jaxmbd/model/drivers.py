"""Drivers: prescribed relative motion."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from ..rotations.so3 import basis_from_axis
from .body import Body
from .functions import numbers_of_shape, traced_shape
from .joints import AbstractConstraint, Distance, Rows
from .motions import Component, Turning, TurningFrame, is_motion, jet
from .primitives import DP1, DP2
from .validation import default_dtype, vector


@dataclass(frozen=True, eq=False)
class RotationDriver(AbstractConstraint):
    """Prescribes the rotation of body j relative to body i about an axis, `angle(t)` [rad].

    Zero is the initial pose as described, and the angle may grow through any number of turns: the row is a DP1 whose
    body-i direction turns with the angle, so it never meets the singularity of f = cos(angle).
    """

    axis: Any = field(kw_only=True)
    angle: Any = field(kw_only=True)
    point: Any = field(kw_only=True, default=None)
    is_driver: ClassVar[bool] = True

    def rows(self, i: Body, j: Body) -> Rows:
        e1, e2, _ = basis_from_axis(self._axis())
        angle = _motion(self.angle, f"driver {self.name!r}: angle")
        turning = Turning(i.direction(e1), i.direction(e2), angle)
        return [("angle", DP1(turning, j.direction(e2), a_j_along=j.direction(e1)))]


@dataclass(frozen=True, eq=False)
class TranslationDriver(AbstractConstraint):
    """Prescribes the displacement of body j relative to body i along an axis of body i, `displacement(t)` [m].

    Zero is the initial pose as described; `point` is the driven point, by default body j's mass centre.
    """

    axis: Any = field(kw_only=True)
    displacement: Any = field(kw_only=True)
    point: Any = field(kw_only=True, default=None)
    is_driver: ClassVar[bool] = True

    def rows(self, i: Body, j: Body) -> Rows:
        point = self.reference_point(i, j)
        displacement = _motion(self.displacement, f"driver {self.name!r}: displacement")
        return [("displacement", DP2(i.direction(self._axis()), i.point(point), j.point(point), displacement))]


@dataclass(frozen=True, eq=False)
class DistanceDriver(AbstractConstraint):
    """Prescribes the distance of two points, `length(t)` [m]; it must stay positive."""

    point_i: Any = field(kw_only=True)
    point_j: Any = field(kw_only=True)
    length: Any = field(kw_only=True)
    is_driver: ClassVar[bool] = True

    def rows(self, i: Body, j: Body) -> Rows:
        length = _motion(self.length, f"driver {self.name!r}: length")
        return Distance(self.name, i, j, point_i=self.point_i, point_j=self.point_j, length=length).rows(i, j)

    def reference_point(self, i: Body, j: Body) -> Array:
        return vector(self.point_j, 3, f"driver {self.name!r}: point_j")

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        return vector(self.point_i, 3, f"driver {self.name!r}: point_i"), self.reference_point(i, j)


@dataclass(frozen=True, eq=False)
class PoseDriver(AbstractConstraint):
    """Prescribes all of body j's motion relative to body i: `displacement(t)` [m] and `rotation(t)` [rad].

    Both return three numbers, global components, and zero is the initial pose as described. The rotation is a rotation
    vector, an angle of any size about an axis; the displacement is that of `point` of body j, by default its mass
    centre. With a moving body i both are meant in axes that move with it.
    """

    displacement: Any = field(kw_only=True)
    rotation: Any = field(kw_only=True)
    point: Any = field(kw_only=True, default=None)
    is_driver: ClassVar[bool] = True

    def rows(self, i: Body, j: Body) -> Rows:
        what = f"driver {self.name!r}"
        displacement = _motion(self.displacement, f"{what}: displacement", (3,))
        rotation = _motion(self.rotation, f"{what}: rotation", (3,))
        point = self.reference_point(i, j)
        e = jnp.eye(3, dtype=default_dtype())
        s_i, s_j = i.point(point), j.point(point)
        table: Rows = [
            (f"position {n}", DP2(i.direction(e[k]), s_i, s_j, Component(e[k], displacement)))
            for k, n in enumerate("xyz")
        ]
        for k, n in enumerate("xyz"):
            turning = TurningFrame(i.A.T, e[(k + 1) % 3], rotation)
            row = DP1(turning, j.direction(e[(k + 2) % 3]), a_j_along=j.direction(e[(k + 1) % 3]))
            table.append((f"turn {n}", row))
        return table


def _motion(value: Any, what: str, shape: tuple[int, ...] = ()):
    if not is_motion(value):
        raise ValueError(f"{what} must be a function of time, not {value!r}")
    t = jnp.zeros((), default_dtype())
    numbers_of_shape(traced_shape(lambda t: jnp.asarray(value(t)), (t,), what), shape, what)
    traced_shape(lambda t: jet(value, t), (t,), what)  # every analysis needs its time derivatives, by forward mode
    return value
