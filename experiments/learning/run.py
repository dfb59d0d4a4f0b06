"""Learning on closed loops: a policy through exact gradients, by an evolution strategy and in a
soft-constraint simulator, and a network for what a model of a linkage lacks.

python -m experiments learning [--out DIR] [--quick] [--part ...]
"""

import functools
import json
import time
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmbd as mbd

from ..control import problems
from ..options import parts
from . import falling, figures, methods, problem, residual, soft

WEIGHTS = (1e-5, 1e-4, 1e-3, 1e-2)  # of the squared force, for the regulator
RATES = (1e-2, 2e-2, 4e-2, 8e-2)  # of Adam
RATE = 4e-2  # in the tuning four rates from 1e-2 to 8e-2 end alike
DEVIATIONS, EVOLUTION_RATES = (0.1, 0.3, 0.6), (0.03, 0.1, 0.3)


class Size(NamedTuple):
    """Of a run of this experiment.

    Attributes:
        h: Step of a training [s].
        steps: Of a run in a training.
        batch: Runs in an update.
        updates: Of a training by gradients.
        longer: How many times as many runs the evolution strategy has.
        most: The same in minimal coordinates.
        seeds: Trainings of each kind.
        marks: Policies kept on the way of a training.
        starts: Of the test.
        seconds: Of a run of the test.
        fine: Step of the test [s].
        replayed: Starts of the replay by another integrator, 0 for no replay.
    """

    h: float = 1.0 / 60.0
    steps: int = 120
    batch: int = 8
    updates: int = 200
    longer: int = 4
    most: int = 16
    seeds: int = 5
    marks: int = 10
    starts: int = 64
    seconds: float = 4.0
    fine: float = 1e-3
    replayed: int = 4

    @property
    def runs(self) -> int:
        """Of a training by gradients."""
        return self.batch * self.updates

    @property
    def every(self) -> int:
        """Updates between two policies that are kept."""
        return max(1, self.updates // self.marks)


QUICK = Size(
    steps=4, batch=2, updates=2, longer=2, most=2, seeds=1, starts=4, seconds=0.05, replayed=0
)
QUICK_PARTS = ("regulator", "by_hand")  # without the simulator's gradient, which compiles longest


# The test: minimal coordinates, starts that no training has seen


def held_out(size: Size) -> problem.Start:
    """The starts of the test, the widest of the training."""
    keys = jax.random.split(jax.random.key(12345), size.starts)
    return jax.vmap(lambda key: problem.draw(key, 1.0))(keys)


@eqx.filter_jit
def _tested(policy, starts, h: float, steps: int):
    def one(start):
        q, v = problem.followed(policy, start, h=h, steps=steps)
        return problem.cost(q, v, jax.vmap(policy)(q, v), 1.0), q

    return jax.vmap(one)(starts)


def score(policy, size: Size) -> float:
    """Mean cost over the starts of the test, each at most 1, what a fall costs; at 5 ms."""
    h = 5.0 * size.fine
    costs, _ = _tested(policy, held_out(size), h, round(size.seconds / h))
    return float(jnp.mean(jnp.minimum(jnp.nan_to_num(costs, nan=1.0), 1.0)))


@eqx.filter_jit
def _replayed(policy, starts, h: float, steps: int, save_every: int):
    def one(start):
        sol = mbd.simulate(
            *problem.built(policy, start),
            h=h,
            steps=steps,
            save_every=save_every,
            integrator=mbd.BDF2(),
            throw=False,
        )
        return problem.coordinates(sol)[0], sol.result == mbd.RESULTS.successful

    return jax.vmap(one)(starts)


def judged(policy, size: Size) -> dict:
    """A policy in minimal coordinates at the fine step, and by BDF2 of this package."""
    starts, steps = held_out(size), round(size.seconds / size.fine)
    costs, q = (np.asarray(x) for x in _tested(policy, starts, size.fine, steps))
    last = max(1, round(0.5 / size.fine))
    stands = np.max(np.abs(q[:, -last:, 1]), axis=1) < np.radians(5.0)
    found = {
        "mean_cost": float(np.mean(np.minimum(np.nan_to_num(costs, nan=1.0), 1.0))),
        "median_cost": float(np.nanmedian(costs)),
        "share_that_stands": float(np.mean(stands)),
        "largest_position_m": float(np.max(np.abs(q[stands, :, 0]), initial=0.0)),
    }
    if not size.replayed:
        return found
    some = jax.tree.map(lambda x: x[: size.replayed], starts)
    again, good = (np.asarray(x) for x in _replayed(policy, some, size.fine, steps, 10))
    apart = np.abs(again - q[: size.replayed, ::10])[stands[: size.replayed] & good]
    found["replay"] = {
        "step_s": size.fine,
        "runs": size.replayed,
        "failed": int(np.sum(~good)),
        "largest_difference_of_tilt_deg": float(np.degrees(apart[..., 1].max(initial=0.0))),
        "largest_difference_of_position_m": float(apart[..., 0].max(initial=0.0)),
    }
    return found


# The trainings


def courses(train, size: Size, keep) -> list[dict]:
    """Of all seeds: scores on the way and the judgement of the last policy. `keep` gets what is
    done after each, so that an interrupted run leaves whole seeds.
    """
    found = []
    for seed in tqdm(range(size.seeds), desc="seeds", leave=False):
        course = train(problem.Policy(jax.random.key(seed)), seed)
        last = problem.from_net(course.policies[-1])
        found.append(
            {
                "runs": course.runs,
                "simulated_s": [n * size.h * size.steps for n in course.runs],
                "processor_s": course.seconds,
                "compiling_s": course.compiling,
                "score": [score(problem.from_net(p), size) for p in course.policies],
                "end": judged(last, size),
                "policy": course.policies[-1],
            }
        )
        keep(summary(found))
    return found


def summary(found: list[dict]) -> dict:
    """Courses without their policies."""
    return {"seeds": [{k: x for k, x in run.items() if k != "policy"} for run in found]}


def tuning(size: Size, keep) -> dict:
    """Rates and deviations by trainings in minimal coordinates, where a run costs least; the seed
    is not used again.
    """
    cost = functools.partial(problem.reference_cost, h=size.h, steps=size.steps)
    seed, first = 100, problem.Policy(jax.random.key(100))

    def loss(policy, start):
        return cost(policy, start), mbd.RESULTS.successful

    def scores(course):
        return [score(problem.from_net(p), size) for p in course.policies]

    found, few = [], slice(1 if size is QUICK else None)
    for rate in RATES[few]:
        course = methods.by_gradients(
            loss,
            problem.draw,
            first,
            methods.adam(rate, size.updates),
            updates=size.updates,
            batch=size.batch,
            seed=seed,
            every=size.every,
        )
        found.append({"method": "gradients", "rate": rate, "score": scores(course)})
        found[-1]["processor_s"] = course.seconds[-1]
    for deviation, rate in [(d, r) for d in DEVIATIONS for r in EVOLUTION_RATES][few]:
        settings = methods.Evolution(deviation=deviation, rate=rate)
        updates = max(1, size.longer * size.runs // settings.runs)
        program = methods.evolution_program(cost, problem.draw, settings, updates)
        every = max(1, updates // size.marks)
        course = methods.by_evolution(
            program, first, settings, updates=updates, seed=seed, every=every
        )
        found.append({"method": "evolution", "rate": rate, "deviation": deviation})
        found[-1] |= {"score": scores(course), "processor_s": course.seconds[-1]}
    return {"settings": found}


def regulator(size: Size, keep) -> dict:
    """Linear feedback, by the weight of the force in its quadratic cost. The cost of the task is
    the first row of this table: its other weights are those of the task to second order.
    """
    system, state = problems.parallelogram().build()
    lin = mbd.linearize(system, state, coordinates=["cart.r.x", "left.theta.y"])
    found = []
    for weight in WEIGHTS:
        gain = lin.lqr(np.diag([0.1, 0.5, 0.01, 0.005]), weight)[0]
        policy = problem.from_gain(gain)
        found.append({"weight": weight, "gain": gain.tolist(), "score": score(policy, size)})
    best = min(found, key=lambda x: x["score"])
    end = judged(problem.from_gain(best["gain"]), size)
    return {"weights": found, "best_weight": best["weight"], "end": end}


def by_gradients(loss, size: Size):
    """The training of one policy by gradients of a loss, a function of policy and seed."""
    optimizer = methods.adam(RATE, size.updates)

    def train(policy, seed):
        return methods.by_gradients(
            loss,
            problem.draw,
            policy,
            optimizer,
            updates=size.updates,
            batch=size.batch,
            seed=seed,
            every=size.every,
        )

    return train


def by_evolution(cost, size: Size, longest: int):
    """The training of one policy by the evolution strategy, for as many runs as `longest` updates
    by gradients take, and its settings.
    """
    settings = methods.Evolution(pairs=2, starts=1) if size is QUICK else methods.Evolution()
    updates = max(1, longest * size.runs // settings.runs)
    program = methods.evolution_program(cost, problem.draw, settings, updates)

    def train(policy, seed):
        every = max(1, updates // (2 * size.marks))
        return methods.by_evolution(
            program, policy, settings, updates=updates, seed=seed, every=every
        )

    return train, settings


def by_hand(size: Size, keep) -> dict:
    """Gradients and evolution in minimal coordinates, whose equations are written by hand: what
    the two methods reach where a run costs next to nothing.
    """
    cost = functools.partial(problem.reference_cost, h=size.h, steps=size.steps)

    def loss(policy, start):
        return cost(policy, start), mbd.RESULTS.successful

    found = {"gradients": summary(courses(by_gradients(loss, size), size, lambda found: None))}
    keep(found)
    train, _ = by_evolution(cost, size, size.most)
    return found | {"evolution": summary(courses(train, size, lambda found: None))}


def exact(size: Size, keep) -> dict:
    """`mbd.train` with this package's gradients."""
    loss = functools.partial(problem.exact_loss, h=size.h, steps=size.steps)

    return summary(courses(by_gradients(loss, size), size, keep))


def formulations(size: Size, keep) -> dict:
    """One training, the same seed, by rA, rp and r-ε in turn."""
    found = {}
    for formulation in (mbd.RA(), mbd.RP(), mbd.REps()):
        cost = functools.partial(problem.exact_loss, formulation=formulation)
        loss = functools.partial(cost, h=size.h, steps=size.steps)
        one = courses(by_gradients(loss, size), size._replace(seeds=1), lambda _: None)
        found[formulation.name] = summary(one)["seeds"][0]
        keep(found)
    return found


def evolution(size: Size, keep) -> dict:
    """The evolution strategy with this package's motions, for several times as many runs."""

    def cost(policy, start):
        return problem.exact_loss(policy, start, h=size.h, steps=size.steps)[0]

    train, settings = by_evolution(cost, size, size.longer)
    return {"settings": settings._asdict()} | summary(courses(train, size, keep))


def soft_loop(size: Size, keep) -> dict:
    """`mbd.train` with MJX's gradients, at the same step."""
    if not soft.installed():
        return {"missing": "mujoco and mujoco-mjx are not installed: pip install 'jaxmbd[bench]'"}
    model, steps = soft.model(size.h), size.steps

    def loss(policy, start):
        return soft.loss(model, policy, start, steps=steps), mbd.RESULTS.successful

    found, starts = courses(by_gradients(loss, size), size, keep), held_out(size)
    some = jax.tree.map(lambda x: x[: size.replayed], starts)

    @eqx.filter_jit
    def opening(policy):
        return jax.vmap(lambda start: soft.gap(model, policy, start, steps=steps))(some)

    return {
        "step_s": size.h,
        "relative_difference_of_accelerations": soft.check(model),
        "largest_opening_of_the_loop_m": float(
            max(jnp.max(opening(run["policy"])) for run in found)
        ),
    } | summary(found)


PARTS = {
    "falling": lambda size, keep: falling.run(size is QUICK),
    "tuning": tuning,
    "regulator": regulator,
    "by_hand": by_hand,
    "exact": exact,
    "formulations": formulations,
    "evolution": evolution,
    "soft": soft_loop,
    "residual": lambda size, keep: residual.run(size is QUICK),
}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """Short motions, few updates, two parts and no replay where `quick`."""
    jax.config.update("jax_disable_most_optimizations", quick)
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() else {}

    def keep(part, found):
        results[part] = found
        target.write_text(json.dumps(results, indent=1) + "\n")

    for part in tqdm(chosen or (QUICK_PARTS if quick else PARTS), desc="learning"):
        begin = time.process_time()
        size = QUICK if quick else Size()
        found = PARTS[part](size, functools.partial(keep, part))
        keep(part, found | {"total_processor_s": time.process_time() - begin})
    figures.policies(results, out)
    figures.linkage(results, out)
    print(json.dumps(results, indent=1))
