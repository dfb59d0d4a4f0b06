"""Independent coordinates of a constrained system: the plane that touches the constraint manifold
at a pose, and the states that belong to its points.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, Coordinates
from ..linalg import SaddleMatrix, factorize, linear_solve
from ..linalg.saddle import apply_rows, apply_tangent
from ..linalg.strategy import SaddleFactors
from ..model.system import System
from ..rotations.types import Scalar
from .index1 import saddle_matrix
from .motion import mass_matrix
from .rows import phi, rows, velocity_right_side

# A point's first guess is off by e = O(h³); the step with rows at that guess leaves e², and every
# further one with the same factors e times what the last one left.
_MORE = 5
_REFINED = 4  # solves for a velocity, whose guess is off by h²


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
        return x - _solved(self.matrix, self.factors, against)

    def state(
        self,
        formulation: AbstractFormulation,
        system: System,
        xi: Float[Array, "nb d"],
        rate: Float[Array, "nb d"],
        t: Scalar,
    ) -> tuple[Coordinates, Float[Array, "nb d"], Callable[[Array], Array]]:
        """Coordinates and velocities that satisfy the constraints, and the function from their
        accelerations to those of the increments ξ from q_0.

        Args:
            formulation: Of the coordinates.
            system: The mechanism.
            xi: ξ; its part within the plane is kept, and the part across it is a guess.
            rate: ξ̇, likewise.
            t: The instant.
        """
        now, f_dot, _ = system.jet(t)
        curved = formulation.moves_on_manifold

        def moved(xi: Float[Array, "nb d"]) -> Coordinates:
            return jax.vmap(formulation.retract)(self.q, xi)

        def tangent(xi: Float[Array, "nb d"]) -> Array | None:
            return jax.vmap(formulation.tangent)(xi) if curved else None

        def at(xi: Float[Array, "nb d"]) -> SaddleMatrix:
            blocks, T = rows(formulation, now, moved(xi)), tangent(xi)
            if T is not None:
                blocks = apply_tangent(blocks, T, self.matrix.bodies)
            return eqx.tree_at(lambda x: x.left, self.matrix, blocks)

        def closer(
            xi: Float[Array, "nb d"], matrix: SaddleMatrix, factors: SaddleFactors
        ) -> Float[Array, "nb d"]:
            return xi - _solved(matrix, factors, phi(formulation, now, moved(xi)))

        matrix = at(xi)
        factors = factorize(matrix, system.linear_solver)
        xi, _ = jax.lax.scan(
            lambda xi, _: (closer(xi, matrix, factors), None), xi, None, length=1 + _MORE
        )
        q, last = moved(xi), at(xi)
        nu = velocity_right_side(formulation, now, f_dot, q)

        def nearer(rate: Float[Array, "nb d"], _: None):
            left = nu - apply_rows(last.left, rate, last.bodies)
            return rate + _solved(matrix, factors, left), None

        rate, _ = jax.lax.scan(nearer, rate, None, length=_REFINED)
        if not curved:
            return q, rate, lambda a: a

        def unturned(xi: Float[Array, "nb d"], u: Float[Array, "nb d"]) -> Float[Array, "nb d"]:
            """ξ̇ of a velocity."""
            return _by_tangent(tangent(xi), u, jnp.linalg.solve)

        u = _by_tangent(tangent(xi), rate, jnp.matmul)
        return q, u, lambda a: jax.jvp(unturned, (xi, u), (rate, a))[1]


def _by_tangent(T: Array, x: Float[Array, "nb d"], by: Callable) -> Float[Array, "nb d"]:
    """T x or T⁻¹ x of the last numbers of each body, which T is of."""
    s = T.shape[-1]
    turned = by(T, x[:, -s:, None])[..., 0]
    return jnp.concatenate([x[:, :-s], turned], axis=1)


def _solved(
    matrix: SaddleMatrix, factors: SaddleFactors, b: Float[Array, " m"]
) -> Float[Array, "nb d"]:
    """δ = -M⁻¹ Rᵀ λ, R being the rows above, with L δ = b for those below."""
    nb, d = matrix.diagonal.shape[:2]
    whole = jnp.concatenate([jnp.zeros(nb * d, b.dtype), b])
    return linear_solve(matrix.matvec, factors, whole)[: nb * d].reshape(nb, d)
