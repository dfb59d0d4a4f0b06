"""Implicit Euler for the index-3 equations, in any formulation."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, StepScales
from ..formulations.index1 import minimum_norm
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import AbstractRootProblem, DenseFactors, NewtonOptions, implicit_root, newton
from .base import AbstractIntegrator, Motion

NEWTON_MODES = ("auto", "frozen", "exact")
CRITERIA = ("position", "correction")


class ImplicitEuler(AbstractIntegrator):
    """First-order implicit Euler on the index-3 equations; positions satisfy the constraints at every step.

        u = u_n + h a,   q = retract(q_n, h u),   balance(q, u, a, λ) = 0,   Φ(q, t) / h² = 0

    Attributes:
        tolerance: In position units relative to the system's length (criterion "position"), default eps^0.75; or Θ of
            the paper, on the norm of the whole correction (criterion "correction").
        newton: "auto" factors a quasi-Newton matrix once a step and falls back to the exact matrix where that
            contracts poorly; "frozen" is the paper's iteration, the quasi matrix alone; "exact" is Newton's method.
        criterion: "position" stops on the estimated remaining error h²|δa|; "correction" as the paper does (Eq. 46).
        max_steps: Limit of iterations with the frozen matrix.

    Reference:
        Kissel, Taves, Negrut, Eqs. 32 to 38, 40, 41 and 44 with beta_0 = 1.
    """

    name: ClassVar[str] = "implicit_euler"

    tolerance: float | Scalar | None = None
    newton: str = eqx.field(static=True, default="auto")
    criterion: str = eqx.field(static=True, default="position")
    max_steps: int = eqx.field(static=True, default=10)

    def __check_init__(self):
        if self.newton not in NEWTON_MODES:
            raise ValueError(f"ImplicitEuler: newton must be one of {NEWTON_MODES}, not {self.newton!r}")
        if self.criterion not in CRITERIA:
            raise ValueError(f"ImplicitEuler: criterion must be one of {CRITERIA}, not {self.criterion!r}")

    def step(self, formulation: AbstractFormulation, system: System, motion: Motion, t, h, active=True):
        q, u, a = formulation.rechart(motion.q, motion.u, motion.a)
        args = _StepData(system.at(t), q, u, t, h)
        guess = (a, motion.lam, active, self.tolerance)
        problem = _Step(formulation, self.newton, self.criterion, self.max_steps)
        x, info = implicit_root(problem, guess, args)
        a, lam = problem.split(x, u)
        u = u + h * a
        q = jax.vmap(formulation.retract)(q, h * u)
        return Motion(q, u, a, lam), info


class _StepData(eqx.Module):
    system: System  # at time t
    q: Any
    u: Float[Array, "nb d"]
    t: Scalar
    h: Scalar


class _Step(AbstractRootProblem):
    """The equations of one step in the unknowns (a, λ)."""

    exact_factors: ClassVar[bool] = True

    formulation: AbstractFormulation
    mode: str = eqx.field(static=True)
    criterion: str = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)

    def split(self, x, u):
        return x[: u.size].reshape(u.shape), x[u.size :]

    def residual(self, x: Float[Array, " n"], args: _StepData) -> Float[Array, " n"]:
        a, lam = self.split(x, args.u)
        u = args.u + args.h * a
        q = jax.vmap(self.formulation.retract)(args.q, args.h * u)
        balance = self.formulation.balance(args.system, q, u, a, lam, args.t)
        phi = self.formulation.phi(args.system, q)
        return jnp.concatenate([balance.reshape(-1), phi / args.h**2])

    def matrix(self, x: Float[Array, " n"], args: _StepData, *, exact: bool):
        a, lam = self.split(x, args.u)
        u = args.u + args.h * a
        increment = args.h * u
        q = jax.vmap(self.formulation.retract)(args.q, increment)
        scales = StepScales(args.h, args.h**2)
        return self.formulation.step_matrix(args.system, q, u, a, lam, args.t, scales, increment if exact else None)

    def factors(self, x: Float[Array, " n"], args: _StepData) -> DenseFactors:
        return DenseFactors.of(self.matrix(x, args, exact=True))

    def solve(self, guess, args: _StepData):
        a, lam, active, tolerance = guess
        x0 = jnp.concatenate([a.reshape(-1), lam])
        exact = self.mode == "exact"
        matrix = self.matrix(x0, args, exact=exact)
        factors = DenseFactors.of(matrix)
        x, info = newton(
            lambda x: self.residual(x, args),
            lambda x: factors,
            lambda x: self.factors(x, args),
            self._norm(args),
            x0,
            self._options(tolerance, x0.dtype),
            active,
        )
        if matrix.regularisation is not None:
            x = minimum_norm(x, factors, matrix.regularisation)
        # A failed solve returns its starting point: finite, so that a masked member of a batch has finite derivatives.
        return jnp.where(info.converged, x, x0), info

    def _norm(self, args: _StepData):
        if self.criterion == "correction":
            return jnp.linalg.norm
        weights = jnp.ones(args.u.shape[1], args.u.dtype).at[:3].set(1.0 / args.system.length)

        def norm(delta):
            return args.h**2 * jnp.max(jnp.abs(delta[: args.u.size].reshape(args.u.shape)) * weights[None, :])

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
