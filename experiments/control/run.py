"""Control by gradients through the simulator, and by linearization.

python -m experiments control [--out DIR] [--quick] [--part ...]
"""

import json
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import minimize
from tqdm import tqdm

import jaxmbd as mbd

from ..options import parts
from . import figures, problems

METHOD = mbd.ImplicitEuler()


def descend(cost, x0, limit, what, *args):
    """L-BFGS with exact gradients of cost(x, *args); the best point and the cost of every
    iteration.
    """
    both = cost if hasattr(cost, "lower") else jax.jit(jax.value_and_grad(cost))
    history = [float(both(x0, *args)[0])]
    with tqdm(total=limit, desc=what, leave=False) as bar:

        def after(intermediate_result):
            history.append(float(intermediate_result.fun))
            bar.update(1)
            bar.set_postfix(cost=f"{history[-1]:.3g}")

        def function(x):
            value, gradient = both(jnp.asarray(x), *args)
            return float(value), np.asarray(gradient)

        options = {"maxiter": limit, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-9}
        found = minimize(
            function, np.asarray(x0), jac=True, method="L-BFGS-B", callback=after, options=options
        )
    return jnp.asarray(found.x), history


def swing_up(quick, out):
    """A force on the cart that takes the pole from hanging to standing, at rest, in the middle."""
    duration, h, knots = (0.4, 0.02, 8) if quick else (3.0, 0.02, 60)
    steps = round(duration / h)

    def motion(values):
        system, state = problems.cart_pole(problems.Samples(values, duration)).build()
        return system, mbd.simulate(system, state, h=h, steps=steps, integrator=METHOD, throw=False)

    def cost(values):
        _, sol = motion(values)
        tilt = sol.A[-1, 1, :, 2]  # the pole's axis; (0, 0, -1) when it stands
        end = 20.0 * ((1.0 + tilt[2]) + tilt[0] ** 2) + 2.0 * sol.r[-1, 0, 0] ** 2
        end = end + 1.0 * sol.v[-1, 0, 0] ** 2 + 0.2 * sol.omega[-1, 1, 1] ** 2
        track = jnp.mean(
            jnp.maximum(jnp.abs(sol.r[:, 0, 0]) - 1.0, 0.0) ** 2
        )  # the rail ends at 1 m
        return end + 10.0 * track + 1e-4 * jnp.mean(values**2)

    t = np.linspace(0.0, duration, knots)
    # Hanging still is stationary: start from the best of a batch of oscillating forces.
    key = jax.random.split(jax.random.key(1), 3)
    amplitude = jax.random.uniform(key[0], (4 if quick else 1024, 1), minval=3.0, maxval=20.0)
    rate = jax.random.uniform(key[1], amplitude.shape, minval=2.0, maxval=7.0)
    phase = jax.random.uniform(key[2], amplitude.shape, maxval=2.0 * np.pi)
    guesses = amplitude * jnp.sin(rate * t + phase)
    begin = time.perf_counter()
    costs = jax.jit(jax.vmap(cost))(guesses)
    first = guesses[jnp.nanargmin(costs)]
    best, history = descend(cost, first, 5 if quick else 400, "swing up")
    took = time.perf_counter() - begin
    (system, before), (_, after) = (motion(x) for x in (first, best))
    figures.swing_up(t, first, best, before, after, history, out)
    figures.films(system, before, after, "swing_up", out)
    tilt = np.degrees(np.arccos(np.clip(-np.asarray(after.A[-1, 1, 2, 2]), -1.0, 1.0)))
    return {
        "final_angle_from_upright_deg": float(tilt),
        "final_position_m": float(after.r[-1, 0, 0]),
        "final_speed_m_per_s": float(after.v[-1, 0, 0]),
        "final_rate_rad_per_s": float(after.omega[-1, 1, 1]),
        "largest_force_N": float(jnp.max(jnp.abs(best))),
        "cost": [history[0], history[-1]],
        "iterations": len(history) - 1,
        "seconds": took,
    }


