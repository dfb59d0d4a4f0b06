"""A force that the user writes."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar
from ..state import Pose, Twist
from .base import AbstractForce


class FunctionForce(AbstractForce):
    """A callable or `equinox` module of poses, twists and time.

    Attributes:
        function: `function(pose, twist, t) -> (forces, torques)`, each (k, 3): forces [N] at the
            mass centers in global components, torques [N·m] in body components. `pose` and `twist`
            have a leading axis over the k bodies.
    """

    function: Callable

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
        force, torque = self.function(pose, twist, t)
        shape, dtype = pose.r.shape, pose.r.dtype
        force, torque = jnp.asarray(force, dtype), jnp.asarray(torque, dtype)
        if force.shape != shape or torque.shape != shape:
            raise ValueError(
                f"a user force on {shape[0]} bodies must return forces and torques of shape "
                f"{shape}, but returned {force.shape} and {torque.shape}"
            )
        return force, torque
