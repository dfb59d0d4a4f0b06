"""Periodic motion: orbits that return to where they started, by shooting, and their stability."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from ..formulations import RA, AbstractFormulation
from ..integrators import AbstractIntegrator
from ..linalg.linear_solve import held
from ..model.state import State
from ..model.system import System
from ..model.validation import as_jax, is_concrete
from ..results import RESULTS, ended_as
from ..rotations import so3
from ..rotations.types import Scalar
from .arguments import check_system, chosen_formulation, chosen_integrator
from .assembly import assemble
from .compiled import Compiled
from .dynamics import simulate
from .equilibrium import EquilibriumError
from .mobility import mobility
from .small_motions import free_displacements
from .solution import Solution
from .starting import assembled

_RESIDUAL = 0.62  # exponent of eps: what may be left of the closure of an orbit


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
        result: Outcome, a member of `RESULTS`.
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


def periodic(
    system: System,
    state: State,
    *,
    period: Any,
    steps: int,
    autonomous: bool = False,
    t0: Any = 0.0,
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    freedoms: int | None = None,
    max_iterations: int = 20,
    throw: bool = True,
) -> Periodic:
    """The periodic motion near a state, by shooting with exact derivatives of the simulated motion.

    The orbit closes under the integrator's own steps. Differentiable by the implicit function
    theorem in everything but the state, which is a guess.

    Args:
        system: The mechanism; its drivers and loads repeat after the period.
        state: Near the orbit at t0; it is assembled first.
        period: [s]; with `autonomous` a guess.
        steps: Steps of a period.
        autonomous: Whether nothing depends on time, so that the period is unknown as well; the
            orbit then starts where its displacement from `state` is across the motion.
        t0: Initial time [s].
        formulation: As in `simulate`.
        integrator: As in `simulate`.
        freedoms: Number of freedoms; needed under `jit`, `grad` and `vmap` alone.
        max_iterations: Limit of Newton's method.
        throw: Raise where no orbit is found; without effect inside `jit` or `vmap`.

    Returns:
        The orbit.

    Raises:
        ValueError: No freedom is left, joints constrain velocities, or the period is not positive.
        EquilibriumError: No orbit was found and `throw=True`.

    Reference:
        Peeters et al., "Nonlinear normal modes, part II: toward a practical computation using
        numerical continuation techniques", Mechanical Systems and Signal Processing 23 (2009), for
        shooting with exact derivatives of the time integration.
    """
    check_system(system, state, "periodic")
    system.refuse_laws("periodic", "leave them out")
    if system.nonholonomic:
        system.refuse_velocity_rows("periodic", "simulate until the motion repeats")
    dtype = system.dtype
    period, t0 = (
        as_jax(x, dtype) if is_concrete(x) else jnp.asarray(x, dtype) for x in (period, t0)
    )
    if is_concrete(period) and not (np.isfinite(float(period)) and float(period) > 0.0):
        raise ValueError(f"periodic: the period must be positive, not {float(period)}")
    state = system.with_turns(state)
    base, _ = assembled(system, state, t0)
    if freedoms is None:
        if not is_concrete((system, base)):
            raise ValueError("periodic: under jit, grad or vmap give freedoms=")
        freedoms = mobility(system, base, t=t0).freedoms
    if not freedoms:
        raise ValueError(
            f"periodic: {system.name!r} has no freedom left; its drivers determine it: use "
            "kinematics"
        )
    formulation, integrator = chosen_formulation(formulation), chosen_integrator(integrator)
    found = _shoot(
        system,
        base,
        period,
        t0,
        jax.device_put(np.asarray(max_iterations)),
        formulation,
        integrator,
        steps=int(steps),
        freedoms=int(freedoms),
        autonomous=bool(autonomous),
    )
    found = eqx.tree_at(lambda p: p.motion.system, found, system, is_leaf=lambda x: x is None)
    if throw and is_concrete(found) and not ended_as(found.result, RESULTS.successful):
        raise EquilibriumError(
            f"mechanism {system.name!r}: no periodic motion was found near the given state: after "
            f"{int(found.iterations)} iterations it does not close by {float(found.residual):.1e}; "
            "start closer, for instance where a simulated motion has settled, or give another "
            "period",
            found,
        )
    return found


@Compiled
def _shoot(
    system: System,
    base: State,
    period: Scalar,
    t0: Scalar,
    limit,
    formulation,
    integrator,
    steps: int,
    freedoms: int,
    autonomous: bool,
) -> Periodic:
    base = held(base)
    fixed = system.wound(base.angles).at(t0)
    Z = free_displacements(held(fixed), base.pose, freedoms)
    length = held(system.length)
    weights = jnp.concatenate([jnp.ones(3, Z.dtype), jnp.full(3, length**2)])[None]
    units = jnp.concatenate([jnp.full(freedoms, length), jnp.full(freedoms, length / held(period))])
    u0 = jnp.concatenate([base.v, base.omega], axis=1)

    def placed(system: System, x) -> State:
        """The state at small coordinates and rates, in units."""
        x = units * x
        moved = (Z @ x[:freedoms]).reshape(-1, 6)
        pose = jax.vmap(RA().retract)(base.pose, moved)
        u = u0 + (Z @ x[freedoms:]).reshape(-1, 6)
        near = State(pose.r, pose.A, u[:, :3], u[:, 3:], base.angles)
        return assemble(system, near, t=t0)[0]

    def coordinates(state: State):
        turn = jax.vmap(lambda A0, A: so3.log(A0.T @ A))(base.A, state.A)
        moved = jnp.concatenate([state.r - base.r, turn], axis=1)
        rates = jnp.concatenate([state.v, state.omega], axis=1) - u0
        return jnp.concatenate([Z.T @ (weights * w).reshape(-1) for w in (moved, rates)]) / units

    def run(system: System, x, period, save_every: int) -> Solution:
        return simulate(
            system,
            placed(system, x),
            h=period / steps,
            steps=steps,
            save_every=save_every,
            t0=t0,
            formulation=formulation,
            integrator=integrator,
            throw=False,
        )

    def ends(system: System, x, period):
        """Coordinates at the start and at the end of a period."""
        sol = run(system, x, period, steps)
        return coordinates(placed(system, x)), coordinates(sol.at(-1))

    # Of the unknowns: coordinates, rates, and the period relative to its guess.
    guess = held(period)
    n = 2 * freedoms
    speed = jnp.concatenate([Z.T @ (weights * u0).reshape(-1), jnp.zeros(freedoms, Z.dtype)])
    speed = speed / units

    def closure(system: System, z):
        first, last = ends(system, z[:n], guess * z[n] if autonomous else period)
        rest = last - first
        return jnp.append(rest, speed @ first) if autonomous else rest

    still = held(system)

    def slopes(z):
        both = jax.jacfwd(lambda z: ends(still, z[:n], guess * z[n] if autonomous else guess))(z)
        first, last = both
        whole = last - first
        if autonomous:
            whole = jnp.concatenate([whole, (speed @ first)[None]])
        return whole, first[:, :n], last[:, :n]

    def improve(state):
        z, _, k, _ = state
        whole, first, last = slopes(z)
        rest = held(closure(still, z))
        return (
            z - jnp.linalg.solve(whole, rest),
            jnp.max(jnp.abs(rest)),
            k + 1,
            (whole, first, last),
        )

    size = n + int(autonomous)
    start = jnp.zeros(size, Z.dtype)
    start = start.at[n].set(1.0) if autonomous else start
    empty = (jnp.zeros((size, size), Z.dtype),) + 2 * (jnp.zeros((n, n), Z.dtype),)
    tolerance = jnp.finfo(Z.dtype).eps ** _RESIDUAL
    z, _, k, (whole, first, last) = jax.lax.while_loop(
        lambda s: (s[1] > tolerance) & (s[2] < limit),
        improve,
        (start, jnp.asarray(jnp.inf, Z.dtype), jnp.zeros((), int), empty),
    )
    z, whole = held(z), held(whole)
    rest = closure(system, z)
    residual = held(jnp.max(jnp.abs(rest)))
    # One more step, whose derivative is that of the orbit.
    z = z - jnp.linalg.solve(whole, rest)
    period = guess * z[n] if autonomous else period
    sol = run(system, z[:n], period, 1)
    monodromy = held(jnp.linalg.solve(first.T, last.T).T)
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
