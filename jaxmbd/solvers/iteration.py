"""Parts that all stages of Newton's method share: equations, settings, state and termination."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..rotations.types import Scalar

Vector = Float[Array, " n"]

# Share of the tolerance below which the estimated error must be after the second correction by any
# frozen matrix. A first correction is large along what the matrix sees best, so that the second is
# smaller beside it than the rate of those that follow (a fifth of it in a linkage of six bodies).
_SEEN_ONCE = 0.2


@runtime_checkable
class Factors(Protocol):
    """Factors of a Jacobian J."""

    def solve(self, b: Vector, /) -> Vector:
        """X with J x = b."""
        ...


class NewtonOptions(eqx.Module):
    """Settings of the iteration.

    Attributes:
        tolerance: On the norm of the correction (the error that remains is smaller by the rate of
            contraction).
        max_steps: Limit of the frozen stage; 0 leaves it out.
        max_exact_steps: Limit of the exact stage; 0 switches it off.
        estimate_error: Stop on the estimated remaining error θ/(1-θ) |δ| with θ the observed
            contraction; otherwise, as the paper does, on the correction |δ| itself.
        contraction: The frozen stage ends where a correction is not smaller than the last one by
            this factor; infinity goes on as long as corrections are finite.
        halvings: How often the exact stage may halve a correction that does not make the residual
            smaller.
    """

    tolerance: float | Scalar
    max_steps: int = eqx.field(static=True, default=8)
    max_exact_steps: int = eqx.field(static=True, default=20)
    estimate_error: bool = eqx.field(static=True, default=True)
    contraction: float = eqx.field(static=True, default=0.5)
    halvings: int = eqx.field(static=True, default=0)

    def converged(
        self,
        size: Scalar,
        previous: Scalar,
        assumed: float | Scalar = 0.5,
        share: float | Scalar = 1.0,
    ) -> Bool[Array, ""]:
        """Whether a correction of a size, after one of the previous size, leads to a root.

        Args:
            size: Its norm.
            previous: That of the correction before; infinite where there was none.
            assumed: The contraction before it was observed.
            share: Of the tolerance, that the remaining error may take.
        """
        if not self.estimate_error:
            return size <= self.tolerance
        seen = jnp.isfinite(previous)
        theta = jnp.where(seen, size / previous, assumed)
        remaining = jnp.where(theta < 1.0, theta / (1.0 - theta), jnp.inf) * size
        remaining = remaining / share
        # A correction far below the tolerance ends the iteration even where rounding hides the
        # contraction.
        return (remaining <= self.tolerance) | (size <= 0.1 * self.tolerance)


class Iterate(eqx.Module):
    """The state of an iteration.

    Attributes:
        x: Unknowns.
        k: Corrections so far.
        norm: Of the last correction.
        previous: Of the one before.
        done: Whether x is a root.
        careful: Whether the careful solver has taken over from the exact matrix.
    """

    x: Vector
    k: Int[Array, ""]
    norm: Scalar
    previous: Scalar
    done: Bool[Array, ""]
    careful: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class Start:
    """The starting point of an iteration.

    Attributes:
        x: Starting point.
        anew: A safer one, for the exact stage where the frozen one diverged.
        assumed: The contraction of the frozen matrix before it was observed.
    """

    x: Vector
    anew: Vector | None = None
    assumed: float | Scalar = 0.5


class AbstractEquations(abc.ABC):
    """Equations residual(x) = 0, matrices near their Jacobian, and a measure of corrections.

    Attributes:
        stalls: Whether the exact matrix may be so nearly singular that it contracts poorly; `doubt`
            and `careful` are asked then.
    """

    stalls: bool = False

    @abc.abstractmethod
    def residual(self, x: Vector) -> Vector:
        """The function whose root is sought."""

    @abc.abstractmethod
    def frozen_factors(self, x: Vector) -> Factors:
        """Factors of an approximate Jacobian, made at most once."""

    @abc.abstractmethod
    def exact_factors(self, x: Vector) -> Factors:
        """Factors of the Jacobian."""

    @abc.abstractmethod
    def norm(self, delta: Vector, factors: PyTree, pulled: Vector | float = 0.0) -> Scalar:
        """The size of a correction by some factors, to be compared with the tolerance; `pulled` is
        what was added to the last components of the residual.
        """

    def doubt(
        self, x: Vector, factors: PyTree, renewed: Bool[Array, ""] | None
    ) -> tuple[Bool[Array, ""], PyTree]:
        """Whether an iterate of the frozen stage, a root or not, is one for the careful solver
        instead, and what else was found out; from its factors, and whether they were made in this
        solve.
        """
        raise NotImplementedError

    def careful(self, factors: PyTree, value: Vector) -> tuple[Vector, Scalar, Bool[Array, ""]]:
        """From factors of the exact matrix and a residual the correction for a matrix that is
        nearly singular, its norm, and whether the iterate is a root however long the correction.
        """
        raise NotImplementedError


def corrected(
    equations: AbstractEquations,
    options: NewtonOptions,
    assumed: float | Scalar,
    state: Iterate,
    factors: Factors,
    share: float | Scalar = 1.0,
    pulled: Vector | None = None,
) -> Iterate:
    """The state after a correction by frozen factors; `pulled` is added to the last components of
    the residual.
    """
    value = equations.residual(state.x)
    if pulled is None:
        delta = factors.solve(-value)
        size = equations.norm(delta, factors)
    else:
        n = value.size - pulled.size
        delta = factors.solve(jnp.concatenate([-value[:n], -value[n:] - pulled]))
        size = equations.norm(delta, factors, pulled)
    share = jnp.where(jnp.isfinite(state.norm), _SEEN_ONCE, share)
    share = jnp.where(jnp.isfinite(state.previous), 1.0, share)
    done = options.converged(size, state.norm, assumed, share)
    return Iterate(state.x + delta, state.k + 1, size, state.norm, done, state.careful)


class Functions(AbstractEquations):
    """Equations that are given as functions.

    Args:
        residual: The function whose root is sought.
        frozen_factors: From a point factors of an approximate Jacobian there; None where only
            exact ones are used.
        exact_factors: From a point factors of the Jacobian there.
        norm: From a correction its size.
    """

    def __init__(
        self,
        residual: Callable[[Vector], Vector],
        frozen_factors: Callable[[Vector], Factors] | None,
        exact_factors: Callable[[Vector], Factors],
        norm: Callable[[Vector], Scalar],
    ):
        self._residual, self._norm = residual, norm
        self._frozen, self._exact = frozen_factors, exact_factors

    def residual(self, x: Vector) -> Vector:
        return self._residual(x)

    def frozen_factors(self, x: Vector) -> Factors:
        assert self._frozen is not None
        return self._frozen(x)

    def exact_factors(self, x: Vector) -> Factors:
        return self._exact(x)

    def norm(self, delta: Vector, factors: PyTree, pulled: Vector | float = 0.0) -> Scalar:
        return self._norm(delta)
