"""Goals and limits of a placement: what they look at, and how far a pose is from them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...model.motions import hoist
from ...model.names import nearest
from ...model.state import Pose, Twist
from ...model.system import System
from ...model.validation import Numbers, array, as_jax, concrete, is_concrete
from ...outcomes import RESULTS
from ...results.asking import full_name
from ...results.columns import columns_of
from ...results.saved_rows import Row, make_solution
from ...results.solution import Solution
from ...rotations import so3
from ...rotations.types import Scalar
from .numbers import numbers_of

# Units of what a pose determines; others need velocities or forces.
_OF_POSES = ("m", "rad", "-")
_AXES = {"x": 0, "y": 1, "z": 2}
_NUMBER, _POSITION, _ORIENTATION, _FUNCTION = "number", "position", "orientation", "function"

Goals = Mapping[str, Numbers | Callable[[Pose], Array]]
Limits = Mapping[str, tuple[Numbers | None, Numbers | None]]


class Goal(eqx.Module):
    """A goal.

    Attributes:
        name: As it was given.
        kind: "number", "position", "orientation", "x", "y", "z" (a direction) or "function".
        of: The quantity, or the frame or body.
        unit: Of a miss.
        width: Numbers in its residual.
        value: What is wanted; a function is its own.
        weight: How much a miss counts against others, or None where it has to be met.
    """

    name: str = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    of: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    width: int = eqx.field(static=True)
    value: Any
    weight: Any = None


class Limit(eqx.Module):
    """Bounds of a quantity.

    Attributes:
        name: Of the quantity.
        unit: Its unit.
        lower, upper: In this unit; None where there is none.
    """

    name: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    lower: Any = None
    upper: Any = None


class Aims(eqx.Module):
    """All goals and limits of a placement.

    Attributes:
        goals: In the order in which they were given.
        limits: Likewise.
    """

    goals: tuple[Goal, ...]
    limits: tuple[Limit, ...]

    @property
    def hard(self) -> tuple[Goal, ...]:
        """The goals that have to be met."""
        return tuple(goal for goal in self.goals if goal.weight is None)

    @property
    def soft(self) -> tuple[Goal, ...]:
        """The others."""
        return tuple(goal for goal in self.goals if goal.weight is not None)

    def numbers(self, system: System, now: Solution) -> dict[str, Scalar]:
        """All quantities that goals and limits ask for, of a pose."""
        names = [goal.of for goal in self.goals if goal.kind == _NUMBER]
        return numbers_of(system, now, names + [limit.name for limit in self.limits])

    def gaps(self, system: System, numbers: dict[str, Scalar]) -> Float[Array, " g"]:
        """What is left to all limits, lower ones before upper ones, without units."""
        found = [jnp.zeros(0, system.dtype)]
        for limit in self.limits:
            size = size_of(limit.unit, system)
            for sign, bound in ((1.0, limit.lower), (-1.0, limit.upper)):
                if bound is not None:
                    found.append(sign * ((numbers[limit.name] - bound) / size)[None])
        return jnp.concatenate(found)

    @property
    def sides(self) -> list[tuple[str, str]]:
        """The names of limits as `gaps` has them, and "lower" or "upper"."""
        return [
            (limit.name, side)
            for limit in self.limits
            for side in ("lower", "upper")
            if getattr(limit, side) is not None
        ]


def without_unit(misses: Float[Array, " w"], goal: Goal, system: System) -> Float[Array, " w"]:
    """Lengths in parts of the mechanism's."""
    return misses / size_of(goal.unit, system)


def aims_of(
    system: System,
    goals: Goals,
    weights: Mapping[str, Numbers],
    limits: Limits,
    who: str,
) -> Aims:
    """Goals and limits by their names, checked.

    Raises:
        ValueError: A name is unknown, or no quantity of a pose; or numbers make no sense.
    """
    if not isinstance(goals, Mapping):
        raise TypeError(f"{who}: goals must be a mapping, {{'tool.r': (0.3, 0.1, 0.5)}}")
    units = _units(system)
    for name in weights:
        if name not in goals:
            raise ValueError(f"{who}: weights: there is no goal {name!r}")
    found = [goal_of(system, units, name, x, weights.get(name), who) for name, x in goals.items()]
    bounds = [_limit(units, name, pair, who) for name, pair in limits.items()]
    return Aims(tuple(found), tuple(bounds))


def _units(system: System) -> dict[str, str]:
    """Units of all quantities by name; "" for those that no pose determines, whatever their
    unit: inputs, counts, and what rigid stops and contacts do.
    """
    laws = {name for stack in system.laws for name in stack.names}
    return {
        column.name: column.unit if column.smooth and not _is_of(column.name, laws) else ""
        for column in columns_of(system)
    }


def _is_of(name: str, laws: set[str]) -> bool:
    part = name.removeprefix("laws.").rpartition(".")[0]
    return part in laws or part.partition("[")[0] in laws


def instant(
    system: System, pose: Pose, near: Float[Array, " w"], states: Array | None, t: Scalar
) -> Solution:
    """A pose at rest as a motion of one row, from which quantities are read."""
    zero, none = jnp.zeros_like(pose.r), jnp.zeros(system.nc, system.dtype)
    states = jnp.zeros(0, system.dtype) if states is None else states
    row = Row(pose, Twist(zero, zero), zero, zero, none, near, states, jnp.zeros((), int))
    rows = jax.tree.map(lambda x: x[None], row)
    return make_solution(jnp.reshape(t, (1,)), rows, RESULTS.successful, {}, system)


