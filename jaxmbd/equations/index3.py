"""The equations of one implicit step on the index-3 form, shared by the methods that solve them.

Velocities and coordinates at the end of a step are affine in the unknown accelerations,

    u = u* + c_u a,   q = retract(q_n, d* + c_q a),   balance(q, u, a, λ) = 0,   Φ(q, t) / c_q = 0

and a method is its choice of u*, d*, c_u and c_q. Positions satisfy the constraints at every step.
"""

import dataclasses
import functools
import operator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..formulations import RA, AbstractFormulation, Screw
from ..linalg import SaddleMatrix, damped_correction, factorize, near_or_exact, only_forces
from ..linalg.linear_solve import held
from ..linalg.saddle import scatter_rows
from ..linalg.strategy import DENSE_LIMIT
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import AbstractRootProblem, KeptFactors, Newton, NewtonOptions, implicit_root, newton
from ..solvers.predictor import UNKNOWN, Past
from ..xla.lazy_cond import where_needed
from .index1 import closest_velocity, minimum_norm, undetermined_part
from .motion import StepScales, balance, step_matrices
from .rows import row_bodies, row_sizes, rows, step_values

GROUPS = ("SO3xR3", "SE3")
# Share of the multipliers that leaves the range of determined ones in a step, from which the
# careful solver is asked. A direction turns out of it by less than rotations within a step, unless
# it fades.
_TURNED = 0.05
# Share of the forces that multipliers hold which a pose leaves undetermined: from which a step is
# told, and which the multipliers of drivers may hold before they end a run.
_NOTICED, _UNBEARABLE = 0.01, 0.2
# Share of the multipliers up to which nobody need ask what forces they exert.
_UNNOTICED = 1e-9
# Factors that are kept have so many times the usual E.
_SOFT = 30.0
# Share of the tolerance that holding undetermined multipliers may leave of the constraints.
_PULLED = 0.02


class StepData(eqx.Module):
    """What a method gives to one step.

    Attributes:
        system: At the end of the step.
        q: Coordinates at its start.
        u: u*, (nb, d).
        increment: d*, (nb, d).
        t: Time at its end [s].
        scales: c_u and c_q.
    """

    system: System
    q: Any
    u: Float[Array, "nb d"]
    increment: Float[Array, "nb d"]
    t: Scalar
    scales: StepScales

    def velocity(self, a: Float[Array, "nb d"]) -> Float[Array, "nb d"]:
        """Velocities at the end of the step."""
        return self.u + self.scales.velocity * a

    def displacement(self, a: Float[Array, "nb d"]) -> Float[Array, "nb d"]:
        """The argument of `retract` that leads to its end."""
        return self.increment + self.scales.position * a


class _Exact(eqx.Module):
    """Newton's exact matrix and its factors."""

    matrix: SaddleMatrix
    factors: Any

    @property
    def regularization(self) -> Float[Array, " m"] | None:
        return self.matrix.regularization

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.factors.solve(b)


class _Kept(eqx.Module):
    """Factors to keep, whose E is large, and those of the usual E, which tell what rows leave
    undetermined.
    """

    factors: Any
    judge: Any
    compliance: Float[Array, " m"] | None

    @property
    def regularization(self) -> Float[Array, " m"] | None:
        return self.factors.regularization

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.factors.solve(b)


def kept_of(matrix: SaddleMatrix, strategy: str) -> _Kept:
    """Factors of a matrix that may grow old.

    Where rows have turned by θ, accelerations that violate them by δ change multipliers by θ δ / E:
    the larger E, the smaller what old factors make of rounding. Its price is a contraction of the
    order of E.
    """
    softness = matrix.regularization
    if softness is None:
        factors = factorize(matrix, strategy, checked=False)
        return _Kept(factors, None, None)
    soft = eqx.tree_at(lambda m: m.regularization, matrix, _SOFT * softness)
    factors, judge = (factorize(m, strategy, checked=False) for m in (soft, matrix))
    return _Kept(factors, judge, softness / jnp.sqrt(jnp.finfo(softness.dtype).eps))


