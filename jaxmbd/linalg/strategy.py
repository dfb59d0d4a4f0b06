"""Linear solvers by name, and solutions that are verified."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..xla.lazy_cond import where_needed
from .block_sparse import BlockFactors
from .dense import DenseFactors
from .linear_solve import held
from .saddle import SaddleMatrix

STRATEGIES = ("dense", "block_sparse", "range_space")

# Unknowns up to which one dense LU takes less time than block elimination of supernodes (measured).
_SMALL = 60
_SOFTER = 30.0
# Unknowns up to which a failed block elimination is repeated by a dense one; its memory is reserved
# in every program.
DENSE_LIMIT = 600


def choose_strategy(suits_range_space: bool, unknowns: int) -> str:
    """The fastest strategy; bodies suit range space that have inertia in all directions and joints
    to few others.
    """
    return "range_space" if suits_range_space else by_size(unknowns)


def by_size(unknowns: int) -> str:
    """The faster of the strategies that take any matrix."""
    return "dense" if unknowns <= _SMALL else "block_sparse"


def factorize(
    matrix: SaddleMatrix,
    strategy: str,
    *,
    checked: bool = True,
    seldom: bool = False,
    dense_limit: int = DENSE_LIMIT,
) -> "SaddleFactors":
    """Factors of a saddle matrix, an object with `solve`, `solve_transpose` and
    `solve_unregularized`.

    `checked` verifies every solution of a strategy that does not choose its pivots by size, see
    `CheckedFactors`. What does not suit range-space elimination goes by size: bodies that more than
    rows couple; small matrices that are factored seldom, which checked ones are, for which LU
    compiles faster; redundant rows, unless unchecked. `dense_limit` is the number of unknowns up to
    which checked factors fall back on dense ones.
    """
    matrix = held(matrix)  # factors have no derivative, and tangents would cost their own
    if not (matrix.bodies or matrix.couplings):
        # Bodies by themselves: their blocks are definite, and need neither pivots nor a check.
        return BlockFactors.of(matrix, bodies_first=True)
    double = jnp.finfo(matrix.diagonal.dtype).bits == 64
    softness = matrix.regularization
    redundant = softness is not None
    if strategy == "range_space":
        seldom = (seldom or checked) and matrix.size <= _SMALL
        if matrix.couplings or seldom or (redundant and checked):
            strategy = by_size(matrix.size)
        elif redundant and double:
            # Eliminating J H⁻¹ Jᵀ without pivoting leaves larger errors where rows repeat; E must
            # be large beside them. In single precision what slow directions need limits it more.
            matrix = eqx.tree_at(lambda m: m.regularization, matrix, _SOFTER * softness)
    if strategy == "dense":
        return DenseFactors.of(matrix)
    factors = BlockFactors.of(matrix, bodies_first=strategy == "range_space")
    return CheckedFactors(matrix, factors, dense_limit) if checked else factors


class CheckedFactors(eqx.Module):
    """Factors whose solutions are verified by their residual.

    A solution that fails is computed again by dense factors where the matrix is small enough, and
    is NaN otherwise.
    """

    matrix: SaddleMatrix
    factors: BlockFactors
    dense_limit: int = eqx.field(static=True, default=DENSE_LIMIT)

    @property
    def regularization(self) -> Float[Array, " m"] | None:
        return self.matrix.regularization

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with K x = b, good enough to be refined."""
        return self._solve(b, transpose=False, refined=False)

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with Kᵀ x = b, good enough to be refined."""
        return self._solve(b, transpose=True, refined=False)

    def solve_unregularized(
        self, b: Float[Array, " n"], *, transpose: bool = False
    ) -> Float[Array, " n"]:
        """The solution without -E, refined once: right to rounding, and to second order in E."""
        return self._solve(b, transpose=transpose, refined=True)

    def _solve(
        self, b: Float[Array, " n"], *, transpose: bool, refined: bool
    ) -> Float[Array, " n"]:
        matrix = self.matrix.transposed() if transpose else self.matrix
        by_blocks = self.factors.solve_transpose if transpose else self.factors.solve
        x = by_blocks(b)
        rest = b - matrix.matvec(x)
        bad = ~self._good(matrix, b, x, rest)
        if refined:
            x = x + by_blocks(rest)
        if b.size > self.dense_limit:
            return jnp.where(bad, jnp.nan, x)

        def again() -> Float[Array, " n"]:
            dense = DenseFactors.of(matrix)
            return dense.solve_unregularized(b) if refined else dense.solve(b)

        return where_needed(bad, again, x)

    def _good(
        self,
        matrix: SaddleMatrix,
        b: Float[Array, " n"],
        x: Float[Array, " n"],
        rest: Float[Array, " n"],
    ) -> Bool[Array, ""]:
        """Whether x solves the regularized equations; `rest` is the residual of those without E."""
        n = b.size - len(matrix.bodies)
        # Forces and constraint values differ in unit and size: each part has its own scale.
        scale = matrix.magnitude(x) + jnp.abs(b)
        if matrix.regularization is not None:
            rest = rest.at[n:].add(matrix.regularization * x[n:])
        tolerance = jnp.sqrt(jnp.finfo(b.dtype).eps)
        good = jnp.max(jnp.abs(rest[:n])) <= tolerance * jnp.max(scale[:n])
        lower = jnp.max(jnp.abs(rest[n:]), initial=0.0) <= tolerance * jnp.max(
            scale[n:], initial=0.0
        )
        return good & lower


SaddleFactors = DenseFactors | BlockFactors | CheckedFactors
