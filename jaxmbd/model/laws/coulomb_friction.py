"""Dry friction in a joint."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar
from .. import given
from ..body import Body
from ..coordinates import COORDINATES, AbstractAngle, Displacement
from ..joint_coordinates import joint_coordinate
from ..joints import AbstractConstraint
from ..state import Pose, Twist
from ..validation import NOT_NEGATIVE
from .base import DRY, AbstractLaw, AbstractLawDescription
from .joint_limit import each_body, units_along


class DryFriction(AbstractLaw):
    """Dry friction along a joint coordinate.

    Attributes:
        coordinate: Of the joint.
        constant: Part of the bound that does not change [N·m] or [N].
        per_force: Bound per unit of the joint's force [m] or [-].
    """

    kind: ClassVar[str] = DRY

    coordinate: AbstractAngle | Displacement
    constant: Scalar
    per_force: Scalar

    @property
    def units(self) -> tuple[str, str]:
        return units_along(self.coordinate)

    @property
    def places(self) -> int:
        return 1

    def gaps(self, pose: Pose) -> Float[Array, "1"]:
        return jnp.zeros(1, pose.r.dtype)

    def rates(self, pose: Pose, twist: Twist) -> Float[Array, "1 1"]:
        (pose_i, pose_j), (twist_i, twist_j) = each_body(pose), each_body(twist)
        return self.coordinate.rate(pose_i, twist_i, pose_j, twist_j).reshape(1, 1)

    def bound(self) -> Scalar:
        return self.constant

    def share(self) -> Scalar:
        return self.per_force


@dataclass(frozen=True, eq=False)
class CoulombFriction(AbstractLawDescription):
    """Dry friction in a joint, with exact sticking; `mbd.Moreau` integrates it.

    Its bound is constant, or a coefficient times the force that the joint itself transmits, or
    both together: R = bound + friction · radius · |F| for an angle, R = bound + friction · |F| for
    a displacement.

    Attributes:
        name: Unique among the laws of a mechanism.
        joint: The joint (object or name), added before.
        bound: Constant part of the bound [N·m] or [N].
        friction: Coefficient μ of the part that the joint's force makes [-].
        radius: Of the pin, for an angle [m].
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
    """

    joint: Any = given.joint()
    bound: Any = given.number("N·m or N", 0.0, bounds=NOT_NEGATIVE)
    friction: Any = given.number("-", 0.0, bounds=NOT_NEGATIVE)
    radius: Any = given.number("m", None, bounds=NOT_NEGATIVE)
    coordinate: str | None = given.choice(*COORDINATES, default=None)

    what: ClassVar[str] = "friction"

    def targets(self) -> tuple[Body | str, ...]:
        return self.joint.body_i, self.joint.body_j

    def carrier(self) -> AbstractConstraint | None:
        return self.joint

    def element(self, *bodies: Body) -> DryFriction:
        i, j = bodies
        bound, friction = self._number("bound"), self._number("friction")
        coordinate = joint_coordinate(self.title, self.joint, self.coordinate, (i, j))
        if isinstance(coordinate, Displacement):
            if self.radius is not None:
                raise ValueError(f"{self.title}: radius is for an angle; leave it out")
            return DryFriction(coordinate, bound, friction)
        if self.radius is None:
            if not (isinstance(self.friction, float | int) and self.friction == 0.0):
                raise ValueError(f"{self.title}: friction at an angle needs the radius of the pin")
            return DryFriction(coordinate, bound, friction)
        return DryFriction(coordinate, bound, friction * self._number("radius"))
