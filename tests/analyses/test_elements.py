"""What force elements did in a motion, in questions, tables and views."""

import csv

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.results.columns import column_names
from jaxmbd.results.elements import element_motions
from jaxmbd.results.headers import name_of
from jaxmbd.results.moment import Moment
from jaxmbd.rotations import so3
from jaxmbd.viz.data import picture
from jaxmbd.viz.film import film

STIFFNESS, DAMPING, FREE, UPPER = 50.0, 1.0, 1.0, 0.01


@pytest.fixture(scope="module")
def motion():
    """A slider with a spring, a servo, a soft stop and a force of the user's."""
    m = mbd.Mechanism("slider", gravity=(0, 0, 0))
    b = m.add_body("b", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(1.2, 0, 0))
    m.add(mbd.Translational("rail", m.ground, b, point=(1.2, 0, 0), axis=(1, 0, 0)))
    ends = dict(point_i=(0, 0, 0), point_j=(1.2, 0, 0))
    laws = dict(free_length=FREE, stiffness=STIFFNESS, damping=DAMPING)
    m.add(mbd.SpringDamper("spring", m.ground, b, **ends, **laws))
    m.add(mbd.Servo("motor", "rail", control=0.1, stiffness=20.0, damping=2.0))
    m.add(mbd.JointLimit("stop", "rail", lower=-UPPER, stiffness=300.0))
    m.add(mbd.Actuator("push", "rail", control="sin(t)"))
    m.add(mbd.UserForce("mine", [b], lambda pose, twist, t: (-0.3 * twist.v, 0.0 * pose.r)))
    return mbd.simulate(*m.build(), h=5e-3, steps=40)


