"""Foreign files that mean harm: no file outside of the model's folder is read, and nothing takes
time or memory that the size of the files does not promise."""

import json
import time

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, xml_tree
from jaxmbd.io.urdf import UrdfOptions, read_urdf

OBJ = "v 0 0 0\nv {0} 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
BODY = '<worldbody><body name="b"><joint axis="0 1 0"/><geom {}/></body></worldbody>'
BALL = BODY.format('size=".1"')
HULL = BODY.format('type="mesh" mesh="a"')


@pytest.fixture
def folder(tmp_path):
    """A model's folder, with the same mesh in it (extent 1) and beside it (extent 7)."""
    (tmp_path / "model" / "assets").mkdir(parents=True)
    (tmp_path / "o.obj").write_text(OBJ.format(7))
    (tmp_path / "model" / "o.obj").write_text(OBJ.format(1))
    (tmp_path / "model" / "assets" / "o.obj").write_text(OBJ.format(3))
    (tmp_path / "secret.bin").write_bytes(b"S" * 360)
    return tmp_path / "model"


def refusal(folder, text, name="m.xml"):
    """The message, which comes at once."""
    if text is not None:
        (folder / name).write_text(text)
    began = time.process_time()
    with pytest.raises(ModelFileError) as caught:
        mbd.load(folder / name)
    assert time.process_time() - began < 5.0
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- paths ---

