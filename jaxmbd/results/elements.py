"""What force elements did in a motion: forces, lengths or angles, rates, power."""

from collections.abc import Collection
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations import RA
from ..model.compiled import Compiled
from ..model.forces import ForceStack, Output
from ..model.forces.base import AbstractForce
from ..model.names import ElementsByName
from ..model.readable import counted, readable
from ..model.state import Pose, State, Twist
from ..model.switches import switched
from ..model.system import System
from ..rotations.types import Scalar
from ..xla.indexing import take
from .by_rows import by_rows
from .moment import Moment

# Units of what an element does, which is zero while it is switched off.
_ACTIONS = ("N", "N·m", "N or N·m", "W")


class ElementMotion(eqx.Module):
    """Outputs of a force element over a motion.

    Every element has outputs of its own, which are attributes here: `power` [W], which it gives to
    its bodies, and among others

        force, length, rate    spring, damper, tendon, and in a `Translational` joint a servo, a
                               motor or a stop [N, m, m/s]; a `SpringDamper` pulls where positive,
                               others push along the coordinate
        torque, angle, rate    the same about an axis, on body j [N·m, rad, rad/s]
        force, torque          of friction on body j, of a load, global, (T, 3); of a `UserForce`
                               on its k bodies as it returns them, (T, k, 3)
        force, gap, rate,      of a contact with stiffness at its n places, (T, n), and the friction
        friction               on body i, global, (T, n, 3)

    Attributes:
        outputs: The same with names and units.
    """

    outputs: tuple[Output, ...]

    def __repr__(self) -> str:
        return readable(self, _names_and_units)

    @property
    def units(self) -> dict[str, str]:
        """Unit of every output by its name."""
        return {x.name: x.unit for x in self.outputs}

    def __getattr__(self, name: str) -> Float[Array, "T *n"]:
        outputs = () if name.startswith("_") else vars(self).get("outputs", ())
        for output in outputs:
            if output.name == name:
                return output.value
        known = ", ".join(x.name for x in outputs)
        raise AttributeError(f"this element has no {name!r}; it has {known}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.units]


def _names_and_units(motion: ElementMotion) -> str:
    found = ", ".join(f"{x.name} [{x.unit}]" for x in motion.outputs)
    return f"ElementMotion: {counted(len(motion.outputs[0].value), 'row')} of {found}"


def element_motions(system: System, states: State, moments: Moment) -> dict[str, ElementMotion]:
    """All elements that say something, by name."""
    labels = element_labels(system)
    if not any(labels):
        return ElementsByName()
    values = by_rows(_values, system, states, moments)

    def one(k: int, own: tuple[Label, ...], found: tuple[Array, ...]) -> ElementMotion:
        outputs = zip(own, found, strict=True)
        return ElementMotion(
            tuple(Output(x.name, x.unit, value[:, k], x.components) for x, value in outputs)
        )

    return ElementsByName(
        (name, one(k, own, found))
        for stack, own, found in zip(system.forces, labels, values, strict=True)
        for k, name in enumerate(stack.names)
        if own
    )


def without(found: dict[str, ElementMotion], efforts: Collection[str]) -> dict[str, ElementMotion]:
    """The same, with NaN for what elements do as described where an analysis has found another
    effort of theirs, by names such as "motor" or, of a load, "push.force.x".
    """
    owners = {name for name in found for x in efforts if x == name or x.startswith(f"{name}.")}
    if not owners:
        return found

    def unknown(motion: ElementMotion) -> ElementMotion:
        return ElementMotion(
            tuple(
                Output(x.name, x.unit, x.value * jnp.nan, x.components) if x.unit in _ACTIONS else x
                for x in motion.outputs
            )
        )

    return ElementsByName((name, unknown(x) if name in owners else x) for name, x in found.items())


class Label(NamedTuple):
    """What an output is, see `Output`; `shape` is that of its value."""

    name: str
    unit: str
    components: tuple[str, ...]
    shape: tuple[int, ...]


def element_labels(system: System) -> list[tuple[Label, ...]]:
    """What the elements of every stack say; no value is computed."""
    nb, dtype = system.nb, system.dtype
    pose = Pose(jnp.zeros((nb + 1, 3), dtype), jnp.zeros((nb + 1, 3, 3), dtype))
    twist, t = Twist(pose.r, pose.r), jnp.zeros((), dtype)

    def labels(stack: ForceStack) -> tuple[Label, ...]:
        found = eqx.filter_eval_shape(_of_stack, stack, pose, twist, t)
        return tuple(Label(x.name, x.unit, x.components, x.value.shape[1:]) for x in found)

    return [labels(stack) for stack in system.forces]


def _of_stack(stack: ForceStack, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
    local = jax.tree.map(lambda x: take(x, stack.index), (pose, twist))

    def one(element: AbstractForce, pose: Pose, twist: Twist) -> tuple[Output, ...]:
        found = element.outputs(pose, twist, t)
        return tuple(
            eqx.tree_at(lambda x: x.value, x, switched(element.switch, x.value))
            if x.unit in _ACTIONS
            else x
            for x in found
        )

    return stack.each(one, *local)


@Compiled
def _values(system: System, states: State, moments: Moment):
    """The outputs of all elements at all instants, by stack."""

    def one(state: State, moment: Moment):
        pose = RA().with_ground(state.pose)
        zero = jnp.zeros((1, 3), system.dtype)
        twist = Twist(jnp.concatenate([state.v, zero]), jnp.concatenate([state.omega, zero]))
        stacks, t = moment.of(system, state).forces, moment.t
        return [tuple(x.value for x in _of_stack(stack, pose, twist, t)) for stack in stacks]

    return jax.vmap(one)(states, moments)
