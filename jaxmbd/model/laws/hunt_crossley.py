"""The force of a stop or a contact that gives way."""

import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar
from .normal_force import AbstractNormalForce


class HuntCrossley(AbstractNormalForce):
    """A spring and a damper that act in compression alone.

        F = k δ^n (1 + d δ̇),  F ≥ 0

    δ is the depth, zero where the gap is open. The damping grows with the depth, so the force is
    continuous where an impact begins.

    Attributes:
        stiffness: k [N/m^n], of an angle [N·m/rad^n].
        damping: d [s/m], of an angle [s/rad].
        exponent: n [-].

    Reference:
        Hunt, Crossley, "Coefficient of restitution interpreted as damping in vibroimpact", Journal
        of Applied Mechanics 42 (1975), 440-445.
    """

    stiffness: Scalar
    damping: Scalar
    exponent: Scalar

    def elastic(self, depth: Float[Array, " n"]) -> Float[Array, " n"]:
        """The part of the force that has a potential, k δ^n."""
        return self._power(depth, self.exponent) * self.stiffness

    def lost(self, depth: Float[Array, " n"], speed: Float[Array, " n"]) -> Float[Array, " n"]:
        """The other part; its least value is minus the elastic one."""
        return self.elastic(depth) * jnp.maximum(self.damping * speed, -1.0)

    def energy(self, depth: Float[Array, " n"]) -> Float[Array, " n"]:
        """The energy stored, k δ^(n + 1) / (n + 1) [J]."""
        power = self.exponent + 1.0
        return self._power(depth, power) * (self.stiffness / power)

    @staticmethod
    def _power(depth: Float[Array, " n"], exponent: Scalar) -> Float[Array, " n"]:
        """A power of what is positive, zero elsewhere; the logarithm in its derivatives must not
        meet zero.
        """
        closed = depth > 0.0
        return jnp.where(closed, jnp.where(closed, depth, 1.0) ** exponent, 0.0)