def _of_drivers(system: System, m: int) -> np.ndarray:
    """Which of the m rows, in the stacked order, belong to drivers."""
    found = np.zeros(m, bool)
    found[[system.order[row] for c in system.connections if c.is_driver for row in c.rows]] = True
    return found


class Index3Step(AbstractRootProblem):
    """The equations of one step in the unknowns (a, λ)."""

    exact_factors: ClassVar[bool] = True

    formulation: AbstractFormulation
    mode: str = eqx.field(static=True)
    criterion: str = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    tangent: bool = eqx.field(static=True, default=True)

    def split(self, x: Float[Array, " n"], u: Float[Array, "nb d"]):
        """Accelerations and multipliers."""
        return x[: u.size].reshape(u.shape), x[u.size :]

    def _coordinates(self, x: Float[Array, " n"], args: StepData):
        """At the end of the step."""
        a, _ = self.split(x, args.u)
        return jax.vmap(self.formulation.retract)(args.q, args.displacement(a))

    def residual(self, x: Float[Array, " n"], args: StepData) -> Float[Array, " n"]:
        a, lam = self.split(x, args.u)
        q = self._coordinates(x, args)
        u, scales = args.velocity(a), args.scales
        forces = balance(self.formulation, args.system, q, u, a, lam, args.t)
        gaps = step_values(self.formulation, args.system, q, u, scales.velocity, scales.position)
        return jnp.concatenate([forces.reshape(-1), gaps])

    def _at(self, x: Float[Array, " n"], args: StepData, *, tangent: bool):
        """What matrices of the step are made of."""
        a, lam = self.split(x, args.u)
        increment = args.displacement(a)
        q = jax.vmap(self.formulation.retract)(args.q, increment)
        u, t, scales = args.velocity(a), args.t, args.scales
        moved = increment if tangent else None
        return self.formulation, args.system, q, u, a, lam, t, scales, moved

    def matrix(self, x: Float[Array, " n"], args: StepData, *, exact: bool):
        """Newton's matrix, exact or without variations of the rows."""
        tangent = exact or self.tangent
        return step_matrices(*self._at(x, args, tangent=tangent), exact=exact)[0]

    def factors(self, x: Float[Array, " n"], args: StepData) -> Any:
        exact, nearby = step_matrices(*self._at(x, args, tangent=True), exact=True)
        return near_or_exact(exact, nearby, args.system.linear_solver)

    def solve(self, guess, args: StepData):
        last, active, tolerance, undetermined, past = guess
        x0, assumed, observe, kept = last, UNKNOWN, None, None
        if past is not None:
            x0, (assumed, observe, kept) = past.guess(last), past.trusted(undetermined)

        def unchecked(matrix):  # the iteration itself tells whether these factors are good enough
            return factorize(matrix, args.system.linear_solver, checked=False)

        def quasi(x):
            return kept_of(self.matrix(x, args, exact=False), args.system.linear_solver)

        def exact(x):
            matrix = self.matrix(x, args, exact=True)
            return _Exact(matrix, unchecked(matrix))

        def careful(exact, value):
            return self._careful(exact.matrix, value, args, options.tolerance)

        redundant = args.system.has_loops
        options, length = self._options(tolerance, x0.dtype), self._norm(args)

        turn = 0.0 if past is None else past.turned(kept)

        def norm(delta, factors, pulled=0.0):
            if not isinstance(factors, _Kept):
                return length(delta, factors.regularization)
            size = length(delta, factors.regularization, pulled)
            if redundant:
                # What rows have turned by lets multipliers exert forces that cancel no longer.
                size = jnp.maximum(size, length(delta * turn, factors.compliance))
            return size

        own, blind, before, idle = None, None, last, 0.0
        if kept is None:
            matrix = self.matrix(x0, args, exact=self.mode == "exact")
            own = matrix, unchecked(matrix)

        def doubtful(x, factors, fresh):
            lam = x[args.u.size :]

            def turned(part):
                return self._most(part, args) > _TURNED * self._most(lam, args)

            if own is not None:
                part = undetermined_part(x, own[1])
                return undetermined | turned(part), part
            # Only factors of this pose know what is undetermined here.
            here = where_needed(
                fresh, lambda: turned(undetermined_part(x, factors.judge)), jnp.zeros((), bool)
            )
            return undetermined | here, None

        def pull(x, factors):
            # The part of the multipliers that E alone determines stays what extrapolation makes of
            # it, whose errors grow from step to step, the faster the higher its order.
            n = args.u.size
            part = factors.regularization * (past.line(last) - x)[n:]
            seen = args.scales.position * self._largest(part, args)
            part = part * jnp.minimum(1.0, _PULLED * options.tolerance / seen)
            return part

        def excessive(x):
            return past.excessive(self._most(x[args.u.size :], args))

        def cleaned(x, factors):
            return minimum_norm(x, factors.judge, rough=True)

        grows = kept is not None and redundant
        # Trees have no E that could stall the iteration; the paper's criterion has other units.
        unknowns = x0.size
        stalls = redundant and unknowns <= DENSE_LIMIT and self.criterion == "position"
        x, info = newton(
            lambda x: self.residual(x, args),
            quasi if own is None else lambda x: own[1],
            exact,
            norm,
            x0,
            options,
            active,
            careful if stalls and self.mode != "quasi" else None,
            doubtful if stalls else None,
            assumed,
            last,
            kept,
            pull if redundant else None,
            excessive if grows else None,
            cleaned if grows else None,
        )
        if own is not None:
            matrix, factors = own
            if redundant:
                first = info.found
                if first is not None and info.left is not None:
                    first = where_needed(info.left, lambda: undetermined_part(x, factors), first)
                # E of frozen factors is large, and of few digits in S.
                new = minimum_norm(x, factors, rough=True, first=first)
                lost, x = self._lost(x, new, matrix.right, args), new
                info = eqx.tree_at(lambda i: (i.undetermined, i.singular), info, tuple(lost))
                info = dataclasses.replace(info, found=None, left=None)
        elif past is not None and (renewed := info.renewed) is not None:
            if redundant:
                sizes = row_sizes(self.formulation, args.system)

                def least():
                    right = rows(self.formulation, args.system, self._coordinates(x0, args))
                    judge = info.factors.judge
                    # A probe of what rows leave undetermined, whatever multipliers there are: of
                    # like size in all rows.
                    probe = jnp.asarray(np.cos(np.arange(x0.size) ** 2.0), x0.dtype)
                    probe = probe / jnp.concatenate([jnp.ones(args.u.size, x0.dtype), sizes])
                    new, before, rest = jax.vmap(lambda x: minimum_norm(x, judge, rough=True))(
                        jnp.stack([x, last, probe])
                    )
                    lost = self._lost(x, new, right, args)
                    return new, before, sizes * (probe - rest)[args.u.size :], *lost

                no = jnp.zeros((), bool)
                x, before, blind, *lost = where_needed(
                    renewed, least, (x, last, past.blind, no, no)
                )
                idle = self._most((before - last)[args.u.size :], args)
                # What is taken away from the last step stayed the same over those before.
                past = dataclasses.replace(past, x=past.x + (before - last)[None])
                info = eqx.tree_at(lambda i: (i.undetermined, i.singular), info, tuple(lost))
            kept = KeptFactors(tuple(jax.tree.leaves(info.factors)), renewed)
            info = dataclasses.replace(info, factors=None, renewed=None)
        # A failed solve returns its starting point: finite, so that a masked member of a batch has
        # finite derivatives.
        x = jnp.where(info.converged, x, last)
        if past is not None:
            most = self._most(x[args.u.size :], args)
            past = past.after(
                before,
                x0,
                x,
                length,
                info.converged,
                info.contraction,
                observe,
                kept,
                blind,
                idle,
                most,
            )
        return x, (info, past)

    def _careful(self, matrix: SaddleMatrix, value, args: StepData, tolerance):
        """Newton's correction where constraints nearly lose rank, its norm, and whether the iterate
        is a root.

        Beside a singular pose the rows see some direction of the motion by a singular value s only,
        and the force F that they must bear along it takes multipliers F/s. On the pose itself no
        multipliers do: the accelerations that keep the constraints exist, those multipliers do not.
        A root is therefore an iterate that satisfies the constraints to the tolerance and balances
        the forces that the rows do not bear, which is a matter of motion alone. Until the
        constraints hold, directions are damped below the s of a quadratic violation of the
        tolerance; from then on below that of the usual E, so that rounding of the constraints does
        not become acceleration.
        """
        n, eps, norm = args.u.size, jnp.finfo(value.dtype).eps, self._norm(args)
        violation = args.scales.position * self._largest(value[n:], args)
        closed = violation <= tolerance
        damping = jnp.where(closed, eps**0.25, tolerance**0.5)
        units = 1.0 / self._weights(args)
        sizes = row_sizes(self.formulation, args.system, matrix.right)
        scales = jnp.concatenate([jnp.tile(units, args.system.nb), 1.0 / sizes])
        scaled = matrix.scaled(units, sizes)

        def correction(value):
            return scales * damped_correction(scaled, scales * value, damping)

        delta = correction(value)
        unbalanced = norm(correction(only_forces(value, n)))
        return delta, norm(delta), closed & (unbalanced <= tolerance)

    def _lost(self, x, least, right, args: StepData):
        """Whether the multipliers that those of least norm leave out bear a noticed part of the
        forces that rows `right` exert, and as drivers'.
        """
        n = args.u.size
        bodies = row_bodies(self.formulation, args.system)

        def force(lam):  # at the system's length beside a moment
            forces = scatter_rows(right, lam, bodies, args.system.nb) / self._weights(args)[None]
            return jnp.max(jnp.abs(forces), initial=0.0)

        lost, lam = x[n:] - least[n:], least[n:]
        most = self._most(lost, args)

        def of_forces():
            driving = jnp.where(_of_drivers(args.system, lost.size), lost, 0.0)
            share = self._most(driving, args)
            part, borne = force(lost), force(lam)
            driven = (share > _NOTICED * most) & (part > _UNBEARABLE * borne)
            return part > _NOTICED * borne, driven

        no = jnp.zeros((), bool)
        some = most > _UNNOTICED * self._most(lam, args)
        return where_needed(some, of_forces, (no, no))

    def _weights(self, args: StepData) -> Float[Array, " d"]:
        """Factors of a body's unknowns that make translations and rotations comparable."""
        return 1.0 / args.system.units(args.u.shape[1])

    def _most(self, lam: Float[Array, " m"], args: StepData) -> Scalar:
        """The largest of some multipliers, each times the size of its row: forces count as moments
        at the system's length [N·m].
        """
        sizes = row_sizes(self.formulation, args.system)
        return jnp.max(jnp.abs(sizes * lam), initial=0.0)

    def _largest(self, values: Float[Array, " m"], args: StepData) -> Scalar:
        """The largest of some values of the rows, each divided by the size of its row."""
        sizes = row_sizes(self.formulation, args.system)
        return jnp.max(jnp.abs(values) / sizes, initial=0.0)

    def _norm(self, args: StepData):
        """The length of a correction in position units, and what E of some factors leaves of the
        constraints' values: E δλ.
        """
        if self.criterion == "correction":
            return lambda delta, *_: jnp.linalg.norm(delta)
        weights = self._weights(args)

        def norm(delta, softness: Float[Array, " m"] | None = None, less: Any = 0.0):
            n = args.u.size
            length = jnp.max(jnp.abs(delta[:n].reshape(args.u.shape)) * weights[None, :])
            if softness is not None:
                length = jnp.maximum(length, self._largest(softness * delta[n:] - less, args))
            return args.scales.position * length

        return norm

    def _options(self, tolerance, dtype) -> NewtonOptions:
        if tolerance is None:
            tolerance = (
                float(jnp.finfo(dtype).eps) ** 0.75 if self.criterion == "position" else 1e-3
            )
        return NewtonOptions(
            tolerance,
            max_steps=0 if self.mode == "exact" else self.max_steps,
            max_exact_steps=0 if self.mode in ("frozen", "quasi") else 30,
            estimate_error=self.criterion == "position",
            contraction=float("inf") if self.mode == "frozen" else 0.5,
        )


