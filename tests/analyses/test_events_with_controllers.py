"""Events in runs with a sampled controller, against a cart that NumPy moves exactly: its force is
constant between samples and events.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

MASS, H, STEPS, PERIOD = 1.5, 1e-2, 160, 8
# Of second order with an error by the third derivative, which a constant force has not.
METHOD = mbd.GeneralizedAlpha()


class Spring(mbd.Controller):
    observes = ("rail.displacement", "rail.speed")
    commands = ("push",)
    gains: jax.Array

    def __call__(self, memory, seen, t):
        return memory, -jnp.dot(self.gains, seen)


GAINS = np.array([4.0, 0.5])


def cart():
    m = mbd.Mechanism("cart", gravity=(0, 0, 0))
    m.add_body("cart", mass=MASS, inertia=(1, 1, 1), r=(0, 0, 0), v=(1.0, 0, 0))
    m.add(mbd.Translational("rail", m.ground, "cart", point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "rail", control=mbd.Input("push")))
    m.add(mbd.Actuator("wind", "rail", control=mbd.Input("wind", default=0.0)))
    m.add(mbd.Lock("brake", "rail", active=False))
    return m.build()


AWAY = mbd.Event("away", "rail.displacement > 0.3", action=mbd.SetInput("wind", -2.0), most=4)
BACK = mbd.Event("back", "rail.displacement < 0")
STOP = mbd.Event("stop", "rail.displacement < -0.2", action=mbd.Activate("brake", here=True))


def run(gains, events, **options):
    controller = Spring(gains, period=PERIOD)
    return mbd.simulate(
        *cart(),
        h=H,
        steps=STEPS,
        controller=controller,
        events=events,
        integrator=METHOD,
        **options,
    )


PLACES = {"away": (0.3, True), "back": (0.0, False), "stop": (-0.2, False)}


def exactly(gains, *, brakes=True):
    """Rows (x, v), and the instants of the three events."""
    x, v, wind, push, locked = 0.0, 1.0, 0.0, 0.0, False
    rows, told = [(x, v)], {"away": [], "back": [], "stop": []}
    for n in range(STEPS):
        if n % PERIOD == 0:
            push = -gains[0] * x - gains[1] * v
        left = H
        while not locked and left > 0.0:
            a, hits = (push + wind) / MASS, []
            for name, place, up in (
                ("away", 0.3, True),
                ("back", 0.0, False),
                ("stop", -0.2, False),
            ):
                for t in np.roots([0.5 * a, v, x - place]):
                    real = np.isreal(t) and 1e-9 < t.real <= left
                    if real and (v + a * t.real > 0.0) == up:
                        hits.append((float(t.real), name))
            dt, name = min(hits, default=(left, None))
            x, v, left = x + v * dt + 0.5 * a * dt**2, v + a * dt, left - dt
            if name is not None:
                told[name].append((n + 1) * H - left)
            wind = -2.0 if name == "away" else wind
            if name == "stop" and brakes:
                locked, v = True, 0.0
        rows.append((x, v))
    return np.array(rows), told


@pytest.mark.essential
def test_samples_and_events_act_on_one_cart_as_numpy_says():
    sol = run(GAINS, [AWAY, BACK, STOP])
    rows, told = exactly(GAINS)
    for name, times in told.items():
        assert len(times) == 1
        np.testing.assert_allclose(sol.events[name], times, atol=1e-9)
    found = np.stack([sol["rail.displacement"], sol["rail.speed"]], axis=1)
    np.testing.assert_allclose(found, rows, atol=1e-9)


@pytest.mark.slow
def test_events_that_only_tell_change_nothing():
    quiet = run(GAINS, [BACK], save_every=4)
    plain = run(GAINS, [], save_every=4)
    np.testing.assert_allclose(quiet.r, plain.r, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(quiet["push"], plain["push"], rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_derivatives_by_gains_run_through_samples_and_events():
    def last(gains):
        sol = run(gains, [AWAY, BACK])
        return jnp.stack([sol.events.t[0, 0], sol.events.t[1, 0], sol["rail.displacement"][-1]])

    def own(gains):
        rows, told = exactly(gains, brakes=False)
        return np.array([told["away"][0], told["back"][0], rows[-1, 0]])

    found = jax.jit(jax.jacrev(last))(jnp.asarray(GAINS))
    e = 1e-6
    each = np.eye(2) * e
    differences = np.stack([(own(GAINS + d) - own(GAINS - d)) / (2 * e) for d in each], axis=-1)
    np.testing.assert_allclose(found, differences, atol=1e-7)


def test_an_event_that_sets_a_command_is_refused_by_name():
    take = mbd.Event("take", "rail.displacement > 0.3", action=mbd.SetInput("push", 0.0))
    with pytest.raises(ValueError, match="Event 'take' sets the input 'push'"):
        run(GAINS, [take])
    with pytest.raises(ValueError, match="Spring commands the input 'push'; leave it out"):
        run(GAINS, [BACK], inputs={"push": 1.0})
