"""A network for the torque that the model of a linkage lacks, learned through the simulator from
noisy angles, against one that is fitted to accelerations by differences.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxmbd as mbd

from . import linkage, methods

METHOD = mbd.GeneralizedAlpha(rho_inf=0.8)
WINDOWS = (3, 5, 11, 21, 31)  # rows of a local polynomial; 3 are central differences


class Size(NamedTuple):
    """Of this part.

    Attributes:
        h: Step of the training, and spacing of the measured angles [s].
        steps: Of a motion.
        motions: Measured for the training, and as many for the test.
        updates: Of the training.
        fitted: Updates of the fit to accelerations.
        seeds: Of the network and of the noise.
        fine: Step of the test [s].
    """

    h: float = 7.5e-3
    steps: int = 120
    motions: int = 4
    updates: int = 480
    fitted: int = 2000
    seeds: int = 5
    fine: float = 7.5e-4

    @property
    def t(self):
        """Instants of the measured angles."""
        return self.h * np.arange(self.steps + 1)


QUICK = Size(steps=32, motions=2, updates=2, fitted=20, seeds=1)


class Model(eqx.Module):
    """What is trained: a network, and which noise its data have."""

    torque: linkage.Residual
    draw: jax.Array


class Sample(NamedTuple):
    """A measured motion: its number, and the share of it that counts."""

    motion: jax.Array
    until: jax.Array


def through_the_simulator(drives, data, size: Size) -> list[methods.Course]:
    """Trainings of all seeds on angles (seeds, motions, T)."""
    kept = jnp.asarray(data)

    def loss(model, sample):
        drive = jax.tree.map(lambda x: x[sample.motion], drives)
        angle, result = linkage.simulated(
            model.torque, drive, h=size.h, steps=size.steps, integrator=METHOD
        )
        counts = (jnp.asarray(size.t) <= sample.until * size.t[-1]).astype(angle.dtype)
        miss = (angle - kept[model.draw, sample.motion]) / linkage.NOISE
        return counts @ jnp.log1p((miss / 30.0) ** 2) / jnp.sum(counts), result

    def draw(key, share):
        motion = jax.random.randint(key, (), 0, size.motions)
        return Sample(motion, jnp.minimum(1.0, 0.3 + 1.05 * share))

    optimizer = methods.adam(2e-2, size.updates)
    return [
        methods.by_gradients(
            loss,
            draw,
            Model(linkage.Residual(jax.random.key(seed)), jnp.asarray(seed)),
            optimizer,
            updates=size.updates,
            batch=size.motions,
            seed=seed,
            every=max(1, size.updates // 10),
        )
        for seed in range(size.seeds)
    ]


def to_differences(drives, data, window: int, size: Size) -> list[linkage.Residual]:
    """Networks of all seeds, fitted to the accelerations of angles (seeds, motions, T)."""
    inside = 0 if window == 3 else 1  # as many rows for every window
    optimizer = methods.adam(2e-2, size.fitted)
    found = []
    for seed in range(size.seeds):
        rows = linkage.differences(data[seed], size.h, window)
        rows = [jnp.asarray(x[:, inside : x.shape[1] - inside]) for x in rows]
        angle, rate, lever, load = linkage.needed(drives, jnp.asarray(size.t[1:-1]), *rows)
        net = linkage.Residual(jax.random.key(seed))
        found.append(_fitted(net, optimizer, size.fitted, angle, rate, lever, load))
    return found


@eqx.filter_jit
def _fitted(net, optimizer, updates: int, angle, rate, lever, load):
    arrays, rest = eqx.partition(net, eqx.is_inexact_array)

    def miss(arrays):
        torque = jax.vmap(jax.vmap(eqx.combine(arrays, rest)))(angle, rate)
        return jnp.mean((torque * lever - load) ** 2) / linkage.SCALE**2

    def update(now, _):
        arrays, state = now
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers
            change, state = optimizer.update(jax.grad(miss)(arrays), state, arrays)
        return (optax.apply_updates(arrays, change), state), None

    (arrays, _), _ = jax.lax.scan(update, (arrays, optimizer.init(arrays)), length=updates)
    return eqx.combine(arrays, rest)


@eqx.filter_jit
def _followed(torque, drives, h: float, steps: int):
    return jax.vmap(lambda drive: linkage.followed(torque, drive, h=h, steps=steps))(drives)


@eqx.filter_jit
def _simulated(torque, drives, h: float, steps: int, integrator, save_every: int):
    def one(drive):
        return linkage.simulated(
            torque, drive, h=h, steps=steps, integrator=integrator, save_every=save_every
        )

    return jax.vmap(one)(drives)[0]


def rms(x) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.asarray(x) ** 2)))


def largest(x) -> float:
    """Absolute value."""
    return float(np.max(np.abs(np.asarray(x))))


def run(quick: bool) -> dict:
    """The trainings, and their errors on motions of the length of the training and twice it."""
    size = QUICK if quick else Size()
    drives = linkage.drives(jax.random.key(0), size.motions)
    others = linkage.drives(jax.random.key(1), size.motions)
    longer = size.h * np.arange(2 * size.steps + 1)
    exact, truth = linkage.measured(drives, size.t), linkage.measured(others, longer)
    random = np.random.default_rng(0)
    data = exact + linkage.NOISE * random.normal(size=(size.seeds, *exact.shape))
    step, many = size.fine, round(longer[-1] / size.fine)
    rows = round(size.h / size.fine)

    def motions(torque):
        return np.asarray(_followed(torque, others, step, many))[:, ::rows]

    def error(torque):
        apart = motions(torque) - truth
        return {
            "same_length_rad": rms(apart[:, : size.steps + 1]),
            "twice_the_length_rad": rms(apart),
        }

    courses = through_the_simulator(drives, data, size)
    learned = [course.policies[-1].torque for course in courses]
    fits = {window: to_differences(drives, data, window, size) for window in WINDOWS}
    expected = motions(learned[0])
    again = _simulated(learned[0], others, step, many, mbd.BDF2(), rows)
    coarse = _simulated(learned[0], others, size.h, size.steps, METHOD, 1)
    angle, rate = np.meshgrid([1.7, 2.1], np.linspace(-3.0, 3.0, 121), indexing="ij")
    law = lambda torque: np.asarray(jax.vmap(jax.vmap(torque))(angle, rate)).tolist()  # noqa: E731
    without = motions(linkage.nothing)
    return {
        "step_s": size.h,
        "seconds": float(size.t[-1]),
        "motions": size.motions,
        "noise_rad": linkage.NOISE,
        "largest_torque_Nm": float(np.max(np.abs(linkage.true_torque(angle, rate)))),
        "model_without": error(linkage.nothing),
        "true_law": error(linkage.true_torque),
        "simulator": {
            "seeds": [error(torque) for torque in learned],
            "processor_s": [course.seconds[-1] for course in courses],
            "compiling_s": courses[0].compiling,
            "runs": courses[0].runs,
            "course": [
                [error(model.torque)["same_length_rad"] for model in course.policies]
                for course in courses
            ],
            "largest_difference_of_the_replay_rad": largest(again - expected),
            "error_of_the_step_of_training_rad": rms(coarse - expected[:, : size.steps + 1]),
        },
        "differences": {str(w): [error(torque) for torque in fits[w]] for w in WINDOWS},
        "law": {
            "rate": rate[0].tolist(),
            "angles": angle[:, 0].tolist(),
            "true": np.asarray(linkage.true_torque(angle, rate)).tolist(),
            "simulator": [law(torque) for torque in learned],
            "differences": {str(w): law(fits[w][0]) for w in WINDOWS},
        },
        "example": {
            "t": longer.tolist(),
            "true": truth[0].tolist(),
            "without": without[0].tolist(),
            "simulator": expected[0].tolist(),
            "differences": {str(w): motions(fits[w][0])[0].tolist() for w in WINDOWS},
        },
    }
