"""Steps that start from what earlier ones extrapolate to: fewer iterations, the same motion."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.equations.rows import rows
from jaxmbd.formulations import RA
from jaxmbd.solvers.predictor import UNKNOWN, Multipliers, Past, SolvedStep
from jaxmbd.xla.batch_last import anyone

METHOD = mbd.GeneralizedAlpha()
KEPT = mbd.GeneralizedAlpha(newton=mbd.Newton(keep_factors=True))
LAST = mbd.GeneralizedAlpha(newton=mbd.Newton(extrapolate=False))


def size(x):
    return jnp.max(jnp.abs(x))


def past_of(solutions, scale=1e-6, contraction=jnp.nan, observe=False, ringing=0.0):
    """What a run of these solutions leaves behind, and the last of them."""
    scale, ok = jnp.asarray(scale), jnp.ones((), bool)
    past = Past.none(jnp.zeros((1, 2)), jnp.zeros(1), None, redundant=False, ringing=ringing)
    past = past.valid(scale, False)
    last = solutions[0]
    for new in solutions[1:]:
        past = past.valid(scale, False)
        seen = jnp.asarray(contraction)
        step = SolvedStep(last, past.guess(last), new, ok, seen, observe)
        past = past.after(step, size, None, Multipliers(0.0))
        last = new
    return past, last


def test_cubics_are_extrapolated_without_error():
    t = jnp.arange(7.0)[:, None]
    x = 3.0 - 2.0 * t + 0.5 * t**2 * jnp.array([[1.0, 2.0, -1.0]]) + 0.1 * t**3
    past, last = past_of(list(x[:6]))
    np.testing.assert_allclose(past.guess(last), x[6], rtol=1e-13)


def test_errors_that_alternate_and_decay_are_extrapolated_too():
    n = jnp.arange(12.0)[:, None]
    smooth = 30.0 - 2.0 * n + 0.5 * n**2 * jnp.array([[1.0, 2.0, -1.0]]) + 0.1 * n**3
    x = smooth + (0.02 + 0.01 * n) * (-0.8) ** n
    past, last = past_of(list(x[:11]), ringing=0.8)
    np.testing.assert_allclose(past.guess(last), x[11], rtol=1e-12)
    past, last = past_of(list(x[:11]))
    assert size(past.guess(last) - x[11]) > 1e-2


def test_after_a_jump_and_after_a_change_of_step_or_chart_the_guess_is_the_last_solution():
    t = jnp.arange(6.0)[:, None] * jnp.ones((1, 3))
    past, last = past_of([*t[:5], t[5] + 100.0])
    np.testing.assert_array_equal(past.guess(last), last)
    past, last = past_of(list(t))
    assert size(past.guess(last) - last) > 0.5
    for changed in (past.valid(jnp.asarray(2e-6), False), past.valid(past.scale, True)):
        np.testing.assert_array_equal(changed.guess(last), last)
        assert float(changed.trusted()[0]) == UNKNOWN


def test_the_contraction_is_observed_again_by_a_whole_batch_at_once():
    x = [jnp.full(3, float(k)) for k in range(12)]
    fresh, old = past_of(x[:3], contraction=1e-6), past_of([*x, *x], contraction=1e-6)
    assert float(fresh[0].trusted()[0]) < 1e-2
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), fresh[0], old[0])
    assumed, observe = jax.vmap(lambda past: past.trusted()[:2])(both)
    assert np.all(np.asarray(observe))
    np.testing.assert_array_equal(assumed, UNKNOWN)
    flags = jnp.array([[False, True], [False, False]])
    assert np.all(np.asarray(jax.vmap(jax.vmap(anyone))(flags)))


def test_a_contraction_seen_long_ago_is_trusted_less():
    x = [jnp.full(3, float(k)) for k in range(17)]
    past, last = past_of(x[:3], contraction=1e-2)
    trust = []
    for _ in range(13):
        trust.append(float(past.trusted()[0]) / 1e-2)
        ok, unseen = jnp.ones((), bool), jnp.asarray(jnp.nan)
        step = SolvedStep(last, last, last, ok, unseen, False)
        past = past.after(step, size, None, Multipliers(0.0))
    assert trust[0] == pytest.approx(2.0) and trust[-1] == pytest.approx(8.0)
    np.testing.assert_allclose(np.diff(trust), 0.5, rtol=1e-9)


@pytest.mark.parametrize("model", ["double_pendulum", "slider_crank"])
def test_most_steps_take_one_iteration_and_none_changes_beyond_the_tolerance(model):
    system, state = mbd.load(model)
    options = {"h": 1e-3, "steps": 200}
    new = mbd.simulate(system, state, integrator=METHOD, **options)
    old = mbd.simulate(system, state, integrator=LAST, **options)
    assert float(jnp.mean(new.iterations[1:])) < 1.35 < 1.9 < float(jnp.mean(old.iterations[1:]))
    # A step may err by the tolerance, eps^0.75 of the length; two hundred steps add up.
    tolerance = 200 * float(jnp.finfo(float).eps) ** 0.75 * float(system.length)
    np.testing.assert_allclose(new.r, old.r, atol=tolerance)
    assert float(jnp.max(jnp.abs(new.violation(system).position))) < tolerance / 200


@pytest.mark.parametrize("model", ["double_pendulum", "slider_crank", "bennett"])
def test_old_factors_change_nothing_beyond_the_tolerance(model):
    system, state = mbd.load(model)
    options = {"h": 1e-3, "steps": 200}
    new = mbd.simulate(system, state, integrator=KEPT, **options)
    old = mbd.simulate(system, state, integrator=LAST, **options)
    most = 2.0 if model == "slider_crank" else 1.35
    assert float(jnp.mean(new.iterations[1:])) < most
    assert float(jnp.mean(old.iterations[1:])) > 1.9
    # A step may err by the tolerance, eps^0.75 of the length; two hundred steps add up.
    tolerance = 200 * float(jnp.finfo(float).eps) ** 0.75 * float(system.length)
    np.testing.assert_allclose(new.r, old.r, atol=tolerance)
    assert float(jnp.max(jnp.abs(new.violation(system).position))) < tolerance / 200
    # Multipliers of single steps hold the tolerance over h², a millionth of it here.
    largest = float(jnp.max(jnp.abs(old.lam)))
    np.testing.assert_allclose(new.lam, old.lam, atol=1e-5 * largest)


def test_undetermined_multipliers_do_not_grow_with_old_factors():
    # At larger steps what the rows leave undetermined grew to the size of forces, and forces were
    # then wrong by 4 % for single steps.
    system, state = mbd.load("six_body_linkage")
    options = {"h": 2e-3, "steps": 500}
    new = mbd.simulate(system, state, integrator=KEPT, **options)
    old = mbd.simulate(system, state, integrator=LAST, **options)
    # An error e of one step's positions comes back in accelerations of up to 60 e/h²; those of two
    # may add up.
    error = float(jnp.finfo(float).eps) ** 0.75 * float(system.length) / options["h"] ** 2
    np.testing.assert_allclose(new.a, old.a, atol=2 * 60 * error)
    largest = float(jnp.max(jnp.abs(old.lam)))
    np.testing.assert_allclose(new.lam, old.lam, atol=1e-4 * largest)
    assert float(jnp.max(jnp.abs(new.multipliers - new.lam))) < 0.1 * largest


def test_multipliers_are_of_least_norm_when_they_are_asked_for():
    system, state = mbd.load("bennett")
    sol = mbd.simulate(system, state, h=1e-3, steps=100, integrator=KEPT)
    assert not sol.least
    for k in (37, 100):
        now = sol.at(k)
        blocks = np.asarray(rows(RA(), system.at(sol.t[k]), now.pose))
        R = np.zeros((system.nc, 6 * (system.nb + 1)))
        for row, bodies in enumerate(system.row_bodies):
            for place, body in enumerate(bodies):
                R[row, 6 * body : 6 * body + 6] += blocks[row, place]
        R = R[:, : 6 * system.nb]
        left = np.asarray(system.to_stacked(sol.multipliers[k]))
        # Moments count as forces at the system's length.
        of_directions = [
            isinstance(stack.primitive, mbd.DP1)
            for stack in system.constraints
            for _ in stack.bodies
        ]
        arm = np.where(of_directions, 1.0, float(system.length))
        least = np.linalg.lstsq((R / arm[:, None]).T, R.T @ left, rcond=1e-9)[0] / arm
        # The part of soft directions that E takes away is of the order of its square.
        np.testing.assert_allclose(
            system.to_stacked(sol.lam[k]), least, atol=1e-8 * np.max(np.abs(least))
        )
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), sol)
    np.testing.assert_allclose(stacked.lam[1], sol.lam, rtol=1e-12, atol=1e-9)


def test_a_batch_moves_as_its_elements_do():
    system, state = mbd.load("four_bar")
    factors = jnp.linspace(0.8, 1.2, 3)

    def run(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * factor)
        return mbd.simulate(heavier, state, h=1e-3, steps=40, integrator=KEPT).r[-1]

    alone = jnp.stack([jax.jit(run)(factor) for factor in factors])
    # Elements renew their factors together, so iterations differ within the tolerance.
    tolerance = 40 * float(jnp.finfo(float).eps) ** 0.75 * float(system.length)
    np.testing.assert_allclose(jax.jit(jax.vmap(run))(factors), alone, atol=tolerance)


def test_factors_are_kept_only_where_steps_learn():
    for settings in ({"extrapolate": False}, {"exact": True}, {"criterion": "correction"}):
        with pytest.raises(ValueError, match="keep_factors goes with extrapolate"):
            mbd.Newton(keep_factors=True, **settings)
    system, state = mbd.load("double_pendulum")
    # Where steps are chosen for a tolerance, each makes its own.
    sol = mbd.simulate(
        system,
        state,
        step=mbd.Adaptive(1e-4),
        save_at=np.array([0.0, 0.02]),
        integrator=KEPT,
    )
    assert sol.least
