"""Runs with steps of one size."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.compiled import runs_now, telling_forward_mode
from ..model.state import State
from ..model.system import System
from ..model.validation import as_jax, is_concrete
from ..outcomes import RESULTS, ended_as
from ..results.saved_rows import Row, make_solution
from ..results.solution import Solution
from ..rotations.types import host
from .assembly import AssemblyReport
from .running.checks import check_run, chosen_formulation, chosen_integrator, count_steps
from .running.chunked_run import HostLoop
from .running.failure import raise_failure
from .running.initial_state import InitialState, assembled
from .running.one_step import FixedSteps, Progress
from .running.request import RunRequest
from .running.run_start import start_run
from .running.schedule import Schedule, schedule_of
from .running.step_loops import Saves, StagedMarch, advance, march
from .running.warnings import warn_of_run


@dataclasses.dataclass(frozen=True)
class Beginning:
    """A run of equal steps before the first of them.

    Attributes:
        begun: The system with the inputs of the initial time.
        state: Assembled.
        report: What assembly changed.
        steps: Size and method.
        saves: Rows that are asked for.
        schedule: The inputs, or None.
        in_loop: Whether the step that is tried for the first row is left to the loop.
        run: Before the first step.
        first: The first row.
    """

    begun: System
    state: State
    report: AssemblyReport
    steps: FixedSteps
    saves: Saves
    schedule: Schedule | None
    in_loop: bool
    run: Progress
    first: Row


def begin(
    system: System, state: State, asked: RunRequest, *, may_try_later: bool = False
) -> Beginning:
    """Check what is asked for, assemble the state and find the first row.

    Args:
        system: The mechanism.
        state: As described.
        asked: What is asked for.
        may_try_later: Whether the loop can take the step that some methods try for the first row.
    """
    assert asked.h is not None
    system.refuse_events("a run")
    formulation = chosen_formulation(asked.formulation)
    integrator = chosen_integrator(asked.integrator, system)
    count = count_steps(asked.h, asked.t_end, asked.steps, asked.t0)
    save_every = check_run(system, count, asked.save_every, formulation, integrator)
    saves = count // save_every
    saves = Saves(saves, save_every, _chunks(saves, save_every, asked.checkpoints))
    schedule = None
    if asked.inputs is not None or not system.held:
        schedule = schedule_of(system, asked.inputs, count, "simulate")
    given = state = system.with_turns(state)
    t0, dtype = asked.t0, system.dtype
    # Known inside a trace too.
    now = host.asarray(t0, dtype) if is_concrete(t0) else as_jax(t0, dtype)
    steps = FixedSteps(as_jax(t0, dtype), as_jax(asked.h, dtype), formulation, integrator)
    inputs = None if schedule is None else schedule.first(steps.t0, steps.h)
    begun = system if inputs is None else system.given(inputs, steps.t0)
    state, report = assembled(begun, state, now, metric=asked.metric)
    start, bare = InitialState(given, state, report), system.unnamed()
    # Two programs: the start does not depend on the number of steps, so a longer run compiles the
    # stepping only.
    # Within a user's program the step that is tried for the first row is a turn of the loop, which
    # would otherwise stand there twice.
    known = is_concrete((begun, state, steps, schedule)) and runs_now()
    in_loop = may_try_later and not known and saves.chunks == (1, 1) and integrator.tries(bare)
    run, first = start_run(begun, start, steps, inputs, trial=not in_loop)
    return Beginning(begun, state, report, steps, saves, schedule, in_loop, run, first)


@telling_forward_mode
def simulate_fixed(system: System, state: State, asked: RunRequest) -> Solution:
    """`simulate` with fixed steps."""
    start = begin(system, state, asked, may_try_later=True)
    steps, saves, schedule, bare = start.steps, start.saves, start.schedule, system.unnamed()
    save_every = saves.every

    def solution_of(rows: Row, run: Progress) -> Solution:
        n = np.arange(rows.iterations.shape[0]) * save_every
        t = times(steps, n)
        given = None if schedule is None else schedule.rows(n, t, steps.h)
        stats = run_stats(start.report, run)
        return make_solution(t, rows, run.result, stats, system, least=has_least(run), inputs=given)

    if is_concrete((system, start.run, steps, schedule)):
        work = saves.count * save_every * system.nb
        program = march.for_work(work, (bare, steps.formulation, steps.integrator))
        loop = HostLoop(
            StagedMarch(partial(program, bare, schedule=schedule), steps, save_every),
            lambda run: ended_as(run.result, RESULTS.successful),
            solution_of,
            system.name,
            save_every,
        )
        watching = {"progress": asked.progress, "on_chunk": asked.on_chunk}
        solution = loop.run(start.run, start.first, saves.count, **watching)
        if asked.throw:
            raise_failure(start.begun, solution, start.state, steps.h)
        warn_of_run(system, solution, steps.h)
        return solution
    refuse_host_work(asked.progress, asked.on_chunk)
    run, rows = advance(bare, start.run, steps, saves, schedule, trial=start.in_loop)
    if not start.in_loop:
        rows = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start.first, rows)
    return solution_of(rows, run)


def refuse_host_work(progress: bool, on_chunk: Callable[[Solution], None] | None) -> None:
    """Raise if a traced run is asked for a progress bar or for calls on the host.

    Raises:
        ValueError: Either is asked for.
    """
    if progress or on_chunk is not None:
        raise ValueError(
            "simulate: progress and on_chunk work on the host, outside jit, vmap and grad; leave "
            "them out"
        )


def times(steps: FixedSteps, n: np.ndarray) -> Float[Array, " T"]:
    """The instants t0 + n h, of known n."""
    t0, h = steps.t0, steps.h
    if is_concrete((t0, h)):  # compiles nothing
        return jax.device_put(np.asarray(t0) + n.astype(h.dtype) * np.asarray(h))
    return t0 + jnp.asarray(n, h.dtype) * h


def run_stats(report: AssemblyReport, progress: Progress) -> dict[str, Any]:
    """Entries of `Solution.stats` of a run."""
    return {
        "assembly_displacement": report.displacement,
        "assembly_rotation": report.rotation,
        "assembly_velocity": report.velocity,
        "assembly_angular_velocity": report.angular_velocity,
        "assembly_iterations": report.iterations,
        "completed_steps": progress.completed,
        "undetermined_steps": progress.undetermined,
    }


def has_least(progress: Progress) -> bool:
    """Whether multipliers of a run are of least norm; with reused factors they are not."""
    past = progress.motion.past
    return past is None or past.kept is None


def _chunks(saves: int, save_every: int, checkpoints: int) -> tuple[int, int]:
    """Chunks of saves, and of steps within a save, whose product is the number of checkpoints."""
    if checkpoints >= 1 and saves % checkpoints == 0:
        return checkpoints, 1
    if checkpoints >= 1 and checkpoints % saves == 0 and save_every % (checkpoints // saves) == 0:
        return saves, checkpoints // saves
    raise ValueError(
        f"checkpoints={checkpoints} must divide the number of saved rows, {saves}, or be a "
        f"multiple of it that divides the number of steps, {saves * save_every}"
    )
