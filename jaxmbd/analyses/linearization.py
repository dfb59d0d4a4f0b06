"""Linearization: the small motions of a constrained mechanism in minimal coordinates, and their
eigenmodes.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Complex, Float
from scipy import linalg

from ..equations.index1 import dynamic_accelerations
from ..equations.motion import regularization as softness
from ..equations.rows import row_bodies, velocity_right_side
from ..equations.rows import rows as constraint_rows
from ..formulations import RA
from ..linalg import SaddleMatrix, factorize, linear_solve
from ..model.state import Pose, State, Twist
from ..model.system import System
from ..rotations import so3
from ..rotations.types import Scalar
from .arguments import check_system
from .compiled import compiled_once
from .inputs import AbstractInput, collect_inputs, unit_wrenches
from .mobility import mobility, scaled_rows
from .starting import assembled

_COMPONENTS = tuple(f"{kind}.{axis}" for kind in ("r", "theta") for axis in "xyz")


class Modes(eqx.Module):
    """Eigenmodes of a linearization; one of each conjugate pair, slowest first.

    Attributes:
        eigenvalues: (n,) [1/s].
        vectors: In the minimal coordinates and their rates, (2f, n).
        frequency: |imaginary part| / 2π, (n,) [Hz].
        damping_ratio: -real part / |eigenvalue|, (n,); negative where the mode grows.
        shapes: Displacements of all bodies, (n, nb, 6): of the mass centers [m], global, and turns
            [rad], body frame.
    """

    eigenvalues: Complex[np.ndarray, " n"]
    vectors: Complex[np.ndarray, "x n"]
    frequency: Float[np.ndarray, " n"]
    damping_ratio: Float[np.ndarray, " n"]
    shapes: Complex[np.ndarray, "n nb 6"]


class Linearization(eqx.Module):
    """ẋ = A x + B u for the difference from the motion through a state, x = (y, ẏ), in f minimal
    coordinates.

    At an equilibrium that motion is rest, and A is constant. A steady rotation has a constant A
    too, since displacements are components in the bodies. The minimal coordinates y are f of the
    displacements
    of the bodies: "cart.r.x" of a mass center [m], global, or "rod.theta.y", a component of the
    small rotation [rad], body frame.

    Attributes:
        A: (2f, 2f).
        B: (2f, k).
        drift: Rates of the coordinates in the motion itself, (2f,); zero at an equilibrium.
        basis: Displacements of all bodies by the minimal coordinates, (nb, 6, f).
        state: Where it was linearized (assembled).
        coordinates: Names of the minimal coordinates.
        inputs: What u acts on.
    """

    A: Float[Array, "x x"]
    B: Float[Array, "x k"]
    drift: Float[Array, " x"]
    basis: Float[Array, "nb 6 f"]
    state: State
    inputs: tuple[AbstractInput, ...]
    coordinates: tuple[str, ...] = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)

    def modes(self) -> Modes:
        """Eigenvalues and shapes of the small motions (concrete values only)."""
        values, vectors = np.linalg.eig(np.asarray(self.A))
        keep = np.nonzero(np.imag(values) >= 0.0)[0]
        keep = keep[np.argsort(np.abs(values[keep]), kind="stable")]
        values, vectors = values[keep], vectors[:, keep]
        size = np.abs(values)
        damping = np.divide(-np.real(values), size, out=np.ones_like(size), where=size > 0.0)
        f = len(self.coordinates)
        shapes = np.einsum("bcf,fn->nbc", np.asarray(self.basis), vectors[:f])
        return Modes(
            values.astype(complex),
            vectors.astype(complex),
            np.imag(values) / (2 * np.pi),
            damping,
            shapes + 0j,
        )

    def lqr(self, Q: Any, R: Any) -> Float[np.ndarray, "k x"]:
        """The gain K of u = -K x that minimizes ∫ xᵀQx + uᵀRu dt (concrete values only)."""
        A, B, Q, R = (np.atleast_2d(np.asarray(x, float)) for x in (self.A, self.B, Q, R))
        P = linalg.solve_continuous_are(A, B, Q, R)
        return np.linalg.solve(R, B.T @ P)

    def coordinates_of(self, pose: Pose, twist: Twist) -> Float[Array, " x"]:
        """(y, ẏ) of a pose and twist of all bodies."""
        rows, parts = _selection(self.coordinates, self.bodies)
        turn = jax.vmap(lambda A0, A: so3.log(A0.T @ A))(self.state.A, pose.A)
        moved = jnp.concatenate([pose.r - self.state.r, turn], axis=1)
        rates = jnp.concatenate([twist.v, twist.omega], axis=1)
        return jnp.concatenate([moved[rows, parts], rates[rows, parts]])

    def feedback(self, K: Any, limit: Any = None) -> "StateFeedback":
        """U = -K x as the function of a `UserForce` on all bodies, in the order of the mechanism.

        Args:
            K: Gain, (k, 2f).
            limit: Largest |u|, one number or (k,), or None.
        """
        dtype = self.A.dtype
        limit = jnp.asarray(jnp.inf if limit is None else limit, dtype)
        return StateFeedback(self, jnp.atleast_2d(jnp.asarray(K, dtype)), limit)


class StateFeedback(eqx.Module):
    """The wrenches of u = -K x on all bodies; see `Linearization.feedback`."""

    linearization: Linearization
    K: Float[Array, "k x"]
    limit: Array

    def control(self, pose: Pose, twist: Twist) -> Float[Array, " k"]:
        """U at a pose and twist of all bodies."""
        return jnp.clip(
            -self.K @ self.linearization.coordinates_of(pose, twist), -self.limit, self.limit
        )

    def __call__(self, pose: Pose, twist: Twist, t: Scalar):
        load = jnp.tensordot(
            self.control(pose, twist), unit_wrenches(self.linearization.inputs, pose), axes=1
        )
        return load[:, :3], load[:, 3:]


def linearize(
    system: System,
    state: State,
    *,
    t: Any = 0.0,
    coordinates: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
) -> Linearization:
    """Linearize the equations of motion near a state, in minimal coordinates.

    Drivers and loops are part of it: only motions that all constraints allow are left. Derivatives
    are exact, and A, B and drift can be differentiated themselves, for instance to place an
    eigenfrequency.

    Args:
        system: The mechanism.
        state: Where; it is assembled first. An equilibrium, for the usual meaning of A.
        t: Time at which drivers and loads are held [s].
        coordinates: Names of the minimal coordinates, as many as freedoms: "cart.r.x",
            "rod.theta.y". By default a well-conditioned set is chosen, rotations first. Under `jit`
            or `grad` they must be given.
        inputs: Names of actuators, or "rod.force.x" (global, at the mass center), "rod.torque.y"
            (body frame). By default all actuators.

    Returns:
        The linear system.

    Raises:
        ValueError: No freedom is left, a name is unknown, or the coordinates do not determine the
            motion.
    """
    check_system(system, state, "linearize")
    if system.massless:
        raise ValueError(
            "linearize needs mass and inertia of every body; missing for "
            f"{', '.join(system.massless)}"
        )
    t = jnp.asarray(t, system.dtype)
    state, _ = assembled(system, state, t)
    if coordinates is None:
        coordinates = _choose(system, state, t)
    coordinates = tuple(coordinates)
    rows, parts = _selection(coordinates, system.bodies)
    chosen = collect_inputs(system, inputs)
    unnamed = tuple(dataclasses.replace(x, name="") for x in chosen)
    state = system.with_turns(state)
    A, B, drift, basis = _linearize(
        system, state, t, unnamed, tuple(rows.tolist()), tuple(parts.tolist())
    )
    found = Linearization(A, B, drift, basis, state, chosen, coordinates, system.bodies)
    if not isinstance(found.A, Tracer):
        _check(system, found)
    return found


@compiled_once
def _linearize(
    system: System,
    state: State,
    t: Scalar,
    inputs,
    bodies: tuple[int, ...],
    components: tuple[int, ...],
):
    """A, B, drift and basis of `Linearization`, in components of the bodies' displacements."""
    ra, f = RA(), len(bodies)
    system = system.wound(state.angles)
    rows, parts = np.array(bodies, int), np.array(components, int)
    held = (system.jet(t)[:2], rows, parts)
    zero = jnp.zeros(f, system.dtype)
    basis = jax.vmap(lambda e: _velocity(ra, system, state.pose, e, held, free=True), out_axes=-1)(
        jnp.eye(f, dtype=system.dtype)
    )
    u0 = jnp.concatenate([state.v, state.omega], axis=1)

    def rate(x, load):
        displacement = basis @ x[:f]
        # On the constraints to first order, which is all that a first derivative sees.
        pose = jax.vmap(ra.retract)(state.pose, displacement)
        u = _velocity(ra, system, pose, u0[rows, parts] + x[f:], held)
        a, _ = dynamic_accelerations(ra, system, pose, u, t, load)
        # Rates of displacements from a moving frame: that of the motion through the state.
        du = (u - u0).at[:, 3:].add(-jnp.cross(u0[:, 3:], displacement[:, 3:]))
        return jnp.concatenate([du[rows, parts], a[rows, parts]])

    start = jnp.concatenate([zero, zero])
    no_load = jnp.zeros((system.nb, 6), system.dtype)
    units = unit_wrenches(inputs, state.pose)

    def by_load(control):
        return rate(start, jnp.tensordot(control, units, axes=1))

    own = jnp.concatenate([u0[rows, parts], zero])
    A = jax.jacfwd(lambda x: rate(x, no_load))(start)
    B = jax.jacfwd(by_load)(jnp.zeros(len(inputs), system.dtype))
    return A, B, own + rate(start, no_load), basis


