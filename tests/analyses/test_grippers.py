"""Welds that close wherever their bodies are, against the balance of momentum and Euler's equations
of the joined body, integrated by SciPy.
"""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import jaxmbd as mbd

pytestmark = pytest.mark.xdist_group("grippers")

RK5 = mbd.MuntheKaas(tableau="rk5")
MASS, INERTIA = (2.0, 1.0), (0.3, 0.05)  # of balls, whose free motion is known
PLACE, SPEED = ((0, 0, 0), (0.6, 0.1, -0.2)), ((0.3, 0, 0), (-0.1, 0, 0.2))
SPIN = (0.1, 0.2, -0.3), (2.0, -1.0, 3.0)


def turn(vector):
    return Rotation.from_rotvec(vector).as_matrix()


def hand(at=0.7321, quarter=0.0):
    """Two balls in free flight, one of which grasps the other; this one starts turned about z."""
    m = mbd.Mechanism("hand", gravity=(0, 0, 0))
    A = turn((0.0, 0.0, quarter))
    for k, name in enumerate(("hand", "thing")):
        own = {"r": PLACE[k], "v": SPEED[k], "omega": SPIN[k], "A": A if k else np.eye(3)}
        m.add_body(name, mass=MASS[k], inertia=(INERTIA[k],) * 3, **own)
    m.add(mbd.Fixed("grip", "hand", "thing", point=(0.5, 0, 0), active=False))
    m.add(event("grasp", at, mbd.Activate("grip", here=True)))
    return m


def event(name, at, action):
    return mbd.Event(name, lambda pose, twist, z, t: t, value=at, action=action)


def joined(at, end, quarter):
    """Angular velocity of the joined body in the hand's frame after a while, by SciPy."""
    A = [turn(at * np.array(w)) for w in SPIN]
    A[1] = turn((0.0, 0.0, quarter)) @ A[1]
    r, v = np.array(PLACE) + at * np.array(SPEED), np.array(SPEED)
    m = np.array(MASS)[:, None]
    center, drift = np.sum(m * r, 0) / m.sum(), np.sum(m * v, 0) / m.sum()
    momentum, inertia = np.zeros(3), np.zeros((3, 3))
    for k in range(2):
        d = r[k] - center
        momentum += INERTIA[k] * A[k] @ SPIN[k] + MASS[k] * np.cross(d, v[k] - drift)
        inertia += INERTIA[k] * np.eye(3) + MASS[k] * (d @ d * np.eye(3) - np.outer(d, d))
    inertia = A[0].T @ inertia @ A[0]
    start = np.linalg.solve(inertia, A[0].T @ momentum)

    def rate(_, w):
        return np.linalg.solve(inertia, np.cross(inertia @ w, w))

    return solve_ivp(rate, (at, end), start, rtol=1e-12, atol=1e-12).y[:, -1]


def relative(sol, rows):
    """Pose of the thing in the hand."""
    A, r = np.asarray(sol.A)[rows], np.asarray(sol.r)[rows]
    turned = np.einsum("tji,tjk->tik", A[:, 0], A[:, 1])
    return np.einsum("tji,tj->ti", A[:, 0], r[:, 1] - r[:, 0]), turned


@pytest.mark.parametrize(
    "formulation",
    [
        pytest.param(mbd.RA(), marks=pytest.mark.essential),
        *(pytest.param(f, marks=pytest.mark.slow) for f in (mbd.RP(), mbd.REps())),
    ],
    ids=lambda f: f.name,
)
def test_what_is_grasped_stays_where_it_was(formulation):
    """By the default method, a quarter of a turn away from the description."""
    system, state = hand(quarter=0.5 * np.pi).build()
    sol = mbd.simulate(system, state, h=5e-3, steps=300, formulation=formulation)
    place, turned = relative(sol, slice(148, None))
    np.testing.assert_allclose(place, np.broadcast_to(place[0], place.shape), atol=1e-13)
    np.testing.assert_allclose(turned, np.broadcast_to(turned[0], turned.shape), atol=1e-13)
    assert np.max(np.abs(relative(sol, slice(0, 1))[1] - turned[0])) > 0.5
    force = MASS[1] * np.asarray(sol.a[-1, 1])  # Newton, for what is held
    np.testing.assert_allclose(sol.reactions()["grip"].force[-1], force, atol=1e-9)


@pytest.mark.parametrize("quarter", [0.0, pytest.param(0.5 * np.pi, marks=pytest.mark.slow)])
def test_a_grasped_body_turns_as_eulers_equations_say(quarter):
    system, state = hand(quarter=quarter).build()
    sol = mbd.simulate(system, state, h=5e-3, steps=300, integrator=RK5)
    np.testing.assert_allclose(sol.omega[-1, 0], joined(0.7321, 1.5, quarter), atol=1e-9)


@pytest.mark.slow
def test_it_may_let_go_and_grasp_again_elsewhere():
    m = hand(at=0.2)
    m.add(event("let go", 0.5, mbd.Release("grip")))
    m.add(event("again", 0.9, mbd.Activate("grip", here=True)))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=5e-3, steps=300)
    first, between, last = (
        np.concatenate([x.reshape(len(x), -1) for x in relative(sol, rows)], axis=1)
        for rows in (slice(42, 99), slice(105, 175), slice(182, None))
    )
    for held in (first, last):
        assert np.max(np.ptp(held, axis=0)) < 1e-13
    # Let go, the balls keep one angular velocity and fly straight.
    assert np.max(np.ptp(between[:, :3], axis=0)) > 1e-3
    assert np.max(np.abs(first[0] - last[0])) > 1e-3


@pytest.mark.slow
def test_the_instant_of_a_grasp_has_a_derivative():
    def end(at):
        system, state = hand(at=at).build()
        sol = mbd.simulate(system, state, h=1e-2, steps=120, integrator=RK5)
        return sol.omega[-1, 0, 0]

    slope = jax.jit(jax.grad(end))(0.7321)
    e = 1e-4
    found = [joined(0.7321 + k * e, 1.2, 0.0)[0] for k in (-2, -1, 1, 2)]
    exact = (found[0] - 8 * found[1] + 8 * found[2] - found[3]) / (12 * e)
    np.testing.assert_allclose(slope, exact, rtol=1e-6)


@pytest.mark.slow
def test_activated_without_here_it_has_to_be_closed():
    m = hand(at=9.0)
    m.add(event("now", 0.1, mbd.Activate("grip")))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=5e-3, steps=30, throw=False)
    assert bool(sol.result == mbd.RESULTS.open_at_event)
