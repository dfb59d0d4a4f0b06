"""Munthe-Kaas: explicit Runge-Kutta on SE(3) or SO(3)xR3, from the index-1 accelerations."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..equations.index1 import (
    closest_position,
    closest_velocity,
    dynamic_accelerations,
    judged_accelerations,
)
from ..formulations import RA, AbstractFormulation
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
from .groups import (
    GROUPS,
    dexp_inverse,
    from_group,
    moved,
    rate_in_group,
    screws_of,
    to_group,
)
from .tableaus import TABLEAUS

STABILIZATIONS = ("none", "baumgarte", "projection")


class Memory(eqx.Module):
    """Velocities on the group, and the estimated errors of the last step in the algebra and in
    them.

    On SE(3) the way to u and back, Aᵀ A V, would add the small defect of A's columns at every step.
    """

    V: Float[Array, "nb 6"]
    gaps: tuple[Float[Array, "nb 6"], Float[Array, "nb 6"]]


class MuntheKaas(AbstractExplicit):
    """Explicit Runge-Kutta in the algebra of each body's configuration group; for the formulation
    rA.

        q = q_n exp(ξ),   ξ̇ = dexp⁻¹(ξ) V,   V̇ = accelerations(q, V, t),   ξ(t_n) = 0

    On SE(3), V = (Aᵀ v, ω̄) and translation and rotation move together along screws: bodies that a
    lower pair joins to the ground stay in its subgroup, so such a joint holds to rounding at any
    order and step. On SO(3)xR3, V = (v, ω̄), and the joints' violation is one of the method's
    order. Without stabilization both drift at joints between moving bodies.

    Attributes:
        group: "SE3", "SO3xR3", or "mixed": SE(3) for bodies joined to the ground and SO(3)xR3 for
            the others, as the paper's outlook suggests.
        tableau: "euler", "heun", "rk3", "rk4" or "rk5" (order 1 to 5); "rk5" is the pair 5(4) of
            Dormand and Prince, whose estimate serves chosen steps (`Adaptive`).
        stabilization: "none"; "baumgarte", which feeds violations back with the rate `rate`; or
            "projection" of position and velocity onto the constraints after every step, nearest by
            mass.
        rate: α = β of Baumgarte's feedback [1/s].

    Reference:
        Mueller, Terze, "Is there an optimal choice of configuration space for Lie group integration
        schemes applied to constrained MBS?", IDETC 2013, sections 2 to 4, as corrected in the
        manual's theory.
    """

    name: ClassVar[str] = "munthe_kaas"

    group: str = eqx.field(static=True, default="SE3")
    tableau: str = eqx.field(static=True, default="rk4")
    stabilization: str = eqx.field(static=True, default="none")
    rate: float | Scalar = 20.0

    def __check_init__(self):
        check_choices(self, group=GROUPS, tableau=tuple(TABLEAUS), stabilization=STABILIZATIONS)

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
        screws = screws_of(self.group, system)
        feedback = (self.rate, self.rate) if self.stabilization == "baumgarte" else None
        q0 = motion.q
        V0 = motion.memory.V

        def rates(y: tuple[Array, Array, Array], s: Scalar) -> tuple[Array, Array, Array]:
            xi, V, z = y
            q, now, held = moved(screws, q0, xi), t - h + s * h, system.with_element_states(z)
            u = from_group(screws, q, V)
            acc, _ = dynamic_accelerations(formulation, held, q, u, now, feedback=feedback)
            dz = element_state_rates(formulation, held, q, u, now)
            return dexp_inverse(screws, xi, V), rate_in_group(screws, q, u, acc), dz

        first = (
            V0,
            rate_in_group(screws, q0, motion.u, motion.a),
            element_state_rates(formulation, system, q0, motion.u, t - h),
        )
        start = jnp.zeros_like(V0), V0, states_of(motion)
        (xi, V, z), (X, Y, _) = stages(plan, rates, start, first, h)
        q, system = moved(screws, q0, xi), system.with_element_states(z)
        u = from_group(screws, q, V)
        if self.stabilization == "projection":
            q = closest_position(formulation, system, q, t)
            u = closest_velocity(formulation, system, q, u, t)
            V = to_group(screws, q, u)
        acc, lam, undetermined = judged_accelerations(
            formulation, system, q, u, t, feedback=feedback
        )
        gaps = motion.memory.gaps
        if plan.error is not None:
            last = dexp_inverse(screws, xi, V), rate_in_group(screws, q, u, acc)
            gaps = embedded_error(plan, (X, Y), last, h)
        after = Motion(q, u, acc, lam, Memory(V, gaps), undetermined)
        return with_states(after, motion, z), outcome(undetermined, acc, q.r, q.A)

    def check(self, formulation: AbstractFormulation, system: System) -> None:
        if not isinstance(formulation, RA):
            raise ValueError(
                "MuntheKaas moves rotation matrices: use the formulation rA, not "
                f"{formulation.name}"
            )

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        zero = jnp.zeros_like(motion.u)
        memory = Memory(to_group(screws_of(self.group, system), motion.q, motion.u), (zero, zero))
        return Motion(motion.q, motion.u, motion.a, motion.lam, memory)
