"""Stops, dry friction and contact by `Moreau`, against closed forms and minimal coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import jaxmbd as mbd
from jaxmbd.outcomes import RESULTS
from jaxmbd.rotations import so3

G = 9.81


def ball(*, height=1.0, restitution=0.8, friction=0.0, v=(0.0, 0.0, 0.0), omega=(0.0, 0.0, 0.0)):
    m = mbd.Mechanism("ball")
    b = m.add_body(
        "ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0.0, 0.0, height + 0.1), v=v, omega=omega
    )
    m.add(mbd.Contact("floor", b, m.ground, friction=friction, restitution=restitution))
    return m.build()


def height_of_bouncing_ball(t, e, z=1.0):
    """Closed form of a point that is dropped."""
    fall, speed = np.sqrt(2.0 * z / G), np.sqrt(2.0 * G * z)
    if t < fall:
        return z - 0.5 * G * t**2
    t -= fall
    while True:
        speed *= e
        flight = 2.0 * speed / G
        if t < flight:
            return speed * t - 0.5 * G * t**2
        t -= flight


@pytest.mark.essential
def test_a_bouncing_ball_follows_its_closed_form_at_large_steps():
    sol = mbd.simulate(*ball(), t_end=2.0, h=0.01)
    exact = [height_of_bouncing_ball(t, 0.8) for t in np.asarray(sol.t)]
    # Between impacts the motion is exact, and so is the time of impact: only rounding is left.
    np.testing.assert_allclose(sol.r[:, 0, 2] - 0.1, exact, rtol=0, atol=1e-10)
    contact = sol.contact("floor")
    assert contact.force.shape == (201, 1, 3)
    assert np.count_nonzero(np.asarray(contact.impact) > 0.0) == 3
    assert np.all(np.asarray(contact.gap) > -1e-12)


def test_balls_that_are_dropped_one_after_another_follow_their_closed_forms():
    """Steps are compiled for several numbers of contacts; all of them occur here."""
    heights = np.repeat([0.3, 0.45, 0.6, 0.75, 0.9], [9, 4, 2, 2, 1])
    m = mbd.Mechanism("balls")
    for k, height in enumerate(heights):
        b = m.add_body(f"b{k}", shape=mbd.Sphere(0.1, mass=1.0), r=(0.5 * k, 0.0, height + 0.1))
        m.add(mbd.Contact(f"floor{k}", b, m.ground, restitution=0.8))
    sol = mbd.simulate(*m.build(), t_end=0.7, h=5e-3)
    closed = sum(np.asarray(sol.contact(f"floor{k}").impact[:, 0] > 0.0) for k in range(18))
    assert set(closed) >= {0, 1, 2, 4, 9}
    for k, height in enumerate(heights):
        exact = [height_of_bouncing_ball(t, 0.8, height) for t in np.asarray(sol.t)]
        np.testing.assert_allclose(sol.r[:, k, 2] - 0.1, exact, rtol=0, atol=1e-10)


def test_too_many_places_that_touch_end_the_run_by_name():
    m = mbd.Mechanism("box")
    b = m.add_body("box", shape=mbd.Box((0.2, 0.2, 0.1), mass=1.0), r=(0.0, 0.0, 0.25))
    m.add(mbd.Contact("floor", b, m.ground))
    with pytest.raises(mbd.SimulationError, match=r"after t = 0\.2 s .*most_contacts=") as failure:
        mbd.simulate(*m.build(), t_end=0.5, h=5e-3, integrator=mbd.Moreau(most_contacts=3))
    rows = failure.value.solution
    assert rows.result == RESULTS.too_many_contacts
    fallen = np.asarray(rows.t)[np.isfinite(np.asarray(rows.r[:, 0, 2]))]
    assert 0.19 < fallen[-1] < np.sqrt(2.0 * 0.2 / G)
    with pytest.raises(ValueError, match="most_contacts"):
        mbd.Moreau(most_contacts=0)


def test_an_elastic_ball_keeps_its_energy():
    sol = mbd.simulate(*ball(restitution=1.0), t_end=10.0, h=5e-3, save_every=20)
    energy = np.asarray(sol.energy().total)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-9)


def test_a_slipping_sphere_comes_to_roll():
    state = ball(height=0.0, restitution=0.0, friction=0.3, v=(2.0, 0.0, 0.0))
    errors = []
    slip = 2.0 * 2.0 / 7.0 / (0.3 * G)  # its end
    exact = 2.0 * slip - 0.5 * 0.3 * G * slip**2 + (1.0 - slip) * 2.0 * 5.0 / 7.0
    for h in (1e-2, 1e-3):
        sol = mbd.simulate(*state, t_end=1.0, h=h)
        assert abs(float(sol.v[-1, 0, 0]) - 2.0 * 5.0 / 7.0) < 1e-11
        errors.append(abs(float(sol.r[-1, 0, 0]) - exact))
        found = sol.contact("floor")
        assert list(np.asarray(found.state[[1, -1], 0])) == [2, 1]
        # The tolerance of the laws, 1e-11 of 2 m/s, is 2e-9 of the weight in a step of 1 ms.
        # The normal force is the weight; friction is its μ-th part while it slips, and none then.
        np.testing.assert_allclose(found.force[1:, 0, 0], G, rtol=1e-8)
        np.testing.assert_allclose(np.linalg.norm(found.force[1, 0, 1:]), 0.3 * G, rtol=1e-8)
        np.testing.assert_allclose(found.force[-1, 0, 1:], 0.0, atol=1e-8)
    # The end of slip is found within its step, and friction is constant until then.
    assert max(errors) < 1e-9, errors


def box_on_incline(friction, slope=0.3093):
    angle = np.arctan(slope)
    m = mbd.Mechanism("incline", gravity=(G * np.sin(angle), 0.0, -G * np.cos(angle)))
    b = m.add_body("box", shape=mbd.Box((0.2, 0.2, 0.1), mass=1.0), r=(0.0, 0.0, 0.05))
    m.add(mbd.Contact("floor", b, m.ground, friction=friction))
    return (*m.build(), angle)


@pytest.mark.parametrize("friction", [1.0001 * 0.3093, 0.2])
def test_a_box_on_an_incline_holds_or_slides_exactly(friction):
    system, state, angle = box_on_incline(friction)
    sol = mbd.simulate(system, state, t_end=1.0, h=1e-3, save_every=100)
    slides = max(np.sin(angle) - friction * np.cos(angle), 0.0) * G
    moved = np.asarray(sol.r[-1, 0] - sol.r[0, 0])
    # Creep of what holds is proportional to the tolerance of the laws, 1e-11.
    np.testing.assert_allclose(moved, [0.5 * slides, 0.0, 0.0], atol=1e-11 if not slides else 1e-10)


def test_a_sliding_cube_does_not_lift():
    m = mbd.Mechanism("cube")
    b = m.add_body(
        "cube", shape=mbd.Box((0.2, 0.2, 0.2), mass=1.0), r=(0.0, 0.0, 0.1), v=(6.0, 0.0, 0.0)
    )
    m.add(mbd.Contact("floor", b, m.ground, friction=0.5))
    sol = mbd.simulate(*m.build(), t_end=1.5, h=1e-3, save_every=10)
    np.testing.assert_allclose(sol.r[:, 0, 2], 0.1, rtol=0, atol=1e-9)
    # It stops within a step of the closed form.
    assert abs(float(sol.r[-1, 0, 0]) - 36.0 / (2.0 * 0.5 * G)) < 1e-5


@pytest.mark.essential
def test_a_hyperstatic_stack_stands_still():
    m = mbd.Mechanism("stack")
    below = m.ground
    for k in range(3):
        b = m.add_body(
            f"box{k}", shape=mbd.Box((0.2, 0.2, 0.1), mass=2.0 + k), r=(0.0, 0.0, 0.05 + 0.1 * k)
        )
        m.add(
            mbd.Contact(
                f"on{k}", b, below, friction=0.5, point=(0.0, 0.0, 0.1 * k), normal=(0.0, 0.0, 1.0)
            )
        )
        below = b
    sol = mbd.simulate(*m.build(), t_end=0.2, h=2e-3, save_every=10)
    np.testing.assert_allclose(sol.r[-1], sol.r[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(sol.a[1:], 0.0, atol=1e-8)
    base = np.asarray(sol.contact("on0").force)[-1, :, 0].sum()
    assert abs(base - 9.0 * G) < 1e-8
    assert int(sol.stats["law_steps_rough"][-1]) == 0


def pendulum(**law):
    """A rod of 1 kg at 0.5 m from its pin, horizontal at first; its angle counts downwards."""
    m = mbd.Mechanism("pendulum")
    b = m.add_body("rod", mass=1.0, inertia=(0.01, 0.01, 0.01), r=(0.5, 0.0, 0.0))
    m.add(mbd.Revolute("pin", m.ground, b, point=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0)))
    if "upper" in law or "lower" in law:
        m.add(mbd.JointLimit("stop", "pin", **law))
    else:
        m.add(mbd.CoulombFriction("dry", "pin", **law))
    return m.build()


INERTIA = 0.01 + 0.25  # about the pin


def swing(limit, restitution, t_end):
    """Angle and rate of the pendulum with a stop, in minimal coordinates with events."""

    def rate(t, y):
        return [y[1], 0.5 * G * np.cos(y[0]) / INERTIA]

    def hits(t, y):
        return limit - y[0]

    hits.terminal, hits.direction = True, -1
    t, y = 0.0, [0.0, 0.0]
    while True:
        run = solve_ivp(rate, (t, t_end), y, events=hits, rtol=1e-11, atol=1e-12)
        t, y = run.t[-1], run.y[:, -1]
        if run.status == 0:
            return y
        y = [limit - 1e-14, -restitution * y[1]]


@pytest.mark.parametrize("formulation", [mbd.RA(), mbd.RP(), mbd.REps()], ids=lambda f: f.name)
def test_a_pendulum_bounces_off_a_stop(formulation):
    exact = swing(2.4, 0.5, 1.5)[0]
    errors = []
    for h in (0.01, 0.0025):
        sol = mbd.simulate(
            *pendulum(upper=2.4, restitution=0.5), t_end=1.5, h=h, formulation=formulation
        )
        pin, stop = sol.joint("pin"), sol.limit("stop")
        errors.append(abs(float(pin.angle[-1]) - exact))
        assert np.max(pin.angle) < 2.4 + 1e-12
        assert np.min(stop.gap) > -1e-12
        assert np.count_nonzero(np.asarray(stop.impact) > 0.0) >= 1
        assert np.max(np.abs(sol.violation().velocity)) < 1e-10
    # Of first order or better.
    assert errors[1] < 0.4 * errors[0] and errors[1] < 2e-4, errors


def turning_points(bound, ahead):
    """Angles between which a dry pendulum swings until it sticks; `ahead(angle, sign)` is the next
    one.
    """
    angle, sign = 0.0, 1
    while 0.5 * G * abs(np.cos(angle)) > bound:
        angle, sign = ahead(angle, sign), -sign
    return angle


def test_a_pendulum_with_dry_friction_comes_to_rest_where_it_must():
    """Constant bound: between two reversals the sum of energy and friction's work is constant."""
    bound = 2.0

    def exactly(angle, sign):
        def left(x):  # kinetic energy
            return 0.5 * G * (np.sin(x) - np.sin(angle)) - sign * bound * (x - angle)

        ahead = angle + sign * np.linspace(1e-3, 3.0, 3000)
        first = np.flatnonzero([left(x) < 0.0 for x in ahead])[0]
        return brentq(left, ahead[first - 1], ahead[first], xtol=1e-14)

    def by_steps(angle, sign, h):
        """Half a swing by Verlet's method in positions, whose last step ends where it turns."""

        def step(angle, rate, h):
            torque = 0.5 * G * np.cos(angle + 0.5 * h * rate) - sign * bound
            return angle + h * rate + 0.5 * h**2 * torque / INERTIA, rate + h * torque / INERTIA

        rate = 0.0
        while sign * step(angle, rate, h)[1] > 0.0:
            angle, rate = step(angle, rate, h)
        return step(angle, rate, brentq(lambda x: step(angle, rate, x)[1], 0.0, h))[0]

    angle = turning_points(bound, exactly)
    errors = []
    for h in (2.5e-3, 1.25e-3):
        sol = mbd.simulate(*pendulum(bound=bound), t_end=4.0, h=h)
        turned = np.asarray(sol.joint("pin").angle)
        errors.append(turned[-1] - angle)
        # What is left is the error of the smooth motion: one equation, friction held between two
        # turning points, has it too.
        smooth = turning_points(bound, lambda *at, h=h: by_steps(*at, h)) - angle
        assert abs(errors[-1] - smooth) < 0.05 * abs(smooth), (errors, smooth)
    assert abs(errors[0]) < 5.5e-6 and abs(errors[1]) < 0.26 * abs(errors[0]), errors
    assert abs(turned[-1] - turned[-200]) < 1e-12  # no creep
    dry = sol.friction("dry")
    # What it holds is gravity, and nothing accelerates: the pin bears the weight alone.
    assert abs(float(dry.force[-1, 0]) + 0.5 * G * np.cos(turned[-1])) < 1e-9
    np.testing.assert_allclose(sol.a[-1], 0.0, atol=1e-9)


