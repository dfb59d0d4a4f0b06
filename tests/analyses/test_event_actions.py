"""What events do within a run: against closed forms, minimal coordinates by SciPy, quadratures and
time stepping with impacts.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from switched import (
    ANGLE,
    BALL,
    DAMPING,
    DISCS,
    FREE,
    LEAF,
    MEET,
    STIFFNESS,
    WIDTH,
    G,
    bounced_exactly,
    discs,
    door,
    drop,
    hit,
    locked_exactly,
)

import jaxmbd as mbd

RK5 = mbd.MuntheKaas(tableau="rk5")


def differences(function, at, e):
    each = np.eye(len(at)) * e
    return np.stack([(function(at + d) - function(at - d)) / (2.0 * e) for d in each], axis=-1)


# --- two discs lock ---


def locked(p):
    sol = mbd.simulate(*discs(p), h=1e-2, steps=100, events=[MEET])
    return jnp.stack([sol.omega[-1, 0, 2], sol["pin a.angle"][-1]])


@pytest.mark.essential
def test_two_discs_lock_as_the_balance_of_momentum_says():
    system, state = discs(DISCS)
    sol = mbd.simulate(system, state, h=1e-2, steps=100, events=[MEET])
    together = locked_exactly(DISCS)[0]
    np.testing.assert_allclose(sol.omega[26:, :, 2], together, rtol=1e-12)
    lost = 0.5 * 0.3 * 0.5 / 0.8 * 3.0**2
    energy = sol.energy().total
    np.testing.assert_allclose(energy[0] - energy[-1], lost, rtol=1e-12)
    np.testing.assert_allclose(sol.events["meet"], [0.25 * ANGLE], rtol=1e-12)
    assert int(sol.stats["completed_steps"]) == 100
    np.testing.assert_array_equal(sol["clutch.active"], np.arange(101) > 25)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_derivatives_through_a_clutch(mode):
    found = jax.jit(mode(locked))(jnp.asarray(DISCS))
    np.testing.assert_allclose(found, jax.jacfwd(locked_exactly)(jnp.asarray(DISCS)), atol=1e-10)


# --- a latch on a door ---


@pytest.mark.parametrize(
    ("integrator", "h", "error"),
    [
        # Of fifth order; and of second, with errors of 1.6 h² and 6 h².
        pytest.param(RK5, 1e-2, 1e-12, id="rk5"),
        pytest.param(mbd.GeneralizedAlpha(), 5e-4, 1e-6, id="alpha"),
        pytest.param(mbd.BDF2(), 5e-4, 2e-6, id="bdf2", marks=pytest.mark.slow),
    ],
)
def test_a_door_falls_into_its_latch(integrator, h, error):
    system, state = door().build()
    state = mbd.set_joints(system, state, {"hinge": {"angle": 1.2, "rate": 0.3}})
    shut = mbd.Event("shut", "hinge.angle < 0", action=mbd.Activate("latch"))
    sol = mbd.simulate(system, state, h=h, t_end=2.0, events=[shut], integrator=integrator)

    inertia = LEAF * ((WIDTH**2 + 0.04**2) / 12.0 + (0.5 * WIDTH) ** 2)

    def rates(t, y):
        return y[1], (-STIFFNESS * (y[0] - FREE) - DAMPING * y[1]) / inertia

    def angle(t, y):
        return y[0]

    angle.terminal, angle.direction = True, -1
    tight = {"rtol": 1e-12, "atol": 1e-13, "method": "DOP853"}
    own = solve_ivp(rates, (0.0, 3.0), (1.2, 0.3), events=angle, dense_output=True, **tight)
    np.testing.assert_allclose(sol.events["shut"], own.t_events[0], atol=error)
    before = np.asarray(sol.t) < own.t_events[0][0]
    np.testing.assert_allclose(
        sol["hinge.angle"][before], own.sol(np.asarray(sol.t)[before])[0], atol=error
    )
    after = ~before
    np.testing.assert_allclose(sol["hinge.angle"][after], 0.0, atol=1e-12)
    np.testing.assert_allclose(sol["hinge.rate"][after], 0.0, atol=1e-10)
    # The latch holds what the closer goes on pushing with.
    np.testing.assert_allclose(
        sol.reactions()["latch"].moment[after][:, 2], -STIFFNESS * abs(FREE), rtol=1e-9
    )
    np.testing.assert_allclose(sol.energy().total[after], 0.5 * STIFFNESS * FREE**2, rtol=1e-9)


# --- hinges of a four-bar open ---

LENGTHS, BASE, MASSES, BEGIN, RATE = (0.3, 0.8, 0.6), 0.7, (1.0, 2.0, 1.5), 1.0, 6.0


def closed(crank):
    """Angles of the coupler and of the rocker of a planar four-bar."""
    b = LENGTHS[0] * np.array([np.cos(crank), np.sin(crank)])
    d = np.array([BASE, 0.0]) - b
    r = np.hypot(*d)
    inside = (LENGTHS[1] ** 2 + r**2 - LENGTHS[2] ** 2) / (2.0 * LENGTHS[1] * r)
    coupler = np.arctan2(d[1], d[0]) + np.arccos(inside)
    c = b + LENGTHS[1] * np.array([np.cos(coupler), np.sin(coupler)])
    return coupler, np.arctan2(c[1], c[0] - BASE)


def four_bar():
    coupler, rocker = closed(BEGIN)
    angles = {"crank": BEGIN, "coupler": coupler, "rocker": rocker}
    along = {name: np.array([np.cos(x), 0.0, np.sin(x)]) for name, x in angles.items()}
    b = LENGTHS[0] * along["crank"]
    at = {"crank": np.zeros(3), "coupler": b, "rocker": np.array([BASE, 0.0, 0.0])}
    m = mbd.Mechanism("four bar", gravity=(0, 0, -G))
    y = np.array([0.0, 1.0, 0.0])
    for name, length, mass in zip(angles, LENGTHS, MASSES, strict=True):
        x = along[name]
        A = np.stack([x, y, np.cross(x, y)], axis=1)
        moment = mass * length**2 / 12.0
        r = at[name] + 0.5 * length * x
        m.add_body(name, mass=mass, inertia=(1e-3, moment, moment), r=r, A=A)
    ends = {"A": ("ground", "crank", at["crank"]), "B": ("crank", "coupler", b)}
    ends["C"] = ("coupler", "rocker", b + LENGTHS[1] * along["coupler"])
    ends["D"] = ("ground", "rocker", at["rocker"])
    for name, (i, j, point) in ends.items():
        opens = True if name in "AC" else None
        m.add(mbd.Revolute(name, i, j, point=point, axis=-y, active=opens))
    return m


def inertia_and_potential(crank):
    """Of the closed four-bar by its crank angle: twice the kinetic energy at rate one, V."""
    e = 1e-6
    (a, b), more, less = closed(crank), closed(crank + e), closed(crank - e)
    da, db = (np.array(more) - np.array(less)) / (2.0 * e)
    v = LENGTHS[0] * np.array([-np.sin(crank), np.cos(crank)])
    v = v + 0.5 * LENGTHS[1] * da * np.array([-np.sin(a), np.cos(a)])
    inertia = MASSES[0] * LENGTHS[0] ** 2 / 3.0 + MASSES[2] * LENGTHS[2] ** 2 / 3.0 * db**2
    inertia += MASSES[1] * (v @ v + LENGTHS[1] ** 2 / 12.0 * da**2)
    heights = 0.5 * LENGTHS[0] * np.sin(crank), 0.5 * LENGTHS[2] * np.sin(b)
    middle = LENGTHS[0] * np.sin(crank) + 0.5 * LENGTHS[1] * np.sin(a)
    return inertia, G * (MASSES[0] * heights[0] + MASSES[1] * middle + MASSES[2] * heights[1])


def double_pendulum(t, y):
    """Rates of two hanging links by their angles, from Lagrange's equations."""
    p, q, dp, dq = y
    (l1, l2, _), (m1, m2, _) = LENGTHS, MASSES
    M = np.array(
        [
            [m1 * l1**2 / 3.0 + m2 * l1**2, 0.5 * m2 * l1 * l2 * np.cos(p - q)],
            [0.5 * m2 * l1 * l2 * np.cos(p - q), m2 * l2**2 / 3.0],
        ]
    )
    s = 0.5 * m2 * l1 * l2 * np.sin(p - q)
    right = [-s * dq**2 - G * (0.5 * m1 + m2) * l1 * np.cos(p), s * dp**2]
    right[1] -= 0.5 * G * m2 * l2 * np.cos(q)
    return dp, dq, *np.linalg.solve(M, right)


