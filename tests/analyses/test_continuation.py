"""Continuation: limit and branch points against closed forms, switching, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import jaxmbd as mbd

G = 9.81
LOCATED = 1e-6  # special points, relative


def truss(load, height=0.3, half=1.0, stiffness=1000.0):
    """Von Mises' truss: a block on an upright rail between two inclined springs."""
    m = mbd.Mechanism("truss", gravity=(0, 0, 0))
    block = m.add_body("block", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0, 0, height))
    m.add(mbd.Translational("rail", m.ground, block, point=(0, 0, height), axis=(0, 0, 1)))
    for name, side in (("left", -1.0), ("right", 1.0)):
        m.add(
            mbd.SpringDamper(
                name,
                m.ground,
                block,
                point_i=(side * half, 0, 0),
                point_j=(0, 0, height),
                stiffness=stiffness,
                free_length=float(np.hypot(half, height)),
            )
        )
    m.add(mbd.PointForce("load", block, force=(0, 0, -load)))
    return m.build()


def truss_load(z, height=0.3, half=1.0, stiffness=1000.0):
    length = np.hypot(half, z)
    return -2 * stiffness * (length - np.hypot(half, height)) * z / length


@pytest.mark.essential
def test_a_truss_snaps_through_two_limit_points():
    path = mbd.continuation(truss, (0.0, 60.0), step=0.1)
    z = path.r[:, 0, 2]
    np.testing.assert_allclose(path.parameter, truss_load(z), atol=1e-8)
    top = minimize_scalar(
        lambda z: -truss_load(z), bounds=(0.0, 0.3), method="bounded", options={"xatol": 1e-12}
    )
    assert [p.kind for p in path.points] == ["limit", "limit"]
    first, second = path.limits
    np.testing.assert_allclose(first.parameter, -top.fun, rtol=LOCATED)
    np.testing.assert_allclose(second.parameter, top.fun, rtol=LOCATED)
    assert first.body == "block"
    between = (z < first.state.r[0, 2]) & (z > second.state.r[0, 2])
    np.testing.assert_array_equal(path.stable, ~between)
    assert path.complete and path.parameter[-1] == 60.0
    with pytest.raises(mbd.EquilibriumError, match="lets 'block' go.*limit point.*continuation"):
        mbd.equilibrium(*truss(1.02 * first.parameter), unstable=True)
    # The search for a rest snaps through where the limit point is passed.
    snapped = mbd.equilibrium(*truss(1.01 * first.parameter))
    assert snapped.state.r[0, 2] < -0.3


def strut(load, stiffness=50.0, length=0.5):
    """Two upright links with torsional springs at their pins, pressed down at the top."""
    m = mbd.Mechanism("strut", gravity=(0, 0, 0))
    previous = m.ground
    for k in range(2):
        link = m.add_body(
            f"link {k}", mass=1.0, inertia=(0.1, 0.1, 0.01), r=(0, 0, length * (k + 0.5))
        )
        pin = (0, 0, length * k)
        m.add(mbd.Revolute(f"pin {k}", previous, link, point=pin, axis=(0, 1, 0)))
        m.add(
            mbd.TorsionalSpringDamper(
                f"spring {k}", previous, link, axis=(0, 1, 0), stiffness=stiffness
            )
        )
        previous = link
    m.add(mbd.PointForce("load", previous, force=(0, 0, -load), point=(0, 0, 2 * length)))
    return m.build()


# c [[2, -1], [-1, 1]] = P l [[1, 0], [0, 1]] in the absolute angles of the links
CRITICAL = 50.0 / 0.5 * np.array([(3 - 5**0.5) / 2, (3 + 5**0.5) / 2])


@pytest.mark.slow
def test_a_strut_buckles_at_two_branch_points_and_its_bent_branch_is_found():
    path = mbd.continuation(strut, (0.0, 300.0), step=0.1)
    found = [p.parameter for p in path.branches]
    np.testing.assert_allclose(found, CRITICAL, rtol=LOCATED)
    assert [p.kind for p in path.points] == ["branch", "branch"]
    assert path.unstable[0] == 0 and path.unstable[-1] == 2
    bent = path.switch(0, parameter=(0.0, 60.0))
    assert bent.stable[-1] and abs(bent.r[-1, 1, 0]) > 0.1
    # On the bent branch the lower link's angle a and the upper one's b satisfy
    # c (2a - b) = P l sin a, c (b - a) = P l sin b.
    c, s = bent.A[-1, :, 0, 0], -bent.A[-1, :, 2, 0]
    a, b = np.arctan2(s, c)
    pull = bent.parameter[-1] * 0.5
    np.testing.assert_allclose(50.0 * (2 * a - b), pull * np.sin(a), atol=1e-7)
    np.testing.assert_allclose(50.0 * (b - a), pull * np.sin(b), atol=1e-7)


def governor(rate):
    m = mbd.Mechanism("governor", gravity=(0, 0, -G))
    shaft = m.add_body("shaft", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.Revolute("bearing", m.ground, shaft, point=(0, 0, 0), axis=(0, 0, 1)))
    ball = m.add_body("ball", mass=2.0, inertia=(0.02, 0.021, 0.003), r=(0, 0, -0.5))
    m.add(mbd.Revolute("pin", shaft, ball, point=(0, 0, 0), axis=(0, 1, 0)))
    return m.build()


@pytest.mark.slow
def test_a_governor_opens_at_its_bifurcation():
    path = mbd.continuation(governor, (1.0, 8.0), step=0.1, spin=lambda rate: ((0, 0, 1), rate))
    across = 2.0 * 0.25 + 0.02 - 0.003
    critical = np.sqrt(2.0 * G * 0.5 / across)
    np.testing.assert_allclose([p.parameter for p in path.branches], [critical], rtol=LOCATED)
    assert path.branches[0].body == "ball"
    opened = path.switch(0)
    lean = np.arctan2(np.hypot(*opened.r[1:, 1, :2].T), -opened.r[1:, 1, 2])
    rate = opened.parameter[1:]
    np.testing.assert_allclose(np.cos(lean), critical**2 / rate**2, atol=1e-9)
    assert opened.stable[1:].all() and opened.complete


def test_what_cannot_be_followed_is_refused_by_name():
    with pytest.raises(ValueError, match="two different numbers"):
        mbd.continuation(strut, (1.0, 1.0))
    with pytest.raises(mbd.EquilibriumError, match="'truss'.*max_points"):
        mbd.continuation(truss, (0.0, 60.0), max_points=3)
    short = mbd.continuation(truss, (0.0, 60.0), max_points=3, throw=False)
    assert len(short.parameter) == 3 and not short.complete
    with pytest.raises(ValueError, match="0 branch points"):
        short.switch(0)


@pytest.mark.slow
def test_a_strut_has_the_buckling_loads_of_its_branch_points():
    found = mbd.buckling(*strut(2.0), count=2)
    np.testing.assert_allclose(found.factor, CRITICAL / 2.0, rtol=1e-10)
    lower, upper = found.shapes[0, :, 4]
    # (2 - c) a = b with c = P l / k of the first mode
    np.testing.assert_allclose(upper / lower, 2.0 - (3 - 5**0.5) / 2, rtol=1e-8)


@pytest.mark.slow
def test_a_buckling_load_has_derivatives():
    def load(x):
        return mbd.buckling(*strut(1.0, x[0], x[1]), freedoms=2).factor[0]

    slopes = jax.jit(jax.jacfwd(load))(jnp.array([50.0, 0.5]))
    np.testing.assert_allclose(slopes, [CRITICAL[0] / 50.0, -CRITICAL[0] / 0.5], rtol=1e-8)
