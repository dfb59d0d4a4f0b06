"""Result files: written whole or not at all, and read or refused in one sentence, whatever their
bytes are."""

import csv
import errno
import io
import json
import re
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import psutil
import pytest

import jaxmbd as mbd
from jaxmbd.io import read_npz
from jaxmbd.io.results import ResultFileError
from jaxmbd.results.export import drawing, write_table

ROWS = 12
ARRAYS = ("t", "r", "A", "v", "omega", "a", "alpha", "lam", "iterations")
SPRING = '{"bodies": [0, 3], "s_i_bar": [0, 0, 0], "s_j_bar": [0, 0, 0]}'


@pytest.fixture(scope="module")
def system():
    m = mbd.Mechanism("hoist")
    m.add_body("beam", mass=2.0, inertia=(0.1, 0.2, 0.25), r=(1, 0, 0))
    m.add_body("load", shape=mbd.Box((0.1, 0.2, 0.3), mass=1.0), r=(2, 0, -1))
    m.add(mbd.Revolute("pin", m.ground, "beam", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Distance("rope", "beam", "load", point_i=(2, 0, 0), point_j=(2, 0, -0.9)))
    m.add(
        mbd.SpringDamper(
            "spring", m.ground, "beam", point_i=(0, 0, 1), point_j=(1, 0, 0), stiffness=10
        )
    )
    return m.build()[0]


def solution_of(nb, nc, rows=ROWS):
    """A motion that nobody has computed."""
    rng = np.random.default_rng(1)
    each = {
        k: jnp.asarray(rng.normal(size=(rows, nb, 3))) for k in ("r", "v", "omega", "a", "alpha")
    }
    return mbd.Solution(
        t=jnp.linspace(0.0, 1.0, rows),
        A=jnp.broadcast_to(jnp.eye(3), (rows, nb, 3, 3)),
        multipliers=jnp.asarray(rng.normal(size=(rows, nc))),
        iterations=jnp.zeros(rows, int),
        result=mbd.RESULTS.successful,
        stats={"steps": jnp.asarray(rows - 1)},
        **each,
    )


@pytest.fixture(scope="module")
def solution(system):
    return solution_of(system.nb, system.nc)


@pytest.fixture(scope="module")
def good(system, solution, tmp_path_factory):
    """The bytes of a good file."""
    path = tmp_path_factory.mktemp("good") / "r.npz"
    solution.to_npz(path, system)
    return path.read_bytes()


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name, data)
    return buffer.getvalue()