def test_friction_by_the_joints_own_force_takes_the_energy_that_it_must():
    friction, radius = 0.2, 0.05
    system, state = pendulum(friction=friction, radius=radius)
    sol = mbd.simulate(system, state, t_end=1.0, h=1e-3)

    def rate(t, y):
        # Newton's law of the mass center gives the force on the pin, which friction changes.
        turn, speed, _ = y

        def force(alpha):
            along = 0.5 * np.array([-np.sin(turn), -np.cos(turn)])
            inward = -0.5 * np.array([np.cos(turn), -np.sin(turn)])
            return along * alpha + inward * speed**2 + np.array([0.0, G])

        def balance(alpha):
            torque = friction * radius * np.linalg.norm(force(alpha)) * np.sign(speed)
            return INERTIA * alpha - 0.5 * G * np.cos(turn) + torque

        alpha = brentq(balance, -100.0, 100.0, xtol=1e-13)
        power = friction * radius * np.linalg.norm(force(alpha)) * abs(speed)
        return [speed, alpha, power]

    def stops(t, y):
        return y[1] - 1e-9

    t_end = 0.6  # before the first reversal
    exact = solve_ivp(rate, (0.0, t_end), [0.0, 1e-12, 0.0], rtol=1e-10, atol=1e-12).y[:, -1]
    k = 600
    assert abs(float(sol.joint("pin").angle[k]) - exact[0]) < 1e-4 * exact[0]
    energy = np.asarray(sol.energy().total)
    assert abs(energy[0] - energy[k] - exact[2]) < 1e-4 * exact[2] + 1e-6


