"""What people read when they print a mechanism or a result: what it is, how much of it, how it
ended. Nothing here computes by JAX: printing must never compile.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsFloat

import equinox as eqx
import jax
import numpy as np

from ..xla.tracing import is_traced

_LISTED = 12  # parts of a kind that are listed one by one


def readable(value: object, described: Callable[..., str]) -> str:
    """A description of a value, or the general one of pytrees where the value holds something else
    than it was made with, as in the tree maps of JAX: printing must never fail.
    """
    try:
        return described(value)
    except Exception:
        return eqx.tree_pformat(value)


def known(*arrays: Any) -> bool:
    """Whether these are arrays whose numbers are there."""
    return all(isinstance(x, jax.Array | np.ndarray) and not is_traced(x) for x in arrays)


def counted(count: int, what: str, plural: str = "") -> str:
    """Such as "1 body", "3 bodies"."""
    return f"{count} {what if count == 1 else plural or what + 's'}"


def listed(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of a table, columns aligned; long ones are cut off and say so."""
    shown = rows[:_LISTED]
    if not shown:
        return []
    widths = [max(len(row[k]) for row in shown) for k in range(len(shown[0]))]
    lines = [
        "  " + "  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
    more = len(rows) - len(shown)
    return [*lines, f"  ... and {more} more"] if more else lines


def numbers(values: Iterable[SupportsFloat]) -> str:
    """A vector as people write it."""
    return "(" + ", ".join(f"{float(x):g}" for x in values) + ")"
