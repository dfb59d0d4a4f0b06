"""Friction of surfaces that give way, as a function of the velocity at which they slide."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool, Float

from ...rotations.types import Array, Scalar, Vec3


class AbstractSlidingFriction(eqx.Module):
    """Friction at one place of a contact with stiffness; to be derived from, see
    `AbstractContact.sliding_friction`.
    """

    @abc.abstractmethod
    def force(self, push: Scalar, slip: Vec3) -> Vec3:
        """The force on body i by the force along the normal [N] and the velocity of body i on body
        j across it [m/s], global.
        """

    @abc.abstractmethod
    def slides(self, push: Float[Array, " n"], drag: Float[Array, " n"]) -> Bool[Array, " n"]:
        """Which places count as sliding, by the squares of the forces along the normal and of
        friction.
        """


class SmoothedCoulomb(AbstractSlidingFriction):
    """Coulomb's law, smoothed: μ F w / √(|w|² + w_s²) against the sliding velocity w.

    It is Coulomb's law for |w| far above w_s, and viscous below.

    Attributes:
        coefficient: μ [-].
        slip_speed: w_s [m/s].
    """

    coefficient: Scalar
    slip_speed: Scalar

    def force(self, push: Scalar, slip: Vec3) -> Vec3:
        drag = push * self.coefficient / jnp.sqrt(slip @ slip + self.slip_speed**2)
        return -drag * slip

    def slides(self, push: Float[Array, " n"], drag: Float[Array, " n"]) -> Bool[Array, " n"]:
        """Those faster than the slip speed."""
        return drag > 0.5 * self.coefficient**2 * push
