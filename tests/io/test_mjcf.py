"""MJCF files: trees against MuJoCo's accelerations, loops that stay closed, what is left out."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, ModelFileWarning
from mjcf_models import ARM, GRIPPER, INCLUDING, LOOPS, TREES

mujoco = pytest.importorskip("mujoco", reason="MuJoCo reads MJCF: pip install 'jaxmbd[mjcf]'")


def smooth(model):
    """MuJoCo without ranges, contacts, dry friction and equality constraints."""
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return model


def random_positions(model, rng):
    """Positions within half a turn of the reference, and speeds."""
    qpos = model.qpos0.copy()
    mujoco.mj_integratePos(model, qpos, rng.uniform(-1.2, 1.2, model.nv), 1.0)
    return qpos, rng.normal(size=model.nv)


def mujoco_accelerations(model, data, names):
    """Accelerations of the mass centers, and angular ones, global, by MuJoCo."""
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    found = np.zeros((len(names), 6))
    for row, name in zip(found, names, strict=True):
        body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
        mujoco.mj_objectAcceleration(model, data, mujoco.mjtObj.mjOBJ_BODY, body, row, 0)
    found[:, 3:] += model.opt.gravity
    return found


def compared(mechanism, report, model, *, states=20, ctrl=None):
    """The largest difference of accelerations over random states, relative to the largest one."""
    system, _ = mechanism.build()
    named = {model.body(b).name for b in range(1, model.nbody)}
    rows = [k for k, name in enumerate(system.bodies) if name in named]
    names = [system.bodies[k] for k in rows]
    rng, worst = np.random.default_rng(3), 0.0
    for _ in range(states):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = random_positions(model, rng)
        if ctrl is not None:
            data.ctrl[:] = ctrl
        wanted = mujoco_accelerations(model, data, names)
        state = report.state(data.qpos, data.qvel)
        acc = mbd.accelerations(system, state)
        alpha = np.einsum("bij,bj->bi", np.asarray(state.A), np.asarray(acc.alpha))
        found = np.concatenate([alpha, np.asarray(acc.a)], axis=1)[rows]
        worst = max(worst, np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))
    return worst


# Every kind of joint, spring, damper, rotor and actuator, and several joints in a body.
QUICK_TREES = ("arm", "balls", "planar", "servos", "activated", "springs", "humanoid")


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=() if x in QUICK_TREES else pytest.mark.slow) for x in TREES],
)
def test_accelerations_of_a_tree_are_those_of_mujoco(name):
    model = smooth(mujoco.MjModel.from_xml_string(TREES[name]))
    mechanism, report = mbd.from_mjcf(TREES[name])
    assert compared(mechanism, report, model) < 1e-10
    assert report.refused == [] and report.loops == []


def test_accelerations_of_a_tree_with_includes(tmp_path):
    for file, text in INCLUDING.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    path = tmp_path / "main.xml"
    model = smooth(mujoco.MjModel.from_xml_path(str(path)))
    mechanism, report = mbd.from_mjcf(path)
    assert list(mechanism.bodies) == ["trunk", "leg"]
    assert compared(mechanism, report, model) < 1e-10


# --- closed loops ---

QUICK_LOOPS = ("four-bar",)


@pytest.mark.parametrize("name", LOOPS)
def test_a_report_names_loops_freedoms_and_rank(name):
    text, loops, freedoms = LOOPS[name]
    mechanism, report = mbd.from_mjcf(text)
    assert report.loops == loops and report.freedoms == freedoms
    assert report.rank == 6 * len(mechanism.bodies) - freedoms
    assert ", ".join(loops) in str(report) and f"{freedoms} degree" in str(report)


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=() if x in QUICK_LOOPS else pytest.mark.slow) for x in LOOPS],
)
def test_loops_stay_closed_for_ten_seconds(name):
    mechanism, _ = mbd.from_mjcf(LOOPS[name][0], keyframe=KEYFRAMES.get(name))
    system, state = mechanism.build()
    sol = mbd.simulate(system, state, h=2e-3, steps=5000, save_every=50)
    assert float(jnp.max(jnp.abs(sol.violation().position))) < 1e-12
    assert float(jnp.max(jnp.abs(sol.r[-1] - sol.r[0]))) > 1e-3  # it did move


KEYFRAMES = {"gripper": "closing"}


def test_a_gripper_obeys_its_tendon_and_its_coupling():
    """The fingers close together; their drivers rest where the tendon's motor holds them."""
    mechanism, _ = mbd.from_mjcf(GRIPPER, keyframe="closing")
    mechanism.gravity = (0.0, 0.0, 0.0)
    system, state = mechanism.build()
    sol = mbd.simulate(system, state, h=2e-3, steps=200, save_every=20)
    right, left = (sol.joint(f"{side}_driver_joint").angle for side in ("right", "left"))
    np.testing.assert_allclose(right, left, atol=1e-12)
    assert abs(float(right[-1])) > 0.01


