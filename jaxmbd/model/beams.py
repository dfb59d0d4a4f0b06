"""Beams as the user describes them: a line, a section, a number of elements.

A beam becomes rigid bodies, its nodes, and a force element between every two neighbors. The nodes
are made with the beam and may be named in joints, forces and drivers; the elements are made when
the mechanism is built.
"""

import functools
import math
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ..rotations import so3
from ..rotations.types import Array, Scalar, host, library_of
from . import given
from .body import Body, make_body
from .curves import Spline
from .elements import AbstractElement
from .expressions import Components
from .forces.beams import AbstractBeamElement, BeamElement, DirectorBeamElement
from .functions import numbers_of_shape, traced_shape
from .joints import AbstractConstraint, Rows
from .primitives import AbstractPrimitive
from .sections import Section
from .state import Pose
from .system import BeamLabel
from .validation import (
    NOT_NEGATIVE,
    array,
    concrete,
    default_dtype,
    is_concrete,
    number,
    require,
    vector,
)

STRAINS: dict[str, type[AbstractBeamElement]] = {
    "logarithm": BeamElement,
    "quadratic": DirectorBeamElement,
}
RIGID = {"none": (), "stretch": (0,), "shear": (1, 2), "stretch and shear": (0, 1, 2)}
_LABELS = ("no stretch", "no shear along y", "no shear along z")
_UPRIGHT = 0.99  # cosine to the vertical from which a beam counts as vertical
_MOST_ELEMENTS = 10_000


