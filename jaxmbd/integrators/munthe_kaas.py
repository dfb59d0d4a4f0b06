"""Munthe-Kaas: explicit Runge-Kutta on SE(3) or SO(3)xR3, from the index-1 accelerations."""

from collections.abc import Callable
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..equations.index1 import (
    closest_position,
    closest_velocity,
    dynamic_accelerations,
    judged_accelerations,
)
from ..formulations import RA, AbstractFormulation
from ..model.state import Pose
from ..model.system import System
from ..rotations import se3, so3
from ..rotations.types import Mat3, Scalar
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

GROUPS = ("SE3", "SO3xR3", "mixed")
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
        screws = self._screws(system)
        feedback = (self.rate, self.rate) if self.stabilization == "baumgarte" else None
        q0 = motion.q
        V0 = motion.memory.V

        def rates(y: tuple[Array, Array, Array], s: Scalar) -> tuple[Array, Array, Array]:
            xi, V, z = y
            q, now, held = _moved(screws, q0, xi), t - h + s * h, system.with_element_states(z)
            u = _from_group(screws, q, V)
            acc, _ = dynamic_accelerations(formulation, held, q, u, now, feedback=feedback)
            dz = element_state_rates(formulation, held, q, u, now)
            return _dexp_inverse(screws, xi, V), _rate_in_group(screws, q, u, acc), dz

        first = (
            V0,
            _rate_in_group(screws, q0, motion.u, motion.a),
            element_state_rates(formulation, system, q0, motion.u, t - h),
        )
        start = jnp.zeros_like(V0), V0, states_of(motion)
        (xi, V, z), (X, Y, _) = stages(plan, rates, start, first, h)
        q, system = _moved(screws, q0, xi), system.with_element_states(z)
        u = _from_group(screws, q, V)
        if self.stabilization == "projection":
            q = closest_position(formulation, system, q, t)
            u = closest_velocity(formulation, system, q, u, t)
            V = _to_group(screws, q, u)
        acc, lam, undetermined = judged_accelerations(
            formulation, system, q, u, t, feedback=feedback
        )
        gaps = motion.memory.gaps
        if plan.error is not None:
            last = _dexp_inverse(screws, xi, V), _rate_in_group(screws, q, u, acc)
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
        memory = Memory(_to_group(self._screws(system), motion.q, motion.u), (zero, zero))
        return Motion(motion.q, motion.u, motion.a, motion.lam, memory)

    def _screws(self, system: System) -> np.ndarray:
        """Which bodies move on SE(3), (nb,)."""
        if self.group != "mixed":
            return np.full(system.nb, self.group == "SE3")
        grounded = {b for c in system.connections for b in (c.i, c.j) if system.nb in (c.i, c.j)}
        return np.array([b in grounded for b in range(system.nb)])


Moved = TypeVar("Moved", Pose, Array)


def _choose(
    screws: np.ndarray, on_se3: Callable[[], Moved], on_product: Callable[[], Moved]
) -> Moved:
    """Results body by body; a group that no body moves on is not computed."""
    if screws.all():
        return on_se3()
    if not screws.any():
        return on_product()

    def choose(x: Array, y: Array) -> Array:
        return jnp.where(screws.reshape(-1, *(1,) * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, on_se3(), on_product())


def _moved(screws: np.ndarray, q: Pose, xi: Float[Array, "nb 6"]) -> Pose:
    def screw(q: Pose, xi: Float[Array, "6"]) -> Pose:
        return Pose(*se3.compose(q.r, q.A, *se3.exp(xi)))

    def product(q: Pose, xi: Float[Array, "6"]) -> Pose:
        return Pose(q.r + xi[:3], q.A @ so3.exp(xi[3:]))

    return _choose(screws, lambda: jax.vmap(screw)(q, xi), lambda: jax.vmap(product)(q, xi))


def _dexp_inverse(
    screws: np.ndarray, xi: Float[Array, "nb 6"], V: Float[Array, "nb 6"]
) -> Float[Array, "nb 6"]:
    def product(xi: Float[Array, "6"], V: Float[Array, "6"]) -> Float[Array, "6"]:
        return jnp.concatenate([V[:3], so3.inverse_right_jacobian(xi[3:]) @ V[3:]])

    return _choose(
        screws,
        lambda: jax.vmap(lambda x, v: se3.inverse_right_jacobian(x) @ v)(xi, V),
        lambda: jax.vmap(product)(xi, V),
    )


def _to_group(screws: np.ndarray, q: Pose, u: Float[Array, "nb 6"]) -> Float[Array, "nb 6"]:
    """(v, ω̄) with v in the body frame on SE(3)."""
    return _choose(
        screws, lambda: u.at[:, :3].set(jnp.einsum("bji,bj->bi", q.A, u[:, :3])), lambda: u
    )


def _from_group(screws: np.ndarray, q: Pose, V: Float[Array, "nb 6"]) -> Float[Array, "nb 6"]:
    return _choose(
        screws, lambda: V.at[:, :3].set(jnp.einsum("bij,bj->bi", q.A, V[:, :3])), lambda: V
    )


def _rate_in_group(
    screws: np.ndarray, q: Pose, u: Float[Array, "nb 6"], acc: Float[Array, "nb 6"]
) -> Float[Array, "nb 6"]:
    """V̇ from (r̈, ω̄̇): on SE(3), d/dt Aᵀ v = Aᵀ r̈ - ω̄ × Aᵀ v."""

    def screw(A: Mat3, u: Float[Array, "6"], acc: Float[Array, "6"]) -> Float[Array, "6"]:
        return jnp.concatenate([A.T @ acc[:3] - so3.cross(u[3:], A.T @ u[:3]), acc[3:]])

    return _choose(screws, lambda: jax.vmap(screw)(q.A, u, acc), lambda: acc)
