"""Events and their actions in model files."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StrictBool

from ..model import actions
from ..model.events import Event
from .schema_values import Name, Number, Strict

_Names = Annotated[list[Name], Field(min_length=1)]
_Numbers = Number | Annotated[list[Number], Field(min_length=1)]


class ActivateFile(Strict):
    """Joints, drivers and forces begin to act; with `here`, joints hold where they are found."""

    type: Literal["Activate"]
    names: _Names
    here: StrictBool = False


class ReleaseFile(Strict):
    """Joints, drivers and forces cease to act."""

    type: Literal["Release"]
    names: _Names


class BounceFile(Strict):
    """An impact on the rows of joints, which act for that instant alone."""

    type: Literal["Bounce"]
    names: _Names
    restitution: Number = 0.0


class RestartFile(Strict):
    """The step is divided there, and the method starts anew."""

    type: Literal["Restart"]


class SetInputFile(Strict):
    """An input has another value from the event on."""

    type: Literal["SetInput"]
    name: Name
    value: _Numbers


class SetStateFile(Strict):
    """A state of a force element, such as "motor.current", has another value after the event."""

    type: Literal["SetState"]
    name: Name
    value: Number


_AnyAction: TypeAlias = (
    ActivateFile | ReleaseFile | BounceFile | RestartFile | SetInputFile | SetStateFile
)
_Action = Annotated[_AnyAction, Field(discriminator="type")]
# Writes a number, or lists of them, of a part that it names.
_Writer: TypeAlias = Callable[[object, str], Any]


class EventFile(Strict):
    """An instant at which a quantity passes a value: "hinge.angle", or with a comparison
    "hinge.angle > 0.3", which says value and direction.
    """

    name: Name
    comment: str | None = None
    when: Name
    value: Number | None = None
    direction: Literal["rising", "falling", "both"] | None = None
    actions: list[_Action] = []
    terminal: StrictBool = False
    most: Annotated[int, Field(strict=True, ge=1, le=2**20)] = 16


def read_event(file: EventFile) -> Event:
    """The event that a file describes."""
    said = file.model_dump(include={"value", "direction", "terminal", "most"})
    return Event(file.name, file.when, action=[_read_action(x) for x in file.actions], **said)


def _read_action(file: _AnyAction) -> actions.AbstractAction:
    cls = getattr(actions, file.type)  # one of the literals above
    fields = file.model_dump(exclude={"type"})
    return cls(*fields.pop("names", ()), **fields)


def event_to_dict(event: Event, numbers: _Writer) -> dict[str, Any]:
    """What a file holds of an event; `numbers(value, what)` writes its numbers.

    Raises:
        ValueError: It is a Python function, or sets something to one.
    """
    who = f"event {event.name!r}"
    if event.quantity is None:
        raise ValueError(
            f"{who}: when is a Python function, which a file cannot hold; name a quantity, such as "
            "'hinge.angle < 0'"
        )
    file = {
        "name": event.name,
        "when": event.quantity,
        "value": numbers(event.value, f"{who}: value"),
        "direction": event.direction,
    }
    if event.actions:
        file["actions"] = [_written_action(x, who, numbers) for x in event.actions]
    if event.terminal:
        file["terminal"] = True
    else:
        file["most"] = event.most
    return file


def _written_action(action: actions.AbstractAction, who: str, numbers: _Writer) -> dict[str, Any]:
    what = f"{who}: {action.text()}"
    kind = {"type": type(action).__name__}
    if isinstance(action, actions.Activate):
        return kind | {"names": list(action.names), "here": action.here}
    if isinstance(action, actions.Restart):
        return kind
    if isinstance(action, actions.Release):
        return kind | {"names": list(action.names)}
    if isinstance(action, actions.Bounce):
        restitution = numbers(action.restitution, f"{what}: restitution")
        return kind | {"names": list(action.names), "restitution": restitution}
    if isinstance(action, actions.SetInput | actions.SetState):
        if callable(action.value):
            raise ValueError(
                f"{what}: the value is a Python function, which a file cannot hold; give a number"
            )
        return kind | {"name": action.name, "value": numbers(action.value, f"{what}: value")}
    raise ValueError(f"{what}: a file knows no such action")
