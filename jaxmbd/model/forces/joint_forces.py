"""Springs, servos, tendons and rotor inertia of joints, as the user describes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...rotations.types import Array
from .. import given
from ..body import Body
from ..coordinates import COORDINATES, AbstractAngle
from ..joint_coordinates import bodies_of_joints, coordinate_among, joint_coordinate
from ..joints import Spherical
from ..validation import NOT_NEGATIVE, USUALLY_NOT_NEGATIVE, array, number, require, shown
from .along import AlongCoordinates
from .descriptions import AbstractForceDescription, AbstractJointForce
from .inertias import AbstractInertia, AlongCoordinate, OfRotation

ROTATION = "rotation"


@dataclass(frozen=True, eq=False)
class JointSpring(AbstractJointForce):
    """A spring and a damper along the coordinate x of a joint: -stiffness (x - reference) -
    damping dx/dt.

    Attributes:
        joint: The joint (object or name).
        stiffness: [N·m/rad] or [N/m].
        effort: Instead of `stiffness`, the effort against a positive x: a table (coordinates,
            efforts), or a function of x and dx/dt; see `SpringDamper`, `force`. With a table the
            potential energy is zero at `reference`.
        damping: [N·m·s/rad] or [N·s/m].
        reference: Where the spring is at rest; the coordinate is zero at the initial pose as
            described [rad] or [m].
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
        allow_negative: Accept a negative stiffness or damping, which drives its bodies on.
    """

    stiffness: Any = given.number("N·m/rad or N/m", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    effort: Any = given.characteristic("N·m or N")
    damping: Any = given.number("N·m·s/rad or N·s/m", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    reference: Any = given.number("rad or m", 0.0)
    coordinate: str | None = given.choice(*COORDINATES, default=None)
    allow_negative: bool = given.flag(False)

    def element(self, *bodies: Body) -> AlongCoordinates:
        i, j = bodies
        x = joint_coordinate(self.title, self.joint, self.coordinate, (i, j))
        return _along(
            self,
            (x,),
            (1.0,),
            None,
            reference=self.reference,
            is_angle=_is_angle(x),
            curved="effort",
        )


@dataclass(frozen=True, eq=False)
class Servo(AbstractJointForce):
    """A motor in a joint with feedback of its coordinate x: gain u(t) + offset - stiffness x -
    damping dx/dt.

    With the default gain, which is the stiffness, u is the position that it steers to; with
    `gain` equal to `damping` and no stiffness u is a speed; with gain 1 alone it is the effort.

    Attributes:
        joint: The joint (object or name).
        control: u, a number or a function of time.
        gain: Effort per unit of control; the stiffness by default.
        stiffness: [N·m/rad] or [N/m].
        damping: [N·m·s/rad] or [N·s/m].
        offset: [N·m] or [N].
        control_range: Least and greatest u, (2,); None for no limits.
        effort_range: Least and greatest effort, (2,) [N·m] or [N]; None for no limits. With limits
            it has no potential, and `linearize` counts it as an input that is not at them.
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
        allow_negative: Accept a negative stiffness or damping, which drives its bodies on.
    """

    control: Any = given.value("rad, m or any", 0.0)
    gain: Any = given.number("-", None)
    stiffness: Any = given.number("N·m/rad or N/m", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    damping: Any = given.number("N·m·s/rad or N·s/m", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    offset: Any = given.number("N·m or N", 0.0)
    control_range: Any = given.numbers("rad, m or any", None)
    effort_range: Any = given.numbers("N·m or N", None)
    coordinate: str | None = given.choice(*COORDINATES, default=None)
    allow_negative: bool = given.flag(False)

    def element(self, *bodies: Body) -> AlongCoordinates:
        i, j = bodies
        x = joint_coordinate(self.title, self.joint, self.coordinate, (i, j))
        return _along(self, (x,), (1.0,), self.control, offset=self.offset, is_angle=_is_angle(x))


@dataclass(frozen=True, eq=False)
class FixedTendon(AbstractForceDescription):
    """A tendon whose length is a sum of joint coordinates, L = Σ c_k x_k, with a spring, a damper
    and a motor: its pull gain u(t) + offset - stiffness (L - reference) - damping dL/dt gives
    joint k the effort c_k times that.

    Attributes:
        joints: The joints (objects or names); each by its angle, or its displacement where it has
            no angle.
        coefficients: c_k, (n,).
        control: u, a number or a function of time; None for a tendon that nothing drives.
        gain: Pull per unit of control.
        stiffness, damping, reference, offset: In units of L.
        control_range: Least and greatest u, (2,); None for no limits.
        effort_range: Least and greatest pull, (2,) [N]; None for no limits, see `Servo`.
        allow_negative: Accept a negative stiffness or damping, which drives its bodies on.
    """

    joints: Sequence[Any] = given.joints()
    coefficients: Any = given.numbers("-")
    control: Any = given.value("any", None)
    gain: Any = given.number("-", 1.0)
    stiffness: Any = given.number("N/m", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    damping: Any = given.number("N·s/m", 0.0, bounds=USUALLY_NOT_NEGATIVE)
    reference: Any = given.number("m", 0.0)
    offset: Any = given.number("N", 0.0)
    control_range: Any = given.numbers("any", None)
    effort_range: Any = given.numbers("N", None)
    allow_negative: bool = given.flag(False)

    def targets(self) -> tuple[Body | str, ...]:
        return bodies_of_joints(self.title, self.joints)

    def element(self, *bodies: Body) -> AlongCoordinates:
        if not self.joints:
            raise ValueError(f"{self.title}: name at least one joint")
        xs = tuple(coordinate_among(self.title, joint, None, bodies) for joint in self.joints)
        return _along(
            self,
            xs,
            self.coefficients,
            self.control,
            reference=self.reference,
            offset=self.offset,
        )


def _is_angle(coordinate: Any) -> bool:
    return isinstance(coordinate, AbstractAngle)


def _along(
    part: Any,
    coordinates: tuple,
    coefficients: Any,
    control: Any,
    *,
    reference: Any = 0.0,
    offset: Any = 0.0,
    is_angle: bool = False,
    curved: str | None = None,
) -> AlongCoordinates:
    """The numeric element of one of the above; `curved` is the field that may stand in place of the
    stiffness.
    """
    if control is not None:
        motion = callable(control) or isinstance(control, str)
        control = (
            part._motion(control, "control")
            if motion
            else number(control, f"{part.title}: control")
        )
    gain = getattr(part, "gain", 0.0)
    title = part.title
    damping = part._number("damping")
    if curved is None:
        stiffness, characteristic = part._number("stiffness"), None
    else:
        stiffness, characteristic = part._spring(curved)
    return AlongCoordinates(
        coordinates,
        array(coefficients, (len(coordinates),), f"{title}: coefficients"),
        stiffness,
        damping,
        number(reference, f"{title}: reference"),
        stiffness if gain is None else number(gain, f"{title}: gain"),
        number(offset, f"{title}: offset"),
        control,
        _limits(part, "control_range"),
        _limits(part, "effort_range"),
        is_angle,
        characteristic,
    )


def _limits(part: AbstractForceDescription, field: str) -> Array | None:
    """The least and the greatest number of a range, or None without one."""
    value, what = getattr(part, field, None), f"{part.title}: {field}"
    if value is None:
        return None
    limits = array(value, (2,), what)
    message = f"{what}: {shown(limits)} is no range; give the least number first"
    return require(limits[0] <= limits[1], limits, message)


@dataclass(frozen=True, eq=False)
class Armature(AbstractJointForce):
    """The inertia that a joint's coordinate has besides its bodies: a rotor with its gearbox, seen
    at the joint. Its kinetic energy is ½ `inertia` times the square of the joint's rate.

    Attributes:
        joint: The joint (object or name).
        inertia: The rotor's inertia times the square of its gear ratio [kg·m²]; of a
            displacement [kg].
        coordinate: "angle", "displacement", or "rotation" about all axes, which is the default in
            a `Spherical` joint.
    """

    inertia: Any = given.number("kg·m² or kg", bounds=NOT_NEGATIVE)
    coordinate: str | None = given.choice(*COORDINATES, ROTATION, default=None)

    def element(self, *bodies: Body) -> AbstractInertia:  # pyright: ignore[reportIncompatibleMethodOverride]
        i, j = bodies
        inertia = self._number("inertia")
        kind = self.coordinate
        if kind is None and isinstance(self.joint, Spherical):
            kind = ROTATION
        if kind == ROTATION:
            if not isinstance(self.joint, Spherical):
                raise ValueError(
                    f"{self.title}: a rotation about all axes is for a Spherical joint; joint "
                    f"{self.joint.name!r} is {type(self.joint).__name__}"
                )
            return OfRotation(inertia)
        coordinate = joint_coordinate(self.title, self.joint, kind, (i, j))
        return AlongCoordinate(coordinate=coordinate, inertia=inertia)
