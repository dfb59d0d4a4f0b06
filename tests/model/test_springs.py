"""Springs of one side and bushings, against closed forms."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.rotations import so3


def slider(only, start, speed, **numbers):
    """A mass of 2 kg on a slide along x, held to the origin by a spring of one side."""
    m = mbd.Mechanism("slider", gravity=(0, 0, 0))
    body = m.add_body("mass", mass=2.0, inertia=(1, 1, 1), r=(start, 0, 0), v=(speed, 0, 0))
    m.add(mbd.Translational("slide", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(
        mbd.SpringDamper(
            *("spring", m.ground, body),
            point_i=(0, 0, 0),
            point_j=(start, 0, 0),
            stiffness=200.0,
            free_length=1.0,
            only=only,
            **numbers,
        )
    )
    return m


@pytest.mark.parametrize(
    ("only", "start", "speed"), [("tension", 0.8, 2.0), ("compression", 1.2, -2.0)]
)
@pytest.mark.parametrize("conserving", [False, True])
def test_a_rope_and_a_bumper_return_a_mass_after_half_a_swing(only, start, speed, conserving):
    options = {"h": 5e-4, "t_end": 0.6}
    if conserving:
        options |= {"integrator": mbd.EnergyMomentum(), "formulation": mbd.Directors()}
    sol = mbd.simulate(*slider(only, start, speed).build(), **options)
    t, swing = np.asarray(sol.t), np.sqrt(2.0 / 200.0)
    inside = np.clip((t - 0.1) / swing, 0.0, np.pi)
    depth = np.sign(speed) * 2.0 * swing * np.sin(inside)
    free = np.where(t < 0.1 + 1e-9, start + speed * t, 1.0 - speed * (t - 0.1 - np.pi * swing))
    x = np.where((inside > 0.0) & (inside < np.pi), 1.0 + depth, free)
    bound = 2e-4 if conserving else 3e-3  # of implicit Euler, which loses energy
    np.testing.assert_allclose(sol.r[:, 0, 0], x, rtol=0, atol=bound)
    if conserving:
        total = np.asarray(sol.energy().total)
        np.testing.assert_allclose(total, total[0], rtol=1e-10)
    slack = (x < 1.0 - 1e-3) if only == "tension" else (x > 1.0 + 1e-3)
    assert np.all(np.asarray(sol["spring.force"])[slack] == 0.0)


def test_a_damped_rope_never_pushes():
    sol = mbd.simulate(*slider("tension", 0.9, 1.0, damping=60.0).build(), h=1e-3, t_end=0.5)
    force = np.asarray(sol["spring.force"])
    assert np.min(force) == 0.0 and np.max(force) > 20.0
    sol = mbd.simulate(*slider("compression", 1.1, -1.0, damping=60.0).build(), h=1e-3, t_end=0.5)
    assert np.max(np.asarray(sol["spring.force"])) == 0.0
    with pytest.raises(ValueError, match="only must be one of"):
        slider("pull", 0.9, 1.0).build()


AXES = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]])  # as rows, of any length
NUMBERS = {
    "stiffness": (100.0, 200.0, 300.0),
    "rotational_stiffness": (4.0, 5.0, 6.0),
    "damping": (1.0, 2.0, 3.0),
    "rotational_damping": (0.4, 0.5, 0.6),
    "preload": (7.0, 0.0, -2.0),
    "preload_torque": (0.0, 0.3, 0.0),
}


def bushed():
    m = mbd.Mechanism("bushed", gravity=(0, 0, 0))
    m.add_body("a", mass=1.0, inertia=(1, 1, 1), r=(0.3, 0.1, 0.0))
    m.add_body("b", mass=1.0, inertia=(1, 1, 1), r=(0.7, -0.1, 0.2))
    m.add(mbd.Bushing("mount", "a", "b", point=(0.5, 0.0, 0.0), axes=AXES, **NUMBERS))
    return m.build()


def element(system):
    return jax.tree.map(lambda x: x[0], system.forces[0].force)


@pytest.mark.parametrize("k", range(3))
def test_a_bushing_answers_in_all_six_directions(k):
    system, state = bushed()
    axes, unit = AXES / np.linalg.norm(AXES, axis=1)[:, None], np.eye(3)[k]
    zero = jnp.zeros((2, 3))
    at = mbd.Pose(state.r.at[1].add(0.01 * axes[k]), state.A)
    force, torque = element(system).wrench(at, mbd.Twist(zero, zero), jnp.zeros(()))
    expected = np.array(NUMBERS["preload"]) - 0.01 * np.array(NUMBERS["stiffness"]) * unit
    np.testing.assert_allclose(force[1], axes.T @ expected, atol=1e-12)
    # A turn about an axis through the bushing.
    turn = so3.exp(jnp.asarray(0.02 * axes[k]))
    point = np.array([0.5, 0.0, 0.0])
    at = mbd.Pose(state.r.at[1].set(point + turn @ (state.r[1] - point)), state.A.at[1].set(turn))
    _, torque = element(system).wrench(at, mbd.Twist(zero, zero), jnp.zeros(()))
    arm = point - at.r[1]
    moment = axes.T @ (
        np.array(NUMBERS["preload_torque"])
        - 0.02 * np.array(NUMBERS["rotational_stiffness"]) * unit
    ) + np.cross(arm, axes.T @ np.array(NUMBERS["preload"]))
    np.testing.assert_allclose(turn @ torque[1], moment, atol=1e-12)
    # Rates, with nothing displaced.
    v = zero.at[1].set(0.1 * axes[k])
    force, _ = element(system).wrench(state.pose, mbd.Twist(v, zero), jnp.zeros(()))
    expected = np.array(NUMBERS["preload"]) - 0.1 * np.array(NUMBERS["damping"]) * unit
    np.testing.assert_allclose(force[1], axes.T @ expected, atol=1e-12)


def test_the_springs_of_a_bushing_have_a_potential_and_balance_each_other():
    """Virtual work at large random turns, and the sum of forces and moments."""
    system, state = bushed()
    rng = np.random.default_rng(0)
    still = jax.tree.map(jnp.zeros_like, element(system))
    mount = element(system)
    for name in ("damping", "rotational_damping", "preload_torque"):
        mount = dataclasses.replace(mount, **{name: getattr(still, name)})
    for _ in range(5):
        A = jax.vmap(so3.exp)(jnp.asarray(rng.normal(size=(2, 3))) * 0.8)
        pose = mbd.Pose(state.r + 0.2 * rng.normal(size=(2, 3)), A)
        zero = jnp.zeros((2, 3))
        force, torque = mount.wrench(pose, mbd.Twist(zero, zero), jnp.zeros(()))
        moved = jnp.asarray(rng.normal(size=(2, 3))), jnp.asarray(rng.normal(size=(2, 3)))

        def energy(s, pose=pose, moved=moved):
            turned = pose.A @ jax.vmap(so3.exp)(s * moved[1])
            return mount.potential(mbd.Pose(pose.r + s * moved[0], turned))

        work = jnp.sum(force * moved[0]) + jnp.sum(torque * moved[1])
        np.testing.assert_allclose(work, -jax.grad(energy)(0.0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(jnp.sum(force, 0), 0.0, atol=1e-11)
        moments = jnp.cross(pose.r, force) + jnp.einsum("bij,bj->bi", A, torque)
        np.testing.assert_allclose(jnp.sum(moments, 0), 0.0, atol=1e-11)
