import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm, polar

from helpers import rotation, vec
from jaxmbd.rotations import euler_angles as ea
from jaxmbd.rotations import euler_parameters as ep
from jaxmbd.rotations import so3

ANGLES = [0.0, 1e-9, 1e-4, 0.3, 0.4999, 0.5001, 1.0, 3.0]


@pytest.mark.parametrize("angle", ANGLES)
def test_exp_agrees_with_the_matrix_exponential(rng, angle):
    u = vec(rng)
    theta = angle * u / jnp.linalg.norm(u)
    np.testing.assert_allclose(so3.exp(theta), expm(np.asarray(so3.skew(theta))), atol=1e-15 * 10)


@pytest.mark.parametrize("angle", ANGLES)
def test_log_undoes_exp(rng, angle):
    u = vec(rng)
    theta = angle * u / jnp.linalg.norm(u)
    np.testing.assert_allclose(so3.log(so3.exp(theta)), theta, atol=1e-14)


@pytest.mark.parametrize("angle", ANGLES)
def test_right_jacobian_is_the_derivative_of_exp(rng, angle):
    u = vec(rng)
    theta = angle * u / jnp.linalg.norm(u)
    A = so3.exp(theta)
    by_ad = jax.jacfwd(lambda d: so3.vee(A.T @ so3.exp(theta + d)))(jnp.zeros(3))
    np.testing.assert_allclose(by_ad, so3.right_jacobian(theta), atol=1e-13)
    product = so3.right_jacobian(theta) @ so3.inverse_right_jacobian(theta)
    np.testing.assert_allclose(product, np.eye(3), atol=1e-13)


@pytest.mark.parametrize(
    "f", [so3.exp, so3.right_jacobian, so3.inverse_right_jacobian], ids=lambda f: f.__name__
)
def test_two_derivatives_are_finite_at_zero(f):
    assert np.all(np.isfinite(jax.jacfwd(jax.jacrev(f))(jnp.zeros(3))))


@pytest.mark.parametrize("angle", [0.0, 0.1, 0.49, 0.51, 2.0, 6.0])
def test_derivatives_of_the_coefficients_are_those_of_their_formulas(angle):
    """By series of forty terms, summed as fractions."""
    square = Fraction(angle) ** 2
    found = jax.jacfwd(so3.exp_coefficients)(jnp.asarray(angle**2))
    second = jax.jacfwd(jax.jacrev(lambda x: jnp.stack(so3.exp_coefficients(x))))
    for k, (first, again) in enumerate(zip(found, second(jnp.asarray(angle**2)), strict=True)):
        terms = [Fraction((-1) ** n, math.factorial(2 * n + 1 + k)) for n in range(40)]
        wanted = sum(n * terms[n] * square ** (n - 1) for n in range(1, 40))
        np.testing.assert_allclose(first, float(wanted), rtol=1e-11)
        wanted = sum(n * (n - 1) * terms[n] * square ** (n - 2) for n in range(2, 40))
        np.testing.assert_allclose(again, float(wanted), rtol=1e-8)


def test_gradient_of_log_is_finite_and_right_at_the_identity():
    np.testing.assert_allclose(
        jax.jacrev(lambda d: so3.log(so3.exp(d)))(jnp.zeros(3)), np.eye(3), atol=1e-14
    )


def test_cross_and_skew_agree_with_numpy(rng):
    x, y = vec(rng), vec(rng)
    np.testing.assert_allclose(so3.cross(x, y), np.cross(x, y), atol=1e-15)
    np.testing.assert_allclose(so3.skew(x) @ y, np.cross(x, y), atol=1e-15)
    np.testing.assert_allclose(so3.vee(so3.skew(x)), x)


def test_projection_is_the_polar_factor(rng):
    A = np.asarray(rotation(rng)) + 0.05 * rng.normal(size=(3, 3))
    np.testing.assert_allclose(so3.project(jnp.array(A)), polar(A)[0], atol=1e-14)


@pytest.mark.parametrize(
    "axis", np.vstack([np.eye(3), -np.eye(3), [[1, 1, 1], [1e-3, 2, -5]]]).tolist()
)
def test_basis_from_axis_is_right_handed_and_orthonormal(axis):
    E = np.asarray(so3.basis_from_axis(jnp.array(axis)))
    np.testing.assert_allclose(E @ E.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(E) > 0
    np.testing.assert_allclose(E[2], np.array(axis) / np.linalg.norm(axis), atol=1e-15)


@pytest.mark.parametrize("half_turn", [None, *np.eye(3).tolist()])
def test_euler_parameters_round_trip_also_at_half_turns(rng, half_turn):
    A = rotation(rng) if half_turn is None else so3.exp(np.pi * jnp.array(half_turn))
    p = ep.from_matrix(A)
    np.testing.assert_allclose(p @ p, 1.0, atol=1e-15)
    np.testing.assert_allclose(ep.to_matrix(p), A, atol=1e-14)


def test_euler_parameter_rates_are_those_of_the_matrix(rng):
    p, p_dot = ep.from_matrix(rotation(rng)), vec(rng, 4)
    p_dot = p_dot - (p @ p_dot) * p
    _, A_dot = jax.jvp(ep.to_matrix, (p,), (p_dot,))
    np.testing.assert_allclose(ep.to_matrix(p).T @ A_dot, so3.skew(2 * ep.G(p) @ p_dot), atol=1e-14)


def test_euler_angles_round_trip_and_rates(rng):
    A = rotation(rng)
    eps = ea.from_matrix(A)
    np.testing.assert_allclose(ea.to_matrix(eps), A, atol=1e-14)
    eps_dot = vec(rng)
    _, A_dot = jax.jvp(ea.to_matrix, (eps,), (eps_dot,))
    omega = ea.B(eps) @ eps_dot
    np.testing.assert_allclose(A.T @ A_dot, so3.skew(omega), atol=1e-13)
    np.testing.assert_allclose(ea.rates(eps, omega), eps_dot, atol=1e-12)


def test_derivatives_of_euler_angles_are_those_of_their_sines():
    """To third order: what a sine and a cosine follow from is known, not differentiated."""

    def plain(eps):
        (s1, s2, s3), (c1, c2, c3) = jnp.sin(eps), jnp.cos(eps)
        first = jnp.array([[c1, -s1, 0.0], [s1, c1, 0.0], [0.0, 0.0, 1.0]])
        second = jnp.array([[1.0, 0.0, 0.0], [0.0, c2, -s2], [0.0, s2, c2]])
        third = jnp.array([[c3, -s3, 0.0], [s3, c3, 0.0], [0.0, 0.0, 1.0]])
        return first @ second @ third

    for eps in ([0.4, 1.1, -2.0], [0.0, np.pi / 2, np.pi], [1e3, -7.0, 40.0]):
        f, g = ea.to_matrix, plain
        for _ in range(4):
            np.testing.assert_allclose(f(jnp.array(eps)), g(jnp.array(eps)), atol=1e-14)
            f, g = jax.jacfwd(f), jax.jacfwd(g)
