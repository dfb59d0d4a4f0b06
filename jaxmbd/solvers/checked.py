"""Linear solvers by name, and solutions that are verified."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .block_sparse import BlockFactors
from .dense import DenseFactors
from .saddle import SaddleMatrix

STRATEGIES = {"dense": DenseFactors, "block_sparse": BlockFactors}

# Unknowns up to which a failed block elimination is repeated by a dense one; its memory is reserved in every program.
_DENSE_LIMIT = 600


def choose_strategy(unknowns: int) -> str:
    """The faster strategy for so many unknowns: a dense one below about 60 (measured on chains and ladders)."""
    return "dense" if unknowns <= 60 else "block_sparse"


def factorise(matrix: SaddleMatrix, strategy: str, *, checked: bool = True):
    """Factors of a saddle matrix, an object with `solve`, `solve_transpose` and `solve_unregularised`.

    `checked` verifies every solution of a strategy that does not choose its pivots by size, see `CheckedFactors`.
    """
    factors = STRATEGIES[strategy].of(matrix)
    return CheckedFactors(matrix, factors) if checked and strategy != "dense" else factors


class CheckedFactors(eqx.Module):
    """Factors whose solutions are verified by their residual.

    A solution that fails is computed again by dense factors where the matrix is small enough, and is NaN otherwise.
    """

    matrix: SaddleMatrix
    factors: BlockFactors

    @property
    def regularisation(self) -> Float[Array, " m"] | None:
        return self.matrix.regularisation

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with K x = b, good enough to be refined."""
        return self._solve(self.matrix, self.factors.solve, b)

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with Kᵀ x = b, good enough to be refined."""
        return self._solve(self.matrix.transposed(), self.factors.solve_transpose, b)

    def solve_unregularised(self, b: Float[Array, " n"], *, transpose: bool = False) -> Float[Array, " n"]:
        """The solution without -E, refined once: right to rounding, and to second order in E."""
        matrix = self.matrix.transposed() if transpose else self.matrix
        solve = self.solve_transpose if transpose else self.solve
        x = solve(b)
        return x + solve(b - matrix.matvec(x))

    def _solve(self, matrix: SaddleMatrix, by_blocks, b):
        n = b.size - len(matrix.i)

        def failed(x):
            # Forces and constraint values differ in unit and size: each part has its own scale.
            excess = jnp.abs(b - matrix.matvec(x, regularised=True))
            scale = matrix.magnitudes().matvec(jnp.abs(x)) + jnp.abs(b)
            tolerance = jnp.sqrt(jnp.finfo(b.dtype).eps)
            good = jnp.max(excess[:n]) <= tolerance * jnp.max(scale[:n])
            return ~(good & (jnp.max(excess[n:], initial=0.0) <= tolerance * jnp.max(scale[n:], initial=0.0)))

        def again(state):
            return DenseFactors.of(matrix).solve(b), jnp.zeros((), bool)

        x = by_blocks(b)
        if b.size > _DENSE_LIMIT:
            return jnp.where(failed(x), jnp.nan, x)
        # A loop of at most one turn: under vmap it runs only while some member needs it.
        return jax.lax.while_loop(lambda state: state[1], again, (x, failed(x)))[0]
