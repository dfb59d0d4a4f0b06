"""Explicit Runge-Kutta in independent coordinates: the constrained system as an ordinary
differential equation on the constraint manifold.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..equations.closing import closes
from ..equations.index1 import dynamic_accelerations, judged_accelerations
from ..equations.tangent_space import TangentSpace
from ..formulations.base import AbstractFormulation
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


class Memory(eqx.Module):
    """The estimated errors of the last step in independent coordinates and in their rates."""

    gaps: tuple[Float[Array, "nb d"], Float[Array, "nb d"]]


class IndependentCoordinates(AbstractExplicit):
    """State-space reduction: explicit Runge-Kutta in as many independent coordinates as there are
    degrees of freedom, in any formulation.

        q = q_n ⊕ (w + M⁻¹ Rᵀ y),   with R w = 0 at q_n and y from Φ(q, t) = 0
        ẅ = P ξ̈,   ξ = w + M⁻¹ Rᵀ y,   P = 1 - M⁻¹ Rᵀ (R M⁻¹ Rᵀ)⁻¹ R at q_n

    w are coordinates of the plane that touches the constraint manifold at the start of the step,
    orthogonal by mass, so that they are chosen anew at every step and fit at every pose but
    singular ones. Positions and velocities satisfy all constraints at every stage, to rounding and
    without stabilization; there is nothing left that could drift. It costs one factorization more a
    stage than `MuntheKaas` without stabilization. Rows at velocity level are refused.

    Attributes:
        tableau: As in `MuntheKaas`: "euler", "heun", "rk3", "rk4" or "rk5".

    Reference:
        Wehage, Haug, "Generalized coordinate partitioning for dimension reduction in analysis of
        constrained dynamic systems", J. Mech. Design 104, 1982; Potra, Yen, "Implicit numerical
        integration for Euler-Lagrange equations via tangent space parametrization", Mech. Struct.
        Mach. 19, 1991; the outlook of Kissel, Taves, Negrut.
    """

    name: ClassVar[str] = "independent_coordinates"

    tableau: str = eqx.field(static=True, default="rk4")

    def __check_init__(self):
        check_choices(self, tableau=tuple(TABLEAUS))

    def check(self, formulation: AbstractFormulation, system: System) -> None:
        pairs = zip(system.connections, system.at_position_level().connections, strict=True)
        bound = [repr(c.name) for c, left in pairs if len(left.rows) < len(c.rows)]
        if bound:
            raise ValueError(
                "IndependentCoordinates needs constraints between positions, and "
                f"{', '.join(bound)} {'bind' if len(bound) > 1 else 'binds'} velocities: use "
                "MuntheKaas or GeneralizedAlpha"
            )

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        zero = jnp.zeros_like(motion.u)
        return dataclasses.replace(motion, memory=Memory((zero, zero)))

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
        space = TangentSpace.at(formulation, system, q0, t - h)
        p0, f0 = space.along(u0), space.along(a0)
        across = u0 - p0, a0 - f0  # what constraints make of motion within the plane, at first

        def state(w: Array, w_dot: Array, s: Scalar | float):
            tau = s * h
            xi = w + tau * across[0] + 0.5 * tau**2 * across[1]
            rate = w_dot + across[0] + tau * across[1]
            return space.state(formulation, system, xi, rate, t - h + tau)

        def rates(y: tuple[Array, ...], s: Scalar) -> tuple[Array, ...]:
            w, w_dot, z, _ = y
            now, held = t - h + s * h, system.with_element_states(z)
            q, u, turn, lost = state(w, w_dot, s)
            a, _ = dynamic_accelerations(formulation, held, q, u, now)
            dz = element_state_rates(formulation, held, q, u, now)
            return w_dot, space.along(turn(a)), dz, lost.astype(h.dtype)

        none = jnp.zeros((), h.dtype)  # whether a stage was lost is a further rate
        start = jnp.zeros_like(u0), p0, states_of(motion), none
        first = p0, f0, element_state_rates(formulation, system, q0, u0, t - h), none
        (w, w_dot, z, _), (X, Y, _, missed) = stages(plan, rates, start, first, h)
        system = system.with_element_states(z)
        q, u, turn, lost = state(w, w_dot, 1.0)
        a, lam, undetermined = judged_accelerations(formulation, system, q, u, t)
        gaps = motion.memory.gaps
        if plan.error is not None:
            gaps = embedded_error(plan, (X, Y), (w_dot, space.along(turn(a))), h)
        after = Motion(q, u, a, lam, Memory(gaps), undetermined)
        info = outcome(undetermined, a, *jax.tree.leaves(q))
        closed = closes(formulation, system.at(t), q, 0.0)
        info = eqx.tree_at(
            lambda x: x.converged, info, info.converged & closed & ~lost & ~jnp.any(missed > 0.0)
        )
        return with_states(after, motion, z), info
