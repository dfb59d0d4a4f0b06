"""Dense LU factorization: the strategy for small systems."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from . import lapack
from .linear_solve import linear_solve
from .saddle import SaddleMatrix


class DenseFactors(eqx.Module):
    """LU factors with row permutation; they serve the matrix and its transpose.

    Attributes:
        lu: Both factors in one array.
        permutation: Order of the rows.
        regularization: E of a `SaddleMatrix` that was factored with -E on its last diagonal
            entries, or None.
    """

    lu: Float[Array, "n n"]
    permutation: Int[Array, " n"]
    regularization: Float[Array, " m"] | None = None

    @staticmethod
    def of(matrix: SaddleMatrix | Float[Array, "n n"]) -> "DenseFactors":
        saddle = isinstance(matrix, SaddleMatrix)
        whole = jax.lax.stop_gradient(matrix.dense() if saddle else matrix)
        factors, permutation = lapack.lu(whole)
        return DenseFactors(factors, permutation, matrix.regularization if saddle else None)

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with K x = b."""
        return lapack.lu_solve(self.lu, self.permutation, b)

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with Kᵀ x = b."""
        return lapack.lu_solve_transposed(self.lu, self.permutation, b)

    def solve_unregularized(
        self, b: Float[Array, " n"], *, transpose: bool = False
    ) -> Float[Array, " n"]:
        """The solution without -E, to second order in E: one step of refinement whose residual is
        known, E y.
        """
        solve = self.solve_transpose if transpose else self.solve
        x = solve(b)
        if self.regularization is None:
            return x
        n = x.size - self.regularization.size
        return x - solve(jnp.concatenate([jnp.zeros(n, x.dtype), self.regularization * x[n:]]))

    def reciprocal_growth(self) -> Float[Array, ""]:
        """Smallest over largest pivot: near rounding when the matrix is singular."""
        pivots = jnp.abs(jnp.diagonal(self.lu))
        return jnp.min(pivots) / jnp.max(pivots)


def dense_solve(A: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """X with A x = b, differentiable in both."""
    return linear_solve(lambda x: A @ x, DenseFactors.of(A), b)
