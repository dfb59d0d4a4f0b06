"""The range of a trebuchet, whose stone lifts off, is let go and lands at events: its gradient, and
what that is worth.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import jaxmbd as mbd

pytestmark = pytest.mark.slow

HEIGHT, BEAM = 3.5, 5.0
# Sling, short arm, hanger, how low the long arm starts [m], and the angle of release [rad].
GUESS = np.array([3.5, 1.2, 1.0, 0.1, -0.6])
LOW, HIGH = np.array([1.5, 0.7, 0.5, 0.05, -1.5]), np.array([4.5, 1.6, 2.0, 0.5, 0.0])


def trebuchet(sling, short, hanger, low):
    tilt = jnp.arcsin((HEIGHT - low) / (BEAM - short))
    along = jnp.stack([-jnp.cos(tilt), 0.0 * tilt, -jnp.sin(tilt)])
    pivot, y = jnp.array([0.0, 0.0, HEIGHT]), jnp.array([0.0, 1.0, 0.0])
    tip, end = pivot + (BEAM - short) * along, pivot - short * along
    stone = jnp.stack([tip[0] + jnp.sqrt(sling**2 - low**2), 0.0 * low, 0.0 * low])
    m = mbd.Mechanism("trebuchet")
    inertia = 80.0 * BEAM**2 / 12.0
    A = jnp.stack([along, y, jnp.cross(along, y)], axis=1)
    m.add_body("beam", mass=80.0, inertia=(5.0, inertia, inertia), r=0.5 * (tip + end), A=A)
    m.add_body("weight", mass=1500.0, inertia=(150.0,) * 3, r=end.at[2].add(-hanger))
    m.add_body("stone", mass=15.0, inertia=(0.1,) * 3, r=stone)
    m.add(mbd.Revolute("pivot", m.ground, "beam", point=pivot, axis=y))
    m.add(mbd.Revolute("hanger", "beam", "weight", point=end, axis=y))
    m.add(mbd.Distance("sling", "beam", "stone", point_i=tip, point_j=stone, active=True))
    level = mbd.CD((0, 0, 1), (0, 0, 0), (0, 0, 0))
    m.add(mbd.Constraint("trough", m.ground, "stone", primitives=[level], active=True))
    return m.build()


def opening(pose, twist, z, t):
    arm = pose.A[0, :, 0]
    sling = pose.r[2] - pose.r[0] - 0.5 * BEAM * arm
    return jnp.arctan2(sling[0] * arm[2] - sling[2] * arm[0], sling @ arm)


def throw(p):
    system, state = trebuchet(*p[:4])
    events = [
        mbd.Event("lifts off", "trough.reaction_force.z < 0", action=mbd.Release("trough")),
        mbd.Event("let go", opening, value=p[4], direction="rising", action=mbd.Release("sling")),
    ]
    options = {"integrator": mbd.MuntheKaas(tableau="rk5"), "throw": False}
    until = "stone.r.z < -0.1"
    return mbd.simulate(system, state, h=8e-3, steps=1250, events=events, until=until, **options)


def distance(p):
    return throw(p).last_state.r[2, 0]


def test_the_gradient_of_the_range_is_that_of_differences_and_finds_the_longest_shot():
    sol = throw(jnp.asarray(GUESS))
    go, t = float(sol.events["let go"][0]), np.asarray(sol.t)
    flies = (t > go) & np.isfinite(np.asarray(sol.r[:, 2, 0]))
    # In free flight: a parabola.
    x, v = np.asarray(sol.r[flies, 2]), np.asarray(sol.v[flies, 2])
    dt = t[flies] - t[flies][0]
    np.testing.assert_allclose(x[:, 0], x[0, 0] + v[0, 0] * dt, atol=1e-9)
    np.testing.assert_allclose(x[:, 2], x[0, 2] + v[0, 2] * dt - 0.5 * 9.81 * dt**2, atol=1e-9)

    plain, shot = jax.jit(distance), jax.jit(jax.value_and_grad(distance))
    at = jnp.asarray(GUESS)
    _, slope = shot(at)
    e = 1e-4
    for k, d in enumerate(np.eye(5) * e):
        found = (plain(at + d) - plain(at - d)) / (2.0 * e)
        # Differences are wrong by e² times a third derivative, some hundreds of metres.
        np.testing.assert_allclose(found, slope[k], rtol=1e-6)

    span, calls = HIGH - LOW, []

    def cost(share):
        value, slope = shot(LOW + share * span)
        return -float(value) / 100.0, -np.asarray(slope) * span / 100.0

    def value(share):
        calls.append(share)
        return -float(plain(LOW + share * span)) / 100.0

    start, bounds = (GUESS - LOW) / span, [(0.0, 1.0)] * 5
    best = minimize(cost, start, jac=True, method="TNC", bounds=bounds, options={"maxfun": 40})
    other = minimize(value, start, method="Nelder-Mead", bounds=bounds, options={"maxfev": 200})
    assert len(calls) == 200 and best.nfev <= 40
    assert best.fun < other.fun