def tossed(numbers, h=1e-2):
    """Where a ball with friction and spin is after 1.5 s."""
    m = mbd.Mechanism("toss")
    b = m.add_body(
        "ball",
        shape=mbd.Sphere(0.1, mass=numbers["mass"]),
        r=jnp.stack([jnp.zeros(()), jnp.zeros(()), numbers["height"] + 0.1]),
        v=jnp.stack([numbers["v_x"], jnp.zeros(()), numbers["v_z"]]),
        omega=(0.0, 3.0, 0.0),
    )
    floor = {"friction": numbers["friction"], "restitution": numbers["restitution"]}
    m.add(mbd.Contact("floor", b, m.ground, **floor))
    return m.build()


def test_gradients_across_several_impacts_agree_with_differences_of_the_closed_form():
    numbers = {
        "mass": 1.0,
        "height": 0.5,
        "v_x": 1.5,
        "v_z": 1.0,
        "friction": 0.05,
        "restitution": 0.7,
    }

    def closed_form(x):
        """Flights and impacts of a ball that slips or comes to roll at an impact."""
        r, v, w = np.array([0.0, x["height"]]), np.array([x["v_x"], x["v_z"]]), 3.0
        left = 1.5
        while True:
            flight = (v[1] + np.sqrt(v[1] ** 2 + 2.0 * G * r[1])) / G
            if flight > left:
                return r[0] + v[0] * left, r[1] + v[1] * left - 0.5 * G * left**2
            left -= flight
            r = np.array([r[0] + v[0] * flight, 0.0])
            down = v[1] - G * flight
            push = -(1.0 + x["restitution"]) * down  # per mass
            slip = v[0] - 0.1 * w
            needed = abs(slip) / 3.5
            tangential = -np.sign(slip) * min(x["friction"] * push, needed)
            v = np.array([v[0] + tangential, -x["restitution"] * down])
            w = w - tangential * 0.1 / (0.4 * 0.01)

    def found(numbers):
        system, state = tossed(numbers)
        sol = mbd.simulate(system, state, steps=150, h=1e-2, save_every=150)
        return sol.r[-1, 0, ::2] - jnp.array([0.0, 0.1])

    traced = {name: jnp.asarray(x) for name, x in numbers.items()}
    np.testing.assert_allclose(jax.jit(found)(traced), closed_form(numbers), rtol=0, atol=1e-9)
    slopes = jax.jit(jax.jacrev(found))(traced)
    largest = max(float(jnp.max(jnp.abs(x))) for x in slopes.values())
    for name, x in numbers.items():
        step = 1e-6 * max(abs(x), 1.0)
        ends = [np.array(closed_form(numbers | {name: x + s * step})) for s in (1, -1)]
        difference = (ends[0] - ends[1]) / (2.0 * step)
        # Central differences of a smooth function: 1e-12 of its third derivative and rounding.
        np.testing.assert_allclose(slopes[name], difference, rtol=0, atol=1e-8 * largest)


