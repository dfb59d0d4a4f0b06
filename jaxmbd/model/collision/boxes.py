"""Distances of two boxes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ...rotations.types import Array, Scalar, Vec3
from ...rotations.vectors import cross
from ..state import Pose
from .narrow import AbstractPair, Balls, BallsAndBox, Swapped, Witness, joined

# Of face on face; two quadrilaterals cut each other in no more corners.
_MANIFOLD = 8
_NOTHING, _CORNER_I, _CORNER_J, _EDGES = range(4)
# Edges that cross at less than this angle [rad] are parallel: corners and faces serve there.
_PARALLEL = 1e-2
# Outside a face by this part of the boxes' size a corner still counts as above it.
_RIM = 1e-7
# By this part of it a place may be deeper than twice the depth of the boxes in each other.
_DEEPER = 1e-6
_crosses = jax.vmap(cross)
_SIDES = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)


def corners(half: Vec3) -> Balls:
    """Of a box, as balls without radius."""
    signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], float)
    return Balls(jnp.asarray(signs, half.dtype) * half[None, :], jnp.zeros(8, half.dtype))


class Boxes(AbstractPair):
    """Two boxes: face on face, a corner on a face, crossing edges.

    Of the 15 directions along which two boxes can be separated, that one counts along which they
    are separated last. Places are where the two faces that meet along it cut each other, the two
    edges that meet where it is the normal of edges, and the nearest corner of boxes that are apart.
    Others have a gap beyond the boxes' size. Within a step the places are the same corners, faces
    and edges, so that gaps are smooth.

    Attributes:
        half_i, half_j: Half the edges of the boxes [m].
    """

    half_i: Vec3
    half_j: Vec3

    @property
    def places(self) -> int:
        return _MANIFOLD + 2

    @property
    def holds(self) -> bool:
        return True

    def springs(self) -> None:
        """None: the corners of the area that two faces share come and go."""
        return None

    def witness(self, pose: Pose) -> Witness:
        return self.held(pose, pose).witness(pose)

    def held(self, before: Pose, after: Pose) -> "HeldBoxes":
        before, after = jax.lax.stop_gradient((before, after))
        (R0, o0), (R1, o1) = _seen_from_j(before), _seen_from_j(after)
        axes, sign, keys, largest = self._keys(R0, o0, R1, o1)
        # Rounding must not decide between the two faces that lie on each other, nor between them
        # and edges in their planes.
        face = jnp.argmax(keys[:6] + jnp.asarray(np.repeat([1e-9, 0.0], 3), keys.dtype))
        edge = 6 + jnp.argmax(keys[6:])
        apart = jnp.maximum(keys[face], keys[edge]) > 1.0
        part = jnp.clip(keys[face], 0.0, 1.0)
        R, o = (1.0 - part) * R0 + part * R1, (1.0 - part) * o0 + part * o1

        valid, manifold, deepest = self._faces(R, o, face)
        chosen = jnp.argsort(~valid, stable=True)[:_MANIFOLD]
        there = valid[chosen]
        manifold = jax.tree.map(lambda x: x[chosen], manifold)

        n = sign[edge] * axes[edge]
        meeting, within = self._edges(R1, o1, n, edge - 6)
        counts = (keys[edge] > keys[face] + 1e-6) & (within | ~apart)
        same = there & (manifold[0] == _EDGES)
        for k in (1, 2):
            same = same & jnp.all(manifold[k] == meeting[k][None], axis=1)
        counts = counts & ~jnp.any(same)
        # Boxes that touch somewhere must have a place.
        lost = ~counts & ~jnp.any(there) & ~apart
        last = jax.tree.map(lambda a, b: jnp.where(lost, a, b), deepest, meeting)
        there = jnp.concatenate([there, (counts | lost)[None]])
        kind, at_i, at_j, along_i, along_j = (
            jnp.concatenate([a, b[None]]) for a, b in zip(manifold, last, strict=True)
        )
        kind = jnp.where(there, kind, _NOTHING)
        corner, of_i, aside = self._nearest_corner(R1, o1)
        found = HeldBoxes(
            *(self.half_i, self.half_j, kind, at_i, at_j, along_i, along_j),
            *(corner, of_i, apart & aside),
        )
        # Faces beside edges that meet may cross elsewhere, deep in the boxes. What is much deeper
        # than the boxes are in each other is no place of theirs.
        instant = jax.tree.map(lambda a, b: jnp.where(apart, a, b), after, before)
        distance = jnp.where(apart, largest[1], largest[0])
        depth = jnp.minimum(2.0 * distance, 0.0) - _DEEPER * self._size()
        kind = jnp.where(found.places_at(instant)[0] < depth, _NOTHING, kind)
        return dataclasses.replace(found, kind=kind)

    def _keys(self, R0: Array, o0: Vec3, R1: Array, o1: Vec3) -> tuple[Array, Array, Array, Array]:
        """The directions that may separate the boxes, from j to i, (15, 3), their signs, when each
        one ceases to: less than 0 before the step, more than 1 after it; and how far apart the
        boxes are before and after, negative where they are in each other, (2,) [m].
        """

        def directions(R: Array) -> tuple[Array, Array]:
            eye = jnp.eye(3, dtype=R.dtype)
            skew = _crosses(jnp.repeat(eye, 3, axis=0), jnp.tile(R.T, (3, 1)))
            length = jnp.sum(skew**2, axis=1)
            crosses = length > _PARALLEL**2
            skew = skew / jnp.sqrt(jnp.where(crosses, length, 1.0))[:, None]
            return jnp.concatenate([eye, R.T, skew]), crosses

        def reach(R: Array, along: Array) -> Array:
            return jnp.abs(along) @ self.half_j + jnp.abs(along @ R) @ self.half_i

        l0, crosses = directions(R0)
        l1, still = directions(R1)
        sign = jnp.where(l0 @ o0 < 0.0, -1.0, 1.0)
        s0 = sign * (l0 @ o0) - reach(R0, l0)
        s1 = sign * (l1 @ o1) - reach(R1, l1)
        size = self._size()
        closing = (s0 > 0.0) & (s1 <= 0.0)
        lost = jnp.where(closing, s0 - s1, 1.0)
        keys = jnp.where(closing, s0 / lost, s0 / size)
        keys = jnp.where(s1 > 0.0, 1.0 + s1 / size, keys)
        kept = jnp.concatenate([jnp.ones(6, bool), crosses & still])
        largest = jnp.max(jnp.where(kept, jnp.stack([s0, s1]), -1e30), axis=1)
        return l1, sign, jnp.where(kept, keys, -1e30), largest

    def _size(self) -> Scalar:
        half_i, half_j = jax.lax.stop_gradient((self.half_i, self.half_j))
        return jnp.sqrt(jnp.sum(half_i**2)) + jnp.sqrt(jnp.sum(half_j**2))

    def _faces(self, R: Array, o: Vec3, face: Int[Array, ""]):
        """Which of 24 places of two faces on each other are there, these places, and the deepest
        corner: its place where no other is.
        """
        by_j = face < 3
        half, half_c = (
            jnp.where(by_j, a, b)
            for a, b in ((self.half_j, self.half_i), (self.half_i, self.half_j))
        )
        # From the box of the other face to that of this one.
        turn, center = jnp.where(by_j, R, R.T), jnp.where(by_j, o, -R.T @ o)
        own = _Face(half, face % 3, jnp.where(center[face % 3] < 0.0, -1.0, 1.0))
        against = turn.T @ own.normal
        k = jnp.argmax(jnp.abs(against))
        other = _Face(half_c, k, jnp.where(against[k] > 0.0, -1.0, 1.0))
        rim = _RIM * self._size()

        of_other = center[None, :] + other.corners @ turn.T
        above = own.covers(of_other, rim)
        below = (own.corners - center[None, :]) @ turn
        under = other.covers(below, rim)
        between = (own.corners[:, None, :] - of_other[None, :, :]) @ own.frame[1:].T
        twice = jnp.all(jnp.abs(between) < 2.0 * rim, axis=2) & above[None, :]
        under = under & ~jnp.any(twice, axis=1)

        middles, halves = jnp.repeat(own.middles, 4, axis=0), jnp.repeat(own.halves, 4, axis=0)
        middles_c, halves_c = jnp.tile(other.middles, (4, 1)), jnp.tile(other.halves, (4, 1))
        n, s, t, skew = _crossing(
            middles, halves, center[None, :] + middles_c @ turn.T, halves_c @ turn.T
        )
        n = n * jnp.where(n @ own.normal < 0.0, -1.0, 1.0)[:, None]
        # Corners at the ends of edges have their own places.
        inner, inner_c = (1.0 - rim / jnp.sqrt(jnp.sum(h**2, axis=1)) for h in (halves, halves_c))
        meets = skew & (jnp.abs(s) <= inner) & (jnp.abs(t) <= inner_c)
        meets = meets & (n @ own.normal > 0.5) & (n @ (turn @ other.normal) < -0.5)
        # The product of the edges, that of i first, shall point from j to i.
        right = jnp.sum(_crosses(halves, halves_c @ turn.T) * own.normal[None, :], axis=1) > 0.0
        halves = jnp.where(right, -1.0, 1.0)[:, None] * halves

        def together(of_corners: Array, face: Array, of_edges: Array, first: bool) -> Array:
            """By places: corners of the other face, those of this one, edges."""
            face = jnp.broadcast_to(face, (4, 3))
            flat = [of_corners, face] if first else [face, of_corners]
            return jnp.concatenate([*flat, of_edges])

        normal, normal_c = (jnp.broadcast_to(x.normal, (8, 3)) for x in (own, other))
        of_own = (
            together(own.corners, own.center, middles, False),
            jnp.concatenate([normal, halves]),
        )
        of_c = (
            together(other.corners, other.center, middles_c, True),
            jnp.concatenate([normal_c, halves_c]),
        )
        kinds = np.repeat([_CORNER_I, _CORNER_J, _EDGES], [4, 4, 16])
        swapped = np.repeat([_CORNER_J, _CORNER_I, _EDGES], [4, 4, 16])
        at_i, along_i = (jnp.where(by_j, a, b) for a, b in zip(of_c, of_own, strict=True))
        at_j, along_j = (jnp.where(by_j, a, b) for a, b in zip(of_own, of_c, strict=True))
        found = jnp.where(by_j, kinds, swapped), at_i, at_j, along_i, along_j
        lowest = jnp.argmin(of_other @ own.normal)
        return (
            jnp.concatenate([above, under, meets]),
            found,
            jax.tree.map(lambda x: x[lowest], found),
        )

    def _edges(self, R: Array, o: Vec3, n: Vec3, edge: Int[Array, ""]):
        """The edges that support the boxes along n, from j to i, as a place, and whether their
        nearest points lie between their ends.
        """
        eye = jnp.eye(3, dtype=n.dtype)
        e_j, e_i = eye[edge // 3], eye[edge % 3]
        n_i = R.T @ n
        at_j = jnp.where(n < 0.0, -1.0, 1.0) * (1.0 - e_j) * self.half_j
        at_i = jnp.where(n_i < 0.0, 1.0, -1.0) * (1.0 - e_i) * self.half_i
        along_i, along_j = e_i * self.half_i, e_j * self.half_j
        _, s, t, _ = _crossing((o + R @ at_i)[None], (R @ along_i)[None], at_j[None], along_j[None])
        turned = jnp.where(cross(R @ along_i, along_j) @ n < 0.0, -1.0, 1.0)
        place = jnp.asarray(_EDGES), at_i, at_j, turned * along_i, along_j
        return place, (jnp.abs(s[0]) <= 1.0) & (jnp.abs(t[0]) <= 1.0)

    def _nearest_corner(self, R: Array, o: Vec3):
        """The corner that is nearest to the other box, whether it is of i, and whether an edge or a
        corner is next to it.
        """
        c_i, c_j = corners(self.half_i).centers, corners(self.half_j).centers

        def outside(seen: Array, half: Vec3) -> tuple[Array, Array]:
            away = seen - jnp.clip(seen, -half[None], half[None])
            return jnp.sum(away**2, axis=1), jnp.sum(away != 0.0, axis=1) > 1

        far_i, edge_i = outside(o[None, :] + c_i @ R.T, self.half_j)
        far_j, edge_j = outside((c_j - o[None, :]) @ R, self.half_i)
        a, b = jnp.argmin(far_i), jnp.argmin(far_j)
        of_i = far_i[a] <= far_j[b]
        return (
            jnp.where(of_i, c_i[a], c_j[b]),
            of_i,
            jnp.where(of_i, edge_i[a], edge_j[b]),
        )


def _seen_from_j(pose: Pose) -> tuple[Array, Vec3]:
    """Rotation and place of body i in the frame of body j."""
    return pose.A[1].T @ pose.A[0], pose.A[1].T @ (pose.r[0] - pose.r[1])


class HeldBoxes(AbstractPair):
    """Two boxes whose corners, faces and edges that may touch are known.

    Attributes:
        half_i, half_j: Half the edges of the boxes [m].
        kind: Nothing, a corner of i on a face, one of j, or two edges, (n,).
        at_i, at_j: A corner, a point of a face, or the middle of an edge, body frames, (n, 3) [m].
        along_i, along_j: Normals of faces, or half the edges [m], in the bodies, (n, 3).
        corner: The corner that is nearest to the other box, in its body [m].
        of_i: Whether it is one of i.
        aside: Whether it has a place.
    """

    half_i: Vec3
    half_j: Vec3
    kind: Int[Array, " n"]
    at_i: Float[Array, "n 3"]
    at_j: Float[Array, "n 3"]
    along_i: Float[Array, "n 3"]
    along_j: Float[Array, "n 3"]
    corner: Vec3
    of_i: Bool[Array, ""]
    aside: Bool[Array, ""]

    @property
    def places(self) -> int:
        return self.kind.shape[-1] + 1

    def places_at(self, pose: Pose) -> Witness:
        """Gap [m], normal, and points on the boxes [m] of all places but the nearest corner, (n,)
        and (n, 3), global.
        """
        (r_i, r_j), (A_i, A_j) = pose.r, pose.A
        p_i, p_j = r_i[None] + self.at_i @ A_i.T, r_j[None] + self.at_j @ A_j.T
        d_i, d_j = self.along_i @ A_i.T, self.along_j @ A_j.T
        edges = self.kind == _EDGES
        n, s, t, _ = _crossing(p_i, d_i, p_j, d_j)
        of_i = (self.kind == _CORNER_I)[:, None]
        n = jnp.where(edges[:, None], n, jnp.where(of_i, d_j, -d_i))
        nothing = self.kind == _NOTHING
        n = jnp.where(nothing[:, None], jnp.asarray([1.0, 0.0, 0.0], n.dtype), n)
        gap = jnp.sum(n * (p_i - p_j), axis=1)
        step = gap[:, None] * n
        on_i = jnp.where(of_i, p_i, p_j + step)
        on_i = jnp.where(edges[:, None], p_i + s[:, None] * d_i, on_i)
        on_j = jnp.where(of_i, p_i - step, p_j)
        on_j = jnp.where(edges[:, None], p_j + t[:, None] * d_j, on_j)
        return jnp.where(nothing, self._far(pose), gap), n, on_i, on_j

    def _far(self, pose: Pose) -> Scalar:
        """A gap beyond the boxes' size [m]."""
        far = jnp.sqrt(jnp.sum(self.half_i**2)) + jnp.sqrt(jnp.sum(self.half_j**2))
        return far + jnp.sqrt(jnp.sum((pose.r[0] - pose.r[1]) ** 2))

    def witness(self, pose: Pose) -> Witness:
        ball = Balls(self.corner[None], jnp.zeros(1, pose.r.dtype))
        one = BallsAndBox(ball, self.half_j).witness(pose)
        two = Swapped(BallsAndBox(ball, self.half_i)).witness(pose)
        beside = [jnp.where(self.of_i, a, b) for a, b in zip(one, two, strict=True)]
        beside[0] = jnp.where(self.aside, beside[0], self._far(pose))
        return joined(self.places_at(pose), tuple(beside))


