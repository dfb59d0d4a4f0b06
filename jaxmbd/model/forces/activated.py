"""A servo whose command acts by way of a state: it lags behind, or is integrated."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar
from ..coordinates import Angle, Displacement
from ..motions import Motion, value_at
from .along import within
from .along_states import AbstractAlongCoordinate
from .stateful import StateLabel, StateRule

LAG, INTEGRATOR = "lag", "integrator"
# The time in which an activation beyond its range comes back to it [s]: short beside what a
# mechanism does, and no stiffer than a step of a millisecond takes.
_RETURN_TIME = 1e-3


class ActivatedServo(AbstractAlongCoordinate):
    """An effort along a joint's coordinate x that depends on an activation a.

        f = gain a + offset - (stiffness + stiffness_gain a) x - (damping + damping_gain a) ẋ

    with τ ȧ = u - a, or ȧ = u. Within its range the activation is that; what acts never leaves it.

    Attributes:
        coordinate: x.
        rule: Of a.
        command: u, a number or a motion.
        gain, stiffness, damping, offset, stiffness_gain, damping_gain: As in the formula.
        time_constant: τ [s]; None for an integrator.
        control_range, activation_range, effort_range: Of u, a and f, (2,), or None.
        rests: Whether ż = 0 determines a, as it does not of an integrator.
    """

    most_iterations: ClassVar[int] = 3
    linear_in_pieces: ClassVar[bool] = True

    coordinate: Angle | Displacement
    rule: StateRule
    command: Scalar | Motion
    gain: Scalar
    stiffness: Scalar
    damping: Scalar
    offset: Scalar
    stiffness_gain: Scalar
    damping_gain: Scalar
    time_constant: Scalar | None
    control_range: Float[Array, "2"] | None
    activation_range: Float[Array, "2"] | None
    effort_range: Float[Array, "2"] | None
    rests: bool = eqx.field(static=True)

    @property
    def linear(self) -> bool:
        return self.activation_range is None

    def labels(self) -> tuple[StateLabel, ...]:
        return (StateLabel("activation", "-"),)

    def rates_at(
        self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        u = within(value_at(self.command, t), self.control_range)
        rates = jnp.full_like(z, u) if self.time_constant is None else (u - z) / self.time_constant
        if self.activation_range is None:
            return rates
        return rates + (within(z, self.activation_range) - z) / _RETURN_TIME

    def effort(self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        a = within(z[0], self.activation_range)
        effort = self.gain * a + self.offset - (self.stiffness + self.stiffness_gain * a) * x
        return within(effort - (self.damping + self.damping_gain * a) * rate, self.effort_range)
