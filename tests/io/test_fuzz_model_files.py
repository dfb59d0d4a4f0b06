"""Whatever a model file holds, reading it gives a mechanism or a `ModelFileError`, and nothing
else.

Files of both formats are changed at random places: keys deleted, values replaced by others of the
file, by other types or by extreme numbers, names swapped, keys repeated. Nothing is compiled.
"""

import copy
import json
import warnings
from importlib import resources

import hypothesis
import hypothesis.strategies as st
import pytest

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, ModelFileWarning, mechanism_from_dict, read_mechanism
from jaxmbd.library import names
from model_file_examples import GOOD, OLDER

FUZZ = hypothesis.settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=150,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def packaged(name):
    return json.loads(
        (resources.files("jaxmbd.library") / f"{name}.json").read_text(encoding="utf-8")
    )


NEW = [GOOD, packaged("slider_crank"), packaged("double_pendulum")]
SHAPED = packaged("double_pendulum")
SHAPED["bodies"][0]["shape"] = {
    "type": "Composite",
    "parts": [
        {"shape": {"type": "Sphere", "radius": 1, "mass": 1}, "position": [0, 0, 0]},
        {
            "shape": {"type": "Cone", "radius": 1, "height": 1, "density": 1, "axis": "x"},
            "position": [1, 0, 0],
        },
    ],
}
DRIVEN = copy.deepcopy(GOOD) | {
    "drivers": [
        {
            "type": kind,
            "name": kind,
            "body_i": "ground",
            "body_j": "rod",
            **fields,
        }
        for kind, fields in {
            "RotationDriver": {"axis": [0, 1, 0], "angle": "2*t"},
            "TranslationDriver": {"axis": [0, 1, 0], "displacement": 3},
            "DistanceDriver": {"point_i": [0, 0, 0], "point_j": [1, 0, 0], "length": "1 + t"},
            "PoseDriver": {
                "displacement": [0, "t", 0],
                "rotation": [0, 0, "sin(t)"],
                "point": [0, 0, 0],
            },
            "Distance": {"point_i": [0, 0, 0], "point_j": [1, 0, 0]},
            "Universal": {"point": [0, 0, 0], "axis_i": [1, 0, 0], "axis_j": [0, 1, 0]},
        }.items()
    ]
}
BASES = [*NEW, SHAPED, DRIVEN, OLDER]

NUMBERS = [
    0,
    -1,
    1,
    1e-320,
    -1e-30,
    1e59,
    1e61,
    -1e155,
    1.7e308,
    10**400,
    float("inf"),
    float("nan"),
    2**63,
    True,
]
TEXTS = [
    *(
        "",
        "0",
        "t",
        "1/t",
        "(-8)**(1/3)",
        "9**9**9",
        "\0",
        "\ud800",
        "ä",
        "ground",
        "rod",
        "pin",
        "type",
        "Revolute",
        "x",
    ),
    *("DP1", "CD", "Box", "jaxmbd-1", "global", "a" * 3000, "name", "friction"),
]
JUNK = st.one_of(
    st.none(),
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.text(max_size=5),
    st.floats(),
    st.lists(st.sampled_from(NUMBERS), max_size=4),
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
    st.lists(st.lists(st.sampled_from(NUMBERS), min_size=3, max_size=3), min_size=3, max_size=3),
    st.dictionaries(st.sampled_from(TEXTS), st.sampled_from([*NUMBERS, *TEXTS, []]), max_size=2),
    st.just([[[[[[]]]]]]),
)


def places(node, path=()):
    """The paths of everything inside a file."""
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, child in items:
        yield (*path, key)
        yield from places(child, (*path, key))


def at(node, path):
    for key in path:
        node = node[key]
    return node


@st.composite
def changed_files(draw):
    data = copy.deepcopy(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(data))
        if not found:
            break
        *parents, key = draw(st.sampled_from(found))
        parent = at(data, parents)
        change = draw(st.sampled_from(["delete", "replace", "copy", "repeat", "add", "nudge"]))
        if change == "delete":
            del parent[key]
        elif change == "replace":
            parent[key] = draw(JUNK)
        elif change == "copy":
            parent[key] = copy.deepcopy(at(data, draw(st.sampled_from(found))))
        elif change == "repeat" and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        elif change == "add" and isinstance(parent, dict):
            parent[draw(st.sampled_from(TEXTS))] = draw(JUNK)
        elif change == "nudge" and isinstance(parent[key], int | float):
            parent[key] = draw(
                st.sampled_from(
                    [-parent[key], 0, parent[key] * 1e20, str(parent[key]), [parent[key]]]
                )
            )
    return data


def outcome(read, *args):
    """The mechanism or the error; anything else, a warning of another kind included, is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ModelFileWarning)
        try:
            result = read(*args)
        except ModelFileError as error:
            assert str(error) and "Traceback" not in str(error)
            return error
    assert isinstance(result, mbd.Mechanism)
    return result


@pytest.mark.parametrize("base", BASES, ids=lambda data: data["name"])
def test_the_files_that_are_changed_are_good(base):
    assert isinstance(outcome(mechanism_from_dict, base), mbd.Mechanism)


@FUZZ
@hypothesis.given(changed_files())
def test_a_changed_file_is_a_mechanism_or_is_refused(data):
    outcome(mechanism_from_dict, data)


@FUZZ
@hypothesis.given(
    st.recursive(JUNK, lambda x: st.lists(x) | st.dictionaries(st.sampled_from(TEXTS), x))
)
def test_anything_is_refused_in_words(data):
    assert isinstance(outcome(mechanism_from_dict, data), ModelFileError)


PIECES = [
    b"{",
    b"]",
    b"NaN",
    b"1e999",
    b"9" * 500,
    b"\\ud800",
    b"\xff\xfe",
    b"[" * 3000,
    b'"mass": 1, ',
    b'"a": 1',
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "model.json"


@FUZZ
@hypothesis.given(st.data())
def test_a_file_with_changed_bytes_is_a_mechanism_or_is_refused(path, data):
    content = bytearray(json.dumps(data.draw(st.sampled_from(BASES))).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        piece = st.binary(max_size=4) | st.sampled_from(PIECES)
        content[start : start + data.draw(st.integers(0, 20))] = data.draw(piece)
    path.write_bytes(bytes(content))
    outcome(read_mechanism, path)


@st.composite
def asked_names(draw):
    name = draw(st.sampled_from([*names(), "n_pendulum", ""]) | st.text(max_size=8))
    colon = draw(st.sampled_from(["", ":", "::", "/", "\0"]))
    return (
        name
        + colon
        + draw(
            st.sampled_from(["", "3", "0", "-1", "1e3", "٣", " 2", "10001", "9" * 4500]) | st.text()
        )
    )


@FUZZ
@hypothesis.given(asked_names())
def test_any_name_is_a_mechanism_or_is_refused(name):
    outcome(mbd.load_mechanism, name)
