"""Distances of surfaces: gaps, normals and nearest points of two poses, smooth apart and inside.

Every pair has as many places as it can touch at, whether they touch or not.
"""

import abc
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3, library_of
from ...rotations.vectors import basis_from_axis, cross
from ..state import Pose
from ..validation import Numbers

Witness = tuple[Float[Array, " n"], Float[Array, "n 3"], Float[Array, "n 3"], Float[Array, "n 3"]]

FLOOR = 1e-60  # under roots, whose derivatives divide by them


def joined(*parts: tuple[Array, ...]) -> Witness:
    """The places of several pairs of surfaces as one."""
    gap, normal, on_i, on_j = (jnp.concatenate(x) for x in zip(*parts, strict=True))
    return gap, normal, on_i, on_j


class AbstractPair(eqx.Module):
    """Two surfaces, the first on body i and the second on body j."""

    @property
    @abc.abstractmethod
    def places(self) -> int:
        """At how many places they may touch."""

    @abc.abstractmethod
    def witness(self, pose: Pose) -> Witness:
        """Gaps [m], unit normals from j to i, and the points of i and of j that touch where the
        gap is closed [m], all global; `pose` has a leading axis over i and j.
        """

    @property
    def holds(self) -> bool:
        """Whether `held` chooses what may touch."""
        return False

    def held(self, before: Pose, after: Pose) -> "AbstractPair":
        """The pair with those features, of as many places, that may touch between two poses: its
        gaps are smooth there.
        """
        return self

    def springs(self) -> "AbstractPair | None":
        """The pair with places that are different points of the surfaces, so that each may have a
        spring of its own; None where there are no such.
        """
        return self


class Balls(eqx.Module):
    """Balls in a body.

    Attributes:
        centers: Body frame, (n, 3) [m].
        radii: (n,) [m].
    """

    centers: Float[Array, "n 3"]
    radii: Float[Array, " n"]

    @staticmethod
    def of(centers: Sequence[Numbers] | Array, radius: Numbers) -> "Balls":
        """Balls of one radius."""
        xp = library_of(*centers, radius)
        points = xp.stack([xp.asarray(c, float) for c in centers])
        return Balls(points, xp.broadcast_to(xp.asarray(radius, points.dtype), points.shape[:1]))

    def at(self, r: Vec3, A: Float[Array, "3 3"]) -> Float[Array, "n 3"]:
        """The centers, global."""
        return r[None, :] + self.centers @ A.T


class Plane(eqx.Module):
    """A plane of a body.

    Attributes:
        s_bar: A point of it, body frame [m].
        n_bar: Its unit normal, out of the body, body frame.
    """

    s_bar: Vec3
    n_bar: Vec3


class Swapped(AbstractPair):
    """A pair whose first surface is that of body j.

    Attributes:
        pair: With i and j in each other's place.
    """

    pair: AbstractPair

    @property
    def places(self) -> int:
        return self.pair.places

    def springs(self) -> AbstractPair | None:
        found = self.pair.springs()
        return None if found is None else Swapped(found)

    def witness(self, pose: Pose) -> Witness:
        gap, normal, on_j, on_i = self.pair.witness(Pose(pose.r[::-1], pose.A[::-1]))
        return gap, -normal, on_i, on_j


class BallsAndPlane(AbstractPair):
    """Balls, spheres, corners and ends against a plane.

    Attributes:
        balls: Of body i.
        s_j_bar: A point of the plane in body j [m].
        n_j_bar: Its normal in body j.
    """

    balls: Balls
    s_j_bar: Vec3
    n_j_bar: Vec3

    @property
    def places(self) -> int:
        return self.balls.radii.shape[-1]

    def witness(self, pose: Pose) -> Witness:
        centers = self.balls.at(pose.r[0], pose.A[0])
        n, p = pose.A[1] @ self.n_j_bar, pose.r[1] + pose.A[1] @ self.s_j_bar
        height = (centers - p[None, :]) @ n
        return (
            height - self.balls.radii,
            jnp.broadcast_to(n, centers.shape),
            centers - self.balls.radii[:, None] * n[None, :],
            centers - height[:, None] * n[None, :],
        )


