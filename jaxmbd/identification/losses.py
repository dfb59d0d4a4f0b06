"""Losses: how much a residual costs. Robust ones let outliers count less than squares do.

A new loss is a class here. Each one says what a square s of a residual, in standard deviations,
costs, ρ(s), concave, with ρ(0) = 0 and ρ'(0) = 1: near the model all are least squares.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.validation import number


class AbstractLoss(eqx.Module):
    """Base class of losses."""

    @abc.abstractmethod
    def __call__(self, s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The cost of squares of residuals [-]."""

    @abc.abstractmethod
    def slope(self, s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Its derivative: the weight of a square beside those of small residuals, up to 1."""


class Squares(AbstractLoss):
    """Least squares: right for normal noise."""

    def __call__(self, s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return s

    def slope(self, s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.ones_like(s)


class Huber(AbstractLoss):
    """Huber's loss: squares up to a threshold, absolute values beyond (Huber 1964).

    Attributes:
        threshold: In standard deviations; 1.345 loses five per cent of efficiency where the noise
            is normal.
    """

    threshold: float = 1.345

    def __check_init__(self):
        if not number(self.threshold, "Huber: threshold") > 0.0:
            raise ValueError(f"Huber: threshold must be positive, not {self.threshold}")

    def __call__(self, s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        k = self.threshold
        return jnp.where(s <= k**2, s, 2.0 * k * jnp.sqrt(jnp.maximum(s, k**2)) - k**2)

    def slope(self, s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return self.threshold / jnp.sqrt(jnp.maximum(s, self.threshold**2))


class StudentT(AbstractLoss):
    """The logarithm of Student's t distribution, for noise with frequent outliers, scaled so that
    small residuals cost their squares.

    Attributes:
        degrees: Degrees of freedom; 3 to 5 are usual.
    """

    degrees: float = 4.0

    def __check_init__(self):
        if not number(self.degrees, "StudentT: degrees") > 0.0:
            raise ValueError(f"StudentT: degrees must be positive, not {self.degrees}")

    def __call__(self, s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return self.degrees * jnp.log1p(s / self.degrees)

    def slope(self, s: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return self.degrees / (self.degrees + s)
