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
from tqdm import tqdm

import jaxmbd as mbd

from ..minimal_coordinates import integrate
from ..options import parts
from . import figures, minimal, problems
from .bounce import bounce
from .plans import fastest, four_bar, peer, predictive, swing_up
from .replays import FINER, METHOD, REPLAY, from_upright, largest, pole_angle, replayed

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


PARTS = {
    "swing_up": swing_up,
    "four_bar": four_bar,
    "fastest": fastest,
    "predictive": predictive,
    "bounce": bounce,
    "peer": peer,
    "policy": policy,
    "lqr": lqr,
}
# Numbers that stand at the top of the results as well.
FIELDS = {
    "swing_up": {
        "swing_up_cost": "cost",
        "swing_up_rail_max": "largest_position_m",
        "swing_up_force_max": "largest_force_N",
        "swing_up_seconds": "seconds",
    },
    "four_bar": {"four_bar_kkt": "residual", "four_bar_seconds": "seconds"},
    "predictive": {"mpc_milliseconds": "milliseconds"},
}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """Short motions and few iterations where `quick`, and programs that compile fast."""
    jax.config.update("jax_disable_most_optimizations", quick)
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    for part in tqdm(chosen or PARTS, desc="control"):
        results[part] = PARTS[part](quick, out)
        results |= {name: results[part][key] for name, key in FIELDS.get(part, {}).items()}
        target.write_text(json.dumps(results, indent=1) + "\n")
        jax.clear_caches()
    print(json.dumps(results, indent=1))
