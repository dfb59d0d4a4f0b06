"""Explicit Runge-Kutta in the coordinates of a formulation, from the index-1 accelerations."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..equations.index1 import (
    closest_position,
    closest_velocity,
    dynamic_accelerations,
    judged_accelerations,
)
from ..equations.motion import balance, mass_matrix
from ..formulations.base import AbstractFormulation, Coordinates
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import NewtonInfo
from .base import Motion
from .element_states import rates as element_state_rates
from .explicit import (
    AbstractExplicit,
    check_choices,
    embedded_error,
    outcome,
    stages,
    states_of,
    with_states,
)
from .tableaus import TABLEAUS

MULTIPLIERS = ("every_stage", "frozen")


class Memory(eqx.Module):
    """The estimated errors of the last step in coordinates and velocities."""

    gaps: tuple[Float[Array, "nb d"], Float[Array, "nb d"]]


class RungeKutta(AbstractExplicit):
    """Explicit Runge-Kutta for formulations whose coordinates are a vector space: all but `RA`.

        q̇ = u,   u̇ = a(q, u, t), where (a, λ) solve M a + h - Q + Rᵀλ = 0 and R a = γ

    Linear constraints among the coordinates hold to rounding at every step size: spherical joints
    in `RotationElements`, and in `Directors`. All others, Rᵀ R = I and the norm of Euler parameters
    included, drift at the method's order unless `projection` is on.

    Attributes:
        tableau: As in `MuntheKaas`: "euler", "heun", "rk3", "rk4" or "rk5".
        multipliers: "every_stage" solves for them at every stage. "frozen" keeps those of the start
            of the step, as Dumitriu and Margaritescu do: one solution a step, but of first order
            whatever the tableau, and R a = γ does not hold. Only for a study, and not for `RP`,
            whose mass matrix is singular.
        projection: Project positions and velocities onto all constraints after every step, nearest
            by mass.

    Reference:
        Dumitriu, Margaritescu, section 5.
    """

    name: ClassVar[str] = "runge_kutta"

    tableau: str = eqx.field(static=True, default="rk4")
    multipliers: str = eqx.field(static=True, default="every_stage")
    projection: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_choices(self, tableau=tuple(TABLEAUS), multipliers=MULTIPLIERS)

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        if formulation.moves_on_manifold:
            raise ValueError(
                f"RungeKutta adds up coordinates, and those of {formulation.name} are no vector "
                "space: use MuntheKaas, or another formulation such as RotationElements"
            )
        if self.multipliers == "frozen" and not formulation.regular_mass:
            raise ValueError(
                "RungeKutta(multipliers='frozen') needs a regular mass matrix, which "
                f"{formulation.name} does not have"
            )
        zero = jnp.zeros_like(motion.u)
        return Motion(motion.q, motion.u, motion.a, motion.lam, Memory((zero, zero)))

    def check(self, formulation: AbstractFormulation, system: System) -> None:
        if self.multipliers == "frozen":
            system.refuse_inertias("RungeKutta(multipliers='frozen')")

    def step(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        t: Scalar,
        h: Scalar,
        active: Bool[Array, ""] | bool = True,
    ) -> tuple[Motion, NewtonInfo]:
        plan = TABLEAUS[self.tableau]
        q0, u0, a0 = formulation.rechart(motion.q, motion.u, motion.a)

        def moved(delta: Float[Array, "nb d"]):
            return jax.vmap(formulation.retract)(q0, delta)

        def rates(y: tuple[Array, Array, Array], s: Scalar) -> tuple[Array, Array, Array]:
            delta, u, z = y
            q, now, held = moved(delta), t - h + s * h, system.with_element_states(z)
            dz = element_state_rates(formulation, held, q, u, now)
            if self.multipliers == "frozen":
                return u, _held(formulation, held, q, u, motion.lam, now), dz
            return u, dynamic_accelerations(formulation, held, q, u, now)[0], dz

        z0 = states_of(motion)
        start = jnp.zeros_like(u0), u0, z0
        first = u0, a0, element_state_rates(formulation, system, q0, u0, t - h)
        (delta, u, z), (X, Y, _) = stages(plan, rates, start, first, h)
        q, system = moved(delta), system.with_element_states(z)
        if self.projection:
            q = closest_position(formulation, system, q, t)
            u = closest_velocity(formulation, system, q, u, t)
        a, lam, undetermined = judged_accelerations(formulation, system, q, u, t)
        if self.multipliers == "frozen":
            # The next step starts from these; the solution shows them too.
            a = _held(formulation, system, q, u, lam, t)
        gaps = motion.memory.gaps
        if plan.error is not None:
            gaps = embedded_error(plan, (X, Y), (u, a), h)
        after = Motion(q, u, a, lam, Memory(gaps), undetermined)
        return with_states(after, motion, z), outcome(undetermined, a, delta)


def _held(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    lam: Float[Array, " m"],
    t: Scalar,
) -> Float[Array, "nb d"]:
    """Accelerations under given multipliers."""
    rest = balance(formulation, system.at(t), q, u, jnp.zeros_like(u), lam, t)
    return -jnp.linalg.solve(mass_matrix(formulation, system, q), rest[..., None])[..., 0]
