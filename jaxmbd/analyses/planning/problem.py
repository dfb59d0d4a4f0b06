"""A plan as a problem in numbers: costs, ends of intervals and limits at a guess, with their
derivatives by the local coordinates of all knots.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...model.state import State
from ...model.system import System
from ...results.saved_rows import Row
from ...results.solution import Solution
from ...rotations.types import Scalar
from .charts import Chart, at, chart, coordinates_of
from .instant import Instant
from .shooting import Fine, Inputs, flown, quadrature
from .wishes import Ends, Limit, values_of

Cost = Callable[[Instant], Any]


class Problem(eqx.Module):
    """A plan that is looked for.

    Attributes:
        system: The mechanism.
        inputs: How inputs follow from controls.
        t0: The beginning [s].
        length: Of the whole horizon [s]; where it is free, the unit in which it is counted.
        stage: What is integrated over time, or None.
        final: What is added at the end, or None.
        limits: Of quantities along the way.
        bounds: Of the planned inputs, in parts of their sizes; None in the place of those without.
        rates: Of how fast these may change, likewise [1/s].
        horizon: Bounds of the free horizon, in its unit, or None.
        ends: Conditions at the end.
        goal: A chart at the state that has to be reached, or None.
        knots: Number of intervals.
        steps: Of an interval.
        ranks: Of the joints at position and at velocity level.
        carried: Whether controls of the interval before count among the numbers of a knot.
        first_free: Whether those at the first knot are chosen as well.
        scale: Costs count times this number, which makes the largest slope or curvature one.
    """

    system: System
    inputs: Inputs
    t0: Scalar
    length: Scalar
    limits: tuple[Limit, ...]
    bounds: tuple[Limit | None, ...]
    rates: tuple[Limit | None, ...]
    horizon: Limit | None
    ends: Ends
    scale: Scalar
    goal: Chart | None
    stage: Cost | None = eqx.field(static=True)
    final: Cost | None = eqx.field(static=True)
    knots: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    ranks: tuple[int, int] = eqx.field(static=True)
    carried: bool = eqx.field(static=True)
    first_free: bool = eqx.field(static=True)

    @property
    def free(self) -> tuple[int, ...]:
        """Which numbers of the first knot are free."""
        n, m = self.local, self.inputs.count if self.carried else 0
        chosen = range(n, n + m) if self.first_free else ()
        return (*chosen, *range(n + m, n + m + (self.horizon is not None)))

    @property
    def local(self) -> int:
        """Local coordinates of a state."""
        n = 6 * self.system.nb
        return 2 * n - sum(self.ranks) + self.system.state_count


class Point(eqx.Module):
    """A guess.

    Attributes:
        states: At all knots, (N + 1, ...), closed.
        first: Controls before the first interval, in parts of their sizes, (m,) or (0,).
        controls: (N, m).
        horizon: In its unit, (1,); (0,) where it is given.
    """

    states: State
    first: Float[Array, " p"]
    controls: Float[Array, "N m"]
    horizon: Float[Array, " h"]


class Gaps(eqx.Module):
    """What is left to all limits, or their slacks, or their multipliers.

    Attributes:
        first: Of numbers at the first knot alone, (f,); of an expansion their derivatives too.
        each: Of all intervals, (N, g).
        last: At the end, (e,).
    """

    first: Array
    each: Array
    last: Array


class Values(eqx.Module):
    """Numbers of all intervals and of the end; of an expansion their derivatives.

    Attributes:
        ends: Where intervals end, in the chart of the next knot, (N, x).
        cost, residuals: Of all intervals, (N,) and (N, r); of residuals half the squares count.
        gaps: To limits.
        cost_end, residuals_end: Of the end.
        misses: Of the conditions at the end.
    """

    ends: Array
    cost: Array
    residuals: Array
    gaps: Gaps
    cost_end: Array
    residuals_end: Array
    misses: Array


class Multipliers(eqx.Module):
    """Of a guess.

    Attributes:
        forces, momenta: Of the motion up to knots 1 to N, as covectors on displacements and on
            velocities of all bodies, (N, 6 nb) each.
        others: On element states and further numbers of a knot, (N, ...).
        nu: Of conditions at the end.
        gaps: Of limits.
    """

    forces: Float[Array, "N n"]
    momenta: Float[Array, "N n"]
    others: Float[Array, "N o"]
    nu: Float[Array, " k"]
    gaps: Gaps


class Interval(eqx.Module):
    """What one interval needs: the charts at both ends, numbers of its beginning, controls, and its
    place.
    """

    here: Chart
    there: Chart
    carried: Float[Array, "*N p"]
    control: Float[Array, "*N m"]
    k: Float[Array, "*N"]


def charts_of(problem: Problem, point: Point) -> Chart:
    """Charts at all knots."""
    times = problem.t0 + length_of(problem, point.horizon) * jnp.arange(
        problem.knots + 1, dtype=problem.system.dtype
    )
    return jax.vmap(lambda s, t: chart(problem.system, s, t, problem.ranks))(point.states, times)


def length_of(problem: Problem, horizon: Float[Array, " h"]) -> Scalar:
    """Of an interval [s]."""
    share = horizon[0] if horizon.size else jnp.ones((), problem.system.dtype)
    return problem.length * share / problem.knots


def intervals_of(problem: Problem, point: Point, charts: Chart) -> Interval:
    """What all intervals need, with a leading axis."""
    here, there = (jax.tree.map(lambda x, s=s: x[s], charts) for s in (np.s_[:-1], np.s_[1:]))
    before = jnp.zeros((problem.knots, 0), point.controls.dtype)
    if problem.carried:
        before = jnp.concatenate([point.first[None], point.controls[:-1]])
    k = jnp.arange(problem.knots, dtype=problem.system.dtype)
    return Interval(here, there, before, point.controls, k)


def zeta_of(problem: Problem, interval: Interval, horizon: Float[Array, " h"]) -> Array:
    """The numbers of an interval at the guess itself."""
    still = jnp.zeros(problem.local, horizon.dtype)
    return jnp.concatenate([still, interval.carried, horizon, interval.control])


def _split(problem: Problem, zeta: Array) -> tuple[Array, Array, Array, Array]:
    """Local coordinates, carried controls, horizon, controls; the last of none at the end."""
    n, m = problem.local, problem.inputs.count
    p = m if problem.carried else 0
    h = 1 if problem.horizon is not None else 0
    return zeta[:n], zeta[n : n + p], zeta[n + p : n + p + h], zeta[n + p + h :]


def of_interval(problem: Problem, interval: Interval, zeta: Array):
    """The end of an interval, its cost, its residuals and its gaps."""
    system, inputs = problem.system, problem.inputs
    x, before, horizon, control = _split(problem, zeta)
    length = length_of(problem, horizon)
    begin = problem.t0 + interval.k * length
    state, _ = at(system, interval.here, x, begin, 2)

    def of_share(share: Scalar) -> Float[Array, "3 n"]:
        return inputs.during(before if inputs.linear else control, control, share, length)

    end, fine = flown(system, interval.here, state, of_share, begin, length, problem.steps)
    reached = coordinates_of(system, interval.there, end)
    if problem.carried:
        reached = jnp.concatenate([reached, control])
    cost, residuals, values = _along(problem, fine, length)
    gaps = [*_input_gaps(problem, before, control, length), *values]
    return (
        jnp.concatenate([reached, horizon]),
        cost,
        residuals,
        jnp.concatenate([jnp.zeros(0, cost.dtype), *gaps]),
    )


def _along(problem: Problem, fine: Fine, length: Scalar) -> tuple[Scalar, Array, list[Array]]:
    """Cost, residuals and gaps of limits of the steps of an interval."""
    system, dtype = problem.system, problem.system.dtype
    rows = jax.tree.map(lambda x: x[:, None], fine)
    names = problem.limits

    def one(row: Fine) -> tuple[Array, dict[str, Scalar]]:
        now = row.instants(system)
        cost = jnp.zeros((), dtype)
        if problem.stage is not None:
            cost = jnp.asarray(problem.stage(Instant(system, now)), dtype)
        return cost, values_of(system, now, names)

    if problem.stage is None and not names:
        return jnp.zeros((), dtype), jnp.zeros(0, dtype), []
    costs, values = jax.vmap(one)(rows)
    weights = jnp.asarray(quadrature(problem.steps), dtype)
    cost, residuals = jnp.zeros((), dtype), jnp.zeros(0, dtype)
    if costs.ndim == 1:
        cost = problem.scale * length * (weights @ costs)
    else:
        shares = jnp.sqrt(problem.scale * length * weights)
        residuals = (shares[:, None] * costs).reshape(-1)
    # The beginning is the end of the interval before, but for what jumps with an input.
    gaps = [x.gaps(values[x.name][0 if x.jumps else 1 :]).reshape(-1) for x in names]
    return cost, residuals, gaps


def _input_gaps(problem: Problem, before: Array, control: Array, length: Scalar) -> list[Array]:
    found = [x.gaps(control[k]) for k, x in enumerate(problem.bounds) if x is not None]
    for k, x in enumerate(problem.rates):
        if x is not None:
            found.append(x.gaps((control[k] - before[k]) / length))
    return found


def of_end(problem: Problem, here: Chart, zeta: Array):
    """Cost, residuals, misses and gaps of the end."""
    system, dtype = problem.system, problem.system.dtype
    x, last, horizon, _ = _split(problem, zeta)
    t = problem.t0 + problem.knots * length_of(problem, horizon)
    state, _ = at(system, here, x, t, 2)
    now = instant_of(problem, state, last, t)
    cost, residuals = jnp.zeros((), dtype), jnp.zeros(0, dtype)
    if problem.final is not None:
        held = () if problem.inputs.linear else problem.inputs.names(system)
        found = jnp.asarray(problem.final(Instant(system, now, held)), dtype)
        if found.ndim == 0:
            cost = problem.scale * found
        else:
            residuals = jnp.sqrt(problem.scale) * jnp.ravel(found)
    units = jnp.tile(system.units(), system.nb)
    u = jnp.concatenate([state.v, state.omega], axis=1).reshape(-1) / units
    misses = problem.ends.misses(system, now, here.speeds.T @ u)
    if problem.goal is not None:
        misses = jnp.concatenate([misses, coordinates_of(system, problem.goal, state)])
    values = values_of(system, now, problem.ends.ranges)
    gaps = [x.gaps(values[x.name]) for x in problem.ends.ranges]
    return cost, residuals, misses, jnp.concatenate([jnp.zeros(0, dtype), *gaps])


def instant_of(problem: Problem, state: State, last: Array, t: Scalar) -> Solution:
    """The instant of a state, of which poses and velocities are known; accelerations and forces
    belong to an interval, and are NaN. So are inputs that are held.
    """
    system, count = problem.system, jnp.zeros((), int)
    unknown = jnp.full_like(state.r, jnp.nan)
    z = jnp.zeros(0, t.dtype) if state.element_states is None else state.element_states
    near = system.turns() if state.angles is None else state.angles
    lam = jnp.full(system.nc, jnp.nan, t.dtype)
    row = Row(state.pose, state.twist, unknown, unknown, lam, near, z, count)
    control = last if problem.inputs.linear else jnp.full(problem.inputs.count, jnp.nan, t.dtype)
    one = jnp.ones((), t.dtype)
    inputs = problem.inputs.during(control, control, one, one)
    fine = jax.tree.map(lambda x: x[None], Fine(row, inputs, t))
    return fine.instants(system)


def of_first(problem: Problem, zeta: Array) -> Array:
    """Gaps of numbers at the first knot alone."""
    _, first, horizon, _ = _split(problem, zeta)
    found = [jnp.zeros(0, zeta.dtype)]
    if problem.horizon is not None:
        found.append(problem.horizon.gaps(horizon[0]))
    if problem.first_free and problem.inputs.linear:
        found += [x.gaps(first[k]) for k, x in enumerate(problem.bounds) if x is not None]
    return jnp.concatenate(found)


def values_at(problem: Problem, point: Point) -> Values:
    """All values at a guess."""
    charts = charts_of(problem, point)
    intervals = intervals_of(problem, point, charts)

    def one(interval: Interval):
        return of_interval(problem, interval, zeta_of(problem, interval, point.horizon))

    ends, cost, residuals, gaps = jax.vmap(one)(intervals)
    last = jax.tree.map(lambda x: x[-1], charts)
    zeta = last_zeta(problem, point)
    cost_end, residuals_end, misses, gaps_end = of_end(problem, last, zeta)
    return Values(
        missing(problem, ends, point),
        cost,
        residuals,
        Gaps(of_first(problem, first_zeta(problem, point)), gaps, gaps_end),
        cost_end,
        residuals_end,
        misses,
    )


def missing(problem: Problem, ends: Array, point: Point) -> Array:
    """Where intervals end less where the next ones begin."""
    still = jnp.zeros((problem.knots, problem.local), ends.dtype)
    parts = [still]
    if problem.carried:
        parts.append(point.controls)
    if point.horizon.size:
        parts.append(jnp.broadcast_to(point.horizon, (problem.knots, 1)))
    return ends - jnp.concatenate(parts, axis=1)


def first_zeta(problem: Problem, point: Point) -> Array:
    """The numbers of the first knot at the guess itself."""
    return jnp.concatenate([jnp.zeros(problem.local), point.first, point.horizon])


def last_zeta(problem: Problem, point: Point) -> Array:
    """Those of the last knot."""
    last = point.controls[-1] if problem.carried else point.first
    return jnp.concatenate([jnp.zeros(problem.local), last, point.horizon])
