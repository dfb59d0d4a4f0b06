"""Commands of a motor as functions of time with coefficients to be chosen."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.motions import Sampled
from ..model.validation import number
from ..rotations.types import Scalar


class AbstractExcitation(eqx.Module):
    """A function of time that is linear in its coefficients.

    Attributes:
        coefficients: In the unit of the input, (n,).
    """

    coefficients: eqx.AbstractVar[Float[Array, " n"]]

    @abc.abstractmethod
    def __call__(self, t: Scalar) -> Scalar:
        """The input at t [s]."""

    def with_coefficients(self, coefficients: Float[Array, " n"]) -> "AbstractExcitation":
        """The same with other coefficients."""
        return eqx.tree_at(lambda x: x.coefficients, self, coefficients)


class Fourier(AbstractExcitation):
    """A Fourier series: c₀ + Σ (cₖ sin(2π k t/T) + dₖ cos(2π k t/T)); usual where an experiment is
    repeated and averaged.

    Attributes:
        coefficients: c₀, c₁, d₁, c₂, d₂, ..., (2 harmonics + 1,).
        period: T [s].
    """

    coefficients: Float[Array, " n"]
    period: float = eqx.field(static=True)

    def __init__(
        self,
        period: float,
        harmonics: int = 3,
        coefficients: Float[Array | np.ndarray, " n"] | None = None,
    ):
        if not number(period, "Fourier: period") > 0.0 or harmonics < 1:
            raise ValueError("Fourier: period must be positive, and harmonics at least 1")
        self.period = float(period)
        size = 2 * harmonics + 1
        given = np.zeros(size) if coefficients is None else coefficients
        if np.shape(given) != (size,):
            raise ValueError(f"Fourier: coefficients must have shape ({size},)")
        self.coefficients = jnp.asarray(given)

    def __call__(self, t: Scalar) -> Scalar:
        c = self.coefficients
        k = jnp.arange(1, (c.shape[0] - 1) // 2 + 1, dtype=c.dtype)
        angle = (2.0 * np.pi / self.period) * k * t
        return c[0] + jnp.sum(c[1::2] * jnp.sin(angle)) + jnp.sum(c[2::2] * jnp.cos(angle))


class Spline(AbstractExcitation):
    """Cubics through values at equal distances.

    Attributes:
        coefficients: The values, (knots,).
        duration: Time of the last value [s].
    """

    least: ClassVar[int] = 4

    coefficients: Float[Array, " n"]
    duration: float = eqx.field(static=True)

    def __init__(
        self,
        duration: float,
        knots: int = 8,
        coefficients: Float[Array | np.ndarray, " n"] | None = None,
    ):
        if not number(duration, "Spline: duration") > 0.0 or knots < self.least:
            raise ValueError("Spline: duration must be positive, and knots at least 4")
        self.duration = float(duration)
        given = np.zeros(knots) if coefficients is None else coefficients
        if np.shape(given) != (knots,):
            raise ValueError(f"Spline: coefficients must have shape ({knots},)")
        self.coefficients = jnp.asarray(given)

    def __call__(self, t: Scalar) -> Scalar:
        times = np.linspace(0.0, self.duration, self.coefficients.shape[0])
        return Sampled(times, self.coefficients)(t)
