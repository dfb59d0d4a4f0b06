"""Many small matrices at once, without a library call per matrix: products, and inverses of
supernodes.

Sums of products fuse with their surroundings, vectorize over the batch and compile in a fraction of
the time that LU, its permutation and two triangular solves take.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ..rotations.types import Array


def product(A: Float[Array, "*#n i k"], B: Float[Array, "*#n k j"]) -> Float[Array, "*_ i j"]:
    """A B over leading axes, which broadcast."""
    return jnp.sum(A[..., :, :, None] * B[..., None, :, :], axis=-2)


def times(A: Float[Array, "*#n i k"], x: Float[Array, "*#n k"]) -> Float[Array, "*_ i"]:
    """A x over leading axes, which broadcast."""
    return jnp.sum(A * x[..., None, :], axis=-1)


def times_transposed(A: Float[Array, "*#n k i"], x: Float[Array, "*#n k"]) -> Float[Array, "*_ i"]:
    """Aᵀ x over leading axes, which broadcast."""
    return jnp.sum(A * x[..., :, None], axis=-2)


def times_last(A: Float[Array, "*#n s s"], x: Float[Array, "*#n d"]) -> Float[Array, "*_ d"]:
    """A times the last s numbers of x; those before them stay."""
    first = x.shape[-1] - A.shape[-1]
    return jnp.concatenate([x[..., :first], times(A, x[..., first:])], axis=-1)


def times_last_transposed(
    A: Float[Array, "*#n s s"], x: Float[Array, "*#n d"]
) -> Float[Array, "*_ d"]:
    """Aᵀ times the last s numbers of x; those before them stay."""
    first = x.shape[-1] - A.shape[-1]
    return jnp.concatenate([x[..., :first], times_transposed(A, x[..., first:])], axis=-1)


def gauss_jordan(A: Float[Array, "n s s"], columns: int | None = None) -> Float[Array, "n s s"]:
    """Inverses in place without pivoting: for definite matrices, and for [[definite, B], [C,
    -definite]].

    From `columns` on, rows and columns are those of the identity.
    """
    index = jnp.arange(A.shape[-1])

    def next_update(
        M: Float[Array, "n s s"], k: int | Int[Array, ""]
    ) -> tuple[Float[Array, "n s"], Float[Array, "n s"]]:
        row = jax.lax.dynamic_index_in_dim(M, k, 1, keepdims=False)
        col = jax.lax.dynamic_index_in_dim(M, k, 2, keepdims=False)
        pivot = jax.lax.dynamic_index_in_dim(row, k, 1)
        here = index[None, :] == k
        return jnp.where(here, -1.0, col), jnp.where(here, 1.0, row) / pivot

    def column(
        k: Int[Array, ""],
        state: tuple[Float[Array, "n s s"], Float[Array, "n s"], Float[Array, "n s"]],
    ) -> tuple[Float[Array, "n s s"], Float[Array, "n s"], Float[Array, "n s"]]:
        M, left, right = state
        here = index == k
        # Row and column of the pivot are set, not reached by differences, which would lose the
        # digits of a large one.
        rest = jnp.where(here[:, None] | here[None, :], 0.0, M)
        M = rest - left[:, :, None] * right[:, None, :]
        # What the next turn takes from its row and column is carried: the update then is one number
        # at a time, and needs no second array.
        return M, *next_update(M, k + 1)

    turns = A.shape[-1] if columns is None else columns
    return jax.lax.fori_loop(0, turns, column, (A, *next_update(A, 0)))[0]


def pivoted_inverse(A: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The inverse by Gauss-Jordan elimination with row exchanges; NaN or infinite where A is
    singular.
    """
    n = A.shape[0]
    row, part = jnp.arange(n)[:, None], jax.lax.dynamic_index_in_dim

    def turn(k: Int[Array, ""], M: Float[Array, "n w"]) -> Float[Array, "n w"]:
        sizes = jnp.where(row < k, -1.0, jnp.abs(part(M, k, 1)))
        pivot = jnp.min(jnp.where(sizes == jnp.max(sizes), row, n - 1))
        chosen = part(M, pivot, 0)
        M = jnp.where(row == k, chosen, jnp.where(row == pivot, part(M, k, 0), M))
        scaled = chosen / part(chosen, k, 1)
        return jnp.where(row == k, scaled, M - part(M, k, 1) * scaled)

    whole = jnp.concatenate([A, np.eye(n, dtype=A.dtype)], axis=1)
    return jax.lax.fori_loop(0, n, turn, whole)[:, n:]


def saddle_inverse(
    P: Float[Array, "n s s"], weight: Float[Array, "n m"], columns: int
) -> Float[Array, "n s s"]:
    """Inverses of supernodes [[H, Rᵀ], [L, -C]] with m rows at the end; the identity follows from
    `columns` on.

    H may be singular where the rows hold the body: a rod without inertia about its axis, the fourth
    Euler parameter. So Rᵀ D times the rows is added to the upper part first, which makes the upper
    left block H + Rᵀ D L definite, and the lower right one after it; the same operation on the
    columns of the inverse undoes it. `weight` is D.
    """
    d = P.shape[-1] - weight.shape[-1]
    weighted = P[:, :d, d:] * weight[:, None, :]
    rows = jnp.concatenate(
        [weighted, jnp.zeros((P.shape[0], P.shape[-1] - d, P.shape[-1] - d), P.dtype)], axis=1
    )
    inverse = gauss_jordan(P + product(rows, P[:, d:]), columns)
    right = inverse[:, :, d:] + product(inverse[:, :, :d], weighted)
    return jnp.concatenate([inverse[:, :, :d], right], axis=2)
