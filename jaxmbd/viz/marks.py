"""How joints, gears, cams, links and springs look: the parts that a view draws on two bodies.

The class of a joint names its mark, by default a small ball, and draws lines of its own
(`AbstractRelation.mark` and `outlines`). A new mark is a function and a row of `_MARKS`.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..model.elements import kinds
from ..model.joints import AbstractRelation
from . import meshes
from .meshes import Surface, ball, box, cylinder, frame

# On body i and on body j, axis along z, point at the origin.
Marks = tuple[list[Surface], list[Surface]]


@dataclass(frozen=True)
class Place:
    """One of the two bodies' parts of a joint, in the body's frame.

    Attributes:
        r: Its origin [m].
        A: Its axes as columns.
        meshes: In its own frame.
    """

    meshes: list[Surface]
    r: np.ndarray = field(default_factory=lambda: np.zeros(3))
    A: np.ndarray = field(default_factory=lambda: np.eye(3))


# --- joints: n is the number of faces of a round part, g the size of a joint [m], low and high the
# displacements that it reaches [m] ---


@functools.lru_cache(maxsize=64)
def _hinge(n: int, g: float) -> Marks:
    barrel = cylinder(0.85 * g, 1.7 * g, 0.0, n)
    cheek = cylinder(1.0 * g, 0.4 * g, 0.0, n)
    pin = [
        cylinder(0.42 * g, 0.35 * g, 0.0, n // 2 + 2).placed((0, 0, side * 1.5 * g))
        for side in (-1, 1)
    ]
    cheeks = [cheek.placed((0, 0, side * 1.12 * g)) for side in (-1, 1)]
    return [meshes.joined([*cheeks, *pin])], [barrel]


@functools.lru_cache(maxsize=64)
def _ball_joint(n: int, g: float) -> Marks:
    # An open cup, so that the ball shows.
    s = np.linspace(-0.5 * math.pi, 0.22, 10)
    outer = [(1.28 * g * c, 1.28 * g * d, c, d) for c, d in zip(np.cos(s), np.sin(s), strict=True)]
    inner = [
        (1.06 * g * c, 1.06 * g * d, -c, -d)
        for c, d in zip(np.cos(s[::-1]), np.sin(s[::-1]), strict=True)
    ]
    outer[0], inner[-1] = (0.0, -1.28 * g, 0.0, -1.0), (0.0, -1.06 * g, 0.0, 1.0)
    lip = [(*outer[-1][:2], 0.0, 1.0), (*inner[0][:2], 0.0, 1.0)]
    return [meshes.revolved(outer, lip, inner, count=n)], [ball(1.0 * g, n)]


@functools.lru_cache(maxsize=64)
def _cross(n: int, g: float) -> Marks:
    arm = cylinder(0.42 * g, 3.2 * g, 0.0, n // 2 + 2)
    caps = [cylinder(0.75 * g, 0.5 * g, 0.0, n).placed((0, 0, side * 1.6 * g)) for side in (-1, 1)]
    own = meshes.joined([arm, *caps])
    return [own], [own, ball(0.7 * g, n)]


@functools.lru_cache(maxsize=64)
def _sleeve(n: int, g: float, low: float, high: float) -> Marks:
    rail = cylinder(0.5 * g, high - low + 5.0 * g, 0.0, n).placed((0, 0, 0.5 * (low + high)))
    return [rail], [cylinder(1.0 * g, 3.0 * g, 0.62 * g, n)]


@functools.lru_cache(maxsize=64)
def _screw(n: int, g: float, low: float, high: float) -> Marks:
    length = high - low + 5.0 * g
    turns = np.linspace(-0.5 * length, 0.5 * length, max(24, min(600, int(length / g * 14))))
    angle = 2.0 * math.pi * turns / (0.9 * g)
    line = np.stack([0.5 * g * np.cos(angle), 0.5 * g * np.sin(angle), turns], axis=1)
    thread = meshes.tube(line, 0.13 * g, 5)
    rail = meshes.joined([cylinder(0.5 * g, length, 0.0, n), thread])
    return [rail.placed((0, 0, 0.5 * (low + high)))], [cylinder(1.1 * g, 2.0 * g, 0.68 * g, 6)]


@functools.lru_cache(maxsize=64)
def _slide(n: int, g: float, low: float, high: float) -> Marks:
    rail = box((0.9 * g, 0.9 * g, high - low + 5.0 * g)).placed((0, 0, 0.5 * (low + high)))
    return [rail], [box((1.9 * g, 1.9 * g, 2.8 * g))]


@functools.lru_cache(maxsize=64)
def _table(n: int, g: float) -> Marks:
    return [cylinder(4.5 * g, 0.25 * g, 0.0, 2 * n).placed((0, 0, -0.35 * g))], [
        cylinder(1.3 * g, 0.45 * g, 0.0, n)
    ]


@functools.lru_cache(maxsize=64)
def _weld(n: int, g: float) -> Marks:
    return [], [box((1.6 * g,) * 3)]


@functools.lru_cache(maxsize=64)
def _track(n: int, g: float, low: float, high: float) -> Marks:
    return _sleeve(n, g, low, high)[0], [ball(0.95 * g, n)]


@functools.lru_cache(maxsize=64)
def _dot(n: int, g: float) -> Marks:
    return [], [ball(0.7 * g, n)]


class Mark(NamedTuple):
    """How joints are drawn.

    Attributes:
        make: Its parts, of n, g and the stroke where it slides.
        slides: Whether it has a stroke.
        meets: Whether its points meet, of one that slides along its axis.
    """

    make: Callable[..., Marks]
    slides: bool = False
    meets: bool = True


def _nothing(n: int, g: float) -> Marks:
    return [], []


_DOT = Mark(_dot, meets=False)
_MARKS = {
    "hinge": Mark(_hinge),
    "ball": Mark(_ball_joint),
    "cross": Mark(_cross),
    "sleeve": Mark(_sleeve, slides=True),
    "screw": Mark(_screw, slides=True),
    "slide": Mark(_slide, slides=True),
    "table": Mark(_table, meets=False),
    "weld": Mark(_weld),
    "track": Mark(_track, slides=True),
    "outline": Mark(_nothing, meets=False),
    "teeth": Mark(_nothing, meets=False),
}


def _named(connection: dict) -> str:
    """The mark that the class of a joint names; a result file may know classes that we do not."""
    cls = kinds(AbstractRelation).get(connection["kind"])
    return getattr(cls, "mark", "dot")


def mark_of(connection: dict) -> Mark:
    """How a joint is drawn."""
    return _MARKS.get(_named(connection), _DOT)


def is_outlined(connection: dict) -> bool:
    """Whether a joint is drawn by its wheels and curves alone."""
    return mark_of(connection).make is _nothing


def has_teeth(connection: dict) -> bool:
    """Whether a joint is a pair of gears."""
    return _named(connection) == "teeth"


def joint(connection: dict, n: int, g: float, stroke: tuple[float, float]) -> tuple[Place, Place]:
    """The parts of a joint on its bodies i and j, without its outlines."""
    make, slides, _ = mark_of(connection)
    # Rounded, so that equal joints share their parts.
    numbers = [float(f"{x:.6g}") for x in ((g, *stroke) if slides else (g,))]
    places = []
    for side, own in zip("ij", make(n, *numbers), strict=True):
        axis = np.asarray(connection[f"axis_{side}_bar"], float)
        A = frame(axis) if np.any(axis) else np.eye(3)
        places.append(Place(own, np.asarray(connection[f"s_{side}_bar"], float), A))
    return places[0], places[1]


# --- wheels, cams and lines ---


def outline(line: np.ndarray, g: float, *, solid: bool) -> Surface:
    """A line of a joint as a tube, or as a plate where it is closed and flat."""
    ring, rest = _ring(line)
    if not solid or ring is None:
        return meshes.tube(line, 0.16 * g)
    flat = _flat(ring)
    if flat is None:
        return meshes.tube(line, 0.16 * g)
    center, A, shape = flat
    parts = [meshes.plate(shape, 0.9 * g).placed(center, A)]
    if len(rest) > 1:  # the stroke of a wheel, so that its turning shows
        normal = A[:, 2]
        parts += [meshes.tube(rest + side * 0.45 * g * normal, 0.16 * g) for side in (-1, 1)]
    return meshes.joined(parts)


def _ring(line: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """The closed part of a line without its repeated end, if it has one, and what follows it."""
    reach = np.max(np.ptp(line, axis=0)) if len(line) else 0.0
    same = np.flatnonzero(np.linalg.norm(line[8:] - line[0], axis=1) < 1e-6 * reach) + 8
    return (line[: same[0]], line[same[0] :]) if len(same) else (None, line)


def _flat(ring: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Center, axes and outline in the plane of a closed line, counterclockwise; None where it is
    not flat, or not star-shaped about its center.
    """
    center = ring.mean(axis=0)
    around = ring - center
    area = np.sum(np.cross(around, np.roll(around, -1, axis=0)), axis=0)
    if not np.linalg.norm(area) > 1e-12 * np.max(np.abs(around)) ** 2:
        return None
    A = frame(area)
    shape = around @ A
    if np.max(np.abs(shape[:, 2])) > 1e-4 * np.max(np.abs(shape)):
        return None
    x, y = shape[:, 0], shape[:, 1]
    turning = x * np.roll(y, -1) - y * np.roll(x, -1)
    return (center, A, shape[:, :2]) if np.all(turning > 0.0) else None


