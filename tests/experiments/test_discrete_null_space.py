"""The quick discrete null space experiment runs and shows what the paper prints for the top."""

import numpy as np

from helpers import quick_experiment


def test_the_top_precesses_at_second_order_and_conditions_are_as_printed(tmp_path):
    found = quick_experiment("discrete_null_space", tmp_path)["gyro_top"]
    assert {p.name for p in tmp_path.glob("*.png")} == {
        "conservation.png",
        "convergence.png",
        "energies.png",
        "relative.png",
    }
    assert found["schemes_max_difference"] < 1e-11
    for scheme in ("constrained", "reduced"):
        assert found[scheme]["energy_rel_dev_max"] < 1e-12
        assert found[scheme]["angular_momentum_rel_dev_max"] < 1e-12
        assert abs(found[scheme]["order"] - 2.0) < 0.05  # against steady precession in closed form
    # Table II, constrained scheme.
    np.testing.assert_allclose(
        list(found["condition_constrained"].values()), [1.6e4, 1.6e7, 1.6e10], rtol=0.05
    )
    scaled = list(found["condition_scaled"].values())
    assert max(scaled) < 1e4  # whatever the step
