"""SE(3): exponential, logarithm, adjoint and right Jacobians of rigid motions.

A motion is (r, A); it acts on the right, `(r, A) <- (r + A ρ', A A')`. Vectors of the algebra are
(ρ, θ), translation first, in the body frame, as velocities (A^T v, ω̄) are. ad_(ρ,θ) = [[skew θ,
skew ρ], [0, skew θ]], so an analytic function of it has the function of skew θ on its diagonal and
that function's derivative along ρ
beside it: Jacobians here are those of SO(3) with their exact derivatives, smooth at zero like them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Float

from . import so3
from .types import Array, Mat3, Vec3

Vec6 = Float[Array, "6"]
Mat6 = Float[Array, "6 6"]


def exp(xi: Vec6) -> tuple[Vec3, Mat3]:
    """The motion of a constant body-fixed velocity over unit time (Müller, Terze Eq. 9 with its
    denominator right).
    """
    rho, theta = xi[:3], xi[3:]
    return so3.right_jacobian(-theta) @ rho, so3.exp(theta)


def log(r: Vec3, A: Mat3) -> Vec6:
    """The inverse of `exp`, for angles below π."""
    theta = so3.log(A)
    return jnp.concatenate([so3.inverse_right_jacobian(-theta) @ r, theta])


def compose(r: Vec3, A: Mat3, r_next: Vec3, A_next: Mat3) -> tuple[Vec3, Mat3]:
    """The product of two motions."""
    return r + A @ r_next, A @ A_next


def adjoint(r: Vec3, A: Mat3) -> Mat6:
    """Ad with (r, A) exp(ξ) (r, A)⁻¹ = exp(Ad ξ)."""
    return jnp.block([[A, so3.skew(r) @ A], [jnp.zeros_like(A), A]])


def right_jacobian(xi: Vec6) -> Mat6:
    """J with exp(ξ + d) = exp(ξ) exp(J d) + O(d²)."""
    return _extended(so3.right_jacobian, xi)


def inverse_right_jacobian(xi: Vec6) -> Mat6:
    """The inverse of `right_jacobian`: ξ̇ = J⁻¹ V along a motion q₀ exp(ξ) with body-fixed velocity
    V (dexp⁻¹).
    """
    return _extended(so3.inverse_right_jacobian, xi)


def _extended(function: Callable[[Vec3], Mat3], xi: Vec6) -> Mat6:
    value, derivative = jax.jvp(function, (xi[3:],), (xi[:3],))
    return jnp.block([[value, derivative], [jnp.zeros_like(value), value]])
