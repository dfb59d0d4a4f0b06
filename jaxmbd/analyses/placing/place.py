"""Inverse kinematics: the pose of a mechanism that meets goals within limits."""

import dataclasses
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ...equations.rows import row_sizes
from ...formulations import RA
from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers, array, as_jax, concrete, is_concrete
from ...outcomes import RESULTS
from ...rotations.types import Scalar
from ..running.checks import check_system
from .goals import Aims, Goals, Limits, aims_of, instant, miss_of
from .optimum import Optimum, optimum
from .placement import Placement, PlacementError
from .precision import in_digits_of
from .problem import Placing, largest

# Of lengths [in parts of the mechanism's] and angles [rad]: a larger miss is told.
_MISSED = 1e-8


def place(
    system: System,
    goals: Goals,
    *,
    start: State | Sequence[State],
    limits: Limits | None = None,
    weights: Mapping[str, Numbers] | None = None,
    regularize: Numbers = 1e-6,
    t: Numbers = 0.0,
    throw: bool = True,
) -> Placement:
    """Find the pose of a mechanism that meets goals within limits, with all joints closed.

        found = mbd.place(
            system, {"tool.r": (0.4, 0.1, 0.3), "tool.z": (0, 0, -1)}, start=state,
            limits={"elbow.angle": (-2.0, 2.0)}, weights={"tool.z": 1.0},
        )

    A goal has to be met, unless `weights` gives it a weight: then it is traded against others by
    least squares. Among the poses that remain, the one closest to the start is chosen. A pure
    function: differentiable in goals, limits and the mechanism, by the implicit function theorem,
    and `jax.vmap` places a batch.

    Args:
        system: The mechanism.
        goals: By name: a quantity of the pose that `quantities` lists, such as "elbow.angle" or
            "gauge.distance", and its value; of a body or a frame "tool.r", a position [m], global,
            "tool.A", an orientation, (3, 3), and "tool.x", "tool.y" or "tool.z", where that axis
            points, global; or under any name a function of the poses of all bodies, the numbers
            of which are to be zero.
        start: From which the search begins; several states make several searches, of which the
            best counts.
        limits: By quantity, (lower, upper), either of which may be None.
        weights: Of goals that need not be met exactly; a miss is squared, with lengths in parts of
            the mechanism's length, and angles in rad.
        regularize: Weight of the squared distance from the start, of all bodies, beside those of
            goals.
        t: Time at which drivers are evaluated [s].
        throw: Raise where goals that have to be met are not; without effect inside `jit` or `vmap`,
            where `result` tells.

    Returns:
        The pose as a state at rest, and how far it is from the goals.

    Raises:
        ValueError: A name is unknown or no quantity of a pose, or numbers make no sense.
        PlacementError: Goals cannot be met within the limits, or joints not be closed; the message
            names them. `PlacementError.placement` is the closest.
    """
    starts = [start] if isinstance(start, State) else list(start)
    if not starts:
        raise ValueError("place: start needs at least one state")
    for state in starts:
        check_system(system, state, "place")
    aims = aims_of(system, goals, dict(weights or {}), dict(limits or {}), "place")
    regularize = array(regularize, (), "place: regularize")
    if (least := concrete(regularize)) is not None and not 0.0 < float(least) < np.inf:
        raise ValueError(f"place: regularize must be positive, not {float(least):g}")
    states = [system.with_turns(state) for state in starts]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *states)
    numbers = as_jax(regularize, system.dtype), as_jax(t, system.dtype)
    found = _best(system, aims, stacked, *numbers)
    if throw and is_concrete(found):
        refuse_missed(system, aims, found)
    return found


@eqx.filter_jit
def _best(system: System, aims: Aims, starts: State, regularize: Scalar, t: Scalar) -> Placement:
    """The best of the placements from several starts."""
    one = jax.tree.map(lambda x: x[0], starts)
    if starts.r.shape[0] == 1:
        return placed(system, aims, one, regularize, t)
    found = jax.vmap(lambda start: placed(system, aims, start, regularize, t))(starts)
    missed = found.result._value != RESULTS.successful._value
    best = jnp.argmin(jnp.where(missed, jnp.inf, found.cost))
    closest = jnp.argmin(sum(found.misses.values(), jnp.zeros_like(found.cost)))
    k = jnp.where(jnp.all(missed), closest, best)
    return jax.tree.map(lambda x: x[k], found)


