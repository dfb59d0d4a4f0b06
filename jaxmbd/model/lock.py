"""A lock: a joint's coordinate is held."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..rotations.types import host
from . import given
from .body import Body
from .coordinates import COORDINATES
from .joint_coordinates import bodies_of_joints, coordinate_among
from .joints import AbstractRelation, Rows
from .primitives.coupled import CoupledSum
from .validation import default_dtype, number


@dataclass(frozen=True, eq=False)
class Lock(AbstractRelation):
    """A latch, brake or detent: the angle or the displacement of a joint stays. Removes 1 degree of
    freedom.

    With `active=False` it is open until something shuts it: `mbd.Activate` at an event, or its
    input.

    Attributes:
        joint: The joint (object or name), added before.
        at: Where the coordinate is held; zero is the initial pose as described [rad or m].
        coordinate: "angle" or "displacement"; the angle by default where a joint has both.
    """

    mark: ClassVar[str] = "outline"

    joint: Any = given.joint()
    at: Any = given.number("rad or m", 0.0)
    coordinate: str | None = given.choice(*COORDINATES, default=None)

    what: ClassVar[str] = "lock"

    def targets(self) -> tuple[Body | str, ...]:
        return bodies_of_joints(self.title, (self.joint,))

    def rows(self, *bodies: Body) -> Rows:
        x = coordinate_among(self.title, self.joint, self.coordinate, bodies)
        one = host.ones(1, default_dtype())
        return [("lock", CoupledSum((x,), one, number(self.at, f"{self.title}: at")))]
