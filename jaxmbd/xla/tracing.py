"""What is a number now, and what stands for one in a program that is being traced."""

from typing import Any

from jax.core import Tracer


def is_traced(x: Any) -> bool:
    """Whether x stands for a number that is not known yet."""
    return isinstance(x, Tracer)
