"""Which step a training needs: the energy of poles that fall freely, by step and damping."""

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

from . import problem

RATE, SECONDS = 10.0, 2.0  # of the poles at the start [rad/s], of a run [s]
STEPS = (1.0 / 30.0, 1.0 / 60.0, 1.0 / 120.0)  # [s]
METHODS = {
    "generalized-alpha, 0.8": mbd.GeneralizedAlpha(rho_inf=0.8),
    "generalized-alpha, 0.5": mbd.GeneralizedAlpha(rho_inf=0.5),
    "generalized-alpha, 0.8, velocity projection": mbd.GeneralizedAlpha(
        rho_inf=0.8, velocity_projection=True
    ),
}


def no_force(q, v):
    """The cart is free."""
    return 0.0 * q[0]


def run(quick: bool) -> dict:
    """Largest energy of a run over that of its start, which nothing raises."""
    start = problem.Start(jnp.array([0.0, 0.3]), jnp.array([0.0, RATE]))
    system, state = problem.built(no_force, start)
    found = {}
    for name, method in list(METHODS.items())[: 1 if quick else None]:
        found[name] = {}
        for h in STEPS[: 1 if quick else None]:
            sol = mbd.simulate(
                system, state, h=h, steps=round(SECONDS / h), integrator=method, throw=False
            )
            energy = np.asarray(sol.energy().total)
            found[name][f"{h:.4g}"] = float(np.nanmax(energy) / energy[0])
    return {"rate_rad_per_s": RATE, "seconds": SECONDS, "largest_energy_over_first": found}
