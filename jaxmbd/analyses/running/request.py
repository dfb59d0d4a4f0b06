"""The arguments of `simulate` that its kinds of runs share."""

import dataclasses
from collections.abc import Callable

from ...formulations import AbstractFormulation
from ...integrators import AbstractIntegrator
from ...model.validation import Numbers
from ...results.solution import Solution
from .schedule import Inputs


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """Arguments of `simulate` by their names there, before they are checked."""

    h: Numbers | None
    t_end: Numbers | None
    steps: Numbers | None
    formulation: AbstractFormulation | None
    integrator: AbstractIntegrator | None
    linear_solver: str | None
    inputs: Inputs | None
    save_every: int
    t0: Numbers
    checkpoints: int
    metric: str | None
    throw: bool
    progress: bool
    on_chunk: Callable[[Solution], None] | None