def _velocity(
    ra, system: System, pose: Pose, w, held, *, free: bool = False
) -> Float[Array, "nb 6"]:
    """The velocities that the constraints allow with the chosen components w; `free` holds all
    drivers still.
    """
    (jet_system, f_dot), rows, parts = held
    joint_rows = constraint_rows(ra, jet_system, pose)
    nu = velocity_right_side(ra, jet_system, f_dot, pose)
    own = (
        jnp.zeros((len(rows), joint_rows.shape[1], 6), w.dtype)
        .at[np.arange(len(rows)), 0, parts]
        .set(1.0)
    )
    every = jnp.concatenate([joint_rows, own])
    # Any weights serve: rows and chosen components determine the velocity.
    scale = jnp.concatenate([jnp.ones(3, w.dtype), jnp.full(3, system.length**2)])
    weights = jnp.broadcast_to(jnp.diag(scale), (system.nb, 6, 6))
    regularization = softness(ra, system, weights, joint_rows)
    if regularization is not None:
        regularization = jnp.concatenate([regularization, jnp.zeros(len(rows), w.dtype)])
    chosen = ((int(b), *[system.nb] * (joint_rows.shape[1] - 1)) for b in rows)
    bodies = (*row_bodies(ra, system), *chosen)
    matrix = SaddleMatrix(weights, (), every, every, regularization, bodies)
    n = 6 * system.nb
    rhs = jnp.concatenate([jnp.zeros(n, w.dtype), jnp.zeros_like(nu) if free else nu, w])
    return linear_solve(matrix.matvec, factorize(matrix, system.linear_solver), rhs)[:n].reshape(
        system.nb, 6
    )


