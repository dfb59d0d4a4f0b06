"""A plan's problem near a guess: derivatives by the local coordinates of all knots, and steps in
them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...rotations.types import Scalar
from .charts import Chart, at
from .problem import (
    Gaps,
    Interval,
    Multipliers,
    Point,
    Problem,
    Values,
    charts_of,
    first_zeta,
    intervals_of,
    last_zeta,
    length_of,
    missing,
    of_end,
    of_first,
    of_interval,
    zeta_of,
)

Parts = tuple[Array, ...]


class Expansion(eqx.Module):
    """A problem at a guess to first order in all values, and to second in the Lagrangian.

    Attributes:
        values: There; `ends` are where intervals miss the next knot.
        slopes: By the numbers of a knot and the controls, those at the end by these numbers.
        hessian, hessian_end: Second derivatives.
        charts: Of all knots.
    """

    values: Values
    slopes: Values
    hessian: Float[Array, "N z z"]
    hessian_end: Float[Array, "x x"]
    charts: Chart


def expanded(problem: Problem, point: Point, multipliers: Multipliers, exact: bool) -> Expansion:
    """Values at a guess with first derivatives, and second derivatives of the Lagrangian, or those
    of half the squares of residuals to first order.
    """
    charts = charts_of(problem, point)
    intervals = intervals_of(problem, point, charts)
    costates = local_costates(problem, charts, multipliers)

    def one(interval: Interval, costate: Array, z: Array):
        def values(zeta: Array):
            found = of_interval(problem, interval, zeta)
            return found, found

        def gradient(zeta: Array):
            slopes, found = jax.jacfwd(values, has_aux=True)(zeta)
            by_end, by_cost, by_residuals, by_gaps = slopes
            total = by_cost + found[2] @ by_residuals + costate @ by_end - z @ by_gaps
            return total, (slopes, found)

        zeta = zeta_of(problem, interval, point.horizon)
        if exact:
            hessian, (slopes, found) = jax.jacfwd(gradient, has_aux=True)(zeta)
        else:
            _, (slopes, found) = gradient(zeta)
            hessian = slopes[2].T @ slopes[2]
        return hessian, slopes, found

    hessian, slopes, found = jax.vmap(one)(intervals, costates, multipliers.gaps.each)
    last = jax.tree.map(lambda x: x[-1], charts)

    def at_end(zeta: Array):
        found = of_end(problem, last, zeta)
        return found, found

    def end_gradient(zeta: Array):
        slopes, found = jax.jacfwd(at_end, has_aux=True)(zeta)
        by_cost, by_residuals, by_misses, by_gaps = slopes
        total = by_cost + found[1] @ by_residuals + multipliers.nu @ by_misses
        return total - multipliers.gaps.last @ by_gaps, (slopes, found)

    zeta = last_zeta(problem, point)
    if exact:
        hessian_end, (slopes_end, found_end) = jax.jacfwd(end_gradient, has_aux=True)(zeta)
    else:
        _, (slopes_end, found_end) = end_gradient(zeta)
        hessian_end = slopes_end[1].T @ slopes_end[1]

    def first(zeta: Array):
        found = of_first(problem, zeta)
        return found, found

    slopes_first, gaps_first = jax.jacfwd(first, has_aux=True)(first_zeta(problem, point))

    def together(each: Parts, end: Parts, first: Array) -> Values:
        return Values(
            each[0], each[1], each[2], Gaps(first, each[3], end[3]), end[0], end[1], end[2]
        )

    values = together(found, found_end, gaps_first)
    values = eqx.tree_at(lambda v: v.ends, values, missing(problem, found[0], point))
    return Expansion(
        values, together(slopes, slopes_end, slopes_first), hessian, hessian_end, charts
    )


def local_costates(problem: Problem, charts: Chart, multipliers: Multipliers) -> Array:
    """Multipliers of the motion in the charts of knots 1 to N, (N, x)."""
    there = jax.tree.map(lambda x: x[1:], charts)
    parts = [
        jnp.einsum("nij,ni->nj", there.free, multipliers.forces),
        jnp.einsum("nij,ni->nj", there.speeds, multipliers.momenta),
        multipliers.others,
    ]
    return jnp.concatenate(parts, axis=1)


def global_costates(charts: Chart, costates: Float[Array, "N x"]) -> tuple[Array, Array, Array]:
    """The same as covectors on displacements and velocities of all bodies, and the rest."""
    there = jax.tree.map(lambda x: x[1:], charts)
    p, f = there.free.shape[2], there.speeds.shape[2]
    forces = jnp.einsum("nij,nj->ni", there.free, costates[:, :p])
    momenta = jnp.einsum("nij,nj->ni", there.speeds, costates[:, p : p + f])
    return forces, momenta, costates[:, p + f :]


def moved(problem: Problem, point: Point, charts: Chart, x: Array, u: Array):
    """The guess after a step in the numbers of all knots and controls, and whether all knots are
    closed.
    """
    n, m = problem.local, problem.inputs.count
    p = m if problem.carried else 0
    first = point.first + x[0, n : n + p]
    horizon = point.horizon + x[0, n + p :]
    length = length_of(problem, horizon)
    times = problem.t0 + length * jnp.arange(problem.knots + 1, dtype=length.dtype)

    def one(here: Chart, x: Array, t: Scalar):
        return at(problem.system, here, x, t)

    states, closed = jax.vmap(one)(charts, x[:, :n], times)
    return Point(states, first, point.controls + u, horizon), jnp.all(closed)
