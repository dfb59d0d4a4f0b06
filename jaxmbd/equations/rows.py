"""Constraint rows of all joints in the coordinates of a formulation, and what the equations of
motion need of them.

Rows are stacked: the primitives' at position level, those at velocity level, then the
normalizations of coordinates. What a primitive's geometry says becomes rows by automatic
differentiation of one primitive on the local coordinates of its bodies, never of the whole
residual. A formulation that has closed forms registers them with the functions marked
`singledispatch`, in a file of its own.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, Coordinates
from ..formulations.pose_jet import PoseJet, as_pose
from ..linalg import Coupling
from ..linalg.saddle import Index
from ..model.primitives import AbstractPrimitive, PrimitiveStack
from ..model.stacking import each
from ..model.system import System
from ..rotations.types import Scalar
from .row_switches import acting
from .velocity_rows import (
    rate_of,
    rate_variation,
    velocity_gamma_of,
    velocity_rows,
    velocity_variation,
)

# --- which rows
# --------------------------------------------------------------------------------------


def row_bodies(formulation: AbstractFormulation, system: System) -> Index:
    """Bodies of every row, the normalizations' (one body and the ground) included."""
    joints = system.row_bodies
    own = [
        (b, *[system.nb] * (joints.shape[1] - 1))
        for b in range(system.nb)
        for _ in range(formulation.normalizations)
    ]
    return (*map(tuple, joints.tolist()), *own)


def inner_rows(formulation: AbstractFormulation, system: System) -> int:
    """Number of normalizations, the last of the rows."""
    return system.nb * formulation.normalizations


def coupling_rows(system: System) -> tuple[int, ...]:
    """Rows of gears and the like."""
    found, first = [], 0
    for stack in system.holonomic:
        if type(stack.primitive).couples:
            found += range(first, first + len(stack))
        first += len(stack)
    return tuple(found)


def row_sizes(
    formulation: AbstractFormulation, system: System, right: Float[Array, "m k d"] | None = None
) -> Float[Array, " m"]:
    """What every row changes by when a body moves by the system's length or turns by one radian,
    in the row's own unit, (m,).

    Values Φ and rows R are compared, and R is factored, after division by it: a distance counts in
    parts of the system's length and beside a direction [-]. It follows from the primitive's unit
    (`AbstractPrimitive.row_size`) and is then the same in all formulations and at all poses. For
    other primitives it is the norm of their rows, here `right`, or the length where that is left
    out.
    """
    sizes, start = [jnp.zeros(0, system.dtype)], 0
    for stack in system.constraints:
        n = len(stack)
        known = each(stack.primitive, lambda p: p.row_size(system.length), count=n)
        if known is not None:
            known = jnp.broadcast_to(jnp.asarray(known, system.dtype), (n,))
        elif right is None:
            known = jnp.broadcast_to(system.length, (n,))
        else:
            known = _norms(right[start : start + n] * system.units(formulation.size)[None, None, :])
        sizes.append(known)
        start += n
    return jnp.concatenate([*sizes, jnp.ones(inner_rows(formulation, system), system.dtype)])


def _norms(blocks: Float[Array, "n k d"]) -> Float[Array, " n"]:
    """Norms of some rows, held; one where a row vanishes."""
    squares = jnp.sum(jax.lax.stop_gradient(blocks) ** 2, axis=(1, 2))
    return jnp.where(squares > 0.0, jnp.sqrt(squares), 1.0)


# --- values
# ------------------------------------------------------------------------------------------


def phi(formulation: AbstractFormulation, system: System, q: Coordinates) -> Float[Array, " m"]:
    """All constraint values at position level, zero for rows at velocity level; `system` is at the
    instant.
    """
    poses = jax.vmap(formulation.pose)(formulation.with_ground(q))
    values = [jnp.zeros(0, system.dtype)]
    values += [
        stack.each(lambda p, *x: p.geometry(*x) - p.prescribed, *stack.local(poses))
        for stack in system.holonomic
    ]
    values += [jnp.zeros(len(stack), system.dtype) for stack in system.nonholonomic]
    values.append(jax.vmap(formulation.normalization)(q).reshape(-1))
    return acting(system, jnp.concatenate(values))


