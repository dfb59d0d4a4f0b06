"""The quick experiment of rotation-matrix elements runs and finds orders, eliminations and singular
poses right."""

from helpers import quick_experiment


def test_the_quick_experiment_finds_orders_eliminations_and_singular_poses(tmp_path):
    parts = ("--part", "double_pendulum", "--part", "workspace")
    found = quick_experiment("rotation_elements", tmp_path, *parts)
    pictures = {"angles.png", "multipliers.png", "order.png", "workspace.png"}
    assert {p.name for p in tmp_path.glob("*.png")} == pictures
    assert set(found["phi_psi"]) == {"0.1", "0.5", "1"}
    assert all(row["psi_error"] < 1e-7 for row in found["phi_psi"].values())
    assert found["one_shot_two_step_rel_diff"] < 1e-11
    assert found["orthogonality_drift"] < 1e-6
    assert set(found["multipliers_t0"]) == {"Lambda_1", "Lambda_2", "lambda_01", "lambda_12"}
    assert abs(found["order"]["frozen"] - 1.0) < 0.1
    assert max(found["by_step"]["every_stage"]["joints"].values()) < 1e-13
    # Known of platforms whose hexagons are similar (Fichter): a quarter turn of yaw.
    assert found["workspace"]["singular_yaw_deg"] == [-90.0, 90.0]
