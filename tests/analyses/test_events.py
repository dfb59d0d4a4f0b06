"""Events on the steps of a run: instants against closed forms, derivatives against differences."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipk

import jaxmbd as mbd
from experiments.identification import minimal

MASS, INERTIA, LENGTH, GRAVITY = 1.0, 0.02, 1.0, 9.81
# From rest at the horizontal to the vertical, and to each passage after it.
QUARTER = ellipk(0.5) / np.sqrt(MASS * GRAVITY * LENGTH / (INERTIA + MASS * LENGTH**2))
DOWN = 0.5 * np.pi


def pendulum():
    m = mbd.Mechanism("pendulum", gravity=(0, 0, -GRAVITY))
    bob = m.add_body("bob", mass=MASS, inertia=(INERTIA,) * 3, r=(LENGTH, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    return m


SYSTEM, STATE = pendulum().build()


def passages(integrator, h, formulation=None):
    """Errors of the first twenty passages of the vertical in 24 seconds; a method that takes energy
    has more of them.
    """
    sol = mbd.simulate(
        SYSTEM,
        STATE,
        h=h,
        t_end=24.0,
        events=[mbd.Event("down", "pin.angle", value=DOWN, most=24)],
        integrator=integrator,
        formulation=formulation,
    )
    found = np.asarray(sol.events["down"])[:20]
    return found - QUARTER * (2 * np.arange(len(found)) + 1)


@pytest.mark.parametrize(
    ("integrator", "formulation", "h", "order"),
    [
        pytest.param(mbd.GeneralizedAlpha(), None, 1e-2, 2, id="generalized_alpha"),
        pytest.param(mbd.MuntheKaas(tableau="rk5"), None, 4e-2, 5, id="rk5"),
        *(
            pytest.param(*each, id=name, marks=pytest.mark.slow)
            for name, each in {
                "alpha rp": (mbd.GeneralizedAlpha(), mbd.RP(), 1e-2, 2),
                "bdf2": (mbd.BDF2(), None, 2e-3, 2),
                "euler": (mbd.ImplicitEuler(), None, 5e-4, 1),
                "rk4": (mbd.RungeKutta(tableau="rk4"), mbd.RP(), 2e-2, 4),
                "directors": (mbd.EnergyMomentum(), mbd.Directors(), 1e-2, 2),
            }.items()
        ),
    ],
)
def test_instants_converge_at_the_order_of_the_method(integrator, formulation, h, order):
    coarse, fine = (passages(integrator, step, formulation) for step in (h, 0.5 * h))
    assert len(fine) == 20
    for k in (0, 19):
        # Half a step is not yet the limit: the ratio is right to a third of an order. At the first
        # passage terms of rk5 nearly cancel.
        found = np.log2(coarse[k] / fine[k])
        assert found > order - 0.35 and (k == 0 or found < order + 0.35), k


@pytest.mark.essential
def test_a_small_step_finds_the_instant_to_a_tenth_of_a_microsecond():
    sol = mbd.simulate(
        SYSTEM, STATE, h=1e-4, t_end=1.0, until=mbd.Event("down", "pin.angle", value=DOWN)
    )
    assert abs(float(sol.t_event) - QUARTER) < 1e-7
    assert bool(sol.result == mbd.RESULTS.ended_by_event)
    k = int(np.isfinite(np.asarray(sol.r[:, 0, 0])).sum()) - 1
    assert sol.t[k] == sol.t_event and k == int(sol.t_event / 1e-4) + 1
    np.testing.assert_allclose(sol["pin.angle"][k], DOWN, rtol=1e-13)
    np.testing.assert_allclose(sol.last_state.r[0], [0, 0, -LENGTH], atol=1e-10)
    assert np.isnan(np.asarray(sol.v)[k + 1 :]).all() and len(sol.t) == 10001
    # Joints hold at the event as at any step.
    assert np.abs(np.asarray(sol.violation().position)[k]).max() < 1e-12
    # Rows before it are those of a run without events.
    plain = mbd.simulate(SYSTEM, STATE, h=1e-4, t_end=1.0)
    np.testing.assert_allclose(sol.r[:k], plain.r[:k], atol=1e-12)


def instant(p):
    """The first passage, by gravity, the angle that is passed, and the mass."""
    down = jnp.zeros(()) * p[0]
    values = {"gravity": jnp.stack([down, down, -p[0]]), "bodies.bob.mass": p[2]}
    system, state = pendulum().with_values(values).build()
    event = mbd.Event("there", "pin.angle", value=p[1])
    return mbd.simulate(system, state, h=1e-2, steps=80, until=event).t_event


AT = np.array([GRAVITY, 1.5, MASS])


def differences(function, at, e=1e-5):
    each = np.eye(len(at)) * e
    return np.stack([(function(at + d) - function(at - d)) / (2.0 * e) for d in each])


@pytest.mark.essential
def test_derivatives_of_an_instant_are_those_of_the_steps():
    found = jax.jit(instant)
    reverse = jax.jit(jax.grad(instant))(jnp.asarray(AT))
    # Differences of instants that are right to 1e-14.
    np.testing.assert_allclose(reverse, differences(found, AT), rtol=1e-7)
    # Time scales with the root of gravity, to the error of the steps, 3e-4 of the time.
    t = float(found(jnp.asarray(AT)))
    np.testing.assert_allclose(reverse[0], -0.5 * t / GRAVITY, rtol=4e-4)
    # And the angle grows at its rate, to the second order in the step.
    sol = mbd.simulate(SYSTEM, STATE, h=1e-2, t_end=0.8, until="pin.angle > 1.5")
    np.testing.assert_allclose(sol.t_event, t, rtol=1e-13)
    k = int(np.isfinite(np.asarray(sol.r[:, 0, 0])).sum()) - 1
    np.testing.assert_allclose(reverse[1] * sol["pin.rate"][k], 1.0, rtol=2e-3)


@pytest.mark.slow
def test_forward_and_second_derivatives_of_an_instant():
    at = jnp.asarray(AT)
    gradient = jax.jit(jax.grad(instant))
    np.testing.assert_allclose(jax.jit(jax.jacfwd(instant))(at), gradient(at), rtol=1e-12)
    second = jax.jit(jax.jacfwd(jax.grad(instant)))(at)
    np.testing.assert_allclose(second, differences(gradient, AT), atol=1e-8)


@pytest.mark.slow
def test_states_at_an_event_and_after_it_have_derivatives():
    """The speed at the vertical, and the way that is left of a run of a given time."""

    def speed(g):
        zero = jnp.zeros(()) * g
        system, state = pendulum().with_values({"gravity": jnp.stack([zero, zero, -g])}).build()
        event = mbd.Event("down", "pin.angle", value=DOWN)
        first = mbd.simulate(system, state, h=1e-2, steps=80, until=event)
        rest = mbd.simulate(
            system, first.last_state, t0=first.t_event, h=(1.0 - first.t_event) / 40, steps=40
        )
        return jnp.stack([first.last_state.v[0, 0], rest.r[-1, 0, 0]])

    found = jax.jit(jax.jacrev(speed))(GRAVITY)
    jitted, e = jax.jit(speed), 1e-4
    np.testing.assert_allclose(
        found, (jitted(GRAVITY + e) - jitted(GRAVITY - e)) / (2.0 * e), rtol=1e-6
    )
    # Energy: v² / 2 (1 + J / m l²) = g l.
    v = np.sqrt(2.0 * GRAVITY * LENGTH / (1.0 + INERTIA / MASS / LENGTH**2))
    # The method is off by 4e-4 at this step.
    np.testing.assert_allclose(-jitted(GRAVITY)[0], v, rtol=1e-3)
    # Its error depends on where in a step the event lies, so that its derivative is a multiple.
    np.testing.assert_allclose(-found[0], 0.5 * v / GRAVITY, rtol=5e-3)


def test_every_member_of_a_batch_has_its_own_instant():
    at = np.stack([AT + [d, 0.9 * d, 0.0] for d in np.linspace(-1.0, 1.0, 12)])
    together, one = jax.jit(jax.vmap(instant))(at), jax.jit(instant)
    np.testing.assert_allclose(together, [one(each) for each in at], rtol=1e-13)


def test_several_events_in_one_step_and_one_that_ends_the_run():
    events = [
        mbd.Event("b", "pin.angle > 1.5005"),
        mbd.Event("a", "pin.angle - 1.5", direction="rising"),
        mbd.Event("late", "pin.angle > 1.51"),
    ]
    sol = mbd.simulate(
        SYSTEM, STATE, h=1e-2, t_end=3.0, events=events, until="pin.angle > 1.5006", save_every=10
    )
    table = sol.events.table()
    assert [name for _, name in table] == ["a", "b", "pin.angle > 1.5006"]
    times = np.array([t for t, _ in table])
    assert np.all(np.diff(times) > 0.0) and times[2] == sol.t_event
    # At a rate of 4.4 rad/s.
    np.testing.assert_allclose(np.diff(times), [5e-4 / 4.373, 1e-4 / 4.373], rtol=1e-2)
    reached = np.isfinite(np.asarray(sol.r[:, 0, 0]))
    np.testing.assert_allclose(sol.t[reached], [*np.arange(6) * 0.1, times[2]], rtol=1e-13)
    assert "3 events" in repr(sol.events) and "pin.angle > 1.5006" in repr(sol)
    assert "ended_by_event" in repr(sol)


def test_a_turning_point_beyond_the_value_hides_no_event():
    """Within one step the pendulum passes a value and returns."""
    value = np.pi - 1e-5
    sol = mbd.simulate(
        SYSTEM,
        STATE,
        h=1e-2,
        t_end=3.0,
        events=[
            mbd.Event("both", "pin.angle", value=value),
            mbd.Event("up", "pin.angle", value=value, direction="rising"),
            mbd.Event("back", "pin.angle", value=value, direction="falling"),
        ],
    )
    up, back = sol.events["both"]
    np.testing.assert_allclose([up, back], [*sol.events["up"], *sol.events["back"]], rtol=1e-12)
    # A parabola at the turning point, under m g l / J.
    bend = MASS * GRAVITY * LENGTH / (INERTIA + MASS * LENGTH**2)
    # The turning point itself is off by the method's error of the amplitude, h⁴ or less.
    np.testing.assert_allclose(back - up, 2.0 * np.sqrt(2.0 * 1e-5 / bend), rtol=0.1)
    none = mbd.simulate(
        SYSTEM, STATE, h=1e-2, t_end=3.0, until=mbd.Event("over", "pin.angle", value=np.pi + 1e-5)
    )
    assert bool(none.result == mbd.RESULTS.successful) and np.isnan(float(none.t_event))
    assert int(none.events.grazed[0]) == 0


def test_events_at_the_ends_of_steps_happen_once():
    plain = mbd.simulate(SYSTEM, STATE, h=1e-2, t_end=0.4)
    for change in (-1e-14, 0.0, 1e-14):
        event = mbd.Event("there", "pin.angle", value=float(plain["pin.angle"][-1]) + change)
        sol = mbd.simulate(SYSTEM, STATE, h=1e-2, t_end=1.0, events=[event])
        np.testing.assert_allclose(sol.events["there"], [0.4], atol=1e-11)
    # It starts at zero, and does not pass it.
    left = mbd.simulate(SYSTEM, STATE, h=1e-2, t_end=1.0, until="pin.angle")
    assert bool(left.result == mbd.RESULTS.successful)
    # Very soon: a free fall about the pin.
    soon = mbd.simulate(SYSTEM, STATE, h=1e-2, t_end=1.0, until="pin.angle > 1e-9")
    bend = MASS * GRAVITY * LENGTH / (INERTIA + MASS * LENGTH**2)
    np.testing.assert_allclose(soon.t_event, np.sqrt(2e-9 / bend), rtol=1e-6)


def test_functions_of_the_state_and_values_that_jump():
    def height(pose, twist, z, t):
        return pose.r[0, 2]

    sol = mbd.simulate(
        SYSTEM,
        STATE,
        h=1e-2,
        t_end=1.0,
        until=mbd.Event("low", height, value=-0.5, direction="falling"),
    )
    np.testing.assert_allclose(sol.last_state.r[0, 2], -0.5, rtol=1e-13)
    switch = mbd.Event("switch", lambda pose, twist, z, t: jnp.where(t > 0.3456, 1.0, -1.0))
    sol = mbd.simulate(SYSTEM, STATE, h=1e-2, t_end=1.0, until=switch)
    np.testing.assert_allclose(sol.t_event, 0.3456, atol=2e-5 * 1e-2)


def test_inputs_by_step_hold_within_a_step_that_is_split():
    """A mass pushed by a force that changes from step to step, in closed form."""
    m = mbd.Mechanism("cart", gravity=(0, 0, 0))
    cart = m.add_body("cart", mass=2.0, inertia=(1, 1, 1))
    m.add(mbd.Translational("rail", m.ground, cart, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "rail", control=mbd.Input("push")))
    system, state = m.build()
    h, push = 0.1, np.array([4.0, -2.0, 6.0, 1.0, 3.0])
    speed = np.concatenate([[0.0], np.cumsum(push / 2.0 * h)])
    place = np.concatenate([[0.0], np.cumsum(speed[:-1] * h + 0.25 * push * h**2)])
    for at in (0.07, 0.11, 0.33, 0.49):
        k = int(at / h)
        dt = at - k * h
        value = place[k] + speed[k] * dt + 0.25 * push[k] * dt**2
        sol = mbd.simulate(
            system,
            state,
            h=h,
            steps=5,
            inputs={"push": push},
            until=mbd.Event("there", "rail.displacement", value=value),
        )
        # Constant accelerations are exact.
        np.testing.assert_allclose(sol.t_event, at, rtol=1e-9)


def test_what_makes_no_sense_is_refused_by_name():
    run = {"h": 1e-2, "t_end": 1.0}
    with pytest.raises(ValueError, match="no quantity 'pin.angel'; did you mean"):
        mbd.simulate(SYSTEM, STATE, until="pin.angel > 1", **run)
    with pytest.raises(ValueError, match="says the direction already"):
        mbd.Event("a", "pin.angle > 1", direction="falling")
    with pytest.raises(ValueError, match="direction must be 'rising'"):
        mbd.Event("a", "pin.angle", direction="up")
    with pytest.raises(ValueError, match="most must be a positive integer"):
        mbd.Event("a", "pin.angle", most=0)
    with pytest.raises(ValueError, match="needs a name"):
        mbd.Event("", "pin.angle")
    with pytest.raises(ValueError, match="two events are named 'a'"):
        mbd.simulate(SYSTEM, STATE, events=[mbd.Event("a", "pin.angle")] * 2, **run)
    often = mbd.Event("often", "pin.angle", value=DOWN, most=2)
    with pytest.raises(mbd.SimulationError, match="more events happened than are kept"):
        mbd.simulate(SYSTEM, STATE, h=1e-2, t_end=6.0, events=[often])
    sol = mbd.simulate(SYSTEM, STATE, events=[mbd.Event("a", "pin.angle > 1")], **run)
    with pytest.raises(ValueError, match="no event 'b'"):
        sol.events["b"]
    with pytest.raises(ValueError, match="looked for no events"):
        _ = mbd.simulate(SYSTEM, STATE, **run).t_event


def test_files_and_progress(tmp_path, capsys):
    sol = mbd.simulate(SYSTEM, STATE, h=1e-2, t_end=1.0, until="pin.angle > 1", progress=True)
    assert "pendulum" not in capsys.readouterr().out
    sol.to_npz(tmp_path / "motion.npz")
    from jaxmbd.io import read_npz

    ((t, name),) = read_npz(tmp_path / "motion.npz")["stats"]["events"]
    assert name == "pin.angle > 1" and t == float(sol.t_event)


@pytest.mark.slow
def test_an_oscillator_passes_where_its_closed_form_does():
    """Decaying oscillations: ever smaller amplitudes pass a value, until none does."""
    true = minimal.Oscillator(2.0, 50.0, 0.8)
    m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
    body = m.add_body("body", mass=2.0, inertia=(0.1, 0.1, 0.1), r=(1.0, 0, 0))
    m.add(mbd.Translational("rail", m.ground, body, point=(1.0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.JointSpring("spring", "rail", stiffness=50.0, damping=0.8))
    system, state = m.build()
    state = mbd.set_joints(system, state, {"rail": 0.2})
    sol = mbd.simulate(
        system, state, h=2e-3, t_end=10.0, events=[mbd.Event("far", "rail.displacement", value=0.1)]
    )
    t = np.linspace(0.0, 10.0, 1_000_001)
    side = np.sign(true.displacement(0.2, 0.0, t) - 0.1)
    there = t[1:][side[1:] != side[:-1]]
    # (omega h)² / 12 of the time, and the grid.
    np.testing.assert_allclose(sol.events["far"], there, atol=1e-5 * there[-1] + 1e-5)


@pytest.mark.slow
def test_memory_of_a_reverse_pass_grows_as_the_run_does():
    """Not as the run times the number of its events."""

    def size(events):
        def last(g):
            zero = jnp.zeros(()) * g
            values = {"gravity": jnp.stack([zero, zero, -g])}
            system, state = pendulum().with_values(values).build()
            event = mbd.Event("down", "pin.angle", value=DOWN, most=events)
            steps = 120 * events
            sol = mbd.simulate(system, state, h=1e-2, steps=steps, save_every=steps, events=[event])
            return sol.events.t[0, -1]

        return jax.jit(jax.grad(last)).lower(GRAVITY).compile().memory_analysis().temp_size_in_bytes

    assert size(200) < 10.5 * size(20)


def bouncing(p):
    """A ball by its restitution, its height and gravity, on a floor."""
    m = mbd.Mechanism("ball", gravity=jnp.zeros(3).at[2].set(-p[2]))
    ball = m.add_body("ball", mass=2.0, inertia=(0.1,) * 3, r=(0, 0, 0))
    floor = {"point": (0, 0, 0), "normal": (0, 0, 1), "restitution": p[0], "friction": 0.0}
    m.add(mbd.Contact("floor", ball, m.ground, points=[(0, 0, 0)], **floor))
    system, state = m.build()
    return system, dataclasses.replace(state, r=state.r.at[0, 2].set(p[1]))


def rises(p):
    """When the ball passes 0.3 m after its first bounce."""
    fall = jnp.sqrt(2.0 * p[1] / p[2])
    v = p[0] * p[2] * fall
    return fall + (v - jnp.sqrt(v**2 - 0.6 * p[2])) / p[2]


@pytest.mark.essential
def test_events_between_impacts_of_rigid_contact():
    p = np.array([0.8, 1.0, GRAVITY])
    system, state = bouncing(p)
    options = {"h": 1e-2, "integrator": mbd.Moreau()}
    events = [mbd.Event("up", "ball.r.z > 0.3"), mbd.Event("strikes", "ball.v.z > 0")]
    sol = mbd.simulate(system, state, t_end=1.5, events=events, **options)
    np.testing.assert_allclose(sol.events["up"][0], rises(p), atol=1e-8)
    # A velocity jumps at an impact, whose instant is found to 1e-5 of a step.
    np.testing.assert_allclose(sol.events["strikes"][0], np.sqrt(2.0 / GRAVITY), atol=1e-7)
    plain = mbd.simulate(system, state, t_end=1.5, **options)
    np.testing.assert_allclose(sol.r, plain.r, atol=1e-12)


@pytest.mark.slow
def test_derivatives_of_an_instant_between_impacts():
    def found(p):
        up = mbd.Event("up", "ball.r.z", value=0.3, direction="rising")
        return mbd.simulate(
            *bouncing(p), h=1e-2, steps=100, integrator=mbd.Moreau(), until=up
        ).t_event

    p = jnp.array([0.8, 1.0, GRAVITY])
    np.testing.assert_allclose(jax.jit(jax.jacfwd(found))(p), jax.jacfwd(rises)(p), rtol=1e-9)


@pytest.mark.slow
def test_single_precision_keeps_instants_and_derivatives():
    with jax.enable_x64(False), pytest.warns(UserWarning, match="double precision is off"):
        system, state = pendulum().build()
        event = mbd.Event("there", "pin.angle > 1.5")

        def found(value):
            there = mbd.Event("there", "pin.angle", value=value, direction="rising")
            return mbd.simulate(system, state, h=1e-2, steps=80, until=there).t_event

        t, slope = jax.jit(jax.value_and_grad(found))(1.5)
        assert t.dtype == jnp.float32
        sol = mbd.simulate(system, state, h=1e-2, t_end=0.8, until=event)
    exact = mbd.simulate(SYSTEM, STATE, h=1e-2, t_end=0.8, until=event)
    # Rounding of the positions of 80 steps; the angle grows by 1 rad in 0.23 s.
    np.testing.assert_allclose(sol.t_event, exact.t_event, atol=2e-5)
    np.testing.assert_allclose(t, exact.t_event, atol=2e-5)
    rate = exact["pin.rate"][np.isfinite(np.asarray(exact.r[:, 0, 0]))][-1]
    np.testing.assert_allclose(slope * rate, 1.0, rtol=1e-2)


# --- chosen steps ---

CHOSEN = {"save_at": np.linspace(0.0, 6.0, 61), "integrator": mbd.MuntheKaas(tableau="rk5")}


@pytest.mark.essential
def test_chosen_steps_find_instants_to_their_tolerance():
    down = mbd.Event("down", "pin.angle", value=DOWN)
    errors = {}
    for tolerance in (1e-6, 1e-9):
        step = mbd.Adaptive(tolerance, max_steps=1024)
        sol = mbd.simulate(SYSTEM, STATE, step=step, events=[down], **CHOSEN)
        found = np.asarray(sol.events["down"])
        assert len(found) == 5
        errors[tolerance] = np.max(np.abs(found - QUARTER * (2 * np.arange(5) + 1)))
    # Errors of some fifty to two hundred steps add up.
    assert errors[1e-6] < 1e-4 and errors[1e-9] < 2e-7
    step = mbd.Adaptive(1e-9, max_steps=1024)
    ended = mbd.simulate(SYSTEM, STATE, step=step, until=down, **CHOSEN)
    assert bool(ended.result == mbd.RESULTS.ended_by_event)
    np.testing.assert_allclose(ended.t_event, QUARTER, atol=1e-9)
    k = int(np.isfinite(np.asarray(ended.r[:, 0, 0])).sum()) - 1
    assert ended.t[k] == ended.t_event and k == int(ended.t_event / 0.1) + 1
    np.testing.assert_allclose(ended["pin.angle"][k], DOWN, rtol=1e-12)
    np.testing.assert_allclose(ended.r[:k], sol.r[:k], atol=1e-12)
    few = mbd.Event("down", "pin.angle", value=DOWN, most=2)
    many = mbd.simulate(SYSTEM, STATE, step=step, events=[few], throw=False, **CHOSEN)
    assert bool(many.result == mbd.RESULTS.too_many_events) and len(many.events["down"]) == 2


@pytest.mark.slow
def test_derivatives_of_an_instant_with_chosen_steps():
    def found(g):
        down = jnp.zeros(()) * g
        values = {"gravity": jnp.stack([down, down, -g])}
        system, state = pendulum().with_values(values).build()
        event = mbd.Event("there", "pin.angle", value=DOWN)
        step = mbd.Adaptive(1e-10, max_steps=256)
        options = CHOSEN | {"save_at": np.linspace(0.0, 0.8, 9)}
        return mbd.simulate(system, state, step=step, until=event, **options).t_event

    value, slope = jax.jit(jax.value_and_grad(found))(GRAVITY)
    np.testing.assert_allclose(value, QUARTER, atol=1e-9)
    # The time scales with the root of gravity.
    np.testing.assert_allclose(slope, -0.5 * QUARTER / GRAVITY, rtol=1e-7)


def test_two_passages_in_one_long_step_are_seen():
    m = mbd.Mechanism("stone", gravity=(0, 0, -GRAVITY))
    m.add_body("stone", mass=1.0, inertia=(1, 1, 1), r=(0, 0, 0), v=(0, 0, 2.0))
    system, state = m.build()
    top = 2.0**2 / (2.0 * GRAVITY)
    event = mbd.Event("high", "stone.r.z", value=0.8 * top)
    # A parabola is exact: the steps are as long as they may be.
    step = mbd.Adaptive(1e-3, h0=0.2, max_steps=64)
    sol = mbd.simulate(
        system, state, step=step, events=[event], **CHOSEN | {"save_at": [0.0, 0.2, 0.4]}
    )
    half = np.sqrt(2.0 * 0.2 * top / GRAVITY)
    assert int(sol.stats["accepted_steps"]) < 5
    np.testing.assert_allclose(
        sol.events["high"], 2.0 / GRAVITY + np.array([-half, half]), rtol=1e-10
    )
