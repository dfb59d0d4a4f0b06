"""What pushes surfaces and stops apart that give way."""

import abc

import equinox as eqx
from jaxtyping import Float

from ...rotations.types import Array


class AbstractNormalForce(eqx.Module):
    """A force along the normal as a function of the depth δ and of its rate; zero where the gap is
    open, δ < 0. To be derived from; see `AbstractContact.normal_force`.
    """

    @abc.abstractmethod
    def elastic(self, depth: Float[Array, " n"]) -> Float[Array, " n"]:
        """The part of the force that has a potential."""

    @abc.abstractmethod
    def lost(self, depth: Float[Array, " n"], speed: Float[Array, " n"]) -> Float[Array, " n"]:
        """The other part, of depths and their rates."""

    @abc.abstractmethod
    def energy(self, depth: Float[Array, " n"]) -> Float[Array, " n"]:
        """The energy stored [J]."""

    def force(self, depth: Float[Array, " n"], speed: Float[Array, " n"]) -> Float[Array, " n"]:
        """The force of depths and their rates."""
        return self.elastic(depth) + self.lost(depth, speed)
