"""Loops over the steps of a run: one that can be differentiated, and one whose length is a number
that does not recompile.
"""

import dataclasses
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree

from ...model.compiled import Compiled
from ...model.system import System
from ...outcomes import RESULTS
from ...results.saved_rows import Row
from ...rotations.types import Array, host
from ...xla.batch_last import batched_in_lanes
from ...xla.checkpoint import checkpointed
from .chunked_run import counted_loop
from .one_step import FixedSteps, Progress, one_step, row_after
from .schedule import Schedule, StepNumber


class Saves(eqx.Module):
    """Rows of a run whose number is known when the program is traced.

    Attributes:
        count: How many.
        every: Steps between two of them.
        chunks: Pieces of the loop over rows, and of that over the steps of a row, of which
            reverse-mode derivatives keep the first state only.
    """

    count: int
    every: int
    chunks: tuple[int, int] = (1, 1)


class RowRange(eqx.Module):
    """Rows that one call of a program computes, in a buffer.

    Attributes:
        first: The first one; row 0 follows the initial state.
        count: How many.
        size: Of the buffer.
        every: Steps between two of them.
    """

    first: Int[Array, ""]
    count: Int[Array, ""]
    size: int
    every: Int[Array, ""]


def _scan(
    function: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    carry: PyTree,
    xs: PyTree,
    chunks: int,
) -> tuple[PyTree, PyTree]:
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
    system: System,
    progress: Progress,
    steps: FixedSteps,
    saves: Saves,
    schedule: Schedule | None = None,
    trial: bool = False,
) -> tuple[Progress, Row]:
    """The run after all steps, and one row per save; with `trial` the first row before them, by a
    step that is tried. This loop can be differentiated.
    """
    kept = partial(_advanced, saves=saves, trial=trial)
    return batched_in_lanes(kept, system, progress, steps, schedule)


def _advanced(
    system: System,
    progress: Progress,
    steps: FixedSteps,
    schedule: Schedule | None,
    *,
    saves: Saves,
    trial: bool,
) -> tuple[Progress, Row]:
    """`advance`, whose `vmap` takes the batch through one solve after another."""
    step, every = one_step(system, steps, schedule), saves.every

    def save(progress: Progress, m: StepNumber) -> tuple[Progress, Row]:
        first = m * every + 1
        trying = m < 0 if trial else None
        if every == 1:
            return observed_step(progress, first, trying)
        numbers = first + jnp.arange(every)
        # The turn of the first row has as many steps as the others, of which one is tried.
        idle = None if trying is None else trying & (jnp.arange(every) > 0)
        progress, each = _scan(
            lambda progress, x: kept_step(progress, x[0], trying, x[1]),
            progress,
            (numbers, idle),
            saves.chunks[1],
        )
        return row_after(system, progress, steps, first + every - 1, jnp.sum(each))

    @checkpointed
    def observed_step(
        progress: Progress, n: StepNumber, trying: Array | None
    ) -> tuple[Progress, Row]:
        progress, iterations = step(progress, n, trying)
        return row_after(system, progress, steps, n, iterations)

    kept_step = checkpointed(step)
    return _scan(save, progress, jnp.arange(-1 if trial else 0, saves.count), saves.chunks[0])


@Compiled
def march(
    system: System,
    progress: Progress,
    steps: FixedSteps,
    rows: RowRange,
    schedule: Schedule | None = None,
    tentative: bool = False,
) -> tuple[Progress, Row]:
    """The run after a range of rows, and these; a loop whose length does not recompile.

    Where it fails it ends at the last good step, or, if `tentative`, at the last row.
    """
    step = one_step(system, steps, schedule)

    def save(progress: Progress, n0: StepNumber) -> tuple[Progress, Row]:
        def one(k: Array, inner: tuple[Progress, Array]) -> tuple[Progress, Array]:
            progress, total = inner
            progress, iterations = step(progress, n0 + k + 1)
            return progress, total + iterations

        before = progress
        progress, iterations = jax.lax.fori_loop(0, rows.every, one, (progress, jnp.zeros((), int)))
        if tentative:
            ok = progress.result == RESULTS.successful
            back = jax.tree.map(
                lambda a, b: jnp.where(ok, a, b),
                _with_past(progress, None),
                _with_past(before, None),
            )
            back = _with_past(back, progress.motion.past)
            progress = _with_result(back, progress.result)
        return row_after(system, progress, steps, n0 + rows.every, iterations)

    return counted_loop(
        save,
        progress,
        lambda m: (rows.first + m) * rows.every,
        rows.count,
        rows.size,
        lambda p: p.result,
    )


def _with_past(progress: Progress, past: PyTree) -> Progress:
    motion = dataclasses.replace(progress.motion, past=past)
    return dataclasses.replace(progress, motion=motion)


def _with_result(progress: Progress, result: RESULTS) -> Progress:
    return eqx.tree_at(
        lambda p: p.result, progress, result, is_leaf=lambda x: isinstance(x, RESULTS)
    )


class StagedMarch:
    """`march` by the first stage of a method, and by all of it from the first row on that this does
    not reach.

    Most runs never need the rest, which takes as long to compile as the first stage does.

    Args:
        march: The compiled `march` of a system and its inputs.
        steps: Steps by the whole method.
        every: Steps between two rows.
    """

    def __init__(self, march: Callable[..., tuple[Progress, Row]], steps: FixedSteps, every: int):
        self.march, self.whole, self.every = march, steps, every
        stage = steps.integrator.first_stage()
        self.stage = None if stage is None else dataclasses.replace(steps, integrator=stage)

    def __call__(
        self, run: Progress, first: Int[Array, ""], count: Int[Array, ""], size: int
    ) -> tuple[Progress, Row]:
        every = host.asarray(self.every)
        rows = RowRange(first, count, size, every)
        if self.stage is None:
            return self.march(run, self.whole, rows)
        reached, found = self.march(run, self.stage, rows, tentative=True)
        if bool(reached.result == RESULTS.successful):
            return reached, found
        self.stage = None
        done = int(reached.completed) // self.every - first
        run, rest = self.march(
            _with_result(reached, RESULTS.successful),
            self.whole,
            RowRange(first + done, count - done, size, every),
        )
        found = jax.tree.map(
            lambda a, b: np.concatenate([np.asarray(a)[:done], np.asarray(b)[: count - done]]),
            found,
            rest,
        )
        return run, found
