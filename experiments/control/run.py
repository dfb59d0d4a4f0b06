"""Control by gradients through the simulator, and by linearization; every optimum replayed with a
finer step of another integrator and by equations in minimal coordinates.

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
from scipy.optimize import least_squares, minimize
from tqdm import tqdm

import jaxmbd as mbd

from ..minimal_coordinates import integrate
from ..options import parts
from . import figures, minimal, problems

METHOD = mbd.GeneralizedAlpha(rho_inf=0.8)
REPLAY = mbd.BDF2()
FINER = 10  # steps of the replay in a step of the training


def replayed(built, h, steps):
    """The motion of a system and state by another integrator at a tenth of the step, same rows."""
    return mbd.simulate(
        *built, h=h / FINER, steps=steps * FINER, save_every=FINER, integrator=REPLAY, throw=False
    )


def pole_angle(sol, near=0.0):
    """Angle of the pole of the cart-pole over time, 0 where it hangs, over any number of turns;
    that of the start is the one nearest to `near`.
    """
    A = np.asarray(sol.A)
    s, c = -A[..., 1, 0, 2], A[..., 1, 2, 2]
    sin, cos = s * np.cos(near) - c * np.sin(near), c * np.cos(near) + s * np.sin(near)
    return near + np.unwrap(np.arctan2(sin, cos), axis=-1)


def from_upright(angle):
    """How far an angle of the cart-pole's pole is from standing [degrees], of any turn."""
    return np.degrees(np.abs((np.asarray(angle) % (2.0 * np.pi)) - np.pi))


def largest(x):
    return float(np.max(np.abs(np.asarray(x))))


# Swing-up


def descend(cost, x0, limit, what):
    """L-BFGS with exact gradients; the best point and the cost of every iteration."""
    both = jax.jit(jax.value_and_grad(cost))
    history = [float(both(x0)[0])]
    with tqdm(total=limit, desc=what, leave=False) as bar:

        def after(intermediate_result):
            history.append(float(intermediate_result.fun))
            bar.update(1)
            bar.set_postfix(cost=f"{history[-1]:.3g}")

        def function(x):
            value, gradient = both(jnp.asarray(x))
            return float(value), np.asarray(gradient)

        options = {"maxiter": limit, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-9}
        found = minimize(
            function, np.asarray(x0), jac=True, method="L-BFGS-B", callback=after, options=options
        )
    return jnp.asarray(found.x), history


def swing_cost(values, sol):
    """The pole stands at rest in the middle at the end; the rail ends at 1 m."""
    tilt = sol.A[-1, 1, :, 2]  # the pole's axis; (0, 0, -1) when it stands
    end = 20.0 * ((1.0 + tilt[2]) + tilt[0] ** 2) + 2.0 * sol.r[-1, 0, 0] ** 2
    end = end + 1.0 * sol.v[-1, 0, 0] ** 2 + 0.2 * sol.omega[-1, 1, 1] ** 2
    track = jnp.mean(jnp.maximum(jnp.abs(sol.r[:, 0, 0]) - 1.0, 0.0) ** 2)
    return end + 10.0 * track + 1e-4 * jnp.mean(values**2)


def oscillating_forces(t, count):
    """Samples (count, knots) of forces with random amplitude, rate and phase."""
    key = jax.random.split(jax.random.key(1), 3)
    amplitude = jax.random.uniform(key[0], (count, 1), minval=3.0, maxval=20.0)
    rate = jax.random.uniform(key[1], (count, 1), minval=2.0, maxval=7.0)
    phase = jax.random.uniform(key[2], (count, 1), maxval=2.0 * np.pi)
    return amplitude * jnp.sin(rate * t + phase)


