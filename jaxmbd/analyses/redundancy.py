"""Numbers that keep redundant loops closed and movable, and so have a derivative."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ..equations.rows import phi, row_sizes
from ..formulations import RA
from ..model.mechanism import Mechanism
from .assembly import assemble
from .mobility import mobility, row_norms, rows_without_units, sized_rows

_TOLERANCE = 1e-6  # of what a number changes in the constraints


def breaks_redundancy(mechanism: Mechanism, paths: Sequence[str] | None = None) -> dict[str, float]:
    """List the numbers that open or lock a redundant loop if they alone are changed at the
    described pose, with the size of the effect.

    Redundant constraints hold in a special geometry, for instance parallel axes. A number that
    leaves it (one axis of a planar loop) has no neighboring motion, and what automatic
    differentiation returns for it means nothing. With N the redundant combinations of rows and V
    the free motions, a number p stays in the geometry to first order where Nᵀ dΦ/dp = 0 and Nᵀ
    (dR/dp) V = 0.

    Args:
        mechanism: The mechanism.
        paths: Numbers of `Mechanism.values`; by default those of all joints and poses.

    Returns:
        The paths that break a redundancy, with the share of their effect that does (0 to 1); empty
        where none does, as in a mechanism without redundant rows.
    """
    values = mechanism.values()
    if paths is None:
        paths = [p for p in values if p.startswith("joints.") or p.endswith(".r")]
    paths = [
        p for p in paths if not _is_mechanical(p)
    ]  # an orientation only names the axes of a body
    system, state = mechanism.build()
    state, _ = assemble(system, state)
    found = mobility(system, state)
    if not (found.redundant_rows and paths):
        return {}
    rows = sized_rows(system, state, jnp.zeros((), system.dtype))
    norms = row_norms(rows)
    left, _, right = np.linalg.svd(rows / norms[:, None])
    N, V = left[:, found.rank :], right[found.rank :]
    numbers, rest = eqx.partition({p: _as_array(values[p]) for p in paths}, eqx.is_inexact_array)

    def redundant(numbers: dict[str, PyTree]):
        system, state = mechanism.with_values(eqx.combine(numbers, rest)).build()
        state, _ = assemble(system, state)
        now = system.at(jnp.zeros((), system.dtype))
        R = system.to_natural(rows_without_units(now, state.pose).T).T / norms[:, None]
        shares = phi(RA(), now, state.pose) / row_sizes(RA(), now)
        values = system.to_natural(shares) / norms
        return {"open": N.T @ values, "lock": N.T @ R @ V.T}, {"open": values, "lock": R}

    broken, all_of_it = jax.jit(jax.jacfwd(redundant))(numbers)
    result = {}
    for path in paths:
        effect = [
            jax.tree.leaves(part[kind][path])
            for part in (broken, all_of_it)
            for kind in ("open", "lock")
        ]
        size = [np.sqrt(sum(float(jnp.sum(x**2)) for x in leaves)) for leaves in effect]
        share = np.hypot(*size[:2]) / max(np.hypot(*size[2:]), 1e-12)
        if share > _TOLERANCE:
            result[path] = float(share)
    return result


def _is_mechanical(path: str) -> bool:
    """Whether a number enters no constraint."""
    return (
        path == "gravity"
        or path.startswith("forces.")
        or path.endswith((".A", ".mass", ".inertia", ".v", ".omega"))
    )


def _as_array(value: PyTree):
    return value if isinstance(value, eqx.Module) or callable(value) else jnp.asarray(value, float)
