"""Positions on joints and on closed contacts, after a step."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ...equations.index1 import saddle_matrix
from ...equations.laws import LawRows, gaps
from ...equations.motion import mass_matrix
from ...equations.rows import phi, row_bodies, rows, velocity_right_side
from ...formulations.base import Coordinates
from ...linalg import factorize, linear_solve
from ...linalg.dense import dense_solve_unless_zero
from ...linalg.saddle import apply_rows
from ...model.system import System
from ...rotations.types import Array, Scalar
from ...xla.checkpoint import save_roots
from ...xla.indexing import take

# Damping of the projection onto closed contacts, relative to their matrix, and how far it may move
# bodies, relative to the largest gap.
_DAMPING = (1e-10, 1e-4, 1e-2, 1.0)
_FARTHEST = 4.0
# Moves of this many roundings of the mechanism's length, or of one radian, are none.
_ROUNDING = 32.0


class ClosedPlaces(NamedTuple):
    """Places of laws that may be closed at the end of a step.

    Attributes:
        rows: Of the laws.
        spots: Their places among all.
        X: What unit impulses change of the velocities, (w, nb, d).
        G: The same of the rows, (w, w).
        normal: Which rows are normal.
        touching: Whether the laws found them closed, (c,).
        closable: Whether they have a gap at all, (c,).
        lowest: Gaps below this, (c,), are not of bodies but of features that left each other [m] or
            [rad].
        way: Gaps beyond this are open [m] or [rad].
        rounding: Gaps within this are closed [m] or [rad].
    """

    rows: LawRows
    spots: Int[Array, " c"]
    X: Float[Array, "w nb d"]
    G: Float[Array, "w w"]
    normal: np.ndarray
    touching: Bool[Array, " c"]
    closable: Bool[Array, " c"]
    lowest: Float[Array, " c"]
    way: Scalar
    rounding: Scalar


def projected(
    formulation, system: System, q, u, t: Scalar, closed: ClosedPlaces | None
) -> tuple[Coordinates, Array, Scalar]:
    """Positions on the joints and on closed contacts, and velocities on the joints, nearest by
    mass; and how far contacts moved a body.

    One matrix serves all: it is that of the positions before, which differ by what the step missed.
    """
    joints = system.nc + system.nb * formulation.normalizations
    none = jnp.zeros((), u.dtype)
    if not joints and closed is None:
        return q, u, none
    now, f_dot, _ = system.jet(t)
    solve = _least_move(formulation, system, now, q) if joints else None

    def once(q):
        delta, far = jnp.zeros_like(u), none
        if solve is not None:
            delta = solve(-phi(formulation, now, q))
        if closed is not None:
            push, far = _push(closed, take(gaps(formulation, now, q), closed.spots), delta)
            delta = delta + push
        return jax.vmap(formulation.retract)(q, delta), (delta, far)

    def others(q):
        q, (_, moves) = jax.lax.scan(lambda q, _: once(q), q, None, length=2)
        return q, jnp.sum(moves)

    # After a move that is no more than rounding, another one would change neither positions nor
    # their derivatives.
    of_each = jax.lax.stop_gradient(jnp.where(np.arange(u.shape[1]) < 3, system.length, 1.0))
    q, (delta, moved) = once(q)
    more = jnp.any(jnp.abs(delta / of_each[None, :]) > _ROUNDING * jnp.finfo(u.dtype).eps)
    others = jax.checkpoint(others, policy=save_roots, prevent_cse=False)
    q, moves = jax.lax.cond(more, others, lambda q: (q, none), q)
    moved = moved + moves
    if solve is not None:
        blocks, bodies = rows(formulation, now, q), row_bodies(formulation, system)
        wanted = velocity_right_side(formulation, now, f_dot, q)

        def again(u, _):
            return u + solve(wanted - apply_rows(blocks, u, bodies)), None

        u = jax.lax.scan(again, u, None, length=2)[0]
    return q, u, jax.lax.stop_gradient(moved)


def _least_move(formulation, system: System, now: System, q):
    """The function from values of the rows at q to the least move, by mass, that has them."""
    matrix = saddle_matrix(
        formulation, now, mass_matrix(formulation, system, q), rows(formulation, now, q)
    )
    factors = factorize(matrix, system.linear_solver)
    n = system.nb * formulation.size

    def solve(b: Array) -> Array:
        whole = jnp.concatenate([jnp.zeros(n, b.dtype), b])
        return linear_solve(matrix.matvec, factors, whole)[:n].reshape(system.nb, formulation.size)

    return solve


def _push(closed: ClosedPlaces, gap: Float[Array, " c"], delta: Float[Array, "nb d"]):
    """The move that shuts closed places after the move delta, and how far it carries a body."""
    normal, X = closed.normal, closed.X[closed.normal]
    shut = closed.closable & ((closed.touching & (gap < closed.way)) | (gap < 0.0))
    shut = shut & (gap > closed.lowest)
    reduced = closed.G[normal[:, None], normal[None, :]]
    both = shut[:, None] & shut[None, :]
    size = jnp.max(jnp.where(both, jnp.abs(reduced), 0.0), initial=0.0)
    unit = jnp.where(size > 0.0, size, 1.0)
    eye = jnp.eye(reduced.shape[0], dtype=gap.dtype)
    # Places that are open have the rows of the identity; hyperstatic ones repeat.
    small = jnp.where(both, reduced / unit, eye)
    short = jnp.where(shut, gap + closed.rows.velocities(delta)[normal], 0.0)
    # Rounding of gaps that repeat each other contradicts itself, and would move bodies by a hundred
    # times as much. Their derivatives do not.
    within = jnp.max(jnp.abs(short), initial=0.0) <= closed.rounding
    short = short - jax.lax.stop_gradient(jnp.where(within, short, 0.0))

    def damped(part, small, short, X) -> tuple[Array, Array]:
        pushes = dense_solve_unless_zero(small + part * eye, -short)
        push = jnp.tensordot(pushes, X, 1)
        return push, jnp.max(jnp.abs(push[:, :3]), initial=0.0)

    # Places that nearly repeat each other and do not agree would move bodies far: the least damping
    # counts that does not. It is nearly always the first.
    parts, short = jnp.array(_DAMPING, gap.dtype), short / unit
    most = jax.lax.stop_gradient(_FARTHEST * unit * jnp.max(jnp.abs(short), initial=0.0))
    held = jax.lax.stop_gradient((small, short, X))

    def too_far(k: Int[Array, ""]) -> Bool[Array, ""]:
        return (k < len(_DAMPING) - 1) & ~(damped(parts[k], *held)[1] <= most)

    def more(_):
        k = jax.lax.while_loop(too_far, lambda k: k + 1, jnp.ones((), int))
        return damped(parts[k], small, short, X)

    first = damped(parts[0], small, short, X)
    return jax.lax.cond(first[1] <= most, lambda first: first, more, first)
