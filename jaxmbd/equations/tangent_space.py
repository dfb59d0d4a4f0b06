"""Independent coordinates of a constrained system: the plane that touches the constraint manifold
at a pose, and the states that belong to its points.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ..formulations.base import AbstractFormulation, Coordinates
from ..linalg import SaddleMatrix, factorize, linear_solve
from ..linalg.saddle import apply_rows, apply_tangent
from ..linalg.small_matrices import gauss_jordan, times_last
from ..linalg.strategy import SaddleFactors
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import AbstractRootProblem, implicit_root
from .index1 import saddle_matrix
from .motion import mass_matrix
from .rows import phi, rows, velocity_right_side

# Corrections of a pose by the factors at its first guess, which is off by O(h³): each leaves that
# many times the last one. They end where one is as small as this power of rounding.
_MOST, _ENOUGH = 12, 0.7
_LOST = 0.5  # likewise, from which a point has not been reached
_REFINED = 4  # corrections of a velocity, by the same factors


class TangentSpace(eqx.Module):
    """Points w with R w = 0, R being the rows at a pose q_0; all arrays by bodies, (nb, d).

    Attributes:
        q: q_0.
        matrix: [[M, Rᵀ], [R, -E]] there.
        factors: Of it.
    """

    q: Coordinates
    matrix: SaddleMatrix
    factors: SaddleFactors

    @staticmethod
    def at(
        formulation: AbstractFormulation, system: System, q: Coordinates, t: Scalar
    ) -> "TangentSpace":
        """The one at a pose."""
        weights, blocks = mass_matrix(formulation, system, q), rows(formulation, system.at(t), q)
        matrix = saddle_matrix(formulation, system, weights, blocks)
        return TangentSpace(q, matrix, factorize(matrix, system.linear_solver))

    def along(self, x: Float[Array, "nb d"]) -> Float[Array, "nb d"]:
        """P x: the part of a velocity or an acceleration within the plane."""
        against = apply_rows(self.matrix.right, x, self.matrix.bodies)
        b = jnp.concatenate([jnp.zeros(x.size, x.dtype), against])
        found = linear_solve(self.matrix.matvec, self.factors, b)
        return x - found[: x.size].reshape(x.shape)

    def state(
        self,
        formulation: AbstractFormulation,
        system: System,
        xi: Float[Array, "nb d"],
        rate: Float[Array, "nb d"],
        t: Scalar,
    ) -> tuple[Coordinates, Float[Array, "nb d"], Callable[[Array], Array], Bool[Array, ""]]:
        """Coordinates and velocities that satisfy the constraints, the function from their
        accelerations to those of the increments ξ from q_0, and whether no such pose was found.

        Args:
            formulation: Of the coordinates.
            system: The mechanism.
            xi: ξ; its part within the plane is kept, and the part across it is a guess.
            rate: ξ̇, likewise.
            t: The instant.
        """
        now, f_dot, _ = system.jet(t)
        problem, shape = _OnManifold(formulation), xi.shape
        x, (factors, lost) = implicit_root(problem, xi, (now, self.q, self.matrix, xi))
        xi = x[: xi.size].reshape(shape)
        q, matrix = problem.moved(self.q, xi), problem.matrix(xi, now, self.q, self.matrix)
        nu = velocity_right_side(formulation, now, f_dot, q)
        left = nu - apply_rows(matrix.left, rate, matrix.bodies)
        b = jnp.concatenate([jnp.zeros(xi.size, xi.dtype), left])
        found = linear_solve(matrix.matvec, factors, b, _REFINED)
        rate = rate + found[: xi.size].reshape(shape)
        if not formulation.moves_on_manifold:
            return q, rate, lambda a: a, lost
        T, T_dot = jax.jvp(jax.vmap(formulation.tangent), (xi,), (rate,))
        # The symmetric part of T is positive definite for turns below half a revolution.
        back = gauss_jordan(T)
        bent = times_last(T_dot, rate.at[:, : -T.shape[-1]].set(0.0))
        return q, times_last(T, rate), lambda a: times_last(back, a - bent), lost


class _OnManifold(AbstractRootProblem):
    """(ξ, y) with M (ξ - w) + Rᵀ y = 0 and Φ(q_0 ⊕ ξ) = 0."""

    formulation: AbstractFormulation

    def moved(self, q: Coordinates, xi: Float[Array, "nb d"]) -> Coordinates:
        """q_0 ⊕ ξ."""
        return jax.vmap(self.formulation.retract)(q, xi)

    def matrix(
        self, xi: Float[Array, "nb d"], now: System, q: Coordinates, base: SaddleMatrix
    ) -> SaddleMatrix:
        """That of the plane, whose lower rows are those at q_0 ⊕ ξ by ξ."""
        blocks = rows(self.formulation, now, self.moved(q, xi))
        if self.formulation.moves_on_manifold:
            turned = jax.vmap(self.formulation.tangent)(xi)
            assert turned is not None
            blocks = apply_tangent(blocks, turned, base.bodies)
        return eqx.tree_at(lambda x: x.left, base, blocks)

    def residual(self, x: Float[Array, " n"], args: PyTree) -> Float[Array, " n"]:
        now, q, base, w = args
        xi = x[: w.size].reshape(w.shape)
        # Of the upper rows; the lower ones are those of `base`, and not wanted.
        upper = base.matvec(x - jnp.zeros_like(x).at[: w.size].set(w.reshape(-1)))[: w.size]
        return jnp.concatenate([upper, phi(self.formulation, now, self.moved(q, xi))])

    def solve(self, guess: PyTree, args: PyTree) -> tuple[Float[Array, " n"], PyTree]:
        now, q, base, w = args
        factors = factorize(self.matrix(guess, now, q, base), now.linear_solver)
        enough = jnp.finfo(w.dtype).eps ** _ENOUGH * jnp.tile(now.units(w.shape[1]), w.shape[0])

        def goes_on(at: tuple[Array, Array, Array]) -> Array:
            _, left, k = at
            return (k < _MOST) & jnp.any(left > enough)

        def better(at: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x, _, k = at
            change = factors.solve(self.residual(x, args))
            return x - change, jnp.abs(change[: w.size]), k + 1

        x = jnp.concatenate([guess.reshape(-1), jnp.zeros(base.size - w.size, w.dtype)])
        start = x, jnp.full(w.size, jnp.inf, w.dtype), jnp.zeros((), int)
        x, left, _ = jax.lax.while_loop(goes_on, better, start)
        # A stage that is off the manifold must not go unnoticed where the end of the step closes.
        lost = jnp.any(left > jnp.finfo(w.dtype).eps ** (_LOST - _ENOUGH) * enough)
        return x, (factors, lost)

    def factors(self, x: Float[Array, " n"], args: PyTree) -> SaddleFactors:
        now, q, base, w = args
        xi = x[: w.size].reshape(w.shape)
        return factorize(self.matrix(xi, now, q, base), now.linear_solver)
