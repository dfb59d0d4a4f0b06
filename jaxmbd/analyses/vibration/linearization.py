"""Linearization: the small motions of a constrained mechanism in minimal coordinates."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...equations.index1 import dynamic_accelerations
from ...equations.motion import regularization as softness
from ...equations.rows import row_bodies, velocity_right_side
from ...equations.rows import rows as constraint_rows
from ...formulations import RA
from ...linalg import SaddleMatrix, factorize, linear_solve
from ...model.compiled import compiled_once
from ...model.readable import readable
from ...model.state import Pose, State, Twist
from ...model.system import System
from ...model.validation import Numbers
from ...rotations import so3
from ...rotations.types import Scalar
from ...xla.tracing import is_traced
from ..inputs import AbstractInput, collect_inputs, unit_wrenches
from ..mobility import mobility, scaled_rows
from ..running.checks import check_system, needs_state
from ..running.initial_state import assembled
from .eigenmodes import Modes

_COMPONENTS = tuple(f"{kind}.{axis}" for kind in ("r", "theta") for axis in "xyz")
# The system's jet, its rows, and the bodies and components of the chosen coordinates.
_Held = tuple[tuple[System, Array], np.ndarray, np.ndarray]


class Linearization(eqx.Module):
    """ẋ = A x + B u for the difference from the motion through a state, x = (y, w), in minimal
    coordinates y and speeds w; of a mechanism whose force elements have states z, x = (y, w, z).

    Speeds are the rates of the coordinates, w = ẏ and both f in number, unless joints constrain
    velocities, as rolling does: then there are fewer speeds than coordinates, f of p.

    At an equilibrium that motion is rest, and A is constant. A steady rotation has a constant A
    too, since displacements are components in the bodies. The minimal coordinates y are p of the
    displacements
    of the bodies: "cart.r.x" of a mass center [m], global, or "rod.theta.y", a component of the
    small rotation [rad], body frame. The speeds are the rates of some of them.

    Attributes:
        A: (p + f, p + f).
        B: (p + f, k).
        drift: Rates of x in the motion itself, (p + f,); zero at an equilibrium.
        basis: Displacements of all bodies by the minimal coordinates, (nb, 6, p).
        state: Where it was linearized (assembled).
        coordinates: Names of the minimal coordinates.
        speeds: Names of those whose rates are the speeds.
        inputs: What u acts on.
        element_states: Names of z, such as "motor.current".
    """

    A: Float[Array, "x x"]
    B: Float[Array, "x k"]
    drift: Float[Array, " x"]
    basis: Float[Array, "nb 6 p"]
    state: State
    inputs: tuple[AbstractInput, ...]
    coordinates: tuple[str, ...] = eqx.field(static=True)
    speeds: tuple[str, ...] = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    element_states: tuple[str, ...] = eqx.field(static=True, default=())

    def __repr__(self) -> str:
        from ..summaries import of_linearization

        return readable(self, of_linearization)

    def modes(self) -> Modes:
        """Eigenvalues and shapes of the small motions (concrete values only)."""
        values, vectors = np.linalg.eig(np.asarray(self.A))
        keep = np.nonzero(np.imag(values) >= 0.0)[0]
        keep = keep[np.argsort(np.abs(values[keep]), kind="stable")]
        values, vectors = values[keep], vectors[:, keep]
        size = np.abs(values)
        damping = np.divide(-np.real(values), size, out=np.ones_like(size), where=size > 0.0)
        p = len(self.coordinates)
        shapes = np.einsum("bcp,pn->nbc", np.asarray(self.basis), vectors[:p])
        return Modes(
            values.astype(complex),
            vectors.astype(complex),
            np.imag(values) / (2 * np.pi),
            damping,
            shapes + 0j,
            self.state,
        )

    def lqr(self, Q: Numbers, R: Numbers) -> Float[np.ndarray, "k x"]:
        """The gain K of u = -K x that minimizes ∫ xᵀQx + uᵀRu dt (concrete values only)."""
        A, B, Q, R = (np.atleast_2d(np.asarray(x, float)) for x in (self.A, self.B, Q, R))
        from scipy import linalg  # late: it would take a fifth of the import of the package

        P = linalg.solve_continuous_are(A, B, Q, R)
        return np.linalg.solve(R, B.T @ P)

    def coordinates_of(self, pose: Pose, twist: Twist) -> Float[Array, " x"]:
        """(y, w) of a pose and twist of all bodies."""
        rows, parts = selection(self.coordinates, self.bodies)
        speed_rows, speed_parts = selection(self.speeds, self.bodies)
        turn = jax.vmap(lambda A0, A: so3.log(A0.T @ A))(self.state.A, pose.A)
        moved = jnp.concatenate([pose.r - self.state.r, turn], axis=1)
        rates = jnp.concatenate([twist.v, twist.omega], axis=1)
        return jnp.concatenate([moved[rows, parts], rates[speed_rows, speed_parts]])

    def feedback(self, K: Numbers, limit: Numbers | None = None) -> "StateFeedback":
        """U = -K x as the function of a `UserForce` on all bodies, in the order of the mechanism.

        Args:
            K: Gain, (k, p + f).
            limit: Largest |u|, one number or (k,), or None.

        Raises:
            ValueError: Force elements have states, which a function of poses does not know.
        """
        if self.element_states:
            raise ValueError(
                f"feedback: a user force does not know {', '.join(self.element_states)}; close the "
                "loop with an mbd.Controller, or with mbd.step"
            )
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


@needs_state
def linearize(
    system: System,
    state: State,
    *,
    t: Numbers = 0.0,
    coordinates: Sequence[str] | None = None,
    speeds: Sequence[str] | None = None,
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
        coordinates: Names of the minimal coordinates, as many as degrees of freedom: "cart.r.x",
            "rod.theta.y". By default a well-conditioned set is chosen, rotations first. Under `jit`
            or `grad` they must be given.
        speeds: Names of those among them whose rates are the speeds, where joints constrain
            velocities; likewise. All of them elsewhere.
        inputs: Names of actuators, or "rod.force.x" (global, at the mass center), "rod.torque.y"
            (body frame). By default all actuators.

    Returns:
        The linear system.

    Raises:
        ValueError: No degree of freedom is left, a name is unknown, or the coordinates do not
            determine the motion.
    """
    check_system(system, state, "linearize")
    system.refuse_laws("linearize", "leave them out")
    if system.massless:
        raise ValueError(
            "linearize needs mass and inertia of every body; missing for "
            f"{', '.join(system.massless)}"
        )
    t = jnp.asarray(t, system.dtype)
    state, _ = assembled(system, state, t)
    positions = system.at_position_level()
    if coordinates is None:
        coordinates = _choose(positions, state, t)
    coordinates = tuple(coordinates)
    if speeds is None:
        speeds = _choose(system, state, t, coordinates) if system.nonholonomic else coordinates
    speeds = tuple(speeds)
    rows, parts = selection(coordinates, system.bodies)
    speed_rows, speed_parts = selection(speeds, system.bodies)
    chosen = collect_inputs(system, inputs)
    unnamed = tuple(dataclasses.replace(x, name="") for x in chosen)
    state = system.with_turns(state)
    A, B, drift, basis = _linearize(
        system,
        state,
        t,
        unnamed,
        (tuple(rows.tolist()), tuple(parts.tolist())),
        (tuple(speed_rows.tolist()), tuple(speed_parts.tolist())),
    )
    found = Linearization(
        *(A, B, drift, basis, state, chosen, coordinates, speeds, system.bodies),
        system.element_state_names,
    )
    if not is_traced(found.A):
        _check(system, found)
    return found


