"""Kinematics: the motion of a fully driven mechanism, and the forces it takes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..equations.index3 import check_settings
from ..equations.kinematic_solve import determining_rows
from ..equations.motion import unbalanced
from ..equations.rows import acceleration_right_side, phi, velocity_right_side
from ..formulations import RA, AbstractFormulation
from ..formulations.base import Coordinates
from ..integrators import Motion
from ..model.compiled import Compiled, compiled_once
from ..model.state import State
from ..model.system import System
from ..model.validation import Numbers, as_jax, is_concrete
from ..outcomes import RESULTS, ended_as
from ..results.saved_rows import Row, make_row, make_solution
from ..results.solution import Solution
from ..rotations.types import Scalar
from ..solvers import AbstractRootProblem, Functions, Newton, NewtonOptions, Start, implicit_root
from ..solvers import newton as newton_method
from ..xla.checkpoint import checkpointed, saved
from ..xla.cpu_fusion import one_kernel
from .assembly import AssemblyReport
from .mobility import mobility
from .running.checks import (
    check_memory,
    check_system,
    chosen_formulation,
    instants,
    needs_state,
    row_size,
    solved_by,
    valid_numbers,
)
from .running.chunked_run import HostLoop, counted_loop
from .running.failure import raise_failure
from .running.initial_state import angles_ahead, assembled, checked_motion, outcome_of_assembly
from .running.warnings import warn_of_lost_contact


@needs_state
def kinematics(
    system: System,
    state: State,
    ts: Numbers,
    *,
    formulation: AbstractFormulation | None = None,
    newton: Newton | None = None,
    linear_solver: str | None = None,
    throw: bool = True,
    progress: bool = False,
) -> Solution:
    """Positions, velocities, accelerations and multipliers of a mechanism that its drivers
    determine.

    A pure function that can be jitted, batched and differentiated. The state is assembled at the
    first instant; from there every instant starts from the last one.

    Args:
        system: The mechanism.
        state: Approximate poses at the first instant (twists are not used).
        ts: Instants, (T,) [s], increasing in steps that Newton's method can follow.
        formulation: `RA()` by default.
        newton: Settings of Newton's method; the tolerance is on the correction of coordinates,
            relative to the system's length. With `exact=False` an instant starts from the last
            position and keeps its matrix, as the paper's codes do; otherwise it is predicted from
            the last with velocities and accelerations.
        linear_solver: As in `simulate`.
        throw: Raise when the run fails; without effect inside `jit` or `vmap`.
        progress: As in `simulate`.

    Returns:
        The motion at every instant. Multipliers come from inverse dynamics (of minimum norm where
        rows are redundant); they are NaN where bodies have no mass.

    Raises:
        ValueError: The mechanism has degrees of freedom left (the message says how many), or cannot
            be assembled.
        RuntimeError: Some instant failed and `throw=True`.

    Reference:
        Kissel, Taves, Negrut, section 2.
    """
    check_system(system, state, "kinematics")
    system = solved_by(system, linear_solver)
    settings = Newton() if newton is None else newton
    check_settings("kinematics", settings)
    formulation = chosen_formulation(formulation)
    _refuse_unsuited(system)
    ts = instants(ts, system.dtype, "kinematics")
    check_memory(system, len(ts), "ask for fewer instants")
    given = state = system.with_turns(state)
    state, report = assembled(system, state, ts[0], velocities=False)
    if is_concrete((system, state)):
        left = mobility(system, state, t=ts[0]).freedoms
        if left:
            _refuse_freedoms(system, left)
    tolerance = settings.tolerance
    if tolerance is None:
        tolerance = float(jnp.finfo(system.dtype).eps) ** 0.75
    bare = system.unnamed()
    begin = _begin(bare, given, state, report, ts[0], formulation)
    options = {"formulation": formulation, "mode": "frozen" if settings.exact is False else "auto"}
    stats = {"assembly_displacement": report.displacement, "assembly_rotation": report.rotation}

    def solution_of(rows: Row, run: _Carry) -> Solution:
        # A row of the host's loop is NaN where it was not reached.
        completed = jnp.sum(jnp.isfinite(rows.pose.r[:, 0, 0]))
        reached = ts[: rows.iterations.shape[0]]
        return make_solution(
            reached, rows, run.result, stats | {"completed_instants": completed}, system
        )

    if is_concrete((system, begin, ts, tolerance, formulation)):
        tolerance = as_jax(tolerance, system.dtype)
        march = _march.for_work(len(ts) * system.nb, (bare, options["mode"], formulation))

        def piece(run: _Carry, first: np.ndarray, count: np.ndarray, size: int):
            padded = np.asarray(ts)[np.minimum(np.arange(size) + int(first), len(ts) - 1)]
            return march(bare, run, jax.device_put(padded), count, tolerance, **options)

        loop = HostLoop(
            piece,
            lambda run: ended_as(run.result, RESULTS.successful),
            solution_of,
            system.name,
            unit="instant",
        )
        solution = loop.run(begin, row_size(system), len(ts), progress=progress)
        if throw:
            raise_failure(system, solution, state)
        if not system.massless:
            warn_of_lost_contact(system, solution)
        return solution
    if progress:
        raise ValueError(
            "kinematics: progress works on the host, outside jit, vmap and grad; leave it out"
        )
    run, rows = _advance(bare, begin, ts, tolerance, **options)
    return solution_of(rows, run)


def _refuse_unsuited(system: System) -> None:
    """Raise ValueError for elements that kinematics does not treat, or fewer rows than needed."""
    system.refuse_velocity_rows("kinematics")
    system.refuse_elements_with_states("kinematics", "leave them out, or simulate the motion")
    system.refuse_laws("kinematics", "leave them out")
    if system.nc < 6 * system.nb:
        _refuse_freedoms(system, 6 * system.nb - system.nc, "at least ")


def _refuse_freedoms(system: System, count: int, at_least: str = "") -> None:
    raise ValueError(
        f"kinematics needs a mechanism without degrees of freedom, but {system.name!r} has "
        f"{at_least}{count} left; add drivers (RotationDriver, TranslationDriver) or use simulate"
    )


class _Position(AbstractRootProblem):
    """Φ(retract(q, δ), t) = 0 in the unknown δ in `System.units`, reduced to as many equations by
    the rows at q.
    """

    formulation: AbstractFormulation
    frozen: bool = eqx.field(static=True)

    def increment(self, x: Float[Array, " n"], system: System) -> Float[Array, "nb d"]:
        """δ of all bodies [m, rad]."""
        size = self.formulation.size
        return x.reshape(system.nb, size) * system.units(size)[None, :]

    def _moved(self, x: Float[Array, " n"], args: PyTree):
        system, q, _ = args
        return jax.vmap(self.formulation.retract)(q, self.increment(x, system))

    def residual(self, x: Float[Array, " n"], args: PyTree) -> Float[Array, " n"]:
        system, _, guess = args
        return guess.reduce(phi(self.formulation, system, self._moved(x, args)))

    def factors(self, x: Float[Array, " n"], args: PyTree) -> Any:
        system, _, guess = args
        increment = self.increment(x, system)
        return determining_rows(
            self.formulation, system, self._moved(x, args), increment, guess.sizes
        ).reduced_factors(guess)

    def solve(self, guess: PyTree, args: PyTree):
        system, _, rows = args
        tolerance, active = guess
        factors = rows.quasi_factors()
        options = NewtonOptions(
            tolerance,
            max_steps=20,
            max_exact_steps=0 if self.frozen else 20,
            contraction=float("inf") if self.frozen else 0.5,
            estimate_error=not self.frozen,
        )

        def norm(delta: Float[Array, " n"]):
            if self.frozen:  # the paper's criterion, in meters and radians
                return jnp.linalg.norm(self.increment(delta, system))
            return jnp.max(jnp.abs(delta))

        x0 = jnp.zeros(system.nb * self.formulation.size, system.dtype)
        equations = Functions(
            lambda x: self.residual(x, args),
            lambda x: factors,
            lambda x: self.factors(x, args),
            norm,
        )
        delta, info = newton_method(equations, Start(x0), options, active)
        # Rows that contradict each other leave a least-squares point that is no root.
        gaps = phi(self.formulation, system, self._moved(delta, args))
        met = jnp.max(jnp.abs(gaps / rows.sizes)) <= 1e3 * tolerance
        converged = info.converged & met
        info = eqx.tree_at(lambda i: i.converged, info, converged)
        return jnp.where(converged, delta, 0.0), info


class _Carry(eqx.Module):
    """State of a run: coordinates, their rates and angles at the last good instant, and the outcome
    so far.
    """

    q: Any
    u: Float[Array, "nb d"]
    a: Float[Array, "nb d"]
    angles: Float[Array, " w"]
    t: Scalar
    result: RESULTS


@compiled_once
def _begin(
    system: System,
    given: State,
    state: State,
    report: AssemblyReport,
    t0: Scalar,
    formulation: AbstractFormulation,
) -> _Carry:
    q, _ = formulation.from_state(state)
    zero = jnp.zeros((system.nb, formulation.size), system.dtype)
    result = outcome_of_assembly(report, RESULTS.successful)
    held = eqx.tree_at(
        lambda s: (s.v, s.omega), given, (jnp.zeros_like(given.v), jnp.zeros_like(given.omega))
    )
    result = RESULTS.where(valid_numbers(system, held, t0), result, RESULTS.invalid_input)
    angles = system.wound(given.angles).angle_values(RA().with_ground(state.pose))
    return _Carry(q, zero, zero, angles, t0, result)


@Compiled
def _advance(
    system: System,
    carry: _Carry,
    ts: Float[Array, " T"],
    tolerance: Scalar | float,
    *,
    formulation: AbstractFormulation,
    mode: str,
) -> tuple[_Carry, Row]:
    """The run after all instants, and their rows; this loop can be differentiated."""
    instant = _instant(system, tolerance, formulation, mode)
    instant = checkpointed(instant)
    return one_kernel(lambda carry, ts: jax.lax.scan(instant, carry, ts), carry, ts)


@Compiled
def _march(
    system: System,
    carry: _Carry,
    ts: Float[Array, " T"],
    count: Int[Array, ""],
    tolerance: Scalar | float,
    *,
    formulation: AbstractFormulation,
    mode: str,
) -> tuple[_Carry, Row]:
    """The run after the first `count` instants, and their rows; a loop whose length does not
    recompile.
    """
    return counted_loop(
        _instant(system, tolerance, formulation, mode),
        carry,
        lambda m: ts[m],
        count,
        len(ts),
        lambda c: c.result,
    )


def _instant(
    system: System, tolerance: Scalar | float, formulation: AbstractFormulation, mode: str
):
    """A function that solves for one instant from the last one."""
    problem = _Position(formulation, mode == "frozen")

    def instant(carry: _Carry, t: Scalar) -> tuple[_Carry, Row]:
        result = carry.result
        active = result == RESULTS.successful
        q, u, a = formulation.rechart(carry.q, carry.u, carry.a)
        dt = t - carry.t
        if mode == "auto":
            q = jax.lax.stop_gradient(jax.vmap(formulation.retract)(q, dt * u + 0.5 * dt * dt * a))
        else:
            q = jax.lax.stop_gradient(q)
        # Couplings and cams are rows of angles and of places of contact, which go on.
        moved = Motion(carry.q, carry.u, carry.a, jnp.zeros(0, system.dtype))
        wound = system.wound(angles_ahead(system, formulation, moved, carry.angles, dt))
        now, f_dot, f_ddot = wound.jet(t)
        guess_rows = jax.lax.stop_gradient(determining_rows(formulation, now, q))
        delta, info = implicit_root(problem, (tolerance, active), (now, q, guess_rows))
        q_new = jax.vmap(formulation.retract)(q, problem.increment(delta, now))
        u_new, a_new, lam, singular = _rates(formulation, now, f_dot, f_ddot, q_new, t)
        why = RESULTS.where(
            jnp.isfinite(info.correction), RESULTS.newton_max_steps, RESULTS.non_finite
        )
        why = RESULTS.where(singular, RESULTS.singular, why)
        why = RESULTS.where(info.converged & ~singular, RESULTS.successful, why)
        poses = jax.vmap(formulation.pose)(formulation.with_ground(q_new))
        why = checked_motion(wound, poses, t, why)
        result = RESULTS.where(active, why, result)
        ok = saved(result == RESULTS.successful)
        angles = jnp.where(ok, wound.angle_values(poses), carry.angles)
        q, u, a = jax.tree.map(lambda x, y: jnp.where(ok, x, y), (q_new, u_new, a_new), (q, u, a))
        row = make_row(formulation, system.wound(angles), q, u, a, lam, info.iterations, ok)
        return _Carry(q, u, a, angles, jnp.where(ok, t, carry.t), result), row

    return instant


def _rates(
    formulation: AbstractFormulation,
    system: System,
    f_dot: Float[Array, " nc"],
    f_ddot: Float[Array, " nc"],
    q: Coordinates,
    t: Scalar,
):
    """Velocities, accelerations and multipliers at a position from one factorization, and whether
    that was singular.
    """
    rows = determining_rows(formulation, system, q)
    shape = (system.nb, formulation.size)
    nu = velocity_right_side(formulation, system, f_dot, q)
    u = rows.velocities(nu)
    singular = rows.singular(u, nu)
    u = u.reshape(shape)
    a = rows.velocities(acceleration_right_side(formulation, system, f_dot, f_ddot, q, u)).reshape(
        shape
    )
    if system.massless:
        return u, a, jnp.full(nu.size, jnp.nan, nu.dtype), singular
    return (
        u,
        a,
        rows.multipliers(-unbalanced(formulation, system, q, u, a, t).reshape(-1)),
        singular,
    )
