"""How methods carry the states of force elements from step to step: each by its own rule of first
order, with the states inside the elements, see `model.forces.stateful`.
"""

import abc
import dataclasses
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations.base import AbstractFormulation, Coordinates
from ..model.state import Pose, Twist
from ..model.system import System
from ..rotations import so3
from ..rotations.types import Scalar


class ElementStates(eqx.Module):
    """States of all force elements at an instant, and what a rule remembers.

    Attributes:
        z: The states, (s,).
        rate: Their rates, or what a rule keeps in their place, (s,).
        other: What else it keeps, (s,).
        h: The last step, () [s].
    """

    z: Float[Array, " s"]
    rate: Float[Array, " s"]
    other: Float[Array, " s"]
    h: Scalar


@runtime_checkable
class Moved(Protocol):
    """A motion at one instant, see `base.Motion`."""

    @property
    def q(self) -> Coordinates: ...

    @property
    def u(self) -> Float[Array, "nb d"]: ...

    @property
    def states(self) -> ElementStates | None: ...


class StepEnds(NamedTuple):
    """The motions at both ends of a step, and the time at its end [s]."""

    before: Moved
    after: Moved
    t: Scalar


class AbstractStateRule(abc.ABC):
    """The states over one step of a method."""

    def first(
        self,
        formulation: AbstractFormulation,
        system: System,
        q: Coordinates,
        u: Float[Array, "nb d"],
        t: Scalar,
        h: Scalar,
    ) -> ElementStates:
        """At the first instant, from the states that the system holds."""
        z = system.held_element_states()
        return ElementStates(z, rates(formulation, system, q, u, t), z, jnp.asarray(h))

    @abc.abstractmethod
    def during(self, system: System, states: ElementStates, h: Scalar) -> System:
        """The system over a step from these states."""

    @abc.abstractmethod
    def after(
        self,
        formulation: AbstractFormulation,
        system: System,
        states: ElementStates,
        step: StepEnds,
        h: Scalar,
    ) -> ElementStates:
        """At the end of a step; `system` is that of `during`."""


class BackwardEuler(AbstractStateRule):
    """z₁ = z₀ + h ż₁: of first order, and stable for any state."""

    def during(self, system: System, states: ElementStates, h: Scalar) -> System:
        return system.with_element_states(states.z, weight=h)

    def after(
        self,
        formulation: AbstractFormulation,
        system: System,
        states: ElementStates,
        step: StepEnds,
        h: Scalar,
    ) -> ElementStates:
        z = _at_end(formulation, system, step)
        return ElementStates(z, (z - states.z) / h, states.z, h)


class BackwardDifference(AbstractStateRule):
    """BDF2, z₁ = z₀ + k (z₀ - z₋₁) + c ż₁ with the k and c of the method; `other` is z₀ - z₋₁. The
    step before the first goes back along ż₀.
    """

    def first(
        self,
        formulation: AbstractFormulation,
        system: System,
        q: Coordinates,
        u: Float[Array, "nb d"],
        t: Scalar,
        h: Scalar,
    ) -> ElementStates:
        states = super().first(formulation, system, q, u, t, h)
        return dataclasses.replace(states, other=h * states.rate)

    def during(self, system: System, states: ElementStates, h: Scalar) -> System:
        omega = h / states.h
        k, c = omega**2 / (1.0 + 2.0 * omega), (1.0 + omega) * h / (1.0 + 2.0 * omega)
        return system.with_element_states(states.z + k * states.other, weight=c)

    def after(
        self,
        formulation: AbstractFormulation,
        system: System,
        states: ElementStates,
        step: StepEnds,
        h: Scalar,
    ) -> ElementStates:
        z = _at_end(formulation, system, step)
        return ElementStates(z, (z - states.z) / h, z - states.z, h)


