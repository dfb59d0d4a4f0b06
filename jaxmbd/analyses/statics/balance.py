"""Poses at which all forces balance, differentiable by the implicit function theorem."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ...equations.rows import rows
from ...equations.statics import (
    Rest,
    load_scale,
    metric,
    static_balance,
    static_gaps,
    static_loads,
    static_matrix,
)
from ...formulations import RA
from ...linalg import factorize
from ...linalg.linear_solve import held
from ...model.state import Pose
from ...model.system import System
from ...solvers import AbstractRootProblem, implicit_root
from .equilibrium_search import DENSE, Balanced, Loading, balancing_multipliers, refined, search

# Exponent of eps: damping of the derivative, in loads per length; refinement takes it out.
_MIXED = 0.5


def balance_poses(
    system: System,
    pose: Pose,
    angles: Float[Array, " w"],
    loading: Loading,
    max_steps: Int[Array, ""],
    downhill: bool,
) -> Balanced:
    """Equilibrium reached from a closed pose, with the shares of the loads applied one after the
    other; differentiable in the system and the spin.

    `downhill` follows the loads, and so comes to rest; otherwise the nearest balance is looked for,
    stable or not.
    """
    found = search(*held((system, pose, angles, loading)), max_steps, downhill)
    t, spin = loading.t, loading.spin
    base = held(found.pose)
    share = held(loading.shares[-1])
    args = (system.wound(found.angles).at(t), t, spin, base, share)
    xi, _ = implicit_root(_Equilibrium(), found.lam, args)
    pose = jax.vmap(RA().retract)(base, xi[: 6 * system.nb].reshape(-1, 6))
    rest = Rest(args[0], t, share, spin)
    lam = balancing_multipliers(rest, rows(RA(), rest.system, pose), static_loads(rest, pose)[0])[0]
    ok = found.found
    pose, lam = jax.tree.map(
        lambda x, y: jnp.where(ok, x, y), (pose, lam), held((found.pose, found.lam))
    )
    return eqx.tree_at(lambda b: (b.pose, b.lam), found, (pose, lam))


class _Refined(eqx.Module):
    """Factors of the damped tangent matrix, refined by the matrix itself: as good as undamped ones
    where the stiffness is not zero, and of least norm where it is.
    """

    matrix: Any
    factors: Any

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return refined(self.matrix.matvec, self.factors.solve, b)

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return refined(self.matrix.transposed().matvec, self.factors.solve_transpose, b)


class _Equilibrium(AbstractRootProblem):
    """Balance and closure in the displacement from an equilibrium that is known, and λ."""

    def residual(self, x: Float[Array, " n"], args: PyTree) -> Float[Array, " n"]:
        system, t, spin, base, share = args
        n = 6 * system.nb
        xi, lam = x[:n].reshape(-1, 6), x[n:]
        pose = jax.vmap(RA().retract)(base, xi)
        rest = Rest(system, t, share, spin)
        forces = static_balance(rest, pose, lam)
        return jnp.concatenate([forces.reshape(-1), static_gaps(rest, pose, base, xi)])

    def solve(self, guess: PyTree, args: PyTree) -> tuple[Float[Array, " n"], PyTree]:
        system = args[0]
        return jnp.concatenate([jnp.zeros(6 * system.nb, system.dtype), guess]), ()

    def factors(self, x: Float[Array, " n"], args: PyTree) -> _Refined:
        system, t, spin, base, share = args
        rest = Rest(system, t, share, spin)
        lam = x[6 * system.nb :]
        sizes = static_loads(rest, base)[1]
        scale = load_scale(rest, rows(RA(), system, base), lam, sizes)
        unit = scale / system.length + jnp.finfo(t.dtype).tiny ** 0.5
        sigma = jnp.finfo(t.dtype).eps ** _MIXED * unit
        damped = static_matrix(rest, base, lam, sigma)
        exact = eqx.tree_at(lambda k: k.diagonal, damped, damped.diagonal - sigma * metric(system))
        return _Refined(exact, factorize(damped, system.linear_solver, dense_limit=DENSE))