class CylinderAndPlane(AbstractPair):
    """A cylinder against a plane: four points of each rim, the lowest first.

    Attributes:
        radius: [m].
        half_i_bar: From its center to the center of one rim, body frame [m].
        s_j_bar: A point of the plane in body j [m].
        n_j_bar: Its normal in body j.
    """

    radius: Scalar
    half_i_bar: Vec3
    s_j_bar: Vec3
    n_j_bar: Vec3

    @property
    def places(self) -> int:
        return 8

    def witness(self, pose: Pose) -> Witness:
        n, p = pose.A[1] @ self.n_j_bar, pose.r[1] + pose.A[1] @ self.s_j_bar
        half = pose.A[0] @ self.half_i_bar
        axis = half / jnp.sqrt(half @ half)
        # Where it stands on its end every direction is as low as any other; the tiny one decides.
        aside = basis_from_axis(axis)[0]
        down = -(n - (n @ axis) * axis) + 1e-12 * aside
        down = down / jnp.sqrt(down @ down)
        side = cross(axis, down)
        around = self.radius * jnp.stack([down, -down, side, -side])
        half = half[None, :]
        points = pose.r[0][None, :] + jnp.concatenate([half + around, around - half])
        height = (points - p[None, :]) @ n
        normal = jnp.broadcast_to(n, points.shape)
        return height, normal, points, points - height[:, None] * normal


class Pair(AbstractPair):
    """Balls against balls, each with each.

    Attributes:
        balls_i, balls_j: Of the bodies.
    """

    balls_i: Balls
    balls_j: Balls

    @property
    def places(self) -> int:
        return self.balls_i.radii.shape[-1] * self.balls_j.radii.shape[-1]

    def witness(self, pose: Pose) -> Witness:
        c_i, c_j = (
            balls.at(pose.r[k], pose.A[k]) for k, balls in enumerate((self.balls_i, self.balls_j))
        )
        between = (c_i[:, None, :] - c_j[None, :, :]).reshape(-1, 3)
        distance = jnp.sqrt(jnp.sum(between**2, axis=1) + FLOOR)
        normal = between / distance[:, None]
        n, m = self.balls_i.radii.shape[0], self.balls_j.radii.shape[0]
        radii_i, radii_j = (
            jnp.repeat(self.balls_i.radii, m),
            jnp.tile(self.balls_j.radii, n),
        )
        gap = distance - radii_i - radii_j
        on_i = jnp.repeat(c_i, m, axis=0) - radii_i[:, None] * normal
        on_j = jnp.tile(c_j, (n, 1)) + radii_j[:, None] * normal
        return gap, normal, on_i, on_j


class BallsAndBox(AbstractPair):
    """Balls against a box: the nearest point of its surface, from outside and from inside.

    Attributes:
        balls: Of body i.
        half_j: Half the edges of the box [m].
    """

    balls: Balls
    half_j: Vec3

    @property
    def places(self) -> int:
        return self.balls.radii.shape[-1]

    def witness(self, pose: Pose) -> Witness:
        A = pose.A[1]
        centers = (self.balls.at(pose.r[0], pose.A[0]) - pose.r[1][None, :]) @ A

        def one(c: Vec3, radius: Scalar):
            nearest = jnp.clip(c, -self.half_j, self.half_j)
            away = c - nearest
            outside = jnp.any(away != 0.0)
            distance = jnp.sqrt(away @ away + FLOOR)
            # Inside: the nearest face.
            depth = self.half_j - jnp.abs(c)
            face = jnp.asarray(np.eye(3), c.dtype)[jnp.argmin(depth)] * jnp.where(c < 0, -1.0, 1.0)
            normal = jnp.where(outside, away / distance, face)
            apart = jnp.where(outside, distance, -jnp.min(depth))
            surface = c - apart * normal
            normal = A @ normal
            center = pose.r[1] + A @ c
            return apart - radius, normal, center - radius * normal, pose.r[1] + A @ surface

        return jax.vmap(one)(centers, self.balls.radii)