def step_values(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    velocity: Scalar,
    position: Scalar,
) -> Float[Array, " m"]:
    """What the rows are short of at the end of a step, in units of acceleration.

    Position rows are divided by ∂q/∂a = `position`, velocity rows B u = b by ∂u/∂a = `velocity`.
    """
    values = phi(formulation, system, q) / position
    if not system.nonholonomic:
        return values
    start = sum(len(stack) for stack in system.holonomic)
    gaps = jnp.concatenate(velocity_values(formulation, system, q, u))
    return acting(system, values.at[start : start + gaps.size].set(gaps / velocity))


def velocity_values(
    formulation: AbstractFormulation, system: System, q: Coordinates, u: Float[Array, "nb d"]
) -> list[Float[Array, " n"]]:
    """B u - b of every stack at velocity level."""
    padded, padded_u = formulation.with_ground(q), _padded(u)
    return [
        stack.each(rate_of(formulation), *stack.local((padded, padded_u)))
        for stack in system.nonholonomic
    ]


def _padded(u: Float[Array, "nb d"]) -> Float[Array, "nb+1 d"]:
    return jnp.concatenate([u, jnp.zeros((1, u.shape[1]), u.dtype)])


# --- rows
# --------------------------------------------------------------------------------------------


def rows(formulation: AbstractFormulation, system: System, q: Coordinates) -> Float[Array, "m k d"]:
    """All rows, each on the velocity coordinates of its bodies: those that forces act through."""
    padded = formulation.with_ground(q)
    blocks = joint_rows(formulation, system.holonomic, padded)
    blocks = [
        *blocks,
        *(velocity_rows(formulation, stack, padded) for stack in system.nonholonomic),
    ]
    if formulation.normalizations:
        own = jax.vmap(formulation.normalization_rows)(q).reshape(-1, formulation.size)
        blocks.append(own[:, None])
    return acting(system, joined(blocks, system, formulation.size))


def joined(blocks: Sequence[Array], system: System, size: int) -> Float[Array, "m k d"]:
    """Rows of different numbers of bodies as one array, with zeros for bodies that a row does not
    have.
    """
    width = system.row_bodies.shape[1]
    wide = [jnp.zeros((0, width, size), system.dtype)]
    for block in blocks:
        missing = width - block.shape[1]
        wide.append(jnp.pad(block, ((0, 0), (0, missing), (0, 0))) if missing else block)
    return jnp.concatenate(wide)


@functools.singledispatch
def joint_rows(
    formulation: AbstractFormulation, stacks: Sequence[PrimitiveStack], padded: Coordinates
) -> list[Float[Array, "n k d"]]:
    """Rows of some stacks at position level; `padded` are the coordinates of all bodies and the
    ground.
    """
    jets = _jets(formulation, stacks, padded)
    return [stack.each(jet_row, *stack.local(jets)) for stack in stacks]


@functools.singledispatch
def joint_variations(
    formulation: AbstractFormulation,
    stacks: Sequence[PrimitiveStack],
    padded: Coordinates,
    lam: Sequence[Array],
) -> list[Coupling]:
    """Derivatives of Rᵀ λ of some stacks at position level by the coordinates; `lam` are their
    multipliers.
    """
    jets = _jets(formulation, stacks, padded)
    couplings = []
    for stack, weights in zip(stacks, lam, strict=True):
        blocks = stack.each(jet_row_variation, *stack.local(jets))
        couplings.append(Coupling(blocks * weights[:, None, None, None, None], stack.bodies))
    return couplings


@functools.singledispatch
def joint_gamma(
    formulation: AbstractFormulation,
    stacks: Sequence[PrimitiveStack],
    padded: Coordinates,
    u: Float[Array, "b d"],
) -> list[Float[Array, " n"]]:
    """γ of some stacks at position level, minus the second derivative of their geometry along the
    free motion.
    """
    if not stacks:
        return []
    motions = jax.vmap(formulation.free_motion)(padded, u)
    return [stack.each(jet_row_gamma, *stack.local(motions)) for stack in stacks]


