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
from ..joints import AbstractConstraint
from ..shapes import AbstractShape, Box, HollowCylinder, Rod, Sphere, Tetrahedron
from ..state import Pose, Twist
from ..validation import array, direction, vector
from .base import CONTACT, AbstractLaw, AbstractLawDescription
from .narrow import AbstractPair, Balls, BallsAndBox, BallsAndPlane, CylinderAndPlane, Pair

_AXES = {"x": 0, "y": 1, "z": 2}


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
        # Each body has its own point: where the gap is open in the middle of a step, the lever arms
        # are those of the impact.
        _, normal, on_i, on_j = self.pair.witness(pose)

        def speed(k: int, p: Array) -> Array:
            return twist.v[k] + cross(pose.A[k] @ twist.omega[k], p - pose.r[k])

        def rate(n: Array, p_i: Array, p_j: Array) -> Array:
            e1, e2, n = basis_from_axis(n)
            return jnp.stack([n, e1, e2]) @ (speed(0, p_i) - speed(1, p_j))

        return jax.vmap(rate)(normal, on_i, on_j)

    def bounces(self) -> Float[Array, " n"]:
        return jnp.broadcast_to(self.restitution, (self.places,))

    def frictions(self) -> Float[Array, " n"]:
        return jnp.broadcast_to(self.friction, (self.places,))


@dataclass(frozen=True, eq=False)
class Contact(AbstractLawDescription):
    """Contact of two bodies with dry friction: no penetration, exact stick. It takes `mbd.Moreau`.

    A body touches with its shape (Sphere, Box, HollowCylinder, Rod, Tetrahedron), or with the
    points that are given. The surface of body j is its shape, or a plane: where `normal` says so,
    and where it has no shape, as the ground has none.

    Attributes:
        name: Unique among the laws of a mechanism.
        body_i, body_j: The bodies (objects or names).
        friction: Coefficient μ of dry friction [-].
        restitution: Normal speed after an impact over that before it [-].
        points: On body i, in place of its shape: (n, 3) [m], global at the initial pose.
        radius: Of balls around these points [m].
        normal: Of a plane on body j, global at the initial pose, pointing out of it; z by default.
        point: Of that plane, global at the initial pose [m].
    """

    body_i: Body | str = given.body()
    body_j: Body | str = given.body()
    friction: Any = given.number("-", 0.0)
    restitution: Any = given.number("-", 0.0)
    points: Any = given.numbers("m", None)
    radius: Any = given.number("m", 0.0)
    point: Any = given.vector("m", (0.0, 0.0, 0.0))
    normal: Any = given.vector("-", None)

    what: ClassVar[str] = "contact"

    def targets(self) -> tuple[Body | str, ...]:
        return self.body_i, self.body_j

    def carrier(self) -> AbstractConstraint | None:
        return None

    def element(self, *bodies: Body) -> PairContact:
        i, j = bodies
        pair = self._pair(i, j)
        return PairContact(pair, self._not_negative("friction"), self._restitution())

    def _pair(self, i: Body, j: Body) -> AbstractPair:
        round_i = self._balls(i)
        if j.shape is None or self.normal is not None:
            up = (0.0, 0.0, 1.0) if self.normal is None else self.normal
            normal = direction(up, f"{self.title}: normal")
            point = vector(self.point, 3, f"{self.title}: point")
            plane = j.point(point), j.direction(normal)
            if round_i is not None:
                return BallsAndPlane(round_i, *plane)
            if isinstance(i.shape, HollowCylinder):
                along = np.eye(3, dtype=i.r.dtype)[_AXES[i.shape.axis]]
                return CylinderAndPlane(i.shape.radius, 0.5 * i.shape.length * along, *plane)
            raise ValueError(f"{self.title}: {self._nothing(i, i.shape)}")
        if round_i is not None and isinstance(j.shape, Sphere):
            return Pair(round_i, Balls.of([[0.0] * 3], j.shape.radius))
        if round_i is not None and isinstance(j.shape, Box):
            return BallsAndBox(round_i, 0.5 * j.shape.size)
        raise ValueError(f"{self.title}: {self._nothing(j, j.shape, i)}")

    def _balls(self, body: Body) -> Balls | None:
        """The points of a body, with radii, that its surface is made of, if it is."""
        if self.points is not None:
            given_points = np.shape(self.points)
            if len(given_points) != 2 or given_points[1] != 3:
                raise ValueError(f"{self.title}: points must be a list of points, (n, 3)")
            points = array(self.points, given_points, f"{self.title}: points")
            return Balls.of([body.point(p) for p in points], self._not_negative("radius"))
        shape = body.shape
        if isinstance(shape, Sphere):
            return Balls.of([[0.0] * 3], shape.radius)
        if isinstance(shape, Box):
            corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
            return Balls.of([0.5 * shape.size * corner for corner in corners], 0.0)
        if isinstance(shape, Rod):
            half = 0.5 * shape.length * np.eye(3)[_AXES[shape.axis]]
            return Balls.of([-half, half], 0.0)
        if isinstance(shape, Tetrahedron):
            return Balls.of(list(shape.corners), 0.0)
        return None

    def _nothing(self, body: Body, shape: AbstractShape | None, other: Body | None = None) -> str:
        if shape is None:
            return f"body {body.name!r} has no shape; give it one, or give points="
        if other is None:
            return f"no contact of {type(shape).__name__} with a plane is known; give points="
        return (
            f"no contact of {type(other.shape).__name__} ({other.name!r}) with "
            f"{type(shape).__name__} ({body.name!r}) is known; swap the bodies, or give points="
        )
