"""Events that act where there are rigid contacts, stops and dry friction, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

pytestmark = pytest.mark.xdist_group("event_actions_with_contact")

GRAVITY, RADIUS, MASS = 9.81, 0.1, 2.0


def clock(name, at, action):
    return mbd.Event(name, lambda pose, twist, z, t: t, value=at, action=action)


def dropped(at, height=1.0, restitution=0.5):
    """A ball that hangs on a hook over a floor, which lets go."""
    m = mbd.Mechanism("drop")
    m.add_body("ball", shape=mbd.Sphere(RADIUS, mass=MASS), r=(0, 0, RADIUS + height))
    m.add(mbd.Fixed("hook", m.ground, "ball", point=(0, 0, RADIUS + height), active=True))
    m.add(mbd.Contact("floor", "ball", m.ground, friction=0.3, restitution=restitution))
    m.add(clock("let go", at, mbd.Release("hook")))
    return m.build()


def fallen(at, end, height=1.0, restitution=0.5):
    """Height over the floor and velocity after one bounce."""
    speed = restitution * np.sqrt(2.0 * GRAVITY * height)
    since = end - at - np.sqrt(2.0 * height / GRAVITY)
    return speed * since - 0.5 * GRAVITY * since**2, speed - GRAVITY * since


@pytest.mark.essential
def test_what_a_lock_lets_go_bounces_off_a_stop():
    m = mbd.Mechanism("drop")
    m.add_body("ball", mass=MASS, inertia=(0.1,) * 3, r=(0, 0, 1.0))
    m.add(mbd.Translational("guide", m.ground, "ball", point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.JointLimit("stop", "guide", lower=-1.0, restitution=0.5))
    m.add(mbd.Lock("hook", "guide", active=True))
    m.add(clock("let go", 0.2345, mbd.Release("hook")))
    sol = mbd.simulate(*m.build(), h=1e-2, steps=100)
    found = sol.r[-1, 0, 2], sol.v[-1, 0, 2]
    np.testing.assert_allclose(found, fallen(0.2345, 1.0), atol=1e-11)


@pytest.mark.slow
def test_what_a_hook_lets_go_bounces_off_the_floor():
    """With the derivative by the instant, which is the velocity with the other sign."""

    def end(at):
        sol = mbd.simulate(*dropped(at), h=1e-2, steps=100)
        return jnp.stack([sol.r[-1, 0, 2] - RADIUS, sol.v[-1, 0, 2]])

    one = jnp.ones(())
    found, slope = jax.jit(lambda at: jax.jvp(end, (at,), (one,)))(jnp.asarray(0.2345))
    np.testing.assert_allclose(found, fallen(0.2345, 1.0), atol=1e-11)
    np.testing.assert_allclose(slope, (-found[1], GRAVITY), atol=1e-9)


@pytest.mark.slow
def test_each_element_of_a_batch_has_its_own_instant():
    """Steps too short to be worth it are left out: up to 1e-4 of a step, 1e-6 s, of gravity."""

    def end(at):
        sol = mbd.simulate(*dropped(at), h=1e-2, steps=100)
        return jnp.stack([sol.r[-1, 0, 2] - RADIUS, sol.v[-1, 0, 2]])

    times = np.array([0.11, 0.2345, 0.377, 0.23, 0.2300001, 0.2299999, 0.2398])
    found = jax.jit(jax.vmap(end))(jnp.asarray(times))
    exact = np.array([fallen(at, 1.0) for at in times])
    np.testing.assert_allclose(found[:3], exact[:3], atol=1e-11)
    np.testing.assert_allclose(found[3:], exact[3:], atol=2e-5)


def hand_over_the_floor():
    m = mbd.Mechanism("pick and place")
    m.add_body("hand", mass=1.0, inertia=(0.1,) * 3, r=(0, 0, 0.6))
    m.add_body("ball", shape=mbd.Sphere(RADIUS, mass=MASS), r=(0, 0, RADIUS))
    m.add(mbd.Translational("guide", m.ground, "hand", point=(0, 0, 0), axis=(0, 0, 1)))
    lift = "-0.3 * sin(pi * t)"
    m.add(mbd.TranslationDriver("lift", m.ground, "hand", axis=(0, 0, 1), displacement=lift))
    m.add(mbd.Fixed("grip", "hand", "ball", point=(0, 0, 0.3), active=False))
    m.add(mbd.Contact("floor", "ball", m.ground, friction=0.3))
    m.add(clock("grasp", 0.553, mbd.Activate("grip", here=True)))
    m.add(clock("let go", 0.903, mbd.Release("grip")))
    return m.build()


@pytest.mark.slow
def test_a_ball_is_picked_from_the_floor_and_dropped():
    """It rests, moves with the hand from where it lay, falls freely, and rests again."""
    sol = mbd.simulate(*hand_over_the_floor(), h=1e-2, steps=150)
    t, z = np.asarray(sol.t), np.asarray(sol.r[:, 1, 2])

    def hand(t):
        return -0.3 * np.sin(np.pi * t)

    there = RADIUS + hand(0.903) - hand(0.553)
    speed, since = -0.3 * np.pi * np.cos(np.pi * 0.903), t - 0.903
    lies, held = t < 0.553, (t > 0.56) & (t < 0.903)
    lands = 0.903 + (speed + np.sqrt(speed**2 + 2 * GRAVITY * (there - RADIUS))) / GRAVITY
    falls, rests = (t > 0.903) & (t < lands), t > lands + 1e-2
    assert min(np.sum(x) for x in (lies, held, falls, rests)) > 15
    np.testing.assert_allclose(z[lies | rests], RADIUS, atol=1e-11)
    np.testing.assert_allclose(z[held], (RADIUS + hand(t) - hand(0.553))[held], atol=1e-11)
    path = there + speed * since - 0.5 * GRAVITY * since**2
    np.testing.assert_allclose(z[falls], path[falls], atol=1e-10)
    pressure = np.asarray(sol.contact("floor").force)[..., 0].reshape(len(t), -1).sum(axis=1)
    rests[np.argmax(rests)] = False  # the mean over a step in which it landed
    np.testing.assert_allclose(pressure[lies][1:], MASS * GRAVITY, rtol=1e-9)
    np.testing.assert_allclose(pressure[rests], MASS * GRAVITY, rtol=1e-9)
    np.testing.assert_allclose(pressure[held], 0.0, atol=1e-9)


@pytest.mark.slow
def test_discs_with_dry_friction_lock():
    """Both slow down by a constant rate, together by the mean of their moments."""
    J, speeds, bounds, at = (0.1, 0.3), (20.0, -2.0), (0.4, 0.15), 0.3217
    m = mbd.Mechanism("clutch", gravity=(0, 0, 0))
    z = (0, 0, 1)
    for name, inertia, speed, bound in zip("ab", J, speeds, bounds, strict=True):
        m.add_body(name, mass=1.0, inertia=(inertia,) * 3, omega=(0, 0, speed))
        m.add(mbd.Revolute(f"pin {name}", m.ground, name, point=(0, 0, 0), axis=z))
        m.add(mbd.CoulombFriction(f"dry {name}", f"pin {name}", bound=bound))
    m.add(mbd.Coupler("clutch", "pin a", "pin b", active=False))
    m.add(clock("engage", at, mbd.Activate("clutch", here=True)))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=1e-2, steps=100)
    before = [w - np.sign(w) * b * at / j for w, b, j in zip(speeds, bounds, J, strict=True)]
    both = (J[0] * before[0] + J[1] * before[1]) / sum(J)
    after = both - np.sign(both) * sum(bounds) * (1.0 - at) / sum(J)
    np.testing.assert_allclose(sol.omega[-1, :, 2], (after, after), atol=1e-10)
