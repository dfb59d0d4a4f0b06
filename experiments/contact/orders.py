"""Orders of the time step where contacts open and close: a ladder that leaves its wall, balls that
strike each other off their centers, a rocking block. Each is compared with its equations of motion
in minimal coordinates, integrated by DOP853 with detachment and impacts located as events.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

import jaxmbd as mbd

from .scenes import G

_TIGHT = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13}


def _angle(sol):
    """Of the first body at the end, from z to x [rad]."""
    A = np.asarray(sol.A)[-1, 0]
    return np.arctan2(A[0, 2], A[0, 0])


def _event(function, direction=0.0):
    function.terminal, function.direction = True, direction
    return function


# --- a ladder on a floor and a wall without friction, which leaves its wall
LENGTH, MASS, LEAN = 0.5, 2.0, np.radians(20.0)  # half the length [m], [kg], from the vertical


def ladder():
    """At rest, with its lower end on the floor and its upper end on the wall."""
    s, c = LENGTH * np.sin(LEAN), LENGTH * np.cos(LEAN)
    m = mbd.Mechanism("ladder")
    b = m.add_body("rod", mass=MASS, inertia=(MASS / 12.0,) * 3, r=(s, 0, c))
    m.add(mbd.Contact("floor", b, m.ground, points=[[2.0 * s, 0, 0]]))
    m.add(mbd.Contact("wall", b, m.ground, points=[[0, 0, 2.0 * c]], normal=(1, 0, 0)))
    return m.build()


def ladder_ends(sol):
    """Lean [rad], its rate [rad/s] and the place of the center [m]."""
    turned = _angle(sol)
    return np.array([LEAN - turned, -float(sol.omega[-1, 0, 1]), float(sol.r[-1, 0, 0])])


def ladder_by_ode(seconds):
    """The same, and when the ladder leaves its wall [s]: where the wall would have to pull."""
    inertia = MASS / 12.0

    def on_the_wall(_, y):
        return [y[1], MASS * G * LENGTH * np.sin(y[0]) / (MASS * LENGTH**2 + inertia)]

    def push(t, y):
        return np.cos(y[0]) * on_the_wall(t, y)[1] - np.sin(y[0]) * y[1] ** 2

    def free(_, y):
        s, c = np.sin(y[0]), np.cos(y[0])
        arm = LENGTH * s * MASS
        return [y[1], arm * (G - LENGTH * c * y[1] ** 2) / (inertia + MASS * (LENGTH * s) ** 2)]

    first = solve_ivp(on_the_wall, (0.0, seconds), [LEAN, 0.0], events=_event(push), **_TIGHT)
    left, (lean, rate) = first.t[-1], first.y[:, -1]
    second = solve_ivp(free, (left, seconds), [lean, rate], **_TIGHT).y[:, -1]
    along = LENGTH * np.sin(lean) + LENGTH * np.cos(lean) * rate * (seconds - left)
    return np.array([*second, along]), [left]


# --- a pendulum's bob strikes a ball in flight, off its center
ROD, RADII, MASSES, BOUNCE = 1.0, (0.1, 0.1), (1.0, 2.0), 0.8
START, RATE = -1.2, 1.0  # of the pendulum, from the vertical [rad], [rad/s]
PLACE, SPEED = np.array([0.35, -0.85]), np.array([-0.6, 1.8])  # of the ball [m], [m/s]


def balls():
    """In the plane of x and z, with the pin at the origin."""
    m = mbd.Mechanism("balls")
    s, c = np.sin(START), np.cos(START)
    bob = m.add_body(
        "bob",
        shape=mbd.Sphere(RADII[0], mass=MASSES[0]),
        r=(ROD * s, 0, -ROD * c),
        v=(ROD * RATE * c, 0, ROD * RATE * s),
        omega=(0, -RATE, 0),
    )
    ball = m.add_body(
        "ball",
        shape=mbd.Sphere(RADII[1], mass=MASSES[1]),
        r=(PLACE[0], 0, PLACE[1]),
        v=(SPEED[0], 0, SPEED[1]),
    )
    m.add(mbd.Revolute("pin", m.ground, bob, point=(0, 0, 0), axis=(0, -1, 0)))
    m.add(mbd.Contact("strike", bob, ball, restitution=BOUNCE))
    return m.build()


def ball_ends(sol):
    """Angle of the pendulum [rad], its rate, place and velocity of the ball."""
    turned = START - _angle(sol)
    r, v = (np.asarray(x)[-1, 1, ::2] for x in (sol.r, sol.v))
    return np.array([turned, -float(sol.omega[-1, 0, 1]), *r, *v])


def balls_by_ode(seconds):
    """The same, and the instant of the impact [s]."""
    inertia = MASSES[0] * (ROD**2 + 0.4 * RADII[0] ** 2)

    def bob(angle):
        """Place and its derivative by the angle."""
        s, c = np.sin(angle), np.cos(angle)
        return ROD * np.array([s, -c]), ROD * np.array([c, s])

    def motion(_, y):
        return [y[1], -MASSES[0] * G * ROD * np.sin(y[0]) / inertia, y[4], y[5], 0.0, -G]

    def apart(_, y):
        return np.linalg.norm(y[2:4] - bob(y[0])[0]) - sum(RADII)

    start = [START, RATE, *PLACE, *SPEED]
    first = solve_ivp(motion, (0.0, seconds), start, events=_event(apart, -1.0), **_TIGHT)
    hit, y = first.t[-1], first.y[:, -1].copy()
    place, slope = bob(y[0])
    normal = (y[2:4] - place) / np.linalg.norm(y[2:4] - place)
    arm = normal @ slope
    approach = y[1] * arm - normal @ y[4:6]
    impulse = (1.0 + BOUNCE) * approach / (arm**2 / inertia + 1.0 / MASSES[1])
    y[1] -= impulse * arm / inertia
    y[4:6] += impulse * normal / MASSES[1]
    return solve_ivp(motion, (hit, seconds), y, **_TIGHT).y[:, -1], [hit]


# --- a block that rocks from edge to edge (Housner 1963)
WIDTH, HEIGHT, WEIGHT, TILT = 0.2, 0.6, 3.0, 0.2  # [m], [m], [kg], of the start [rad]


def block():
    """At rest, tilted about the edge at the origin; corners stick and do not bounce."""
    m = mbd.Mechanism("block")
    s, c = np.sin(TILT), np.cos(TILT)
    A = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    center = A @ np.array([-0.5 * WIDTH, 0.0, 0.5 * HEIGHT])
    box = mbd.Box((WIDTH, WIDTH, HEIGHT), mass=WEIGHT)
    b = m.add_body("block", shape=box, r=center, A=A)
    corners = np.array([[x, y, 0.0] for x in (-WIDTH, 0.0) for y in (-WIDTH / 2, WIDTH / 2)])
    m.add(mbd.Contact("floor", b, m.ground, points=corners @ A.T, friction=1.0))
    return m.build()


def block_ends(sol):
    """Tilt [rad], its rate and the place of the center [m]."""
    r = np.asarray(sol.r)[-1, 0]
    return np.array([_angle(sol), float(sol.omega[-1, 0, 1]), r[0], r[2]])


def block_by_ode(seconds):
    """The same, and the instants of impact [s].

    The angular momentum about the corner that strikes is kept; the other one leaves.
    """
    inertia = WEIGHT * (WIDTH**2 + HEIGHT**2) / 12.0
    radius, slender = 0.5 * np.hypot(WIDTH, HEIGHT), np.arctan2(WIDTH, HEIGHT)
    about = inertia + WEIGHT * radius**2
    kept = (inertia + WEIGHT * radius**2 * np.cos(2.0 * slender)) / about

    def rate(_, y, side):
        push = WEIGHT * G * radius * np.sin(slender - side * y[0])
        return [y[1], -side * push / about]

    def lies(_, y, side):
        return side * y[0]

    t, y, side, hits = 0.0, np.array([TILT, 0.0]), 1.0, []
    while t < seconds:
        run = solve_ivp(rate, (t, seconds), y, events=_event(lies, -1.0), args=(side,), **_TIGHT)
        t, y = run.t[-1], run.y[:, -1]
        if run.status == 1:
            hits.append(t)
            side, y = -side, np.array([0.0, kept * y[1]])
    # Tilted to the right it stands on the edge at the origin, to the left on the other one.
    edge = 0.0 if y[0] > 0.0 else -WIDTH
    s, c = np.sin(y[0]), np.cos(y[0])
    half = -0.5 * WIDTH if y[0] > 0.0 else 0.5 * WIDTH
    x, z = edge + c * half + s * 0.5 * HEIGHT, -s * half + c * 0.5 * HEIGHT
    return np.array([*y, x, z]), hits


class Case(NamedTuple):
    """A scene, its largest step [s], its end [s], what is compared there, and the reference, which
    gives the instants of its events too.
    """

    built: Callable
    h: float
    seconds: float
    ends: Callable
    exact: Callable


CASES = {
    "detachment": Case(ladder, 4e-3, 0.5, ladder_ends, ladder_by_ode),
    "ball on ball": Case(balls, 2e-2, 0.8, ball_ends, balls_by_ode),
    "rocking block": Case(block, 4e-3, 0.9, block_ends, block_by_ode),
}
# The error depends on where in its step an event falls: runs of neighboring steps, by which it
# falls everywhere in it.
RUNS = 8


def errors(name: str, parts: tuple[int, ...] = (1, 2, 4, 8)) -> dict[str, float]:
    """The error of a case at its end by step: root of the mean square over neighboring steps, of
    the largest among the numbers compared.
    """
    case, found = CASES[name], {}
    _, events = case.exact(case.seconds)
    system, state = case.built()
    for part in parts:
        steps, missed = part * round(case.seconds / case.h), []
        for k in range(RUNS):
            # Up to the first event there is about one step more.
            h = case.seconds / (steps + k / RUNS * case.seconds / events[0])
            sol = mbd.simulate(system, state, steps=steps, h=h, save_every=steps)
            exact, _ = case.exact(steps * h)
            missed.append(np.max(np.abs(case.ends(sol) - exact)))
        found[f"{case.seconds / steps:g}"] = float(np.sqrt(np.mean(np.square(missed))))
    return found


def observed(errors: dict[str, float]) -> list[float]:
    """Orders from one step to the next."""
    h, e = np.log([float(h) for h in errors]), np.log(list(errors.values()))
    return (np.diff(e) / np.diff(h)).tolist()


def measured(quick: bool) -> dict[str, dict]:
    """Errors and orders of all cases."""
    out = {}
    for name in CASES:
        found = errors(name, (1, 2) if quick else (1, 2, 4, 8))
        out[name] = {"error": found, "order": observed(found)}
        print(f"{name}: orders " + ", ".join(f"{x:.2f}" for x in out[name]["order"]), flush=True)
    return out
