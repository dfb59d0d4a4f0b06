"""What the explicit Runge-Kutta methods share: stages, the embedded error, the outcome of a
step.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..rotations.types import Scalar
from ..solvers import NewtonInfo
from .base import AbstractIntegrator, Motion
from .tableaus import TABLEAUS, Tableau


class AbstractExplicit(AbstractIntegrator):
    """An explicit method with a tableau; its memory has `gaps`, the estimated errors of the last
    step.
    """

    tableau: eqx.AbstractVar[str]

    @property
    def error_order(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return None if TABLEAUS[self.tableau].error is None else TABLEAUS[self.tableau].order - 1

    def error(self, before: Motion, after: Motion, h: Scalar):
        if self.error_order is None:
            return super().error(before, after, h)
        return after.memory.gaps


def stages(plan: Tableau, rates, V0: Float[Array, "nb d"], first: tuple[Array, Array], h: Scalar):
    """One step from (0, V0) with `rates(ξ, V, s)`, the rates of both at the part s of the step.

    Args:
        plan: The method.
        rates: (ξ̇, V̇) of a stage.
        V0: V at the start, where ξ = 0.
        first: The rates there, known from the end of the last step.
        h: Step [s].

    Returns:
        ξ and V at the end, and their rates at all stages, (s, nb, d) each.
    """
    a, b, c = (jnp.asarray(x, V0.dtype) for x in plan[1:4])

    def stage(carry, k):
        X, Y = carry  # rates of the stages so far
        x, y = rates(h * jnp.tensordot(a[k], X, 1), V0 + h * jnp.tensordot(a[k], Y, 1), c[k])
        return (X.at[k].set(x), Y.at[k].set(y)), None

    zero = jnp.zeros((len(b), *V0.shape), V0.dtype)
    X, Y = (zero.at[0].set(x) for x in first)
    if len(b) > 1:
        (X, Y), _ = jax.lax.scan(stage, (X, Y), jnp.arange(1, len(b)))
    return h * jnp.tensordot(b, X, 1), V0 + h * jnp.tensordot(b, Y, 1), X, Y


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


def check_choices(method: Any, **known: tuple[str, ...]) -> None:
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
