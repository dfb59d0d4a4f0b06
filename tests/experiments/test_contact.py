"""The contact experiment: what its README says, in quick form."""

import pytest

from helpers import quick_experiment


@pytest.mark.slow
def test_the_contact_experiment_keeps_its_figures(tmp_path):
    found = quick_experiment("contact", tmp_path)
    assert {p.name for p in tmp_path.glob("*.png")} == {"motions.png"}
    assert max(found["ball_height_error"].values()) < 1e-10
    assert found["ball_energy_drift_100s"] < 1e-8
    assert found["creep_10s"] < 1e-11
    assert found["threshold_error_mu"] < 1e-6
    assert found["sliding_error"] < 1e-10
    assert found["rolling_speed_error"] < 1e-11
    assert found["sliding_cube_lift"] < 1e-9
    assert found["stack_base_force_error"] < 1e-8
    assert found["gradient_tossed_ball"] < 1e-8
    assert found["gradient_two_balls"] < 1e-10
    assert found["throws_e0_failures"] == found["throws_e03_failures"] == 0
    assert found["random_problems_failures"] == 0
