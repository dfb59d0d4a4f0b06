"""A ball is juggled on a bat: speeds and tilts of the bat at its strikes, found by derivatives
across the impacts and without them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq, differential_evolution, least_squares, minimize

import jaxmbd as mbd

from .scenes import G

RADIUS, MASS, FRICTION, RESTITUTION = 0.02, 0.05, 0.2, 0.8
HEIGHT = 0.5  # of every flight [m]
PERIOD = 2.0 * np.sqrt(2.0 * HEIGHT / G)  # of a strike and a flight [s]
MARKS = np.array([0.15, 0.3, 0.3, 0.15])  # where the ball shall turn above, after each strike [m]
STRIKES = len(MARKS)
WIDTH = 0.08  # of the bat's moves [s]
PER_PERIOD = 128  # steps, so that marks fall on rows
LIMITS = [(0.0, 0.8)] * STRIKES + [(-0.15, 0.15)] * STRIKES  # [m/s], [rad]
REACHED = 1e-3  # miss that counts as juggled [m]


def bat(moves, t, xp=jnp):
    """Height [m] and tilt about y [rad] of the bat, which moves upwards through z = 0 at each
    strike.

    Args:
        moves: Speeds of the strikes [m/s], then tilts [rad], (2 n,).
        t: Time [s].
        xp: NumPy or its equal in JAX.
    """
    late = (t - PERIOD * (xp.arange(STRIKES) + 0.5)) / WIDTH
    bump = xp.exp(-(late**2))
    return WIDTH * xp.sum(moves[:STRIKES] * late * bump), xp.sum(moves[STRIKES:] * bump)


def scene(moves):
    """The ball at its highest place above the bat; moves may be traced."""
    m = mbd.Mechanism("juggling")
    up, round_y = jnp.array([0.0, 0.0, 1.0]), jnp.array([0.0, 1.0, 0.0])
    paddle = m.add_body("bat", mass=1.0, inertia=(1.0, 1.0, 1.0))
    m.add(
        mbd.PoseDriver(
            "arm",
            m.ground,
            paddle,
            displacement=lambda t: bat(moves, t)[0] * up,
            rotation=lambda t: bat(moves, t)[1] * round_y,
        )
    )
    ball = m.add_body("ball", shape=mbd.Sphere(RADIUS, mass=MASS), r=(0, 0, HEIGHT + RADIUS))
    law = {"friction": FRICTION, "restitution": RESTITUTION, "normal": (0, 0, 1)}
    m.add(mbd.Contact("strike", ball, paddle, **law))
    return m.build()


def miss(moves, per_period=PER_PERIOD):
    """How far the ball is from the marks after every strike, (2 n,) [m]."""
    h, steps = PERIOD / per_period, STRIKES * per_period
    sol = mbd.simulate(*scene(moves), steps=steps, h=h, save_every=per_period)
    away = sol.r[1:, 1, ::2] - jnp.column_stack([MARKS, jnp.full(STRIKES, HEIGHT + RADIUS)])
    return away.reshape(-1)


def replayed(moves):
    """The same misses by flights in closed form and impacts found as roots, with NumPy."""
    place, velocity, spin = np.array([0.0, HEIGHT + RADIUS]), np.zeros(2), 0.0
    fall, now, found = np.array([0.0, -G]), 0.0, []

    def state(t):
        """Height and tilt of the bat, and their rates."""
        d = 1e-6
        ahead, behind = (np.array(bat(moves, t + s * d, np)) for s in (1.0, -1.0))
        return np.array(bat(moves, t, np)), (ahead - behind) / (2.0 * d)

    for k in range(STRIKES):

        def gap(t, place=place, velocity=velocity, now=now):
            (height, tilt), _ = state(t)
            at = place + velocity * (t - now) + 0.5 * fall * (t - now) ** 2
            return (at - [0.0, height]) @ [np.sin(tilt), np.cos(tilt)] - RADIUS

        times = np.linspace(now + 0.1 * PERIOD, now + 1.6 * PERIOD, 400)
        first = np.flatnonzero(np.array([gap(t) for t in times]) < 0.0)[0]
        t = brentq(gap, times[first - 1], times[first], xtol=1e-14)
        mark = PERIOD * (k + 1)
        if t > mark:
            raise RuntimeError(f"strike {k + 1} comes after its mark")
        place = place + velocity * (t - now) + 0.5 * fall * (t - now) ** 2
        velocity = velocity + fall * (t - now)
        (height, tilt), (rise, turn) = state(t)
        n, e = np.array([np.sin(tilt), np.cos(tilt)]), np.array([np.cos(tilt), -np.sin(tilt)])
        arm = place - RADIUS * n - [0.0, height]
        of_bat = [0.0, rise] + turn * np.array([arm[1], -arm[0]])
        apart = velocity - of_bat
        # A spin about y moves the lowest point of the ball against e.
        slip, push = apart @ e - RADIUS * spin, -(1.0 + RESTITUTION) * (apart @ n)
        along = -np.sign(slip) * min(FRICTION * push, abs(slip) / 3.5)
        velocity = velocity + push * n + along * e
        spin = spin - along * RADIUS / (0.4 * RADIUS**2)
        now = t
        at = place + velocity * (mark - t) + 0.5 * fall * (mark - t) ** 2
        found.append(at - [MARKS[k], HEIGHT + RADIUS])
    return np.concatenate(found)


class _Counted:
    """Misses with the number of simulated runs that they took so far."""

    def __init__(self):
        self.value, self.slopes = jax.jit(miss), jax.jit(jax.jacfwd(miss))

    def begin(self):
        self.runs, self.best, self.rows = 0, (np.inf, None), []

    def misses(self, moves):
        self.runs += 1
        found = np.asarray(self.value(jnp.asarray(moves)))
        far = float(np.sqrt(np.mean(found**2)))
        if far < self.best[0]:
            self.best = far, np.array(moves)
        self.rows.append((self.runs, self.best[0]))
        return found

    def jacobian(self, moves):
        """Counts as many runs as differences would take, though one forward sweep is cheaper."""
        self.runs += 2 * STRIKES
        return np.asarray(self.slopes(jnp.asarray(moves)))

    def square(self, moves):
        """For what knows no derivatives: outside the limits the bat does not go."""
        inside = np.clip(moves, *np.transpose(LIMITS))
        return float(np.sum(self.misses(inside) ** 2) + np.sum((moves - inside) ** 2))


def start(seed):
    """Speeds and tilts near those of a bat that sends the ball straight up."""
    rng = np.random.default_rng(seed)
    straight = (1.0 - RESTITUTION) / (1.0 + RESTITUTION) * np.sqrt(2.0 * G * HEIGHT)
    speeds = straight + rng.uniform(-0.1, 0.1, STRIKES)
    return np.concatenate([speeds, rng.uniform(-0.05, 0.05, STRIKES)])


def _least_squares(counted, seed, budget, jacobian):
    settings = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "x_scale": "jac"}
    least_squares(
        counted.misses,
        start(seed),
        jacobian,
        bounds=np.transpose(LIMITS),
        max_nfev=budget // (2 * STRIKES + 1),
        **settings,
    )


def _by_derivatives(counted, seed, budget):
    _least_squares(counted, seed, budget, counted.jacobian)


def _by_differences(counted, seed, budget):
    _least_squares(counted, seed, budget, "2-point")


def _nelder_mead(counted, seed, budget):
    options = {"maxfev": budget, "xatol": 1e-14, "fatol": 1e-28, "adaptive": True}
    minimize(counted.square, start(seed), method="Nelder-Mead", options=options)


def _differential_evolution(counted, seed, budget):
    members = 5  # per unknown
    differential_evolution(
        counted.square,
        LIMITS,
        x0=start(seed),
        popsize=members,
        maxiter=budget // (members * 2 * STRIKES) - 1,
        tol=0.0,
        polish=False,
        rng=seed,
    )


METHODS = {
    "derivatives": _by_derivatives,
    "differences": _by_differences,
    "nelder_mead": _nelder_mead,
    "differential_evolution": _differential_evolution,
}


def compared(quick):
    """The miss after the same number of simulated runs by every method, from several starts, and
    replays of the best.
    """
    seeds, budget = (1, 150) if quick else (5, 600)
    counted, out, best = _Counted(), {"budget": budget}, (np.inf, None)
    at = np.linspace(0, budget, 21)[1:].astype(int)
    for name, method in METHODS.items() if not quick else [("derivatives", _by_derivatives)]:
        found = {"miss": [], "runs": [], "miss_by_runs": {"runs": at.tolist(), "miss": []}}
        for seed in range(seeds):
            counted.begin()
            method(counted, seed, budget)
            runs, far = np.array(counted.rows).T
            reached = runs[far < REACHED]
            found["miss"].append(float(far[-1]))
            found["runs"].append(int(reached[0]) if reached.size else None)
            so_far = far[np.maximum(np.searchsorted(runs, at, side="right") - 1, 0)]
            found["miss_by_runs"]["miss"].append(so_far.tolist())
            best = min(best, counted.best, key=lambda x: x[0])
        out[name] = found
    moves = best[1]
    finer = np.asarray(jax.jit(lambda x: miss(x, 10 * PER_PERIOD))(jnp.asarray(moves)))
    out |= {"moves": moves.tolist(), "replay_at_a_tenth": float(np.sqrt(np.mean(finer**2)))}
    out["replay_in_closed_form"] = float(np.sqrt(np.mean(replayed(moves) ** 2)))
    return out
