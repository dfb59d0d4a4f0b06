"""Triangles of solid shapes, and of the parts that joints, springs and gears are drawn with.

A new shape is a function of its own fields and a row of `SOLIDS`. Drawings name shapes by their
class, so that result files carry them too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..rotations.types import host
from ..rotations.vectors import basis_from_axis

_AROUND = 28  # faces of a round part
_AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class Mesh:
    """A surface.

    Attributes:
        points: (n, 3) [m].
        triangles: Indices of their corners, counterclockwise seen from outside, (m, 3).
        normals: At the points, (n, 3); None for flat faces.
    """

    points: np.ndarray
    triangles: np.ndarray
    normals: np.ndarray | None = None

    def placed(self, r: Any = (0.0, 0.0, 0.0), A: Any = None) -> "Mesh":
        """Turned by A and moved by r."""
        A = np.eye(3) if A is None else np.asarray(A, float)
        normals = None if self.normals is None else self.normals @ A.T
        return Mesh(self.points @ A.T + np.asarray(r, float), self.triangles, normals)

    def along(self, axis: Any, r: Any = (0.0, 0.0, 0.0)) -> "Mesh":
        """Drawn along z, turned so that z becomes an axis, and moved by r."""
        return self.placed(r, frame(axis))


def frame(axis: Any) -> np.ndarray:
    """A rotation matrix whose third column is along an axis."""
    return np.asarray(basis_from_axis(host.asarray(axis, float))).T


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """Several surfaces as one."""
    offsets = np.cumsum([0, *(len(m.points) for m in meshes)])
    return Mesh(
        np.concatenate([m.points for m in meshes]),
        np.concatenate([m.triangles + k for m, k in zip(meshes, offsets, strict=False)]),
        np.concatenate([_normals(m) for m in meshes]),
    )


def _normals(mesh: Mesh) -> np.ndarray:
    """Normals at the points, those of the faces averaged by area where there are none."""
    if mesh.normals is not None:
        return mesh.normals
    corners = mesh.points[mesh.triangles]
    face = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    total = np.zeros_like(mesh.points)
    for k in range(3):
        np.add.at(total, mesh.triangles[:, k], face)
    return unit(total)


def flat(points: Any, triangles: Any) -> Mesh:
    """A surface of flat faces, each with corners of its own."""
    corners = np.asarray(points, float)[np.asarray(triangles, int)]
    face = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return Mesh(
        corners.reshape(-1, 3),
        np.arange(3 * len(corners)).reshape(-1, 3),
        np.repeat(unit(face), 3, axis=0),
    )


def unit(x: np.ndarray) -> np.ndarray:
    """Vectors of length one; z for a vector of length zero."""
    size = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.where(size > 0.0, x / np.where(size > 0.0, size, 1.0), np.array([0.0, 0.0, 1.0]))


# --- building blocks, drawn along z about the origin ---


def revolved(*strips: Any, count: int = _AROUND) -> Mesh:
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
    return Mesh(np.concatenate(points), np.concatenate(triangles), unit(np.concatenate(normals)))


def cylinder(radius: float, length: float, inner: float = 0.0, count: int = _AROUND) -> Mesh:
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


def ball(radius: float, count: int = _AROUND) -> Mesh:
    """A sphere."""
    return capsule(radius, 0.0, count)


def capsule(radius: float, length: float, count: int = _AROUND) -> Mesh:
    """A cylinder of a length with half balls on both ends."""
    s = np.linspace(-0.5 * math.pi, 0.5 * math.pi, count // 2 + 1)
    s = np.concatenate([s[s <= 1e-12], s[s >= -1e-12]]) if length > 0.0 else s
    c, d = np.maximum(np.cos(s), 0.0), np.sin(s)
    c[[0, -1]] = 0.0
    side = np.where(np.arange(len(s)) < len(s) // 2, -0.5, 0.5) * length
    return revolved(np.stack([radius * c, radius * d + side, c, d], axis=1), count=count)


def box(size: Any) -> Mesh:
    """A block with edges along the axes."""
    faces, corners = [], []
    for k, side in ((k, side) for k in range(3) for side in (1.0, -1.0)):
        n = side * np.eye(3)[k]
        u, v = np.eye(3)[(k + 1) % 3], side * np.eye(3)[(k + 2) % 3]
        faces += [(4 * len(corners) + np.array(t)) for t in ((0, 1, 2), (0, 2, 3))]
        corners.append((n, np.stack([n - u - v, n + u - v, n + u + v, n - u + v])))
    half = 0.5 * np.asarray(size, float)
    return Mesh(
        np.concatenate([c for _, c in corners]) * half,
        np.array(faces),
        np.repeat([n for n, _ in corners], 4, axis=0),
    )


def plate(outline: np.ndarray, thickness: float, hole: np.ndarray | None = None) -> Mesh:
    """A plate across z with a closed outline (n, 2), counterclockwise and star-shaped about the
    origin, and perhaps a hole with as many points.
    """
    n, h = len(outline), 0.5 * thickness
    inner = np.zeros_like(outline) if hole is None else hole
    parts, k = [], np.arange(n)
    after = (k + 1) % n
    for side in (1.0, -1.0):
        points = np.concatenate([outline, inner])
        points = np.column_stack([points, np.full(2 * n, side * h)])
        triangles = np.stack([k, after, n + after], axis=1)
        if hole is not None:
            triangles = np.concatenate([triangles, np.stack([k, n + after, n + k], axis=1)])
        triangles = triangles if side > 0.0 else triangles[:, ::-1]
        parts.append(Mesh(points, triangles, np.tile([0.0, 0.0, side], (2 * n, 1))))
    parts.append(_wall(outline, h))
    if hole is not None:
        parts.append(_wall(hole[::-1], h))
    return joined(parts)


def _wall(outline: np.ndarray, h: float) -> Mesh:
    """The rim of a plate, smooth where its outline turns by less than 40 degrees."""
    ahead = np.roll(outline, -1, axis=0) - outline
    face = unit(np.column_stack([ahead[:, 1], -ahead[:, 0], 0 * ahead[:, 0]]))
    around = np.roll(face, 1, axis=0)
    smooth = np.sum(face * around, axis=1) > math.cos(math.radians(40.0))
    start = np.where(smooth[:, None], unit(face + around), face)
    end = np.where(np.roll(smooth, -1)[:, None], np.roll(unit(face + around), -1, axis=0), face)
    corners, n = (outline, np.roll(outline, -1, axis=0)), len(outline)
    points = [np.column_stack([c, np.full(n, z)]) for z in (-h, h) for c in corners]
    k = np.arange(n)
    triangles = [np.stack([k, n + k, 3 * n + k], 1), np.stack([k, 3 * n + k, 2 * n + k], 1)]
    normals = np.concatenate([start, end, start, end])
    return Mesh(np.concatenate(points), np.concatenate(triangles), normals)


def tube(line: np.ndarray, radius: float, count: int = 6) -> Mesh:
    """A thin tube along a polyline (n, 3); repeated points are left out."""
    moved = np.linalg.norm(np.diff(line, axis=0), axis=1) > 1e-12
    line = line[np.concatenate([[True], moved])]
    if len(line) < 2:
        return ball(radius, 8).placed(line[0])
    ahead = unit(np.diff(line, axis=0))
    tangent = unit(np.concatenate([ahead[:1], ahead[1:] + ahead[:-1], ahead[-1:]]))
    # A frame that is carried along without turning about the line.
    e1 = np.empty_like(line)
    e1[0] = frame(tangent[0])[:, 0]
    for k in range(1, len(line)):
        side = e1[k - 1] - (e1[k - 1] @ tangent[k]) * tangent[k]
        size = np.linalg.norm(side)
        e1[k] = side / size if size > 1e-6 else frame(tangent[k])[:, 0]
    turn = np.linspace(0.0, 2.0 * math.pi, count + 1)
    e2 = np.cross(tangent, e1)
    normals = np.cos(turn)[None, :, None] * e1[:, None] + np.sin(turn)[None, :, None] * e2[:, None]
    points = (line[:, None] + radius * normals).reshape(-1, 3)
    k, m = np.meshgrid(np.arange(len(line) - 1), np.arange(count), indexing="ij")
    a, b = (k * (count + 1) + m).ravel(), ((k + 1) * (count + 1) + m).ravel()
    triangles = np.concatenate([np.stack([a, a + 1, b + 1], 1), np.stack([a, b + 1, b], 1)])
    return Mesh(points, triangles, normals.reshape(-1, 3))


def helix(radius: float, wire: float, turns: int = 7) -> Mesh:
    """A coil spring from z = 0 to 1, with straight ends."""
    s = np.linspace(0.0, 1.0, 12 * turns + 1)
    turn, z = 2.0 * math.pi * turns * s, 0.12 + 0.76 * s
    coil = np.stack([radius * np.cos(turn), radius * np.sin(turn), z], axis=1)
    ends = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.1]], [[0.0, 0.0, 0.9], [0.0, 0.0, 1.0]]
    return tube(np.concatenate([ends[0], coil, ends[1]]), wire)


def toothed(radius: float, teeth: int, thickness: float, phase: float, *, ring: bool) -> Mesh:
    """A gear wheel across z by its pitch radius, or a ring with teeth inside; a tooth is at the
    angle `phase`.
    """
    pitch = 2.0 * math.pi / teeth
    depth = min(0.35 * radius * pitch, 0.3 * radius)
    shape = np.array([-0.5, -0.32, -0.13, 0.13, 0.32])  # of a tooth, in parts of the pitch
    height = depth * np.array([-0.55, -0.55, 0.5, 0.5, -0.55])
    angle = (phase + pitch * (np.arange(teeth)[:, None] + shape)).ravel()
    rim = radius + (-1.0 if ring else 1.0) * np.tile(height, teeth)
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    other = radius + 2.0 * depth if ring else 0.18 * radius
    line, edge = rim[:, None] * direction, other * direction
    return plate(edge, thickness, line) if ring else plate(line, thickness, edge)


# --- shapes ---


def _turned(mesh: Mesh, axis: Any) -> Mesh:
    """Drawn along z, turned cyclically so that z becomes the axis, as the shapes do."""
    return mesh.placed(A=np.roll(np.eye(3), _AXES[str(axis)] - 2, axis=0))


def _rod(n, length, axis) -> Mesh:
    return _turned(cylinder(0.012 * length, length, 0.0, n), axis)


def _hollow_cylinder(n, inner_radius, radius, length, axis) -> Mesh:
    return _turned(cylinder(radius, length, inner_radius, n), axis)


def _capsule(n, radius, length, axis) -> Mesh:
    return _turned(capsule(radius, length, n), axis)


def _cone(n, radius, height, axis) -> Mesh:
    base = [(radius, 0.25 * height, 0, 1), (0.0, 0.25 * height, 0, 1)]
    side = [(0.0, -0.75 * height, height, -radius), (radius, 0.25 * height, height, -radius)]
    return _turned(revolved(side, base, count=n), axis)


def _tetrahedron(_, corners) -> Mesh:
    corners = np.asarray(corners, float)
    faces = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    inside_out = np.linalg.det(corners[1:] - corners[:1]) < 0.0
    return flat(corners, faces[:, ::-1] if inside_out else faces)


# By the class of a shape: a function of the number of faces of a round part and of the shape's
# fields (but the mass), in the body frame.
SOLIDS: dict[str, Callable[..., Mesh]] = {
    "Box": lambda _, size: box(size),
    "Rod": _rod,
    "HollowCylinder": _hollow_cylinder,
    "Sphere": lambda n, radius: ball(radius, n),
    "Capsule": _capsule,
    "Cone": _cone,
    "Tetrahedron": _tetrahedron,
    "Mesh": lambda _, vertices, faces: flat(vertices, faces),
}


def solid(part: dict[str, Any], n: int = 40) -> Mesh | None:
    """The surface of a shape of a drawing (see `results.export.solids`) in the body frame, its
    round parts with n faces around; None for a shape that has no row in `SOLIDS`.

    Raises:
        ValueError: Its numbers do not make that shape.
    """
    make = SOLIDS.get(part["kind"])
    if make is None:
        return None
    try:
        mesh = make(n, **part["fields"]).placed(part["r"], part["A"])
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError) as error:
        raise ValueError(f"the drawing's {part['kind']} makes no sense: {error}") from None
    if not np.all(np.isfinite(mesh.points)):
        raise ValueError(f"the drawing's {part['kind']} is not finite")
    return mesh
