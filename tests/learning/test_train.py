"""Training: gradients of batches, failed runs, checkpoints."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxmbd as mbd

OK, FAILED = mbd.RESULTS.successful, mbd.RESULTS.newton_max_steps


class Gain(eqx.Module):
    value: jax.Array
    unit: str = "N/m"  # what is no array stays as it is


def distance(model, start):
    """Zero where the model meets the start; the run fails above 0.9, its gradient below -0.9."""
    root = jnp.sqrt(jnp.where(start < -0.9, 0.0 * model.value, 1.0))
    return (1.0 + root) * (model.value - start) ** 2 / 2.0, mbd.RESULTS.where(
        start > 0.9, FAILED, OK
    )


def draw(key, share):
    return jax.random.uniform(key, minval=-1.0, maxval=1.0)


def train(**changes):
    arguments = {"updates": 6, "batch": 8, "optimizer": optax.sgd(0.1), "progress": False}
    return mbd.train(Gain(jnp.array(3.0)), distance, draw, **(arguments | changes))


def test_one_update_follows_the_mean_gradient_of_the_runs_that_did_not_fail():
    with pytest.warns(mbd.TrainingWarning, match="of 512 runs failed"):
        done = train(updates=1, batch=512, seed=3)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(3), 0), 512)
    starts = np.array([draw(k, 0.0) for k in keys])
    good = starts[np.abs(starts) < 0.9]
    assert done.failed[0] == 512 - good.size > 20
    assert done.loss[0] == pytest.approx(np.mean((3.0 - good) ** 2), rel=1e-12)
    slope = np.mean(2.0 * (3.0 - good))
    assert done.gradient_norm[0] == pytest.approx(slope, rel=1e-12)
    assert done.model.value == pytest.approx(3.0 - 0.1 * slope, rel=1e-12)
    assert done.model.unit == "N/m" and done.completed


@pytest.mark.filterwarnings("ignore::jaxmbd.TrainingWarning")
def test_a_training_that_was_cut_goes_on_as_if_it_had_not_been(tmp_path):
    whole = train(optimizer=optax.adam(0.1))
    file = tmp_path / "runs" / "gain.ckpt"

    def stop(update, numbers, model):
        if update == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(optimizer=optax.adam(0.1), checkpoint=file, log=stop)
    seen = []
    rest = train(optimizer=optax.adam(0.1), checkpoint=file, log=lambda k, _, model: seen.append(k))
    assert seen == [3, 4, 5]
    assert rest.model.value == whole.model.value
    np.testing.assert_array_equal(rest.loss, whole.loss)
    assert np.all(np.diff(rest.seconds) > 0.0)
    again = train(optimizer=optax.adam(0.1), checkpoint=file)  # nothing is left to do
    assert again.model.value == whole.model.value and again.completed
    with pytest.raises(ValueError, match="seed=0, not 1"):
        train(optimizer=optax.adam(0.1), checkpoint=file, seed=1)
    with pytest.raises(ValueError, match="of another model or optimizer"):
        wider = Gain(jnp.zeros(2))
        mbd.train(wider, distance, draw, updates=6, batch=8, checkpoint=file, progress=False)
    file.write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(ValueError, match="no checkpoint of a training"):
        train(checkpoint=file)


def test_another_seed_uses_the_program_of_the_first():
    traced = []

    def loss(model, start):
        traced.append(start)
        return (model.value - start) ** 2, OK

    def end(seed):
        first = Gain(jnp.array(3.0))
        return mbd.train(first, loss, draw, updates=3, batch=2, seed=seed, progress=False)

    one, count = end(0), len(traced)
    other = end(1)
    assert len(traced) == count == 1
    assert one.loss[0] != other.loss[0]


def test_what_cannot_be_trained_is_refused_by_name():
    with pytest.raises(ValueError, match="all 8 runs of the first update failed: .*converge"):
        mbd.train(Gain(jnp.array(1.0)), lambda m, s: (m.value, FAILED), draw, updates=2, batch=8)
    with pytest.raises(TypeError, match=r"must return the loss and `Solution.result`"):
        mbd.train(Gain(jnp.array(1.0)), lambda m, s: m.value, draw, updates=2)
    with pytest.raises(TypeError, match="must be a scalar"):
        mbd.train(Gain(jnp.ones(2)), lambda m, s: (m.value, OK), draw, updates=2)
    with pytest.raises(TypeError, match="no floating-point arrays"):
        mbd.train(Gain(jnp.array(1)), distance, draw, updates=2)
    with pytest.raises(ValueError, match="batch must be positive"):
        train(batch=0)


def test_a_training_without_hope_ends_and_says_so():
    def later(key, share):
        return jnp.where(share > 0.0, 0.95, 0.0)

    with pytest.warns(mbd.TrainingWarning, match="all runs of the last 10 updates failed"):
        done = mbd.train(Gain(jnp.array(3.0)), distance, later, updates=50, batch=4, progress=False)
    assert done.loss.size == 11 and not done.completed and np.isnan(done.loss[-1])


def test_the_gradient_of_an_update_goes_through_the_simulator():
    """Against central differences of the mean loss."""

    def loss(model, start):
        m = mbd.Mechanism("block on a spring")
        block = m.add_body("block", mass=2.0, inertia=np.eye(3), r=(0.5, 0, 0))
        m.add(mbd.Translational("rail", m.ground, block, point=(0, 0, 0), axis=(1, 0, 0)))
        m.add(
            mbd.SpringDamper(
                "spring",
                m.ground,
                block,
                stiffness=model.value,
                point_i=(0, 0, 0),
                point_j=(0.5, 0, 0),
                free_length=0.2,
            )
        )
        system, state = m.build()
        state = eqx.tree_at(lambda s: s.v, state, jnp.zeros((1, 3)).at[0, 0].set(start))
        sol = mbd.simulate(system, state, h=0.02, steps=20)
        return jnp.mean(sol.r[:, 0, 0] ** 2), sol.result

    done = mbd.train(
        Gain(jnp.array(30.0)), loss, draw, updates=1, batch=4, optimizer=optax.sgd(1.0),
        progress=False,
    )  # fmt: skip
    starts = jax.vmap(lambda k: draw(k, 0.0))(
        jax.random.split(jax.random.fold_in(jax.random.key(0), 0), 4)
    )
    mean = jax.jit(lambda k: jnp.mean(jax.vmap(lambda s: loss(Gain(k), s)[0])(starts)))
    slope = (mean(30.01) - mean(29.99)) / 0.02
    # Central differences of a smooth function: 1e-7 by their step, 1e-9 by rounding.
    assert done.model.value - 30.0 == pytest.approx(-slope, rel=1e-6)
    assert done.loss[0] == pytest.approx(mean(30.0), rel=1e-12)


def test_a_training_prints_what_a_person_wants_to_know():
    found = mbd.Training(
        model=jnp.zeros(1000),
        loss=np.array([2.0, 0.5, np.nan]),
        gradient_norm=np.ones(3),
        failed=np.array([0, 1, 4]),
        seconds=np.array([10.0, 11.0, 12.0]),
        updates=5,
    )
    text = repr(found)
    assert text.startswith("Training: 3 of 5 updates in 12 s") and "0.5 at the least" in text
    assert "5 runs failed and were left out" in text and len(text) < 300
