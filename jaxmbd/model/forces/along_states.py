"""Elements with states that act along one quantity of two bodies: the coordinate of a joint, or the
distance of two points. The bases of the numeric elements, and those of their descriptions.
"""

import abc
from dataclasses import dataclass
from typing import Any

import equinox as eqx
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from .. import given
from ..body import Body
from ..coordinates import COORDINATES, AbstractAngle, Angle, Displacement
from ..joint_coordinates import joint_coordinate
from ..state import Pose, Twist
from ..validation import require
from .along import along_outputs, motion_along, wrench_along
from .base import Output
from .descriptions import AbstractJointForce, AbstractPairForce
from .springs import line_motion, push_apart
from .stateful import AbstractStatefulForce


class AbstractAlong(AbstractStatefulForce):
    """An effort along a quantity x of two bodies that depends on x, ẋ, states and time."""

    @abc.abstractmethod
    def effort(self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        """The effort [N·m] or [N]."""

    @abc.abstractmethod
    def rates_at(
        self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        """ż, per second."""

    @abc.abstractmethod
    def motion(self, pose: Pose, twist: Twist) -> tuple[Scalar, Scalar]:
        """X and ẋ; `pose` and `twist` have a leading axis over the two bodies."""

    @abc.abstractmethod
    def wrench_of(
        self, effort: Scalar, pose: Pose
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        """Forces (global) and torques (body frame) of an effort."""

    @abc.abstractmethod
    def named(self, x: Scalar, rate: Scalar, effort: Scalar) -> tuple[Output, ...]:
        """These three as reports know them."""

    def state_rates(
        self, pose: Pose, twist: Twist, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        return self.rates_at(*self.motion(pose, twist), z, t)

    def seen(self, pose: Pose, twist: Twist) -> tuple[Scalar, Scalar]:
        return self.motion(pose, twist)

    def rates_seen(
        self, motion: tuple[Scalar, Scalar], z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        return self.rates_at(*motion, z, t)

    def loads(
        self, pose: Pose, twist: Twist, z: Float[Array, " s"], t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        return self.wrench_of(self.effort(*self.motion(pose, twist), z, t), pose)

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        motion = self.motion(pose, twist)
        return self.wrench_of(self.effort(*motion, self.states_seen(motion, t), t), pose)

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The effort, x and its rate, the power that the bodies get, and the states."""
        x, rate = self.motion(pose, twist)
        effort = self.effort(x, rate, self.states_seen((x, rate), t), t)
        return (
            *self.named(x, rate, effort),
            self.power(pose, twist, t),
            *self.state_outputs(pose, twist, t),
        )


class AbstractAlongCoordinate(AbstractAlong):
    """Base class of elements with states along the coordinate x of a joint, an angle [rad] or a
    displacement [m]. Its `effort` is a torque [N·m] or a force [N] on body j, and the opposite on
    body i.

    Attributes:
        coordinate: x; a description gets it from `AbstractCoordinateForce._coordinate`.
    """

    coordinate: eqx.AbstractVar[Angle | Displacement]

    def motion(self, pose: Pose, twist: Twist) -> tuple[Scalar, Scalar]:
        return motion_along(self.coordinate, pose, twist)

    def wrench_of(
        self, effort: Scalar, pose: Pose
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        return wrench_along(self.coordinate, pose, effort)

    def named(self, x: Scalar, rate: Scalar, effort: Scalar) -> tuple[Output, ...]:
        return along_outputs(isinstance(self.coordinate, AbstractAngle), x, rate, effort)


class AbstractAlongLine(AbstractAlong):
    """Base class of elements with states between a point of body i and one of body j, at the
    distance x [m]. Its `effort` is the pull [N], positive in tension.

    Attributes:
        s_i_bar, s_j_bar: Its points in bodies i and j, (3,) [m]; a description gets them from
            `AbstractLineForce._points`.
    """

    s_i_bar: eqx.AbstractVar[Vec3]
    s_j_bar: eqx.AbstractVar[Vec3]

    def motion(self, pose: Pose, twist: Twist) -> tuple[Scalar, Scalar]:
        return line_motion(self.s_i_bar, self.s_j_bar, pose, twist)

    def wrench_of(
        self, effort: Scalar, pose: Pose
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        force, torque = push_apart(self.s_i_bar, self.s_j_bar, pose)
        return -effort * force, -effort * torque

    def named(self, x: Scalar, rate: Scalar, effort: Scalar) -> tuple[Output, ...]:
        return (
            Output("force", "N", effort),
            Output("length", "m", x),
            Output("rate", "m/s", rate),
        )

    def line(self) -> tuple[Float[Array, "*n 3"], Float[Array, "*n 3"]]:
        return self.s_i_bar, self.s_j_bar


@dataclass(frozen=True, eq=False)
class AbstractCoordinateForce(AbstractJointForce):
    """Base class of descriptions of force elements along the coordinate of a joint.

    Attributes:
        joint: The joint (object or name).
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
    """

    coordinate: str | None = given.choice(*COORDINATES, default=None)

    def _coordinate(self, bodies: tuple[Body, ...]) -> Angle | Displacement:
        """The coordinate on the bodies that `element` gets, zero at the initial pose."""
        i, j = bodies
        return joint_coordinate(self.title, self.joint, self.coordinate, (i, j))


@dataclass(frozen=True, eq=False)
class AbstractLineForce(AbstractPairForce):
    """Base class of descriptions of force elements between two points.

    Attributes:
        body_i, body_j: The bodies (objects or names); either may be the ground.
        point_i, point_j: Where it is attached, global at the initial pose [m].
    """

    point_i: Any = given.point()
    point_j: Any = given.point()

    def _points(self, bodies: tuple[Body, ...]) -> tuple[Vec3, Vec3, Scalar]:
        """Its points in the bodies that `element` gets, and their distance at the initial pose."""
        i, j = bodies
        p_i, p_j = self._point("point_i"), self._point("point_j")
        squared = (p_j - p_i) @ (p_j - p_i)
        squared = require(
            squared > 0.0, squared, f"{self.title}: its points coincide at the initial pose"
        )
        return i.point(p_i), j.point(p_j), squared**0.5
