"""The pairs of surfaces that are known: the rows of the table."""

from collections.abc import Callable

import numpy as np

from ..shapes import AbstractShape, Box, Capsule, HollowCylinder, Sphere
from ..surfaces import AXES
from .boxes import Boxes
from .capsules import BallsAndCapsule, CapsuleAndBox, Capsules
from .narrow import (
    AbstractPair,
    Balls,
    BallsAndBox,
    BallsAndPlane,
    CylinderAndPlane,
    Pair,
    Plane,
    Swapped,
)
from .table import pair_of as pair_of
from .table import register_pair as register_pair


def _with_balls(
    first: Balls | AbstractShape, make: Callable[[Balls], AbstractPair]
) -> AbstractPair | None:
    balls = first if isinstance(first, Balls) else first.balls()
    return None if balls is None else make(balls)


def _with_sphere(first: Balls | AbstractShape, ball: Sphere) -> AbstractPair | None:
    return _with_balls(first, lambda balls: Pair(balls, ball.balls()))


def _with_box(first: Balls | AbstractShape, box: Box) -> AbstractPair | None:
    return _with_balls(first, lambda balls: BallsAndBox(balls, 0.5 * box.size))


def _with_plane(first: Balls | AbstractShape, plane: Plane) -> AbstractPair | None:
    return _with_balls(first, lambda balls: BallsAndPlane(balls, plane.s_bar, plane.n_bar))


def _cylinder_and_plane(cylinder: HollowCylinder, plane: Plane) -> AbstractPair:
    along = np.eye(3, dtype=cylinder.length.dtype)[AXES[cylinder.axis]]
    half = 0.5 * cylinder.length * along
    return CylinderAndPlane(cylinder.radius, half, plane.s_bar, plane.n_bar)


for _any in (Balls, AbstractShape):  # points of a body, and shapes that have such
    register_pair(_any, Sphere, _with_sphere)
    register_pair(_any, Box, _with_box)
    register_pair(_any, Plane, _with_plane)
register_pair(HollowCylinder, Plane, _cylinder_and_plane)
register_pair(Capsule, Sphere, lambda rod, ball: Swapped(BallsAndCapsule(ball.balls(), rod.core())))
# Its faces, not its corners.
register_pair(Box, Sphere, lambda box, ball: Swapped(BallsAndBox(ball.balls(), 0.5 * box.size)))
register_pair(Capsule, Capsule, lambda a, b: Capsules(a.core(), b.core()))
register_pair(Sphere, Capsule, lambda ball, rod: BallsAndCapsule(ball.balls(), rod.core()))
register_pair(Balls, Capsule, lambda balls, rod: BallsAndCapsule(balls, rod.core()))
register_pair(Box, Box, lambda a, b: Boxes(0.5 * a.size, 0.5 * b.size))
register_pair(Capsule, Box, lambda rod, box: CapsuleAndBox(rod.core(), 0.5 * box.size))
