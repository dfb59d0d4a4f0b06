"""Distances of capsules to balls, capsules and boxes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...rotations.types import Array, Scalar, Vec3
from ..state import Pose
from .narrow import FLOOR, AbstractPair, Balls, BallsAndBox, Witness, joined


class Core(eqx.Module):
    """The middle line of a capsule, through its mass center.

    Attributes:
        half_bar: From its center to one end, body frame [m].
        radius: [m].
    """

    half_bar: Vec3
    radius: Scalar

    def ends(self) -> Balls:
        """The balls of both ends."""
        return Balls.of([self.half_bar, -self.half_bar], self.radius)


def share_of(p: Vec3, middle: Vec3, half: Vec3) -> Scalar:
    """Where on a segment, from -1 to 1, the point next to p lies."""
    return jnp.clip(half @ (p - middle) / (half @ half), -1.0, 1.0)


def shares_of_both(m_i: Vec3, h_i: Vec3, m_j: Vec3, h_j: Vec3) -> tuple[Scalar, Scalar]:
    """Where on two segments m + s h the points next to each other lie, both from -1 to 1."""
    between = m_i - m_j
    a, b, c = h_i @ h_i, h_i @ h_j, h_j @ h_j
    d, e = h_i @ between, h_j @ between
    area = a * c - b**2  # the squared sine of their angle, times a c
    crossing = area > 1e-12 * a * c
    # Parallel ones are as near along a stretch, of which any point will do.
    s = jnp.where(crossing, (b * e - c * d) / jnp.where(crossing, area, 1.0), 0.0)
    s = jnp.clip(s, -1.0, 1.0)
    t = jnp.clip((b * s + e) / c, -1.0, 1.0)
    return jnp.clip((b * t - d) / a, -1.0, 1.0), t


def _between(p_i: Vec3, r_i: Scalar, p_j: Vec3, r_j: Scalar) -> tuple[Array, Vec3, Vec3, Vec3]:
    """Gap, normal and points of two balls."""
    apart = p_i - p_j
    distance = jnp.sqrt(apart @ apart + FLOOR)
    n = apart / distance
    return distance - r_i - r_j, n, p_i - r_i * n, p_j + r_j * n


class BallsAndCapsule(AbstractPair):
    """Balls against a capsule.

    Attributes:
        balls: Of body i.
        core: Of body j.
    """

    balls: Balls
    core: Core

    @property
    def places(self) -> int:
        return self.balls.radii.shape[-1]

    def witness(self, pose: Pose) -> Witness:
        half = pose.A[1] @ self.core.half_bar

        def one(c: Vec3, radius: Scalar):
            nearest = pose.r[1] + share_of(c, pose.r[1], half) * half
            return _between(c, radius, nearest, self.core.radius)

        return jax.vmap(one)(self.balls.at(pose.r[0], pose.A[0]), self.balls.radii)


class Capsules(AbstractPair):
    """Two capsules: each end against the other's middle line, and the lines against each other.

    Where they cross, only the last is near; parallel ones touch at two ends.

    Attributes:
        core_i, core_j: Of the bodies.
    """

    core_i: Core
    core_j: Core

    @property
    def places(self) -> int:
        return 5

    def springs(self) -> "NearestOfCapsules":
        """Their nearest points alone, with which an end may coincide."""
        return NearestOfCapsules(self.core_i, self.core_j)

    def witness(self, pose: Pose) -> Witness:
        m_i, m_j = pose.r[0], pose.r[1]
        h_i, h_j = pose.A[0] @ self.core_i.half_bar, pose.A[1] @ self.core_j.half_bar
        s, t = shares_of_both(m_i, h_i, m_j, h_j)
        p_i, p_j = [m_i + s * h_i], [m_j + t * h_j]
        for sign in (1.0, -1.0):
            end_i, end_j = m_i + sign * h_i, m_j + sign * h_j
            p_i += [end_i, m_i + share_of(end_j, m_i, h_i) * h_i]
            p_j += [m_j + share_of(end_i, m_j, h_j) * h_j, end_j]
        return jax.vmap(lambda x, y: _between(x, self.core_i.radius, y, self.core_j.radius))(
            jnp.stack(p_i), jnp.stack(p_j)
        )


class NearestOfCapsules(AbstractPair):
    """Two capsules where they are nearest to each other: one place, anywhere along parallel ones.

    Attributes:
        core_i, core_j: Of the bodies.
    """

    core_i: Core
    core_j: Core

    @property
    def places(self) -> int:
        return 1

    def witness(self, pose: Pose) -> Witness:
        h_i, h_j = pose.A[0] @ self.core_i.half_bar, pose.A[1] @ self.core_j.half_bar
        s, t = shares_of_both(pose.r[0], h_i, pose.r[1], h_j)
        p_i, p_j = pose.r[0] + s * h_i, pose.r[1] + t * h_j
        found = _between(p_i, self.core_i.radius, p_j, self.core_j.radius)
        gap, normal, on_i, on_j = (x[None] for x in found)
        return gap, normal, on_i, on_j


class CapsuleAndBox(AbstractPair):
    """A capsule against a box: both ends, and the middle line against the nearest edge.

    Attributes:
        core: Of body i.
        half_j: Half the edges of the box [m].
    """

    core: Core
    half_j: Vec3

    @property
    def places(self) -> int:
        return 3

    def springs(self) -> None:
        """None: an end may be the point of the middle line that is nearest to an edge."""
        return None

    def witness(self, pose: Pose) -> Witness:
        ends = BallsAndBox(self.core.ends(), self.half_j).witness(pose)
        A = pose.A[1]
        middle = (pose.r[0] - pose.r[1]) @ A
        half = A.T @ (pose.A[0] @ self.core.half_bar)
        centers, halves = edges(self.half_j)

        def one(center: Vec3, along: Vec3):
            s, t = shares_of_both(middle, half, center, along)
            return middle + s * half, center + t * along

        p, on_edge = jax.vmap(one)(centers, halves)
        nearest = jnp.argmin(jnp.sum((p - on_edge) ** 2, axis=1))
        gap, n, on_i, on_j = _between(
            p[nearest], self.core.radius, on_edge[nearest], jnp.zeros_like(self.core.radius)
        )
        found = gap, A @ n, pose.r[1] + A @ on_i, pose.r[1] + A @ on_j
        return joined(ends, jax.tree.map(lambda x: x[None], found))


# Middles of the edges of a box, in half its edges.
MIDDLES = np.array(
    [np.insert([a, b], axis, 0.0) for axis in range(3) for a in (-1, 1) for b in (-1, 1)]
)
_ALONG = np.repeat(np.eye(3), 4, axis=0)


def edges(half: Vec3) -> tuple[Array, Array]:
    """Middles of the edges of a box and half the edges, in its frame, (12, 3) each."""
    centers = jnp.asarray(MIDDLES, half.dtype) * half[None, :]
    return centers, jnp.asarray(_ALONG, half.dtype) * half[None, :]
