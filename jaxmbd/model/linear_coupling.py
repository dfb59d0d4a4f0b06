"""A linear relation between the coordinates of several joints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from . import given
from .body import Body
from .joint_coordinates import bodies_of_joints, coordinate_among
from .joints import AbstractRelation, Rows
from .primitives.coupled import CoupledSum
from .validation import array, number, require


@dataclass(frozen=True, eq=False)
class LinearCoupling(AbstractRelation):
    """A weighted sum of joint coordinates stays constant, Σ c_k x_k = length. Removes 1 degree of
    freedom.

    A fixed tendon of MJCF that is held at its length; a differential of any number of shafts.

    Attributes:
        joints: The joints (objects or names), added before; each by its angle, or its displacement
            where it has no angle.
        coefficients: c_k, (n,).
        length: Of the sum; coordinates are zero at the initial pose as described.
    """

    mark: ClassVar[str] = "outline"

    joints: Sequence[Any] = given.joints()
    coefficients: Any = given.numbers("-")
    length: Any = given.number("rad or m", 0.0)

    what: ClassVar[str] = "coupling"

    def targets(self) -> tuple[Body | str, ...]:
        return bodies_of_joints(self.title, self.joints)

    def rows(self, *bodies: Body) -> Rows:
        if not self.joints:
            raise ValueError(f"{self.title}: name at least one joint")
        c = array(self.coefficients, (len(self.joints),), f"{self.title}: coefficients")
        names = [joint.name for joint in self.joints]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"{self.title}: names joint {name!r} more than once; give it one coefficient"
                )
        c = require((c != 0.0).any(), c, f"{self.title}: all coefficients are zero")
        xs = tuple(coordinate_among(self.title, joint, None, bodies) for joint in self.joints)
        length = number(self.length, f"{self.title}: length")
        return [("coupling", CoupledSum(xs, c, length))]
