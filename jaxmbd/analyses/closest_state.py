"""The consistent state closest to an approximate one: positions first, then velocities, in one loop
in which rows, matrix, factors and solution are one body of code.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

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
from ..rotations import so3
from ..rotations.types import Scalar
from ..solvers import AbstractRootProblem, implicit_root
from ..xla.custom_rule_call import with_derivative_of

# What a velocity that was not described counts beside one that was. Every solve reduces its pull by
# this factor times the square of what a described velocity moves at most; with loops, E has to stay
# small beside the smallest weights.
_UNDESCRIBED, _UNDESCRIBED_IN_LOOPS = 1e-9, 1e-4
_MIXED_SOLVES = 6  # of which the derivative of mixed velocities is that
_MAX_STEPS = 200
_MAX_SOLVES = 30  # of velocities; four to six settle them
_MAX_TURN = 0.7  # [rad] a step: linearized joints say little beyond
_ROUNDING = 4.0  # corrections of velocities count as none, in units of rounding


def position_tolerance(dtype) -> float:
    """Violations of this size, of distances relative to the system's length, count as none."""
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

    def find(
        self, u0: Float[Array, "nb 6"]
    ) -> tuple[Float[Array, "nb 6"], Pose, Float[Array, "nb 6"], Outcome]:
        """Displacements [m, rad], poses and velocities, from velocities as described; derivatives
        are those of the closest state.
        """
        system = self.system
        jet_system, *_ = system.jet(self.t)
        sizes = held(row_sizes(RA(), system, rows(RA(), jet_system, self.pose0)))
        at_positions = system.at_position_level().at(self.t)
        problem = _Closest()
        args = at_positions, self.pose0, self.weights, sizes[: system.holonomic_rows]
        x, (found, outcome) = implicit_root(problem, (self, u0, sizes), args)
        xi = problem.displacements(x, at_positions)
        pose = jax.vmap(RA().retract)(self.pose0, xi)
        u = with_derivative_of(_closest_velocity, found, self, pose, u0)
        return xi, pose, u, outcome

    def velocity_metric(self) -> tuple[Float[Array, "nb 6 6"], np.ndarray | None]:
        """The metric of velocities, and a mask of those described where only some were.

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


def _pull(weights, described: np.ndarray | None, u0, u) -> Float[Array, " n"]:
    """The pull of velocities towards the described ones."""
    target = u0 if described is None else jnp.where(described, u0, u)
    return jnp.einsum("bij,bj->bi", weights, target).reshape(-1)


def _closest_velocity(closest: ClosestState, pose: Pose, u0) -> Float[Array, "nb 6"]:
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

    def improve(x, _):
        pull = _pull(matrix.diagonal, described, u0, x[: u0.size].reshape(u0.shape))
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

    def residual(self, x: Float[Array, " n"], args) -> Float[Array, " n"]:
        system, pose0, weights, sizes = args
        xi = self.displacements(x, system)
        pose = jax.vmap(RA().retract)(pose0, xi)
        pull = self._reaction(system, pose, x[6 * system.nb :] / sizes)
        tangent = jax.vmap(RA().tangent)(xi)
        balance = jnp.einsum("bij,bj->bi", weights, xi) + times_last_transposed(tangent, pull)
        balance = balance * system.units()[None, :]
        return jnp.concatenate([balance.reshape(-1), phi(RA(), system, pose) / sizes])

    def _reaction(self, system: System, pose: Pose, lam) -> Float[Array, "nb 6"]:
        return scatter_rows(rows(RA(), system, pose), lam, row_bodies(RA(), system), system.nb)

    def factors(self, x: Float[Array, " n"], args) -> Any:
        system, pose0, weights, sizes = args
        xi, lam = self.displacements(x, system), x[6 * system.nb :] / sizes
        pose = jax.vmap(RA().retract)(pose0, xi)
        pull = self._reaction(system, pose, lam)
        tangent = jax.vmap(RA().tangent)(xi)

        def turned(xi, pull):
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

    def solve(self, guess, args):
        closest, u0, sizes = guess
        search = _Turns(closest, u0 / closest.system.units()[None, :], sizes)
        end = jax.lax.while_loop(search.goes_on, search.turn, search.start())
        return search.results(end)


class _Trial(eqx.Module):
    """A pose to be tried, and what it says if it is taken.

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


