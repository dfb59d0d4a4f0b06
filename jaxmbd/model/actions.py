"""What happens at an event."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx

from .validation import is_concrete, number


class AbstractAction(eqx.Module):
    """Base class of what an event does."""

    def text(self) -> str:
        """As messages call it."""
        return type(self).__name__


class SetInput(AbstractAction):
    """An input has another value from the event on, whatever the run was given for it.

    Attributes:
        name: Of the input. One that drives a joint cannot jump.
        value: A number or an array of its size, or a function of the state and the time,
            `value(state, t)`. Can be differentiated.
    """

    name: str = eqx.field(static=True)
    value: Any

    def __init__(self, name: str, value: object):
        self.name = _name(name, "SetInput")
        self.value = value

    def text(self) -> str:
        return f"SetInput {self.name!r}"


class SetState(AbstractAction):
    """A state of a force element, such as a motor's current, has another value after the event.

    Attributes:
        name: Of the state, as `System.element_state_names` lists it: "motor.current".
        value: A number, or a function of the state and the time, `value(state, t)`.
    """

    name: str = eqx.field(static=True)
    value: Any

    def __init__(self, name: str, value: object):
        self.name = _name(name, "SetState")
        self.value = value

    def text(self) -> str:
        return f"SetState {self.name!r}"


class Restart(AbstractAction):
    """Nothing changes; the step is divided there, and the method starts anew. So a force that bends
    or jumps at the event, such as friction where a motion turns round, costs no order.
    """


class _Switching(AbstractAction):
    """Names of elements that are switched."""

    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, *names: str):
        who = type(self).__name__
        if not names:
            raise ValueError(f"{who}: name a joint, a driver or a force with active=")
        self.names = tuple(_name(name, who) for name in names)

    def text(self) -> str:
        return f"{type(self).__name__} {', '.join(map(repr, self.names))}"


class Activate(_Switching):
    """Joints, drivers and forces begin to act. What moves across their rows stops at once, without
    rebound: a plastic impact, see `plastic_impact`.

    A joint has to be closed there, as a latch is at the angle where it falls in; with `here=True`
    it holds its coordinate where it is found, as a brake or a clutch does, and a `Fixed` its second
    body, as a gripper does.

    Attributes:
        names: Of elements described with `active=`.
        here: Whether joints hold where they are found; of a `Lock`, a `Coupler` and other relations
            between coordinates, and of a `Fixed`.
    """

    here: bool = eqx.field(static=True)

    def __init__(self, *names: str, here: bool = False):
        super().__init__(*names)
        self.here = bool(here)


class Release(_Switching):
    """Joints, drivers and forces cease to act; velocities stay as they are.

    Attributes:
        names: Of elements described with `active=`.
    """


class Bounce(_Switching):
    """An impact on the rows of joints, which act for that instant alone: M Δu + Rᵀ P = 0 and
    R u⁺ - ν = -e (R u⁻ - ν).

    Attributes:
        names: Of joints described with `active=False`.
        restitution: e, 0 to 1. Can be differentiated.
    """

    restitution: Any

    def __init__(self, *names: str, restitution: object = 0.0):
        super().__init__(*names)
        self.restitution = number(restitution, "Bounce: restitution")
        if is_concrete(self.restitution) and not 0.0 <= float(self.restitution) <= 1.0:
            raise ValueError(
                f"Bounce: restitution must be between 0 and 1, not {float(self.restitution):g}"
            )


def actions_of(action: object, who: str) -> tuple[AbstractAction, ...]:
    """The actions of an event, from one, several or none.

    Raises:
        TypeError: One is none.
    """
    if action is None:
        return ()
    found = action if isinstance(action, Sequence) else (action,)
    for one in found:
        if not isinstance(one, AbstractAction):
            raise TypeError(
                f"{who}: {one!r} is no action; take mbd.SetInput, SetState, Activate, Release, "
                "Bounce or Restart, or a list of them"
            )
    return tuple(found)


def _name(name: object, who: str) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"{who}: needs names, non-empty strings, not {name!r}")
    return name
