"""Events at which force elements are not smooth, so that no step runs across one."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...formulations import RA
from ...model.actions import Restart
from ...model.events import Event
from ...model.state import Pose, State, Twist
from ...model.system import System
from ...rotations.types import Scalar
from ...xla.indexing import take

# Of each kink: rests and chatter end a run instead of dividing steps for ever.
_MOST = 256


class Kink(eqx.Module):
    """What such an event looks at, by its place among the force elements.

    Attributes:
        stack: Number of the block of elements.
        element: Number in the block.
        value: Number among what `AbstractForce.kinks` returns.
    """

    stack: int = eqx.field(static=True)
    element: int = eqx.field(static=True)
    value: int = eqx.field(static=True)

    def __call__(self, pose: Pose, twist: Twist, z: Array | None, t: Scalar) -> Scalar:
        """Unused: all kinks are found together."""
        raise NotImplementedError


def kink_events(system: System) -> list[Event]:
    """One event for every kink of every force element, "NAME.kink", at which the method starts
    anew.
    """
    n, dtype = system.nb + 1, system.dtype
    r, A, t = (jnp.zeros(shape, dtype) for shape in ((n, 3), (n, 3, 3), ()))
    shapes = jax.eval_shape(lambda *x: kinks(system, *x), Pose(r, A), Twist(r, r), t)
    found = []
    for k, (stack, values) in enumerate(zip(system.forces, shapes, strict=True)):
        for m, name in enumerate(stack.names):
            count = values.shape[1]
            for i in range(count):
                title = f"{name}.kink" if count == 1 else f"{name}.kink{i + 1}"
                found.append(Event(title, Kink(k, m, i), action=Restart(), most=_MOST))
    return found


def kinks(system: System, pose: Pose, twist: Twist, t: Scalar) -> list[Float[Array, "n k"]]:
    """The kinks of all force elements, block by block; `pose` and `twist` have nb + 1 rows."""
    found = []
    for stack in system.forces:
        local = jax.tree.map(lambda x, index=stack.index: take(x, index), (pose, twist))
        found.append(stack.each(lambda element, p, w: element.kinks(p, w, t), *local))
    return found


def kinks_at(system: System, state: State, t: Scalar) -> list[Float[Array, "n k"]]:
    """The kinks of all force elements at an instant, whose inputs and turns the system has."""
    zero = jnp.zeros((1, 3), system.dtype)
    twist = Twist(jnp.concatenate([state.v, zero]), jnp.concatenate([state.omega, zero]))
    return kinks(system, RA().with_ground(state.pose), twist, t)
