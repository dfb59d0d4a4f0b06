"""Gears, belts, racks, screws and couplers against Willis's equation and minimal coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.outcomes import RESULTS

Z, ORIGIN = (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
WHEEL = (1e-3, 1e-3, 2e-3)


def planetary(*, torque=0.1, ring_held=False):
    """Sun 20, planet 20 and ring 60 teeth; the planet runs on an arm."""
    m = mbd.Mechanism("planetary", gravity=(0.0, 0.0, 0.0))
    sun = m.add_body("sun", mass=1.0, inertia=WHEEL)
    arm = m.add_body("arm", mass=1.0, inertia=WHEEL, r=(0.15, 0.0, 0.0))
    planet = m.add_body("planet", mass=0.5, inertia=WHEEL, r=(0.3, 0.0, 0.0))
    ring = m.add_body("ring", mass=2.0, inertia=(2e-2, 2e-2, 4e-2))
    for name, body in (("sun", sun), ("arm", arm), ("ring", ring)):
        m.add(mbd.Revolute(f"{name} bearing", m.ground, body, point=ORIGIN, axis=Z))
    m.add(mbd.Revolute("planet bearing", arm, planet, point=(0.3, 0.0, 0.0), axis=Z))
    m.add(mbd.Gear("outer", sun, planet, axis_i=Z, ratio=-20 / 20))
    m.add(mbd.Gear("inner", ring, planet, axis_i=Z, ratio=60 / 20))
    if ring_held:
        m.add(mbd.RotationDriver("brake", m.ground, ring, axis=Z, angle=lambda t: 0.0 * t))
    m.add(mbd.Torque("motor", sun, torque=(0.0, 0.0, torque)))
    return m


@pytest.mark.parametrize(
    "formulation",
    [
        pytest.param(mbd.RA(), marks=pytest.mark.essential),
        pytest.param(mbd.RP(), marks=pytest.mark.slow),
        pytest.param(mbd.REps(), marks=pytest.mark.slow),
    ],
    ids=["rA", "rp", "reps"],
)
def test_a_planetary_set_follows_willis(formulation):
    system, state = planetary().build()
    found = mbd.mobility(system, state)
    assert (found.freedoms, found.redundant_rows) == (2, 0)
    sol = mbd.simulate(system, state, t_end=1.0, h=1e-2, formulation=formulation)
    sun, arm, ring, planet = (
        np.asarray(sol.joint(f"{name} bearing").angle) for name in ("sun", "arm", "ring", "planet")
    )
    assert sun[-1] > 2.0 * np.pi
    assert np.max(np.abs((sun - arm) * (-20 / 60) - (ring - arm))) < 1e-12 * sun[-1]
    assert np.max(np.abs(-(sun - arm) - planet)) < 1e-12 * sun[-1]


def test_a_planetary_set_accelerates_as_in_minimal_coordinates():
    # With the ring held: angle of the arm = sun / 4, planet relative to the ground = -sun / 2.
    # Inertia reduced to the sun: J_s + (J_a + m_a r_a² + m_p r_p²) / 16 + J_p / 4.
    system, state = planetary(ring_held=True).build()
    reduced = 2e-3 + (2e-3 + 1.0 * 0.15**2 + 0.5 * 0.3**2) / 16 + 2e-3 / 4
    found = mbd.accelerations(system, state)
    assert np.isclose(found.alpha[0, 2], 0.1 / reduced, rtol=1e-9)
    # The tooth force at the planet, from its own balance: two meshes at radii 0.15 m.
    alpha = 0.1 / reduced
    sol = mbd.simulate(system, state, h=1e-4, steps=1)
    reactions = sol.reactions()
    outer, inner = (np.asarray(reactions[name].moment[0, 2]) for name in ("outer", "inner"))
    assert np.isclose(outer + inner, 2e-3 * (-alpha / 2), rtol=1e-8)
    # The bearing of the planet carries both tooth forces: its mass moves with the arm.
    forces = sum(np.asarray(reactions[n].force[0]) for n in ("outer", "inner", "planet bearing"))
    assert np.isclose(forces[1], 0.5 * 0.3 * alpha / 4, rtol=1e-8)
    # A tooth force presses at the pitch circle: moment = radius × force.
    assert np.isclose(abs(outer), 0.15 * abs(float(reactions["outer"].force[0, 1])), rtol=1e-12)


@pytest.mark.essential
def test_a_ratio_holds_after_a_thousand_turns():
    m = mbd.Mechanism("pair", gravity=(0.0, 0.0, 0.0))
    speed = 2.0 * np.pi * 1000.0
    small = m.add_body("small", mass=1.0, inertia=WHEEL, omega=(0.0, 0.0, speed))
    large = m.add_body("large", mass=1.0, inertia=WHEEL, r=(0.5, 0.0, 0.0))
    m.add(mbd.Revolute("in", m.ground, small, point=ORIGIN, axis=Z))
    m.add(mbd.Revolute("out", m.ground, large, point=(0.5, 0.0, 0.0), axis=Z))
    m.add(mbd.Gear("mesh", small, large, axis_i=Z, ratio=-17 / 41))
    system, state = m.build()
    # A third of a turn a step.
    sol = mbd.simulate(system, state, t_end=1.0, h=1 / 3000)
    first, second = (np.asarray(sol.joint(name).angle) for name in ("in", "out"))
    assert first[-1] > 2.0 * np.pi * 800  # the second gear slows it down at the start
    assert np.max(np.abs(second + 17 / 41 * first)) < 1e-12 * first[-1]


def differential():
    m = mbd.Mechanism("differential", gravity=(0.0, 0.0, 0.0))
    y, x = (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)
    case = m.add_body("case", mass=5.0, inertia=(0.1, 0.2, 0.1))
    left = m.add_body("left", mass=1.0, inertia=(1e-2, 2e-2, 1e-2), r=(0.0, 0.1, 0.0))
    right = m.add_body("right", mass=1.0, inertia=(2e-2, 3e-2, 2e-2), r=(0.0, -0.1, 0.0))
    pinion = m.add_body("pinion", mass=0.2, inertia=(2e-4, 1e-4, 1e-4), r=(0.1, 0.0, 0.0))
    for body in (case, left, right):
        m.add(mbd.Revolute(f"{body.name} bearing", m.ground, body, point=body.r, axis=y))
    m.add(mbd.Revolute("pinion bearing", case, pinion, point=(0.1, 0.0, 0.0), axis=x))
    teeth = {"axis_i": y, "axis_j": x, "point_j": (0.125, 0.0, 0.0)}
    m.add(mbd.Gear("left mesh", left, pinion, ratio=-1.25, **teeth))
    m.add(mbd.Gear("right mesh", right, pinion, ratio=1.25, **teeth))
    m.add(mbd.Torque("engine", case, torque=(0.0, 1.0, 0.0)))
    m.add(mbd.Torque("grip", left, torque=(0.0, -0.2, 0.0)))
    return m


def test_a_differential_halves_torque_and_adds_speeds():
    system, state = differential().build()
    assert mbd.mobility(system, state).freedoms == 2
    sol = mbd.simulate(system, state, t_end=1.0, h=5e-3)
    case, left, right, pinion = (
        np.asarray(sol.joint(f"{n} bearing").angle) for n in ("case", "left", "right", "pinion")
    )
    assert np.max(np.abs(left + right - 2.0 * case)) < 1e-12 * case[-1]
    assert np.max(np.abs(-1.25 * (left - case) - pinion)) < 1e-12 * case[-1]
    # Both sides get half of what the case does not take for itself: Lagrange with the rates of
    # case and of the difference d, left = c + d, right = c - d, pinion = 1.25 d about its own axis.
    carried = 0.2 + 0.2 * 0.1**2 + 1e-4
    M = np.array([[carried + 5e-2, -1e-2], [-1e-2, 5e-2 + 2e-4 * 1.25**2]])
    c, d = np.linalg.solve(M, [1.0 - 0.2, -0.2])
    found = mbd.accelerations(system, state).alpha
    assert np.allclose(found[:3, 1], [c, c + d, c - d], rtol=1e-9)


def chain_of(*elements):
    """A wheel on the ground, and what `elements` add to it."""
    m = mbd.Mechanism("drive", gravity=(0.0, 0.0, 0.0))
    wheel = m.add_body("wheel", mass=1.0, inertia=WHEEL, omega=(0.0, 0.0, 3.0))
    m.add(mbd.Revolute("axle", m.ground, wheel, point=ORIGIN, axis=Z))
    for add in elements:
        add(m, wheel)
    return m


def add_belt(m, wheel):
    other = m.add_body("other", mass=1.0, inertia=WHEEL, r=(0.6, 0.0, 0.0))
    m.add(mbd.Revolute("other axle", m.ground, other, point=other.r, axis=Z))
    m.add(mbd.Belt("belt", wheel, other, axis_i=Z, radius_i=0.1, radius_j=0.25, crossed=True))


def add_rack(m, wheel):
    rack = m.add_body("rack", mass=2.0, inertia=WHEEL, r=(0.0, -0.1, 0.0))
    m.add(mbd.Translational("guide", m.ground, rack, point=rack.r, axis=(1.0, 0.0, 0.0)))
    m.add(mbd.RackAndPinion("teeth", rack, wheel, axis=Z, along=(1.0, 0.0, 0.0), radius=-0.1))


def add_screw(m, wheel):
    nut = m.add_body("nut", mass=2.0, inertia=WHEEL, r=(0.0, 0.0, 0.4))
    m.add(mbd.Screw("thread", wheel, nut, point=ORIGIN, axis=Z, lead=0.02))
    m.add(mbd.Translational("guide", m.ground, nut, point=(0.0, 0.0, 0.4), axis=Z))


def add_coupler(m, wheel):
    slider = m.add_body("slider", mass=2.0, inertia=WHEEL, r=(1.0, 0.0, 0.0))
    m.add(mbd.Translational("guide", m.ground, slider, point=slider.r, axis=(1.0, 0.0, 0.0)))
    m.add(mbd.Coupler("law", "axle", "guide", coefficients=(0.0, 0.1, 0.02)))


DRIVES = {
    "belt": (add_belt, "other axle", "angle", lambda x: -0.4 * x, 2e-3 * 0.4**2),
    "rack": (add_rack, "guide", "displacement", lambda x: 0.1 * x, 2.0 * 0.1**2),
    "screw": (add_screw, "guide", "displacement", lambda x: -0.02 / (2 * np.pi) * x, None),
    "coupler": (add_coupler, "guide", "displacement", lambda x: 0.1 * x + 0.02 * x**2, None),
}


@pytest.mark.parametrize("drive", DRIVES)
def test_a_drive_keeps_its_law(drive):
    add, joint, coordinate, law, _ = DRIVES[drive]
    system, state = chain_of(add).build()
    assert mbd.mobility(system, state).freedoms == 1
    sol = mbd.simulate(system, state, t_end=2.0, h=1e-2)
    turned = np.asarray(sol.joint("axle").angle)
    followed = np.asarray(getattr(sol.joint(joint), coordinate))
    assert turned[-1] > 2.0 and np.max(np.abs(followed - law(turned))) < 1e-11


@pytest.mark.parametrize("drive", ["belt", "rack"])
def test_a_drive_has_the_inertia_of_what_it_moves(drive):
    add, *_, carried = DRIVES[drive]
    m = chain_of(add)
    m.add(mbd.Torque("motor", "wheel", torque=(0.0, 0.0, 0.5)))
    found = mbd.accelerations(*m.build())
    assert np.isclose(found.alpha[0, 2], 0.5 / (2e-3 + carried), rtol=1e-9)


def test_a_rack_pushes_where_the_teeth_are():
    m = chain_of(add_rack)
    m.add(mbd.PointForce("load", "rack", force=(1.0, 0.0, 0.0)))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=1e-4, steps=1)
    teeth = sol.reactions()["teeth"]
    # On the pinion: the force at its center and the moment of the same force at the pitch circle,
    # which lies below the center.
    force, moment = np.asarray(teeth.force[0]), np.asarray(teeth.moment[0])
    assert force[0] > 0.0
    assert np.allclose(np.cross([0.0, -0.1, 0.0], force), moment, atol=1e-12)


def test_the_ratio_has_a_derivative():
    def last(ratio):
        m = chain_of()
        other = m.add_body("other", mass=1.0, inertia=WHEEL, r=(0.6, 0.0, 0.0))
        m.add(mbd.Revolute("other axle", m.ground, other, point=other.r, axis=Z))
        m.add(mbd.Gear("mesh", "wheel", other, axis_i=Z, ratio=ratio))
        m.add(mbd.Torque("motor", "wheel", torque=(0.0, 0.0, 0.5)))
        return mbd.simulate(*m.build(), h=1e-2, steps=10).omega[-1, 1, 2]

    # J = 2e-3 (1 + ρ²); the wheel starts at 3 rad/s as described, and the other one follows it.
    def closed(ratio):
        return ratio * (3.0 + 0.5 * 0.1 / (2e-3 * (1.0 + ratio**2)))

    value, slope = jax.value_and_grad(last)(-0.7)
    exact, exact_slope = jax.value_and_grad(closed)(jnp.asarray(-0.7))
    assert np.isclose(value, exact, rtol=1e-9) and np.isclose(slope, exact_slope, rtol=1e-6)


def test_setting_a_joint_keeps_the_teeth_in_place():
    system, state = chain_of(add_belt).build()
    turn = 6.4 * np.pi
    moved = mbd.set_joints(
        system, state, {"axle": {"angle": turn}, "other axle": {"angle": -0.4 * turn}}
    )
    report = mbd.assemble(system, moved)[1]
    assert bool(report.closed) and float(jnp.max(report.rotation)) < 1e-9


def test_files_hold_couplings(tmp_path):
    for drive in DRIVES.values():
        m = chain_of(drive[0])
        mbd.save(m, tmp_path / "drive.json")
        again, _ = mbd.load(tmp_path / "drive.json")
        system, _ = m.build()
        assert jax.tree.all(
            jax.tree.map(lambda a, b: np.array_equal(a, b), system.constraints, again.constraints)
        )


def gear(**changes):
    m = chain_of()
    other = m.add_body("other", mass=1.0, inertia=WHEEL, r=(0.6, 0.0, 0.0))
    fields = {"axis_i": Z, "ratio": -1.0} | changes
    m.add(mbd.Gear("mesh", "wheel", other, **fields))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ratio": 0.0}, "mesh.*ratio must not be zero"),
        ({"ratio": 1.0}, "mesh.*ratio 1 .*-1"),
        ({"point_j": (0.0, 0.0, 0.3)}, "one shaft cannot mesh.*point_j"),
        (
            {"axis_j": (1.0, 0.0, 0.0), "point_j": (0.6, 0.2, 0.1)},
            "pass each other at 0.2 m.*radius_i",
        ),
    ],
)
def test_gears_that_cannot_mesh_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        gear(**changes)


def test_a_coupler_names_what_is_wrong():
    m = chain_of(add_rack)
    with pytest.raises(ValueError, match="unknown joint 'nothing'; the joints are axle"):
        m.add(mbd.Coupler("law", "axle", "nothing"))
    with pytest.raises(ValueError, match="'law'.*'guide' is Translational, which has no angle"):
        m.add(mbd.Coupler("law", "axle", "guide", coordinate_2="angle"))
    with pytest.raises(ValueError, match="couples nothing"):
        m.add(mbd.Coupler("law", "axle", "guide", coefficients=(1.0, 0.0)))


def test_a_long_train_turns():
    m = mbd.Mechanism("train", gravity=(0.0, 0.0, 0.0))
    for k in range(12):
        gear = m.add_body(f"gear {k}", mass=1.0, inertia=WHEEL, r=(0.2 * k, 0.0, 0.0))
        m.add(mbd.Revolute(f"axle {k}", m.ground, gear, point=gear.r, axis=Z))
        if k:
            m.add(mbd.Gear(f"mesh {k}", f"gear {k - 1}", gear, axis_i=Z, ratio=-1.0))
    m.add(mbd.Torque("motor", "gear 0", torque=(0.0, 0.0, 0.24)))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=1e-2, steps=20)
    assert sol.result == RESULTS.successful
    signs = (-1.0) ** np.arange(12)
    assert np.allclose(sol.alpha[-1, :, 2], signs * 0.24 / (12 * 2e-3), rtol=1e-8)
