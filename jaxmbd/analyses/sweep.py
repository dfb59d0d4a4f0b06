"""Small motions along every degree of freedom, for pictures of a mechanism before it is simulated.

Drivers are left out, so that what they move can be seen to move. Where the loops of a mechanism
cannot be closed, its joints are swept as a tree, and the loops stay open.
"""

import copy
import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..equations.rows import phi, row_sizes
from ..equations.spanning_tree import spanning_tree
from ..formulations import RA
from ..model.compiled import compiled_once
from ..model.state import State
from ..model.system import System
from ..model.validation import as_jax
from ..rotations import so3
from .mobility import row_norms, rows_without_units

_STEPS = 12  # from the middle of a sweep to either end
_ANGLE = 0.4  # how far a sweep goes [rad], or in parts of the system's length
_MOST_COORDINATES = 1200  # beyond which singular values take minutes
_MOST_FREEDOMS = 24  # that are swept
_CLOSED = 1e-9  # largest residual of a closed mechanism, of distances in parts of its length


@dataclass(frozen=True)
class Sweep:
    """Poses along one degree of freedom, from one end to the other.

    Attributes:
        name: "pin: angle", "guide: displacement", or "freedom 3" where no joint has a coordinate
            for it.
        r: (F, nb, 3) [m].
        A: (F, nb, 3, 3).
        middle: The row of the starting pose.
    """

    name: str
    r: np.ndarray
    A: np.ndarray
    middle: int


@dataclass(frozen=True)
class Sweeps:
    """All sweeps of a mechanism.

    Attributes:
        sweeps: One for each degree of freedom, at most 24.
        freedoms: How many there are, drivers left out; of the tree of joints where the mechanism
            does not close.
        closed: Whether its loops could be closed.
    """

    sweeps: list[Sweep]
    freedoms: int
    closed: bool


def sweeps(system: System, state: State) -> Sweeps:
    """Sweep every degree of freedom.

    Raises:
        ValueError: The mechanism has more than 200 bodies.
    """
    if 6 * system.nb > _MOST_COORDINATES:
        raise ValueError(
            f"mechanism {system.name!r} has {system.nb} bodies; the degrees of freedom of at most "
            f"{_MOST_COORDINATES // 6} can be swept"
        )
    system = system.at_position_level()
    driven = {row for c in system.connections if c.is_driver for row in c.rows}
    kept = np.array([row not in driven for row in range(system.nc)], bool)
    start = _Poses(system, state, kept)
    closed = start.close()
    if not closed:
        tree_rows = np.array(system.order, int)
        kept &= ~np.isin(tree_rows, spanning_tree(system).closures)
        start = _Poses(system, state, kept)
        start.close()
    names = start.names()
    found = [_swept(start, k, name) for k, name in enumerate(names[:_MOST_FREEDOMS])]
    return Sweeps(found, len(names), closed)


def _swept(start: "_Poses", k: int, name: str) -> Sweep:
    ends = []
    for sign in (-1.0, 1.0):
        here, poses, before = start.copy(), [], None
        for _ in range(_STEPS):
            # By the direction in the middle of a step, so that the other coordinates stay.
            before = here.direction(k, before)
            half = here.copy()
            half.move(0.5 * sign * _ANGLE / _STEPS * before)
            if not half.close():
                break
            here.move(sign * _ANGLE / _STEPS * half.direction(k, before))
            here.inverse = half.inverse
            if not here.close():
                break
            poses.append((here.r, here.A))
        ends.append(poses)
    rows = [*ends[0][::-1], (start.r, start.A), *ends[1]]
    r, A = (np.stack(x) for x in zip(*rows, strict=True))
    return Sweep(name, r, A, len(ends[0]))


