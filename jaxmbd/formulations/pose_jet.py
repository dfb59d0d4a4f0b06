"""Poses as quadratic functions of a few local parameters.

A pose is differentiated twice by its own coordinates, once per body; a primitive then sees
polynomials of the local numbers of its bodies, whatever the coordinates are.
"""

import equinox as eqx
from jaxtyping import Array, Float

from ..model.state import Pose


class PoseJet(eqx.Module):
    """A pose, (r, A) as twelve numbers, as a quadratic function of k local parameters.

    Attributes:
        value: (..., 12).
        first: (..., 12, k).
        second: (..., 12, k, k), of the first derivatives (the first k) along a move (the second);
            not symmetric on a group.
    """

    value: Float[Array, "*n 12"]
    first: Float[Array, "*n 12 k"]
    second: Float[Array, "*n 12 k k"]

    def at(self, delta: Float[Array, " k"]) -> Pose:
        """The pose at small parameters, exact in value and two derivatives at zero."""
        return as_pose(self.value + self.first @ delta + 0.5 * (self.second @ delta) @ delta)


def as_pose(numbers: Float[Array, "12"]) -> Pose:
    """Twelve numbers, r and A row by row, as a pose."""
    return Pose(numbers[:3], numbers[3:].reshape(3, 3))
