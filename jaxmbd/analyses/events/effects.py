"""What the actions of events change, by places among inputs, states and rows."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ...model.actions import (
    Activate,
    Bounce,
    Release,
    Restart,
    SetInput,
    SetState,
)
from ...model.events import Event
from ...model.names import unknown
from ...model.state import State
from ...model.switches import Switch
from ...model.system import System
from ...model.validation import array
from ...rotations.types import Array, Scalar


class Change(eqx.Module):
    """Numbers that an event sets, or a function of the state and the time that finds them.

    Attributes:
        value: The numbers, or the function.
        places: Where they belong.
    """

    value: Any
    places: tuple[int, ...] = eqx.field(static=True)

    def at(self, state: State, t: Scalar) -> Array:
        """The numbers at the event, (k,)."""
        value = self.value(state, t) if callable(self.value) else self.value
        return jnp.broadcast_to(jnp.asarray(value, t.dtype).reshape(-1), (len(self.places),))


class Effect(eqx.Module):
    """What one event does.

    Attributes:
        inputs: Inputs that it sets.
        states: States of force elements that it sets.
        here: Of joints that hold a coordinate where it is: the place of the offset among the
            inputs, and the row, in the stacked order.
        welds: Of joints that hold a body where it is: the first place of the base among the inputs,
            and the rows, in the stacked order.
        bounces: Restitutions of rows.
        struck: Places of the switches of these.
    """

    inputs: tuple[Change, ...] = ()
    states: tuple[Change, ...] = ()
    here: tuple[tuple[int, int], ...] = eqx.field(static=True, default=())
    welds: tuple[tuple[int, tuple[int, ...]], ...] = eqx.field(static=True, default=())
    bounces: tuple[Change, ...] = ()
    struck: tuple[int, ...] = eqx.field(static=True, default=())


class _Switched(NamedTuple):
    """An element with a switch: the places of this, of the offset and of the base among the inputs,
    and its rows.
    """

    active: int
    offset: int | None
    base: int | None
    rows: tuple[int, ...]


def effects_of(system: System, events: Sequence[Event]) -> tuple[Effect, ...]:
    """What all events do.

    Raises:
        ValueError: An action names what the mechanism has not, or what cannot be done.
    """
    return tuple(_effect(system, event) for event in events)


def _effect(system: System, event: Event) -> Effect:
    inputs, states, here, welds, bounces, struck = [], [], [], [], [], []
    for action in event.actions:
        who = f"Event {event.name!r}: {action.text()}"
        if isinstance(action, SetInput):
            inputs.append(_input(system, action, who))
        elif isinstance(action, SetState):
            states.append(_state(system, action, who))
        elif isinstance(action, Activate | Release):
            for name in action.names:
                found = _switched(system, name, who)
                on = isinstance(action, Activate)
                inputs.append(Change(np.asarray(float(on)), (found.active,)))
                if isinstance(action, Activate) and action.here:
                    if found.base is not None:
                        welds.append((found.base, found.rows))
                    else:
                        here += [(_offset(found, name, who), row) for row in found.rows]
                elif on:
                    inputs += _as_described(found)
        elif isinstance(action, Bounce):
            for name in action.names:
                found = _switched(system, name, who)
                if not found.rows:
                    raise ValueError(f"{who}: {name!r} is a force; name a joint")
                bounces.append(Change(action.restitution, found.rows))
                struck.append(found.active)
        elif not isinstance(action, Restart):
            raise TypeError(f"{who}: jaxmbd knows no such action")
    return Effect(
        tuple(inputs), tuple(states), tuple(here), tuple(welds), tuple(bounces), tuple(struck)
    )


def _as_described(found: _Switched) -> list[Change]:
    """A joint that begins to act holds what it was described to hold."""
    places = () if found.offset is None else (found.offset,)
    if found.base is not None:
        places = tuple(range(found.base, found.base + 12))
    return [Change(np.zeros(()), places)] if places else []


def _input(system: System, action: SetInput, who: str) -> Change:
    labels = {label.name: label for label in system.inputs}
    if action.name not in labels:
        raise ValueError(f"{who}: {unknown('input', 'inputs', action.name, labels)}")
    label = labels[action.name]
    if label.drives:
        raise ValueError(
            f"{who}: the input drives a joint, whose position cannot jump; release the driver, and "
            "activate another one"
        )
    first = _first_places(system)[list(labels).index(action.name)]
    places = tuple(range(first, first + label.width))
    return Change(_numbers(action.value, label.shape, who), places)


def _state(system: System, action: SetState, who: str) -> Change:
    names = system.element_state_names
    if action.name not in names:
        raise ValueError(f"{who}: {unknown('state', 'states', action.name, names)}")
    return Change(_numbers(action.value, (), who), (names.index(action.name),))


def _numbers(value: object, shape: tuple[int, ...], who: str) -> Any:
    return value if callable(value) else array(value, shape, f"{who}: value")


def _first_places(system: System) -> list[int]:
    """Where each input begins among the numbers of all."""
    return list(itertools.accumulate((x.width for x in system.inputs), initial=0))


def _switched(system: System, name: str, who: str) -> _Switched:
    """An element with a switch, by name."""
    found = _switches(system)
    if name in found:
        return found[name]
    names = {c.name for c in system.connections} | {n for s in system.forces for n in s.names}
    if name in names:
        raise ValueError(f"{who}: {name!r} always acts; describe it with active=True or False")
    raise ValueError(
        f"{who}: {unknown('element with active=', 'elements with active=', name, found)}"
    )


def _switches(system: System) -> dict[str, _Switched]:
    """All elements with switches by name."""
    first = _first_places(system)

    def at(switch: Switch, k: int, rows: tuple[int, ...]) -> _Switched:
        offset, base = (
            None if x is None else first[x.numbers[k]] for x in (switch.offset, switch.base)
        )
        return _Switched(first[switch.active.numbers[k]], offset, base, rows)

    rows = [
        None if stack.primitive.switch is None else (stack.primitive.switch, k)
        for stack in system.constraints
        for k in range(len(stack))
    ]
    found = {}
    for c in system.connections:
        stacked = tuple(system.order[row] for row in c.rows)
        if stacked and (own := rows[stacked[0]]) is not None:
            found[c.name] = at(*own, stacked)
    for stack in system.forces:
        if stack.force.switch is not None:
            found |= {n: at(stack.force.switch, k, ()) for k, n in enumerate(stack.names)}
    return found


def _offset(found: _Switched, name: str, who: str) -> int:
    if found.offset is None:
        raise ValueError(
            f"{who}: {name!r} holds no coordinate that could be held anywhere; take a Lock or "
            "another relation between coordinates of joints, a Fixed for a body, or describe it "
            "where it closes"
        )
    return found.offset
