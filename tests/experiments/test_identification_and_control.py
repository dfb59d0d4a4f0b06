"""Quick runs of the identification and control experiments: their files, and numbers that must come
out even so."""

from helpers import quick_experiment


def test_identification_finds_geometry_within_its_standard_errors(tmp_path):
    results = quick_experiment("identification", tmp_path, "--part", "four_bar")["four_bar"]
    assert (tmp_path / "four_bar.png").stat().st_size > 10_000
    errors = [x["error_in_standard_errors"] for x in results["parameters"].values()]
    assert len(errors) == 6 and max(map(abs, errors)) < 4.0
    assert 0.5 < results["rms_weighted_residual"] < 1.5


def test_control_makes_its_pictures_and_lowers_its_cost(tmp_path):
    parts = ("--part", "four_bar", "--part", "lqr")
    results = quick_experiment("control", tmp_path, *parts)
    assert (tmp_path / "four_bar.png").exists() and (tmp_path / "lqr.png").exists()
    before, after = results["four_bar"]["cost"]
    assert after < 0.1 * before
    assert results["lqr"]["redundant_rows"] == 3
    assert max(real for real, _ in results["lqr"]["open_loop_eigenvalues"]) > 1.0
    assert max(real for real, _ in results["lqr"]["closed_loop_eigenvalues"]) < -1.0
