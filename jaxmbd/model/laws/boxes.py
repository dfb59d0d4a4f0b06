"""Distances of two boxes."""

import jax
import jax.numpy as jnp
import numpy as np

from ...rotations.types import Array, Vec3
from ...rotations.vectors import cross
from ..state import Pose
from .capsules import MIDDLES, edges
from .narrow import AbstractPair, Balls, BallsAndBox, Swapped, Witness, joined

_CORNERS = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], float)
# Pairs of edges that are followed at once: two faces on each other cross at eight at most.
_CROSSINGS = 8
# Directions this much outside a cone of normals count as inside [rad]: faces that lie on each other
# tilt a little.
_TOLERANCE = 1e-2


def corners(half: Vec3) -> Balls:
    """Of a box, as balls without radius."""
    return Balls(jnp.asarray(_CORNERS, half.dtype) * half[None, :], jnp.zeros(8, half.dtype))


class Boxes(AbstractPair):
    """Two boxes: the corners of each against the other, and edges that cross.

    Edges touch where they are nearest to each other between their ends, and where their common
    normal points out of both boxes. Those that do not have a gap beyond the boxes' size. Where an
    edge runs through the middle of the other box, no place is near: a step must not get there.

    Attributes:
        half_i, half_j: Half the edges of the boxes [m].
    """

    half_i: Vec3
    half_j: Vec3

    @property
    def places(self) -> int:
        return 16 + _CROSSINGS

    def witness(self, pose: Pose) -> Witness:
        of_i = BallsAndBox(corners(self.half_i), self.half_j).witness(pose)
        of_j = Swapped(BallsAndBox(corners(self.half_j), self.half_i)).witness(pose)
        crossing = self._crossings(pose)
        return joined(of_i, of_j, crossing)

    def _crossings(self, pose: Pose) -> Witness:
        # In the frame of body i: its edges are constants there.
        A = pose.A[0].T @ pose.A[1]
        offset = pose.A[0].T @ (pose.r[1] - pose.r[0])
        c_i, d_i = edges(self.half_i)
        c_j, d_j = edges(self.half_j)
        out_i, out_j = c_i, c_j @ A.T  # from a box's center to its edge: between its two normals
        c_j, d_j = offset[None, :] + out_j, d_j @ A.T

        def one(c_i: Vec3, d_i: Vec3, out_i: Vec3, c_j: Vec3, d_j: Vec3, out_j: Vec3):
            a, b, c = d_i @ d_i, d_i @ d_j, d_j @ d_j
            area = a * c - b**2
            skew = area > 1e-8 * a * c
            area = jnp.where(skew, area, 1.0)
            between = c_i - c_j
            s = (b * (d_j @ between) - c * (d_i @ between)) / area
            t = (a * (d_j @ between) - b * (d_i @ between)) / area
            n = cross(d_i, d_j)
            n = jnp.where(skew, n, jnp.asarray([1.0, 0.0, 0.0], n.dtype))
            n = n / jnp.sqrt(n @ n)
            n = n * jnp.where(n @ out_j < 0.0, -1.0, 1.0)  # out of box j, into box i
            inside = (jnp.abs(s) <= 1.0) & (jnp.abs(t) <= 1.0)
            return skew & inside, n, c_i + s * d_i, c_j + t * d_j

        def with_all(c_i: Vec3, d_i: Vec3, out_i: Vec3):
            return jax.vmap(lambda *of_j: one(c_i, d_i, out_i, *of_j))(c_j, d_j, out_j)

        found = jax.vmap(with_all)(c_i, d_i, out_i)
        touches, n, p_i, p_j = (x.reshape(144, *x.shape[2:]) for x in found)
        # The common normal lies between those of the two faces at either edge.
        normals_i = jnp.repeat(_between_faces(self.half_i), 12, axis=0)
        normals_j = jnp.tile(_between_faces(self.half_j), (12, 1, 1))
        cone_i = -jnp.einsum("kfx,kx->kf", normals_i, n)
        cone_j = jnp.einsum("kfx,xy,ky->kf", normals_j, A.T, n)
        touches = touches & jnp.all(jnp.minimum(cone_i, cone_j) >= -_TOLERANCE, axis=1)
        gap = jnp.sum(n * (p_i - p_j), axis=1)
        # Edges on far sides of boxes that overlap are no contact: there the points would not lie
        # in the other box.
        room = 1e-9 * (jnp.max(self.half_i) + jnp.max(self.half_j)) + 2.0 * _TOLERANCE * jnp.abs(
            gap
        )
        in_i = jnp.all(jnp.abs(p_j) <= self.half_i[None, :] + room[:, None], axis=1)
        p_i_j = (p_i - offset[None, :]) @ A
        in_j = jnp.all(jnp.abs(p_i_j) <= self.half_j[None, :] + room[:, None], axis=1)
        touches = touches & ((gap > 0.0) | (in_i & in_j))
        # In the order of edges, not of gaps: places keep their meaning from one instant to the
        # next.
        chosen = jnp.argsort(~touches, stable=True)[:_CROSSINGS]
        far = jnp.sqrt(jnp.sum(self.half_i**2)) + jnp.sqrt(jnp.sum(self.half_j**2))
        far = far + jnp.sqrt(jnp.sum(offset**2))
        R, r = pose.A[0], pose.r[0]
        n, p_i, p_j = n[chosen], p_i[chosen], p_j[chosen]
        return (
            jnp.where(touches[chosen], gap[chosen], far),
            n @ R.T,
            r[None, :] + p_i @ R.T,
            r[None, :] + p_j @ R.T,
        )


def _between_faces(half: Vec3) -> Array:
    """Normals of the two faces that meet at every edge, in the box's frame, (12, 2, 3)."""
    normals = [[np.eye(3)[k] * middle[k] for k in np.flatnonzero(middle)] for middle in MIDDLES]
    return jnp.asarray(np.array(normals), half.dtype)
