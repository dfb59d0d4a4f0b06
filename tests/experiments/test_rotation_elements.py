"""The quick experiment of rotation-matrix elements runs and finds orders, eliminations and singular
poses right."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "experiments" / "rotation_elements" / "run.py"


def test_the_quick_experiment_finds_orders_eliminations_and_singular_poses(tmp_path):
    parts = ["double_pendulum", "workspace"]
    command = [sys.executable, str(SCRIPT), "--quick", "--parts", *parts, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pictures = {"angles.png", "multipliers.png", "order.png", "workspace.png"}
    assert {p.name for p in tmp_path.glob("*.png")} == pictures
    found = json.loads((tmp_path / "results.json").read_text())
    assert set(found["phi_psi"]) == {"0.1", "0.5", "1"}
    assert all(row["psi_error"] < 1e-7 for row in found["phi_psi"].values())
    assert found["one_shot_two_step_rel_diff"] < 1e-11
    assert found["orthogonality_drift"] < 1e-6
    assert set(found["multipliers_t0"]) == {"Lambda_1", "Lambda_2", "lambda_01", "lambda_12"}
    assert abs(found["order"]["frozen"] - 1.0) < 0.1
    assert max(found["by_step"]["every_stage"]["joints"].values()) < 1e-12
    # Known of platforms whose hexagons are similar (Fichter): a quarter turn of yaw.
    assert found["workspace"]["singular_yaw_deg"] == [-90.0, 90.0]
