"""What a description may hold and seldom means is told by name when it is built; nothing here is
simulated.
"""

import warnings

import jax
import numpy as np
import pytest

import jaxmbd as mbd


def pendulum(*parts, **body):
    m = mbd.Mechanism("p")
    given = {"shape": mbd.Box((1.0, 0.06, 0.06), mass=2.0), "r": (0.5, 0, 0)} | body
    m.add_body("rod", **given)
    m.add(mbd.Cylindrical("pin", "ground", "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    for part in parts:
        m.add(part)
    return m


def beside(**body):
    m = pendulum()
    m.add_body("other", shape=mbd.Sphere(0.1, mass=1.0), r=(2.0, 0, 0), **body)
    return m


def built(angle=90.0, **options):
    """A limit of the pin."""
    return pendulum(mbd.JointLimit("stop", "pin", upper=angle, **options))


def spring(angle):
    return pendulum(
        mbd.TorsionalSpringDamper("s", "ground", "rod", axis=(0, 1, 0), free_angle=angle)
    )


def in_millimeters(gravity):
    m = mbd.Mechanism("p", gravity=gravity)
    m.add_body("rod", shape=mbd.Box((1000.0, 60.0, 60.0), mass=2.0), r=(500.0, 0, 0))
    m.add(mbd.Revolute("pin", "ground", "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    return m


def alone():
    m = mbd.Mechanism("flight")
    m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0))
    return m


HEAVY = {"shape": None, "mass": 2.0, "inertia": (1e3, 1.6e5, 1.6e5)}
DOUBTS = {
    "a limit": (built, "limit 'stop': upper = 90.* rad is more than a turn.*degrees"),
    "a rest angle": (lambda: spring(-45), "force 's': free_angle = -45.*degrees"),
    "a reference": (
        lambda: pendulum(mbd.JointSpring("s", "pin", reference=22.5)),
        "force 's': reference = 22.5.*degrees",
    ),
    "a set point": (
        lambda: pendulum(mbd.Servo("s", "pin", control=30.0, stiffness=1.0)),
        "force 's': control = 30.*degrees",
    ),
    "an inertia in kg·mm²": (lambda: pendulum(**HEAVY), "'rod'.*gyration of 283 m.*kg·mm²"),
    "a forgotten body": (beside, "body 'other' is connected to nothing"),
    "millimeters": (lambda: in_millimeters((0, 0, -9.81)), "500 m long.*2 kg.*millimeters"),
}


def wheel():
    """A rotor whose shaft is a millimeter beside its mass center."""
    m = mbd.Mechanism("rotor")
    disc = mbd.Cylinder(0.3, 0.02, mass=1.0, axis="y")
    m.add_body("disc", shape=disc, inertia=(0.03, 0.05, 0.03), r=(0.001, 0, 0))
    m.add(mbd.Revolute("shaft", "ground", "disc", point=(0, 0, 0), axis=(0, 1, 0)))
    return m


MEANT = {
    "a wheel on its shaft": wheel,
    "a limit in radians": lambda: built(1.5),
    "two turns": lambda: built(4.0 * np.pi),
    "a length": lambda: built(90.0, coordinate="displacement"),
    "a torque": lambda: pendulum(mbd.Servo("s", "pin", control=30.0, gain=1.0)),
    "a body in free flight": lambda: beside(v=(0, 0, 0)),
    "a body alone": alone,
    "millimeters throughout": lambda: in_millimeters((0, 0, -9810.0)),
}


@pytest.mark.parametrize("case", DOUBTS)
def test_what_is_seldom_meant_is_told_by_name(case):
    make, message = DOUBTS[case]
    with pytest.warns(mbd.DescriptionWarning, match=message):
        make().build()


@pytest.mark.parametrize("case", MEANT)
def test_what_is_often_meant_is_not_told(case):
    MEANT[case]().build()  # warnings are errors


def test_all_doubts_come_in_one_warning():
    m = beside()
    m.add(mbd.JointLimit("stop", "pin", lower=-90.0, upper=90.0))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        m.build()
    (warning,) = seen
    assert all(word in str(warning.message) for word in ("lower", "upper", "'other'"))


def test_traced_numbers_raise_no_doubts():
    jax.eval_shape(lambda angle: built(angle).build()[1], 90.0)


def test_a_start_and_an_orientation_in_degrees_are_told():
    with pytest.warns(mbd.DescriptionWarning, match="body 'rod': euler = .*90.*degrees"):
        pendulum(euler=(90.0, 0, 0))
    system, state = pendulum().build()
    with (
        pytest.warns(mbd.DescriptionWarning, match="joint 'pin': angle = 90.*degrees"),
        pytest.raises(ValueError, match="no joint 'elbow'"),  # before anything is compiled
    ):
        mbd.set_joints(system, state, {"pin": 90.0, "elbow": 0.0})


P = {"point_i": (0, 0, 0), "point_j": (1, 0, 0)}
NEGATIVE = {
    "SpringDamper": lambda **k: mbd.SpringDamper("f", "ground", "rod", **P, **k),
    "TorsionalSpringDamper": lambda **k: mbd.TorsionalSpringDamper(
        "f", "ground", "rod", axis=(0, 1, 0), **k
    ),
    "JointSpring": lambda **k: mbd.JointSpring("f", "pin", **k),
    "Servo": lambda **k: mbd.Servo("f", "pin", **k),
    "FixedTendon": lambda **k: mbd.FixedTendon("f", ["pin"], coefficients=(1.0,), **k),
}


@pytest.mark.parametrize("field", ["stiffness", "damping"])
@pytest.mark.parametrize("kind", NEGATIVE)
def test_a_negative_stiffness_or_damping_is_refused_unless_it_is_said(kind, field):
    part = NEGATIVE[kind]
    with pytest.raises(ValueError, match=f"'f': {field} must not be negative, not -0.5; allow_neg"):
        pendulum(part(**{field: -0.5}))
    m = pendulum(part(**{field: -0.5}, allow_negative=True))
    assert m.with_values({}).forces["f"].allow_negative
    with pytest.raises(ValueError, match=f"{field} must not be negative"):
        pendulum(part(**{field: 0.5})).with_values({f"forces.f.{field}": -0.5})


@pytest.mark.parametrize("field", ["rotational", "translational"])
def test_negative_friction_is_refused(field):
    with pytest.raises(ValueError, match=f"'f': {field} must not be negative, not -0.5"):
        pendulum(mbd.ViscousFriction("f", "pin", **{field: -0.5}))


def test_a_joint_is_not_coupled_with_itself():
    with pytest.raises(ValueError, match="coupling 'c': couples joint 'pin' with itself"):
        pendulum(mbd.Coupler("c", "pin", "pin", coefficients=(0.0, 2.0)))
    with pytest.raises(ValueError, match="coupling 'c': names joint 'pin' more than once"):
        pendulum(mbd.LinearCoupling("c", ["pin", "pin"], coefficients=(1.0, -1.0)))
    screw = mbd.Coupler("c", "pin", "pin", coordinate_2="displacement")
    assert pendulum(screw).build()[0].nc == 5  # the angle and the displacement of one joint


def test_a_radius_without_points_is_refused():
    with pytest.raises(ValueError, match="contact 'c': radius is that of balls around points"):
        pendulum(mbd.Contact("c", "rod", "ground", radius=0.1))
