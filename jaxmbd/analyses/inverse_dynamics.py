"""Inverse dynamics: the efforts of drivers or actuators that a prescribed motion takes."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..equations.kinematic_solve import DenseRows
from ..equations.motion import unbalanced
from ..equations.row_switches import acting
from ..equations.rows import dense_rows, explicit_rate, row_sizes
from ..formulations import RA, AbstractFormulation
from ..linalg import DenseFactors, dense_solve
from ..model.compiled import Compiled, runs_now
from ..model.forces.base import OF_EITHER, OF_FORCE, OF_TORQUE
from ..model.motions import Sampled
from ..model.readable import readable
from ..model.state import State
from ..model.system import Connection, System
from ..model.validation import Numbers, is_concrete
from ..results.efforts import effort_key, efforts_in
from ..results.export import check_fit
from ..results.solution import Solution
from ..rotations.types import Scalar
from .inputs import AbstractInput, ActuatorInput, collect_inputs
from .kinematics import kinematics
from .running.checks import check_system, needs_state

# An unbalanced part of the loads larger than this cannot come from rounding.
_BALANCED = 1e-6


class InverseDynamics(eqx.Module):
    """Efforts and reactions of a prescribed motion.

    Attributes:
        solution: The motion; its multipliers and `reactions` are those of joints that the efforts
            below act beside. Its tables and plots know the efforts as "motor.effort"; what the
            element of an actuator itself gives, as described, is NaN.
        efforts: By name, (T,) each: torque on body j [N·m], or push along the driven direction [N].
        rates: How fast each of them moves what it acts on, (T,) [rad/s] or [m/s].
        unbalanced: The part of the loads that nothing balances, relative to all loads, (T,);
            rounding for a motion that the actuators can make.
    """

    solution: Solution
    efforts: dict[str, Float[Array, " T"]]
    rates: dict[str, Float[Array, " T"]]
    unbalanced: Float[Array, " T"]

    def __repr__(self) -> str:
        from .summaries import of_inverse_dynamics

        return readable(self, of_inverse_dynamics)

    @property
    def power(self) -> dict[str, Float[Array, " T"]]:
        """Power of each effort, by name, (T,) [W]."""
        return {name: effort * self.rates[name] for name, effort in self.efforts.items()}

    def motion(self, name: str) -> Sampled:
        """An effort as a function of time, for the control of an actuator; instants must be at
        equal intervals.
        """
        return Sampled(self.solution.t, self.efforts[name])


@needs_state
def inverse_dynamics(
    system: System,
    state: State,
    ts: Numbers | None = None,
    *,
    motion: Solution | None = None,
    actuators: Sequence[str] | None = None,
    formulation: AbstractFormulation | None = None,
    throw: bool = True,
) -> InverseDynamics:
    """Efforts of the drivers of a driven mechanism, or of actuators in their place, for its motion.

    Drivers prescribe the motion, as in `kinematics`. Without `actuators` they are what makes it,
    and `efforts` are theirs. With `actuators` the drivers only say what the motion is: the named
    elements make it, and what they do not balance is reported. A pure function that can be jitted,
    batched and differentiated.

    Args:
        system: The mechanism, with drivers that leave it no degree of freedom.
        state: As in `kinematics`.
        ts: As in `kinematics` [s]; left out where a motion is given.
        motion: A motion of this system that is known already. Where joints constrain velocities, as
            rolling does, positions follow from them only over time: `simulate` the driven mechanism
            and give its solution here.
        actuators: Names of `Actuator`, `SpringDamper` and `TorsionalSpringDamper` elements, or
            single loads such as "platform.force.x". An effort is the whole control of its element,
            whatever control it was described with; springs and dampers act beside it. More of them
            than degrees of freedom share the work, with least sum of squares of efforts and
            multipliers.
        formulation: Of the kinematics, `RA()` by default.
        throw: As in `kinematics`; also refuses a motion that the actuators cannot make.

    Returns:
        The motion, the efforts, their rates and power.

    Raises:
        ValueError: As in `kinematics`; a body without mass, an unknown actuator, or actuators that
            cannot make the motion.
        RuntimeError: As in `kinematics`.
    """
    check_system(system, state, "inverse_dynamics")
    system.refuse_elements_with_states("inverse_dynamics", "leave them out, or simulate the motion")
    system.refuse_laws("inverse_dynamics", "leave them out")
    if system.massless:
        raise ValueError(
            "inverse dynamics needs mass and inertia of every body; missing for "
            f"{', '.join(system.massless)}"
        )
    if actuators is not None and not list(actuators):
        raise ValueError(
            "actuators is empty: name some, or leave it out for the efforts of the drivers"
        )
    inputs = None if actuators is None else collect_inputs(system, list(actuators))
    if motion is not None:
        check_fit(motion, system)
        solution = motion
    elif ts is None:
        raise ValueError("inverse_dynamics: give the instants ts, or a motion")
    else:
        system.refuse_velocity_rows(
            "inverse_dynamics without a motion", "simulate it and give the solution as motion="
        )
        solution = kinematics(system, state, ts, formulation=formulation, throw=throw)

    def program(function: Compiled) -> Callable[..., Any]:
        if not runs_now(system, solution):
            return function
        return function.for_work(system.nb * len(solution.t), (system.unnamed(), inputs))

    if inputs is None:
        names = effort_units(system)
        efforts, rates = (
            dict(zip(names, x, strict=True)) for x in program(_of_drivers)(system, solution)
        )
        solution = _with_efforts(solution, efforts, effort_units(system))
        return InverseDynamics(solution, efforts, rates, jnp.zeros_like(solution.t))
    unnamed = tuple(dataclasses.replace(x, name="") for x in inputs)
    lam, efforts, rates, rest = program(_of_actuators)(system, solution, unnamed)
    by_name = [{x.name: values[:, k] for k, x in enumerate(inputs)} for values in (efforts, rates)]
    solution = eqx.tree_at(lambda s: s.multipliers, solution, lam)
    solution = _with_efforts(solution, by_name[0], {x.name: x.units for x in inputs})
    result = InverseDynamics(solution, *by_name, unbalanced=rest)
    if throw and is_concrete(result):
        _refuse_unbalanced(system, result, inputs)
    return result


def _with_efforts(
    solution: Solution, efforts: dict[str, Array], units: dict[str, tuple[str, str]]
) -> Solution:
    """The motion with efforts as quantities of its tables, "motor.effort"; those that another
    analysis of it has found are left out.
    """
    before = {key for key, _, _ in efforts_in(solution.stats)}
    stats = {key: x for key, x in solution.stats.items() if key not in before}
    observed = tuple(key for key in solution.observed if key not in before)
    found = {effort_key(name, units[name][0]): effort for name, effort in efforts.items()}
    return dataclasses.replace(solution, stats=stats | found, observed=(*observed, *found))


def effort_units(
    system: System, actuators: Sequence[str] | None = None
) -> dict[str, tuple[str, str]]:
    """The units of the efforts and of the rates that `inverse_dynamics` finds, by name."""
    if actuators is not None:
        return {x.name: x.units for x in collect_inputs(system, list(actuators))}
    return {c.name: _of_driver(c) for c in system.connections if c.is_driver and len(c.rows) == 1}


def _of_driver(c: Connection) -> tuple[str, str]:
    if c.element.has_angle:
        return OF_TORQUE
    return OF_FORCE if c.element.has_displacement or c.element.is_link else OF_EITHER


def _refuse_unbalanced(
    system: System, result: InverseDynamics, inputs: Sequence[AbstractInput]
) -> None:
    rest = np.asarray(result.unbalanced)
    if np.all(rest <= _BALANCED):
        return
    k = int(np.argmax(np.where(np.isfinite(rest), rest, np.inf)))
    names = ", ".join(x.name for x in inputs) or "none"
    raise ValueError(
        f"mechanism {system.name!r}: the actuators ({names}) cannot make this motion: at t = "
        f"{float(result.solution.t[k]):g} s they leave {rest[k]:.1%} of the loads unbalanced; name "
        "as many actuators as there are degrees of freedom, where they move what is driven, or "
        "let the drivers do it (no actuators)"
    )


@Compiled
def _of_drivers(system: System, solution: Solution):
    """Efforts and rates, (T,) each, of all drivers of one row, in the order of description."""

    def instant(state: State, lam: Float[Array, " nc"], t: Scalar):
        now, f_dot, _ = system.jet(t)
        nu = system.to_natural(acting(now, f_dot - explicit_rate(RA(), now, state.pose)))
        f = system.to_natural(
            jnp.concatenate([jnp.zeros(0, system.dtype)] + [s.prescribed for s in now.constraints])
        )
        efforts, rates = [], []
        for c in system.connections:
            if c.is_driver and len(c.rows) == 1:
                k = c.rows[0]
                efforts.append(c.element.effort(lam[k], f[k]))
                # The power of the driver is -λ ν.
                rates.append(-nu[k] / c.element.effort(jnp.ones_like(f[k]), f[k]))
        return efforts, rates

    return jax.vmap(instant)(solution.state, solution.lam, solution.t)


@Compiled
def _of_actuators(system: System, solution: Solution, inputs: tuple[AbstractInput, ...]):
    """Multipliers (T, nc), efforts and rates (T, k), and the part of the loads that nothing
    balances (T,).
    """
    kept = np.array([row for c in system.connections if not c.is_driver for row in c.rows], int)

    def instant(state: State, a: Float[Array, "nb 3"], alpha: Float[Array, "nb 3"], t: Scalar):
        now = system.at_state(state).at(t)
        q, u = RA().from_state(state)
        acc = jnp.concatenate([a, alpha], axis=1)
        balance = unbalanced(RA(), now, q, u, acc, t).reshape(-1)
        joints = system.to_natural(dense_rows(RA(), now, q).T).T[kept]
        sizes = system.to_natural(row_sizes(RA(), now))[kept]
        padded = RA().with_ground(state.pose)
        units = jnp.stack([x.unit(padded)[:-1].reshape(-1) for x in inputs])
        # What the elements do as described is taken out: the whole control is looked for.
        balance = balance + units.T @ jnp.stack([_described(x, t) for x in inputs])
        rows = jnp.concatenate([joints, -units])
        sizes = jnp.concatenate([sizes, jnp.ones(len(inputs), sizes.dtype)])
        found = _balancing(rows, -balance, jnp.tile(system.units(), system.nb), sizes)
        rest = jnp.max(jnp.abs(rows.T @ found + balance))
        scale = jnp.max(jnp.abs(rows).T @ jnp.abs(found) + jnp.abs(balance))
        lam = jnp.zeros(system.nc, system.dtype).at[kept].set(found[: len(kept)])
        return (
            lam,
            found[len(kept) :],
            units @ u.reshape(-1),
            rest / jnp.where(scale > 0.0, scale, 1.0),
        )

    return jax.vmap(instant)(solution.state, solution.a, solution.alpha, solution.t)


def _balancing(
    rows: Float[Array, "m n"],
    load: Float[Array, " n"],
    units: Float[Array, " n"],
    sizes: Float[Array, " m"],
) -> Float[Array, " m"]:
    """The least x with rowsᵀ x = load, or the least-squares solution if there are too few rows;
    with coordinates in `units` and rows divided by their `sizes`.
    """
    m, n = rows.shape
    rows = rows * units[None, :] / sizes[:, None]
    if m >= n:
        matrix = rows if m == n else rows.T @ rows
        factors = DenseFactors.of(jax.lax.stop_gradient(matrix))
        return DenseRows(rows, factors, units, sizes).multipliers(load)
    return dense_solve(rows @ rows.T, rows @ (units * load)) / sizes


def _described(x: AbstractInput, t: Scalar) -> Scalar:
    return (
        jnp.asarray(x.element.control(t), t.dtype)
        if isinstance(x, ActuatorInput)
        else jnp.zeros_like(t)
    )
