"""The experiment on beams states what its results say."""

import numpy as np
import pytest

from experiments.beams import run

# Bounds are at most ten to thirty times what docs/experiments/beams.md publishes, or the published
# figures of coarser beams themselves.


@pytest.mark.slow
def test_a_beam_bends_to_a_full_circle_and_as_the_published_bend():
    found = run.bending(quick=True)
    assert found["circle_tip_error"] < 1e-14
    # Second order from 0.009 of 32 elements on: 0.58 of four.
    assert np.max(np.abs(np.array(found["bend45_tips"]["4"]) - run.LIMIT_45)) < 0.7


@pytest.mark.slow
def test_frequencies_are_those_of_euler_and_bernoulli():
    # Second order from 2.7e-4 and 4.8e-4 of 32 elements on, with its next term.
    errors = np.abs(run.frequencies(quick=True)["frequencies"]["8"])
    assert np.all(errors < [0.005, 0.005, 0.015])


@pytest.mark.slow
def test_columns_and_strips_buckle_at_their_loads():
    found = run.buckling(quick=True)
    assert abs(found["buckling"]["8"]) < 0.0035
    assert abs(found["lateral_buckling"]["8"]) < 0.013


@pytest.mark.slow
def test_a_flying_beam_keeps_energy_and_momenta():
    found = run.flight(quick=True)  # 200 steps; 100,000 drift by 2e-12, 4e-12 and 6e-12
    assert found["flying_energy_drift"] < 1e-12
    assert found["flying_linear_momentum_drift"] < 1e-12
    assert found["flying_angular_momentum_drift"] < 1e-12
    assert found["flying_strain_energy_share"] > 0.3  # it does bend


@pytest.mark.slow
def test_the_orbit_of_a_flexible_slider_crank_has_the_multipliers_of_its_differences():
    found = run.orbit(False)
    assert found["periodic_residual"] < 5e-11
    assert found["floquet_difference_error"] < 1e-6


@pytest.mark.slow
def test_rest_frequency_and_buckling_load_have_derivatives_by_modulus_density_and_length():
    for error in run.derivatives().values():
        assert error < 1e-6
