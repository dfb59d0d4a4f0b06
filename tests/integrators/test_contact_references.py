"""Reference motions with stops, dry friction and contact, against closed forms and minimal
coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd

G = 9.81


def ball(*, height, restitution=0.0, friction=0.0, omega=(0.0, 0.0, 0.0)):
    m = mbd.Mechanism("ball")
    b = m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, height + 0.1), omega=omega)
    m.add(mbd.Contact("floor", b, m.ground, friction=friction, restitution=restitution))
    return m.build()


def test_a_spinning_ball_that_lands_sticks_or_slips_as_its_closed_form():
    """Spinning about a horizontal axis: the impact ends slip, or rolling begins later."""
    fall = np.sqrt(2.0 * 0.9 / G)
    system, state = ball(height=0.9, friction=0.2, omega=(0.0, 10.0, 0.0))
    sol = mbd.simulate(system, state, t_end=1.0, h=0.01)
    # Sticking takes 2/7 of the speed of the rim.
    assert abs(float(sol.v[-1, 0, 0]) - 2.0 / 7.0) < 1e-9
    assert abs(float(sol.r[-1, 0, 0]) - 2.0 / 7.0 * (1.0 - fall)) < 1e-9

    fast = mbd.State(state.r, state.A, state.v, 5.0 * state.omega, state.angles)
    sol = mbd.simulate(system, fast, t_end=1.0, h=0.01)
    after = 0.2 * G * fall  # friction takes the μ-th part of the impulse
    slip = (10.0 / 7.0 - after) / (0.2 * G)
    assert abs(slip - 0.299767) < 1e-6  # as published
    assert abs(float(sol.v[-1, 0, 0]) - 10.0 / 7.0) < 1e-9
    place = after * slip + 0.1 * G * slip**2 + 10.0 / 7.0 * (1.0 - fall - slip)
    # The end of slip is found within its step. Friction of the rest of the step of the impact acts
    # as if it came with the impact.
    assert abs(float(sol.r[-1, 0, 0]) - place) < 0.5 * 0.2 * G * 0.01**2


def test_a_bouncing_ball_comes_to_rest_when_it_must():
    """Infinitely many bounces in a finite time; those that are shorter than a step are none."""
    rest = np.sqrt(2.0 / G) * 3.0
    assert abs(rest - 1.3545709) < 1e-7
    sol = mbd.simulate(*ball(height=1.0, restitution=0.5), t_end=2.0, h=0.01)
    moves = np.flatnonzero(np.abs(np.asarray(sol.v[:, 0, 2])) > 1e-10)
    assert abs(float(sol.t[moves[-1]]) - rest) < 0.04
    assert abs(float(sol.r[-1, 0, 2]) - 0.1) < 1e-12


def test_friction_turns_round_within_a_step():
    """A mass in a dry guide is thrown up, stops, and falls back; the stop is not at a step."""
    m = mbd.Mechanism("guide")
    b = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0), v=(0.0, 0.0, 3.0))
    m.add(mbd.Translational("slide", m.ground, b, point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.CoulombFriction("dry", "slide", bound=2.0))
    sol = mbd.simulate(*m.build(), t_end=0.5, h=0.01)
    up = 3.0 / (G + 2.0)
    assert up / 0.01 % 1.0 > 0.1
    t = np.asarray(sol.t)
    exact = np.where(
        t < up, 3.0 * t - 0.5 * (G + 2.0) * t**2, 1.5 * up - 0.5 * (G - 2.0) * (t - up) ** 2
    )
    np.testing.assert_allclose(sol.r[:, 0, 2], exact, rtol=0, atol=1e-10)
    # It slides on both ways, in every row but the first.
    assert np.all(np.asarray(sol.friction("dry").state)[1:] == 2)


def test_a_dry_oscillator_rests_where_it_must():
    """Mass, stiffness and friction of one: every turning point is nearer by two."""
    m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
    b = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0), r=(12.0, 0, 0), v=(6.0, 0, 0))
    m.add(mbd.Translational("slide", m.ground, b, point=(0, 0, 0), axis=(1, 0, 0)))
    spring = {"point_i": (-100.0, 0, 0), "point_j": (12.0, 0, 0), "free_length": 100.0}
    m.add(mbd.SpringDamper("spring", m.ground, b, stiffness=1.0, **spring))
    m.add(mbd.CoulombFriction("dry", "slide", bound=1.0))
    sol = mbd.simulate(*m.build(), t_end=25.0, h=0.01)
    first = np.hypot(13.0, 6.0) - 1.0
    assert abs(first - 13.3178211) < 1e-7  # as published
    x = np.asarray(sol.r[:, 0, 0])
    # The middle of the step keeps the energy of a linear spring, and the turning points are found.
    assert abs(x[-1] - (14.0 - first)) < 1e-7
    assert abs(x[-1] - x[-200]) < 1e-12


def sliding_box():
    m = mbd.Mechanism("box")
    b = m.add_body("box", shape=mbd.Box((0.2, 0.2, 0.1), mass=1.0), r=(0, 0, 0.05))
    m.add(mbd.Contact("floor", b, m.ground, friction=0.5))
    return m.build()


@pytest.mark.slow
def test_derivatives_over_a_stop_and_a_long_rest_are_those_of_the_closed_form():
    """A box slides to rest and stays: x = v²/(2 μ g), in one run and in a batch."""
    system, state = sliding_box()

    def end(speed):
        start = mbd.State(state.r, state.A, state.v.at[0, 0].set(speed), state.omega, state.angles)
        sol = mbd.simulate(system, start, steps=120, h=1e-2, save_every=120)
        return sol.r[-1, 0, 0]

    speed = jnp.asarray(1.0)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(end))(speed), 2.0 / G, rtol=1e-6)
    speeds = jnp.linspace(0.3, 2.5, 256)
    places, slopes = jax.jit(jax.vmap(jax.value_and_grad(end)))(speeds)
    np.testing.assert_allclose(places, speeds**2 / G, rtol=0, atol=1e-9)
    np.testing.assert_allclose(slopes, 2.0 * speeds / G, rtol=1e-6)


@pytest.mark.slow
def test_a_rocking_block_loses_the_speed_of_housner():
    """A block falls from one edge onto the other: ω⁺ = (1 - 3/2 sin²α) ω⁻."""
    half, tall, start = 0.1, 0.3, 0.15
    radius, alpha = np.hypot(half, tall), np.arctan(half / tall)
    p2 = 0.75 * G / radius

    def rate(t, y):
        return [y[1], -p2 * np.sin(alpha - y[0])]

    def lands(t, y):
        return y[0]

    lands.terminal = True
    down = solve_ivp(rate, (0, 5), [start, 0.0], events=lands, rtol=1e-11, atol=1e-13)
    after = -(1.0 - 1.5 * np.sin(alpha) ** 2) * down.y[1, -1]
    up = solve_ivp(rate, (0, 0.05), [0.0, after], rtol=1e-11, atol=1e-13).y[1, -1]

    m = mbd.Mechanism("block")
    c, s = np.cos(start), np.sin(start)
    turned = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    corner = turned @ np.array([half, 0.0, -tall])
    b = m.add_body("block", shape=mbd.Box((2 * half, 0.2, 2 * tall), mass=1.0), A=turned, r=-corner)
    m.add(mbd.Contact("floor", b, m.ground, friction=2.0))
    errors = []
    for h in (2e-3, 1e-3):
        sol = mbd.simulate(*m.build(), t_end=down.t[-1] + 0.06, h=h)
        spin = np.interp(
            down.t[-1] + 0.05, np.asarray(sol.t), np.abs(np.asarray(sol.omega[:, 0, 1]))
        )
        errors.append(abs(spin / up - 1.0))
    assert errors[1] < 5e-3, errors


@pytest.mark.slow
def test_a_rod_that_jams_loses_energy_only():
    """Painlevé's rod at μ = 2, where rigid bodies at rest in their contact have no acceleration."""
    angle, half = 1.0, 0.5
    assert 1.0 + 3.0 * np.cos(angle) * (np.cos(angle) - 2.0 * np.sin(angle)) < 0.0
    m = mbd.Mechanism("rod")
    c, s = np.cos(angle), np.sin(angle)
    A = np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
    inertia = np.array([1e-4, 1.0, 1.0]) / 12.0
    b = m.add_body("rod", mass=1.0, inertia=inertia, A=A, r=A @ [half, 0, 0])
    m.add(mbd.Contact("floor", b, m.ground, friction=2.0, points=[(0, 0, 0), A @ [2 * half, 0, 0]]))
    system, state = m.build()
    for speed in (2.0, -2.0):
        start = mbd.State(state.r, state.A, state.v.at[0, 0].set(speed), state.omega, state.angles)
        sol = mbd.simulate(system, start, t_end=1.0, h=1e-3)
        energy = np.asarray(sol.energy().total)
        assert np.max(np.diff(energy)) < 1e-5
        assert np.min(np.asarray(sol.contact("floor").gap)) > -1e-9


