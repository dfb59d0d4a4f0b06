"""Tooth forces of gears against the formulas of machine design texts (Shigley, chapter 13)."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.analyses.running.start_checks import warn_of_yielding_axes
from jaxmbd.equations.pressing import pressed

X, Y, Z = np.eye(3)
ALPHA = np.deg2rad(20.0)
ROUNDING = 1e-9


def unit(x):
    return np.asarray(x) / np.linalg.norm(x)


# Each pair far from the others: axes, centers and ratio of the gears, the pitch point, and the
# force on gear j in parts of the torque on gear i, for pressure angles of 20 degrees: a part that
# turns it and one that presses it away.
WORM = {"radius_i": 0.03}  # three threads, thirty teeth, tan(lead) = 0.1 · 0.1 / 0.03
LEAD = np.arctan(0.1 * 0.1 / 0.03)
PAIRS = {
    "spur": ((Z, Z), (0 * X, 0.3 * X), -0.5, 0.1 * X, Y / 0.1, X * np.tan(ALPHA) / 0.1, {}),
    "ring": ((Z, Z), (0 * X, 0.2 * X), 1.5, 0.6 * X, Y / 0.6, -X * np.tan(ALPHA) / 0.6, {}),
    # Pitch cones of 26.57 and 63.43 degrees; radial and axial parts Ft tan(α) cos(γ), Ft tan(α)
    # sin(γ), away from the apex along each axis.
    "bevel": (
        (X, Z),
        (-0.2 * X, 0.1 * Z),
        0.5,
        -0.2 * X + 0.1 * Z,
        -Y / 0.1,
        np.tan(ALPHA) / 0.1 * np.array([np.sin(np.arctan(0.5)), 0, np.cos(np.arctan(0.5))]),
        {},
    ),
    "worm": (
        (X, Y),
        (0 * X, -0.13 * Z),
        0.1,
        -0.03 * Z,
        (X / np.tan(LEAD) + Y) / 0.03,
        -Z * np.tan(ALPHA) / (0.03 * np.sin(LEAD)),
        WORM,
    ),
}


def gearbox(torque=1.0, alpha=ALPHA, held=True):
    """All pairs side by side; with `held`, a torque on gear j balances that on gear i."""
    m = mbd.Mechanism("gearbox", gravity=(0, 0, 0))
    for k, (name, (axes, centers, ratio, *_, more)) in enumerate(PAIRS.items()):
        at = 3.0 * k * X
        bodies = []
        for side, axis, center in zip("ij", axes, centers, strict=True):
            body = m.add_body(f"{name} {side}", mass=1.0, inertia=(0.01, 0.01, 0.01), r=at + center)
            m.add(mbd.Revolute(f"{name} bearing {side}", m.ground, body, point=body.r, axis=axis))
            bodies.append(body)
        options = {"axis_i": axes[0], "axis_j": axes[1], "ratio": ratio} | more
        m.add(mbd.Gear(name, *bodies, pressure_angle=alpha, **options))
        m.add(mbd.Torque(f"{name} motor", bodies[0], torque=torque * axes[0]))
        load = -torque / ratio if held else 0.0
        m.add(mbd.Torque(f"{name} load", bodies[1], torque=load * axes[1]))
    rack = m.add_body("rack", mass=1.0, inertia=(0.01, 0.01, 0.01), r=-3.0 * X)
    pinion = m.add_body("pinion", mass=1.0, inertia=(0.01, 0.01, 0.01), r=-3.0 * X + 0.1 * Y)
    m.add(mbd.Translational("guide", m.ground, rack, point=rack.r, axis=X))
    m.add(mbd.Revolute("axle", m.ground, pinion, point=pinion.r, axis=Z))
    options = {"axis": Z, "along": -X, "radius": 0.1, "pressure_angle": alpha}
    m.add(mbd.RackAndPinion("teeth", rack, pinion, **options))
    m.add(mbd.Torque("rack motor", pinion, torque=torque * Z))
    push = torque / 0.1 if held else 0.0
    m.add(mbd.PointForce("rack load", rack, force=-push * X))
    return m


def reactions(**options):
    sol = mbd.simulate(*gearbox(**options).build(), h=1e-3, steps=1)
    found = sol.reactions()
    return sol, {n: (np.asarray(x.force[0]), np.asarray(x.moment[0])) for n, x in found.items()}


@pytest.mark.essential
def test_tooth_forces_are_those_of_machine_design_texts():
    for torque in (2.0, -2.0):
        sol, found = reactions(torque=torque)
        # In parts of what the torques would accelerate alone.
        assert np.max(np.abs(sol.alpha[0])) < ROUNDING * 2.0 / 0.01
        for name, (axes, centers, ratio, point, turning, pressing, _) in PAIRS.items():
            force, moment = found[name]
            wanted = torque * turning + abs(torque) * pressing
            np.testing.assert_allclose(force, wanted, atol=1e-8 * np.linalg.norm(wanted))
            # It acts at the pitch point: the moment about gear j's center is that of the force.
            np.testing.assert_allclose(moment, np.cross(point - centers[1], force), atol=1e-7)
            # Bearings bear it, gear by gear, and torques about their axes are those described.
            for side, sign, axis, center in zip("ij", (-1, 1), axes, centers, strict=True):
                borne, turned = found[f"{name} bearing {side}"]
                np.testing.assert_allclose(borne, -sign * force, atol=1e-8 * np.linalg.norm(force))
                couple = sign * np.cross(point - center, force)
                across = couple - (couple @ axis) * axis
                np.testing.assert_allclose(turned, -across, atol=1e-7)
            arms = [point - center for center in centers]
            turns = [-np.cross(arms[0], force) @ axes[0], np.cross(arms[1], force) @ axes[1]]
            np.testing.assert_allclose(turns, [-torque, torque / ratio], atol=1e-7)
        force, moment = found["teeth"]
        np.testing.assert_allclose(
            force, [torque / -0.1, abs(torque) * np.tan(ALPHA) / 0.1, 0], atol=1e-7
        )
        np.testing.assert_allclose(moment, np.cross(-0.1 * Y, force), atol=1e-7)
        np.testing.assert_allclose(found["axle"][0], -force, atol=1e-7)


def test_the_pressure_angle_leaves_the_motion_as_it_is():
    runs = []
    for alpha in (0.0, ALPHA, np.deg2rad(25.0)):
        sol, found = reactions(alpha=alpha, held=False)
        runs.append([sol.r, sol.A, sol.v, sol.omega, sol.alpha])
        force = found["spur"][0]
        np.testing.assert_allclose(force[0], np.tan(alpha) * abs(force[1]), atol=ROUNDING)
    for others in runs[1:]:
        assert all(np.array_equal(x, y) for x, y in zip(runs[0], others, strict=True))


@pytest.mark.essential
def test_the_tooth_force_of_crossed_gears_does_no_work_between_them():
    """Any two axes, any radius: the row is one force at the pitch point, across the sliding of the
    teeth, by numbers alone."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        axes, e = [unit(rng.normal(size=3)) for _ in "ij"], None
        e = unit(np.cross(*axes))
        foot, apart = rng.normal(size=3), rng.uniform(0.1, 0.5)
        ratio, r_i = rng.uniform(-2, 2), rng.uniform(0.03, 0.09)
        m = mbd.Mechanism("crossed")
        centers = [foot + rng.normal() * axes[0], foot + apart * e + rng.normal() * axes[1]]
        a, b = (
            m.add_body(
                n, mass=1.0, inertia=(1.0, 1.0, 1.0), r=c, quaternion=unit(rng.normal(size=4))
            )
            for n, c in zip("ab", centers, strict=True)
        )
        gear = mbd.Gear("mesh", a, b, axis_i=axes[0], axis_j=axes[1], ratio=ratio, radius_i=r_i)
        ((_, row),) = gear.rows(a, b)
        poses = [mbd.Pose(jnp.asarray(x.r), jnp.asarray(x.A)) for x in (a, b)]

        def moved(d, poses=poses, row=row):
            return row.geometry(*(mbd.RA().retract(p, x) for p, x in zip(poses, d, strict=True)))

        assert abs(float(moved(jnp.zeros((2, 6))))) < 1e-12
        steps = 1e-6 * np.eye(12).reshape(12, 2, 6)
        slopes = [float(moved(jnp.asarray(s)) - moved(jnp.asarray(-s))) / 2e-6 for s in steps]
        (f_i, n_i), (f_j, n_j) = np.array(slopes).reshape(2, 2, 3)
        pitch = foot + r_i * e
        scale = np.linalg.norm(f_j)
        np.testing.assert_allclose(f_i, -f_j, atol=1e-6 * scale)
        for body, f, n in ((a, f_i, n_i), (b, f_j, n_j)):
            couple = np.asarray(body.A) @ n
            np.testing.assert_allclose(couple, np.cross(pitch - body.r, f), atol=1e-6 * scale)
        # The common velocity across the teeth, as the ratio says.
        speeds = [
            rate * np.cross(axis, pitch - c)
            for rate, axis, c in zip((1.0, ratio), axes, centers, strict=True)
        ]
        assert abs(f_j @ (speeds[1] - speeds[0])) < 1e-6 * scale
        assert abs(f_j @ e) < 1e-6 * scale


