"""Drivers: prescribed relative motion."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ..rotations.types import Array, Scalar
from ..rotations.vectors import basis_from_axis
from . import given
from .body import Body
from .functions import traced_shape
from .joints import AbstractConstraint, Distance, Rows
from .motions import Component, Turning, TurningFrame, jet
from .primitives import DP1, DP2
from .validation import default_dtype, vector


@dataclass(frozen=True, eq=False)
class AbstractDriver(AbstractConstraint):
    """A joint that prescribes a motion; to be derived from."""

    what: ClassVar[str] = "driver"
    is_driver: ClassVar[bool] = True

    def _motion(self, value: object, field: str, shape: tuple[int, ...] = ()) -> Any:
        motion = super()._motion(value, field, shape)
        # Every analysis needs its time derivatives, by forward mode.
        traced_shape(
            lambda t: jet(motion, t), (np.zeros((), default_dtype()),), f"{self.title}: {field}"
        )
        return motion


@dataclass(frozen=True, eq=False)
class RotationDriver(AbstractDriver):
    """Prescribes the rotation of body j relative to body i about an axis, `angle(t)` [rad].

    Zero is the initial pose as described, and the angle may grow through any number of turns: the
    row is a DP1 whose body-i direction turns with the angle, so it never meets the singularity of f
    = cos(angle).
    """

    axis: Any = given.axis()
    angle: Any = given.motion("rad")
    point: Any = given.point(None)
    has_angle: ClassVar[bool] = True
    actions: ClassVar[tuple[str, ...]] = ("torque", "force")

    @staticmethod
    def effort(lam: Scalar, f: Scalar) -> Scalar:
        return lam  # the direction of body i turns ahead: ∂Φ/∂φ = 1

    def rows(self, i: Body, j: Body) -> Rows:
        e1, e2, _ = basis_from_axis(self._axis())
        angle = self._motion(self.angle, "angle")
        turning = Turning(i.direction(e1), i.direction(e2), angle)
        return [("angle", DP1(turning, j.direction(e2), a_j_along=j.direction(e1)))]


@dataclass(frozen=True, eq=False)
class TranslationDriver(AbstractDriver):
    """Prescribes the displacement of body j relative to body i along an axis of body i,
    `displacement(t)` [m].

    Zero is the initial pose as described; `point` is the driven point, by default body j's mass
    center.
    """

    axis: Any = given.axis()
    displacement: Any = given.motion("m")
    point: Any = given.point(None)
    has_displacement: ClassVar[bool] = True
    actions: ClassVar[tuple[str, ...]] = ("torque", "force")

    def rows(self, i: Body, j: Body) -> Rows:
        point = self.reference_point(i, j)
        displacement = self._motion(self.displacement, "displacement")
        return [
            (
                "displacement",
                DP2(i.direction(self._axis()), i.point(point), j.point(point), displacement),
            )
        ]


@dataclass(frozen=True, eq=False)
class DistanceDriver(AbstractDriver):
    """Prescribes the distance of two points, `length(t)` [m]; it must stay positive."""

    point_i: Any = given.point()
    point_j: Any = given.point()
    length: Any = given.motion("m")
    is_link: ClassVar[bool] = True

    @staticmethod
    def effort(lam: Scalar, f: Scalar) -> Scalar:
        return -2.0 * jnp.sqrt(f) * lam  # Φ = d² - L²

    def rows(self, i: Body, j: Body) -> Rows:
        length = self._motion(self.length, "length")
        return Distance(
            self.name, i, j, point_i=self.point_i, point_j=self.point_j, length=length
        ).rows(i, j)

    def reference_point(self, i: Body, j: Body) -> Array:
        return vector(self.point_j, 3, f"{self.title}: point_j")

    def reference_points(self, i: Body, j: Body) -> tuple[Array, Array]:
        return vector(self.point_i, 3, f"{self.title}: point_i"), self.reference_point(i, j)


@dataclass(frozen=True, eq=False)
class PoseDriver(AbstractDriver):
    """Prescribes all of body j's motion relative to body i: `displacement(t)` [m] and `rotation(t)`
    [rad].

    Both return three numbers, global components, and zero is the initial pose as described. The
    rotation is a rotation vector, an angle of any size about an axis; the displacement is that of
    `point` of body j, by default its mass center. With a moving body i both are meant in axes that
    move with it.
    """

    displacement: Any = given.load("m")
    rotation: Any = given.load("rad")
    point: Any = given.point(None)

    def rows(self, i: Body, j: Body) -> Rows:
        displacement = self._motion_of_three(self.displacement, "displacement")
        rotation = self._motion_of_three(self.rotation, "rotation")
        point = self.reference_point(i, j)
        e = np.eye(3, dtype=default_dtype())
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