# --- options and what is left out ---


def test_the_report_lists_what_is_left_out_by_tag_name_and_line():
    text = ARM.replace("</worldbody>", '<camera name="eye"/> <light/> </worldbody>').replace(
        "</mujoco>",
        """<sensor> <jointpos name="angle" joint="j1"/> </sensor>
           <actuator> <motor name="m" joint="j1" ctrlrange="-1 1"/> </actuator> </mujoco>""",
    )
    mechanism, report = mbd.from_mjcf(text)
    assert mechanism.forces["m"].control_range == (-1.0, 1.0)
    found = {(x.tag, x.name): x for x in report.ignored}
    assert set(found) == {
        ("joint", "j2"), ("geom", ""), ("camera", "eye"), ("light", ""), ("jointpos", "angle"),
    }  # fmt: skip
    lines = [k + 1 for k, line in enumerate(text.splitlines()) if 'joint name="j2"' in line]
    assert [found["joint", "j2"].line] == lines and found["camera", "eye"].line is not None
    assert not found["camera", "eye"].moves and found["joint", "j2"].moves
    assert "eye" not in report.summary() and "'j2'" in report.summary()
    limited, _ = mbd.from_mjcf(text, limits=True)
    limit = limited.laws["limit of j2"]
    assert (limit.lower, limit.upper) == pytest.approx((-np.pi / 2, np.pi / 2))


def test_load_warns_of_what_it_leaves_out(tmp_path):
    (tmp_path / "arm.xml").write_text(ARM)
    with pytest.warns(ModelFileWarning, match=r"arm.xml: left out: <joint> 'j2': its range"):
        system, state = mbd.load(tmp_path / "arm.xml")
    assert system.bodies == ("base", "upper", "fore", "hand")


@pytest.mark.parametrize("name", ["servos", "saturated", "activated"])
def test_a_keyframe_is_the_description(name):
    """The same accelerations as MuJoCo's at its keyframe, controls and their limits included."""
    text = TREES[name]
    model = smooth(mujoco.MjModel.from_xml_string(text))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mechanism, report = mbd.from_mjcf(text, keyframe="home")
    wanted = mujoco_accelerations(model, data, list(mechanism.bodies))
    assert report.keyframes == ["home"]
    system, state = mechanism.build()
    acc = mbd.accelerations(system, state)
    np.testing.assert_allclose(acc.a, wanted[:, 3:], rtol=1e-10, atol=1e-9)
    with pytest.raises(ModelFileError, match="no keyframe 'away'; the keyframes are home"):
        mbd.from_mjcf(text, keyframe="away")


def test_activations_run_as_those_of_mujoco():
    """Lags and an integrator that meets its range, at steps of a tenth of a millisecond there."""
    text = TREES["activated"]
    model = smooth(mujoco.MjModel.from_xml_string(text))
    model.opt.timestep = 1e-4
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for actuator, control in (("lag", 0.8), ("filter", -0.4), ("steer", -3.0)):
        data.ctrl[model.actuator(actuator).id] = control
    system, state = _with_controls(text, lag=0.8, filter=-0.4, steer=-3.0)
    sol = mbd.simulate(system, state, h=1e-3, steps=200, save_every=100)
    for row in (1, 2):
        mujoco.mj_step(model, data, 1000)
        for k, name in enumerate(("lag", "filter", "steer")):
            found = float(sol[f"{name}.activation"][row])
            # What acts is cut off at the range, -0.5; the state is led back to it.
            assert abs(max(found, -0.5) - data.act[k]) < 5e-4
    np.testing.assert_allclose(sol.joint("a").angle[-1] + 0.5, data.qpos[0], atol=2e-3)


