"""Impacts at their own instants: energy, order and derivatives against closed forms and ODEs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from experiments.contact import orders

G = 9.81
H = 2e-3


def row_of_balls(masses, gaps, speeds, restitution):
    """Three balls on a line between two walls, without weight."""
    m = mbd.Mechanism("row", gravity=(0, 0, 0))
    places, x = [], 0.0
    for k in range(3):
        x = x + gaps[k] + 0.05
        places.append(x)
        x = x + 0.05
    balls = [
        m.add_body(
            f"ball {k}",
            shape=mbd.Sphere(0.05, mass=masses[k]),
            r=jnp.stack([places[k], jnp.zeros(()), jnp.zeros(())]),
            v=jnp.stack([speeds[k], jnp.zeros(()), jnp.zeros(())]),
        )
        for k in range(3)
    ]
    law = {"restitution": restitution}
    m.add(mbd.Contact("left", balls[0], m.ground, point=(0, 0, 0), normal=(1, 0, 0), **law))
    end = jnp.stack([x + gaps[3], jnp.zeros(()), jnp.zeros(())])
    m.add(mbd.Contact("right", balls[2], m.ground, point=end, normal=(-1, 0, 0), **law))
    m.add(mbd.Contact("first", balls[0], balls[1], **law))
    m.add(mbd.Contact("second", balls[1], balls[2], **law))
    return m.build()


@functools.partial(jax.jit, static_argnums=4)
@functools.partial(jax.vmap, in_axes=(0, 0, 0, 0, None))
def energies(masses, gaps, speeds, restitution, steps):
    """Kinetic energy at the end of every step [J], and steps that dropped a bounce."""
    sol = mbd.simulate(*row_of_balls(masses, gaps, speeds, restitution), h=H, steps=steps)
    kinetic = 0.5 * jnp.sum(masses[None, :, None] * sol.v**2, axis=(1, 2))
    return kinetic, sol.stats["law_bounces_dropped"][-1], sol.result == mbd.RESULTS.successful


@pytest.mark.parametrize(
    ("scenes", "steps"),
    [
        pytest.param(40, 50, marks=pytest.mark.essential),
        pytest.param(400, 500, marks=pytest.mark.slow),
    ],
)
def test_impacts_add_no_energy_and_elastic_ones_lose_none(rng, scenes, steps):
    """Gaps from 0 to 10 mm, restitution from 0 to 1: several exchanges fall into one step."""
    masses = rng.uniform(0.2, 5.0, (scenes, 3))
    gaps = rng.uniform(0.0, 1e-2, (scenes, 4))
    gaps[: scenes // 8] *= 1e-3
    speeds = rng.uniform(-2.0, 2.0, (scenes, 3))
    restitution = rng.uniform(0.0, 1.0, scenes)
    elastic = np.arange(scenes) < scenes // 2
    restitution[elastic] = 1.0
    restitution[-scenes // 10 :] = 0.0
    kinetic, dropped, succeeded = (
        np.asarray(x) for x in energies(masses, gaps, speeds, restitution, steps)
    )
    assert np.all(succeeded)
    change = np.diff(kinetic, axis=1) / kinetic[:, :1]
    assert np.max(change) < 1e-10
    told = dropped > 0
    lost = (kinetic[:, 0] - kinetic[:, -1]) / kinetic[:, 0]
    assert np.max(np.where(elastic & ~told, lost, 0.0)) < 1e-8
    # Gaps of micrometers, which take more than eight impacts a step, are told; of other elastic
    # scenes not more than one step in 500.
    assert np.all(told[: scenes // 8])
    assert np.mean(dropped[scenes // 8 : scenes // 2]) < 2e-3 * steps


@pytest.mark.essential
def test_derivatives_are_right_wherever_in_a_step_an_impact_falls():
    """At the ends of a step too. dx/dv₀ = T v(T)/v₀, because nothing but v₀ has a time in it."""
    speed, steps = 2.0, 12

    def run(speed, gap):
        m = mbd.Mechanism("row", gravity=(0, 0, 0))
        a = m.add_body("a", shape=mbd.Sphere(0.05, mass=1.0), v=speed * jnp.array([1.0, 0, 0]))
        place = jnp.stack([0.1 + gap, jnp.zeros(()), jnp.zeros(())])
        b = m.add_body("b", shape=mbd.Sphere(0.05, mass=0.5), r=place)
        m.add(mbd.Contact("c", a, b, restitution=0.6))
        sol = mbd.simulate(*m.build(), h=H, steps=steps, save_every=steps)
        return sol.r[-1, :, 0], sol.v[-1, :, 0]

    def both(gap):
        (_, v), (slope, _) = jax.jvp(lambda s: run(s, gap), (speed,), (1.0,))
        return v, slope

    within = jnp.array([0.0, 1e-15, 1e-12, 0.5, 1.0 - 1e-12, 1.0 - 1e-15, 1.0])
    program = jax.jit(both)
    found = [program(gap) for gap in (5.0 + within) * H * speed]
    v, slope = (np.stack(x) for x in zip(*found, strict=True))
    after = speed * np.array([(1.0 - 0.5 * 0.6) / 1.5, 1.6 / 1.5])
    np.testing.assert_allclose(v, np.broadcast_to(after, v.shape), rtol=1e-10)
    np.testing.assert_allclose(slope, steps * H * np.asarray(v) / speed, rtol=0, atol=1e-9)


def oblique(numbers, h, steps):
    """A ball meets another one off its center while both fall."""
    m = mbd.Mechanism("balls")
    zero = jnp.zeros(())
    a = m.add_body(
        "a",
        shape=mbd.Sphere(0.1, mass=1.0),
        v=jnp.stack([numbers[0], zero, numbers[1]]),
    )
    b = m.add_body("b", shape=mbd.Sphere(0.1, mass=2.0), r=(0.5, 0, 0.11))
    m.add(mbd.Contact("c", a, b, restitution=0.8))
    sol = mbd.simulate(*m.build(), h=h, steps=steps, save_every=steps)
    return sol.r[-1][:, jnp.array([0, 2])]


def test_a_ball_strikes_another_by_the_geometry_of_the_instant():
    """They fall alike, so that the one moves on a line seen from the other: a closed form."""

    def exact(v, t_end):
        v, between = np.array(v), np.array([0.5, 0.11])
        along = v @ between / (v @ v)
        t = along - np.sqrt(along**2 - (between @ between - 0.04) / (v @ v))
        normal = (between - v * t) / 0.2
        impulse = 1.8 * (v @ normal) / (1.0 + 0.5) * normal
        fall = np.array([0.0, -0.5 * G * t_end**2])
        first = v * t_end - impulse * (t_end - t) + fall
        return np.stack([first, between + 0.5 * impulse * (t_end - t) + fall])

    place, slope = jax.jit(
        lambda v: (oblique(v, 1e-2, 40), jax.jacfwd(lambda v: oblique(v, 1e-2, 40))(v))
    )(jnp.array([2.0, 0.1]))
    np.testing.assert_allclose(place, exact([2.0, 0.1], 0.4), rtol=0, atol=1e-11)
    for k, step in enumerate(1e-6 * np.eye(2)):
        ahead, back = (exact(np.array([2.0, 0.1]) + s * step, 0.4) for s in (1, -1))
        np.testing.assert_allclose(slope[..., k], (ahead - back) / 2e-6, rtol=0, atol=1e-8)


def test_a_ladder_leaves_its_wall_at_second_order_and_is_not_struck_again():
    exact, (left,) = orders.ladder_by_ode(0.5)
    errors = []
    for h in (2e-3, 5e-4):
        sol = mbd.simulate(*orders.ladder(), h=h, steps=round(0.5 / h))
        errors.append(np.max(np.abs(orders.ladder_ends(sol) - exact)))
        wall = np.asarray(sol.contact_places()["wall"].forces)[:, 0, 0]
        # Laws hold to 1e-11 of the largest velocity, which is a force of 1e-7 N at these steps.
        assert np.max(np.abs(wall[np.asarray(sol.t) > left + h])) < 1e-7
        # Until then it is smooth, with a second derivative of up to 900 N/s².
        held = wall[2 : np.searchsorted(sol.t, left)]
        assert np.max(np.abs(np.diff(held, 2))) < 1e3 * h**2
        assert held[-1] < 200.0 * h  # it falls by 80 N/s
    assert errors[0] < 1e-4 and errors[1] < errors[0] / 8.0, errors


def elbow_by_ode(start, t_end, limit, restitution):
    """Angles of two rods from the vertical, and their rates, with an elbow that stops, and when."""

    def mass(y):
        c = 0.5 * np.cos(y[0] - y[1])
        return np.array([[4.0 / 3.0, c], [c, 1.0 / 3.0]])

    def rate(t, y):
        s = 0.5 * np.sin(y[0] - y[1])
        loads = [-s * y[3] ** 2 - 1.5 * G * np.sin(y[0]), s * y[2] ** 2 - 0.5 * G * np.sin(y[1])]
        return [y[2], y[3], *np.linalg.solve(mass(y), loads)]

    def stops(t, y):
        return limit - (y[1] - y[0])

    stops.terminal, stops.direction = True, -1
    t, y, hits = 0.0, np.array(start), []
    while t < t_end:
        run = solve_ivp(rate, (t, t_end), y, events=stops, rtol=1e-11, atol=1e-12, max_step=0.02)
        t, y = run.t[-1], run.y[:, -1].copy()
        if run.status == 1:
            hits.append(t)
            row = np.array([-1.0, 1.0])
            answer = np.linalg.solve(mass(y), row)
            y[2:] -= answer * (1.0 + restitution) * (row @ y[2:]) / (row @ answer)
            y[1] -= 1e-13
    return y, hits


@pytest.mark.slow
def test_derivatives_across_a_stop_in_a_mechanism_are_of_second_order():
    """Errors depend on where in its step the impact falls: they are those of neighboring steps."""
    start, limit, restitution = np.array([0.3, -0.2, 0.0, 8.0]), 1.0, 0.6
    aside = np.array([0.0, 0.0, 0.0, 1e-5])
    ((hit,),) = elbow_by_ode(start, 0.7, limit, restitution)[1:]

    def exact(t_end):
        values, ahead, behind = (
            elbow_by_ode(start + s * aside, t_end, limit, restitution)[0] for s in (0, 1, -1)
        )
        return values, (ahead - behind) / 2e-5

    m = mbd.Mechanism("elbow")
    rods = [
        m.add_body(name, mass=1.0, inertia=(1 / 12,) * 3, r=(0, 0, z))
        for name, z in (("upper", -0.5), ("lower", -1.5))
    ]
    m.add(mbd.Revolute("shoulder", m.ground, rods[0], point=(0, 0, 0), axis=(0, -1, 0)))
    m.add(mbd.Revolute("elbow", *rods, point=(0, 0, -1), axis=(0, -1, 0)))
    m.add(mbd.JointLimit("stop", "elbow", lower=-3.0, upper=limit, restitution=restitution))
    system, state = m.build()

    def end(x, h, steps):
        joints = {
            "shoulder": {"angle": x[0], "rate": x[2]},
            "elbow": {"angle": x[1] - x[0], "rate": x[3] - x[2]},
        }
        placed = mbd.set_joints(system, state, joints)
        sol = mbd.simulate(system, placed, h=h, steps=steps, save_every=steps)
        shoulder, elbow = sol.joint("shoulder"), sol.joint("elbow")
        first = jnp.stack([shoulder.angle[-1], shoulder.rate[-1]])
        second = first + jnp.stack([elbow.angle[-1], elbow.rate[-1]])
        return jnp.stack([first[0], second[0], first[1], second[1]])

    errors = []
    for steps in (70, 140):
        run = jax.jit(
            lambda x, h, steps=steps: jax.jvp(
                lambda x: end(x, h, steps), (x,), (jnp.array([0.0, 0.0, 0.0, 1.0]),)
            )
        )
        missed = []
        for k in range(4):
            h = 0.7 / (steps + k / 4 * 0.7 / hit)
            pairs = zip(run(jnp.asarray(start), h), exact(steps * h), strict=True)
            missed.append([np.max(np.abs(found - wanted)) for found, wanted in pairs])
        errors.append(np.sqrt(np.mean(np.square(missed), axis=0)))
    found = np.log2(errors[0] / errors[1])
    assert np.all(found > 1.7) and np.all(found < 2.4), (errors, found)


@pytest.mark.parametrize(("restitution", "height"), [(0.95, 1e-3), (1.0, 3e-4)])
def test_low_bounces_gain_no_energy(restitution, height):
    """Flights turn within a step of 10 ms. An elastic ball keeps its energy."""
    m = mbd.Mechanism("low")
    m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 0.1 + height))
    m.add(mbd.Contact("floor", "ball", m.ground, restitution=restitution))
    sol = mbd.simulate(*m.build(), h=1e-2, steps=200)
    energy = G * (np.asarray(sol.r)[:, 0, 2] - 0.1) + 0.5 * np.asarray(sol.v)[:, 0, 2] ** 2
    assert np.max(np.diff(energy)) < 1e-11 * energy[0]
    if restitution == 1.0:
        np.testing.assert_allclose(energy, energy[0], rtol=1e-8)
    else:
        rest = np.sqrt(2.0 * height / G) * (1.0 + restitution) / (1.0 - restitution)
        moving = np.asarray(sol.t)[np.abs(np.asarray(sol.v)[:, 0, 2]) > 1e-8]
        # Flights below a quarter of a step are none: what is left of the bouncing is lost.
        assert rest - 0.25 * 1e-2 / (1.0 - restitution) - 2e-2 < moving[-1] < rest


@pytest.mark.essential
def test_balls_in_a_row_strike_one_by_one_within_a_step():
    """Two elastic balls and a wall, 1 µm apart: exchange, wall, exchange."""
    gap, wall = 1e-6, 1.1
    m = mbd.Mechanism("wall", gravity=(0, 0, 0))
    shape = mbd.Sphere(0.1, mass=1.0)
    second = wall - 0.1 - gap
    first = second - 0.2 - gap
    a = m.add_body("a", shape=shape, r=(first, 0, 0), v=(2.0, 0, 0))
    b = m.add_body("b", shape=shape, r=(second, 0, 0))
    m.add(mbd.Contact("ab", a, b, restitution=1.0))
    law = {"point": (wall, 0, 0), "normal": (-1, 0, 0), "restitution": 1.0}
    m.add(mbd.Contact("wall", b, m.ground, **law))
    sol = mbd.simulate(*m.build(), h=4e-3, steps=3)
    np.testing.assert_allclose(sol.v[1:, :, 0], [[-2.0, 0.0]] * 3, rtol=0, atol=1e-10)
    # The first ball is back where it was after gap and twice the second's way, at 2 m/s.
    back = first + gap - 2.0 * (np.asarray(sol.t)[1:] - 1.5 * gap)
    np.testing.assert_allclose(sol.r[1:, 0, 0], back, rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore::jaxmbd.DroppedBounceWarning")
@pytest.mark.parametrize(("restitution", "dropped"), [(0.0, 0), (0.5, 1)])
def test_steps_with_more_impacts_than_they_resolve_are_counted(restitution, dropped):
    # The first ball reaches the second after 2 ms, and both together or the second alone the third
    # after 4 to 8 ms: two instants in a step of 10 ms.
    gaps, masses = jnp.array([1.0, 0.002, 0.002, 1.0]), jnp.ones(3)
    row = row_of_balls(masses, gaps, jnp.array([1.0, 0.0, 0.0]), restitution)

    def counts(most):
        integrator = mbd.Moreau(most_impacts=most)
        sol = mbd.simulate(*row, h=0.01, steps=1, integrator=integrator)
        return (
            int(sol.stats["law_impacts_merged"][-1]),
            int(sol.stats["law_bounces_dropped"][-1]),
        )

    assert counts(8) == (0, 0)
    assert counts(1) == (1, dropped)


@pytest.mark.parametrize("friction", [1.0, 0.3])
def test_a_wedged_ball_is_braced_as_little_as_its_cones_allow(friction):
    """It rolls down the groove. Opposite forces across the groove are open, and least of norm."""
    r, mass, tilt, flank = 0.1, 1.5, np.radians(20), np.radians(40)
    m = mbd.Mechanism("groove", gravity=(G * np.sin(tilt), 0, -G * np.cos(tilt)))
    ball = m.add_body("ball", shape=mbd.Sphere(r, mass=mass))
    normals = [np.array([0.0, s * np.cos(flank), np.sin(flank)]) for s in (1, -1)]
    for name, normal in zip(("left", "right"), normals, strict=True):
        law = {"friction": friction, "normal": normal, "point": -r * normal}
        m.add(mbd.Contact(name, ball, m.ground, **law))
    sol = mbd.simulate(*m.build(), h=1e-2, steps=3)
    shown = sol.contact_places()
    left, right = (np.asarray(shown[name].forces)[-1, 0] for name in ("left", "right"))
    # It rolls on circles of radius r sin(flank): m a = m g sin(tilt) - f, and f = 2/5 m a / sin².
    share = 1.0 + 0.4 / np.sin(flank) ** 2
    half = 0.5 * mass * G * np.array([(1.0 / share - 1.0) * np.sin(tilt), 0.0, np.cos(tilt)])
    # The least force across the groove within the cone of friction.
    across = np.linspace(0.0, 50.0, 5_000_001)
    along = across * np.cos(flank) + half[2] * np.sin(flank)
    rest = half[0] ** 2 + across**2 + half[2] ** 2 - along**2
    least = across[np.argmax(rest <= (friction * along) ** 2)]
    assert abs(abs(left[1]) - least) < 1e-4 and abs(left[1] + right[1]) < 1e-9
    np.testing.assert_allclose(left + right, 2.0 * half, rtol=0, atol=1e-9)


def test_derivatives_of_a_wedged_ball_at_rest_are_those_of_the_least_forces():
    """Each flank bears half of the weight, whatever its slope; nothing is solved after a step."""
    r = 0.1

    def forces(mass, flank):
        m = mbd.Mechanism("groove")
        ball = m.add_body("ball", shape=mbd.Sphere(r, mass=mass))
        for side in (1.0, -1.0):
            normal = jnp.stack([0.0 * flank, side * jnp.cos(flank), jnp.sin(flank)])
            law = {"friction": 2.0, "normal": normal, "point": -r * normal}
            m.add(mbd.Contact("left" if side > 0 else "right", ball, m.ground, **law))
        sol = mbd.simulate(*m.build(), h=1e-2, steps=4)
        shown = sol.contact_places()
        return jnp.stack([shown[x].forces[-1, 0] for x in ("left", "right")])

    at = (1.5, np.radians(40))
    half = np.array([0.0, 0.0, 0.5 * G])
    np.testing.assert_allclose(forces(*at), np.stack([1.5 * half] * 2), rtol=0, atol=1e-9)
    of_mass, of_flank = jax.jacrev(forces, (0, 1))(*at)
    np.testing.assert_allclose(of_mass, np.stack([half] * 2), rtol=0, atol=1e-7)
    # What is open has derivatives of rounding over the 1e-10 that keep the laws regular.
    np.testing.assert_allclose(of_flank, 0.0, rtol=0, atol=1e-5)
