"""The equations of one implicit step on the index-3 form, shared by the methods that solve them.

Velocities and coordinates at the end of a step are affine in the unknown accelerations,

    u = u* + c_u a,   q = retract(q_n, d* + c_q a),   balance(q, u, a, λ) = 0,   Φ(q, t) / c_q = 0

and a method is its choice of u*, d*, c_u and c_q. Positions satisfy the constraints at every step.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations import AbstractFormulation, Screw
from ..formulations.base import StepScales
from ..formulations.index1 import closest_velocity, minimum_norm
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import AbstractRootProblem, NewtonOptions, factorise, implicit_root, newton

NEWTON_MODES = ("auto", "frozen", "exact")
GROUPS = ("SO3xR3", "SE3")
CRITERIA = ("position", "correction")


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


class Index3Step(AbstractRootProblem):
    """The equations of one step in the unknowns (a, λ)."""

    exact_factors: ClassVar[bool] = True

    formulation: AbstractFormulation
    mode: str = eqx.field(static=True)
    criterion: str = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)

    def split(self, x: Float[Array, " n"], u: Float[Array, "nb d"]):
        """Accelerations and multipliers."""
        return x[: u.size].reshape(u.shape), x[u.size :]

    def residual(self, x: Float[Array, " n"], args: StepData) -> Float[Array, " n"]:
        a, lam = self.split(x, args.u)
        q = jax.vmap(self.formulation.retract)(args.q, args.displacement(a))
        balance = self.formulation.balance(args.system, q, args.velocity(a), a, lam, args.t)
        phi = self.formulation.phi(args.system, q)
        return jnp.concatenate([balance.reshape(-1), phi / args.scales.position])

    def matrix(self, x: Float[Array, " n"], args: StepData, *, exact: bool):
        """Newton's matrix, exact or without terms of second order in the step."""
        a, lam = self.split(x, args.u)
        increment = args.displacement(a)
        q = jax.vmap(self.formulation.retract)(args.q, increment)
        return self.formulation.step_matrix(
            args.system, q, args.velocity(a), a, lam, args.t, args.scales, increment if exact else None
        )

    def factors(self, x: Float[Array, " n"], args: StepData) -> Any:
        return factorise(self.matrix(x, args, exact=True), args.system.linear_solver)

    def solve(self, guess, args: StepData):
        a, lam, active, tolerance = guess
        x0 = jnp.concatenate([a.reshape(-1), lam])
        matrix = self.matrix(x0, args, exact=self.mode == "exact")

        def unchecked(matrix):  # the iteration itself tells whether these factors are good enough
            return factorise(matrix, args.system.linear_solver, checked=False)

        factors = unchecked(matrix)
        x, info = newton(
            lambda x: self.residual(x, args),
            lambda x: factors,
            lambda x: unchecked(self.matrix(x, args, exact=True)),
            self._norm(args),
            x0,
            self._options(tolerance, x0.dtype),
            active,
        )
        if matrix.regularisation is not None:
            x = minimum_norm(x, factors, rough=True)  # E of frozen factors is large, and of few digits in S
        # A failed solve returns its starting point: finite, so that a masked member of a batch has finite derivatives.
        return jnp.where(info.converged, x, x0), info

    def _norm(self, args: StepData):
        if self.criterion == "correction":
            return jnp.linalg.norm
        weights = jnp.ones(args.u.shape[1], args.u.dtype).at[:3].set(1.0 / args.system.length)

        def norm(delta):
            return args.scales.position * jnp.max(
                jnp.abs(delta[: args.u.size].reshape(args.u.shape)) * weights[None, :]
            )

        return norm

    def _options(self, tolerance, dtype) -> NewtonOptions:
        if tolerance is None:
            tolerance = float(jnp.finfo(dtype).eps) ** 0.75 if self.criterion == "position" else 1e-3
        return NewtonOptions(
            tolerance,
            max_steps=0 if self.mode == "exact" else self.max_steps,
            max_exact_steps=0 if self.mode == "frozen" else 20,
            estimate_error=self.criterion == "position",
        )


def inner_formulation(name: str, group: str, formulation: AbstractFormulation) -> AbstractFormulation:
    """The formulation whose `retract` moves on the group."""
    if group == "SO3xR3":
        return formulation
    if formulation.name != "rA":
        raise ValueError(f"{name}: SE(3) moves rotation matrices: use the formulation rA, not {formulation.name}")
    return Screw()


def converted(old: AbstractFormulation, new: AbstractFormulation, q: Any, u: Float[Array, "nb d"], a):
    """Velocities and accelerations of one formulation of poses in another's coordinates."""
    if old is new:
        return u, a
    twist = jax.vmap(old.twist)(q, u)
    rates = jax.vmap(old.physical_accelerations)(q, u, a)
    u = jax.vmap(new.rates)(q, twist.v, twist.omega)
    return u, jax.vmap(new.accelerations)(q, u, *rates)


def take_step(method: Any, formulation: AbstractFormulation, args: StepData, a, lam, active):
    """Solve one step from the guess (a, λ); (q, u, a, λ) at its end, and what Newton's method says.

    `method` has the settings `tolerance`, `newton`, `max_steps` and `project_velocities`.
    """
    problem = Index3Step(formulation, method.newton, getattr(method, "criterion", "position"), method.max_steps)
    x, info = implicit_root(problem, (a, lam, active, method.tolerance), args)
    a, lam = problem.split(x, args.u)
    q, u = jax.vmap(formulation.retract)(args.q, args.displacement(a)), args.velocity(a)
    if method.project_velocities:
        u = closest_velocity(formulation, args.system, q, u, args.t)
    return q, u, a, lam, info


def check_settings(name: str, mode: str, criterion: str = "position", group: str = "SO3xR3") -> None:
    """Refuse unknown settings of Newton's method, and unknown groups."""
    if group not in GROUPS:
        raise ValueError(f"{name}: group must be one of {GROUPS}, not {group!r}")
    if mode not in NEWTON_MODES:
        raise ValueError(f"{name}: newton must be one of {NEWTON_MODES}, not {mode!r}")
    if criterion not in CRITERIA:
        raise ValueError(f"{name}: criterion must be one of {CRITERIA}, not {criterion!r}")
