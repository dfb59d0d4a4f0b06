"""Equations of motion of all bodies in the coordinates of a formulation, and the matrix of Newton's
method for them.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, BodyMotion, Coordinates, Wrench
from ..linalg import Coupling, SaddleMatrix
from ..linalg.geometric_mean import geometric_mean
from ..linalg.saddle import apart, apply_tangent, scatter_rows, with_identity
from ..linalg.small_matrices import times_last, times_last_transposed
from ..model.forces.base import AbstractForce
from ..model.state import Twist
from ..model.switches import switched
from ..model.system import System
from ..rotations.types import Mat3, Scalar
from ..xla.indexing import take
from .joint_inertia import joint_inertia, joint_inertia_blocks
from .row_switches import on_rows
from .rows import (
    coupling_rows,
    inner_rows,
    rate_variations,
    row_bodies,
    row_sizes,
    row_variations,
    rows,
)


class StepScales(eqx.Module):
    """How velocities and coordinates at the end of a step follow a change of the unknown
    accelerations.

    Attributes:
        velocity: ∂u/∂a, h for implicit Euler [s].
        position: ∂q/∂a, h² for implicit Euler [s²].
    """

    velocity: Scalar
    position: Scalar


class StepEnd(NamedTuple):
    """All bodies at the end of a step.

    Attributes:
        q: Coordinates.
        u: Velocities, (nb, d).
        a: Accelerations, (nb, d).
        lam: Multipliers, (m,).
        t: Time [s].
    """

    q: Coordinates
    u: Float[Array, "nb d"]
    a: Float[Array, "nb d"]
    lam: Float[Array, " m"]
    t: Scalar


def applied(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
) -> Wrench:
    """Applied forces and torques on all bodies (see `System.wrenches`)."""
    pose = jax.vmap(formulation.pose)(formulation.with_ground(q))
    twist = jax.vmap(formulation.twist)(q, u)
    zero = jnp.zeros((1, 3), u.dtype)
    padded = Twist(jnp.concatenate([twist.v, zero]), jnp.concatenate([twist.omega, zero]))
    return Wrench(*system.wrenches(pose, padded, t))


def unbalanced(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    a: Float[Array, "nb d"],
    t: Scalar,
) -> Float[Array, "nb d"]:
    """Inertia minus applied loads of all bodies, without reactions, (nb, d)."""
    force, torque = applied(formulation, system, q, u, t)
    own = jax.vmap(formulation.body_balance)(system.mass, system.inertia, q, u, a, force, torque)
    return own + joint_inertia(formulation, system, q, u, a) if system.inertias else own


def balance(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    a: Float[Array, "nb d"],
    lam: Float[Array, " m"],
    t: Scalar,
) -> Float[Array, "nb d"]:
    """Equations of motion of all bodies, Mq̈ + h - Q + Rᵀλ, (nb, d); `system` is at time t."""
    free = unbalanced(formulation, system, q, u, a, t)
    return free + scatter_rows(
        rows(formulation, system, q), lam, row_bodies(formulation, system), system.nb
    )


def mass_matrix(
    formulation: AbstractFormulation, system: System, q: Coordinates
) -> Float[Array, "nb d d"]:
    """Mass matrix of every body in its coordinates; inertia of joints is not part of it."""
    zero, none = jnp.zeros((system.nb, formulation.size), system.dtype), jnp.zeros((), system.dtype)
    no_load = jnp.zeros((system.nb, 3), system.dtype)
    motion, load = BodyMotion(q, zero, zero), Wrench(no_load, no_load)
    return body_blocks(formulation, system, motion, load, StepScales(none, none), None)


def body_blocks(
    formulation: AbstractFormulation,
    system: System,
    motion: BodyMotion,
    load: Wrench,
    scales: StepScales,
    tangent: Float[Array, "nb s s"] | None,
) -> Float[Array, "nb d d"]:
    """Derivatives of every body's balance by its accelerations through a step, the applied wrench
    held, (nb, d, d).
    """
    bodies = (system.mass, system.inertia, motion, load)
    if tangent is None:
        return jax.vmap(
            lambda *args: formulation.body_block(
                *args, velocity=scales.velocity, position=scales.position
            )
        )(*bodies)

    def turned(
        T: Float[Array, "s s"], mass: Scalar, inertia: Mat3, motion: BodyMotion, load: Wrench
    ) -> Float[Array, "d d"]:
        eye = jnp.asarray(np.eye(formulation.size, dtype=T.dtype))
        position = scales.position * times_last_transposed(T[None], eye)
        return formulation.body_block(mass, inertia, motion, load, scales.velocity, position)

    return jax.vmap(turned)(tangent, *bodies)


def force_blocks(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
    scales: StepScales,
    tangent: Float[Array, "nb s s"] | None,
) -> list[Coupling]:
    """Derivatives of the applied forces (with the sign of the balance) on the coordinates of their
    bodies.
    """
    turns = None if tangent is None else with_identity(tangent)
    padded = formulation.with_ground(q)
    padded_u = jnp.concatenate([u, jnp.zeros((1, formulation.size), u.dtype)])
    couplings = []
    for stack in system.forces:
        index = stack.index
        q_k, u_k = (
            jax.tree.map(lambda x, index=index: take(x, index), padded),
            take(padded_u, index),
        )

        def block(
            element: AbstractForce,
            q_k: Coordinates,
            u_k: Float[Array, "k d"],
            T: Float[Array, "k s s"] | None,
        ) -> Float[Array, "k e k e"]:
            if formulation.plain:
                twist = jax.vmap(formulation.twist)(q_k, u_k)
                if (found := element.tangent(formulation.pose(q_k), twist, t)) is not None:
                    by_pose, by_twist = switched(element.switch, found)
                    turned = by_pose
                    if T is not None:
                        turned = times_last_transposed(T[None, None], by_pose)
                    return -(scales.position * turned + scales.velocity * by_twist)

            def moved(delta: Float[Array, "k d"]) -> Float[Array, "k d"]:
                turned = delta if T is None else times_last(T, delta)
                q_new = jax.vmap(formulation.retract)(q_k, scales.position * turned)
                u_new = u_k + scales.velocity * delta
                pose, twist = (
                    jax.vmap(formulation.pose)(q_new),
                    jax.vmap(formulation.twist)(q_new, u_new),
                )
                force, torque = element.acting(pose, twist, t)
                return -jax.vmap(formulation.generalized)(q_k, force, torque)

            return jax.jacfwd(moved)(jnp.zeros_like(u_k))

        T = None if turns is None else take(turns, index)
        couplings.append(Coupling(stack.each(block, q_k, u_k, T), stack.bodies))
    return couplings


def step_matrices(
    formulation: AbstractFormulation,
    system: System,
    end: StepEnd,
    scales: StepScales,
    increment: Float[Array, "nb d"] | None,
    *,
    exact: bool,
) -> tuple[SaddleMatrix, SaddleMatrix]:
    """Newton's matrix of [balance; Φ / scales.position] with respect to (a, λ), and what remains of
    it without the couplings that variations of reactions make between bodies; `system` is at time
    t.

    `increment` is the argument of the last `retract`, whose tangent the matrix holds; None leaves
    that out, and such a matrix is not exact. Without `exact` it is the quasi-Newton matrix, which
    leaves out the variations of reactions and wrenches with the position but keeps the derivatives
    of applied forces and of gyroscopic terms; both matrices are then the same.

    A force of a CD row keeps its direction, and its moment on a body turns with that body alone:
    all that the forces in ball joints and hinges vary by remains. What goes are the moments of DP1
    rows and the forces of DP2 and D rows.
    """
    q, u, a, lam, t = end
    tangent = None
    if increment is not None and formulation.moves_on_manifold:
        tangent = jax.vmap(formulation.tangent)(increment)
    right = rows(formulation, system, q)
    held = StepScales(
        scales.velocity, scales.position if exact else jnp.zeros_like(scales.position)
    )
    if exact:
        load = applied(formulation, system, q, u, t)
    else:
        none = jnp.zeros((system.nb, 3), u.dtype)
        load = Wrench(none, none)  # held: they do not matter at fixed position
    motion = BodyMotion(q, u, a)
    diagonal = body_blocks(formulation, system, motion, load, held, tangent)
    couplings = force_blocks(formulation, system, q, u, t, scales, tangent)
    couplings += joint_inertia_blocks(
        formulation, system, motion, scales.velocity, scales.position, tangent
    )
    # E is about M, whatever reactions do to the diagonal.
    softness = regularization(formulation, system, diagonal, right)
    left, between = right, []
    bodies = row_bodies(formulation, system)
    if exact:
        varied = row_variations(formulation, system, q, lam)
        own, others = apart(varied, system.nb, formulation.size)
        if own is not None:
            own = scales.position * own
            if tangent is not None:
                own = times_last_transposed(tangent[:, None], own)
            diagonal = diagonal + own
        for c in others:
            blocks = scales.position * c.blocks
            if tangent is not None:
                blocks = apply_tangent(blocks, tangent, c.bodies)
            between.append(Coupling(blocks, c.bodies))
        if formulation.normalizations:
            diagonal = diagonal + scales.position * normalization_variations(
                formulation, system, q, lam
            )
        left = _left_rows(formulation, system, q, u, right, scales, tangent)
    elif tangent is not None:
        left = apply_tangent(right, tangent, bodies)
        if system.nonholonomic:  # their value follows velocities, which are no argument of exp
            left = jnp.where(_at_velocity(system, len(bodies)), right, left)
    inner = inner_rows(formulation, system)
    matrix = SaddleMatrix(
        diagonal,
        tuple(couplings),
        right,
        left,
        softness,
        bodies,
        inner,
        coupling_rows(system),
        system.light,
    )
    nearby = matrix.localized()
    couplings = (*nearby.couplings, *between)
    return eqx.tree_at(lambda m: m.couplings, nearby, couplings), nearby


def _left_rows(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    right: Float[Array, "m k d"],
    scales: StepScales,
    tangent: Float[Array, "nb s s"] | None,
) -> Float[Array, "m k d"]:
    """Derivatives of the rows' values through a step: those at velocity level follow velocities and
    coordinates.
    """
    bodies = row_bodies(formulation, system)
    by_position, by_velocity = right, None
    if system.nonholonomic:
        at_velocity = _at_velocity(system, len(bodies))
        by_velocity = jnp.where(at_velocity, right, 0.0)
        by_position = jnp.where(at_velocity, 0.0, right)
        by_position = by_position + scales.position / scales.velocity * rate_variations(
            formulation, system, q, u
        )
    if tangent is not None:
        by_position = apply_tangent(by_position, tangent, bodies)
    return by_position if by_velocity is None else by_position + by_velocity


def _at_velocity(system: System, m: int) -> np.ndarray:
    """Which of the m rows are at velocity level, (m, 1, 1)."""
    row = np.arange(m)[:, None, None]
    return (row >= system.holonomic_rows) & (row < system.nc)


def normalization_variations(
    formulation: AbstractFormulation, system: System, q: Coordinates, lam: Float[Array, " m"]
) -> Float[Array, "nb d d"]:
    """Derivatives of the normalizations' part of Rᵀ λ, body by body."""
    weights = lam[system.nc :].reshape(system.nb, formulation.normalizations)

    def one(q: Coordinates, w: Float[Array, " k"]) -> Float[Array, "d d"]:
        zero = jnp.zeros(formulation.size, w.dtype)
        return jax.jacfwd(lambda d: w @ formulation.normalization_rows(formulation.retract(q, d)))(
            zero
        )

    return jax.vmap(one)(q, weights)


