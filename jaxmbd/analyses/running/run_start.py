"""The start of a run with steps of one size: accelerations, multipliers and the first row."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...equations.laws import gap_shares
from ...model.compiled import compiled_once
from ...model.system import System
from ...outcomes import RESULTS
from ...results.saved_rows import Row, make_row
from .initial_state import InitialState, first_row
from .one_step import FixedSteps, Progress
from .start_checks import INSIDE


@compiled_once
def start_run(
    system: System,
    start: InitialState,
    steps: FixedSteps,
    inputs: Float[Array, "3 n"] | None = None,
    trial: bool = True,
) -> tuple[Progress, Row]:
    """Consistent accelerations and multipliers at the first instant, and the first row; of methods
    that try a step for these, only with `trial`.
    """
    t0, h, formulation, integrator = steps.t0, steps.h, steps.formulation, steps.integrator
    system = system.at_state(start.given)
    motion = integrator.first(formulation, system, *formulation.from_state(start.state), t0, h)
    row, result = first_row(system, start, formulation, motion, t0, h)
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
