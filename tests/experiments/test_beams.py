"""The experiment on beams states what its results say."""

import json
from pathlib import Path

import pytest

from experiments.beams import run

FOUND = json.loads(
    (Path(__file__).parents[2] / "experiments" / "beams" / "results.json").read_text("utf-8")
)


def test_the_stored_results_meet_the_closed_forms_and_published_values():
    assert FOUND["circle_tip_error"] < 1e-10
    assert FOUND["bend45_tip_error_32"] < 0.02
    for name in ("frequency_1", "frequency_3", "buckling", "lateral_buckling"):
        assert FOUND[f"{name}_relative_error_32"] < 1e-3
    assert FOUND["spin_up_relative_error"] < 0.01
    assert FOUND["flying_steps"] == 100_000
    assert FOUND["flying_energy_drift"] < 1e-10
    assert FOUND["flying_linear_momentum_drift"] < 1e-11
    assert FOUND["flying_angular_momentum_drift"] < 1e-11
    assert FOUND["us_per_element_step"] < 15.0
    assert FOUND["gradient_ratio"] < 4.0
    assert FOUND["periodic_residual"] < 1e-10
    assert FOUND["floquet_difference_error"] < 1e-6
    for name in ("equilibrium", "frequency", "buckling"):
        assert FOUND[f"derivative_of_{name}_error"] < 1e-6


@pytest.mark.slow
def test_the_orbit_of_a_flexible_slider_crank_has_the_multipliers_of_its_differences():
    found = run.orbit(False)
    assert found["periodic_residual"] < 1e-10
    assert found["floquet_difference_error"] < 1e-6


@pytest.mark.slow
def test_rest_frequency_and_buckling_load_have_derivatives_by_modulus_density_and_length():
    for error in run.derivatives().values():
        assert error < 1e-6
