"""Scenes of many contacts, and the time of a step against their number."""

import time

import numpy as np

import jaxmbd as mbd


def spheres_in_a_box(count=50, seed=0):
    """Balls that fall into a box with an open top."""
    rng = np.random.default_rng(seed)
    m = mbd.Mechanism("spheres")
    radius, half = 0.1, 0.45
    layers = [(x, y) for x in (-0.3, -0.1, 0.1, 0.3) for y in (-0.3, -0.1, 0.1, 0.3)]
    balls = []
    for k in range(count):
        x, y = layers[k % 16]
        shift = 0.005 * rng.uniform(-1, 1, 2)
        at = (0.97 * x + shift[0], 0.97 * y + shift[1], 0.12 + 0.24 * (k // 16))
        balls.append(m.add_body(f"b{k}", shape=mbd.Sphere(0.9 * radius, mass=1.0), r=at))
    walls = {"floor": ((0, 0, 0), (0, 0, 1))}
    for name, axis in (("x", 0), ("y", 1)):
        for side in (-1.0, 1.0):
            normal = -side * np.eye(3)[axis]
            walls[f"{name}{side:+.0f}"] = (-half * normal, normal)
    for k, ball in enumerate(balls):
        for name, (point, normal) in walls.items():
            plane = {"point": point, "normal": normal, "friction": 0.3}
            m.add(mbd.Contact(f"{name} {k}", ball, m.ground, **plane))
        for j in range(k):
            m.add(mbd.Contact(f"{j} {k}", ball, balls[j], friction=0.3))
    return m.build()


def wall_of_boxes(rows=10, columns=10):
    """Boxes on each other, every other row shifted by half a box: two supports of two corners
    each.
    """
    m = mbd.Mechanism("wall")
    size = np.array([0.2, 0.1, 0.1])
    below = []
    for k in range(rows):
        row = []
        for j in range(columns):
            at = (0.2 * j + 0.1 * (k % 2), 0.0, 0.05 + 0.1 * k)
            b = m.add_body(f"{k} {j}", shape=mbd.Box(size, mass=1.0), r=at)
            ends = [(at[0] + s * 0.099, y, 0.1 * k) for s in (-1, 1) for y in (-0.05, 0.05)]
            law = {"friction": 0.5, "point": (0, 0, 0.1 * k), "normal": (0, 0, 1)}
            supports = [m.ground] * 2
            if k:
                left, right = (j - 1, j) if k % 2 == 0 else (j, j + 1)
                supports = [below[i] if 0 <= i < columns else None for i in (left, right)]
            for side, support in enumerate(supports):
                if support is not None:
                    points = ends[2 * side : 2 * side + 2]
                    m.add(mbd.Contact(f"{k} {j} {side}", b, support, points=points, **law))
            row.append(b)
        below = row
    return m.build()


def timed(system, state, *, steps, h, most=200):
    """Processor time of a step [s], contacts that are closed, iterations, over a run."""
    integrator = mbd.Moreau(most_contacts=most)
    mbd.simulate(system, state, steps=steps, h=h, integrator=integrator)
    start = time.process_time()
    sol = mbd.simulate(system, state, steps=steps, h=h, integrator=integrator)
    spent = time.process_time() - start
    closed = np.sum(np.asarray(sol.stats["law_states"]) > 0, axis=1)
    return sol, {
        "bodies": system.nb,
        "places": int(np.shape(sol.stats["law_states"])[1]),
        "closed_at_the_end": int(closed[-1]),
        "most_closed": int(closed.max()),
        "ms_per_step": 1e3 * spent / steps,
        "iterations_per_step": float(np.asarray(sol.iterations)[1:].mean()),
        "deepest": float(-np.min(np.asarray(sol.stats["law_gaps"]))),
    }


def by_number(quick):
    """Walls and boxes of balls of growing size."""
    out, steps = {}, 3 if quick else 20
    for rows in (2,) if quick else (2, 4, 7, 10):
        built = wall_of_boxes(rows, rows)
        most = 4 * rows**2
        out[f"wall {rows} x {rows}"] = timed(*built, steps=steps, h=5e-3, most=most)[1]
    for count in (4,) if quick else (10, 25, 50):
        out[f"{count} balls"] = timed(*spheres_in_a_box(count), steps=20 if quick else 60, h=5e-3)[
            1
        ]
    return out
