"""URDF files: an arm against its MJCF twin and Pinocchio, mimic joints, loops, meshes, packages."""

import numpy as np
import pytest
from urdf_models import FOUR_BAR, arm_mjcf, arm_urdf

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, ModelFileWarning

HEAVY = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"


def joint_accelerations(mechanism, system, state):
    """Second derivatives of all hinge angles, from the bodies' accelerations."""
    acc = mbd.accelerations(system, state)
    zero = np.zeros((1, 3))
    alpha = np.einsum("bij,bj->bi", np.asarray(state.A), np.asarray(acc.alpha))
    alpha = np.concatenate([alpha, zero])
    found = []
    for c in system.connections:
        A = np.eye(3) if c.i == system.nb else np.asarray(state.A[c.i])
        found.append(A @ np.asarray(c.axis_i_bar) @ (alpha[c.j] - alpha[c.i]))
    return np.array(found)


def test_an_arm_moves_as_its_mjcf_twin_and_as_pinocchios():
    pytest.importorskip("mujoco", reason="the twin is an MJCF file")
    pin = pytest.importorskip("pinocchio", reason="pip install pin")
    mechanism, report = mbd.from_urdf(arm_urdf())
    twin, twins = mbd.from_mjcf(arm_mjcf())
    system, state = mechanism.build()
    other, start = twin.build()
    assert system.bodies == other.bodies and report.merged == {"tool": "link6"}
    np.testing.assert_allclose(state.r, start.r, atol=1e-14)
    np.testing.assert_allclose(state.A, start.A, atol=1e-14)
    model = pin.buildModelFromXML(arm_urdf())
    data, rng = model.createData(), np.random.default_rng(5)
    for _ in range(20):
        q, v = rng.uniform(-2.0, 2.0, 7), rng.normal(size=7)
        state = twins.state(q, v)
        wanted = pin.aba(model, data, q, v, np.zeros(7))
        own = joint_accelerations(mechanism, system, state)
        theirs = joint_accelerations(twin, other, state)
        np.testing.assert_allclose(own, wanted, atol=1e-10 * np.max(np.abs(wanted)))
        np.testing.assert_allclose(own, theirs, atol=1e-10 * np.max(np.abs(wanted)))


def test_a_loop_is_closed_between_two_links(tmp_path):
    mechanism, report = mbd.from_urdf(FOUR_BAR, loops=[("end of coupler", "end of rocker")])
    assert report.loops == ["loop 1: end of coupler and end of rocker"]
    assert (report.freedoms, report.rank) == (1, 17)
    (tmp_path / "robot.urdf").write_text(FOUR_BAR)
    (tmp_path / "robot.yaml").write_text(
        "closed_loop: [[tip b, tip d]]\ntype: [3D]\nname_mot: mot\n"
    )
    again, report = mbd.from_urdf(tmp_path / "robot.urdf", loops=tmp_path / "robot.yaml")
    assert type(again.constraints["loop 1: tip b and tip d"]) is mbd.Spherical
    assert [x.tag for x in report.ignored] == ["name_mot"]
    with pytest.raises(ModelFileError, match="there is no link or joint 'hand'"):
        mbd.from_urdf(FOUR_BAR, loops=[("hand", "tip d")])
    with pytest.raises(ModelFileError, match="'3d'.*or '6d'.*not '5d'"):
        mbd.from_urdf(FOUR_BAR, loops=[("tip b", "tip d", "5d")])


MIMIC = FOUR_BAR.replace("</robot>", "").replace(
    '<joint name="d" type="continuous">',
    """<joint name="d" type="prismatic"> <limit lower="-1" upper="2" effort="1" velocity="1"/>
       <dynamics damping="0.3" friction="0.1"/> <mimic joint="a" multiplier="0.5" offset="0.1"/>""",
)
MIMIC += """<transmission name="t"> <joint name="a"/> <actuator name="motor"/> </transmission>
  <gazebo/> </robot>"""


def test_mimic_dynamics_limits_and_transmissions():
    mechanism, report = mbd.from_urdf(MIMIC)
    coupler = mechanism.constraints["mimic of d"]
    assert coupler.coefficients == (0.1, 0.5) and coupler.joint_1.name == "a"
    assert float(mechanism.forces["damping of d"].damping) == 0.3
    assert type(mechanism.forces["motor"]) is mbd.Actuator
    assert [(x.tag, x.name, x.line) for x in report.ignored] == [
        ("joint", "d", 11),
        ("joint", "d", 11),
        ("gazebo", "", 19),
    ]
    mechanism, _ = mbd.from_urdf(MIMIC, limits=True, friction=True)
    limit, friction = mechanism.laws["limit of d"], mechanism.laws["friction of d"]
    assert (limit.lower, limit.upper, friction.bound) == (-1.0, 2.0, 0.1)


