"""The bicycle experiment: the published eigenvalues and critical speeds (Meijaard, Papadopoulos,
Ruina, Schwab 2007), and derivatives against differences.
"""

import numpy as np
import pytest

from helpers import quick_experiment


@pytest.mark.slow
def test_the_benchmark_bicycle_agrees_with_the_paper(tmp_path):
    found = quick_experiment("bicycle", tmp_path)
    assert {p.name for p in tmp_path.glob("*.png")} == {
        "eigenvalues.png",
        "pushed.png",
        "design.png",
    }
    at_rest = [5.53094371765393, 3.13164324790656]
    published = {
        "eigenvalues_0": [*(-x for x in at_rest), *reversed(at_rest)],
        "eigenvalues_5": [
            -14.07838969279822,
            -0.77534188219585 - 4.46486771378823j,
            -0.77534188219585 + 4.46486771378823j,
            -0.32286642900409,
        ],
    }
    for name, values in published.items():
        ours = [complex(*x) for x in found[name]]
        np.testing.assert_allclose(ours, values, rtol=0, atol=1e-10)
    assert abs(found["weave_speed"] - 4.29238253634111) < 1e-9
    assert abs(found["capsize_speed"] - 6.02426201538837) < 1e-9
    for which, differences in found["differences"].items():
        for name, value in differences.items():
            assert found["derivatives"][which][name] == pytest.approx(value, rel=1e-6)
    # The method is of second order.
    coarse, fine = (np.abs(x["energy"]).max() for x in found["nonlinear"].values())
    assert fine < 0.3 * coarse
    assert found["design"][-1]["speed"] < found["design"][0]["speed"]
