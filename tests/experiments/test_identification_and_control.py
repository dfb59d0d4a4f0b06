"""Quick runs of the identification and control experiments: their files, and numbers that must come
out even so.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers import quick_experiment


def test_identification_finds_geometry_within_its_standard_errors(tmp_path):
    results = quick_experiment("identification", tmp_path, "--part", "four_bar")["four_bar"]
    assert (tmp_path / "four_bar.png").stat().st_size > 10_000
    errors = [x["error_in_standard_errors"] for x in results["parameters"].values()]
    assert len(errors) == 6 and max(map(abs, errors)) < 4.0
    assert 0.5 < results["rms_weighted_residual"] < 1.5
    coverage = results["coverage"]
    assert coverage["failed_draws"] == 0 and len(coverage["parameters"]) == 6


@pytest.mark.slow
def test_quick_replicates_and_excitations_give_numbers(tmp_path):
    parts = ("--part", "replicates", "--part", "excitation")
    results = quick_experiment("identification", tmp_path, *parts)
    assert results["replicates"]["failed_draws"] == 0
    assert len(results["replicates"]["parameters"]) == 6
    chosen = results["excitation"]["arm"]
    assert chosen["limits_passed_in_parts_of_the_range"] < 1e-9
    assert chosen["error_of_the_gradient"] < 1e-5


def test_stored_intervals_hold_and_chosen_excitations_beat_random_ones():
    """What the page says of the long runs."""
    folder = Path(__file__).parents[2] / "experiments" / "identification"
    stored = json.loads((folder / "results.json").read_text())
    shares = [x["covered"] for x in stored["replicates"]["parameters"].values()]
    assert stored["replicates"]["draws"] == 500
    assert 0.93 <= min(shares) and max(shares) <= 0.97
    for chosen in stored["excitation"].values():
        assert chosen["random"]["tried"] == 1000 and chosen["random"]["within_limits"] > 20
        assert chosen["log_det"] > chosen["random"]["best_log_det"]
        assert chosen["limits_passed_in_parts_of_the_range"] <= 1e-9
        assert chosen["error_of_the_gradient"] < 1e-6


def test_mujocos_sysid_finds_the_same(tmp_path):
    """Two implementations of the model, of the integrator and of the search."""
    sysid = pytest.importorskip("mujoco.sysid")
    if not hasattr(sysid, "optimize"):
        pytest.skip("mujoco is installed without its sysid")
    found = quick_experiment("identification", tmp_path, "--part", "sysid")["sysid"]
    assert found["largest_difference_in_standard_errors"] < 0.01
    costs = found["jaxmbd"]["cost"], found["mujoco_sysid"]["cost"]
    np.testing.assert_allclose(*costs, rtol=1e-4)


def test_the_linear_feedback_holds_the_loop_by_three_integrations(tmp_path):
    results = quick_experiment("control", tmp_path, "--part", "lqr")["lqr"]
    assert (tmp_path / "lqr.png").exists()
    assert results["redundant_rows"] == 3
    assert results["largest_difference_of_A_to_minimal_coordinates"] < 1e-9
    assert max(real for real, _ in results["open_loop_eigenvalues"]) > 1.0
    assert max(real for real, _ in results["closed_loop_eigenvalues"]) < -1.0
    errors = results["largest_error_of_the_motion"]
    # Second order: a tenth of the step, with a larger constant of BDF2.
    assert errors["replay"]["tilt_deg"] < 0.2 * errors["training"]["tilt_deg"] < 1e-2


@pytest.mark.slow
def test_the_planned_torque_of_the_four_bar_survives_the_replay(tmp_path):
    found = quick_experiment("control", tmp_path, "--part", "four_bar")
    results = found["four_bar"]
    assert (tmp_path / "four_bar.png").exists()
    assert found["four_bar_kkt"] == results["residual"] < 1e-8
    # A fifth of a turn by 13 samples of the torque, which misses by what straight lines leave.
    assert max(results["largest_miss_m"].values()) < 1e-2
    closest = results["the_same_for_the_closest_samples"]
    assert results["torque_rms_difference_to_inverse_dynamics"] < 1.5 * closest


@pytest.mark.slow
def test_predictive_control_keeps_its_limit_in_the_quick_form(tmp_path):
    found = quick_experiment("control", tmp_path, "--part", "predictive")
    assert found["predictive"]["largest_force_N"] <= 8.0
    assert found["mpc_milliseconds"] == found["predictive"]["milliseconds"] > 0.0


@pytest.mark.slow
def test_slider_and_chain_are_fitted_to_motions_of_minimal_coordinates(tmp_path):
    parts = ("--part", "slider_crank", "--part", "friction")
    results = quick_experiment("identification", tmp_path, *parts)
    for fit in (results["slider_crank"][k] for k in ("all", "determined")):
        assert fit["discretization_error"]["rms_over_sigma"] < 0.5
        rms = list(fit["rms_weighted_residual"].values())
        np.testing.assert_allclose(rms, rms[0], rtol=0.1)
    assert results["friction"]["discretization_error"]["rms_over_sigma"] < 0.5


def test_a_plan_bounces_off_the_floor_as_scipy_says(tmp_path):
    (found,) = quick_experiment("control", tmp_path, "--part", "bounce")["bounce"].values()
    assert found["largest_push_N"] < 9.0 < 9.81 and found["depth_m"] > 0.0
    # What the plan's steps of 2.5 ms, of second order, leave on a contact of 0.2 s.
    assert abs(found["miss_by_scipy"]["m"]) < 1e-5
    assert abs(found["miss_by_scipy"]["m_per_s"]) < 1e-4
