"""Where accuracy ends: a fast spin at a fixed step, single precision, and very small steps.

python -m experiments limits [--out DIR] [--quick]
"""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
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
SINGLE = ("four_bar", "slider_crank", "double_pendulum", "revolute_chain:8")


def largest(x) -> float:
    """Absolute value."""
    return float(np.max(np.abs(np.asarray(x))))


# A fast top


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


# Single precision


def narrow(tree):
    """Floating-point arrays in single precision."""
    return jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, tree)


def single_precision(quick: bool) -> dict:
    """Differences to double precision, relative to the largest value of the motion."""
    h, steps = 1e-3, 20 if quick else 500
    found = {}
    for model in SINGLE[:1] if quick else SINGLE:
        system, state = mbd.load(model)
        for method in (mbd.ImplicitEuler(), mbd.GeneralizedAlpha()):
            double = mbd.simulate(system, state, h=h, steps=steps, integrator=method)
            single = mbd.simulate(
                narrow(system), narrow(state), h=h, steps=steps, integrator=method, throw=False
            )
            length = float(system.length)
            row = {"violation": largest(single.violation().position) / length}
            row["positions"] = largest(single.r - double.r) / length
            for name in ("v", "a", "lam"):
                wanted = getattr(double, name)
                row[name] = largest(getattr(single, name)[1:] - wanted[1:]) / largest(wanted)
            if isinstance(method, mbd.ImplicitEuler):
                at = double.at(-1)
                exact = mbd.accelerations(system, at, t=double.t[-1])
                rough = mbd.accelerations(narrow(system), narrow(at), t=narrow(double.t)[-1])
                row["accelerations_at_a_state"] = largest(rough.a - exact.a) / largest(exact.a)
            found[f"{model} {type(method).__name__}"] = row
    return {"step_s": h, "steps": steps, "models": found}


# Very small steps


def small_steps(quick: bool) -> dict:
    """Noise of the accelerations of the steps: the difference to those of the equations of motion
    at the same row, relative to the largest.
    """
    found = {}
    for model in ("double_pendulum",) if quick else ("double_pendulum", "four_bar"):
        system, state = mbd.load(model)
        at = jax.jit(jax.vmap(lambda t, s, system=system: mbd.accelerations(system, s, t=t).a))
        for method in (mbd.GeneralizedAlpha(), mbd.ImplicitEuler()):
            for h in (1e-4,) if quick else (1e-3, 1e-4, 1e-5):
                sol = mbd.simulate(system, state, h=h, steps=50, integrator=method)
                exact = at(sol.t, mbd.State(sol.r, sol.A, sol.v, sol.omega))
                # Noise alone: second differences leave out the smooth error of the method.
                noise = jnp.diff(sol.a - exact, 2, axis=0)[5:]
                key = f"{model} {type(method).__name__} {h:g}"
                found[key] = largest(noise) / largest(exact)
    return {"steps": 50, "relative_noise": found}


PARTS = {"fast_spin": fast_spin, "single_precision": single_precision, "small_steps": small_steps}


def run(out: Path, quick: bool) -> None:
    """One method, one model each, and few steps where `quick`."""
    results = {}
    for name, part in PARTS.items():
        results[name] = part(quick)
        (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))
