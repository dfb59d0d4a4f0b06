"""A long run from the host: progress, interruption, and everything computed kept."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ..formulations import RA, AbstractFormulation
from ..integrators import AbstractIntegrator, ImplicitEuler
from ..model.state import State
from ..model.system import System
from ..results import RESULTS
from .dynamics import advance, assembled, check_request, count_steps, run_stats, start, times
from .failure import raise_failure
from .solution import Solution, make_solution


def run(
    system: System,
    state: State,
    *,
    h: float,
    t_end: float | None = None,
    steps: int | None = None,
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    save_every: int = 1,
    t0: float = 0.0,
    throw: bool = True,
    progress: bool = True,
    chunks: int = 50,
    on_chunk: Callable[[Solution], None] | None = None,
) -> Solution:
    """`simulate` in pieces, with a progress bar; the same motion to rounding.

    An interruption (Ctrl-C) ends the run and returns what was computed. A failed run raises after its last good step,
    with the solution in the exception.

    Args:
        system: As in `simulate`.
        state: As in `simulate`.
        h: As in `simulate`, a concrete number [s].
        t_end: As in `simulate` [s].
        steps: As in `simulate`.
        formulation: As in `simulate`.
        integrator: As in `simulate`.
        save_every: As in `simulate`.
        t0: As in `simulate` [s].
        throw: As in `simulate`.
        progress: Show a progress bar on standard error.
        chunks: Pieces of the run, about.
        on_chunk: Called after every piece with the solution so far.

    Returns:
        The motion; after an interruption, the part that was reached.
    """
    formulation, integrator = formulation or RA(), integrator or ImplicitEuler()
    steps = count_steps(h, t_end, steps, t0)
    check_request(system, state, steps, save_every, formulation)
    h_, t0_ = jnp.asarray(h, system.dtype), jnp.asarray(t0, system.dtype)
    state, report = assembled(system, state, t0_)
    state_of_run, first = start(system, state, report, t0_, h_, formulation, integrator)
    pieces: list[Any] = [jax.tree.map(lambda x: np.asarray(x)[None], first)]
    saves = steps // save_every
    size = _chunk_size(saves, chunks)

    def so_far() -> Solution:
        rows = jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x)), *pieces)
        n = np.arange(rows.iterations.shape[0]) * save_every
        return make_solution(times(t0_, h_, n), rows, state_of_run.result, run_stats(report, state_of_run))

    done = 0
    with tqdm(total=steps, unit="step", disable=not progress, desc=system.name, leave=False) as bar:
        try:
            while done < saves and bool(state_of_run.result == RESULTS.successful):
                now = min(size, saves - done)
                n0 = jnp.asarray(done * save_every)
                state_of_run, rows = advance(
                    system, state_of_run, t0_, h_, n0, now, save_every, formulation, integrator
                )
                pieces.append(jax.tree.map(np.asarray, rows))
                done += now
                bar.update(now * save_every)
                if on_chunk is not None:
                    on_chunk(so_far())
        except KeyboardInterrupt:
            bar.write(f"{system.name}: interrupted at step {done * save_every} of {steps}; the part before is kept")
    solution = so_far()
    if throw:
        raise_failure(system, solution)
    return solution


def _chunk_size(saves: int, chunks: int) -> int:
    """About saves / chunks, a divisor of `saves` where one is near, so that one program serves all pieces."""
    target = max(1, -(-saves // chunks))
    for size in range(target, min(saves, 4 * target) + 1):
        if saves % size == 0:
            return size
    return target
