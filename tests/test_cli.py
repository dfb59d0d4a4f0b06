"""The command line as a user meets it: real processes, exit codes, files."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest


def jaxmbd(*args, cwd=None):
    command = [sys.executable, "-m", "jaxmbd.cli", *map(str, args)]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


def test_help_teaches():
    done = jaxmbd("--help")
    assert done.returncode == 0
    for word in ("demo", "list", "info", "kinematics", "simulate", "plot", "animate", "MODEL"):
        assert word in done.stdout


def test_simulate_plot_and_animate(tmp_path):
    result = tmp_path / "r.npz"
    done = jaxmbd("simulate", "slider_crank", "--t-end", 0.05, "--h", 1e-3, "--formulation", "rA", "--out", result)
    assert done.returncode == 0, done.stderr
    assert "51 rows" in done.stdout
    with np.load(result) as file:
        assert file["r"].shape == (51, 3, 3)
    assert jaxmbd("plot", result).returncode == 0 and result.with_suffix(".png").stat().st_size > 10_000
    assert jaxmbd("animate", result, "--speed", 0.02).returncode == 0
    assert result.with_suffix(".gif").stat().st_size > 10_000


def test_info_reports_freedoms_and_redundant_joints():
    done = jaxmbd("info", "four_bar")
    assert done.returncode == 0
    assert "20 rows of rank 17: 1 freedom(s), 3 redundant" in done.stdout and "pin_rocker" in done.stdout
    schema = json.loads(jaxmbd("schema").stdout)
    assert schema["title"] == "jaxmbd-1 mechanism"


def test_kinematics_of_a_mechanism_with_freedoms_is_an_error_and_leaves_no_file(tmp_path):
    done = jaxmbd("kinematics", "double_pendulum", "--out", tmp_path / "k.npz")
    assert done.returncode == 1
    assert "has at least 2 left" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_failed_run_keeps_the_steps_before_it(tmp_path):
    model = {
        "format": "jaxmbd-1",
        "name": "winch",
        "bodies": [{"name": "rod", "mass": 1.0, "inertia": [0.01, 0.1, 0.1], "r": [0.5, 0, 0]}],
        "joints": [
            {"type": "Spherical", "name": "ball", "body_i": "ground", "body_j": "rod", "point": [0, 0, 0]},
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
    done = jaxmbd("simulate", "winch.json", "--t-end", 0.3, "--out", "w.npz", cwd=tmp_path)
    assert done.returncode == 1
    assert "'rope'" in done.stderr and "the steps before the failure are in w.npz" in done.stderr
    with np.load(tmp_path / "w.npz") as file:
        good = np.isfinite(file["r"]).all(axis=(1, 2))
        assert 50 < np.sum(good) < 300
    assert jaxmbd("plot", "w.npz", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("info", "nothing"), "neither a file nor a packaged mechanism"),
        (("simulate", "double_pendulum", "--out", "x.txt"), "must end in .npz or .csv"),
        (("simulate", "double_pendulum", "--out", "no/such/folder/x.npz"), "does not exist"),
        (("simulate", "double_pendulum", "--h", "-1", "--out", "x.npz"), "must be positive"),
        (("plot", "missing.npz"), "cannot read the result file"),
    ],
)
def test_errors_are_one_line_with_exit_code_1(tmp_path, args, message):
    done = jaxmbd(*args, cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
