"""Block elimination of a saddle matrix along its topology: time near linear in the number of
bodies, loops included.
"""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..xla.indexing import take, take_or_zero
from .dense import DenseFactors
from .node_blocks import Blocks, node_blocks
from .ordering import Level, Schedule, Topology, schedule
from .saddle import SaddleMatrix
from .small_matrices import gauss_jordan, product, saddle_inverse, times, times_transposed

_SMALL = 24  # numbers up to which an inverse takes less time than LU


class _Eliminated(eqx.Module):
    """What one level leaves behind: P⁻¹, P⁻¹ B and C of its pivots, with B right of P and C below
    it. Nodes have S numbers, those that stay s.
    """

    inverse: Float[Array, "n S S"]
    right: Float[Array, "n w S s"]
    left: Float[Array, "n w s S"]


class _Inverse(eqx.Module):
    """The inverse of a definite matrix, which needs no pivots: faster than LU while it is small."""

    inverse: Float[Array, "n n"]

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return times(self.inverse, b)

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return times_transposed(self.inverse, b)


class BlockFactors(eqx.Module):
    """Factors of a saddle matrix by levels of independent supernodes; they serve the matrix and its
    transpose.

    Attributes:
        levels: In order of elimination.
        final: Factors of what remains, or None.
        regularization: E of the matrix, or None.
        schedule: The tables.
    """

    levels: tuple[_Eliminated, ...]
    final: DenseFactors | _Inverse | None
    regularization: Float[Array, " m"] | None
    schedule: Schedule = eqx.field(static=True)

    @staticmethod
    def of(matrix: SaddleMatrix, *, bodies_first: bool = False) -> "BlockFactors":
        """Eliminate; `bodies_first` is for regular bodies that nothing couples but rows."""
        nb, d, _ = matrix.diagonal.shape
        # Where rows may repeat, the inverse of several nodes would be large in all its parts.
        definite = bodies_first and matrix.regularization is None
        coupled = tuple(sorted({pair for c in matrix.couplings for pair in c.bodies}))
        topology = Topology(
            nb, d, matrix.bodies, matrix.inner, coupled, matrix.couplers, matrix.light
        )
        plan = schedule(topology, bodies_first=bodies_first, definite=definite)
        weights = _weights(matrix, plan)

        def inverses(pivots: Array, first: int, level: Level) -> Array:
            rows = max(pivots.shape[-1] - d, 0)
            own = weights[first : first + level.count, :rows]
            return saddle_inverse(pivots, own, level.places)

        final = _final_of_definite if definite else DenseFactors.of
        return _eliminated(node_blocks(matrix, plan), inverses, final, matrix.regularization, plan)

    @staticmethod
    def of_blocks(blocks: Float[Array, "slots S S"], plan: Schedule) -> "BlockFactors":
        """Eliminate a matrix of no particular structure: one block for each slot of a plan without
        rows. No block may become singular when those before it are gone.
        """
        return _eliminated(
            partial(_parts, blocks),
            lambda pivots, *_: gauss_jordan(pivots),
            DenseFactors.of,
            None,
            plan,
        )

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with K x = b."""
        return self._solve(b, transpose=False)

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """X with Kᵀ x = b."""
        return self._solve(b, transpose=True)

    def solve_unregularized(
        self, b: Float[Array, " n"], *, transpose: bool = False
    ) -> Float[Array, " n"]:
        """The solution without -E, to second order in E: one step of refinement whose residual is
        known, E y.
        """
        x = self._solve(b, transpose=transpose)
        if self.regularization is None:
            return x
        n = x.size - self.regularization.size
        again = jnp.concatenate([jnp.zeros(n, x.dtype), self.regularization * x[n:]])
        return x - self._solve(again, transpose=transpose)

    def solve_rows(self, b: Float[Array, " m"], *, transpose: bool = False) -> Float[Array, " m"]:
        """The last m unknowns of K x = (0, b): levels of bodies alone have no part in it."""
        plan = self.schedule
        place = plan.position[plan.position.size - b.size :]
        first = skipped = 0
        for level in plan.levels:
            if np.any(place < (skipped + level.count) * plan.size):
                break
            first, skipped = first + 1, skipped + level.count
        return self._swept(b, place, first, skipped, transpose=transpose)

    def _solve(self, b: Float[Array, " n"], *, transpose: bool) -> Float[Array, " n"]:
        return self._swept(b, self.schedule.position, 0, 0, transpose=transpose)

    def _swept(
        self, b: Float[Array, " n"], place: np.ndarray, first: int, skipped: int, *, transpose: bool
    ) -> Float[Array, " n"]:
        """Solutions at some places, where b is, by the levels from the `first` on; the nodes before
        them are the `skipped` ones.
        """
        plan = self.schedule
        levels = list(zip(plan.levels, self.levels, strict=True))[first:]
        sizes = plan.sizes[first:]
        node, at = place // plan.size - skipped, place % plan.size
        # Padding stands at the places that no unknown has; its blocks are the identity, its numbers
        # zero.
        where = np.full((plan.nodes - skipped, plan.size), b.size)
        where[node, at] = np.arange(b.size)
        own, after = levels[0][0].count if levels else 0, sizes[min(len(levels), 1)]
        mine, rest = (take_or_zero(b, x) for x in (where[:own, : sizes[0]], where[own:, :after]))
        halves = []
        for k, (level, done) in enumerate(levels):
            if k:
                mine, rest = rest[: level.count], rest[level.count :, : sizes[k + 1]]
            if transpose:
                half = times_transposed(done.inverse, mine)
                update = times_transposed(done.right, mine[:, None])
            else:
                half = times(done.inverse, mine)
                update = times(done.left, half[:, None])
            rest = rest - _sum_of(update.reshape(-1, sizes[k + 1]), level.vector_updates)
            halves.append(half)
        x = rest
        if self.final is not None:
            solve = self.final.solve_transpose if transpose else self.final.solve
            x = solve(rest.reshape(-1)).reshape(rest.shape)
        for k, (level, done) in reversed(list(enumerate(levels))):
            near = take_or_zero(x, level.neighbors)
            if transpose:
                pulled = times_transposed(
                    done.inverse, jnp.sum(times_transposed(done.left, near), axis=1)
                )
            else:
                pulled = jnp.sum(times(done.right, near), axis=1)
            solved = halves[k] - pulled
            if k:
                x = jnp.concatenate([solved, _of_width(x, sizes[k])])
            else:
                x = jnp.concatenate([solved.reshape(-1), x.reshape(-1)])
        ahead, behind = node * sizes[0], own * sizes[0] + (node - own) * after
        return take(x.reshape(-1), np.where(node < own, ahead, behind) + at)


def _final_of_definite(matrix: Float[Array, "n n"]) -> DenseFactors | _Inverse:
    small = matrix.shape[0] <= _SMALL
    return _Inverse(gauss_jordan(matrix[None])[0]) if small else DenseFactors.of(matrix)


def _eliminated(
    blocks: Blocks,
    inverses: Callable[[Array, int, Level], Array],
    final: Callable[[Array], DenseFactors | _Inverse],
    regularization: Float[Array, " m"] | None,
    plan: Schedule,
) -> BlockFactors:
    """Factors by the blocks at slots of the plan, by the inverses of the pivots of every level,
    whose first node is the given one, and by those of what remains.
    """
    levels, first = [], 0
    for level, size, after in zip(plan.levels, plan.sizes, plan.sizes[1:], strict=False):
        pivot = inverses(blocks(level.pivots, size, size), first, level)
        first += level.count
        left = blocks(level.left, after, size)
        right = product(pivot[:, None], blocks(level.right, size, after))
        levels.append(_Eliminated(pivot, right, left))
        # Products of a pivot's neighbors, two and two.
        update = product(left[:, :, None], right[:, None, :]).reshape(-1, after, after)
        kept = blocks(level.kept, after, after) - _sum_of(update, level.block_updates)
        blocks = partial(_parts, kept)
    r, size = plan.final.shape[0], plan.sizes[-1]
    rest = blocks(plan.final, size, size).transpose(0, 2, 1, 3).reshape(r * size, r * size)
    return BlockFactors(tuple(levels), final(rest) if r else None, regularization, plan)


def _parts(blocks: Float[Array, "n s s"], slots: np.ndarray, rows: int, columns: int) -> Array:
    """Those at some slots, a slot past the last zero, without the padding of larger nodes."""
    return take_or_zero(blocks, slots)[..., :rows, :columns]


def _of_width(x: Float[Array, "n s"], width: int) -> Float[Array, "n width"]:
    """Padded by zeros."""
    return jnp.pad(x, ((0, 0), (0, width - x.shape[1]))) if width > x.shape[1] else x


def _weights(matrix: SaddleMatrix, plan: Schedule) -> Float[Array, "nodes m"]:
    """About the inertia that each row of a supernode meets; zero for rows of cut joints."""
    nb, d, _ = matrix.diagonal.shape
    own = jnp.abs(jnp.diagonal(matrix.diagonal, axis1=1, axis2=2))
    # Translations and rotations have their own unit of inertia; single inertias may vanish.
    mean = [
        jnp.repeat(jnp.mean(x, axis=1, keepdims=True), x.shape[1], axis=1)
        for x in (own[:, :3], own[:, 3:])
    ]
    mean = jnp.concatenate(mean, axis=1)
    if matrix.light:  # any weight serves: take that of the others
        heavy = np.setdiff1d(np.arange(nb), matrix.light)
        usual = jnp.mean(mean[heavy], axis=0)
        mean = mean.at[np.array(matrix.light)].set(usual[None, :])
    inertia = jnp.maximum(mean, jnp.finfo(own.dtype).tiny)
    mobility = jnp.concatenate(
        [1.0 / inertia, jnp.zeros((1, d), own.dtype)]
    )  # the ground's is zero
    rows = jnp.sum(matrix.right**2 * take(mobility, matrix.index), axis=(1, 2))
    place = plan.position[nb * d :]
    ours = np.flatnonzero(np.isin(place // plan.size, plan.position[: nb * d] // plan.size))
    size = plan.size - d
    at = place[ours] // plan.size * size + place[ours] % plan.size - d
    weights = (
        jnp.zeros(plan.nodes * size, own.dtype)
        .at[at]
        .set(1.0 / jnp.where(rows > 0.0, rows, 1.0)[ours])
    )
    return weights.reshape(plan.nodes, size)


def _sum_of(values: Float[Array, "n *s"], table: np.ndarray):
    """For every row of the table the sum of those values; an index past the last counts as zero."""
    if not table.shape[1]:
        return jnp.zeros((table.shape[0], *values.shape[1:]), values.dtype)
    return sum(take_or_zero(values, table[:, k]) for k in range(table.shape[1]))
