"""The woodpecker toy: a sleeve jams on a bar and slips down it whenever the bird's beak strikes.

Numbers of Glocker, "Dynamik von Starrkörpersystemen mit Reibung und Stößen", 1995, and of Leine,
Glocker, van Campen, "Nonlinear dynamics of the woodpecker toy", 2001, as the example of Siconos has
them. Angles count from x towards z; the bar stands along z.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

import jaxmbd as mbd

from .scenes import G

BAR, BORE, HALF_SLEEVE = 0.0025, 0.0031, 0.0058  # radii, half the height of the sleeve [m]
PIVOT, BIRD, BEAK = 0.010, 0.015, (-0.0201, 0.02)  # from the sleeve to the spring, to the bird [m]
SLEEVE_MASS, BIRD_MASS = 3e-4, 4.5e-3  # [kg]
SLEEVE_INERTIA, BIRD_INERTIA = 5e-9, 7e-7  # [kg·m²]
STIFFNESS, RESTITUTION, FRICTION = 0.0056, 0.5, 0.3  # [N·m/rad], of the beak alone [-], of all [-]
START, SPEED = (0.0, -0.1036, -0.2788), (-0.3411, 0.0, -7.4583)  # height, angles [m], [rad]
CORNERS = {"lower": (BORE, -HALF_SLEEVE), "upper": (BORE, HALF_SLEEVE)}
# What Siconos 2 stores for its example of the linearized toy at t = 0.29998 s, with h = 20 µs.
SICONOS_TIME, SICONOS = 0.29998, (-0.0413481868, -0.1034684683, -0.3409339756)


def jammed():
    """Angle at which a corner of the sleeve meets the bar [rad]; linearized it is -0.1034."""
    return brentq(lambda a: BORE * np.cos(a) + HALF_SLEEVE * np.sin(a) - BAR, -0.2, 0.0, xtol=1e-16)


def toy():
    """The mechanism, jammed, falling and about to swing back."""

    def turn(angle):
        c, s = np.cos(angle), np.sin(angle)
        return np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])

    def spins(rate):
        return np.array([0.0, -rate, 0.0])

    tilt, lean = jammed(), START[2]
    A, B = turn(tilt), turn(lean)
    pivot = A @ [PIVOT, 0.0, 0.0]
    arm = B @ [BIRD, 0.0, 0.0]
    m = mbd.Mechanism("woodpecker")
    v = np.array([0.0, 0.0, SPEED[0]])
    sleeve = m.add_body("sleeve", mass=SLEEVE_MASS, inertia=(SLEEVE_INERTIA,) * 3, A=A, v=v)
    bird = m.add_body(
        "bird",
        mass=BIRD_MASS,
        inertia=(BIRD_INERTIA,) * 3,
        r=pivot + arm,
        A=B,
        v=v + np.cross(spins(SPEED[2]), arm),
        omega=spins(SPEED[2]),
    )
    m.add(mbd.Planar("plane", m.ground, sleeve, point=(0, 0, 0), axis=(0, 1, 0)))
    on_the_bar = mbd.CD((1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    m.add(mbd.Constraint("bar", m.ground, sleeve, primitives=[on_the_bar]))
    m.add(mbd.Revolute("pivot", sleeve, bird, point=pivot, axis=(0, -1, 0)))
    m.add(mbd.JointSpring("spring", "pivot", stiffness=STIFFNESS, reference=tilt - lean))
    side = {"point": (BAR, 0, 0), "normal": (1, 0, 0), "friction": FRICTION}
    beak = pivot + arm + B @ [BEAK[0], 0.0, BEAK[1]]
    m.add(mbd.Contact("beak", bird, m.ground, points=[beak], restitution=RESTITUTION, **side))
    for name, (x, z) in CORNERS.items():
        m.add(mbd.Contact(name, sleeve, m.ground, points=[A @ [x, 0.0, z]], **side))
    return m.build()


def coordinates(sol):
    """Height of the sleeve and both angles, (T, 3)."""
    angles = np.arcsin(np.asarray(sol.A[:, :, 2, 0]))
    return np.column_stack([np.asarray(sol.r[:, 0, 2]), angles])


def turned(angle, p):
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.array([c * p[0] - s * p[1], s * p[0] + c * p[1]])


def turned_linearly(angle, p):
    """As the published model does."""
    return jnp.array([p[0] - angle * p[1], p[1] + angle * p[0]])


def minimal(seconds, h, turn=turned):
    """Times, the three coordinates and the impulses of the beak by Moreau's method as published, in
    minimal coordinates: switched at the ends of steps, Gauss-Seidel sweeps. Of first order.
    """

    def sleeve(q):
        return jnp.array([0.0, q[0]])

    def bird(q):
        return sleeve(q) + turn(q[1], (PIVOT, 0.0)) + turn(q[2], (BIRD, 0.0))

    def points(q):
        corners = [sleeve(q) + turn(q[1], at) for at in CORNERS.values()]
        return jnp.stack([bird(q) + turn(q[2], BEAK), *corners])

    def mass(q):
        first, second = jax.jacfwd(sleeve)(q), jax.jacfwd(bird)(q)
        inertias = jnp.diag(jnp.array([0.0, SLEEVE_INERTIA, BIRD_INERTIA]))
        return SLEEVE_MASS * first.T @ first + BIRD_MASS * second.T @ second + inertias

    def force(q, u):
        def lagrangian(q):
            weight = G * (SLEEVE_MASS * sleeve(q)[1] + BIRD_MASS * bird(q)[1])
            return 0.5 * u @ mass(q) @ u - weight - 0.5 * STIFFNESS * (q[1] - q[2]) ** 2

        return jax.grad(lagrangian)(q) - jax.jvp(lambda q: mass(q) @ u, (q,), (u,))[1]

    returned = jnp.array([RESTITUTION, 0.0, 0.0, 0.0, 0.0, 0.0])

    def step(state, _):
        q, u = state
        q = q + 0.5 * h * u
        closed = points(q)[:, 0] <= BAR
        W = jax.jacfwd(points)(q).reshape(6, 3)
        X = jnp.linalg.solve(mass(q), W.T)
        u1 = u + h * jnp.linalg.solve(mass(q), force(q, u))
        matrix, b = W @ X, W @ u1 + returned * (W @ u)
        P = _swept(matrix, b, closed)
        u = u1 + X @ P
        q = q + 0.5 * h * u
        return (q, u), (q, P[0])

    start = jnp.array(START).at[1].set(jammed() if turn is turned else START[1])
    steps = round(seconds / h)
    run = jax.jit(lambda s: jax.lax.scan(step, s, None, length=steps)[1])
    q, struck = run((start, jnp.array(SPEED)))
    return h * np.arange(1, steps + 1), np.asarray(q), np.asarray(struck)


def _swept(matrix, b, closed):
    """Normal and tangential impulses of three contacts in a plane."""
    diagonal = jnp.diagonal(matrix)

    def sweep(carry):
        P, _, count = carry
        before = P
        for k in (0, 2, 4):
            normal = jnp.maximum(P[k] - (matrix[k] @ P + b[k]) / diagonal[k], 0.0)
            normal = jnp.where(closed[k // 2], normal, 0.0)
            P = P.at[k].set(normal)
            along = P[k + 1] - (matrix[k + 1] @ P + b[k + 1]) / diagonal[k + 1]
            P = P.at[k + 1].set(jnp.clip(along, -FRICTION * normal, FRICTION * normal))
        return P, jnp.max(jnp.abs(P - before) * diagonal), count + 1

    def unfinished(carry):
        return (carry[1] > 1e-13) & (carry[2] < 2000)

    none = jnp.zeros(6)
    return jax.lax.while_loop(unfinished, sweep, (none, jnp.inf, 0))[0]


def times_of_impact(sol):
    """Of the beak [s]."""
    impact = np.asarray(sol.contact("beak").impact)[:, 0]
    hits = np.flatnonzero(impact > 0.0)
    return np.asarray(sol.t)[hits - 1] + impact[hits]


def compared(quick):
    """Strikes of the beak and the motion beside minimal coordinates, and the settled motion."""
    seconds, fine = (0.1, 2e-5) if quick else (0.4, 1e-6)
    references, errors, strikes = {}, {}, {}
    for h in (2.0 * fine, fine):
        t, q, struck = minimal(seconds, h)
        references[f"{h:g}"] = t[struck > 0.0].tolist()
    for h in (2e-4, 1e-4) if quick else (2e-4, 1e-4, 5e-5, 2.5e-5):
        sol = mbd.simulate(*toy(), t_end=seconds, h=h)
        row = np.round(np.asarray(sol.t)[1:] / fine).astype(int) - 1
        away = np.abs(coordinates(sol)[1:] - q[row])
        errors[f"{h:g}"] = np.max(away, axis=0).tolist()
        strikes[f"{h:g}"] = times_of_impact(sol).tolist()
    out = {"strikes": strikes, "strikes_in_minimal_coordinates": references}
    out |= {"largest_difference": errors, "energy_rises_by": _rise(sol)}
    out |= {"deepest": float(-min(np.min(sol.contact(n).gap) for n in ("beak", *CORNERS)))}
    out |= {"largest_lean": float(np.max(np.abs(q[:, 2])))}
    return out | {"settled": _settled(quick)} | _linearized(quick)


def _rise(sol):
    return float(np.max(np.diff(np.asarray(sol.energy().total))))


def _settled(quick):
    """Period and fall a period of the motion that repeats itself."""
    if quick:
        return {}
    sol = mbd.simulate(*toy(), t_end=1.6, h=5e-5)
    strikes = times_of_impact(sol)
    height = np.interp(strikes, np.asarray(sol.t), np.asarray(sol.r[:, 0, 2]))
    t, q, struck = minimal(1.6, 2e-6)
    found = t[struck > 0.0]
    return {
        "period": float(np.mean(np.diff(strikes[-5:]))),
        "period_in_minimal_coordinates": float(np.mean(np.diff(found[-5:]))),
        "fall": float(-np.mean(np.diff(height[-5:]))),
        "fall_in_minimal_coordinates": float(-np.mean(np.diff(q[struck > 0.0, 0][-5:]))),
    }


def _linearized(quick):
    """The published model by the same program in minimal coordinates, beside that of Siconos."""
    if quick:
        return {}
    t, q, _ = minimal(0.3, 2e-5, turned_linearly)
    row = np.argmin(np.abs(t - SICONOS_TIME))
    t, _, struck = minimal(1.6, 2e-6, turned_linearly)
    return {
        "linearized_period": float(np.mean(np.diff(t[struck > 0.0][-5:]))),
        "linearized_differs_from_siconos": np.abs(q[row] - SICONOS).tolist(),
    }