def _with_controls(text, **controls):
    mechanism, _ = mbd.from_mjcf(text, keyframe="home")
    for name, value in controls.items():
        mechanism.forces[name] = dataclasses.replace(mechanism.forces[name], control=value)
    return mechanism.build()


def test_a_range_that_several_actuators_share_is_told():
    text = (
        TREES["activated"]
        .replace("</actuator>", '<motor name="second" joint="b"/> </actuator>')
        .replace("0.7 -0.4", "0.7 -0.4 0")
    )
    _, report = mbd.from_mjcf(text)
    assert [x.name for x in report.ignored if "actuatorfrcrange" in x.why] == ["b"]


def test_links_without_joints_are_merged_on_request():
    plain, report = mbd.from_mjcf(TREES["welded"])
    assert list(plain.bodies) == ["link", "tool", "tip"]  # the flange has no mass
    assert report.merged == {"stand": "ground", "flange": "link"}
    merged, report = mbd.from_mjcf(TREES["welded"], merge_fixed=True)
    assert list(merged.bodies) == ["link", "tip"] and report.merged["tool"] == "link"
    system, state = merged.build()
    other, start = plain.build()
    one, two = mbd.accelerations(system, state), mbd.accelerations(other, start)
    np.testing.assert_allclose(one.a[1], two.a[2], rtol=1e-10, atol=1e-12)


def test_a_moving_body_without_mass_carries_what_is_welded_to_it():
    text = """<mujoco> <worldbody> <body name="hub"> <joint axis="0 1 0"/> <body name="blade">
      <geom type="box" size="0.2 0.1 0.05" pos="0.2 0.1 0"/>
      </body> </body> </worldbody> </mujoco>"""
    mechanism, report = mbd.from_mjcf(text)
    assert mechanism.bodies["hub"].massless and not mechanism.bodies["blade"].massless
    model = smooth(mujoco.MjModel.from_xml_string(text))
    assert compared(mechanism, report, model, states=3) < 1e-10


UNSUPPORTED = {
    "a body that is moved": (
        '<worldbody> <body name="hand" mocap="true"> <geom size="1"/> </body> <body> <joint/> '
        '<geom size="1"/> </body> </worldbody>',
        "<body name='hand'> (line 1): mocap bodies",
    ),
    "armature of a free joint": (
        '<worldbody> <body> <joint type="free" armature="1"/> <geom size="1"/> </body>'
        " </worldbody>",
        "armature of a free joint",
    ),
    "the spring of a ball": (
        '<worldbody> <body> <joint name="b" type="ball" stiffness="1"/> <geom size="1"/> </body>'
        " </worldbody>",
        "<joint name='b'> (line 1): the spring of a ball joint is not supported",
    ),
    "a muscle": (
        '<worldbody> <body> <joint name="j"/> <geom size="1"/> </body> </worldbody>'
        '<actuator> <muscle name="m" joint="j" lengthrange="0 1"/> </actuator>',
        "<actuator name='m'>: MuJoCo's muscle has curves of its own",
    ),
    "a tendon round a corner": (
        '<worldbody> <site name="x"/> <body> <joint/> <geom size="1"/> <site name="y"/> '
        '<site name="z" pos="0 0 1"/> </body> </worldbody> <tendon> '
        '<spatial name="t" stiffness="1"> <site site="x"/> <site site="y"/> <site site="z"/> '
        "</spatial> </tendon>",
        "<spatial name='t'> (line 1): a tendon that is no straight line",
    ),
    "a fluid": (
        '<option density="1"/> <worldbody> <body> <joint/> <geom size="1"/> </body> </worldbody>',
        "forces of a fluid",
    ),
}


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_what_would_move_otherwise_is_refused_by_name(what):
    text, message = UNSUPPORTED[what]
    text = f"<mujoco>{text}</mujoco>"
    with pytest.raises(ModelFileError) as caught:
        mbd.from_mjcf(text)
    assert message in str(caught.value) and "strict=False" in str(caught.value)
    _, report = mbd.from_mjcf(text, strict=False)
    assert len(report.refused) == 1


