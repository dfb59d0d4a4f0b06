"""Accelerations at the first instant of a run and what methods need besides, in one loop: rows,
matrix, factors and solution are one body of code, which is a fifth of the program of a short run.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..formulations.base import AbstractFormulation, Coordinates
from ..linalg import factorize, linear_solve
from ..linalg.linear_solve import held
from ..linalg.saddle import apply_rows
from ..linalg.strategy import SaddleFactors
from ..model.system import System
from ..rotations.types import Scalar, host
from ..xla.lazy_cond import where_needed
from .index1 import acceleration_equations, minimum_norm
from .rows import row_bodies

# From accelerations and their rate the velocities of which a method asks for the part across the
# constraints.
Asked = Callable[[Float[Array, "nb d"], Float[Array, "nb d"]], Float[Array, "nb d"]]


class FirstRates(eqx.Module):
    """What is found at the first instant, in the velocities of a formulation.

    Attributes:
        a: Accelerations, (nb, d).
        lam: Multipliers of least norm, (m,).
        jerk: The time derivative of the accelerations along the motion, (nb, d): by a forward
            difference over a small part of a step, right to eps^(2/3) |a| / h. An exact derivative
            would take as long to compile as all the rest of a start.
        across: The part across the constraints of what was asked for, (nb, d): what is left of it
            are velocities that they allow, nearest to it by inertia. Zero where nothing was asked.
    """

    a: Float[Array, "nb d"]
    lam: Float[Array, " m"]
    jerk: Float[Array, "nb d"]
    across: Float[Array, "nb d"]


def first_rates(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
    h: Scalar,
    asked: Asked | None = None,
) -> FirstRates:
    """The rates at time t for a method with steps of h [s]."""
    zero = jnp.zeros_like(u)
    s = jnp.asarray(jnp.finfo(u.dtype).eps ** (1 / 3), u.dtype) * h

    def factors_at(q: Coordinates, u: Float[Array, "nb d"], t: Scalar) -> SaddleFactors:
        matrix, *_ = acceleration_equations(formulation, system, q, u, t)
        return factorize(matrix, system.linear_solver)

    shapes, tree = jax.tree.flatten(jax.eval_shape(factors_at, q, u, t))

    def turn(
        state: tuple[FirstRates, list[Array]], k: Int[Array, ""]
    ) -> tuple[tuple[FirstRates, list[Array]], None]:
        found, kept = state
        # First the accelerations, then those a moment later, then the part across.
        later, last = k == 1, k == 2
        moved = jax.vmap(formulation.retract)(q, s * u + 0.5 * s**2 * found.a)
        here = jax.tree.map(lambda x, y: jnp.where(later, x, y), moved, q)
        ahead = jnp.where(later, s, 0.0)
        matrix, load, gamma = acceleration_equations(
            formulation, system, here, u + ahead * found.a, t + ahead
        )
        # So close by, the step of refinement that each solution gets makes up for factors of here.
        fixed = held(matrix)
        kept = where_needed(
            k == 0, lambda: jax.tree.leaves(factorize(fixed, system.linear_solver)), kept
        )
        factors = jax.tree.unflatten(tree, kept)
        if asked is not None:
            rows = apply_rows(matrix.right, asked(found.a, found.jerk), matrix.bodies)
            load, gamma = jnp.where(last, 0.0, load), jnp.where(last, rows, gamma)
        x = linear_solve(matrix.matvec, factors, jnp.concatenate([load.reshape(-1), gamma]))
        if matrix.regularization is not None:
            x = minimum_norm(x, factors)
        new, lam = x[: u.size].reshape(u.shape), x[u.size :]
        first = k == 0
        found = FirstRates(
            jnp.where(first, new, found.a),
            jnp.where(first, lam, found.lam),
            jnp.where(later, (new - found.a) / s, found.jerk),
            jnp.where(last, new, found.across),
        )
        return (found, kept), None

    m = len(row_bodies(formulation, system))
    start = FirstRates(zero, jnp.zeros(m, u.dtype), zero, zero)
    none = [jnp.zeros(x.shape, x.dtype) for x in shapes]
    turns = host.arange(2 if asked is None else 3)
    return jax.lax.scan(turn, (start, none), turns)[0][0]
