"""Model files: what they mean, and what is refused."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, json_schema, mechanism_from_dict, read_npz
from jaxmbd.io.results import ResultFileError
from jaxmbd.library import names

GOOD = {
    "format": "jaxmbd-1",
    "name": "pendulum",
    "bodies": [{"name": "rod", "mass": 2.0, "inertia": [0.1, 0.2, 0.2], "r": [1, 0, 0]}],
    "joints": [
        {"type": "Revolute", "name": "pin", "body_i": "ground", "body_j": "rod", "point": [0, 0, 0], "axis": [0, 1, 0]}
    ],
    "forces": [
        {"type": "ViscousFriction", "name": "friction", "joint": "pin", "rotational": 0.2},
        {"type": "PointForce", "name": "push", "body": "rod", "force": ["sin(2*t)", 0, 1]},
        {"type": "Actuator", "name": "motor", "joint": "pin", "control": "0.5*sin(t)"},
        {
            "type": "SpringDamper",
            "name": "spring",
            "body_i": "ground",
            "body_j": "rod",
            "point_i": [0, 0, 1],
            "point_j": [1, 0, 0],
            "stiffness": 10,
            "actuator": "cos(t)",
        },
    ],
}


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
    m.add(mbd.PointForce("push", "rod", force=lambda t: jnp.stack([jnp.sin(2 * t), 0 * t, 1 + 0 * t])))
    m.add(
        mbd.SpringDamper(
            "spring", m.ground, "rod", point_i=(0, 0, 1), point_j=(1, 0, 0), stiffness=10.0, actuator=jnp.cos
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
        (("joints", 0, "colour"), "red", "joint 'pin': unknown field 'colour'"),
        (("joints", 0, "body_j"), "rd", "unknown body 'rd'"),
        (("joints", 0, "body_j"), "ground", "both bodies are the ground"),
        (("bodies", 0, "name"), None, r"bodies\[0\]: the field 'name' is missing"),
        (("bodies", 0, "mass"), -2, "body 'rod': mass must be positive"),
        (("bodies", 0, "mass"), float("nan"), "body 'rod': mass"),
        (("bodies", 0, "r"), ["a", 0, 0], "body 'rod': r"),
        (("bodies", 0, "A"), [[1, 0, 0], [0, 1, 0], [0, 0, 3]], "body 'rod': A is not a rotation matrix"),
        (
            ("forces", 1, "force"),
            ["__import__('os')", 0, 0],
            "force 'push'.*not allowed|force 'push'.*unknown function",
        ),
        (("forces", 1, "force"), ["omega*t", 0, 0], "unknown name 'omega'"),
        (("bodies",), [], "bodies"),
        (("name",), None, "model: the field 'name' is missing"),
        (("format",), "jaxmbd-9", "format"),
    ],
)
def test_a_bad_file_is_refused_by_part(path, value, message):
    with pytest.raises(ModelFileError, match=message):
        mechanism_from_dict(changed(path, value))


def test_what_is_no_model_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="one JSON object"):
        mechanism_from_dict([1, 2])
    bad = tmp_path / "bad.json"
    bad.write_text("{not json")
    with pytest.raises(ModelFileError, match="bad.json: not a JSON file"):
        mbd.load(bad)
    with pytest.raises(ModelFileError, match="neither a file nor a packaged mechanism; packaged are"):
        mbd.load("no_such_thing")
    with pytest.raises(ModelFileError, match="at least one bar"):
        mbd.load("n_pendulum:0")


def test_the_schema_is_published_and_names_the_format():
    schema = json_schema()
    assert schema["properties"]["format"]["const"] == "jaxmbd-1"
    assert "RotationDriverFile" in schema["$defs"]
    published = Path(__file__).parents[2] / "docs" / "jaxmbd-1.schema.json"
    assert json.loads(published.read_text()) == schema, "write it anew: jaxmbd schema > docs/jaxmbd-1.schema.json"


# --- the older format ---

OLDER = {
    "name": "old pendulum",
    "bodies": [
        {"name": "ground", "id": 0},
        {
            "name": "rod",
            "id": 1,
            "r": [0, 1.41421356, -1.41421356],
            "r_dot": [0, 0, 0],
            "A": [[0, 0, 1], [0.70710678, 0.70710678, 0], [-0.70710678, 0.70710678, 0]],
            "omega": [0, 0, 0],
        },
    ],
    "constraints": [
        {"name": "x1", "type": "DP1", "body_i": 1, "body_j": 0, "a_bar_i": [1, 0, 0], "a_bar_j": [1, 0, 0], "f": "0"},
        {"name": "x2", "type": "DP1", "body_i": 1, "body_j": 0, "a_bar_i": [0, 1, 0], "a_bar_j": [1, 0, 0], "f": "0"},
        *(
            {
                "name": "ball",
                "type": "CD",
                "body_i": 1,
                "body_j": 0,
                "c": c,
                "s_bar_p_i": [-2, 0, 0],
                "s_bar_q_j": [0, 0, 0],
                "f": "0",
            }
            for c in np.eye(3).tolist()
        ),
        {
            "name": "driver",
            "type": "DP1",
            "body_i": 1,
            "body_j": 0,
            "a_bar_i": [0, 1, 0],
            "a_bar_j": [0, 0, -1],
            "f": "cos(pi/2 + pi/4*cos(2*t))",
            "f_dot": "sin(pi/2 + pi/4*cos(2*t))*pi/2*sin(2*t)",
            "f_ddot": "1.0*t",
        },
    ],
}


def test_the_older_format_gives_the_packaged_pendulum_and_its_wrong_derivative_is_reported():
    with pytest.warns(UserWarning, match="'driver'.*f_ddot.*not the derivative"):
        system, state = mechanism_from_dict(OLDER).build()
    ts = np.arange(0, 101) * 1e-2
    old = mbd.kinematics(system, state, ts)
    new = mbd.kinematics(*mbd.load("single_pendulum"), ts)
    np.testing.assert_allclose(old.r, new.r, atol=1e-7)  # the old data are rounded at 1e-8
    np.testing.assert_allclose(old.a, new.a, atol=1e-5)
    assert np.all(np.isnan(old.lam))  # no masses, no forces
    with pytest.raises(ValueError, match="dynamics needs mass and inertia of every body; missing for rod"):
        mbd.simulate(system, state, steps=1, h=1e-3)


def test_the_older_format_names_what_is_missing():
    data = json.loads(json.dumps(OLDER))
    data["constraints"][0]["type"] = "DP9"
    with pytest.raises(ModelFileError, match="constraint 'x1': unknown type 'DP9'"):
        mechanism_from_dict(data)
    data["constraints"][0].update(type="DP1", body_i=7)
    with pytest.raises(ModelFileError, match="constraint 'x1': body_i is 7"):
        mechanism_from_dict(data)


# --- results ---


def test_a_result_file_holds_the_arrays_under_their_own_names(tmp_path):
    system, state = mbd.load("double_pendulum")
    sol = mbd.simulate(system, state, steps=20, h=1e-3)
    path = tmp_path / "r.npz"
    sol.to_npz(path, system)
    with np.load(path, allow_pickle=False) as file:
        assert set(file.files) == {
            "t", "r", "A", "v", "omega", "a", "alpha", "lam", "iterations", "result", "stats"
        }  # fmt: skip
    data = read_npz(path)
    for name in ("t", "r", "A", "lam"):
        np.testing.assert_array_equal(data[name], getattr(sol, name))
    assert data["stats"]["result"] == "successful" and data["stats"]["drawing"]["bodies"] == ["upper", "lower"]
    sol.to_csv(tmp_path / "r.csv", system)
    header, *rows = (tmp_path / "r.csv").read_text().splitlines()
    assert len(rows) == 21 and "upper.r.x" in header and "lam[upper_pin: DP1 1]" in header
    assert not list(tmp_path.glob("*.partial"))


def test_what_is_no_result_file_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"no zip")
    with pytest.raises(ResultFileError, match="cannot read"):
        read_npz(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", t=np.zeros(3))
    with pytest.raises(ResultFileError, match="lacks r, A"):
        read_npz(tmp_path / "y.npz")
