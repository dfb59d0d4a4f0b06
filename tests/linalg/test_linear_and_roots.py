"""Roots, their derivatives, block matrices: numbers only."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxmbd.linalg import Coupling, DenseFactors, SaddleMatrix, linear_solve
from jaxmbd.solvers import (
    AbstractRootProblem,
    Functions,
    NewtonOptions,
    Start,
    implicit_root,
    newton,
)


def block_matrix(rng):
    """Three bodies of size 2, a coupling of two, four rows of which two touch the ground (index
    3)."""
    arrays = [rng.normal(size=s) for s in ((3, 2, 2), (1, 2, 2, 2, 2), (4, 2, 2), (4, 2, 2), (4,))]
    diagonal, coupling, right, left, e = map(jnp.array, arrays)
    bodies = ((0, 1), (1, 2), (3, 0), (2, 3))
    of_last = jnp.array(rng.normal(size=(2, 2, 1, 2, 1)))  # of the last number of each body alone
    couplings = Coupling(coupling, ((2, 0),)), Coupling(of_last, ((1, 2), (3, 1)))
    return SaddleMatrix(diagonal, couplings, right, left, jnp.abs(e), bodies)


def by_hand(m):
    K = np.zeros((10, 10))
    for b in range(3):
        K[2 * b : 2 * b + 2, 2 * b : 2 * b + 2] += m.diagonal[b]
    for coupling in m.couplings:
        for block, pair in zip(np.asarray(coupling.blocks), coupling.bodies, strict=True):
            s = block.shape[-1]
            for p, a in enumerate(pair):
                for q, b in enumerate(pair):
                    if a < 3 and b < 3:
                        ends = 2 * a + 2, 2 * b + 2
                        K[ends[0] - s : ends[0], ends[1] - s : ends[1]] += block[p, :, q, :]
    for row, pair in enumerate(m.bodies):
        for side, b in enumerate(pair):
            if b < 3:
                K[2 * b : 2 * b + 2, 6 + row] += m.right[row, side]
                K[6 + row, 2 * b : 2 * b + 2] += m.left[row, side]
    return K, np.diag(np.concatenate([np.zeros(6), m.regularization]))


def test_dense_and_matvec_are_the_blocks(rng):
    m = block_matrix(rng)
    K, E = by_hand(m)
    np.testing.assert_allclose(m.dense(), K - E, atol=1e-14)
    x = jnp.array(rng.normal(size=10))
    np.testing.assert_allclose(m.matvec(x), K @ x, atol=1e-13)
    np.testing.assert_allclose(m.transposed().matvec(x), K.T @ x, atol=1e-13)
    local = m.localized()  # what meets one body alone is on the diagonal
    assert [c.bodies for c in local.couplings] == [((2, 0),), ((1, 2),)]
    for c in local.couplings:
        assert not np.asarray(c.blocks)[:, np.arange(2), :, np.arange(2)].any()
    np.testing.assert_allclose(local.dense(), K - E, atol=1e-14)
    whole = eqx.tree_at(
        lambda m: m.couplings, m, tuple(Coupling(c.padded(2), c.bodies) for c in m.couplings)
    )
    np.testing.assert_allclose(whole.dense(), K - E, atol=1e-14)


def test_factors_serve_the_matrix_and_its_transpose(rng):
    m = block_matrix(rng)
    K = np.asarray(m.dense())
    factors, b = DenseFactors.of(m), jnp.array(rng.normal(size=10))
    np.testing.assert_allclose(K @ factors.solve(b), b, atol=1e-11)
    np.testing.assert_allclose(K.T @ factors.solve_transpose(b), b, atol=1e-11)


def test_linear_solve_differentiates_in_both_modes(rng):
    A, b = jnp.array(rng.normal(size=(4, 4)) + 4 * np.eye(4)), jnp.array(rng.normal(size=4))

    def f(s):
        M = A + s * jnp.diag(jnp.arange(4.0))
        return jnp.sum(jnp.sin(linear_solve(lambda x: M @ x, DenseFactors.of(M), s * b)))

    exact = jax.grad(
        lambda s: jnp.sum(jnp.sin(jnp.linalg.solve(A + s * jnp.diag(jnp.arange(4.0)), s * b)))
    )(0.7)
    np.testing.assert_allclose([jax.grad(f)(0.7), jax.jvp(f, (0.7,), (1.0,))[1]], exact, rtol=1e-12)


class Cubic(AbstractRootProblem):
    """x³ + a x = b, componentwise."""

    def residual(self, x, args):
        a, b = args
        return x**3 + a * x - b

    def solve(self, guess, args):
        equations = Functions(
            lambda x: self.residual(x, args),
            lambda x: DenseFactors.of(jnp.diag(args[0])),
            lambda x: self.factors(x, args),
            lambda d: jnp.max(jnp.abs(d)),
        )
        return newton(equations, Start(guess), NewtonOptions(1e-13))

    def factors(self, x, args):
        return DenseFactors.of(jnp.diag(3 * x**2 + args[0]))


def test_newton_falls_back_to_the_exact_matrix_where_the_frozen_one_diverges():
    a, b = jnp.array([1.0, 1.0]), jnp.array([0.1, 30.0])
    x, info = Cubic().solve(
        jnp.zeros(2), (a, b)
    )  # the frozen matrix, 1, is 28 times too soft at the second root
    assert bool(info.converged)
    np.testing.assert_allclose(x**3 + a * x, b, rtol=1e-12)


def test_implicit_root_has_first_and_second_derivatives_in_both_modes():
    b = jnp.array([0.1, 30.0])

    def f(a):
        return jnp.sum(implicit_root(Cubic(), jnp.zeros(2), (a * jnp.ones(2), b))[0])

    def df(a):  # dx/da = -x / (3 x² + a)
        x = implicit_root(Cubic(), jnp.zeros(2), (a * jnp.ones(2), b))[0]
        return jnp.sum(-x / (3 * x**2 + a))

    a = jnp.array(1.0)
    np.testing.assert_allclose(
        [jax.grad(f)(a), jax.jvp(f, (a,), (jnp.ones(()),))[1]], df(a), rtol=1e-12
    )
    second = (df(a + 1e-5) - df(a - 1e-5)) / 2e-5
    np.testing.assert_allclose(
        [jax.jacfwd(jax.grad(f))(a), jax.grad(jax.grad(f))(a)], second, rtol=1e-8
    )


def test_no_iteration_is_made_when_inactive():
    a, b = jnp.ones(1), jnp.ones(1)
    problem = Cubic()
    equations = Functions(
        lambda x: problem.residual(x, (a, b)),
        lambda x: DenseFactors.of(jnp.eye(1)),
        lambda x: problem.factors(x, (a, b)),
        lambda d: jnp.max(jnp.abs(d)),
    )
    x, info = newton(equations, Start(jnp.zeros(1)), NewtonOptions(1e-13), active=False)
    assert int(info.iterations) == 0 and not bool(info.converged)
    np.testing.assert_array_equal(x, 0.0)
