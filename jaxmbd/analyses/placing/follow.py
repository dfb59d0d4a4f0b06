"""Inverse kinematics along a path."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers, as_jax, is_concrete
from ...outcomes import RESULTS
from ...rotations.types import Scalar
from ..running.checks import check_system
from .goals import Goals, Limits, aims_of, is_whole
from .place import placed, refuse_missed
from .placement import Placement

# Axes of a goal for one pose, by the part of a body or frame that it names; of others none.
_RANKS = {"r": 1, "A": 2, "x": 1, "y": 1, "z": 1}


def follow(
    system: System,
    goals: Goals,
    *,
    start: State,
    limits: Limits | None = None,
    weights: Mapping[str, Numbers] | None = None,
    regularize: Numbers = 1e-6,
    throw: bool = True,
) -> Placement:
    """Find poses that meet goals along a path, each the closest to the one before; see `place`.

    Args:
        system: The mechanism.
        goals: As in `place`, with a leading axis of T poses; functions, and numbers without it,
            stay as they are.
        start: From which the first pose is looked for.
        limits: As in `place`.
        weights: As in `place`.
        regularize: As in `place`, of the distance from the pose before.
        throw: As in `place`.

    Returns:
        A `Placement` with a leading axis of T poses.

    Raises:
        ValueError: As in `place`, or the goals have no leading axis of one length.
        PlacementError: A pose cannot be reached; the message names the first.
    """
    check_system(system, start, "follow")
    moving: dict[str, Any] = {k: x for k, x in goals.items() if _moves(system, k, x)}
    counts = {name: np.shape(value)[0] for name, value in moving.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(
            "follow: goals need a leading axis of poses, of one length for all; the lengths are "
            f"{counts or 'none'}"
        )
    moving = {name: as_jax(value, system.dtype) for name, value in moving.items()}
    fixed = {name: value for name, value in goals.items() if name not in moving}
    given = tuple(goals), dict(weights or {}), dict(limits or {})
    # What makes no sense is refused here, where numbers are known.
    _aims(system, given, fixed, {name: value[0] for name, value in moving.items()})
    numbers = as_jax(regularize, system.dtype), jnp.zeros((), system.dtype)
    found = _followed(system, system.with_turns(start), given, (fixed, moving), numbers)
    if throw and is_concrete(found):
        missed = np.asarray(found.result._value) != int(np.asarray(RESULTS.successful._value))
        if missed.any():
            k = int(np.argmax(missed))
            aims = _aims(system, given, fixed, {name: x[k] for name, x in moving.items()})
            one = jax.tree.map(lambda x: x[k], found)
            refuse_missed(system, aims, one, f"pose {k}: ", found)
    return found


def _moves(system: System, name: str, value: object) -> bool:
    """Whether a goal has a leading axis."""
    numbers: Any = value
    rank = _RANKS[name.rpartition(".")[2]] if is_whole(system, name) else 0
    return not callable(value) and np.ndim(numbers) == rank + 1


def _aims(
    system: System, given: tuple[tuple[str, ...], dict, dict], fixed: dict, moving: dict
) -> Any:
    """Goals and limits of one pose, in the order in which they were given."""
    names, weights, limits = given
    ordered = {name: fixed[name] if name in fixed else moving[name] for name in names}
    return aims_of(system, ordered, weights, limits, "follow")


@eqx.filter_jit
def _followed(
    system: System,
    start: State,
    given: tuple[tuple[str, ...], dict, dict],
    goals: tuple[dict, dict[str, Array]],
    numbers: tuple[Scalar, Scalar],
) -> Placement:
    fixed, moving = goals

    def one(state: State, row: dict[str, Array]) -> tuple[State, Placement]:
        found = placed(system, _aims(system, given, fixed, row), state, *numbers)
        return found.state, found

    return jax.lax.scan(one, start, moving)[1]
