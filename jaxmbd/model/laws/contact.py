"""Contact of two bodies."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Scalar
from ...rotations.vectors import basis_from_axis, cross
from .. import given
from ..body import Body
from ..collision.narrow import AbstractPair, Balls, Plane, Swapped
from ..collision.pairs import pair_of
from ..shapes import AbstractShape
from ..state import Pose, Twist
from ..validation import (
    AT_LEAST_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    RESTITUTION,
    array,
    concrete,
    direction,
    number,
    vector,
)
from .base import CONTACT, AbstractLaw, AbstractLawDescription
from .compliant_contact import CompliantContact
from .normal_force import AbstractNormalForce
from .sliding_friction import AbstractSlidingFriction, SmoothedCoulomb

_HERTZ = 1.5  # the exponent of two balls, or of a ball on a plane


class PairContact(AbstractLaw):
    """Contact of two surfaces.

    Attributes:
        pair: Of which surfaces.
        friction: μ [-].
        restitution: [-].
    """

    kind: ClassVar[str] = CONTACT

    pair: AbstractPair
    friction: Scalar
    restitution: Scalar

    @property
    def places(self) -> int:
        return self.pair.places

    def gaps(self, pose: Pose) -> Float[Array, " n"]:
        return self.pair.witness(pose)[0]

    def rates(self, pose: Pose, twist: Twist) -> Float[Array, "n 3"]:
        return self.rates_along(pose, pose, twist)

    def rates_along(self, frame: Pose, pose: Pose, twist: Twist) -> Float[Array, "n 3"]:
        # Each body has its own point: where the gap is open in the middle of a step, the lever arms
        # are those of the impact.
        _, normal, *_ = self.pair.witness(frame)
        *_, on_i, on_j = self.pair.witness(pose)

        def speed(k: int, p: Array) -> Array:
            return twist.v[k] + cross(pose.A[k] @ twist.omega[k], p - pose.r[k])

        def rate(n: Array, p_i: Array, p_j: Array) -> Array:
            e1, e2, n = basis_from_axis(n)
            return jnp.stack([n, e1, e2]) @ (speed(0, p_i) - speed(1, p_j))

        return jax.vmap(rate)(normal, on_i, on_j)

    @property
    def holds(self) -> bool:
        return self.pair.holds

    def held(self, before: Pose, after: Pose) -> "PairContact":
        return PairContact(self.pair.held(before, after), self.friction, self.restitution)

    def bounces(self) -> Float[Array, " n"]:
        return jnp.broadcast_to(self.restitution, (self.places,))

    def frictions(self) -> Float[Array, " n"]:
        return jnp.broadcast_to(self.friction, (self.places,))


@dataclass(frozen=True, eq=False)
class AbstractContactDescription(AbstractLawDescription):
    """Contact of two surfaces, as described; to be derived from.

    Attributes:
        body_i, body_j: The bodies (objects or names).
        friction, restitution, stiffness, damping, exponent, slip_speed: As `Contact` has them.
    """

    body_i: Body | str = given.body()
    body_j: Body | str = given.body()
    friction: Any = given.number("-", 0.0, bounds=NOT_NEGATIVE)
    restitution: Any = given.number("-", 0.0, bounds=RESTITUTION)
    stiffness: Any = given.number("N/m^exponent", None, bounds=NOT_NEGATIVE)
    damping: Any = given.number("s/m", 0.0, bounds=NOT_NEGATIVE)
    exponent: Any = given.number("-", None, bounds=AT_LEAST_ONE)
    slip_speed: Any = given.number("m/s", None, bounds=POSITIVE)

    what: ClassVar[str] = "contact"

    def targets(self) -> tuple[Body | str, ...]:
        return self.body_i, self.body_j

    def normal_force(self) -> AbstractNormalForce | None:
        """What pushes surfaces apart that give way; None for a rigid contact."""
        return self._compliance(_HERTZ)

    def sliding_friction(self) -> AbstractSlidingFriction:
        """The friction of surfaces that give way."""
        friction = self._number("friction")
        slip_speed = number(1.0, f"{self.title}: slip_speed")
        if self.slip_speed is not None:
            slip_speed = self._number("slip_speed")
        elif (known := concrete(friction)) is None or known > 0.0:
            raise ValueError(
                f"{self.title}: friction of a contact with stiffness needs slip_speed [m/s], below "
                "which it falls off to zero"
            )
        return SmoothedCoulomb(friction, slip_speed)

    def _between(self, pair: AbstractPair) -> PairContact | CompliantContact:
        """The numeric element on two surfaces."""
        law = self.normal_force()
        if law is None:
            self._refuse(("slip_speed",), f"is of a {self.what} with stiffness")
            return PairContact(pair, self._number("friction"), self._number("restitution"))
        springs = pair.springs()
        if springs is None:
            raise NotImplementedError(
                f"{self.title}: the places where these shapes touch come and go, and the stiffness "
                "of all of them together with them; give points= on one body, or leave stiffness "
                "out"
            )
        return CompliantContact(springs, law, self.sliding_friction())


@dataclass(frozen=True, eq=False)
class AbstractContact(AbstractContactDescription):
    """Contact of shapes, points and planes under a law of its own; to be derived from.

    A law of surfaces that give way is a class with `normal_force`, `sliding_friction` or both. It
    gives way where `stiffness` is given; one that always does says so by `gives_way = True`.

    Attributes:
        name, body_i, body_j, points, radius, normal, point: As `Contact` has them.
    """

    points: Any = given.numbers("m", None)
    radius: Any = given.number("m", 0.0, bounds=NOT_NEGATIVE)
    point: Any = given.vector("m", (0.0, 0.0, 0.0))
    normal: Any = given.vector("-", None)

    def element(self, *bodies: Body) -> PairContact | CompliantContact:
        i, j = bodies
        radius = concrete(self._number("radius"))
        if self.points is None and radius is not None and radius > 0.0:
            raise ValueError(
                f"{self.title}: radius is that of balls around points; give points, or leave it "
                "out: a body without points touches with its shape"
            )
        return self._between(self._pair(i, j))

    def _pair(self, i: Body, j: Body) -> AbstractPair:
        first = self._points(i) if self.points is not None else i.shape
        if j.shape is None or self.normal is not None:
            up = (0.0, 0.0, 1.0) if self.normal is None else self.normal
            normal = direction(up, f"{self.title}: normal")
            point = vector(self.point, 3, f"{self.title}: point")
            plane = Plane(j.point(point), j.direction(normal))
            found = None if first is None else pair_of(first, plane)
            if found is None:
                raise ValueError(f"{self.title}: {_nothing(i, i.shape)}")
            return found
        point = concrete(self.point)
        if point is None or np.any(point):
            raise ValueError(
                f"{self.title}: point is that of a plane, and body {j.name!r} touches with its "
                "shape; give normal too, or leave point out"
            )
        found = None if first is None else pair_of(first, j.shape)
        if found is None and isinstance(first, AbstractShape):
            turned = pair_of(j.shape, first)
            found = None if turned is None else Swapped(turned)
        if found is None:
            raise ValueError(f"{self.title}: {_nothing(j, j.shape, i)}")
        return found

    def _points(self, body: Body) -> Balls:
        """The points that are given, with their radius, in the frame of the body."""
        shape = np.shape(self.points)
        if len(shape) != 2 or shape[1] != 3:
            raise ValueError(f"{self.title}: points must be a list of points, (n, 3)")
        points = array(self.points, shape, f"{self.title}: points")
        return Balls.of([body.point(p) for p in points], self._number("radius"))


@dataclass(frozen=True, eq=False)
class Contact(AbstractContact):
    """Contact of two bodies, rigid with exact stick, or with stiffness and damping.

    A body touches with its shape (Sphere, Capsule, Box, HollowCylinder, Rod, Tetrahedron), or with
    the points that are given. The surface of body j is its shape (Sphere, Capsule, Box), or a
    plane: where `normal` says so, and where it has no shape, as the ground has none.

    A rigid contact takes `mbd.Moreau`. With `stiffness` surfaces give way: at a place where they
    overlap by δ they push each other apart with F = stiffness δ^exponent (1 + damping dδ/dt), never
    less than zero (Hunt and Crossley). Such a contact is a force: every integrator, `equilibrium`
    and `linearize` take it, and `Solution.element` has what it does. Its friction is μ F w / √(w² +
    slip_speed²), w being the sliding velocity: under load it creeps, by slip_speed at most while
    the load is below 0.7 μ F.

    Attributes:
        name: Unique among the laws of a mechanism, with `stiffness` among its forces too.
        body_i, body_j: The bodies (objects or names).
        friction: Coefficient μ of dry friction [-].
        restitution: Of a rigid contact: normal speed after an impact over that before it [-].
        stiffness: Of every place where the surfaces touch, such as each corner of a box on a plane
            [N/m^exponent]; rigid by default.
        damping: Loss per speed of a contact with stiffness [s/m]; at low speed v the speed after an
            impact is about v (1 - 2/3 damping v).
        exponent: Of the depth [-], 1 or more; 1.5 by default, after Hertz.
        slip_speed: Speed of sliding up to which friction of a contact with stiffness grows [m/s].
        points: On body i, in place of its shape: (n, 3) [m], global at the initial pose.
        radius: Of balls around these points [m].
        normal: Of a plane on body j, global at the initial pose, pointing out of it; z by default.
        point: Of that plane, global at the initial pose [m].
    """


def _nothing(body: Body, shape: AbstractShape | None, other: Body | None = None) -> str:
    """Why a body touches nothing, and what to do."""
    if shape is None:
        return f"body {body.name!r} has no shape; give it one, or give points="
    if other is None:
        return f"no contact of {type(shape).__name__} with a plane is known; give points="
    return (
        f"no contact of {type(other.shape).__name__} ({other.name!r}) with "
        f"{type(shape).__name__} ({body.name!r}) is known; swap the bodies, or give points="
    )
