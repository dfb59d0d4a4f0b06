"""Derivatives of whole simulations: against differences, in both modes, of second order, in
batches, at rest."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from experiments.gradients import cases
from helpers import name_of
from jaxmbd.xla.jaxprs import OPAQUE

# A loop with rows of all kinds and a driver, and free rotation in other coordinates;
# `experiments/gradients` runs all mechanisms and formulations.
PAIRS = [
    ("slider_crank", mbd.RA()),
    pytest.param("double_pendulum", mbd.RP(), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(
    ("model", "formulation"), PAIRS, ids=lambda x: x if isinstance(x, str) else name_of(x)
)
def test_reverse_gradient_by_every_kind_of_number_is_right(model, formulation):
    # 1e-6 is what differences of the fourth order resolve where a term of the loss cancels.
    for kind, found in cases.errors(model, formulation, steps=(1e-3, 1e-4)).items():
        assert found["relative_error"] < 1e-6, (kind, found)


@pytest.mark.essential
def test_forward_mode_and_second_derivatives_agree_with_the_reverse_gradient():
    def height(x):
        m = mbd.load_mechanism("double_pendulum")
        spring = {
            "point_i": (0.5, 0.0, 0.0),
            "point_j": (0.0, 4.0, -2.0),
            "stiffness": x[2],
            "free_length": 3.0,
        }
        m.add(mbd.SpringDamper("spring", "ground", "lower", **spring))
        m = m.with_values({"bodies.upper.mass": x[0], "bodies.lower.mass": x[1]})
        system, state = m.build()
        return mbd.simulate(system, state, h=1e-2, steps=20, integrator=cases.INTEGRATOR).r[
            -1, 1, 2
        ]

    x, direction = jnp.array([78.0, 39.0, 500.0]), jnp.array([10.0, -5.0, 80.0])
    # One program: the reverse gradient, and its derivative in forward mode.
    both = jax.jit(lambda x: jax.jvp(jax.grad(height), (x,), (direction,)))
    gradient, product = both(x)
    forward = jax.jit(lambda x: jax.jvp(height, (x,), (direction,))[1])(x)
    np.testing.assert_allclose(forward, gradient @ direction, rtol=1e-9)
    step = 1e-4
    difference = (both(x + step * direction)[0] - both(x - step * direction)[0]) / (2 * step)
    np.testing.assert_allclose(product, difference, atol=1e-6 * float(jnp.max(jnp.abs(product))))


@pytest.mark.slow  # tests/solvers/test_implicit_diff.py has a small problem for every day
@pytest.mark.parametrize("keep_factors", [False, True])
def test_second_derivatives_are_those_of_the_roots_in_every_order_of_modes(keep_factors):
    # Forward mode over reverse mode once differentiated the iteration: right to 1e-5 of the
    # product with factors of each step, NaN with kept ones.
    system, state = mbd.load("four_bar")
    integrator = mbd.GeneralizedAlpha(newton=mbd.Newton(keep_factors=keep_factors))
    x, direction = jnp.array([1.01, 0.99, 1.02]), jnp.array([1.0, 2.0, 3.0])

    def speed(x):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * x)
        sol = mbd.simulate(heavier, state, steps=40, save_every=40, h=5e-3, integrator=integrator)
        return jnp.sum(sol.v[-1] ** 2)

    def along(x):
        return jax.jvp(speed, (x,), (direction,))[1]

    def product(x):
        return jax.jvp(jax.grad(speed), (x,), (direction,))

    batch = jnp.stack([x, x * 1.1])
    gradient = jax.vmap(jax.grad(speed))
    both = jax.jit(
        lambda x: (
            product(x),
            jax.grad(along)(x),
            jax.vmap(product)(batch)[1],
            jax.jvp(gradient, (batch,), (jnp.stack([direction, direction]),))[1],
        )
    )
    (_, found), other, mapped, of_batch = both(x)
    scale = float(jnp.max(jnp.abs(found)))
    # Roundings of 40 solves with a condition of 1e6.
    np.testing.assert_allclose(other, found, atol=1e-9 * scale)
    np.testing.assert_allclose(mapped[0], found, atol=1e-9 * scale)
    np.testing.assert_allclose(of_batch, mapped, atol=1e-9 * scale)
    step = 1e-3
    difference = (both(x + step * direction)[0][0] - both(x - step * direction)[0][0]) / (2 * step)
    np.testing.assert_allclose(found, difference, atol=3e-5 * scale)


@pytest.mark.essential
def test_checkpoints_change_neither_the_motion_nor_the_gradient():
    system, state = mbd.load("double_pendulum")

    def run(mass, checkpoints, save_every):
        heavier = eqx.tree_at(lambda s: s.mass, system, mass)
        options = {"save_every": save_every, "checkpoints": checkpoints}
        return jnp.sum(mbd.simulate(heavier, state, h=1e-3, steps=60, **options).r[-1] ** 2)

    options = ((1, 60), (10, 1))
    values = [jax.jit(jax.value_and_grad(lambda m, o=o: run(m, *o)))(system.mass) for o in options]
    for value, gradient in values[1:]:
        np.testing.assert_allclose(value, values[0][0], rtol=1e-14)
        np.testing.assert_allclose(gradient, values[0][1], rtol=1e-9)
    with pytest.raises(ValueError, match="checkpoints=7"):
        mbd.simulate(system, state, h=1e-3, steps=60, checkpoints=7)


@pytest.mark.essential
def test_one_failed_member_of_a_batch_leaves_values_and_gradients_of_the_others():
    system, state = mbd.load("double_pendulum")

    def run(mass):
        heavier = eqx.tree_at(lambda s: s.mass, system, mass)
        sol = mbd.simulate(heavier, state, h=1e-3, steps=10, save_every=10)
        return jnp.where(sol.result == mbd.RESULTS.successful, jnp.sum(sol.r[-1]), 0.0)

    sets = jnp.stack([system.mass, system.mass * jnp.nan, 1.1 * system.mass])
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(run)))(sets)
    good = np.array([0, 2])
    assert np.all(np.isfinite(value)) and np.all(np.isfinite(gradient[good]))
    for k in good:
        np.testing.assert_allclose(gradient[k], jax.jit(jax.grad(run))(sets[k]), rtol=1e-10)


def test_gradients_are_finite_at_rest_at_zero_angle_and_with_aligned_axes():
    # Hanging straight down, nothing moves: every norm and every angle is zero.
    def run(x):
        m = mbd.Mechanism("hanging")
        last = m.ground
        for k in range(2):
            body = m.add_body(
                f"bar{k}", mass=1.0, inertia=(0.1, 0.1, 0.01), r=(x[0], 0, -0.5 - k), omega=x[1:4]
            )
            m.add(mbd.Spherical(f"ball{k}", last, body, point=(x[0], 0, -k)))
            last = body
        spring = {"axis": (0, 0, 1.0), "stiffness": x[4], "damping": 0.1}
        m.add(mbd.TorsionalSpringDamper("twist", "bar0", "bar1", **spring))
        system, state = m.build()
        sol = mbd.simulate(system, state, h=1e-2, steps=10)
        return jnp.sum(sol.r[-1] @ jnp.array([1.0, 2.0, 3.0])) + jnp.sum(
            sol.A[-1].reshape(2, 9) @ jnp.arange(9.0)
        )

    gradient = jax.jit(jax.grad(run))(jnp.array([0.0, 0.0, 0.0, 0.0, 2.0]))
    assert np.all(np.isfinite(gradient)) and float(jnp.max(jnp.abs(gradient))) > 0.1


def test_the_backward_pass_does_not_solve_for_the_roots_again():
    system, state = mbd.load("four_bar")

    def height(mass):
        heavier = eqx.tree_at(lambda s: s.mass, system, mass)
        return mbd.simulate(heavier, state, h=1e-3, steps=4).r[-1, -1, 2]

    scans = [e for e in equations(jax.make_jaxpr(jax.grad(height))(system.mass).jaxpr) if steps(e)]
    assert len(scans) == 2  # of the steps: forward and backward
    assert roots_in(scans[0]) > 0 and roots_in(scans[1]) == 0


def test_the_backward_pass_does_not_keep_what_only_guesses_need():
    system, state = mbd.load("double_pendulum")
    steps = 30

    def end(mass):
        changed = eqx.tree_at(lambda s: s.mass, system, mass)
        sol = mbd.simulate(
            changed, state, h=1e-3, steps=steps, integrator=mbd.GeneralizedAlpha(), save_every=steps
        )
        return sol.r[-1, 0, 1]

    kept = jax.eval_shape(lambda mass: jax.vjp(end, mass)[1], system.mass)
    per_step = [x for x in jax.tree.leaves(kept) if steps in x.shape[:2]]
    # Accelerations and multipliers of the five steps before would be 110 numbers.
    assert 0 < sum(x.size // steps for x in per_step) < 110


def roots_in(loop) -> int:
    """How many roots are solved for in a loop."""
    return sum(
        e.primitive.name == OPAQUE
        and any(inner.primitive.name == "name" for inner in e.params["jaxpr"].jaxpr.eqns)
        for e in equations(loop.params["jaxpr"].jaxpr)
    )


def steps(equation) -> bool:
    """Whether an equation of a jaxpr is the loop over four steps."""
    return equation.primitive.name == "scan" and equation.params["length"] == 4


def equations(jaxpr):
    """All equations of a jaxpr and of those inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(
            list(equation.params.values()),
            is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr"),
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from equations(inner)
