"""Joints that begin to act on a motion: impacts in closed form, and their derivatives."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

LAG = 0.6


def discs(inertias, *, locked):
    """Two discs on one axis; a clutch holds the second one ahead of the first."""
    m = mbd.Mechanism("discs", gravity=(0, 0, 0))
    for k, name in enumerate("ab"):
        disc = m.add_body(name, mass=1.0 + k, inertia=(0.5, 0.5, 0.5), r=(0, 0, k))
        m.add(mbd.Revolute(f"pin {name}", m.ground, disc, point=(0, 0, k), axis=(0, 0, 1)))
    if locked:
        m.add(mbd.Coupler("clutch", "pin a", "pin b", coefficients=(LAG, 1.0)))
    across = jnp.asarray([0.5, 0.5])
    values = {
        f"bodies.{name}.inertia": jnp.diag(jnp.concatenate([across, inertias[k, None]]))
        for k, name in enumerate("ab")
    }
    return m.with_values(values).build()


def lag(pose, twist, z, t):
    a, b = pose.A[0], pose.A[1]
    return b[1, 0] * a[0, 0] - b[0, 0] * a[1, 0] - np.sin(LAG)


def locking(p):
    """Speed of both discs after the clutch has closed, a while later, and the energy that it took:
    by two speeds and two inertias.
    """
    speeds, inertias = p[:2], p[2:]
    system, state = discs(inertias, locked=False)
    state = mbd.set_joints(system, state, {"pin a": {"rate": p[0]}, "pin b": {"rate": speeds[1]}})
    free = mbd.simulate(
        system, state, h=1e-2, steps=60, until=mbd.Event("ahead", lag, direction="rising")
    )
    closed, _ = discs(inertias, locked=True)
    met = dataclasses.replace(free.last_state, angles=None)  # the clutch counts turns of its own
    hit = mbd.plastic_impact(closed, met, free.t_event)
    rest = mbd.simulate(closed, hit.state, t0=free.t_event, h=1e-2, steps=20)
    return jnp.stack([rest.omega[-1, 0, 2], rest.omega[-1, 1, 2], hit.energy, free.t_event])


def in_closed_form(p):
    w1, w2, J1, J2 = p
    w = (J1 * w1 + J2 * w2) / (J1 + J2)
    return jnp.stack([w, w, 0.5 * J1 * J2 / (J1 + J2) * (w1 - w2) ** 2, LAG / (w2 - w1)])


P = jnp.asarray([1.0, 4.0, 0.3, 0.5])


@pytest.mark.essential
def test_two_discs_lock():
    np.testing.assert_allclose(locking(P), in_closed_form(P), rtol=1e-12)


@pytest.mark.slow
def test_two_discs_lock_with_derivatives():
    found = jax.jit(jax.jacrev(locking))(P)
    np.testing.assert_allclose(found, jax.jacfwd(in_closed_form)(P), rtol=1e-10, atol=1e-10)


def test_a_flying_rod_is_caught_by_a_pin():
    """Angular momentum about the pin is kept; its impulse is the change of linear momentum."""
    mass, inertia, arm, speed, spin = 2.0, 0.2, 0.5, 3.0, 1.5

    m = mbd.Mechanism("rod", gravity=(0, 0, 0))
    rod = m.add_body("rod", mass=mass, inertia=(0.01, inertia, inertia), r=(arm, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 0, 1)))
    system, state = m.build()
    state = dataclasses.replace(
        state, v=jnp.asarray([[0.4, speed, 0.0]]), omega=jnp.asarray([[0.0, 0.0, spin]])
    )
    hit = mbd.plastic_impact(system, state)
    after = (mass * speed * arm + inertia * spin) / (inertia + mass * arm**2)
    np.testing.assert_allclose(hit.state.omega, [[0, 0, after]], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(hit.state.v, [[0, arm * after, 0]], rtol=1e-13, atol=1e-13)
    before = 0.5 * mass * (speed**2 + 0.4**2) + 0.5 * inertia * spin**2
    left = 0.5 * (inertia + mass * arm**2) * after**2
    np.testing.assert_allclose(hit.energy, before - left, rtol=1e-12)
    # The rows of the position are first: M Δu + Rᵀ P = 0.
    push = mass * np.array([0.4, speed - arm * after])
    np.testing.assert_allclose(np.abs(hit.impulses[:2]), np.abs(push), rtol=1e-12)
    assert not bool(hit.undetermined)
    # What moves as the joints allow is left alone.
    again = mbd.plastic_impact(system, hit.state)
    np.testing.assert_allclose(again.state.omega, hit.state.omega, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(again.energy, 0.0, atol=1e-13)


def test_a_redundant_loop_is_stopped_at_once():
    """A Bricard loop, 30 rows of rank 29 on 30 coordinates."""
    system, state = mbd.load("bricard")
    rng = np.random.default_rng(0)
    u = rng.normal(size=(2, system.nb, 3))
    moving = dataclasses.replace(state, v=jnp.asarray(u[0]), omega=jnp.asarray(u[1]))
    hit = mbd.plastic_impact(system, moving)
    # The least kinetic energy of the change is orthogonal to what remains.
    change = (hit.state.v - moving.v, hit.state.omega - moving.omega)
    work = jnp.sum(system.mass[:, None] * change[0] * hit.state.v) + jnp.einsum(
        "bi,bij,bj->", change[1], system.inertia, hit.state.omega
    )
    np.testing.assert_allclose(work, 0.0, atol=1e-10)
    sol = mbd.simulate(system, hit.state, h=1e-4, steps=1)
    assert float(np.abs(sol.violation().velocity[0]).max()) < 1e-10