class _Search(eqx.Module):
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


class _Turns:
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

    def start(self) -> _Search:
        """Before the first trial, which is the pose as described."""
        m, dtype = len(self.bodies), self.dtype
        zero, infinity, none = jnp.zeros((), dtype), jnp.asarray(jnp.inf, dtype), jnp.zeros((), int)
        no = jnp.zeros((), bool)
        lam = jnp.zeros(m, dtype)
        blocks = jax.eval_shape(lambda: rows(RA(), self.jet_system, self.closest.pose0))
        described = _Trial(self.closest.pose0, lam, infinity, infinity)
        return _Search(
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

    def goes_on(self, s: _Search) -> Bool[Array, ""]:
        """Whether another turn is needed."""
        return ~s.settled

    def turn(self, s: _Search) -> _Search:
        """Take the trial if it is good, and solve for the next one, or for velocities."""
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
        pulled = _pull(matrix.diagonal, self.described, self.u0, u)
        rest = jnp.concatenate([pulled, right_side]) - matrix.matvec(s.x)
        first, second = jax.vmap(factors.solve)(
            jnp.where(s.moves, jnp.stack([close, back]), jnp.stack([rest, jnp.zeros_like(rest)]))
        )
        return self._corrected(self._next(s, first, second), first)

    def _judged(self, s: _Search) -> tuple[_Search, Float[Array, " m"]]:
        """The trial taken, or the last pose again with more damping; and ν of the trial."""
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

    def _held_in(self, s: _Search) -> Float[Array, "m k 6"]:
        """The rows, of positions without those at velocity level, which say nothing about them."""
        first = self.system.holonomic_rows
        if first == len(self.bodies):
            return s.blocks
        velocity_level = (np.arange(len(self.bodies)) >= first)[:, None, None]
        return jnp.where(s.moves & velocity_level, 0.0, s.blocks)

    def _softness(self, s: _Search, matrix: SaddleMatrix) -> Float[Array, " m"]:
        """E without units."""
        diagonal = jnp.mean(jnp.sum(matrix.right**2, axis=(1, 2)))
        own = jnp.broadcast_to(diagonal * s.damping, (len(self.bodies),))
        soft = regularization(RA(), self.system, self.velocity_weights, s.blocks)
        if soft is None:
            return jnp.where(s.moves, own, self.tiny * diagonal)
        return jnp.where(s.moves, own, soft / self.sizes**2)

    def _gradient(self, s: _Search, blocks) -> Float[Array, "nb 6"]:
        """The gradient of distance and joint forces with respect to displacements of this pose."""
        xi = jax.vmap(_displacement)(self.closest.pose0, s.taken.pose)
        inverse = jax.vmap(so3.inverse_right_jacobian)(xi[:, 3:])
        gradient = jnp.einsum("bij,bj->bi", self.closest.weights, xi)
        gradient = gradient.at[:, 3:].set(jnp.einsum("bji,bj->bi", inverse, gradient[:, 3:]))
        borne = scatter_rows(blocks, s.taken.lam / self.sizes, self.bodies, self.system.nb)
        return (gradient + borne) * self.units[None, :]

    def _next(self, s: _Search, normal, tangential) -> _Search:
        """With the next trial."""
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

    def _corrected(self, s: _Search, rest) -> _Search:
        """With better velocities, once the positions are found."""
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

    def results(self, s: _Search) -> tuple[Float[Array, " n"], Any]:
        """The unknowns of the positions, velocities, and what happened."""
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
