"""Force elements as the user describes them: by name, with points and axes in global components at
the initial pose.
"""

import abc
import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ...rotations.types import Array, Scalar
from .. import given
from ..body import Body
from ..coordinates import Angle
from ..elements import AbstractElement
from ..functions import numbers_of_shape, traced_shape
from ..motions import hoist
from ..tables import Characteristic, MonotoneCubic
from ..validation import (
    NOT_NEGATIVE,
    USUALLY_NOT_NEGATIVE,
    default_dtype,
    direction,
    number,
    require,
    vector,
)
from .actuators import ACTIONS, AxisActuator
from .base import AbstractForce
from .friction import RelativeDamping
from .inertias import AbstractInertia
from .loads import AppliedForce, AppliedTorque
from .springs import AngleTorque, LineForce

FRAMES = ("global", "body")
# Springs of one side, see `LineForce`.
SIDES = {"tension": 1, "compression": -1}


@dataclass(frozen=True, eq=False)
class AbstractForceDescription(AbstractElement):
    """Base class of descriptions of force elements.

    It is its fields, declared with `given`, the bodies it acts on (`targets`), and the numeric
    `element` on them.

    Attributes:
        name: Unique among the parts of a mechanism.
        active: Whether it acts at the beginning, where that may change within a run: True, False or
            an `Input` that is on above one half. None, the default, of one that always acts. A
            rotor that it has, and states, go on where it is off.
    """

    _: KW_ONLY
    active: Any = given.switch()

    what: ClassVar[str] = "force"

    @abc.abstractmethod
    def element(self, *bodies: Body) -> AbstractForce:
        """The numeric element on those bodies; data that make no sense are refused here."""

    def rotor(self, *bodies: Body) -> AbstractInertia | None:
        """The inertia that the element adds to a joint's coordinate beside its force; None by
        default.
        """
        return None

    def _point(self, field: str) -> Array:
        return vector(getattr(self, field), 3, f"{self.title}: {field}")

    def _value(self, field: str) -> Any:
        """A field that is a number or a function of time."""
        value = getattr(self, field)
        if callable(value) or isinstance(value, str):
            return self._motion(value, field)
        return number(value, f"{self.title}: {field}")

    def _spring(self, field: str) -> tuple[Scalar, Characteristic | None]:
        """The stiffness, and a table or a function that stands in its place, checked."""
        value, what, stiffness = (
            getattr(self, field),
            f"{self.title}: {field}",
            self._number("stiffness"),
        )
        if value is None:
            return stiffness, None
        message = f"{self.title}: give stiffness or {field}, not both"
        stiffness = require(stiffness == 0.0, stiffness, message)
        if not callable(value):
            return stiffness, MonotoneCubic.through(value, what)
        args = (np.zeros((), default_dtype()),) * 2
        found = traced_shape(lambda *args: jnp.asarray(value(*args)), args, what)
        numbers_of_shape(found, (), what)
        return stiffness, hoist(value, *args)

    def _number_or_none(self, field: str) -> Array | None:
        return None if getattr(self, field) is None else self._number(field)

    def _motion_or_none(self, value: object, field: str) -> Any:
        return None if value is None else self._motion(value, field)

    def _check_frame(self, frame: str) -> None:
        if frame not in FRAMES:
            raise ValueError(f"{self.title}: frame must be 'global' or 'body', not {frame!r}")


@dataclass(frozen=True, eq=False)
class AbstractPairForce(AbstractForceDescription):
    """A force element between two bodies.

    Attributes:
        body_i, body_j: The bodies (objects or names); either may be the ground.
    """

    body_i: Body | str = given.body()
    body_j: Body | str = given.body()

    def targets(self) -> tuple[Body | str, ...]:
        return self.body_i, self.body_j


