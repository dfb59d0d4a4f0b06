"""A contact that can only push, with Coulomb's law of dry friction."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..rotations.types import Scalar
from .smoothing import on_disc, positive_part


def coulomb(
    x: Float[Array, "3"], v: Float[Array, "3"], friction: Scalar, kappa: Scalar
) -> Float[Array, "3"]:
    """Residual of one contact, normal component first, after Alart and Curnier.

    The normal impulse is max(x - v, 0); the tangential one is the point of the disc of radius μ
    times that nearest to x - v. Both together are the exact law: no relaxation of its cone.

    Reference:
        Alart, Curnier, Comput. Methods Appl. Mech. Engrg. 92 (1991) 353-375.
    """
    normal = positive_part(x[0] - v[0], kappa)
    tangential = on_disc(x[1:] - v[1:], friction * normal, kappa)
    return x - jnp.concatenate([normal[None], tangential])