@compiled_once
def _linearize(
    system: System,
    state: State,
    t: Scalar,
    inputs: tuple[AbstractInput, ...],
    coordinates: tuple[tuple[int, ...], tuple[int, ...]],
    speeds: tuple[tuple[int, ...], tuple[int, ...]],
):
    """A, B, drift and basis of `Linearization`, in components of the bodies' displacements, each
    given by bodies and components.
    """
    ra, p = RA(), len(coordinates[0])
    system = system.at_state(state)
    positions = system.at_position_level()
    rows, parts = (np.array(x, int) for x in coordinates)
    fast, ways = (np.array(x, int) for x in speeds)
    zero = jnp.zeros(p, system.dtype)
    placed = (positions.jet(t)[:2], rows, parts)
    basis = jax.vmap(
        lambda e: _velocity(ra, positions, state.pose, e, placed, free=True), out_axes=-1
    )(jnp.eye(p, dtype=system.dtype))
    held = (system.jet(t)[:2], fast, ways)
    u0 = jnp.concatenate([state.v, state.omega], axis=1)

    z0 = system.held_element_states()

    def rate(x: Float[Array, " x"], load: Float[Array, "nb 6"]):
        displacement, ahead = basis @ x[:p], len(x) - len(z0)
        now = system.with_element_states(z0 + x[ahead:])
        # On the constraints to first order, which is all that a first derivative sees.
        pose = jax.vmap(ra.retract)(state.pose, displacement)
        u = _velocity(ra, system, pose, u0[fast, ways] + x[p:ahead], held)
        a, _ = dynamic_accelerations(ra, now, pose, u, t, load)
        # Rates of displacements from a moving frame: that of the motion through the state.
        du = (u - u0).at[:, 3:].add(-jnp.cross(u0[:, 3:], displacement[:, 3:]))
        ground = jnp.zeros((1, 3), u.dtype)
        twist = Twist(*(jnp.concatenate([part, ground]) for part in (u[:, :3], u[:, 3:])))
        dz = now.element_state_rates(ra.with_ground(pose), twist, t)
        return jnp.concatenate([du[rows, parts], a[fast, ways], dz])

    start = jnp.concatenate([zero, jnp.zeros(len(fast) + len(z0), system.dtype)])
    no_load = jnp.zeros((system.nb, 6), system.dtype)
    units = unit_wrenches(inputs, state.pose)

    def by_load(control: Float[Array, " k"]):
        return rate(start, jnp.tensordot(control, units, axes=1))

    own = jnp.concatenate([u0[rows, parts], start[p:]])
    A = jax.jacfwd(lambda x: rate(x, no_load))(start)
    B = jax.jacfwd(by_load)(jnp.zeros(len(inputs), system.dtype))
    return A, B, own + rate(start, no_load), basis


