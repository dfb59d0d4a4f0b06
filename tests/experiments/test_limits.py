"""The fast top of the limits experiment: its reference against the package at a fine step."""

import numpy as np

import jaxmbd as mbd
from experiments.limits import run as limits


def test_the_reference_of_the_fast_top_is_the_converged_motion():
    system, state = limits.top().build()
    wanted = limits.orientation(np.asarray(state.A[0]), 0.05)
    errors = []
    for h in (1e-3, 5e-4):
        sol = mbd.simulate(
            system, state, h=h, steps=round(0.05 / h), integrator=mbd.MuntheKaas("SE3")
        )
        errors.append(np.max(np.abs(sol.A[-1, 0] - wanted)))
        assert np.max(np.abs(sol.r[:, 0] + sol.A[:, 0] @ limits.TIP)) < 1e-12
    assert errors[1] < 1e-6
    assert 12.0 < errors[0] / errors[1] < 20.0  # fourth order
