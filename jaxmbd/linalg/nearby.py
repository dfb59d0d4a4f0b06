"""Solutions by factors of a matrix nearby, refined until they solve the matrix at hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..rotations.types import Scalar
from ..xla.lazy_cond import where_needed
from .block_sparse import BlockFactors
from .dense import DenseFactors
from .saddle import SaddleMatrix
from .small_matrices import pivoted_inverse, times
from .strategy import CheckedFactors, factorize

_CONTRACTION = 0.1  # Refinement goes on while it makes the residual smaller by this factor
_MOST = 8  # and for so many turns.
# Of rounding, times what the terms of the residual amount to: where refinement ends, and what is
# accepted where it gets no further.
_DONE, _ENOUGH = 4.0, 64.0
# Unknowns up to which a matrix that is not near is inverted by a loop of our own. That is slower
# than a library, and rare; a call of a library cuts the backward pass of every step in two.
_SMALL = 44

# Turns, the solution, its residual, and the size of that after this turn and before.
_Refinement = tuple[
    Int[Array, ""], Float[Array, " n"], Float[Array, " n"], Float[Array, ""], Float[Array, ""]
]


class NearbyFactors(eqx.Module):
    """Solutions of K x = b by factors of a matrix M near K, K's regularization left out.

    Where M is too far from K, or the equations contradict each other, K is factored after all.

    Attributes:
        matrix: K.
        factors: Those of M.
        strategy: How K is factored if need be.
    """

    matrix: SaddleMatrix
    factors: BlockFactors | DenseFactors | CheckedFactors
    strategy: str = eqx.field(static=True)

    def solve_unregularized(
        self, b: Float[Array, " n"], *, transpose: bool = False
    ) -> Float[Array, " n"]:
        """The solution without -E, right to rounding."""
        matrix = self.matrix.transposed() if transpose else self.matrix
        solve = self.factors.solve_transpose if transpose else self.factors.solve
        n = b.size - len(matrix.bodies)
        x = solve(b)
        eps = jnp.finfo(b.dtype).eps

        def largest(v: Float[Array, " n"]) -> Float[Array, "2"]:
            return jnp.stack([jnp.max(jnp.abs(v[:n])), jnp.max(jnp.abs(v[n:]), initial=0.0)])

        # Forces and constraint values differ in unit and size: each part has its own scale.
        scale = largest(matrix.magnitude(x) + jnp.abs(b))
        scale = jnp.where(scale > 0.0, scale, 1.0)

        def rest_of(x: Float[Array, " n"]) -> tuple[Float[Array, " n"], Scalar]:
            rest = b - matrix.matvec(x)
            return rest, jnp.max(largest(rest) / scale)

        def goes_on(state: _Refinement) -> Bool[Array, ""]:
            k, _, _, size, before = state
            return (k < _MOST) & (size > _DONE * eps) & (size < _CONTRACTION * before)

        def refine(state: _Refinement) -> _Refinement:
            k, x, rest, size, _ = state
            x = x + solve(rest)
            return k + 1, x, *rest_of(x), size

        start = jnp.zeros((), int), x, *rest_of(x), jnp.full((), jnp.inf, b.dtype)
        _, x, _, size, _ = jax.lax.while_loop(goes_on, refine, start)

        def again() -> Float[Array, " n"]:
            if b.size > _SMALL:
                factors = factorize(self.matrix, self.strategy)
                return factors.solve_unregularized(b, transpose=transpose)
            inverse = pivoted_inverse(matrix.dense())
            y = times(inverse, b)
            return y + times(inverse, b - matrix.matvec(y))

        return where_needed(~(size <= _ENOUGH * eps), again, x)


def near_or_exact(
    matrix: SaddleMatrix, nearby: SaddleMatrix, strategy: str
) -> NearbyFactors | CheckedFactors | BlockFactors | DenseFactors:
    """The faster factors for a few solutions with a matrix: its own, or those of one nearby that
    suits range-space elimination.
    """
    fast = strategy == "range_space" and nearby.bodies and not nearby.couplings
    if not fast or jnp.finfo(matrix.diagonal.dtype).bits != 64:
        return factorize(matrix, strategy)
    return NearbyFactors(matrix, factorize(nearby, strategy, checked=False), strategy)
