"""Saddle-point matrices kept in blocks: bodies, couplings of bodies, and constraint rows.

    K = [[ H,  Rᵀ ],     H: one d x d block per body, plus blocks that couple a few bodies
         [ L,  -E ]]     R, L: rows with d numbers for each of a few bodies
                         E: diagonal regularization

This layer knows numbers only. A linear solver takes such a matrix; each strategy is its own file.
"""

import dataclasses
from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..xla.indexing import sums_at, take
from .small_matrices import times_last_transposed

# Bodies from which tangents are stored, by a product that XLA does not take apart: it would compute
# them again for every line that is gathered from them.
_STORED = 400

Index = tuple[tuple[int, ...], ...]


class Coupling(eqx.Module):
    """Blocks of H that couple k bodies each: `blocks` (n, k, s, k, s), which meet the last s of a
    body's d numbers, and `bodies`, n tuples of k indices.
    """

    blocks: Float[Array, "n k s k s"]
    bodies: Index = eqx.field(static=True)

    def padded(self, d: int) -> Float[Array, "n k d k d"]:
        """The blocks with the zeros of those numbers that they do not meet."""
        return _padded_before(self.blocks, d, axes=(2, 4))

    def scaled(self, units: Float[Array, " d"]) -> "Coupling":
        """The blocks by unknowns in `units`."""
        mine = units[units.size - self.blocks.shape[-1] :]
        blocks = mine[None, None, :, None, None] * self.blocks * mine[None, None, None, None, :]
        return Coupling(blocks, self.bodies)


