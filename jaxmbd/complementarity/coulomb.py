"""A contact that can only push, with Coulomb's law of dry friction."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..rotations.types import Scalar
from .smoothing import off_center, positive_part


def coulomb(
    x: Float[Array, "3"],
    v: Float[Array, "3"],
    friction: Scalar,
    spent: Float[Array, "2"],
    kappa: Scalar,
) -> Float[Array, "3"]:
    """Residual of one contact, normal component first, after Alart and Curnier.

    The normal impulse is max(x - v, 0); the tangential one is the point of the disc of radius μ
    times that nearest to x - v. Both together are the exact law: no relaxation of its cone.
    `spent` is the part of the disc's radius that friction took before sliding ended within the
    step, along its direction; the disc of the rest lies around that point.

    Reference:
        Alart, Curnier, Comput. Methods Appl. Mech. Engrg. 92 (1991) 353-375.
    """
    normal = positive_part(x[0] - v[0], kappa)
    tangential = off_center(x[1:] - v[1:], friction * normal, spent, kappa)
    return x - jnp.concatenate([normal[None], tangential])
