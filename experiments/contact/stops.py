"""A slider crank whose slider strikes a stop, against its own motion in one minimal coordinate."""

import numpy as np
from scipy.integrate import solve_ivp

import jaxmbd as mbd

from .mechanisms import INERTIAS, MASSES, add_guide, add_linkage, linkage
from .scenes import G

REACH = 0.42  # of the wrist pin; straight it would be at 0.459 [m]
RESTITUTION = 0.6
ANGLE, SPIN, SECONDS = 2.0, -15.0, 1.0  # of the crank at the start [rad], [rad/s]; of a run [s]


def slider_crank():
    """The mechanism with a stop on its guide, under gravity."""
    m = mbd.Mechanism("slider_crank")
    bodies, pin, end = add_linkage(m, ANGLE, SPIN)
    add_guide(m, *bodies, pin, end)
    stop = {"upper": REACH - end[0], "restitution": RESTITUTION}
    m.add(mbd.JointLimit("stop", "guide", **stop))
    return m.build()


def _inertia(angle):
    """That of the whole mechanism at the crank [kg·m²]; the angle may be complex."""
    _, crank, _, rod, rod_rate = linkage(angle)
    slopes = (0.5 * crank, crank + 0.5 * rod, crank + rod)
    moved = sum(mass * slope @ slope for mass, slope in zip(MASSES, slopes, strict=True))
    return moved + INERTIAS[0] + INERTIAS[1] * rod_rate**2


def _rate(_, state):
    """M φ'' + M' φ'²/2 = Q, with M' by a complex step."""
    angle, speed = state
    _, crank, _, rod, _ = linkage(angle)
    load = -G * (MASSES[0] * 0.5 * crank[2] + MASSES[1] * (crank[2] + 0.5 * rod[2]))
    bend = np.imag(_inertia(angle + 1e-30j)) / 1e-30
    return [speed, (load - 0.5 * bend * speed**2) / _inertia(angle)]


def _room(_, state):
    """From the slider to its stop [m]."""
    crank, _, rod, _, _ = linkage(state[0])
    return REACH - crank[0] - rod[0]


_room.terminal, _room.direction = True, -1


def exact(seconds):
    """The crank's angle as a function of time [rad], and the times of impact [s].

    One degree of freedom: Newton's law of impact at the slider reverses the speed of the crank too.
    """
    t, state, pieces, ends = 0.0, [ANGLE, SPIN], [], []
    settings = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12, "dense_output": True}
    while t < seconds:
        run = solve_ivp(_rate, (t, seconds), state, events=_room, **settings)
        t, state = run.t[-1], run.y[:, -1] * [1.0, -RESTITUTION]
        pieces.append(run.sol)
        ends.append(t)

    def angle(times):
        which = np.searchsorted(ends[:-1], times)
        return np.array([pieces[k](x)[0] for k, x in zip(which, times, strict=True)])

    return angle, ends[:-1]


def against_minimal_coordinates(quick):
    """The largest error of the crank's angle by step, and how far the slider is beyond its stop.

    The error of a step size depends on where in its step an impact falls: each figure is the root
    of the mean square over several neighboring step sizes.
    """
    angle, impacts = exact(SECONDS)
    built, beyond, errors = slider_crank(), [], {}
    for h in (4e-3, 1e-3) if quick else (4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4):
        found = []
        for more in range(2 if quick else 8):
            sol = mbd.simulate(*built, t_end=SECONDS, h=SECONDS / (round(SECONDS / h) + more))
            turned = ANGLE + np.asarray(sol.joint("main").angle)
            found.append(np.max(np.abs(turned - angle(np.asarray(sol.t)))))
            beyond.append(-np.min(np.asarray(sol.limit("stop").gap)))
        errors[f"{h:g}"] = float(np.sqrt(np.mean(np.square(found))))
    order = np.polyfit(np.log([float(h) for h in errors]), np.log(list(errors.values())), 1)[0]
    return {
        "impacts": len(impacts),
        "beyond_the_stop": float(max(beyond)),
        "angle_error": errors,
        "order": float(order),
    }
