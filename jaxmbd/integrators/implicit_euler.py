"""Implicit Euler for the index-3 equations, in any formulation."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..equations.index3 import StepData, take_step
from ..equations.motion import StepScales
from ..formulations.base import AbstractFormulation
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import NewtonInfo
from .base import Motion
from .index3 import AbstractIndex3


class ImplicitEuler(AbstractIndex3):
    """First-order implicit Euler on the index-3 equations; positions satisfy the constraints at
    every step.

        u = u_n + h a,   q = retract(q_n, h u),   balance(q, u, a, λ) = 0,   Φ(q, t) / h² = 0

    Attributes:
        newton: Settings of Newton's method.
        velocity_projection: Move velocities, after every step, to the nearest by mass that satisfy
            the constraints; as the method leaves them they do so to its order. By default where
            steps are chosen.

    Reference:
        Kissel, Taves, Negrut, Eqs. 32 to 38, 40, 41 and 44 with beta_0 = 1.
    """

    name: ClassVar[str] = "implicit_euler"
    error_order: ClassVar[int | None] = 1
    keeps_accelerations: ClassVar[bool] = False

    def step(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        t: Scalar,
        h: Scalar,
        active: Bool[Array, ""] | bool = True,
    ) -> tuple[Motion, NewtonInfo]:
        q, u, a = formulation.rechart(motion.q, motion.u, motion.a)
        args = StepData(system.at(t), q, u, h * u, t, StepScales(h, h**2))
        q, u, a, lam, info, past = take_step(self, formulation, system, args, a, motion, active)
        return Motion(q, u, a, lam, None, info.undetermined, past), info

    def error(self, before: Motion, after: Motion, h: Scalar):
        gap = 0.5 * h * (after.u - before.u)
        return gap, jnp.zeros_like(gap)
