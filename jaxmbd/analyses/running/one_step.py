"""One step of a run with steps of one size, and the row that is saved of it."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ...equations.index1 import acceleration_jump
from ...formulations import AbstractFormulation
from ...integrators import AbstractIntegrator, Motion
from ...model.system import System
from ...outcomes import RESULTS
from ...results.saved_rows import Row, make_row
from ...rotations.types import Scalar
from ...xla.checkpoint import saved
from .anew import started_anew
from .initial_state import angles_ahead, blown_up, checked_motion
from .schedule import Schedule, StepNumber, earlier


class FixedSteps(eqx.Module):
    """Steps of one size by one method.

    Attributes:
        t0: Initial time [s].
        h: Step size [s].
        formulation: Coordinates.
        integrator: The step method.
    """

    t0: Scalar
    h: Scalar
    formulation: AbstractFormulation
    integrator: AbstractIntegrator

    def at(self, n: StepNumber) -> Scalar:
        """The time after n steps, t0 + n h [s]."""
        return self.t0 + n.astype(self.h.dtype) * self.h


class Progress(eqx.Module):
    """State of a run after some of its steps.

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


def one_step(
    system: System, steps: FixedSteps, schedule: Schedule | None
) -> Callable[..., tuple[Progress, Array]]:
    """A function that takes step n: it returns the last good motion with the outcome, and the
    iterations of the step.

    A step that is tried changes only the accelerations and multipliers at the first instant, one
    that is idle nothing.
    """
    h, formulation, integrator = steps.h, steps.formulation, steps.integrator

    def step(
        progress: Progress,
        n: StepNumber,
        trying: Bool[Array, ""] | None = None,
        idle: Bool[Array, ""] | None = None,
    ) -> tuple[Progress, Array]:
        if trying is not None:
            n = jnp.where(trying, 1, n)
        t = steps.at(n)
        active = progress.result == RESULTS.successful
        if idle is not None:
            active = active & ~idle
        motion, inputs = progress.motion, progress.inputs
        ahead = angles_ahead(system, formulation, motion, progress.angles, h)
        now = system.wound(ahead)
        if schedule is not None:
            inputs = schedule.at(n, t, h)
            switches = any(schedule.jumps[place] for place in system.switch_places())
            if switches or (np.any(schedule.jumps) and integrator.keeps_accelerations):
                assert progress.inputs is not None
                old = jnp.where(schedule.jumps, progress.inputs, earlier(inputs, h))
                motion = _jumped(now, motion, (old, inputs), t, steps, switches)
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
        # The last good motion stays in place: a failed batch element keeps finite values and
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
    """The system with the states of the force elements of a motion."""
    return system if motion.states is None else system.with_element_states(motion.states.z)


def _jumped(
    system: System,
    motion: Motion,
    inputs: tuple[Float[Array, "3 n"], Float[Array, "3 n"]],
    t: Scalar,
    steps: FixedSteps,
    switches: bool,
) -> Motion:
    """The motion at the beginning of the step that ends at t, with the accelerations that it has
    after the inputs have changed from those of the last step, and with the velocities after the
    impact where one has switched a joint.
    """
    (old, new), begin = inputs, t - steps.h
    system = holding(system, motion)
    before, after = system.given(old, begin), system.given(new, t)
    formulation, integrator = steps.formulation, steps.integrator

    def pushed(motion: Motion) -> Motion:
        if not integrator.keeps_accelerations:
            return motion
        change = acceleration_jump(formulation, before, after, motion.q, motion.u, begin)
        return integrator.jumped(motion, change)

    if not switches:
        return pushed(motion)

    def anew(motion: Motion) -> Motion:
        method = formulation, integrator
        return started_anew(method, (after, after), motion, (begin, steps.h))

    places = np.asarray(system.switch_places())
    changed = jnp.any((old[0, places] > 0.5) != (new[0, places] > 0.5))
    return jax.lax.cond(changed, anew, pushed, motion)


def row_after(
    system: System, progress: Progress, steps: FixedSteps, n: StepNumber, iterations: Array
) -> tuple[Progress, Row]:
    """The row of step n, which a method may find undetermined where its own step was not."""
    t = steps.at(n)
    formulation = steps.formulation
    system = system if progress.inputs is None else system.given(progress.inputs, t)
    system = holding(system, progress.motion)
    motion, extra = steps.integrator.observed(formulation, system, progress.motion, t)
    ok = progress.result == RESULTS.successful
    only_here = ok & motion.undetermined & ~progress.motion.undetermined
    progress = eqx.tree_at(
        lambda p: p.undetermined, progress, progress.undetermined + only_here.astype(int)
    )
    return progress, make_row(
        formulation,
        system.wound(progress.angles),
        *(motion.q, motion.u, motion.a, motion.lam, iterations, ok),
        extra,
    )