def test_a_free_base_and_merged_links():
    free = FOUR_BAR.replace('<link name="base"/>', "").replace('"base"', '"crank"').split("<joint")
    text = free[0] + "<joint" + "<joint".join(free[2:3]) + "</robot>"
    text = text.replace('<link name="end of coupler"/> <link name="end of rocker"/>', "")
    text = text.replace("continuous", "fixed").replace("rocker", "spare")
    with pytest.raises(ModelFileError, match="line"):
        mbd.from_urdf(text.replace('<parent link="crank"/>', ""), base="free")
    mechanism, report = mbd.from_urdf(text, base="free", merge_fixed=True)
    assert "crank" in mechanism.bodies and report.merged["coupler"] == "crank"
    body = mechanism.bodies["crank"]
    assert float(body.mass) == pytest.approx(2.0)


def test_frames_of_links_move_with_them():
    mechanism, _ = mbd.from_urdf(FOUR_BAR, loops=[("end of coupler", "end of rocker")])
    system, state = mechanism.build()
    sol = mbd.simulate(system, state, h=2e-3, steps=20)
    one, two = sol.frame("end of coupler"), sol.frame("end of rocker")
    for field in ("r", "v", "a"):
        np.testing.assert_allclose(getattr(one, field), getattr(two, field), atol=1e-8)
    ground = sol.frame("base")
    assert not np.any(np.asarray(ground.r)) and not np.any(np.asarray(ground.v))
    with pytest.raises(ValueError, match="no frame 'tip'; the frames are base, crank"):
        sol.frame("tip")


CUBE = "\n".join(
    ["v -1 -1 -1", "v 1 -1 -1", "v 1 1 -1", "v -1 1 -1", "v -1 -1 1", "v 1 -1 1", "v 1 1 1",
     "v -1 1 1", "f 1 3 2", "f 1 4 3", "f 5 6 7", "f 5 7 8", "f 1 2 6", "f 1 6 5", "f 2 3 7",
     "f 2 7 6", "f 3 4 8", "f 3 8 7", "f 4 1 5", "f 4 5 8"]
)  # fmt: skip


@pytest.mark.parametrize("name", ["meshes/cube.obj", "package://my_robot/meshes/cube.obj"])
def test_meshes_are_found_beside_the_file_and_in_its_package(tmp_path, name):
    pytest.importorskip("trimesh")
    folder = tmp_path / "my_robot"
    (folder / "meshes").mkdir(parents=True)
    (folder / "meshes" / "cube.obj").write_text(CUBE)
    text = FOUR_BAR.replace(
        '<link name="crank">',
        f"""<link name="crank"> <visual> <geometry> <mesh filename="{name}" scale="0.1 0.2 0.3"/>
        </geometry> </visual>""",
    )
    (folder / "robot.urdf").write_text(text)
    mechanism, _ = mbd.from_urdf(folder / "robot.urdf")
    (visual,) = mechanism.bodies["crank"].visuals
    assert np.ptp(np.asarray(visual.shape.vertices), axis=0).tolist() == pytest.approx(
        [0.2, 0.4, 0.6]
    )


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("meshes/sphere.obj", "there is no file"),
        ("../secret.obj", "lies outside of the model's folder"),
        ("file:///opt/robot/link.stl", "lies outside of the model's folder"),
        ("package://robot/link.dae", "the package 'robot' is not below the model's folder"),
        ("broken.obj", "broken.obj"),
    ],
)
def test_a_mesh_that_cannot_be_had_is_left_out_and_listed(tmp_path, name, why, strict):
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "secret.obj").write_text(CUBE)
    (folder / "broken.obj").write_text("no mesh")
    text = f"""<robot name="arm"><link name="base"/><link name="l">
      <visual><geometry><mesh filename="{name}"/></geometry></visual>
      <visual><geometry><sphere radius="0.1"/></geometry></visual>{HEAVY}</link>
      <joint name="j" type="continuous"><parent link="base"/><child link="l"/></joint></robot>"""
    (folder / "robot.urdf").write_text(text)
    mechanism, report = mbd.from_urdf(folder / "robot.urdf", strict=strict)
    (visual,) = mechanism.bodies["l"].visuals  # the others are drawn
    assert isinstance(visual.shape, mbd.Sphere)
    (item,) = report.ignored
    assert (item.tag, item.name, item.line, item.moves) == ("mesh", name, 2, False)
    assert why in item.why and "robot.urdf" not in item.why


