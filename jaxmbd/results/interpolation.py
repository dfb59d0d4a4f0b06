"""Dense output: the motion between two instants from poses, twists and accelerations at both."""

from typing import TypeAlias

import jax
import jax.numpy as jnp

from ..model.state import Pose, Twist
from ..rotations import so3
from ..rotations.types import Scalar, Vec3
from .saved_rows import Row

# Coefficients of s^0 .. s^5 of the quintic that has given values, rates and second rates at 0 and
# at 1.
_QUINTIC = (
    (1.0, 0.0, 0.0, -10.0, 15.0, -6.0),
    (0.0, 1.0, 0.0, -6.0, 8.0, -3.0),
    (0.0, 0.0, 0.5, -1.5, 1.5, -0.5),
    (0.0, 0.0, 0.0, 10.0, -15.0, 6.0),
    (0.0, 0.0, 0.0, -4.0, 7.0, -3.0),
    (0.0, 0.0, 0.0, 0.5, -1.0, 0.5),
)


def between(first: Row, last: Row, h: Scalar, s: Scalar) -> Row:
    """The row at the part s of a step of size h.

    Positions and rotations are quintics with the right velocities and accelerations at both ends,
    rotations in the algebra at the first end; velocities and accelerations are their derivatives,
    multipliers and what else was saved linear. Constraints hold between steps to O(h⁶).
    """
    curve = jax.vmap(lambda *ends: _body(*ends, h=h, s=s))
    pose, twist, a, alpha = curve(
        (first.pose, first.twist, first.a, first.alpha), (last.pose, last.twist, last.a, last.alpha)
    )
    ends = ((row.lam, row.angles, row.element_states, row.extra) for row in (first, last))
    lam, angles, elements, extra = jax.tree.map(lambda x, y: (1.0 - s) * x + s * y, *ends)
    return Row(pose, twist, a, alpha, lam, angles, elements, last.iterations, extra)


# The pose of a body, its twist, and the accelerations of its center and of its rotation.
_Motion: TypeAlias = tuple[Pose, Twist, Vec3, Vec3]


def _body(first: _Motion, last: _Motion, h: Scalar, s: Scalar) -> _Motion:
    (pose0, twist0, a0, alpha0), (pose1, twist1, a1, alpha1) = first, last
    r, v, a = _quintic((pose0.r, twist0.v, a0), (pose1.r, twist1.v, a1), h, s)
    # A = A0 exp(ξ): ξ' = J⁻¹(ξ) ω̄, and its rate; at ξ = 0 these are ω̄ and its rate.
    xi = so3.log(pose0.A.T @ pose1.A)
    rate = so3.inverse_right_jacobian(xi) @ twist1.omega
    turned = jax.jvp(lambda x: so3.inverse_right_jacobian(x) @ twist1.omega, (xi,), (rate,))[1]
    second = so3.inverse_right_jacobian(xi) @ alpha1 + turned
    start = jnp.zeros_like(xi), twist0.omega, alpha0
    x, x_dot, x_ddot = _quintic(start, (xi, rate, second), h, s)
    omega, turn = jax.jvp(lambda x: so3.right_jacobian(x) @ x_dot, (x,), (x_dot,))
    return Pose(r, pose0.A @ so3.exp(x)), Twist(v, omega), a, turn + so3.right_jacobian(x) @ x_ddot


def _quintic(
    first: tuple[Vec3, Vec3, Vec3], last: tuple[Vec3, Vec3, Vec3], h: Scalar, s: Scalar
) -> tuple[Vec3, Vec3, Vec3]:
    """Values with their rates and second rates at the part s of a step, from those at both ends."""
    (x0, v0, a0), (x1, v1, a1) = first, last
    ends = jnp.stack([x0, h * v0, h**2 * a0, x1, h * v1, h**2 * a1])
    c = jnp.asarray(_QUINTIC, x0.dtype).T @ ends
    one, zero = jnp.ones_like(s), jnp.zeros_like(s)
    powers = jnp.stack([one, s, s**2, s**3, s**4, s**5])
    rate = jnp.stack([zero, one, 2.0 * s, 3.0 * s**2, 4.0 * s**3, 5.0 * s**4])
    bend = jnp.stack([zero, zero, 2.0 * one, 6.0 * s, 12.0 * s**2, 20.0 * s**3])
    return powers @ c, rate @ c / h, bend @ c / h**2
