"""What a force element is: wrenches on a few bodies as a function of their poses, twists and
time.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ...rotations.types import Array, Scalar
from ...rotations.vectors import cross
from ..stacking import each
from ..state import Pose, Twist
from ..switches import Switch, switched

# Units of an effort and of the rate that it delivers power at.
OF_FORCE, OF_TORQUE, OF_EITHER = ("N", "m/s"), ("N·m", "rad/s"), ("N or N·m", "m/s or rad/s")


class Output(eqx.Module):
    """An output quantity of a force element, see `AbstractForce.outputs`.

    Attributes:
        name: What it is: "force", "length", ...
        unit: Of the value; "-" without dimension.
        value: A number, or an array.
        components: Names of the entries along the last axis of an array; none where they are
            places or bodies.
    """

    name: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    value: Float[Array, "*n"]
    components: tuple[str, ...] = eqx.field(static=True, default=())

    @staticmethod
    def vector(name: str, unit: str, value: Float[Array, "*n 3"]) -> "Output":
        """One with components along x, y and z."""
        return Output(name, unit, value, ("x", "y", "z"))


class AbstractForce(eqx.Module):
    """A force element on k bodies, written once on poses.

    Class attributes:
        stiff: Whether a step has to know its derivative to converge at all, as with beams.

    Attributes:
        switch: Whether it acts, where that may change; set by the program.
    """

    stiff: ClassVar[bool] = False

    switch: Switch | None = eqx.field(default=None, kw_only=True)

    @abc.abstractmethod
    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
        """Forces [N], global components, and torques [N·m] about the mass centers, body components.

        `pose` and `twist` have a leading axis over the element's k bodies.
        """

    def acting(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
        """`wrench`, or zeros where the element is switched off."""
        return switched(self.switch, self.wrench(pose, twist, t))

    def potential(self, pose: Pose) -> Scalar:
        """Potential energy [J]; zero for elements that have none."""
        return self.stored(self.invariants(pose))

    # An energy-momentum method needs the potential apart from the rest of the wrench, in a form
    # that it can difference: a function of numbers that are quadratic in positions and columns of
    # A, and do not change when all bodies move as one.

    def invariants(self, pose: Pose) -> Float[Array, " p"]:
        """The numbers on which the potential depends; none by default."""
        return jnp.zeros(0, pose.r.dtype)

    def stored(self, invariants: Float[Array, " p"]) -> Scalar:
        """The potential energy [J] at these numbers."""
        return jnp.zeros((), invariants.dtype)

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """Output quantities of the element for `Solution.element`, tables and plots.

        By default its forces [N], global, and torques [N·m], body frame, on the bodies, and the
        power that it gives to them.
        """
        force, torque = self.wrench(pose, twist, t)
        return (
            Output.vector("force", "N", force),
            Output.vector("torque", "N·m", torque),
            self.power(pose, twist, t),
        )

    def power(self, pose: Pose, twist: Twist, t: Scalar) -> Output:
        """Power delivered to the bodies [W]; negative if the element takes power from them."""
        return Output("power", "W", power_of(self.wrench(pose, twist, t), twist))

    def line(self) -> tuple[Float[Array, "*n 3"], Float[Array, "*n 3"]] | None:
        """Points in its two bodies between which it is drawn as a spring; None for an element that
        is not drawn.
        """
        return None

    def dissipative(self) -> "AbstractForce | None":
        """The element without its potential; None where nothing is left."""
        return self

    def tangent(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Array, Array] | None:
        """Derivatives of the wrench by (δr, δθ̄) and by (v, ω̄) of its bodies, (k, 6, k, 6) each, for
        an element that has them at less cost than automatic differentiation takes; else None.
        """
        return None

    def kinks(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " n"]:
        """Values at whose zeros the wrench is not smooth, such as the slack of a rope; none by
        default. `simulate(..., split_kinks=True)` divides steps where one of them changes sign.
        """
        return jnp.zeros(0, pose.r.dtype)

    def broken(self, pose: Pose) -> Bool[Array, ""]:
        """Whether its formula does not hold at this pose; a run then fails and names it."""
        return jnp.zeros((), bool)


class AbstractActuator(AbstractForce):
    """A force element with one control number, its push or torque, beside whatever else it does."""

    @property
    def is_motor(self) -> bool:
        """Whether it is there for its control: an input of a linearization unless others are
        named.
        """
        return False

    @property
    def control_units(self) -> tuple[str, str]:
        """Units of the control and of the rate that it delivers power at."""
        return OF_EITHER

    @abc.abstractmethod
    def unit_wrench(self, pose: Pose) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
        """The wrench of control one: what an input of a linearized mechanism is multiplied with."""

    @abc.abstractmethod
    def control(self, t: Scalar) -> Scalar:
        """The control as described [N] or [N·m]."""


class ForceStack(eqx.Module):
    """Force elements of equal structure: `force` has a leading axis n, `bodies` (n, k) are static
    indices.
    """

    force: Any
    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    @property
    def index(self) -> np.ndarray:
        """Body indices, (n, k); the ground is nb."""
        return np.array(self.bodies, int).reshape(len(self.bodies), -1)

    @property
    def members(self) -> Any:
        """The elements, with a leading axis."""
        return self.force

    def each(self, function, *args):
        """`function(element, *args of that element)` for all elements, with a leading axis of
        elements.
        """
        return each(self.force, function, *args)


def power_of(
    wrench: tuple[Float[Array, "k 3"], Float[Array, "k 3"]], twist: Twist
) -> Float[Array, ""]:
    """The power of forces and torques on bodies that move [W]; of the wrench of a generalized force
    of one, the rate of its coordinate.
    """
    force, torque = wrench
    return jnp.sum(force * twist.v) + jnp.sum(torque * twist.omega)


def point_wrench(A: Float[Array, "3 3"], force: Float[Array, "3"], arm: Float[Array, "3"]):
    """A force [N] at `arm` [m] from the mass center (both global) as a force and a body-frame
    torque.
    """
    return force, A.T @ cross(arm, force)
