"""Gears: a ratio of two turns, with the tooth force at the pitch point."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..rotations.types import Array, library_of
from . import given
from .body import Body
from .coordinates import Sight
from .couplings import (
    PRESSURE_ANGLE,
    AbstractWheels,
    across,
    all_concrete,
    on_one_axis,
    pressure_tangent,
    seen_points,
)
from .joints import Rows
from .outlines import circle, plain
from .primitives.mesh import GearMesh
from .validation import nonzero, require, shown

_PARALLEL = 1e-9  # of |axis_i × axis_j|, below which two axes count as parallel
_MEETING = 1e-6  # of the distance of two points, within which axes or circles count as meeting


class _Pair(NamedTuple):
    """Two wheels, global at the initial pose: unit axes, centers, and the points of the axes that
    are nearest to each other.
    """

    a_i: Any
    a_j: Any
    p_i: Any
    p_j: Any
    f_i: Any
    f_j: Any

    @property
    def apart(self) -> Any:
        return self.f_j - self.f_i


class _Force(NamedTuple):
    """What makes the force of a `GearMesh`, see there; σ is the sign of the push on body j."""

    tie: Array
    push: Array
    arm: Array


@dataclass(frozen=True, eq=False)
class Gear(AbstractWheels):
    """Two gears in mesh, about parallel, intersecting or crossed axes. Removes 1 degree of freedom.

    The bodies are held by joints of their own, to the ground or to a carrier that may move itself:
    planetary sets and differentials need nothing more.

    The tooth force F acts at the pitch point, so that the bearings' reactions contain it. Its part
    that turns the gears is along the common tangent of the pitch circles or cones, and across the
    teeth where axes cross. With a pressure angle α, a second part |F| tan α presses the gears
    apart, whichever way the first one acts. It does no work, and has no influence on the motion, as
    long as joints hold the axes; where these give way, on springs or beams, it is left out of the
    motion and a warning says so. Friction between the teeth is left out.

    Attributes:
        ratio: Turns of gear j about `axis_j` for one turn of gear i about `axis_i`, seen from what
            holds their axes. With parallel axes that point the same way it is -z_i / z_j for
            external teeth, and z_i / z_j where one of them is a ring; with bevel gears its sign
            says on which side of gear j the teeth are.
        axis_i, axis_j: Axes of the gears, global at the initial pose; `axis_j` defaults to
            `axis_i`.
        point_i, point_j: The centers of the pitch circles, global at the initial pose [m]; they
            default to the mass centers. The circles of bevel gears must touch. Where axes cross,
            any points on them.
        radius_i: Pitch radius of gear i [m]. Only where axes cross, as of a worm and its wheel: it
            is the distance of the pitch point from axis i on the common normal of the axes.
        pressure_angle: α, in the plane across the teeth [rad]; 20 degrees by default, 0 for none.
    """

    mark: ClassVar[str] = "teeth"

    ratio: Any = given.number("-")
    radius_i: Any = given.number("m", None)
    pressure_angle: Any = given.number("rad", PRESSURE_ANGLE)

    def rows(self, i: Body, j: Body) -> Rows:
        ratio = nonzero(self.ratio, f"{self.title}: ratio")
        tangent = pressure_tangent(self.title, self.pressure_angle)
        pair = self._pair(i, j)
        if self._is_bevel(pair):
            first = Sight.direction(i, j, pair.a_i, pair.a_j)
            second = Sight.direction(j, i, pair.a_j, pair.a_i, of=(1, 0))
            force = _of_cones(pair, ratio, self._pitch_point(pair, ratio), tangent)
        else:
            parallel, radius = self._is_parallel(pair.a_i, pair.a_j), self._radius(pair, ratio)
            first, second = seen_points(i, j, pair.a_i, pair.a_j, pair.f_i, pair.f_j)
            force = _of_circles(pair, ratio, radius, tangent, parallel)
        row = GearMesh(
            first,
            second,
            ratio,
            i.direction(pair.a_i),
            j.direction(pair.a_j),
            i.point(pair.f_i),
            j.point(pair.f_j),
            *force,
        )
        return [("tooth force", row)]

    def _pair(self, i: Body, j: Body) -> _Pair:
        a_i, a_j, p_i, p_j = self._wheels(i, j)
        if self._is_parallel(a_i, a_j):
            return _Pair(a_i, a_j, p_i, p_j, p_i, p_i + across(p_j - p_i, a_i))
        between, c = p_j - p_i, a_i @ a_j
        along_i, along_j = between @ a_i, between @ a_j
        f_i = p_i + (along_i - c * along_j) / (1.0 - c * c) * a_i
        f_j = p_j + (c * along_i - along_j) / (1.0 - c * c) * a_j
        pair = _Pair(a_i, a_j, p_i, p_j, f_i, f_j)
        if not self._is_bevel(pair):
            return pair
        apart = library_of(*pair).linalg.norm(f_j - f_i)
        apex = require(
            _meet(*pair),
            0.5 * (f_i + f_j),
            f"{self.title}: the axes pass each other at {shown(apart)} m. For crossed helical "
            "gears, a worm or a hypoid pair give radius_i, the pitch radius of gear i; "
            "otherwise give point_i and point_j on the axes",
        )
        return pair._replace(f_i=apex, f_j=apex)

    def _is_parallel(self, a_i: Array, a_j: Array) -> bool:
        """Traced axes count as parallel where only one is given."""
        if self.axis_j is None:
            return True
        known = all_concrete(a_i, a_j)
        return known is not None and bool(np.linalg.norm(np.cross(known[0], known[1])) < _PARALLEL)

    def _is_bevel(self, pair: _Pair) -> bool:
        """Whether the axes intersect; traced ones do unless a radius says that they cross."""
        if self._is_parallel(pair.a_i, pair.a_j):
            return False
        if self.radius_i is None:
            return True
        known = all_concrete(*pair)
        return known is not None and bool(_meet(*known))

    def _radius(self, pair: _Pair, ratio: Any) -> Array:
        """Signed distance of the pitch point from axis i along the common normal [m]."""
        ratio = require(
            ~on_one_axis(pair.a_i, pair.f_i, pair.f_j),
            ratio,
            f"{self.title}: gears on one shaft cannot mesh; give point_i and point_j, or use a "
            "Coupler for a gearbox of that ratio",
        )
        if not self._is_parallel(pair.a_i, pair.a_j):
            return nonzero(self.radius_i, f"{self.title}: radius_i")
        self._refuse_radius()
        turns = ratio * (pair.a_i @ pair.a_j)
        turns = require(
            abs(turns - 1.0) >= 1e-12,
            turns,
            f"{self.title}: an internal gear of ratio 1 would be as large as its ring; they cannot "
            "mesh at a distance. For two external gears of equal size the ratio is -1",
        )
        d = pair.apart
        return turns / (turns - 1.0) * library_of(d).sqrt(d @ d)

    def _refuse_radius(self) -> None:
        if self.radius_i is not None:
            raise ValueError(
                f"{self.title}: radius_i is for axes that cross; here it follows from the ratio "
                "and the centers. Leave it out"
            )

    def _pitch_point(self, pair: _Pair, ratio: Array | np.ndarray) -> Array:
        """Of bevel gears, from the apex: where the circles about the centers meet the common line
        of the cones.
        """
        self._refuse_radius()
        line = pair.a_i - ratio * pair.a_j  # the instantaneous axis of one gear on the other
        wanted = [
            (axis, (center - apex) @ axis)
            for axis, center, apex, point, other in (
                (pair.a_i, pair.p_i, pair.f_i, self.point_i, self.point_j),
                (pair.a_j, pair.p_j, pair.f_j, self.point_j, self.point_i),
            )
            if point is not None or other is None
        ]
        share = sum(h * (axis @ line) for axis, h in wanted)
        share = share / sum((axis @ line) ** 2 for axis, _ in wanted)
        arm = share * line
        xp = library_of(arm, *(x for pair in wanted for x in pair))
        reach = xp.sqrt(arm @ arm)
        size = xp.max(xp.stack([reach, *(abs(h) for _, h in wanted)]))
        off = xp.max(xp.stack([abs(axis @ arm - h) for axis, h in wanted]))
        touch = (reach > 0.0) & (off <= _MEETING * size)
        return require(touch, arm, self._circles_apart(pair, ratio))

    def _circles_apart(self, pair: _Pair, ratio: Any) -> str:
        """What is wrong where pitch circles do not touch, and where they would; no text where
        numbers are traced.
        """
        known = all_concrete(*pair, ratio)
        if known is None:
            return ""
        a_i, a_j, p_i, _, apex, _, ratio = known
        line = a_i - float(ratio) * a_j
        along, reach = float(a_i @ line), float(a_i @ (p_i - apex))
        cure = "Give point_i and point_j, the centers of circles that do"
        if abs(along * reach) > 0.0:
            there = apex + (reach / along * line @ a_j) * a_j
            numbers = ", ".join(f"{x:.6g}" for x in there + 0.0)
            cure = f"With point_i as it is, give point_j=({numbers})"
        return (
            f"{self.title}: the pitch circles about point_i and point_j (the mass centers by "
            f"default) do not touch, and the tooth force acts where they do. {cure}"
        )

    def outlines(self, i: Body, j: Body) -> tuple[list[np.ndarray], list[np.ndarray]]:
        pair, ratio = self._pair(i, j), plain(self.ratio)
        a_i, a_j, p_i, p_j, f_i, f_j = (np.asarray(x) for x in pair)
        if self._is_bevel(pair):
            arm = np.asarray(self._pitch_point(pair, np.asarray(ratio)))
            c_i, c_j = f_i + (arm @ a_i) * a_i, f_j + (arm @ a_j) * a_j
            r_i, r_j = (float(np.linalg.norm(across(arm, a))) for a in (a_i, a_j))
        else:
            r_i = float(self._radius(pair, np.asarray(ratio)))
            r_j = float(np.linalg.norm(f_j - f_i)) - r_i
            c_i, c_j = (p_i, p_j) if self._is_parallel(pair.a_i, pair.a_j) else (f_i, f_j)
        return [circle(c_i, a_i, abs(r_i))], [circle(c_j, a_j, abs(r_j))]


# --- forces at the pitch point
# ------------------------------------------------------------------------------------------
# The gradient of the angles of a row is a wrench on body j whose moment about an axis is the torque
# of that gear, λ for gear j. It is that of one force at the pitch point up to forces and moments
# that the bearings take: multiples of the gradients of what bearings hold, `GearMesh.tie`. Balances
# of moments about both axes and across them determine the multiples.


def _meet(
    a_i: Array | np.ndarray,
    a_j: Array | np.ndarray,
    p_i: Array | np.ndarray,
    p_j: Array | np.ndarray,
    f_i: Array | np.ndarray,
    f_j: Array | np.ndarray,
) -> Any:
    """Whether axes intersect, of the numbers of a `_Pair`."""
    apart, between = f_j - f_i, p_j - p_i
    return apart @ apart <= _MEETING**2 * (between @ between)


def _of_circles(pair: _Pair, ratio: Array, r_i: Array, tangent: Array, parallel: bool) -> _Force:
    """Of gears whose pitch point is on the common normal e of the axes, at r_i from axis i.

    The force on body j is κ n λ with n across the teeth, in the plane of both axes: the points of
    the gears at the pitch point have one velocity along n, r_i (a_i × e) · n = -ratio r_j (a_j × e)
    · n. Its moments about axis j give κ, those across the axes the ties to d · a_i and d · a_j.
    """
    xp = library_of(*pair, ratio, r_i, tangent)
    distance = xp.sqrt(pair.apart @ pair.apart)
    e = pair.apart / distance
    r_j = distance - r_i
    b_i, b_j = xp.cross(pair.a_i, e), xp.cross(pair.a_j, e)
    n = b_j
    if not parallel:
        n = xp.cross(e, r_i * b_i + ratio * r_j * b_j)
        n = n / xp.sqrt(n @ n)
    kappa = 1.0 / (r_j * (b_j @ n))
    zero = xp.zeros_like(kappa)
    ties = [kappa * r_i * (n @ pair.a_i), kappa * r_j * (n @ pair.a_j)]
    toward = xp.where(xp.abs(r_j) <= xp.abs(r_i), xp.sign(r_j), xp.sign(r_i))
    push = toward * xp.abs(kappa) * tangent / distance
    return _Force(
        xp.stack([ties[0] / distance, ties[1] / distance, zero]),
        xp.stack([zero, zero, push]),
        xp.stack([zero, zero]),
    )


def _of_cones(pair: _Pair, ratio: Array, arm: Array, tangent: Array) -> _Force:
    """Of bevel gears with the pitch point at `arm` from their apex.

    The row's couple lies across the line of the cones, in the plane of both axes: it is the moment
    about the apex of one force along a_i × a_j at the pitch point, to which the tie of d adds the
    force itself. What presses the gears apart is normal to the cones in the plane of the axes.
    """
    a_i, a_j = pair.a_i, pair.a_j
    xp = library_of(*pair, ratio, arm, tangent)
    normal = xp.cross(a_i, a_j)
    sine = xp.sqrt(normal @ normal)
    tie = -1.0 / (xp.cross(arm, normal) @ a_j)
    across_line = xp.cross(normal / sine, arm / xp.sqrt(arm @ arm))
    # Towards the axis of the smaller gear, on which the other one is pressed outwards.
    toward_i = -xp.sign((arm @ a_i) * (a_i @ across_line))
    toward_j = xp.sign((arm @ a_j) * (a_j @ across_line))
    toward = xp.where(xp.abs(ratio) >= 1.0, toward_j, toward_i)
    push = toward * xp.abs(tie) * sine * tangent * across_line
    zero = xp.zeros_like(tie)

    def combination(x: Array | np.ndarray) -> list[Any]:
        """The numbers α and β of α a_i + β a_j, for a vector in the plane of the axes."""
        c, along_i, along_j = a_i @ a_j, x @ a_i, x @ a_j
        return [(along_i - c * along_j) / sine**2, (along_j - c * along_i) / sine**2]

    return _Force(
        xp.stack([zero, zero, tie]),
        xp.stack([*combination(push), zero]),
        xp.stack(combination(arm)),
    )
