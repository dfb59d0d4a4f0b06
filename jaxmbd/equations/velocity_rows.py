"""Rows at velocity level, B u = b, of one stack of primitives by automatic differentiation of their
rates.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, Coordinates
from ..linalg import Coupling
from ..model.primitives import AbstractVelocityPrimitive, PrimitiveStack
from ..rotations.types import Scalar

# Coordinates and velocities of one body.
BodyState = tuple[Coordinates, Float[Array, " d"]]


def rate_of(formulation: AbstractFormulation) -> Callable[..., Scalar]:
    """B u - b of one primitive at velocity level, from (q, u) of each of its bodies."""

    def rate(primitive: AbstractVelocityPrimitive, *states: BodyState) -> Scalar:
        poses = tuple(formulation.pose(q) for q, _ in states)
        return (
            primitive.rate(poses, tuple(formulation.twist(q, u) for q, u in states))
            - primitive.prescribed
        )

    return rate


def velocity_rows(
    formulation: AbstractFormulation, stack: PrimitiveStack, padded: Coordinates
) -> Float[Array, "n k d"]:
    """B of one stack at velocity level, B u being linear in the velocities."""
    zero = jnp.zeros((stack.width, formulation.size), padded_dtype(padded))

    def row(primitive: AbstractVelocityPrimitive, *q: Coordinates) -> Float[Array, "k d"]:
        def rate(u: Float[Array, "k d"]) -> Scalar:
            return rate_of(formulation)(primitive, *zip(q, u, strict=True))

        return jax.grad(rate)(zero)

    return stack.each(row, *stack.local(padded))


def padded_dtype(padded: Coordinates) -> np.dtype:
    """The dtype of coordinates."""
    return jax.tree.leaves(padded)[0].dtype


def velocity_variation(
    formulation: AbstractFormulation,
    stack: PrimitiveStack,
    padded: Coordinates,
    weights: Float[Array, " n"],
) -> Coupling:
    """Derivative of Bᵀ λ by the coordinates."""
    zero = jnp.zeros((stack.width, formulation.size), padded_dtype(padded))

    def block(
        primitive: AbstractVelocityPrimitive, weight: Scalar, *q: Coordinates
    ) -> Float[Array, "k d k d"]:
        def force(delta: Float[Array, "k d"]) -> Float[Array, "k d"]:
            moved = [formulation.retract(x, d) for x, d in zip(q, delta, strict=True)]
            return jax.grad(
                lambda u: weight * rate_of(formulation)(primitive, *zip(moved, u, strict=True))
            )(zero)

        return jax.jacfwd(force)(zero)

    return Coupling(stack.each(block, weights, *stack.local(padded)), stack.bodies)


def rate_variation(
    formulation: AbstractFormulation,
    stack: PrimitiveStack,
    padded: Coordinates,
    padded_u: Float[Array, "b d"],
) -> Float[Array, "n k d"]:
    """Derivatives of B u - b of one stack by the coordinates."""

    def row(primitive: AbstractVelocityPrimitive, *states: BodyState) -> Float[Array, "k d"]:
        def rate(delta: Float[Array, "k d"]) -> Scalar:
            moved = [
                (formulation.retract(q, d), u) for (q, u), d in zip(states, delta, strict=True)
            ]
            return rate_of(formulation)(primitive, *moved)

        return jax.grad(rate)(jnp.zeros((len(states), formulation.size), padded_u.dtype))

    return stack.each(row, *stack.local((padded, padded_u)))


def velocity_gamma_of(formulation: AbstractFormulation) -> Callable[..., Scalar]:
    """γ of one primitive at velocity level, from (q, u) of each of its bodies."""

    def value(primitive: AbstractVelocityPrimitive, *states: BodyState) -> Scalar:
        def rate(s: Scalar) -> Scalar:
            moved = [(formulation.retract(q, s * u), u) for q, u in states]
            return rate_of(formulation)(primitive, *moved)

        zero = jnp.zeros((), padded_dtype(states))
        return -jax.jvp(rate, (zero,), (jnp.ones_like(zero),))[1]

    return value
