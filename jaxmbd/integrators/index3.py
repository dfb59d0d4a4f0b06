"""What the implicit methods on the index-3 equations share: their settings."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..equations.first_rates import Asked, FirstRates, first_rates
from ..equations.index1 import eliminates
from ..equations.index3 import (
    check_group,
    check_settings,
    converted,
    inner_formulation,
    no_past,
)
from ..formulations.base import AbstractFormulation, Coordinates
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import Newton, quasi_stage
from .base import AbstractIntegrator, Motion


class AbstractIndex3(AbstractIntegrator):
    """An implicit method on the index-3 equations: positions satisfy the constraints at every step.

    Attributes:
        newton: Settings of Newton's method.
        velocity_projection: Move velocities, after every step, to the nearest by mass that satisfy
            the constraints; as the method leaves them they do so to its order. By default where
            steps are chosen: velocities across the constraints have an error that belongs to the
            size of the step, and multipliers would ring after every change of it.
    """

    newton: Newton = eqx.field(default=Newton(), kw_only=True)
    velocity_projection: bool | None = eqx.field(static=True, default=None, kw_only=True)

    def __check_init__(self):
        check_settings(type(self).__name__, self.newton)

    def first_stage(self) -> "AbstractIndex3 | None":
        newton = quasi_stage(self.newton)
        return None if newton is None else dataclasses.replace(self, newton=newton)

    def for_chosen_steps(self) -> "AbstractIndex3":
        # Steps of other sizes have other accelerations: there is nothing to extrapolate.
        project = self.velocity_projection is not False
        return dataclasses.replace(self.for_parts_of_steps(), velocity_projection=project)

    def for_parts_of_steps(self) -> "AbstractIndex3":
        newton = dataclasses.replace(self.newton, extrapolate=False, keep_factors=False)
        return dataclasses.replace(self, newton=newton)

    @property
    def ringing(self) -> float:
        """The size of the negative root by which errors of the multipliers alternate from step to
        step, where they do so for long.
        """
        return 0.0

    def _inner(self, formulation: AbstractFormulation) -> AbstractFormulation:
        """The formulation in whose velocities the equations of a step are."""
        return formulation

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        # Rows at velocity level hold to the tolerance of positions over the step; the second
        # iteration takes them to rounding.
        learns = self.newton.extrapolates and not system.nonholonomic
        past = no_past(self, self._inner(formulation), system, motion, t, h) if learns else None
        return dataclasses.replace(motion, memory=None, past=past)


class AbstractOnGroup(AbstractIndex3):
    """An implicit method that moves rotation matrices on a group.

    Attributes:
        group: For rA, "SO3xR3" or "SE3", on which bodies move along screws.
    """

    group: str = eqx.field(static=True, default="SO3xR3", kw_only=True)

    def __check_init__(self):
        check_group(type(self).__name__, self.group)

    def _inner(self, formulation: AbstractFormulation) -> AbstractFormulation:
        return inner_formulation(type(self).__name__, self.group, formulation)

    def first(
        self,
        formulation: AbstractFormulation,
        system: System,
        q: Coordinates,
        u: Float[Array, "nb d"],
        t: Scalar,
        h: Scalar,
    ) -> Motion:
        if eliminates(formulation):
            return super().first(formulation, system, q, u, t, h)
        inner = self._inner(formulation)
        own, _ = converted(formulation, inner, q, u, jnp.zeros_like(u))
        rates = first_rates(inner, system, q, own, t, h, self._asked(inner, own))
        _, a = converted(inner, formulation, q, own, rates.a)
        return Motion(q, u, a, rates.lam, rates)

    def _asked(self, inner: AbstractFormulation, u: Float[Array, "nb d"]) -> Asked | None:
        """Of what a start needs the part across the constraints."""
        return None

    def _first_rates(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> tuple[AbstractFormulation, Float[Array, "nb d"], FirstRates]:
        """The formulation of a step, velocities in it, and their rates at the first instant."""
        inner = self._inner(formulation)
        u, _ = converted(formulation, inner, motion.q, motion.u, motion.a)
        found = motion.memory
        if not isinstance(found, FirstRates):
            found = first_rates(inner, system, motion.q, u, t, h, self._asked(inner, u))
        return inner, u, found
