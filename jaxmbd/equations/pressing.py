"""Forces that come with those of rows, follow their magnitude whatever their sign and do no work:
what presses gears apart.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations import RA
from ..linalg import factorize
from ..linalg.linear_solve import linear_solve
from ..model.state import Pose
from ..model.system import System
from ..xla.indexing import sums_at
from .index1 import saddle_matrix
from .min_norm_multipliers import min_norm_multipliers
from .rows import rows
from .statics import metric


def pressing_loads(system: System, pose: Pose, sizes: Float[Array, " m"]) -> Float[Array, "nb 6"]:
    """Forces, global, and torques about the mass centers, body frame, that come with forces of the
    rows of these magnitudes, in the stacked order.
    """
    loads = _of_rows(system, pose, sizes).reshape(-1, 6)
    return sums_at(loads, system.row_bodies.ravel(), system.nb)


def pressing_on_j(system: System, pose: Pose, sizes: Float[Array, " m"]) -> Float[Array, "m 6"]:
    """The same of every row, on its body j."""
    return _of_rows(system, pose, sizes)[:, 1]


def _of_rows(system: System, pose: Pose, sizes: Float[Array, " m"]) -> Float[Array, "m k 6"]:
    padded, start = RA().with_ground(pose), 0
    total = jnp.zeros((*system.row_bodies.shape, 6), system.dtype)
    for stack in system.constraints:
        end = start + len(stack)
        if type(stack.primitive).presses:
            unit = stack.each(lambda p, *poses: p.pressing(*poses), *stack.local(padded))
            loads = unit * sizes[start:end, None, None]
            total = total.at[start:end, : stack.width].set(loads)
        start = end
    return total


def pressed(
    system: System,
    pose: Pose,
    lam: Float[Array, " m"],
    signs: Float[Array, " m"] | None = None,
) -> Float[Array, " m"]:
    """The multipliers with what joints bear of the forces that come with those of rows, which the
    equations of motion leave out; `system` is at the time of the pose.

    They do no work, and so are of the form Rᵀ Δλ. `signs` of the multipliers make it linear in
    these: for small changes of `lam`, or impulses in its place.
    """
    if not system.presses:
        return lam
    lam, own = lam[: system.nc], lam[system.nc :]  # normalizations hold no joint
    sizes = jnp.abs(lam) if signs is None else signs[: system.nc] * lam
    borne = _borne(system, pose, sizes)
    return jnp.concatenate([min_norm_multipliers(system, pose, lam + borne), own])


def pressing_rows(system: System) -> np.ndarray:
    """The numbers of the rows that have such forces, (k,), in the stacked order."""
    each = [
        np.full(len(stack), type(stack.primitive).presses, bool) for stack in system.constraints
    ]
    return np.flatnonzero(np.concatenate([np.zeros(0, bool), *each]))


def borne_of_each(system: System, pose: Pose) -> Float[Array, "k m"]:
    """The multipliers by which joints bear what comes with a unit force of every one of the
    `pressing_rows`; `system` is at the time of the pose.
    """

    def one(sizes: Float[Array, " m"]) -> Float[Array, " m"]:
        return min_norm_multipliers(system, pose, _borne(system, pose, sizes))

    return jax.vmap(one)(jnp.eye(system.nc, dtype=system.dtype)[pressing_rows(system)])


def _borne(system: System, pose: Pose, sizes: Float[Array, " m"]) -> Float[Array, " m"]:
    """Multipliers of the loads that come with forces of the rows of these magnitudes."""
    loads = pressing_loads(system, pose, sizes)
    matrix = saddle_matrix(RA(), system, metric(system), rows(RA(), system, pose))
    factors = factorize(matrix, system.linear_solver)
    right = jnp.concatenate([loads.reshape(-1), jnp.zeros_like(sizes)])
    return linear_solve(matrix.matvec, factors, right)[loads.size :]