class _Face:
    """A face of a box, in the box's frame: its normal is `sign` times axis k."""

    def __init__(self, half: Vec3, k: Int[Array, ""], sign: Scalar):
        self.frame = jnp.eye(3, dtype=half.dtype)[(k + jnp.arange(3)) % 3]
        self.normal = sign * self.frame[0]
        self.center = self.normal * half[k]
        self._sides = self.frame[1:] @ half
        across = self._sides[:, None] * self.frame[1:]
        self.corners = self.center[None, :] + jnp.asarray(_SIDES, half.dtype) @ across
        self.halves = jnp.concatenate([across, across])
        beside = jnp.concatenate([across[::-1], -across[::-1]])
        self.middles = self.center[None, :] + beside

    def covers(self, points: Float[Array, "n 3"], rim: Scalar) -> Bool[Array, " n"]:
        """Whether points lie above or below it, and not beside."""
        return jnp.all(jnp.abs(points @ self.frame[1:].T) <= self._sides[None] + rim, axis=1)


def _crossing(
    p_i: Float[Array, "n 3"],
    d_i: Float[Array, "n 3"],
    p_j: Float[Array, "n 3"],
    d_j: Float[Array, "n 3"],
) -> tuple[Array, Array, Array, Array]:
    """Lines p + s d and p + t d: their common normal, s and t where they are nearest to each other,
    and whether they cross at an angle.
    """
    a, b, c = (jnp.sum(x * y, axis=1) for x, y in ((d_i, d_i), (d_i, d_j), (d_j, d_j)))
    area = a * c - b**2
    skew = area > _PARALLEL**2 * a * c
    area = jnp.where(skew, area, 1.0)
    between = p_i - p_j
    e, f = jnp.sum(d_i * between, axis=1), jnp.sum(d_j * between, axis=1)
    n = jnp.where(skew[:, None], _crosses(d_i, d_j), jnp.asarray([1.0, 0.0, 0.0], a.dtype))
    n = n / jnp.sqrt(jnp.sum(n**2, axis=1))[:, None]
    return n, (b * f - c * e) / area, (a * f - b * e) / area, skew
