"""Optimal control: the inputs that take a mechanism somewhere at the least cost, within limits."""

from collections.abc import Mapping, Sequence

import equinox as eqx
from tqdm import tqdm

from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers
from ...outcomes import RESULTS, ended_as
from ...results.solution import Solution
from .guesses import begun, continued
from .plan import Plan, PlanError, plan_of
from .problem import Cost
from .request import WHO, Grid, Span, Wishes, problem_of
from .search import Search
from .wishes import Bounds, Reach

HESSIANS = ("exact", "gauss_newton")


def optimal_control(
    system: System,
    state: State,
    inputs: Sequence[str] | None = None,
    horizon: Span = 1.0,
    *,
    stage: Cost | None = None,
    final: Cost | None = None,
    reach: Reach | None = None,
    limits: Bounds | None = None,
    rates: Bounds | None = None,
    knots: int = 40,
    steps: int = 4,
    hold: str = "constant",
    guess: Mapping[str, Numbers] | Solution | Plan | None = None,
    given: Mapping[str, Numbers] | None = None,
    hessian: str = "exact",
    tolerance: float = 1e-8,
    max_iterations: int = 200,
    t0: float = 0.0,
    progress: bool = False,
    throw: bool = True,
) -> Plan:
    """Find the inputs that move a mechanism at the least cost, within limits.

        plan = mbd.optimal_control(
            system, state, ["push"], 3.0, knots=60,
            stage=lambda now: 1e-4 * now["push"] ** 2,
            reach={"hinge.angle": np.pi, "rest": True, "rail.displacement": 0.0},
            limits={"push": (-20.0, 20.0), "rail.displacement": (-1.0, 1.0)},
        )

    Direct multiple shooting on the constraint manifold: the horizon is divided by knots, whose
    states are found together with the inputs, in local coordinates of what the joints allow. Joints
    are closed at every knot, and no constraint is a condition of the search.

    Args:
        system: The mechanism.
        state: From which the motion begins; it is assembled first.
        inputs: Names of those that are planned, see `Input`; by default all.
        horizon: How long the motion takes [s]; or (shortest, longest), where that is chosen too.
        stage: A function of an instant, `now["hinge.angle"]`, `now.t`, whose values are integrated
            over time; where it returns several numbers, half the sum of their squares is.
        final: Likewise of the last instant, which is added.
        reach: Conditions at the end: by name a value, a range (lower, upper), either of which may
            be None, or under any name a function of the last instant that is to vanish; "tool.r",
            "tool.A" and "tool.z" of a body or a frame as for `place`; "rest": True for vanishing
            velocities. Or the state itself, for instance that of a `Placement`.
        limits: By quantity or input, (lower, upper), either of which may be None. Quantities are
            kept within them at all steps of all intervals, not between steps.
        rates: By input, of how fast it may change [1/s], likewise.
        knots: Number of intervals.
        steps: Of the motion in each of them, an even number, or one.
        hold: Whether inputs are held in an interval, "constant", or go from knot to knot in
            straight lines, "linear".
        guess: Inputs to begin with, by name: a number, or an array with one for each interval; or a
            motion of the same bodies, such as that of `kinematics` with drivers; or a plan, which
            must have as many knots. Without it the mechanism stays where it is.
        given: Constant values of the other inputs, by name.
        hessian: "exact", second derivatives; or "gauss_newton", for costs that are squares alone.
        tolerance: To which the conditions of optimality hold, without units.
        max_iterations: Of the search.
        t0: The beginning [s].
        progress: Show a bar.
        throw: Raise where no optimum is found; otherwise `Plan.result` tells.

    Returns:
        The motion at the knots, its inputs, and how the search went.

    Raises:
        ValueError: The request makes no sense; the message names the part.
        PlanError: No optimum was found; its `plan` is how far the search came.

    Reference:
        Bock, Plitt, "A multiple shooting algorithm for direct solution of optimal control
        problems", IFAC 1984; Steinbach, "Structured interior point SQP methods in optimal control",
        ZAMM 76 (1996).
    """
    wishes = Wishes(stage, final, reach or {}, limits or {}, rates or {}, given or {})
    grid = Grid(knots, steps, hold, float(t0))
    problem, start = problem_of(system, state, inputs, horizon, wishes=wishes, grid=grid)
    if hessian not in HESSIANS:
        raise ValueError(f"{WHO}: hessian must be one of {HESSIANS}, not {hessian!r}")
    exact = hessian == "exact"
    if isinstance(guess, Plan):
        problem = eqx.tree_at(lambda p: p.scale, problem, guess.problem.scale)
    search = Search(problem, exact=exact, tolerance=tolerance, limit=max_iterations)
    if isinstance(guess, Plan):
        search.begin(*continued(problem, start, guess), max(guess.barrier, 1e-4))
    else:
        search.begin(begun(problem, start, guess), None, None)
    with tqdm(total=max_iterations, desc="plan", disable=not progress, leave=False) as bar:
        found = search.run(bar if progress else None)
    plan = plan_of(found, search.barrier)
    if throw and not ended_as(plan.result, RESULTS.successful):
        error = PlanError(_said(plan))
        error.plan = plan
        raise error
    return plan


def _said(plan: Plan) -> str:
    problem = plan.problem
    text = f"{WHO}: mechanism {problem.system.name!r}: {RESULTS[plan.result]}"
    text += (
        f". After {len(plan.iterations)} iterations the conditions of optimality hold to "
        f"{plan.residual:.1e}, motion and limits to {plan.misses:.1e}"
    )
    if plan.missed:
        missed = (f"{name} by {miss:.2g}" for name, miss in plan.missed.items())
        text += f". Missed, in parts of the mechanism's length or in rad: {', '.join(missed)}"
    return text
