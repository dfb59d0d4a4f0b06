"""Kinematics: the motion of a fully driven mechanism, and the forces it takes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations import RA, AbstractFormulation
from ..formulations.index1 import acceleration_right_side, velocity_right_side
from ..model.state import State
from ..model.system import System
from ..model.validation import is_concrete
from ..results import RESULTS
from ..rotations.types import Scalar
from ..solvers import AbstractRootProblem, NewtonOptions, implicit_root, newton
from ..solvers.implicit import save_roots
from .determined import determined
from .dynamics import assembled
from .failure import raise_failure
from .mobility import mobility
from .solution import Solution, make_row, make_solution


def kinematics(
    system: System,
    state: State,
    ts: Any,
    *,
    formulation: AbstractFormulation | None = None,
    tolerance: Any = None,
    newton_mode: str = "auto",
    throw: bool = True,
) -> Solution:
    """Positions, velocities, accelerations and multipliers of a mechanism that its drivers determine.

    A pure function that can be jitted, batched and differentiated. The state is assembled at the first instant; from
    there every instant starts from the last one.

    Args:
        system: The mechanism.
        state: Approximate poses at the first instant (twists are not used).
        ts: Instants, (T,) [s], increasing in steps that Newton's method can follow.
        formulation: `RA()` by default.
        tolerance: On the correction of coordinates, relative to the system's length; eps^0.75 by default.
        newton_mode: "auto" predicts each instant from the last with velocities and accelerations and keeps one factored
            matrix per instant, renewing it where that contracts poorly; "frozen" starts from the last position and
            keeps its matrix, as the paper's codes do.
        throw: Raise when the run fails; without effect inside `jit` or `vmap`.

    Returns:
        The motion at every instant. Multipliers come from inverse dynamics (of minimum norm where rows are redundant);
        they are NaN where bodies have no mass.

    Raises:
        ValueError: The mechanism has freedoms left (the message says how many), or cannot be assembled.
        RuntimeError: Some instant failed and `throw=True`.

    Reference:
        Kissel, Taves, Negrut, section 2.
    """
    if newton_mode not in ("auto", "frozen"):
        raise ValueError(f"newton_mode must be 'auto' or 'frozen', not {newton_mode!r}")
    formulation = formulation or RA()
    ts = jnp.atleast_1d(jnp.asarray(ts, system.dtype))
    if state.r.shape[0] != system.nb:
        raise ValueError(f"the state has {state.r.shape[0]} bodies, the system {system.nb}")
    if system.nc < 6 * system.nb:
        _refuse_freedoms(system, 6 * system.nb - system.nc, "at least ")
    state, report = assembled(system, state, ts[0])
    if is_concrete((system, state)):
        left = mobility(system, state, t=ts[0]).freedoms
        if left:
            _refuse_freedoms(system, left)
    if tolerance is None:
        tolerance = float(jnp.finfo(system.dtype).eps) ** 0.75
    solution = _kinematics(system, state, report, ts, formulation, tolerance, newton_mode)
    if throw and is_concrete(solution):
        raise_failure(system, solution)
    return solution


def _refuse_freedoms(system: System, count: int, at_least: str = "") -> None:
    raise ValueError(
        f"kinematics needs a mechanism without freedoms, but {system.name!r} has {at_least}{count} left; add "
        "drivers (RotationDriver, TranslationDriver) or use simulate"
    )


class _Position(AbstractRootProblem):
    """Φ(retract(q, δ), t) = 0 in the unknown δ, reduced to as many equations by the rows at q."""

    formulation: AbstractFormulation
    frozen: bool = eqx.field(static=True)

    def _moved(self, delta, args):
        system, q, _ = args
        return jax.vmap(self.formulation.retract)(q, delta.reshape(system.nb, self.formulation.size))

    def residual(self, delta: Float[Array, " n"], args) -> Float[Array, " n"]:
        system, _, guess = args
        return guess.reduce(self.formulation.phi(system, self._moved(delta, args)))

    def factors(self, delta: Float[Array, " n"], args) -> Any:
        system, _, guess = args
        increment = delta.reshape(system.nb, self.formulation.size)
        return determined(self.formulation, system, self._moved(delta, args), increment).reduced_factors(guess)

    def solve(self, guess, args):
        system, _, rows = args
        tolerance, active = guess
        size = self.formulation.size
        weights = jnp.ones((system.nb, size), system.dtype).at[:, :3].set(1.0 / system.length).reshape(-1)
        factors = rows.quasi_factors()
        options = NewtonOptions(
            tolerance, max_steps=20, max_exact_steps=0 if self.frozen else 20, estimate_error=not self.frozen
        )
        norm = jnp.linalg.norm if self.frozen else (lambda delta: jnp.max(jnp.abs(delta) * weights))
        x0 = jnp.zeros(system.nb * size, system.dtype)
        delta, info = newton(
            lambda x: self.residual(x, args),
            lambda x: factors,
            lambda x: self.factors(x, args),
            norm,
            x0,
            options,
            active,
        )
        # Rows that contradict each other leave a least-squares point that is no root.
        phi = self.formulation.phi(system, self._moved(delta, args))
        met = jnp.max(jnp.abs(phi)) <= 1e3 * tolerance * jnp.maximum(system.length, 1.0)
        converged = info.converged & met
        info = eqx.tree_at(lambda i: i.converged, info, converged)
        return jnp.where(converged, delta, 0.0), info


@eqx.filter_jit
def _kinematics(system, state, report, ts, formulation, tolerance, mode: str) -> Solution:
    q, _ = formulation.from_state(state)
    n = (system.nb, formulation.size)
    zero = jnp.zeros(n, system.dtype)
    problem = _Position(formulation, mode == "frozen")

    def instant(carry, t):
        q, u, a, t_last, result = carry
        active = result == RESULTS.successful
        q, u, a = formulation.rechart(q, u, a)
        dt = t - t_last
        if mode == "auto":
            q = jax.lax.stop_gradient(jax.vmap(formulation.retract)(q, dt * u + 0.5 * dt * dt * a))
        else:
            q = jax.lax.stop_gradient(q)
        now, f_dot, f_ddot = system.jet(t)
        guess_rows = jax.lax.stop_gradient(determined(formulation, now, q))
        delta, info = implicit_root(problem, (tolerance, active), (now, q, guess_rows))
        q_new = jax.vmap(formulation.retract)(q, delta.reshape(n))
        u_new, a_new, lam, singular = _rates(formulation, now, f_dot, f_ddot, q_new, t)
        failed = active & ~(info.converged & ~singular)
        why = RESULTS.where(jnp.isfinite(info.correction), RESULTS.newton_max_steps, RESULTS.non_finite)
        result = RESULTS.where(failed, RESULTS.where(singular, RESULTS.singular, why), result)
        ok = result == RESULTS.successful
        q, u, a = jax.tree.map(lambda x, y: jnp.where(ok, x, y), (q_new, u_new, a_new), (q, u, a))
        row = make_row(formulation, system, q, u, a, lam, info.iterations, ok)
        return (q, u, a, jnp.where(ok, t, t_last), result), row

    result = RESULTS.where(report.closed, RESULTS.successful, RESULTS.assembly_failed)
    instant = jax.checkpoint(instant, policy=save_roots, prevent_cse=False)
    (*_, result), rows = jax.lax.scan(instant, (q, zero, zero, ts[0], result), ts)
    completed = jnp.sum(jnp.isfinite(rows.pose.r[:, 0, 0]))
    stats = {
        "assembly_displacement": report.displacement,
        "assembly_rotation": report.rotation,
        "completed_instants": completed,
    }
    return make_solution(ts, rows, result, stats)


def _rates(formulation: AbstractFormulation, system: System, f_dot, f_ddot, q, t: Scalar):
    """Velocities, accelerations and multipliers at a position, all from one factorisation; whether it was singular."""
    rows = determined(formulation, system, q)
    shape = (system.nb, formulation.size)
    nu = velocity_right_side(formulation, system, f_dot, q)
    u = rows.velocities(nu)
    singular = rows.singular(u, nu)
    u = u.reshape(shape)
    a = rows.velocities(acceleration_right_side(formulation, system, f_ddot, q, u)).reshape(shape)
    if system.massless:
        return u, a, jnp.full(nu.size, jnp.nan, nu.dtype), singular
    force, torque = formulation.applied(system, q, u, t)
    balance = jax.vmap(formulation.body_balance)(system.mass, system.inertia, q, u, a, force, torque).reshape(-1)
    return u, a, rows.multipliers(-balance), singular