@dataclass(frozen=True, eq=False)
class SpringDamper(AbstractPairForce):
    """A translational spring-damper-actuator between two points.

    Attributes:
        body_i, body_j: The bodies (objects or names); either may be the ground.
        point_i, point_j: Where it is attached, global at the initial pose [m].
        stiffness: [N/m].
        force: Instead of `stiffness`, the pull by the length, positive in tension: a table (lengths
            [m], forces [N]), or a function of the length [m] and its rate [m/s] that returns N.
            Between the entries of a table the pull follows a monotone cubic, beyond them a straight
            line with the slope at the end. A table has a potential energy, zero at `free_length`.
            A function has none: `Solution.energy` does not contain what it stores or dissipates.
        damping: [N·s/m]; added to `force` too.
        free_length: [m]; defaults to the initial length.
        actuator: Push [N] as a function of time, or None.
        only: "tension" for a rope, which only pulls and is slack where it is shorter than its free
            length; "compression" for a bumper, which only pushes where it is shorter. By default
            both. The actuator acts in any case.
        allow_negative: Accept a negative stiffness or damping, which drives its bodies on.
    """

    point_i: Any = given.point()
    point_j: Any = given.point()
    stiffness: Any = given.number("N/m", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    force: Any = given.characteristic("N")
    damping: Any = given.number("N·s/m", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    free_length: Any = given.number("m", None)
    actuator: Any = given.motion("N", None)
    only: str | None = given.choice(*SIDES, default=None)
    allow_negative: bool = given.flag(False)

    def element(self, *bodies: Body) -> LineForce:
        i, j = bodies
        what = f"force {self.name!r}"
        if self.only is not None and self.only not in SIDES:
            raise ValueError(f"{what}: only must be one of {tuple(SIDES)}, not {self.only!r}")
        p_i, p_j = (
            vector(self.point_i, 3, f"{what}: point_i"),
            vector(self.point_j, 3, f"{what}: point_j"),
        )
        if self.free_length is None:
            squared = (p_j - p_i) @ (p_j - p_i)
            squared = require(
                squared > 0.0,
                squared,
                f"{what}: its points coincide at the initial pose; give free_length",
            )
            free = squared**0.5
        else:
            free = self._number("free_length")
        stiffness, characteristic = self._spring("force")
        return LineForce(
            i.point(p_i),
            j.point(p_j),
            stiffness,
            self._number("damping"),
            free,
            self._motion_or_none(self.actuator, "actuator"),
            0 if self.only is None else SIDES[self.only],
            characteristic=self._one_sided(characteristic, free),
        )

    def _one_sided(
        self, characteristic: Characteristic | None, free: Scalar
    ) -> Characteristic | None:
        """The characteristic; a table whose force has the wrong sign where it acts is refused."""
        if self.only is None or not isinstance(characteristic, MonotoneCubic):
            return characteristic
        side, at, values = SIDES[self.only], characteristic.at, characteristic.values
        fits = (side * values >= 0.0) | (side * (at - free) < 0.0)
        does = {"tension": "pushes beyond", "compression": "pulls below"}[self.only]
        message = f"{self.title}: with only={self.only!r} the table {does} free_length"
        return dataclasses.replace(characteristic, values=require(fits, values, message))


@dataclass(frozen=True, eq=False)
class TorsionalSpringDamper(AbstractPairForce):
    """A torsional spring-damper-actuator about an axis common to both bodies.

    Attributes:
        body_i, body_j: The bodies; either may be the ground.
        axis: Global at the initial pose; where the bodies can tilt, it stays with body i.
        stiffness: [N·m/rad].
        torque: Instead of `stiffness`, the torque against a positive rotation of body j by the
            angle: a table (angles [rad], torques [N·m]), or a function of the angle [rad] and its
            rate [rad/s] that returns N·m; see `SpringDamper`, `force`.
        damping: [N·m·s/rad]; added to `torque` too.
        free_angle: Of body j relative to body i, zero being the initial pose, of any number of
            turns [rad]. With a table, where the potential energy is zero.
        actuator: Torque on body j [N·m] as a function of time, or None.
        allow_negative: Accept a negative stiffness or damping, which drives its bodies on.
    """

    axis: Any = given.axis()
    stiffness: Any = given.number("N·m/rad", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    torque: Any = given.characteristic("N·m")
    damping: Any = given.number("N·m·s/rad", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    free_angle: Any = given.number("rad", 0.0)
    actuator: Any = given.motion("N·m", None)
    allow_negative: bool = given.flag(False)

    def element(self, *bodies: Body) -> AngleTorque:
        i, j = bodies
        what = f"force {self.name!r}"
        stiffness, characteristic = self._spring("torque")
        return AngleTorque(
            Angle.between(i, j, direction(self.axis, f"{what}: axis")),
            stiffness,
            self._number("damping"),
            self._number("free_angle"),
            self._motion_or_none(self.actuator, "actuator"),
            characteristic,
        )


@dataclass(frozen=True, eq=False)
class PointForce(AbstractForceDescription):
    """A force at a point of a body.

    Attributes:
        body: The body.
        force: Components [N], (3,), or a function of time that returns them.
        point: Global at the initial pose [m]; defaults to the mass center.
        frame: "global" (components fixed in space) or "body" (components turn with the body).
    """

    body: Body | str = given.body()
    force: Any = given.load("N")
    point: Any = given.point(None)
    frame: str = given.choice(*FRAMES, default="global")

    def targets(self) -> tuple[Body | str, ...]:
        return (self.body,)

    def element(self, *bodies: Body) -> AppliedForce:
        (b,) = bodies
        what = f"force {self.name!r}"
        self._check_frame(self.frame)
        point = b.r if self.point is None else vector(self.point, 3, f"{what}: point")
        return AppliedForce(b.point(point), self._load(self.force, "force"), self.frame)


@dataclass(frozen=True, eq=False)
class Torque(AbstractForceDescription):
    """A torque on a body.

    Attributes:
        body: The body.
        torque: Components [N·m], (3,), or a function of time that returns them.
        frame: "global" or "body".
    """

    body: Body | str = given.body()
    torque: Any = given.load("N·m")
    frame: str = given.choice(*FRAMES, default="global")

    def targets(self) -> tuple[Body | str, ...]:
        return (self.body,)

    def element(self, *bodies: Body) -> AppliedTorque:
        self._check_frame(self.frame)
        return AppliedTorque(self._load(self.torque, "torque"), self.frame)


@dataclass(frozen=True, eq=False)
class AbstractJointForce(AbstractForceDescription):
    """A force element in a joint (object or name)."""

    joint: Any = given.joint()

    def targets(self) -> tuple[Body | str, ...]:
        return self.joint.body_i, self.joint.body_j


@dataclass(frozen=True, eq=False)
class ViscousFriction(AbstractJointForce):
    """Viscous friction in a joint: a couple and a force that oppose the relative motion it leaves
    free.

    Attributes:
        joint: The joint (object or name).
        rotational: [N·m·s/rad].
        translational: [N·s/m].
    """

    rotational: Any = given.number("N·m·s/rad", 0.0, bounds=NOT_NEGATIVE)
    translational: Any = given.number("N·s/m", 0.0, bounds=NOT_NEGATIVE)

    def element(self, *bodies: Body) -> RelativeDamping:
        i, j = bodies
        point = self.joint.reference_point(i, j)
        return RelativeDamping(
            i.point(point),
            j.point(point),
            self._number("rotational"),
            self._number("translational"),
        )


@dataclass(frozen=True, eq=False)
class Actuator(AbstractJointForce):
    """A motor in a joint: a torque about its axis, or a force along it, on body j; body i gets the
    opposite.

    Attributes:
        joint: The joint (object or name); it must have an axis.
        control: A number or a function of time, [N·m] or [N].
        action: "torque" or "force"; by default a force in a `Translational` or `PointOnLine` joint,
            else a torque.
    """

    control: Any = given.value("N·m or N", 0.0)
    action: str | None = given.choice(*ACTIONS, default=None)

    def element(self, *bodies: Body) -> AxisActuator:
        i, j = bodies
        what = f"force {self.name!r}"
        kind, actions = type(self.joint).__name__, self.joint.actions
        if not actions:
            raise ValueError(
                f"{what}: joint {self.joint.name!r} is {kind}, which has no axis to act about"
            )
        action = self.action or actions[0]
        if action not in ACTIONS:
            raise ValueError(f"{what}: action must be one of {ACTIONS}, not {self.action!r}")
        if action not in actions:
            motion = {"torque": "turning about", "force": "sliding along"}[action]
            raise ValueError(
                f"{what}: a {action} does nothing in joint {self.joint.name!r}, because a {kind} "
                f"joint allows no {motion} its axis; use action={actions[0]!r}"
            )
        axis = direction(self.joint.axis, f"joint {self.joint.name!r}: axis")
        control = self.control
        moving = callable(control) or isinstance(control, str)
        control = self._motion(control, "control") if moving else self._number("control")
        return AxisActuator(
            i.direction(axis), j.point(self.joint.reference_point(i, j)), control, action
        )