def _jets(
    formulation: AbstractFormulation, stacks: Sequence[PrimitiveStack], padded: Coordinates
) -> PoseJet | None:
    return jax.vmap(formulation.pose_jet)(padded) if stacks else None


def row_variations(
    formulation: AbstractFormulation, system: System, q: Coordinates, lam: Float[Array, " m"]
) -> list[Coupling]:
    """Derivatives of Rᵀ λ by the coordinates, normalizations excluded, on the coordinates of each
    row's bodies.
    """
    padded, lam = formulation.with_ground(q), acting(system, lam)
    parts, start = [], 0
    for stack in system.constraints:
        parts.append(lam[start : start + len(stack)])
        start += len(stack)
    count = len(system.holonomic)
    couplings = joint_variations(formulation, system.holonomic, padded, parts[:count])
    for stack, weights in zip(system.nonholonomic, parts[count:], strict=True):
        couplings.append(velocity_variation(formulation, stack, padded, weights))
    return couplings


def rate_variations(
    formulation: AbstractFormulation, system: System, q: Coordinates, u: Float[Array, "nb d"]
) -> Float[Array, "m k d"]:
    """Derivatives of B u - b by the coordinates, zero for rows at position level: the left rows
    differ by them.
    """
    padded, padded_u = formulation.with_ground(q), _padded(u)
    blocks = [
        jnp.zeros((len(stack), stack.width, formulation.size), u.dtype)
        for stack in system.holonomic
    ]
    blocks += [
        rate_variation(formulation, stack, padded, padded_u) for stack in system.nonholonomic
    ]
    blocks.append(jnp.zeros((inner_rows(formulation, system), 1, formulation.size), u.dtype))
    return acting(system, joined(blocks, system, formulation.size))


# --- right-hand sides of velocities and accelerations
# ------------------------------------------------


def gamma(
    formulation: AbstractFormulation, system: System, q: Coordinates, u: Float[Array, "nb d"]
) -> Float[Array, " m"]:
    """Minus what the rows' second derivatives are without accelerations; `system` from
    `System.jet`.
    """
    padded, padded_u = formulation.with_ground(q), _padded(u)
    values = [
        jnp.zeros(0, system.dtype),
        *joint_gamma(formulation, system.holonomic, padded, padded_u),
    ]
    values += [
        stack.each(velocity_gamma_of(formulation), *stack.local((padded, padded_u)))
        for stack in system.nonholonomic
    ]
    if formulation.normalizations:
        values.append(jax.vmap(formulation.normalization_gamma)(q, u).reshape(-1))
    return acting(system, jnp.concatenate(values))


def explicit_rate(
    formulation: AbstractFormulation, system: System, q: Coordinates
) -> Float[Array, " m"]:
    """The partial time derivative of the geometry of all rows; `system` from `System.jet`."""
    poses = jax.vmap(formulation.pose)(formulation.with_ground(q))
    values = [jnp.zeros(0, system.dtype)]
    values += [
        stack.each(lambda p, *x: p.geometry_rate(*x), *stack.local(poses))
        for stack in system.holonomic
    ]
    rest = sum(len(stack) for stack in system.nonholonomic) + inner_rows(formulation, system)
    return jnp.concatenate([*values, jnp.zeros(rest, system.dtype)])


def velocity_right_side(
    formulation: AbstractFormulation, system: System, f_dot: Float[Array, " n"], q: Coordinates
) -> Float[Array, " m"]:
    """ν of all rows, R u = ν: ḟ less the explicit rate of turning vectors, b at velocity level,
    (m,).

    `system` and `f_dot` are from `System.jet`.
    """
    start = sum(len(stack) for stack in system.holonomic)
    own = jnp.zeros(inner_rows(formulation, system), system.dtype)
    given = [f_dot[:start], *(stack.prescribed for stack in system.nonholonomic), own]
    return acting(system, jnp.concatenate(given) - explicit_rate(formulation, system, q))