@pytest.mark.essential
def test_hinges_of_a_four_bar_in_motion_open():
    system, state = four_bar().build()
    state = mbd.set_joints(system, state, {"A": {"rate": RATE}})
    first, second = 1.2, 1.9  # turns of the crank
    opens = [
        mbd.Event("open", f"A.angle > {first}", action=mbd.Release("C")),
        mbd.Event("fall", f"A.angle > {second}", action=mbd.Release("A")),
    ]
    sol = mbd.simulate(system, state, h=1e-3, t_end=0.6, events=opens, integrator=RK5)

    # While it is closed, its energy says how fast the crank is.
    inertia, potential = inertia_and_potential(BEGIN)
    energy = 0.5 * inertia * RATE**2 + potential

    def slowness(crank):
        inertia, potential = inertia_and_potential(crank)
        return np.sqrt(inertia / (2.0 * (energy - potential)))

    t1 = quad(slowness, BEGIN, BEGIN + first, epsabs=1e-12, epsrel=1e-12)[0]
    # The angles of the quadrature come from differences with a step of 1e-6.
    np.testing.assert_allclose(sol.events["open"], [t1], atol=1e-10)
    np.testing.assert_allclose(sol.energy().total, energy, rtol=1e-10)

    # Then a double pendulum and a pendulum.
    crank = BEGIN + first
    rate, (coupler, rocker), e = 1.0 / slowness(crank), closed(crank), 1e-6
    da, db = (np.array(closed(crank + e)) - np.array(closed(crank - e))) / (2.0 * e) * rate

    def opened(t, y):
        return y[0] - BEGIN - second

    opened.terminal = True
    tight = {"rtol": 1e-11, "atol": 1e-12, "method": "DOP853", "dense_output": True}
    start = (crank, coupler, rate, da)
    own = solve_ivp(double_pendulum, (t1, 0.6), start, events=opened, **tight)
    t2 = own.t_events[0][0]
    np.testing.assert_allclose(sol.events["fall"], [t2], atol=1e-9)
    t = np.asarray(sol.t)
    both = (t > t1) & (t < t2)
    p, q = own.sol(t[both])[:2]
    place = LENGTHS[0] * np.stack([np.cos(p), np.sin(p)], axis=1)
    place = place + 0.5 * LENGTHS[1] * np.stack([np.cos(q), np.sin(q)], axis=1)
    np.testing.assert_allclose(sol.r[both, 1][:, [0, 2]], place, atol=1e-9)
    swing = solve_ivp(
        lambda t, y: (y[1], -1.5 * G / LENGTHS[2] * np.cos(y[0])), (t1, 0.6), (rocker, db), **tight
    )
    late = t > t1
    x = BASE + 0.5 * LENGTHS[2] * np.cos(swing.sol(t[late])[0])
    np.testing.assert_allclose(sol.r[late, 2, 0], x, atol=1e-9)

    # Then two bodies fall: their momentum changes by their weight alone.
    falls = np.flatnonzero(t > t2)
    momentum = np.einsum("b,tbi->ti", np.array(MASSES[:2]), np.asarray(sol.v[falls, :2]))
    gone = (t[falls] - t[falls[0]])[:, None] * np.array([0.0, 0.0, -G * sum(MASSES[:2])])
    np.testing.assert_allclose(momentum, momentum[0] + gone, atol=1e-10)
    np.testing.assert_array_equal(sol.reactions()["A"].force[falls], 0.0)


