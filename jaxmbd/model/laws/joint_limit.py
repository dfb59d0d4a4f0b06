"""Stops of a joint."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar
from .. import given
from ..body import Body
from ..coordinates import COORDINATES, AbstractAngle, Displacement
from ..joint_coordinates import joint_coordinate
from ..state import Pose, Twist
from ..validation import concrete, number
from .base import STOP, AbstractLaw, AbstractLawDescription


class Limits(AbstractLaw):
    """A joint coordinate between two numbers.

    Attributes:
        coordinate: Of the joint.
        lower, upper: Its limits [rad] or [m]; None where there is none.
        restitution: [-].
    """

    kind: ClassVar[str] = STOP

    coordinate: AbstractAngle | Displacement
    lower: Scalar | None
    upper: Scalar | None
    restitution: Scalar

    @property
    def places(self) -> int:
        return (self.lower is not None) + (self.upper is not None)

    def gaps(self, pose: Pose) -> Float[Array, " n"]:
        x = self.coordinate.value(*_each(pose))
        below = [] if self.lower is None else [x - self.lower]
        return jnp.stack(below + ([] if self.upper is None else [self.upper - x]))

    def rates(self, pose: Pose, twist: Twist) -> Float[Array, "n 1"]:
        (pose_i, pose_j), (twist_i, twist_j) = _each(pose), _each(twist)
        rate = self.coordinate.rate(pose_i, twist_i, pose_j, twist_j)
        below = [] if self.lower is None else [rate]
        return jnp.stack(below + ([] if self.upper is None else [-rate]))[:, None]

    def bounces(self) -> Float[Array, " n"]:
        return jnp.broadcast_to(self.restitution, (self.places,))


def _each(x: Any) -> tuple[Any, Any]:
    """The two bodies' parts of a pose or a twist."""
    return tuple(type(x)(*(getattr(x, f)[k] for f in x.__dataclass_fields__)) for k in (0, 1))


@dataclass(frozen=True, eq=False)
class JointLimit(AbstractLawDescription):
    """Stops of a joint: its coordinate stays between two numbers, and bounces off them. It takes
    `mbd.Moreau`.

    Attributes:
        name: Unique among the laws of a mechanism.
        joint: The joint (object or name), added before.
        lower, upper: Limits of its coordinate, which is zero at the initial pose as described
            [rad] or [m]; one of them may be left out.
        restitution: Speed after an impact over that before it [-].
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
    """

    joint: Any = given.joint()
    lower: Any = given.number("rad or m", None)
    upper: Any = given.number("rad or m", None)
    restitution: Any = given.number("-", 0.0)
    coordinate: str | None = given.choice(*COORDINATES, default=None)

    what: ClassVar[str] = "limit"

    def targets(self) -> tuple[Body | str, ...]:
        return self.joint.body_i, self.joint.body_j

    def element(self, *bodies: Body) -> Limits:
        i, j = bodies
        if self.lower is None and self.upper is None:
            raise ValueError(f"{self.title}: give lower, upper or both")
        lower, upper = (
            None if x is None else number(x, f"{self.title}: {field}")
            for field, x in (("lower", self.lower), ("upper", self.upper))
        )
        if lower is not None and upper is not None:
            known = concrete(upper - lower)
            if known is not None and not known > 0.0:
                raise ValueError(f"{self.title}: lower must be less than upper")
        coordinate = joint_coordinate(self.title, self.joint, self.coordinate, (i, j))
        return Limits(coordinate, lower, upper, self._restitution())
