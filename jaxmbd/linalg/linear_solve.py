"""Solutions of linear systems that can be differentiated, given factors that serve the matrix and
its transpose.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Vector = Float[Array, " n"]
Tree = TypeVar("Tree")


@runtime_checkable
class TwoWayFactors(Protocol):
    """Factors of a matrix K that serve it and its transpose."""

    def solve(self, b: Vector, /) -> Vector:
        """X with K x = b."""
        ...

    def solve_transpose(self, b: Vector, /) -> Vector:
        """X with Kᵀ x = b."""
        ...


def linear_solve(
    matvec: Callable[[Array], Array],
    factors: TwoWayFactors,
    b: Vector,
    corrections: int | None = None,
) -> Vector:
    """The solution of matvec(x) = b, differentiable in what `matvec` closes over; `factors` serve
    both directions. `corrections` of its residual are as many as factors of this matrix need, or
    given for those of one nearby.
    """
    factors = held(factors)
    # Factors may be regularized by about √eps, the answer should not be: every correction
    # multiplies what is left of that by √eps over the smallest eigenvalue, which redundant rows
    # make small. In double precision other factors need a correction for rounding alone.
    if corrections is None:
        regular = getattr(factors, "regularization", None) is None
        corrections = 1 if regular and jnp.finfo(b.dtype).bits > 32 else 2
    return jax.lax.custom_linear_solve(
        matvec,
        b,
        solve=lambda mv, b: _refined(mv, factors.solve, b, corrections),
        transpose_solve=lambda mv, b: _refined(mv, factors.solve_transpose, b, corrections),
    )


def solved(factors: TwoWayFactors, b: Vector) -> Vector:
    """K⁻¹ b by factors that have no derivative: linear in b, in forward and in reverse mode.

    Operations of a solver itself, such as those of LAPACK, cannot be transposed.
    """
    factors = held(factors)
    return jax.lax.custom_linear_solve(
        lambda x: x,  # stands in for K, which has no derivative here
        b,
        solve=lambda _, b: factors.solve(b),
        transpose_solve=lambda _, b: factors.solve_transpose(b),
    )


def held(tree: Tree) -> Tree:
    """The tree with no derivative in its arrays; functions among its leaves stay as they are."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, tree)


def _refined(
    matvec: Callable[[Array], Array], solve: Callable[[Array], Array], b: Vector, corrections: int
) -> Vector:
    """Iterative refinement, as a loop: one solve is a large part of a program."""

    def corrected(_: Array, x: Vector) -> Vector:
        return x + solve(b - matvec(x))

    return jax.lax.fori_loop(0, corrections, corrected, solve(b))
