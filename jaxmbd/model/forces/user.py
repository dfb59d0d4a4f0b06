"""A force that the user writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Scalar, host
from ..body import Body
from ..functions import traced_shape
from ..motions import hoist
from ..state import Pose, Twist
from ..validation import default_dtype
from .base import AbstractForce
from .descriptions import AbstractForceDescription


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


@dataclass(frozen=True, eq=False)
class UserForce(AbstractForceDescription):
    """A force that you write: a function or an `equinox` module (its arrays can be differentiated
    and trained).

    Attributes:
        bodies: The bodies it acts on (objects or names), in the order in which the function sees
            them.
        function: `function(pose, twist, t) -> (forces, torques)`; `pose.r` (k, 3), `pose.A` (k, 3,
            3), `twist.v` (k, 3) global, `twist.omega` (k, 3) body frame; forces (k, 3) [N] at the
            mass centers, global components; torques (k, 3) [N·m], body components.
    """

    bodies: Sequence[Body | str]
    function: Callable

    in_files: ClassVar[bool] = False

    def targets(self) -> tuple[Body | str, ...]:
        return tuple(self.bodies)

    def element(self, *bodies: Body) -> FunctionForce:
        k, dtype = len(bodies), default_dtype()
        what = f"force {self.name!r}"
        if not callable(self.function):
            raise ValueError(
                f"{what}: function must be callable, function(pose, twist, t), not "
                f"{self.function!r}"
            )
        zero = host.zeros((k, 3), dtype)
        pose = Pose(zero, host.broadcast_to(np.eye(3, dtype=dtype), (k, 3, 3)))
        args = (pose, Twist(zero, zero), np.zeros((), dtype))
        found = traced_shape(
            lambda *args: jax.tree.map(jnp.asarray, self.function(*args)), args, what
        )
        shapes = [jnp.shape(x) for x in jax.tree.leaves(found)]
        if not isinstance(found, (tuple, list)) or shapes != [(k, 3), (k, 3)]:
            returned = " and ".join(map(str, shapes)) or "nothing"
            raise ValueError(
                f"{what}: the function must return forces and torques of shape {(k, 3)} each, but "
                f"returned {returned}"
            )
        return FunctionForce(hoist(self.function, *args))
