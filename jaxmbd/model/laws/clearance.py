"""A pin in a bearing, or a ball in a socket, with play."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from ...rotations.vectors import basis_from_axis
from .. import given
from ..body import Body
from ..collision.narrow import FLOOR, AbstractPair, Witness
from ..state import Pose
from ..validation import NOT_NEGATIVE, direction, number, require, vector
from .compliant_contact import CompliantContact
from .contact import AbstractContactDescription, PairContact


class InsideOf(AbstractPair):
    """A ball in a hollow ball, or a pin in a bore: one place.

    Attributes:
        s_i_bar: Center of the ball or the pin in body i [m].
        s_j_bar: Center of the socket or the bore in body j [m].
        axis_j_bar: Unit axis of the bore in body j; None for a socket.
        radius: Of the ball or the pin [m].
        play: Radius of the hollow less that [m].
    """

    s_i_bar: Vec3
    s_j_bar: Vec3
    axis_j_bar: Float[Array, "3"] | None
    radius: Scalar
    play: Scalar

    @property
    def places(self) -> int:
        return 1

    def witness(self, pose: Pose) -> Witness:
        center = pose.r[0] + pose.A[0] @ self.s_i_bar
        hollow = pose.r[1] + pose.A[1] @ self.s_j_bar
        aside = center - hollow
        somewhere = pose.A[1][:, 0]
        if self.axis_j_bar is not None:
            axis = pose.A[1] @ self.axis_j_bar
            aside = aside - (aside @ axis) * axis
            somewhere = basis_from_axis(axis)[0]
        distance = jnp.sqrt(aside @ aside + FLOOR)
        # In the middle every direction is as far.
        middle = distance < 1e-9 * self.play
        out = jnp.where(middle, somewhere, aside / distance)
        on_i = center + self.radius * out
        gap = self.play - distance
        return gap[None], -out[None], on_i[None], (on_i + gap * out)[None]


@dataclass(frozen=True, eq=False)
class Clearance(AbstractContactDescription):
    """A joint with play: a ball of body i in a socket of body j, or a pin in a bore.

    It stands in place of a spherical or a revolute joint. A bore holds its pin across its axis
    alone: in a planar mechanism add `Planar` or keep other joints that hold it along the axis.

    Attributes:
        name: Unique among the laws of a mechanism.
        body_i, body_j: The body of the ball or pin, and that of the hollow (objects or names).
        play: Radius of the hollow less that of the ball or pin [m], positive.
        radius: Of the ball or pin [m]: the lever arm of friction.
        point: Center of the hollow at the initial pose, global [m].
        point_i: That of the ball or pin [m]; the same by default.
        axis: Of the bore, global at the initial pose; none for a socket.
        friction: Coefficient μ of dry friction [-].
        restitution: Normal speed after an impact over that before it [-].
        stiffness, damping, exponent, slip_speed: Of a hollow that gives way, as in `Contact`; rigid
            by default, which takes `mbd.Moreau`.
    """

    play: Any = given.number("m")
    radius: Any = given.number("m", bounds=NOT_NEGATIVE)
    point: Any = given.vector("m")
    point_i: Any = given.vector("m", None)
    axis: Any = given.vector("-", None)

    what: ClassVar[str] = "clearance"

    def element(self, *bodies: Body) -> PairContact | CompliantContact:
        i, j = bodies
        play = number(self.play, f"{self.title}: play")
        joint = "Spherical" if self.axis is None else "Revolute"
        play = require(
            play > 0.0,
            play,
            f"{self.title}: play must be positive; without play use a {joint} joint",
        )
        point = vector(self.point, 3, f"{self.title}: point")
        point_i = point
        if self.point_i is not None:
            point_i = vector(self.point_i, 3, f"{self.title}: point_i")
        axis = None
        if self.axis is not None:
            axis = j.direction(direction(self.axis, f"{self.title}: axis"))
        pair = InsideOf(i.point(point_i), j.point(point), axis, self._number("radius"), play)
        return self._between(pair)
