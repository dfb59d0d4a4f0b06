"""Tell numbers from tracers, which stand for numbers while a program is traced."""

from typing import Any

from jax.core import Tracer


def is_traced(x: Any) -> bool:
    """Whether x is a tracer."""
    return isinstance(x, Tracer)