def inner_formulation(
    name: str, group: str, formulation: AbstractFormulation
) -> AbstractFormulation:
    """The formulation whose `retract` moves on the group."""
    if group == "SO3xR3":
        return formulation
    if not isinstance(formulation, RA):
        raise ValueError(
            f"{name}: SE(3) moves rotation matrices: use the formulation rA, not {formulation.name}"
        )
    return Screw()


def converted(
    old: AbstractFormulation, new: AbstractFormulation, q: Any, u: Float[Array, "nb d"], a
):
    """Velocities and accelerations of one formulation of poses in another's coordinates."""
    if old is new:
        return u, a
    twist = jax.vmap(old.twist)(q, u)
    rates = jax.vmap(old.physical_accelerations)(q, u, a)
    u = jax.vmap(new.rates)(q, twist.v, twist.omega)
    return u, jax.vmap(new.accelerations)(q, u, *rates)


def _problem(method: Any, formulation: AbstractFormulation) -> Index3Step:
    return Index3Step(
        formulation,
        method.newton.mode,
        method.newton.criterion,
        method.newton.max_steps,
        method.newton.tangent,
    )


def take_step(
    method: Any,
    formulation: AbstractFormulation,
    system: System,
    args: StepData,
    a,
    before: Any,
    active,
):
    """Solve one step from the last accelerations a; (q, u, a, λ) at its end, what Newton's method
    says, and what the next step may know of this one.

    `method` has the settings `newton` and `velocity_projection`; `system` is that of all times,
    whose motions have rates.
    """
    problem = _problem(method, formulation)
    past = before.past
    if past is not None:
        past = past.valid(args.scales.position, _differs(before.q, args.q))
    last = jnp.concatenate([a.reshape(-1), before.lam])
    x, (info, past) = implicit_root(
        problem, (last, active, method.newton.tolerance, before.undetermined, past), args
    )
    a, lam = problem.split(x, args.u)
    q, u = jax.vmap(formulation.retract)(args.q, args.displacement(a)), args.velocity(a)
    if method.velocity_projection:
        u = closest_velocity(formulation, system, q, u, args.t)
    return q, u, a, lam, info, held(past)


