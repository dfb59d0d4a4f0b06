"""Accelerations from positions and velocities by the index-1 form, and the nearest states that meet
the constraints.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial, singledispatch

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..formulations.base import AbstractFormulation, BodyMotion, Coordinates
from ..linalg import BlockFactors, Coupling, SaddleMatrix, factorize, linear_solve
from ..linalg.saddle import apply_rows
from ..linalg.strategy import SaddleFactors
from ..model.system import System
from ..rotations.types import Scalar
from .joint_inertia import joint_inertia_blocks
from .motion import mass_matrix, regularization, unbalanced
from .rows import (
    acceleration_right_side,
    inner_rows,
    phi,
    row_bodies,
    row_sizes,
    rows,
    velocity_right_side,
)

# Share of the multipliers that E holds, from which they are told as undetermined: they then miss
# its square, a hundredth.
_NOTICED = 0.1
# The power k of `minimum_norm` by accurate factors. Beside an eigenvalue of S of a hundredth of the
# mean, p is 1e-6 in double and 1e-3 in single precision (`motion.softness`).
PROJECTIONS = 2


@singledispatch
def eliminate(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    blocks: Float[Array, "m k d"],
    bias: Float[Array, "nb d"],
    gamma: Float[Array, " m"],
) -> tuple[Array, Array] | None:
    """(a, λ) of M a + bias + Rᵀ λ = 0 and R a = γ by a method of its own; None leaves it to the
    linear solvers.
    """
    return None


def saddle_matrix(
    formulation: AbstractFormulation,
    system: System,
    weights: Float[Array, "nb d d"],
    blocks: Float[Array, "m k d"],
    couplings: Sequence[Coupling] = (),
) -> SaddleMatrix:
    """[[W, Rᵀ], [R, -E]] of all rows at one instant, W being the mass matrix or other weights, (nb,
    d, d), and blocks that couple bodies.
    """
    softness = regularization(formulation, system, weights, blocks)
    bodies, inner = row_bodies(formulation, system), inner_rows(formulation, system)
    matrix = SaddleMatrix(
        weights, tuple(couplings), blocks, blocks, softness, bodies, inner, light=system.light
    )
    return matrix.localized() if couplings else matrix


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

    `load` adds generalized forces to those of the system. `feedback` (α, β) [1/s] asks for Φ̈ = -2α
    Φ̇ - β² Φ instead of zero, Baumgarte's stabilization. Redundant rows get multipliers of minimum
    norm. Singular inertias are allowed as long as the whole matrix is regular.
    """
    a, lam, _ = judged_accelerations(formulation, system, q, u, t, load, feedback)
    return a, lam


def _with_joint_inertia(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    blocks: Float[Array, "m k d"],
) -> SaddleMatrix:
    none = jnp.zeros((), u.dtype)
    motion = BodyMotion(q, u, jnp.zeros_like(u))
    rotors = joint_inertia_blocks(formulation, system, motion, none, none)
    return saddle_matrix(formulation, system, mass_matrix(formulation, system, q), blocks, rotors)


def judged_accelerations(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
    load: Float[Array, "nb d"] | None = None,
    feedback: tuple[Scalar | float, Scalar | float] | None = None,
) -> tuple[Float[Array, "nb d"], Float[Array, " m"], Bool[Array, ""]]:
    """As `dynamic_accelerations`, and whether the pose is so close to a singular one that the
    multipliers leave out a part of the forces.
    """
    jet_system, f_dot, f_ddot = system.jet(t)
    blocks = rows(formulation, jet_system, q)
    bias = unbalanced(formulation, jet_system, q, u, jnp.zeros_like(u), t)
    if load is not None:
        bias = bias - load
    gamma = acceleration_right_side(formulation, jet_system, f_dot, f_ddot, q, u)
    if feedback is not None:
        nu = velocity_right_side(formulation, jet_system, f_dot, q)
        phi_dot = apply_rows(blocks, u, row_bodies(formulation, system)) - nu
        gamma = (
            gamma - 2.0 * feedback[0] * phi_dot - feedback[1] ** 2 * phi(formulation, jet_system, q)
        )
    return _solved(formulation, system, q, u, (blocks, bias, gamma))


