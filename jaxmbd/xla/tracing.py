"""Tell numbers from tracers, which stand for numbers while a program is traced."""

from jax.core import Tracer


def is_traced(x: object) -> bool:
    """Whether x is a tracer."""
    return isinstance(x, Tracer)
