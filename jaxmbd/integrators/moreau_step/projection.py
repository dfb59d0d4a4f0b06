"""Positions on joints and on closed contacts, after a step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ...equations.index1 import saddle_matrix
from ...equations.laws import LawRows, gaps
from ...equations.motion import mass_matrix
from ...equations.rows import phi, row_bodies, rows, velocity_right_side
from ...formulations.base import AbstractFormulation, Coordinates
from ...linalg import SaddleMatrix, factorize, linear_solve
from ...linalg.dense import DenseFactors
from ...linalg.saddle import apply_rows
from ...model.system import System
from ...rotations.types import Array, Scalar
from ...solvers.implicit_diff import AbstractRootProblem, implicit_root
from ...xla.checkpoint import save_roots
from ...xla.indexing import take
from ...xla.lazy_cond import anywhere

# Damping of the projection onto closed contacts, relative to their matrix, and how far it may move
# bodies, relative to the largest gap.
_DAMPING = (1e-10, 1e-4, 1e-2, 1.0)
_FARTHEST = 4.0
# Moves of this many roundings of the mechanism's length, or of one radian, are none.
_ROUNDING = 32.0


class ClosedPlaces(NamedTuple):
    """Places of laws that may be closed at the end of a step.

    Attributes:
        rows: Those of their gaps.
        spots: Their places among all.
        matrix, factors: Of the motion: what forces and constraints answer to impulses.
        touching: Whether the laws found them closed, (c,).
        closable: Whether they have a gap at all, (c,).
        lowest: Gaps below this, (c,), are not of bodies but of features that left each other [m] or
            [rad].
        way: Gaps beyond this are open [m] or [rad].
        rounding: Gaps within this are closed [m] or [rad].
    """

    rows: LawRows
    spots: Int[Array, " c"]
    matrix: SaddleMatrix
    factors: Any
    touching: Bool[Array, " c"]
    closable: Bool[Array, " c"]
    lowest: Float[Array, " c"]
    way: Scalar
    rounding: Scalar

    def moved(self, impulses: Float[Array, " c"]) -> Float[Array, "nb d"]:
        """What impulses change of the velocities, K⁻¹ Wᵀ P."""
        nb, size, _ = self.matrix.diagonal.shape
        push = jnp.tensordot(impulses, self.rows.pushes(nb), 1).reshape(-1)
        b = jnp.concatenate([push, jnp.zeros(self.matrix.size - push.size, push.dtype)])
        answer = linear_solve(self.matrix.matvec, self.factors, b)
        return answer[: push.size].reshape(nb, size)


def projected(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
    closed: ClosedPlaces | None,
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

    def once(q: Coordinates) -> tuple[Coordinates, tuple[Float[Array, "nb d"], Scalar]]:
        delta, far = jnp.zeros_like(u), none
        if solve is not None:
            delta = solve(-phi(formulation, now, q))
        if closed is not None:
            push, far = _push(closed, take(gaps(formulation, now, q), closed.spots), delta)
            delta = delta + push
        return jax.vmap(formulation.retract)(q, delta), (delta, far)

    def others(q: Coordinates) -> tuple[Coordinates, Scalar]:
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

        def again(u: Float[Array, "nb d"], _: None) -> tuple[Float[Array, "nb d"], None]:
            return u + solve(wanted - apply_rows(blocks, u, bodies)), None

        u = jax.lax.scan(again, u, None, length=2)[0]
    return q, u, jax.lax.stop_gradient(moved)


def _least_move(
    formulation: AbstractFormulation, system: System, now: System, q: Coordinates
) -> Callable[[Array], Array]:
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
    shut = closed.closable & ((closed.touching & (gap < closed.way)) | (gap < 0.0))
    shut = shut & (gap > closed.lowest)
    short = jnp.where(shut, gap + closed.rows.velocities(delta), 0.0)
    # Rounding of gaps that repeat each other contradicts itself, and would move bodies by a hundred
    # times as much. Their derivatives do not.
    within = jnp.max(jnp.abs(short), initial=0.0) <= closed.rounding
    short = short - jax.lax.stop_gradient(jnp.where(within, short, 0.0))

    pushes, _ = implicit_root(_Shutting(), jnp.zeros_like(short), (closed, shut, short))
    push = closed.moved(pushes)
    return push, jnp.max(jnp.abs(push[:, :3]), initial=0.0)


class _Shutting(AbstractRootProblem):
    """The impulses that move closed places by what they are short of, W K⁻¹ Wᵀ P = -short, and
    zero at the others.
    """

    def residual(self, x: Float[Array, " c"], args: tuple) -> Float[Array, " c"]:
        closed, shut, short = args
        answer = closed.rows.velocities(closed.moved(jnp.where(shut, x, 0.0)))
        return jnp.where(shut, answer + short, x)

    def solve(self, guess: Float[Array, " c"], args: tuple) -> tuple[Float[Array, " c"], None]:
        closed, shut, short = args

        # Bodies that rest leave nothing to shut: the matrix of their places is made and factored
        # only where something is left, and where a derivative asks.
        def found(b: Array) -> Array:
            return _least_damped(*_of_unit_impulses(closed, shut), b)[0]

        return jax.lax.cond(anywhere(jnp.any(short != 0.0)), found, jnp.zeros_like, -short), None

    def factors(self, x: Float[Array, " c"], args: tuple) -> DenseFactors:
        closed, shut, short = args
        matrix, X = _of_unit_impulses(closed, shut)
        damping = _least_damped(matrix, X, -short)[1]
        return DenseFactors.of(_damped(matrix, damping))


def _of_unit_impulses(
    closed: ClosedPlaces, shut: Bool[Array, " c"]
) -> tuple[Float[Array, "c c"], Float[Array, "c nb d"]]:
    """What unit impulses add to the gaps of closed places, with zeros for the others, (c, c), and
    to velocities, (c, nb, d).
    """
    X = jax.vmap(closed.moved)(jnp.eye(shut.size, dtype=closed.rows.blocks.dtype))
    matrix = jax.vmap(closed.rows.velocities)(X).T
    return jnp.where(shut[:, None] & shut[None, :], matrix, 0.0), X


def _damped(matrix: Float[Array, "c c"], part: Scalar) -> Float[Array, "c c"]:
    """The matrix that is factored: hyperstatic places repeat, open ones have the rows of the
    identity.
    """
    size = jnp.max(jnp.abs(matrix), initial=0.0)
    open_ = jnp.diagonal(matrix) == 0.0
    return matrix + jnp.diag(jnp.where(open_, 1.0, part * size))


def _least_damped(
    matrix: Float[Array, "c c"], X: Float[Array, "c nb d"], b: Float[Array, " c"]
) -> tuple[Float[Array, " c"], Scalar]:
    """The impulses that close gaps by b, and their damping.

    Places that nearly repeat each other and do not agree would move bodies far: the least damping
    counts that does not. It is nearly always the first.
    """
    parts = jnp.array(_DAMPING, b.dtype)
    most = _FARTHEST * jnp.max(jnp.abs(b), initial=0.0)

    def too_far(state: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        k, _, far = state
        return (k < len(_DAMPING) - 1) & ~(far <= most)

    def more(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        k = state[0] + 1
        small = _damped(matrix, parts[k])
        factors = DenseFactors.of(small)
        pushes = factors.solve(b)
        pushes = pushes + factors.solve(b - small @ pushes)
        push = jnp.tensordot(pushes, X, 1)
        return k, pushes, jnp.max(jnp.abs(push[:, :3]), initial=0.0)

    begin = jnp.full((), -1), jnp.zeros_like(b), jnp.asarray(jnp.inf, b.dtype)
    k, pushes, _ = jax.lax.while_loop(too_far, more, begin)
    return pushes, parts[k]