def four_bar(quick, out):
    """The motor torque that takes the coupler along its path with a given timing, against inverse
    dynamics.
    """
    duration, h, knots = (0.6, 0.02, 7) if quick else (3.0, 0.01, 61)
    steps = round(duration / h)

    def angle(t):  # one turn from rest to rest
        s = t / duration
        return 2.0 * jnp.pi * (10.0 * s**3 - 15.0 * s**4 + 6.0 * s**5) * (0.2 if quick else 1.0)

    driven = problems.four_bar(angle).with_values({"gravity": (0.0, 0.0, 0.0)})
    driven.add(mbd.ViscousFriction("bearing", "pin_crank", rotational=20.0))
    driven_system, driven_state = driven.build()
    # The same integrator, so that the torque of the driver is the one to be found.
    target = mbd.simulate(driven_system, driven_state, h=h, steps=steps, integrator=METHOD)
    wanted = target.reactions(driven_system)["motor"].moment[:, 1]

    def motion(values):
        system, state = problems.four_bar_motor(problems.Samples(values, duration)).build()
        return system, mbd.simulate(system, state, h=h, steps=steps, integrator=METHOD, throw=False)

    def cost(values, until):
        _, sol = motion(1e3 * values)
        miss = jnp.sum((sol.r[:, 1] - target.r[:, 1]) ** 2, axis=1)
        return 1e3 * jnp.mean(jnp.where(sol.t <= until, miss, 0.0)) + 1e-6 * jnp.sum(
            jnp.diff(values) ** 2
        )

    t = np.linspace(0.0, duration, knots)
    first = jnp.zeros(knots)
    begin = time.perf_counter()
    # The path grows: a late part that is far off would pull the early part away from a solution.
    both, best, history = jax.jit(jax.value_and_grad(cost)), first, []
    for until in (duration,) if quick else np.linspace(0.5, duration, 11):
        best, part = descend(
            both, best, 5 if quick else 80, f"four-bar until {until:.2f} s", jnp.asarray(until)
        )
        history += part
    took = time.perf_counter() - begin
    (system, before), (_, after) = (motion(1e3 * x) for x in (first, best))
    figures.four_bar(t, 1e3 * best, target, wanted, before, after, history, out)
    if not quick:
        figures.films(system, before, after, "four_bar", out)
    miss = jnp.linalg.norm(after.r[:, 1] - target.r[:, 1], axis=1)
    inner = slice(steps // 10, -(steps // 10))
    there = np.interp(np.asarray(target.t), t, 1e3 * np.asarray(best))
    gap = np.sqrt(np.mean((there - np.asarray(wanted))[inner] ** 2)) / np.sqrt(
        np.mean(np.asarray(wanted)[inner] ** 2)
    )
    return {
        "largest_miss_of_the_path_m": float(jnp.max(miss)),
        "largest_miss_before_m": float(
            jnp.max(jnp.linalg.norm(before.r[:, 1] - target.r[:, 1], axis=1))
        ),
        "torque_rms_difference_to_inverse_dynamics": float(gap),
        "largest_torque_Nm": float(1e3 * jnp.max(jnp.abs(best))),
        "cost": [float(both(first, duration)[0]), history[-1]],
        "iterations": len(history) - 1,
        "seconds": took,
    }


def policy(quick, out):
    """A neural feedback that keeps the pole up, trained through the simulator from a batch of
    starts.
    """
    h, steps, batch, updates = (0.02, 10, 4, 2) if quick else (0.02, 125, 32, 400)
    # The pole is described standing; position and tilt of every start are numbers of the batch.
    m0 = problems.Policy(jax.random.key(0))

    def motion(net, start, n):
        m = problems.cart_pole(policy=net)
        system, state = problems.start(m, start[0], jnp.pi + start[1])
        return system, mbd.simulate(system, state, h=h, steps=n, integrator=METHOD, throw=False)

    def cost(net, start, until):
        _, sol = motion(net, start, steps)
        axis, x = sol.A[:, 1, :, 2], sol.r[:, 0, 0]
        run = (
            4.0 * (1.0 + axis[:, 2])
            + 0.5 * x**2
            + 0.05 * sol.v[:, 0, 0] ** 2
            + 0.02 * sol.omega[:, 1, 1] ** 2
        )
        counts = sol.t <= until
        return jnp.sum(jnp.where(counts, run, 0.0)) / jnp.sum(counts.astype(run.dtype))

    def draw(key, n):
        return jax.random.uniform(key, (n, 2), minval=-1.0, maxval=1.0) * jnp.array([0.5, 0.6])

    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(1e-2, updates))
    )

    @eqx.filter_jit
    def update(net, opt_state, key, share):
        # Small tilts and a short future first: what follows a fall teaches nothing.
        starts = (0.15 + 0.85 * share) * draw(key, batch)
        until = (0.25 + 0.75 * share) * steps * h
        mean = lambda net: jnp.mean(jax.vmap(lambda s: cost(net, s, until))(starts))  # noqa: E731
        value, gradient = eqx.filter_value_and_grad(mean)(net)
        change, opt_state = optimizer.update(gradient, opt_state)
        return eqx.apply_updates(net, change), opt_state, value

    net, opt_state = m0, optimizer.init(eqx.filter(m0, eqx.is_inexact_array))
    history, begin = [], time.perf_counter()
    for k in (bar := tqdm(range(updates), desc="policy", leave=False)):
        share = jnp.asarray(min(1.0, 1.5 * k / updates))
        net, opt_state, value = update(net, opt_state, jax.random.key(k), share)
        history.append(float(value))
        bar.set_postfix(cost=f"{history[-1]:.3g}")
    took = time.perf_counter() - begin
    # Twice the length of training, starts that training has not seen.
    longer, tests = 2 * steps, draw(jax.random.key(12345), 8 if quick else 128)
    many = eqx.filter_jit(jax.vmap(lambda net, s: motion(net, s, longer)[1], in_axes=(None, 0)))
    before, after = many(m0, tests), many(net, tests)
    stands = lambda sol: float(jnp.mean(jnp.max(1.0 + sol.A[:, -25:, 1, 2, 2], axis=1) < 1e-2))  # noqa: E731
    system, _ = motion(net, tests[0], 1)
    one = [jax.tree.map(lambda x: x[0], sol) for sol in (before, after)]
    figures.policy(before, after, history, out)
    if not quick:
        figures.films(system, *one, "policy", out)
    return {
        "share_that_stands_before": stands(before),
        "share_that_stands_after": stands(after),
        "cost": [history[0], history[-1]],
        "updates": updates,
        "seconds": took,
    }


