"""Checks on what users give: shapes, finiteness, physical sense. Traced values pass unchecked where
they must.
"""

import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..rotations.types import Array, host, library_of

_warned = False


def default_dtype():
    """The widest float that JAX is set to use."""
    return jnp.result_type(float)  # no array is made: descriptions ask thousands of times


def enable_x64() -> None:
    """Switch JAX to double precision, the reference for this package; call it before any array is
    made.
    """
    jax.config.update("jax_enable_x64", True)


def warn_if_single() -> None:
    """Say once, clearly, that double precision is off."""
    global _warned
    if not _warned and default_dtype() != jnp.float64:
        _warned = True
        warnings.warn(
            "double precision is off: results are in single precision, with errors of 1e-6 in "
            "positions and far more in accelerations and multipliers. Call jaxmbd.enable_x64() "
            "first thing in your program.",
            stacklevel=users_line(),
        )


def users_line() -> int:
    """The `stacklevel` of a warning that points at the line outside the package; call it in
    `warnings.warn(...)`.
    """
    package, frame, level = __name__.partition(".")[0], sys._getframe(1), 1
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == package
    ):
        frame, level = frame.f_back, level + 1
    return level


def is_concrete(tree: Any) -> bool:
    """Whether no array of a pytree is traced."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def concrete(value: Any) -> np.ndarray | None:
    """One number or array as NumPy array, or None where it is traced."""
    return np.asarray(value) if is_concrete(value) else None


def as_jax(value: Any, dtype: Any = None) -> Array:
    """A JAX array; a known value is converted by NumPy, which compiles nothing."""
    dtype = default_dtype() if dtype is None else dtype
    if is_concrete(value):
        return jax.device_put(np.asarray(value, dtype))
    return jnp.asarray(value, dtype)


def array(value: Any, shape: tuple[int, ...], what: str) -> Array:
    """An array of the default dtype with the given shape and finite entries, or a ValueError that
    names `what`; of NumPy unless it is traced.
    """
    try:
        if not is_concrete(value):
            result = jnp.asarray(value, default_dtype())
        else:
            kind = np.asarray(value).dtype.kind
            if kind not in "iuf" and not (kind == "V" and hasattr(value, "dtype")):
                raise TypeError
            result = host.array(value, default_dtype())
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what}: not an array of numbers: {_shown(value)}") from None
    if result.shape != shape:
        wanted = "a number" if shape == () else "an array of shape " + str(shape)
        raise ValueError(f"{what}: expected {wanted}, got shape {result.shape}")
    known = concrete(result)
    if known is not None and not np.all(np.isfinite(known)):
        raise ValueError(f"{what}: contains NaN or infinity")
    return result


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def number(value: Any, what: str) -> Array:
    """A finite scalar."""
    return array(value, (), what)


def positive(value: Any, what: str) -> Array:
    """A finite scalar above zero, as far as it is known."""
    result = number(value, what)
    known = concrete(result)
    if known is not None and not known > 0.0:
        raise ValueError(f"{what} must be positive, not {float(known):g}")
    return result


def nonzero(value: Any, what: str) -> Array:
    """A finite scalar that is not zero, as far as it is known."""
    result = number(value, what)
    known = concrete(result)
    if known is not None and known == 0.0:
        raise ValueError(f"{what} must not be zero")
    return result


class DescriptionWarning(UserWarning):
    """A number or a part of a description is possible, and is seldom what is meant."""


def degrees_for_radians(value: Any, what: str) -> list[str]:
    """A sentence where a known angle, or one of several, is more than a turn and a multiple of a
    tenth, as people write degrees; several turns in radians are seldom that.
    """
    known = None if callable(value) or isinstance(value, str) else concrete(value)
    if known is None or known.dtype.kind not in "iuf":
        return []
    tenths = 10.0 * known.astype(float)
    whole = np.abs(tenths - np.round(tenths)) < 1e-6
    if not np.any(whole & (np.abs(known) > 2.0 * np.pi)):
        return []
    return [f"{what} = {known.tolist()} rad is more than a turn; were degrees meant?"]


def warn_of_degrees(value: Any, what: str) -> None:
    """Warn where an angle looks as if it were in degrees, see `degrees_for_radians`."""
    for sentence in degrees_for_radians(value, what):
        warnings.warn(sentence, DescriptionWarning, stacklevel=users_line())


def vector(value: Any, n: int, what: str) -> Array:
    """A finite vector of n numbers."""
    return array(value, (n,), what)


def direction(value: Any, what: str) -> Array:
    """A finite vector of three numbers, scaled to unit length; a zero vector is refused."""
    result = vector(value, 3, what)
    known = concrete(result)
    if known is not None and np.linalg.norm(known) < 1e-12:
        raise ValueError(f"{what}: the zero vector has no direction")
    return result / library_of(result).linalg.norm(result)


def inertia_matrix(value: Any, what: str, *, allow_unphysical: bool = False) -> Array:
    """A (3, 3) inertia matrix from (3,) principal moments or a full matrix; refused where no body
    can have it.
    """
    try:
        principal = (np.ndim(value) if is_concrete(value) else jnp.asarray(value).ndim) == 1
    except (TypeError, ValueError):
        principal = False  # `array` says what is wrong
    if principal:
        moments = vector(value, 3, what)
        result = library_of(moments).diag(moments)
    else:
        result = array(value, (3, 3), what)
    known = concrete(result)
    if known is None:
        return result
    scale = np.max(np.abs(known))
    if np.max(np.abs(known - known.T)) > 1e-8 * scale:
        raise ValueError(f"{what}: not symmetric")
    moments = np.linalg.eigvalsh(known)
    if moments[0] < -1e-9 * scale:
        raise ValueError(f"{what}: has a negative principal moment ({moments[0]:.3g} kg·m²)")
    if (
        not allow_unphysical
        and moments[2] > (moments[0] + moments[1]) * (1.0 + 1e-6) + 1e-12 * scale
    ):
        a, b, c = moments
        raise ValueError(
            f"{what}: violates the triangle inequality: principal moment {c:.6g} exceeds the sum "
            f"of the others, {a:.3g} + {b:.3g}. No body has it; correct it, or pass "
            "allow_unphysical_inertia to use published data as they are"
        )
    return result
