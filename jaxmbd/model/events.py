"""Events: instants of a motion that are found exactly, at which a run may act or end."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
from jaxtyping import PyTree

from .actions import AbstractAction, actions_of
from .validation import is_concrete, number

# By direction: 1 where a value rises through zero, -1 where it falls, 0 for both.
SIGNS = {"rising": 1.0, "falling": -1.0, "both": 0.0}

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_COMPARED = re.compile(rf"\s*(?P<name>.*?\S)\s*(?P<sign>[<>])\s*(?P<value>{_NUMBER})\s*")
_LESS = re.compile(rf"\s*(?P<name>.*?\S)\s+(?P<sign>[-+])\s+(?P<value>{_NUMBER})\s*")


class Event(eqx.Module):
    """An instant at which a quantity of a motion passes a value, such as
    `Event("shut", "hinge.angle < 0")`. A passage is seen at the end of a step and found exactly on
    the step itself; each event happens at most once a step.

    Attributes:
        name: By which it is told.
        quantity: That passes the value, by a name that `quantities` lists; or None.
        function: That passes it, of the pose and the twist of all bodies, the states of force
            elements and the time, `function(pose, twist, z, t)`; or None.
        value: That is passed, in the unit of the quantity. Can be differentiated.
        direction: "rising", "falling" or "both".
        actions: What happens there, in this order; the motion after it starts anew.
        terminal: Whether the run ends there, after the actions.
        most: How many instants are kept; more end the run with `RESULTS.too_many_events`. One that
            is terminal has one.
    """

    name: str = eqx.field(static=True)
    quantity: str | None = eqx.field(static=True)
    function: Callable[..., PyTree] | None
    value: Any
    direction: str = eqx.field(static=True)
    actions: tuple[AbstractAction, ...]
    terminal: bool = eqx.field(static=True)
    most: int = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        when: str | Callable[..., PyTree],
        *,
        value: object = None,
        direction: str | None = None,
        action: AbstractAction | Sequence[AbstractAction] | None = None,
        terminal: bool = False,
        most: int = 16,
    ):
        """Describe an event.

        Args:
            name: By which it is told.
            when: A quantity by a name that `quantities` lists, "hinge.angle"; with a comparison,
                "hinge.angle > 0.3" or "hinge.angle < 0.3", value and direction too; with a
                difference, "hinge.angle - 0.3", the value. Or a function, see `function`.
            value: That is passed; 0 by default.
            direction: Of the passage; "both" by default.
            action: What happens there: `Activate`, `Release`, `Bounce`, `SetInput`, `SetState`,
                `Restart`, or a list of them.
            terminal: Whether the run ends there.
            most: How many instants are kept.

        Raises:
            ValueError: A name is missing, or value or direction is given twice.
            TypeError: `when` is neither a text nor a function, or `action` is none.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"Event: needs a name, a non-empty string, not {name!r}")
        who = f"Event {name!r}"
        if isinstance(when, str):
            when, found, compared = _parsed(when)
            for what, given, said in (("value", value, found), ("direction", direction, compared)):
                if given is not None and said is not None:
                    raise ValueError(f"{who}: its text says the {what} already; leave out {what}=")
            value = found if value is None else value
            direction = compared if direction is None else direction
        elif not callable(when):
            raise TypeError(
                f"{who}: when must be the name of a quantity, such as 'pin.angle > 0.3', or a "
                f"function of (pose, twist, z, t), not {when!r}"
            )
        if direction is not None and direction not in SIGNS:
            raise ValueError(
                f"{who}: direction must be 'rising', 'falling' or 'both', not {direction!r}"
            )
        if not isinstance(most, int) or most < 1:
            raise ValueError(f"{who}: most must be a positive integer, not {most!r}")
        self.name = name
        self.quantity = when if isinstance(when, str) else None
        self.function = None if isinstance(when, str) else when
        self.value = 0.0 if value is None else number(value, f"{who}: value")
        self.direction = "both" if direction is None else direction
        self.actions = actions_of(action, who)
        self.terminal = bool(terminal)
        self.most = 1 if terminal else most

    def text(self) -> tuple[str, str]:
        """When it happens, and what it does."""
        when = self.quantity or "a function of the motion"
        value = f"{float(self.value):g}" if is_concrete(self.value) else "a traced value"
        sign = {"rising": ">", "falling": "<", "both": "="}[self.direction]
        done = [action.text() for action in self.actions] + ["ends the run"] * self.terminal
        return f"{when} {sign} {value}", ", ".join(done)

    def ending(self) -> "Event":
        """The same event, at which a run ends."""
        return self._as(self.value, terminal=True)

    def passing(self, value: object) -> "Event":
        """The same event at another value."""
        return self._as(value, terminal=self.terminal)

    def _as(self, value: object, *, terminal: bool) -> "Event":
        when = self.function if self.quantity is None else self.quantity
        assert when is not None
        said = {"direction": self.direction, "action": self.actions, "most": self.most}
        return Event(self.name, when, value=value, terminal=terminal, **said)


def _parsed(text: str) -> tuple[str, float | None, str | None]:
    """Name, value and direction of what a text says."""
    if found := _COMPARED.fullmatch(text):
        return found["name"], float(found["value"]), "rising" if found["sign"] == ">" else "falling"
    if found := _LESS.fullmatch(text):
        value = float(found["value"])
        return found["name"], value if found["sign"] == "-" else -value, None
    return text.strip(), None, None


def named_once(events: Sequence[Event], who: str) -> tuple[Event, ...]:
    """Events of a run.

    Raises:
        TypeError: One is none.
        ValueError: Two have one name.
    """
    found = tuple(events)
    for event in found:
        if not isinstance(event, Event):
            raise TypeError(
                f"{who}: {event!r} is no event; write mbd.Event('name', 'pin.angle > 0.3')"
            )
    names = [event.name for event in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{who}: two events are named {name!r}; names tell them apart")
    return found
