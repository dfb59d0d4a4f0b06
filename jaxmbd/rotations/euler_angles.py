"""Euler angles eps = (phi, theta, psi) in the sequence z-x-z: A = Rz(phi) Rx(theta) Rz(psi).

Singular where sin(theta) = 0; `formulations.reps` switches charts before that happens.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .types import Mat3, Vec3, library_of
from .vectors import skew


@jax.custom_jvp
def _sin_cos(eps: Vec3) -> tuple[Vec3, Vec3]:
    """Sines and cosines of the angles."""
    # XLA takes sines for cheap, and computes them again for every number that follows from them, a
    # hundred times a step. Roots and quotients it computes once; these change rounding alone.
    sin, cos = jnp.sin(eps), jnp.cos(eps)
    norm = jnp.sqrt(sin**2 + cos**2)
    return sin / norm, cos / norm


@_sin_cos.defjvp
def _(eps: tuple[Vec3], eps_dot: tuple[Vec3]) -> tuple[tuple[Vec3, Vec3], tuple[Vec3, Vec3]]:
    sin, cos = _sin_cos(*eps)
    return (sin, cos), (cos * eps_dot[0], -sin * eps_dot[0])


def to_matrix(eps: Vec3) -> Mat3:
    """The rotation matrix of the three angles [rad]."""
    xp = library_of(eps)
    (s1, s2, s3), (c1, c2, c3) = _sin_cos(eps) if xp is jnp else (xp.sin(eps), xp.cos(eps))
    return xp.stack(
        [
            c1 * c3 - s1 * c2 * s3,
            -c1 * s3 - s1 * c2 * c3,
            s1 * s2,
            s1 * c3 + c1 * c2 * s3,
            -s1 * s3 + c1 * c2 * c3,
            -c1 * s2,
            s2 * s3,
            s2 * c3,
            c2,
        ]
    ).reshape(3, 3)


def from_matrix(A: Mat3) -> Vec3:
    """The angles of a rotation matrix, with theta in (0, π); undefined where theta is 0 or π."""
    sin_theta = jnp.sqrt(A[0, 2] ** 2 + A[1, 2] ** 2)
    return jnp.stack(
        [
            jnp.arctan2(A[0, 2], -A[1, 2]),
            jnp.arctan2(sin_theta, A[2, 2]),
            jnp.arctan2(A[2, 0], A[2, 1]),
        ]
    )


def B(eps: Vec3) -> Mat3:
    """Map rates of the angles to the body-frame angular velocity, omega_bar = B eps_dot (Kissel et
    al. Eq. 43b).
    """
    (_, s2, s3), (_, c2, c3) = _sin_cos(eps)
    zero, one = jnp.zeros_like(s2), jnp.ones_like(s2)
    return jnp.stack([s3 * s2, c3, zero, c3 * s2, -s3, zero, c2, zero, one]).reshape(3, 3)


def B_jet(eps: Vec3) -> tuple[list[Mat3], list[Mat3]]:
    """Derivatives of B by (θ, ψ), and the second ones: θθ, θψ, ψψ; it does not depend on φ."""
    (_, s2, s3), (_, c2, c3) = _sin_cos(eps)
    B0, Z = B(eps), jnp.asarray(_Z, eps.dtype)
    bent = jnp.stack([s3 * c2, c3 * c2, -s2])
    columns = jnp.zeros((2, 3, 3), eps.dtype).at[0, :, 0].set(bent).at[1, :, 0].set(-B0[:, 0])
    # A row turns with ψ as the frame does: ∂B/∂ψ = -Z B, but for the third one, which stands still.
    by_psi = -Z @ B0
    return [columns[0], by_psi], [columns[1], -Z @ columns[0], -Z @ by_psi]


def rates(eps: Vec3, omega: Vec3) -> Vec3:
    """The solution of `B(eps) eps_dot = omega`; infinite where sin(theta) = 0."""
    (_, s2, s3), (_, c2, c3) = _sin_cos(eps)
    phi_dot = (s3 * omega[0] + c3 * omega[1]) / s2
    return jnp.stack([phi_dot, c3 * omega[0] - s3 * omega[1], omega[2] - c2 * phi_dot])


def _turning(eps: Vec3) -> tuple[Mat3, Mat3, Mat3]:
    """A, and L with ∂A/∂φ = Z A, ∂A/∂θ = L A, ∂A/∂ψ = A Z: Z = skew(e₃), L = skew(R_z(φ) e₁)."""
    (s1, *_), (c1, *_) = _sin_cos(eps)
    node = jnp.stack([c1, s1, jnp.zeros_like(s1)])
    return to_matrix(eps), skew(node), jnp.asarray(_Z, eps.dtype)


def jet(eps: Vec3) -> tuple[list[Mat3], list[Mat3]]:
    """Derivatives of A by (φ, θ, ψ), and the second ones: φφ, φθ, φψ, θθ, θψ, ψψ (the products of
    Kissel et al. Eq. 28).
    """
    A, L, Z = _turning(eps)
    ZA, LA, AZ = Z @ A, L @ A, A @ Z
    return [ZA, LA, AZ], [Z @ ZA, Z @ LA, ZA @ Z, L @ LA, LA @ Z, AZ @ Z]


def motion(eps: Vec3, rates: Vec3) -> tuple[Mat3, Mat3, Mat3]:
    """A, its rate (Eq. 28a) and D, what the second derivative is without second derivatives of the
    angles (Eq. 28b).
    """
    A, L, Z = _turning(eps)
    phi, theta, psi = rates
    left, right = phi * Z + theta * L, psi * Z
    rate = left @ A
    # L itself turns with φ: ZL - LZ is its derivative.
    D = left @ rate + phi * theta * (Z @ L - L @ Z) @ A + 2.0 * rate @ right + A @ right @ right
    return A, rate + A @ right, D


_Z = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
