"""Rows of primitives by automatic differentiation on quadratic pose jets.

A pose is differentiated twice by its own coordinates, once per body; a primitive then sees polynomials of the 12 to 14
local numbers of its two bodies, whatever the coordinates are.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.primitives import AbstractPrimitive
from ..model.state import Pose
from ..rotations.types import Scalar


class PoseJet(eqx.Module):
    """A pose, (r, A) as twelve numbers, as a quadratic function of k local parameters.

    Attributes:
        value: (..., 12).
        first: (..., 12, k).
        second: (..., 12, k, k).
    """

    value: Float[Array, "*n 12"]
    first: Float[Array, "*n 12 k"]
    second: Float[Array, "*n 12 k k"]

    def at(self, delta: Float[Array, " k"]) -> Pose:
        """The pose at small parameters, exact in value and two derivatives at zero."""
        x = self.value + self.first @ delta + 0.5 * (self.second @ delta) @ delta
        return Pose(x[:3], x[3:].reshape(3, 3))


def jet_row(primitive: AbstractPrimitive, jet_i: PoseJet, jet_j: PoseJet) -> Float[Array, "2 d"]:
    """Derivative of one primitive by the local coordinates of its two bodies."""

    def phi(x):
        pose_i, pose_j = (Pose(y[:3], y[3:].reshape(3, 3)) for y in x)
        return primitive.geometry(pose_i, pose_j)

    g_i, g_j = jax.grad(phi)((jet_i.value, jet_j.value))
    return jnp.stack([g_i @ jet_i.first, g_j @ jet_j.first])


def jet_row_variation(primitive: AbstractPrimitive, jet_i: PoseJet, jet_j: PoseJet) -> Float[Array, "2 d 2 d"]:
    """Second derivative of one primitive by the local coordinates of its two bodies."""

    def phi(delta):
        return primitive.geometry(jet_i.at(delta[0]), jet_j.at(delta[1]))

    zero = jnp.zeros((2, jet_i.first.shape[-1]), jet_i.value.dtype)
    return jax.jacfwd(jax.grad(phi))(zero)


def jet_row_gamma(primitive: AbstractPrimitive, motion_i: PoseJet, motion_j: PoseJet) -> Scalar:
    """γ of one primitive along two motions."""
    zero, one = jnp.zeros((), motion_i.value.dtype), jnp.ones((), motion_i.value.dtype)

    def rate(s):
        def value(s):
            return primitive.advanced(s).geometry(motion_i.at(s[None]), motion_j.at(s[None]))

        return jax.jvp(value, (s,), (one,))[1]

    return -jax.jvp(rate, (zero,), (one,))[1]
