"""Gradients of a final position by mass and geometry, against central differences extrapolated from
two steps.
"""

import jax
import jax.numpy as jnp

import jaxmbd as mbd

from .models import MODELS

# Step [s], number of steps; by name the path, the direction in which it is moved, and the
# difference's step.
CASES = {
    "gyro_top": (
        5e-3,
        100,
        {"mass": ("bodies.top.mass", 1.0, 1e-4), "pivot": ("joints.tip.point", (0, 1, 0), 3e-5)},
    ),
    "cylindrical_pair": (
        1e-2,
        30,
        {
            "mass": ("bodies.sleeve.mass", 1.0, 1e-3),
            "point of the axis": ("joints.pair.point", (1, 0.5, 0), 1e-3),
        },
    ),
    "six_body_linkage": (
        1e-2,
        20,
        {
            "mass": ("bodies.body_3.mass", 1.0, 1e-3),
            "mass center": ("bodies.body_3.r", (0.3, 1, 0.5), 1e-4),
        },
    ),
}


def errors(name):
    """By parameter and scheme: the reverse gradient, the difference quotient, and their relative
    difference.
    """
    h, n, parameters = CASES[name]
    mechanism = MODELS[name]()
    found = {}
    for label, (path, direction, step) in parameters.items():
        start = jnp.asarray(mechanism.values()[path], float)
        for scheme, reduced in (("constrained", False), ("reduced", True)):
            method = mbd.EnergyMomentum(reduced=reduced, newton=mbd.Newton(1e-14))

            def end(s, path=path, start=start, direction=direction, method=method):
                moved = mechanism.with_values({path: start + s * jnp.asarray(direction, float)})
                sol = mbd.simulate(
                    *moved.build(),
                    h=h,
                    steps=n,
                    save_every=n,
                    formulation=mbd.Directors(),
                    integrator=method,
                )
                return jnp.sum(sol.r[-1] * jnp.array([[1.0, 2.0, 3.0]]))

            value = jax.jit(end)
            gradient = float(jax.jit(jax.grad(end))(0.0))
            wide, narrow = ((value(s) - value(-s)) / (2 * s) for s in (step, step / 2))
            difference = float((4.0 * narrow - wide) / 3.0)
            found.setdefault(label, {})[scheme] = {
                "reverse": gradient,
                "differences": difference,
                "relative_error": abs(gradient - difference) / abs(difference),
            }
    return found
