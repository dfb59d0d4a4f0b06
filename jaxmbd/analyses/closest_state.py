"""The consistent state closest to an approximate one, with its derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..equations.index1 import saddle_matrix
from ..equations.motion import regularization
from ..equations.rows import (
    phi,
    row_bodies,
    row_sizes,
    row_variations,
    rows,
    velocity_right_side,
)
from ..formulations import RA
from ..linalg import Coupling, SaddleMatrix, factorize, linear_solve
from ..linalg.linear_solve import held
from ..linalg.saddle import apply_tangent, scatter_rows
from ..linalg.small_matrices import times_last_transposed
from ..model.state import Pose
from ..model.system import System
from ..solvers import AbstractRootProblem, implicit_root
from ..xla.custom_rule_call import with_derivative_of
from .closest_state_search import ClosestState, Outcome, Search, pull_to_described

_MIXED_SOLVES = 6  # of which the derivative of mixed velocities is that


def find_closest(
    closest: ClosestState, u0: Float[Array, "nb 6"]
) -> tuple[Float[Array, "nb 6"], Pose, Float[Array, "nb 6"], Outcome]:
    """Displacements [m, rad], poses and velocities of the closest state, from velocities as
    described; differentiable.
    """
    system = closest.system
    jet_system, *_ = system.jet(closest.t)
    sizes = held(row_sizes(RA(), system, rows(RA(), jet_system, closest.pose0)))
    at_positions = system.at_position_level().at(closest.t)
    problem = _Closest()
    args = at_positions, closest.pose0, closest.weights, sizes[: system.holonomic_rows]
    x, (found, outcome) = implicit_root(problem, (closest, u0, sizes), args)
    xi = problem.displacements(x, at_positions)
    pose = jax.vmap(RA().retract)(closest.pose0, xi)
    u = with_derivative_of(_closest_velocity, found, closest, pose, u0)
    return xi, pose, u, outcome


def _closest_velocity(
    closest: ClosestState, pose: Pose, u0: Float[Array, "nb 6"]
) -> Float[Array, "nb 6"]:
    """The velocities closest to u0, as a function that can be differentiated; the search finds the
    same.
    """
    system = closest.system
    jet_system, f_dot, _ = system.jet(closest.t)
    blocks = rows(RA(), jet_system, pose)
    units = system.units()
    sizes = jax.lax.stop_gradient(row_sizes(RA(), system, blocks))
    nu = velocity_right_side(RA(), jet_system, f_dot, pose) / sizes
    u0 = u0 / units[None, :]
    weights, described = closest.velocity_metric()
    matrix = saddle_matrix(RA(), system, weights, blocks).scaled(units, sizes)
    factors = factorize(matrix, system.linear_solver)

    def improve(x: Float[Array, " n"], _: None):
        pull = pull_to_described(matrix.diagonal, described, u0, x[: u0.size].reshape(u0.shape))
        rest = jnp.concatenate([pull, nu]) - matrix.matvec(x)
        return x + linear_solve(matrix.matvec, factors, rest), None

    x = jnp.concatenate([u0.reshape(-1), jnp.zeros_like(nu)])
    x, _ = jax.lax.scan(improve, x, None, length=2 if described is None else _MIXED_SOLVES)
    return x[: u0.size].reshape(u0.shape) * units[None, :]


class _Closest(AbstractRootProblem):
    """min ½ ξᵀ W ξ subject to Φ(retract(pose0, ξ)) = 0, in the unknowns (ξ, λ).

    Stationarity: W ξ + T(ξ)ᵀ Rᵀ λ = 0 with T the tangent of the retraction. All are without units:
    ξ in `System.units`, Φ and R divided by the rows' sizes at pose0.
    """

    def displacements(self, x: Float[Array, " n"], system: System) -> Float[Array, "nb 6"]:
        """ξ of all bodies [m, rad]."""
        return x[: 6 * system.nb].reshape(system.nb, 6) * system.units()[None, :]

    def residual(self, x: Float[Array, " n"], args: PyTree) -> Float[Array, " n"]:
        system, pose0, weights, sizes = args
        xi = self.displacements(x, system)
        pose = jax.vmap(RA().retract)(pose0, xi)
        pull = self._reaction(system, pose, x[6 * system.nb :] / sizes)
        tangent = jax.vmap(RA().tangent)(xi)
        balance = jnp.einsum("bij,bj->bi", weights, xi) + times_last_transposed(tangent, pull)
        balance = balance * system.units()[None, :]
        return jnp.concatenate([balance.reshape(-1), phi(RA(), system, pose) / sizes])

    def _reaction(
        self, system: System, pose: Pose, lam: Float[Array, " m"]
    ) -> Float[Array, "nb 6"]:
        return scatter_rows(rows(RA(), system, pose), lam, row_bodies(RA(), system), system.nb)

    def factors(self, x: Float[Array, " n"], args: PyTree) -> Any:
        system, pose0, weights, sizes = args
        xi, lam = self.displacements(x, system), x[6 * system.nb :] / sizes
        pose = jax.vmap(RA().retract)(pose0, xi)
        pull = self._reaction(system, pose, lam)
        tangent = jax.vmap(RA().tangent)(xi)

        def turned(xi: Float[Array, "6"], pull: Float[Array, "6"]):
            return jax.jacfwd(lambda d: times_last_transposed(RA().tangent(d), pull))(xi)

        turn = jax.vmap(turned)(xi, pull)
        blocks, bodies = rows(RA(), system, pose), row_bodies(RA(), system)
        rows_t = apply_tangent(blocks, tangent, bodies)
        couplings = []
        for c in row_variations(RA(), system, pose, lam):
            right = apply_tangent(c.blocks, tangent, c.bodies)
            both = apply_tangent(jnp.transpose(right, (0, 3, 4, 1, 2)), tangent, c.bodies)
            couplings.append(Coupling(jnp.transpose(both, (0, 3, 4, 1, 2)), c.bodies))
        softness = regularization(RA(), system, weights, blocks)
        matrix = SaddleMatrix(weights + turn, tuple(couplings), rows_t, rows_t, softness, bodies)
        return factorize(matrix.scaled(system.units(), sizes), system.linear_solver)

    def solve(self, guess: PyTree, args: PyTree):
        closest, u0, sizes = guess
        search = Search(closest, u0 / closest.system.units()[None, :], sizes)
        end = jax.lax.while_loop(search.goes_on, search.turn, search.start())
        return search.results(end)
