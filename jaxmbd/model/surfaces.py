"""Surfaces made of triangles, and the blocks that shapes and drawings build them from: solids of
revolution, boxes, flat faces.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..rotations.types import host
from ..rotations.vectors import basis_from_axis
from .validation import Numbers

_AROUND = 28  # faces of a round part
AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class Surface:
    """A surface made of triangles.

    Attributes:
        points: (n, 3) [m].
        triangles: Indices of their corners, counterclockwise seen from outside, (m, 3).
        normals: At the points, (n, 3); None for flat faces.
    """

    points: np.ndarray
    triangles: np.ndarray
    normals: np.ndarray | None = None

    def placed(self, r: Numbers = (0.0, 0.0, 0.0), A: Numbers | None = None) -> "Surface":
        """Turned by A and moved by r."""
        A = np.eye(3) if A is None else np.asarray(A, float)
        normals = None if self.normals is None else self.normals @ A.T
        return Surface(self.points @ A.T + np.asarray(r, float), self.triangles, normals)

    def turned(self, axis: str) -> "Surface":
        """Drawn along z, turned cyclically so that z becomes the body axis "x", "y" or "z"."""
        return self.placed(A=np.roll(np.eye(3), AXES[axis] - 2, axis=0))


def frame(axis: Numbers) -> np.ndarray:
    """A rotation matrix whose third column is along an axis."""
    return np.asarray(basis_from_axis(host.asarray(axis, float))).T


def joined(meshes: Sequence[Surface]) -> Surface:
    """Several surfaces as one."""
    offsets = np.cumsum([0, *(len(m.points) for m in meshes)])
    return Surface(
        np.concatenate([m.points for m in meshes]),
        np.concatenate([m.triangles + k for m, k in zip(meshes, offsets, strict=False)]),
        np.concatenate([_normals(m) for m in meshes]),
    )


def _normals(mesh: Surface) -> np.ndarray:
    """Normals at the points, those of the faces averaged by area where there are none."""
    if mesh.normals is not None:
        return mesh.normals
    corners = mesh.points[mesh.triangles]
    face = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    total = np.zeros_like(mesh.points)
    for k in range(3):
        np.add.at(total, mesh.triangles[:, k], face)
    return unit(total)


def flat(points: Numbers, triangles: Numbers) -> Surface:
    """A surface of flat faces, each with corners of its own."""
    corners = np.asarray(points, float)[np.asarray(triangles, int)]
    face = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return Surface(
        corners.reshape(-1, 3),
        np.arange(3 * len(corners)).reshape(-1, 3),
        np.repeat(unit(face), 3, axis=0),
    )


def unit(x: np.ndarray) -> np.ndarray:
    """Vectors of length one; z for a vector of length zero."""
    size = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.where(size > 0.0, x / np.where(size > 0.0, size, 1.0), np.array([0.0, 0.0, 1.0]))


# --- building blocks, drawn along z about the origin ---


def revolved(*strips: Numbers, count: int = _AROUND) -> Surface:
    """A surface of revolution about z, from lines of (radius, z, normal's radius, normal's z) that
    run so that the outside is on their right.
    """
    turn = np.linspace(0.0, 2.0 * math.pi, count + 1)
    c, s = np.cos(turn), np.sin(turn)
    points, normals, triangles, first = [], [], [], 0
    for strip in strips:
        ring = np.asarray(strip, float)
        r, z, n_r, n_z = ring.T[:, :, None]
        points.append(np.stack([r * c, r * s, z + 0 * c], axis=-1).reshape(-1, 3))
        normals.append(np.stack([n_r * c, n_r * s, n_z + 0 * c], axis=-1).reshape(-1, 3))
        k, m = np.meshgrid(np.arange(len(ring) - 1), np.arange(count), indexing="ij")
        a, b = first + k * (count + 1) + m, first + (k + 1) * (count + 1) + m
        lower = np.stack([a, a + 1, b + 1], axis=-1)[ring[:-1, 0] > 0.0]
        upper = np.stack([a, b + 1, b], axis=-1)[ring[1:, 0] > 0.0]
        triangles += [lower.reshape(-1, 3), upper.reshape(-1, 3)]
        first += len(ring) * (count + 1)
    return Surface(np.concatenate(points), np.concatenate(triangles), unit(np.concatenate(normals)))


def cylinder(radius: float, length: float, inner: float = 0.0, count: int = _AROUND) -> Surface:
    """A cylinder, or a tube."""
    h = 0.5 * length
    strips = [
        [(inner, -h, 0, -1), (radius, -h, 0, -1)],
        [(radius, -h, 1, 0), (radius, h, 1, 0)],
        [(radius, h, 0, 1), (inner, h, 0, 1)],
    ]
    if inner > 0.0:
        strips.append([(inner, h, -1, 0), (inner, -h, -1, 0)])
    return revolved(*strips, count=count)


def ball(radius: float, count: int = _AROUND) -> Surface:
    """A sphere."""
    return capsule(radius, 0.0, count)


def capsule(radius: float, length: float, count: int = _AROUND) -> Surface:
    """A cylinder of a length with half balls on both ends."""
    s = np.linspace(-0.5 * math.pi, 0.5 * math.pi, count // 2 + 1)
    s = np.concatenate([s[s <= 1e-12], s[s >= -1e-12]]) if length > 0.0 else s
    c, d = np.maximum(np.cos(s), 0.0), np.sin(s)
    c[[0, -1]] = 0.0
    side = np.where(np.arange(len(s)) < len(s) // 2, -0.5, 0.5) * length
    return revolved(np.stack([radius * c, radius * d + side, c, d], axis=1), count=count)


def box(size: Numbers) -> Surface:
    """A block with edges along the axes."""
    faces, corners = [], []
    for k, side in ((k, side) for k in range(3) for side in (1.0, -1.0)):
        n = side * np.eye(3)[k]
        u, v = np.eye(3)[(k + 1) % 3], side * np.eye(3)[(k + 2) % 3]
        faces += [(4 * len(corners) + np.array(t)) for t in ((0, 1, 2), (0, 2, 3))]
        corners.append((n, np.stack([n - u - v, n + u - v, n + u + v, n - u + v])))
    half = 0.5 * np.asarray(size, float)
    return Surface(
        np.concatenate([c for _, c in corners]) * half,
        np.array(faces),
        np.repeat([n for n, _ in corners], 4, axis=0),
    )