def regularization(
    formulation: AbstractFormulation,
    system: System,
    mass: Float[Array, "nb d d"],
    right: Float[Array, "m k d"],
) -> Float[Array, " m"] | None:
    """A small multiple of the geometric mean of the diagonal of R M⁻¹ Rᵀ, the same for all rows of
    joints where these are divided by their sizes (`row_sizes`).

    It picks multipliers of minimum norm where rows repeat, moments counting as forces at the
    system's length. Light bodies beside heavy ones spread
    that diagonal over orders of magnitude, and an arithmetic mean would be large beside the
    smallest eigenvalues. Only where topology allows redundancy. It enters the matrix, never the
    residual, so constraints stay exact.
    """
    if not system.has_loops:
        return None
    return softness(mass.dtype) * compliance(formulation, system, mass, right)


def softness(dtype: np.dtype) -> float:
    """What the regularization is of the compliance of rows: the root of rounding, by which one
    correction takes away what is left of it. In single precision that would be large beside
    what rows see of slow directions; rounding allows less.
    """
    eps = float(jnp.finfo(dtype).eps)
    return eps**0.5 if jnp.finfo(dtype).bits > 32 else 100.0 * eps


def compliance(
    formulation: AbstractFormulation,
    system: System,
    mass: Float[Array, "nb d d"],
    right: Float[Array, "m k d"],
) -> Float[Array, " m"]:
    """The geometric mean of the diagonal of R M⁻¹ Rᵀ for all rows of joints divided by their sizes,
    times the squares of these; zero for normalizations, (m,).
    """
    # Mean inertias of translation and rotation stand in for M, which may be singular.
    # A link without inertia gives way as its neighbors do, which count for it.
    heavy = jnp.trace(mass[:, :3, :3], axis1=1, axis2=2)
    trans = jnp.where(heavy > 0.0, 3.0 / jnp.where(heavy > 0.0, heavy, 1.0), 0.0)
    spin = jnp.trace(mass[:, 3:, 3:], axis1=1, axis2=2)
    rot = jnp.where(spin > 0.0, 3.0 / jnp.where(spin > 0.0, spin, 1.0), 0.0)
    weight = jnp.concatenate([jnp.stack([trans, rot], axis=1), jnp.zeros((1, 2), mass.dtype)])
    bodies = row_bodies(formulation, system)
    w = take(weight, np.array(bodies, int).reshape(right.shape[:2]))  # (m, k, 2)
    squares = jnp.stack([jnp.sum(right[..., :3] ** 2, -1), jnp.sum(right[..., 3:] ** 2, -1)], -1)
    sizes = row_sizes(formulation, system, right) ** 2
    diagonal = jnp.sum(w * squares, axis=(1, 2)) / sizes
    on = on_rows(system)
    if on is not None:  # what is off must not count as a row that vanishes
        largest = jnp.max(diagonal)
        others = jnp.where(largest > 0.0, largest, 1.0)
        on = jnp.pad(on, (0, len(bodies) - on.shape[0]), constant_values=True)
        diagonal = jnp.where(on, diagonal, others)
    scale = sizes * geometric_mean(diagonal)  # a row may vanish at a singular point
    # Normalizations never repeat; without E they stay out of the norm, which then is the same in
    # all formulations.
    uniform = np.arange(len(bodies)) < len(bodies) - inner_rows(formulation, system)
    return scale * jnp.asarray(uniform, mass.dtype)