def velocity_jump(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
    restitution: Float[Array, " m"] | None = None,
) -> tuple[Float[Array, "nb d"], Float[Array, " m"], Bool[Array, ""]]:
    """By how much velocities change where all constraints begin to act at once, M Δu + Rᵀ P = 0 and
    R (u + Δu) - ν = -e (R u - ν), e being the restitution of each row, or zero; the impulses P; and
    whether these leave out a part, as the multipliers of `judged_accelerations` may.

    Without restitution, of all velocities that the constraints allow, u + Δu has the least kinetic
    energy of the change.
    """
    jet_system, f_dot, _ = system.jet(t)
    blocks = rows(formulation, jet_system, q)
    nu = velocity_right_side(formulation, jet_system, f_dot, q)
    gap = nu - apply_rows(blocks, u, row_bodies(formulation, system))
    if restitution is not None:
        gap = (1.0 + restitution) * gap
    return _solved(formulation, system, q, u, (blocks, jnp.zeros_like(u), gap))


def _solved(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    sides: tuple[Float[Array, "m k d"], Float[Array, "nb d"], Float[Array, " m"]],
) -> tuple[Float[Array, "nb d"], Float[Array, " m"], Bool[Array, ""]]:
    """(a, λ) of M a + bias + Rᵀ λ = 0 and R a = γ, from (R, bias, γ), with multipliers of least
    norm, and whether these leave out a part of the forces.
    """
    blocks, bias, gamma = sides
    found = eliminate(formulation, system, q, blocks, bias, gamma)
    if found is not None:
        return *found, jnp.zeros((), bool)
    matrix = _with_joint_inertia(formulation, system, q, u, blocks)
    factors = factorize(matrix, system.linear_solver)
    x = linear_solve(matrix.matvec, factors, jnp.concatenate([-bias.reshape(-1), gamma]))
    undetermined = jnp.zeros((), bool)
    if matrix.regularization is not None:
        x = minimum_norm(x, factors)
        sizes = row_sizes(formulation, system, blocks)
        lost = jnp.linalg.norm(sizes * undetermined_part(x, factors))
        undetermined = lost > _NOTICED * jnp.linalg.norm(sizes * x[u.size :])
    return x[: u.size].reshape(u.shape), x[u.size :], undetermined


def acceleration_jump(
    formulation: AbstractFormulation,
    before: System,
    after: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
) -> Float[Array, "nb d"]:
    """By how much accelerations change at an instant t at which loads and prescribed motions do: a
    system with those of before becomes one with those of after.
    """

    def sides(system: System):
        jet_system, f_dot, f_ddot = system.jet(t)
        bias = unbalanced(formulation, jet_system, q, u, jnp.zeros_like(u), t)
        gamma = acceleration_right_side(formulation, jet_system, f_dot, f_ddot, q, u)
        return bias, gamma, jet_system

    (old_bias, old_gamma, _), (bias, gamma, jet_system) = sides(before), sides(after)
    bias, gamma = bias - old_bias, gamma - old_gamma
    blocks = rows(formulation, jet_system, q)
    found = eliminate(formulation, after, q, blocks, bias, gamma)
    if found is not None:
        return found[0]
    matrix = _with_joint_inertia(formulation, after, q, u, blocks)
    factors = factorize(matrix, after.linear_solver, checked=False)
    x = linear_solve(matrix.matvec, factors, jnp.concatenate([-bias.reshape(-1), gamma]))
    # At a singular pose there may be no answer; the method then meets the jump within its step.
    change = jnp.where(jnp.all(jnp.isfinite(x)), x, 0.0)[: u.size]
    return change.reshape(u.shape)


def acceleration_equations(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
) -> tuple[SaddleMatrix, Float[Array, "nb d"], Float[Array, " m"]]:
    """Of [[M, Rᵀ], [R, -E]] (a, λ) = (Q - h, γ) the matrix, the inertia of joints included, and the
    right side.
    """
    jet_system, f_dot, f_ddot = system.jet(t)
    blocks = rows(formulation, jet_system, q)
    bias = unbalanced(formulation, jet_system, q, u, jnp.zeros_like(u), t)
    gamma = acceleration_right_side(formulation, jet_system, f_dot, f_ddot, q, u)
    return _with_joint_inertia(formulation, system, q, u, blocks), -bias, gamma


def eliminates(formulation: AbstractFormulation) -> bool:
    """Whether `eliminate` has a method for the formulation."""
    return eliminate.dispatch(type(formulation)) is not eliminate.dispatch(object)


