"""LAPACK's operations, one matrix at a time where they run on a CPU.

XLA of jaxlib 0.10.1 spreads a batch of them over the very threads that run the program, and each
call waits for those threads: where as many calls meet as there are threads, the program stands
still for ever (on two cores: six independent solves with 64 matrices of 16 x 16). jaxlib 0.8.0 and
0.12.0.1 do not. One after another they take the same time there. On other devices a batch stays a
batch. `tests/xla/test_upstream_defects.py` fails when `_one_at_a_time` can go.

Factors have no derivative; `linear_solve` gives that of a solution.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int

Inputs = ParamSpec("Inputs")
Output = TypeVar("Output")


def _one_at_a_time(function: Callable[Inputs, Output]) -> Callable[Inputs, Output]:
    """The same function, whose batches are loops on a CPU."""
    plain: Callable[..., Output] = function
    single = custom_vmap(function)

    @single.def_vmap
    def _(size: int, batched: Sequence[bool], *args: Array):
        moving = [x for x, flag in zip(args, batched, strict=True) if flag]

        def element(moved: tuple[Array, ...]) -> Output:
            own = iter(moved)
            return single(*[next(own) if b else x for x, b in zip(args, batched, strict=True)])

        def one_by_one(*moving):
            return jax.lax.map(element, moving)

        def together(*moving):
            axes = [0 if flag else None for flag in batched]
            own = iter(moving)
            every = [next(own) if b else x for x, b in zip(args, batched, strict=True)]
            return jax.vmap(plain, in_axes=axes)(*every)

        out = jax.lax.platform_dependent(*moving, cpu=one_by_one, default=together)
        return out, jax.tree.map(lambda _: True, out)

    return single


@_one_at_a_time
def _lu(A: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], Int[Array, " n"]]:
    factors, _, permutation = jax.lax.linalg.lu(A)
    return factors, permutation


def lu(A: Float[Array | np.ndarray, "n n"]) -> tuple[Float[Array, "n n"], Int[Array, " n"]]:
    """Both factors in one array, and the order of the rows."""
    # With a tangent the call would be factored once for each of a batch of tangents.
    return _lu(jax.lax.stop_gradient(jnp.asarray(A)))


@_one_at_a_time
def _solve(
    factors: Float[Array, "n n"], permutation: Int[Array, " n"], B: Float[Array, "n k"]
) -> Float[Array, "n k"]:
    solve = partial(jax.lax.linalg.triangular_solve, factors, left_side=True)
    return solve(solve(B[permutation], lower=True, unit_diagonal=True), lower=False)


@_one_at_a_time
def _solve_transposed(
    factors: Float[Array, "n n"], permutation: Int[Array, " n"], B: Float[Array, "n k"]
) -> Float[Array, "n k"]:
    solve = partial(jax.lax.linalg.triangular_solve, factors, left_side=True, transpose_a=True)
    Y = solve(solve(B, lower=False), lower=True, unit_diagonal=True)
    return jnp.zeros_like(B).at[permutation].set(Y, unique_indices=True)


def _columns(function: Callable[..., Array]) -> Callable[..., Array]:
    """The same function of one right side; a batch of right sides of one matrix is solved at once.

    One call for all of them takes a quarter of the time of one call for each.
    """

    @custom_vmap
    def single(factors: Array, permutation: Array, b: Array) -> Array:
        return function(factors, permutation, b[:, None])[:, 0]

    @single.def_vmap
    def _(
        size: int, batched: Sequence[bool], factors: Array, permutation: Array, b: Array
    ) -> tuple[Array, bool]:
        if not (batched[0] or batched[1]):
            return function(factors, permutation, b.T).T, True
        axes = [0 if flag else None for flag in batched]
        each = jax.vmap(lambda f, p, b: function(f, p, b[:, None])[:, 0], in_axes=axes)
        return each(factors, permutation, b), True

    return single


_solve_columns = _columns(_solve)
_solve_columns_transposed = _columns(_solve_transposed)


def lu_solve(
    factors: Float[Array, "n n"], permutation: Int[Array, " n"], b: Float[Array, " n"]
) -> Float[Array, " n"]:
    """X with A x = b, from the factors of A."""
    return _solve_columns(factors, permutation, b)


def lu_solve_transposed(
    factors: Float[Array, "n n"], permutation: Int[Array, " n"], b: Float[Array, " n"]
) -> Float[Array, " n"]:
    """X with Aᵀ x = b, from the factors of A."""
    return _solve_columns_transposed(factors, permutation, b)


@_one_at_a_time
def _thin_svd(
    A: Float[Array, "n m"],
) -> tuple[Float[Array, "n k"], Float[Array, " k"], Float[Array, "k m"]]:
    U, s, Wt = jnp.linalg.svd(A, full_matrices=False)
    return U, s, Wt


def thin_svd(
    A: Float[Array, "n m"],
) -> tuple[Float[Array, "n k"], Float[Array, " k"], Float[Array, "k m"]]:
    """U, s and Wᵀ with A = U diag(s) Wᵀ."""
    return _thin_svd(jax.lax.stop_gradient(A))
