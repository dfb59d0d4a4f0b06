"""Continuation: a path of equilibria over a parameter, past limit points and branch points."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...model.readable import readable
from ...model.state import State
from ..running.checks import check_system
from .equilibrium import equilibrium
from .equilibrium_failure import EquilibriumError
from .equilibrium_result import Equilibrium
from .path_steps import Build, Point, SpinOf, Walker
from .special_points import PathStep, SpecialPoint, negative_directions, special_points
from .stability import LARGEST

_CONTRACTION = 4  # iterations below which the next step may be longer
_BEND = 0.9  # cosine of the angle by which a path may turn in a step
_ASIDE = 0.05  # first step on another branch, in lengths and radians


@dataclasses.dataclass(frozen=True, repr=False)
class Path:
    """Equilibria over a parameter, in the order in which they were passed.

    Attributes:
        parameter: (n,).
        r: Mass centers, (n, nb, 3) [m], global.
        A: Rotation matrices, (n, nb, 3, 3).
        lam: Multipliers, (n, nc).
        unstable: Number of directions with negative stiffness at each point, (n,).
        points: Limit and branch points, in the order in which they were passed.
        complete: Whether it reached the end of the parameter's range.
        reason: Why it ended, where it did not.
        angles: Angles with their turns, (n, w).
    """

    parameter: Float[np.ndarray, " n"]
    r: Float[np.ndarray, "n nb 3"]
    A: Float[np.ndarray, "n nb 3 3"]
    lam: Float[np.ndarray, "n nc"]
    unstable: np.ndarray
    points: tuple[SpecialPoint, ...]
    complete: bool
    reason: str
    angles: Float[np.ndarray, "n w"]
    _build: Any = None
    _options: Any = None

    def __repr__(self) -> str:
        from ..summaries import of_path

        return readable(self, of_path)

    @property
    def stable(self) -> np.ndarray:
        """Whether no direction has negative stiffness, (n,)."""
        return self.unstable == 0

    @property
    def limits(self) -> tuple[SpecialPoint, ...]:
        """Limit points, at which the parameter turns back."""
        return tuple(p for p in self.points if p.kind == "limit")

    @property
    def branches(self) -> tuple[SpecialPoint, ...]:
        """Branch points, at which another path crosses."""
        return tuple(p for p in self.points if p.kind == "branch")

    def at(self, k: int) -> State:
        """The state of row k, at rest."""
        zero = np.zeros_like(self.r[k])
        return jax.device_put(State(self.r[k], self.A[k], zero, zero, self.angles[k]))

    def switch(self, point: int = 0, *, backwards: bool = False, **options: Any) -> "Path":
        """The path that crosses at a branch point.

        Args:
            point: Which of `branches`.
            backwards: Leave the point against its shape instead of along it.
            options: Of `continuation`, where they should differ from those of this path.

        Raises:
            ValueError: There is no such point.
        """
        if not 0 <= point < len(self.branches):
            raise ValueError(f"switch: the path has {len(self.branches)} branch points")
        start = self.branches[point]
        chosen = self._options | options
        return _follow(self._build, start, -1.0 if backwards else 1.0, **chosen)


def continuation(
    build: Build,
    parameter: tuple[float, float],
    *,
    state: State | None = None,
    step: float = 0.1,
    max_points: int = 200,
    t: float = 0.0,
    spin: SpinOf | None = None,
    throw: bool = True,
) -> Path:
    """Follow an equilibrium over a parameter by pseudo-arclength continuation.

    The path passes limit points, where the parameter turns back and an equilibrium jumps, and
    branch points, where another path crosses; both are located and reported with the body that
    loses its stiffness. `path.switch()` follows the other branch.

    Args:
        build: A function of the parameter that returns system and state, as `Mechanism.build` does;
            it is traced once, so the parameter may be any number of the description.
        parameter: Where the path starts, and the value at which it ends; it may turn back behind
            its start by as much as the range.
        state: Where the search for the first equilibrium starts; that of `build` by default.
        step: First and longest step, in parts of the parameter's range and of the motion of the
            bodies in the system's length and radians.
        max_points: Limit of the number of points.
        t: Instant at which drivers and loads are held [s].
        spin: A function of the parameter that returns the steady rotation, as for `equilibrium`.
        throw: Raise where the path cannot be followed to its end or for `max_points` points.

    Returns:
        The path, computed with concrete values: call it outside `jit` and `grad`.

    Raises:
        ValueError: The range is empty, or a mechanism has more than 3000 unknowns.
        EquilibriumError: There is no equilibrium to start from, or the path was lost.

    Reference:
        Riks, "The application of Newton's method to the problem of elastic stability", Journal of
        Applied Mechanics 39 (1972); Keller's pseudo-arclength form.
    """
    start, end = (float(x) for x in parameter)
    if not np.isfinite([start, end]).all() or start == end:
        raise ValueError(f"continuation: parameter must be two different numbers, not {parameter}")
    if not step > 0.0:
        raise ValueError(f"continuation: step must be positive, not {step}")
    system, described = build(start)
    check_system(system, described, "continuation")
    system.refuse_elements_with_states("continuation", "leave them out, or simulate the motion")
    system.refuse_laws("continuation", "leave them out")
    if system.nonholonomic:
        system.refuse_velocity_rows("continuation", "use equilibrium at single values")
    if max(6 * system.nb, system.nc) > LARGEST:
        raise ValueError(f"continuation: more than {LARGEST} unknowns take minutes a point")
    options: dict[str, Any] = {
        "parameter": (start, end),
        "step": step,
        "max_points": max_points,
        "t": t,
        "spin": spin,
        "throw": throw,
    }
    first = equilibrium(
        system,
        described if state is None else state,
        t=t,
        spin=None if spin is None else spin(start),
    )
    return _follow(build, first, np.sign(end - start), **options)


def _follow(
    build: Build, start: Equilibrium | SpecialPoint, direction: float, **options: Any
) -> Path:
    """The path from an equilibrium in a direction of the parameter, or from a branch point along
    its shape.
    """
    parameter, step, throw = options["parameter"], options["step"], options["throw"]
    special = isinstance(start, SpecialPoint)
    first_value = start.parameter if special else parameter[0]
    system, _ = build(first_value)
    state = start.state
    indifferent = start.indifferent if special else start.stability().indifferent
    walker = Walker(
        build,
        system,
        parameter=parameter,
        t=options["t"],
        spin=options["spin"],
        indifferent=indifferent,
    )
    angles = system.turns() if state.angles is None else state.angles
    lam = np.asarray(system.to_stacked(jnp.asarray(start.lam)))
    point = Point(first_value, state.pose, angles, lam)
    n = len(walker.scale)
    tangent = np.zeros(n + 1)
    ds = step
    if special:
        tangent[:n] = direction * start.shape.reshape(-1) / walker.scale
        tangent /= np.linalg.norm(tangent)
        ds = min(step, _ASIDE)
    else:
        tangent[n] = direction
    shape = walker.shape(point, tangent)
    # The tangent of a branch point is not unique: leave it along its shape.
    tangent = tangent if special else shape.tangent
    rows, shapes, points, reason = [point], [shape], [], ""
    way = np.sign(parameter[1] - parameter[0])
    while len(rows) < options["max_points"]:
        leaving = special and len(rows) == 1
        found = walker.step(point, tangent, ds)
        new_shape = shape if found is None else walker.shape(found[0], tangent)
        # Where the path bends, see it with shorter steps.
        bends = new_shape.tangent @ tangent < _BEND and ds > 1e-4 * step and not leaving
        if found is None or bends:
            ds *= 0.5
            if ds < 1e-6 * step:
                reason = f"it was lost at the parameter {point.p:g}: the steps became too short"
                break
            continue
        if not leaving:
            taken = PathStep(point, len(rows) - 1, shape, tangent, ds, new_shape)
            points += special_points(walker, system, taken)
        (point, iterations), shape, tangent = found, new_shape, new_shape.tangent
        rows.append(point)
        shapes.append(shape)
        beyond = way * (point.p - parameter[1]) / walker.range
        if beyond >= 0.0:
            break
        if beyond < -2.0:
            reason = "it left the range of the parameter at its start, by as much as the range"
            break
        if iterations <= _CONTRACTION:
            ds = min(2.0 * ds, step)
    else:
        reason = f"max_points={options['max_points']} points were not enough"
    if not reason:
        rows[-1] = _at_the_end(walker, rows[-1], parameter[1])
        shapes[-1] = walker.shape(rows[-1], shapes[-2].tangent)
    if reason and throw:
        raise EquilibriumError(
            f"continuation of mechanism {system.name!r}: {reason}. Take another step=, or "
            "throw=False for the path so far"
        )
    return Path(
        np.array([x.p for x in rows]),
        np.stack([np.asarray(x.pose.r) for x in rows]),
        np.stack([np.asarray(x.pose.A) for x in rows]),
        np.stack([np.asarray(system.to_natural(jnp.asarray(x.lam))) for x in rows]),
        np.array([negative_directions(x) for x in shapes]),
        tuple(points),
        not reason,
        reason,
        np.stack([np.asarray(x.angles) for x in rows]),
        build,
        options,
    )


def _at_the_end(walker: Walker, after: Point, end: float) -> Point:
    """The equilibrium exactly at the end of the range, if it can be reached; else that beyond."""
    across = np.zeros(len(walker.scale) + 1)
    across[-1] = 1.0
    found = walker.corrected(dataclasses.replace(after, p=end), across)
    return after if found is None else found[0]
