"""Switches: joints, drivers and forces that begin and cease to act within a run.

A switch is an input, so that whoever gives inputs may turn it: the caller, a controller, an event.
What is off stays in the program; its rows are zero, and so are its multipliers and loads.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PyTree

from ..rotations.types import Array
from .inputs import Input


class Switch(eqx.Module):
    """Whether an element acts.

    Attributes:
        active: The input, on where it is above one half.
        offset: An input that is added to the prescribed value of a row, so that the row holds a
            coordinate where it was found; None where the rows cannot do so.
        base: An input of twelve numbers, a shift [m] and what a turn differs from the identity by:
            vectors of body j stand shifted and turned by them, so that the rows hold its pose where
            it was found; None where the rows cannot do so.
    """

    active: Any
    offset: Any = None
    base: Any = None

    @property
    def on(self) -> Bool[Array, "*n"]:
        """Whether the element acts; of a stack, each."""
        return self.active.value > 0.5


def switched(switch: Switch | None, x: PyTree) -> Any:
    """Numbers of one element, or zeros where it is off."""
    if switch is None:
        return x
    return jax.tree.map(lambda leaf: jnp.where(switch.on, leaf, jnp.zeros_like(leaf)), x)


def input_of(active: object, name: str, title: str) -> Input | None:
    """The input that switches an element which is described with `active`; None of one that always
    acts.

    Raises:
        TypeError: It is none of what may be given.
    """
    if active is None:
        return None
    if isinstance(active, Input):
        if active.size is not None:
            raise TypeError(f"{title}: active is one number; input {active.name!r} has several")
        return active
    if isinstance(active, bool | np.bool_):
        return Input(switch_name(name), default=float(active))
    raise TypeError(
        f"{title}: active must be True, False or an mbd.Input, not {active!r}; events, callers and "
        "controllers switch it"
    )


def switch_name(name: str) -> str:
    """The input that switches an element."""
    return f"{name}.active"


def offset_name(name: str) -> str:
    """The input that says from where a joint holds its coordinate."""
    return f"{name}.offset"


def base_name(name: str) -> str:
    """The input that says where a weld holds its second body."""
    return f"{name}.base"


def with_switch(
    element: PyTree, switch: Switch | None, numbered: Callable[[PyTree], PyTree]
) -> Any:
    """A row or a force with its switch, whose inputs are numbered."""
    if switch is None:
        return element
    return eqx.tree_at(lambda x: x.switch, element, numbered(switch), is_leaf=lambda x: x is None)
