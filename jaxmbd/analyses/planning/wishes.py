"""What a plan is asked for: limits along the way, conditions at the end, by the names of
quantities.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...model.names import nearest
from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers, array, as_jax, concrete, is_concrete
from ...results.asking import full_name
from ...results.columns import columns_of
from ...results.solution import Solution
from ...rotations.types import Scalar
from ..placing.goals import Goal, goal_of, is_whole, miss_of, size_of
from ..placing.numbers import numbers_of
from .instant import Instant

REST = "rest"
# Units of what poses and velocities determine; others may jump with an input.
_OF_STATES = ("m", "rad", "-", "m/s", "rad/s", "J", "s")

Wish = TypeVar("Wish", "Limit", Goal)
Bounds = Mapping[str, tuple[Numbers | None, Numbers | None]]
Reach = Mapping[str, object] | State


class Limit(eqx.Module):
    """Bounds of a quantity or an input.

    Attributes:
        name: In full.
        unit: Its unit.
        jumps: Whether it may jump where an input does.
        lower, upper: In this unit; None where there is none.
        size: Of one, in parts of which it is told how much is left.
    """

    name: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    jumps: bool = eqx.field(static=True)
    lower: Array | None
    upper: Array | None
    size: Scalar

    @property
    def sides(self) -> int:
        """How many bounds there are."""
        return (self.lower is not None) + (self.upper is not None)

    def gaps(self, value: Array) -> Float[Array, "*n k"]:
        """What is left to the lower and to the upper bound."""
        found = []
        if self.lower is not None:
            found.append((value - self.lower) / self.size)
        if self.upper is not None:
            found.append((self.upper - value) / self.size)
        return jnp.stack(found, axis=-1)


class Ends(eqx.Module):
    """Conditions at the end.

    Attributes:
        goals: That have to be met.
        ranges: That have to be kept.
        rest: Whether all velocities have to vanish.
        state: That has to be reached, or None.
    """

    goals: tuple[Goal, ...]
    ranges: tuple[Limit, ...]
    rest: bool = eqx.field(static=True)
    state: State | None

    def misses(self, system: System, now: Solution, speeds: Array) -> Float[Array, " k"]:
        """How far an instant is from the goals, without units."""
        numbers = numbers_of(system, now, [g.of for g in self.goals if g.kind == "number"])
        found = [jnp.zeros(0, system.dtype)]
        for goal in self.goals:
            if goal.kind == "function":
                value = goal.value(Instant(system, now))
                found.append(jnp.ravel(jnp.asarray(value, system.dtype)))
            else:
                found.append(miss_of(goal, system, now, numbers) / size_of(goal.unit, system))
        if self.rest:
            found.append(speeds)
        return jnp.concatenate(found)

    def by_name(self, misses: Float[np.ndarray, " k"], speeds: int) -> dict[str, float]:
        """The largest miss of each condition; functions, whose numbers are not known, share
        theirs.
        """
        found, place = {}, 0
        functions = [goal.name for goal in self.goals if goal.kind == "function"]
        known = sum(goal.width for goal in self.goals) + self.rest * speeds
        for goal in self.goals:
            if goal.kind != "function":
                width = goal.width
                name = goal.name
            elif goal.name == functions[0]:
                width, name = len(misses) - known, ", ".join(functions)
            else:
                continue
            found[name] = float(np.max(np.abs(misses[place : place + width]), initial=0.0))
            place += width
        if self.rest or self.state is not None:
            name = REST if self.rest else "the state"
            found[name] = float(np.max(np.abs(misses[place:]), initial=0.0))
        return found


def limits_of(system: System, limits: Bounds, who: str) -> tuple[Limit, ...]:
    """Limits by their names, checked.

    Raises:
        ValueError: A name is unknown, or bounds make no sense.
    """
    if not isinstance(limits, Mapping):
        raise TypeError(f"{who}: limits must be a mapping, {{'elbow.angle': (-1.0, 1.0)}}")
    units = {column.name: column.unit for column in columns_of(system)}
    return tuple(_limit(system, units, name, pair, who) for name, pair in limits.items())


def _limit(system: System, units: dict[str, str], name: str, pair: object, who: str) -> Limit:
    what = f"{who}: limit of {name!r}"
    asked = full_name(name, units)
    if asked not in units:
        raise ValueError(_unknown(what, name, units))
    lower, upper = bounds(pair, what)
    unit = units[asked]
    size = _size(system, unit, (lower, upper))
    return Limit(asked, unit, unit not in _OF_STATES, lower, upper, size)


def bounds(pair: object, what: str) -> tuple[Array | None, Array | None]:
    """A lower and an upper bound, either of which may be None.

    Raises:
        ValueError: They make no sense.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2 or all(x is None for x in pair):
        raise ValueError(f"{what}: needs two bounds, (lower, upper), one of which may be None")
    lower, upper = (None if x is None else as_jax(array(x, (), what)) for x in pair)
    if lower is not None and upper is not None and is_concrete((lower, upper)):
        if not float(lower) < float(upper):
            raise ValueError(f"{what}: the lower bound {lower:g} must be below the upper {upper:g}")
    return lower, upper


