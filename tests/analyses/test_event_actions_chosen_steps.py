"""What events do within a run whose steps are chosen: against closed forms, minimal coordinates by
SciPy, and finite differences of the equations in minimal coordinates.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from switched import (
    BALL,
    BUMPER,
    DISCS,
    MEET,
    bounced_exactly,
    discs,
    door,
    drop,
    height,
    hit,
    locked_exactly,
    on_bumper,
    pieces,
)

import jaxmbd as mbd

RK5 = mbd.MuntheKaas(tableau="rk5")


def bounced(p, integrator=None):
    sol = mbd.simulate(
        *drop(p, stop=False),
        step=mbd.Adaptive(1e-6, max_steps=100),
        save_at=np.linspace(0.0, 2.0, 5),
        events=[hit(p)],
        integrator=integrator,
    )
    return jnp.concatenate([sol.events.t[0, :3], sol.r[-1, 0, 2:], sol.v[-1, 0, 2:]])


@pytest.mark.essential
def test_a_bouncing_point_is_that_of_the_closed_form():
    # Both methods follow parabolas without an error.
    np.testing.assert_allclose(bounced(BALL), bounced_exactly(jnp.asarray(BALL)), atol=1e-11)


@pytest.mark.slow
def test_a_bouncing_point_by_an_explicit_method():
    np.testing.assert_allclose(bounced(BALL, RK5), bounced_exactly(jnp.asarray(BALL)), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_derivatives_through_bounces_are_those_of_the_closed_form(mode):
    p = jnp.asarray(BALL)
    exact = jax.jacfwd(bounced_exactly)(p)
    np.testing.assert_allclose(jax.jit(mode(bounced))(p), exact, atol=1e-10)


@pytest.mark.slow
def test_no_bounce_is_told_as_grazing(recwarn):
    bounced(BALL)
    assert not [w for w in recwarn if issubclass(w.category, mbd.GrazedEventWarning)]


@pytest.mark.slow
def test_bounces_without_end_are_told():
    p = np.array([0.5, 1.0, 9.81])
    run = {"step": mbd.Adaptive(1e-6), "save_at": [0.0, 1.5], "throw": False}
    few = mbd.simulate(*drop(BALL, stop=False), events=[hit(p, most=5)], **run)
    assert bool(few.result == mbd.RESULTS.too_many_events)
    assert len(few.events["hit"]) == 5


@pytest.mark.slow
def test_two_discs_lock_as_the_balance_of_momentum_says():
    def locked(p):
        step = mbd.Adaptive(1e-6, max_steps=100)
        sol = mbd.simulate(*discs(p), step=step, save_at=[0.0, 1.0], events=[MEET])
        return jnp.stack([sol.omega[-1, 0, 2], sol["pin a.angle"][-1]])

    p = jnp.asarray(DISCS)
    np.testing.assert_allclose(jax.jit(locked)(p), locked_exactly(p), atol=1e-12)
    found = jax.jit(jax.jacfwd(locked))(p)
    np.testing.assert_allclose(found, jax.jacfwd(locked_exactly)(p), atol=1e-10)


@pytest.mark.parametrize(
    ("integrator", "tolerance", "error"),
    [
        pytest.param(RK5, 1e-9, 1e-9, id="rk5", marks=pytest.mark.slow),
        # Global errors of a method of second order are some tens of the tolerance.
        pytest.param(mbd.GeneralizedAlpha(), 1e-7, 2e-5, id="alpha", marks=pytest.mark.slow),
        pytest.param(mbd.BDF2(), 1e-7, 2e-5, id="bdf2", marks=pytest.mark.slow),
    ],
)
def test_a_door_falls_into_its_latch(integrator, tolerance, error):
    system, state = door().build()
    state = mbd.set_joints(system, state, {"hinge": {"angle": 1.2, "rate": 0.3}})
    shut = mbd.Event("shut", "hinge.angle < 0", action=mbd.Activate("latch"))
    again = mbd.Event("again", "hinge.rate > 0.1")  # never: the latch holds
    ts = np.linspace(0.0, 2.0, 41)
    sol = mbd.simulate(
        system,
        state,
        step=mbd.Adaptive(tolerance),
        save_at=ts,
        events=[shut, again],
        integrator=integrator,
    )
    # The same door with steps of one size is held to its equation by SciPy.
    own = mbd.simulate(
        system, state, h=1e-2, t_end=2.0, events=[shut], integrator=RK5, save_every=5
    )
    assert len(sol.events["shut"]) == 1 and len(sol.events["again"]) == 0
    np.testing.assert_allclose(sol.events["shut"], own.events["shut"], atol=error)
    for name in ("hinge.angle", "hinge.rate"):
        np.testing.assert_allclose(sol[name], own[name], atol=10.0 * error)
    after, moment = ts > float(sol.events["shut"][0]), "latch.reaction_moment.z"
    np.testing.assert_allclose(sol["hinge.angle"][after], 0.0, atol=1e-11)
    np.testing.assert_allclose(sol[moment][after], own[moment][after], rtol=1e-6)


@pytest.mark.slow
def test_a_relay_keeps_a_body_swinging_as_scipy_says():
    m = mbd.Mechanism("relay", gravity=(0, 0, 0))
    m.add_body("cart", mass=1.5, inertia=(1, 1, 1), r=(0, 0, 0), v=(1.0, 0, 0))
    m.add(mbd.Translational("rail", m.ground, "cart", point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "rail", control=mbd.Input("push", default=0.0)))
    system, state = m.build()
    left = mbd.SetInput("push", lambda x, t: 2.0 + t)
    relay = [
        mbd.Event("right", "rail.displacement > 0.2", action=mbd.SetInput("push", -3.0)),
        mbd.Event("left", "rail.displacement < -0.1", action=left),
    ]
    ts = np.linspace(0.0, 5.0, 26)
    sol = mbd.simulate(
        system, state, step=mbd.Adaptive(1e-8), save_at=ts, events=relay, integrator=RK5
    )

    # They alternate: each is looked for until it happens.
    def right(t, y, u):
        return y[0] - 0.2

    def left(t, y, u):
        return y[0] + 0.1

    right.terminal = left.terminal = True
    right.direction, left.direction = 1, -1
    t, y, u, found = 0.0, np.array([0.0, 1.0]), 0.0, {"right": [], "left": []}
    pushes = np.full(ts.shape, 0.0)
    while t < 5.0:
        event = right if len(found["right"]) == len(found["left"]) else left
        tight = {"events": event, "args": (u,), "rtol": 1e-12, "atol": 1e-13}
        own = solve_ivp(lambda t, y, u: (y[1], u / 1.5), (t, 5.0), y, **tight)
        t, y = own.t[-1], own.y[:, -1]
        found[event.__name__] += list(own.t_events[0])
        u = -3.0 if event is right else 2.0 + t
        pushes[ts > t] = u
    for name, times in found.items():
        assert len(times) >= 2
        np.testing.assert_allclose(sol.events[name], times, atol=1e-9)
    np.testing.assert_allclose([sol["rail.displacement"][-1], sol["rail.speed"][-1]], y, atol=1e-8)
    np.testing.assert_allclose(sol["push.force"], pushes, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("at", [0.5, 0.503])
def test_events_of_one_instant_all_act_and_others_in_their_order(at):
    m = mbd.Mechanism("three", gravity=(0, 0, 0))
    for k in range(3):
        m.add_body(f"{k}", mass=1.0, inertia=(1, 1, 1), r=(0, 0, k), omega=(0, 0, 1.0 + k))
        m.add(mbd.Revolute(f"pin {k}", m.ground, f"{k}", point=(0, 0, k), axis=(0, 0, 1)))
        m.add(mbd.Lock(f"brake {k}", f"pin {k}", active=False))
    values = {"one": (1, 2 * at), "same": (1, 2 * at), "seen": (2, 3 * at - 1.5e-3)}
    values |= {"later": (2, 3 * at + 3e-3), "never": (0, at + 1e-3)}
    brakes = {"one": "brake 1", "same": "brake 0", "later": "brake 2"}
    events = []
    for name, (k, x) in values.items():
        action = mbd.Activate(brakes[name], here=True) if name in brakes else None
        events.append(mbd.Event(name, f"pin {k}.angle", value=x, action=action))
    step = mbd.Adaptive(1e-6, max_steps=200)
    sol = mbd.simulate(*m.build(), step=step, save_at=[0.0, 1.0], events=events)
    for name, t in {"one": at, "same": at, "seen": at - 5e-4, "later": at + 1e-3}.items():
        np.testing.assert_allclose(sol.events[name], [t], rtol=1e-10)
    assert len(sol.events["never"]) == 0
    np.testing.assert_allclose(sol.omega[-1, :, 2], 0.0, atol=1e-12)
    angles = [sol[f"pin {k}.angle"][-1] for k in range(3)]
    np.testing.assert_allclose(angles, [at, 2 * at, 3 * at + 3e-3], rtol=1e-10)


@pytest.mark.slow
def test_every_member_of_a_batch_acts_at_its_own_instant():
    heights = jnp.linspace(0.2, 1.4, 7)

    def last(z):
        p = jnp.asarray(BALL).at[1].set(z)
        step = mbd.Adaptive(1e-6, max_steps=100)
        sol = mbd.simulate(*drop(p, stop=False), step=step, save_at=[0.0, 1.2], events=[hit(p)])
        return sol.r[-1, 0, 2], sol.events.counts[0]

    single = jax.jit(last)
    found, counts = jax.jit(jax.vmap(last))(heights)
    assert len(np.unique(np.asarray(counts))) > 2
    for k, z in enumerate(heights):
        one, count = single(z)
        np.testing.assert_allclose(found[k], one, rtol=1e-11, atol=1e-11)
        assert counts[k] == count


@pytest.mark.slow
def test_an_event_that_acts_may_end_the_run():
    shut = hit(BALL, terminal=True)
    run = {"step": mbd.Adaptive(1e-6), "save_at": np.linspace(0.0, 2.0, 21)}
    sol = mbd.simulate(*drop(BALL, stop=False), events=[shut], **run)
    fall = np.sqrt(2.0 * BALL[1] / BALL[2])
    assert bool(sol.result == mbd.RESULTS.ended_by_event)
    k = int(np.searchsorted(run["save_at"], fall))
    np.testing.assert_allclose(sol.t[k], fall, rtol=1e-12)
    # The last row is after what is done there.
    np.testing.assert_allclose(sol.v[k, 0, 2], BALL[0] * BALL[2] * fall, rtol=1e-11)
    assert np.all(np.isnan(np.asarray(sol.r[k + 1 :])))


@pytest.mark.slow
def test_a_joint_that_does_not_close_ends_the_run_and_says_so():
    system, state = door().build()
    state = mbd.set_joints(system, state, {"hinge": {"angle": 1.2}})
    early = mbd.Event("early", "hinge.angle < 0.3", action=mbd.Activate("latch"))
    run = {"step": mbd.Adaptive(1e-6), "save_at": [0.0, 2.0], "events": [early]}
    with pytest.raises(mbd.SimulationError, match="activated at an event at which it does not"):
        mbd.simulate(system, state, **run)
    kept = mbd.simulate(system, state, throw=False, **run)
    assert bool(kept.result == mbd.RESULTS.open_at_event)
    assert len(kept.events["early"]) == 1


# --- kinks ---


@pytest.mark.slow
def test_steps_end_where_a_spring_lets_go():
    ts = np.linspace(0.0, 2.0, 101)
    exact = height(ts)

    def run(tolerance, split):
        step = mbd.Adaptive(tolerance)
        return mbd.simulate(*on_bumper(), step=step, save_at=ts, integrator=RK5, split_kinks=split)

    sol = run(1e-8, True)
    np.testing.assert_allclose(sol.r[:, 0, 2], exact, atol=5e-7)
    fall, stay, _ = pieces(BUMPER)
    there = fall + np.cumsum([0.0, stay, 2.0 * fall, stay, 2.0 * fall])
    for name in ("bumper.kink1", "bumper.kink2"):
        np.testing.assert_allclose(sol.events[name], there, atol=1e-6)
    assert not np.any(np.asarray(sol.events.grazed))
    # Across a kink the error estimate, which presumes a smooth step, misjudges.
    whole = run(1e-8, False)
    assert abs(sol.r[:, 0, 2] - exact).max() < 0.2 * abs(whole.r[:, 0, 2] - exact).max()
    assert int(sol.stats["accepted_steps"]) < int(whole.stats["accepted_steps"])
