"""When Newton's iteration may end."""

import jax.numpy as jnp
import numpy as np

from jaxmbd.solvers import Functions, NewtonOptions, Start, newton


class _Frozen:
    """Approximate factors of the identity, which contract errors by a factor for each axis."""

    def __init__(self, contraction):
        self.contraction = contraction

    def solve(self, b):
        return (1.0 - self.contraction) * b


def test_a_first_correction_by_better_contracting_directions_does_not_hide_the_error():
    # The second correction is 2e-3 of the first. The error would be 4e-6 if the third were so too,
    # but along the second axis it is 1e-2 of the second, and the error 2e-5.
    contraction, start = jnp.array([1e-8, 1e-2]), jnp.array([1.0, 0.2])
    equations = Functions(
        lambda x: x,
        lambda x: _Frozen(contraction),
        lambda x: _Frozen(contraction),
        lambda delta: jnp.max(jnp.abs(delta)),
    )
    x, info = newton(equations, Start(start), NewtonOptions(1e-5))
    assert bool(info.converged) and int(info.iterations) == 3
    # By hand: the error falls by the contraction with each correction.
    np.testing.assert_allclose(x, contraction**3 * start, rtol=1e-9, atol=1e-16)
    assert np.max(np.abs(x)) < 1e-5