def npy(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def changed(good: bytes, **arrays) -> bytes:
    """The file with some arrays replaced, or left out where None."""
    parts = members(good)
    for name, array in arrays.items():
        if array is None:
            del parts[f"{name}.npy"]
        else:
            parts[f"{name}.npy"] = npy(array)
    return zipped(parts)


def stats_of(good: bytes) -> dict:
    return json.loads(str(np.load(io.BytesIO(good))["stats"]))


def refusal(path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(ResultFileError) as caught:
        read_npz(path)
    message = str(caught.value)
    assert (
        message.startswith(f"cannot read the result file {str(path)!r}: ") and "\n" not in message
    )
    return message


# --- reading ---


def test_a_good_file_is_read(good, solution, tmp_path):
    path = tmp_path / "r.npz"
    path.write_bytes(good)
    data = read_npz(path)
    for name in ARRAYS:
        np.testing.assert_array_equal(data[name], getattr(solution, name))
        assert data[name].dtype == getattr(solution, name).dtype and data[name].flags.writeable
    assert data["stats"]["result"] == "successful" and data["stats"]["steps"] == ROWS - 1


def test_truncated_and_flipped_files_are_refused_or_read_unchanged(good, solution, tmp_path):
    """23 of 26 damaged files gave tracebacks: BadZipFile, zlib.error, KeyError and others."""
    rng, path = np.random.default_rng(2), tmp_path / "r.npz"
    damaged = [good[: int(n)] for n in rng.integers(0, len(good), 80)]
    for _ in range(250):
        data = bytearray(good)
        for place in rng.integers(0, len(data), int(rng.integers(1, 4))):
            data[place] ^= 1 << int(rng.integers(0, 8))
        damaged.append(bytes(data))
    for _ in range(40):  # in the directory at the end, where sizes, flags and names are
        data = bytearray(good)
        data[-int(rng.integers(1, 700))] = int(rng.integers(0, 256))
        damaged.append(bytes(data))
    refused = 0
    for data in damaged:
        path.write_bytes(data)
        try:
            found = read_npz(path)
        except ResultFileError as error:
            refused += 1
            assert "\n" not in str(error) and "r.npz" in str(error)
        else:  # a flipped time stamp harms nothing
            for name in ARRAYS:
                np.testing.assert_array_equal(found[name], getattr(solution, name))
    assert refused > 250


def test_files_with_damaged_arrays_inside_a_sound_archive_are_refused_or_fit(good, tmp_path):
    rng, path, parts = np.random.default_rng(3), tmp_path / "r.npz", members(good)
    names = list(parts)
    refused = 0
    for k in range(250):
        name = names[int(rng.integers(len(names)))]
        data = bytearray(parts[name])
        if k % 2:
            data[int(rng.integers(0, min(len(data), 128)))] = int(rng.integers(0, 256))
        else:
            data = data[: int(rng.integers(0, len(data)))]
        path.write_bytes(zipped(parts | {name: bytes(data)}))
        try:
            found = read_npz(path)
        except ResultFileError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert found["r"].shape == (ROWS, 2, 3) and isinstance(found["stats"], dict)
    assert refused > 100


def test_drawings_with_anything_in_them_are_refused_or_complete(good, tmp_path):
    rng, path, stats = np.random.default_rng(4), tmp_path / "r.npz", stats_of(good)
    values = [
        None,
        -1,
        7,
        10**400,
        0.5,
        float("nan"),
        float("inf"),
        "x",
        "",
        [],
        {},
        [1, 2],
        [[1, 2, 3]],
        True,
    ]

    def places(node, at=()):
        items = (
            node.items()
            if isinstance(node, dict)
            else enumerate(node)
            if isinstance(node, list)
            else ()
        )
        return [at] * bool(at) + [x for key, child in items for x in places(child, (*at, key))]

    every = places({"drawing": stats["drawing"]})
    refused = 0
    for _ in range(200):
        new = json.loads(json.dumps(stats))
        *parents, last = every[int(rng.integers(len(every)))]
        node = new
        for key in parents:
            node = node[key]
        value = values[int(rng.integers(len(values) + 1)) - 1]
        if rng.random() < 0.2 and isinstance(node, dict):
            del node[last]
        else:
            node[last] = value
        path.write_bytes(changed(good, stats=np.array(json.dumps(new))))
        try:
            found = read_npz(path)
        except ResultFileError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert found["stats"].get("drawing") is None or set(stats["drawing"]) == set(
                found["stats"]["drawing"]
            )
    assert 100 < refused < 200


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"lam": None, "alpha": None}, "not a result of jaxmbd, because it lacks alpha, lam"),
        (
            {"t": np.zeros(ROWS + 1)},
            rf"the array 'r' has shape \({ROWS}, 2, 3\), not \({ROWS + 1}, 2, 3\)",
        ),
        ({"t": np.zeros((ROWS, 1))}, rf"the array 't' has shape \({ROWS}, 1\), not \(T,\)"),
        ({"t": np.array(0.0)}, r"the array 't' has shape \(\), not \(T,\)"),
        (
            {"v": np.zeros((ROWS, 3, 3))},
            rf"the array 'v' has shape \({ROWS}, 3, 3\), not \({ROWS}, 2, 3\)",
        ),
        ({"A": np.zeros((ROWS, 2, 9))}, r"the array 'A' has shape .* not \(T, nb, 3, 3\)"),
        ({"r": np.zeros((ROWS, 2, 2))}, r"the array 'r' has shape .* not \(12, 2, 3\)"),
        (
            {"iterations": np.zeros(ROWS - 1, int)},
            r"the array 'iterations' has shape \(11,\), not \(12,\)",
        ),
        ({"r": np.full((ROWS, 2, 3), "1")}, "the array 'r' holds <U1, not floating-point numbers"),
        ({"r": np.zeros((ROWS, 2, 3), complex)}, "the array 'r' holds complex128"),
        ({"t": np.zeros(ROWS, [("a", float)])}, "the array 't' holds"),
        ({"iterations": np.zeros(ROWS)}, "the array 'iterations' holds float64, not integers"),
        ({"t": np.array([{}] * ROWS)}, "the array 't' holds Python objects, which are not read"),
        ({"more": np.array([print])}, "the array 'more' holds Python objects"),
        ({"stats": np.array("{")}, "it is damaged"),
        ({"stats": np.array("[" * 100_000)}, "it is damaged"),
        ({"stats": np.array("[1]")}, "its 'stats' is a JSON list, not an object"),
        ({"stats": np.array(["{}"])}, "its 'stats' is not one JSON text"),
        ({"stats": np.array(b"{}")}, "its 'stats' is not one JSON text"),
        ({"stats": np.array('{"result": 3}')}, "the outcome in its 'stats' is not a name"),
        ({"stats": np.array('{"drawing": [1]}')}, "its drawing is not a JSON object"),
        (
            {"stats": np.array('{"drawing": {"bodies": ["a"]}}')},
            "its drawing has 1 bodies, but its arrays have 2",
        ),
        (
            {"stats": np.array('{"drawing": {"bodies": ["a", "a"]}}')},
            "gives two bodies the same name",
        ),
        (
            {"stats": np.array('{"drawing": {"name": 3}}')},
            "does not make sense at name: .*valid string",
        ),
        (
            {
                "stats": np.array(
                    '{"drawing": {"springs": [{"bodies": [0, 3], '
                    '"s_i_bar": [0,0,0], "s_j_bar": [0,0,0]}]}}'
                )
            },
            "its drawing names body 3, but there are 2 and the ground",
        ),
        (
            {"stats": np.array('{"drawing": {"outlines": [[[[0, 0]]], []]}}')},
            r"at outlines\.0\.0\.0: .*at least 3 items",
        ),
        (
            {"stats": np.array('{"drawing": {"outlines": [[[[0, 0, NaN]]], []]}}')},
            r"at outlines\.0\.0\.0\.2: .*finite",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(good, tmp_path, arrays, message):
    refused = refusal(tmp_path / "r.npz", changed(good, **arrays))
    assert re.search(message, refused), refused


def test_other_files_and_places_are_refused(good, tmp_path):
    path = tmp_path / "r.npz"
    assert "not an NPZ file" in refusal(path, npy(np.zeros(3)))
    assert "not an NPZ file" in refusal(path, b"")
    assert "not an NPZ file" in refusal(path, b"t, r\n1, 2\n")
    assert "lacks t, r" in refusal(path, zipped({"mimetype": b"text"}))
    assert "it is damaged" in refusal(path, zipped(members(good) | {"readme.txt": b"hello"}))
    for place, reason in ((tmp_path, "it is a folder"), (tmp_path / "missing.npz", "No such file")):
        with pytest.raises(ResultFileError, match=reason):
            read_npz(place)
    with pytest.raises(ResultFileError, match="null byte|null character"):
        read_npz("a\0b")


def test_memory_is_not_reserved_for_what_a_file_only_claims(good, tmp_path, monkeypatch):
    header = npy(np.zeros(ROWS)).replace(b"(12,), }            ", b"(12000000000000,), }")
    assert b"12000000000000" in header
    parts = members(good)
    refused = refusal(tmp_path / "r.npz", zipped(parts | {"t.npy": header}))
    assert "has 96 bytes, which do not make the shape (12000000000000,)" in refused
    # A few kilobytes of zeros may stand for gigabytes.
    memory = psutil.virtual_memory()._replace(available=2**20)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    refused = refusal(tmp_path / "r.npz", zipped(parts | {"more.npy": npy(np.zeros(2**18))}))
    assert "its arrays take 0.00" in refused and "of memory are free" in refused


def test_an_older_drawing_gets_its_defaults(good, system, tmp_path):
    stats, path = stats_of(good), tmp_path / "r.npz"
    assert stats["drawing"] == drawing(system)
    del stats["drawing"]["shaped"], stats["drawing"]["springs"]
    for c in stats["drawing"]["connections"]:
        del c["link"], c["axis_i_bar"]
    path.write_bytes(changed(good, stats=np.array(json.dumps(stats))))
    found = read_npz(path)["stats"]["drawing"]
    assert found["shaped"] == [True, True] and found["springs"] == []
    assert [c["link"] for c in found["connections"]] == [False, False]
    path.write_bytes(changed(good, stats=None, result=None))
    assert read_npz(path)["stats"] == {}


# --- writing ---


@pytest.mark.parametrize("kind", ["npz", "csv"])
def test_a_full_disk_leaves_no_partial_file_and_the_older_one_as_it_was(
    solution, system, tmp_path, kind
):
    """The bound on the size of files acts like a full disk."""
    resource = pytest.importorskip("resource")
    path = tmp_path / f"r.{kind}"
    older = {"npz": b"PK older", "csv": b"t [s],older [-]\r\n0.0,1.5\r\n"}[kind]
    path.write_bytes(older)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(
            OSError, match=f"cannot write the result file .*r.{kind}': File too large"
        ):
            getattr(solution, f"to_{kind}")(path, system)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [p.name for p in tmp_path.iterdir()] == [f"r.{kind}"] and path.read_bytes() == older


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            OSError,
            "r.npz': No space left on device",
        ),
        (RuntimeError("odd"), ValueError, "r.npz': odd"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_a_failure_while_writing_leaves_no_partial_file(
    solution, tmp_path, monkeypatch, error, expected, message
):
    def fail(file, **arrays):
        file.write(b"half")
        raise error

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(expected, match=message):
        solution.to_npz(tmp_path / "r.npz")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named(solution, tmp_path):
    with pytest.raises(OSError, match="cannot write the result file .*no/r.csv': No such file"):
        solution.to_csv(tmp_path / "no" / "r.csv")


def test_batches_and_other_systems_are_not_written(solution, system, tmp_path):
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), solution)
    with pytest.raises(
        ValueError, match=r"is a batch, its r has shape \(2, 12, 2, 3\): take one motion"
    ):
        batch.to_npz(tmp_path / "r.npz")
    with pytest.raises(ValueError, match="3 bodies and 6 rows, but system 'hoist' has 2 and 6"):
        solution_of(3, 6).to_csv(tmp_path / "r.csv", system)
    assert not list(tmp_path.iterdir())


