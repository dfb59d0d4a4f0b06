"""Mechanisms to MJCF and back: the same motion, or a refusal by name."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, ModelFileWarning
from jaxmbd.library import names
from mjcf_models import GRIPPER, TREES

mujoco = pytest.importorskip("mujoco", reason="MuJoCo reads MJCF: pip install 'jaxmbd[mjcf]'")

# Why a packaged mechanism is not held by MJCF, by the part that is named.
REFUSED = {
    "cantilever": "beam '",
    "flexible_slider_crank": "beam '",
    "four_bar_flexible_coupler": "beam '",
    "spin_up_beam": "beam '",
    "cam_follower": "driver 'motor'",
    "differential": "joint 'left_mesh'",
    "double_pendulum": "joint 'upper_pin'",
    "four_link": "body 'rotor'.*needs inertia about every axis",
    "four_link_haug": "body 'rotor'.*needs inertia about every axis",
    "gear_train": "joint 'mesh1'",
    "planetary_gear": "joint 'sun_mesh1'",
    "rolling_disc": "joint 'contact'",
    "single_pendulum": "driver 'motor'",
    "slider_crank": "joint 'crank_pin'",
    "slider_crank_free": "joint 'crank_pin'",
    "slider_crank_haug": "joint 'crank_pin'",
    "stewart_platform": "force 'leg 1'.*function of time",
    "stewart_platform_legs": "force 'leg 1'.*function of time",
    "whipple_bicycle": "joint 'rear_contact'",
}
HELD = [name for name in names() if name not in REFUSED]
QUICK = ("floating_pair", "four_bar")


def back(mechanism, path, **options):
    mbd.save(mechanism, path)
    return mbd.from_mjcf(path, **options)[0]


def assert_equal_motion(first, second, tolerance=1e-12):
    """Masses, states and accelerations of the bodies of the first in the second."""
    (system, state), (other, start) = first.build(), second.build()
    state, start = mbd.assemble(system, state)[0], mbd.assemble(other, start)[0]
    at = np.array([other.bodies.index(name) for name in system.bodies])
    own, theirs = mbd.accelerations(system, state), mbd.accelerations(other, start)
    for field in ("r", "A", "v", "omega"):
        one, two = (np.asarray(getattr(x, field)) for x in (state, start))
        np.testing.assert_allclose(one, two[at], atol=tolerance * (1.0 + np.max(np.abs(one))))
    for field in ("a", "alpha"):
        one, two = (np.asarray(getattr(x, field)) for x in (own, theirs))
        np.testing.assert_allclose(one, two[at], atol=tolerance * (1.0 + np.max(np.abs(one))))
    for field in ("mass", "inertia"):
        one, two = (np.asarray(getattr(x, field)) for x in (system, other))
        np.testing.assert_allclose(one, two[at], atol=tolerance * np.max(np.abs(one)))


@pytest.mark.filterwarnings("ignore::jaxmbd.io.ModelFileWarning")
@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=() if x in QUICK else pytest.mark.slow) for x in HELD],
)
def test_a_packaged_mechanism_comes_back(name, tmp_path):
    first = mbd.load_mechanism(name)
    again = back(first, tmp_path / "m.xml")
    assert_equal_motion(first, again)
    mbd.save(again, tmp_path / "m.json")  # and on to the own format, to the last bit
    system, _ = mbd.load(tmp_path / "m.json")
    assert np.array_equal(np.asarray(system.inertia), np.asarray(again.build()[0].inertia))


@pytest.mark.parametrize("name", REFUSED)
def test_what_mjcf_cannot_hold_is_refused_by_name(name, tmp_path):
    with pytest.raises(ModelFileError, match=f"{REFUSED[name]}.*"):
        mbd.save(mbd.load_mechanism(name), tmp_path / "m.xml")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "servos",
        "activated",
        "humanoid",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("arm", "springs")),
    ],
)
def test_an_imported_model_comes_back(name, tmp_path):
    """Springs, dampers, rotors, servos, tendons, controls, ball joints, joints in a row."""
    text = TREES[name].replace('gravcomp="0.4"', "")
    options = {"keyframe": "home"} if name in ("servos", "activated") else {}
    first, _ = mbd.from_mjcf(text, **options)
    assert_equal_motion(first, back(first, tmp_path / "m.xml"))


def test_a_gripper_comes_back_with_its_loops_and_laws(tmp_path):
    text = GRIPPER.replace('joint name="rc"', 'joint name="rc" frictionloss="0.1" range="-50 60"')
    first, report = mbd.from_mjcf(text, keyframe="closing", limits=True, friction=True)
    again, other = mbd.from_mjcf(_saved(first, tmp_path / "m.xml"), limits=True, friction=True)
    assert report.loops == other.loops == ["right loop", "left loop", "together"]
    for name, law in first.laws.items():
        found = again.laws[name]
        for field in ("lower", "upper", "bound"):
            one, two = (getattr(x, field, None) for x in (law, found))
            assert (one is None) == (two is None)
            assert one is None or float(one) == pytest.approx(float(two), abs=1e-15)


TENDONS = """
<mujoco model="cords"> <default> <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
  <joint axis="0 1 0" damping="0.1"/> </default>
  <worldbody> <body> <joint name="a"/> <geom/> <body pos="0.3 0 0"> <joint name="b"/> <geom/>
    <body pos="0.3 0 0"> <joint name="c"/> <geom/> </body> </body> </body> </worldbody>
  <tendon> <fixed name="all"> <joint joint="a" coef="1"/> <joint joint="b" coef="2"/>
    <joint joint="c" coef="-1"/> </fixed> <fixed name="one"> <joint joint="c" coef="1"/> </fixed>
  </tendon>
  <equality> <tendon name="held" tendon1="all" polycoef="HELD"/> </equality> </mujoco>"""


def test_fixed_tendons_that_are_held_become_couplings_and_come_back(tmp_path):
    text = TENDONS.replace("HELD", "0 0 0 0 0")
    first, report = mbd.from_mjcf(text)
    assert report.loops == ["held"] and report.freedoms == 2
    assert_equal_motion(first, back(first, tmp_path / "m.xml"))
    system, state = first.build()
    sol = mbd.simulate(system, state, h=2e-3, steps=100, save_every=20)
    a, b, c = (sol.joint(name).angle for name in "abc")
    np.testing.assert_allclose(a + 2 * b - c, 0.0, atol=1e-12)
    assert float(abs(a[-1])) > 0.01
    # In proportion to another tendon: a + 2 b - c = 0.5 c.
    text = TENDONS.replace('polycoef="HELD"', 'tendon2="one" polycoef="0 0.5 0 0 0"')
    coupling = mbd.from_mjcf(text)[0].constraints["held"]
    assert [x.name for x in coupling.joints] == ["a", "b", "c"]
    assert tuple(coupling.coefficients) == (1.0, 2.0, -1.5)
    with pytest.raises(ModelFileError, match="in proportion to each other"):
        mbd.from_mjcf(text.replace("0 0.5 0 0 0", "0 0.5 1 0 0"))


def _saved(mechanism, path):
    mbd.save(mechanism, path)
    return path


def test_a_written_file_moves_in_mujoco(tmp_path):
    """The file is MuJoCo's own: its accelerations are those of the mechanism."""
    from test_mjcf import compared, smooth

    first, report = mbd.from_mjcf(TREES["arm"])
    mbd.save(first, tmp_path / "m.xml")
    model = smooth(mujoco.MjModel.from_xml_path(str(tmp_path / "m.xml")))
    again, report = mbd.from_mjcf(tmp_path / "m.xml")
    assert compared(again, report, model, states=3) < 1e-10


