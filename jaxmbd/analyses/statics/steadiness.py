"""Checks that a balanced mechanism stays as it is: joints and loads that turn with it, or rest."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ...equations.rows import phi, row_sizes, velocity_values
from ...equations.statics import Rest, Spin, element_load, moving_bodies
from ...formulations import RA
from ...model.state import Pose
from ...model.system import System
from ...rotations import so3
from ...rotations.types import Scalar
from ...xla.indexing import take

_TURNED = 0.3  # [rad], after which a steady rotation is compared with itself
_CHANGED = 1e-6  # of lengths and of loads


class Unsteadiness(eqx.Module):
    """Rates of change of joints and loads that should not change.

    Attributes:
        rows: By how much every row is violated, in parts of its size, (nc,), in the order of
            description; lengths relative to the system's.
        gravity: Change of the direction of gravity [-].
        forces: Change of the loads of every force element, relative to the largest, stack by stack,
            (n,) each.
    """

    rows: Float[Array, " nc"]
    gravity: Scalar
    forces: tuple[Array, ...]

    @property
    def steady(self) -> Bool[Array, ""]:
        """Whether nothing changes."""
        worst = jnp.max(jnp.abs(self.rows), initial=0.0)
        worst = jnp.maximum(worst, self.gravity)
        for x in self.forces:
            worst = jnp.maximum(worst, jnp.max(x, initial=0.0))
        return worst <= _CHANGED

    def blame(self, system: System) -> str:
        """Name of the part that changes most; concrete values."""
        forces = [
            (float(value), f"force {name!r}")
            for stack, values in zip(system.forces, self.forces, strict=True)
            for name, value in zip(stack.names, np.asarray(values), strict=True)
        ]
        gravity = [(float(self.gravity), "gravity")]
        rows = np.abs(np.asarray(self.rows))
        joints = [
            (float(np.max(rows[list(c.rows)])), f"joint {c.name!r}") for c in system.connections
        ]
        return max(joints + gravity + forces)[1]


def unsteadiness(system: System, pose: Pose, t: Scalar, spin: Spin | None) -> Unsteadiness:
    """Changes that keep an equilibrium from rest, or from a steady rotation of the whole; `system`
    counts its angles from the pose.
    """
    none = jnp.zeros((), t.dtype)
    if spin is None:
        rows = jnp.zeros(system.nc, t.dtype)
        if system.nonholonomic:
            rest = jnp.zeros((system.nb, 6), t.dtype)
            rates = jnp.concatenate(velocity_values(RA(), system.at(t), pose, rest))
            rows = rows.at[system.holonomic_rows :].set(rates) / row_sizes(RA(), system)
        return Unsteadiness(
            system.to_natural(rows), none, tuple(jnp.zeros(len(s.names)) for s in system.forces)
        )
    turn = so3.exp(_TURNED * spin.direction)
    still = spin.rate == 0.0
    later = t + jnp.where(still, 0.0, _TURNED / jnp.where(still, 1.0, spin.rate))
    moved = jax.vmap(lambda p: Pose(spin.point + turn @ (p.r - spin.point), turn @ p.A))(pose)
    g = system.gravity
    size = jnp.sqrt(g @ g)
    gravity = jnp.max(jnp.abs(turn @ g - g)) / jnp.where(size > 0.0, size, 1.0)
    one = jnp.ones_like(t)
    before, after = (
        _element_loads(Rest(system.at(time), time, one, spin), p)
        for time, p in ((t, pose), (later, moved))
    )
    largest = jnp.max(jnp.stack([none, *(jnp.max(jnp.abs(x), initial=0.0) for x in before)]))
    unit = jnp.where(largest > 0.0, largest, 1.0)
    changes = []
    for old, new in zip(before, after, strict=True):
        old = old.at[..., :3].set(jnp.einsum("ij,nkj->nki", turn, old[..., :3]))
        changes.append(jnp.max(jnp.abs(new - old), axis=(1, 2)) / unit)
    rows = system.to_natural(phi(RA(), system.at(later), moved) / row_sizes(RA(), system))
    return Unsteadiness(rows, gravity, tuple(changes))


def _element_loads(args: Rest, pose: Pose) -> list[Float[Array, "n k 6"]]:
    padded = RA().with_ground(pose)
    return [
        stack.each(
            lambda element, at, moving: element_load(args, element, at, moving),
            jax.tree.map(lambda x, stack=stack: take(x, stack.index), padded),
            moving_bodies(stack, args),
        )
        for stack in args.system.forces
    ]
