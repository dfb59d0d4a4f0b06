"""Equilibrium: where a mechanism rests, or turns steadily as one, and the forces that hold it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..equations.rows import velocity_right_side, velocity_values
from ..equations.statics import Rest, Spin, static_loads
from ..formulations import RA
from ..model.state import Pose, State
from ..model.system import System
from ..model.validation import as_jax, is_concrete
from ..results import RESULTS, ended_as
from ..rotations import so3
from ..rotations.types import Scalar
from .arguments import check_system, valid_numbers
from .balancing import Balanced, balance_poses
from .compiled import compiled_once
from .solution import Reaction, Row, Solution, make_solution
from .starting import assembled, outcome_of_assembly


class EquilibriumError(RuntimeError):
    """No equilibrium was found; `equilibrium` holds where the search ended.

    Attributes:
        equilibrium: An `Equilibrium` whose `result` says what happened.
    """

    def __init__(self, message: str, equilibrium=None):
        super().__init__(message)
        self.equilibrium = equilibrium


class Equilibrium(eqx.Module):
    """A mechanism in balance; a pytree.

    Attributes:
        state: Poses, and the velocities of the steady rotation or zeros.
        lam: Multipliers, (nc,), in the order of `System.row_names`.
        residual: The largest unbalanced force or torque over the system's length at a body,
            relative to the forces that balance each other there.
        iterations: Factorizations of the tangent stiffness.
        result: Outcome, a member of `RESULTS`.
        t: The instant at which drivers and loads are held [s].
        spin: The steady rotation, or None at rest.
        motion: The same as a solution of one row, for reactions, pictures and files.
    """

    state: State
    lam: Float[Array, " nc"]
    residual: Scalar
    iterations: Int[Array, ""]
    result: RESULTS
    t: Scalar
    spin: Spin | None
    motion: Solution

    def reactions(self) -> dict[str, Reaction]:
        """Force and moment at each joint, by name, (1, 3) each; see `Solution.reactions`."""
        return self.motion.reactions()


def equilibrium(
    system: System,
    state: State,
    *,
    t: Any = 0.0,
    spin: Any = None,
    unstable: bool = False,
    load_steps: int = 1,
    max_steps: int = 200,
    throw: bool = True,
) -> Equilibrium:
    """The poses at which all forces balance, with drivers and loads held at time t.

    Loops, redundant joints, drivers, joints that constrain velocities and steady loads without a
    potential are part of it. The search moves downhill from the given state: it follows the loads
    until they do no more work, and so finds where the mechanism comes to rest. Where the
    equilibrium is not isolated, such as that of a wheel that turns freely, the directions without
    stiffness stay as near to the given state as they can. Differentiable in everything, by the
    implicit function theorem; the state from which the search starts carries no derivative.

    Args:
        system: The mechanism.
        state: Where the search starts; it is assembled first. Its velocities are not used.
        t: Time at which drivers and loads are held [s].
        spin: None at rest, or a steady rotation of the whole mechanism: `mbd.Spin(axis, rate,
            point)`, or (axis, rate) about the origin. The result then carries the velocities of
            that rotation, and its load is the centrifugal one.
        unstable: True looks for the nearest equilibrium, stable or not, instead of moving downhill.
        load_steps: Apply gravity, the centrifugal load and all loads that store no energy in so
            many equal steps.
        max_steps: Limit of the iteration for each step of the load.
        throw: Raise where no equilibrium is found; without effect inside `jit` or `vmap`.

    Returns:
        The equilibrium, and how it was found.

    Raises:
        ValueError: The mechanism has stops, dry friction or contacts, a body that nothing holds, or
            cannot turn about the axis; the message names the part.
        AssemblyError: The joints do not close.
        EquilibriumError: No equilibrium was found and `throw=True`; the message names the body that
            runs away.

    Reference:
        Levenberg-Marquardt damping in proportion to the residual, which keeps quadratic convergence
        to equilibria that are not isolated: Yamashita, Fukushima, "On the rate of convergence of the
        Levenberg-Marquardt method", Computing Suppl. 15 (2001).
    """
    check_system(system, state, "equilibrium")
    system.refuse_laws("equilibrium", "leave them out, or simulate until the motion has died away")
    spin = _spin(spin, system)
    if spin is not None:
        system.refuse_velocity_rows("equilibrium with spin=", "simulate the steady motion instead")
    _refuse_loose_bodies(system)
    steps, limit = (_count(x, n) for x, n in ((load_steps, "load_steps"), (max_steps, "max_steps")))
    t = as_jax(t, system.dtype)
    given = state = system.with_turns(state)
    state, report = assembled(system, state, t, velocities=False)
    shares = np.asarray(np.arange(1, steps + 1) / steps, system.dtype)
    parts = _equilibrium(
        system, given, state, report, t, spin, as_jax(shares, system.dtype), limit, not unstable
    )
    row, result, found, last = parts
    motion = make_solution(t[None], row, result, {}, system)
    new = jax.tree.map(lambda x: x[0], motion.state)
    found = Equilibrium(
        new, motion.lam[0], found.residual, found.iterations, result, t, spin, motion
    )
    if throw and is_concrete(found):
        refuse_failure(system, given, found, last)
    return found


@compiled_once
def _equilibrium(
    system: System, given: State, state: State, report, t, spin, shares, max_steps, downhill: bool
):
    angles = system.turns() if state.angles is None else state.angles
    found = balance_poses(system, state.pose, angles, t, spin, shares, max_steps, downhill)
    pose, zero = found.pose, jnp.zeros_like(found.pose.r)
    v, omega, a = zero, zero, zero
    if spin is not None:
        twist = jax.vmap(spin.twist)(pose)
        v, omega, a = twist.v, twist.omega, jax.vmap(spin.acceleration)(pose)
    state = State(pose.r, pose.A, v, omega, found.angles)
    lam = system.to_natural(found.lam[: system.nc])
    row = Row(pose, state.twist, a, zero, lam, found.angles, found.iterations, {})
    row = jax.tree.map(lambda x: x[None], row)
    return row, _outcome(system, given, report, found, t), found, found.last


def _outcome(system: System, given: State, report, found: Balanced, t) -> RESULTS:
    result = RESULTS.where(found.found, RESULTS.successful, RESULTS.no_equilibrium)
    result = RESULTS.where(found.finite, result, RESULTS.non_finite)
    on_branch = system.wound(found.angles).at(t).on_branch(RA().with_ground(found.pose))
    result = RESULTS.where(on_branch, result, RESULTS.wrong_branch)
    result = outcome_of_assembly(report, result)
    good = jax.lax.stop_gradient(valid_state(system, given, t))
    return RESULTS.where(good, result, RESULTS.invalid_input)


def valid_state(system: System, state: State, t: Scalar):
    """Whether the given numbers can be those of a mechanism."""
    return valid_numbers(system, state, t)


def _spin(spin: Any, system: System) -> Spin | None:
    if spin is None:
        return None
    if not isinstance(spin, Spin):
        try:
            axis, rate = spin
        except (TypeError, ValueError):
            raise TypeError(
                "equilibrium: spin must be mbd.Spin(axis, rate, point) or a pair (axis, rate), "
                f"not {spin!r}"
            ) from None
        spin = Spin(axis, rate)
    return jax.tree.map(lambda x: as_jax(x, system.dtype), spin)


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"equilibrium: {name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def _refuse_loose_bodies(system: System) -> None:
    """Raise where a body has neither a joint nor a force element."""
    held = {b for c in system.connections for b in c.bodies}
    held |= {b for stack in system.forces for bodies in stack.bodies for b in bodies}
    loose = [repr(name) for b, name in enumerate(system.bodies) if b not in held]
    if loose:
        raise ValueError(
            f"equilibrium: nothing holds {', '.join(loose)} of mechanism {system.name!r}: neither a "
            "joint nor a force element; it would fall for ever, or rest anywhere. Connect it, or "
            "leave it out"
        )


def refuse_failure(system: System, given: State, found: Equilibrium, last) -> None:
    """Raise `EquilibriumError` where no equilibrium was found, with the body that runs away."""
    if ended_as(found.result, RESULTS.successful):
        return
    sentence = RESULTS[found.result]
    moved = np.linalg.norm(np.asarray(found.state.r) - np.asarray(given.r), axis=1)
    turned = np.asarray(jax.vmap(lambda A, B: so3.log(A.T @ B))(given.A, found.state.A))
    last = np.abs(np.asarray(last))
    way = np.max(last[:, :3], axis=1) / float(system.length) + np.max(last[:, 3:], axis=1)
    b = int(np.argmax(np.nan_to_num(way, nan=np.inf)))
    raise EquilibriumError(
        f"mechanism {system.name!r}: {sentence}. The body that runs away is {system.bodies[b]!r}: "
        f"it moved by {moved[b]:.3g} m and turned by {np.linalg.norm(turned[b]):.3g} rad; "
        f"{float(found.residual):.1e} of the loads are left unbalanced",
        found,
    )
