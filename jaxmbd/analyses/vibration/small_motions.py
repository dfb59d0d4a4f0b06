"""Small motions about an equilibrium: mass, damping and stiffness along allowed displacements."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...equations.index1 import saddle_matrix
from ...equations.joint_inertia import joint_inertia_blocks
from ...equations.motion import mass_matrix
from ...equations.rows import row_bodies, rows
from ...equations.statics import Rest, Spin, metric, rate_blocks, static_matrix
from ...formulations import RA
from ...formulations.base import BodyMotion
from ...linalg import SaddleMatrix, factorize, linear_solve
from ...model.compiled import compiled_once
from ...model.state import Pose, State
from ...model.system import System
from ...model.validation import Numbers, as_jax, is_concrete
from ...rotations.types import Scalar
from ..mobility import VANISHED, mobility, rows_without_units
from ..running.checks import check_system
from ..statics.equilibrium_result import Equilibrium


class SmallMotions(eqx.Module):
    """M ÿ + C ẏ + K y = Bᵀ load in f coordinates y of the displacements about an equilibrium.

    Displacements are of mass centers and turns, in components of the frame that turns with the
    whole (the global frame at rest) and of the bodies.

    Attributes:
        M, C, K: Reduced mass, damping with gyroscopic terms, and stiffness, (f, f).
        basis: Displacements of all bodies by y, (nb, 6, f).
    """

    M: Float[Array, "f f"]
    C: Float[Array, "f f"]
    K: Float[Array, "f f"]
    basis: Float[Array, "nb 6 f"]


class Base(eqx.Module):
    """The equilibrium, and the rotations, about which small motions are taken.

    Attributes:
        system: The mechanism.
        state: The equilibrium.
        lam: Its multipliers, (nc,).
        t: Its instant [s].
        spin: The steady rotation of the whole, or None.
        parts: Angular velocities of turning parts, body frame, (nb, 3) [rad/s].
        freedoms: Number of independent displacements.
    """

    system: System
    state: State
    lam: Float[Array, " nc"]
    t: Scalar
    spin: Spin | None
    parts: Float[Array, "nb 3"]
    freedoms: int = eqx.field(static=True)


def base_of(
    system: System,
    equilibrium: object,
    who: str,
    spinning: Mapping[str, Numbers] | None = None,
    freedoms: int | None = None,
) -> Base:
    """The checked equilibrium about which small motions are taken.

    Raises:
        TypeError: It is no `Equilibrium`.
        ValueError: Masses are missing, no degree of freedom is left, or their number is not given
            where values are traced.
    """
    if not isinstance(equilibrium, Equilibrium):
        raise TypeError(
            f"{who}: the second argument must be what equilibrium(system, state) returns, not "
            f"{type(equilibrium).__name__}"
        )
    state = equilibrium.state
    system.refuse_elements_with_states(who, "linearize(...).modes() knows them")
    check_system(system, state, who)
    if system.massless:
        raise ValueError(
            f"{who} needs mass and inertia of every body; missing for {', '.join(system.massless)}"
        )
    parts = np.zeros((system.nb, 3), system.dtype)
    for name, omega in (spinning or {}).items():
        if name not in system.bodies:
            raise ValueError(f"{who}: spinning: there is no body {name!r}")
        parts[system.bodies.index(name)] = np.asarray(omega, system.dtype)
    if freedoms is None:
        if not is_concrete((system, equilibrium)):
            raise ValueError(
                f"{who}: under jit, grad or vmap give freedoms=, the number that mobility counts"
            )
        freedoms = mobility(system, state, t=equilibrium.t).freedoms
    if not freedoms:
        raise ValueError(
            f"{who}: {system.name!r} has no degree of freedom left; its drivers determine it"
        )
    return Base(
        system,
        system.with_turns(state),
        equilibrium.lam,
        equilibrium.t,
        equilibrium.spin,
        as_jax(parts, system.dtype),
        int(freedoms),
    )


@compiled_once
def small_motions(base: Base) -> SmallMotions:
    """The matrices of the small motions; differentiable."""
    state, t = base.state, base.t
    system = base.system.at_state(state).at(t)
    args = Rest(system, t, jnp.ones_like(t), base.spin, base.parts)
    pose = state.pose
    basis = carried(system, pose, free_displacements(system, pose, base.freedoms))
    lam, none = system.to_stacked(base.lam), jnp.zeros_like(t)
    stiffness = static_matrix(args, pose, lam, none)
    still = jnp.zeros((system.nb, 6), t.dtype)
    rotors = joint_inertia_blocks(RA(), system, BodyMotion(pose, still, still), none, none)
    inertia = SaddleMatrix(
        mass_matrix(RA(), system, pose),
        tuple(rotors),
        stiffness.right,
        stiffness.left,
        None,
        stiffness.bodies,
    )
    own, couplings = rate_blocks(args, pose)
    rates = SaddleMatrix(
        own, tuple(couplings), stiffness.right, stiffness.left, None, stiffness.bodies
    )
    return SmallMotions(
        reduced(inertia, basis),
        reduced(rates, basis),
        reduced(stiffness, basis),
        basis.reshape(system.nb, 6, base.freedoms),
    )


def reduced(matrix: SaddleMatrix, basis: Float[Array, "n f"]) -> Float[Array, "f f"]:
    """Zᵀ H Z for the blocks H of the bodies."""
    wide = jnp.concatenate([basis, jnp.zeros((len(matrix.bodies), basis.shape[1]), basis.dtype)])
    product = jax.vmap(matrix.matvec, in_axes=1, out_axes=1)(wide)
    return basis.T @ product[: basis.shape[0]]


def free_displacements(system: System, pose: Pose, freedoms: int) -> Float[Array, "n f"]:
    """A basis of the displacements that the joints allow at a pose, held in differentiation, in
    which meters and length-scaled radians count alike.
    """
    n = 6 * system.nb
    scale = jnp.tile(system.units() / system.length, system.nb)
    dense = jax.lax.stop_gradient(rows_without_units(system, pose))
    if not dense.shape[0]:
        return jnp.diag(scale)
    norms = jnp.sqrt(jnp.sum(dense**2, axis=1, keepdims=True))
    right = jnp.linalg.svd(dense / jnp.where(norms > VANISHED, norms, 1.0))[2]
    return jax.lax.stop_gradient(scale[:, None] * right[n - freedoms :].T)


def carried(system: System, pose: Pose, fixed: Float[Array, "n f"]) -> Float[Array, "n f"]:
    """A held basis projected on the displacements allowed at a pose, so that it varies with the
    pose.
    """
    n, m = fixed.shape[0], len(row_bodies(RA(), system))
    if not m:
        return fixed
    weights = metric(system)
    matrix = saddle_matrix(RA(), system, weights, rows(RA(), system, pose))
    factors = factorize(matrix, system.linear_solver)

    def projected(column: Float[Array, " n"]):
        pull = jnp.einsum("bij,bj->bi", weights, column.reshape(-1, 6)).reshape(-1)
        right = jnp.concatenate([pull, jnp.zeros(m, pull.dtype)])
        return linear_solve(matrix.matvec, factors, right)[:n]

    return jax.vmap(projected, in_axes=1, out_axes=1)(fixed)
