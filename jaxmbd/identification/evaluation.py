"""What a fit needs of residuals: for a least-squares step a small triangle is as good as the
Jacobian of all samples.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..rotations.types import Scalar
from .losses import AbstractLoss


class Evaluation(eqx.Module):
    """Residuals at a point and what a least-squares step needs of their Jacobian.

    Attributes:
        residuals: Weighted, of E experiments, q quantities and T samples, (E, q, T).
        predicted: The quantities themselves, (E, q, T).
        results: How each motion ended, (E,).
        triangles: For each experiment R of the QR decomposition of [J, r], with the weights of the
            loss, (E, m, p + d + 1): as good as J and r for every least-squares step.
        excess: What the loss costs above the squares in `triangles`, (E,).
    """

    residuals: Float[Array | np.ndarray, "*E q T"]
    predicted: Float[Array | np.ndarray, "*E q T"]
    results: Any
    triangles: Float[Array | np.ndarray, "*E m k"]
    excess: Float[Array | np.ndarray, "*E"]


def reduced(
    jacobian: Float[Array, "q T n"], residual: Float[Array, "q T"], loss: AbstractLoss
) -> tuple[Float[Array, "m k"], Scalar]:
    """R of the QR decomposition of [J, r] with the weights of a loss, and what the loss costs above
    the squares in it.
    """
    flat = residual.reshape(-1)
    s = flat**2
    slope = loss.slope(s)
    rows = jnp.concatenate([jacobian.reshape(flat.size, -1), flat[:, None]], axis=1)
    triangle = jnp.linalg.qr(rows * jnp.sqrt(slope)[:, None], mode="r")
    return triangle, jnp.sum(loss(s) - slope * s)


def one_by_one(function: Callable[..., Any], *args: PyTree) -> PyTree:
    """A function of every experiment, one after the other on a CPU: what makes Jacobians there
    works on all their tangents at once already, and a batch of batches takes twice as long.
    """
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda each: function(*each), args)
    return jax.vmap(function)(*args)
