"""What the explicit Runge-Kutta methods share: stages, the embedded error, the outcome of a
step.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..rotations.types import Scalar
from ..solvers import NewtonInfo
from .base import AbstractIntegrator, Motion
from .element_states import AbstractStateRule, OfTheStages
from .tableaus import TABLEAUS, Tableau

Y = TypeVar("Y")  # a pytree of unknowns, or of their rates


class AbstractExplicit(AbstractIntegrator):
    """An explicit method with a tableau; its memory has `gaps`, the estimated errors of the last
    step.
    """

    tableau: eqx.AbstractVar[str]

    @property
    def error_order(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return None if TABLEAUS[self.tableau].error is None else TABLEAUS[self.tableau].order - 1

    @property
    def state_rule(self) -> AbstractStateRule:
        return OfTheStages()

    def error(self, before: Motion, after: Motion, h: Scalar):
        if self.error_order is None:
            return super().error(before, after, h)
        return after.memory.gaps


def stages(
    plan: Tableau, rates: Callable[[Y, Scalar], Y], start: Y, first: Y, h: Scalar
) -> tuple[Y, Y]:
    """One step of y from `start`, with `rates(y, s)`, ẏ at the part s of the step.

    Args:
        plan: The method.
        rates: ẏ of a stage.
        start: y at the start, a pytree.
        first: ẏ there, known from the end of the last step.
        h: Step [s].

    Returns:
        y at the end, and ẏ at all stages, with a leading axis.
    """
    a, b, c = (jnp.asarray(x, h.dtype) for x in plan[1:4])

    def ahead(weights: Float[Array, " s"], found: Y) -> Y:
        return jax.tree.map(lambda y, dy: y + h * jnp.tensordot(weights, dy, 1), start, found)

    def stage(found: Y, k: Int[Array, ""]) -> tuple[Y, None]:  # rates of the stages so far
        y = rates(ahead(a[k], found), c[k])
        return jax.tree.map(lambda all, y: all.at[k].set(y), found, y), None

    found = jax.tree.map(lambda x: jnp.zeros((len(b), *x.shape), x.dtype).at[0].set(x), first)
    if len(b) > 1:
        found, _ = jax.lax.scan(stage, found, jnp.arange(1, len(b)))
    return ahead(b, found), found


def states_of(motion: Motion) -> Float[Array, " s"]:
    """The states of force elements, none where there are none."""
    return jnp.zeros(0, motion.u.dtype) if motion.states is None else motion.states.z


def with_states(after: Motion, before: Motion, z: Float[Array, " s"]) -> Motion:
    """The motion at the end of a step with these states of force elements."""
    if before.states is None:
        return after
    return dataclasses.replace(after, states=dataclasses.replace(before.states, z=z))


def embedded_error(
    plan: Tableau, rates: tuple[Array, Array], last: tuple[Array, Array], h: Scalar
) -> tuple[Array, Array]:
    """The estimated errors of ξ and of V that one step adds; `last` are the rates at its end."""
    weights = jnp.asarray(plan.error, h.dtype)
    of_xi, of_V = (
        h * (jnp.tensordot(weights[:-1], x, 1) + weights[-1] * end)
        for x, end in zip(rates, last, strict=True)
    )
    return of_xi, of_V


def check_choices(method: AbstractIntegrator, **known: tuple[str, ...]) -> None:
    """Refuse an attribute that is none of its known values."""
    for what, values in known.items():
        if getattr(method, what) not in values:
            name = type(method).__name__
            raise ValueError(
                f"{name}: {what} must be one of {values}, not {getattr(method, what)!r}"
            )


def outcome(
    undetermined: Bool[Array, ""], a: Float[Array, "nb d"], *moved: Float[Array, "..."]
) -> NewtonInfo:
    """That a step went well as long as accelerations and coordinates are finite, and whether its
    multipliers are undetermined; there is no iteration.
    """
    finite = jnp.all(jnp.isfinite(a))
    for x in moved:
        finite = finite & jnp.all(jnp.isfinite(x))
    no = jnp.zeros((), bool)
    return NewtonInfo(
        jnp.zeros((), int),
        finite,
        jnp.where(finite, 0.0, jnp.nan).astype(a.dtype),
        no,
        undetermined,
        no,
    )
