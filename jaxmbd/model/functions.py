"""Functions that users give: called once with traced arguments, so that mistakes are told where
they are made.
"""

import contextlib
import os
from collections.abc import Callable, Generator
from typing import Any

import jax
import jax.numpy as jnp

# What Python does with an array whose value is not known yet: `if`, float(), math.sin, numpy.sin,
# indexing.
_TRACING = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)

_FORWARD = (
    "forward-mode derivatives are needed here, and a function with jax.custom_vjp has none: give "
    "it its derivative with jax.custom_jvp instead, which serves both modes"
)


def debugging() -> bool:
    """Whether errors show JAX's own trace too: the environment variable JAXMBD_DEBUG is set."""
    return bool(os.environ.get("JAXMBD_DEBUG"))


def traced_shape(function: Callable, args: tuple, what: str) -> Any:
    """The shapes that a function returns for arguments whose values are not known, as inside a
    compiled program.

    Args:
        function: What the user gave.
        args: Arrays that stand for its arguments.
        what: The part, for messages: "driver 'motor': angle".

    Raises:
        ValueError: The function needs values where only shapes are known, or fails; the message
            says what to write.
    """
    try:
        return jax.eval_shape(function, *args)
    except _TRACING as error:
        raise ValueError(
            f"{what}: the function runs inside a compiled program, where its arguments have no "
            "values yet: use jax.numpy instead of math and numpy (jnp.sin(t)), and jnp.where(t < "
            "1, a, b) instead of if. Set JAXMBD_DEBUG=1 to see where"
        ) from (error if debugging() else None)
    except Exception as error:  # whatever the user's own code raises
        if _lacks_forward_mode(error):
            raise ValueError(f"{what}: {_FORWARD}") from (error if debugging() else None)
        raise ValueError(
            f"{what}: the function failed with {type(error).__name__}: {error}"
        ) from error


@contextlib.contextmanager
def forward_mode(what: str) -> Generator[None, None, None]:
    """Says what to write where JAX finds no forward mode of what a user gave; `what` names it."""
    try:
        yield
    except (TypeError, NotImplementedError) as error:
        if not _lacks_forward_mode(error):
            raise
        raise ValueError(f"{what}: {_FORWARD}") from (error if debugging() else None)


def _lacks_forward_mode(error: Exception) -> bool:
    """Whether JAX met a `jax.custom_vjp` where it takes first derivatives, or second ones
    ("custom_lin").
    """
    text = str(error)
    return "custom_lin" in text or ("custom_vjp" in text and "forward-mode" in text)


def numbers_of_shape(value: object, shape: tuple[int, ...], what: str) -> None:
    """Refuse what is no array of numbers of one shape; `value` is a shape from `traced_shape`."""
    leaves = jax.tree.leaves(value)
    if (
        len(leaves) != 1
        or not jnp.issubdtype(leaves[0].dtype, jnp.number)
        or leaves[0].dtype.kind == "c"
    ):
        raise ValueError(f"{what} must return {_wanted(shape)}, but returned {_given(value)}")
    if leaves[0].shape != shape:
        raise ValueError(
            f"{what} must return {_wanted(shape)}, but returned shape {leaves[0].shape}"
        )


def _wanted(shape: tuple[int, ...]) -> str:
    return "a number" if shape == () else f"an array of shape {shape}"


def _given(value: object) -> str:
    if value is None:
        return "nothing (is there a return?)"
    leaves = jax.tree.leaves(value)
    if len(leaves) == 1:
        return f"an array of {leaves[0].dtype}"
    return f"{len(leaves)} arrays (join them with jnp.array([...]))"
