"""What an integrator is: one step of a constrained system in any formulation."""

import abc
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..equations.index1 import dynamic_accelerations
from ..formulations.base import AbstractFormulation, Coordinates
from ..model.system import System
from ..outcomes import RESULTS
from ..rotations.types import Scalar
from ..solvers import NewtonInfo
from .element_states import AbstractStateRule, BackwardEuler, ElementStates, StepEnds


class Motion(eqx.Module):
    """What is known at one instant, in the coordinates of a formulation.

    Attributes:
        q: Coordinates of all bodies.
        u: Velocities, (nb, d).
        a: Accelerations, (nb, d).
        lam: Multipliers in the stacked order, normalizations last, (m,).
        memory: Whatever else the integrator carries from step to step.
        undetermined: Whether the pose is so close to a singular one that `lam` leaves out a part of
            the forces.
        past: What the solves of earlier steps say about the next one, or None.
        states: Of force elements, or None of a mechanism without.
    """

    q: Coordinates
    u: Float[Array, "nb d"]
    a: Float[Array, "nb d"]
    lam: Float[Array, " m"]
    memory: Any = None
    undetermined: Bool[Array, ""] = eqx.field(default_factory=lambda: jnp.zeros((), bool))
    past: Any = None
    states: ElementStates | None = None


class AbstractIntegrator(eqx.Module):
    """Base class of step methods, which know neither joints nor Euler angles.

    Class attributes:
        name: Its name in files and on the command line.
        error_order: The power of the step that `error` grows with, less one; None where a method
            has no estimate.
        takes_laws: Whether it knows stops, dry friction and contacts.
        keeps_accelerations: Whether a step depends on accelerations at its beginning.
    """

    name: ClassVar[str]
    error_order: ClassVar[int | None] = None
    takes_laws: ClassVar[bool] = False
    keeps_accelerations: ClassVar[bool] = True

    def check(self, formulation: AbstractFormulation, system: System) -> None:
        """Refuse coordinates or a mechanism that the method cannot integrate.

        Raises:
            ValueError: The message says what to take instead.
        """

    def for_chosen_steps(self) -> "AbstractIntegrator":
        """The method as it runs where steps are chosen for a tolerance."""
        return self

    def for_parts_of_steps(self) -> "AbstractIntegrator":
        """The method as it runs where parts of steps are tried in between: nothing that one step
        hands to the next may depend on their having one size.
        """
        return self

    def first_stage(self) -> "AbstractIntegrator | None":
        """The method without what it falls back on where a step is hard, if it has such a part.

        Its program takes half the time to compile. Where it fails, or might differ from the whole
        method, it must not converge: the whole method then takes the run on from there.
        """
        return None

    def first(
        self,
        formulation: AbstractFormulation,
        system: System,
        q: Coordinates,
        u: Float[Array, "nb d"],
        t: Scalar,
        h: Scalar,
    ) -> Motion:
        """The motion at the first instant, t, from consistent coordinates and velocities. Its
        memory may hold what `start` finds use for.
        """
        return Motion(q, u, *dynamic_accelerations(formulation, system, q, u, t))

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        """Prepare the memory from a consistent motion at the first instant, t."""
        return dataclasses.replace(motion, memory=None)

    def tries(self, system: System) -> bool:
        """Whether accelerations and multipliers at the first instant are those of a step that is
        tried from there, see `tried`.
        """
        return False

    def tried(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        step: tuple[Motion, NewtonInfo],
    ) -> Motion:
        """The motion at the first instant, from that of `start` and the step that was tried."""
        return motion

    def jumped(self, motion: Motion, change: Float[Array, "nb d"]) -> Motion:
        """The motion at an instant at which accelerations change at once, because an input does."""
        return dataclasses.replace(motion, a=motion.a + change)

    @property
    def state_rule(self) -> AbstractStateRule:
        """How it integrates the states of force elements."""
        return BackwardEuler()

    def begun(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        """`start`, with the states of force elements that the system holds."""
        found = self.start(formulation, system, motion, t, h)
        if not system.state_count:
            return found
        states = self.state_rule.first(formulation, system, motion.q, motion.u, t, h)
        return dataclasses.replace(found, states=states)

    def anew(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        """The motion from an instant on at which velocities or forces jumped: nothing that earlier
        steps knew counts any more.
        """
        first = self.first(formulation, system, motion.q, motion.u, t, h)
        return self.begun(formulation, system, first, t, h)

    def taken(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        t: Scalar,
        h: Scalar,
        active: Bool[Array, ""] | bool = True,
    ) -> tuple[Motion, NewtonInfo]:
        """`step`, with the states of force elements."""
        if motion.states is None:
            return self.step(formulation, system, motion, t, h, active)
        rule = self.state_rule
        now = rule.during(system, motion.states, h)
        new, info = self.step(formulation, now, motion, t, h, active)
        states = rule.after(formulation, now, motion.states, StepEnds(motion, new, t), h)
        return dataclasses.replace(new, states=states), info

    @abc.abstractmethod
    def step(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        t: Scalar,
        h: Scalar,
        active: Bool[Array, ""] | bool,
    ) -> tuple[Motion, NewtonInfo]:
        """The motion at the end of the step, at time t, from that at t - h."""

    def unconverged(self, motion: Motion) -> RESULTS:
        """What a step is called whose iteration did not converge; `motion` is where it ended."""
        return RESULTS.newton_max_steps

    def observed(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar
    ) -> tuple[Motion, dict[str, Any]]:
        """What is saved of a motion at time t, and numbers that go to `stats` beside it.

        A number named "kinetic_energy" stands in `Solution.energy` for that of the saved
        velocities: a method may conserve the energy of others.
        """
        return motion, {}

    def error(
        self, before: Motion, after: Motion, h: Scalar
    ) -> tuple[Float[Array, "nb d"], Float[Array, "nb d"]]:
        """An estimate of what one step of size h adds to the error of coordinates and of
        velocities.
        """
        raise ValueError(
            f"{self.name} has no error estimate, so its steps cannot be chosen for a tolerance"
        )