# --- bad files ---

BAD = {
    "broken": ("<mujoco>\n<worldbody>", "bad.xml: line 2: broken XML: no element found"),
    "another root": ("<sdf/>", "bad.xml: not an MJCF file: its root is <sdf>"),
    "an entity": (
        '<!DOCTYPE m [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n<mujoco model="&b;"/>',
        "bad.xml: line 1: <!DOCTYPE>: a model file declares no document type",
    ),
    "an unknown tag": (
        "<mujoco>\n<worldbody>\n<bodi/></worldbody></mujoco>",
        "bad.xml: line 3: <bodi>: Schema violation: unrecognized element",
    ),
    "a joint that cannot be": (
        "<mujoco><worldbody>\n<body><joint type='helix'/></body></worldbody></mujoco>",
        "bad.xml: line 2: <joint>: ",
    ),
    "a missing mesh": (
        "<mujoco><asset>\n<mesh name='m' file='m.stl'/></asset></mujoco>",
        "bad.xml: line 2: <mesh name='m'>: there is no file 'm.stl'",
    ),
    "a file elsewhere": (
        "<mujoco><asset>\n<mesh name='m' file='../secret.stl'/></asset></mujoco>",
        "bad.xml: line 2: <mesh name='m'>: the file '../secret.stl' lies outside",
    ),
    "a missing include": (
        "<mujoco>\n<include file='x.xml'/></mujoco>",
        "bad.xml: line 2: <include>: there is no file 'x.xml'",
    ),
    "no mass": (
        "<mujoco><worldbody>\n<body name='b'>\n<joint/></body></worldbody></mujoco>",
        "bad.xml: line 2: element 'b': mass and inertia of moving bodies",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_refused_on_one_line_with_the_place(what, tmp_path):
    text, message = BAD[what]
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.stl").write_text("solid")
    (folder / "bad.xml").write_text(text)
    with pytest.raises(ModelFileError) as caught:
        mbd.load(folder / "bad.xml")
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_includes_that_go_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a.xml").write_text("<mujoco><include file='b.xml'/></mujoco>")
    (tmp_path / "b.xml").write_text("<mujocoinclude>\n<include file='c.xml'/></mujocoinclude>")
    (tmp_path / "c.xml").write_text("<mujocoinclude>\n\n<include file='b.xml'/></mujocoinclude>")
    with pytest.raises(ModelFileError, match="c.xml: line 3: <include>: includes go in a circle"):
        mbd.load(tmp_path / "a.xml")


def test_a_mesh_without_volume_that_must_give_mass_is_refused(tmp_path):
    (tmp_path / "flat.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nf 1 2 3\nf 2 4 3\n")
    (tmp_path / "m.xml").write_text(
        """<mujoco><asset><mesh name="flat" file="flat.obj"/></asset>
        <worldbody><body><joint/><geom type="mesh" mesh="flat"/></body></worldbody></mujoco>"""
    )
    with pytest.raises(ModelFileError) as caught:
        mbd.load(tmp_path / "m.xml")
    assert "flat" in str(caught.value) and "\n" not in str(caught.value)


def test_a_text_names_no_files():
    with pytest.raises(ModelFileError, match="a text has no folder"):
        mbd.from_mjcf("<mujoco><include file='x.xml'/></mujoco>")


def test_a_body_that_flies_beside_others_is_meant_to():
    mechanism, _ = mbd.from_mjcf("""<mujoco><worldbody>
      <body><joint name="pin" axis="0 1 0"/><geom size="0.1" pos="0.5 0 0"/></body>
      <body name="ball" pos="2 0 0"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>""")
    mechanism.build()  # warnings are errors
    assert mechanism.bodies["ball"].described == (True, True)