@pytest.mark.essential
def test_two_balls_exchange_their_velocities_and_so_do_the_derivatives():
    def after(r, v):
        m = mbd.Mechanism("two_balls", gravity=(0.0, 0.0, 0.0))
        balls = [
            m.add_body(
                f"ball{k}",
                shape=mbd.Sphere(0.1, mass=1.0),
                r=jnp.stack([r[k], jnp.zeros(()), jnp.zeros(())]),
                v=jnp.stack([v[k], jnp.zeros(()), jnp.zeros(())]),
            )
            for k in range(2)
        ]
        m.add(mbd.Contact("hit", *balls, restitution=1.0))
        system, state = m.build()
        sol = mbd.simulate(system, state, steps=10, h=0.1, save_every=10)
        end = jnp.concatenate([sol.r[-1, :, 0], sol.v[-1, :, 0]])
        return end, end

    r, v = jnp.array([0.0, 0.63]), jnp.array([1.0, 0.0])
    # The gap of 0.43 closes after 0.43 s; then the second ball has the first one's speed.
    (by_r, by_v), end = jax.jit(jax.jacfwd(after, (0, 1), has_aux=True))(r, v)
    np.testing.assert_allclose(end, [0.43, 1.2, 0.0, 1.0], atol=1e-12)
    # After an elastic impact of equal masses each ball goes on as the other one would have,
    # shifted by the two radii.
    np.testing.assert_allclose(by_r, [[0, 1], [1, 0], [0, 0], [0, 0]], atol=1e-10)
    np.testing.assert_allclose(by_v, [[0, 1], [1, 0], [0, 1], [1, 0]], atol=1e-10)


