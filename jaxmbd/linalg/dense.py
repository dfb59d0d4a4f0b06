"""Dense LU factorization: the strategy for small systems."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

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
        lu, _, permutation = jax.lax.linalg.lu(matrix.dense() if saddle else matrix)
        return DenseFactors(lu, permutation, matrix.regularization if saddle else None)

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with K x = b."""
        return _lu_solve(self.lu, self.permutation, b)

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with Kᵀ x = b."""
        y = jax.lax.linalg.triangular_solve(
            self.lu, b[:, None], left_side=True, lower=False, transpose_a=True
        )
        y = jax.lax.linalg.triangular_solve(
            self.lu, y, left_side=True, lower=True, transpose_a=True, unit_diagonal=True
        )
        return jnp.zeros_like(b).at[self.permutation].set(y[:, 0])

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


def _lu_solve(lu, permutation, b):
    y = jax.lax.linalg.triangular_solve(
        lu, b[permutation][:, None], left_side=True, lower=True, unit_diagonal=True
    )
    return jax.lax.linalg.triangular_solve(lu, y, left_side=True, lower=False)[:, 0]
