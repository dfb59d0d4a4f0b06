"""A mechanism in three dimensions: nodes with surfaces, and how they move.

Nodes know their frame in the mechanism's global components; what is written of them (`gltf`) and
what is said about them (`page`) are other files.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ..model.validation import Numbers
from . import marks, meshes
from .data import Picture, cube, drawn, ends, extent, outlines
from .framing import outermost
from .meshes import Surface
from .nodes import Node, Part, Scene

COLORS = ("4878cf", "e8853d", "55a868", "c9504f", "8a72b9", "a0785a", "d579b4", "3fa7b5", "b5a52f")
STEEL, GROUND, SPRING, LINK, GAP = "a9b0ba", "7d848e", "4f9d69", "8b929b", "e02020"
AXES, SIGHT = ("c8443f", "2f8f4e", "2f6fc4"), "c2477f"
_OPEN = 1e-3  # of the mechanism, from where a joint counts as open
_FAINT = 0.16  # opacity of the others of a batch
_GHOST = 0.22  # opacity of the box that stands for a body without a shape
_FACES = (20, 28), (60, 16)  # of a round part, by the number of bodies at most
_TRAVELS = 4.0  # times its own size: a motion that the camera follows
_ARMS = 2  # a body with so many sticks to its joints needs no such box


def scene(data: Picture) -> Scene:
    """The scene of a result, with all of its rows."""
    return _Builder(data).scene()


def up_from(gravity: Numbers) -> np.ndarray:
    """The coordinate axis that points up most, against gravity; z without gravity."""
    g = -np.asarray(gravity, float)
    if not np.any(g):
        return np.array([0.0, 0.0, 1.0])
    k = int(np.argmax(np.abs(g)))
    return np.sign(g[k]) * np.eye(3)[k]


class _Builder:
    def __init__(self, data: Picture):
        self.data = data
        self.middle, self.reach = cube(data)
        self.half = self.reach
        first = {name: x[:1] for name, x in data.arrays.items()}
        start = Picture(first, data.drawing, data.result)
        middle, half = cube(start)
        # What travels is seen from near, and followed; a point that flies has no size of its own.
        if self.reach > _TRAVELS * half:
            self.middle, self.half = middle, 2.0 * half
        self.r, self.A = data.arrays["r"], data.arrays["A"]
        self.nb = self.r.shape[1]
        self.connections = drawn(data)
        self.g = self._size()
        # Many bodies are small in the picture: fewer faces, so that it stays quick to draw.
        self.n = next((n for most, n in _FACES if self.nb <= most), 8)
        self.teeth = marks.Teeth(self.g)
        self.beams = self._of_beams()

    def scene(self) -> Scene:
        nodes = [self._body(b) for b in range(self.nb)]
        nodes.append(Node("ground", "ground", self._ground(), of=None))
        for c in self.connections:
            nodes += self._link(c) if c["link"] else self._joint(c)
        for k, spring in enumerate(self.data.drawing["springs"]):
            nodes.append(self._spring(spring, k))
        nodes += [self._frame(frame) for frame in self.data.drawing.get("frames", [])]
        nodes += [self._sight(sight) for sight in self.data.drawing.get("sights", [])]
        nodes += self._ghosts(nodes[: self.nb])
        up = up_from(self.data.drawing["gravity"])
        t = self.data.arrays["t"]
        name = self.data.drawing["name"]
        return Scene(
            name,
            t,
            nodes,
            up,
            self.middle,
            self.half,
            self._outermost(nodes),
            self.reach,
            self._lowest(up),
            self.g,
        )

    def _outermost(self, nodes: list[Node]) -> np.ndarray:
        if self.half == self.reach:
            return outermost(nodes, len(self.r))
        # Some room around what the camera follows.
        return self.middle + 1.4 * (outermost(nodes, 1) - self.middle)

    def _lowest(self, up: np.ndarray) -> float:
        """Of everything that is drawn, along a coordinate axis."""
        low, high = extent(self.data)
        k = int(np.argmax(np.abs(up)))
        return float(low[k] if up[k] > 0.0 else -high[k])

    def _size(self) -> float:
        """Of a joint: a small part of the bodies, and of the picture."""
        arms = [
            np.linalg.norm(p)
            for c in self.connections
            for b, p in ends(c)
            if b < self.nb and np.linalg.norm(p) > 1e-9
        ]
        usual = float(np.median(arms)) if arms else self.half
        return min(max(0.075 * usual, 0.004 * self.half), 0.03 * self.half)

    def color(self, b: int) -> str:
        return COLORS[b % len(COLORS)] if b < self.nb else GROUND

    # --- bodies ---

    def _body(self, b: int) -> Node:
        drawing = self.data.drawing
        if b in self.beams:
            motion = self.r[:, b], self.A[:, b], None
            name = drawing["bodies"][b]
            return Node(name, "body", [self.beams[b]], motion=motion, extras={"body": b})
        shaped = drawing["shaped"][b]
        solids = [
            mesh
            for part in drawing["solids"][b]
            if (mesh := meshes.solid(part, self.n + 12)) is not None
        ]
        complete = len(solids) == len(drawing["solids"][b]) and bool(solids)
        arms = self._arms(b, solids if shaped else [])
        parts = []
        if solids and (shaped or not (len(arms) >= _ARMS or self._has_wheel(b))):
            parts += self._colored(b, 1.0 if shaped else _GHOST)
        if not complete and (shaped or not (arms or self._has_wheel(b))):
            lines = [
                meshes.tube(np.array(line, float), 0.16 * self.g) for line in drawing["outlines"][b]
            ]
            if lines:
                parts.append(Part(meshes.joined(lines), self.color(b)))
        if arms:
            knob = meshes.ball(0.6 * self.g, self.n // 2)
            parts.append(Part(meshes.joined([knob, *arms]), self.color(b)))
        if not parts:
            parts.append(Part(meshes.ball(1.2 * self.g, 16), self.color(b)))
        motion = self.r[:, b], self.A[:, b], None
        return Node(drawing["bodies"][b], "body", parts, motion=motion, extras={"body": b})

    def _colored(self, b: int, opacity: float) -> list[Part]:
        """The solids of a body, those of one color as one surface."""
        groups: dict[tuple[str, float], list[Surface]] = {}
        for part in self.data.drawing["solids"][b]:
            mesh, own = meshes.solid(part, self.n + 12), part.get("color")
            if mesh is not None:
                look = (self.color(b), opacity) if own is None else (_hexadecimal(own), own[3])
                groups.setdefault(look, []).append(mesh)
        return [Part(meshes.joined(x), *look) for look, x in groups.items()]

    def _of_beams(self) -> dict[int, Part]:
        """By the index of a node, the half elements at it, which it carries; all of a beam in one
        color.
        """
        found = {}
        for k, beam in enumerate(self.data.drawing.get("beams", [])):
            nodes = np.array(beam["nodes"])
            half = 0.5 * np.linalg.norm(np.diff(self.r[0, nodes], axis=0), axis=1)
            before, after = np.append(0.0, half), np.append(half, 0.0)
            for node, back, front in zip(nodes.tolist(), before, after, strict=True):
                piece = meshes.box(np.array([back + front, *beam["extents"]]))
                found[node] = Part(piece.placed((0.5 * (front - back), 0.0, 0.0)), self.color(k))
        return found

    def _has_wheel(self, b: int) -> bool:
        """Whether a joint draws a wheel or a profile on the body."""
        return any(
            bool(lines) and body == b
            for c in self.connections
            for (body, _), lines in zip(ends(c), outlines(c), strict=True)
        )

    def _arms(self, b: int, solids: list[Surface]) -> list[Surface]:
        """Sticks from the mass center to the joints that lie outside of a body's shape."""
        points = [
            p
            for c in self.connections
            if not marks.is_outlined(c)
            for body, p in ends(c)
            if body == b
        ]
        if not solids:
            points += [p for s in self.data.drawing["springs"] for body, p in ends(s) if body == b]
        corners = np.concatenate([m.points for m in solids]) if solids else np.zeros((1, 3))
        low, high = corners.min(axis=0) - self.g, corners.max(axis=0) + self.g
        outside = [np.array(p) for p in points if np.any(p < low) or np.any(p > high)]
        return [
            meshes.tube(np.stack([np.zeros(3), p]), 0.6 * self.g, self.n // 2)
            for p in outside
            if np.linalg.norm(p) > 1e-9
        ]

    def _ground(self) -> list[Part]:
        return []

    def _ghosts(self, bodies: list[Node]) -> list[Node]:
        """The bodies of others of a batch: the same surfaces, hardly seen."""
        if "ghosts_r" not in self.data.arrays:
            return []
        r, A = self.data.arrays["ghosts_r"], self.data.arrays["ghosts_A"]
        faint = [
            [dataclasses.replace(part, opacity=_FAINT * part.opacity) for part in body.parts]
            for body in bodies
        ]
        return [
            Node(f"ghost {k + 1}", "ghost", faint[b], motion=(r[:, k, b], A[:, k, b], None))
            for k in range(r.shape[1])
            for b in range(self.nb)
        ]

    # --- joints, links, springs ---

    def _joint(self, c: dict) -> list[Node]:
        places = marks.joint(c, self.n, self.g, self._stroke(c))
        nodes = [
            self._on(c, b, place, STEEL if b < self.nb else GROUND)
            for b, place in zip((c["i"], c["j"]), places, strict=True)
            if place.meshes
        ]
        nodes += self._gap(c)
        wheels = None
        if marks.has_teeth(c):
            wheels = self.teeth.add(c, [self._pose(b, 0) for b in (c["i"], c["j"])])
        if wheels is not None:
            return nodes + [self._on(c, b, place, self.color(b), part=True) for b, place in wheels]
        for (b, _), lines in zip(ends(c), outlines(c), strict=True):
            if lines:
                solid = not (b < self.nb and self.data.drawing["shaped"][b])
                own = [marks.outline(np.array(x, float), self.g, solid=solid) for x in lines]
                nodes.append(self._on(c, b, marks.Place(own), self.color(b), part=True))
        return nodes

    def _gap(self, c: dict) -> list[Node]:
        """A red line across a joint whose bodies do not meet."""
        mark = marks.mark_of(c)
        if not mark.meets:
            return []
        (i, p), (j, q) = ends(c)
        start, end = self._points(i, p), self._points(j, q)
        if mark.slides:  # it slides: across its axis alone
            axis = self._turned(i, c["axis_i_bar"])
            start = start + np.sum((end - start) * axis, axis=1, keepdims=True) * axis
        if np.max(np.linalg.norm(end - start, axis=1)) < _OPEN * self.half:
            return []
        rod = meshes.cylinder(0.3 * self.g, 1.0, 0.0, 10).placed((0, 0, 0.5))
        extras = {"joint": c["name"], "type": c["kind"], "part": True}
        part = Part(rod, GAP)
        return [Node(c["name"], "gap", [part], motion=_between(start, end), extras=extras)]

    def _on(self, c: dict, b: int, place: marks.Place, color: str, *, part: bool = False) -> Node:
        """Something of a joint on one of its bodies; `part` where it looks like a part of it."""
        metal = color in (STEEL, GROUND)
        parts = [Part(mesh, color, metal=metal) for mesh in place.meshes]
        extras = {"joint": c["name"], "type": c["kind"], **({"part": True} if part else {})}
        return Node(c["name"], "joint", parts, of=b, r=place.r, A=place.A, extras=extras)

    def _link(self, c: dict) -> list[Node]:
        """A massless link with a ball at either end."""
        (i, p), (j, q) = ends(c)
        rod = meshes.cylinder(0.4 * self.g, 1.0, 0.0, self.n).placed((0, 0, 0.5))
        extras = {"joint": c["name"], "type": c["kind"]}
        motion = _between(self._points(i, p), self._points(j, q))
        knob = [meshes.ball(0.8 * self.g, self.n)]
        return [
            Node(c["name"], "link", [Part(rod, LINK, metal=True)], motion=motion, extras=extras),
            self._on(c, i, marks.Place(knob, np.array(p, float)), STEEL),
            self._on(c, j, marks.Place(knob, np.array(q, float)), STEEL),
        ]

    def _spring(self, spring: dict, k: int) -> Node:
        (i, p), (j, q) = ends(spring)
        coil = meshes.helix(1.1 * self.g, 0.2 * self.g)
        motion = _between(self._points(i, p), self._points(j, q))
        name = spring.get("name") or f"spring {k + 1}"
        return Node(name, "spring", [Part(coil, SPRING, metal=True)], motion=motion)

    def _frame(self, frame: dict) -> Node:
        """Three axes in the usual colors: x red, y green, z blue."""
        reach, thin = 5.0 * self.g, 0.22 * self.g
        parts = [
            Part(meshes.tube(np.stack([np.zeros(3), reach * axis]), thin), color)
            for axis, color in zip(np.eye(3), AXES, strict=True)
        ]
        r, A = np.array(frame["s_bar"], float), np.array(frame["A_bar"], float)
        return Node(frame["name"], "frame", parts, of=frame["body"], r=r, A=A)

    def _sight(self, sight: dict) -> Node:
        """The line along which a sensor measures a distance."""
        (i, p), (j, q) = ends(sight)
        rod = meshes.cylinder(0.16 * self.g, 1.0, 0.0, 8).placed((0, 0, 0.5))
        motion = _between(self._points(i, p), self._points(j, q))
        return Node(sight["name"], "frame", [Part(rod, SIGHT)], motion=motion)

    # --- motion ---

    def _pose(self, b: int, row: int) -> tuple[np.ndarray, np.ndarray]:
        return (self.r[row, b], self.A[row, b]) if b < self.nb else (np.zeros(3), np.eye(3))

    def _points(self, b: int, s_bar: Numbers) -> np.ndarray:
        """A point of a body at all instants, (T, 3)."""
        s_bar = np.asarray(s_bar, float)
        if b == self.nb:
            return np.broadcast_to(s_bar, (len(self.r), 3))
        return self.r[:, b] + self.A[:, b] @ s_bar

    def _turned(self, b: int, a_bar: Numbers) -> np.ndarray:
        """A direction of a body at all instants, (T, 3)."""
        a_bar = np.asarray(a_bar, float)
        return np.broadcast_to(a_bar, (len(self.r), 3)) if b == self.nb else self.A[:, b] @ a_bar

    def _stroke(self, c: dict) -> tuple[float, float]:
        """The lowest and the highest displacement along a joint's axis in the motion [m]."""
        (i, p), (j, q) = ends(c)
        if not np.any(c["axis_i_bar"]):
            return 0.0, 0.0
        along = self._turned(i, c["axis_i_bar"])
        moved = np.sum((self._points(j, q) - self._points(i, p)) * along, axis=-1)
        # A rail on a moving body is no longer than a few joints, so that it stays on the body.
        most = np.inf if i == self.nb else 6.0 * self.g
        low, high = float(np.min(moved)), float(np.max(moved))
        return max(min(low, 0.0), -most), min(max(high, 0.0), most)


def _hexadecimal(color: Sequence[float]) -> str:
    """A color from 0 to 1 as six digits."""
    return "".join(f"{round(255 * x):02x}" for x in color[:3])


def _between(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames with z from one moving point to another, and their distance."""
    apart = end - start
    length = np.linalg.norm(apart, axis=1)
    z = meshes.unit(apart)
    # The shortest turn from z to the direction, carried on from one instant to the next, so that
    # a coil does not jump.
    A = np.empty((len(z), 3, 3))
    e1 = meshes.unit(np.cross([0.0, 1.0, 0.0], z[0]) + 1e-9)
    for k, axis in enumerate(z):
        side = e1 - (e1 @ axis) * axis
        size = np.linalg.norm(side)
        e1 = side / size if size > 1e-6 else meshes.unit(np.cross(axis, [0.6, 0.0, 0.8]))
        A[k] = np.stack([e1, np.cross(axis, e1), axis], axis=1)
    return start, A, np.maximum(length, 1e-9)
