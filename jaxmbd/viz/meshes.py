"""Surfaces of the parts that joints, springs and gears are drawn with, and of the shapes in the
drawing of a result.
"""

import math
from typing import Any

import numpy as np

from ..model.shapes import shape_kinds
from ..model.surfaces import Surface as Surface
from ..model.surfaces import ball as ball
from ..model.surfaces import box as box
from ..model.surfaces import cylinder as cylinder
from ..model.surfaces import frame as frame
from ..model.surfaces import joined as joined
from ..model.surfaces import revolved as revolved
from ..model.surfaces import unit as unit


def plate(outline: np.ndarray, thickness: float, hole: np.ndarray | None = None) -> Surface:
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
        parts.append(Surface(points, triangles, np.tile([0.0, 0.0, side], (2 * n, 1))))
    parts.append(_wall(outline, h))
    if hole is not None:
        parts.append(_wall(hole[::-1], h))
    return joined(parts)


def _wall(outline: np.ndarray, h: float) -> Surface:
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
    return Surface(np.concatenate(points), np.concatenate(triangles), normals)


def tube(line: np.ndarray, radius: float, count: int = 6) -> Surface:
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
    return Surface(points, triangles, normals.reshape(-1, 3))


def helix(radius: float, wire: float, turns: int = 7) -> Surface:
    """A coil spring from z = 0 to 1, with straight ends."""
    s = np.linspace(0.0, 1.0, 12 * turns + 1)
    turn, z = 2.0 * math.pi * turns * s, 0.12 + 0.76 * s
    coil = np.stack([radius * np.cos(turn), radius * np.sin(turn), z], axis=1)
    ends = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.1]], [[0.0, 0.0, 0.9], [0.0, 0.0, 1.0]]
    return tube(np.concatenate([ends[0], coil, ends[1]]), wire)


def toothed(radius: float, teeth: int, thickness: float, phase: float, *, ring: bool) -> Surface:
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


def solid(part: dict[str, Any], n: int = 40) -> Surface | None:
    """The surface of a shape of a drawing (see `results.export.solids`) in the body frame, its
    round parts with n faces around; None for a shape whose class is not known here, or has no
    surface.

    Raises:
        ValueError: Its numbers do not make that shape.
    """
    kind = shape_kinds().get(part["kind"])
    if kind is None:
        return None
    try:
        surface = kind.for_looks(**part["fields"]).surface(n)
        surface = None if surface is None else surface.placed(part["r"], part["A"])
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError) as error:
        raise ValueError(f"the drawing's {part['kind']} makes no sense: {error}") from None
    if surface is not None and not np.all(np.isfinite(surface.points)):
        raise ValueError(f"the drawing's {part['kind']} is not finite")
    return surface
