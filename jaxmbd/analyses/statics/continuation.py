"""Continuation: a path of equilibria over a parameter, past limit points and branch points."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...equations.rows import dense_rows, phi, row_sizes
from ...equations.rows import rows as joint_rows
from ...equations.statics import Rest, reactions, static_loads, static_matrix
from ...formulations import RA
from ...model.readable import readable
from ...model.state import Pose, State
from ...model.system import System
from ...model.validation import users_line
from ..running.checks import check_system
from .equilibrium import Equilibrium, EquilibriumError, as_spin, equilibrium
from .stability import LARGEST, null_space

_ITERATIONS = 12  # of the corrector; more mean a shorter step
_CONTRACTION = 4  # iterations below which the next step may be longer
_RESIDUAL = 1e-10  # of the loads
_FOUND = 1e-9  # how well special points are located, in parts of the last step
_NEAR = 0.5  # of a step: how far the path may lie from where it was predicted
_BEND = 0.9  # cosine of the angle by which a path may turn in a step
_ASIDE = 0.05  # first step on another branch, in lengths and radians


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
    build: Callable[[Any], tuple[System, State]],
    parameter: tuple[float, float],
    *,
    state: State | None = None,
    step: float = 0.1,
    max_points: int = 200,
    t: float = 0.0,
    spin: Callable[[Any], Any] | None = None,
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


class _Look(eqx.Module):
    """Everything about one point, dense: loads (n,) with the sums of their magnitudes, closure
    (m,), sizes of the rows (m,), the rates of loads and closure by the parameter with multipliers
    held, rows (m, n), stiffness (n, n) and angles.
    """

    loads: Any
    sizes: Any
    gaps: Any
    row_sizes: Any
    load_rate: Any
    gap_rate: Any
    rows: Any
    stiffness: Any
    angles: Any


class _Eye:
    """The compiled look at a parameter and a pose."""

    def __init__(self, build, t: float, spin):
        def quantities(p, pose: Pose, angles):
            system, _ = build(p)
            now = jnp.asarray(t, system.dtype)
            whole = None if spin is None else as_spin(spin(p), system)
            system = system.unnamed().wound(angles).at(now)
            args = Rest(system, now, jnp.ones_like(now), whole)
            loads, sizes = (x.reshape(-1) for x in static_loads(args, pose))
            return args, loads, phi(RA(), system, pose), sizes

        def look(p, pose: Pose, angles, lam):
            def parts(p):
                args, loads, gaps, _ = quantities(p, pose, angles)
                held = joint_rows(RA(), args.system, pose)
                return loads, gaps, reactions(args, held, lam).reshape(-1)

            values, rates = jax.jvp(parts, (p,), (jnp.ones_like(p),))
            args, _, _, sizes = quantities(p, pose, angles)
            n = values[0].size
            stiffness = static_matrix(args, pose, lam, jnp.zeros_like(p)).dense()[:n, :n]
            rows = dense_rows(RA(), args.system, pose)
            units = row_sizes(RA(), args.system)
            turned = args.system.angle_values(RA().with_ground(pose))
            rate = rates[0] + rates[2]
            loads, gaps, _ = values
            return _Look(loads, sizes, gaps, units, rate, rates[1], rows, stiffness, turned)

        self._look = jax.jit(look)
        self._retract = jax.jit(lambda pose, d: jax.vmap(RA().retract)(pose, d))

    def __call__(self, at: "_Point") -> _Look:
        dtype = at.pose.r.dtype
        p, lam = jnp.asarray(at.p, dtype), jnp.asarray(at.lam, dtype)
        return jax.tree.map(np.asarray, self._look(p, at.pose, at.angles, lam))

    def moved(self, at: "_Point", delta: np.ndarray, dp: float, lam) -> "_Point":
        way = jnp.asarray(delta.reshape(-1, 6), at.pose.r.dtype)
        return dataclasses.replace(
            at, p=at.p + dp, pose=self._retract(at.pose, way), lam=np.asarray(lam)
        )


@dataclasses.dataclass(frozen=True)
class _Point:
    """A point of the path; multipliers in the stacked order."""

    p: float
    pose: Pose
    angles: Any
    lam: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Shape:
    """What a converged point tells of the path through it.

    Attributes:
        tangent: Displacements (n,), in lengths and radians, and of the parameter in parts of its
            range; of length one.
        stiffness: Eigenvalues of the reduced stiffness but for those that are always zero, (f,).
        vectors: Displacements that belong to them, (n, f).
    """

    tangent: np.ndarray
    stiffness: np.ndarray
    vectors: np.ndarray


class _Walker:
    """Steps along a path of equilibria."""

    def __init__(self, build, system: System, *, parameter, t, spin, indifferent: int):
        self.eye = _Eye(build, t, spin)
        self.length = float(system.length)
        self.range = abs(parameter[1] - parameter[0])
        self.indifferent = indifferent
        self.scale = np.tile([self.length] * 3 + [1.0] * 3, system.nb)

    def reduced(self, at: _Point):
        """The look, a basis of what the rows allow, and the linear system of the free coordinates
        and the parameter.
        """
        look, scale = self.eye(at), self.scale
        rows, K = look.rows * scale, scale[:, None] * look.stiffness * scale
        Z = null_space(rows / look.row_sizes[:, None])
        closing = -np.linalg.pinv(rows, rcond=1e-9)  # repeated rows say nothing new
        across, along = closing @ look.gaps, closing @ (self.range * look.gap_rate)
        loads, rate = scale * look.loads, self.range * scale * look.load_rate
        return look, rows, K, Z, across, along, loads, rate

    def corrected(
        self, at: _Point, tangent: np.ndarray, within: float = 1.0
    ) -> tuple[_Point, int] | None:
        """The equilibrium on the plane through a point across the tangent, and the iterations it
        took; None where they do not converge, or lead farther away than `within`: another part of
        the path may cross that plane.
        """
        n, gone = len(self.scale), 0.0
        for k in range(_ITERATIONS):
            look, rows, K, Z, across, along, loads, rate = self.reduced(at)
            pull = loads + rows.T @ at.lam
            sizes = self.scale * look.sizes
            size = np.max(sizes + np.abs(rows.T) @ np.abs(at.lam), initial=0.0)
            left = np.max(np.abs(Z.T @ loads), initial=0.0)
            gap = np.max(np.abs(look.gaps / look.row_sizes), initial=0.0)
            # Loads of stiff elements are known as well as the rounding of poses allows.
            blur = np.finfo(K.dtype).eps * np.max(np.sum(np.abs(K), axis=1), initial=0.0)
            if left <= _RESIDUAL * size + blur and gap <= 1e-12 and k:
                lam = at.lam - np.linalg.lstsq(rows.T, pull, rcond=1e-9)[0] if len(rows) else at.lam
                return dataclasses.replace(at, angles=jnp.asarray(look.angles), lam=lam), k
            top = np.column_stack([Z.T @ K @ Z, Z.T @ (rate + K @ along)])
            bottom = np.append(tangent[:n] @ Z, tangent[n] + tangent[:n] @ along)
            right = -np.append(Z.T @ (loads + K @ across), tangent[:n] @ across)
            x = np.linalg.lstsq(np.vstack([top, bottom]), right, rcond=1e-11)[0]
            move = Z @ x[:-1] + across + along * x[-1]
            gone += np.sqrt(move @ move + x[-1] ** 2)
            if not gone <= within:
                return None
            lam = at.lam
            if len(rows):
                forces = loads + K @ move + rate * x[-1]
                lam = -np.linalg.lstsq(rows.T, forces, rcond=1e-9)[0]
            at = self.eye.moved(at, self.scale * move, self.range * x[-1], lam)
            at = dataclasses.replace(at, angles=jnp.asarray(look.angles))
        return None

    def shape(self, at: _Point, along_tangent: np.ndarray) -> _Shape:
        """Tangent, in the sense of the last one, and stiffness at a converged point."""
        n = len(self.scale)
        _, _, K, Z, _, along, _, rate = self.reduced(at)
        reduced = Z.T @ K @ Z
        top = np.column_stack([reduced, Z.T @ (rate + K @ along)])
        bottom = np.append(along_tangent[:n] @ Z, along_tangent[n] + along_tangent[:n] @ along)
        right = np.zeros(len(top) + 1)
        right[-1] = 1.0
        x = np.linalg.lstsq(np.vstack([top, bottom]), right, rcond=1e-11)[0]
        tangent = np.append(Z @ x[:-1] + along * x[-1], x[-1])
        if np.max(np.abs(reduced - reduced.T), initial=0.0) <= 1e-7 * np.max(np.abs(reduced)):
            values, vectors = np.linalg.eigh(0.5 * (reduced + reduced.T))
        else:
            found: Any = np.linalg.eig(reduced)
            values, vectors = found[0].real, found[1].real
        keep = np.sort(np.argsort(np.abs(values))[self.indifferent :])
        keep = keep[np.argsort(values[keep])]
        return _Shape(tangent / np.linalg.norm(tangent), values[keep], Z @ vectors[:, keep])

    def step(self, at: _Point, tangent: np.ndarray, ds: float) -> tuple[_Point, int] | None:
        """The next point at an arclength ds."""
        n = len(self.scale)
        guess = self.eye.moved(
            at, ds * self.scale * tangent[:n], ds * self.range * tangent[n], at.lam
        )
        return self.corrected(guess, tangent)


def _follow(build, start: "Equilibrium | SpecialPoint", direction: float, **options: Any) -> Path:
    """The path from an equilibrium in a direction of the parameter, or from a branch point along
    its shape.
    """
    parameter, step, throw = options["parameter"], options["step"], options["throw"]
    special = isinstance(start, SpecialPoint)
    first_value = start.parameter if special else parameter[0]
    system, _ = build(first_value)
    state = start.state
    indifferent = start.indifferent if special else start.stability().indifferent
    walker = _Walker(
        build,
        system,
        parameter=parameter,
        t=options["t"],
        spin=options["spin"],
        indifferent=indifferent,
    )
    angles = system.turns() if state.angles is None else state.angles
    lam = np.asarray(system.to_stacked(jnp.asarray(start.lam)))
    point = _Point(first_value, state.pose, angles, lam)
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
            points += _special(walker, system, point, shape, tangent, ds, new_shape, len(rows) - 1)
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
        np.array([_negative(x) for x in shapes]),
        tuple(points),
        not reason,
        reason,
        np.stack([np.asarray(x.angles) for x in rows]),
        build,
        options,
    )


def _negative(shape: _Shape) -> int:
    """Number of directions with negative stiffness."""
    return int(np.sum(shape.stiffness < -1e-12 * np.max(np.abs(shape.stiffness), initial=0.0)))


def _at_the_end(walker: _Walker, after: _Point, end: float) -> _Point:
    """The equilibrium exactly at the end of the range, if it can be reached; else that beyond."""
    across = np.zeros(len(walker.scale) + 1)
    across[-1] = 1.0
    found = walker.corrected(dataclasses.replace(after, p=end), across)
    return after if found is None else found[0]


def _special(
    walker: _Walker, system: System, before: _Point, old: _Shape, tangent, ds, new: _Shape, index
) -> list[SpecialPoint]:
    """Limit and branch points between two points of the path."""
    turned = old.tangent[-1] * new.tangent[-1] < 0.0
    changed = abs(_negative(new) - _negative(old))
    found = []
    if turned:
        found.append(_located(walker, system, before, tangent, ds, "limit", index, None))
    if changed - int(turned) > 0:
        k = min(_negative(new), _negative(old))
        found.append(_located(walker, system, before, tangent, ds, "branch", index, k))
    return [x for x in found if x is not None]


def _located(
    walker: _Walker, system: System, before: _Point, tangent, ds: float, kind: str, index: int, k
) -> SpecialPoint | None:
    """Find where the test function of a kind vanishes: the parameter's rate or a stiffness."""
    from scipy.optimize import brentq  # late: it would take a fifth of the import of the package

    seen: dict[float, tuple[_Point, _Shape]] = {}

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
    return SpecialPoint(kind, point.p, state, system.bodies[b], way, index, lam, walker.indifferent)