@pytest.mark.slow
def test_a_rope_over_a_drum_holds_what_the_capstan_says():
    """Sixteen points on half a turn: ((1 + μ t)/(1 - μ t))^16 with t = tan(π/32), e^(μ π) for
    many."""
    friction, n = 0.3, 16
    t = np.tan(0.5 * np.pi / n)
    ratio = ((1.0 + friction * t) / (1.0 - friction * t)) ** n
    assert abs(ratio / np.exp(friction * np.pi) - 1.0) < 0.01
    angles = np.pi * (1.0 - (np.arange(n) + 0.5) / n)
    # The ends pull tangentially; the rope is inside the drum's tangents by its polygon.
    side = np.cos(0.5 * np.pi / n)
    places = [(-side, 0.0, -0.3), *((np.cos(a), 0.0, np.sin(a)) for a in angles), (side, 0.0, -0.3)]
    m = mbd.Mechanism("capstan", gravity=(0.0, 0.0, 0.0))
    drum = m.add_body("drum", shape=mbd.Sphere(1.0, mass=1.0))
    m.add(mbd.Fixed("held", m.ground, drum, point=(0.0, 0.0, 0.0)))
    before = None
    for k, place in enumerate(places):
        b = m.add_body(f"b{k}", mass=1.0, inertia=(1.0, 1.0, 1.0), r=place)
        if before is not None:
            m.add(mbd.Distance(f"d{k}", before, b, point_i=before.r, point_j=b.r))
        if 0 < k <= n:
            m.add(mbd.Contact(f"c{k}", b, drum, points=[place], friction=friction))
        else:
            m.add(mbd.PointForce(f"pull{k}", b, force=(0.0, 0.0, -1.0), point=place))
        before = b
    for factor, slides in ((0.99, False), (1.01, True)):
        loaded = m.with_values({f"forces.pull{n + 1}.force": np.array([0.0, 0.0, -factor * ratio])})
        sol = mbd.simulate(*loaded.build(), t_end=0.05, h=5e-3)
        moved = -float(sol.v[-1, -1, 2])
        # All 18 bodies would accelerate together by what is too much.
        assert abs(moved) < 1e-12 if not slides else moved > 0.1 * 0.01 * ratio * 0.05 / 18.0