def placed(system: System, aims: Aims, start: State, regularize: Scalar, t: Scalar) -> Placement:
    """The placement from one start; it can be traced."""
    still = system.at_position_level()
    sizes = jax.lax.stop_gradient(row_sizes(RA(), still)[: still.holonomic_rows])
    placing = Placing(system, sizes, aims, start.pose, start.element_states, t, regularize)
    near = system.turns() if start.angles is None else start.angles
    found = optimum(placing, near)
    return _placement(placing, start, found)


def _placement(placing: Placing, start: State, found: Optimum) -> Placement:
    system, aims, pose = placing.system, placing.aims, found.pose
    now = instant(system, pose, found.near, placing.states, placing.t)
    numbers = aims.numbers(system, now)
    misses = {
        goal.name: jnp.sqrt(_squares(miss_of(goal, system, now, numbers))) for goal in aims.goals
    }
    rows = placing.rows(pose, found.near)
    # What is claimed is seen at the pose itself.
    least = in_digits_of(system.dtype, _MISSED)
    closed = largest(rows.closing) <= least
    met = (largest(rows.hard) <= least) & (largest(jnp.minimum(rows.gaps, 0.0)) <= least)
    result = RESULTS.where(met, RESULTS.successful, RESULTS.goals_not_met)
    result = RESULTS.where(closed, result, RESULTS.assembly_failed)
    costs = jnp.concatenate([rows.soft, rows.away])
    weights = sum((goal.weight for goal in aims.soft), placing.regularize)
    zero = jnp.zeros_like(pose.r)
    pose = jax.tree.map(lambda x: jnp.where(closed, x, jnp.nan), pose)
    state = dataclasses.replace(start, r=pose.r, A=pose.A, v=zero, omega=zero, angles=found.near)
    in_force = found.multipliers > jnp.sqrt(jnp.finfo(system.dtype).eps)
    return Placement(
        state,
        result,
        misses,
        _sides(aims, in_force),
        0.5 * weights * (costs @ costs),
        found.flat,
        found.steps,
        tuple((goal.name, goal.unit) for goal in aims.goals),
    )


def _squares(miss: Float[Array, " w"]) -> Scalar:
    """The sum of squares, whose root has the derivative zero where it is zero."""
    total = miss @ miss
    return jnp.where(total > 0.0, total, 0.0)


def _sides(aims: Aims, in_force: Bool[Array, " g"]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for k, (name, side) in enumerate(aims.sides):
        sign = -1 if side == "lower" else 1
        found[name] = found.get(name, jnp.zeros((), int)) + sign * in_force[k].astype(int)
    return found


def refuse_missed(
    system: System, aims: Aims, found: Placement, where: str = "", all_of: Placement | None = None
) -> None:
    """Raise `PlacementError` where goals that have to be met are not, or joints do not close."""
    if bool(found.result == RESULTS.successful):
        return
    if bool(found.result == RESULTS.assembly_failed):
        text = "the joints do not close near the start; begin from an assembled state"
    else:
        least = in_digits_of(system.dtype, _MISSED)
        hard = [goal for goal in aims.hard if float(found.misses[goal.name]) > least]
        parts = [f"{g.name} misses by {float(found.misses[g.name]):.3g} {g.unit}" for g in hard]
        text = f"goals cannot be met together near the start: {', '.join(parts) or 'see misses'}"
        held = [
            f"{name} at its {'lower' if int(side) < 0 else 'upper'} limit"
            for name, side in found.at_limits.items()
            if int(side)
        ]
        if held:
            text += f"; limits in force: {', '.join(held)}"
        first = hard[0].name if hard else next(iter(found.misses), "...")
        text += (
            f". Give a goal a weight, weights={{{first!r}: 1.0}}, or begin from other states, "
            "start=[...]"
        )
    who = "place" if all_of is None else "follow"
    error = PlacementError(f"{who}: mechanism {system.name!r}: {where}{text}")
    error.placement = found if all_of is None else all_of
    raise error
