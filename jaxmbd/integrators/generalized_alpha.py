"""Generalized-alpha for the index-3 equations, in any formulation: second order with adjustable dissipation."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, StepScales
from ..formulations.index1 import dynamic_accelerations
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import implicit_root
from .base import AbstractIntegrator, Motion
from .index3 import Index3Step, StepData, check_newton


class GeneralizedAlpha(AbstractIntegrator):
    """Second order on the index-3 equations; on the group SO(3) for rA, in their coordinates for rp and r-epsilon.

        q = retract(q_n, h u_n + h² ((1/2 - β) b_n + β b)),   u = u_n + h ((1 - γ) b_n + γ b)
        (1 - α_m) b + α_m b_n = (1 - α_f) a + α_f a_n

    with the algorithmic acceleration b beside the true one, a. Positions satisfy the constraints at every step to
    rounding; velocities do so to second order. Multipliers are of second order after a transient that decays like
    ρ_∞^n.

    Attributes:
        rho_inf: Spectral radius at infinite frequency, from 0 (kills high frequencies at once) to below 1 (hardly
            damps).
        tolerance: As in `ImplicitEuler`.
        newton: As in `ImplicitEuler`.
        max_steps: As in `ImplicitEuler`.

    Reference:
        Bruels, Cardona, Arnold, "Lie group generalized-alpha time integration of constrained flexible multibody
        systems" (2012); the start of b as in Arnold, Bruels, Cardona (2015).
    """

    name: ClassVar[str] = "generalized_alpha"

    rho_inf: float = eqx.field(static=True, default=0.8)
    tolerance: float | Scalar | None = None
    newton: str = eqx.field(static=True, default="auto")
    max_steps: int = eqx.field(static=True, default=10)

    def __check_init__(self):
        check_newton("GeneralizedAlpha", self.newton, "position")
        if not 0.0 <= self.rho_inf < 1.0:
            raise ValueError(f"GeneralizedAlpha: rho_inf must lie in [0, 1), not {self.rho_inf}")

    @property
    def _coefficients(self) -> tuple[float, float, float, float]:
        rho = self.rho_inf
        alpha_m, alpha_f = (2.0 * rho - 1.0) / (rho + 1.0), rho / (rho + 1.0)
        gamma = 0.5 + alpha_f - alpha_m
        return alpha_m, alpha_f, 0.25 * (gamma + 0.5) ** 2, gamma

    def start(self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar) -> Motion:
        # b approximates the acceleration at t + (α_m - α_f) h; without that its error would show at first order.
        alpha_m, alpha_f, _, _ = self._coefficients
        jerk = _acceleration_rate(formulation, system, motion, t)
        memory = motion.a + (alpha_m - alpha_f) * h * jerk
        return Motion(motion.q, motion.u, motion.a, motion.lam, memory)

    def step(self, formulation: AbstractFormulation, system: System, motion: Motion, t, h, active=True):
        alpha_m, alpha_f, beta, gamma = self._coefficients
        q, u, a = formulation.rechart(motion.q, motion.u, motion.a)
        _, _, b = formulation.rechart(motion.q, motion.u, motion.memory)
        share = (1.0 - alpha_f) / (1.0 - alpha_m)
        known = (alpha_f * a - alpha_m * b) / (1.0 - alpha_m)  # b at the end is known + share a
        args = StepData(
            system.at(t),
            q,
            u + h * ((1.0 - gamma) * b + gamma * known),
            h * u + h**2 * ((0.5 - beta) * b + beta * known),
            t,
            StepScales(gamma * share * h, beta * share * h**2),
        )
        problem = Index3Step(formulation, self.newton, "position", self.max_steps)
        x, info = implicit_root(problem, (a, motion.lam, active, self.tolerance), args)
        a, lam = problem.split(x, u)
        q = jax.vmap(formulation.retract)(q, args.displacement(a))
        return Motion(q, args.velocity(a), a, lam, known + share * a), info


def _acceleration_rate(formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar) -> Any:
    """The time derivative of the accelerations along the motion, (nb, d)."""

    def accelerations(s: Scalar) -> Float[Array, "nb d"]:
        delta = s * motion.u + 0.5 * s**2 * motion.a
        q = jax.vmap(formulation.retract)(motion.q, delta)
        return dynamic_accelerations(formulation, system, q, motion.u + s * motion.a, t + s)[0]

    zero = jnp.zeros((), motion.u.dtype)
    return jax.jvp(accelerations, (zero,), (jnp.ones_like(zero),))[1]