def test_a_batch_runs_as_its_members_do_and_has_finite_gradients():
    system, state = ball(restitution=0.5, friction=0.2, v=(1.0, 0.0, 0.0))

    def run(speed):
        moved = mbd.State(state.r, state.A, state.v * speed, state.omega, state.angles)
        sol = mbd.simulate(system, moved, steps=60, h=1e-2, save_every=60)
        return sol.r[-1, 0]

    speeds = jnp.linspace(0.5, 2.0, 8)
    together = jax.jit(jax.vmap(run))(speeds)
    for speed, r in list(zip(speeds, together, strict=True))[::3]:
        np.testing.assert_allclose(jax.jit(run)(speed), r, rtol=0, atol=1e-10)
    slopes = jax.jit(jax.vmap(jax.grad(lambda s: run(s)[0])))(speeds)
    assert np.all(np.isfinite(slopes))


def test_what_makes_no_sense_is_refused_by_name():
    m = mbd.Mechanism("refused")
    b = m.add_body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0.5, 0.0, 0.0))
    m.add(mbd.Revolute("pin", m.ground, b, point=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0)))
    with pytest.raises(ValueError, match="contact 'c': friction must not be negative"):
        m.add(mbd.Contact("c", b, m.ground, points=[(0.0, 0.0, 0.0)], friction=-0.1))
    with pytest.raises(ValueError, match=r"contact 'c': restitution must lie in \[0, 1\]"):
        m.add(mbd.Contact("c", b, m.ground, points=[(0.0, 0.0, 0.0)], restitution=1.2))
    with pytest.raises(ValueError, match="contact 'c': body 'rod' has no shape"):
        m.add(mbd.Contact("c", b, m.ground))
    with pytest.raises(ValueError, match="limit 's': lower must be less than upper"):
        m.add(mbd.JointLimit("s", "pin", lower=1.0, upper=0.0))
    with pytest.raises(ValueError, match="limit 's': joint 'pin' is Revolute, which has no disp"):
        m.add(mbd.JointLimit("s", "pin", upper=1.0, coordinate="displacement"))
    with pytest.raises(ValueError, match="friction 'f': friction at an angle needs the radius"):
        m.add(mbd.CoulombFriction("f", "pin", friction=0.1))
    m.add(mbd.Contact("c", b, m.ground, points=[(1.0, 0.0, 0.1)]))
    system, state = m.build()
    with pytest.raises(ValueError, match="GeneralizedAlpha knows no stops.*'c'.*Moreau"):
        mbd.simulate(system, state, t_end=0.1, h=0.01, integrator=mbd.GeneralizedAlpha())
    with pytest.raises(ValueError, match="linearize knows no stops"):
        mbd.linearize(system, state)
    with pytest.raises(ValueError, match="accelerations knows no stops"):
        mbd.accelerations(system, state)
    m.add(mbd.Contact("deep", b, m.ground, points=[(1.0, 0.0, -0.1)]))
    with pytest.raises(ValueError, match="starts beyond its limits.*contact 'deep' by 0.1"):
        mbd.simulate(*m.build(), t_end=0.1, h=0.01)
    inside = jax.jit(lambda s: mbd.simulate(m.build()[0], s, steps=2, h=0.01).result)(state)
    assert inside == mbd.RESULTS.invalid_input
    sol = mbd.simulate(system, state, t_end=0.1, h=0.01)
    with pytest.raises(ValueError, match="there is no contact 'd'; .*contacts are c"):
        sol.contact("d")


