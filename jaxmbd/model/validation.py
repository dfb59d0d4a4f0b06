"""Checks on what users give: shapes, finiteness, physical sense.

A condition on numbers is written once, by `require`: a known number that does not meet it is
refused, a traced one becomes NaN, which analyses find when they start (`RESULTS.invalid_input`).
"""

import dataclasses
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Float, PyTree

from ..rotations.types import Array, host, library_of
from ..xla.tracing import is_traced

if TYPE_CHECKING:
    # Numbers as users give them: one, an array, known or traced, or nested sequences of them.
    Numbers: TypeAlias = ArrayLike | Sequence["Numbers"]
else:
    # Whatever is given is let in when annotations are checked at run time: `array` refuses by the
    # part's name what holds no numbers.
    Numbers = object

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


def is_concrete(tree: PyTree) -> bool:
    """Whether no array of a pytree is traced."""
    return not any(is_traced(leaf) for leaf in jax.tree.leaves(tree))


def concrete(value: object) -> np.ndarray | None:
    """One number or array as NumPy array, or None where it is traced."""
    return np.asarray(value) if is_concrete(value) else None


def as_jax(value: object, dtype: DTypeLike | None = None) -> Array:
    """A JAX array; a known value is converted by NumPy, which compiles nothing."""
    dtype = default_dtype() if dtype is None else dtype
    if is_concrete(value):
        return jax.device_put(np.asarray(value, dtype))
    return jnp.asarray(value, dtype)


def require(holds: Array | bool, value: Array, message: str) -> Array:
    """The value where a condition on it holds.

    Args:
        holds: The condition, one or an array that broadcasts against the value.
        value: What is returned; NaN where a traced condition does not hold.
        message: Of the ValueError where a known one does not; it names the part and the cure.
    """
    known = concrete(holds)
    if known is None:
        return jnp.where(holds, value, jnp.nan)
    if not np.all(known):
        raise ValueError(message)
    return value


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Numbers that are possible: declared once for a field of an element, see `given.number`.

    Attributes:
        least, most: Both allowed.
        above: Not allowed itself.
        text: What messages say of a number outside.
        unless: A flag of the element with which every number is possible; "" for none.
    """

    least: float = -np.inf
    most: float = np.inf
    above: float = -np.inf
    text: str = "must be finite"
    unless: str = ""

    def hold(self, x: Array) -> Any:
        """Whether numbers are within the bounds; not for NaN."""
        return (x >= self.least) & (x > self.above) & (x <= self.most)

    def required(self, value: Array, what: str) -> Array:
        """The number, see `require`."""
        cure = f"; {self.unless}=True permits it" if self.unless else ""
        message = f"{what} {self.text}, not {shown(value)}{cure}"
        return require(self.hold(value), value, message)


POSITIVE = Bounds(above=0.0, text="must be positive")
NOT_NEGATIVE = Bounds(least=0.0, text="must not be negative")
USUALLY_NOT_NEGATIVE = dataclasses.replace(NOT_NEGATIVE, unless="allow_negative")
AT_LEAST_ONE = Bounds(least=1.0, text="must be at least 1")
FRACTION = Bounds(least=0.0, most=1.0, text="must lie in [0, 1]")
RESTITUTION = FRACTION


def shown(value: object) -> str:
    """Known numbers, for the message of `require`; no text where they are traced."""
    known = concrete(value)
    return "" if known is None else f"{known:.6g}" if known.ndim == 0 else str(known.tolist())


def array(value: object, shape: tuple[int, ...], what: str) -> Array:
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
    finite = library_of(result).isfinite(result)
    return require(finite, result, f"{what}: contains NaN or infinity")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def number(value: object, what: str) -> Array:
    """A finite scalar."""
    return array(value, (), what)


def positive(value: object, what: str) -> Array:
    """A finite scalar above zero."""
    return POSITIVE.required(number(value, what), what)


def nonzero(value: object, what: str) -> Array:
    """A finite scalar that is not zero."""
    result = number(value, what)
    return require(result != 0.0, result, f"{what} must not be zero")


class DescriptionWarning(UserWarning):
    """A number or a part of a description is valid but unusual."""


def degrees_for_radians(value: object, what: str) -> list[str]:
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


def warn_of_degrees(value: object, what: str) -> None:
    """Warn where an angle looks as if it were in degrees, see `degrees_for_radians`."""
    for sentence in degrees_for_radians(value, what):
        warnings.warn(sentence, DescriptionWarning, stacklevel=users_line())


def vector(value: object, n: int, what: str) -> Array:
    """A finite vector of n numbers."""
    return array(value, (n,), what)


def direction(value: object, what: str) -> Array:
    """A finite vector of three numbers, scaled to unit length; a zero vector is refused."""
    result = vector(value, 3, what)
    length = library_of(result).linalg.norm(result)
    length = require(length >= 1e-12, length, f"{what}: the zero vector has no direction")
    return result / length


def semidefinite(J: Float[Array, "*b 3 3"]) -> Any:
    """Whether inertias have no negative principal moment, from their principal minors (traces of
    zero included).
    """
    scale = jnp.max(jnp.abs(J), axis=(-2, -1)) + jnp.finfo(J.dtype).tiny
    J = J / scale[..., None, None]
    tolerance = 1e3 * jnp.finfo(J.dtype).eps
    x, y, z = J[..., 0, 0], J[..., 1, 1], J[..., 2, 2]
    p, q, r = J[..., 1, 2], J[..., 0, 2], J[..., 0, 1]
    minors = [x, y, z, y * z - p * p, x * z - q * q, x * y - r * r]
    minors.append(x * (y * z - p * p) - r * (r * z - p * q) + q * (r * p - y * q))
    good = jnp.isfinite(scale)
    for value in minors:
        good = good & (value >= -tolerance)
    return good


def inertia_matrix(value: object, what: str, *, allow_unphysical: bool = False) -> Array:
    """A (3, 3) inertia matrix from (3,) principal moments or a full matrix; refused where no body
    can have it.
    """
    try:
        principal = (np.asarray(value).ndim if is_concrete(value) else jnp.asarray(value).ndim) == 1
    except (TypeError, ValueError):
        principal = False  # `array` says what is wrong
    if principal:
        moments = vector(value, 3, what)
        result = library_of(moments).diag(moments)
    else:
        result = array(value, (3, 3), what)
    known = concrete(result)
    if known is None:
        return _or_nan_inertia(result, allow_unphysical)
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


def _or_nan_inertia(J: Array, allow_unphysical: bool) -> Array:
    """A traced inertia matrix by the conditions of `inertia_matrix`, without eigenvalues."""
    symmetric = jnp.max(jnp.abs(J - J.T)) <= 1e-8 * jnp.max(jnp.abs(J))
    good = symmetric & semidefinite(J)
    if not allow_unphysical:
        # ½ tr J - J is the matrix of second moments of mass.
        half = 0.5 * (1.0 + 1e-6) * jnp.trace(J)
        good = good & semidefinite(half * jnp.eye(3, dtype=J.dtype) - J)
    return jnp.where(good, J, jnp.nan)
