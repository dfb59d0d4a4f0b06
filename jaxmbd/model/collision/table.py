"""The table of pairs: which distance serves two kinds of surfaces."""

from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx

from .narrow import AbstractPair

# What makes a pair of a surface of body i and one of body j; None where it serves none of them.
Make: TypeAlias = Callable[[Any, Any], AbstractPair | None]

_PAIRS: dict[tuple[type, type], Make] = {}


def register_pair(first: type, second: type, make: Make) -> None:
    """Make `Contact` know how two kinds of surfaces touch, in either order.

    Args:
        first: A class of shapes, or `Balls` for points of a body. A class stands for those derived
            from it, so that `AbstractShape` stands for every shape.
        second: A class of shapes, or `Plane` for a plane of a body.
        make: Returns the pair of two such surfaces, an `AbstractPair` whose first surface is that
            of body i; None where it knows none for these two.
    """
    _PAIRS[first, second] = make


def pair_of(first: eqx.Module, second: eqx.Module) -> AbstractPair | None:
    """The pair of two surfaces in this order, by the nearest of their classes; None where the table
    has none.
    """
    for a in type(first).__mro__:
        for b in type(second).__mro__:
            make = _PAIRS.get((a, b))
            found = None if make is None else make(first, second)
            if found is not None:
                return found
    return None