def test_the_part_of_the_pressure_angle_is_linear_where_signs_are_given():
    system, state = gearbox().build()
    pose = state.pose
    rng = np.random.default_rng(0)
    lam = jnp.asarray(rng.normal(size=system.nc))
    small = jnp.asarray(1e-3 * rng.normal(size=system.nc))
    change = pressed(system, pose, lam + small) - pressed(system, pose, lam)
    np.testing.assert_allclose(pressed(system, pose, small, jnp.sign(lam)), change, atol=1e-9)


def bevel(**changes):
    m = mbd.Mechanism("bevel")
    a = m.add_body("a", mass=1.0, inertia=(0.01, 0.01, 0.01), r=(-0.1, 0, 0))
    b = m.add_body("b", mass=1.0, inertia=(0.01, 0.01, 0.01), r=(0, 0, 0.1))
    m.add(mbd.Gear("mesh", a, b, **({"axis_i": X, "axis_j": Z, "ratio": 1.0} | changes)))
    return m


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ratio": 0.5}, r"'mesh'.*do not touch.*give point_j=\(0, 0, 0.05\)"),
        ({"point_i": (0, 0, 0), "point_j": (0, 0, 0)}, "'mesh'.*do not touch.*Give point_i"),
        ({"radius_i": 0.1}, "'mesh'.*radius_i is for axes that cross"),
        ({"pressure_angle": 20.0}, r"'mesh': pressure_angle.*0\.349 rad"),
        ({"pressure_angle": -0.1}, "'mesh': pressure_angle must be between 0"),
    ],
)
def test_teeth_that_cannot_mesh_are_refused_with_the_cure(changes, message):
    bevel()
    with pytest.raises(ValueError, match=message):
        bevel(**changes)


@pytest.mark.filterwarnings("error")
def test_axes_that_springs_hold_are_warned_of():
    m = mbd.Mechanism("soft", gravity=(0, 0, 0))
    wheel = {"mass": 1.0, "inertia": (0.01, 0.01, 0.01)}
    a, b = m.add_body("a", **wheel), m.add_body("b", r=0.2 * X, **wheel)
    m.add(mbd.Revolute("stiff", m.ground, a, point=a.r, axis=Z))
    m.add(mbd.Planar("soft", m.ground, b, point=b.r, axis=Z))
    spring = {"point_i": 0.5 * X, "point_j": 0.2 * X, "stiffness": 1e4, "free_length": 0.3}
    m.add(mbd.SpringDamper("spring", m.ground, b, **spring))
    m.add(mbd.Gear("mesh", a, b, axis_i=Z, ratio=-1.0))
    system, state = m.build()
    with pytest.warns(mbd.YieldingAxesWarning, match="'mesh'.*pressure_angle=0"):
        warn_of_yielding_axes(system, state, 0.0)
    warn_of_yielding_axes(*gearbox().build(), 0.0)
