"""One step of a motion at a time, for a caller's own loops: controllers, learning, environments."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator, Motion
from ..model.compiled import Compiled, telling_forward_mode
from ..model.state import State
from ..model.system import System
from ..model.validation import as_jax, is_concrete
from ..outcomes import RESULTS, ended_as
from ..results.columns import columns_by_name, columns_of, refuse_unknown
from ..results.solution import Solution, make_row, make_solution
from ..rotations.types import Scalar, host
from ..xla.batch_last import batched_in_lanes
from ..xla.checkpoint import checkpointed
from .dynamics import Progress, has_least, one_step, start_run
from .running.checks import (
    check_run,
    check_system,
    chosen_formulation,
    chosen_integrator,
    needs_state,
    solved_by,
)
from .running.failure import raise_failure
from .running.initial_state import assembled
from .running.schedule import Schedule, held_over, instant


class Carry(eqx.Module):
    """All that a motion takes from one step to the next; a pytree of arrays, which `jax.lax.scan`
    carries and `equinox.tree_serialise_leaves` writes. Made by `start`.

    Attributes:
        run: The motion, the method's memory, turns of angles, what earlier solves taught.
        t0: The initial time, () [s].
        h: The step size, () [s].
        formulation, integrator: Of the whole motion.
        linear_solver: As it was asked for.
    """

    run: Progress
    t0: Scalar
    h: Scalar
    formulation: AbstractFormulation
    integrator: AbstractIntegrator
    linear_solver: str | None = eqx.field(static=True)

    @property
    def steps(self) -> Array:
        """Steps that succeeded, ()."""
        return self.run.completed

    @property
    def t(self) -> Scalar:
        """The time [s]: t0 + n h, exactly; after a failure that of the last good step."""
        return self.t0 + self.run.completed.astype(self.h.dtype) * self.h

    @property
    def result(self) -> RESULTS:
        """What ended the motion, `RESULTS.successful` as long as it goes on."""
        return self.run.result

    @property
    def state(self) -> State:
        """Poses and twists at `t`, from which any analysis can begin. The velocities are those that
        the method carries; `observe` has what a solution shows, which for `EnergyMomentum` differs.
        """

        def of(motion: Motion) -> State:
            return self.formulation.to_state(motion.q, motion.u)

        for _ in range(self.run.motion.u.ndim - 2):  # of a batch
            of = jax.vmap(of)
        return dataclasses.replace(of(self.run.motion), angles=self.run.angles)


@needs_state
@telling_forward_mode
def start(
    system: System,
    state: State,
    *,
    h: Any,
    inputs: Mapping[str, Any] | None = None,
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    linear_solver: str | None = None,
    t0: Any = 0.0,
    metric: str | None = None,
    throw: bool = True,
) -> Carry:
    """The beginning of a motion that `step` goes on with: the assembled state, its accelerations
    and the memory of the method. A pure function that can be jitted, batched and differentiated.

    Args:
        system: The mechanism; see `Mechanism.build`.
        state: Poses and twists at t0; assembled first, as by `simulate`.
        h: Step size [s] of all steps.
        inputs: What the mechanism's inputs are at t0, by name, see `Input`.
        formulation: As in `simulate`.
        integrator: As in `simulate`.
        linear_solver: As in `simulate`.
        t0: Initial time [s].
        metric: Of the velocities' assembly, see `assemble`.
        throw: Raise when no motion can begin; without effect inside `jit` or `vmap`, where
            `Carry.result` tells.

    Raises:
        ValueError: The request makes no sense; an input is missing or unknown.
        RuntimeError: No motion can begin from the state; the message names the joint and the cure.
    """
    check_system(system, state, "start")
    named, system = system, solved_by(system, linear_solver)
    formulation = chosen_formulation(formulation)
    integrator = chosen_integrator(integrator, system)
    check_run(system, 1, 1, formulation, integrator)
    values = None
    if inputs is not None or not system.held:
        values = instant(system, inputs, "start")
    h, now = as_jax(h, system.dtype), host.asarray(t0, system.dtype) if is_concrete(t0) else t0
    t0 = as_jax(t0, system.dtype)
    begun = system if values is None else system.given(values, t0)
    state = system.with_turns(state)
    found, report = assembled(begun, state, now, metric=metric)
    run, row = start_run(begun, state, found, report, t0, h, formulation, integrator, values)
    carry = Carry(run, t0, h, formulation, integrator, linear_solver)
    if throw and is_concrete(carry):
        if not ended_as(carry.result, RESULTS.successful):
            rows = jax.tree.map(lambda x: x[None], row)
            failed = make_solution(t0[None], rows, run.result, {"completed_steps": 0}, named)
            raise_failure(begun, failed, found, h)
    return carry


def step(
    system: System, carry: Carry, inputs: Mapping[str, Any] | None = None, *, steps: int = 1
) -> Carry:
    """The motion some steps later; a pure function that can be jitted, scanned, batched and
    differentiated. `simulate` takes the same steps.

    Nothing is raised where a step fails: `Carry.result` says why, and the motion stays where it
    was, in a batch that of the failed element alone.

    Args:
        system: The mechanism that the motion began with; its numbers may have changed.
        carry: Of `start` or of the step before.
        inputs: What the mechanism's inputs are, by name; held over all the steps. A driver's input
            is a tuple of its value, rate and acceleration at the end of the first of them.
        steps: How many.

    Raises:
        ValueError: An input is missing, unknown or of a wrong shape.
        TypeError: The carry is none.
    """
    if not isinstance(carry, Carry):
        raise TypeError(
            f"step: the second argument must be the carry of mbd.start(system, state, h=...) or of "
            f"the step before, not {type(carry).__name__}"
        )
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"step: steps must be a positive integer, not {steps!r}")
    system = solved_by(system, carry.linear_solver)
    schedule = None
    if inputs is not None or not system.held:
        schedule = held_over(system, inputs, "step")
    run = _stepped(system, carry, schedule, steps)
    return dataclasses.replace(carry, run=run)


@Compiled
def _stepped(system: System, carry: Carry, schedule: Schedule | None, steps: int) -> Progress:
    return batched_in_lanes(
        partial(_steps_on, steps=steps),
        *(system, carry.run, carry.t0, carry.h, carry.formulation, carry.integrator, schedule),
    )


def _steps_on(
    system, run: Progress, t0, h, formulation, integrator, schedule, *, steps: int
) -> Progress:
    one = checkpointed(one_step(system, t0, h, formulation, integrator, schedule))
    first = run.completed + 1
    if steps == 1:
        return one(run, first)[0]
    return jax.lax.scan(lambda run, n: (one(run, n)[0], None), run, first + jnp.arange(steps))[0]


def observe(system: System, carry: Carry, names: str | Sequence[str]) -> Float[Array, "*n"]:
    """Quantities of a motion at its present instant, by the names that `quantities` lists; can be
    jitted, batched and differentiated.

    Returns:
        The quantities in the order of their names, (n,); of one name, a number.

    Raises:
        ValueError: There is no such quantity; the message names the nearest.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    refuse_unknown(wanted, system)
    values = columns_by_name(_row(system, carry), system, wanted)
    found = jnp.stack([jnp.asarray(x)[0] for x in values])
    return found[0] if isinstance(names, str) else found


def quantities(system: System) -> dict[str, str]:
    """All quantities that a motion of the mechanism has, with their units: what `observe`,
    `Solution` in brackets, tables, plots and `Measurements` know by these names.
    """
    return {column.name: column.unit for column in columns_of(system)}


def _row(system: System, carry: Carry) -> Solution:
    """The present instant as a solution of one row."""
    motion = carry.run.motion
    now = system.wound(carry.run.angles)
    inputs = carry.run.inputs
    if inputs is not None:
        now = now.given(inputs, carry.t)
    motion, extra = carry.integrator.observed(carry.formulation, now, motion, carry.t)
    row = make_row(
        *(carry.formulation, now, motion.q, motion.u, motion.a, motion.lam),
        jnp.zeros((), int),
        carry.result == RESULTS.successful,
        extra,
    )
    return make_solution(
        carry.t[None],
        jax.tree.map(lambda x: x[None], row),
        carry.result,
        {},
        system,
        least=has_least(carry.run),
        inputs=None if inputs is None else inputs[None],
    )
