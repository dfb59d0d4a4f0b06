import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import ROUNDOFF, name_of, rotation, vec
from jaxmbd.model.primitives import CD, DP1, DP2, D, free_motion, variation_of_sums
from jaxmbd.model.state import Pose, Twist
from jaxmbd.rotations import so3

PRIMITIVES = {
    "DP1": lambda v: DP1(v(), v(), jnp.array(0.3)),
    "DP1 turning": lambda v: DP1(v(), v(), jnp.array(0.3), a_i_bar_dot=v(), a_i_bar_ddot=v()),
    "DP2": lambda v: DP2(v(), v(), v(), jnp.array(0.1)),
    "D": lambda v: D(v(), v(), jnp.array(2.0)),
    "CD": lambda v: CD(v(), v(), v(), jnp.array(-0.2)),
}


def shifted(pose, d):
    return Pose(pose.r + d[:3], pose.A @ so3.exp(d[3:]))


def moved(pose, twist, s):
    return Pose(pose.r + s * twist.v, pose.A @ so3.exp(s * twist.omega))


@pytest.fixture(params=PRIMITIVES, ids=name_of)
def case(request, rng):
    draw = lambda: vec(rng)  # noqa: E731
    poses = [Pose(vec(rng), rotation(rng)) for _ in range(2)]
    twists = [Twist(vec(rng), vec(rng)) for _ in range(2)]
    return PRIMITIVES[request.param](draw), poses, twists


def test_the_products_are_the_geometry(rng):
    """The four equations as the paper prints them, in NumPy."""
    i, j = (Pose(vec(rng), rotation(rng)) for _ in range(2))
    a, b, s, t, c = (np.asarray(vec(rng)) for _ in range(5))
    (r_i, A_i), (r_j, A_j) = ((np.asarray(p.r), np.asarray(p.A)) for p in (i, j))
    d = r_j + A_j @ t - r_i - A_i @ s
    expected = [
        (DP1(jnp.array(a), jnp.array(b), 0.0), a @ A_i.T @ A_j @ b),
        (DP2(jnp.array(a), jnp.array(s), jnp.array(t), 0.0), a @ A_i.T @ d),
        (D(jnp.array(s), jnp.array(t), 0.0), d @ d),
        (CD(jnp.array(c), jnp.array(s), jnp.array(t), 0.0), c @ d),
    ]
    for primitive, value in expected:
        np.testing.assert_allclose(primitive.geometry(i, j), value, atol=1e-14)


def test_hand_coded_row_is_the_derivative(case):
    primitive, (i, j), _ = case
    by_ad = jax.grad(lambda d: primitive.geometry(shifted(i, d[:6]), shifted(j, d[6:])))(
        jnp.zeros(12)
    )
    np.testing.assert_allclose(primitive.variation(i, j), by_ad, atol=ROUNDOFF)


def test_hand_coded_reaction_variation_is_the_derivative_of_the_reactions(case):
    primitive, (i, j), _ = case
    lam = 1.7

    def reactions(d):  # f = -Φ_rᵀ λ, n̄ = -Π̄ᵀ λ
        return -lam * primitive.variation(shifted(i, d[:6]), shifted(j, d[6:]))

    by_ad = jax.jacfwd(reactions)(jnp.zeros(12))
    np.testing.assert_allclose(lam * primitive.reaction_variation(i, j), by_ad, atol=ROUNDOFF)


def test_angular_primitives_vary_by_moments_that_turn_alone(case):
    primitive, (i, j), _ = case
    whole = -primitive.reaction_variation(i, j).reshape(2, 6, 2, 6)
    moments = np.zeros_like(whole)
    moments[:, 3:, :, 3:] = whole[:, 3:, :, 3:]
    assert primitive.angular == np.allclose(whole, moments, atol=ROUNDOFF)
    if primitive.angular:
        factors = jax.tree.map(lambda x: x[None], primitive.factors(i, j))
        sums = factors.variation_sums(jnp.ones(1))
        some = variation_of_sums(sums, i.A, j.A, angular=True)
        np.testing.assert_allclose(some, whole[:, 3:, :, 3:], atol=ROUNDOFF)


def test_hand_coded_gamma_is_minus_the_second_derivative_along_the_free_motion(case):
    primitive, (i, j), (v, w) = case

    def value(s):
        return primitive.advanced(s).geometry(moved(i, v, s), moved(j, w, s))

    by_ad = -jax.grad(jax.grad(value))(jnp.zeros(()))
    motions = free_motion(i, v), free_motion(j, w)
    np.testing.assert_allclose(primitive.gamma(*motions), by_ad, atol=ROUNDOFF)


def test_rate_is_row_times_twist_plus_explicit_rate(case):
    primitive, (i, j), (v, w) = case

    def value(s):
        return primitive.advanced(s).geometry(moved(i, v, s), moved(j, w, s))

    u = jnp.concatenate([v.v, v.omega, w.v, w.omega])
    rate = primitive.variation(i, j) @ u + primitive.geometry_rate(i, j)
    np.testing.assert_allclose(rate, jax.grad(value)(jnp.zeros(())), atol=ROUNDOFF)
