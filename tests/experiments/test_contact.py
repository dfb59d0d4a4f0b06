"""The contact experiment: what its README says, in quick form."""

import pytest

from helpers import quick_experiment


@pytest.mark.slow
def test_the_contact_experiment_keeps_its_figures(tmp_path):
    found = quick_experiment("contact", tmp_path)
    assert {p.name for p in tmp_path.glob("*.png")} == {"motions.png", "play.png", "scale.png"}
    assert found["ball_height_error"] < 1e-10
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
    # The elastic spring and the turning points are exact; the pendulum's own motion is not.
    assert found["dry_oscillator_error"] < 1e-7
    assert found["dry_pendulum_error"]["0.00125"] < 1e-5
    assert found["slider_crank_with_play"]["energy_rises_by"] < 1e-5
    assert found["slider_crank_with_play"]["deepest"] < 1e-8
    assert found["slider_crank_dry_guide"]["energy_balance_error"] < 1e-4
    for name in ("friction", "restitution"):
        one = found["identified"][name]
        assert abs(one["estimate"] - one["truth"]) < 4.0 * one["error"]
    assert found["throw"]["with"]["miss"] < 1e-9