def test_a_shape_without_a_type_in_mjcf_is_written_as_a_mesh(tmp_path):
    m = mbd.Mechanism("m")
    cone = mbd.Visual(mbd.Cone(0.1, 0.2, mass=0.0, axis="x"), position=(0.3, 0, 0))
    m.add_body("a", mass=1.0, inertia=(1, 1, 1), visuals=[cone])
    (found,) = back(m, tmp_path / "m.xml").bodies["a"].visuals
    points = np.asarray(found.shape.vertices) @ np.asarray(found.A).T + np.asarray(found.position)
    np.testing.assert_allclose(points.min(axis=0), [0.15, -0.1, -0.1], atol=2e-3)
    np.testing.assert_allclose(points.max(axis=0), [0.35, 0.1, 0.1], atol=2e-3)


def test_looks_that_mjcf_has_not_are_told(tmp_path):
    m = mbd.Mechanism("m")
    pair = mbd.Composite([mbd.Sphere(0.1, mass=1.0), mbd.Sphere(0.2, mass=1.0)], np.eye(3)[:2])
    m.add_body("a", mass=1.0, inertia=(1, 1, 1), visuals=[mbd.Visual(pair)])
    with pytest.warns(ModelFileWarning, match="cannot hold the looks of 'a'"):
        mbd.save(m, tmp_path / "m.xml")


@pytest.mark.parametrize("character", ["\x1b", "\0", "\ud800", "\ufffe"])
def test_a_name_that_xml_cannot_hold_is_refused(tmp_path, character):
    m = mbd.Mechanism("m")
    m.add_body(f"a{character}b", mass=1.0, inertia=(1, 1, 1))
    with pytest.raises(ModelFileError, match="XML has no character .*; rename the part"):
        mbd.save(m, tmp_path / "m.xml")
    assert not list(tmp_path.iterdir())


def test_names_of_any_other_characters_come_back(tmp_path):
    m = mbd.Mechanism("a\nb\tc")
    m.add_body("球🦀 <&>\"'\x7f", mass=1.0, inertia=(1, 1, 1))
    again = back(m, tmp_path / "m.xml")
    assert again.name == m.name and list(again.bodies) == list(m.bodies)


def test_meshes_and_colors_come_back(tmp_path):
    pytest.importorskip("trimesh")
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]) * 0.1
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    m = mbd.Mechanism("m")
    looks = [
        mbd.Visual(mbd.Mesh(corners, faces), position=(0.1, 0, 0), color=(1, 0, 0)),
        mbd.Visual(mbd.Cylinder(0.1, 0.3, mass=0.0, axis="x"), position=(0, 0.2, 0)),
    ]
    m.add_body("a", mass=1.0, inertia=(1, 1, 1), visuals=looks)
    again = back(m, tmp_path / "m.xml")
    one, two = again.bodies["a"].visuals
    placed = np.asarray(one.A) @ np.asarray(one.shape.vertices).T
    found = placed.T + np.asarray(one.position)
    wanted = corners + np.array([0.1, 0, 0])
    # MuJoCo keeps vertices in single precision.
    order = lambda x: x[np.lexsort(np.round(x, 5).T)]  # noqa: E731
    np.testing.assert_allclose(order(found), order(wanted), atol=1e-7)
    assert one.color == (1.0, 0.0, 0.0, 1.0)
    np.testing.assert_allclose(np.asarray(two.A)[:, 2], [1, 0, 0], atol=1e-12)