@dataclass(frozen=True, eq=False)
class Beam(AbstractElement):
    """A geometrically exact beam: large displacements and rotations, small strains.

    Made by `Mechanism.add_beam`, which says what the fields are.
    """

    what: ClassVar[str] = "beam"

    points: Any = given.curve()
    section: Any = field(kw_only=True)
    elements: int | None = field(default=None, kw_only=True)
    y_axis: Any = given.vector("-", None)
    twist: Any = given.number("rad", 0.0)
    natural: Any = given.numbers("-, 1/m", None)
    damping: Any = given.numbers("s", None)
    rigid: str = given.choice(*RIGID, default="none")
    strains: str = given.choice(*STRAINS, default="logarithm")
    v: Any = given.numbers("m/s", None)
    omega: Any = given.numbers("rad/s", None)

    def targets(self) -> tuple[Body | str, ...]:
        return self.nodes

    # --- what it consists of ----------------------------------------------------------------------

    @functools.cached_property
    def nodes(self) -> tuple[Body, ...]:
        """Its nodes in order, rigid bodies "NAME.0", "NAME.1", ...

        A node has the mass and the rotary inertia of half of each element at it.
        """
        r, A = self._frames
        lengths = self._lengths
        xp = library_of(lengths)
        half = 0.5 * xp.concatenate([lengths[:1], lengths[1:] + lengths[:-1], lengths[-1:]])
        section = self._section
        v, omega = (self._per_node(getattr(self, k), k) for k in ("v", "omega"))
        return tuple(
            make_body(
                f"{self.name}.{k}",
                mass=half[k] * section.mass_per_length,
                inertia=half[k] * section.inertia_per_length,
                r=r[k],
                A=A[k],
                v=None if v is None else v[k],
                omega=None if omega is None else omega[k],
            )
            for k in range(self.count + 1)
        )

    @property
    def first(self) -> Body:
        """The node at its start."""
        return self.nodes[0]

    @property
    def last(self) -> Body:
        """The node at its end."""
        return self.nodes[-1]

    def forces(self) -> list[AbstractBeamElement]:
        """The elements, between every two neighboring nodes."""
        strains, lengths = self._screws[1], self._lengths
        stiffness = self._section.stiffness
        viscosity = None
        if self.damping is not None:
            viscosity = self._damping * stiffness
        natural = self._natural
        kind = STRAINS[self.strains]
        return [
            kind(lengths[k], strains[k] / lengths[k] + natural[k], stiffness, viscosity)
            for k in range(self.count)
        ]

    def joints(self) -> list["RigidElement"]:
        """Constraints that keep strains at their natural values, if the beam is described so."""
        if not RIGID[self.rigid]:
            return []
        nodes = self.nodes
        return [
            RigidElement(f"{self.name}[{k}]", nodes[k], nodes[k + 1], element=element, beam=self)
            for k, element in enumerate(self.forces())
        ]

    def label(self, index: dict[str, int], place: dict[str, tuple[int, int]], rows) -> BeamLabel:
        """What reports know of it, from the indices of bodies, elements and rows by name."""
        names = [f"{self.name}[{k}]" for k in range(self.count)]
        held = RIGID[self.rigid]
        return BeamLabel(
            extents=self._section.extents,
            name=self.name,
            nodes=tuple(index[node.name] for node in self.nodes),
            elements=tuple(place[name] for name in names),
            held=held,
            rows=tuple(rows[name] for name in names) if held else (),
        )

    # --- numbers ----------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of elements."""
        n = self.elements
        if n is None:
            return len(self.points) - 1 if self._by_points else 8
        is_whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
        if not is_whole or not 1 <= n <= _MOST_ELEMENTS:
            raise ValueError(
                f"{self.title}: elements must be a whole number from 1 to {_MOST_ELEMENTS}, not "
                f"{n!r}"
            )
        return int(n)

    @functools.cached_property
    def _section(self) -> Section:
        if not isinstance(self.section, Section):
            raise ValueError(
                f"{self.title}: section must be an mbd.Section, such as "
                "mbd.Section.rectangle(0.02, 0.01, E=2.1e11, rho=7850.0)"
            )
        return self.section.checked(self.title)

    @property
    def _by_points(self) -> bool:
        return not callable(self.points) and not any(isinstance(x, str) for x in self.points)

    @functools.cached_property
    def _line(self) -> tuple[Array, Array]:
        """Positions and unit tangents of the nodes, (n + 1, 3) each."""
        what = f"{self.title}: points"
        if self._by_points:
            r, slope = _through(array(self.points, (len(self.points), 3), what), self.count, what)
        else:
            curve = self.points if callable(self.points) else Components.of(self.points, what)
            r, slope = _along(curve, self.count, what)
        xp = library_of(slope)
        size = xp.linalg.norm(slope, axis=1)
        size = require(
            size > 1e-9 * xp.max(size),
            size,
            f"{what}: the line stands still somewhere; move its points apart",
        )
        return r, slope / size[:, None]

    @functools.cached_property
    def _frames(self) -> tuple[Array, Array]:
        """Positions and orientations of the nodes; frames turn as little as the tangent allows."""
        r, tangents = self._line
        xp = library_of(r, tangents)
        turn = number(self.twist, f"{self.title}: twist") / self.count
        tangents = self._gently_bent(xp.sum(tangents[1:] * tangents[:-1], axis=1), tangents)
        frames = [self._first_frame(tangents[0])]
        for k in range(self.count):
            frames.append(_carried(xp, tangents[k], tangents[k + 1]) @ frames[-1])
        turned = [A @ _about_x(k * turn) for k, A in enumerate(frames)]
        return r, library_of(*turned).stack(turned)

    def _first_frame(self, tangent: Array) -> Array:
        what = f"{self.title}: y_axis"
        if self.y_axis is None:
            xp = library_of(tangent)
            vertical = xp.abs(tangent[2]) > _UPRIGHT
            y = xp.where(
                vertical,
                xp.asarray([0.0, 1.0, 0.0], tangent.dtype),
                xp.stack([-tangent[1], tangent[0], 0.0 * tangent[2]]),
            )
        else:
            y = vector(self.y_axis, 3, what)
        xp = library_of(tangent, y)
        y = y - (tangent @ y) * tangent
        size = xp.linalg.norm(y)
        y = y / require(size > 1e-6, size, f"{what} is along the beam; give a direction across it")
        return xp.stack([tangent, y, xp.cross(tangent, y)], axis=1)

    @functools.cached_property
    def _screws(self) -> tuple[Array, Array]:
        """log(H_i⁻¹ H_j) of every element, and L times its strains, (n, 6) each."""
        r, A = self._frames
        steps = (r[1:] - r[:-1])[:, None, :]
        turns = library_of(A).swapaxes(A[:-1], 1, 2) @ A[1:]
        trace = turns[:, 0, 0] + turns[:, 1, 1] + turns[:, 2, 2]
        turns = self._gently_bent(0.5 * (trace - np.ones((), turns.dtype)), turns)
        xp = library_of(turns)
        axial = 0.5 * xp.stack(
            [
                turns[:, 2, 1] - turns[:, 1, 2],
                turns[:, 0, 2] - turns[:, 2, 0],
                turns[:, 1, 0] - turns[:, 0, 1],
            ],
            axis=1,
        )
        screws = _logarithms(xp, (steps @ A[:-1])[:, 0], turns, axial)
        if self.strains == "logarithm":
            return screws, screws
        along = 0.5 * (steps @ (A[:-1] + A[1:]))[:, 0]
        return screws, xp.concatenate([along, axial], axis=1)

    def _gently_bent(self, cosines: Array, value: Array) -> Array:
        """A value where no element bends further than its strains can tell; cosines of the bends,
        (n,).
        """
        limit = STRAINS[self.strains].largest_bend
        known, bent = concrete(cosines), ""
        if known is not None:
            k = int(np.argmin(known))
            bent = f"{k} bends by {np.degrees(np.arccos(np.clip(known[k], -1.0, 1.0))):.0f}"
        return require(
            library_of(cosines).min(cosines) >= math.cos(limit),
            value,
            f"{self.title}: element {bent} degrees, where {np.degrees(limit):.0f} are the limit; "
            "use more elements",
        )

    @functools.cached_property
    def _lengths(self) -> Array:
        """Of the screws between the nodes, (n,) [m]."""
        along = self._screws[0][:, :3]
        return library_of(along).linalg.norm(along, axis=1)

    @property
    def _damping(self) -> Array:
        """One number or six [s]."""
        shape = () if np.ndim(self.damping) == 0 else (6,)
        what = f"{self.title}: damping"
        return NOT_NEGATIVE.required(array(self.damping, shape, what), what)

    @property
    def _natural(self) -> Array:
        """What the natural strains differ from those of the line, (n, 6)."""
        shape = (self.count, 6)
        if self.natural is None:
            return host.zeros(shape, default_dtype())
        what = f"{self.title}: natural"
        single = np.ndim(self.natural) == 1
        return (
            array(self.natural, (6,), what)[None] * np.ones((shape[0], 1))
            if single
            else array(self.natural, shape, what)
        )

    def _per_node(self, value: Any, field: str) -> Array | None:
        """Three numbers for each node, or for all."""
        if value is None:
            return None
        what, shape = f"{self.title}: {field}", (self.count + 1, 3)
        if np.ndim(value) == 1:
            return vector(value, 3, what)[None] * np.ones((shape[0], 1))
        return array(value, shape, what)