@pytest.mark.slow
def test_a_bead_leaves_a_round_track_where_its_weight_no_longer_holds_it():
    """From the top of a circle with v: it leaves at cos θ = 2/3 + v²/(3 g R) and falls freely."""
    m = mbd.Mechanism("track")
    b = m.add_body("bead", mass=1.0, inertia=(1.0, 1.0, 1.0), r=(0, 0, 1.0), v=(1.0, 0, 0))
    circle = ["cos(t)", "0", "sin(t)"]
    m.add(mbd.CurveContact("track", b, m.ground, point=b.r, curve=circle, axis=(0, 1, 0)))
    leaves = 2.0 / 3.0 + 1.0 / (3.0 * G)
    gained = []
    for h in (4e-3, 2e-3):
        sol = mbd.simulate(*m.build(), t_end=0.8, h=h)
        height, gap = np.asarray(sol.r[:, 0, 2]), np.asarray(sol.contact("track").gap[:, 0])
        k = int(np.flatnonzero(gap > 1e-9)[0]) - 1  # the last row on the track
        assert np.max(np.abs(np.linalg.norm(sol.r[:k, 0], axis=1) - 1.0)) < 1e-9
        # It moves by less than 2 v h/2 in height while a row passes, v being 2.6 m/s.
        assert abs(height[k] - leaves) < 2.6 * h
        speed = np.linalg.norm(np.asarray(sol.v[: k - 1, 0]), axis=1)
        gained.append(np.max(np.abs(speed**2 - 1.0 - 2.0 * G * (1.0 - height[: k - 1]))))
        # Free fall from there.
        t = float(sol.t[-1] - sol.t[k + 1])
        fallen = sol.r[k + 1, 0] + t * sol.v[k + 1, 0] - 0.5 * G * t**2 * np.array([0, 0, 1.0])
        np.testing.assert_allclose(sol.r[-1, 0], fallen, atol=1e-9)
    # Energy on the curved track is of second order.
    assert gained[1] < 0.3 * gained[0] and gained[1] < 1e-3, gained
