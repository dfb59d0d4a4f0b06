"""Generalized-alpha for the index-3 equations, in any formulation: second order with adjustable
dissipation.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..equations.first_rates import Asked
from ..equations.index3 import StepData, converted, inner_formulation, take_step
from ..equations.motion import StepScales
from ..formulations.base import AbstractFormulation
from ..linalg.small_matrices import times_last
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import NewtonInfo
from .base import Motion
from .element_states import AbstractStateRule, GeneralizedAlphaOfFirstOrder
from .index3 import AbstractOnGroup


class Memory(eqx.Module):
    """The algorithmic accelerations b, and the step that they belong to."""

    b: Float[Array, "nb d"]
    h: Scalar


class GeneralizedAlpha(AbstractOnGroup):
    """Second order on the index-3 equations; on a group for rA, in their coordinates for rp and
    r-epsilon.

        q = retract(q_n, h u_n + h² ((1/2 - β) b_n + β b)),   u = u_n + h ((1 - γ) b_n + γ b)
        (1 - α_m) b + α_m b_n = (1 - α_f) a + α_f a_n

    with the algorithmic acceleration b beside the true one, a. Positions satisfy the constraints at
    every step to rounding; velocities do so to second order. Multipliers are of second order after
    a transient that decays like ρ_∞^n. Steps may change in size.

    Attributes:
        rho_inf: Spectral radius at infinite frequency, from 0 (kills high frequencies at once) to
            below 1 (hardly damps).
        group: For rA, "SO3xR3" or "SE3", on which bodies move along screws.
        newton: Settings of Newton's method.
        velocity_projection: Move velocities, after every step, to the nearest by mass that satisfy
            the constraints; as the method leaves them they do so to second order. By default where
            steps are chosen.

    Reference:
        Bruels, Cardona, Arnold, "Lie group generalized-alpha time integration of constrained
        flexible multibody systems" (2012); the start of b as in Arnold, Bruels, Cardona (2015).
    """

    name: ClassVar[str] = "generalized_alpha"
    error_order: ClassVar[int | None] = 2

    rho_inf: float = eqx.field(static=True, default=0.8)

    def __check_init__(self):
        if not 0.0 <= self.rho_inf < 1.0:
            raise ValueError(f"GeneralizedAlpha: rho_inf must lie in [0, 1), not {self.rho_inf}")

    @property
    def _coefficients(self) -> tuple[float, float, float, float]:
        rho = self.rho_inf
        alpha_m, alpha_f = (2.0 * rho - 1.0) / (rho + 1.0), rho / (rho + 1.0)
        gamma = 0.5 + alpha_f - alpha_m
        return alpha_m, alpha_f, 0.25 * (gamma + 0.5) ** 2, gamma

    @property
    def ringing(self) -> float:
        return self.rho_inf

    @property
    def state_rule(self) -> AbstractStateRule:
        return GeneralizedAlphaOfFirstOrder(self.rho_inf)

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        # b approximates the acceleration at t + (α_m - α_f) h; without that its error would show at
        # first order.
        inner, u, rates = self._first_rates(formulation, system, motion, t, h)
        motion = super().start(formulation, system, motion, t, h)
        alpha_m, alpha_f, _, _ = self._coefficients
        memory = Memory(rates.a + (alpha_m - alpha_f) * h * rates.jerk, h)
        if self.velocity_projection:
            return dataclasses.replace(motion, memory=memory)
        # Positions are held at every step, so velocities across the constraints settle at an error
        # of h². Started without it, they and the multipliers would ring around it.
        u = u + h**2 * rates.across
        u, _ = converted(inner, formulation, motion.q, u, rates.a)
        return dataclasses.replace(motion, u=u, memory=memory)

    def _asked(self, inner: AbstractFormulation, u: Float[Array, "nb d"]) -> Asked | None:
        if self.velocity_projection:
            return None
        alpha_m, alpha_f, beta, _ = self._coefficients

        def asked(a: Float[Array, "nb d"], jerk: Float[Array, "nb d"]) -> Float[Array, "nb d"]:
            third = jerk + _bent(inner, u, a)
            return third / 6.0 - (beta + 0.5 * (alpha_m - alpha_f)) * jerk

        return asked

    def jumped(self, motion: Motion, change: Float[Array, "nb d"]) -> Motion:
        # b stands for the acceleration of a nearby instant, which jumps alike.
        memory = Memory(motion.memory.b + change, motion.memory.h)
        return dataclasses.replace(super().jumped(motion, change), memory=memory)

    def step(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        t: Scalar,
        h: Scalar,
        active: Bool[Array, ""] | bool = True,
    ) -> tuple[Motion, NewtonInfo]:
        alpha_m, alpha_f, beta, gamma = self._coefficients
        inner = inner_formulation("GeneralizedAlpha", self.group, formulation)
        q, u, a = formulation.rechart(motion.q, motion.u, motion.a)
        _, _, b = formulation.rechart(motion.q, motion.u, motion.memory.b)
        u, a = converted(formulation, inner, q, u, a)
        # b belongs to an instant whose distance is a part of the step: after another step, to
        # another instant.
        b = a + h / motion.memory.h * (b - a)
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
        q, u, a, lam, info, past = take_step(self, inner, system, args, a, motion, active)
        memory = Memory(known + share * a, h)
        u, a = converted(inner, formulation, q, u, a)
        return Motion(q, u, a, lam, memory, info.undetermined, past), info

    def error(self, before: Motion, after: Motion, h: Scalar):
        # Taylor's series of the formula for q; that for u is right to the next order.
        alpha_m, alpha_f, beta, _ = self._coefficients
        gap = (beta + 0.5 * (alpha_m - alpha_f) - 1.0 / 6.0) * h**2 * (after.a - before.a)
        return gap, jnp.zeros_like(gap)


def _bent(
    formulation: AbstractFormulation, u: Float[Array, "nb d"], a: Float[Array, "nb d"]
) -> Float[Array, "nb d"]:
    """What turning adds to the third derivative of an increment, [u, a] / 2 on a group, from
    ḋ = T(d)⁻¹ u.
    """
    if not formulation.moves_on_manifold:
        return jnp.zeros_like(a)

    def along(s: Scalar) -> Float[Array, "nb d"]:
        tangent = jax.vmap(formulation.tangent)(s * u)
        assert tangent is not None
        return times_last(tangent, a)

    zero = jnp.zeros((), u.dtype)
    return -jax.jvp(along, (zero,), (jnp.ones_like(zero),))[1]
