"""Restrictions on numbers: maps between a value that must make sense and unrestricted
coordinates.
"""

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# A value this share of its range from a bound is at it: the logistic function comes no nearer in
# sensible steps.
_AT_BOUND = 1e-4

Coordinates = Any  # a pytree of arrays without restrictions
Value = Any  # a number, an array, or a module such as a neural network
Values = Mapping[str, Value]  # by path


class AbstractTransform(eqx.Module):
    """A one-to-one map from unrestricted coordinates to the values that are allowed."""

    @abc.abstractmethod
    def inverse(self, value: Value) -> Coordinates:
        """Coordinates of a value; a ValueError says what is wrong with one that is not allowed."""

    @abc.abstractmethod
    def __call__(self, z: Coordinates) -> Any:
        """The value at given coordinates."""

    def bounds_met(self, value: Value) -> list[tuple[str, Any, Any]]:
        """Bounds at which entries of a value are: "lower" or "upper", the bound, and which entries
        are at it.
        """
        return []


class Free(AbstractTransform):
    """No restriction; also for a module, such as a neural network, whose float arrays are then
    free.
    """

    def inverse(self, value: Value) -> Coordinates:
        return value if isinstance(value, eqx.Module) else jnp.asarray(value, float)

    def __call__(self, z: Coordinates) -> Any:
        return z


class Positive(AbstractTransform):
    """Greater than zero, entry by entry: the exponential, so that steps are relative."""

    def inverse(self, value: Value) -> Coordinates:
        value = np.asarray(value, float)
        if not np.all(value > 0.0):
            raise ValueError(
                f"must be positive to start from, not {value}; use Free() or Bounded(lower, upper)"
            )
        return jnp.log(value)

    def __call__(self, z: Coordinates) -> Any:
        return jnp.exp(z)


class Bounded(AbstractTransform):
    """Between two bounds, entry by entry: a logistic function.

    Attributes:
        lower: Smallest value.
        upper: Largest value.
    """

    lower: Any
    upper: Any

    def inverse(self, value: Value) -> Coordinates:
        value, lower, upper = (np.asarray(x, float) for x in (value, self.lower, self.upper))
        if not np.all((lower < value) & (value < upper)):
            raise ValueError(f"must start between {lower} and {upper}, not at {value}")
        x = (value - lower) / (upper - lower)
        return jnp.log(x / (1.0 - x))

    def bounds_met(self, value: Value) -> list[tuple[str, Any, Any]]:
        value, lower, upper = (np.asarray(x, float) for x in (value, self.lower, self.upper))
        near = _AT_BOUND * (upper - lower)
        return [
            ("lower", lower, value - lower <= near),
            ("upper", upper, upper - value <= near),
        ]

    def __call__(self, z: Coordinates) -> Any:
        lower, upper = (
            jnp.broadcast_to(jnp.asarray(x, z.dtype), z.shape) for x in (self.lower, self.upper)
        )
        return lower + (upper - lower) * jax.nn.sigmoid(z)


class Along(AbstractTransform):
    """A vector that moves along a line, such as a mass center along its rod: start + z direction.

    Attributes:
        start: The vector at z = 0.
        direction: Scaled to unit length, so that z is a distance in the unit of the vector.
    """

    start: Any
    direction: Any

    def _unit(self) -> np.ndarray:
        direction = np.asarray(self.direction, float)
        return direction / np.linalg.norm(direction)

    def inverse(self, value: Value) -> Coordinates:
        off = np.asarray(value, float) - np.asarray(self.start, float)
        z = off @ self._unit()
        if np.linalg.norm(off - z * self._unit()) > 1e-9 * (1.0 + np.linalg.norm(value)):
            raise ValueError(f"must start on its line through {self.start}, not at {value}")
        return jnp.asarray(z)

    def __call__(self, z: Coordinates) -> Any:
        return jnp.asarray(self.start, z.dtype) + z * jnp.asarray(self._unit(), z.dtype)


class Scaled(AbstractTransform):
    """A positive multiple of an array, such as an inertia whose shape is known.

    Attributes:
        start: The array, of which the multiple is one; of an inertia also its principal moments,
            (3,).
    """

    start: Any

    def inverse(self, value: Value) -> Coordinates:
        start, value = np.asarray(self.start, float), np.asarray(value, float)
        start = np.diag(start) if value.ndim == 2 and start.ndim == 1 else start
        share = float(np.sum(value * start) / np.sum(start * start))
        if share <= 0.0 or not np.allclose(value, share * start, rtol=1e-9, atol=0.0):
            raise ValueError(f"must start at a positive multiple of {start}, not at {value}")
        return jnp.log(jnp.asarray(share))

    def __call__(self, z: Coordinates) -> Any:
        return jnp.exp(z) * jnp.asarray(self.start, z.dtype)


class PhysicalInertia(AbstractTransform):
    """An inertia matrix that a body can have: positive moments that satisfy the triangle
    inequality.

    The second moments of mass, S = tr(J)/2 I - J, are positive definite exactly where J is
    physical; the coordinates are the logarithms of the diagonal and the other entries of their
    Cholesky factor (the log-Cholesky parametrization of the pseudo-inertia, for a frame at the mass
    center). Where the mass center is unknown too, let the joints move.
    """

    def inverse(self, value: Value) -> Float[Array, "6"]:
        J = np.asarray(value, float)
        J = np.diag(J) if J.ndim == 1 else J
        S = 0.5 * np.trace(J) * np.eye(3) - J
        try:
            L = np.linalg.cholesky(S)
        except np.linalg.LinAlgError:
            moments = np.linalg.eigvalsh(J)
            raise ValueError(
                f"the inertia to start from, principal moments {moments}, violates the triangle "
                "inequality or belongs to a flat body; start from one with thickness"
            ) from None
        return jnp.concatenate([jnp.log(jnp.diagonal(L)), L[np.tril_indices(3, -1)]])

    def __call__(self, z: Float[Array, "6"]) -> Float[Array, "3 3"]:
        L = jnp.diag(jnp.exp(z[:3])).at[np.tril_indices(3, -1)].set(z[3:])
        S = L @ L.T
        return jnp.trace(S) * jnp.eye(3, dtype=z.dtype) - S
