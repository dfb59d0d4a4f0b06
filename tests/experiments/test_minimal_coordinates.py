"""The hand-written equations that experiments compare with, against the package's accelerations at
random states.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from experiments.control import minimal as controlled
from experiments.control import problems as control
from experiments.identification import minimal as identified
from experiments.identification import problems as identification
from experiments.minimal_coordinates import twists

# Of the largest acceleration: roundoff, by the condition of the saddle system. In the slider crank,
# whose crank is light, the regularization of the rows leaves 3e-9, the same with all solvers.
TOLERANCE = {"slider_crank": 1e-8}


def control_force(t, q, v):
    return 3.0 - q[0] + 0.5 * v[1]


class Feedback:
    """The same force on the cart from the poses of `problems.cart_pole`."""

    def __call__(self, pose, twist, t):
        zero = jnp.zeros((2, 3))
        force = 3.0 - pose.r[0, 0] - 0.5 * twist.omega[1, 1]
        return zero.at[0, 0].set(force), zero


def parallelogram_push(pose, twist, t):
    force = 3.0 - pose.r[0, 0] + 0.5 * twist.omega[1, 1]
    return jnp.zeros((4, 3)).at[0, 0].set(force), jnp.zeros((4, 3))


LAW = identification.TrueLaw()
CASES = {
    "cart_pole": (controlled.CartPole(control_force), control.cart_pole(policy=Feedback()), 2),
    "parallelogram": (
        controlled.Parallelogram(control_force),
        control.parallelogram(parallelogram_push),
        2,
    ),
    "four_bar": (
        controlled.FourBar(lambda t: 300.0 * jnp.cos(t)),
        control.four_bar_motor(lambda t: 300.0 * jnp.cos(t)),
        1,
    ),
    "slider_crank": (identified.SliderCrank(), identification.slider_crank(), 1),
    "chain": (identified.Chain(LAW), identification.chain(LAW), 3),
}


@pytest.mark.parametrize("case", CASES)
def test_minimal_coordinates_have_the_accelerations_of_the_mechanism(case):
    equations, mechanism, n = CASES[case]
    system, _ = mechanism.build()
    rng = np.random.default_rng(0)

    @jax.jit
    def both(t, q, v):
        a = equations.accelerations(t, q, v)
        rates = lambda q, v: twists(equations.poses, q, v)  # noqa: E731
        (r_dot, omega), expected = jax.jvp(rates, (q, v), (v, a))
        found = mbd.accelerations(system, mbd.State(*equations.poses(q), r_dot, omega), t)
        return expected, (found.a, found.alpha)

    for _ in range(4):
        t, q, v = rng.uniform(0.0, 2.0), rng.uniform(-1.0, 1.0, n), rng.uniform(-2.0, 2.0, n)
        expected, found = both(t, q, v)
        tolerance = TOLERANCE.get(case, 1e-9) * max(float(jnp.max(jnp.abs(x))) for x in expected)
        for x, y in zip(expected, found, strict=True):
            np.testing.assert_allclose(y, x, rtol=0, atol=tolerance)
