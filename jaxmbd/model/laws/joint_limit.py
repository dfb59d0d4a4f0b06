"""Stops of a joint, rigid or giving way."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar
from .. import given
from ..body import Body
from ..coordinates import COORDINATES, AbstractAngle, Angle, Displacement
from ..forces.along import along_outputs, coordinate_wrench
from ..forces.base import AbstractForce, Output
from ..joint_coordinates import joint_coordinate
from ..state import Pose, Twist
from ..validation import AT_LEAST_ONE, NOT_NEGATIVE, RESTITUTION, number, require
from .base import STOP, AbstractLaw, AbstractLawDescription
from .normal_force import AbstractNormalForce


def units_along(coordinate: AbstractAngle | Displacement) -> tuple[str, str]:
    """Units of a coordinate and of the force along it."""
    return ("rad", "N·m") if isinstance(coordinate, AbstractAngle) else ("m", "N")


def each_body(x: Any) -> tuple[Any, Any]:
    """The two bodies' parts of a pose or a twist."""
    return tuple(type(x)(*(getattr(x, f)[k] for f in x.__dataclass_fields__)) for k in (0, 1))


class Limits(AbstractLaw):
    """A joint coordinate between two numbers.

    Attributes:
        coordinate: Of the joint.
        lower, upper: Its limits [rad] or [m]; None where there is none.
        restitution: [-].
    """

    kind: ClassVar[str] = STOP

    coordinate: Angle | Displacement
    lower: Scalar | None
    upper: Scalar | None
    restitution: Scalar

    @property
    def units(self) -> tuple[str, str]:
        return units_along(self.coordinate)

    @property
    def places(self) -> int:
        return (self.lower is not None) + (self.upper is not None)

    @property
    def signs(self) -> Float[Array, " n"]:
        """How the gaps change with the coordinate: 1 for the lower limit, -1 for the upper one."""
        signs = ([] if self.lower is None else [1.0]) + ([] if self.upper is None else [-1.0])
        return jnp.asarray(signs, self.restitution.dtype)

    def gaps_at(self, x: Scalar) -> Float[Array, " n"]:
        """The gaps at a value of the coordinate."""
        below = [] if self.lower is None else [x - self.lower]
        return jnp.stack(below + ([] if self.upper is None else [self.upper - x]))

    def gaps(self, pose: Pose) -> Float[Array, " n"]:
        return self.gaps_at(self.coordinate.value(*each_body(pose)))

    def gap_size(self, length: Scalar) -> Scalar:
        return length if isinstance(self.coordinate, Displacement) else jnp.ones_like(length)

    def rates(self, pose: Pose, twist: Twist) -> Float[Array, "n 1"]:
        (pose_i, pose_j), (twist_i, twist_j) = each_body(pose), each_body(twist)
        rate = self.coordinate.rate(pose_i, twist_i, pose_j, twist_j)
        return (self.signs * rate)[:, None]

    def bounces(self) -> Float[Array, " n"]:
        return jnp.broadcast_to(self.restitution, (self.places,))