@pytest.mark.essential
def test_elements_say_their_forces_lengths_rates_and_power(motion):
    x, v, t = (np.asarray(y) for y in (motion.r[:, 0, 0], motion.v[:, 0, 0], motion.t))
    spring = motion.element("spring")
    pull = STIFFNESS * (x - FREE) + DAMPING * v
    np.testing.assert_allclose(spring.length, x, rtol=1e-12)
    np.testing.assert_allclose(spring.rate, v, atol=1e-12)
    np.testing.assert_allclose(spring.force, pull, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(spring.power, -pull * v, atol=1e-11)
    motor, u = motion.element("motor"), x - 1.2
    effort = 20.0 * (0.1 - u) - 2.0 * v
    np.testing.assert_allclose(motor.force, effort, rtol=1e-11)
    np.testing.assert_allclose(motor.power, effort * v, atol=1e-11)
    stop = motion.element("stop")
    np.testing.assert_allclose(stop.force, 300.0 * np.maximum(-UPPER - u, 0.0), atol=1e-11)
    assert float(jnp.max(stop.force)) > 1.0
    np.testing.assert_allclose(motion.element("push").force, np.sin(t), rtol=1e-14)
    np.testing.assert_allclose(motion.element("push").rate, v, atol=1e-12)
    mine = motion.element("mine")
    assert mine.force.shape == (41, 1, 3)
    np.testing.assert_allclose(mine.power, -0.3 * v**2, atol=1e-12)
    assert repr(spring) == "ElementMotion: 41 rows of force [N], length [m], rate [m/s], power [W]"
    assert spring.units == {"force": "N", "length": "m", "rate": "m/s", "power": "W"}


def test_the_power_of_elements_is_the_change_of_the_kinetic_energy(motion):
    # M a v by the accelerations of the run: the balance of the only freedom.
    total = sum(np.asarray(e.power) for e in motion.elements().values())
    work = np.asarray(motion.a[:, 0, 0] * motion.v[:, 0, 0])
    np.testing.assert_allclose(total[1:], work[1:], atol=1e-6 * np.max(np.abs(work)))


def test_elements_that_turn_say_torque_and_angle():
    m = mbd.Mechanism("hinge", gravity=(0, 0, 0))
    b = m.add_body("b", mass=1.0, inertia=(0.1, 0.1, 0.1), omega=(0, 2.0, 0))
    m.add(mbd.Revolute("pin", m.ground, b, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.TorsionalSpringDamper("coil", m.ground, b, axis=(0, 1, 0), stiffness=0.3))
    m.add(mbd.JointSpring("spring", "pin", stiffness=0.2, damping=0.1))
    m.add(mbd.ViscousFriction("oil", "pin", rotational=0.05))
    m.add(mbd.JointLimit("stop", "pin", upper=0.05, stiffness=4.0))
    system, state = m.build()
    angle, rate = np.linspace(-0.5, 0.5, 11), np.linspace(2.0, -3.0, 11)
    y, zero = np.array([0.0, 1.0, 0.0]), np.zeros((11, 1, 3))
    A = jax.vmap(so3.exp)(jnp.asarray(angle[:, None] * y))
    states = mbd.State(
        zero, A[:, None], zero, rate[:, None, None] * y, np.zeros((11, system.turns().size))
    )
    moments = Moment(jnp.zeros(11), None)
    found = element_motions(system, states, moments)
    expected = {
        "coil": -0.3 * angle,
        "spring": -0.2 * angle - 0.1 * rate,
        "stop": -4.0 * np.maximum(angle - 0.05, 0.0),
    }
    for name, torque in expected.items():
        element = found[name]
        np.testing.assert_allclose(element.torque, torque, atol=1e-12)
        np.testing.assert_allclose(element.angle, angle, atol=1e-12)
        np.testing.assert_allclose(element.power, torque * rate, atol=1e-12)
    oil = found["oil"]
    np.testing.assert_allclose(oil.torque[:, 1], -0.05 * rate, atol=1e-12)
    with pytest.raises(AttributeError, match="no 'length'; it has torque, angle, rate, power"):
        _ = found["coil"].length


def test_an_element_that_there_is_not_is_refused_by_name(motion):
    with pytest.raises(ValueError, match="no force element 'sprung'; did you mean 'spring'"):
        motion.element("sprung")
    with pytest.raises(KeyError, match="no force element 'motr'; did you mean 'motor'"):
        motion.elements()["motr"]
    with pytest.raises(ValueError, match="there is no stop 'spring'"):
        motion.limit("spring")
    with pytest.raises(ValueError, match=r"stop 'stop' has a stiffness.*element\('stop'\)"):
        motion.limit("stop")


def test_the_force_of_a_spring_can_be_differentiated_by_its_stiffness(motion):
    (k,) = (k for k, stack in enumerate(motion.system.forces) if "spring" in stack.names)

    def pull(stiffness):
        changed = eqx.tree_at(lambda s: s.forces[k].force.stiffness, motion.system, stiffness)
        return motion.element("spring", changed).force

    _, slope = jax.jvp(pull, (jnp.array([STIFFNESS]),), (jnp.ones(1),))
    np.testing.assert_allclose(slope, motion.element("spring").length - FREE, rtol=1e-12)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.essential
def test_a_table_has_what_is_tabulated_with_units_and_no_multipliers(motion, tmp_path):
    motion.to_csv(tmp_path / "t.csv")
    rows = read(tmp_path / "t.csv")
    header = list(rows[0])
    wanted = ["t [s]", "rail.displacement [m]", "rail.speed [m/s]", "rail.reaction_force.z [N]"]
    wanted += ["spring.force [N]", "stop.power [W]", "mine.force[0].x [N]", "energy.total [J]"]
    assert set(wanted) <= set(header) and header[0] == "t [s]"
    assert not any(name.startswith(("lam[", "iterations")) for name in header)
    assert len(set(header)) == len(header)
    last = {name: float(rows[-1][name]) for name in wanted}
    np.testing.assert_allclose(last["spring.force [N]"], motion.element("spring").force[-1])
    np.testing.assert_allclose(last["energy.total [J]"], motion.energy().total[-1])
    np.testing.assert_allclose(last["rail.displacement [m]"], motion.joint("rail").displacement[-1])


def test_columns_of_a_table_are_chosen_by_name_and_by_pattern(motion, tmp_path):
    motion.to_csv(tmp_path / "t.csv", columns=["*.power", "rail.displacement", "lam[rail: o*"])
    assert [name_of(name) for name in read(tmp_path / "t.csv")[0]] == [
        *("t", "rail.displacement"),
        *(f"{name}.power" for name in motion.elements()),
        *("lam[rail: offset along e1]", "lam[rail: offset along e2]"),
    ]
    with pytest.raises(ValueError, match="no column 'rail.displacment'; did you mean rail.displ"):
        motion.to_csv(tmp_path / "t.csv", columns=["rail.displacment"])
    data = mbd.Measurements.read(tmp_path / "t.csv", names=["rail.displacement"])
    np.testing.assert_allclose(data.values["rail.displacement"], motion.joint("rail").displacement)


def test_parts_of_one_name_have_columns_of_different_names():
    m = mbd.Mechanism("namesakes")
    b = m.add_body("b", mass=1.0, inertia=(1, 1, 1))
    m.add(mbd.Revolute("pin", m.ground, b, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.JointSpring("pin", "pin", stiffness=1.0))
    names = column_names(m.build()[0])
    assert len(set(names)) == len(names)
    assert {"joints.pin.angle", "forces.pin.angle", "pin.torque"} <= set(names)


def test_a_view_has_the_name_and_the_quantities_of_an_element(motion):
    data = picture(motion)
    assert [spring["name"] for spring in data.drawing["springs"]] == ["spring"]
    shown = film(data, motion, motion.system, forces=True).quantities
    found = {q.title: q for q in shown if q.kind == "spring"}
    assert {"spring.force", "motor.power", "stop.length", "mine.force 0"} <= set(found)
    np.testing.assert_array_equal(
        found["spring.force"].values[:, 0], motion.element("spring").force
    )
