"""Earlier names of `simulate`, kept for programs that use them: `run` and `simulate_adaptive`."""

from collections.abc import Callable
from typing import Any

from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator
from ..model.state import State
from ..model.system import System
from ..model.validation import is_concrete
from .adaptive import Adaptive
from .dynamics import simulate, simulate_in_pieces
from .requests import check_system
from .solution import Solution


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
    """`simulate(progress=True)` under its earlier name; new programs call that.

    An interruption (Ctrl-C) ends the run and returns what was computed, with `RESULTS.interrupted`.
    A failed run raises after its last good step, with the solution in the exception.

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
    check_system(system, state, "run")
    known = {"h": h, "t0": t0, "the system": system, "the state": state}
    traced = [name for name, value in known.items() if not is_concrete(value)]
    if traced:
        raise ValueError(
            f"run works on the host, but {traced[0]} is traced by JAX: call simulate inside jit, "
            "vmap and grad"
        )
    return simulate_in_pieces(
        system,
        state,
        h=h,
        t_end=t_end,
        steps=steps,
        formulation=formulation,
        integrator=integrator,
        save_every=save_every,
        t0=t0,
        throw=throw,
        progress=progress,
        on_chunk=on_chunk,
        chunks=chunks,
    )


def simulate_adaptive(
    system: System,
    state: State,
    ts: Any,
    *,
    tolerance: Any = 1e-6,
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    h0: Any = None,
    max_steps: int = 4096,
    metric: str | None = None,
    throw: bool = True,
) -> Solution:
    """`simulate(step=mbd.Adaptive(tolerance), save_at=ts)` under its earlier name; new programs
    call that.
    """
    step = Adaptive(tolerance, h0, max_steps)
    choices = {
        "formulation": formulation,
        "integrator": integrator,
        "metric": metric,
        "throw": throw,
    }
    return simulate(system, state, step=step, save_at=ts, **choices)
