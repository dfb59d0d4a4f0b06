"""Stepping, batches and gradients of one formulation, compiled as users compile them: run by
test_default_flags.py in a process of its own, which prints what it finds as JSON."""

import json
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from helpers import ALL_FORMULATIONS, top_reference

STEP, STEPS = 1e-3, 200
INERTIA = np.array([[0.5, 0.08, -0.05], [0.08, 0.7, 0.06], [-0.05, 0.06, 0.4]])
CENTER, MASS, OMEGA = np.array([0.1, 0.05, 0.4]), 2.0, np.array([1.0, -2.0, 8.0])
FACTORS = 1.0 + 1e-4 * np.array([-1.0, 0.0, 1.0])


def top():
    """A top on a ball joint, with full inertia."""
    m = mbd.Mechanism("top")
    v = np.cross(OMEGA, CENTER)
    m.add_body("body", mass=MASS, inertia=INERTIA, r=CENTER, omega=OMEGA, v=v)
    m.add(mbd.Spherical("pivot", m.ground, "body", point=(0, 0, 0)))
    return m.build()


def main():
    mbd.enable_x64()
    system, state = top()
    s = CENTER
    about_pivot = INERTIA + MASS * (s @ s * np.eye(3) - np.outer(s, s))
    gravity = np.array([0, 0, -9.81])
    A, _ = top_reference(about_pivot, MASS, s, gravity, OMEGA, STEP * STEPS)
    (formulation,) = [f for f in ALL_FORMULATIONS if f.name == sys.argv[1]]
    method = mbd.GeneralizedAlpha()
    if isinstance(formulation, mbd.RotationElements):
        method = mbd.RungeKutta()
    options = {"formulation": formulation, "integrator": method, "h": STEP, "steps": STEPS}
    sol = mbd.simulate(system, state, **options)

    def height(factor):
        heavier = eqx.tree_at(lambda s: s.inertia, system, factor * system.inertia)
        return mbd.simulate(heavier, state, save_every=STEPS, **options).r[-1, 0, 2]

    heights, slopes = jax.jit(jax.vmap(jax.value_and_grad(height)))(jnp.array(FACTORS))
    difference = (heights[2] - heights[0]) / (FACTORS[2] - FACTORS[0])
    found = {
        "rotation_error": float(np.max(np.abs(sol.A[-1, 0] - A))),
        "batch_gap": float(abs(heights[1] - sol.r[-1, 0, 2])),
        "slope": float(slopes[1]),
        "difference": float(difference),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
