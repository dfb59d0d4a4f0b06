"""The equations of one implicit step on the index-3 form, shared by the methods that solve them.

Velocities and coordinates at the end of a step are affine in the unknown accelerations,

    u = u* + c_u a,   q = retract(q_n, d* + c_q a),   balance(q, u, a, λ) = 0,   Φ(q, t) / c_q = 0

and a method is its choice of u*, d*, c_u and c_q. Positions satisfy the constraints at every step.
"""

import functools
import operator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..formulations import RA, AbstractFormulation, Screw
from ..linalg import SaddleMatrix, damped_correction, factorize, only_forces
from ..linalg.linear_solve import held
from ..linalg.saddle import scatter_rows
from ..linalg.strategy import DENSE_LIMIT
from ..model.system import System
from ..roots import AbstractRootProblem, Newton, NewtonOptions, implicit_root, newton
from ..rotations.types import Scalar
from .index1 import closest_velocity, minimum_norm, undetermined_part
from .motion import StepScales, balance, step_matrix
from .past import UNKNOWN
from .rows import step_values

GROUPS = ("SO3xR3", "SE3")
# Share of the multipliers that leaves the range of determined ones in a step, from which the
# careful solver is asked. A direction turns out of it by less than rotations within a step, unless
# it fades.
_TURNED = 0.05
# Share of the forces that multipliers hold which a pose leaves undetermined: from which a step is
# told, and which the multipliers of drivers may hold before they end a run.
_NOTICED, _UNBEARABLE = 0.01, 0.2


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

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.factors.solve(b)


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

    def residual(self, x: Float[Array, " n"], args: StepData) -> Float[Array, " n"]:
        a, lam = self.split(x, args.u)
        q = jax.vmap(self.formulation.retract)(args.q, args.displacement(a))
        u, scales = args.velocity(a), args.scales
        forces = balance(self.formulation, args.system, q, u, a, lam, args.t)
        gaps = step_values(self.formulation, args.system, q, u, scales.velocity, scales.position)
        return jnp.concatenate([forces.reshape(-1), gaps])

    def matrix(self, x: Float[Array, " n"], args: StepData, *, exact: bool):
        """Newton's matrix, exact or without variations of the rows."""
        a, lam = self.split(x, args.u)
        increment = args.displacement(a)
        q = jax.vmap(self.formulation.retract)(args.q, increment)
        return step_matrix(
            self.formulation,
            args.system,
            q,
            args.velocity(a),
            a,
            lam,
            args.t,
            args.scales,
            increment if exact or self.tangent else None,
            exact=exact,
        )

    def factors(self, x: Float[Array, " n"], args: StepData) -> Any:
        return factorize(self.matrix(x, args, exact=True), args.system.linear_solver)

    def solve(self, guess, args: StepData):
        last, active, tolerance, undetermined, past = guess
        x0, assumed, observe = last, UNKNOWN, None
        if past is not None:
            x0, (assumed, observe) = past.guess(last), past.trusted()
        matrix = self.matrix(x0, args, exact=self.mode == "exact")

        def unchecked(matrix):  # the iteration itself tells whether these factors are good enough
            return factorize(matrix, args.system.linear_solver, checked=False)

        factors = unchecked(matrix)
        options, norm = self._options(tolerance, x0.dtype), self._norm(args, factors.regularization)

        def exact(x):
            matrix = self.matrix(x, args, exact=True)
            return _Exact(matrix, unchecked(matrix))

        def careful(exact, value):
            return self._careful(exact.matrix, value, args, options.tolerance)

        def doubtful(x):
            lam = x[args.u.size :]
            return undetermined | (
                jnp.max(jnp.abs(undetermined_part(x, factors))) > _TURNED * jnp.max(jnp.abs(lam))
            )

        # Trees have no E that could stall the iteration; the paper's criterion has other units.
        stalls = (
            matrix.regularization is not None
            and matrix.size <= DENSE_LIMIT
            and self.criterion == "position"
        )
        x, info = newton(
            lambda x: self.residual(x, args),
            lambda x: factors,
            exact,
            norm,
            x0,
            options,
            active,
            careful if stalls and self.mode != "quasi" else None,
            doubtful if stalls else None,
            assumed,
            last,
        )
        x, *lost = self._least(x, matrix, factors, args)
        info = eqx.tree_at(lambda i: (i.undetermined, i.singular), info, tuple(lost))
        # A failed solve returns its starting point: finite, so that a masked member of a batch has
        # finite derivatives.
        x = jnp.where(info.converged, x, last)
        if past is not None:
            size = self._norm(args, None)
            past = past.after(last, x0, x, size, info.contraction, observe)
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
        n, eps, norm = args.u.size, jnp.finfo(value.dtype).eps, self._norm(args, None)
        violation = (
            args.scales.position * jnp.max(jnp.abs(value[n:]), initial=0.0) / args.system.length
        )
        closed = violation <= tolerance
        damping = jnp.where(closed, eps**0.25, tolerance**0.5)
        weights = self._weights(args)
        delta = damped_correction(matrix, value, weights, damping)
        unbalanced = norm(damped_correction(matrix, only_forces(value, n), weights, damping))
        return delta, norm(delta), closed & (unbalanced <= tolerance)

    def _least(self, x, matrix: SaddleMatrix, factors, args: StepData):
        """Multipliers of minimum norm; whether those taken away bear a noticed part of the forces,
        and as drivers'.
        """
        if matrix.regularization is None:
            return x, jnp.zeros((), bool), jnp.zeros((), bool)
        least = minimum_norm(
            x, factors, rough=True
        )  # E of frozen factors is large, and of few digits in S
        n, force = args.u.size, self._force(matrix, args)
        lost, borne = x[n:] - least[n:], force(least[n:])
        share = jnp.max(
            jnp.abs(jnp.where(_of_drivers(args.system, lost.size), lost, 0.0)), initial=0.0
        )
        driven = share > _NOTICED * jnp.max(jnp.abs(lost), initial=0.0)
        return least, force(lost) > _NOTICED * borne, driven & (force(lost) > _UNBEARABLE * borne)

    def _force(self, matrix: SaddleMatrix, args: StepData):
        """The function of multipliers that is the largest component of Rᵀ λ."""

        def force(lam):
            return jnp.max(
                jnp.abs(scatter_rows(matrix.right, lam, matrix.bodies, args.system.nb)), initial=0.0
            )

        return force

    def _weights(self, args: StepData) -> Float[Array, " d"]:
        """Factors of a body's unknowns that make translations and rotations comparable."""
        return jnp.ones(args.u.shape[1], args.u.dtype).at[:3].set(1.0 / args.system.length)

    def _norm(self, args: StepData, softness: Float[Array, " m"] | None):
        """The length of a correction in position units, and what E leaves of the constraints'
        values: E δλ.
        """
        if self.criterion == "correction":
            return jnp.linalg.norm
        weights = self._weights(args)

        def norm(delta):
            n = args.u.size
            length = jnp.max(jnp.abs(delta[:n].reshape(args.u.shape)) * weights[None, :])
            if softness is not None:
                length = jnp.maximum(
                    length, jnp.max(softness * jnp.abs(delta[n:]), initial=0.0) / args.system.length
                )
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
    problem = Index3Step(
        formulation,
        method.newton.mode,
        method.newton.criterion,
        method.newton.max_steps,
        method.newton.tangent,
    )
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
