"""Periodic motion: orbits that return to where they started, by shooting, and their stability."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from ...equations.index1 import closest_position, closest_velocity
from ...formulations import RA, AbstractFormulation
from ...integrators import AbstractIntegrator
from ...linalg.linear_solve import held
from ...model.compiled import Compiled, runs_now
from ...model.readable import readable
from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers, as_jax, is_concrete
from ...outcomes import RESULTS, ended_as
from ...results.saved_rows import make_solution
from ...results.solution import Solution
from ...rotations import so3
from ...rotations.types import Scalar
from ..assembly import AssemblyReport
from ..fixed_steps import has_least, run_stats, times
from ..mobility import mobility
from ..running.checks import (
    check_system,
    chosen_formulation,
    chosen_integrator,
    count_steps,
    needs_state,
)
from ..running.initial_state import InitialState, assembled
from ..running.one_step import FixedSteps
from ..running.run_start import start_run
from ..running.step_loops import Saves, advance
from ..statics.equilibrium_failure import EquilibriumError
from .small_motions import free_displacements

_CLOSING = 3  # corrections that close the joints of a start
_RESIDUAL = 0.62  # exponent of eps: what may be left of the closure of an orbit
_SAME = 0.5  # exponent of eps: singular values, relative, along which orbits are a family


class Periodic(eqx.Module):
    """A periodic motion; a pytree.

    Attributes:
        state: Where it starts.
        period: [s].
        multipliers: Floquet's, (2f,): what a small disturbance is multiplied with in a period. All
            below one in size: the orbit attracts. An orbit without a driver has one that is one.
        monodromy: The matrix whose eigenvalues they are, in coordinates of the small displacements
            and rates that the joints allow, (2f, 2f).
        residual: By how much the orbit does not close, relative: displacements to the system's
            length, rates to that over the period.
        iterations: Of Newton's method.
        result: Outcome, one of `RESULTS`.
        motion: One period of it.
    """

    state: State
    period: Scalar
    multipliers: Complex[Array, " x"]
    monodromy: Float[Array, "x x"]
    residual: Scalar
    iterations: Int[Array, ""]
    result: RESULTS
    motion: Solution

    def __repr__(self) -> str:
        from ..summaries import of_periodic

        return readable(self, of_periodic)


@needs_state
def periodic(
    system: System,
    state: State,
    *,
    period: Numbers,
    steps: int,
    autonomous: bool = False,
    t0: Numbers = 0.0,
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    freedoms: int | None = None,
    max_iterations: int = 20,
    throw: bool = True,
) -> Periodic:
    """Find the periodic motion near a state, by shooting with exact derivatives of the simulated
    motion.

    The orbit closes under the integrator's own steps, in the displacements and rates that the
    joints allow; what a method leaves of velocities across the joints is not counted.
    Differentiable by the implicit function theorem in everything but the state, which is a guess.

    Where orbits are a family, Newton's method goes to one near the guess by steps of least size.
    Without a driver an orbit may start anywhere on itself. Without damping every amplitude has one;
    it needs a method that conserves energy, such as `EnergyMomentum` from a start at rest, since
    others let the motion die away, or repeat at an amplitude that means nothing. Derivatives of
    what differs within a family are those of the least change.

    Args:
        system: The mechanism; its drivers and loads repeat after the period.
        state: Near the orbit at t0; it is assembled first.
        period: [s]; with `autonomous` a guess.
        steps: Steps of a period.
        autonomous: Whether nothing depends on time, so that the period is unknown as well.
        t0: Initial time [s].
        formulation: As in `simulate`.
        integrator: As in `simulate`.
        freedoms: Number of degrees of freedom; needed under `jit`, `grad` and `vmap` alone.
        max_iterations: Limit of Newton's method.
        throw: Raise where no orbit is found; without effect inside `jit` or `vmap`.

    Returns:
        The orbit.

    Raises:
        ValueError: No degree of freedom is left, joints constrain velocities, or the period is not
            positive.
        EquilibriumError: No orbit was found and `throw=True`.

    Reference:
        Peeters et al., "Nonlinear normal modes, part II: toward a practical computation using
        numerical continuation techniques", Mechanical Systems and Signal Processing 23 (2009), for
        shooting with exact derivatives of the time integration.
    """
    check_system(system, state, "periodic")
    system.refuse_elements_with_states("periodic", "leave them out, or simulate the motion")
    system.refuse_laws("periodic", "leave them out")
    system.refuse_events("periodic")
    if system.nonholonomic:
        system.refuse_velocity_rows("periodic", "simulate until the motion repeats")
    dtype = system.dtype
    period, t0 = (
        as_jax(x, dtype) if is_concrete(x) else jnp.asarray(x, dtype) for x in (period, t0)
    )
    if is_concrete(period) and not (np.isfinite(float(period)) and float(period) > 0.0):
        raise ValueError(f"periodic: the period must be positive, not {float(period)}")
    state = system.with_turns(state)
    base, report = assembled(system, state, t0)
    if freedoms is None:
        if not is_concrete((system, base)):
            raise ValueError("periodic: under jit, grad or vmap give freedoms=")
        freedoms = mobility(system, base, t=t0).freedoms
    if not freedoms:
        raise ValueError(
            f"periodic: {system.name!r} has no degree of freedom left; its drivers determine it: "
            "use kinematics"
        )
    formulation, integrator = chosen_formulation(formulation), chosen_integrator(integrator)
    steps = count_steps(period, None, steps)
    program = _shoot
    if runs_now(system, base, period):
        # A period is run about ten times, with tangents.
        program = _shoot.for_work(10 * steps * system.nb, (system.unnamed(), steps))
    orbit = _Orbit(formulation, integrator, t0, steps, int(freedoms), bool(autonomous))
    limit = jax.device_put(np.asarray(max_iterations))
    found = program(system, base, report, period, limit, orbit)
    found = eqx.tree_at(lambda p: p.motion.system, found, system, is_leaf=lambda x: x is None)
    if throw and is_concrete(found):
        _raise_failure(found, system)
    return found


def _raise_failure(found: Periodic, system: System) -> None:
    """Raise EquilibriumError unless the orbit was found."""
    if not ended_as(found.result, RESULTS.successful):
        raise EquilibriumError(
            f"mechanism {system.name!r}: no periodic motion was found near the given state: after "
            f"{int(found.iterations)} iterations it does not close by {float(found.residual):.1e}; "
            "start closer, for instance where a simulated motion has settled, or give another "
            "period",
            found,
        )


class _Chart(eqx.Module):
    """Coordinates and rates near a state, in the small displacements Z that the joints allow; both
    relative to the system's length and the period.
    """

    base: State
    u: Float[Array, "nb 6"]
    Z: Float[Array, "n f"]
    weights: Float[Array, "1 6"]
    units: Float[Array, " x"]

    @staticmethod
    def around(system: System, base: State, t0: Scalar, period: Scalar, freedoms: int) -> "_Chart":
        """The chart at a state, held in differentiation."""
        base = held(base)
        Z = free_displacements(held(system.wound(base.angles).at(t0)), base.pose, freedoms)
        length = held(system.length)
        weights = jnp.concatenate([jnp.ones(3, Z.dtype), jnp.full(3, length**2)])[None]
        units = jnp.concatenate(
            [jnp.full(freedoms, length), jnp.full(freedoms, length / held(period))]
        )
        return _Chart(base, jnp.concatenate([base.v, base.omega], axis=1), Z, weights, units)

    def placed(self, system: System, x: Float[Array, " x"], t0: Scalar) -> State:
        """The state at small coordinates and rates, in units."""
        base, freedoms = self.base, self.Z.shape[1]
        x = self.units * x
        moved = (self.Z @ x[:freedoms]).reshape(-1, 6)
        pose = jax.vmap(RA().retract)(base.pose, moved)
        u = self.u + (self.Z @ x[freedoms:]).reshape(-1, 6)
        pose = closest_position(RA(), system, pose, t0, _CLOSING)
        u = closest_velocity(RA(), system, pose, u, t0)
        return State(pose.r, pose.A, u[:, :3], u[:, 3:], base.angles, base.element_states)

    def coordinates(self, state: State) -> Float[Array, " x"]:
        """Coordinates and rates of a state, in units."""
        base = self.base
        turn = jax.vmap(lambda A0, A: so3.log(A0.T @ A))(base.A, state.A)
        moved = jnp.concatenate([state.r - base.r, turn], axis=1)
        rates = jnp.concatenate([state.v, state.omega], axis=1) - self.u
        parts = [self.Z.T @ (self.weights * w).reshape(-1) for w in (moved, rates)]
        return jnp.concatenate(parts) / self.units


class _Orbit(eqx.Module):
    """Settings of the simulation of one period, and of its unknowns.

    Attributes:
        formulation, integrator: Of its steps.
        t0: Initial time [s].
        steps: Their number.
        freedoms: Degrees of freedom.
        autonomous: Whether the period is unknown as well.
    """

    formulation: AbstractFormulation
    integrator: AbstractIntegrator
    t0: Scalar
    steps: int = eqx.field(static=True)
    freedoms: int = eqx.field(static=True)
    autonomous: bool = eqx.field(static=True)

    def run(self, system: System, state: State, report: AssemblyReport, period: Scalar) -> Solution:
        """Simulate one period and save every step."""
        steps = FixedSteps(self.t0, period / self.steps, self.formulation, self.integrator)
        progress, first = start_run(system, InitialState(state, state, report), steps)
        progress, rows = advance(system, progress, steps, Saves(self.steps, 1))
        rows = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rows)
        t, least = times(steps, np.arange(self.steps + 1)), has_least(progress)
        stats = run_stats(report, progress)
        return make_solution(t, rows, progress.result, stats, least=least)


@Compiled
def _shoot(
    system: System,
    base: State,
    report: AssemblyReport,
    period: Scalar,
    limit: Int[Array, ""],
    orbit: _Orbit,
) -> Periodic:
    t0, freedoms, autonomous = orbit.t0, orbit.freedoms, orbit.autonomous
    chart = _Chart.around(system, base, t0, period, freedoms)
    dtype = chart.Z.dtype

    def run(system: System, x: Float[Array, " n"], period: Scalar) -> Solution:
        return orbit.run(system, chart.placed(system, x, t0), report, period)

    # Of the unknowns: coordinates, rates, and the period relative to its guess.
    guess = held(period)
    n = 2 * freedoms

    def both(system: System, z: Float[Array, " m"], period: Scalar) -> tuple[Array, Array]:
        """Coordinates at the start and at the end of a period."""
        sol = run(system, z[:n], guess * z[n] if autonomous else period)
        return chart.coordinates(sol.at(0)), chart.coordinates(sol.at(-1))

    still = held((system, period))

    def improve(state: tuple[Array, Array, Array, tuple[Array, Array, Array]]):
        z, _, k, _ = state

        def twice(z: Float[Array, " m"]):
            found = both(still[0], z, still[1])
            return found, found

        (first, last), (start, end) = jax.jacfwd(twice, has_aux=True)(z)
        # The least step: orbits that start elsewhere on themselves, and those of a conservative
        # mechanism, are a family.
        inverse = jnp.linalg.pinv(last - first, rtol=jnp.finfo(dtype).eps ** _SAME)
        rest = end - start
        return z - inverse @ rest, jnp.max(jnp.abs(rest)), k + 1, (inverse, first, last)

    size = n + int(autonomous)
    z0 = jnp.zeros(size, dtype)
    z0 = z0.at[n].set(1.0) if autonomous else z0
    wide = jnp.zeros((n, size), dtype)
    empty = (jnp.zeros((size, n), dtype), wide, wide)
    tolerance = jnp.finfo(dtype).eps ** _RESIDUAL
    z, _, k, (inverse, first, last) = jax.lax.while_loop(
        lambda s: (s[1] > tolerance) & (s[2] < limit),
        improve,
        (z0, jnp.asarray(jnp.inf, dtype), jnp.zeros((), int), empty),
    )
    z, inverse = held(z), held(inverse)
    begun, ended = both(system, z, period)
    rest = ended - begun
    residual = held(jnp.max(jnp.abs(rest)))
    # One more step, whose derivative is that of the orbit.
    z = z - inverse @ rest
    period = guess * z[n] if autonomous else period
    sol = run(system, z[:n], period)
    monodromy = held(jnp.linalg.solve(first[:, :n].T, last[:, :n].T).T)
    good = (residual <= 10.0 * tolerance) & jnp.all(jnp.isfinite(z))
    result = RESULTS.where(good, RESULTS.successful, RESULTS.not_periodic)
    return Periodic(
        sol.at(0),
        period,
        jnp.linalg.eigvals(monodromy),
        monodromy,
        residual,
        k,
        result,
        eqx.tree_at(lambda s: s.system, sol, None, is_leaf=lambda x: x is None),
    )