class HeldStrain(AbstractPrimitive):
    """One strain of a beam's element stays at its natural value, times the length [m].

    Attributes:
        element: The element; its stiffness plays no role.
        which: Which of its strains, one-hot, (6,).
    """

    element: Any
    which: Any

    in_files: ClassVar[bool] = False

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def geometry(self, pose_i: Pose, pose_j: Pose):
        pose = Pose(jnp.stack([pose_i.r, pose_j.r]), jnp.stack([pose_i.A, pose_j.A]))
        return self.element.length * (self.which @ self.element.strains(pose))


@dataclass(frozen=True, eq=False)
class RigidElement(AbstractConstraint):
    """The strains of one element that its beam does not have."""

    element: Any = None
    beam: Any = None

    in_files: ClassVar[bool] = False

    def rows(self, i: Body, j: Body) -> Rows:
        eye = np.eye(6, dtype=default_dtype())
        return [(_LABELS[k], HeldStrain(self.element, eye[k])) for k in RIGID[self.beam.rigid]]


def described(beam: Beam) -> Beam:
    """The beam after a look at everything that could be wrong with it."""
    for name, options in (("rigid", RIGID), ("strains", STRAINS)):
        if getattr(beam, name) not in options:
            raise ValueError(
                f"{beam.title}: {name} must be one of {', '.join(map(repr, options))}, not "
                f"{getattr(beam, name)!r}"
            )
    beam.forces()
    return beam


# --- lines ----------------------------------------------------------------------------------------


