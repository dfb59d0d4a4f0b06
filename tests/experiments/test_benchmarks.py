"""The benchmark's yardstick computes what the package computes, and its quick version runs."""

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "experiments" / "benchmarks"


def test_the_quick_benchmark_runs_and_its_yardstick_agrees(tmp_path):
    code = (
        "import run\n"
        "gap = run.yardstick_agrees('slider_crank')\n"  # all four primitives and a driver
        "assert gap < 1e-11, gap\n"
        "run.main()\n"
    )
    choice = ["--quick", "--models", "double_pendulum", "--formulations", "rA"]
    command = [sys.executable, "-c", code, *choice, "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    row = json.loads((tmp_path / "results.json").read_text())["models"]["double_pendulum"]["rA"]
    assert row["us_per_step"] > 0 and row["compile_s"] > 0 and 1 < row["iterations"] < 4