class Teeth:
    """Wheels with teeth in mesh, made from the pitch circles of gear pairs, one pair after another;
    a wheel that meshes with several others is drawn once.
    """

    def __init__(self, g: float):
        self._g = g
        self._known: dict[tuple, tuple[int, float]] = {}  # teeth and phase

    def add(self, connection: dict, poses: list[tuple[np.ndarray, np.ndarray]]) -> list | None:
        """The new wheels of a pair as (body, place); None where it cannot be drawn with teeth.

        Args:
            connection: The pair.
            poses: r and A of its bodies at one instant, where the teeth are put in mesh.
        """
        wheels = [_Wheel.of(connection, side, pose) for side, pose in zip("ij", poses, strict=True)]
        first, second = wheels
        if first is None or second is None or np.linalg.norm(np.cross(first.z, second.z)) > 1e-6:
            return None  # bevel gears, or no circles
        if second.key in self._known and first.key not in self._known:
            first, second = second, first
        apart = second.center - first.center
        apart = apart - (apart @ first.z) * first.z
        larger = max(first, second, key=lambda w: w.radius)
        inside = bool(np.linalg.norm(apart) < larger.radius)
        # From their centers, the wheels touch in these directions.
        toward = (apart if larger is first else -apart,) * 2 if inside else (apart, -apart)
        places = []
        count, phase = self._known.get(first.key) or (_count(first, second), None)
        if count is None:
            return None
        angle = first.angle(toward[0])
        if phase is None:
            phase = angle
            places.append(self._draw(first, count, phase, ring=inside and larger is first))
        if second.key not in self._known:
            other = count * second.radius / first.radius
            if abs(other - round(other)) > 1e-6 * other:
                return None
            # From where they touch to the nearest tooth of the first one; the second has a gap
            # there.
            pitch = 2.0 * math.pi / count
            ahead = (phase - angle + 0.5 * pitch) % pitch - 0.5 * pitch
            ahead *= (1.0 if inside else -1.0) * np.sign(first.z @ second.z)
            gap = second.angle(toward[1]) + float(ahead) * first.radius / second.radius
            teeth = round(other)
            phase = gap + math.pi / teeth
            places.append(self._draw(second, teeth, phase, ring=inside and larger is second))
        return places

    def _draw(self, wheel: "_Wheel", teeth: int, phase: float, *, ring: bool) -> tuple[int, Place]:
        self._known[wheel.key] = teeth, phase
        mesh = meshes.toothed(wheel.radius, teeth, 1.1 * self._g, phase, ring=ring)
        return wheel.body, Place([mesh], wheel.center_bar, wheel.B)