class SaddleMatrix(eqx.Module):
    """A saddle-point matrix in blocks; body indices are static, and index nb, the ground, is
    dropped.

    Attributes:
        diagonal: H's diagonal blocks, (nb, d, d).
        couplings: Further blocks of H.
        right: R, rows (m, k, d) for their k bodies.
        left: L, rows (m, k, d); the same as `right` in a symmetric matrix.
        regularization: E's diagonal, (m,), or None.
        bodies: Bodies of each row, m tuples of k static indices; a row of fewer bodies has the
            ground in their place.
        inner: Number of rows at the end that bind the coordinates of one body alone.
        couplers: Rows such as those of gears: each binds, of each of its bodies, what the joint of
            that body leaves free.
        light: Bodies without inertia of their own, which can go only after those that they carry.
    """

    diagonal: Float[Array, "nb d d"]
    couplings: tuple[Coupling, ...]
    right: Float[Array, "m k d"]
    left: Float[Array, "m k d"]
    regularization: Float[Array, " m"] | None
    bodies: Index = eqx.field(static=True)
    inner: int = eqx.field(static=True, default=0)
    couplers: tuple[int, ...] = eqx.field(static=True, default=())
    light: tuple[int, ...] = eqx.field(static=True, default=())

    @property
    def index(self) -> np.ndarray:
        """Bodies of the rows, (m, k)."""
        return np.array(self.bodies, int).reshape(self.right.shape[:2])

    @property
    def size(self) -> int:
        """Number of unknowns: nb·d + m."""
        return self.diagonal.shape[0] * self.diagonal.shape[1] + len(self.bodies)

    def dense(self) -> Float[Array, "n n"]:
        """The matrix as one array, unknowns of the bodies first, then of the rows."""
        n = self.size
        entries, index = self.scattered(np.arange(n), lambda row, column: row * n + column, n * n)
        return sums_at(entries, index, n * n).reshape(n, n)

    def scattered(
        self,
        position: np.ndarray,
        flat: Callable[[np.ndarray, np.ndarray], np.ndarray],
        spare: int,
    ) -> tuple[Float[Array, " e"], np.ndarray]:
        """All entries as one vector, and where each belongs.

        `position` places the unknowns, `flat` takes a row's and a column's position to a place in
        storage; entries of the ground get the place `spare`.
        """
        nb, d, _ = self.diagonal.shape
        m = len(self.bodies)
        columns = np.full((nb + 1, d), -1)
        columns[:nb] = position[: nb * d].reshape(nb, d)  # the ground's stay -1
        entries, index = [], []

        def add(values: Array, row: np.ndarray, column: np.ndarray) -> None:
            row, column = np.broadcast_arrays(row, column)
            place = np.where((row < 0) | (column < 0), spare, flat(row, column))
            entries.append(values.reshape(-1))
            index.append(place.reshape(-1))

        add(self.diagonal, columns[:nb, :, None], columns[:nb, None, :])
        for c in self.couplings:
            at = columns[np.array(c.bodies, int), d - c.blocks.shape[-1] :]  # (n, k, s)
            add(c.blocks, at[:, :, :, None, None], at[:, None, None, :, :])
        if m:
            at = columns[self.index]  # (m, k, d)
            dual = position[nb * d :][:, None, None]
            add(self.right, at, dual)
            add(self.left, dual, at)
            if self.regularization is not None:
                add(-self.regularization, dual[:, 0, 0], dual[:, 0, 0])
        return jnp.concatenate(entries), np.concatenate(index)

    def scaled(self, units: Float[Array, " d"], sizes: Float[Array, " m"]) -> "SaddleMatrix":
        """The matrix by unknowns of the bodies in `units`, with rows divided by their `sizes`."""
        rows = units[None, None, :] / sizes[:, None, None]
        softness = self.regularization
        return dataclasses.replace(
            self,
            diagonal=units[None, :, None] * self.diagonal * units[None, None, :],
            couplings=tuple(c.scaled(units) for c in self.couplings),
            right=self.right * rows,
            left=self.left * rows,
            regularization=None if softness is None else softness / sizes**2,
        )

    def matvec(self, x: Float[Array, " n"], *, regularized: bool = False) -> Float[Array, " n"]:
        """The product with a vector; E is left out unless asked for: what the equations say,
        without regularization.
        """
        y = self._sums_of_products(x, lambda products: products)
        if regularized and self.regularization is not None:
            m = self.regularization.shape[0]
            y = y.at[y.size - m :].add(-self.regularization * x[y.size - m :])
        return y

    def magnitude(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """|K| |x|: what the products amount to of which that is the sum, E left out."""
        return self._sums_of_products(x, jnp.abs)

    def _sums_of_products(
        self, x: Float[Array, " n"], each: Callable[[Array], Array]
    ) -> Float[Array, " n"]:
        # Sums fuse with their surroundings, a transposed matrix included, which a library's product
        # would copy.
        nb, d, _ = self.diagonal.shape
        body, dual = x[: nb * d].reshape(nb, d), x[nb * d :]
        padded = jnp.concatenate([body, jnp.zeros((1, d), x.dtype)])
        top = jnp.sum(each(self.diagonal * body[:, None, :]), axis=2)
        for c in self.couplings:
            index, s = np.array(c.bodies, int), c.blocks.shape[-1]
            own = take(padded[:, d - s :], index)[:, None, None]
            of_body = jnp.sum(each(c.blocks * own), axis=(3, 4)).reshape(-1, s)
            top = top + _padded_before(sums_at(of_body, index.ravel(), nb), d, axes=(1,))
        if not len(self.bodies):
            return top.reshape(-1)
        weighted = each(self.right * dual[:, None, None])
        top = top + sums_at(weighted.reshape(-1, d), self.index.ravel(), nb)
        bottom = jnp.sum(each(self.left * take(padded, self.index)), axis=(1, 2))
        return jnp.concatenate([top.reshape(-1), bottom])

    def transposed(self) -> "SaddleMatrix":
        """Kᵀ."""
        diagonal = jnp.swapaxes(self.diagonal, 1, 2)
        couplings = tuple(
            Coupling(jnp.transpose(c.blocks, (0, 3, 4, 1, 2)), c.bodies) for c in self.couplings
        )
        return SaddleMatrix(
            diagonal,
            couplings,
            self.left,
            self.right,
            self.regularization,
            self.bodies,
            self.inner,
            self.couplers,
            self.light,
        )

    def localized(self) -> "SaddleMatrix":
        """The same matrix with the blocks of couplings that meet one body alone on the diagonal:
        the fewer couplings, the less to eliminate.
        """
        own, couplings = apart(self.couplings, *self.diagonal.shape[:2])
        diagonal = self.diagonal if own is None else self.diagonal + own
        return eqx.tree_at(lambda m: (m.diagonal, m.couplings), self, (diagonal, couplings))


def apart(
    couplings: Sequence[Coupling], nb: int, d: int
) -> tuple[Float[Array, "nb d d"] | None, tuple[Coupling, ...]]:
    """The blocks of couplings that meet one body alone, added up body by body, and couplings of
    what remains, which is between bodies.
    """
    own, others = [], []
    for c in couplings:
        index = np.array(c.bodies, int)
        alike = index[:, :, None] == index[:, None, :]
        element, i, j = np.nonzero(alike & (index[:, :, None] < nb))
        if element.size:
            sums = sums_at(c.blocks[element, i, :, j, :], index[element, i], nb)
            own.append(_padded_before(sums, d, axes=(1, 2)))
        several = [len({b for b in bodies if b < nb}) > 1 for bodies in c.bodies]
        rest = np.flatnonzero(several)
        if rest.size:
            blocks, bodies = take(c.blocks, rest), tuple(c.bodies[k] for k in rest)
            between = jnp.where(alike[rest][:, :, None, :, None], 0.0, blocks)
            others.append(Coupling(between, bodies))
    return (sum(own[1:], own[0]) if own else None), tuple(others)


def _padded_before(x: Array, d: int, axes: Sequence[int]) -> Array:
    """With zeros before its numbers, up to d along some axes."""
    before = [(d - n if k in axes else 0, 0) for k, n in enumerate(x.shape)]
    return jnp.pad(x, before) if any(n for n, _ in before) else x


def scatter_rows(
    rows: Float[Array, "m k d"], weights: Float[Array, " m"], bodies: Index, nb: int
) -> Float[Array, "nb d"]:
    """Rᵀ applied to `weights`, body by body, (nb, d)."""
    if not len(bodies):
        return jnp.zeros((nb, rows.shape[-1]), rows.dtype)
    weighted = rows * weights[:, None, None]
    index = np.array(bodies, int)
    return sums_at(weighted.reshape(index.size, -1), index.ravel(), nb)


def apply_rows(
    rows: Float[Array, "m k d"], x: Float[Array, "nb d"], bodies: Index
) -> Float[Array, " m"]:
    """R applied to body vectors, (m,)."""
    if not len(bodies):
        return jnp.zeros(0, x.dtype)
    x = jnp.concatenate([x, jnp.zeros((1, x.shape[1]), x.dtype)])
    return jnp.sum(rows * take(x, np.array(bodies, int)), axis=(1, 2))


def apply_tangent(
    blocks: Float[Array, "n *m k d"], tangent: Float[Array, "nb s s"], bodies: Index
) -> Array:
    """Multiply the last s of the columns that each body has by its tangent (the ground's is the
    identity).
    """
    index = np.array(bodies, int).reshape(blocks.shape[0], blocks.shape[-2])
    every = with_identity(tangent)
    if every.shape[0] > _STORED:
        every = every @ np.eye(every.shape[-1], dtype=every.dtype)
    own = take(every, index)  # (n, k, s, s)
    own = own.reshape(blocks.shape[0], *(1,) * (blocks.ndim - 3), *own.shape[1:])
    return times_last_transposed(own, blocks)


def with_identity(tangent: Float[Array, "nb s s"]) -> Float[Array, "nb+1 s s"]:
    """Append the ground's, the identity."""
    return jnp.concatenate([tangent, np.eye(tangent.shape[-1], dtype=tangent.dtype)[None]])