def _size(system: System, unit: str, pair: tuple[Array | None, ...]) -> Scalar:
    """Lengths count in parts of the mechanism's, angles in rad, others in parts of the bound."""
    if unit == "m":
        return system.length
    if unit in ("rad", "-"):
        return jnp.ones_like(system.length)
    known = [abs(float(x)) for x in (concrete(y) for y in pair if y is not None) if x is not None]
    return jnp.full_like(system.length, max(known, default=1.0) or 1.0)


def ends_of(system: System, reach: Reach, who: str) -> Ends:
    """Conditions at the end by their names, checked.

    Raises:
        ValueError: A name is unknown, or numbers make no sense.
    """
    if isinstance(reach, State):
        return Ends((), (), False, system.with_turns(reach))
    units = {column.name: column.unit for column in columns_of(system)}
    goals, ranges, rest = [], [], False
    for name, value in reach.items():
        what = f"{who}: reach: {name!r}"
        if name == REST:
            rest = bool(value)
        elif isinstance(value, tuple) and len(value) == 2 and not is_whole(system, name):
            ranges.append(_of_state(_limit(system, units, name, value, f"{who}: reach"), what))
        elif callable(value):
            goals.append(Goal(name, "function", name, "-", 0, _Plain(value)))
        elif (asked := full_name(name, units)) in units:
            number = as_jax(array(value, (), what))
            goal = Goal(name, "number", asked, units[asked], 1, number)
            goals.append(_of_state(goal, what))
        elif is_whole(system, name):
            goals.append(goal_of(system, {}, name, value, None, who))
        else:
            raise ValueError(_unknown(what, name, [*units, REST]))
    return Ends(tuple(goals), tuple(ranges), rest, None)


def _of_state(wish: Wish, what: str) -> Wish:
    """The same, of a quantity that poses and velocities determine."""
    if wish.unit not in _OF_STATES:
        raise ValueError(
            f"{what} is in {wish.unit}: at the end, poses and velocities alone are known; forces "
            "and accelerations can have limits along the way"
        )
    return wish


class _Plain(eqx.Module):
    """A function of an instant, as a part of the structure of a program."""

    function: Callable[[Instant], Any] = eqx.field(static=True)

    def __call__(self, now: Instant) -> Any:
        return self.function(now)


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    meant = nearest(name, list(known), cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, meant))}? " if meant else ""
    return f"{what}: there is no such quantity; {hint}mbd.quantities(system) lists them"


def values_of(system: System, now: Solution, limits: Iterable[Limit]) -> dict[str, Scalar]:
    """The quantities of some limits, of a motion of one row."""
    return numbers_of(system, now, [limit.name for limit in limits])
