"""Inputs of a mechanism: actuators, and loads on single bodies."""

import abc
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations import RA
from ..model.forces import AbstractActuator
from ..model.forces.base import OF_FORCE, OF_TORQUE
from ..model.state import Pose, State
from ..model.system import System

_LOADS = tuple(f"{kind}.{axis}" for kind in ("force", "torque") for axis in "xyz")


class AbstractInput(eqx.Module):
    """Something that one control number acts through."""

    name: eqx.AbstractVar[str]

    @abc.abstractmethod
    def unit(self, pose: Pose) -> Float[Array, "m 6"]:
        """Force (global) and torque (body frame) of control one on all bodies; `pose` has the
        ground last.
        """

    @property
    @abc.abstractmethod
    def units(self) -> tuple[str, str]:
        """The units of the control and of the rate that it delivers power at."""


class ActuatorInput(AbstractInput):
    """The control of an `Actuator`, or the push of a spring-damper-actuator."""

    element: AbstractActuator
    bodies: tuple[int, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def unit(self, pose: Pose) -> Float[Array, "m 6"]:
        index = np.array(self.bodies)
        force, torque = self.element.unit_wrench(Pose(pose.r[index], pose.A[index]))
        return (
            jnp.zeros((pose.r.shape[0], 6), pose.r.dtype)
            .at[index]
            .add(jnp.concatenate([force, torque], axis=1))
        )

    @property
    def units(self) -> tuple[str, str]:
        return self.element.control_units


class LoadInput(AbstractInput):
    """A component of force or torque on one body."""

    body: int = eqx.field(static=True)
    component: int = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def unit(self, pose: Pose) -> Float[Array, "m 6"]:
        return jnp.zeros((pose.r.shape[0], 6), pose.r.dtype).at[self.body, self.component].set(1.0)

    @property
    def units(self) -> tuple[str, str]:
        return OF_FORCE if self.component < 3 else OF_TORQUE


def collect_inputs(system: System, names: Sequence[str] | None) -> tuple[AbstractInput, ...]:
    """Inputs by name; every `Actuator`, `Servo` and driven tendon where no names are given."""
    known: dict[str, AbstractInput] = {}
    for stack in system.forces:
        if isinstance(stack.force, AbstractActuator):
            for k, name in enumerate(stack.names):
                element = jax.tree.map(lambda x, k=k: x[k] if eqx.is_array(x) else x, stack.force)
                known[name] = ActuatorInput(element=element, bodies=stack.bodies[k], name=name)
    if names is None:
        return tuple(
            x for x in known.values() if isinstance(x, ActuatorInput) and x.element.is_motor
        )
    for b, body in enumerate(system.bodies):
        known |= {
            f"{body}.{part}": LoadInput(body=b, component=k, name=f"{body}.{part}")
            for k, part in enumerate(_LOADS)
        }
    for name in names:
        if name not in known:
            actuators = (
                ", ".join(n for n, x in known.items() if isinstance(x, ActuatorInput)) or "none"
            )
            raise ValueError(
                f"unknown input {name!r}; the actuators are {actuators}; for a load on a body "
                "write BODY.force.x or BODY.torque.x"
            )
    return tuple(known[name] for name in names)


def unit_wrenches(inputs: Sequence[AbstractInput], pose: Pose) -> Float[Array, "k nb 6"]:
    """The wrenches of all inputs at control one; `pose` of the moving bodies."""
    padded = RA().with_ground(pose)
    if not inputs:
        return jnp.zeros((0, pose.r.shape[0], 6), pose.r.dtype)
    return jnp.stack([x.unit(padded)[:-1] for x in inputs])


def actuator_wrenches(
    system: System, state: State, names: Sequence[str] | None = None
) -> Float[Array, "k nb 6"]:
    """Force [N], global, and torque [N·m], body frame, of each actuator on each body at unit
    control.

    For a platform on legs without mass this is the transpose of its Jacobian: leg rates are its
    product with twists (v, omega), and where it loses rank the platform is singular.

    Args:
        system: The mechanism.
        state: Poses; velocities are not used.
        names: As in `linearize`, spring-damper-actuators included; by default every `Actuator`.
    """
    return unit_wrenches(collect_inputs(system, names), state.pose)
