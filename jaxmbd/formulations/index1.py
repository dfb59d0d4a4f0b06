"""Velocities and accelerations from positions: the linear problems of kinematics and the index-1 form of dynamics."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import SaddleMatrix, factorise, linear_solve
from ..solvers.saddle import apply_rows
from .base import AbstractFormulation, Coordinates


def velocity_right_side(formulation: AbstractFormulation, jet_system: System, f_dot, q: Coordinates):
    """ν of all rows, Φ_q u = ν: ḟ less the explicit rate of turning vectors, (m,)."""
    own = jnp.zeros(jet_system.nb * formulation.normalizations, jet_system.dtype)
    return jnp.concatenate([f_dot, own]) - formulation.explicit_rate(jet_system, q)


def acceleration_right_side(formulation: AbstractFormulation, jet_system: System, f_ddot, q: Coordinates, u):
    """γ of all rows, Φ_q a = γ, (m,)."""
    own = jnp.zeros(jet_system.nb * formulation.normalizations, jet_system.dtype)
    return jnp.concatenate([f_ddot, own]) + formulation.gamma(jet_system, q, u)


def dynamic_accelerations(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
    load: Float[Array, "nb d"] | None = None,
    feedback: tuple[Scalar | float, Scalar | float] | None = None,
) -> tuple[Float[Array, "nb d"], Float[Array, " m"]]:
    """Accelerations and multipliers from the index-1 form, [[M, Rᵀ], [R, 0]] (a, λ) = (Q - h, γ).

    `load` adds generalised forces to those of the system. `feedback` (α, β) [1/s] asks for Φ̈ = -2α Φ̇ - β² Φ instead of
    zero, Baumgarte's stabilisation. Redundant rows get multipliers of minimum norm. Singular
    inertias are allowed as long as the whole matrix is regular.
    """
    jet_system, f_dot, f_ddot = system.jet(t)
    rows = formulation.rows(jet_system, q)
    i, j = formulation.row_bodies(system)
    zero = jnp.zeros_like(u)
    force, torque = formulation.applied(jet_system, q, u, t)
    bias = jax.vmap(formulation.body_balance)(system.mass, system.inertia, q, u, zero, force, torque)
    if load is not None:
        bias = bias - load
    gamma = acceleration_right_side(formulation, jet_system, f_ddot, q, u)
    if feedback is not None:
        phi_dot = apply_rows(rows, u, i, j) - velocity_right_side(formulation, jet_system, f_dot, q)
        gamma = gamma - 2.0 * feedback[0] * phi_dot - feedback[1] ** 2 * formulation.phi(jet_system, q)
    found = formulation.eliminate(system, q, rows, bias, gamma)
    if found is not None:
        return found
    mass = formulation.mass_matrix(system, q)
    regularisation = formulation.regularisation(system, mass, rows)
    matrix = SaddleMatrix(mass, (), rows, rows, regularisation, i, j, formulation.inner_rows(system))
    factors = factorise(matrix, system.linear_solver)
    x = linear_solve(matrix.matvec, factors, jnp.concatenate([-bias.reshape(-1), gamma]))
    if regularisation is not None:
        x = minimum_norm(x, factors)
    return x[: u.size].reshape(u.shape), x[u.size :]


def acceleration_rate(
    formulation: AbstractFormulation, system: System, q: Coordinates, u, a, t: Scalar
) -> Float[Array, "nb d"]:
    """The time derivative of the accelerations along the motion, (nb, d)."""

    def accelerations(s: Scalar) -> Float[Array, "nb d"]:
        delta = s * u + 0.5 * s**2 * a
        moved = jax.vmap(formulation.retract)(q, delta)
        return dynamic_accelerations(formulation, system, moved, u + s * a, t + s)[0]

    zero = jnp.zeros((), u.dtype)
    return jax.jvp(accelerations, (zero,), (jnp.ones_like(zero),))[1]


def minimum_norm(x: Float[Array, " n"], factors, *, rough: bool = False) -> Float[Array, " n"]:
    """Remove from the multipliers, the last m unknowns, the part that redundant rows leave undetermined.

    With K = [[H, Rᵀ], [R, -E]] the solution of K (·, y) = (0, -E λ) is y = P λ with P = (S + E)⁻¹ E and S = R H⁻¹ Rᵀ:
    as E goes to zero, the projection of λ on the null space of Rᵀ. With E finite it also holds a fraction
    p = E/(σ + E) of λ along every other eigenvector of S, which λ - P² λ reduces to p². `rough` factors may be wrong by
    some parts of E, so that the null space's p is not one: λ - 4 P³ λ + 3 P⁴ λ forgives that to first order. Powers
    alone would amplify it, and multipliers would grow from step to step.
    """
    n = x.size - factors.regularisation.size
    project = _projection(factors, n)
    lam = x[n:]
    part = project(project(lam))
    if rough:
        part = project(part)
        part = 4.0 * part - 3.0 * project(part)
        # A projection shortens the multipliers of joints; what does not is rounding.
        joints = factors.regularisation > 0.0
        shorter = jnp.sum(jnp.where(joints, (lam - part) ** 2, 0.0)) <= jnp.sum(jnp.where(joints, lam**2, 0.0))
        part = jnp.where(shorter, part, 0.0)
    return x.at[n:].add(-part)


def undetermined_part(x: Float[Array, " n"], factors) -> Float[Array, " m"]:
    """P λ of `minimum_norm`: what E may change of the multipliers."""
    n = x.size - factors.regularisation.size
    return _projection(factors, n)(x[n:])


def _projection(factors, n: int):
    """The function λ ↦ P λ."""
    factors = jax.lax.stop_gradient(factors)

    def solve(b: Float[Array, " n"]) -> Float[Array, " n"]:
        # Checked factors may loop; told what the transpose is, reverse mode need not go through them.
        return jax.lax.custom_linear_solve(
            lambda v: v,  # stands in for K, which has no derivative here
            b,
            solve=lambda _, b: factors.solve(b),
            transpose_solve=lambda _, b: factors.solve_transpose(b),
        )

    def project(part: Float[Array, " m"]) -> Float[Array, " m"]:
        return solve(jnp.concatenate([jnp.zeros(n, part.dtype), -factors.regularisation * part]))[n:]

    return project


def dense_rows(formulation: AbstractFormulation, system: System, q) -> Float[Array, "m n"]:
    """The constraint Jacobian as one array, (m, nb·d)."""
    rows = formulation.rows(system, q)
    i, j = formulation.row_bodies(system)
    m, nb, d = len(i), system.nb, formulation.size
    wide = jnp.zeros((m, nb + 1, d), rows.dtype)
    index = np.stack([np.array(i, int), np.array(j, int)], axis=1)
    return wide.at[np.arange(m)[:, None], index].add(rows)[:, :nb].reshape(m, nb * d)


def closest_velocity(formulation: AbstractFormulation, system: System, q: Coordinates, u: Float[Array, "nb d"], t):
    """The velocities nearest to u, by mass, that satisfy the constraints at q."""
    jet_system, f_dot, _ = system.jet(t)
    matrix, solve = _by_mass(formulation, system, jet_system, q)
    gap = velocity_right_side(formulation, jet_system, f_dot, q) - apply_rows(matrix.right, u, matrix.i, matrix.j)
    return u + solve(gap)


def closest_position(formulation: AbstractFormulation, system: System, q: Coordinates, t, iterations: int = 2):
    """Coordinates nearest to q, by mass, that satisfy the constraints, to second order in their violation.

    Newton's iteration squares the violation: two of them take 1e-4 to rounding.
    """
    now = system.at(t)

    def correct(q, _):
        _, solve = _by_mass(formulation, system, now, q)
        return jax.vmap(formulation.retract)(q, solve(-formulation.phi(now, q))), None

    return jax.lax.scan(correct, q, None, length=iterations)[0]


def _by_mass(formulation: AbstractFormulation, system: System, now: System, q: Coordinates):
    """The saddle matrix of masses and rows, and the function b ↦ δ of least M-norm with R δ = b."""
    rows = formulation.rows(now, q)
    i, j = formulation.row_bodies(system)
    mass = formulation.mass_matrix(system, q)
    regularisation = formulation.regularisation(system, mass, rows)
    matrix = SaddleMatrix(mass, (), rows, rows, regularisation, i, j, formulation.inner_rows(system))
    factors = factorise(matrix, system.linear_solver)

    def solve(b: Float[Array, " m"]) -> Float[Array, "nb d"]:
        n = system.nb * formulation.size
        x = linear_solve(matrix.matvec, factors, jnp.concatenate([jnp.zeros(n, b.dtype), b]))
        return x[:n].reshape(system.nb, formulation.size)

    return matrix, solve