# --- a point bounces ---


def bounced(p, integrator=RK5):
    far = mbd.Event("far", "guide.displacement > 9", action=mbd.Bounce("floor"))  # never
    events = [hit(p), far]
    sol = mbd.simulate(
        *drop(p, stop=False), h=1e-2, steps=200, events=events, integrator=integrator
    )
    return jnp.concatenate([sol.events.t[0, :3], sol.r[-1, 0, 2:], sol.v[-1, 0, 2:]])


@pytest.mark.essential
def test_a_bouncing_point_is_that_of_the_closed_form():
    sol = mbd.simulate(
        *drop(BALL, stop=False), h=1e-2, steps=200, events=[hit(BALL)], integrator=RK5
    )
    found = np.array([*sol.events["hit"], sol.r[-1, 0, 2], sol.v[-1, 0, 2]])
    np.testing.assert_allclose(found, bounced_exactly(jnp.asarray(BALL)), atol=1e-12)


@pytest.mark.slow
def test_derivatives_through_bounces_are_those_of_the_closed_form():
    p = jnp.asarray(BALL)
    np.testing.assert_allclose(jax.jit(bounced)(p), bounced_exactly(p), atol=1e-12)
    found = jax.jit(jax.jacfwd(bounced))(p)
    np.testing.assert_allclose(found, jax.jacfwd(bounced_exactly)(p), atol=1e-11)