def _velocity(
    ra: RA, system: System, pose: Pose, w: Float[Array, " f"], held: _Held, *, free: bool = False
) -> Float[Array, "nb 6"]:
    """Velocities that satisfy the constraints and have the chosen components w; `free` holds all
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


def selection(
    coordinates: tuple[str, ...], bodies: tuple[str, ...], who: str = "linearize"
) -> tuple[np.ndarray, np.ndarray]:
    """Body and component of every coordinate."""
    known = {
        f"{body}.{part}": (b, k)
        for b, body in enumerate(bodies)
        for k, part in enumerate(_COMPONENTS)
    }
    for name in coordinates:
        if name not in known:
            raise ValueError(f"{who}: unknown coordinate {name!r}; write BODY.r.x or BODY.theta.x")
    pairs = np.array([known[name] for name in coordinates], int).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _choose(
    system: System, state: State, t: Scalar, among: Sequence[str] | None = None
) -> tuple[str, ...]:
    """As many components as degrees of freedom that determine the motion well, rotations before
    positions; chosen `among` some components, or from all.
    """
    if is_traced(jax.tree.leaves(system)[0]) or is_traced(state.r):
        raise ValueError(
            "linearize: under jit or grad give coordinates= (and speeds=, where joints constrain "
            "velocities), for instance those of linearize(...) on concrete numbers"
        )
    found = mobility(system, state, t=t)
    if not found.freedoms:
        raise ValueError(
            f"linearize: {system.name!r} has no degree of freedom left; its drivers determine it"
        )
    if system.nc:
        null = np.linalg.svd(scaled_rows(system, state, t))[2][found.rank :]
    else:
        null = np.eye(6 * system.nb)
    # A rotation is preferred to a position that moves as much; of equals, the first body's.
    prefer = np.tile([1.0, 1.0, 1.0, 1.5, 1.5, 1.5], system.nb) * (
        1.0 - 1e-3 * np.arange(6 * system.nb) / null.shape[1]
    )
    prefer = prefer * np.where(_turns_with_its_body(state), 1e-3, 1.0)
    names = [f"{body}.{part}" for body in system.bodies for part in _COMPONENTS]
    if among is not None:
        prefer = prefer * np.isin(names, among)
    from scipy import linalg

    _, _, order = linalg.qr(null * prefer, mode="economic", pivoting=True)  # pyright: ignore[reportAssignmentType]
    order = order[: found.freedoms]
    return tuple(names[k] for k in sorted(order))


def _turns_with_its_body(state: State) -> np.ndarray:
    """Mask of the components of small rotations whose direction turns with the body, as in a
    spinning wheel; in these a steady motion would look unsteady, (6 nb,).
    """
    omega = np.asarray(state.omega)
    across = np.linalg.norm(omega[:, None, :] * (1.0 - np.eye(3)), axis=2)  # of each axis
    turning = across > 1e-9 * (1.0 + np.linalg.norm(omega, axis=1, keepdims=True))
    return np.concatenate([np.zeros_like(turning), turning], axis=1).reshape(-1)


def _check(system: System, found: Linearization) -> None:
    if not np.all(np.isfinite(found.A)) or float(jnp.max(jnp.abs(found.basis))) > 1e6:
        freedoms, names = mobility(system, found.state).freedoms, ", ".join(found.coordinates)
        raise ValueError(
            f"linearize: the coordinates {names} do not determine the motion of {system.name!r}, "
            f"which has {freedoms} degrees of freedom here; leave them out to have a good set "
            "chosen"
        )
