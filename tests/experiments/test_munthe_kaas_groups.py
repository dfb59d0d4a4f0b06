"""The quick comparison of groups runs, and agrees with the paper's claims for the heavy top."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "experiments" / "munthe_kaas_groups" / "run.py"


def test_the_heavy_top_holds_its_pivot_on_se3_and_turns_alike_on_both_groups(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.glob("*.png")} == {"violation.png", "energy.png"}
    found = json.loads((tmp_path / "results.json").read_text())["heavy_top"]
    assert found["rotations_difference"] < 1e-13
    for group in ("SE3", "SO3xR3", "mixed"):
        row = found[group]["none"]
        for name in ("rotation", "position", "velocity"):
            assert abs(row[f"order_{name}"] - 4) < 0.15
        assert found[group]["projection"]["violation"]["pivot"]["0.1"] < 1e-12
        assert found[group]["projection"]["violation_velocity_max"] < 1e-12
    assert found["SE3"]["none"]["violation"]["pivot"]["0.1"] < 1e-11
    assert (
        found["SO3xR3"]["none"]["violation"]["pivot"]["0.1"] > 1e-9
    )  # of the method's order there
