"""Assembly: the consistent state closest to an approximate one."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..equations.rows import (
    phi,
    row_bodies,
    row_sizes,
    rows,
    velocity_right_side,
)
from ..formulations import RA
from ..model.compiled import compiled_once
from ..model.state import State
from ..model.system import System
from ..model.validation import Numbers, as_jax, is_concrete
from ..rotations.types import Scalar
from .closest_state import find_closest
from .closest_state_search import ClosestState, position_tolerance
from .running.checks import check_system, needs_state

METRICS = ("identity", "mass")
_VELOCITY_ROUNDING = 16.0  # of a row's terms, in units of rounding


class AssemblyReport(eqx.Module):
    """Displacements, changes of velocity and remaining constraint violations of an assembly.

    Attributes:
        displacement: How far each mass center moved, (nb,) [m].
        rotation: How far each body turned, (nb,) [rad].
        velocity: Change of each velocity, (nb,) [m/s].
        angular_velocity: Change of each angular velocity, (nb,) [rad/s].
        violation_before: Largest constraint violation as described: of a distance in parts of the
            system's length, of a direction or an angle as it is [-].
        violation: Constraint values after assembly, (nc,), in the order of description, each in its
            own unit.
        shares: The same without units, as `violation_before` counts, (nc,).
        iterations: Steps taken.
        closed: Whether the constraints are met.
        on_branch: Whether driven rotations stand at their angle, and not half a turn away.
    """

    displacement: Float[Array, " nb"]
    rotation: Float[Array, " nb"]
    velocity: Float[Array, " nb"]
    angular_velocity: Float[Array, " nb"]
    violation_before: Scalar
    violation: Float[Array, " nc"]
    shares: Float[Array, " nc"]
    iterations: Int[Array, ""]
    closed: Bool[Array, ""]
    on_branch: Bool[Array, ""]


@compiled_once
def _untouched(
    system: System, state: State, t: Scalar
) -> tuple[AssemblyReport, Bool[Array, ""], Bool[Array, ""]]:
    """The report of an assembly that moves nothing, whether the joints are closed as described, and
    whether velocities satisfy them to rounding.
    """
    system = system.wound(state.angles)
    jet_system, f_dot, _ = system.jet(t)
    pose = state.pose
    on_branch = system.at(t).on_branch(RA().with_ground(pose))
    zero = jnp.zeros(system.nb, system.dtype)
    blocks = rows(RA(), jet_system, pose)
    gaps = phi(RA(), system.at(t), pose)
    shares = gaps / row_sizes(RA(), system, blocks)
    before = jnp.max(jnp.abs(shares), initial=0.0)
    closed = before <= position_tolerance(system.dtype)
    violation, shares = system.to_natural(gaps), system.to_natural(shares)
    none = jnp.zeros((), int)
    report = AssemblyReport(
        zero, zero, zero, zero, before, violation, shares, none, closed, on_branch
    )

    u = jnp.concatenate([state.v, state.omega], axis=1)
    nu = velocity_right_side(RA(), jet_system, f_dot, pose)
    u = jnp.concatenate([u, jnp.zeros((1, 6), u.dtype)])
    index = np.array(row_bodies(RA(), system), int).reshape(blocks.shape[:2])
    terms = blocks * u[index]
    rest = jnp.abs(jnp.sum(terms, axis=(1, 2)) - nu)
    scale = jnp.sum(jnp.abs(terms), axis=(1, 2)) + jnp.abs(nu)
    still = jnp.all(rest <= _VELOCITY_ROUNDING * jnp.finfo(u.dtype).eps * scale)
    return report, closed & on_branch, still


@compiled_once
def _assemble(
    system: System,
    state: State,
    t: Scalar,
    metrics: tuple[str, str],
    described: tuple[tuple[bool, bool], ...],
) -> tuple[State, AssemblyReport]:
    weights, velocity_weights = (_weights(system, metric) for metric in metrics)
    system = _geometry(system.wound(state.angles))
    closest = ClosestState(system, state.pose, weights, velocity_weights, t, described)
    u0 = jnp.concatenate([state.v, state.omega], axis=1)
    xi, pose, u, found = find_closest(closest, u0)
    new = State(pose.r, pose.A, u[:, :3], u[:, 3:], state.angles, state.element_states)
    report = AssemblyReport(
        displacement=_norms(xi[:, :3]),
        rotation=_norms(xi[:, 3:]),
        velocity=_norms(new.v - state.v),
        angular_velocity=_norms(new.omega - state.omega),
        violation_before=found.before,
        violation=system.to_natural(found.gaps),
        shares=system.to_natural(found.shares),
        iterations=found.steps,
        closed=found.closed,
        on_branch=system.at(t).on_branch(RA().with_ground(pose)),
    )
    return new, jax.lax.stop_gradient(report)


@needs_state
def assemble(
    system: System,
    state: State,
    *,
    t: Numbers = 0.0,
    metric: str | None = None,
    velocities: bool = True,
) -> tuple[State, AssemblyReport]:
    """The consistent state closest to `state` at time t.

    Positions minimize the distance to the given ones subject to Φ = 0; then velocities minimize the
    distance to the given ones subject to Φ_q u = ν. Velocities that the description left out follow
    the others: they count little in that distance, so that a described angular velocity is kept
    where joints allow it.
    Differentiable in everything: moving a joint moves the result. A state that meets the
    constraints already is returned unchanged.

    Args:
        system: The mechanism.
        state: Approximate poses and twists.
        t: Time at which drivers are evaluated [s].
        metric: "identity" weighs meters and (length-scaled) radians alike; "mass" weighs by mass
            and inertia, so that the difference of velocities has the least kinetic energy. By
            default positions by "identity" and velocities by "mass", or by "identity" where a body
            has no mass.
        velocities: False where only the positions matter: velocities may then stay as they are.

    Returns:
        The state and a report of what moved. Nothing raises for joints that do not close: check
        `report.closed`.
    """
    check_system(system, state, "assemble")
    if metric not in (None, *METRICS):
        raise ValueError(f"metric must be one of {METRICS}, not {metric!r}")
    if metric == "mass" and system.massless:
        raise ValueError(
            f"metric='mass' needs the mass of {', '.join(system.massless)}; use metric='identity'"
        )
    metrics = (metric or "identity", metric or ("identity" if system.massless else "mass"))
    geometry = _only_geometry(system)
    if is_concrete((geometry, state, t)):
        # A small program tells whether there is anything to do for a large one, also where masses,
        # gravity or forces are traced: they move nothing that meets the constraints already.
        report, closed, still = _untouched.at_once(geometry, state, np.asarray(t, system.dtype))
        if bool(closed) and (bool(still) or not velocities):
            return state, report
    return _assemble(system, state, as_jax(t, system.dtype), metrics, system.described)


def _geometry(system: System) -> System:
    """The system without derivatives by numbers that assembly does not use, so that a gradient by
    masses leaves assembly out.
    """
    parts = (system.mass, system.inertia, system.gravity, system.forces, system.inertias)
    held = jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, parts)
    return eqx.tree_at(lambda s: (s.mass, s.inertia, s.gravity, s.forces, s.inertias), system, held)


def _only_geometry(system: System) -> System:
    """The unnamed system with zeros for all numbers that enter no constraint."""
    system = system.unnamed()
    unseen = ("mass", "inertia", "gravity", "forces", "laws", "inertias")
    zeros = jax.tree.map(
        lambda x: np.zeros(x.shape, x.dtype) if eqx.is_array(x) else x,
        {name: getattr(system, name) for name in unseen},
    )
    return dataclasses.replace(system, **zeros)


def _norms(x: Float[Array, "nb 3"]) -> Float[Array, " nb"]:
    return jnp.linalg.norm(jax.lax.stop_gradient(x), axis=1)


def _weights(system: System, metric: str) -> Float[Array, "nb 6 6"]:
    """Dimensionless weights of a body's displacement or velocity: about one for the system's length
    and for one radian.
    """
    eye = np.eye(3, dtype=system.dtype)
    if metric == "identity":
        return jnp.broadcast_to(jnp.diag(system.units() ** -2.0), (system.nb, 6, 6))
    unit = jnp.mean(system.mass) * system.length**2
    mass = system.mass[:, None, None] * eye[None]
    # A rod-like or zero inertia leaves rotations without weight; a trace of mass times length
    # squared gives them some.
    spin = system.inertia + 1e-6 * mass * system.length**2
    W = jnp.zeros((system.nb, 6, 6), system.dtype)
    return W.at[:, :3, :3].set(mass).at[:, 3:, 3:].set(spin) / unit
