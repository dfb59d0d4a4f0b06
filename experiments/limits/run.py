"""Where accuracy ends: a fast spin at a fixed step, by all methods.

python -m experiments limits [--out DIR] [--quick]
"""

import json
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp
from tqdm import tqdm

import jaxmbd as mbd

MASS, MOMENTS, TIP = 2.0, np.array([0.1, 0.12, 0.05]), np.array([0.0, 0.0, -0.5])
SPIN = np.array([3.0, -2.0, 150.0])  # at the start, body frame [rad/s]
LEAN = 0.3  # of the axis from the vertical at the start [rad]
GRAVITY = np.array([0.0, 0.0, -9.81])
METHODS = {
    'MuntheKaas("SE3")': {"integrator": mbd.MuntheKaas("SE3")},
    'MuntheKaas("SO3xR3")': {"integrator": mbd.MuntheKaas("SO3xR3")},
    "GeneralizedAlpha()": {},
    "BDF2()": {"integrator": mbd.BDF2()},
    'GeneralizedAlpha(group="SE3")': {"integrator": mbd.GeneralizedAlpha(group="SE3")},
    "GeneralizedAlpha() with REps()": {"formulation": mbd.REps()},
    "GeneralizedAlpha() with RP()": {"formulation": mbd.RP()},
    "GeneralizedAlpha() with Directors()": {"formulation": mbd.Directors()},
}


def largest(x) -> float:
    """Absolute value."""
    return float(np.max(np.abs(np.asarray(x))))


def top():
    """A body on a ball joint at its tip, spinning about no principal axis exactly."""
    m = mbd.Mechanism("fast top", gravity=GRAVITY)
    c, s = np.cos(LEAN), np.sin(LEAN)
    A = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    v = A @ np.cross(SPIN, -TIP)
    body = m.add_body("top", mass=MASS, inertia=MOMENTS, r=-A @ TIP, A=A, v=v, omega=SPIN)
    m.add(mbd.Spherical("tip", m.ground, body, point=(0.0, 0.0, 0.0)))
    return m


def orientation(A, seconds: float) -> np.ndarray:
    """A at the end by Euler's equations about the tip and Ȧ = A skew(ω), by DOP853."""
    J = np.diag(MOMENTS) + MASS * (TIP @ TIP * np.eye(3) - np.outer(TIP, TIP))

    def rate(t, y):
        A, omega = y[:9].reshape(3, 3), y[9:]
        moment = np.cross(-TIP, A.T @ (MASS * GRAVITY))
        turning = np.linalg.solve(J, moment - np.cross(omega, J @ omega))
        # Row by row: aᵀ skew(ω) = (a × ω)ᵀ.
        return np.concatenate([np.cross(A, omega).ravel(), turning])

    y = np.concatenate([A.ravel(), SPIN])
    found = solve_ivp(rate, (0.0, seconds), y, method="DOP853", rtol=1e-12, atol=1e-13)
    return found.y[:9, -1].reshape(3, 3)


def fast_spin(quick: bool) -> dict:
    """Errors of the methods at 1 ms."""
    h, seconds = 1e-3, 0.05 if quick else 0.5
    system, state = top().build()
    wanted = orientation(np.asarray(state.A[0]), seconds)
    chosen = dict(list(METHODS.items())[:1]) if quick else METHODS
    found = {}
    for name, options in tqdm(chosen.items(), desc="fast spin", leave=False):
        sol = mbd.simulate(system, state, h=h, steps=round(seconds / h), **options)
        found[name] = {
            "error_of_A": largest(sol.A[-1, 0] - wanted),
            "violation_m": largest(sol.r[:, 0] + sol.A[:, 0] @ TIP),
        }
    return {"step_s": h, "seconds": seconds, "spin_rad_per_s": SPIN.tolist(), "methods": found}


def run(out: Path, quick: bool) -> None:
    """One method and few steps where `quick`."""
    results = {"fast_spin": fast_spin(quick)}
    text = json.dumps(results, indent=1)
    (out / "results.json").write_text(text + "\n")
    print(text)
