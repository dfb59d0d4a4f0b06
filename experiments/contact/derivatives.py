"""What derivatives across impacts cost, one by one and in a batch, and whether they are finite."""

import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.rotations import so3

from . import scenes


def _from_speeds(system, state, h, steps):
    """The place of the last body along x at the end as a function of all velocities."""

    def end(v):
        start = mbd.State(state.r, state.A, v, state.omega, state.angles)
        return mbd.simulate(system, start, steps=steps, h=h, save_every=steps).r[-1, -1, 0]

    return end, state.v


def _tossed(steps):
    def end(numbers):
        return mbd.simulate(*scenes.toss(numbers), steps=steps, h=1e-2, save_every=steps).r[
            -1, 0, 0
        ]

    return end, {name: jnp.asarray(x) for name, x in scenes.TOSS.items()}


def _scenes(steps):
    rolling = scenes.ball(height=0.0, restitution=0.0, friction=0.3, v=(2.0, 0.0, 0.0))
    stop = scenes.pendulum(mbd.JointLimit("stop", "pin", upper=1.2, restitution=0.5))
    return {
        "tossed ball": _tossed(steps),
        "one contact that slides, then rolls": _from_speeds(*rolling, 1e-2, steps),
        "box that slides on four corners": _from_speeds(*scenes.incline(0.2), 2e-3, steps),
        "five boxes, twenty corners closed": _from_speeds(*scenes.stack(), 2e-3, steps),
        "pendulum against a stop": _from_speeds(*stop, 1e-2, steps),
    }


def cost(quick):
    """Processor times of a reverse sweep with its value and of a plain run, in turns, by scene."""
    steps, repeats = (20, 1) if quick else (150, 15)
    out = {}
    for name, (end, at) in _scenes(steps).items():
        plain, both = jax.jit(end), jax.jit(jax.value_and_grad(end))
        slopes = jax.tree.leaves(jax.block_until_ready(both(at))[1])
        jax.block_until_ready(plain(at))
        spent = np.full((2, repeats), np.inf)
        for k in range(repeats):
            for kind, run in enumerate((plain, both)):
                began = time.process_time()
                jax.block_until_ready(run(at))
                spent[kind, k] = time.process_time() - began
        forward, reverse = np.min(spent, axis=1)
        out[name] = {
            "forward_us_per_step": float(1e6 * forward / steps),
            "gradient_in_forward_runs": float(reverse / forward),
            "finite": bool(all(np.all(np.isfinite(x)) for x in slopes)),
        }
    return out


def _batch(values, function, alone):
    """Gradients of a batch: how many are not finite, how far some are from those of single runs,
    and how long the batch takes beside its plain run.
    """
    count = len(jax.tree.leaves(values)[0])
    plain, both = jax.jit(jax.vmap(function)), jax.jit(jax.vmap(jax.grad(function)))
    spent = []
    for run in (plain, both):
        found = jax.block_until_ready(run(values))
        began = time.process_time()
        jax.block_until_ready(run(values))
        spent.append(time.process_time() - began)
    found = np.column_stack([np.reshape(x, (count, -1)) for x in jax.tree.leaves(found)])
    single, away = jax.jit(jax.grad(function)), []
    for k in range(alone):
        one = single(jax.tree.map(lambda x, k=k: x[k], values))
        one = np.concatenate([np.ravel(x) for x in jax.tree.leaves(one)])
        away.append(np.max(np.abs(found[k] - one)) / np.max(np.abs(one)))
    return {
        "scenes": count,
        "not_finite": int(np.sum(~np.all(np.isfinite(found), axis=1))),
        "differ_from_single_runs": float(max(away)),
        "gradient_in_forward_runs": float(spent[1] / spent[0]),
    }


def batches(quick):
    """256 tossed balls and 256 thrown boxes in `vmap`, each with numbers of its own."""
    count, steps = (4, 20) if quick else (256, 150)
    rng = np.random.default_rng(0)
    ranges = {"friction": (0.02, 0.5), "restitution": (0.0, 0.9), "v_x": (0.5, 2.5)}
    numbers = {name: np.full(count, x) for name, x in scenes.TOSS.items()}
    numbers |= {name: rng.uniform(*limits, count) for name, limits in ranges.items()}
    out = {"tossed balls": _batch(jax.tree.map(jnp.asarray, numbers), _tossed(steps)[0], 4)}
    system, state = scenes.thrown_box(0.3)
    turns, v, omega = (jnp.asarray(rng.normal(size=(count, 3)) * x) for x in (1.0, 2.0, 5.0))

    def end(start):
        turn, v, omega = start
        began = mbd.State(state.r, so3.exp(turn)[None], v[None], omega[None], state.angles)
        sol = mbd.simulate(system, began, steps=2 * steps, h=5e-3, save_every=2 * steps)
        return sol.r[-1, 0, 0] + sol.r[-1, 0, 1]

    return out | {"thrown boxes, eight corners": _batch((turns, v, omega), end, 4)}
