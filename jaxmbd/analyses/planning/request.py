"""What is asked of a plan, checked and in numbers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...model.inputs import all_given, as_values
from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers, is_concrete
from ...xla.known_structures import with_known_structure
from ..mobility import mobility
from ..running.checks import check_system
from ..running.initial_state import assembled
from .charts import chart
from .problem import Cost, Problem
from .shooting import Inputs
from .wishes import Bounds, Limit, Reach, bounds, ends_of, limits_of

HOLDS = ("constant", "linear")
WHO = "optimal_control"
Span = Numbers | tuple[Numbers, Numbers]


class Wishes(NamedTuple):
    """Costs, conditions and limits as they were given; see `optimal_control`."""

    stage: Cost | None
    final: Cost | None
    reach: Reach
    limits: Bounds
    rates: Bounds
    given: Mapping[str, Numbers]


class Grid(NamedTuple):
    """How the horizon is divided; see `optimal_control`."""

    knots: int
    steps: int
    hold: str
    t0: float


def problem_of(
    system: System,
    state: State,
    inputs: Sequence[str] | None,
    horizon: Span,
    *,
    wishes: Wishes,
    grid: Grid,
) -> tuple[Problem, State]:
    """The request in numbers, checked, and the assembled state."""
    knots, steps, hold, t0 = grid
    check_system(system, state, WHO)
    system.refuse_laws(WHO, "leave them out, or take contacts with stiffness")
    system.refuse_events(WHO)
    if system.massless:
        raise ValueError(
            f"{WHO} needs mass and inertia of every body; missing for {', '.join(system.massless)}"
        )
    if not is_concrete((system, state)):
        raise ValueError(f"{WHO} works on the host, outside jit, vmap and grad")
    if not isinstance(knots, int) or knots < 1:
        raise ValueError(f"{WHO}: knots must be a positive integer, not {knots!r}")
    if not isinstance(steps, int) or steps < 1 or (steps > 1 and steps % 2):
        raise ValueError(f"{WHO}: steps must be one or an even number, not {steps!r}")
    if hold not in HOLDS:
        raise ValueError(f"{WHO}: hold must be one of {HOLDS}, not {hold!r}")
    names, places = _places(system, inputs)
    limits, rates = dict(wishes.limits), dict(wishes.rates)
    own = {name: limits.pop(name) for name in names if name in limits}
    sizes, boxes = _boxes(own, names, system)
    length, free = _horizon(horizon, system)
    others = as_values(system.inputs, _given(system, names, wishes.given), WHO)
    linear = hold == "linear"
    t = jnp.asarray(t0, system.dtype)
    begun = system.given(jnp.asarray(others, system.dtype), t)
    start, _ = assembled(begun, system.with_turns(state), t)
    ranks = _ranks(begun, start, t)
    ends = ends_of(system, wishes.reach, WHO)
    goal = None
    if ends.state is not None:
        closed, _ = assembled(begun, ends.state, t + length)
        goal = chart(begun, system.with_turns(closed), t + length, ranks)
    problem = Problem(
        system=system,
        inputs=Inputs(places, jnp.asarray(others, system.dtype), sizes, linear),
        t0=t,
        length=length,
        limits=limits_of(system, limits, WHO),
        bounds=boxes,
        rates=_rates(rates, names, sizes, system),
        horizon=free,
        ends=ends,
        scale=jnp.ones((), system.dtype),
        goal=goal,
        stage=wishes.stage,
        final=wishes.final,
        knots=knots,
        steps=steps,
        ranks=ranks,
        carried=linear or bool(rates),
        first_free=linear or bool(rates),
    )
    return with_known_structure(problem), system.with_turns(start)


def _places(system: System, inputs: Sequence[str] | None) -> tuple[list[str], tuple[int, ...]]:
    """The planned inputs, and where they stand among all numbers of inputs."""
    labels = {label.name: label for label in system.inputs}
    if not labels:
        raise ValueError(
            f"{WHO}: mechanism {system.name!r} has no input; give a force or a motor one, "
            "control=mbd.Input('torque')"
        )
    if isinstance(inputs, str):
        raise TypeError(f"{WHO}: inputs must be a sequence of names, [{inputs!r}]")
    names = list(labels) if inputs is None else list(inputs)
    starts = dict(zip(labels, np.cumsum([0, *(x.width for x in labels.values())]), strict=False))
    places = []
    switches = set(system.switch_places())
    for name in names:
        if name not in labels:
            raise ValueError(
                f"{WHO}: there is no input {name!r}; the inputs are {', '.join(labels)}"
            )
        if labels[name].drives:
            raise ValueError(
                f"{WHO}: input {name!r} drives a joint, whose motion follows it; plan the torque "
                "of an actuator instead"
            )
        if labels[name].width != 1:
            raise ValueError(f"{WHO}: input {name!r} has several numbers; plan single ones")
        if int(starts[name]) in switches:
            raise ValueError(f"{WHO}: input {name!r} switches an element, which has no slope")
        places.append(int(starts[name]))
    if not names:
        raise ValueError(f"{WHO}: inputs names none; there are {', '.join(labels)}")
    return names, tuple(places)


def _boxes(
    own: Bounds, names: Sequence[str], system: System
) -> tuple[Float[Array, " m"], tuple[Limit | None, ...]]:
    """Sizes of the planned inputs, and their bounds in parts of these."""
    sizes, found = [], []
    for name in names:
        if name not in own:
            sizes.append(1.0)
            found.append(None)
            continue
        lower, upper = bounds(own[name], f"{WHO}: limit of {name!r}")
        size = max(abs(float(x)) for x in (lower, upper) if x is not None) or 1.0
        sizes.append(size)
        one = jnp.ones((), system.dtype)
        lower, upper = (None if x is None else x / size for x in (lower, upper))
        found.append(Limit(name, "-", False, lower, upper, one))
    return jnp.asarray(sizes, system.dtype), tuple(found)


def _rates(
    rates: Bounds, names: Sequence[str], sizes: Float[Array, " m"], system: System
) -> tuple[Limit | None, ...]:
    for name in rates:
        if name not in names:
            raise ValueError(f"{WHO}: rates: there is no planned input {name!r}")
    found = []
    for k, name in enumerate(names):
        if name not in rates:
            found.append(None)
            continue
        lower, upper = bounds(rates[name], f"{WHO}: rate of {name!r}")
        lower, upper = (None if x is None else x / sizes[k] for x in (lower, upper))
        size = max(abs(float(x)) for x in (lower, upper) if x is not None) or 1.0
        one = jnp.asarray(size, system.dtype)
        found.append(Limit(name, "1/s", False, lower, upper, one))
    return tuple(found)


def _horizon(horizon: Span, system: System) -> tuple[Array, Limit | None]:
    """The length of the horizon, or the unit of a free one with its bounds."""
    one = jnp.ones((), system.dtype)
    if not isinstance(horizon, tuple):
        length = float(np.asarray(horizon))
        if not (np.isfinite(length) and length > 0.0):
            raise ValueError(f"{WHO}: the horizon must be positive [s], not {horizon}")
        return length * one, None
    lower, upper = bounds(horizon, f"{WHO}: horizon")
    if lower is None or upper is None or not float(lower) > 0.0:
        raise ValueError(f"{WHO}: horizon needs two positive bounds, (shortest, longest) [s]")
    unit = 0.5 * (float(lower) + float(upper))
    return unit * one, Limit("horizon", "s", False, lower / unit, upper / unit, one)


def _given(system: System, names: Sequence[str], given: Mapping[str, Numbers]) -> dict[str, object]:
    for name in names:
        if name in given:
            raise ValueError(f"{WHO}: input {name!r} is planned and given; choose one")
    planned: dict[str, object] = dict.fromkeys(names, 0.0)
    return all_given(system.inputs, planned | dict(given), WHO)


def _ranks(system: System, state: State, t: Array) -> tuple[int, int]:
    still = system.at_position_level()
    at_position = mobility(still, state, t=t).rank
    at_velocity = mobility(system, state, t=t).rank if system.nonholonomic else at_position
    if at_velocity >= 6 * system.nb:
        raise ValueError(
            f"{WHO}: {system.name!r} has no degree of freedom left; its drivers determine it"
        )
    return at_position, at_velocity
