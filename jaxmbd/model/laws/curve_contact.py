"""A point or a roller that may leave a curve."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...rotations.types import Scalar, Vec3
from .. import given
from ..body import Body
from ..collision.narrow import AbstractPair, Witness
from ..curves import Curve, Foot, upward
from ..primitives.curves import left_normal
from ..state import Pose
from ..validation import NOT_NEGATIVE, direction, vector
from .compliant_contact import CompliantContact
from .contact import AbstractContactDescription, PairContact


class BallAndCurve(AbstractPair):
    """A ball, or a point, of body i against a curve of body j, in the plane of the curve.

    Attributes:
        foot: The nearest point of the curve.
        axis_j_bar: Unit normal of that plane in body j, seen against which the ball is on the left.
        radius: Of the ball [m].
    """

    foot: Foot
    axis_j_bar: Vec3
    radius: Scalar

    @property
    def places(self) -> int:
        return 1

    def witness(self, pose: Pose) -> Witness:
        ball, on = Pose(pose.r[0], pose.A[0]), Pose(pose.r[1], pose.A[1])
        s = self.foot.value(on, ball)
        n = left_normal(self.axis_j_bar, self.foot.curve.tangent(s))
        at = self.foot.curve.at(s)
        apart = n @ (self.foot.target(on, ball) - at)
        n, at = on.A @ n, on.r + on.A @ at
        on_i = at + (apart - self.radius) * n
        return (apart - self.radius)[None], n[None], on_i[None], at[None]


@dataclass(frozen=True, eq=False)
class CurveContact(AbstractContactDescription):
    """Contact of a point or a roller of body i with a curve of body j: a cam follower that may
    jump, a bead that may leave its track.

    Where contact is never lost, `PointOnCurve` and `Cam` are the joints for it.

    Attributes:
        name: Unique among the laws of a mechanism.
        body_i, body_j: The body of the point, and that of the curve (objects or names).
        point: Of body i, global at the initial pose [m].
        radius: Of a roller around it [m].
        curve: Of body j: points (n, 3) for a cubic spline, three expressions of a parameter t, or a
            smooth function of a parameter that returns (3,); global at the initial pose [m].
        axis: Normal of the plane of the curve, global at the initial pose.
        closed: Whether the curve returns to its start.
        span: Range of the parameter of a function or of expressions.
        inside: Body i is outside of a closed curve, and of an open one on the side axis × tangent;
            with `inside` it is on the other side.
        friction: Coefficient μ of dry friction [-].
        restitution: Normal speed after an impact over that before it [-].
        stiffness, damping, exponent, slip_speed: Of surfaces that give way, as in `Contact`; rigid
            by default, which takes `mbd.Moreau`.
    """

    point: Any = given.point()
    curve: Any = given.curve()
    axis: Any = given.axis()
    radius: Any = given.number("m", 0.0, bounds=NOT_NEGATIVE)
    closed: bool = given.flag(True)
    span: Any = given.numbers("-", (0.0, 2.0 * np.pi))
    inside: bool = given.flag(False)

    def element(self, *bodies: Body) -> PairContact | CompliantContact:
        i, j = bodies
        curve = Curve.on(
            j, self.curve, closed=self.closed, span=self.span, what=f"{self.title}: curve"
        )
        point = i.point(vector(self.point, 3, f"{self.title}: point"))
        axis = j.direction(direction(self.axis, f"{self.title}: axis"))
        foot = Foot.between(curve, j, i, point, of=(1, 0))
        pair = BallAndCurve(foot, upward(curve, axis, inside=self.inside), self._number("radius"))
        return self._between(pair)
