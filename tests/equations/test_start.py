"""What a start computes beside accelerations, in one loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.equations.first_rates import first_rates
from jaxmbd.equations.index1 import acceleration_equations, closest_velocity, dynamic_accelerations


@pytest.mark.parametrize("name", ["four_bar", "bennett", "spherical_double_pendulum"])
def test_the_rate_of_accelerations_is_their_derivative_along_the_motion(name):
    """By automatic differentiation, which factors every matrix by itself."""
    ra, t = mbd.RA(), jnp.zeros(())
    system, state = mbd.load(name)
    rng = np.random.default_rng(7)
    q, u = ra.from_state(state)
    # Any velocities that the joints allow.
    u = jnp.asarray(3.0 * rng.normal(size=u.shape))
    u = closest_velocity(ra, system, q, u, t)
    a, lam = dynamic_accelerations(ra, system, q, u, t)

    def along(s):
        moved = jax.vmap(ra.retract)(q, s * u + 0.5 * s**2 * a)
        return dynamic_accelerations(ra, system, moved, u + s * a, t + s)[0]

    _, wanted = jax.jvp(along, (t,), (jnp.ones(()),))
    found = first_rates(ra, system, q, u, t, jnp.asarray(1e-3))
    np.testing.assert_allclose(found.a, a, atol=1e-12 * float(jnp.max(jnp.abs(a))))
    np.testing.assert_allclose(found.lam, lam, atol=1e-12 * float(jnp.max(jnp.abs(lam))))
    np.testing.assert_array_equal(found.across, 0.0)
    # A forward difference over 6e-9 s: rounding of the accelerations, some 1e-14, over that.
    scale = float(jnp.max(jnp.abs(wanted)) + jnp.max(jnp.abs(a)))
    np.testing.assert_allclose(found.jerk, wanted, atol=2e-6 * scale)


@pytest.mark.parametrize("name", ["four_bar", "bennett"])
def test_the_part_across_the_constraints_is_normal_to_all_that_they_allow(name):
    ra, t = mbd.RA(), jnp.zeros(())
    system, state = mbd.load(name)
    q, u = ra.from_state(state)
    x = jnp.asarray(np.random.default_rng(8).normal(size=u.shape))
    h = jnp.asarray(1e-3)
    part = np.asarray(first_rates(ra, system, q, u, t, h, lambda *_: x).across).ravel()
    matrix, *_ = acceleration_equations(ra, system, q, u, t)
    n = u.size
    dense = np.asarray(matrix.dense())
    M, R = dense[:n, :n], dense[n:, :n]
    # A basis of what the rows allow, by singular values.
    _, s, Wt = np.linalg.svd(R)
    allowed = Wt[np.sum(s > 1e-9 * s[0]) :]
    assert len(allowed) == 1
    np.testing.assert_allclose(R @ (np.asarray(x).ravel() - part), 0.0, atol=1e-11)
    np.testing.assert_allclose(allowed @ M @ part, 0.0, atol=1e-11 * np.abs(M).max())