def test_laws_are_saved_and_read_back(tmp_path):
    m = mbd.Mechanism("saved")
    b = m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0.0, 0.0, 0.5))
    rod = m.add_body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0.5, 0.0, 2.0))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0.0, 0.0, 2.0), axis=(0.0, 1.0, 0.0)))
    m.add(mbd.Contact("floor", b, m.ground, friction=0.3, restitution=0.5))
    m.add(mbd.JointLimit("stop", "pin", upper=0.5))
    m.add(mbd.CoulombFriction("dry", "pin", bound=0.1))
    mbd.save(m, tmp_path / "saved.json")
    runs = [
        mbd.simulate(*built, t_end=0.5, h=0.01, save_every=10)
        for built in (m.build(), mbd.load(tmp_path / "saved.json"))
    ]
    np.testing.assert_array_equal(runs[0].r, runs[1].r)
    assert {"laws.floor.friction", "laws.stop.upper", "laws.dry.bound"} <= set(m.values())


def _resting(upper, lower, A=None):
    """A body on a box on the floor, let go a little above."""
    m = mbd.Mechanism("pile")
    below = m.add_body("below", shape=lower, r=(0, 0, 0.1))
    above = m.add_body("above", shape=upper, r=(0.02, 0.01, 0.31), A=np.eye(3) if A is None else A)
    m.add(mbd.Contact("floor", below, m.ground, friction=0.5))
    m.add(mbd.Contact("on", above, below, friction=0.5))
    return m.build()


C45 = np.sqrt(0.5)
TURNED = [[C45, -C45, 0.0], [C45, C45, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("upper", "A", "height"),
    [
        (mbd.Box((0.4, 0.4, 0.2), mass=1.0), TURNED, 0.3),  # eight edges cross, no corner touches
        (mbd.Capsule(0.1, 0.2, mass=1.0, axis="x"), None, 0.3),
    ],
    ids=["turned box", "capsule"],
)
def test_what_lies_on_a_box_rests(upper, A, height):
    system, state = _resting(upper, mbd.Box((0.4, 0.4, 0.2), mass=2.0), A)
    sol = mbd.simulate(system, state, h=0.01, steps=20)
    assert sol.result == mbd.RESULTS.successful
    rest = np.asarray(sol.r[10:, 1])
    assert np.max(np.abs(rest - [0.02, 0.01, height])) < 1e-10
    assert np.allclose(np.sum(sol.contact("on").force[12:, :, 0], axis=1), 9.81, rtol=1e-9)
    assert np.allclose(np.sum(sol.contact("floor").force[12:, :, 0], axis=1), 3 * 9.81, rtol=1e-9)


def test_a_pin_with_play_swings_as_two_arcs():
    """A heavy ball in a socket without friction slides at the bottom as a pendulum of the play."""
    m = mbd.Mechanism("socket")
    ball = m.add_body("ball", mass=1.0, inertia=(1e-3, 1e-3, 1e-3), r=(0.02, 0.0, -np.sqrt(0.0012)))
    socket = {"play": 0.04, "radius": 0.1, "point": (0, 0, 0), "point_i": ball.r}
    m.add(mbd.Clearance("play", ball, m.ground, **socket))
    system, state = m.build()
    # The ball's center is the mass center: it moves on a sphere of the play's radius.
    pendulum = mbd.Mechanism("pendulum")
    bob = pendulum.add_body("bob", mass=1.0, inertia=(1e-3,) * 3, r=(0.02, 0.0, -np.sqrt(0.0012)))
    pendulum.add(mbd.Distance("string", pendulum.ground, bob, point_i=(0, 0, 0), point_j=bob.r))
    sol = mbd.simulate(system, state, h=1e-3, steps=60)
    exact = mbd.simulate(*pendulum.build(), h=1e-3, steps=60)
    assert np.max(np.abs(sol.contact("play").gap[2:])) < 1e-12
    assert np.max(np.abs(sol.r - exact.r)) < 2e-5
    assert np.all(sol.contact("play").force[2:, 0, 0] > 0.0)


def test_friction_by_a_force_that_is_not_unique_is_told():
    m = mbd.load_mechanism("four_bar")  # hinges with parallel axes repeat three rows
    m.add(mbd.CoulombFriction("dry", "pin_crank", friction=0.1, radius=0.01))
    with pytest.warns(mbd.RedundantJointWarning, match="'dry' follows the force of joint 'pin_cr"):
        mbd.simulate(*m.build(), h=1e-3, steps=1)


def test_a_contact_of_what_is_fixed_together_is_refused():
    m = mbd.Mechanism("glued")
    b = m.add_body("b", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 0.1))
    m.add(mbd.Fixed("glue", m.ground, b, point=(0, 0, 0)))
    m.add(mbd.Contact("floor", b, m.ground))
    with pytest.raises(ValueError, match="contact 'floor': joint 'glue' holds its bodies rigidly"):
        m.build()