def test_names_of_any_characters_go_through_both_formats(tmp_path):
    m = mbd.Mechanism("a\n[/x] $\\frac")
    names = ["\ud800", "球🦀", "_under", 'co,mma "quoted"\r\n', "\0"]
    for k, name in enumerate(names):
        m.add_body(name, mass=1.0, inertia=(1, 1, 1), r=(k, 0, 0))
    system, _ = m.build()
    solution = solution_of(5, 0)
    solution.to_npz(tmp_path / "r.npz", system)
    assert read_npz(tmp_path / "r.npz")["stats"]["drawing"]["bodies"] == names
    solution.to_csv(tmp_path / "r.csv", system)
    assert "球🦀.r.x" in (tmp_path / "r.csv").read_text(encoding="utf-8")


def test_a_table_replaces_an_earlier_one_and_nothing_else(tmp_path):
    m = mbd.Mechanism("m")
    m.add_body("rod", mass=1.0, inertia=(1, 1, 1))
    path = tmp_path / "r.csv"
    for columns in (None, ["rod.r.x"], ["t"]):
        solution_of(1, 0).to_csv(path, m.build()[0], columns=columns)
    solution_of(1, 0).to_csv(path, m.build()[0])
    path.write_text("to do, next\n")
    with pytest.raises(OSError, match="is not a .csv file of jaxmbd"):
        solution_of(1, 0).to_csv(path, m.build()[0])


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r"])
def test_no_name_is_a_formula_of_a_spreadsheet(tmp_path, first):
    m = mbd.Mechanism("m")
    names = [f"{first}cmd|' /C calc'!A0", f"{first}1+1"]
    for k, name in enumerate(names):
        m.add_body(name, mass=1.0, inertia=(1, 1, 1), r=(k, 0, 0))
    solution_of(2, 0).to_csv(tmp_path / "r.csv", m.build()[0])
    kept = {names[0]: np.ones(2), f"'{names[1]}": np.ones(2)}
    write_table(tmp_path / "t.csv", {"t": np.arange(2.0)} | kept, {"t": "s"})
    assert list(mbd.Measurements.read(tmp_path / "t.csv").values) == list(kept)
    for name in ("r.csv", "t.csv"):
        with open(tmp_path / name, newline="", encoding="utf-8") as file:
            header, row = list(csv.reader(file))[:2]
        assert not any(cell.startswith(first) for cell in header)
        assert any(f"'{names[0]}" in cell for cell in header) and header[0] == "t [s]"
        assert all(np.isfinite(float(x)) for x in row)  # numbers stay numbers


def test_a_result_file_keeps_what_the_inputs_were(tmp_path):
    m = mbd.Mechanism("slider")
    m.add_body("b", mass=2.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.Translational("slide", "ground", "b", point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "slide", control=mbd.Input("force")))
    given = np.linspace(1.0, 2.0, 5)
    sol = mbd.simulate(*m.build(), h=1e-2, steps=5, inputs={"force": given})
    sol.to_npz(tmp_path / "run.npz")
    read = read_npz(tmp_path / "run.npz")
    np.testing.assert_array_equal(read["inputs"][1:, 0, 0], given)
    np.testing.assert_array_equal(read["inputs"], sol.inputs)
