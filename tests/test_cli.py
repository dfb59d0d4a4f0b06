"""The command line as a user meets it: exit codes, messages, files; in process but for two."""

import io
import json
import os
import re
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline

import jaxmbd as mbd
import jaxmbd.cli as cli
from helpers import ImpatientBar
from jaxmbd import files
from jaxmbd.analyses.running import chunked_run as host_loop
from jaxmbd.xla import disk_cache as cache

# Warnings are printed for the user; as errors they would never get there.
pytestmark = [pytest.mark.filterwarnings("always"), pytest.mark.xdist_group("cli")]


class Done:
    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr


@pytest.fixture
def jaxmbd(monkeypatch, capsys, tmp_path):
    """Run the command in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*args) -> Done:
        monkeypatch.setattr(cli.console.out, "width", 200)
        monkeypatch.setattr(cli.console.err, "width", 200)
        monkeypatch.setattr(sys, "argv", ["jaxmbd", *map(str, args)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        text = capsys.readouterr()
        assert "Traceback" not in text.err
        return Done(code, text.out, text.err)

    return run


def process(*args, cwd=None, **environment):
    command = [sys.executable, "-m", "jaxmbd", *map(str, args)]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


def test_help_teaches():
    done = process("--help")
    assert done.returncode == 0
    for word in (
        "demo",
        "list",
        "info",
        "kinematics",
        "simulate",
        "plot",
        "animate",
        "view",
        "linearize",
        "equilibrium",
        "modes",
        "batch",
        "MODEL",
    ):
        assert word in done.stdout


def test_errors_reach_the_shell(tmp_path):
    done = process("info", "nothing", cwd=tmp_path)
    assert done.returncode == 1 and "neither a file nor a packaged mechanism" in done.stderr


def test_programs_are_kept_between_processes_and_nothing_of_that_is_shown(tmp_path):
    kept = tmp_path / "kept"
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}

    def info(*options, folder=kept):
        command = [sys.executable, "-m", "jaxmbd", *options, "info", "double_pendulum"]
        own = environment | {"JAXMBD_CACHE": str(folder)}
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=own)
        assert done.returncode == 0 and done.stderr == ""
        return done.stdout

    first = info()
    (own,) = kept.iterdir()
    programs = set(own.iterdir())
    assert any(x.name.endswith("-traced") for x in programs)
    # Those that are deleted where the folder has grown beyond its bound.
    assert all(cache._PROGRAM.fullmatch(x.name) for x in programs)
    assert info() == first
    # What compiles within a tenth of a second is not kept; on a busy machine it may take longer.
    added = set(own.iterdir()) - programs
    assert programs <= set(own.iterdir()) and all(x.name.endswith("-cache") for x in added)
    other = tmp_path / "other"
    assert info("--no-cache", folder=other) == first and not other.exists()


def test_a_folder_for_programs_that_cannot_be_written_is_said_and_the_command_goes_on(
    jaxmbd, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAXMBD_CACHE", str(tmp_path / "file" / "folder"))
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        done = jaxmbd("info", "double_pendulum")
        assert done.code == 0 and "no programs can be kept in" in done.stderr
        monkeypatch.setenv("JAXMBD_CACHE", "off")
        assert mbd.enable_compilation_cache() is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_what_compiling_took_is_told(jaxmbd):
    done = jaxmbd("--timing", "info", "double_pendulum")
    assert done.code == 0 and "compiled or read" in done.stderr and "all " in done.stderr


def test_simulate_plot_and_animate(jaxmbd, tmp_path):
    done = jaxmbd(
        "simulate",
        "slider_crank",
        "--t-end",
        0.05,
        "--h",
        1e-3,
        "--formulation",
        "rA",
        "--out",
        "r.npz",
    )
    assert done.code == 0, done.stderr
    assert "51 rows" in done.stdout
    with np.load("r.npz") as file:
        assert file["r"].shape == (51, 3, 3)
    assert jaxmbd("plot", "r.npz").code == 0 and (tmp_path / "r.png").stat().st_size > 10_000
    named = "plot r.npz -q motor.angle -q energy.total --out named.png".split()
    done = jaxmbd(*named)
    assert done.code == 0, done.stderr
    assert (tmp_path / "named.png").stat().st_size > 10_000
    done = jaxmbd("plot", "r.npz", "-q", "motor.angel")
    assert done.code == 1 and "motor.angel" in done.stderr
    done = jaxmbd("plot", "r.npz", "-q", "motor.angle", "-b", "rod")
    assert done.code == 1 and "--body" in done.stderr
    assert jaxmbd("animate", "r.npz", "--speed", 0.02).code == 0
    assert (tmp_path / "r.gif").stat().st_size > 10_000


def test_view_writes_a_page_or_a_model(jaxmbd, tmp_path):
    done = jaxmbd("view", "four_bar", "--sweep")
    assert done.code == 0 and "wrote four_bar.html" in done.stdout
    assert "three.js" in (tmp_path / "four_bar.html").read_text(encoding="utf-8")
    assert jaxmbd("view", "n_pendulum:3", "--out", "p.glb").code == 0
    assert (tmp_path / "p.glb").read_bytes()[:4] == b"glTF"
    done = jaxmbd("view", "four_bar", "--out", "four_bar.avi")
    assert done.code == 1 and ".html or .glb or .png" in done.stderr
    done = jaxmbd("view", "four_bar", "--plot", "crank.colour")
    assert done.code == 1 and "there is no quantity 'crank.colour'" in done.stderr


def test_a_result_is_reported_from_its_file_alone(jaxmbd, tmp_path):
    m = mbd.Mechanism("door")
    leaf = m.add_body("leaf", mass=2.0, inertia=(0.1, 0.2, 0.1), r=(0.5, 0, 0))
    m.add(mbd.Revolute("hinge", m.ground, leaf, point=(0, 0, 0), axis=(0, 1, 0)))
    mbd.save(m, tmp_path / "door.json")
    assert jaxmbd("simulate", "door.json", "--t-end", 0.1, "--h", 5e-3, "--out", "d.npz").code == 0
    (tmp_path / "door.json").unlink()
    done = jaxmbd("report", "d.npz")
    assert done.code == 0 and "wrote d_report.html" in done.stdout, done.stderr
    text = (tmp_path / "d_report.html").read_text(encoding="utf-8")
    assert "Report on door" in text and "Largest reactions" in text
    done = jaxmbd("report", "d.npz", "--out", "d.pdf")
    assert done.code == 1 and ".html" in done.stderr


def test_info_reports_freedoms_and_redundant_loops(jaxmbd):
    done = jaxmbd("info", "four_bar")
    assert done.code == 0, done.stderr
    assert "20 rows of rank 17: 1 freedom(s), 3 redundant" in done.stdout
    assert (
        "3 row(s) in the loop of pin_crank, pin_crank_coupler, pin_coupler_rocker, pin_rocker"
        in done.stdout
    )
    assert "could go: pin_rocker: axis perpendicular to e1" in done.stdout
    schema = json.loads(jaxmbd("schema").stdout)
    assert schema["title"] == "jaxmbd-1 mechanism"


def pendulum(tmp_path, name="pendulum", body="rod", forces=(), drivers=(), **fields):
    """A model file of one rod on a hinge about y."""
    rod = {"name": body, "mass": 1.0, "inertia": [0.01, 0.1, 0.1], "r": [0.7, 0, 0]} | fields
    pair = {"body_i": "ground", "body_j": body}
    model = {
        "format": "jaxmbd-1",
        "name": name,
        "bodies": [rod],
        "joints": [
            {"type": "Revolute", "name": "pin", **pair, "point": [0, 0, 0], "axis": [0, 1, 0]}
        ],
        "drivers": [
            {"type": "RotationDriver", "name": "motor", **pair, "axis": [0, 1, 0], "angle": d}
            for d in drivers
        ],
        "forces": [{"body": body, **f} for f in forces],
    }
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    return path.name


def test_kinematics_of_a_mechanism_with_freedoms_is_an_error_and_leaves_no_file(jaxmbd, tmp_path):
    done = jaxmbd("kinematics", "double_pendulum", "--out", "k.npz")
    assert done.code == 1
    assert "has at least 2 left" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_failed_run_keeps_the_steps_before_it(jaxmbd, tmp_path):
    model = {
        "format": "jaxmbd-1",
        "name": "winch",
        "bodies": [{"name": "rod", "mass": 1.0, "inertia": [0.01, 0.1, 0.1], "r": [0.5, 0, 0]}],
        "joints": [
            {
                "type": "Spherical",
                "name": "ball",
                "body_i": "ground",
                "body_j": "rod",
                "point": [0, 0, 0],
            },
        ],
        "drivers": [
            {
                "type": "DistanceDriver",
                "name": "rope",
                "body_i": "ground",
                "body_j": "rod",
                "point_i": [1, 0.2, 0],
                "point_j": [1, 0, 0],
                "length": "0.2 + 20*t",
            }
        ],
    }
    (tmp_path / "winch.json").write_text(json.dumps(model))
    done = jaxmbd("simulate", "winch.json", "--t-end", 0.3, "--out", "w.npz")
    assert done.code == 1 and "'rope'" in done.stderr
    with np.load("w.npz") as file:
        good = np.isfinite(file["r"]).all(axis=(1, 2))
        assert 50 < np.sum(good) < 300
    assert f"the {np.sum(good)} rows to t = " in done.stderr and "are in w.npz" in done.stderr
    assert jaxmbd("plot", "w.npz").code == 0


def test_a_run_that_fails_at_its_start_writes_nothing_and_says_so(jaxmbd, tmp_path):
    load = {"type": "PointForce", "name": "load", "force": ["1/t", 0, 0]}
    done = jaxmbd("simulate", pendulum(tmp_path, forces=[load]), "--t-end", 0.1, "--out", "o.npz")
    assert done.code == 1
    assert (
        "Force 'load' on 'rod' is NaN or infinite at t = 0 s" in done.stderr
        and "rank" not in done.stderr
    )
    assert "nothing was written" in done.stderr and not (tmp_path / "o.npz").exists()


def test_changed_descriptions_are_told(jaxmbd, tmp_path):
    model = pendulum(tmp_path, v=[0.0, 0.0, 0.0], omega=[0.0, 10.0, 0.0])
    for command in (("info", model), ("simulate", model, "--t-end", 0.002, "--out", "o.npz")):
        done = jaxmbd(*command)
        assert done.code == 0, done.stderr
        assert (
            "warning: mechanism 'pendulum': the described" in done.stderr
            and "body 'rod'" in done.stderr
        )


@pytest.mark.parametrize("name", ["[/foo]", "link[a]", "o[red]", "[bold]x", "a\\[b"])
def test_names_with_markup_are_printed_as_they_are(jaxmbd, tmp_path, name):
    model = pendulum(tmp_path, name=name, body=name)
    done = jaxmbd("info", model)
    assert done.code == 0, done.stderr
    assert f"{name}: gravity" in done.stdout and f"ground - {name}" in done.stdout
    out = name.replace("/", "_") + ".npz"
    done = jaxmbd("simulate", model, "--t-end", 0.002, "--out", out)
    assert done.code == 0 and f"wrote {out}" in done.stdout
    done = jaxmbd("info", f"{name} missing")
    assert done.code == 1 and f"'{name} missing'" in done.stderr


def test_adaptive_steps_and_options_of_integrators(jaxmbd, tmp_path):
    model = pendulum(tmp_path)
    options = (
        "--integrator",
        "munthe_kaas",
        "--tableau",
        "rk5",
        "--group",
        "SO3xR3",
        "--projection",
    )
    done = jaxmbd(
        "simulate",
        model,
        "--t-end",
        0.1,
        "--h",
        0.01,
        "--tolerance",
        1e-8,
        *options,
        "--out",
        "a.npz",
    )
    assert done.code == 0, done.stderr
    assert "11 rows" in done.stdout and "steps," in done.stdout
    euler = ("--integrator", "implicit_euler", "--rho-inf", 0.5)
    done = jaxmbd("simulate", model, "--t-end", 0.1, *euler, "--out", "b.npz")
    assert (
        done.code == 1
        and "--rho-inf: implicit_euler has no such setting; it belongs to generalized_alpha"
        in done.stderr
    )
    done = jaxmbd(
        "simulate",
        model,
        "--t-end",
        0.01,
        "--integrator",
        "generalized_alpha",
        "--rho-inf",
        0.5,
        "--out",
        "b.npz",
    )
    assert done.code == 0, done.stderr


def test_a_run_ends_where_a_quantity_passes_a_value(jaxmbd, tmp_path):
    out = tmp_path / "motion.csv"
    done = jaxmbd("simulate", "four_link", "--until", "motor.angle > 0.3", "--out", out)
    assert done.code == 0, done.stderr
    # It turns at pi rad/s.
    assert f"motor.angle > 0.3: at t = {0.3 / np.pi:.9g} s" in done.stdout
    header, *rows = out.read_text(encoding="utf-8").splitlines()
    assert header.startswith("t [s],motor.angle") and len(rows) == 97
    t, angle = map(float, rows[-1].split(",")[:2])
    np.testing.assert_allclose([t, angle], [0.3 / np.pi, 0.3], rtol=1e-12)
    done = jaxmbd("simulate", "four_link", "--t-end", "0.05", "--until", "motor.angle > 0.3",
                  "--out", out)  # fmt: skip
    assert done.code == 0 and "motor.angle > 0.3: did not happen" in done.stdout
    done = jaxmbd("simulate", "four_link", "--until", "motor.angel > 0.3", "--out", out)
    assert done.code == 1 and "did you mean 'motor.angle'" in done.stderr
    done = jaxmbd("simulate", "four_link", "--until", "motor.angle > 0.3", "--out", out,
                  "--tolerance", "1e-6")  # fmt: skip
    assert done.code == 0 and "motor.angle > 0.3: at t = 0.0954929" in done.stdout


def test_events_and_defaults_of_inputs_are_those_of_the_file(jaxmbd, tmp_path):
    given = {"input": "push", "size": 3, "default": 0.0}
    push = {"type": "PointForce", "name": "push", "force": given}
    model = json.loads((tmp_path / pendulum(tmp_path, forces=[push])).read_text())
    # The rod begins horizontally; its end is 0.1 m lower where sin(angle) = 0.1 / 0.7.
    low = {"name": "low", "when": "rod.r.z < -0.1"}
    (tmp_path / "model.json").write_text(json.dumps(model | {"events": [low]}))
    done = jaxmbd("simulate", "model.json", "--t-end", "0.3", "--out", "s.csv", "--column",
                  "pin.angle", "--column", "pin.rate")  # fmt: skip
    assert done.code == 0, done.stderr
    (told,) = re.findall(r"low: at t = ([\d.]+) s", done.stdout)
    curve = CubicHermiteSpline(*np.loadtxt("s.csv", delimiter=",", skiprows=1).T)
    (there,) = curve.solve(np.arcsin(0.1 / 0.7), extrapolate=False)
    np.testing.assert_allclose(float(told), there, atol=1e-9)  # printed to nine digits
    done = jaxmbd("simulate", "model.json", "--t-end", "0.3", "--out", "s.npz")
    assert done.code == 0, done.stderr
    with np.load("s.npz") as file:
        assert [name for _, name in json.loads(str(file["stats"]))["events"]] == ["low"]


def test_inverse_dynamics_gives_the_torque_of_the_driver(jaxmbd, tmp_path):
    model = pendulum(tmp_path, drivers=["0.5*t**2"])
    done = jaxmbd("inverse-dynamics", model, "--t-end", 1.0, "--h", 0.1, "--out", "i.csv")
    assert done.code == 0 and "motor" in done.stdout
    table = mbd.Measurements.read("i.csv")
    # (J + m l²) φ'' about the hinge, and the weight's moment; positive φ about y lowers the rod.
    wanted = (0.1 + 0.7**2) * 1.0 - 9.81 * 0.7 * np.cos(0.5 * table.t**2)
    np.testing.assert_allclose(table.values["motor.effort"], wanted, rtol=1e-9)
    with open("i.csv", encoding="utf-8") as file:
        header = file.readline().rstrip()
    assert header == "t [s],motor.effort [N m],motor.rate [rad/s],motor.power [W]"


def test_linearize_gives_the_frequency_of_a_hanging_pendulum(jaxmbd, tmp_path):
    model = pendulum(tmp_path, r=[0.0, 0.0, -0.7], inertia=[0.1, 0.1, 0.01])
    done = jaxmbd("linearize", model, "--out", "l.npz")
    assert done.code == 0, done.stderr
    frequency = np.sqrt(9.81 * 0.7 / (0.1 + 0.49)) / (2 * np.pi)
    assert f"{frequency:.5g}" in done.stdout
    with np.load("l.npz") as file:
        np.testing.assert_allclose(
            np.abs(np.linalg.eigvals(file["A"])), 2 * np.pi * frequency, rtol=1e-10
        )


def test_a_pendulum_comes_to_rest_and_vibrates_about_it(jaxmbd, tmp_path):
    model = pendulum(tmp_path, r=[0.7, 0.0, 0.0], inertia=[0.01, 0.1, 0.1])
    done = jaxmbd("equilibrium", model, "--out", "e.npz")
    assert done.code == 0, done.stderr
    assert "stable" in done.stdout
    with np.load("e.npz") as file:
        np.testing.assert_allclose(file["r"][0, 0], [0.0, 0.0, -0.7], atol=1e-9)
    done = jaxmbd("modes", model)
    assert done.code == 0, done.stderr
    assert f"{np.sqrt(9.81 * 0.7 / (0.1 + 0.49)) / (2 * np.pi):.5g}" in done.stdout


def test_a_batch_equals_single_runs(jaxmbd, tmp_path):
    model = pendulum(tmp_path)
    options = ("--t-end", 0.05, "--save-every", 50)
    done = jaxmbd("batch", model, "--vary", "bodies.rod.mass=1:2:3", *options, "--out", "b.npz")
    assert done.code == 0, done.stderr
    assert jaxmbd("simulate", model, *options, "--out", "s.npz").code == 0
    with np.load("b.npz") as many, np.load("s.npz") as one:
        assert many["r"].shape == (3, 2, 1, 3) and many["bodies.rod.mass"].tolist() == [
            1.0,
            1.5,
            2.0,
        ]
        np.testing.assert_allclose(many["r"][0], one["r"], atol=1e-12)
    for vary in (
        "bodies.rod.mass",
        "bodies.rod.mass=1:2",
        "bodies.rod.size=1:2:3",
        "bodies.rod.mass=-1:2:3",
    ):
        done = jaxmbd("batch", model, "--vary", vary, "--out", "x.npz")
        assert done.code == 1 and not (tmp_path / "x.npz").exists(), vary


def test_a_batch_is_counted_before_it_is_made(jaxmbd, tmp_path):
    """A million times a million combinations were listed first, until memory ran out."""
    friction = [{"type": "ViscousFriction", "name": "f", "joint": "pin", "rotational": 1.0}]
    path = tmp_path / "model.json"
    model = json.loads((tmp_path / pendulum(tmp_path)).read_text())
    path.write_text(json.dumps(model | {"forces": friction}))
    million = ("--vary", "bodies.rod.mass=1:2:1000000")
    other = ("--vary", "forces.f.rotational=1:2:1000000")
    began = time.process_time()
    done = jaxmbd("batch", path, "--out", "o.npz", "--t-end", "0.01", *million, *other)
    assert time.process_time() - began < 5.0
    assert done.code == 1 and "these are 1000000000000 combinations: vary fewer" in done.stderr
    done = jaxmbd("batch", path, "--out", "o.npz", "--t-end", "0.01", *million, *million)
    assert done.code == 1 and "--vary: 'bodies.rod.mass' is given twice" in done.stderr
    assert not (tmp_path / "o.npz").exists()


SHOWN = {
    "ascii": r"m/s^2 kg*m^2 +- |Phi| ... Gr\xf6\xdfe \u7403\U0001f980 \ud800 --",
    "latin-1": r"m/s² kg·m² ± |Phi| ... Größe \u7403\U0001f980 \ud800 --",
    "cp437": r"m/s² kg·m² ± |Φ| ... Größe \u7403\U0001f980 \ud800 -─",
    "utf-8": r"m/s² kg·m² ± |Φ| … Größe 球🦀 \ud800 ⠋─",
}


@pytest.mark.parametrize("encoding", SHOWN)
def test_a_terminal_of_any_encoding_shows_everything(encoding, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    cli.console.write_anywhere()
    stream.write("m/s² kg·m² ± |Φ| … Größe 球🦀 \ud800 ⠋─")
    stream.flush()
    shown = stream.buffer.getvalue().decode(encoding)
    assert shown == SHOWN[encoding]


@pytest.mark.essential
def test_a_model_is_shown_on_an_ascii_terminal(tmp_path):
    done = process("info", pendulum(tmp_path, body="Größe"), cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "m/s^2" in done.stdout and "[kg*m^2]" in done.stdout
    assert "error" not in done.stderr


@pytest.mark.parametrize("command", ["simulate", "kinematics"])
def test_an_interruption_keeps_the_rows_and_is_no_success(jaxmbd, tmp_path, monkeypatch, command):
    monkeypatch.setattr(host_loop, "tqdm", ImpatientBar)
    done = jaxmbd(command, pendulum(tmp_path, drivers=["t"]), "--t-end", 3.0, "--out", "p.npz")
    assert done.code == 130 and "are in p.npz" in done.stderr
    with np.load("p.npz") as file:
        assert 1 < len(file["t"]) < 3001 and np.isfinite(file["r"]).all()
        assert json.loads(str(file["stats"]))["result"] == "interrupted"
    assert not list(tmp_path.glob("*.partial"))


def test_large_mechanisms_are_answered_or_refused_with_their_size(jaxmbd):
    done = jaxmbd("info", "n_pendulum:600")
    assert done.code == 0, done.stderr
    assert (
        "1800 rows of rank 1800: 1800 freedom(s)" in done.stdout
        and "... and 560 more bodies" in done.stdout
    )
    done = jaxmbd("info", "n_pendulum:1000000")
    assert done.code == 1 and "1000000" in done.stderr


REFUSED = {
    "an unknown ending": (
        ("simulate", "double_pendulum", "--out", "x.txt"),
        "must end in .npz or .csv",
    ),
    "a missing folder": (
        ("simulate", "double_pendulum", "--out", "no/such/x.npz"),
        "does not exist",
    ),
    "a folder as file": (("simulate", "double_pendulum", "--out", "folder.npz"), "is a folder"),
    "a name that is too long": (
        ("simulate", "double_pendulum", "--out", "x" * 300 + ".npz"),
        "cannot write the file",
    ),
    "a negative step": (
        ("simulate", "double_pendulum", "--h", "-1", "--out", "x.npz"),
        "must be positive",
    ),
    "too many rows": (
        ("simulate", "double_pendulum", "--t-end", "1e6", "--h", "1e-6", "--out", "x.npz"),
        "GB are free",
    ),
    "steps without number": (
        ("simulate", "double_pendulum", "--t-end", "1e14", "--h", "1e-6", "--out", "x.npz"),
        "steps",
    ),
    "too many instants": (
        ("kinematics", "four_link", "--t-end", "1e9", "--h", "1e-6", "--out", "x.npz"),
        "GB are free",
    ),
    "an end that is no number": (
        ("simulate", "double_pendulum", "--t-end", "nan", "--out", "x.npz"),
        "t_end must be",
    ),
    "a missing result": (("plot", "missing.npz"), "cannot read"),
    "no frames": (("animate", "result.npz", "--fps", "0"), "fps"),
    "negative frames": (("animate", "result.npz", "--fps", "-5"), "fps"),
    "no speed": (("animate", "result.npz", "--speed", "0"), "speed"),
    "negative speed": (("animate", "result.npz", "--speed", "-1"), "speed"),
    "infinite speed": (("animate", "result.npz", "--speed", "inf"), "speed"),
    "a number varied twice": (
        (
            *("batch", "double_pendulum", "--out", "x.npz"),
            *("--vary", "bodies.upper.mass=1:2:2", "--vary", "bodies.upper.mass=2:3:2"),
        ),
        "is given twice",
    ),
    "one size": (("info", "four_bar:3"), "one size"),
    "a mistaken tableau": (
        (
            "simulate",
            "double_pendulum",
            "--integrator",
            "munthe_kaas",
            "--tableau",
            "rk9",
            "--out",
            "x.npz",
        ),
        "tableau must be one of",
    ),
}


@pytest.mark.parametrize(("args", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_is_refused_at_once_and_leaves_no_file(jaxmbd, tmp_path, args, message):
    (tmp_path / "folder.npz").mkdir()
    if args[0] == "animate":
        T = np.linspace(0, 1, 3)
        eye = np.broadcast_to(np.eye(3), (3, 1, 3, 3))
        vectors = {name: np.zeros((3, 1, 3)) for name in ("r", "v", "omega", "a", "alpha")}
        np.savez(
            "result.npz", t=T, A=eye, lam=np.zeros((3, 0)), iterations=np.zeros(3, int), **vectors
        )
    before = set(tmp_path.iterdir())
    done = jaxmbd(*args)
    assert done.code == 1 and message in done.stderr, done.stderr
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("out", ["/proc/o.npz", "m.npz"])
def test_what_cannot_be_written_is_refused_before_the_run(jaxmbd, tmp_path, monkeypatch, out):
    """A folder that takes no files, and a model that is called like a result."""
    monkeypatch.setattr(mbd, "simulate", None)  # would fail
    model = pendulum(tmp_path)
    model = (tmp_path / model).rename(tmp_path / "m.npz")
    before = model.read_text()
    done = jaxmbd("simulate", model, "--out", out)
    assert done.code == 1 and "error: --out: cannot write the file" in done.stderr
    assert model.read_text() == before


def test_an_unwritable_folder_is_refused_before_the_run(jaxmbd, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "_exclusive", refuse)
    done = jaxmbd("simulate", "double_pendulum", "--out", "x.npz")
    assert (
        done.code == 1 and "--out: cannot write the file 'x.npz': Permission denied" in done.stderr
    )


def test_inputs_of_a_model_are_given_on_the_command_line(jaxmbd, tmp_path):
    torque = {
        "type": "Torque",
        "name": "push",
        "torque": {"input": "push", "size": 3, "unit": "N·m"},
    }
    model = pendulum(tmp_path, forces=[torque])
    out = tmp_path / "motion.csv"
    asked = ["--h", 0.01, "--t-end", 1.0, "--out", out]
    done = jaxmbd("simulate", model, *asked)
    assert done.code == 1 and "pendulum has the input push: say what they are" in done.stderr
    done = jaxmbd("simulate", model, *asked, "--given", "pull=1")
    assert done.code == 1 and "no input 'pull'; its inputs are push" in done.stderr
    done = jaxmbd(
        "simulate", model, *asked, "--given", "push=0,minimum(2*t,1),0", "--column", "push*"
    )
    assert done.code == 0
    header, *rows = out.read_text(encoding="utf-8").splitlines()
    t, push = np.array([row.split(",") for row in rows], float)[
        :, [header.split(",").index(name) for name in ("t [s]", "push[1] [N m]")]
    ].T
    np.testing.assert_allclose(push, np.minimum(2.0 * t, 1.0), rtol=0, atol=1e-15)
    assert "inputs, held at zero here: push [N·m]" in jaxmbd("info", model).stdout
    assert "must be a number" in jaxmbd("equilibrium", model, "--given", "push=0,t,0").stderr
    # A torque of m g l turns the rod to the side and holds it there.
    done = jaxmbd("equilibrium", model, "--given", f"push=0,{-0.5 * 0.7 * 9.81},0")
    assert done.code == 0
