"""Solution: what an analysis returns, and the questions one asks of it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..formulations import RA
from ..formulations.index1 import velocity_right_side
from ..model.state import Pose, State, Twist
from ..model.system import System
from ..results import RESULTS


class Energy(eqx.Module):
    """Kinetic, potential (gravity and springs) and total energy, (T,) each [J]."""

    kinetic: Float[Array, " T"]
    potential: Float[Array, " T"]

    @property
    def total(self) -> Float[Array, " T"]:
        return self.kinetic + self.potential


class Momentum(eqx.Module):
    """Linear momentum [kg·m/s] and angular momentum about the global origin [kg·m²/s], (T, 3) each, global."""

    linear: Float[Array, "T 3"]
    angular: Float[Array, "T 3"]


class Reaction(eqx.Module):
    """What a joint does to its body j, at the joint's point, global components; body i gets the opposite.

    Attributes:
        force: (T, 3) [N].
        moment: (T, 3) [N·m].
    """

    force: Float[Array, "T 3"]
    moment: Float[Array, "T 3"]


class Violation(eqx.Module):
    """Constraint violation, (T, nc) each, in the order of `System.row_names`.

    Attributes:
        position: Φ [m, or - for directions].
        velocity: Φ_q u - ν, per second.
    """

    position: Float[Array, "T nc"]
    velocity: Float[Array, "T nc"]


class Solution(eqx.Module):
    """A motion at T instants; a pytree. Rows after a failure are NaN, `result` says what happened.

    Attributes:
        t: Times, (T,) [s].
        r: Positions of the mass centres, (T, nb, 3) [m], global.
        A: Rotation matrices from body to global components, (T, nb, 3, 3).
        v: Velocities of the mass centres, (T, nb, 3) [m/s], global.
        omega: Angular velocities, (T, nb, 3) [rad/s], body frame.
        a: Accelerations of the mass centres, (T, nb, 3) [m/s²], global.
        alpha: Rates of omega, (T, nb, 3) [rad/s²], body frame.
        lam: Multipliers, (T, nc), in the order of `System.row_names`.
        iterations: Newton iterations since the row before, (T,).
        result: Outcome, a member of `RESULTS`.
        stats: Numbers about the run: what assembly moved, steps completed, and `undetermined_steps`, those so close to
            a singular pose that `lam` leaves out a part of the forces.
    """

    t: Float[Array, " T"]
    r: Float[Array, "T nb 3"]
    A: Float[Array, "T nb 3 3"]
    v: Float[Array, "T nb 3"]
    omega: Float[Array, "T nb 3"]
    a: Float[Array, "T nb 3"]
    alpha: Float[Array, "T nb 3"]
    lam: Float[Array, "T nc"]
    iterations: Int[Array, " T"]
    result: RESULTS
    stats: dict[str, Any]

    @property
    def state(self) -> State:
        """The states as one pytree with leading axis T; `sol.at(-1)` gives one of them."""
        return State(self.r, self.A, self.v, self.omega)

    def at(self, k: int) -> State:
        """The state of row k, ready to start another run.

        Raises:
            IndexError: There is no such row.
        """
        rows = self.t.shape[-1]
        if isinstance(k, (int, np.integer)) and not -rows <= k < rows:
            raise IndexError(f"the solution has {rows} rows, numbered 0 to {rows - 1}; there is no row {k}")
        return jax.tree.map(lambda x: x[k], self.state)

    def energy(self, system: System) -> Energy:
        """Kinetic and potential energy; of the method's own velocities where `EnergyMomentum` kept them."""

        def one(state: State):
            kinetic = 0.5 * jnp.sum(system.mass * jnp.sum(state.v**2, 1))
            kinetic += 0.5 * jnp.einsum("bi,bij,bj->", state.omega, system.inertia, state.omega)
            return kinetic, system.potential(RA().with_ground(state.pose))

        kinetic, potential = jax.vmap(one)(self.state)
        return Energy(self.stats.get("discrete_kinetic", kinetic), potential)

    def momentum(self, system: System) -> Momentum:
        """Linear and angular momentum of all bodies."""

        def one(state: State):
            linear = system.mass[:, None] * state.v
            spin = jnp.einsum("bij,bjk,bk->bi", state.A, system.inertia, state.omega)
            return jnp.sum(linear, 0), jnp.sum(jnp.cross(state.r, linear) + spin, 0)

        return Momentum(*jax.vmap(one)(self.state))

    def violation(self, system: System) -> Violation:
        """How far the constraints are from being met, at position and velocity level."""

        def one(state: State, t):
            jet_system, f_dot, _ = system.jet(t)
            rows = RA().rows(jet_system, state.pose)
            u = jnp.concatenate([state.v, state.omega], axis=1)
            padded = jnp.concatenate([u, jnp.zeros((1, 6), u.dtype)])
            rate = jnp.sum(rows[:, 0] * padded[system.rows_i] + rows[:, 1] * padded[system.rows_j], axis=1)
            nu = velocity_right_side(RA(), jet_system, f_dot, state.pose)
            phi = RA().phi(jet_system, state.pose)
            return system.to_natural(phi), system.to_natural(rate - nu)

        return Violation(*jax.vmap(one)(self.state, self.t))

    def reactions(self, system: System) -> dict[str, Reaction]:
        """Force and moment of every joint and driver on its body j, by name.

        They are the physical result where constraints are redundant too, as far as it is unique: single multipliers
        of a redundant set are not, and neither is the share of each of several joints that do the same work.
        """
        nb = system.nb

        def wrenches(state: State, lam, t):
            rows = RA().rows(system.at(t), state.pose)  # (nc, 2, 6), stacked order
            return system.to_natural((-rows[:, 1] * system.to_stacked(lam)[:, None]).T).T

        on_j = jax.vmap(wrenches)(self.state, self.lam, self.t)  # (T, nc, 6): force, body-frame torque about the centre
        table = {}
        for c in system.connections:
            total = jnp.sum(on_j[:, jnp.array(c.rows)], axis=1)
            force, torque = total[:, :3], total[:, 3:]
            if c.j < nb:
                A = self.A[:, c.j]
                arm, moment = A @ c.s_j_bar, jnp.einsum("tij,tj->ti", A, torque)
            else:
                arm, moment = jnp.broadcast_to(c.s_j_bar, force.shape), torque
            table[c.name] = Reaction(force, moment - jnp.cross(arm, force))
        return table

    def to_npz(self, path, system: System | None = None) -> None:
        """Write all arrays under their own names to an NPZ file; see `analyses.export`."""
        from .export import write_npz

        write_npz(path, self, system)

    def to_csv(self, path, system: System | None = None) -> None:
        """Write one row per instant to a CSV file with named columns."""
        from .export import write_csv

        write_csv(path, self, system)


