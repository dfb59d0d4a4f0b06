"""SO(3): exponential, logarithm, right Jacobian and projection.

Rotations act on the right, `A <- A exp(skew(theta))` with `theta` in the body frame, as everywhere
in this package. All functions take one rotation; batch them with `jax.vmap`. They are smooth at
zero angle, and so are their
derivatives: every quotient has a power series that replaces it below a threshold.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .euler_parameters import from_matrix
from .types import Array, Mat3, Scalar, Vec3, host, library_of
from .vectors import basis_from_axis as basis_from_axis
from .vectors import cross as cross
from .vectors import skew as skew
from .vectors import vee as vee

# Below this squared angle the series (truncated after the x^12 term) is exact to double precision,
# and above it the closed form of (x - sin x) / x^3 loses fewer than two digits to cancellation.
_SERIES_BELOW = 0.25
# φ / sin φ by powers of sin² φ, exact to double precision where that is below 0.01.
ARCSINE_SERIES = (1.0, 1 / 6, 3 / 40, 5 / 112, 35 / 1152, 63 / 2816, 231 / 13312, 143 / 10240)
# (1 - x/2 cot(x/2)) / x² by powers of x².
COTANGENT_SERIES = (
    1 / 12,
    1 / 720,
    1 / 30240,
    1 / 1209600,
    1 / 47900160,
    691 / 1307674368000,
    1 / 74724249600,
)
# (1/2 - (1 - cos x)/x²) / x² and (1/6 - (x - sin x)/x³) / x² by powers of x².
_FOURTH = tuple((-1) ** n / math.factorial(2 * n + 4) for n in range(7))
_FIFTH = tuple((-1) ** n / math.factorial(2 * n + 5) for n in range(7))


# sin x / x, (1 - cos x) / x² and (x - sin x) / x³ by powers of x².
_FIRST_THREE = np.array(
    [[(-1) ** n / math.factorial(2 * n + k) for k in (1, 2, 3)] for n in range(7)]
)

# What `exp_coefficients` returns.
Coefficients = tuple[Scalar, Scalar, Scalar]


def _horner(
    x: Float[Array, "*n"], coefficients: Sequence[float] | Float[np.ndarray, "k *n"]
) -> Float[Array, "*n"]:
    """A polynomial of numbers or of vectors by its coefficients, from the lowest power on."""
    value = jnp.broadcast_to(jnp.asarray(coefficients[-1], x.dtype), x.shape)
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value


@jax.custom_jvp
def exp_coefficients(angle_squared: Scalar) -> Coefficients:
    """Sin x / x, (1 - cos x) / x² and (x - sin x) / x³ as smooth functions of x²."""
    x2 = angle_squared
    small = x2 < _SERIES_BELOW
    x2_safe = jnp.where(small, 1.0, x2)  # keeps both branches differentiable
    x = jnp.sqrt(x2_safe)
    sin, half = jnp.sin(x), jnp.sin(0.5 * x)
    # One series of three numbers is a third of the program that three series are.
    x2_small = jnp.broadcast_to(jnp.where(small, x2, 0.0), (3,))
    series = _horner(x2_small, _FIRST_THREE.astype(x2.dtype))
    closed = jnp.stack([sin, 2.0 * half * half, x - sin]) / jnp.stack([x, x2_safe, x2_safe * x])
    found = jnp.where(small, series, closed)
    return found[0], found[1], found[2]


@exp_coefficients.defjvp
def _(primals: tuple[Scalar], tangents: tuple[Scalar]) -> tuple[Coefficients, Coefficients]:
    """By the next two of the sequence, (1/2 - b)/x² and (1/6 - c)/x²: fewer operations than the
    derivatives of quotients and series.
    """
    (x2,), (dot,) = primals, tangents
    a, b, c = exp_coefficients(x2)
    small = x2 < _SERIES_BELOW
    x2_safe, x2_small = jnp.where(small, 1.0, x2), jnp.where(small, x2, 0.0)
    d, e = (
        jnp.where(small, _horner(x2_small, series), (series_of_last - last) / x2_safe)
        for series, series_of_last, last in ((_FOURTH, 1 / 2, b), (_FIFTH, 1 / 6, c))
    )
    return (a, b, c), (0.5 * (c - b) * dot, (d - 0.5 * c) * dot, 0.5 * (3.0 * e - d) * dot)


def exp(theta: Vec3) -> Mat3:
    """The rotation by the vector `theta` [rad] (Rodrigues' formula, Kissel et al. Eq. 5)."""
    a, b, _ = exp_coefficients(theta @ theta)
    K = skew(theta)
    return host.eye(3, dtype=theta.dtype) + a * K + b * (K @ K)


def log(A: Mat3) -> Vec3:
    """The rotation vector of `A` [rad], with angle in [0, π]; the inverse of `exp`."""
    p = from_matrix(A)
    p = jnp.where(p[0] < 0.0, -p, p)
    e0, e = p[0], p[1:]
    n2 = e @ e
    small = (
        n2 < 1e-10
    )  # 2 atan2(n, e0) / n = 2/e0 (1 - n²/(3 e0²) + ...), the next term is below 1e-20
    n = jnp.sqrt(jnp.where(small, 1.0, n2))
    e0_safe = jnp.where(small, e0, 1.0)
    series = 2.0 / e0_safe * (1.0 - n2 / (3.0 * e0_safe * e0_safe))
    return jnp.where(small, series, 2.0 * jnp.arctan2(n, e0) / n) * e


def log_of_part_turn(A: Mat3) -> Vec3:
    """`log` for angles that stay well below π, where the antisymmetric part of `A` holds the
    axis: about a third of the operations, and no choice between cases but that of the series.
    """
    v = vee(A)
    squared, cosine = v @ v, 0.5 * (jnp.trace(A) - 1.0)
    small = (squared < 0.01) & (cosine > 0.0)
    sine = jnp.sqrt(jnp.where(small, 1.0, squared))
    series = _horner(jnp.where(small, squared, 0.0), ARCSINE_SERIES)
    return jnp.where(small, series, jnp.arctan2(sine, cosine) / sine) * v


def cayley(w: Vec3) -> Mat3:
    """The rotation by 2 atan(|w|/2) about w: R - I = skew(w) (R + I) / 2, so w is its twist about
    the midpoint.
    """
    K = skew(w)
    return host.eye(3, dtype=w.dtype) + (K + 0.5 * K @ K) / (1.0 + 0.25 * (w @ w))


def right_jacobian(theta: Vec3) -> Mat3:
    """J_r with `exp(theta + d) = exp(theta) exp(J_r d) + O(d²)` (the dexp of right
    trivialisation).
    """
    _, b, c = exp_coefficients(theta @ theta)
    K = skew(theta)
    return host.eye(3, dtype=theta.dtype) - b * K + c * (K @ K)


def inverse_coefficient(angle_squared: Scalar) -> Scalar:
    """(1 - x/2 cot(x/2)) / x² as a smooth function of x²; infinite at x = 2π."""
    x2 = angle_squared
    a, b, _ = exp_coefficients(x2)
    small = x2 < _SERIES_BELOW
    x2_safe = jnp.where(small, 1.0, x2)
    x2_small = jnp.where(small, x2, 0.0)
    series = _horner(x2_small, COTANGENT_SERIES)
    return jnp.where(small, series, (1.0 - 0.5 * a / b) / x2_safe)


def inverse_right_jacobian(theta: Vec3) -> Mat3:
    """The inverse of `right_jacobian`, `I + K/2 + (1 - x/2 cot(x/2))/x² K²`; singular at 2π."""
    d = inverse_coefficient(theta @ theta)
    K = skew(theta)
    return host.eye(3, dtype=theta.dtype) + 0.5 * K + d * (K @ K)


def project(A: Float[Array, "3 3"], iterations: int = 8) -> Mat3:
    """The rotation nearest to `A` in the Frobenius norm (its polar factor), by Newton's iteration.

    Differentiable, unlike a singular value decomposition at equal singular values. Eight iterations
    reach rounding from a relative defect of order one; `det A > 0` is the caller's duty.
    """
    xp = library_of(A)
    for _ in range(iterations):
        A = 0.5 * (A + xp.linalg.inv(A).T)
    return A
