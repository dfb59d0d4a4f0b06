"""Geometric means of many numbers with few logarithms."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..rotations.types import Scalar


def geometric_mean(x: Float[Array, " n"]) -> Scalar:
    """The geometric mean of numbers of which none is negative; those below rounding beside the
    largest count as that.
    """
    finite = jnp.finfo(x.dtype)
    largest = jnp.max(x)
    shares = jnp.maximum(x / jnp.where(largest > 0.0, largest, 1.0), finite.eps)
    # A logarithm takes as long as many products. So many of the shares can be multiplied before the
    # least of them could underflow.
    together = int(math.log(finite.tiny) / math.log(finite.eps))
    padded = jnp.pad(shares, (0, -shares.size % together), constant_values=1.0)
    products = jnp.prod(padded.reshape(-1, together), axis=1)
    return largest * jnp.exp(jnp.sum(jnp.log(products)) / x.size)
