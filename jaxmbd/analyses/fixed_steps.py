"""Runs with steps of one size."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..equations.index1 import acceleration_jump
from ..equations.laws import gap_shares
from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator, Motion
from ..model.compiled import Compiled, compiled_once, runs_now, telling_forward_mode
from ..model.system import System
from ..model.validation import as_jax, is_concrete
from ..outcomes import RESULTS, ended_as
from ..results.solution import Row, Solution, make_row, make_solution
from ..rotations.types import Scalar, host
from ..xla.batch_last import batched_in_lanes
from ..xla.checkpoint import checkpointed, saved
from .assembly import AssemblyReport
from .running.checks import (
    check_run,
    chosen_formulation,
    chosen_integrator,
    count_steps,
)
from .running.chunked_run import HostLoop, counted_loop
from .running.failure import raise_failure
from .running.initial_state import angles_ahead, assembled, blown_up, checked_motion, first_row
from .running.schedule import Schedule, earlier, schedule_of
from .running.start_checks import INSIDE
from .running.warnings import warn_of_run


class Progress(eqx.Module):
    """Where a run is.

    Attributes:
        motion: At the last good step.
        angles: All angles there, with their turns, see `System.angle_values`.
        completed: Steps done without failure.
        undetermined: Steps so close to a singular pose that their multipliers leave out a part of
            the forces.
        result: The outcome so far.
        inputs: Values, rates and accelerations of the inputs at the last good step, (3, n); None of
            a mechanism without inputs, or with inputs that do not change.
    """

    motion: Motion
    angles: Float[Array, " w"]
    completed: jax.Array
    undetermined: jax.Array
    result: RESULTS
    inputs: Float[Array, "3 n"] | None = None


@telling_forward_mode
def simulate_fixed(
    system,
    state,
    *,
    h,
    t_end,
    steps,
    formulation,
    integrator,
    inputs,
    save_every,
    t0,
    checkpoints=1,
    metric=None,
    throw=True,
    progress=False,
    on_chunk=None,
) -> Solution:
    """`simulate` with fixed steps."""
    formulation, integrator = (
        chosen_formulation(formulation),
        chosen_integrator(integrator, system),
    )
    steps = count_steps(h, t_end, steps, t0)
    save_every = check_run(system, steps, save_every, formulation, integrator)
    saves = steps // save_every
    kept = _chunks(saves, save_every, checkpoints)
    schedule = None
    if inputs is not None or not system.held:
        schedule = schedule_of(system, inputs, steps, "simulate")
    given = state = system.with_turns(state)
    # Known inside a trace too.
    now = host.asarray(t0, system.dtype) if is_concrete(t0) else as_jax(t0, system.dtype)
    h, t0 = as_jax(h, system.dtype), as_jax(t0, system.dtype)
    inputs = None if schedule is None else schedule.first(t0, h)
    begun = system if inputs is None else system.given(inputs, t0)
    state, report = assembled(begun, state, now, metric=metric)
    bare = system.unnamed()
    # Two programs: the start does not depend on the number of steps, so a longer run compiles the
    # stepping only.
    # Within a user's program the step that is tried for the first row is a turn of the loop, which
    # would otherwise stand there twice.
    known = is_concrete((begun, state, h, t0, formulation, integrator, schedule)) and runs_now()
    in_loop = not known and kept == (1, 1) and integrator.tries(bare)
    run, first = start_run(
        *(begun, given, state, report, t0, h, formulation, integrator, inputs),
        trial=not in_loop,
    )

    def solution_of(rows: Row, run: Progress) -> Solution:
        n = np.arange(rows.iterations.shape[0]) * save_every
        t = times(t0, h, n)
        given = None if schedule is None else schedule.rows(n, t, h)
        stats = run_stats(report, run)
        return make_solution(t, rows, run.result, stats, system, least=has_least(run), inputs=given)

    if is_concrete((system, run, h, t0, formulation, integrator, schedule)):
        options = {"t0": t0, "h": h, "save_every": np.asarray(save_every)}
        if schedule is not None:
            options["schedule"] = schedule

        loop = HostLoop(
            _Marches(
                partial(
                    march.for_work(steps * system.nb, (bare, formulation, integrator)),
                    bare,
                    formulation=formulation,
                    **options,
                ),
                integrator,
                save_every,
            ),
            lambda run: ended_as(run.result, RESULTS.successful),
            solution_of,
            system.name,
            save_every,
        )
        solution = loop.run(run, first, saves, progress=progress, on_chunk=on_chunk)
        if throw:
            raise_failure(begun, solution, state, h)
        warn_of_run(system, solution, h)
        return solution
    refuse_host_work(progress, on_chunk)
    zero = jnp.zeros((), int)
    run, rows = advance(
        *(bare, run, t0, h, zero, saves, save_every, formulation, integrator, kept),
        trial=in_loop,
        schedule=schedule,
    )
    if not in_loop:
        rows = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rows)
    return solution_of(rows, run)


def refuse_host_work(progress: bool, on_chunk: Callable[[Solution], None] | None) -> None:
    """Refuse what runs on the host, in a traced run.

    Raises:
        ValueError: Either is asked for.
    """
    if progress or on_chunk is not None:
        raise ValueError(
            "simulate: progress and on_chunk work on the host, outside jit, vmap and grad; leave "
            "them out"
        )


def times(t0: Scalar, h: Scalar, n: np.ndarray) -> Float[Array, " T"]:
    """The instants t0 + n h."""
    if is_concrete((t0, h)):  # compiles nothing
        return jax.device_put(np.asarray(t0) + n.astype(h.dtype) * np.asarray(h))
    return t0 + jnp.asarray(n, h.dtype) * h


def run_stats(report: AssemblyReport, progress: Progress) -> dict[str, Any]:
    """The numbers of a run."""
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
    """Whether the rows of a run have multipliers of least norm: steps by kept factors do not."""
    past = progress.motion.past
    return past is None or past.kept is None


@compiled_once
def start_run(
    system,
    given,
    state,
    report,
    t0,
    h,
    formulation,
    integrator,
    inputs=None,
    trial: bool = True,
) -> tuple[Progress, Row]:
    """Consistent accelerations and multipliers at the first instant, and the first row; of methods
    that try a step for these, only with `trial`.
    """
    system = system.at_state(given)
    motion, row, result = first_row(system, given, state, report, t0, formulation, integrator, h)
    system = system.wound(row.angles)
    motion = integrator.begun(formulation, system, motion, t0, h)
    if trial and integrator.tries(system):
        step = integrator.taken(formulation, system, motion, t0 + h, h)
        tried = integrator.tried(formulation, system, motion, step)
        motion = dataclasses.replace(tried, states=motion.states)
    _, extra = integrator.observed(formulation, system, motion, t0)
    if system.laws:  # accelerations and multipliers know of them
        inside = jnp.min(gap_shares(formulation, system, motion.q)) < -INSIDE
        result = RESULTS.where(inside, RESULTS.invalid_input, result)
        ok = result == RESULTS.successful
        row = make_row(
            formulation, system, motion.q, motion.u, motion.a, motion.lam, row.iterations, ok
        )
    row = eqx.tree_at(
        lambda r: r.extra, row, row.extra | extra, is_leaf=lambda x: isinstance(x, dict)
    )
    zero = jnp.zeros((), int)
    return Progress(motion, row.angles, zero, zero, result, inputs), row


def _chunks(saves: int, save_every: int, checkpoints: int) -> tuple[int, int]:
    """Chunks of saves, and of the steps within a save, that make the number of checkpoints."""
    if checkpoints >= 1 and saves % checkpoints == 0:
        return checkpoints, 1
    if checkpoints >= 1 and checkpoints % saves == 0 and save_every % (checkpoints // saves) == 0:
        return saves, checkpoints // saves
    raise ValueError(
        f"checkpoints={checkpoints} must divide the number of saved rows, {saves}, or be a "
        f"multiple of it that divides the number of steps, {saves * save_every}"
    )


def _scan(function, carry, xs, chunks: int):
    """`jax.lax.scan`, whose reverse mode keeps the carry of every chunk and computes the chunk
    again.
    """
    if chunks == 1:
        return jax.lax.scan(function, carry, xs)
    pieces = jax.tree.map(lambda x: x.reshape(chunks, x.shape[0] // chunks, *x.shape[1:]), xs)
    inner = jax.checkpoint(lambda carry, x: jax.lax.scan(function, carry, x), prevent_cse=False)
    carry, ys = jax.lax.scan(inner, carry, pieces)
    return carry, jax.tree.map(lambda y: y.reshape(y.shape[0] * y.shape[1], *y.shape[2:]), ys)


@Compiled
def advance(
    system,
    progress: Progress,
    t0,
    h,
    n0,
    saves: int,
    save_every: int,
    formulation,
    integrator,
    chunks: tuple[int, int] = (1, 1),
    trial: bool = False,
    schedule: Schedule | None = None,
) -> tuple[Progress, Row]:
    """Take saves x save_every steps from step n0 on; one row per save, and with `trial` the first
    row before them, by a step that is tried. This loop can be differentiated.
    """
    kept = partial(_advanced, saves=saves, save_every=save_every, chunks=chunks, trial=trial)
    return batched_in_lanes(kept, system, progress, t0, h, n0, formulation, integrator, schedule)


def _advanced(
    system,
    progress: Progress,
    t0,
    h,
    n0,
    formulation,
    integrator,
    schedule,
    *,
    saves: int,
    save_every: int,
    chunks: tuple[int, int],
    trial: bool,
) -> tuple[Progress, Row]:
    """`advance`, whose `vmap` takes the batch through one solve after another."""
    step = one_step(system, t0, h, formulation, integrator, schedule)

    def observed(progress: Progress, n, iterations):
        return _observed(system, progress, t0, h, n, iterations, formulation, integrator)

    def save(progress: Progress, m):
        first = n0 + m * save_every + 1
        trying = m < 0 if trial else None
        if save_every == 1:
            return observed_step(progress, first, trying)
        steps = first + jnp.arange(save_every)
        # The turn of the first row has as many steps as the others, of which one is tried.
        idle = None if trying is None else trying & (jnp.arange(save_every) > 0)
        progress, each = _scan(
            lambda progress, x: kept_step(progress, x[0], trying, x[1]),
            progress,
            (steps, idle),
            chunks[1],
        )
        return observed(progress, first + save_every - 1, jnp.sum(each))

    @checkpointed
    def observed_step(progress: Progress, n, trying):
        progress, iterations = step(progress, n, trying)
        return observed(progress, n, iterations)

    kept_step = checkpointed(step)
    return _scan(save, progress, jnp.arange(-1 if trial else 0, saves), chunks[0])


@Compiled
def march(
    system,
    progress: Progress,
    first,
    count,
    size: int,
    *,
    t0,
    h,
    save_every,
    formulation,
    integrator,
    schedule: Schedule | None = None,
    tentative: bool = False,
) -> tuple[Progress, Row]:
    """Take `count` saves from the `first` on, into `size` rows; a loop whose length does not
    recompile.

    Where it fails it ends at the last good step, or, if `tentative`, at the last row.
    """
    step = one_step(system, t0, h, formulation, integrator, schedule)

    def save(progress: Progress, n0):
        def one(k, inner):
            progress, total = inner
            progress, iterations = step(progress, n0 + k + 1)
            return progress, total + iterations

        before = progress
        progress, iterations = jax.lax.fori_loop(0, save_every, one, (progress, jnp.zeros((), int)))
        if tentative:
            ok = progress.result == RESULTS.successful
            back = jax.tree.map(
                lambda a, b: jnp.where(ok, a, b),
                _with_past(progress, None),
                _with_past(before, None),
            )
            back = _with_past(back, progress.motion.past)
            progress = _with_result(back, progress.result)
        n = n0 + save_every
        return _observed(system, progress, t0, h, n, iterations, formulation, integrator)

    return counted_loop(
        save, progress, lambda m: (first + m) * save_every, count, size, lambda p: p.result
    )


def _with_past(progress: Progress, past: Any) -> Progress:
    motion = dataclasses.replace(progress.motion, past=past)
    return dataclasses.replace(progress, motion=motion)


def _with_result(progress: Progress, result: RESULTS) -> Progress:
    return eqx.tree_at(
        lambda p: p.result, progress, result, is_leaf=lambda x: isinstance(x, RESULTS)
    )


class _Marches:
    """`march` by the first stage of a method, and by all of it from the first row on that this does
    not reach.

    Most runs never need the rest, which takes as long to compile as the first stage does.
    """

    def __init__(self, march: Any, integrator: AbstractIntegrator, save_every: int):
        self.march, self.whole, self.save_every = march, integrator, save_every
        self.stage = integrator.first_stage()

    def __call__(self, run: Progress, first, count, size: int) -> tuple[Progress, Any]:
        if self.stage is None:
            return self.march(run, first, count, size, integrator=self.whole)
        reached, rows = self.march(run, first, count, size, integrator=self.stage, tentative=True)
        if bool(reached.result == RESULTS.successful):
            return reached, rows
        self.stage = None
        done = int(reached.completed) // self.save_every - first
        run, rest = self.march(
            _with_result(reached, RESULTS.successful),
            first + done,
            count - done,
            size,
            integrator=self.whole,
        )
        rows = jax.tree.map(
            lambda a, b: np.concatenate([np.asarray(a)[:done], np.asarray(b)[: count - done]]),
            rows,
            rest,
        )
        return run, rows


def one_step(
    system: System,
    t0,
    h,
    formulation: AbstractFormulation,
    integrator: AbstractIntegrator,
    schedule: Schedule | None,
):
    """One step of a run that keeps the last good motion and says what ended it. One that is tried
    changes only what the method makes of it at the first instant, one that is idle nothing.
    """

    def step(progress: Progress, n, trying=None, idle=None):
        if trying is not None:
            n = jnp.where(trying, 1, n)
        t = t0 + n.astype(h.dtype) * h
        active = progress.result == RESULTS.successful
        if idle is not None:
            active = active & ~idle
        motion, inputs = progress.motion, progress.inputs
        ahead = angles_ahead(system, formulation, motion, progress.angles, h)
        now = system.wound(ahead)
        if schedule is not None:
            inputs = schedule.at(n, t, h)
            if np.any(schedule.jumps) and integrator.keeps_accelerations:
                assert progress.inputs is not None
                old = jnp.where(schedule.jumps, progress.inputs, earlier(inputs, h))
                motion = _jumped(now, motion, old, inputs, t, h, formulation, integrator)
            now = now.given(inputs, t)
        new, info = integrator.taken(formulation, now, motion, t, h, active)
        why = RESULTS.where(
            jnp.isfinite(info.correction), integrator.unconverged(new), RESULTS.non_finite
        )
        why = RESULTS.where(
            info.converged, RESULTS.where(info.singular, RESULTS.singular, RESULTS.successful), why
        )
        poses = jax.vmap(formulation.pose)(formulation.with_ground(new.q))
        lost = (why == RESULTS.successful) & blown_up(now, formulation, progress.motion, new, h)
        why = checked_motion(now, poses, t, RESULTS.where(lost, RESULTS.unstable, why))
        ok = saved(active & (why == RESULTS.successful))
        # The last good motion stays in place: a failed member of a batch keeps finite values and
        # derivatives.
        # What solves learn is no part of it, and as large as a matrix.
        reached = dataclasses.replace(new, past=None), now.angle_values(poses), inputs
        before = dataclasses.replace(progress.motion, past=None), progress.angles, progress.inputs
        motion, angles, inputs = jax.tree.map(lambda a, b: jnp.where(ok, a, b), reached, before)
        motion = dataclasses.replace(motion, past=new.past)
        result = RESULTS.where(active, why, progress.result)
        undetermined = progress.undetermined + (ok & info.undetermined).astype(int)
        completed = progress.completed + ok.astype(int)
        after = Progress(motion, angles, completed, undetermined, result, inputs)
        if trying is None:
            return after, info.iterations
        first = integrator.tried(formulation, now, progress.motion, (new, info))
        first = dataclasses.replace(first, states=progress.motion.states)
        still = dataclasses.replace(progress, motion=first)
        changes = trying if idle is None else trying & ~idle
        after = jax.tree.map(lambda a, b: jnp.where(changes, a, b), still, after)
        return after, jnp.where(trying, 0, info.iterations)

    return step


def holding(system: System, motion: Motion) -> System:
    """The system with the states of force elements that a motion has."""
    return system if motion.states is None else system.with_element_states(motion.states.z)


def _jumped(
    system: System, motion: Motion, old, new, t, h, formulation, integrator: AbstractIntegrator
) -> Motion:
    """The motion at the beginning of the step that ends at t, with the accelerations that it has
    after the inputs have changed from those of the last step.
    """
    begin = t - h
    system = holding(system, motion)
    before, after = system.given(old, begin), system.given(new, t)
    change = acceleration_jump(formulation, before, after, motion.q, motion.u, begin)
    return integrator.jumped(motion, change)


def _observed(
    system, progress: Progress, t0, h, n, iterations, formulation, integrator
) -> tuple[Progress, Row]:
    """The row of step n, which a method may find undetermined where its own step was not."""
    t = t0 + n.astype(h.dtype) * h
    system = system if progress.inputs is None else system.given(progress.inputs, t)
    system = holding(system, progress.motion)
    motion, extra = integrator.observed(formulation, system, progress.motion, t)
    ok = progress.result == RESULTS.successful
    only_here = ok & motion.undetermined & ~progress.motion.undetermined
    progress = eqx.tree_at(
        lambda p: p.undetermined, progress, progress.undetermined + only_here.astype(int)
    )
    return progress, make_row(
        formulation,
        system.wound(progress.angles),
        motion.q,
        motion.u,
        motion.a,
        motion.lam,
        iterations,
        ok,
        extra,
    )
