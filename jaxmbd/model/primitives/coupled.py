"""Coupled: one joint coordinate is a polynomial of another, or a sum of several is prescribed."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar
from ..coordinates import AbstractAngle, Displacement
from ..state import Pose
from .base import AbstractPrimitive


class Coupled(AbstractPrimitive):
    """Coordinate 2 follows coordinate 1: Φ = x₂ - Σ c_k x₁ᵏ - f.

    Attributes:
        first: x₁, an angle or a displacement.
        second: x₂, likewise.
        coefficients: c, lowest power first, (n,).
        f: An offset of coordinate 2.
    """

    in_files: ClassVar[bool] = False
    couples: ClassVar[bool] = True
    shifts: ClassVar[bool] = True

    first: AbstractAngle | Displacement
    second: AbstractAngle | Displacement
    coefficients: Float[Array, " n"]
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return _size(self.second, length)

    def geometry(self, *poses: Pose) -> Scalar:
        x_1 = _value(self.first, poses)
        power, polynomial = jnp.ones_like(x_1), jnp.zeros_like(x_1)
        for k in range(self.coefficients.shape[0]):
            polynomial = polynomial + self.coefficients[k] * power
            power = power * x_1
        return _value(self.second, poses) - polynomial


class CoupledSum(AbstractPrimitive):
    """A weighted sum of coordinates is prescribed: Φ = Σ c_k x_k - f.

    Attributes:
        coordinates: x_k, angles or displacements.
        coefficients: c_k, (n,).
        f: The prescribed value.
    """

    in_files: ClassVar[bool] = False
    couples: ClassVar[bool] = True
    shifts: ClassVar[bool] = True

    coordinates: tuple[AbstractAngle | Displacement, ...]
    coefficients: Float[Array, " n"]
    f: Any = 0.0

    def row_size(self, length: Scalar) -> Scalar:
        return jnp.abs(self.coefficients) @ jnp.stack([_size(x, length) for x in self.coordinates])

    def geometry(self, *poses: Pose) -> Scalar:
        return self.coefficients @ jnp.stack([_value(x, poses) for x in self.coordinates])


def _value(coordinate: AbstractAngle | Displacement, poses: tuple[Pose, ...]) -> Scalar:
    i, j = coordinate.of
    return coordinate.value(poses[i], poses[j])


def _size(coordinate: AbstractAngle | Displacement, length: Scalar) -> Scalar:
    return length if isinstance(coordinate, Displacement) else jnp.ones_like(length)
