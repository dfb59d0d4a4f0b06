"""Factors of the matrices of a step: the exact one, and those that are kept for later steps."""

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from ..linalg import SaddleMatrix, factorize
from .motion import softness

# Factors that are kept have so many times the usual E.
_SOFT = 30.0


class ExactFactors(eqx.Module):
    """Newton's exact matrix and its factors."""

    matrix: SaddleMatrix
    factors: PyTree

    @property
    def regularization(self) -> Float[Array, " m"] | None:
        return self.matrix.regularization

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.factors.solve(b)


class SoftenedFactors(eqx.Module):
    """Factors to keep, whose E is large, and those of the usual E, which tell what rows leave
    undetermined.
    """

    factors: PyTree
    judge: PyTree
    compliance: Float[Array, " m"] | None

    @property
    def regularization(self) -> Float[Array, " m"] | None:
        return self.factors.regularization

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.factors.solve(b)


def kept_of(matrix: SaddleMatrix, strategy: str) -> SoftenedFactors:
    """Factors of a matrix that may grow old.

    Where rows have turned by θ, accelerations that violate them by δ change multipliers by θ δ / E:
    the larger E, the smaller what old factors make of rounding. Its price is a contraction of the
    order of E.
    """
    usual = matrix.regularization
    if usual is None:
        factors = factorize(matrix, strategy, checked=False)
        return SoftenedFactors(factors, None, None)
    soft = eqx.tree_at(lambda m: m.regularization, matrix, _SOFT * usual)
    factors, judge = (factorize(m, strategy, checked=False) for m in (soft, matrix))
    return SoftenedFactors(factors, judge, usual / softness(usual.dtype))