class CompliantLimits(AbstractForce):
    """Stops of a joint coordinate that give way.

    Attributes:
        limits: Where the stops are.
        law: Of each of them.
        lossy: Whether only the part of the force without a potential acts.
    """

    stiff: ClassVar[bool] = True
    kind: ClassVar[str] = STOP

    limits: Limits
    law: AbstractNormalForce
    lossy: bool = eqx.field(static=True, default=False)

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        effort = self.effort(pose, twist)
        force, torque = coordinate_wrench(self.limits.coordinate, *each_body(pose))
        return effort * force, effort * torque

    def effort(self, pose: Pose, twist: Twist) -> Scalar:
        """The generalized force along the coordinate; the lower stop pushes it up [N or N·m]."""
        depths, speeds = -self.limits.gaps(pose), -self.limits.rates(pose, twist)[:, 0]
        force = self.law.lost if self.lossy else self.law.force
        return self.limits.signs @ force(depths, speeds)

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The force along the coordinate, or the torque; the lower stop pushes it up."""
        x, bodies, moving = self.limits.coordinate, each_body(pose), each_body(twist)
        value, rate = x.value(*bodies), x.rate(bodies[0], moving[0], bodies[1], moving[1])
        own = along_outputs(isinstance(x, AbstractAngle), value, rate, self.effort(pose, twist))
        return (*own, self.power(pose, twist, t))

    def kinks(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " n"]:
        """The gaps."""
        return self.limits.gaps(pose)

    def invariants(self, pose: Pose) -> Float[Array, " p"]:
        x, pair = self.limits.coordinate, each_body(pose)
        if isinstance(x, AbstractAngle):
            return jnp.stack(x.cosine_and_sine(*pair))
        return x.value(*pair)[None]

    def stored(self, invariants: Float[Array, " p"]) -> Scalar:
        x = self.limits.coordinate
        value = x.unwound(*invariants) if isinstance(x, AbstractAngle) else invariants[0]
        return jnp.sum(self.law.energy(-self.limits.gaps_at(value)))

    def dissipative(self) -> "CompliantLimits":
        return dataclasses.replace(self, lossy=True)


@dataclass(frozen=True, eq=False)
class JointLimit(AbstractLawDescription):
    """Stops of a joint: its coordinate stays between two numbers, and bounces off them.

    Rigid stops take `mbd.Moreau`. With `stiffness` the stops give way: beyond a limit by δ they
    push back with F = stiffness δ^exponent (1 + damping dδ/dt), never less than zero (Hunt and
    Crossley). They are then forces: every integrator, `equilibrium` and `linearize` take them, and
    `Solution.element` has their force.

    Attributes:
        name: Unique among the laws of a mechanism, with `stiffness` among its forces too.
        joint: The joint (object or name), added before.
        lower, upper: Limits of its coordinate, which is zero at the initial pose as described
            [rad] or [m]; one of them may be left out.
        restitution: Of a rigid stop: speed after an impact over that before it [-].
        stiffness: Of stops that give way [N·m/rad^exponent] or [N/m^exponent]; rigid by default.
        damping: Loss per speed of stops that give way [s/rad] or [s/m].
        exponent: Of the depth [-], 1 or more; 1 by default, a linear spring.
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
    """

    joint: Any = given.joint()
    lower: Any = given.number("rad or m", None)
    upper: Any = given.number("rad or m", None)
    restitution: Any = given.number("-", 0.0, bounds=RESTITUTION)
    stiffness: Any = given.number("N·m/rad^exponent or N/m^exponent", None, bounds=NOT_NEGATIVE)
    damping: Any = given.number("s/rad or s/m", 0.0, bounds=NOT_NEGATIVE)
    exponent: Any = given.number("-", None, bounds=AT_LEAST_ONE)
    coordinate: str | None = given.choice(*COORDINATES, default=None)

    what: ClassVar[str] = "limit"

    def targets(self) -> tuple[Body | str, ...]:
        return self.joint.body_i, self.joint.body_j

    def normal_force(self) -> AbstractNormalForce | None:
        """What pushes back beyond a limit; None for rigid stops."""
        return self._compliance(1.0)

    def element(self, *bodies: Body) -> AbstractLaw | AbstractForce:
        i, j = bodies
        if self.lower is None and self.upper is None:
            raise ValueError(f"{self.title}: give lower, upper or both")
        lower, upper = (
            None if x is None else number(x, f"{self.title}: {field}")
            for field, x in (("lower", self.lower), ("upper", self.upper))
        )
        if lower is not None and upper is not None:
            upper = require(lower < upper, upper, f"{self.title}: lower must be less than upper")
        coordinate = joint_coordinate(self.title, self.joint, self.coordinate, (i, j))
        limits = Limits(coordinate, lower, upper, self._number("restitution"))
        law = self.normal_force()
        return limits if law is None else CompliantLimits(limits, law)