def swing_up(quick, out):
    """A force on the cart that takes the pole from hanging to standing, at rest, in the middle."""
    duration, knots, guesses = (0.4, 9, 4) if quick else (3.0, 61, 1024)
    stages = ((0.01, 5),) if quick else ((5e-3, 150), (1e-3, 40))  # step, iterations
    h = stages[-1][0]
    steps = round(duration / h)

    def built(values):
        return problems.cart_pole(problems.Samples(values, duration)).build()

    def motion(values, h=h, integrator=METHOD):
        return mbd.simulate(
            *built(values), h=h, steps=round(duration / h), integrator=integrator, throw=False
        )

    def cost(values, h=stages[0][0]):
        return swing_cost(values, motion(values, h))

    t = np.linspace(0.0, duration, knots)
    begin = time.process_time()
    # Hanging still is stationary: start from the best of a batch of oscillating forces.
    forces = oscillating_forces(t, guesses)
    costs = mbd.run_batch(cost, forces, chunk=128, progress=False)
    best = first = forces[np.nanargmin(costs)]
    histories = []
    for step, limit in stages:
        best, history = descend(
            lambda x, step=step: cost(x, step), best, limit, f"swing up, {1e3 * step:g} ms"
        )
        histories.append(history)
    took = time.process_time() - begin

    before, after, fine = motion(first), motion(best), replayed(built(best), h, steps)
    exact = integrate(
        minimal.CartPole(lambda t, q, v: problems.Samples(best, duration)(t)).accelerations,
        np.zeros(2),
        np.zeros(2),
        np.asarray(after.t),
    )
    sizes = [step for step, _ in stages]
    figures.swing_up(t, first, best, before, after, exact, histories, sizes, out)
    if not quick:
        figures.cart_pole_films(before, after, "swing_up", out)

    def end(sol):
        return {
            "angle_from_upright_deg": float(from_upright(pole_angle(sol)[-1])),
            "position_m": float(sol.r[-1, 0, 0]),
            "speed_m_per_s": float(sol.v[-1, 0, 0]),
            "rate_rad_per_s": -float(sol.omega[-1, 1, 1]),
        }

    def error(sol):
        rows = slice(None, None, steps // (sol.t.size - 1))
        return {
            "angle_deg": np.degrees(largest(pole_angle(sol) - exact[0][rows, 1])),
            "position_m": largest(np.asarray(sol.r)[:, 0, 0] - exact[0][rows, 0]),
        }

    q, v = (x[-1] for x in exact)
    others = {"generalized_alpha": METHOD, "bdf2": REPLAY, "implicit_euler": mbd.ImplicitEuler()}
    study = [
        {"integrator": name, "step_s": k * h} | error(motion(best, k * h, method))
        for name, method in others.items()
        for k in ((1, 2) if quick else (1, 2, 5, 10, 20))
    ]
    return {
        "duration_s": duration,
        "knots": knots,
        "guesses": guesses,
        "stages": [
            {"step_s": step, "iterations": len(history) - 1, "cost": [history[0], history[-1]]}
            for (step, _), history in zip(stages, histories, strict=True)
        ],
        "step_s": h,
        "end": {
            "training": end(after),
            "replay": end(fine),
            "minimal_coordinates": {
                "angle_from_upright_deg": float(from_upright(q[1])),
                "position_m": float(q[0]),
                "speed_m_per_s": float(v[0]),
                "rate_rad_per_s": float(v[1]),
            },
        },
        "largest_error_of_the_motion": {"training": error(after), "replay": error(fine)},
        "error_by_step": study,
        "largest_force_N": largest(best),
        "largest_position_m": largest(exact[0][:, 0]),
        "seconds": took,
    }


# Four-bar


def fit_path(residuals, first, windows, evaluations):
    """Gauss-Newton with exact Jacobians over growing windows; the best point and all costs."""
    value, jacobian = jax.jit(residuals), jax.jit(jax.jacfwd(residuals))
    best, history = first, []
    for until in tqdm(windows, desc="four-bar", leave=False):
        until = jnp.asarray(until)

        def function(x, until=until):
            found = np.asarray(value(jnp.asarray(x), until))
            history.append(float(found @ found))
            return found

        found = least_squares(
            function,
            np.asarray(best),
            jac=lambda x, until=until: np.asarray(jacobian(jnp.asarray(x), until)),
            max_nfev=evaluations,
            xtol=1e-10,
            ftol=1e-10,
        )
        best = found.x
    return jnp.asarray(best), history


def hat_functions(t, knots):
    """Values (T, knots) at t of the functions that interpolate between knots."""
    return np.stack([np.interp(t, knots, e) for e in np.eye(knots.size)], axis=1)


def four_bar(quick, out):
    """The motor torque that takes the coupler along its path with a given timing, against inverse
    dynamics.
    """
    duration, h, knots = (0.6, 0.02, 7) if quick else (3.0, 5e-3, 61)
    steps = round(duration / h)
    t, times = np.linspace(0.0, duration, knots), np.arange(steps + 1) * h

    def angle(t):  # one turn from rest to rest
        s = t / duration
        return 2.0 * jnp.pi * (10.0 * s**3 - 15.0 * s**4 + 6.0 * s**5) * (0.2 if quick else 1.0)

    driven = problems.four_bar(angle).with_values({"gravity": (0.0, 0.0, 0.0)})
    driven.add(mbd.ViscousFriction("bearing", "pin_crank", rotational=20.0))
    needed = mbd.inverse_dynamics(*driven.build(), times)
    target, wanted = needed.solution, np.asarray(needed.efforts["motor"])

    def built(control):
        return problems.four_bar_motor(control).build()

    def motion(control):
        return mbd.simulate(*built(control), h=h, steps=steps, integrator=METHOD, throw=False)

    def samples(values):
        return problems.Samples(1e3 * values, duration)

    def residuals(values, until):
        sol = motion(samples(values))
        miss = (sol.r[:, 1] - target.r[:, 1])[:, jnp.array([0, 2])]
        miss = jnp.where(sol.t[:, None] <= until + 1e-9, miss, 0.0) / jnp.sqrt(1.0 * steps)
        return jnp.concatenate([1e3 * miss.ravel(), 1e-2 * jnp.diff(values, 2)])

    first = jnp.zeros(knots)
    begin = time.process_time()
    # The path grows: a late part that is far off would pull the early part away from a solution.
    windows = (duration,) if quick else np.linspace(0.5, duration, 11)
    best, history = fit_path(residuals, first, windows, 8 if quick else 20)
    took = time.process_time() - begin

    before, after = motion(samples(first)), motion(samples(best))
    fine = replayed(built(samples(best)), h, steps)
    by_inverse = motion(needed.motion("motor"))

    def exact_path(control):
        """The coupler's path by minimal coordinates."""
        equations = minimal.FourBar(control)
        q, _ = integrate(equations.accelerations, np.pi / 3.0, 0.0, times)
        return jax.vmap(equations.poses)(jnp.asarray(q))[0][:, 1]

    exact = exact_path(samples(best))
    figures.four_bar(t, 1e3 * best, target, wanted, after, exact, out)
    if not quick:
        figures.four_bar_films(before, after, out)

    def miss(r):
        return float(np.max(np.linalg.norm(np.asarray(r - target.r[:, 1]), axis=1)))

    hats = hat_functions(times, t)
    closest = hats @ np.linalg.lstsq(hats, wanted, rcond=None)[0]
    relative = lambda x: float(np.linalg.norm(x - wanted) / np.linalg.norm(wanted))  # noqa: E731
    return {
        "duration_s": duration,
        "knots": knots,
        "windows": len(windows),
        "step_s": h,
        "largest_miss_m": {
            "no_torque": miss(before.r[:, 1]),
            "training": miss(after.r[:, 1]),
            "replay": miss(fine.r[:, 1]),
            "minimal_coordinates": miss(exact),
        },
        "largest_miss_of_the_torque_of_inverse_dynamics_m": {
            "training": miss(by_inverse.r[:, 1]),
            "minimal_coordinates": miss(exact_path(needed.motion("motor"))),
        },
        "largest_error_of_the_motion_m": {
            "training": float(largest(after.r[:, 1] - exact)),
            "replay": float(largest(fine.r[:, 1] - exact)),
        },
        "torque_rms_difference_to_inverse_dynamics": relative(hats @ (1e3 * np.asarray(best))),
        "the_same_for_the_closest_samples": relative(closest),
        "largest_torque_Nm": largest(1e3 * best),
        "cost": [float(jnp.sum(residuals(first, duration) ** 2)), history[-1]],
        "evaluations": len(history),
        "seconds": took,
    }


# Policy


def start_of(net, start):
    """System and state of a start (position, tilt from upright)."""
    return problems.start(problems.cart_pole(policy=net), start[0], jnp.pi + start[1])


def draw(key, n):
    """Starts (n, 2): positions up to 0.5 m, tilts up to 0.6 rad."""
    return jax.random.uniform(key, (n, 2), minval=-1.0, maxval=1.0) * jnp.array([0.5, 0.6])


def train(net, h, steps, batch, updates):
    """The trained network, and the mean cost of the batch at every update."""

    def cost(net, start, until):
        built = start_of(net, start)
        sol = mbd.simulate(*built, h=h, steps=steps, integrator=METHOD, throw=False)
        run = (
            4.0 * (1.0 + sol.A[:, 1, 2, 2])
            + 0.5 * sol.r[:, 0, 0] ** 2
            + 0.05 * sol.v[:, 0, 0] ** 2
            + 0.02 * sol.omega[:, 1, 1] ** 2
        )
        counts = sol.t <= until
        return jnp.sum(jnp.where(counts, run, 0.0)) / jnp.sum(counts.astype(run.dtype))

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

    opt_state, history = optimizer.init(eqx.filter(net, eqx.is_inexact_array)), []
    for k in (bar := tqdm(range(updates), desc="policy", leave=False)):
        share = jnp.asarray(min(1.0, 1.5 * k / updates))
        net, opt_state, value = update(net, opt_state, jax.random.key(k), share)
        history.append(float(value))
        bar.set_postfix(cost=f"{history[-1]:.3g}")
    return net, history


def tested(net, starts, h, steps, integrator, save_every=1):
    """Motions from many starts, as one solution with a leading axis."""

    def motion(start):
        return mbd.simulate(
            *start_of(net, start),
            h=h,
            steps=steps,
            save_every=save_every,
            integrator=integrator,
            throw=False,
        )

    return mbd.run_batch(motion, starts, chunk=128, progress=False)


def exact_angles(net, starts, t):
    """Coordinates (starts, T, 2) of the cart-pole under a policy by minimal coordinates."""

    def force(t, q, v):
        A = jnp.stack([jnp.eye(3), jnp.eye(3).at[:, 2].set(_pole_axis(q[1]))])
        r = jnp.zeros((2, 3)).at[0, 0].set(q[0])
        twist = mbd.Twist(
            jnp.zeros((2, 3)).at[0, 0].set(v[0]), jnp.zeros((2, 3)).at[1, 1].set(-v[1])
        )
        return net.force(mbd.Pose(r, A), twist)

    equations = minimal.CartPole(force).accelerations
    # One equation for all starts, so that it compiles once; steps suit the hardest one.
    n = len(starts)

    def together(t, q, v):
        both = jax.vmap(lambda q, v: equations(t, q, v))(q.reshape(n, 2), v.reshape(n, 2))
        return both.ravel()

    q0 = np.asarray(starts) + [0.0, np.pi]
    q, _ = integrate(together, q0.ravel(), np.zeros(2 * n), t)
    return q.reshape(len(t), n, 2).transpose(1, 0, 2)


def _pole_axis(phi):
    return jnp.stack([-jnp.sin(phi), 0.0, jnp.cos(phi)])


def policy(quick, out):
    """A neural feedback that keeps the pole up, trained through the simulator from a batch of
    starts.
    """
    h, steps, batch, updates = (0.02, 10, 4, 2) if quick else (0.01, 250, 32, 400)
    untrained = problems.Policy(jax.random.key(0))
    begin = time.process_time()
    net, history = train(untrained, h, steps, batch, updates)
    took = time.process_time() - begin

    # Twice the length of training, starts that training has not seen.
    starts, longer = draw(jax.random.key(12345), 8 if quick else 128), 2 * steps
    before, after = (tested(p, starts, h, longer, METHOD) for p in (untrained, net))
    finer = 2 if quick else FINER
    fine = tested(net, starts, h / finer, longer * finer, REPLAY, finer)
    exact = exact_angles(net, starts, after.t[0])
    last = max(1, round(0.5 / h))

    def stands(angle):
        """The share within 5 degrees of upright all through the last half second."""
        return float(np.mean(np.max(from_upright(angle[:, -last:]), axis=1) < 5.0))

    figures.policy(pole_angle(before, np.pi), exact[..., 1], after.t[0], history, out)
    if not quick:
        first = [jax.tree.map(lambda x: x[0], sol) for sol in (before, after)]
        figures.cart_pole_films(*first, "policy", out)

    def error(sol):
        return {
            "angle_deg": np.degrees(largest(pole_angle(sol, np.pi) - exact[..., 1])),
            "position_m": largest(sol.r[:, :, 0, 0] - exact[..., 0]),
        }

    return {
        "step_s": h,
        "duration_s": steps * h,
        "starts": len(starts),
        "seconds_followed": longer * h,
        "share_that_stands": {
            "untrained": stands(pole_angle(before, np.pi)),
            "training": stands(pole_angle(after, np.pi)),
            "replay": stands(pole_angle(fine, np.pi)),
            "minimal_coordinates": stands(exact[..., 1]),
        },
        "largest_final_angle_deg": {
            "training": largest(from_upright(pole_angle(after, np.pi)[:, -1])),
            "replay": largest(from_upright(pole_angle(fine, np.pi)[:, -1])),
            "minimal_coordinates": largest(from_upright(exact[:, -1, 1])),
        },
        "largest_error_of_the_motion": {"training": error(after), "replay": error(fine)},
        "weights": sum(x.size for x in jax.tree.leaves(eqx.filter(net, eqx.is_inexact_array))),
        "cost": [history[0], history[-1]],
        "updates": updates,
        "batch": batch,
        "seconds": took,
    }


# LQR


def lqr(quick, out):
    """A closed loop of hinges on a cart, upright by linear feedback on its linearization."""
    system, state = problems.parallelogram().build()
    lin = mbd.linearize(system, state, coordinates=["cart.r.x", "left.theta.y"])
    K = lin.lqr(np.diag([20.0, 50.0, 5.0, 5.0]), 0.02)
    tilt, h, seconds = 0.25, 5e-3, 0.5 if quick else 6.0
    steps = round(seconds / h)

    built = [problems.parallelogram(f, tilt).build() for f in (None, lin.feedback(K))]
    free, held = (mbd.simulate(*b, h=h, steps=steps, integrator=METHOD, throw=False) for b in built)
    fine = replayed(built[1], h, steps)
    gain = jnp.asarray(K)[0]
    equations = minimal.Parallelogram(lambda t, q, v: -gain @ jnp.concatenate([q, v]))
    q, _ = integrate(equations.accelerations, [0.0, tilt], [0.0, 0.0], np.asarray(held.t))
    figures.lqr(free, held, q, out)
    if not quick:
        figures.parallelogram_films(free, held, out)

    def angle(sol):
        return np.unwrap(np.arctan2(np.asarray(sol.A)[:, 1, 0, 2], np.asarray(sol.A)[:, 1, 2, 2]))

    def error(sol):
        return {
            "tilt_deg": np.degrees(largest(angle(sol) - q[:, 1])),
            "position_m": largest(np.asarray(sol.r)[:, 0, 0] - q[:, 0]),
        }

    by_hand = jax.jacfwd(
        lambda y: jnp.concatenate([y[2:], minimal.Parallelogram().accelerations(0.0, y[:2], y[2:])])
    )(jnp.zeros(4))
    A, B = np.asarray(lin.A), np.asarray(lin.B)
    as_pairs = lambda M: [[z.real, z.imag] for z in np.linalg.eigvals(M).tolist()]  # noqa: E731
    return {
        "step_s": h,
        "coordinates": list(lin.coordinates),
        "redundant_rows": mbd.mobility(system, state).redundant_rows,
        "gain": K[0].tolist(),
        "largest_difference_of_A_to_minimal_coordinates": largest(A - by_hand),
        "open_loop_eigenvalues": as_pairs(A),
        "closed_loop_eigenvalues": as_pairs(A - B @ K),
        "start_tilt_rad": tilt,
        "end": {
            "training": {"position_m": float(held.r[-1, 0, 0]), "tilt_rad": float(angle(held)[-1])},
            "replay": {"position_m": float(fine.r[-1, 0, 0]), "tilt_rad": float(angle(fine)[-1])},
            "minimal_coordinates": {"position_m": float(q[-1, 0]), "tilt_rad": float(q[-1, 1])},
        },
        "largest_error_of_the_motion": {"training": error(held), "replay": error(fine)},
    }


PARTS = {"swing_up": swing_up, "four_bar": four_bar, "policy": policy, "lqr": lqr}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """Short motions and few iterations where `quick`, and programs that compile fast."""
    jax.config.update("jax_disable_most_optimizations", quick)
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    for part in tqdm(chosen or PARTS, desc="control"):
        results[part] = PARTS[part](quick, out)
        target.write_text(json.dumps(results, indent=1) + "\n")
        jax.clear_caches()
    print(json.dumps(results, indent=1))
