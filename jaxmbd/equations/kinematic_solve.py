"""Solves with rows that determine every velocity, R x = b and Rᵀ λ = c, by either strategy for
linear systems.

Dense: R itself where it is square, else its normal equations. Block-sparse: the saddle matrix [[W,
Rᵀ], [R, -E]] with any weights W, whose solution is the same where R determines x. What is factored
has no units: rows are divided by their sizes, and coordinates count in `System.units`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..formulations import AbstractFormulation
from ..formulations.base import Coordinates
from ..linalg import DenseFactors, SaddleMatrix, by_size, factorize, linear_solve
from ..linalg.linear_solve import solved
from ..linalg.saddle import apply_rows, apply_tangent, scatter_rows
from ..linalg.small_matrices import times_last_transposed
from ..linalg.strategy import SaddleFactors
from ..model.system import System
from .index1 import minimum_norm, saddle_matrix
from .rows import dense, row_bodies, row_sizes, rows

# Pivots this much smaller than the largest mean a Jacobian that has lost rank, not a badly scaled
# one.
_SINGULAR = 1e-11


def determining_rows(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    increment: Float[Array, "nb d"] | None = None,
    sizes: Float[Array, " m"] | None = None,
) -> "DenseRows | SparseRows":
    """The rows at q, with their factors.

    With `increment`, the argument of the `retract` that led to q, rows are those by the increment.
    `sizes` are those that the rows are divided by, where not those at q.
    """
    count = len(row_bodies(formulation, system))
    small = by_size(system.nb * formulation.size + count) == "dense"
    dense = system.linear_solver == "dense" or (system.linear_solver == "range_space" and small)
    return (DenseRows if dense else SparseRows).of(formulation, system, q, increment, sizes)


class DenseRows(eqx.Module):
    """R as one array.

    Attributes:
        rows: R without units.
        factors: Of it, or of its normal equations.
        units: Of the coordinates, (n,).
        sizes: Of the rows.
    """

    rows: Float[Array, "m n"]
    factors: DenseFactors
    units: Float[Array, " n"]
    sizes: Float[Array, " m"]

    @staticmethod
    def of(
        formulation: AbstractFormulation,
        system: System,
        q: Coordinates,
        increment: Float[Array, "nb d"] | None,
        sizes: Float[Array, " m"] | None,
    ) -> "DenseRows":
        blocks = rows(formulation, system, q)
        wide = dense(formulation, system, blocks)
        sizes = row_sizes(formulation, system, blocks) if sizes is None else sizes
        if increment is not None and formulation.moves_on_manifold:
            tangent = jax.vmap(formulation.tangent)(increment)
            assert tangent is not None
            shaped = wide.reshape(-1, system.nb, formulation.size)
            wide = times_last_transposed(tangent[None], shaped).reshape(wide.shape)
        units = jnp.tile(system.units(formulation.size), system.nb)
        wide = wide * units[None, :] / sizes[:, None]
        matrix = wide if wide.shape[0] == wide.shape[1] else wide.T @ wide
        return DenseRows(wide, DenseFactors.of(jax.lax.stop_gradient(matrix)), units, sizes)

    @property
    def square(self) -> bool:
        return self.rows.shape[0] == self.rows.shape[1]

    def reduce(self, phi: Float[Array, " m"]) -> Float[Array, " n"]:
        """As many equations as coordinates, with the roots of phi."""
        share = phi / self.sizes
        return share if self.square else self.rows.T @ share

    def reduced_factors(self, guess: "DenseRows") -> DenseFactors:
        """Factors of the derivative of `guess.reduce(Φ)` by coordinates in their units, where the
        rows are these, of the sizes of the guess.
        """
        return self.factors if guess.square else DenseFactors.of(guess.rows.T @ self.rows)

    def quasi_factors(self) -> DenseFactors:
        """Factors of the derivative of `self.reduce(Φ)` at the point of these rows."""
        return self.factors

    def velocities(self, b: Float[Array, " m"]) -> Float[Array, " n"]:
        """X with R x = b."""
        matrix = self.rows if self.square else self.rows.T @ self.rows
        return self.units * linear_solve(lambda x: matrix @ x, self.factors, self.reduce(b))

    def multipliers(self, c: Float[Array, " n"]) -> Float[Array, " m"]:
        """The λ with Rᵀ λ = c, of minimum norm where rows are divided by their sizes."""
        matrix = self.rows if self.square else self.rows.T @ self.rows
        lam = linear_solve(lambda x: matrix.T @ x, _Transposed(self.factors), self.units * c)
        return (lam if self.square else self.rows @ lam) / self.sizes

    def singular(self, x: Float[Array, " n"], b: Float[Array, " m"]) -> Bool[Array, ""]:
        """Whether R has lost rank; x is the solution of R x = b."""
        return ~(
            self.factors.reciprocal_growth() > (_SINGULAR if self.square else _SINGULAR**2 * 1e6)
        )


class SparseRows(eqx.Module):
    """R in blocks without units, in a saddle matrix with weights of one.

    Attributes:
        matrix: The saddle matrix.
        unchecked, checked: Its factors.
        units: Of the coordinates, (n,).
        sizes: Of the rows.
    """

    matrix: SaddleMatrix
    unchecked: SaddleFactors
    checked: SaddleFactors
    units: Float[Array, " n"]
    sizes: Float[Array, " m"]

    @staticmethod
    def of(
        formulation: AbstractFormulation,
        system: System,
        q: Coordinates,
        increment: Float[Array, "nb d"] | None,
        sizes: Float[Array, " m"] | None,
    ) -> "SparseRows":
        blocks = rows(formulation, system, q)
        sizes = row_sizes(formulation, system, blocks) if sizes is None else sizes
        if increment is not None and formulation.moves_on_manifold:
            tangent = jax.vmap(formulation.tangent)(increment)
            assert tangent is not None
            blocks = apply_tangent(blocks, tangent, row_bodies(formulation, system))
        units = system.units(formulation.size)
        W = jnp.broadcast_to(jnp.diag(units**-2.0), (system.nb, units.size, units.size))
        matrix = saddle_matrix(formulation, system, W, blocks).scaled(units, sizes)
        held = jax.lax.stop_gradient(matrix)
        return SparseRows(
            matrix,
            factorize(held, system.linear_solver, checked=False),
            factorize(held, system.linear_solver),
            jnp.tile(units, system.nb),
            sizes,
        )

    @property
    def n(self) -> int:
        return self.matrix.diagonal.shape[0] * self.matrix.diagonal.shape[1]

    def reduce(self, phi: Float[Array, " m"]) -> Float[Array, " n"]:
        return solved(self.unchecked, self._with_zeros(phi / self.sizes))[: self.n]

    def reduced_factors(self, guess: "SparseRows") -> "_Reduced":
        return _Reduced(self, guess)

    def quasi_factors(self) -> "_Identity":
        return _Identity()

    def velocities(self, b: Float[Array, " m"]) -> Float[Array, " n"]:
        right = self._with_zeros(b / self.sizes)
        return self.units * linear_solve(self.matrix.matvec, self.checked, right)[: self.n]

    def multipliers(self, c: Float[Array, " n"]) -> Float[Array, " m"]:
        m = len(self.matrix.bodies)
        right = jnp.concatenate([self.units * c, jnp.zeros(m, c.dtype)])
        x = linear_solve(self.matrix.matvec, self.checked, right)
        if self.matrix.regularization is not None:
            x = minimum_norm(x, self.checked)
        return x[self.n :] / self.sizes

    def singular(self, x: Float[Array, " n"], b: Float[Array, " m"]) -> Bool[Array, ""]:
        size = self.matrix.diagonal.shape[1]
        rows = self.matrix
        x, b = (x / self.units).reshape(-1, size), b / self.sizes
        gap = jnp.abs(apply_rows(rows.left, x, rows.bodies) - b)
        scale = apply_rows(jnp.abs(rows.left), jnp.abs(x), rows.bodies) + jnp.abs(b)
        return ~(jnp.max(gap) <= 1e-8 * jnp.max(scale))

    def _with_zeros(self, b: Float[Array, " m"]) -> Float[Array, " k"]:
        return jnp.concatenate([jnp.zeros(self.n, b.dtype), b])


class _Reduced(eqx.Module):
    """Factors of R_g⁺ R, where R_g are the rows of the guess."""

    rows: SparseRows
    guess: SparseRows

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        g = self.guess.matrix
        b = apply_rows(g.left, b.reshape(-1, g.diagonal.shape[1]), g.bodies)
        return self.rows.checked.solve(self.rows._with_zeros(b))[: self.rows.n]

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        g = self.guess.matrix
        m, n = len(g.bodies), self.rows.n
        lam = self.rows.checked.solve(jnp.concatenate([b, jnp.zeros(m, b.dtype)]))[n:]
        return scatter_rows(g.left, lam, g.bodies, g.diagonal.shape[0]).reshape(-1)


class _Identity(eqx.Module):
    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return b

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return b


class _Transposed(eqx.Module):
    factors: DenseFactors

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.factors.solve_transpose(b)

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.factors.solve(b)