def no_past(
    method: Any, formulation: AbstractFormulation, system: System, motion: Any, t: Scalar, h: Scalar
) -> Past:
    """What is known before the first step of a method that learns from its steps."""
    problem = _problem(method, formulation)
    args = StepData(system.at(t), motion.q, motion.u, motion.u, t, StepScales(h, h))
    x = jnp.concatenate([motion.a.reshape(-1), motion.lam])
    kept = None
    # What formulations observe of multipliers is of those of least norm, which only factors of the
    # step's own pose can tell.
    needs_least = type(formulation).observed is not AbstractFormulation.observed
    if method.newton.keep_factors and not needs_least:
        kept = KeptFactors.none(
            lambda: kept_of(problem.matrix(x, args, exact=False), system.linear_solver)
        )
    return Past.none(motion.a, motion.lam, kept, redundant=system.has_loops, ringing=method.ringing)


def _differs(old: Any, new: Any) -> Bool[Array, ""] | bool:
    """Whether coordinates were given in other charts; formulations of one chart return what they
    got.
    """
    pairs = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
    moved = [jnp.any(x != y) for x, y in pairs if x is not y]
    return functools.reduce(operator.or_, moved, False)


def check_settings(name: str, newton: Newton) -> None:
    """Refuse settings of Newton's method that are none."""
    if not isinstance(newton, Newton):
        raise TypeError(
            f"{name}: newton must be settings such as mbd.Newton(exact=True), not {newton!r}"
        )


def check_group(name: str, group: str) -> None:
    """Refuse unknown groups."""
    if group not in GROUPS:
        raise ValueError(f"{name}: group must be one of {GROUPS}, not {group!r}")
