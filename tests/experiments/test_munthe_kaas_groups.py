"""The quick comparison of groups runs, and agrees with the paper's claims for the heavy top."""

from helpers import quick_experiment


def test_the_heavy_top_holds_its_pivot_on_se3_and_turns_alike_on_both_groups(tmp_path):
    found = quick_experiment("munthe_kaas_groups", tmp_path)["heavy_top"]
    assert {p.name for p in tmp_path.glob("*.png")} == {"violation.png", "energy.png"}
    assert found["rotations_difference"] < 1e-14
    for group in ("SE3", "SO3xR3", "mixed"):
        row = found[group]["none"]
        for name in ("rotation", "position", "velocity"):
            assert abs(row[f"order_{name}"] - 4) < 0.15
        assert found[group]["projection"]["violation"]["pivot"]["0.1"] < 1e-15
        assert found[group]["projection"]["violation_velocity_max"] < 1e-14
    assert found["SE3"]["none"]["violation"]["pivot"]["0.1"] < 1e-13
    assert (
        found["SO3xR3"]["none"]["violation"]["pivot"]["0.1"] > 1e-9
    )  # of the method's order there
