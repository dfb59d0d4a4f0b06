"""A throw that is optimized through its bounces, and laws that are identified from a noisy one."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares, minimize

import jaxmbd as mbd

from . import scenes

STEPS, H = 150, 1e-2
TARGET = (4.08, 0.07)  # where the ball shall be after 1.5 s and several bounces [m]
START = (0.5, 1.0)


def throw(quick):
    """Speeds (v_x, v_z) with which a ball meets a target, by derivatives and without.

    The same number of simulated runs is a row; a Jacobian counts as its measured cost, four runs.
    """
    numbers = {k: jnp.asarray(x) for k, x in scenes.TOSS.items()}
    target = jnp.array(TARGET)

    def miss(speeds):
        system, state = scenes.toss(numbers | {"v_x": speeds[0], "v_z": speeds[1]})
        sol = mbd.simulate(system, state, steps=STEPS, h=H, save_every=STEPS)
        return sol.r[-1, 0, ::2] - target

    value = jax.jit(miss)
    both = jax.jit(lambda x: (miss(x), jax.jacfwd(miss)(x)))
    counts = {"with": 0.0, "without": 0.0}
    history = {"with": [], "without": []}

    def noted(kind, cost, x):
        found = np.asarray(value(jnp.asarray(x)))
        counts[kind] += cost
        history[kind].append((counts[kind], float(np.linalg.norm(found))))
        return found

    def jacobian(x):
        counts["with"] += 3.0
        return np.asarray(both(jnp.asarray(x))[1])

    bounds = ([0.0, 0.0], [4.0, 4.0])
    least_squares(
        lambda x: noted("with", 1.0, x),
        START,
        jacobian,
        bounds=bounds,
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=40,
    )
    budget = 60 if quick else 400
    minimize(
        lambda x: float(np.sum(noted("without", 1.0, x) ** 2)),
        START,
        method="Nelder-Mead",
        bounds=list(zip(*bounds, strict=True)),
        options={"maxfev": budget, "xatol": 1e-14, "fatol": 1e-28},
    )
    out = {}
    for kind, rows in history.items():
        best = np.minimum.accumulate([x for _, x in rows])
        reached = np.flatnonzero(best < 1e-6)
        out[kind] = {
            "runs": counts[kind],
            "miss": float(best[-1]),
            "runs_to_1e-6": float(rows[reached[0]][0]) if reached.size else None,
        }
    return history, out


def identified(quick):
    """Friction and restitution of a tossed ball from its place with noise of 1 mm."""

    def toss(friction, restitution):
        m = mbd.Mechanism("toss")
        b = m.add_body(
            "ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 0.6), v=(1.5, 0, 1.0), omega=(0, 3, 0)
        )
        m.add(mbd.Contact("floor", b, m.ground, friction=friction, restitution=restitution))
        return m

    truth = {"friction": 0.05, "restitution": 0.7}
    sol = mbd.simulate(*toss(**truth).build(), h=H, steps=STEPS)
    rng = np.random.default_rng(0)
    place = {
        f"ball.r.{axis}": np.asarray(sol.r[:, 0, k]) + 1e-3 * rng.normal(size=sol.t.size)
        for axis, k in (("x", 0), ("z", 2))
    }
    report = mbd.fit(
        toss(0.03, 0.6),  # more friction would end all slip, and no derivative would see it
        {
            "laws.floor.friction": mbd.Bounded(0.0, 0.5),
            "laws.floor.restitution": mbd.Bounded(0.0, 1.0),
        },
        mbd.Measurements(sol.t, place, sigma=1e-3),
        h=H,
        progress=False,
    )
    return report, truth
