"""Feedback along a plan: the linear-quadratic regulator, with gains that change from knot to
knot.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...model.validation import Numbers, concrete
from ...rotations.types import Scalar
from ...xla.indexing import take
from .charts import Chart, at, coordinates_of
from .plan import Plan
from .problem import Point, Problem, charts_of, instant_of
from .riccati import Horizon, solved
from .seen import AbstractStateController, state_of
from .wishes import Limit, limits_of, values_of

_WHO = "track"
_BETWEEN = 1e-4  # of an interval, from a knot


class Tracker(AbstractStateController):
    """u = u_plan - K x at each knot of a plan, x being the state's local coordinates there; after
    its end, the regulator of its last state. See `track`.

    Attributes:
        problem: Of the plan.
        charts: At its knots, (N + 1, ...).
        planned: Inputs that the plan has at them, (N + 1, m).
        gains: K, (N + 1, m, n).
        length: Between two knots [s].
    """

    problem: Problem
    charts: Chart
    planned: Float[Array, "M m"]
    gains: Float[Array, "M m n"]
    length: Scalar

    def __call__(self, memory: tuple, seen: Float[Array, " n"], t: Scalar) -> tuple:
        system = self.problem.system
        place = (t - self.problem.t0) / self.length
        nearest = jnp.round(place)
        k = jnp.clip(nearest.astype(int), 0, self.problem.knots)
        here = jax.tree.map(lambda x: take(x, k), self.charts)
        assert here.center.angles is not None
        x = coordinates_of(system, here, state_of(system, seen, here.center.angles))
        u = take(self.planned, k) - take(self.gains, k) @ x
        # Gains and states are those of knots: samples in between, of a run with other steps, are
        # told by NaN instead of being led astray.
        between = (jnp.abs(place - nearest) > _BETWEEN) & (place < self.problem.knots)
        return memory, jnp.where(between, jnp.nan, within_bounds(self.problem, u))


def within_bounds(problem: Problem, inputs: Float[Array, " m"]) -> Float[Array, " m"]:
    """The planned inputs within their bounds."""
    low = [-jnp.inf if x is None or x.lower is None else x.lower for x in problem.bounds]
    high = [jnp.inf if x is None or x.upper is None else x.upper for x in problem.bounds]
    low, high = (jnp.stack([jnp.asarray(x, inputs.dtype) for x in both]) for both in (low, high))
    return jnp.clip(inputs, low * problem.inputs.sizes, high * problem.inputs.sizes)


def track(
    plan: Plan,
    weights: Mapping[str, Numbers],
    inputs: Mapping[str, Numbers],
    *,
    h: float,
    after: Mapping[str, Numbers] | None = None,
    delay: Numbers = 0.0,
) -> Tracker:
    """The controller that keeps a mechanism on a plan: the time-varying linear-quadratic regulator
    in local coordinates of the constraint manifold.

        controller = mbd.track(plan, {"hinge.angle": 10.0, "hinge.rate": 1.0}, {"push": 0.01}, h=h)
        sol = mbd.simulate(system, other, h=h, t_end=4.0, controller=controller)

    Args:
        plan: What to follow.
        weights: By quantity, what its squared distance from the plan costs a second.
        inputs: By planned input, what its squared change costs a second; all are needed.
        h: Step size of the simulation [s], of which the time between two knots is a multiple. In a
            run with other steps, samples between knots give NaN.
        after: Inputs after the end of the plan; zero by default. From there on, the last state is
            kept.
        delay: See `Controller`, in times between two knots.

    Raises:
        ValueError: A name is unknown, or numbers make no sense.

    Reference:
        Kwakernaak, Sivan, Linear Optimal Control Systems (1972), section 6.4.
    """
    problem = plan.problem
    names, m = problem.inputs.names(problem.system), problem.inputs.count
    for given, what in ((inputs, "inputs"), (after or {}, "after")):
        for name in given:
            if name not in names:
                raise ValueError(f"{_WHO}: {what}: there is no planned input {name!r}")
    if missing := [name for name in names if name not in inputs]:
        raise ValueError(f"{_WHO}: inputs: the weight of {missing[0]!r} is missing")
    for name, weight in {**weights, **inputs}.items():
        known = concrete(weight)
        if known is None or not np.isfinite(known) or float(known) < 0.0:
            raise ValueError(f"{_WHO}: the weight of {name!r} must be a number, zero or more")
    period = samples(h, (plan.t_end - float(plan.t[0])) / problem.knots, _WHO)
    limits = limits_of(problem.system, {name: (-1.0, 1.0) for name in weights}, _WHO)
    quantities = tuple(dataclasses.replace(x, size=jnp.ones_like(x.size)) for x in limits)
    charts, by_state = _at_knots(problem, plan.point, quantities)
    length = (plan.t_end - float(plan.t[0])) / problem.knots
    Q = jnp.diag(_array(weights.values(), problem)) * length
    R = jnp.diag(_array([inputs[name] for name in names], problem)) * length
    costs = jnp.einsum("kqi,qr,krj->kij", by_state, Q, by_state)
    n = problem.local
    A, sizes = plan.slopes[:, :n, :n], problem.inputs.sizes
    by_input = plan.slopes[:, :n, -m:]
    if problem.inputs.linear:
        # A change of an input lasts over the interval, also where the plan goes in straight lines.
        by_input = by_input + plan.slopes[:, :n, n : n + m]
    B = by_input / sizes[None, None]
    P, last = _regulator(A[-1], B[-1], costs[-1], R)
    H = jnp.zeros((len(A), n + m, n + m), A.dtype)
    H = H.at[:, :n, :n].set(costs[:-1]).at[:, n:, n:].set(jnp.broadcast_to(R, (len(A), m, m)))
    F = jnp.concatenate([A, B], axis=2)
    none, still = jnp.zeros((0, n), A.dtype), jnp.zeros(n, A.dtype)
    zeros = jnp.zeros(H.shape[:2], A.dtype), jnp.zeros(F.shape[:2], A.dtype)
    horizon = Horizon(H, zeros[0], F, zeros[1], P, still, none, none[:, 0], ())
    gains = solved(horizon, jnp.zeros((), A.dtype)).gains
    planned = jnp.stack([plan.inputs[name][: problem.knots] for name in names], axis=1)
    end = _array([(after or {}).get(name, 0.0) for name in names], problem)
    return Tracker(
        problem,
        charts,
        jnp.concatenate([planned, end[None]]),
        jnp.concatenate([gains, last[None]]),
        jnp.asarray(length, A.dtype),
        period=period,
        delay=delay,
    )


def _array(values: Iterable[Numbers], problem: Problem) -> Float[Array, " n"]:
    numbers = [float(np.asarray(x)) for x in values]
    return jnp.asarray(numbers, problem.system.dtype)


@eqx.filter_jit
def _at_knots(
    problem: Problem, point: Point, quantities: tuple[Limit, ...]
) -> tuple[Chart, Float[Array, "M q x"]]:
    """Charts at all knots, and quantities by the coordinates there."""
    charts = charts_of(problem, point)
    none = jnp.zeros(problem.inputs.count if problem.carried else 0, problem.system.dtype)

    def one(here: Chart) -> Array:
        def of(x: Array) -> Array:
            state, _ = at(problem.system, here, x, here.t, 2)
            now = instant_of(problem, state, none, here.t)
            found = values_of(problem.system, now, quantities)
            return jnp.stack([found[q.name] for q in quantities])

        return jax.jacfwd(of)(jnp.zeros(problem.local, here.t.dtype))

    return charts, jax.vmap(one)(charts)


def _regulator(
    A: Array, B: Array, Q: Array, R: Array
) -> tuple[Float[Array, "n n"], Float[Array, "m n"]]:
    """Cost and gain of the regulator that goes on for ever; where there is none, of one more
    interval.
    """
    from scipy import linalg  # late: it would take a fifth of the import of the package

    a, b, q, r = (np.asarray(x) for x in (A, B, Q, R))
    try:
        P = linalg.solve_discrete_are(a, b, q, r)
    except (linalg.LinAlgError, ValueError):
        P = q
    gain = np.linalg.solve(r + b.T @ P @ b, b.T @ P @ a)
    return jnp.asarray(P, A.dtype), jnp.asarray(gain, A.dtype)


def samples(h: float, every: float, who: str) -> int:
    """Steps between two samples.

    Raises:
        ValueError: Their time is no multiple of the step.
    """
    count = round(every / h) if h > 0.0 else 0
    if count < 1 or abs(count * h - every) > 1e-9 * every:
        raise ValueError(
            f"{who}: the time between two samples, {every:g} s, must be a multiple of the step, "
            f"h={h:g} s"
        )
    return count
