"""Compilation of analyses: names and shapes of a system never reach `jit`, so that renaming compiles nothing."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx

from ..model.system import System


class Compiled:
    """`equinox.filter_jit` of a function of systems, which sees them without names.

    What it returns must not hold names either: callers put them in afterwards.
    """

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._program = eqx.filter_jit(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program(*map(_unnamed, args), **{key: _unnamed(value) for key, value in kwargs.items()})

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit(...).lower`, for measurements."""
        return self._program.lower(*map(_unnamed, args), **{key: _unnamed(value) for key, value in kwargs.items()})


def _unnamed(value: Any) -> Any:
    return value.unnamed() if isinstance(value, System) else value