def _selection(
    coordinates: tuple[str, ...], bodies: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Body and component of every coordinate."""
    known = {
        f"{body}.{part}": (b, k)
        for b, body in enumerate(bodies)
        for k, part in enumerate(_COMPONENTS)
    }
    for name in coordinates:
        if name not in known:
            raise ValueError(
                f"linearize: unknown coordinate {name!r}; write BODY.r.x or BODY.theta.x"
            )
    pairs = np.array([known[name] for name in coordinates], int).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _choose(system: System, state: State, t) -> tuple[str, ...]:
    """As many components as freedoms that determine the motion well, rotations before positions."""
    if isinstance(jax.tree.leaves(system)[0], Tracer) or isinstance(state.r, Tracer):
        raise ValueError(
            "linearize: under jit or grad give coordinates=, for instance those of "
            "linearize(...).coordinates on concrete numbers"
        )
    found = mobility(system, state, t=t)
    if not found.freedoms:
        raise ValueError(
            f"linearize: {system.name!r} has no freedom left; its drivers determine it"
        )
    if system.nc:
        null = np.linalg.svd(scaled_rows(system, state, t))[2][found.rank :]
    else:
        null = np.eye(6 * system.nb)
    # A rotation is preferred to a position that moves as much; of equals, the first body's.
    prefer = np.tile([1.0, 1.0, 1.0, 1.5, 1.5, 1.5], system.nb) * (
        1.0 - 1e-3 * np.arange(6 * system.nb) / null.shape[1]
    )
    _, _, order = linalg.qr(null * prefer, mode="economic", pivoting=True)  # pyright: ignore[reportAssignmentType]
    order = order[: found.freedoms]
    names = [f"{body}.{part}" for body in system.bodies for part in _COMPONENTS]
    return tuple(names[k] for k in sorted(order))


def _check(system: System, found: Linearization) -> None:
    if not np.all(np.isfinite(found.A)) or float(jnp.max(jnp.abs(found.basis))) > 1e6:
        freedoms, names = mobility(system, found.state).freedoms, ", ".join(found.coordinates)
        raise ValueError(
            f"linearize: the coordinates {names} do not determine the motion of {system.name!r}, "
            f"which has {freedoms} freedoms here; leave them out to have a good set chosen"
        )
