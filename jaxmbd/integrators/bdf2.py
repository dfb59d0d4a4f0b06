"""BDF2 for the index-3 equations: second order, strongly damping, with steps of any size."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..equations.index3 import StepData, converted, inner_formulation, take_step
from ..equations.motion import StepScales
from ..formulations.base import AbstractFormulation
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import NewtonInfo
from .base import Motion
from .element_states import AbstractStateRule, BackwardDifference
from .index3 import AbstractOnGroup


class Memory(eqx.Module):
    """Increments of velocities and coordinates over the last step, and its size."""

    du: Float[Array, "nb d"]
    dq: Float[Array, "nb d"]
    h: Scalar


class BDF2(AbstractOnGroup):
    """The two-step backward differentiation formula on the index-3 equations.

        u = u_n + k (u_n - u_{n-1}) + c a,   q = retract(q_n, k d_n + c u)
        c = (1 + ω) h / (1 + 2ω)

    with k = ω²/(1 + 2ω), ω = h / h_{n-1} and d_n the last increment, q_n = retract(q_{n-1}, d_n).
    On a group the formula stands in the algebra at q_n, where dexp⁻¹(d) u differs from u by O(h²):
    below the method's own error. Positions satisfy the constraints to rounding, velocities to
    second order.

    Attributes:
        group: For rA, "SO3xR3" or "SE3", on which bodies move along screws.
        newton: Settings of Newton's method.
        velocity_projection: Move velocities, after every step, to the nearest by mass that satisfy
            the constraints; as the method leaves them they do so to second order. By default where
            steps are chosen.

    Reference:
        Kissel, Taves, Negrut, Eqs. 32 to 44 with beta_0 = 2/3, whose constant-step formula this is
        for ω = 1; Hairer, Wanner, "Solving ordinary differential equations II", section VII.3, for
        the index-3 form.
    """

    name: ClassVar[str] = "bdf2"
    error_order: ClassVar[int | None] = 2

    @property
    def state_rule(self) -> AbstractStateRule:
        return BackwardDifference()

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        # The step before the first, from Taylor's series.
        _, u, rates = self._first_rates(formulation, system, motion, t, h)
        motion = super().start(formulation, system, motion, t, h)
        a, jerk = rates.a, rates.jerk
        memory = Memory(h * a - h**2 / 2 * jerk, h * u - h**2 / 2 * a + h**3 / 6 * jerk, h)
        return dataclasses.replace(motion, memory=memory)

    def jumped(self, motion: Motion, change: Float[Array, "nb d"]) -> Motion:
        # As if the step before had ended here with the accelerations of now.
        last, h = motion.memory, motion.memory.h
        memory = Memory(last.du + h * change, last.dq - h**2 / 2 * change, h)
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
        inner = inner_formulation("BDF2", self.group, formulation)
        q, u, a = formulation.rechart(motion.q, motion.u, motion.a)
        # Increments do not outlive a chart: Taylor's series stands in for them, once.
        moved = jnp.any(u != motion.u, axis=1, keepdims=True)
        u, a = converted(formulation, inner, q, u, a)
        last = motion.memory
        du = jnp.where(moved, last.h * a, last.du)
        dq = jnp.where(moved, last.h * u - last.h**2 / 2 * a, last.dq)
        ratio = h / last.h
        k, c = ratio**2 / (1.0 + 2.0 * ratio), (1.0 + ratio) / (1.0 + 2.0 * ratio) * h
        start = u + k * du
        args = StepData(system.at(t), q, start, k * dq + c * start, t, StepScales(c, c**2))
        q, u_new, a, lam, info, past = take_step(self, inner, system, args, a, motion, active)
        memory = Memory(u_new - u, args.displacement(a), h)
        u_new, a = converted(inner, formulation, q, u_new, a)
        return Motion(q, u_new, a, lam, memory, info.undetermined, past), info

    def error(self, before: Motion, after: Motion, h: Scalar):
        # The formula's leading error, once for u' = a and once for q' = u; a' from its last
        # difference.
        ratio = h / before.memory.h
        factor = (1.0 + ratio) ** 2 / (6.0 * ratio * (1.0 + 2.0 * ratio))
        gap = factor * h**2 * (after.a - before.a)
        return gap, jnp.zeros_like(gap)
