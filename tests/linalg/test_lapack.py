"""LAPACK's operations in batches: the numbers of one matrix, and no call that waits for the threads
of the program that makes it."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.linalg import DenseFactors, dense_solve, lapack


def solved(A, b):
    factors = lapack.lu(A)
    return (
        lapack.lu_solve(*factors, b),
        lapack.lu_solve_transposed(*factors, b),
        lapack.thin_svd(A)[1],
    )


def test_a_batch_and_a_batch_of_batches_are_their_members(rng):
    A, b = rng.normal(size=(2, 3, 5, 5)), rng.normal(size=(3, 5))
    found = jax.jit(jax.vmap(jax.vmap(solved), in_axes=(0, None)))(A, b)
    every = np.broadcast_to(b, (2, 3, 5))
    np.testing.assert_allclose(found[0], np.linalg.solve(A, every[..., None])[..., 0], rtol=1e-10)
    transposed = np.linalg.solve(np.swapaxes(A, 2, 3), every[..., None])[..., 0]
    np.testing.assert_allclose(found[1], transposed, rtol=1e-10)
    np.testing.assert_allclose(found[2], np.linalg.svd(A)[1], rtol=1e-12)


def test_right_sides_of_one_matrix_are_solved_in_one_call(rng):
    A, b = rng.normal(size=(3, 5, 5)), rng.normal(size=(3, 7, 5))

    def both(A, b):
        factors = lapack.lu(A)
        return (
            jax.vmap(lambda b: lapack.lu_solve(*factors, b))(b),
            jax.vmap(lambda b: lapack.lu_solve_transposed(*factors, b))(b),
        )

    for found, matrix in zip(jax.jit(both)(A[0], b[0]), (A[0], A[0].T), strict=True):
        np.testing.assert_allclose(found, np.linalg.solve(matrix, b[0].T).T, rtol=1e-9)
    # A loop would solve for one right side after another.
    solve = jax.jit(jax.vmap(lapack.lu_solve, (None, None, 0)))
    assert "while" not in solve.lower(*lapack.lu(A[0]), b[0]).compile().as_text()
    # A batch of such matrices is one after another.
    found = jax.jit(jax.vmap(both))(A, b)[1]
    every = np.linalg.solve(np.swapaxes(A, 1, 2), np.swapaxes(b, 1, 2))
    np.testing.assert_allclose(found, np.swapaxes(every, 1, 2), rtol=1e-9)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="other devices have no such threads")
def test_no_call_of_lapack_takes_more_than_one_matrix(rng):
    # Two such calls at a time on two cores wait for each other for ever.
    A, b = rng.normal(size=(64, 16, 16)), rng.normal(size=(64, 16))
    program = jax.jit(jax.vmap(solved)).lower(A, b).compile().as_text()
    calls = [line for line in program.splitlines() if "lapack_" in line]
    assert len(calls) >= 6
    assert not [line for line in calls if re.search(r"f64\[64,", line)]


def test_solutions_are_differentiable_in_matrix_and_load(rng):
    A, b, along = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=(4, 4))

    def total(A, b):
        return jnp.sum(dense_solve(A, b) ** 2)

    by_A, by_b = jax.jit(jax.grad(total, argnums=(0, 1)))(jnp.array(A), jnp.array(b))
    x = np.linalg.solve(A, b)
    adjoint = np.linalg.solve(A.T, 2.0 * x)
    np.testing.assert_allclose(by_b, adjoint, rtol=1e-9)
    np.testing.assert_allclose(by_A, -np.outer(adjoint, x), rtol=1e-9)
    _, slope = jax.jvp(lambda A: total(A, jnp.array(b)), (jnp.array(A),), (jnp.array(along),))
    np.testing.assert_allclose(slope, np.sum(np.asarray(by_A) * along), rtol=1e-9)
    # Factors alone have none, as `linear_solve` expects.
    held = jax.jacfwd(lambda A: DenseFactors.of(A).lu)(jnp.array(A))
    assert not np.any(held)