SIDES = ("right", "left", "up", "down", "front", "back")
ASSET = '<mujoco>{}<asset><mesh name="a" file="{}"/></asset>' + HULL + "</mujoco>"
OUTSIDE = {
    "a folder up": ASSET.format("", "../o.obj"),
    "stripped first, not last": ASSET.format(
        '<compiler strippath="true"/><compiler strippath="false"/>', "../o.obj"
    ),
    "an emptied folder": ASSET.format(
        '<compiler meshdir="assets"/><compiler meshdir=""/>', "../o.obj"
    ),
    "the folder of all assets last": ASSET.format(
        '<compiler meshdir="assets"/><compiler assetdir=".."/>', "o.obj"
    ),
    "the folder of meshes": ASSET.format('<compiler meshdir=".."/>', "o.obj"),
    "an absolute folder": ASSET.format('<compiler meshdir="OUT"/>', "o.obj"),
    "an absolute path": ASSET.format("", "OUT/o.obj"),
    "a texture": '<mujoco><asset><texture name="t" type="2d" file="../t.png"/></asset>'
    f"{BALL}</mujoco>",
    "a skin": f'<mujoco><asset><skin name="s" file="../s.skn"/></asset>{BALL}</mujoco>',
    "a height field": f'<mujoco><asset><hfield name="h" size="1 1 1 1" file="../h.png"/></asset>'
    f"{BALL}</mujoco>",
    "an included file": f'<mujoco><include file="../i.xml"/>{BALL}</mujoco>',
    "a model in a model": '<mujoco><asset><model name="x" file="../x.xml"/></asset>'
    f"{BALL}</mujoco>",
    "a deformable body": '<mujoco><worldbody><body><flexcomp name="f" type="mesh" '
    'file="../o.obj"/></body></worldbody></mujoco>',
} | {
    f"the {side} of a cube": f'<mujoco><asset><texture name="t" file{side}="OUT/t.png"/>'
    f"</asset>{BALL}</mujoco>"
    for side in SIDES
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_mjcf_names_no_file_outside_of_its_folder(folder, what):
    message = refusal(folder, OUTSIDE[what].replace("OUT", str(folder.parent)))
    assert (
        message.startswith("m.xml: line 1: <") and "lies outside of the model's folder" in message
    )


def test_a_file_that_is_included_names_none_outside_either(folder):
    (folder / "i.xml").write_text(
        '<mujoco>\n<asset><mesh name="a" file="../o.obj"/></asset></mujoco>'
    )
    text = f'<mujoco><include file="i.xml"/>{HULL}</mujoco>'
    assert "i.xml: line 2: <mesh name='a'>: the file" in refusal(folder, text)


@pytest.mark.parametrize("compiler", ["", '<compiler meshdir=".."/>'])
def test_a_model_in_a_model_names_none_outside_either(folder, compiler):
    name = "o.obj" if compiler else "../../o.obj"
    (folder / "sub").mkdir()
    (folder / "sub" / "x.xml").write_text(
        f'<mujoco>{compiler}<asset><mesh name="a" file="{name}"/></asset>{HULL}</mujoco>'
    )
    text = f'<mujoco><asset><model name="x" file="sub/x.xml"/></asset>{BALL}</mujoco>'
    assert "lies outside" in refusal(folder, text)


def test_a_urdf_attached_to_a_model_is_refused(folder):
    """MuJoCo would look up the files that it names by itself."""
    (folder / "x.xml").write_text('<robot name="r"><link name="a"/></robot>')
    text = f'<mujoco><asset><model name="x" file="x.xml"/></asset>{BALL}</mujoco>'
    assert "x.xml: not an MJCF file" in refusal(folder, text)


def extent(vertices):
    """Of a mesh as above, which MuJoCo has turned to its principal axes."""
    points = np.asarray(vertices, float)
    longest = np.max(np.linalg.norm(points[:, None] - points[None], axis=-1))
    return float(np.sqrt(longest**2 - 1.0))


def drawn(path, name="b"):
    mechanism, _ = mbd.from_mjcf(path)
    return extent(mechanism.bodies[name].visuals[0].shape.vertices)


FOUND = {
    "beside the model": ("", "o.obj", 1.0),
    "in a folder": ("", "assets/o.obj", 3.0),
    "in the folder of meshes": ('<compiler meshdir="assets"/>', "o.obj", 3.0),
    "of the last compiler": ('<compiler meshdir="assets"/><compiler meshdir=""/>', "o.obj", 1.0),
    "of all assets": ('<compiler meshdir="no"/><compiler assetdir="assets"/>', "o.obj", 3.0),
    "stripped": ('<compiler strippath="true" meshdir="assets"/>', "../../o.obj", 3.0),
}


@pytest.mark.parametrize("what", FOUND)
def test_files_are_found_where_mujoco_finds_them(folder, what):
    mujoco = pytest.importorskip("mujoco")
    compiler, name, size = FOUND[what]
    (folder / "m.xml").write_text(ASSET.format(compiler, name))
    assert drawn(folder / "m.xml") == pytest.approx(size)
    model = mujoco.MjModel.from_xml_path(str(folder / "m.xml"))
    assert extent(model.mesh_vert) == pytest.approx(size)


def test_a_model_in_a_model_is_attached(folder):
    pytest.importorskip("mujoco")
    (folder / "sub").mkdir()
    (folder / "sub" / "o.obj").write_text(OBJ.format(5))
    (folder / "sub" / "x.xml").write_text(
        f'<mujoco><asset><mesh name="a" file="o.obj"/></asset>{HULL}</mujoco>'
    )
    (folder / "m.xml").write_text(
        '<mujoco><asset><model name="x" file="sub/x.xml"/></asset><worldbody><body name="c">'
        '<joint/><geom size=".1"/><attach model="x" body="b" prefix="x_"/></body></worldbody>'
        "</mujoco>"
    )
    assert drawn(folder / "m.xml", "x_b") == pytest.approx(5.0)


def test_messages_of_mujoco_lead_to_the_line_of_the_file(folder):
    pytest.importorskip("mujoco")
    (folder / "i.xml").write_text("<mujoco>\n\n<worldbody>\n<bodi/></worldbody></mujoco>")
    text = f'<mujoco>\n<include file="i.xml"/>{BALL}</mujoco>'
    assert refusal(folder, text).startswith("i.xml: line 4: <bodi>: Schema violation")


def gltf(uri):
    view, numbers = {"buffer": 0, "byteLength": 360}, {"componentType": 5126, "type": "VEC3"}
    return json.dumps(
        {
            "asset": {"version": "2.0"},
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
            "buffers": [{"uri": uri, "byteLength": 360}],
            "bufferViews": [view],
            "accessors": [{"bufferView": 0, "count": 30, **numbers}],
        }
    )


@pytest.mark.parametrize("uri", ["../secret.bin", "OUT/secret.bin", "link.bin", "file://OUT/x"])
def test_a_mesh_names_no_file_outside_of_its_folder(folder, uri):
    pytest.importorskip("trimesh")
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    (folder / "m.gltf").write_text(gltf(uri.replace("OUT", str(folder.parent))))
    with pytest.raises(ValueError, match="m.gltf: .*(lies outside|there is no file)"):
        mbd.Mesh.from_file(folder / "m.gltf")


def test_a_mesh_finds_its_numbers_beside_it(folder, rng):
    pytest.importorskip("trimesh")
    points = rng.normal(size=(30, 3)).astype(np.float32)
    (folder / "own.bin").write_bytes(points.tobytes())
    (folder / "m.gltf").write_text(gltf("own.bin"))
    found = np.asarray(mbd.Mesh.from_file(folder / "m.gltf").vertices)
    np.testing.assert_allclose(sorted(found.tolist()), sorted(points.tolist()), atol=1e-7)


@pytest.mark.parametrize("name", ["m.zip", "m.3mf", "m.txt"])
def test_archives_are_no_meshes(folder, name):
    pytest.importorskip("trimesh")
    (folder / name).write_bytes(b"PK")
    with pytest.raises(ValueError, match=f"{name}: mesh files end in .stl"):
        mbd.Mesh.from_file(folder / name)


def test_a_mesh_declares_no_entities(folder):
    pytest.importorskip("trimesh")
    (folder / "m.dae").write_text('<!DOCTYPE a [<!ENTITY b "bbb">]><a>&b;</a>')
    with pytest.raises(ValueError, match="m.dae: .*document type"):
        mbd.Mesh.from_file(folder / "m.dae")


# --- sizes ---


@pytest.mark.parametrize("encoding", ["nonsense", "hex", "utf-7", "idna", "rot13", "punycode"])
@pytest.mark.parametrize("name", ["m.xml", "m.urdf"])
def test_an_encoding_that_is_none_is_refused(folder, encoding, name):
    text = f'<?xml version="1.0" encoding="{encoding}"?><robot name="r"><link name="a"/></robot>'
    assert name in refusal(folder, text, name)


@pytest.mark.essential
@pytest.mark.parametrize(
    "repeated", ["\n", "<!---->", "x\n"], ids=["empty lines", "comments", "lines"]
)
def test_a_long_text_takes_time_in_proportion(repeated):
    text = repeated * (8_000_000 // len(repeated))
    began = time.process_time()
    root = xml_tree.parse(f'<robot name="r"><link name="a"/>{text}</robot>', "m.urdf")
    assert len(root.children) == 1 and time.process_time() - began < 10.0  # 20 minutes before


def test_elements_are_counted(folder):
    text = "<robot>" + "<a/>" * 100_000 + "</robot>"
    assert "line 1: more than 100000 elements" in refusal(folder, text, "m.urdf")
    text = "<robot>" + "<a>" * 300 + "</a>" * 300 + "</robot>"
    assert "nested deeper than 200" in refusal(folder, text, "m.urdf")


def including(folder, count, times, last="<mujoco/>"):
    for k in range(count):
        text = f'<include file="i{k + 1}.xml"/>' * times
        (folder / f"i{k}.xml").write_text(f"<mujoco>{text}</mujoco>")
    (folder / f"i{count}.xml").write_text(last)


def test_a_file_is_included_once(folder):
    including(folder, 12, 4)
    text = f'<mujoco><include file="i0.xml"/>{BALL}</mujoco>'
    assert "i11.xml: line 1: <include>: the file 'i12.xml' is included twice" in refusal(
        folder, text
    )


def test_a_chain_of_includes_has_an_end(folder):
    including(folder, 1200, 1)
    text = f'<mujoco><include file="i0.xml"/>{BALL}</mujoco>'
    assert "more than 50 files include one another" in refusal(folder, text)


def test_includes_that_nest_elements_have_an_end(folder):
    for k in range(40):
        inner = "<body>" * 100 + f'<include file="i{k + 1}.xml"/>' + "</body>" * 100
        (folder / f"i{k}.xml").write_text(f"<mujoco>{inner}</mujoco>")
    text = '<mujoco><worldbody><include file="i0.xml"/></worldbody></mujoco>'
    assert "nested deeper than 200" in refusal(folder, text)


def test_included_files_elements_and_bytes_are_counted(folder, monkeypatch):
    many = "".join(f'<include file="j{k}.xml"/>' for k in range(600))
    for k in range(600):
        (folder / f"j{k}.xml").write_text("<mujoco/>")
    assert "more than 500 files are included" in refusal(folder, f"<mujoco>{many}</mujoco>")
    for k in range(3):
        (folder / f"j{k}.xml").write_text("<mujoco>" + "<site/>" * 40_000 + "</mujoco>")
    assert "more than 100000 elements" in refusal(folder, f"<mujoco>{many}</mujoco>")
    monkeypatch.setattr(xml_tree, "MAX_BYTES", 2**20)
    (folder / "j0.xml").write_text("<mujoco/>" + " " * 2**19)
    (folder / "j1.xml").write_text("<mujoco/>" + " " * 2**19)
    assert "more than 1 MiB are included" in refusal(folder, f"<mujoco>{many}</mujoco>")


def replicated(*counts):
    text = BALL.removeprefix("<worldbody>").removesuffix("</worldbody>")
    for n in counts:
        text = f'<replicate count="{n}" offset="1 0 0">{text}</replicate>'
    return f"<worldbody>{text}</worldbody>"


BOMBS = {
    "copies": (replicated(100_000_000), "elements, and 100000 are the most"),
    "copies of copies": (replicated(*[100] * 6), "elements, and 100000 are the most"),
    "a composite": (
        '<worldbody><body><composite type="cable" count="100000000 1 1" size="1">'
        '<geom size=".1"/></composite></body></worldbody>',
        "elements, and 100000 are the most",
    ),
    "a grid": (
        '<worldbody><body><flexcomp name="f" type="grid" count="1000 1000 1000" '
        'spacing="1 1 1"/></body></worldbody>',
        "1e+09 elements",
    ),
    "heights": (
        '<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>',
        "<hfield name='h'>: heights of 1e+10, and 67108864 is the most",
    ),
    "pixels": (
        '<asset><texture name="t" type="2d" builtin="flat" width="100000" height="100000"/>'
        "</asset>",
        "pixels of 1e+10",
    ),
    "pixels of a cube": (
        '<asset><texture name="t" builtin="flat" width="100000" height="1"/></asset>',
        "pixels of 6e+10",
    ),
    "keyframes": ('<size nkey="20000000"/>', "nkey of 2e+07, and 10000 is the most"),
    "numbers of the user's": ('<size nuserdata="2000000000"/>', "nuserdata of 2e+09"),
    "a fine mesh": (
        '<asset><mesh name="m" builtin="supersphere" params="1000000 1 1"/></asset>',
        "divisions of 1e+06, and 1000 is the most",
    ),
}


@pytest.mark.parametrize("what", BOMBS)
def test_what_a_few_characters_ask_for_is_refused_with_the_number(folder, what):
    text, message = BOMBS[what]
    assert message in refusal(folder, f"<mujoco>{text}</mujoco>")


def test_a_few_copies_are_made(folder):
    pytest.importorskip("mujoco")
    (folder / "m.xml").write_text(f"<mujoco>{replicated(2, 3)}</mujoco>")
    mechanism, _ = mbd.from_mjcf(folder / "m.xml")
    assert len(mechanism.bodies) == 6


def test_links_take_time_in_proportion():
    """3000 links in a row; every body looked at all of them."""
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        "</inertial>"
    )
    links = "".join(f'<link name="l{k}">{inertial}</link>' for k in range(3001))
    joints = "".join(
        f'<joint name="j{k}" type="fixed"><parent link="l{k}"/><child link="l{k + 1}"/></joint>'
        for k in range(3000)
    )
    began = time.process_time()
    mechanism, _ = read_urdf(
        f'<robot name="r">{links}{joints}</robot>', UrdfOptions(base="free", merge_fixed=True)
    )
    assert time.process_time() - began < 5.0
    (body,) = mechanism.bodies.values()
    assert float(body.mass) == pytest.approx(3001.0)
