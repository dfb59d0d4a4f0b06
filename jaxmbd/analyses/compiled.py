"""Compilation of analyses: names and shapes of a system never reach `jit`, so that renaming
compiles nothing.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from ..model.forces import FunctionForce
from ..model.functions import forward_mode
from ..model.system import System


def telling_forward_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of a system; where a force of the user's has no forward mode, it says so
    with the names.
    """

    @functools.wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        named = [x for x in args if isinstance(x, System) and any(x.bodies)]
        if not named:
            return function(*args, **kwargs)  # the caller knows the names
        with forward_mode(_parts(named[0])):
            return function(*args, **kwargs)

    return told


def _parts(system: System) -> str:
    """For messages: the mechanism and those of its forces that are functions."""
    stacks = [stack for stack in system.forces if isinstance(stack.force, FunctionForce)]
    names = ", ".join(repr(name) for stack in stacks for name in stack.names)
    return f"mechanism {system.name!r}" + (f", user force {names}" if names else "")


class Compiled:
    """`equinox.filter_jit` of a function of systems, which sees them without names.

    What it returns must not hold names either: callers put them in afterwards.
    """

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._program: Any = eqx.filter_jit(function)

    @telling_forward_mode
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program(
            *map(_unnamed, args), **{key: _unnamed(value) for key, value in kwargs.items()}
        )

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit(...).lower`, for measurements."""
        return self._program.lower(
            *map(_unnamed, args), **{key: _unnamed(value) for key, value in kwargs.items()}
        )


def _unnamed(value: Any) -> Any:
    """Systems without names, those that a solution carries too."""
    return jax.tree.map(lambda x: x.unnamed() if _is_system(x) else x, value, is_leaf=_is_system)


def _is_system(x: Any) -> bool:
    return isinstance(x, System)
