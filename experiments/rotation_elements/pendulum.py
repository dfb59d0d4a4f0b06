"""The paper's double pendulum: angles, orders, drift and multipliers in rotation-matrix
elements.
"""

import numpy as np

import jaxmbd as mbd

from ..reference_solutions import bar_pendulum, spherical_chain

TIMES = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
STEPS = {"every_stage": (1e-2, 5e-3, 2.5e-3, 1.25e-3), "frozen": (1e-3, 5e-4, 2.5e-4, 1.25e-4)}
TABLE_STEP = 2.5e-3
CHAIN_OMEGA = np.array([[3.0, -1.0, 2.0], [-2.0, 4.0, 1.0]])
CHAIN_INERTIA = np.diag([0.002, 0.006, 0.007])


def simulated(h, t_end, multipliers="every_stage", case=None):
    """A run saved at every fourth step."""
    system, state = case or mbd.load("bar_pendulum")
    n = round(t_end / h)
    sol = mbd.simulate(
        system,
        state,
        h=h,
        steps=n,
        save_every=4,
        formulation=mbd.RotationElements(),
        integrator=mbd.RungeKutta(multipliers=multipliers),
        throw=False,
    )
    return system, sol


def angles(sol):
    """φ and ψ [rad], (T, 2): directions of the bars (Eq. 27, corrected)."""
    A = np.asarray(sol.A)
    return np.arctan2(A[:, :, 1, 0], A[:, :, 0, 0])


def drift(sol):
    """Largest |RᵀR - I|."""
    A = np.asarray(sol.A)
    return float(np.max(np.abs(np.einsum("tbji,tbjk->tbik", A, A) - np.eye(3))))


def table(t_end):
    """Angles at the table's times, with their errors."""
    _, sol = simulated(TABLE_STEP, t_end)
    t, found = np.asarray(sol.t), angles(sol)
    reference = bar_pendulum(t)
    rows = {}
    for time in TIMES:
        if time <= t_end:
            k = int(np.argmin(np.abs(t - time)))
            rows[f"{time:g}"] = {
                "phi": found[k, 0],
                "psi": found[k, 1],
                "phi_error": abs(found[k, 0] - reference[k, 0]),
                "psi_error": abs(found[k, 1] - reference[k, 1]),
            }
    return rows


def study(kind, t_end, steps):
    """Errors of ψ, orthogonality and joints by step, and the order of the finer steps."""
    found = {"psi_error": {}, "orthogonality": {}, "joints": {}}
    for h in steps:
        system, sol = simulated(h, t_end, multipliers=kind)
        key = f"{h:g}"
        found["psi_error"][key] = float(
            abs(angles(sol)[-1, 1] - bar_pendulum(np.asarray(sol.t))[-1, 1])
        )
        found["orthogonality"][key] = drift(sol)
        found["joints"][key] = float(np.max(np.abs(np.asarray(sol.violation(system).position))))
    fine = [h for h in steps if np.isfinite(found["psi_error"][f"{h:g}"])][-3:]
    errors = [found["psi_error"][f"{h:g}"] for h in fine]
    order = float(np.polyfit(np.log(fine), np.log(errors), 1)[0]) if len(fine) > 1 else None
    return order, found


def multipliers(sol, system):
    """Histories (T, 12): Λ₁ and Λ₂ (11, 12, 22), and λ₀₁, λ₁₂ (the forces that the paper calls
    multipliers).
    """
    rigidity, forces = np.asarray(sol.stats["rigidity"]), sol.reactions(system)
    own = [rigidity[:, b, i, j] for b in (0, 1) for i, j in ((0, 0), (0, 1), (1, 1))]
    # Eq. 21: bar 1 gets -λ₀₁ + λ₁₂, bar 2 gets -λ₁₂.
    joints = [-np.asarray(forces[name].force) for name in ("O", "H")]
    return np.concatenate([np.stack(own, axis=1), *joints], axis=1)


def at_start(sol, system):
    """Multipliers at t = 0 by name."""
    row = multipliers(sol, system)[0]
    return {
        "Lambda_1": dict(zip(("11", "12", "22"), row[:3].tolist(), strict=True)),
        "Lambda_2": dict(zip(("11", "12", "22"), row[3:6].tolist(), strict=True)),
        "lambda_01": row[6:9].tolist(),
        "lambda_12": row[9:].tolist(),
    }


def spinning_chain():
    """The packaged spherical double pendulum with lighter bars, spun out of any plane."""
    v = np.cross(CHAIN_OMEGA[0], [0.1, 0, 0])
    speeds = (v, 2 * v + np.cross(CHAIN_OMEGA[1], [0.1, 0, 0]))
    values = {}
    for body, omega, speed in zip(("body_1", "body_2"), CHAIN_OMEGA, speeds, strict=True):
        bar = {"mass": 0.5, "inertia": CHAIN_INERTIA, "omega": omega, "v": speed}
        values |= {f"bodies.{body}.{key}": value for key, value in bar.items()}
    return mbd.load_mechanism("spherical_double_pendulum").with_values(values).build()


def spatial(steps, t_end):
    """The spinning chain against Kane's equations: order and errors of positions, joint drift."""
    half, whole = np.array([[0.1, 0, 0]] * 2), np.array([[0.2, 0, 0]] * 2)
    reference = spherical_chain(
        [0.5] * 2, [CHAIN_INERTIA] * 2, half, whole, [np.eye(3)] * 2, CHAIN_OMEGA, t_end
    )
    case, errors, joints = spinning_chain(), [], []
    for h in steps:
        system, sol = simulated(h, t_end, case=case)
        errors.append(float(np.max(np.abs(np.asarray(sol.r[-1]) - reference[0]))))
        joints.append(float(np.max(np.abs(np.asarray(sol.violation(system).position)))))
    order = float(np.polyfit(np.log(steps), np.log(errors), 1)[0])
    by_step = dict(zip((f"{h:g}" for h in steps), errors, strict=True))
    return {"order": order, "position_error": by_step, "joints": max(joints)}


def largest_elimination_gap(count, seed=0):
    """Largest relative difference of multipliers and accelerations of the two eliminations, on
    random states.
    """
    import jax
    import jax.numpy as jnp

    from jaxmbd.equations.index1 import dynamic_accelerations
    from jaxmbd.rotations import so3

    system, _ = mbd.load("bar_pendulum")
    rng = np.random.default_rng(seed)
    turns = jax.vmap(jax.vmap(so3.exp))(jnp.asarray(rng.normal(size=(count, 2, 3))))
    r, v, omega = (jnp.asarray(rng.normal(size=(count, 2, 3))) for _ in range(3))
    states = mbd.State(r, turns, v, omega)

    def by(elimination):
        f = mbd.RotationElements(elimination)

        def one(state):
            q, u = f.from_state(state)
            a, lam = dynamic_accelerations(f, system, q, u, jnp.zeros(()))
            return a.reshape(-1), lam

        return jax.jit(jax.vmap(one))(states)

    gaps = [
        jnp.max(jnp.max(jnp.abs(a - b), axis=1) / jnp.max(jnp.abs(b), axis=1))
        for a, b in zip(by("two_step"), by("one_shot"), strict=True)
    ]
    return float(max(gaps))