def acceleration_right_side(
    formulation: AbstractFormulation,
    system: System,
    f_dot: Float[Array, " n"],
    f_ddot: Float[Array, " n"],
    q: Coordinates,
    u: Float[Array, "nb d"],
) -> Float[Array, " m"]:
    """γ of all rows, R a = γ, with f̈ at position and ḃ at velocity level, (m,)."""
    start = sum(len(stack) for stack in system.holonomic)
    own = jnp.zeros(inner_rows(formulation, system), system.dtype)
    given = acting(system, jnp.concatenate([f_ddot[:start], f_dot[start:], own]))
    return given + gamma(formulation, system, q, u)


# --- one primitive
# -----------------------------------------------------------------------------------


def jet_row(primitive: AbstractPrimitive, *jets: PoseJet) -> Float[Array, "k d"]:
    """Derivative of one primitive by the local coordinates of its bodies."""

    def value(x: tuple[Float[Array, "12"], ...]) -> Scalar:
        return primitive.geometry(*map(as_pose, x))

    slopes = jax.grad(value)(tuple(jet.value for jet in jets))
    return jnp.stack([slope @ jet.first for slope, jet in zip(slopes, jets, strict=True)])


def jet_row_variation(primitive: AbstractPrimitive, *jets: PoseJet) -> Float[Array, "k d k d"]:
    """Derivative of a primitive's row (first two axes) by the coordinates (last two)."""
    k, d = len(jets), jets[0].first.shape[-1]
    # Poses are polynomials whose derivatives are known: only the geometry is differentiated, by
    # numbers of poses, along the k d moves.
    slopes, bend = jax.linearize(
        jax.grad(lambda x: primitive.geometry(*map(as_pose, x))),
        tuple(jet.value for jet in jets),
    )
    moves = tuple(
        jnp.pad(jet.first.T, ((b * d, (k - 1 - b) * d), (0, 0))) for b, jet in enumerate(jets)
    )
    bent = jax.vmap(bend)(moves)
    blocks = [(x @ jet.first).reshape(k, d, d) for x, jet in zip(bent, jets, strict=True)]
    second = jnp.stack([jnp.moveaxis(block, 2, 0) for block in blocks])
    # Moves along which the geometry does not bend still bend the poses.
    own = [jnp.tensordot(slope, jet.second, 1) for slope, jet in zip(slopes, jets, strict=True)]
    return second.at[np.arange(k), :, np.arange(k), :].add(jnp.stack(own))


def jet_row_gamma(primitive: AbstractPrimitive, *motions: PoseJet) -> Scalar:
    """γ of one primitive along motions of its bodies."""
    zero, one = jnp.zeros((), motions[0].value.dtype), jnp.ones((), motions[0].value.dtype)

    def rate(s: Scalar) -> Scalar:
        def value(s: Scalar) -> Scalar:
            return primitive.advanced(s).geometry(*(motion.at(s[None]) for motion in motions))

        return jax.jvp(value, (s,), (one,))[1]

    return -jax.jvp(rate, (zero,), (one,))[1]


def dense_rows(
    formulation: AbstractFormulation, system: System, q: Coordinates
) -> Float[Array, "m n"]:
    """The constraint Jacobian as one array, (m, nb·d)."""
    return dense(formulation, system, rows(formulation, system, q))


def dense(
    formulation: AbstractFormulation, system: System, blocks: Float[Array, "m k d"]
) -> Float[Array, "m n"]:
    """Rows as one array, (m, nb·d)."""
    index = np.array(row_bodies(formulation, system), int).reshape(blocks.shape[:2])
    m, nb, d = len(index), system.nb, formulation.size
    wide = jnp.zeros((m, nb + 1, d), blocks.dtype)
    return wide.at[np.arange(m)[:, None], index].add(blocks)[:, :nb].reshape(m, nb * d)
