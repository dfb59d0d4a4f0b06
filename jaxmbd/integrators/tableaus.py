"""Explicit Runge-Kutta tableaus by name, and what every method that uses them does."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rotations.types import Scalar


class Tableau(NamedTuple):
    """Coefficients of an explicit method: stage s uses the rates of the stages before it.

    Attributes:
        order: Order of accuracy.
        a: (s, s), strictly lower triangular.
        b: Weights, (s,).
        c: Instants as parts of the step, (s,).
        error: Weights of the stages, and of the rate at the end, in an estimate of the error, (s + 1,), or None.
    """

    order: int
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    error: np.ndarray | None = None


def _tableau(order: int, rows: list[list[float]], b: list[float], error: list[float] | None = None) -> Tableau:
    a = np.zeros((len(b), len(b)))
    for k, row in enumerate(rows):
        a[k + 1, : len(row)] = row
    return Tableau(order, a, np.array(b), a.sum(axis=1), None if error is None else np.array(error))


TABLEAUS = {
    "euler": _tableau(1, [], [1.0]),
    "heun": _tableau(2, [[1.0]], [0.5, 0.5]),
    "rk3": _tableau(3, [[0.5], [-1.0, 2.0]], [1 / 6, 2 / 3, 1 / 6]),
    "rk4": _tableau(4, [[0.5], [0.0, 0.5], [0.0, 0.0, 1.0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
    # Dormand and Prince 1980; the estimate is the difference of the weights of orders five and four.
    "rk5": _tableau(
        5,
        [
            [1 / 5],
            [3 / 40, 9 / 40],
            [44 / 45, -56 / 15, 32 / 9],
            [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
            [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        ],
        [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
        [71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40],
    ),
}


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


def embedded_error(plan: Tableau, rates: tuple[Array, Array], last: tuple[Array, Array], h: Scalar):
    """The estimated errors of ξ and of V that one step adds; `last` are the rates at its end."""
    weights = jnp.asarray(plan.error, h.dtype)
    return tuple(
        h * (jnp.tensordot(weights[:-1], x, 1) + weights[-1] * end) for x, end in zip(rates, last, strict=True)
    )


def check_choices(method: Any, **known: tuple[str, ...]) -> None:
    """Refuse an attribute that is none of its known values."""
    for what, values in known.items():
        if getattr(method, what) not in values:
            name = type(method).__name__
            raise ValueError(f"{name}: {what} must be one of {values}, not {getattr(method, what)!r}")