def lqr(quick, out):
    """A closed loop of hinges on a cart, upright by linear feedback on its linearization."""
    m = problems.parallelogram()
    system, state = m.build()
    lin = mbd.linearize(system, state)
    K = lin.lqr(np.diag([20.0, 50.0, 5.0, 5.0]), 0.02)
    closed = np.linalg.eigvals(np.asarray(lin.A) - np.asarray(lin.B) @ K)
    tilt, seconds = 0.25, 0.5 if quick else 6.0
    motions = []
    for feedback in (None, lin.feedback(K)):
        system, state = problems.parallelogram(feedback, tilt).build()
        motions.append(
            mbd.simulate(system, state, h=0.01, t_end=seconds, integrator=METHOD, throw=False)
        )
    figures.lqr(*motions, out)
    if not quick:
        figures.films(system, *motions, "lqr", out)
    return {
        "coordinates": list(lin.coordinates),
        "redundant_rows": mbd.mobility(*problems.parallelogram().build()).redundant_rows,
        "open_loop_eigenvalues": [
            [float(z.real), float(z.imag)] for z in np.linalg.eigvals(np.asarray(lin.A))
        ],
        "closed_loop_eigenvalues": [[float(z.real), float(z.imag)] for z in closed],
        "final_position_m": float(motions[1].r[-1, 0, 0]),
        "final_tilt_rad": float(np.arcsin(np.clip(motions[1].A[-1, 1, 0, 2], -1, 1))),
    }


PARTS = {"swing_up": swing_up, "four_bar": four_bar, "policy": policy, "lqr": lqr}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """Short motions and few iterations where `quick`."""
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    for part in tqdm(chosen or PARTS, desc="control"):
        results[part] = PARTS[part](quick, out)
        target.write_text(json.dumps(results, indent=1) + "\n")
        jax.clear_caches()
    print(json.dumps(results, indent=1))
