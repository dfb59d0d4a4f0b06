"""Local coordinates of the states of a mechanism near one that is closed.

Displacements ξ of all bodies, lengths in parts of the mechanism's, have coordinates y = Nᵀ ξ, where
the columns of N are an orthonormal basis of what the joints allow at the center; velocities have
w = Mᵀ (u - u₀), with M that of the velocities, which is N unless joints constrain velocities, as
rolling does. A state is closed again from N y along the directions that N leaves out, so that y and
w stay what they are.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...equations.rows import dense, phi, velocity_right_side
from ...equations.rows import rows as constraint_rows
from ...formulations import RA
from ...model.state import Pose, State
from ...model.system import System
from ...rotations import so3
from ...rotations.types import Scalar

_TURNS = 60  # of corrections, at most, that close a state far from the center
_CLOSED = 1e-13


class Independent(eqx.Module):
    """Of rows R of rank r at the center, a basis of what they say.

    Attributes:
        rows: The combinations of rows that are independent, (m, r).
        moves: The displacements, of least length, that change one of these by one, (6 nb, r).
    """

    rows: Float[Array, "m r"]
    moves: Float[Array, "n r"]

    def correction(self, gaps: Float[Array, " m"]) -> Float[Array, " n"]:
        """The least displacement that closes some gaps near the center."""
        return -self.moves @ (self.rows.T @ gaps)


class Chart(eqx.Module):
    """Local coordinates (y, w, z) near a closed state, z being the states of force elements.

    Attributes:
        center: The state.
        t: The instant [s].
        free, speeds: N and M, (6 nb, p) and (6 nb, f).
        close, match: Of the rows of joints, and of all rows, which are as many displacements apart
            as they are independent.
    """

    center: State
    t: Scalar
    free: Float[Array, "n p"]
    speeds: Float[Array, "n f"]
    close: "Independent"
    match: "Independent"

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        z = self.center.element_states
        return self.free.shape[-1] + self.speeds.shape[-1] + (0 if z is None else z.shape[-1])


def chart(system: System, state: State, t: Scalar, ranks: tuple[int, int]) -> Chart:
    """Coordinates near a closed state, from the ranks of its joints at position and at velocity
    level.
    """
    still = system.at_position_level()
    close, free = _split(_dense(still, state.pose, t), ranks[0])
    match, speeds = close, free
    if system.nonholonomic:
        match, speeds = _split(_dense(system, state.pose, t), ranks[1])
    return jax.lax.stop_gradient(Chart(state, t, free, speeds, close, match))


def _dense(system: System, pose: Pose, t: Scalar) -> Float[Array, "m n"]:
    """The rows of all bodies' displacements, lengths in parts of the mechanism's."""
    blocks = constraint_rows(RA(), system.at(t), pose)
    return dense(RA(), system, blocks) * jnp.tile(system.units(), system.nb)[None]


def _split(rows: Float[Array, "m n"], rank: int) -> tuple[Independent, Array]:
    """What rows of known rank say, and an orthonormal basis of their null space."""
    m, n = rows.shape
    if not m:
        none = Independent(jnp.zeros((0, 0), rows.dtype), jnp.zeros((n, 0), rows.dtype))
        return none, jnp.eye(n, dtype=rows.dtype)
    left, sizes, right = jnp.linalg.svd(rows, full_matrices=True)
    return Independent(left[:, :rank], right[:rank].T / sizes[None, :rank]), right[rank:].T


def at(
    system: System, here: Chart, x: Float[Array, " n"], t: Scalar, corrections: int | None = None
) -> tuple[State, Bool[Array, ""]]:
    """The state at some coordinates and an instant, and whether it is closed.

    Two corrections give values and first and second derivatives exactly at the center; None takes
    as many as are needed.
    """
    p, f = here.free.shape[1], here.speeds.shape[1]
    y, w, dz = x[:p], x[p : p + f], x[p + f :]
    now = system.at_position_level().at(t)
    units = jnp.tile(system.units(), system.nb)
    start = here.free @ y

    def gap_of(xi: Float[Array, " n"]) -> Array:
        return phi(RA(), now, _moved(system, here.center, xi))

    xi, open_by = _corrected(gap_of, here.close, start, corrections)
    pose = _moved(system, here.center, xi)
    jet_system, f_dot, _ = system.jet(t)
    rows = dense(RA(), system, constraint_rows(RA(), jet_system, pose)) * units[None]
    wanted = velocity_right_side(RA(), jet_system, f_dot, pose)
    u0 = jnp.concatenate([here.center.v, here.center.omega], axis=1).reshape(-1) / units
    u, wrong_by = _corrected(
        lambda u: rows @ u - wanted, here.match, u0 + here.speeds @ w, corrections
    )
    both = (u * units).reshape(-1, 6)
    near = here.center.angles
    angles = None
    if near is not None:
        angles = system.wound(near).angle_values(RA().with_ground(pose))
    z = here.center.element_states
    state = dataclasses.replace(
        here.center,
        r=pose.r,
        A=pose.A,
        v=both[:, :3],
        omega=both[:, 3:],
        angles=angles,
        element_states=z if z is None else z + dz,
    )
    return state, jnp.maximum(open_by, wrong_by) <= 1e3 * _CLOSED


def _corrected(
    gap_of: Callable[[Array], Array],
    close: Independent,
    start: Float[Array, " n"],
    corrections: int | None,
) -> tuple[Float[Array, " n"], Scalar]:
    """A displacement without gaps, from one with them, and the size of the last correction."""
    if not close.rows.size:
        return start, jnp.zeros((), start.dtype)
    if corrections is not None:

        def one(xi: Array, _: None) -> tuple[Array, None]:
            return xi + close.correction(gap_of(xi)), None

        return jax.lax.scan(one, start, length=corrections)[0], jnp.zeros((), start.dtype)

    def turn(s: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        xi, k, _ = s
        step = close.correction(gap_of(xi))
        return xi + step, k + 1, jnp.max(jnp.abs(step))

    def goes_on(s: tuple[Array, Array, Array]) -> Array:
        return (s[1] < _TURNS) & (s[2] > _CLOSED)

    first = start, jnp.zeros((), int), jnp.asarray(jnp.inf, start.dtype)
    xi, _, size = jax.lax.while_loop(goes_on, turn, first)
    return xi, size


def coordinates_of(system: System, here: Chart, state: State) -> Float[Array, " n"]:
    """The coordinates of a state."""
    units = jnp.tile(system.units(), system.nb)
    center = here.center
    turn = jax.vmap(lambda A0, A: so3.log(A0.T @ A))(center.A, state.A)
    xi = jnp.concatenate([state.r - center.r, turn], axis=1).reshape(-1) / units
    du = jnp.concatenate([state.v - center.v, state.omega - center.omega], axis=1)
    parts = [here.free.T @ xi, here.speeds.T @ (du.reshape(-1) / units)]
    if center.element_states is not None and state.element_states is not None:
        parts.append(state.element_states - center.element_states)
    return jnp.concatenate(parts)


def _moved(system: System, center: State, xi: Float[Array, " n"]) -> Pose:
    moves = xi.reshape(-1, 6) * system.units()[None, :]
    return jax.vmap(RA().retract)(center.pose, moves)
