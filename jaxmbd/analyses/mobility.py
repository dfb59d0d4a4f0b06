"""Mobility: degrees of freedom, rank and redundant constraints at a pose."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..equations.row_switches import on_rows
from ..equations.rows import dense, row_sizes, rows
from ..formulations import RA
from ..model.compiled import compiled_once, computed_now
from ..model.readable import counted, listed
from ..model.state import Pose, State
from ..model.system import System
from ..model.topology import Forest
from ..model.validation import Numbers, as_jax, is_concrete
from ..rotations.types import Array, Scalar
from .running.checks import check_system, needs_state

# Rows or columns beyond which singular values take minutes and gigabytes.
_LARGEST = 3000
_PART = 1e-6  # of a redundant combination, below which a row takes no part in it
_LISTED = 6  # redundant sets of a printed mobility
VANISHED = 1e-9  # of a row's size: a row this small binds nothing at the pose
_ASIDE = 3e-4  # how far aside a pose is compared, in parts of the system's length


@dataclass(frozen=True)
class RedundantSet:
    """Joints whose rows repeat each other, usually those of one closed loop.

    Attributes:
        joints: Their names, drivers included.
        rows: Rows that could go without a change of the motion, one for each that is redundant;
            other choices exist.
    """

    joints: tuple[str, ...]
    rows: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Mobility:
    """Rank of the constraint Jacobian at one pose: degrees of freedom and redundant constraints.

    Attributes:
        coordinates: 6 per body.
        rows: Constraint rows, drivers included; those that are switched off are not.
        rank: Of the Jacobian; rows beyond it are redundant.
        freedoms: coordinates - rank: the independent velocities.
        position_freedoms: The independent coordinates; more than `freedoms` where joints constrain
            velocities, as rolling does.
        redundant_rows: rows - rank.
        redundant_joints: Names of the joints that take part in a redundancy.
        redundant_drivers: Names of the drivers that do.
        condition: Largest over smallest non-zero singular value of the scaled Jacobian; NaN for a
            large tree of joints, whose rank is counted joint by joint.
        redundant_sets: The redundant rows, loop by loop.
    """

    coordinates: int
    rows: int
    rank: int
    freedoms: int
    redundant_rows: int
    redundant_joints: tuple[str, ...]
    redundant_drivers: tuple[str, ...]
    condition: float
    redundant_sets: tuple[RedundantSet, ...] = ()
    position_freedoms: int = -1

    def __repr__(self) -> str:
        return _described(self)

    def __post_init__(self) -> None:
        if self.position_freedoms < 0:
            object.__setattr__(self, "position_freedoms", self.freedoms)


def _described(found: Mobility) -> str:
    """Table of the counts, as `repr` shows it."""
    rows = [
        ("coordinates", str(found.coordinates)),
        ("constraint rows", str(found.rows)),
        ("rank", str(found.rank)),
        ("redundant rows", str(found.redundant_rows)),
    ]
    if found.position_freedoms != found.freedoms:
        rows.append(("degrees of freedom of positions", str(found.position_freedoms)))
    if np.isfinite(found.condition):
        rows.append(("condition of the Jacobian", f"{found.condition:.3g}"))
    lines = [f"Mobility: {counted(found.freedoms, 'degree')} of freedom", *listed(rows)]
    lines += [
        f"  redundant: {counted(len(x.rows), 'row')} among {', '.join(x.joints)}"
        for x in found.redundant_sets[:_LISTED]
    ]
    if found.redundant_drivers:
        lines.append(f"  redundant drivers: {', '.join(found.redundant_drivers)}")
    return "\n".join(lines)


@needs_state
def mobility(system: System, state: State, *, t: Numbers = 0.0) -> Mobility:
    """Count degrees of freedom and find redundant constraints, by singular values at a consistent
    state.

    The count is that of the pose given: a mechanism in a singular position has more degrees of
    freedom there than elsewhere.

    Args:
        system: The mechanism.
        state: Poses that satisfy the constraints; velocities are not used.
        t: Time at which drivers are evaluated [s].

    Raises:
        ValueError: The values are traced, or a mechanism with closed loops is too large for
            singular values.
    """
    check_system(system, state, "mobility")
    if not is_concrete((system, state, t)):
        raise ValueError("mobility counts with concrete values: call it outside jit, vmap and grad")
    with computed_now():
        return _counted(system, state, t)


def _counted(system: System, state: State, t: Numbers) -> Mobility:
    """`mobility` of known numbers."""
    n = 6 * system.nb
    if not system.nc:
        return Mobility(n, 0, 0, n, 0, (), (), 1.0)
    if max(n, system.nc) > _LARGEST:
        return _of_tree(system, state, t)
    jacobian = np.asarray(scaled_rows(system, state, jnp.asarray(t, system.dtype)))
    acting = _acting(system)
    count = int(np.sum(acting))
    if not count:
        return Mobility(n, 0, 0, n, 0, (), (), 1.0)
    left, values, _ = np.linalg.svd(jacobian[acting])
    rank = _rank(jacobian, values)
    null = np.zeros((system.nc, count - rank))
    null[acting] = left[:, rank:]
    weight = np.sqrt(np.sum(null**2, axis=1)) if null.shape[1] else np.zeros(system.nc)
    part = {c.name: bool(np.any(weight[list(c.rows)] > _PART)) for c in system.connections}
    return Mobility(
        coordinates=n,
        rows=count,
        rank=rank,
        freedoms=n - rank,
        redundant_rows=count - rank,
        redundant_joints=tuple(
            c.name for c in system.connections if part[c.name] and not c.is_driver
        ),
        redundant_drivers=tuple(c.name for c in system.connections if part[c.name] and c.is_driver),
        condition=float(values[0] / values[rank - 1]) if rank else 1.0,
        redundant_sets=_redundant_sets(system, null),
        position_freedoms=(
            mobility(system.at_position_level(), state, t=t).freedoms
            if system.nonholonomic
            else n - rank
        ),
    )


def _acting(system: System) -> np.ndarray:
    """Mask of the rows that are not switched off, in the order of description, (nc,)."""
    on = on_rows(system)
    return np.ones(system.nc, bool) if on is None else np.asarray(on)[list(system.order)]


def freedoms_lost_nearby(system: System, state: State, t: Scalar | float) -> int:
    """Number of degrees of freedom that a pose has in excess of neighboring poses; positive at a
    change point.

    Rows are looked at again a small way along a motion that the pose allows. What the pose alone
    leaves free is bound there to first order in that way; loops that stay redundant open to second
    order only.
    """
    rows = scaled_rows(system, state, t)
    _, values, right = np.linalg.svd(rows)
    rank = _rank(rows, values)
    free = right[rank:]
    if not len(free):
        return 0
    way = np.random.default_rng(0).normal(size=len(free)) @ free
    way = (_ASIDE / np.max(np.abs(way)) * way).reshape(-1, 6)
    way[:, :3] *= float(np.asarray(system.length))
    pose = _jitted_retract(state.pose, as_jax(way, system.dtype))
    moved = State(pose.r, pose.A, state.v, state.omega, state.angles, state.element_states)
    beside = np.linalg.svd(scaled_rows(system, moved, t), compute_uv=False)
    return int(np.sum(beside > np.sqrt(_ASIDE**3) * beside[0])) - rank


def nearly_repeating(
    system: System, state: State, t: Scalar | float
) -> tuple[float, tuple[str, ...]]:
    """Distance of a pose from a singular one: the smallest non-zero singular value, and the joints
    that it belongs to.

    Returns:
        The value relative to the largest one, and the names of the joints whose rows would repeat
        each other if it were zero; 1 and no names where there are no rows.
    """
    if not system.nc:
        return 1.0, ()
    rows = scaled_rows(system, state, t)
    left, values, _ = np.linalg.svd(rows)
    rank = _rank(rows, values)
    if not rank:
        return 1.0, ()
    vector = np.abs(left[:, rank - 1])
    joints = tuple(
        c.name for c in system.connections if np.any(vector[list(c.rows)] > 0.1 * vector.max())
    )
    return float(values[rank - 1] / values[0]), joints


def moving_without_inertia(system: System, state: State, t: Scalar | float) -> tuple[str, ...]:
    """Names of the bodies in motions that the joints allow and that have no kinetic energy, so that
    no force determines their acceleration.
    """
    if system.massless or system.inertias:
        return ()
    rows = scaled_rows(system, state, t)
    free = np.eye(6 * system.nb)
    if len(rows):
        _, values, right = np.linalg.svd(rows)
        free = right[_rank(rows, values) :]
    if not len(free):
        return ()
    motions = free.reshape(-1, system.nb, 6)
    length = float(np.asarray(system.length))
    moments, axes = np.linalg.eigh(np.asarray(system.inertia))
    roots = np.sqrt(np.maximum(moments, 0.0))[:, :, None] * np.swapaxes(axes, 1, 2) / length
    linear = np.sqrt(np.asarray(system.mass))[:, None] * motions[..., :3]
    momenta = np.concatenate([linear, np.einsum("bij,kbj->kbi", roots, motions[..., 3:])], axis=2)
    combined, values, _ = np.linalg.svd(momenta.reshape(len(free), -1))
    idle = combined[:, values <= 1e-8 * np.max(values, initial=1e-300)]
    sizes = np.linalg.norm(np.einsum("kn,kbi->nbi", idle, motions), axis=(0, 2))
    return tuple(name for name, size in zip(system.bodies, sizes, strict=True) if size > _PART)


def _rank(rows: np.ndarray, values: np.ndarray) -> int:
    """Rank of scaled rows by their singular values."""
    tolerance = max(rows.shape) * np.sqrt(np.finfo(rows.dtype).eps) * values[0] * 1e-1
    return int(np.sum(values > tolerance))


@compiled_once
def _jitted_retract(pose: Pose, delta: Float[Array, "nb 6"]):
    return jax.vmap(RA().retract)(pose, delta)


def _redundant_sets(system: System, null: np.ndarray) -> tuple[RedundantSet, ...]:
    """The redundant combinations of rows, (nc, k), as one set for each group of joints that repeat
    each other.
    """
    k = null.shape[1]
    if not k:
        return ()
    # Rows of the joints that close loops are preferred: each combination then stays within the loop
    # that it closes.
    preference = np.where(_closes_a_loop(system), 1e3, 1.0)
    from scipy import linalg  # late: it would take a fifth of the import of the package

    order = linalg.qr((preference[:, None] * null).T, mode="r", pivoting=True)[-1]
    chosen = order[:k]
    basis = null @ np.linalg.inv(null[chosen])
    names = system.row_names
    sets: dict[tuple[str, ...], list[str]] = {}
    for column, row in zip(basis.T, chosen, strict=True):
        takes_part = np.abs(column) > _PART * np.max(np.abs(column))
        joints = tuple(c.name for c in system.connections if takes_part[list(c.rows)].any())
        sets.setdefault(joints, []).append(names[row])
    return tuple(RedundantSet(joints, tuple(sorted(rows))) for joints, rows in sorted(sets.items()))


def _closes_a_loop(system: System) -> np.ndarray:
    """Mask of the rows of joints between bodies that earlier joints connect already, (nc,)."""
    forest, closes = Forest(system.nb + 1), np.zeros(system.nc, bool)
    for c in system.connections:
        closes[list(c.rows)] = not forest.join(*c.bodies)
    return closes


def _of_tree(system: System, state: State, t: Numbers) -> Mobility:
    """Mobility of a large tree: joints that close no loop are independent, so that their ranks add
    up.
    """
    n = 6 * system.nb
    if system.has_loops:
        raise ValueError(
            f"mechanism {system.name!r} has {system.nc} constraint rows and {n} coordinates: "
            "counting the degrees of freedom of closed loops takes singular values, here for at "
            f"most {_LARGEST} of each"
        )
    blocks = np.asarray(_block_rows(system, state, as_jax(t, system.dtype)))
    rows = np.moveaxis(blocks[list(system.order)], 0, -1)
    pairs: dict[frozenset[int], list[int]] = {}
    for c in system.connections:
        pairs.setdefault(frozenset((c.i, c.j)), []).extend(c.rows)
    rank = 0
    for indices in pairs.values():
        block = rows[..., indices].reshape(12, -1)
        values = np.linalg.svd(block / row_norms(block.T), compute_uv=False)
        rank += int(np.sum(values > np.sqrt(np.finfo(block.dtype).eps) * values[0]))
    return Mobility(n, system.nc, rank, n - rank, system.nc - rank, (), (), float("nan"))


@compiled_once
def _block_rows(system: System, state: State, t: Scalar):
    return _without_units(system.wound(state.angles).at(t), state.pose)


def _without_units(now: System, pose: Pose) -> Float[Array, "nc k 6"]:
    blocks = rows(RA(), now, pose)
    sizes = row_sizes(RA(), now, blocks)
    return blocks * now.units()[None, None, :] / sizes[:, None, None]


@compiled_once
def _jitted_rows(system: System, state: State, t: Scalar):
    now = system.wound(state.angles).at(t)
    return system.to_natural(rows_without_units(now, state.pose).T).T


def rows_without_units(now: System, pose: Pose) -> Float[Array, "nc n"]:
    """The constraint Jacobian in the stacked order, columns in `System.units` and rows divided by
    their sizes; `now` is the system at the instant.
    """
    return dense(RA(), now, _without_units(now, pose))


def sized_rows(system: System, state: State, t: Scalar | float) -> np.ndarray:
    """`rows_without_units` in the order of description, (nc, 6 nb); concrete values."""
    return np.asarray(_jitted_rows(system, system.with_turns(state), as_jax(t, system.dtype)))


def scaled_rows(system: System, state: State, t: Scalar | float) -> np.ndarray:
    """The constraint Jacobian in the order of description, columns and rows scaled, (nc, 6 nb);
    concrete values.
    """
    # Rotations count as displacements at the system's length, and rows as unit vectors, so that
    # rank is a matter of geometry and not of units.
    found = sized_rows(system, state, t)
    return found / row_norms(found)[:, None]


def row_norms(found: np.ndarray) -> np.ndarray:
    """Norms of rows without units, one for those that vanish at the pose, (m,)."""
    norms = np.linalg.norm(found, axis=1)
    return np.where(norms > VANISHED, norms, 1.0)
