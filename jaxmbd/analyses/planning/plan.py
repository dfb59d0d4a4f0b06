"""What `optimal_control` returns."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...model.readable import counted, readable
from ...model.state import State
from ...outcomes import RESULTS, ended_as
from ...results.solution import Solution
from ..dynamics import simulate
from .expansion import local_costates
from .interior import each, slopes_of_cost
from .problem import Gaps, Multipliers, Point, Problem
from .search import Found, Iteration

_MISSED = 1e-6


class PlanError(RuntimeError):
    """No optimal plan was found; the message says what stands in the way.

    Attributes:
        plan: How far the search came.
    """

    plan: "Plan"


class Plan(eqx.Module):
    """An optimal motion, see `optimal_control`.

    Attributes:
        t: Instants of the knots, (N + 1,) [s].
        states: The mechanism at the knots, (N + 1, ...): joints are closed at each of them.
        inputs: The planned inputs by name: held from each knot to the next, (N,), or their values
            at the knots, (N + 1,), between which they go in straight lines.
        cost: What was minimized.
        result: `RESULTS.successful`, `RESULTS.optimum_not_found` or `RESULTS.interrupted`.
        residual: How far the plan is from the conditions of optimality (of Karush, Kuhn and
            Tucker): the largest of slopes, misses, and products of limits and multipliers, without
            units.
        misses: Of these the largest of what the motion, the conditions at the end and the limits
            miss.
        missed: By condition at the end and by limit, by how much it is missed, if it is: without
            units, lengths in parts of the mechanism's.
        in_force: By limit, the share of instants at which it is in force, lower and upper, (2,).
        switching: By input, the slope of the Hamiltonian: by how much cost would grow for one more
            of it over a second, limits left aside, (N,). An input is at its lower limit where this
            is positive, at its upper one where it is negative, as Pontryagin's principle has it.
        slopes: Of the ends of intervals by the numbers of their beginnings and by controls, in
            local coordinates of the knots, (N, x, z).
        iterations: Of the search.
        seconds: Of processor time: "run", and "compile", which includes the first run of every
            program.
    """

    t: Float[Array, " M"]
    states: State
    inputs: dict[str, Float[Array, " n"]]
    cost: float = eqx.field(static=True)
    result: RESULTS
    residual: float = eqx.field(static=True)
    misses: float = eqx.field(static=True)
    missed: dict[str, float] = eqx.field(static=True)
    in_force: dict[str, tuple[float, float]] = eqx.field(static=True)
    switching: dict[str, Float[Array, " N"]]
    slopes: Float[Array, "N x z"]
    iterations: tuple[Iteration, ...] = eqx.field(static=True)
    seconds: dict[str, float] = eqx.field(static=True)
    problem: Problem
    point: Point
    slacks: Gaps
    multipliers: Multipliers
    barrier: float = eqx.field(static=True)

    @property
    def held(self) -> bool:
        """Whether inputs are held between knots."""
        return not self.problem.inputs.linear

    @property
    def t_end(self) -> float:
        """The end of the motion [s]."""
        return float(self.t[-1])

    def inputs_by_step(self, steps: int) -> dict[str, Any]:
        """The planned inputs as `simulate(..., inputs=)` takes them for steps of one size.

        Args:
            steps: Of an interval between two knots.
        """
        if self.held:
            return {name: np.repeat(np.asarray(x), steps) for name, x in self.inputs.items()}
        return {name: _interpolated(self.t, x) for name, x in self.inputs.items()}

    def replay(self, steps: int = 40, **options: Any) -> Solution:
        """The motion by the planned inputs, of `simulate`, whose integrators know nothing of the
        plan: what it shows was not fitted to it.

        Args:
            steps: Of an interval between two knots.
            options: As `simulate` takes them, such as `integrator`.
        """
        problem, N = self.problem, len(self.t) - 1
        start = jax.tree.map(lambda x: x[0], self.states)
        given = problem.inputs.values(self.problem.system) | self.inputs_by_step(steps)
        length = (self.t_end - float(self.t[0])) / N
        return simulate(
            problem.system,
            start,
            h=length / steps,
            steps=N * steps,
            t0=problem.t0,
            inputs=given,
            **options,
        )

    def table(self) -> str:
        """The iterations of the search, one a line."""
        lines = [f"{'':>4} {'cost':>13} {'misses':>9} {'slope':>9} {'barrier':>9} {'step':>7}"]
        for k, i in enumerate(self.iterations):
            lines.append(
                f"{k:>4} {i.cost:>13.6e} {i.misses:>9.1e} {i.slope:>9.1e} {i.barrier:>9.1e} "
                f"{i.share:>7.1e}" + (f"  damped by {i.damping:.0e}" if i.damping else "")
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return readable(self, _described)


def _interpolated(t: Array, x: Array) -> Callable[[Array], Array]:
    return lambda now: jnp.interp(now, t, x)


def _described(plan: Plan) -> str:
    if not isinstance(plan.cost, float) or not isinstance(plan.t, jax.Array):
        return "Plan"
    good = ended_as(plan.result, RESULTS.successful)
    said = "optimal" if good else "interrupted"
    if ended_as(plan.result, RESULTS.optimum_not_found):
        said = "no optimum found"
    lines = [
        f"Plan: {said}, cost {plan.cost:.6g}, {plan.t_end - float(plan.t[0]):.4g} s in "
        f"{counted(len(plan.t) - 1, 'interval')}",
        f"  {counted(len(plan.iterations), 'iteration')}, conditions of optimality to "
        f"{plan.residual:.1e}, motion and limits to {plan.misses:.1e}",
        f"  {plan.seconds['run']:.1f} s of computing, {plan.seconds['compile']:.1f} s of compiling",
    ]
    lines += [f"  {name}: missed by {miss:.1e}" for name, miss in plan.missed.items()]
    lines += [_of_limit(name, shares) for name, shares in plan.in_force.items() if any(shares)]
    return "\n".join(lines)


def _of_limit(name: str, shares: tuple[float, float]) -> str:
    sides = [
        f"at its {side} limit {100.0 * share:.0f} % of the time"
        for side, share in zip(("lower", "upper"), shares, strict=True)
        if share
    ]
    return f"  {name}: {', '.join(sides)}"


def plan_of(found: Found, barrier: float) -> Plan:
    """The plan that a search has found."""
    problem, point = found.problem, found.point
    system = problem.system
    share = float(point.horizon[0]) if point.horizon.size else 1.0
    length = float(problem.length) * share
    t = problem.t0 + length * jnp.arange(problem.knots + 1, dtype=system.dtype) / problem.knots
    controls = point.controls
    if problem.inputs.linear:
        controls = jnp.concatenate([point.first[None], controls])
    controls = controls * problem.inputs.sizes[None]
    inputs = {name: controls[:, k] for k, name in enumerate(problem.inputs.names(system))}
    return Plan(
        t,
        point.states,
        inputs,
        found.cost / float(problem.scale),
        found.result,
        found.residual,
        found.misses,
        _missed(problem, found),
        _in_force(problem, found),
        _switching(problem, found, length),
        found.expansion.slopes.ends,
        tuple(found.iterations),
        found.seconds,
        problem,
        point,
        found.slacks,
        found.multipliers,
        barrier,
    )


def _switching(problem: Problem, found: Found, length: float) -> dict[str, Array]:
    """Slopes of the Hamiltonian by the planned inputs."""
    expansion, m = found.expansion, problem.inputs.count
    costates = local_costates(problem, expansion.charts, found.multipliers)
    inside, _ = slopes_of_cost(expansion)
    inside = inside + jnp.einsum("nx,nxz->nz", costates, expansion.slopes.ends)
    share = problem.knots / (length * problem.scale)
    by_input = inside[:, -m:] / problem.inputs.sizes[None] * share
    names = problem.inputs.names(problem.system)
    return {name: by_input[:, k] for k, name in enumerate(names)}


def _by_limit(problem: Problem, each: np.ndarray) -> dict[str, np.ndarray]:
    """Numbers of all gaps along the way by limit, (N, instants, sides)."""
    found, place = {}, 0
    own = [(x.name, x, 1) for x in problem.bounds if x is not None]
    own += [(f"rate of {x.name}", x, 1) for x in problem.rates if x is not None]
    own += [(x.name, x, problem.steps + x.jumps) for x in problem.limits]
    for name, limit, instants in own:
        width = limit.sides * instants
        part = each[:, place : place + width]
        found[name] = part.reshape(len(each), instants, limit.sides)
        place += width
    return found


def _in_force(problem: Problem, found: Found) -> dict[str, tuple[float, float]]:
    """By limit, the shares of instants at which its lower and its upper bound are in force."""
    forced: Gaps = each(lambda z, s: z > s, found.multipliers.gaps, found.slacks)
    limits = [*problem.bounds, *problem.rates, *problem.limits]
    parts = _by_limit(problem, np.asarray(forced.each)).items()
    shares = {}
    for (name, part), limit in zip(parts, [x for x in limits if x is not None], strict=True):
        by_side = part.mean(axis=(0, 1)).tolist()
        lower = by_side[0] if limit.lower is not None else 0.0
        shares[name] = lower, by_side[-1] if limit.upper is not None else 0.0
    return shares


def _missed(problem: Problem, found: Found) -> dict[str, float]:
    """By condition at the end and by limit, how far it is from being met, if it is."""
    values, ends = found.expansion.values, problem.ends
    misses = ends.by_name(np.asarray(values.misses), found.expansion.charts.speeds.shape[-1])
    gaps = _by_limit(problem, np.asarray(values.gaps.each))
    misses |= {name: float(np.max(-part, initial=0.0)) for name, part in gaps.items()}
    place = 0
    for limit in ends.ranges:
        part = np.asarray(values.gaps.last)[place : place + limit.sides]
        misses[f"{limit.name} at the end"] = float(np.max(-part, initial=0.0))
        place += limit.sides
    return {name: miss for name, miss in misses.items() if miss > _MISSED}
