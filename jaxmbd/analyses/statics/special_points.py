"""Limit and branch points of a path of equilibria."""

import dataclasses
import warnings

import jax.numpy as jnp
import numpy as np

from ...model.state import State
from ...model.system import System
from ...model.validation import users_line
from .path_steps import Point, Shape, Walker

_FOUND = 1e-9  # how well special points are located, in parts of the last step


@dataclasses.dataclass(frozen=True)
class SpecialPoint:
    """A point of a path at which its character changes.

    Attributes:
        kind: "limit", where the parameter turns back, or "branch", where another path crosses.
        parameter: Its value.
        state: The poses.
        body: The body that the vanishing stiffness moves most.
        shape: The displacement without stiffness, (nb, 6): of mass centers, global, and turns, body
            frame.
        index: The row of the path before it.
        lam: Multipliers, (nc,).
        indifferent: Number of directions that never have stiffness.
    """

    kind: str
    parameter: float
    state: State
    body: str
    shape: np.ndarray
    index: int
    lam: np.ndarray
    indifferent: int = 0


@dataclasses.dataclass(frozen=True)
class PathStep:
    """A step between two points of a path.

    Attributes:
        before: The first of them, `index` its row.
        old: Tangent and stiffness there.
        tangent: The direction in which the path left it.
        ds: The length of the step.
        new: Tangent and stiffness at the second point.
    """

    before: Point
    index: int
    old: Shape
    tangent: np.ndarray
    ds: float
    new: Shape


def negative_directions(shape: Shape) -> int:
    """Number of directions with negative stiffness."""
    return int(np.sum(shape.stiffness < -1e-12 * np.max(np.abs(shape.stiffness), initial=0.0)))


def special_points(walker: Walker, system: System, step: PathStep) -> list[SpecialPoint]:
    """Limit and branch points between two points of the path."""
    old, new = step.old, step.new
    turned = old.tangent[-1] * new.tangent[-1] < 0.0
    changed = abs(negative_directions(new) - negative_directions(old))
    found = []
    if turned:
        found.append(_located(walker, system, step, "limit", None))
    if changed - int(turned) > 0:
        k = min(negative_directions(new), negative_directions(old))
        found.append(_located(walker, system, step, "branch", k))
    return [x for x in found if x is not None]


def _located(
    walker: Walker, system: System, step: PathStep, kind: str, k: int | None
) -> SpecialPoint | None:
    """Find where the test function of a kind vanishes: the parameter's rate or a stiffness."""
    from scipy.optimize import brentq  # late: it would take a fifth of the import of the package

    before, tangent, ds = step.before, step.tangent, step.ds
    seen: dict[float, tuple[Point, Shape]] = {}

    def test(s: float) -> float:
        found = walker.step(before, tangent, s) if s else (before, 0)
        if found is None:
            raise ArithmeticError
        seen[s] = found[0], walker.shape(found[0], tangent)
        shape = seen[s][1]
        return float(shape.tangent[-1] if k is None else shape.stiffness[k])

    try:
        where = float(brentq(test, 0.0, ds, xtol=_FOUND * ds, rtol=1e-14))  # pyright: ignore[reportArgumentType]
    except (ArithmeticError, ValueError):
        warnings.warn(
            f"continuation of mechanism {system.name!r}: a {kind} point after the parameter "
            f"{before.p:g} could not be located; take a shorter step=",
            UserWarning,
            stacklevel=users_line(),
        )
        return None
    point, shape = seen[min(seen, key=lambda s: abs(s - where))]
    weakest = int(np.argmin(np.abs(shape.stiffness))) if k is None else k
    way = (walker.scale * shape.vectors[:, weakest]).reshape(-1, 6)
    b = int(np.argmax(np.max(np.abs(way) / walker.scale.reshape(-1, 6), axis=1)))
    zero = jnp.zeros_like(point.pose.r)
    state = State(point.pose.r, point.pose.A, zero, zero, point.angles)
    lam = np.asarray(system.to_natural(jnp.asarray(point.lam)))
    body = system.bodies[b]
    return SpecialPoint(kind, point.p, state, body, way, step.index, lam, walker.indifferent)