@dataclass(frozen=True)
class _Wheel:
    """A pitch circle: its body, center and axes in the body, center and rotation matrix of its own
    frame in space, radius.
    """

    body: int
    center_bar: np.ndarray
    B: np.ndarray
    center: np.ndarray
    A: np.ndarray
    radius: float

    @staticmethod
    def of(connection: dict, side: str, pose: tuple[np.ndarray, np.ndarray]) -> "_Wheel | None":
        ring = _ring(np.array(connection[f"outline_{side}"][0], float))[0]
        flat = None if ring is None else _flat(ring)
        if flat is None:
            return None
        center, B, shape = flat
        (r, A), radius = pose, float(np.linalg.norm(shape[0]))
        return _Wheel(connection[side], center, B, r + A @ center, A @ B, radius)

    @property
    def key(self) -> tuple:
        reach = self.radius
        return (self.body, *np.round(self.center_bar / reach, 6), float(f"{reach:.6g}"))

    @property
    def z(self) -> np.ndarray:
        return self.A[:, 2]

    def angle(self, direction: np.ndarray) -> float:
        local = self.A.T @ direction
        return math.atan2(local[1], local[0])


def _count(first: _Wheel, second: _Wheel) -> int | None:
    """A number of teeth of the first wheel that gives the second a whole number too."""
    ratio = second.radius / first.radius
    least = math.ceil(14 / min(ratio, 1.0))
    for count in range(least, 6 * least):
        if abs(count * ratio - round(count * ratio)) < 1e-6 * count * ratio:
            return count if count * max(ratio, 1.0) <= 400 else None
    return None
