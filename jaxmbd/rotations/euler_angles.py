"""Euler angles eps = (phi, theta, psi) in the sequence z-x-z: A = Rz(phi) Rx(theta) Rz(psi).

Singular where sin(theta) = 0; `formulations.reps` switches charts before that happens.
"""

import jax.numpy as jnp

from .types import Mat3, Vec3, library_of


def to_matrix(eps: Vec3) -> Mat3:
    """The rotation matrix of the three angles [rad]."""
    xp = library_of(eps)
    (s1, s2, s3), (c1, c2, c3) = xp.sin(eps), xp.cos(eps)
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
    s2, c2 = jnp.sin(eps[1]), jnp.cos(eps[1])
    s3, c3 = jnp.sin(eps[2]), jnp.cos(eps[2])
    zero, one = jnp.zeros_like(s2), jnp.ones_like(s2)
    return jnp.stack([s3 * s2, c3, zero, c3 * s2, -s3, zero, c2, zero, one]).reshape(3, 3)


def rates(eps: Vec3, omega: Vec3) -> Vec3:
    """The solution of `B(eps) eps_dot = omega`; infinite where sin(theta) = 0."""
    s2, c2 = jnp.sin(eps[1]), jnp.cos(eps[1])
    s3, c3 = jnp.sin(eps[2]), jnp.cos(eps[2])
    phi_dot = (s3 * omega[0] + c3 * omega[1]) / s2
    return jnp.stack([phi_dot, c3 * omega[0] - s3 * omega[1], omega[2] - c2 * phi_dot])