def minimum_norm(
    x: Float[Array, " n"],
    factors: SaddleFactors,
    *,
    rough: bool = False,
    first: Float[Array, " m"] | None = None,
) -> Float[Array, " n"]:
    """Remove from the multipliers, the last m unknowns, the part that redundant rows leave
    undetermined.

    With K = [[H, Rᵀ], [R, -E]] the solution of K (·, y) = (0, -E λ) is y = P λ with P = (S + E)⁻¹ E
    and S = R H⁻¹ Rᵀ: as E goes to zero, the projection of λ on the null space of Rᵀ. With E finite
    it also holds a fraction p = E/(σ + E) of λ along every other eigenvector of S, which λ - Pᵏ λ
    reduces to pᵏ, k `PROJECTIONS`. The norm is λᵀ E λ, in which P is symmetric. `rough` factors may
    be wrong by some parts of E, so that the null space's p is not one: λ - 4 P³ λ + 3 P⁴ λ forgives
    that to first order. Powers alone would amplify it, and multipliers would grow from step to
    step. `first` is P λ, where that is known.
    """
    norm = factors.regularization
    assert norm is not None
    n = x.size - norm.size
    project = _projection(factors, n)
    lam = x[n:]

    def again(part: Float[Array, " m"], _: None) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        part = project(part)
        return part, part

    # A loop, because one solve is a large part of a step's program.
    first = project(lam) if first is None else first
    most = 4 if rough else PROJECTIONS
    _, powers = jax.lax.scan(again, first, None, length=most - 1)
    part = powers[-1]
    if rough:
        part = 4.0 * powers[1] - 3.0 * powers[2]
        # A projection shortens the multipliers, in the norm that E makes; what does not is
        # rounding.
        shorter = jnp.sum(norm * (lam - part) ** 2) <= jnp.sum(norm * lam**2)
        part = jnp.where(shorter, part, 0.0)
    return x.at[n:].add(-part)


def undetermined_part(x: Float[Array, " n"], factors: SaddleFactors) -> Float[Array, " m"]:
    """P λ of `minimum_norm`: what E may change of the multipliers."""
    assert factors.regularization is not None
    n = x.size - factors.regularization.size
    return _projection(factors, n)(x[n:])


def _projection(factors: SaddleFactors, n: int) -> Callable[[Array], Array]:
    """The function λ ↦ P λ."""
    factors = jax.lax.stop_gradient(factors)
    softness = factors.regularization
    assert softness is not None

    def solve(b: Float[Array, " m"], *, transpose: bool = False) -> Float[Array, " m"]:
        if isinstance(factors, BlockFactors):
            return factors.solve_rows(b, transpose=transpose)
        of_all = factors.solve_transpose if transpose else factors.solve
        return of_all(jnp.concatenate([jnp.zeros(n, b.dtype), b]))[n:]

    def project(part: Float[Array, " m"]) -> Float[Array, " m"]:
        # Checked factors may loop; told what the transpose is, reverse mode need not go through
        # them.
        return jax.lax.custom_linear_solve(
            lambda v: v,  # stands in for K, which has no derivative here
            -softness * part,
            solve=lambda _, b: solve(b),
            transpose_solve=lambda _, b: solve(b, transpose=True),
        )

    return project


def closest_velocity(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
) -> Float[Array, "nb d"]:
    """The velocities nearest to u, by mass, that satisfy the constraints at q."""
    jet_system, f_dot, _ = system.jet(t)
    matrix, solve = _by_mass(formulation, system, jet_system, q)
    return u + solve(
        velocity_right_side(formulation, jet_system, f_dot, q)
        - apply_rows(matrix.right, u, matrix.bodies)
    )


def closest_position(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    t: Scalar,
    iterations: int = 2,
) -> Coordinates:
    """Coordinates nearest to q, by mass, that satisfy the constraints, to second order in their
    violation.

    Newton's iteration squares the violation: two of them take 1e-4 to rounding.
    """
    system = system.at_position_level()  # rows at velocity level say nothing about positions
    now = system.at(t)

    def correct(q: Coordinates, _: None) -> tuple[Coordinates, None]:
        solve = _by_mass(formulation, system, now, q)[1]
        return jax.vmap(formulation.retract)(q, solve(-phi(formulation, now, q))), None

    return jax.lax.scan(correct, q, None, length=iterations)[0]


def _by_mass(
    formulation: AbstractFormulation, system: System, now: System, q: Coordinates
) -> tuple[SaddleMatrix, Callable[[Array], Array]]:
    """The saddle matrix of masses and rows, and the function b ↦ δ of least M-norm with R δ = b."""
    matrix = saddle_matrix(
        formulation, system, mass_matrix(formulation, system, q), rows(formulation, now, q)
    )
    return matrix, partial(_least, matrix, factorize(matrix, system.linear_solver))


def _least(
    matrix: SaddleMatrix, factors: SaddleFactors, b: Float[Array, " m"]
) -> Float[Array, "nb d"]:
    """δ of least norm, by the upper part of the matrix, with R δ = b."""
    shape = matrix.diagonal.shape[:2]
    whole = jnp.concatenate([jnp.zeros(math.prod(shape), b.dtype), b])
    return linear_solve(matrix.matvec, factors, whole)[: math.prod(shape)].reshape(shape)
