"""The search for the consistent state closest to an approximate one: positions first, then
velocities, in one loop in which rows, matrix, factors and solution are one body of code.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from ..equations.motion import regularization
from ..equations.rows import (
    phi,
    row_bodies,
    rows,
    velocity_right_side,
)
from ..formulations import RA
from ..linalg import SaddleMatrix, factorize
from ..linalg.saddle import scatter_rows
from ..model.state import Pose
from ..model.system import System
from ..rotations import so3
from ..rotations.types import Scalar

# What a velocity that was not described counts beside one that was. Every solve reduces its pull by
# this factor times the square of what a described velocity moves at most; with loops, E has to stay
# small beside the smallest weights.
_UNDESCRIBED, _UNDESCRIBED_IN_LOOPS = 1e-9, 1e-4
_MAX_STEPS = 200
_MAX_SOLVES = 30  # of velocities; four to six settle them
_MAX_TURN = 0.7  # [rad] a step: linearized joints say little beyond
_ROUNDING = 4.0  # corrections of velocities count as none, in units of rounding


def position_tolerance(dtype: DTypeLike) -> float:
    """Largest constraint violation of a closed mechanism, with distances relative to its length."""
    return 10.0 * float(jnp.finfo(dtype).eps) ** 0.75


class Outcome(eqx.Module):
    """The outcome of a search for a consistent state.

    Attributes:
        steps: Taken for the positions.
        closed: Whether the constraints are met.
        before: Largest constraint violation as described, without unit.
        gaps: Constraint values afterwards, stacked order, each in its own unit, (m,).
        shares: The same without units, (m,).
    """

    steps: Int[Array, ""]
    closed: Bool[Array, ""]
    before: Scalar
    gaps: Float[Array, " m"]
    shares: Float[Array, " m"]


class ClosestState(eqx.Module):
    """A search for the state closest to a given one.

    Attributes:
        system: Its geometry.
        pose0: As described.
        weights: The metric of displacements without units, (nb, 6, 6).
        velocity_weights: That of velocities.
        t: The instant [s].
        described: Which velocities and angular velocities were described.
    """

    system: System
    pose0: Pose
    weights: Float[Array, "nb 6 6"]
    velocity_weights: Float[Array, "nb 6 6"]
    t: Scalar
    described: tuple[tuple[bool, bool], ...] = eqx.field(static=True)

    def velocity_metric(self) -> tuple[Float[Array, "nb 6 6"], np.ndarray | None]:
        """The metric of velocities, and a mask of the described ones, or None if all were
        described.

        The others count little; they are measured from their last iterate, so that the small weight
        that they have does not pull at those described.
        """
        nb = self.system.nb
        described = np.repeat(np.array(self.described or [(True, True)] * nb), 3, axis=1)
        if described.all() or not described.any():
            return self.velocity_weights, None
        light = _UNDESCRIBED_IN_LOOPS if self.system.has_loops else _UNDESCRIBED
        share = jnp.asarray(np.where(described, 1.0, light), self.velocity_weights.dtype)
        weights = self.velocity_weights * jnp.sqrt(share[:, :, None] * share[:, None, :])
        return weights, described


def pull_to_described(
    weights: Float[Array, "nb 6 6"],
    described: np.ndarray | None,
    u0: Float[Array, "nb 6"],
    u: Float[Array, "nb 6"],
) -> Float[Array, " n"]:
    """Right-hand side W u of the velocity metric, which pulls velocities towards the described
    ones.
    """
    target = u0 if described is None else jnp.where(described, u0, u)
    return jnp.einsum("bij,bj->bi", weights, target).reshape(-1)


class _Trial(eqx.Module):
    """A trial pose, with the multipliers and the step length that are kept if it is accepted.

    Attributes:
        pose: The pose.
        lam: Multipliers of the joints.
        step: Length of the step that leads there.
        little: Values of the constraints that are no reason against it.
    """

    pose: Pose
    lam: Float[Array, " m"]
    step: Scalar
    little: Scalar


class SearchState(eqx.Module):
    """The state of a search; R, Φ and x are without units.

    Attributes:
        trial: What comes next.
        taken: What was taken last, with `blocks`, its rows R, (m, 2, 6), and `phi`, its values Φ.
        damping: E of positions, in parts of the mean square of R.
        k: Trials so far.
        x: Velocities and their multipliers.
        correction: What was last added to the velocities, its largest number.
        solves: How often.
        moves: Whether positions are sought yet.
        settled: Whether velocities are found.
        before: Largest of Φ as described.
    """

    trial: _Trial
    taken: _Trial
    blocks: Float[Array, "m k 6"]
    phi: Float[Array, " m"]
    damping: Scalar
    k: Int[Array, ""]
    x: Float[Array, " n"]
    correction: Scalar
    solves: Int[Array, ""]
    moves: Bool[Array, ""]
    settled: Bool[Array, ""]
    before: Scalar


class Search:
    """The turns of a search: sequential quadratic programming for positions, with the metric as
    Hessian, then refinement for velocities.
    """

    def __init__(self, closest: ClosestState, u0: Float[Array, "nb 6"], sizes: Float[Array, " m"]):
        self.closest, self.u0, self.sizes = closest, u0, sizes
        self.system = closest.system
        self.units, self.dtype = closest.system.units(), closest.system.dtype
        self.jet_system, self.f_dot, _ = closest.system.jet(closest.t)
        self.bodies = row_bodies(RA(), closest.system)
        self.velocity_weights, self.described = closest.velocity_metric()
        self.tolerance = position_tolerance(self.dtype)
        self.tiny = float(jnp.finfo(self.dtype).eps) ** 0.5

    def start(self) -> SearchState:
        """The state before the first trial, which is the pose as described."""
        m, dtype = len(self.bodies), self.dtype
        zero, infinity, none = jnp.zeros((), dtype), jnp.asarray(jnp.inf, dtype), jnp.zeros((), int)
        no = jnp.zeros((), bool)
        lam = jnp.zeros(m, dtype)
        blocks = jax.eval_shape(lambda: rows(RA(), self.jet_system, self.closest.pose0))
        described = _Trial(self.closest.pose0, lam, infinity, infinity)
        return SearchState(
            described,
            described,
            jnp.zeros(blocks.shape, dtype),
            jnp.full(m, jnp.inf, dtype),
            jnp.asarray(self.tiny, dtype),
            none,
            jnp.concatenate([self.u0.reshape(-1), lam]),
            infinity,
            none,
            ~no,
            no,
            zero,
        )

    def goes_on(self, s: SearchState) -> Bool[Array, ""]:
        """Whether another iteration is needed."""
        return ~s.settled

    def turn(self, s: SearchState) -> SearchState:
        """Accept or reject the trial, then solve for the next one, or for velocities."""
        s, right_side = self._judged(s)
        weights = jnp.where(s.moves, self.closest.weights, self.velocity_weights)
        blocks = self._held_in(s)
        matrix = SaddleMatrix(weights, (), blocks, blocks, None, self.bodies)
        matrix = matrix.scaled(self.units, self.sizes)
        matrix = dataclasses.replace(matrix, regularization=self._softness(s, matrix))
        factors = factorize(matrix, self.system.linear_solver, checked=False, seldom=True)

        # Of positions a normal step that closes the joints, and a tangential one towards the
        # described pose. Only the latter's multipliers are kept: where rows are redundant, those
        # of an open loop grow without bound.
        n, pull = self.u0.size, self._gradient(s, blocks)
        close = jnp.concatenate([jnp.zeros(n, self.dtype), -s.phi])
        back = jnp.concatenate([-pull.reshape(-1), jnp.zeros_like(s.phi)])
        u = s.x[:n].reshape(self.u0.shape)
        pulled = pull_to_described(matrix.diagonal, self.described, self.u0, u)
        rest = jnp.concatenate([pulled, right_side]) - matrix.matvec(s.x)
        first, second = jax.vmap(factors.solve)(
            jnp.where(s.moves, jnp.stack([close, back]), jnp.stack([rest, jnp.zeros_like(rest)]))
        )
        return self._corrected(self._next(s, first, second), first)

    def _judged(self, s: SearchState) -> tuple[SearchState, Float[Array, " m"]]:
        """The state with the trial accepted, or with the last pose and more damping; and ν of the
        trial.
        """
        system, pose = self.jet_system, s.trial.pose
        blocks, gaps = rows(RA(), system, pose), phi(RA(), system, pose) / self.sizes
        nu = velocity_right_side(RA(), system, self.f_dot, pose) / self.sizes
        first, size = s.k == 0, _largest(gaps)
        # Closing comes first: a step is taken when it closes the joints further, or opens them by
        # little compared with its length, as the curvature of the constraints makes every step
        # along them do.
        accept = (jnp.sum(gaps**2) < jnp.sum(s.phi**2)) | (size <= s.trial.little)
        step = jnp.where(first & (size <= self.tolerance), 0.0, s.trial.step)
        less = jnp.where(first, s.damping, jnp.maximum(0.1 * s.damping, self.tiny))
        more = jnp.maximum(10.0 * s.damping, 1e-4)
        trial = dataclasses.replace(s.trial, step=step)
        taken, blocks, gaps, damping = jax.tree.map(
            lambda a, b: jnp.where(accept, a, b),
            (trial, blocks, gaps, less),
            (s.taken, s.blocks, s.phi, more),
        )
        # A step far below the tolerance: the iteration converges fast, and this leaves violations
        # at rounding.
        there = (taken.step <= 1e-3 * self.tolerance) & (_largest(gaps) <= self.tolerance)
        ends = there | (s.k >= _MAX_STEPS) | (damping >= 1e8)
        s = dataclasses.replace(
            s,
            taken=taken,
            blocks=blocks,
            phi=gaps,
            damping=jnp.where(s.moves, damping, s.damping),
            moves=s.moves & ~ends,
            before=jnp.where(first, size, s.before),
        )
        return s, nu

    def _held_in(self, s: SearchState) -> Float[Array, "m k 6"]:
        """Constraint rows of the present stage: the search for positions leaves out the rows at
        velocity level.
        """
        first = self.system.holonomic_rows
        if first == len(self.bodies):
            return s.blocks
        velocity_level = (np.arange(len(self.bodies)) >= first)[:, None, None]
        return jnp.where(s.moves & velocity_level, 0.0, s.blocks)

    def _softness(self, s: SearchState, matrix: SaddleMatrix) -> Float[Array, " m"]:
        """Regularization E of the saddle matrix, without units."""
        diagonal = jnp.mean(jnp.sum(matrix.right**2, axis=(1, 2)))
        own = jnp.broadcast_to(diagonal * s.damping, (len(self.bodies),))
        soft = regularization(RA(), self.system, self.velocity_weights, s.blocks)
        if soft is None:
            return jnp.where(s.moves, own, self.tiny * diagonal)
        return jnp.where(s.moves, own, soft / self.sizes**2)

    def _gradient(self, s: SearchState, blocks: Float[Array, "m k 6"]) -> Float[Array, "nb 6"]:
        """The gradient of distance and joint forces with respect to displacements of this pose."""
        xi = jax.vmap(_displacement)(self.closest.pose0, s.taken.pose)
        inverse = jax.vmap(so3.inverse_right_jacobian)(xi[:, 3:])
        gradient = jnp.einsum("bij,bj->bi", self.closest.weights, xi)
        gradient = gradient.at[:, 3:].set(jnp.einsum("bji,bj->bi", inverse, gradient[:, 3:]))
        borne = scatter_rows(blocks, s.taken.lam / self.sizes, self.bodies, self.system.nb)
        return (gradient + borne) * self.units[None, :]

    def _next(
        self, s: SearchState, normal: Float[Array, " n"], tangential: Float[Array, " n"]
    ) -> SearchState:
        """The state with the next trial pose."""
        n, shape = self.u0.size, self.u0.shape
        # A damped step is about closing alone.
        tangential = jnp.where(s.damping <= 2.0 * self.tiny, tangential, 0.0)
        delta = (normal + tangential)[:n].reshape(shape)
        limit = jnp.minimum(1.0, _MAX_TURN / (_largest(delta[:, 3:]) + 1e-30))
        moved = jnp.where(s.moves, limit, 0.0) * delta * self.units[None, :]
        trial = _Trial(
            jax.vmap(RA().retract)(s.taken.pose, moved),
            s.taken.lam + tangential[n:],
            _largest(delta),
            jnp.maximum(self.tolerance, 0.2 * _largest(tangential[:n])),
        )
        trial = jax.tree.map(lambda a, b: jnp.where(s.moves, a, b), trial, s.taken)
        return dataclasses.replace(s, trial=trial, k=s.k + s.moves.astype(int))

    def _corrected(self, s: SearchState, rest: Float[Array, " n"]) -> SearchState:
        """The state with corrected velocities, once the positions are found."""
        n, eps = self.u0.size, float(jnp.finfo(self.dtype).eps)
        x = jnp.where(s.moves, s.x, s.x + rest)
        size = _largest(rest[:n])
        solves = s.solves + (~s.moves).astype(int)
        done = size <= _ROUNDING * eps * _largest(x[:n])
        stalls = (solves > 2) & ~(size < 0.5 * s.correction)
        settled = ~s.moves & (solves > 1) & (done | stalls | (solves >= _MAX_SOLVES))
        return dataclasses.replace(
            s,
            x=x,
            correction=jnp.where(s.moves, s.correction, size),
            solves=solves,
            settled=settled,
        )

    def results(self, s: SearchState) -> tuple[Float[Array, " n"], Any]:
        """Unknowns of the position problem, velocities, and the outcome of the search."""
        consistent = s.before <= self.tolerance
        xi = jax.vmap(_displacement)(self.closest.pose0, s.taken.pose) / self.units[None, :]
        xi = jnp.where(consistent, 0.0, xi)
        x = jnp.concatenate([xi.reshape(-1), s.taken.lam[: self.system.holonomic_rows]])
        u = s.x[: self.u0.size].reshape(self.u0.shape) * self.units[None, :]
        closed = _largest(s.phi) <= self.tolerance
        return x, (u, Outcome(s.k, closed, s.before, s.phi * self.sizes, s.phi))


def _displacement(pose0: Pose, pose: Pose) -> Float[Array, "6"]:
    return jnp.concatenate([pose.r - pose0.r, so3.log(pose0.A.T @ pose.A)])


def _largest(values: Array) -> Scalar:
    return jnp.max(jnp.abs(values), initial=0.0)