@pytest.mark.slow  # three boxes have 44 places of contact
@pytest.mark.filterwarnings("ignore::jaxmbd.DroppedBounceWarning")
@pytest.mark.parametrize(("restitution", "dropped"), [(0.0, 0), (0.3, 10)])
def test_boxes_that_fall_on_boxes_come_to_rest_on_each_other(restitution, dropped):
    """Places of contact that contradict each other once moved boxes by 1000 m in a step.

    Newton's law of impact has no solution in every step with several corners.
    """
    m = mbd.Mechanism("boxes")
    rng = np.random.default_rng(2)
    law = {"friction": 0.4, "restitution": restitution}
    for k in range(3):
        aside = rng.uniform(-1, 1, 2) * (0.05, 0.02)
        place = {"r": (*aside, 0.1 + 0.22 * k), "omega": 0.3 * rng.normal(size=3)}
        m.add_body(f"box {k}", shape=mbd.Box((0.3, 0.2, 0.15), mass=1.0), **place)
        m.add(mbd.Contact(f"floor {k}", f"box {k}", m.ground, **law))
        if k:
            m.add(mbd.Contact(f"pair {k}", f"box {k - 1}", f"box {k}", **law))
    sol = mbd.simulate(*m.build(), h=2e-3, steps=500)
    np.testing.assert_allclose(sol.r[-1, :, 2], 0.075 + 0.15 * np.arange(3), rtol=0, atol=1e-9)
    np.testing.assert_allclose(sol.v[-1], 0.0, atol=1e-9)
    energy = np.asarray(sol.energy().total)
    assert np.max(np.diff(energy)) < 1e-5 * energy[0]
    # Corners that strike beside others may be as deep as faces turn within a step.
    assert np.min(np.asarray(sol.stats["law_gaps"])) > -1e-4
    assert np.max(np.abs(sol.r[:, :, :2])) < 0.06  # nothing is thrown
    assert sol.stats["law_bounces_dropped"][-1] <= dropped


@pytest.mark.essential
@pytest.mark.parametrize(
    ("torque", "bound"),
    [pytest.param(0.4, 0.0, id="driven"), pytest.param(0.0, 0.3, id="coasting, the other brakes")],
)
def test_friction_in_bearings_of_gears_feels_what_presses_the_teeth_apart(torque, bound):
    """A pinion drives a wheel, or its inertia does, whose bearing has a constant friction besides.

    Both bearings bear F / cos α, with the tangential force F at the teeth, and every torque is
    constant: a step is exact to the tolerance of the laws, 1e-11 of the largest velocity. In the
    second case the teeth bear nothing without friction.
    """
    alpha, friction, radius, load = 0.6, 0.2, 0.02, 0.5 * torque
    r, inertia, spin = np.array([0.1, 0.25]), np.array([0.01, 0.05]), 40.0
    m = mbd.Mechanism("gears", gravity=(0, 0, 0))
    gears = []
    rates = spin, -spin * r[0] / r[1]
    for name, x, J, rate in zip("ij", (0.0, 0.35), inertia, rates, strict=True):
        body = m.add_body(name, mass=1.0, inertia=(J, J, J), r=(x, 0, 0), omega=(0, 0, rate))
        pin = m.add(mbd.Revolute(f"pin {name}", m.ground, body, point=(x, 0, 0), axis=(0, 0, 1)))
        constant = bound if name == "j" else 0.0
        dry = {"friction": friction, "radius": radius, "bound": constant}
        m.add(mbd.CoulombFriction(f"dry {name}", pin, **dry))
        gears.append(body)
    z = (0.0, 0.0, 1.0)
    m.add(mbd.Gear("teeth", *gears, axis_i=z, axis_j=z, ratio=-r[0] / r[1], pressure_angle=alpha))
    for body, value in zip(gears, (torque, load), strict=True):
        m.add(mbd.Torque(f"on {body.name}", body, torque=(0, 0, value)))
    steps, h = 20, 1e-3
    sol = mbd.simulate(*m.build(), steps=steps, h=h)

    # J_i a = T - (r_i + c) F and J_j a r_i / r_j = (r_j - c) F - L - B, with c of both bearings.
    c = friction * radius / np.cos(alpha)
    ratio = r[0] / r[1]
    force, rate = np.linalg.solve(
        [[r[0] + c, inertia[0]], [r[1] - c, -inertia[1] * ratio]], [torque, load + bound]
    )
    assert force > 0.1
    omega = np.asarray(sol.omega[-1, :, 2])
    wanted, missed = (spin + steps * h * rate) * np.array([1.0, -ratio]), 1e-11 * spin
    np.testing.assert_allclose(omega, wanted, rtol=0, atol=steps * missed)
    held = [float(sol.friction(f"dry {name}").force[-1, 0]) for name in "ij"]
    atol = missed * np.sum(inertia) / h
    np.testing.assert_allclose(held, [-c * force, c * force + bound], rtol=0, atol=atol)


