"""Slider cranks with play and with dry guides."""

import numpy as np

import jaxmbd as mbd

# Flores, Leine, Glocker 2010: lengths [m], masses [kg], inertias [kg·m²].
CRANK, ROD = 0.153, 0.306
HALF_LENGTH, HALF_HEIGHT, PLAY = 0.05, 0.025, 0.001
MASSES, INERTIAS = (0.038, 0.038, 0.076), (7.4e-5, 5.9e-4, 2.7e-6)


def linkage(angle):
    """Of the slider crank at an angle of its crank [rad] about y: vectors from the main bearing to
    the crank pin and from there to the wrist pin [m], their derivatives, and that of the rod's
    angle. Complex angles serve, for derivatives.
    """
    sine, cosine = np.sin(angle), np.cos(angle)
    crank, crank_slope = CRANK * np.array([[cosine, 0, -sine], [-sine, 0, -cosine]])
    rod_angle = -np.arcsin(CRANK / ROD * sine)
    rod_rate = -CRANK / ROD * cosine / np.cos(rod_angle)
    sine, cosine = np.sin(rod_angle), np.cos(rod_angle)
    rod, rod_slope = ROD * np.array([[cosine, 0, -sine], [-sine, 0, -cosine]])
    return crank, crank_slope, rod, rod_rate * rod_slope, rod_rate


def add_linkage(m, angle, spin):
    """Crank, rod and slider at an angle of the crank [rad] that turns with `spin` [rad/s], the
    crank's joint, and the places of both pins.
    """
    crank, crank_slope, rod, rod_slope, rod_rate = linkage(angle)
    pin, end = crank, crank + rod
    centers = (0.5 * crank, pin + 0.5 * rod, end)
    slopes = (0.5 * crank_slope, crank_slope + 0.5 * rod_slope, crank_slope + rod_slope)
    turns = (1.0, rod_rate, 0.0)
    names = ("crank", "rod", "slider")
    bodies = []
    for k, name in enumerate(names):
        motion = {"v": spin * slopes[k], "omega": (0.0, spin * turns[k], 0.0)}
        inertia = (INERTIAS[k],) * 3
        bodies.append(m.add_body(name, mass=MASSES[k], inertia=inertia, r=centers[k], **motion))
    m.add(mbd.Revolute("main", m.ground, bodies[0], point=(0, 0, 0), axis=(0, 1, 0)))
    return bodies, pin, end


def slider_crank(*, guide="play", restitution=0.4, friction=0.01):
    """A slider crank in the plane of x and z that starts straight, with 150 rad/s of its crank.

    Args:
        guide: "play" between the slider's corners and two planes, or a "joint" with dry friction.
        restitution: Of the corners [-].
        friction: Of the corners, or of the joint [-].
    """
    m = mbd.Mechanism("slider_crank")
    (crank, rod, slider), pin, end = add_linkage(m, 0.0, 150.0)
    if guide == "joint":
        add_guide(m, crank, rod, slider, pin, end)
        m.add(mbd.CoulombFriction("dry", "guide", friction=friction))
        return m.build()
    axis = (0, 1, 0)
    m.add(mbd.Revolute("crank_pin", crank, rod, point=pin, axis=axis))
    m.add(mbd.Revolute("wrist_pin", rod, slider, point=end, axis=axis))
    for name, side in (("bottom", -1.0), ("top", 1.0)):
        corners = [(end[0] + s * HALF_LENGTH, 0.0, side * HALF_HEIGHT) for s in (-1, 1)]
        plane = {"point": (0, 0, side * (HALF_HEIGHT + PLAY)), "normal": (0, 0, -side)}
        law = {"friction": friction, "restitution": restitution}
        m.add(mbd.Contact(name, slider, m.ground, points=corners, **plane, **law))
    return m.build()


def add_guide(m, crank, rod, slider, pin, end):
    """The pins of the rod and a guide without play. No row repeats another one, so that the force
    of the guide is unique.
    """
    m.add(mbd.Spherical("crank_pin", crank, rod, point=pin))
    m.add(mbd.Cylindrical("wrist_pin", rod, slider, point=end, axis=(0, 1, 0)))
    m.add(mbd.Translational("guide", m.ground, slider, point=end, axis=(1, 0, 0)))


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
