"""Smoothed maximum and smoothed projection on a disc; exact as κ goes to zero."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..rotations.types import Scalar

# Under roots: squares of smaller numbers underflow, and reverse mode divides by the root.
_FLOOR = 1e-60


def positive_part(t: Array, kappa: Scalar) -> Array:
    """P with p (p - t) = κ²: max(t, 0) for κ = 0."""
    root = jnp.sqrt(t**2 + 4.0 * kappa**2 + _FLOOR)
    small = jnp.where(t < 0.0, root - t, 1.0)
    # For negative t the sum cancels; this is the same number.
    return jnp.where(t < 0.0, 2.0 * (kappa**2 + 0.25 * _FLOOR) / small, 0.5 * (t + root))


def on_disc(z: Float[Array, " k"], radius: Scalar, kappa: Scalar) -> Float[Array, " k"]:
    """The point of the disc that is nearest to z."""
    length = jnp.sqrt(z @ z + kappa**2 + _FLOOR)
    return z * (radius / (radius + positive_part(length - radius, kappa)))


def off_center(
    z: Float[Array, " k"], radius: Scalar, spent: Float[Array, " k"], kappa: Scalar
) -> Float[Array, " k"]:
    """The point nearest to z of the disc around `spent * radius` that touches the disc of that
    radius from inside; `spent` is not longer than one.
    """
    rest = 1.0 - jnp.sqrt(spent @ spent + _FLOOR)
    center = spent * radius
    return center + on_disc(z - center, rest * radius, kappa)
