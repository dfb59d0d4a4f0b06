"""Rows of a motion, and the solution that they become."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..formulations import RA, AbstractFormulation
from ..formulations.base import Coordinates
from ..model.state import Pose, Twist
from ..model.system import System
from ..outcomes import RESULTS
from .solution import Solution


class Row(eqx.Module):
    """One saved instant, before it becomes a row of a `Solution`."""

    pose: Pose
    twist: Twist
    a: Float[Array, "nb 3"]
    alpha: Float[Array, "nb 3"]
    lam: Float[Array, " nc"]
    angles: Float[Array, " w"]
    element_states: Float[Array, " s"]
    iterations: Int[Array, ""]
    extra: dict[str, Any] = eqx.field(default_factory=dict)


def make_row(
    formulation: AbstractFormulation,
    system: System,
    q: Coordinates,
    u: Float[Array, "nb d"],
    a: Float[Array, "nb d"],
    lam: Float[Array, " m"],
    iterations: Int[Array, ""],
    ok: Bool[Array, ""],
    extra: Mapping[str, PyTree] | None = None,
) -> Row:
    """Coordinates to physical quantities; NaN where the run has failed. `extra` goes to the
    solution's `stats`.

    Angles are looked for near those of the system, see `System.wound`.
    """
    state = formulation.to_state(q, u)
    r_ddot, omega_dot = jax.vmap(formulation.physical_accelerations)(q, u, a)
    observed = formulation.observed(system, lam) | dict(extra or {})
    lam = system.to_natural(lam[: system.nc])
    angles = system.angle_values(RA().with_ground(state.pose))
    row = Row(
        state.pose,
        state.twist,
        r_ddot,
        omega_dot,
        lam,
        angles,
        system.held_element_states(),
        iterations,
        observed,
    )
    return jax.tree.map(lambda x: jnp.where(ok, x, jnp.nan) if eqx.is_inexact_array(x) else x, row)


def make_solution(
    t: Float[Array, " T"],
    rows: Row,
    result: RESULTS,
    stats: Mapping[str, PyTree],
    system: System | None = None,
    *,
    least: bool = True,
    inputs: Float[Array, "T 3 n"] | None = None,
) -> Solution:
    """Stacked rows to a solution; `least` says whether their multipliers are of least norm."""
    return Solution(
        t=t,
        r=rows.pose.r,
        A=rows.pose.A,
        v=rows.twist.v,
        omega=rows.twist.omega,
        a=rows.a,
        alpha=rows.alpha,
        multipliers=rows.lam,
        angles=rows.angles,
        element_states=rows.element_states,
        iterations=rows.iterations,
        result=result,
        stats=dict(stats) | rows.extra,
        inputs=inputs,
        system=system,
        observed=tuple(rows.extra),
        least=least and not (system is not None and system.presses),
    )