@pytest.mark.slow
def test_a_bouncing_point_is_that_of_time_stepping_with_impacts():
    def struck(p):
        sol = mbd.simulate(*drop(p, stop=True), h=1e-2, steps=200, integrator=mbd.Moreau())
        return jnp.concatenate([sol.r[-1, 0, 2:], sol.v[-1, 0, 2:]])

    p = jnp.asarray(BALL)
    for one, other in ((bounced, struck), (jax.jacfwd(bounced), jax.jacfwd(struck))):
        np.testing.assert_allclose(jax.jit(one)(p)[3:], jax.jit(other)(p), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "integrator", [mbd.GeneralizedAlpha(), mbd.BDF2(), mbd.RungeKutta(tableau="rk4")]
)
def test_parabolas_between_bounces_are_exact_in_methods_of_second_order(integrator):
    formulation = mbd.RP() if isinstance(integrator, mbd.RungeKutta) else None
    sol = mbd.simulate(
        *drop(BALL, stop=False),
        h=1e-2,
        steps=200,
        events=[hit(BALL)],
        integrator=integrator,
        formulation=formulation,
    )
    found = np.array([*sol.events["hit"], sol.r[-1, 0, 2], sol.v[-1, 0, 2]])
    np.testing.assert_allclose(found, bounced_exactly(jnp.asarray(BALL)), atol=1e-11)


def test_bounces_without_end_are_told():
    system, state = drop(BALL, stop=False)
    p = np.array([0.5, 1.0, G])
    options = {"h": 1e-2, "t_end": 1.5, "integrator": RK5, "throw": False}
    # The sum of all flights is three times the first fall, 1.355 s.
    with pytest.warns(mbd.GrazedEventWarning, match="event 'hit'"):
        sol = mbd.simulate(system, state, events=[hit(p, most=40)], **options)
    assert len(sol.events["hit"]) > 12
    few = mbd.simulate(system, state, events=[hit(p, most=5)], **options)
    assert bool(few.result == mbd.RESULTS.too_many_events)


# --- inputs and states ---


@pytest.mark.essential
def test_a_relay_keeps_a_body_swinging_as_scipy_says():
    m = mbd.Mechanism("relay", gravity=(0, 0, 0))
    m.add_body("cart", mass=1.5, inertia=(1, 1, 1), r=(0, 0, 0), v=(1.0, 0, 0))
    m.add(mbd.Translational("rail", m.ground, "cart", point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "rail", control=mbd.Input("push", default=0.0)))
    system, state = m.build()
    relay = [
        mbd.Event("right", "rail.displacement > 0.2", action=mbd.SetInput("push", -3.0)),
        mbd.Event(
            "left", "rail.displacement < -0.1", action=mbd.SetInput("push", lambda x, t: 2.0 + t)
        ),
    ]
    sol = mbd.simulate(system, state, h=1e-2, t_end=5.0, events=relay, integrator=RK5)

    # They alternate: each is looked for until it happens.
    def right(t, y, u):
        return y[0] - 0.2

    def left(t, y, u):
        return y[0] + 0.1

    right.terminal = left.terminal = True
    right.direction, left.direction = 1, -1
    t, y, u, found = 0.0, np.array([0.0, 1.0]), 0.0, {"right": [], "left": []}
    while t < 5.0:
        event = right if len(found["right"]) == len(found["left"]) else left
        own = solve_ivp(
            lambda t, y, u: (y[1], u / 1.5),
            (t, 5.0),
            y,
            events=event,
            args=(u,),
            rtol=1e-12,
            atol=1e-13,
        )
        t, y = own.t[-1], own.y[:, -1]
        found[event.__name__] += list(own.t_events[0])
        u = -3.0 if event is right else 2.0 + t
    for name, times in found.items():
        assert len(times) >= 2
        np.testing.assert_allclose(sol.events[name], times, atol=1e-10)
    np.testing.assert_allclose([sol["rail.displacement"][-1], sol["rail.speed"][-1]], y, atol=1e-9)