class _Poses:
    """Poses that satisfy some rows, with the free motions there."""

    def __init__(self, system: System, state: State, kept: np.ndarray):
        self.system, self.kept = system, kept
        # Once: programs take systems without names, and there are a thousand calls.
        self.plain = system.unnamed()
        self.state = system.with_turns(state)
        self.r, self.A = np.asarray(state.r), np.asarray(state.A)
        self.length = float(np.asarray(system.length))
        # Displacements count in lengths of the system.
        self.scale = np.tile([self.length] * 3 + [1.0] * 3, system.nb)
        self.chosen: list[tuple[str, int, bool]] = []
        self.inverse: np.ndarray | None = None  # of the rows, at a pose nearby

    def copy(self) -> "_Poses":
        return copy.copy(self)  # arrays are replaced, never changed

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Residuals and Jacobian, both without units, of the rows that are kept."""
        dtype = self.system.dtype
        r, A = as_jax(self.r, dtype), as_jax(self.A, dtype)
        state = dataclasses.replace(self.state, r=r, A=A)
        gaps, jacobian = _gaps_and_rows(self.plain, state)
        return np.asarray(gaps)[self.kept], np.asarray(jacobian)[self.kept]

    def move(self, delta: np.ndarray) -> None:
        """Displace the bodies by scaled displacements and rotations in their frames, (6 nb,)."""
        step = (delta * self.scale).reshape(-1, 6)
        self.r = self.r + step[:, :3]
        turned = np.asarray(_exponentials(as_jax(step[:, 3:], self.system.dtype)))
        self.A = self.A @ turned

    def close(self) -> bool:
        """Close the joints by Newton's method with least steps; returns whether the rows are
        satisfied.
        """
        inverse, before = self.inverse, np.inf
        for _ in range(30):
            gaps, jacobian = self.rows()
            if not np.all(np.isfinite(gaps)):
                return False
            size = np.max(np.abs(gaps), initial=0.0)
            if size < _CLOSED:
                return True
            # The inverse of the pose before will do while it contracts: factorizing takes longest.
            if inverse is None or size > 0.1 * before:
                inverse = np.linalg.pinv(jacobian, rcond=1e-9)
            before = size
            delta = -inverse @ gaps
            # Far from a solution a step is no more than a part of the mechanism.
            self.move(delta * min(1.0, 0.3 / max(np.max(np.abs(delta)), 1e-300)))
        return False

    # --- what is free ---

    def null(self) -> np.ndarray:
        """An orthonormal basis of the motions that the rows allow, (6 nb, f)."""
        _, jacobian = self.rows()
        if not len(jacobian):
            return np.eye(len(self.scale))
        norms = row_norms(jacobian)
        left, values, right = np.linalg.svd(jacobian / norms[:, None])
        rank = int(np.sum(values > 1e-7 * max(values[0], 1e-300)))
        self.inverse = (right[:rank].T / values[:rank]) @ left[:, :rank].T / norms
        return right[rank:].T

    def names(self) -> list[str]:
        """Names of the degrees of freedom: independent joint coordinates first."""
        from scipy import linalg  # late, as elsewhere in this layer

        null = self.null()
        known = [
            (f"{c.name}: {what}", k, what == "angle")
            for k, c in enumerate(self.system.connections)
            for what, has in (
                ("angle", c.element.has_angle),
                ("displacement", c.element.has_displacement),
            )
            if has and not c.is_driver and c.element.freedoms is not None
        ]
        if known and null.shape[1]:
            rates = np.stack([self._rate(k, turns) for _, k, turns in known]) @ null
            factors: Any = linalg.qr(rates.T, mode="economic", pivoting=True)
            _, triangle, order = factors
            sizes = np.abs(np.diag(triangle))
            independent = int(np.sum(sizes > 1e-6 * max(sizes[0], 1e-300))) if sizes[0] > 0 else 0
            self.chosen = [known[k] for k in sorted(order[:independent])]
        count = null.shape[1]
        rest = [f"freedom {k + 1}" for k in range(len(self.chosen), count)]
        return [name for name, _, _ in self.chosen] + rest

    def direction(self, k: int, before: np.ndarray | None) -> np.ndarray:
        """Motion of a degree of freedom at this pose, with largest component one: the other chosen
        coordinates rest, and motions that no coordinate names continue in their direction.
        """
        null = self.null()
        rates = np.array([self._rate(c, turns) for _, c, turns in self.chosen])
        rates = (rates @ null) if len(rates) else np.zeros((0, null.shape[1]))
        if k < len(self.chosen):
            way = null @ np.linalg.lstsq(rates, np.eye(len(rates))[k], rcond=1e-9)[0]
        else:
            free = null
            if len(rates):
                _, values, right = np.linalg.svd(rates)
                rank = int(np.sum(values > 1e-9 * values[0]))
                free = null @ right[rank:].T
            way = free @ (free.T @ before) if before is not None else _sparse(free, k - len(rates))
        size = np.max(np.abs(way), initial=0.0)
        if before is not None and way @ before < 0.0:
            way = -way
        return way / size if size > 1e-12 else np.zeros_like(way)

    def _rate(self, k: int, turns: bool) -> np.ndarray:
        """The rate of a joint's angle or displacement as a row of scaled columns, (6 nb,)."""
        c = self.system.connections[k]
        row = np.zeros((self.system.nb + 1, 6))
        i, j = c.i, c.j
        A = np.concatenate([self.A, np.eye(3)[None]])
        r = np.concatenate([self.r, np.zeros((1, 3))])
        axis = A[i] @ np.asarray(c.axis_i_bar)
        if turns:
            row[j, 3:] += axis @ A[j]
            row[i, 3:] -= axis @ A[i]
        else:
            q = r[j] + A[j] @ np.asarray(c.s_j_bar)
            row[j, :3] += axis
            row[j, 3:] += np.cross(q - r[j], axis) @ A[j]
            row[i, :3] -= axis
            row[i, 3:] -= np.cross(q - r[i], axis) @ A[i]
        return row[:-1].ravel() * self.scale


def _sparse(free: np.ndarray, k: int) -> np.ndarray:
    """The k-th of a basis of directions that each have a large component of their own."""
    from scipy import linalg

    factors: Any = linalg.qr(free.T, mode="economic", pivoting=True)
    order = factors[-1]
    chosen = np.sort(order[: free.shape[1]])
    return free @ np.linalg.solve(free[chosen], np.eye(free.shape[1])[k])


@compiled_once
def _gaps_and_rows(system: System, state: State):
    now = system.wound(state.angles).at(jnp.zeros((), system.dtype))
    gaps = phi(RA(), now, state.pose) / row_sizes(RA(), now)
    return system.to_natural(gaps), system.to_natural(rows_without_units(now, state.pose).T).T


@jax.jit
def _exponentials(turns: Float[Array, "nb 3"]):
    return jax.vmap(so3.exp)(turns)
