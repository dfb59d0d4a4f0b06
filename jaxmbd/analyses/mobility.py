"""Mobility: freedoms, rank and redundant constraints at a pose."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..formulations import RA
from ..formulations.index1 import dense_rows
from ..model.state import State
from ..model.system import System


@dataclass(frozen=True)
class Mobility:
    """What the constraint Jacobian says at one pose.

    Attributes:
        coordinates: 6 per body.
        rows: Constraint rows, drivers included.
        rank: Of the Jacobian; rows beyond it are redundant.
        freedoms: coordinates - rank.
        redundant_rows: rows - rank.
        redundant_joints: Names of the joints that take part in a redundancy.
        redundant_drivers: Names of the drivers that do.
        condition: Largest over smallest non-zero singular value of the scaled Jacobian.
    """

    coordinates: int
    rows: int
    rank: int
    freedoms: int
    redundant_rows: int
    redundant_joints: tuple[str, ...]
    redundant_drivers: tuple[str, ...]
    condition: float


def mobility(system: System, state: State, *, t: Any = 0.0) -> Mobility:
    """Count freedoms and find redundant constraints, by singular values at a consistent state (concrete values only).

    The count is that of the pose given: a mechanism in a singular position has more freedoms there than elsewhere.
    """
    jacobian = np.asarray(scaled_rows(system, state, jnp.asarray(t, system.dtype)))
    n = 6 * system.nb
    if not system.nc:
        return Mobility(n, 0, 0, n, 0, (), (), 1.0)
    left, values, _ = np.linalg.svd(jacobian)
    tolerance = max(jacobian.shape) * np.sqrt(np.finfo(jacobian.dtype).eps) * values[0] * 1e-1
    rank = int(np.sum(values > tolerance))
    null = left[:, rank:]
    weight = np.sqrt(np.sum(null**2, axis=1)) if null.shape[1] else np.zeros(system.nc)
    part = {c.name: bool(np.any(weight[list(c.rows)] > 1e-6)) for c in system.connections}
    return Mobility(
        coordinates=n,
        rows=system.nc,
        rank=rank,
        freedoms=n - rank,
        redundant_rows=system.nc - rank,
        redundant_joints=tuple(c.name for c in system.connections if part[c.name] and not c.is_driver),
        redundant_drivers=tuple(c.name for c in system.connections if part[c.name] and c.is_driver),
        condition=float(values[0] / values[rank - 1]) if rank else 1.0,
    )


@eqx.filter_jit
def _jitted_rows(system, pose, t):
    rows = dense_rows(RA(), system.at(t), pose)
    scale = jnp.tile(jnp.concatenate([jnp.ones(3, rows.dtype), jnp.full(3, 1.0 / system.length)]), system.nb)
    return system.to_natural((rows * scale[None, :]).T).T


def scaled_rows(system: System, state: State, t) -> np.ndarray:
    """The constraint Jacobian in the order of description, columns and rows scaled, (nc, 6 nb); concrete values."""
    # Rotations count as displacements at the system's length, and rows as unit vectors, so that rank is a matter of
    # geometry and not of units.
    rows = np.asarray(_jitted_rows(system, state.pose, t))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 1e-9, norms, 1.0)
