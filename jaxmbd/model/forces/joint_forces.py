"""Springs, servos, tendons and rotor inertia of joints, as the user describes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...rotations.types import Array, Scalar, host
from .. import given
from ..body import Body
from ..coordinates import COORDINATES, AbstractAngle, Angle, Displacement
from ..joint_coordinates import bodies_of_joints, coordinate_among, joint_coordinate
from ..joints import Spherical
from ..validation import (
    NOT_NEGATIVE,
    POSITIVE,
    USUALLY_NOT_NEGATIVE,
    array,
    default_dtype,
    number,
    require,
    shown,
)
from .activated import INTEGRATOR, LAG, ActivatedServo
from .along import AlongCoordinates
from .base import AbstractForce
from .descriptions import AbstractForceDescription, AbstractJointForce
from .inertias import AbstractInertia, AlongCoordinate, OfRotation
from .stateful import StateRule

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
    With `damping_gain` and gain 0 it is a damper that u sets, as magnetorheological ones are.

    An `activation` a may stand between the control and what it does, and takes the place of u in
    the effort: with "lag" it follows, τ da/dt = u - a; with "integrator" u is its rate, da/dt = u.
    It is a state, "activation".

    Attributes:
        joint: The joint (object or name).
        control: u, a number, a function of time or an `Input`.
        gain: Effort per unit of control; the stiffness by default.
        stiffness: [N·m/rad] or [N/m].
        damping: [N·m·s/rad] or [N·s/m].
        offset: [N·m] or [N].
        control_range: Least and greatest u, (2,); None for no limits.
        effort_range: Least and greatest effort, (2,) [N·m] or [N]; None for no limits. With limits
            it has no potential, and `linearize` counts it as an input that is not at them.
        stiffness_gain, damping_gain: Stiffness and damping per unit of control, besides the other
            ones. `linearize` counts a servo with them as an input only where `control` is one.
        activation: None, "lag" or "integrator", see above.
        time_constant: τ of the lag [s].
        activation_range: Least and greatest a, (2,); None for no limits. An activation that a large
            control drives beyond them does not act, and is led back within a millisecond.
        initial_activation: At the initial time; zero by default.
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
    stiffness_gain: Any = given.number("N·m/rad or N/m per unit of control", None)
    damping_gain: Any = given.number("N·m·s/rad or N·s/m per unit of control", None)
    activation: str | None = given.choice(LAG, INTEGRATOR, default=None)
    time_constant: Any = given.number("s", None, bounds=POSITIVE)
    activation_range: Any = given.numbers("any", None)
    initial_activation: Any = given.number("any", None)
    coordinate: str | None = given.choice(*COORDINATES, default=None)
    allow_negative: bool = given.flag(False)

    def element(self, *bodies: Body) -> AbstractForce:
        i, j = bodies
        x = joint_coordinate(self.title, self.joint, self.coordinate, (i, j))
        if self.activation is None:
            for field in ("time_constant", "activation_range", "initial_activation"):
                if getattr(self, field) is not None:
                    raise ValueError(
                        f'{self.title}: {field} needs activation="lag" or "integrator"'
                    )
            offset = self.offset
            return _along(self, (x,), (1.0,), self.control, offset=offset, is_angle=_is_angle(x))
        return self._activated(x)

    def _activated(self, x: Angle | Displacement) -> ActivatedServo:
        """The numeric element with a state."""
        lags = self.activation == LAG
        if not lags and self.activation != INTEGRATOR:
            raise ValueError(
                f'{self.title}: activation must be "lag" or "integrator", not {self.activation!r}'
            )
        if lags != (self.time_constant is not None):
            which = (
                'activation="lag" needs time_constant'
                if lags
                else "an integrator has no time_constant"
            )
            raise ValueError(f"{self.title}: {which}")
        stiffness = self._number("stiffness")
        nothing = host.zeros((), default_dtype())
        begin = nothing if self.initial_activation is None else self._number("initial_activation")
        per_control = [
            nothing if getattr(self, field) is None else self._number(field)
            for field in ("stiffness_gain", "damping_gain")
        ]
        return ActivatedServo(
            coordinate=x,
            rule=StateRule.held(begin[None]),
            command=self._value("control"),
            gain=stiffness if self.gain is None else self._number("gain"),
            stiffness=stiffness,
            damping=self._number("damping"),
            offset=self._number("offset"),
            stiffness_gain=per_control[0],
            damping_gain=per_control[1],
            time_constant=self._number_or_none("time_constant"),
            control_range=_limits(self, "control_range"),
            activation_range=_limits(self, "activation_range"),
            effort_range=_limits(self, "effort_range"),
            rests=lags,
        )


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


def _is_angle(coordinate: object) -> bool:
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
        *_per_control(part),
    )


def _per_control(part: AbstractForceDescription) -> tuple[Scalar | None, Scalar | None]:
    """Stiffness and damping per unit of control, or None for both."""
    fields = ("stiffness_gain", "damping_gain")
    values = [getattr(part, field, None) for field in fields]
    if all(x is None for x in values):
        return None, None
    stiffness, damping = (
        number(0.0 if x is None else x, f"{part.title}: {field}")
        for field, x in zip(fields, values, strict=True)
    )
    return stiffness, damping


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
