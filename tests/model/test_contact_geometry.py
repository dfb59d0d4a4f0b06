"""Gaps, normals and nearest points of pairs of shapes against convex optimization over random
poses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import lsq_linear

import jaxmbd as mbd
from jaxmbd.model.state import Pose, Twist

BALL = mbd.Sphere(0.2, mass=1.0)
CAPSULE = mbd.Capsule(0.1, 0.6, mass=1.0, axis="y")
SHORT = mbd.Capsule(0.15, 0.3, mass=1.0, axis="x")
BOX = mbd.Box((0.4, 0.6, 0.8), mass=1.0)
PLATE = mbd.Box((1.0, 0.8, 0.1), mass=1.0)
PAIRS = {
    "ball, ball": (BALL, BALL),
    "ball, capsule": (BALL, CAPSULE),
    "capsule, ball": (CAPSULE, BALL),
    "capsule, capsule": (CAPSULE, SHORT),
    "capsule, box": (CAPSULE, BOX),
    "box, capsule": (PLATE, SHORT),
    "ball, box": (BALL, BOX),
    "box, ball": (BOX, BALL),
    "box, box": (BOX, PLATE),
}


def law_of(shape_i, shape_j):
    m = mbd.Mechanism("pair")
    i = m.add_body("i", shape=shape_i)
    j = m.add_body("j", shape=shape_j, r=(5.0, 0, 0))
    m.add(mbd.Contact("c", i, j))
    stack = m.build()[0].laws[0]
    return jax.tree.map(lambda x: x[0], stack.law)


def core_of(shape):
    """Half the edges of the box that a shape surrounds, and at which distance."""
    if isinstance(shape, mbd.Sphere):
        return np.zeros(3), float(shape.radius)
    if isinstance(shape, mbd.Capsule):
        along = np.eye(3)["xyz".index(shape.axis)]
        return 0.5 * float(shape.length) * along, float(shape.radius)
    return 0.5 * np.asarray(shape.size), 0.0


def nearest(r, A, shape_i, shape_j):
    """Distance of two shapes, and the nearest points of their cores, by bounded least squares."""
    (h_i, r_i), (h_j, r_j) = core_of(shape_i), core_of(shape_j)
    matrix = np.concatenate([A[0] * h_i, -A[1] * h_j], axis=1)
    found = lsq_linear(matrix, r[1] - r[0], (-1.0, 1.0), method="bvls", tol=1e-15)
    p, q = r[0] + A[0] @ (h_i * found.x[:3]), r[1] + A[1] @ (h_j * found.x[3:])
    return np.linalg.norm(p - q) - r_i - r_j, p, q


def random_poses(rng, count):
    """Two bodies that are near each other."""
    r, A = rng.normal(size=(count, 2, 3)), np.linalg.qr(rng.normal(size=(count, 2, 3, 3)))[0]
    A[..., 0] *= np.linalg.det(A)[..., None]
    return 0.6 * r, A


@pytest.mark.parametrize("name", PAIRS)
def test_the_least_gap_is_the_distance(name, rng):
    shapes = PAIRS[name]
    law = law_of(*shapes)
    witness = jax.jit(jax.vmap(lambda r, A: law.pair.witness(Pose(r, A))))
    alone = jax.jit(lambda r, A: law.gaps(Pose(r, A)))
    r, A = random_poses(rng, 400)
    gaps, normals, on_i, on_j = map(np.asarray, witness(r, A))
    np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1.0, atol=1e-12)
    apart, off, depth = 0, [], 1e-4
    for k in range(len(r)):
        distance, p, q = nearest(r[k], A[k], *shapes)
        # Cores that overlap have no direction; what is nearly so suffers from rounding.
        if np.linalg.norm(p - q) < 1e-3:
            assert np.min(gaps[k]) < 1e-2
            continue
        apart += 1
        assert np.min(gaps[k]) == pytest.approx(distance, abs=1e-9)
        place = np.argmin(gaps[k])
        n = (p - q) / np.linalg.norm(p - q)
        assert normals[k, place] @ n == pytest.approx(1.0, abs=1e-6)
        # The points lie on the surfaces, a gap apart along the normal.
        step = on_i[k, place] - on_j[k, place]
        np.testing.assert_allclose(step, gaps[k, place] * n, atol=1e-6)
        # A little inside, the gap is the depth.
        moved = r[k].copy()
        moved[0] -= (distance + depth) * n
        off.append(np.min(alone(moved, A[k])) + depth)
    assert apart > 100
    assert np.min(off) > -2e-6
    # Corners and edges of two boxes that meet at an angle enter a face less deep than that.
    assert np.max(off) < (depth if name == "box, box" else 2e-6)


@pytest.mark.parametrize("name", PAIRS)
def test_rates_are_those_of_the_gaps(name, rng):
    law = law_of(*PAIRS[name])
    r, A = random_poses(rng, 50)
    v, omega = rng.normal(size=(2, 50, 2, 3))

    def both(r, A, v, omega):
        turn = A @ jax.vmap(lambda w: jnp.cross(jnp.eye(3), w[None]))(omega)
        gaps, slope = jax.jvp(lambda r, A: law.gaps(Pose(r, A)), (r, A), (v, turn))
        return gaps, slope, law.rates(Pose(r, A), Twist(v, omega))[:, 0]

    gaps, slope, rate = jax.jit(jax.vmap(both))(*map(jnp.asarray, (r, A, v, omega)))
    # Edges that do not touch have a constant gap.
    keep = (np.asarray(gaps) < 0.99) | (name != "box, box")
    np.testing.assert_allclose(np.where(keep, slope - rate, 0.0), 0.0, atol=1e-9)


def test_a_clearance_is_a_circle_or_a_ball(rng):
    for axis in (None, (0.0, 1.0, 0.0)):
        m = mbd.Mechanism("play")
        b = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0), r=(0.3, 0, 0))
        m.add(mbd.Clearance("pin", b, m.ground, play=0.01, radius=0.05, point=(0, 0, 0), axis=axis))
        stack = m.build()[0].laws[0]
        law = jax.tree.map(lambda x: x[0], stack.law)
        r, A = jnp.array([[0.304, 0.02, 0.003], [0.0, 0, 0]]), jnp.stack([jnp.eye(3)] * 2)
        gap, n, on_i, on_j = law.pair.witness(Pose(r, A))
        aside = np.array([0.004, 0.02 if axis is None else 0.0, 0.003])
        distance = np.linalg.norm(aside)
        assert gap[0] == pytest.approx(0.01 - distance, abs=1e-12)
        np.testing.assert_allclose(n[0], -aside / distance, atol=1e-12)
        center = np.array([0.004, 0.02, 0.003])
        np.testing.assert_allclose(on_i[0], center + 0.05 * aside / distance, atol=1e-12)
        np.testing.assert_allclose(on_i[0] - on_j[0], gap[0] * n[0], atol=1e-12)
    with pytest.raises(ValueError, match="play must be positive.*use a Spherical joint"):
        m = mbd.Mechanism("none")
        b = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0))
        m.add(mbd.Clearance("pin", b, m.ground, play=0.0, radius=0.05, point=(0, 0, 0)))
        m.build()


def test_the_point_of_a_plane_beside_a_shape_is_refused():
    """It had no effect."""
    m = mbd.Mechanism("two")
    m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 1))
    m.add_body("table", shape=mbd.Box((1, 1, 0.1), mass=1.0))
    with pytest.raises(ValueError, match="'c': point is that of a plane, and body 'table' touches"):
        m.add(mbd.Contact("c", "ball", "table", point=(0.0, 0.0, 1.0)))
    m.add(mbd.Contact("d", "ball", "table", normal=(0, 0, 1), point=(0, 0, 0.05)))
    m.build()