@pytest.mark.slow
def test_a_state_that_is_set_goes_on_as_from_a_run_of_its_own():
    m = mbd.Mechanism("motor", gravity=(0, 0, 0))
    m.add_body("rotor", mass=1.0, inertia=(0.01, 0.01, 0.02))
    m.add(mbd.Revolute("pin", m.ground, "rotor", point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.Motor("motor", "pin", command=6.0, resistance=0.5, inductance=0.05, constant=0.3))
    system, state = m.build()
    assert system.element_state_names == ("motor.current",)
    cut = mbd.SetState("motor.current", lambda x, t: 0.25 * x.element_states[0])
    quick = mbd.Event("quick", "pin.rate > 5", action=cut)
    sol = mbd.simulate(system, state, h=1e-3, t_end=0.2, events=[quick], integrator=RK5)
    first = mbd.simulate(system, state, h=1e-3, t_end=0.2, until=quick.ending(), integrator=RK5)
    rest = mbd.simulate(
        system,
        first.last_state,
        t0=first.t_event,
        h=(0.2 - first.t_event) / 200,
        steps=200,
        integrator=RK5,
    )
    k = int(np.argmax(np.asarray(sol.t) > float(first.t_event)))
    assert sol["motor.current"][k] < 0.3 * sol["motor.current"][k - 1]
    for name in ("pin.angle", "pin.rate", "motor.current"):
        np.testing.assert_allclose(sol[name][-1], rest[name][-1], rtol=1e-9)


def test_a_spring_that_lets_go_keeps_its_energy_out_of_the_balance():
    m = mbd.Mechanism("cart", gravity=(0, 0, 0))
    m.add_body("cart", mass=1.5, inertia=(1, 1, 1), r=(0.2, 0, 0))
    m.add(mbd.Translational("rail", m.ground, "cart", point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.JointSpring("spring", "rail", stiffness=60.0, active=True))
    system, state = m.build()
    state = mbd.set_joints(system, state, {"rail": {"displacement": 0.1}})
    # A quarter of its swing, to where half of its energy is left; then it coasts.
    go = mbd.Event(
        "go", "rail.displacement", value=0.1 * np.sqrt(0.5), action=mbd.Release("spring")
    )
    sol = mbd.simulate(system, state, h=1e-2, t_end=1.0, events=[go], integrator=RK5)
    after = np.asarray(sol.t) > float(sol.events["go"][0])
    np.testing.assert_allclose(sol.events["go"], [0.25 * np.pi / np.sqrt(60.0 / 1.5)], rtol=1e-9)
    whole = 0.5 * 60.0 * 0.1**2
    energy = sol.energy()
    np.testing.assert_allclose(energy.total[~after], whole, rtol=1e-9)
    np.testing.assert_allclose(energy.total[after], 0.5 * whole, rtol=1e-9)
    np.testing.assert_array_equal(energy.potential[after], 0.0)
    np.testing.assert_array_equal(sol.element("spring").force[after], 0.0)
    np.testing.assert_array_equal(sol["spring.force"][after], 0.0)


# --- several at once, batches, refusals ---


@pytest.mark.parametrize("at", [0.5, 0.503])
def test_events_of_one_instant_all_act_and_others_in_their_order(at):
    m = mbd.Mechanism("three", gravity=(0, 0, 0))
    for k in range(3):
        m.add_body(f"{k}", mass=1.0, inertia=(1, 1, 1), r=(0, 0, k), omega=(0, 0, 1.0 + k))
        m.add(mbd.Revolute(f"pin {k}", m.ground, f"{k}", point=(0, 0, k), axis=(0, 0, 1)))
        m.add(mbd.Lock(f"brake {k}", f"pin {k}", active=False))
    system, state = m.build()
    # At the end of a step, or all of them within one.
    values = {"one": (1, 2 * at), "same": (1, 2 * at), "seen": (2, 3 * at - 1.5e-3)}
    values |= {"later": (2, 3 * at + 3e-3), "never": (0, at + 1e-3)}
    brakes = {"one": "brake 1", "same": "brake 0", "later": "brake 2"}
    events = [
        mbd.Event(
            name,
            f"pin {k}.angle",
            value=x,
            action=mbd.Activate(brakes[name], here=True) if name in brakes else None,
        )
        for name, (k, x) in values.items()
    ]
    sol = mbd.simulate(system, state, h=1e-2, t_end=1.0, events=events)
    for name, t in {"one": at, "same": at, "seen": at - 5e-4, "later": at + 1e-3}.items():
        np.testing.assert_allclose(sol.events[name], [t], rtol=1e-10)
    assert len(sol.events["never"]) == 0
    np.testing.assert_allclose(sol.omega[-1, :, 2], 0.0, atol=1e-12)
    angles = [sol[f"pin {k}.angle"][-1] for k in range(3)]
    np.testing.assert_allclose(angles, [at, 2 * at, 3 * at + 3e-3], rtol=1e-10)


@pytest.mark.slow
def test_an_instant_on_a_step_loses_nothing():
    system, state = door().build()
    state = mbd.set_joints(system, state, {"hinge": {"angle": 1.2}})

    def after(t):
        now = mbd.Event("now", lambda *x: x[3], value=t, action=mbd.Activate("latch", here=True))
        sol = mbd.simulate(system, state, h=1e-2, steps=60, events=[now], integrator=RK5)
        return sol["hinge.angle"][-1]

    # The hinge stays where it is at that time: the derivative is its rate there.
    value, slope = jax.jit(jax.value_and_grad(after))(0.5)
    own = mbd.simulate(system, state, h=1e-2, steps=50, integrator=RK5)
    np.testing.assert_allclose(value, own["hinge.angle"][-1], rtol=1e-10)
    np.testing.assert_allclose(slope, own["hinge.rate"][-1], rtol=1e-8)


@pytest.mark.slow
def test_every_member_of_a_batch_acts_at_its_own_instant():
    heights = jnp.linspace(0.2, 1.4, 256)

    def last(z):
        p = jnp.asarray(BALL).at[1].set(z)
        sol = mbd.simulate(*drop(p, stop=False), h=2e-2, steps=60, events=[hit(p)], integrator=RK5)
        return sol.r[-1, 0, 2], sol.events.counts[0]

    single = jax.jit(last)
    found, counts = jax.jit(jax.vmap(last))(heights)
    assert len(np.unique(np.asarray(counts))) > 2
    for k in range(0, 256, 15):
        one, count = single(heights[k])
        np.testing.assert_allclose(found[k], one, rtol=1e-11, atol=1e-11)
        assert counts[k] == count


@pytest.mark.essential
def test_a_joint_that_does_not_close_ends_the_run_and_says_so():
    system, state = door().build()
    state = mbd.set_joints(system, state, {"hinge": {"angle": 1.2}})
    early = mbd.Event("early", "hinge.angle < 0.3", action=mbd.Activate("latch"))
    with pytest.raises(mbd.SimulationError, match="activated at an event at which it does not"):
        mbd.simulate(system, state, h=1e-2, t_end=2.0, events=[early])
    kept = mbd.simulate(system, state, h=1e-2, t_end=2.0, events=[early], throw=False)
    assert bool(kept.result == mbd.RESULTS.open_at_event)
    assert len(kept.events["early"]) == 1


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (mbd.SetInput("latch.activ", 1.0), "no input 'latch.activ'; did you mean 'latch.active'"),
        (mbd.SetInput("latch.active", [1.0, 2.0]), "value: expected a number, got shape"),
        (mbd.SetState("closer.force", 1.0), "there is no state 'closer.force'"),
        (mbd.Activate("hinge"), "'hinge' always acts; describe it with active=True or False"),
        (mbd.Release("lach"), "did you mean 'latch'"),
        (mbd.Bounce("closer"), "'closer' always acts"),
    ],
)
def test_what_an_action_cannot_do_is_refused_by_name(action, message):
    system, state = door().build()
    event = mbd.Event("shut", "hinge.angle < 0", action=action)
    with pytest.raises(ValueError, match="Event 'shut': .*" + message):
        mbd.simulate(system, state, h=1e-2, steps=2, events=[event])


def test_a_driver_does_not_jump_and_a_weld_holds_no_coordinate():
    m = door()
    follow = mbd.Input("follow")
    m.add(mbd.RotationDriver("drive", m.ground, "leaf", axis=(0, 0, 1), angle=follow, active=False))
    system, state = m.build()
    for action, message in (
        (mbd.SetInput("follow", 1.0), "drives a joint, whose position cannot jump"),
        (mbd.Activate("drive", here=True), "'drive' holds no coordinate that could be held"),
    ):
        event = mbd.Event("shut", "hinge.angle < 0", action=action)
        with pytest.raises(ValueError, match=message):
            mbd.simulate(
                system, state, h=1e-2, steps=2, events=[event], inputs={"follow": (0.0, 0.0, 0.0)}
            )
