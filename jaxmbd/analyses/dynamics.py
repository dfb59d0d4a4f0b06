"""Dynamics: integrate a mechanism from a state."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations import RA, AbstractFormulation
from ..formulations.index1 import dynamic_accelerations
from ..integrators import AbstractIntegrator, ImplicitEuler, Motion
from ..model.state import State
from ..model.system import System
from ..model.validation import is_concrete
from ..results import RESULTS
from ..rotations.types import Scalar
from ..solvers.implicit import save_roots
from .assembly import AssemblyReport, assemble
from .failure import raise_failure, refuse_redundant_drivers, refuse_wrong_branch
from .solution import Row, Solution, make_row, make_solution


class Progress(eqx.Module):
    """Where a run is: the motion at the last good step, the steps done without failure, the outcome so far."""

    motion: Motion
    completed: jax.Array
    result: RESULTS


def simulate(
    system: System,
    state: State,
    *,
    h: Any,
    t_end: float | None = None,
    steps: int | None = None,
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    save_every: int = 1,
    t0: Any = 0.0,
    checkpoints: int = 1,
    throw: bool = True,
) -> Solution:
    """Integrate the equations of motion; a pure function that can be jitted, batched and differentiated.

    The state is assembled first where it is not consistent; `stats` says what moved.

    Args:
        system: The mechanism; see `Mechanism.build`.
        state: Poses and twists at t0.
        h: Step size [s]; a changed value does not recompile.
        t_end: Final time [s]; the number of steps is the least that reaches it. Give this or `steps`.
        steps: Number of steps; with it, `h` may be traced.
        formulation: `RA()` by default, or `RP()`, `REps()`.
        integrator: `ImplicitEuler()` by default.
        save_every: Save every k-th step; the number of steps must be a multiple of it.
        t0: Initial time [s]; instants are t0 + n h exactly.
        checkpoints: For reverse-mode derivatives of long runs: with more than one, the backward pass keeps the state at
            so many instants only and runs the steps between them again, about one more forward run for memory of
            steps / checkpoints + checkpoints instead of steps. Without effect on the result.
        throw: Raise when the run fails; without effect inside `jit` or `vmap`, where `result` tells.

    Returns:
        The motion at t0 and at every saved step. Rows after a failure are NaN.

    Raises:
        ValueError: The request makes no sense: neither t_end nor steps, bodies without mass, another mechanism's state.
        RuntimeError: The run failed and `throw=True`; the message names the time, the joint and the cure.

    Reference:
        Kissel, Taves, Negrut, section 3.
    """
    formulation, integrator = formulation or RA(), integrator or ImplicitEuler()
    steps = count_steps(h, t_end, steps, t0)
    check_request(system, state, steps, save_every, formulation)
    saves = steps // save_every
    chunks = _chunks(saves, save_every, checkpoints)
    h, t0 = jnp.asarray(h, system.dtype), jnp.asarray(t0, system.dtype)
    state, report = assembled(system, state, t0)
    # Two programs: the start does not depend on the number of steps, so a longer run compiles the stepping only.
    progress, first = start(system, state, report, t0, h, formulation, integrator)
    zero = jnp.zeros((), int)
    progress, rows = advance(system, progress, t0, h, zero, saves, save_every, formulation, integrator, chunks)
    rows = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rows)
    t = times(t0, h, np.arange(saves + 1) * save_every)
    solution = make_solution(t, rows, progress.result, run_stats(report, progress))
    if throw and is_concrete(solution):
        raise_failure(system, solution)
    return solution


def times(t0: Scalar, h: Scalar, n: np.ndarray) -> Float[Array, " T"]:
    """The instants t0 + n h."""
    return t0 + jnp.asarray(n, h.dtype) * h


def count_steps(h: Any, t_end: float | None, steps: int | None, t0: Any = 0.0) -> int:
    """The static number of steps, from `steps` or from concrete `t_end` and `h`."""
    if (t_end is None) == (steps is None):
        raise ValueError("give either t_end or steps")
    known = is_concrete((h, t0))
    if known and not float(np.asarray(h)) > 0.0:
        raise ValueError(f"the step size h must be positive, not {float(np.asarray(h))}")
    if steps is None:
        if not (known and is_concrete(t_end)):
            raise ValueError("the number of steps must be static: with a traced h or t_end give steps=")
        ratio = (float(np.asarray(t_end)) - float(np.asarray(t0))) / float(np.asarray(h))
        if not np.isfinite(ratio):
            raise ValueError(f"t_end must be a finite time, not {t_end}")
        steps = int(np.ceil(ratio - 1e-6))
    if steps < 1:
        raise ValueError(f"nothing to do: the number of steps is {steps}; t_end must lie after the initial time")
    return int(steps)


def check_request(system: System, state: State, steps: int, save_every: int, formulation: AbstractFormulation) -> None:
    """Refuse what cannot be simulated."""
    if state.r.shape[0] != system.nb:
        raise ValueError(f"the state has {state.r.shape[0]} bodies, the system {system.nb}")
    if system.massless:
        names = ", ".join(system.massless)
        raise ValueError(f"dynamics needs mass and inertia of every body; missing for {names}")
    if save_every < 1 or steps % save_every:
        raise ValueError(f"save_every={save_every} must divide the number of steps, {steps}")
    formulation.check(system)


def assembled(system: System, state: State, t: Scalar) -> tuple[State, AssemblyReport]:
    """The assembled state; refuses an open mechanism where that can be seen, otherwise the result code tells."""
    state, report = assemble(system, state, t=t)
    if is_concrete(report):
        refuse_wrong_branch(system, state, report, t)
        if is_concrete((system, state)):
            refuse_redundant_drivers(system, state, t)
    return state, report


def run_stats(report: AssemblyReport, progress: Progress) -> dict[str, Any]:
    """The numbers of a run."""
    return {
        "assembly_displacement": report.displacement,
        "assembly_rotation": report.rotation,
        "assembly_velocity": report.velocity,
        "assembly_angular_velocity": report.angular_velocity,
        "assembly_iterations": report.iterations,
        "completed_steps": progress.completed,
    }


@eqx.filter_jit
def start(system, state, report, t0, h, formulation, integrator) -> tuple[Progress, Row]:
    """Consistent accelerations and multipliers at the first instant, and the first row."""
    motion, row, result = first_row(system, state, report, t0, formulation)
    motion = integrator.start(formulation, system, motion, t0, h)
    _, extra = integrator.observed(formulation, system, motion, t0)
    row = eqx.tree_at(lambda r: r.extra, row, row.extra | extra, is_leaf=lambda x: isinstance(x, dict))
    return Progress(motion, jnp.zeros((), int), result), row


def first_row(system, state, report, t0, formulation) -> tuple[Motion, Row, RESULTS]:
    """The motion at the first instant, before any method, and whether it could be found."""
    q, u = formulation.from_state(state)
    a, lam = dynamic_accelerations(formulation, system, q, u, t0)
    finite = jnp.all(jnp.isfinite(a)) & jnp.all(jnp.isfinite(lam))
    result = RESULTS.where(finite, RESULTS.successful, RESULTS.singular)
    result = RESULTS.where(report.closed, result, RESULTS.assembly_failed)
    ok = result == RESULTS.successful
    return Motion(q, u, a, lam), make_row(formulation, system, q, u, a, lam, jnp.zeros((), int), ok), result


def _chunks(saves: int, save_every: int, checkpoints: int) -> tuple[int, int]:
    """Chunks of saves, and of the steps within a save, that make the number of checkpoints."""
    if checkpoints >= 1 and saves % checkpoints == 0:
        return checkpoints, 1
    if checkpoints >= 1 and checkpoints % saves == 0 and save_every % (checkpoints // saves) == 0:
        return saves, checkpoints // saves
    raise ValueError(
        f"checkpoints={checkpoints} must divide the number of saved rows, {saves}, or be a multiple of it that divides "
        f"the number of steps, {saves * save_every}"
    )


def _scan(function, carry, xs, chunks: int):
    """`jax.lax.scan`, whose reverse mode keeps the carry of every chunk and computes the chunk again."""
    if chunks == 1:
        return jax.lax.scan(function, carry, xs)
    pieces = jax.tree.map(lambda x: x.reshape(chunks, x.shape[0] // chunks, *x.shape[1:]), xs)
    inner = jax.checkpoint(lambda carry, x: jax.lax.scan(function, carry, x), prevent_cse=False)
    carry, ys = jax.lax.scan(inner, carry, pieces)
    return carry, jax.tree.map(lambda y: y.reshape(-1, *y.shape[2:]), ys)


@eqx.filter_jit
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
) -> tuple[Progress, Row]:
    """Take saves x save_every steps from step n0 on; one row per save."""

    def step(progress: Progress, n):
        t = t0 + n.astype(h.dtype) * h
        active = progress.result == RESULTS.successful
        new, info = integrator.step(formulation, system, progress.motion, t, h, active)
        ok = active & info.converged & ~info.singular
        # The last good motion stays in place: a failed member of a batch keeps finite values and derivatives.
        motion = jax.tree.map(lambda a, b: jnp.where(ok, a, b), new, progress.motion)
        why = RESULTS.where(jnp.isfinite(info.correction), RESULTS.newton_max_steps, RESULTS.non_finite)
        why = RESULTS.where(info.converged, RESULTS.singular, why)
        result = RESULTS.where(active & ~ok, why, progress.result)
        return Progress(motion, progress.completed + ok.astype(int), result), info.iterations

    step = jax.checkpoint(step, policy=save_roots, prevent_cse=False)

    def save(progress: Progress, m):
        first = n0 + m * save_every + 1
        if save_every == 1:
            progress, iterations = step(progress, first)
        else:
            progress, each = _scan(step, progress, first + jnp.arange(save_every), chunks[1])
            iterations = jnp.sum(each)
        t = t0 + (first + save_every - 1).astype(h.dtype) * h
        motion, extra = integrator.observed(formulation, system, progress.motion, t)
        ok = progress.result == RESULTS.successful
        row = make_row(formulation, system, motion.q, motion.u, motion.a, motion.lam, iterations, ok, extra)
        return progress, row

    return _scan(save, progress, jnp.arange(saves), chunks[0])
