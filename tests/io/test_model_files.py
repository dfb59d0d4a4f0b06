"""Model files: what they mean, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, ModelFileWarning, mechanism_from_dict, read_npz
from jaxmbd.io.results import ResultFileError
from jaxmbd.library import names
from model_file_examples import GOOD, OLDER


def changed(path, value):
    data = json.loads(json.dumps(GOOD))
    *parents, last = path
    node = data
    for key in parents:
        node = node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return data


def test_a_file_is_the_mechanism_written_in_python():
    m = mbd.Mechanism("pendulum")
    m.add_body("rod", mass=2.0, inertia=(0.1, 0.2, 0.2), r=(1, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.ViscousFriction("friction", "pin", rotational=0.2))
    m.add(mbd.Actuator("motor", "pin", control=lambda t: 0.5 * jnp.sin(t)))
    m.add(
        mbd.PointForce("push", "rod", force=lambda t: jnp.stack([jnp.sin(2 * t), 0 * t, 1 + 0 * t]))
    )
    m.add(
        mbd.SpringDamper(
            "spring",
            m.ground,
            "rod",
            point_i=(0, 0, 1),
            point_j=(1, 0, 0),
            stiffness=10.0,
            actuator=jnp.cos,
        )
    )
    ours = mbd.simulate(*m.build(), steps=50, h=1e-3)
    theirs = mbd.simulate(*mechanism_from_dict(GOOD).build(), steps=50, h=1e-3)
    np.testing.assert_allclose(theirs.r, ours.r, atol=1e-13)


@pytest.mark.parametrize("name", names())
def test_every_packaged_mechanism_builds_and_assembles(name):
    system, state = mbd.load(name)
    _, report = mbd.assemble(system, state)
    assert bool(report.closed)
    assert np.max(np.abs(report.violation), initial=0.0) < 1e-10  # a free platform has no rows


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("joints", 0, "type"), "Revolut", "joint 'pin': unknown type 'Revolut'; known are"),
        (("joints", 0, "type"), None, "joint 'pin': the field 'type' is missing"),
        (("forces", 0, "type"), "Friction", "force 'friction': unknown type 'Friction'"),
        (("joints", 0, "axis"), None, "joint 'pin': the field 'axis' is missing"),
        (("joints", 0, "axis"), [0, 0, 0], "joint 'pin': axis: the zero vector"),
        (("joints", 0, "point"), [0, 0], "joint 'pin': point: .*at least 3 items"),
        (("joints", 0, "color"), "red", "joint 'pin': unknown field 'color'"),
        (("joints", 0, "body_j"), "rd", "unknown body 'rd'"),
        (("joints", 0, "body_j"), "ground", "both bodies are the ground"),
        (("bodies", 0, "name"), None, r"bodies\[0\]: the field 'name' is missing"),
        (("bodies", 0, "mass"), -2, "body 'rod': mass must be positive"),
        (("bodies", 0, "mass"), float("nan"), "body 'rod': mass"),
        (("bodies", 0, "r"), ["a", 0, 0], "body 'rod': r"),
        (
            ("bodies", 0, "A"),
            [[1, 0, 0], [0, 1, 0], [0, 0, 3]],
            "body 'rod': A is not a rotation matrix",
        ),
        (
            ("forces", 1, "force"),
            ["__import__('os')", 0, 0],
            "force 'push'.*not allowed|force 'push'.*unknown function",
        ),
        (("forces", 1, "force"), ["omega*t", 0, 0], "unknown name 'omega'"),
        (("bodies",), [], "bodies"),
        (("bodies", 0, "mass"), True, "body 'rod': mass: must be a number, not true"),  # was 1 kg
        (("bodies", 0, "mass"), "3", "body 'rod': mass: must be a number, not '3'"),
        (("bodies", 0, "mass"), 10**400, "body 'rod': mass: must be a number, not a huge number"),
        (
            ("bodies", 0, "mass"),
            1e300,
            r"body 'rod': mass: 1e\+300 is too large; numbers go up to 1e\+60",
        ),
        (
            ("bodies", 0, "inertia"),
            [0.1, 0.2, True],
            "body 'rod': inertia.2: must be a number, not true",
        ),
        (
            ("bodies", 0, "inertia"),
            [[1, 0, 0], [0, 1, 0], [0, 0, "1"]],
            "inertia.2.2: must be a number, not '1'",
        ),
        (("bodies", 0, "allow_unphysical_inertia"), "yes", "must be true or false, not 'yes'"),
        (
            ("bodies", 0, "shape"),
            {"type": "Box", "size": [1, 1, True], "mass": 1},
            "body 'rod': shape.size.2: must be",
        ),
        (
            ("bodies", 0, "shape"),
            {
                "type": "Composite",
                "parts": [
                    {
                        "shape": {"type": "Sphere", "radius": 1, "mass": 1},
                        "position": [0, 0, 0],
                        "A": [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
                    }
                ],
            },
            "Composite part 1: A is not a rotation matrix",
        ),
        (
            ("forces", 0, "rotational"),
            False,
            "force 'friction': rotational: must be a number, not false",
        ),
        (("forces", 1, "force"), [True, 0, 0], "force 'push': force.0: must be a number, not true"),
        (
            ("forces", 3, "actuator"),
            "sqrt(-1)*t",
            "force 'spring': actuator: .*'sqrt.-1.' in .* not a finite real",
        ),
        (("joints", 0), 5, r"joints\[0\]: must be an object with named fields, not 5"),
        (("joints",), {}, "model: joints: must be a list, not an object"),
        (("joints", 0, "name"), "", r"joints\[0\]: name: must not be empty"),
        (("name",), None, "model: the field 'name' is missing"),
        (("format",), "jaxmbd-9", "format"),
    ],
)
def test_a_bad_file_is_refused_by_part(path, value, message):
    with pytest.raises(ModelFileError, match=message):
        mechanism_from_dict(changed(path, value))


def test_what_is_no_model_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="one JSON object, not a list"):
        mechanism_from_dict([1, 2])
    with pytest.raises(
        ModelFileError, match="neither a file nor a packaged mechanism; packaged are"
    ):
        mbd.load("no_such_thing")
    with pytest.raises(ModelFileError, match="mechanism; did you mean 'slider_crank' or"):
        mbd.load("slider_crnk")
    with pytest.raises(ModelFileError, match="neither a file nor a packaged mechanism"):
        mbd.load("a\0b")
    with pytest.raises(ModelFileError, match="neither a file nor a packaged mechanism"):
        mbd.load("a" * 5000)
    with pytest.raises(ModelFileError, match="models: this is a folder, not a model file"):
        (tmp_path / "models").mkdir()
        mbd.load(tmp_path / "models")
    (tmp_path / "robot.sdf").write_text("<sdf/>")
    with pytest.raises(ModelFileError, match=r"known are .json.*, .urdf, .xml.*, and .sdf is read"):
        mbd.load(tmp_path / "robot.sdf")
    newer = GOOD | {"format": "jaxmbd-2"}
    with pytest.raises(ModelFileError, match="reads 'jaxmbd-1', not 'jaxmbd-2'; a newer file need"):
        mechanism_from_dict(newer)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{not json", "bad.json: not a JSON file"),
        (b"", "bad.json: the file is empty"),
        (b" \n", "bad.json: the file is empty"),
        (b"\x93NUMPY\xff\x00", "bad.json: not a text file in UTF-8"),
        (json.dumps(GOOD).encode("utf-16"), "bad.json: not a text file in UTF-8; save it"),
        (b"[" * 100_000, "bad.json: not a model file: nested too deeply"),
        (b'{"a":' * 100_000, "bad.json: not a model file: nested too deeply"),
        (
            json.dumps(GOOD).replace("2.0", "NaN").encode(),
            "bad.json: not a JSON file: NaN is not a number in JSON",
        ),
        (
            json.dumps(GOOD).replace("2.0", "-Infinity").encode(),
            "-Infinity is not a number in JSON",
        ),
        (
            json.dumps(GOOD).replace("2.0", "1e999").encode(),
            "body 'rod': mass: must be a finite number",
        ),
        (
            json.dumps(GOOD).replace("2.0", "1" * 5000).encode(),
            "body 'rod': mass: must be a finite number",
        ),
        (
            json.dumps(GOOD).replace('"mass"', '"mass": 1, "mass"').encode(),
            "body 'rod': the key 'mass' appears more",
        ),
        (
            json.dumps(GOOD)[:-1].encode() + b', "joints": []}',
            "model: the key 'joints' appears more than once",
        ),
        (
            json.dumps(GOOD)
            .replace('"r":', '"shape": {"type": "Box", "type": "Rod"}, "r":')
            .encode(),
            "body 'rod'.shape: the key 'type' appears more than once",
        ),
    ],
)
def test_a_file_that_is_no_json_or_says_two_things_is_refused(tmp_path, content, message):
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        mbd.load_mechanism(tmp_path / "bad.json")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    (tmp_path / "good.json").write_text(json.dumps(GOOD), encoding="utf-8-sig")
    assert mbd.load_mechanism(tmp_path / "good.json").name == "pendulum"


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "huge.json", "wb") as file:
        file.truncate(2**30)  # a hole: takes no room
    with pytest.raises(
        ModelFileError, match="huge.json: too large for a model file; at most 64 MiB"
    ):
        mbd.load_mechanism(tmp_path / "huge.json")


def test_a_file_without_end_is_refused():
    if not Path("/dev/zero").exists():
        pytest.skip("no such device")
    with pytest.raises(ModelFileError, match="zero: too large"):
        mbd.load_mechanism("/dev/zero")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("n_pendulum:0", "'n_pendulum:0': n_pendulum needs at least one bar"),
        ("n_pendulum:", "'n_pendulum:': the size must be a whole number, as in 'n_pendulum:16'"),
        ("n_pendulum:-3", "must be a whole number"),
        ("n_pendulum:2.5", "must be a whole number"),
        ("n_pendulum: 4", "must be a whole number"),
        ("n_pendulum:٣", "must be a whole number"),
        ("n_pendulum:1_0", "must be a whole number"),
        (
            "n_pendulum:1000000",
            "'n_pendulum:1000000' asks for 1000000 bodies; the largest packaged size is 10000",
        ),
        ("n_pendulum:" + "9" * 5000, "asks for 9+ bodies; the largest"),
        ("four_bar_ladder:5000", "asks for 10001 bodies; the largest"),
        ("four_bar:3", "'four_bar:3': four_bar comes in one size; write 'four_bar'"),
        ("four_bar:", "four_bar comes in one size"),
        ("stewart_platform:2", "stewart_platform comes in one size; write 'stewart_platform'"),
    ],
)
def test_a_size_that_a_packaged_mechanism_cannot_have_is_refused(name, message):
    with pytest.raises(ModelFileError, match=message) as caught:
        mbd.load(name)
    assert len(str(caught.value)) < 200


def test_sizes_are_whole_numbers():
    assert len(mbd.load_mechanism("revolute_chain:003").bodies) == 3


def test_velocities_are_optional():
    body = mechanism_from_dict(GOOD).bodies["rod"]
    assert body.described == (False, False)
    stated = mechanism_from_dict(changed(("bodies", 0, "v"), [0, 0, 0])).bodies["rod"]
    assert stated.described == (True, False)


def test_a_constant_text_is_a_number_and_no_driver():
    data = changed(("drivers",), [])
    primitive = {"type": "D", "s_i_bar": [0, 0, 0], "s_j_bar": [0, 0, 0], "f": "sqrt(4)/2"}
    part = {
        "type": "Constraint",
        "name": "rope",
        "body_i": "ground",
        "body_j": "rod",
        "primitives": [primitive],
    }
    data["joints"] = [part]
    data["forces"] = []
    assert not mechanism_from_dict(data).constraints["rope"].is_driver
    part["primitives"][0]["f"] = "1 + 0*t"
    assert mechanism_from_dict(data).constraints["rope"].is_driver


def test_the_schema_is_published_and_names_the_format():
    # A schema knows every class that its process has defined, those of other tests too; so a
    # process of its own.
    command = [sys.executable, "-m", "jaxmbd", "schema"]
    schema = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert schema["properties"]["format"]["const"] == "jaxmbd-1"
    assert "RotationDriverFile" in schema["$defs"]
    published = Path(__file__).parents[2] / "docs" / "jaxmbd-1.schema.json"
    assert json.loads(published.read_text()) == schema, (
        "write it anew: jaxmbd schema > docs/jaxmbd-1.schema.json"
    )


# --- the older format ---


def test_the_older_format_gives_the_packaged_pendulum_and_its_wrong_derivative_is_reported(
    tmp_path,
):
    sentence = (
        r"constraint 'driver': f_ddot = '1.0\*t' is not the derivative of "
        r"f = 'cos\(pi/2 \+ pi/4\*cos\(2\*t\)\)'; it is ignored, and JAX takes the derivatives$"
    )
    with pytest.warns(ModelFileWarning, match="^" + sentence):
        system, state = mechanism_from_dict(OLDER).build()
    (tmp_path / "old.json").write_text(json.dumps(OLDER))
    with pytest.warns(ModelFileWarning, match="^old.json: " + sentence) as caught:
        mbd.load(tmp_path / "old.json")
    assert len(caught) == 1
    ts = np.arange(0, 101) * 1e-2
    old = mbd.kinematics(system, state, ts)
    new = mbd.kinematics(*mbd.load("single_pendulum"), ts)
    np.testing.assert_allclose(old.r, new.r, atol=1e-7)  # the old data are rounded at 1e-8
    np.testing.assert_allclose(old.a, new.a, atol=1e-5)
    assert np.all(np.isnan(old.lam))  # no masses, no forces
    with pytest.raises(
        ValueError, match="dynamics needs mass and inertia of every body; missing for rod"
    ):
        mbd.simulate(system, state, steps=1, h=1e-3)


def test_the_warning_points_outside_of_the_package(tmp_path):
    # In a process of its own: checks of types during tests put frames of their own in between.
    (tmp_path / "old.json").write_text(json.dumps(OLDER))
    (tmp_path / "user.py").write_text(
        "import jaxmbd\njaxmbd.enable_x64()\n\njaxmbd.load('old.json')\n"
    )
    run = subprocess.run(
        [sys.executable, "user.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0
    assert "user.py:4: ModelFileWarning: old.json: constraint 'driver': f_ddot" in run.stderr


def older(section, k, **changes):
    data = json.loads(json.dumps(OLDER))
    data["constraints"] = data["constraints"][:-1]
    part = data if k is None else data[section][k]
    part.update(changes)
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            older("constraints", 0, type="DP9"),
            "constraint 'x1': unknown type 'DP9'; known are DP1, DP2, D, CD",
        ),
        (older("constraints", 0, type=["CD"]), "constraint 'x1': unknown type"),
        (
            older("constraints", 0, body_i=7),
            "constraint 'x1': body_i is 7, but no body has that id",
        ),
        (
            older("constraints", 0, body_i=[1]),
            "constraint 'x1': body_i: must be an integer or a string, not a list",
        ),
        (
            older("constraints", 0, body_i=True),
            "constraint 'x1': body_i: must be an integer or a string, not true",
        ),
        (older("constraints", 0, s_bar=[1, 2, 3]), "constraint 'x1': unknown field 's_bar'"),
        (
            older("constraints", 0, c=[1, 0, 0]),
            "constraint 'x1': unknown field 'c'",
        ),  # DP1 has no c
        (
            older("constraints", 0, a_bar_i=["1", 0, 0]),
            "constraint 'x1': a_bar_i.0: must be a number, not '1'",
        ),
        (older("constraints", 0, f="2*x"), "constraint 'x1': f: unknown name 'x'"),
        (
            older("constraints", 0, f="sqrt(-1)"),
            r"constraint 'x1': f: 'sqrt\(-1\)' is not a finite real number",
        ),
        (older("constraints", 0, f=[0]), "constraint 'x1': f: must be a number, not a list"),
        (
            older("constraints", 0, f_dot={"input": "u"}),
            "constraint 'x1': f_dot: must be a number, not an object",
        ),
        (older("bodies", 1, id=[1]), "body 'rod': id: must be an integer or a string, not a list"),
        (older("bodies", 1, id=1.0), "body 'rod': id: must be an integer or a string, not 1.0"),
        (older("bodies", 1, id=0, name="rod"), "body 'rod': the id 0 is taken by 'ground'"),
        (
            older("bodies", 0, name="base", r=[1, 0, 0]),
            "body 'base': .* id 0 is the ground, .* leave out r",
        ),
        (
            older("bodies", 0, mass=1.0),
            "body 'ground': the ground does not move and has no mass; leave out mass",
        ),
        (older("bodies", 1, mas=1.0), "body 'rod': unknown field 'mas'"),
        (older("bodies", 1, mass=True), "body 'rod': mass: must be a number, not true"),
        (older("bodies", 1, r=None), "body 'rod': the field 'r' is missing"),
        (older(None, None, gravity="9.81"), "model: gravity: must be a list, not '9.81'"),
        (older(None, None, step=1), "model: unknown field 'step'"),
        (older(None, None, name=3), "model: name: must be a string, not 3"),
        (older(None, None, bodies={}), "model: bodies: must be a list, not an object"),
        (
            older(None, None, constraints=[1]),
            r"constraints\[0\]: must be an object with named fields, not 1",
        ),
    ],
)
def test_the_older_format_is_refused_by_part(data, message):
    with pytest.raises(ModelFileError, match=message):
        mechanism_from_dict(data)


@pytest.mark.parametrize(
    "ground",
    [{"name": "ground", "id": 0}, {"name": "ground", "id": "g"}, {"name": "base", "id": 0}],
)
def test_the_ground_of_the_older_format_goes_by_name_or_by_the_id_0(ground):
    data = older("bodies", 0)
    data["bodies"][0] = ground
    for row in data["constraints"]:
        row["body_j"] = ground["id"]
    m = mechanism_from_dict(data)
    assert list(m.bodies) == ["rod"] and all(c.body_j == "ground" for c in m.constraints.values())


def test_a_constant_of_the_older_format_may_contain_a_t():
    # "t" was looked for in the text, and sqrt(2)/2 became a driver.
    m = mechanism_from_dict(older("constraints", 0, f="sqrt(2)/2", f_dot="0", f_ddot="0.0"))
    assert not m.constraints["x1"].is_driver
    with pytest.warns(
        ModelFileWarning, match="constraint 'x1': f_dot = '1' is not the derivative of f = 'sqrt"
    ):
        mechanism_from_dict(older("constraints", 0, f="sqrt(2)/2", f_dot="1"))


# --- results ---


def test_a_result_file_holds_the_arrays_under_their_own_names(tmp_path):
    system, state = mbd.load("double_pendulum")
    sol = mbd.simulate(system, state, steps=20, h=1e-3)
    path = tmp_path / "r.npz"
    sol.to_npz(path, system)
    with np.load(path, allow_pickle=False) as file:
        motion = {"t", "r", "A", "v", "omega", "a", "alpha", "lam", "angles", "element_states"}
        assert set(file.files) == motion | {"inputs", "iterations", "result", "stats"}
    data = read_npz(path)
    for name in ("t", "r", "A", "lam"):
        np.testing.assert_array_equal(data[name], getattr(sol, name))
    assert data["stats"]["result"] == "successful" and data["stats"]["drawing"]["bodies"] == [
        "upper",
        "lower",
    ]
    sol.to_csv(tmp_path / "r.csv", system)
    header, *rows = (tmp_path / "r.csv").read_text().splitlines()
    assert len(rows) == 21 and "upper.r.x [m]" in header and "lam[" not in header
    sol.to_csv(tmp_path / "r.csv", columns=["lam*"])
    assert ",lam[upper_pin: DP1 1] [N or N m]," in (tmp_path / "r.csv").read_text()
    assert not list(tmp_path.glob("*.partial"))


def test_what_is_no_result_file_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"no zip")
    with pytest.raises(ResultFileError, match="cannot read"):
        read_npz(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", t=np.zeros(3))
    with pytest.raises(ResultFileError, match="lacks r, A"):
        read_npz(tmp_path / "y.npz")


def test_inputs_are_written_and_read_back(tmp_path):
    m = mbd.Mechanism("arm")
    rod = m.add_body("rod", shape=mbd.Box((1.0, 0.1, 0.1), mass=2.0), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Actuator("motor", "pin", control=mbd.Input("u", unit="N·m")))
    m.add(mbd.PointForce("wind", rod, point=(1, 0, 0), force=mbd.Input("wind", 3, "N")))
    disc = m.add_body("disc", shape=mbd.Cylinder(0.1, 0.1, mass=1.0), r=(0, 0, 1))
    m.add(mbd.Revolute("hub", m.ground, disc, point=(0, 0, 1), axis=(0, 0, 1)))
    m.add(mbd.RotationDriver("turn", m.ground, disc, axis=(0, 0, 1), angle=mbd.Input("turn")))
    mbd.save(m, tmp_path / "arm.json")
    again, _ = mbd.load(tmp_path / "arm.json")
    assert again.inputs == m.build()[0].inputs
    data = json.loads((tmp_path / "arm.json").read_text())
    for wrong, message in (
        ({"input": ""}, "control.input: must not be empty"),
        ({"inputs": "u"}, "unknown field 'control.inputs'"),
        ({"input": "u", "size": 0}, "control.size: Input should be greater"),
    ):
        data["forces"][0]["control"] = wrong
        (tmp_path / "wrong.json").write_text(json.dumps(data))
        with pytest.raises(ModelFileError, match=message):
            mbd.load(tmp_path / "wrong.json")