def _through(points: Array, count: int, what: str) -> tuple[Array, Array]:
    """Nodes and slopes on the cubic spline through some points, evenly spaced in their number."""
    n = len(points)
    if n < 2:
        raise ValueError(f"{what}: needs at least 2 points, not {n}")
    spline = Spline.through(points, closed=False)
    s = np.linspace(0.0, n - 1.0, count + 1).astype(points.dtype)
    k = np.minimum(s.astype(int), n - 2)
    b = (s - k)[:, None]
    a = 1.0 - b
    p, q, bend_p, bend_q = points[k], points[k + 1], spline.bends[k], spline.bends[k + 1]
    r: Any = a * p + b * q + ((a**3 - a) * bend_p + (b**3 - b) * bend_q) / 6.0
    slope = q - p + ((1.0 - 3.0 * a**2) * bend_p + (3.0 * b**2 - 1.0) * bend_q) / 6.0
    return r, slope


def _along(curve: Any, count: int, what: str) -> tuple[Array, Array]:
    """Nodes and slopes on a curve over [0, 1], evenly spaced in its parameter."""
    zero = np.zeros((), default_dtype())
    shape = traced_shape(lambda s: jnp.asarray(curve(s)), (zero,), what)
    numbers_of_shape(shape, (3,), what)

    def jet(s):
        def point(s):
            return jnp.asarray(curve(s), s.dtype)

        return jax.jvp(point, (s,), (jnp.ones_like(s),))

    found: Any = jax.vmap(jet)(jnp.linspace(0.0, 1.0, count + 1, dtype=zero.dtype))
    r, slope = found
    return (host.asarray(r), host.asarray(slope)) if is_concrete(found) else (r, slope)


# --- rotations, of NumPy where they are known -----------------------------------------------------


def _skew(xp: ModuleType, x: Array) -> Array:
    zero = 0.0 * x[0]
    return xp.stack(
        [
            xp.stack([zero, -x[2], x[1]]),
            xp.stack([x[2], zero, -x[0]]),
            xp.stack([-x[1], x[0], zero]),
        ]
    )


def _carried(xp: ModuleType, a: Array, b: Array) -> Array:
    """The smallest rotation that takes a unit vector to another, less than half a turn away."""
    K: Any = _skew(xp, xp.cross(a, b))
    return np.eye(3, dtype=a.dtype) + K + K @ K / (1.0 + a @ b)


def _about_x(angle: Array) -> Array:
    xp = library_of(angle)
    c, s = xp.cos(angle), xp.sin(angle)
    one, zero = xp.ones_like(c), xp.zeros_like(c)
    return xp.stack([xp.stack([one, zero, zero]), xp.stack([zero, c, -s]), xp.stack([zero, s, c])])


def _logarithms(xp: ModuleType, r: Array, turns: Array, axial: Array) -> Array:
    """Logarithms on SE(3) of motions that turn by less than half a turn, (n, 6)."""
    squared = xp.sum(axial**2, axis=1)
    cosine = 0.5 * (turns[:, 0, 0] + turns[:, 1, 1] + turns[:, 2, 2] - 1.0)
    small = (squared < 0.01) & (cosine > 0.0)
    sine = xp.sqrt(xp.where(small, 1.0, squared))
    ratio = _powers(so3.ARCSINE_SERIES, xp.where(small, squared, 0.0))
    theta = xp.where(small, ratio, xp.arctan2(sine, cosine) / sine)[:, None] * axial
    x2 = xp.sum(theta**2, axis=1)
    half = 0.5 * xp.sqrt(xp.where(small, 1.0, x2))
    closed = 0.25 * (1.0 - half / xp.tan(half)) / half**2
    series = _powers(so3.COTANGENT_SERIES, xp.where(small, x2, 0.0))
    factor = xp.where(small, series, closed)
    twisted = xp.cross(theta, r)
    rho = r - 0.5 * twisted + factor[:, None] * xp.cross(theta, twisted)
    return xp.concatenate([rho, theta], axis=1)


def _powers(coefficients: tuple[float, ...], x: Array) -> Array:
    value = 0.0 * x
    for c in coefficients[::-1]:
        value = value * x + c
    return value
