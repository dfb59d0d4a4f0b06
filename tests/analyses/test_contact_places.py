"""Bodies that are moved apart; points and forces of contacts in solutions, tables and pictures."""

import csv

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd import viz
from jaxmbd.viz.data import picture

G = 9.81


def pile(height):
    """A ball on a plate that hangs on a pin, both over the ground."""
    m = mbd.Mechanism("pile")
    plate = m.add_body("plate", shape=mbd.Box((1.0, 0.4, 0.1), mass=3.0), r=(0.5, 0, 0.3))
    m.add(mbd.Revolute("pin", m.ground, plate, point=(0, 0, 0.3), axis=(0, 1, 0)))
    m.add(mbd.JointLimit("stop", "pin", upper=-0.01))
    ball = m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0.7, 0, height))
    m.add(mbd.Contact("on", ball, plate, friction=0.5))
    return m.build()


def test_bodies_that_start_inside_each_other_are_moved_apart():
    system, state = pile(0.40)
    with pytest.raises(ValueError, match=r"contact 'on' by 0.05, stop 'stop' by 0.01.*move_apart"):
        mbd.simulate(system, state, h=1e-3, steps=1)
    moved = mbd.move_apart(system, state)
    sol = mbd.simulate(system, moved, h=1e-3, steps=1)
    # The stop turns the plate up by 0.01 rad, into the ball; both touch then.
    assert abs(float(sol.joint("pin").angle[0]) + 0.01) < 1e-9
    assert np.abs(sol.limit("stop").gap[0, 0]) < 1e-9
    assert np.abs(sol.contact("on").gap[0, 0]) < 1e-9
    # The least displacement takes it along the normal of the plate, which turns by 0.01 rad.
    step = np.asarray(moved.r[1] - state.r[1])
    assert step[2] > 0.05
    assert np.linalg.norm(step[:2]) < 0.0101 * step[2]
    np.testing.assert_array_equal(moved.v, state.v)


def test_what_is_apart_stays_where_it_is():
    system, state = pile(0.7)
    turned = mbd.set_joints(system, state, {"pin": -0.3})
    again = mbd.move_apart(system, turned)
    np.testing.assert_allclose(again.r, turned.r, rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def slides():
    m = mbd.Mechanism("slides")
    b = m.add_body("box", shape=mbd.Box((0.2, 0.2, 0.1), mass=2.0), r=(0, 0, 0.05), v=(1.0, 0, 0))
    m.add(mbd.Contact("floor", b, m.ground, friction=0.5))
    return mbd.simulate(*m.build(), h=0.01, steps=5)


def test_places_of_contact_are_corners_with_the_forces_on_them(slides):
    floor = slides.contact_places()["floor"]
    assert floor.points.shape == floor.forces.shape == (6, 8, 3)
    closed = np.asarray(floor.state[-1]) > 0
    assert closed.sum() == 4
    np.testing.assert_allclose(np.asarray(floor.points)[-1, closed, 2], 0.0, atol=1e-12)
    np.testing.assert_allclose(floor.normals[-1, closed], [[0, 0, 1.0]] * 4, atol=1e-12)
    # The weight is carried, and friction of half of it brakes.
    total = np.sum(floor.forces[-1], axis=0)
    np.testing.assert_allclose(total, [-0.5 * 2.0 * G, 0.0, 2.0 * G], atol=1e-7)


def test_tables_hold_forces_gaps_and_states(slides, tmp_path):
    slides.to_csv(tmp_path / "box.csv")
    with open(tmp_path / "box.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    normal = sum(float(rows[-1][f"floor[{k}].force.normal [N]"]) for k in range(8))
    assert abs(normal - 2.0 * G) < 1e-7
    assert {rows[-1][f"floor[{k}].state [-]"] for k in range(8)} == {"0.0", "2.0"}
    assert max(float(rows[-1][f"floor[{k}].gap [m]"]) for k in range(8)) == pytest.approx(0.1)


def test_pictures_show_contacts_from_a_motion_and_from_its_file(slides, tmp_path):
    slides.to_npz(tmp_path / "box.npz")
    for source in (slides, tmp_path / "box.npz"):
        arrays = picture(source).arrays
        assert arrays["contact_points"].shape == (6, 8, 3)
        figure = viz.snapshot(source)
        dots = [x for x in figure.axes[0].lines if x.get_color() == "tab:red"]
        # Four corners slide; each has a line for its force.
        assert len(dots[0].get_data_3d()[0]) == 4
        assert np.count_nonzero(np.isfinite(dots[1].get_data_3d()[0])) == 8