class GeneralizedAlphaOfFirstOrder(AbstractStateRule):
    """Jansen's generalized-alpha method for ż, of second order; `other` is its auxiliary rate w.

        (1 - αₘ) w₁ + αₘ w₀ = (1 - α_f) ż₁ + α_f ż₀,   z₁ = z₀ + h ((1 - γ) w₀ + γ w₁).

    Reference:
        Jansen, Whiting, Hulbert, "A generalized-α method for integrating the filtered
        Navier-Stokes equations with a stabilized finite element method", 2000.
    """

    def __init__(self, rho: float):
        self.alpha_m, self.alpha_f = (3.0 * rho - 1.0) / (2.0 * (1.0 + rho)), rho / (1.0 + rho)
        self.gamma = 0.5 + self.alpha_f - self.alpha_m

    def first(
        self,
        formulation: AbstractFormulation,
        system: System,
        q: Coordinates,
        u: Float[Array, "nb d"],
        t: Scalar,
        h: Scalar,
    ) -> ElementStates:
        states = super().first(formulation, system, q, u, t, h)
        return dataclasses.replace(states, other=states.rate)

    def during(self, system: System, states: ElementStates, h: Scalar) -> System:
        weight = h * self.gamma * (1.0 - self.alpha_f) / (1.0 - self.alpha_m)
        return system.with_element_states(self._past(states, h), weight=weight)

    def after(
        self,
        formulation: AbstractFormulation,
        system: System,
        states: ElementStates,
        step: StepEnds,
        h: Scalar,
    ) -> ElementStates:
        z = _at_end(formulation, system, step)
        w = (z - states.z - h * (1.0 - self.gamma) * states.other) / (h * self.gamma)
        rate = ((1.0 - self.alpha_m) * w + self.alpha_m * states.other) - self.alpha_f * states.rate
        return ElementStates(z, rate / (1.0 - self.alpha_f), w, h)

    def _past(self, states: ElementStates, h: Scalar) -> Array:
        """z₁ without its part in ż₁."""
        known = self.alpha_f * states.rate - self.alpha_m * states.other
        rest = (1.0 - self.gamma) * states.other + self.gamma * known / (1.0 - self.alpha_m)
        return states.z + h * rest


class Midpoint(AbstractStateRule):
    """z₁ = z₀ + h ż in the middle of the step, where the method evaluates its forces."""

    def during(self, system: System, states: ElementStates, h: Scalar) -> System:
        return system.with_element_states(states.z, weight=0.5 * h)

    def after(
        self,
        formulation: AbstractFormulation,
        system: System,
        states: ElementStates,
        step: StepEnds,
        h: Scalar,
    ) -> ElementStates:
        (p0, w0), (p1, w1) = (_physical(formulation, x.q, x.u) for x in (step.before, step.after))
        turn = jax.vmap(lambda A, B: so3.exp(0.5 * so3.log(A.T @ B)))(p0.A, p1.A)
        pose = Pose(0.5 * (p0.r + p1.r), p0.A @ turn)
        twist = Twist(0.5 * (w0.v + w1.v), 0.5 * (w0.omega + w1.omega))
        middle = system.element_states_at(pose, twist, step.t - 0.5 * h)
        z = 2.0 * middle - states.z
        return ElementStates(z, (z - states.z) / h, states.z, h)


class OfTheStages(AbstractStateRule):
    """The method's own stages integrate the states, as further unknowns of the differential
    equation.
    """

    def during(self, system: System, states: ElementStates, h: Scalar) -> System:
        return system.with_element_states(states.z)

    def after(
        self,
        formulation: AbstractFormulation,
        system: System,
        states: ElementStates,
        step: StepEnds,
        h: Scalar,
    ) -> ElementStates:
        assert step.after.states is not None
        return step.after.states


def rates(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    t: Scalar,
) -> Float[Array, " s"]:
    """ż of the states that the system holds, at coordinates and velocities."""
    return system.element_state_rates(*_physical(formulation, q, u), t)


def _at_end(formulation: AbstractFormulation, system: System, step: StepEnds) -> Float[Array, " s"]:
    new = step.after
    return system.element_states_at(*_physical(formulation, new.q, new.u), step.t)


def _physical(
    formulation: AbstractFormulation, q: Coordinates, u: Float[Array, "nb d"]
) -> tuple[Pose, Twist]:
    """Poses and twists of all bodies and the ground."""
    padded = formulation.with_ground(q)
    u = jnp.concatenate([u, jnp.zeros((1, u.shape[1]), u.dtype)])
    return jax.vmap(formulation.pose)(padded), jax.vmap(formulation.twist)(padded, u)