def goal_of(
    system: System, units: dict[str, str], name: str, value: object, weight: object, who: str
) -> Goal:
    """A goal by its name, checked; `units` are those of quantities.

    Raises:
        ValueError: The name is unknown, or numbers make no sense.
    """
    what = f"{who}: goal {name!r}"
    if weight is not None:
        weight = as_jax(array(weight, (), f"{what}: weight"))
        known = concrete(weight)
        if known is not None and not 0.0 < float(known) < np.inf:
            raise ValueError(f"{what}: the weight must be positive and finite, not {known:g}")
    if callable(value):
        pose = Pose(jnp.zeros((system.nb, 3), system.dtype), jnp.zeros((system.nb, 3, 3)))
        value = hoist(value, pose)
        shape = eqx.filter_eval_shape(lambda p: jnp.ravel(jnp.asarray(value(p))), pose)
        return Goal(name, _FUNCTION, name, "-", shape.shape[0], value, weight)
    if (asked := full_name(name, units)) in units:
        unit = _of_pose(asked, units[asked], what)
        return Goal(name, _NUMBER, asked, unit, 1, as_jax(array(value, (), what)), weight)
    of, _, part = name.rpartition(".")
    if of in _carriers(system):
        if part == "r":
            return Goal(name, _POSITION, of, "m", 3, as_jax(array(value, (3,), what)), weight)
        if part == "A":
            return Goal(name, _ORIENTATION, of, "rad", 3, _rotation(value, what), weight)
        if part in _AXES:
            return Goal(name, part, of, "rad", 3, _direction(value, what), weight)
    raise ValueError(_unknown(name, [*units, *_whole(system)], what))


def _limit(units: dict[str, str], name: str, pair: object, who: str) -> Limit:
    what = f"{who}: limit of {name!r}"
    asked = full_name(name, units)
    if asked not in units:
        raise ValueError(_unknown(name, units, what))
    unit = _of_pose(asked, units[asked], what)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"{what}: needs two bounds, (lower, upper), either of which may be None")
    lower, upper = (None if x is None else as_jax(array(x, (), what)) for x in pair)
    if lower is not None and upper is not None and is_concrete((lower, upper)):
        if not float(lower) < float(upper):
            raise ValueError(f"{what}: the lower bound {lower:g} must be below the upper {upper:g}")
    return Limit(asked, unit, lower, upper)


def _of_pose(name: str, unit: str, what: str) -> str:
    if unit not in _OF_POSES:
        kind = f"is in {unit}" if unit else "is an input, a count, or of a rigid law"
        raise ValueError(f"{what}: {name} {kind}, and a pose determines lengths and angles alone")
    return unit


def _unknown(name: str, known: Iterable[str], what: str) -> str:
    meant = nearest(name, list(known), cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, meant))}? " if meant else ""
    return (
        f"{what}: there is no such quantity; {hint}mbd.quantities(system) lists numbers, and "
        "bodies and frames have .r, .A, .x, .y and .z"
    )


def _whole(system: System) -> list[str]:
    return [f"{name}.{part}" for name in _carriers(system) for part in ("r", "A", *_AXES)]


def is_whole(system: System, name: str) -> bool:
    """Whether a goal is a position, an orientation or a direction of a body or a frame."""
    return name in _whole(system)


def _carriers(system: System) -> list[str]:
    return [*(frame.name for frame in system.frames), *system.bodies]


def _rotation(value: object, what: str) -> Array:
    A = array(value, (3, 3), what)
    if (known := concrete(A)) is not None:
        if np.max(np.abs(known.T @ known - np.eye(3))) > 1e-6 or np.linalg.det(known) < 0.0:
            raise ValueError(f"{what}: needs a rotation matrix, (3, 3)")
    return as_jax(A)


def _direction(value: object, what: str) -> Array:
    n = as_jax(array(value, (3,), what))
    if is_concrete(n) and not np.linalg.norm(np.asarray(n)) > 0.0:
        raise ValueError(f"{what}: needs a direction, three numbers that are not all zero")
    return n / jnp.sqrt(jnp.sum(n**2))


def size_of(unit: str, system: System) -> Scalar:
    """Of one without unit: lengths count in parts of the mechanism's."""
    return system.length if unit == "m" else jnp.ones_like(system.length)


def miss_of(
    goal: Goal, system: System, now: Solution, numbers: dict[str, Scalar]
) -> Float[Array, " w"]:
    """How far a pose is from a goal, in the goal's unit."""
    if goal.kind == _FUNCTION:
        return jnp.ravel(jnp.asarray(goal.value(now.at(0).pose), system.dtype))
    if goal.kind == _NUMBER:
        return (numbers[goal.of] - goal.value)[None]
    r, A = _place(goal.of, system, now)
    if goal.kind == _POSITION:
        return r - goal.value
    if goal.kind == _ORIENTATION:
        return so3.log(goal.value.T @ A)
    return _turn_between(goal.value, A[:, _AXES[goal.kind]])


def _place(name: str, system: System, now: Solution) -> tuple[Array, Array]:
    """Position and orientation of a frame or a body."""
    if any(frame.name == name for frame in system.frames):
        motion = now.frame(name, system)
        return jnp.asarray(motion.r)[0], jnp.asarray(motion.A)[0]
    k = system.bodies.index(name)
    return now.r[0, k], now.A[0, k]


def _turn_between(wanted: Array, a: Array) -> Float[Array, "3"]:
    """The rotation vector that turns one direction into another [rad]; of opposite ones about any
    axis across them.
    """
    across = jnp.cross(wanted, jnp.eye(3, dtype=a.dtype)[jnp.argmin(jnp.abs(wanted))])
    c = wanted @ a
    v = jnp.cross(wanted, a)
    v = v + jnp.where(c < 0.0, 1e-7, 0.0) * across
    squared = v @ v
    small = squared < 1e-24
    s = jnp.sqrt(jnp.where(small, 1.0, squared))
    return v * jnp.where(small, 1.0, jnp.arctan2(s, c) / s)
