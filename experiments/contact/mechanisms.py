"""Slider cranks with play, with a stop and with dry guides."""

import numpy as np

import jaxmbd as mbd

# Flores, Leine, Glocker 2010: lengths [m], masses [kg], inertias [kg·m²].
CRANK, ROD = 0.153, 0.306
HALF_LENGTH, HALF_HEIGHT, PLAY = 0.05, 0.025, 0.001
MASSES, INERTIAS = (0.038, 0.038, 0.076), (7.4e-5, 5.9e-4, 2.7e-6)


def slider_crank(*, guide="play", restitution=0.4, friction=0.01):
    """A slider crank in the plane of x and z that starts straight, with 150 rad/s of its crank.

    Args:
        guide: "play" between the slider's corners and two planes, or a "joint" with dry friction.
        restitution: Of the corners [-].
        friction: Of the corners, or of the joint [-].
    """
    m = mbd.Mechanism("slider_crank")
    spin, back = np.array([0.0, 150.0, 0.0]), np.array([0.0, -75.0, 0.0])

    def velocity(omega, arm):
        return np.cross(omega, [arm, 0.0, 0.0])

    bodies = []
    pin = velocity(spin, CRANK)
    places = (0.5 * CRANK, CRANK + 0.5 * ROD, CRANK + ROD)
    speeds = (
        velocity(spin, 0.5 * CRANK),
        pin + velocity(back, 0.5 * ROD),
        pin + velocity(back, ROD),
    )
    turns = (spin, back, 0.0 * spin)
    for name, mass, inertia, x, v, omega in zip(
        ("crank", "rod", "slider"), MASSES, INERTIAS, places, speeds, turns, strict=True
    ):
        bodies.append(
            m.add_body(name, mass=mass, inertia=(inertia,) * 3, r=(x, 0, 0), v=v, omega=omega)
        )
    crank, rod, slider = bodies
    axis = (0, 1, 0)
    m.add(mbd.Revolute("main", m.ground, crank, point=(0, 0, 0), axis=axis))
    end = (CRANK + ROD, 0, 0)
    if guide == "joint":
        # The force of the guide is unique: no row repeats another one.
        m.add(mbd.Spherical("crank_pin", crank, rod, point=(CRANK, 0, 0)))
        m.add(mbd.Cylindrical("wrist_pin", rod, slider, point=end, axis=axis))
        m.add(mbd.Translational("guide", m.ground, slider, point=end, axis=(1, 0, 0)))
        m.add(mbd.CoulombFriction("dry", "guide", friction=friction))
        return m.build()
    m.add(mbd.Revolute("crank_pin", crank, rod, point=(CRANK, 0, 0), axis=axis))
    m.add(mbd.Revolute("wrist_pin", rod, slider, point=end, axis=axis))
    for name, side in (("bottom", -1.0), ("top", 1.0)):
        corners = [(places[2] + s * HALF_LENGTH, 0.0, side * HALF_HEIGHT) for s in (-1, 1)]
        plane = {"point": (0, 0, side * (HALF_HEIGHT + PLAY)), "normal": (0, 0, -side)}
        law = {"friction": friction, "restitution": restitution}
        m.add(mbd.Contact(name, slider, m.ground, points=corners, **plane, **law))
    return m.build()


def with_play(quick):
    """Two turns of the crank: corners in touch, impacts, energy, and how far a finer step is."""
    system, state = slider_crank()
    seconds = 0.01 if quick else 0.08
    runs = {h: mbd.simulate(system, state, t_end=seconds, h=h) for h in (5e-5, 2.5e-5)}
    sol = runs[2.5e-5]
    impacts = np.concatenate([np.asarray(sol.contact(n).impact) for n in ("bottom", "top")], axis=1)
    gaps = np.concatenate([np.asarray(sol.contact(n).gap) for n in ("bottom", "top")], axis=1)
    energy = np.asarray(sol.energy().total)
    first = float(sol.t[np.flatnonzero(np.any(impacts > 0.0, axis=1))[0]])
    apart = np.abs(np.asarray(runs[5e-5].r) - np.asarray(sol.r[::2]))[:, 2]
    return sol, {
        "first_impact": first,
        "impacts": int(np.count_nonzero(impacts)),
        "deepest": float(-gaps.min()),
        "energy_rises_by": float(np.max(np.diff(energy))),
        "energy_lost": float(energy[0] - energy[-1]),
        "steps_differ_by": float(np.max(apart)),
    }


def with_dry_guide(quick):
    """What dry friction takes against what the energy loses, with μ of 0.3."""
    system, state = slider_crank(guide="joint", friction=0.3)
    sol = mbd.simulate(system, state, t_end=0.01 if quick else 0.08, h=2.5e-5)
    force = np.asarray(sol.friction("dry").force)[1:, 0]
    moved = np.diff(np.asarray(sol.r[:, 2, 0]))
    energy = np.asarray(sol.energy().total)
    lost = energy[0] - energy[-1]
    return {
        "energy_lost": float(lost),
        "energy_balance_error": float(abs(lost + force @ moved) / lost),
    }
