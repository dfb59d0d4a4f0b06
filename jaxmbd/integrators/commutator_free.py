"""Commutator-free Lie group methods: products of exponentials instead of one in the algebra."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..equations.index1 import dynamic_accelerations, judged_accelerations
from ..formulations import RA, AbstractFormulation
from ..model.state import Pose
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import NewtonInfo
from .base import AbstractIntegrator, Motion
from .element_states import AbstractStateRule, OfTheStages
from .element_states import rates as element_state_rates
from .explicit import check_choices, outcome, states_of, with_states
from .groups import GROUPS, from_group, moved, rate_in_group, screws_of, to_group


class Products(NamedTuple):
    """Coefficients of a method with s stages and products of k exponentials, the first applied
    first.

    Attributes:
        a: Of the velocities of earlier stages in the exponents that lead to each stage, (s, k, s).
        b: Of all of them in those that lead to the end, (k, s).
    """

    a: np.ndarray
    b: np.ndarray

    @property
    def c(self) -> np.ndarray:
        """Instants of the stages as parts of the step, (s,)."""
        return self.a.sum(axis=(1, 2))


PRODUCTS = {
    # Crouch and Grossman 1993: one velocity in each exponent.
    "cg3": Products(
        np.array(
            [
                np.zeros((3, 3)),
                np.diag([3 / 4, 0.0, 0.0]),
                np.diag([119 / 216, 17 / 108, 0.0]),
            ]
        ),
        np.diag([13 / 51, -2 / 3, 24 / 17]),
    ),
    # Celledoni, Marthinsen and Owren 2003, on the classical tableau.
    "cf4": Products(
        np.array(
            [
                np.zeros((2, 4)),
                [[1 / 2, 0, 0, 0], [0, 0, 0, 0]],
                [[0, 1 / 2, 0, 0], [0, 0, 0, 0]],
                [[1 / 2, 0, 0, 0], [-1 / 2, 0, 1, 0]],
            ]
        ),
        np.array([[1 / 4, 1 / 6, 1 / 6, -1 / 12], [-1 / 12, 1 / 6, 1 / 6, 1 / 4]]),
    ),
}


class Memory(eqx.Module):
    """Velocities on the group."""

    V: Float[Array, "nb 6"]


class CommutatorFree(AbstractIntegrator):
    """Explicit steps on each body's configuration group by products of exponentials; for the
    formulation rA.

        q_i = q_n exp(h Σ_j a¹_ij V_j) exp(h Σ_j a²_ij V_j) ...,   V_i = V_n + h Σ_j a_ij V̇_j

    with a = Σ_k aᵏ. Neither commutators nor the inverse derivative of the exponential occur, as
    they do in `MuntheKaas`; joints with the ground hold to rounding on SE(3) all the same, and
    other joints drift at the order of the method.

    Attributes:
        group: As in `MuntheKaas`: "SE3", "SO3xR3" or "mixed".
        tableau: "cf4", of order four, or "cg3", the method of Crouch and Grossman of order three.

    Reference:
        Crouch, Grossman, "Numerical integration of ordinary differential equations on manifolds",
        J. Nonlinear Sci. 3, 1993; Celledoni, Marthinsen, Owren, "Commutator-free Lie group
        methods", Future Gener. Comput. Syst. 19, 2003.
    """

    name: ClassVar[str] = "commutator_free"

    group: str = eqx.field(static=True, default="SE3")
    tableau: str = eqx.field(static=True, default="cf4")

    def __check_init__(self):
        check_choices(self, group=GROUPS, tableau=tuple(PRODUCTS))

    @property
    def state_rule(self) -> AbstractStateRule:
        return OfTheStages()

    def check(self, formulation: AbstractFormulation, system: System) -> None:
        if not isinstance(formulation, RA):
            raise ValueError(
                "CommutatorFree moves rotation matrices: use the formulation rA, not "
                f"{formulation.name}"
            )

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        memory = Memory(to_group(screws_of(self.group, system), motion.q, motion.u))
        return Motion(motion.q, motion.u, motion.a, motion.lam, memory)

    def step(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        t: Scalar,
        h: Scalar,
        active: Bool[Array, ""] | bool = True,
    ) -> tuple[Motion, NewtonInfo]:
        plan, screws = PRODUCTS[self.tableau], screws_of(self.group, system)
        q0, V0, z0 = motion.q, motion.memory.V, states_of(motion)
        a, b, c = (jnp.asarray(x, h.dtype) for x in (plan.a, plan.b, plan.c))

        def ahead(weights: Float[Array, "k s"], found: tuple[Array, Array, Array]):
            """Poses, velocities and states of a stage, or at the end."""
            V, V_dot, z_dot = found

            def factor(q: Pose, own: Float[Array, " s"]) -> tuple[Pose, None]:
                return moved(screws, q, h * jnp.tensordot(own, V, 1)), None

            q, _ = jax.lax.scan(factor, q0, weights)
            whole = h * jnp.sum(weights, axis=0)
            return q, V0 + jnp.tensordot(whole, V_dot, 1), z0 + jnp.tensordot(whole, z_dot, 1)

        def stage(found: tuple[Array, Array, Array], k: Array):
            q, V, z = ahead(a[k], found)
            now, held, u = t - h + c[k] * h, system.with_element_states(z), from_group(screws, q, V)
            acc, _ = dynamic_accelerations(formulation, held, q, u, now)
            dz = element_state_rates(formulation, held, q, u, now)
            rates = V, rate_in_group(screws, q, u, acc), dz
            return jax.tree.map(lambda all, x: all.at[k].set(x), found, rates), None

        first = (
            V0,
            rate_in_group(screws, q0, motion.u, motion.a),
            element_state_rates(formulation, system, q0, motion.u, t - h),
        )
        found = jax.tree.map(lambda x: jnp.zeros((len(a), *x.shape), x.dtype).at[0].set(x), first)
        found, _ = jax.lax.scan(stage, found, jnp.arange(1, len(a)))
        q, V, z = ahead(b, found)
        system, u = system.with_element_states(z), from_group(screws, q, V)
        acc, lam, undetermined = judged_accelerations(formulation, system, q, u, t)
        after = Motion(q, u, acc, lam, Memory(V), undetermined)
        return with_states(after, motion, z), outcome(undetermined, acc, q.r, q.A)
