"""Newton's method without what it falls back on: the same motion where that is not needed, and a
code where it is.
"""

import jax
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd import RESULTS


def _run(system, state, *, fallbacks, **options):
    newton = mbd.Newton(fallbacks=fallbacks)

    @jax.jit
    def run(state):
        integrator = mbd.GeneralizedAlpha(newton=newton)
        return mbd.simulate(system, state, integrator=integrator, **options)

    return run(state)


def test_without_fallbacks_an_easy_motion_is_the_same():
    system, state = mbd.load("double_pendulum")
    easy = {"h": 1e-3, "steps": 50}
    whole, bare = (_run(system, state, fallbacks=x, **easy) for x in (True, False))
    # Both stop at eps^0.75 of the mechanism's length, 1e-11 m, which is 1e-5 m/s² of a step.
    np.testing.assert_allclose(bare.r, whole.r, rtol=0.0, atol=1e-11)
    np.testing.assert_allclose(bare.a, whole.a, rtol=0.0, atol=1e-5)


def test_only_the_quasi_matrix_has_fallbacks():
    with pytest.raises(ValueError, match="only exact=None has fallbacks"):
        mbd.Newton(exact=True, fallbacks=False)


def test_a_step_that_needs_them_is_told():
    system, state = mbd.load("double_pendulum")
    hard = {"h": 0.4, "steps": 4, "save_every": 1}
    assert bool(_run(system, state, fallbacks=True, **hard).result == RESULTS.successful)
    bare = _run(system, state, fallbacks=False, **hard)
    assert bool(bare.result == RESULTS.newton_max_steps)
    assert not np.isfinite(np.asarray(bare.r)[-1]).any()
