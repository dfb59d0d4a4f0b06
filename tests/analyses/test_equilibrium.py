"""Equilibrium: closed forms, motions that stay steady, stability, derivatives, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import jaxmbd as mbd

G = 9.81
EXACT = 1e-10  # relative, of closed forms and of what may be left of the loads


def chain(n, span=0.8, total=1.0):
    """Links in a straight line along x; the end of the last is held where the line has not come."""
    m = mbd.Mechanism("chain", gravity=(0, 0, -G))
    length, previous = total / n, m.ground
    for k in range(n):
        link = m.add_body(
            f"link {k}",
            mass=1.0 / n,
            inertia=(1e-7, length**2 / n / 12, length**2 / n / 12),
            r=(length * (k + 0.5), 0, 0),
        )
        m.add(mbd.Revolute(f"pin {k}", previous, link, point=(length * k, 0, 0), axis=(0, 1, 0)))
        previous = link
    held = [
        mbd.CD(c=c, s_i_bar=(span, 0, 0), s_j_bar=(length / 2, 0, 0))
        for c in ((1, 0, 0), (0, 0, 1))
    ]
    m.add(mbd.Constraint("end", m.ground, previous, primitives=held))
    return m.build()


def hung_links(n, span=0.8, total=1.0, mass=1.0):
    """Inclinations of a hanging chain of n equal links, by minimal coordinates: link k carries the
    horizontal pull H and the weight of what hangs below, tan φ_k = (w/H) (k - (n - 1)/2)."""
    length, w = total / n, mass * G / n
    slopes = np.arange(n) - 0.5 * (n - 1)

    def width(pull):
        return np.sum(length / np.sqrt(1.0 + (w * slopes / pull) ** 2)) - span

    pull = brentq(width, 1e-3, 1e3, xtol=1e-14)
    return np.arctan(w * slopes / pull), pull


@pytest.mark.essential
@pytest.mark.filterwarnings("ignore::jaxmbd.AssemblyWarning")
def test_a_chain_of_64_links_hangs_as_its_force_polygon_says():
    n = 64
    system, state = chain(n)
    found = mbd.equilibrium(system, state)
    assert int(found.iterations) <= 30
    assert float(found.residual) <= EXACT
    angles, pull = hung_links(n)
    steps = np.stack([np.cos(angles), np.sin(angles)], axis=1) / n
    centers = np.cumsum(steps, axis=0) - 0.5 * steps
    np.testing.assert_allclose(found.state.r[:, [0, 2]], centers, atol=1e-10)
    np.testing.assert_allclose(np.abs(found.reactions()["end"].force[0, 0]), pull, rtol=1e-8)
    assert found.stability().stable


@pytest.mark.slow
def test_the_sag_of_a_chain_converges_to_the_catenary_at_second_order():
    """On the force polygon itself, which the chains of this file follow to rounding."""
    a = brentq(lambda a: 2 * a * np.sinh(0.4 / a) - 1.0, 0.05, 10.0, xtol=1e-15)
    sag = a * np.cosh(0.4 / a) - a

    def error(n):
        angles, _ = hung_links(n)
        return abs(-np.min(np.cumsum(np.sin(angles)) / n) - sag)

    system, state = chain(8)
    with pytest.warns(mbd.AssemblyWarning):
        found = mbd.equilibrium(system, state)
    angles, _ = hung_links(8)
    heights = np.cumsum(np.sin(angles)) / 8 - 0.5 * np.sin(angles) / 8
    np.testing.assert_allclose(found.state.r[:, 2], heights, atol=1e-10)
    order = np.log2(error(16) / error(64)) / 2
    assert abs(order - 2.0) < 0.1


def governor(mass=2.0, arm=0.5, J=(0.02, 0.021, 0.003), lean=0.6):
    m = mbd.Mechanism("governor", gravity=(0, 0, -G))
    shaft = m.add_body("shaft", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.Revolute("bearing", m.ground, shaft, point=(0, 0, 0), axis=(0, 0, 1)))
    for name, side in (("left", -1.0), ("right", 1.0)):
        c, s = np.cos(lean), side * np.sin(lean)
        A = np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
        ball = m.add_body(name, mass=mass, inertia=J, r=arm * np.array([s, 0.0, -c]), A=A)
        m.add(mbd.Revolute(f"pin {name}", shaft, ball, point=(0, 0, 0), axis=(0, 1, 0)))
    return m.build()


def governor_cosine(rate, mass=2.0, arm=0.5, J=(0.02, 0.021, 0.003)):
    """m g l sinθ = (m l² + Jx - Jz) ω² sinθ cosθ."""
    return mass * G * arm / ((mass * arm**2 + J[0] - J[2]) * rate**2)


@pytest.mark.essential
def test_a_flyball_governor_opens_as_the_closed_form_says_and_turns_on_steadily():
    system, state = governor()
    for rate in (3.0, 4.6, 6.0, 10.0):
        found = mbd.equilibrium(system, state, spin=((0, 0, 1), rate))
        r = np.asarray(found.state.r)[1:]
        angle = np.arctan2(np.hypot(r[:, 0], r[:, 1]), -r[:, 2])
        expected = np.arccos(min(governor_cosine(rate), 1.0))
        # Without stiffness to first order, where it bends away, the angle is known to the root.
        np.testing.assert_allclose(angle, expected, atol=EXACT)
        assert float(found.residual) <= EXACT
    sol = mbd.simulate(system, found.state, h=2e-3, t_end=0.5, integrator=mbd.MuntheKaas())
    assert np.ptp(np.asarray(sol.r)[:, 1:, 2], axis=0).max() < 1e-8
    np.testing.assert_allclose(found.state.v[0], 0.0, atol=1e-15)


def test_derivatives_of_a_steady_rotation_are_those_of_the_closed_form():
    def height(x):
        system, state = governor(x[0], x[1])
        return mbd.equilibrium(system, state, spin=((0, 0, 1), x[2])).state.r[1, 2]

    def closed(x):
        return -x[1] * governor_cosine(x[2], x[0], x[1])

    x = jnp.array([2.0, 0.5, 6.0])
    several = jnp.stack([x, 1.1 * x, 0.9 * x])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(height)))(several)
    np.testing.assert_allclose(values, jax.vmap(closed)(several), rtol=EXACT)
    np.testing.assert_allclose(slopes, jax.vmap(jax.grad(closed))(several), rtol=1e-9)


def pendulum(angles, follower=0.0, stiffness=0.0):
    """Rods in a row that lean by absolute angles from hanging, springs at their pins."""
    m = mbd.Mechanism("rods", gravity=(0, 0, -G))
    previous, point = m.ground, np.zeros(3)
    for k, angle in enumerate(angles):
        c, s = np.cos(angle), np.sin(angle)
        way = np.array([0.0, s, -c])
        A = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
        rod = m.add_body(f"rod {k}", mass=2.0, inertia=(0.2, 0.2, 0.05), r=point + 0.5 * way, A=A)
        m.add(mbd.Revolute(f"pin {k}", previous, rod, point=point, axis=(1, 0, 0)))
        if stiffness:
            m.add(
                mbd.TorsionalSpringDamper(
                    f"spring {k}", previous, rod, axis=(1, 0, 0), stiffness=stiffness
                )
            )
        previous, point = rod, point + way
    if follower:
        load = {"force": (0, 0, follower), "frame": "body"}
        m.add(mbd.PointForce("follower", previous, point=point, **load))
    return m.build()


@pytest.mark.parametrize("lean", [1.5, 3.1])
def test_rods_fall_to_hang_straight_down_from_anywhere(lean):
    found = mbd.equilibrium(*pendulum([lean, lean, lean]))
    np.testing.assert_allclose(found.state.r[:, 2], [-0.5, -1.5, -2.5], atol=1e-9)
    judged = found.stability()
    assert judged.stable and judged.indifferent == 0
    frequencies = np.sqrt(judged.stiffness.real)
    # rod 0 of the row swings with the others as linearize says
    system, _ = pendulum([lean, lean, lean])
    lin = np.sort(np.abs(mbd.linearize(system, found.state).modes().eigenvalues))
    np.testing.assert_allclose(np.sort(frequencies), lin, rtol=1e-9)


def test_an_unstable_balance_is_found_on_request_and_told():
    system, state = pendulum([3.0, 0.2])
    found = mbd.equilibrium(system, state, unstable=True)
    np.testing.assert_allclose(found.state.r[:, 2], [0.5, 0.5], atol=1e-9)
    judged = found.stability()
    growing = mbd.linearize(system, found.state).modes().eigenvalues.real
    assert judged.unstable == np.sum(growing > 1e-6) == 1


def test_a_follower_force_has_an_unsymmetric_stiffness_with_the_eigenvalues_of_the_motion():
    system, state = pendulum([0.0, 0.0], follower=30.0, stiffness=40.0)
    found = mbd.equilibrium(system, state)
    judged = found.stability()
    A = np.asarray(mbd.linearize(system, found.state).A)
    expected = np.sort_complex(np.linalg.eigvals(-A[2:, :2]))
    np.testing.assert_allclose(np.sort_complex(judged.stiffness), expected, rtol=1e-8)
    with pytest.raises(ValueError, match="has no potential"):
        mbd.modes(system, found)


def test_a_spring_wound_over_three_turns_is_balanced_by_its_torque():
    m = mbd.Mechanism("winch", gravity=(0, 0, 0))
    drum = m.add_body("drum", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.Revolute("bearing", m.ground, drum, point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.TorsionalSpringDamper("spring", m.ground, drum, axis=(0, 0, 1), stiffness=2.0))
    m.add(mbd.Torque("load", drum, torque=(0, 0, 40.0)))
    found = mbd.equilibrium(*m.build())
    np.testing.assert_allclose(found.motion.joint("bearing").angle, 20.0, rtol=1e-12)


def test_a_wheel_that_turns_freely_stays_where_it_is():
    m = mbd.Mechanism("wheel on an arm", gravity=(0, 0, -G))
    arm = m.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.01), r=(0.3, 0, -0.4))
    wheel = m.add_body("wheel", mass=2.0, inertia=(0.1, 0.2, 0.1), r=(0.6, 0, -0.8))
    m.add(mbd.Revolute("pin", m.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Revolute("hub", arm, wheel, point=(0.6, 0, -0.8), axis=(0, 1, 0)))
    system, state = m.build()
    found = mbd.equilibrium(system, state)
    np.testing.assert_allclose(found.state.r, [[0, 0, -0.5], [0, 0, -1.0]], atol=1e-9)
    assert found.stability().indifferent == 1


@pytest.mark.slow
def test_a_rolling_ball_rests_against_its_spring():
    """Rolling constrains velocities; static friction holds the ball on its slope."""
    m = mbd.Mechanism("ball", gravity=(3.0, 0, -G))
    ball = m.add_body("ball", mass=2.0, inertia=(0.03, 0.03, 0.03), r=(0, 0, 0.2))
    m.add(
        mbd.RollingSphere("rolling", m.ground, ball, point=(0, 0, 0), normal=(0, 0, 1), radius=0.2)
    )
    m.add(
        mbd.SpringDamper(
            "spring", m.ground, ball, point_i=(-1, 0, 0.2), point_j=(0, 0, 0.2), stiffness=50.0
        )
    )
    system, state = m.build()
    found = mbd.equilibrium(system, state)
    np.testing.assert_allclose(found.state.r[0], [2.0 * 3.0 / 50.0, 0, 0.2], atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jaxmbd.AssemblyWarning")
def test_drivers_are_held_and_loads_come_in_steps():
    m = mbd.Mechanism("driven", gravity=(0, 0, -G))
    crank = m.add_body("crank", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0.5, 0, 0))
    rod = m.add_body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(1.5, 0, 0))
    m.add(mbd.Revolute("bearing", m.ground, crank, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Revolute("pin", crank, rod, point=(1, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.RotationDriver("motor", m.ground, crank, axis=(0, 1, 0), angle=lambda t: -0.25 * t))
    system, state = m.build()
    one = mbd.equilibrium(system, state, t=0.4)
    np.testing.assert_allclose(one.state.r[1], [np.cos(0.1), 0, np.sin(0.1) - 0.5], atol=1e-9)
    torque = one.reactions()["motor"].moment[0, 1]
    np.testing.assert_allclose(abs(torque), 1.5 * G * np.cos(0.1), rtol=1e-9)
    several = mbd.equilibrium(system, state, t=0.4, load_steps=5)
    np.testing.assert_allclose(several.state.r, one.state.r, atol=1e-9)


def loose_body():
    m = mbd.Mechanism("loose", gravity=(0, 0, -G))
    m.add_body("stone", mass=1.0, inertia=(1, 1, 1))
    return m


def runaway():
    m = mbd.Mechanism("slope", gravity=(1.0, 0, -G))
    cart = m.add_body("cart", mass=1.0, inertia=(1, 1, 1))
    m.add(mbd.Translational("rail", m.ground, cart, point=(0, 0, 0), axis=(1, 0, 0)))
    return m


def stopped():
    m = runaway()
    m.add(mbd.JointLimit("buffer", "rail", upper=0.5))
    return m


def turned_on_its_side():
    m = mbd.Mechanism("wrong axis", gravity=(0, 0, -G))
    rod = m.add_body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0, 0, -0.5))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(1, 0, 0)))
    return m


@pytest.mark.parametrize(
    ("make", "options", "error", "message"),
    [
        (loose_body, {}, ValueError, "nothing holds 'stone'"),
        (runaway, {}, mbd.EquilibriumError, "runs away is 'cart'"),
        (stopped, {}, ValueError, "'buffer'"),
        (turned_on_its_side, {"spin": ((0, 0, 1), 3.0)}, mbd.EquilibriumError, "joint 'pin'"),
        (turned_on_its_side, {"spin": ((1, 0, 0), 3.0)}, mbd.EquilibriumError, "gravity"),
        (turned_on_its_side, {"spin": ((0, 0, 0), 3.0)}, ValueError, "length zero"),
        (turned_on_its_side, {"spin": 3.0}, TypeError, "pair"),
        (turned_on_its_side, {"load_steps": 0}, ValueError, "load_steps"),
    ],
    ids=lambda x: x.__name__ if callable(x) else str(x)[:20],
)
def test_impossible_requests_are_refused_by_name(make, options, error, message):
    with pytest.raises(error, match=message):
        mbd.equilibrium(*make().build(), **options)
