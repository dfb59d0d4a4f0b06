"""The turns of a run whose steps are chosen: each of them tries one step."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...equations.index1 import dynamic_accelerations
from ...integrators import Motion
from ...model.compiled import Compiled
from ...model.system import System
from ...outcomes import RESULTS
from ...results.saved_rows import Row, make_solution
from ...results.solution import Solution
from ...xla.checkpoint import checkpointed, saved
from ...xla.cpu_fusion import one_kernel
from ..running.initial_state import InitialState, first_row
from ..running.schedule import Schedule
from .acting import Switching, acting_from, turn_in_search
from .adaptive import Adaptive
from .path import Path, RunInputs, row_between
from .steps import Progress, Run, first_length, growth, proposed, tried


@Compiled
def run_chosen(
    run: Run, start: InitialState, ts: Float[Array, " T"], step: Adaptive, keep: bool = False
) -> tuple[Solution, Path | None]:
    """The motion at the times `ts`, and with `keep` at the ends of all steps."""
    return _run(run, start, ts, step, keep)


@eqx.filter_jit
def run_acting(
    run: Run,
    start: InitialState,
    ts: Float[Array, " T"],
    step: Adaptive,
    switching: Switching,
) -> tuple[Solution, Path]:
    """The same with events that act, whose quantities need names."""
    solution, path = _run(run, start, ts, step, True, switching)
    assert path is not None
    return solution, path


def _run(
    run: Run,
    start: InitialState,
    ts: Float[Array, " T"],
    step: Adaptive,
    keep: bool,
    switching: Switching | None = None,
) -> tuple[Solution, Path | None]:
    formulation, integrator, report = run.formulation, run.integrator, start.report
    system, t0 = run.system.at_state(start.given), run.t0
    run = dataclasses.replace(run, system=system)
    begun = RunInputs(run.schedule).of(system, t0)
    q, u = formulation.from_state(start.state)
    motion = Motion(q, u, *dynamic_accelerations(formulation, begun, q, u, t0))
    first, result = first_row(begun, start, formulation, motion, t0)
    started = result == RESULTS.successful
    h0 = step.h0
    h0 = first_length(run, first, t0) if h0 is None else jnp.asarray(h0, system.dtype)
    h0 = jax.lax.stop_gradient(h0)
    motion = integrator.begun(formulation, begun, motion, t0, h0)
    zero = jnp.zeros((), int)
    acts = None if switching is None else acting_from(run, switching, first)
    progress = Progress(motion, first, t0, h0, zero, zero, result, acts)

    if switching is None:
        attempt = checkpointed(lambda p: _attempt(run, p))
    else:
        attempt = checkpointed(lambda p: turn_in_search(run, switching, p))

    def turn(p: Progress, _: None):
        p = jax.lax.cond(_goes_on(run, p), attempt, lambda p: p, p)
        return p, (p.t, p.row, None if p.acts is None else (p.acts.held, p.acts.told))

    end, (knots, rows, acted) = one_kernel(
        lambda start: jax.lax.scan(turn, start, None, length=step.max_steps), progress
    )
    short = _goes_on(run, end)
    result = RESULTS.where(short, RESULTS.too_many_steps, end.result)

    # With the start before the turns.
    before = t0, first, None if acts is None else (acts.held, acts.told)
    knots, rows, acted = jax.tree.map(
        lambda a, b: jnp.concatenate([a[None], b]), before, (knots, rows, acted)
    )
    path = Path(knots, rows, end.t, started)
    if end.acts is not None:
        held, told = acted
        path = dataclasses.replace(path, held=held, told=told, through=end.acts.through)
    rows, undetermined = _requested(system, run.schedule, ts, path)
    stats = {
        "assembly_displacement": report.displacement,
        "assembly_rotation": report.rotation,
        "accepted_steps": end.accepted,
        "rejected_steps": end.rejected,
        "undetermined_rows": jnp.sum(undetermined),
    }
    inputs = None
    if run.schedule is not None:
        inputs = jax.vmap(lambda t: path.inputs(run.schedule, path.step_of(t)).at(t))(ts)
    solution = make_solution(ts, rows, result, stats, inputs=inputs)
    return solution, path if keep else None


def _goes_on(run: Run, p: Progress) -> Bool[Array, ""]:
    """Whether there is another turn."""
    before_end = p.t < run.t_end
    if p.acts is not None:
        before_end = before_end | p.acts.due
    return before_end & (p.result == RESULTS.successful)


def _attempt(run: Run, p: Progress) -> Progress:
    """A step, taken where it is good enough."""
    # The rest of the span in one step, or in two of a size.
    h = jax.lax.stop_gradient(proposed(run, p))
    found = tried(run, p, (p.t + h, h), RunInputs(run.schedule))
    good = saved(found.good)
    factor = growth(run, found)
    motion, row = jax.tree.map(
        lambda a, b: jnp.where(good, a, b), (found.motion, found.row), (p.motion, p.row)
    )
    next_h = jax.lax.stop_gradient(h * factor)
    tiny = ~good & (next_h < 1e-9 * (run.t_end - run.t0))
    outcome = found.outcome
    why = RESULTS.where(outcome == RESULTS.successful, RESULTS.step_too_small, outcome)
    result = RESULTS.where(tiny, why, p.result)
    # The last instant is met exactly.
    t = jnp.where(good, jnp.where(h == run.t_end - p.t, run.t_end, p.t + h), p.t)
    return Progress(
        motion,
        row,
        t,
        next_h,
        p.accepted + good.astype(int),
        p.rejected + (~good).astype(int),
        result,
    )


def _requested(
    system: System, schedule: Schedule | None, ts: Float[Array, " T"], path: Path
) -> tuple[Row, Bool[Array, " T"]]:
    """Rows at the times `ts`, and whether the multipliers of each leave out a part of the
    forces.
    """
    return jax.vmap(lambda t: row_between(system, schedule, path, t, path.step_of(t)))(ts)