class Row(eqx.Module):
    """One saved instant, before it becomes a row of a `Solution`."""

    pose: Pose
    twist: Twist
    a: Float[Array, "nb 3"]
    alpha: Float[Array, "nb 3"]
    lam: Float[Array, " nc"]
    iterations: Int[Array, ""]
    extra: dict[str, Any] = eqx.field(default_factory=dict)


def make_row(formulation, system: System, q, u, a, lam, iterations, ok, extra: dict[str, Any] | None = None) -> Row:
    """Coordinates to physical quantities; NaN where the run has failed. `extra` goes to the solution's `stats`."""
    state = formulation.to_state(q, u)
    r_ddot, omega_dot = jax.vmap(formulation.physical_accelerations)(q, u, a)
    extra = formulation.observed(system, lam) | (extra or {})
    lam = system.to_natural(lam[: system.nc])
    row = Row(state.pose, state.twist, r_ddot, omega_dot, lam, iterations, extra)
    return jax.tree.map(lambda x: jnp.where(ok, x, jnp.nan) if eqx.is_inexact_array(x) else x, row)


def make_solution(t, rows: Row, result: RESULTS, stats: dict[str, Any]) -> Solution:
    """Stacked rows to a solution."""
    return Solution(
        t=t,
        r=rows.pose.r,
        A=rows.pose.A,
        v=rows.twist.v,
        omega=rows.twist.omega,
        a=rows.a,
        alpha=rows.alpha,
        lam=rows.lam,
        iterations=rows.iterations,
        result=result,
        stats=stats | rows.extra,
    )
