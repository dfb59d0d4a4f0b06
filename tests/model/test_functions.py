"""Functions with derivatives of the user's own, in forces and drivers."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd


@jax.custom_vjp
def backward(x):
    """A sine with a rule for reverse mode only."""
    return jnp.sin(x)


backward.defvjp(lambda x: (jnp.sin(x), x), lambda x, bar: (bar * jnp.cos(x),))


@jax.custom_jvp
def forward(x):
    """A sine with a rule for both modes."""
    return jnp.sin(x)


forward.defjvp(lambda x, dx: (jnp.sin(x[0]), jnp.cos(x[0]) * dx[0]))

NEEDED = "forward-mode derivatives are needed.*jax.custom_jvp instead"


def arm(mass=1.0, force=None, angle=None):
    m = mbd.Mechanism("arm")
    m.add_body("arm", mass=mass, inertia=(0.1, 0.1, 0.1), r=(1.0, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, "arm", point=(0, 0, 0), axis=(0, 0, 1)))
    if force is not None:
        m.add(mbd.UserForce("push", ["arm"], force))
    if angle is not None:
        m.add(mbd.RotationDriver("motor", m.ground, "arm", axis=(0, 0, 1), angle=angle))
    return m.build()


def of_time(sine):
    return lambda pose, twist, t: (jnp.zeros((1, 3)).at[0, 1].set(sine(3.0 * t)), jnp.zeros((1, 3)))


def of_state(sine):
    return lambda pose, twist, t: (-sine(pose.r), jnp.zeros((1, 3)))


def end(mass, force, **options):
    system, state = arm(mass, force)
    return mbd.simulate(system, state, h=1e-2, steps=4, **options).r[-1, 0]


def test_a_time_factor_with_custom_vjp_gives_motions_batches_and_gradients():
    step = 1e-4
    masses = jnp.array([1.0, 1.0 + step, 1.0 - step])

    def total(masses):
        ends = jax.vmap(lambda mass: end(mass, of_time(backward))[1])(masses)
        return ends.sum(), ends

    (_, ends), slopes = jax.jit(jax.value_and_grad(total, has_aux=True))(masses)
    np.testing.assert_allclose(ends[0], end(1.0, of_time(jnp.sin))[1], rtol=1e-12)
    np.testing.assert_allclose(end(1.0, of_time(backward))[1], ends[0], rtol=1e-12)
    np.testing.assert_allclose(slopes[0], (ends[1] - ends[2]) / (2.0 * step), rtol=1e-6)


def test_a_force_of_the_state_with_custom_vjp_is_refused_where_newton_needs_its_derivative():
    sentence = re.compile("mechanism 'arm', user force 'push': " + NEEDED)
    with pytest.raises(ValueError, match=sentence):
        end(1.0, of_state(backward))
    with pytest.raises(ValueError, match=sentence):
        jax.jit(jax.vmap(lambda mass: end(mass, of_state(backward))))(jnp.ones(2))
    with pytest.raises(ValueError, match=sentence):
        mbd.linearize(*arm(1.0, of_state(backward)))


def test_custom_jvp_serves_and_accelerations_need_no_derivative():
    A, expected = (mbd.linearize(*arm(1.0, of_state(sine))).A for sine in (forward, jnp.sin))
    np.testing.assert_allclose(A, expected, atol=1e-13)
    alpha, expected = (
        mbd.accelerations(*arm(1.0, of_state(sine))).alpha for sine in (backward, jnp.sin)
    )
    np.testing.assert_allclose(alpha, expected, atol=1e-13)


def test_a_driver_with_custom_vjp_is_refused_when_it_is_added():
    with pytest.raises(ValueError, match="driver 'motor': angle: " + NEEDED):
        arm(angle=backward)
    run = mbd.kinematics(*arm(angle=forward), ts=[0.0, 0.5])
    np.testing.assert_allclose(run.r[1, 0, 1], np.sin(np.sin(0.5)), atol=1e-12)
