"""Data that a motion carries from one step to the next, and the quantities that can be read from
it.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator, Motion
from ..model.compiled import Compiled
from ..model.readable import counted, known, readable
from ..model.state import State
from ..model.system import System
from ..outcomes import RESULTS
from ..results.columns import columns_by_name, columns_of, refuse_unknown
from ..results.saved_rows import make_row, make_solution
from ..results.solution import Solution
from ..rotations.types import Scalar
from ..xla.batch_last import batched_in_lanes
from ..xla.checkpoint import checkpointed
from .controllers import Control
from .fixed_steps import has_least
from .running.checks import solved_by
from .running.one_step import FixedSteps, Progress, holding, one_step
from .running.schedule import Schedule


class Carry(eqx.Module):
    """The data that a motion carries from one time step to the next; a pytree of arrays, which
    `jax.lax.scan` carries and `equinox.tree_serialise_leaves` writes. Made by `start`.

    Attributes:
        run: The motion, the method's memory, turns of angles, what earlier solves taught.
        t0: The initial time, () [s].
        h: The step size, () [s].
        formulation, integrator: Of the whole motion.
        linear_solver: As it was asked for.
        control: What a controller takes along, or None.
    """

    run: Progress
    t0: Scalar
    h: Scalar
    formulation: AbstractFormulation
    integrator: AbstractIntegrator
    linear_solver: str | None = eqx.field(static=True)
    control: Control | None = None

    def __repr__(self) -> str:
        return readable(self, _described)

    @property
    def steps(self) -> Array:
        """Steps that succeeded, ()."""
        return self.run.completed

    @property
    def t(self) -> Scalar:
        """The time [s]: t0 + n h, exactly; after a failure the time of the last good step."""
        return self.t0 + self.run.completed.astype(self.h.dtype) * self.h

    @property
    def result(self) -> RESULTS:
        """Outcome code of the motion, `RESULTS.successful` while it continues."""
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
        angles, states = self.run.angles, self.run.motion.states
        z = jnp.zeros((*angles.shape[:-1], 0), angles.dtype) if states is None else states.z
        return dataclasses.replace(of(self.run.motion), angles=angles, element_states=z)


def _described(carry: Carry) -> str:
    """One line with the time and the outcome of a motion; of a batch, the number of motions that
    continue.
    """
    method = f"{carry.integrator.name}, {carry.formulation.name}"
    if not known(carry.run.completed):
        return f"Carry: {method}"
    if np.ndim(carry.run.completed):
        good = np.asarray(carry.result == RESULTS.successful)
        return f"Carry of {good.size} motions, {int(np.sum(good))} of which go on; {method}"
    steps, t = counted(int(np.asarray(carry.steps)), "step"), float(np.asarray(carry.t))
    outcome = "" if bool(carry.result == RESULTS.successful) else f"; {RESULTS[carry.result]}"
    return f"Carry: t = {t:g} s after {steps}; {method}{outcome}"


def taken(
    system: System, carry: Carry, schedule: Schedule | None, steps: int
) -> tuple[Carry, Array]:
    """The carry after some steps, and the iterations that they took."""
    solver = solved_by(system, carry.linear_solver)
    bare = dataclasses.replace(carry, control=None)
    run, iterations = _stepped(solver, bare, schedule, steps)
    return dataclasses.replace(carry, run=run), iterations


@Compiled
def _stepped(
    system: System, carry: Carry, schedule: Schedule | None, steps: int
) -> tuple[Progress, Array]:
    fixed = FixedSteps(carry.t0, carry.h, carry.formulation, carry.integrator)
    return batched_in_lanes(partial(_steps_on, steps=steps), system, carry.run, fixed, schedule)


def _steps_on(
    system: System, run: Progress, fixed: FixedSteps, schedule: Schedule | None, *, steps: int
) -> tuple[Progress, Array]:
    one = checkpointed(one_step(system, fixed, schedule))
    first = run.completed + 1
    if steps == 1:
        return one(run, first)
    run, each = jax.lax.scan(one, run, first + jnp.arange(steps))
    return run, jnp.sum(each)


def observe(system: System, carry: Carry, names: str | Sequence[str]) -> Float[Array, "*n"]:
    """Evaluate quantities of a motion at its present instant, by the names that `quantities` lists;
    can be jitted, batched and differentiated.

    Returns:
        The quantities in the order of their names, (n,); of one name, a number.

    Raises:
        ValueError: There is no such quantity; the message names the nearest.
    """
    if isinstance(carry, State):
        raise ValueError(
            "observe: give a carry, as mbd.start and mbd.step return it, not a state: "
            "mbd.start(system, state, h=...)"
        )
    wanted = [names] if isinstance(names, str) else list(names)
    refuse_unknown(wanted, system)
    values = columns_by_name(row_of(system, carry), system, wanted)
    found = jnp.stack([jnp.asarray(x)[0] for x in values])
    return found[0] if isinstance(names, str) else found


def quantities(system: System) -> dict[str, str]:
    """Names and units of all quantities of a motion, as `observe`, `Solution` in brackets, tables,
    plots and `Measurements` use them.
    """
    return {column.name: column.unit for column in columns_of(system)}


def row_of(system: System, carry: Carry, iterations: Int[Array, ""] | int = 0) -> Solution:
    """The present instant as a solution of one row."""
    motion = carry.run.motion
    now = system.wound(carry.run.angles)
    inputs = carry.run.inputs
    if inputs is not None:
        now = now.given(inputs, carry.t)
    now = holding(now, motion)
    motion, extra = carry.integrator.observed(carry.formulation, now, motion, carry.t)
    row = make_row(
        *(carry.formulation, now, motion.q, motion.u, motion.a, motion.lam),
        jnp.asarray(iterations),
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
