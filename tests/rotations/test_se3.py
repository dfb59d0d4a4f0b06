"""SE(3) against matrix exponentials, differences and the axioms of a group."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from jaxmbd.rotations import se3, so3

SIZES = [0.0, 1e-9, 1e-4, 1e-2, 0.1, 0.6, 2.5]


def hat(xi):
    X = np.zeros((4, 4))
    X[:3, :3], X[:3, 3] = np.asarray(so3.skew(jnp.asarray(xi[3:]))), xi[:3]
    return X


def matrix(r, A):
    return np.block([[np.asarray(A), np.asarray(r)[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])


@pytest.mark.parametrize("size", SIZES)
def test_exp_is_the_matrix_exponential_and_log_its_inverse(size, rng):
    xi = rng.normal(size=6)
    xi[3:] *= size / np.linalg.norm(xi[3:])
    r, A = se3.exp(jnp.array(xi))
    np.testing.assert_allclose(matrix(r, A), expm(hat(xi)), atol=1e-14)
    np.testing.assert_allclose(se3.log(r, A), xi, atol=1e-13)


@pytest.mark.parametrize("size", SIZES)
def test_jacobians_are_those_of_differences_and_inverse_to_each_other(size, rng):
    xi = rng.normal(size=6)
    xi[3:] *= size / np.linalg.norm(xi[3:])
    T = expm(-hat(xi))

    def moved(d):  # exp(ξ)⁻¹ exp(ξ + d) as a vector
        return np.asarray(se3.log(*_parts(T @ expm(hat(xi + d)))))

    step = 1e-3
    columns = []
    for k in range(6):
        f = [moved(m * step * np.eye(6)[k]) for m in (-2, -1, 1, 2)]
        columns.append((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step))
    J = np.asarray(se3.right_jacobian(jnp.array(xi)))
    np.testing.assert_allclose(
        J, np.array(columns).T, atol=1e-10
    )  # truncation step⁴ and rounding eps / step
    np.testing.assert_allclose(
        J @ np.asarray(se3.inverse_right_jacobian(jnp.array(xi))), np.eye(6), atol=1e-13
    )


def _parts(T):
    return jnp.array(T[:3, 3]), jnp.array(T[:3, :3])


def test_it_is_a_group_and_the_adjoint_conjugates(rng):
    a, b, c = (se3.exp(jnp.array(rng.normal(size=6))) for _ in range(3))
    left, right = se3.compose(*se3.compose(*a, *b), *c), se3.compose(*a, *se3.compose(*b, *c))
    np.testing.assert_allclose(matrix(*left), matrix(*right), atol=1e-14)
    xi = jnp.array(rng.normal(size=6))
    np.testing.assert_allclose(
        matrix(*se3.compose(*se3.exp(xi), *se3.exp(-xi))), np.eye(4), atol=1e-14
    )
    r, A = a
    conjugate = matrix(r, A) @ expm(hat(xi)) @ np.linalg.inv(matrix(r, A))
    np.testing.assert_allclose(matrix(*se3.exp(se3.adjoint(r, A) @ xi)), conjugate, atol=1e-13)


def test_derivatives_at_zero_are_finite_and_right():
    zero = jnp.zeros(6)
    for function in (se3.right_jacobian, se3.inverse_right_jacobian):
        first = jax.jacfwd(function)(zero)
        assert np.all(np.isfinite(first)) and np.all(
            np.isfinite(jax.jacrev(jax.jacfwd(function))(zero))
        )
        sign = -0.5 if function is se3.right_jacobian else 0.5
        theta = jnp.array([0.3, -0.2, 0.5, 0.7, 0.1, -0.4])
        ad = np.block(
            [
                [so3.skew(theta[3:]), so3.skew(theta[:3])],
                [np.zeros((3, 3)), np.asarray(so3.skew(theta[3:]))],
            ]
        )
        np.testing.assert_allclose(jnp.einsum("ijk,k->ij", first, theta), sign * ad, atol=1e-14)