def test_what_sticks_on_a_guide_that_turns_has_no_velocity_along_it():
    """A bead on an arm that turns freely: rows of a step are those of its middle, and along them
    what sticks has a velocity, ω² s h / 2 = 5 mm/s here.
    """
    spin, place, h = 2.0, 0.5, 5e-3
    m = mbd.Mechanism("arm", gravity=(0, 0, 0))
    turns = {"omega": (0, 0, spin)}
    arm = m.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1), **turns)
    bead = {"mass": 0.5, "inertia": (1e-3,) * 3, "r": (place, 0, 0), "v": (0, spin * place, 0)}
    m.add_body("bead", **bead, **turns)
    m.add(mbd.Revolute("pin", m.ground, arm, point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.Translational("slide", arm, "bead", point=(place, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.CoulombFriction("dry", "slide", bound=10.0))
    sol = mbd.simulate(*m.build(), h=h, steps=40)
    slide = sol.joint("slide")
    # What is left is of third order in the angle of a step.
    missed = (spin * h) ** 3 * spin * place
    np.testing.assert_allclose(slide.speed, 0.0, atol=missed)
    np.testing.assert_allclose(slide.displacement, 0.0, atol=missed * float(sol.t[-1]))
    np.testing.assert_allclose(sol.friction("dry").force[1:, 0], -0.5 * spin**2 * place, rtol=1e-4)


def test_a_corner_that_waits_for_its_impact_is_not_lost_when_others_slow_it_down():
    """A box that tumbles to rest: between two small bounces a corner closes at a speed for which it
    would bounce, and with the force on its neighbor at one for which it would not."""
    m = mbd.Mechanism("box")
    box = m.add_body("box", shape=mbd.Box((0.2, 0.3, 0.4), mass=2.0), r=(0, 0, 1.0))
    m.add(mbd.Contact("floor", box, m.ground, friction=0.5, restitution=0.3))
    system, state = m.build()
    rng = np.random.default_rng(0)
    turns, v, omega = (rng.normal(size=(200, 3)) * x for x in (1.0, 2.0, 5.0))

    @jax.jit
    @jax.vmap
    def deepest(turn, v, omega):
        start = mbd.State(state.r, so3.exp(turn)[None], v[None], omega[None], state.angles)
        sol = mbd.simulate(system, start, h=2e-3, steps=700)
        return jnp.min(sol.stats["law_gaps"])

    some = slice(165, 175)
    found = deepest(*(jnp.asarray(x[some]) for x in (turns, v, omega)))
    # What a step misses of the curvature of a gap: without the impact it was 2e-5.
    assert float(jnp.min(found)) > -1e-9


def test_a_stop_along_a_rail_acts_alike_in_every_unit_of_length():
    """A cart that falls on a stop and comes to rest, in metres and in units of 10 nm."""

    def motion(unit):
        m = mbd.Mechanism("drop", gravity=(0, 0, -9.81 * unit))
        m.add_body("cart", mass=2.0, inertia=np.full(3, 0.1 * unit**2), r=(0, 0, 0.5 * unit))
        m.add(mbd.Translational("rail", m.ground, "cart", point=(0, 0, 0), axis=(0, 0, 1)))
        m.add(mbd.JointLimit("stop", "rail", lower=-0.3 * unit, restitution=0.6))
        sol = mbd.simulate(*m.build(), h=5e-3, steps=400, integrator=mbd.Moreau())
        return np.asarray(sol.r[:, 0, 2]) / unit, np.asarray(sol.v[:, 0, 2]) / unit

    (z, v), (z_small, v_small) = motion(1.0), motion(1e-8)
    assert abs(z[-1] - 0.2) < 1e-9 and abs(v).max() > 2.0
    np.testing.assert_allclose(z_small, z, atol=1e-11)
    np.testing.assert_allclose(v_small, v, atol=1e-11)