BAD = {
    "nothing that moves": (
        f"<robot name='x'><link name='a'>{HEAVY}</link></robot>",
        "line 1: <robot name='x'>: nothing in it moves: its root link is part of the ground, and "
        "so is all that is fixed to it. Pass base='free' to mbd.from_urdf",
    ),
    "broken": ("<robot name='x'> <link>", "line 1: broken XML"),
    "not a robot": ("<model/>", "line 1: <model>: not a URDF file"),
    "no links": ("<robot name='x'/>", "line 1: <robot name='x'>: has no links"),
    "an entity": (
        '<!DOCTYPE robot [<!ENTITY a "aaaa">]><robot name="&a;"/>',
        "line 1: <!DOCTYPE>: a model file declares no",
    ),
    "an unknown tag": (
        "<robot name='x'><link name='a'/>\n<lnk name='b'/></robot>",
        "line 2: <lnk name='b'>: there is no such element",
    ),
    "a joint that cannot be": (
        "<robot name='x'><link name='a'/><link name='b'/>\n<joint name='j' type='helix'>"
        "<parent link='a'/><child link='b'/></joint></robot>",
        "line 2: <joint name='j'>: there is no joint of type 'helix'; known are revolute",
    ),
    "a link that is not there": (
        "<robot name='x'><link name='a'/>\n<joint name='j' type='fixed'>"
        "<parent link='a'/><child link='b'/></joint></robot>",
        "line 2: <child>: there is no link 'b'",
    ),
    "two parents": (
        "<robot name='x'><link name='a'/><link name='b'/>"
        "<joint name='i' type='fixed'><parent link='a'/><child link='b'/></joint>\n"
        "<joint name='j' type='fixed'><parent link='a'/><child link='b'/></joint></robot>",
        "line 2: <joint name='j'>: link 'b' has two parents; close loops with loops=",
    ),
    "a circle": (
        "<robot name='x'><link name='c'/><link name='a'/><link name='b'/>"
        "<joint name='i' type='fixed'><parent link='a'/><child link='b'/></joint>\n"
        "<joint name='j' type='fixed'><parent link='b'/><child link='a'/></joint></robot>",
        "its links are their own ancestors",
    ),
    "no number": (
        "<robot name='x'><link name='a'/><link name='b'>\n<inertial><mass value='heavy'/>"
        "</inertial></link><joint name='j' type='revolute'><parent link='a'/><child link='b'/>"
        "</joint></robot>",
        "line 2: <mass>: value must be a number, not 'heavy'",
    ),
    "a mimic of itself": (
        f"<robot name='x'><link name='a'/><link name='b'>{HEAVY}</link>\n"
        "<joint name='j' type='continuous'><parent link='a'/><child link='b'/>"
        "<mimic joint='j'/></joint></robot>",
        "line 2: <mimic>: joint 'j' ends up with itself as its master: j -> j",
    ),
    "mimics in a circle": (
        f"<robot name='x'><link name='a'/><link name='b'>{HEAVY}</link><link name='c'>{HEAVY}"
        "</link>\n"
        "<joint name='j' type='continuous'><parent link='a'/><child link='b'/>"
        "<mimic joint='k'/></joint>"
        "<joint name='k' type='continuous'><parent link='b'/><child link='c'/>"
        "<mimic joint='j'/></joint></robot>",
        "line 2: <mimic>: joint 'j' ends up with itself as its master: j -> k -> j",
    ),
    "negative damping": (
        f"<robot name='x'><link name='a'/><link name='b'>{HEAVY}</link>\n"
        "<joint name='j' type='continuous'><parent link='a'/><child link='b'/>"
        "<dynamics damping='-1'/></joint></robot>",
        "line 2: <dynamics>: damping must not be negative, is -1",
    ),
    "no mass": (
        "<robot name='x'><link name='a'/>\n<link name='b'/>"
        "<joint name='j' type='revolute'><parent link='a'/><child link='b'/></joint></robot>",
        "line 2: <link name='b'>: it moves and has no mass",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_refused_on_one_line_with_the_place(what, tmp_path):
    text, message = BAD[what]
    path = tmp_path / "bad.urdf"
    path.write_text(text)
    with pytest.raises(ModelFileError) as caught:
        mbd.load(path)
    assert str(caught.value).startswith("bad.urdf: ") and "\n" not in str(caught.value)
    assert message in str(caught.value)


def test_load_tells_what_it_leaves_out(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(arm_urdf())
    with pytest.warns(ModelFileWarning, match=r"'joint5' and 1 more: its range.*mbd.from_urdf"):
        mbd.load(path)


def test_a_link_that_floats_beside_others_is_meant_to():
    mechanism, _ = (
        mbd.from_urdf(f"""<robot name="x"><link name="base"/><link name="a">{HEAVY}</link>
      <link name="b">{HEAVY}</link>
      <joint name="j" type="continuous"><parent link="base"/><child link="a"/></joint>
      <joint name="k" type="floating"><parent link="base"/><child link="b"/>
        <origin xyz="2 0 0"/></joint></robot>""")
    )
    mechanism.build()  # warnings are errors
    assert mechanism.bodies["b"].described == (True, True)


def test_what_the_ground_cannot_show_is_told():
    text = """<robot name="gripper"> <link name="palm">
      <visual> <geometry> <box size="1 1 1"/> </geometry> </visual> </link>
      <link name="finger"> <inertial> <mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
      <joint name="j" type="prismatic"> <parent link="palm"/> <child link="finger"/>
      <axis xyz="1 0 0"/> </joint> </robot>"""
    _, report = mbd.from_urdf(text)
    (item,) = report.ignored
    assert (item.tag, item.name) == ("visual", "palm") and "the ground shows nothing" in item.why
