"""The reduced scheme without reparametrization beside the other two: what remains of the unknowns,
of the condition number and of the time.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.equations import midpoint, reduced_balance
from jaxmbd.equations.rows import row_bodies
from jaxmbd.equations.spanning_tree import spanning_tree

SCHEMES = {
    "constrained": mbd.EnergyMomentum(),
    "coordinates": mbd.EnergyMomentum(reduced=True, unknowns="coordinates"),
    "increments": mbd.EnergyMomentum(reduced=True),
}
TIMED_STEPS, ROUNDS = 200, 10


def compared(system, state, h, steps):
    """By scheme: unknowns, seconds reached, mean iterations, microseconds a step, largest relative
    deviation of energy and largest difference [m] from the constrained scheme's motion; and the
    condition number of the matrix of the coordinates at the end of the first step.
    """
    tree = spanning_tree(system)
    unknowns = {
        "constrained": 12 * system.nb + len(row_bodies(mbd.Directors(), system)),
        "coordinates": 12 * system.nb,
        "increments": tree.freedoms,
    }
    found, motions, timed = {}, {}, {}
    for name, scheme in SCHEMES.items():

        def run(h, steps, every=1, scheme=scheme):
            return mbd.simulate(
                system,
                state,
                h=h,
                steps=steps,
                save_every=every,
                formulation=mbd.Directors(),
                integrator=scheme,
                throw=False,
            )

        sol = motions[name] = run(h, steps)
        total, kinetic = sol.energy(system).total, np.asarray(sol.energy(system).kinetic)
        good = np.isfinite(kinetic)  # as far as it went
        drift = np.max(np.abs(total - total[0])[good]) / np.max(kinetic[good])
        apart = np.abs(sol.r - motions["constrained"].r)[good]
        found[name] = {
            "unknowns": unknowns[name],
            "seconds_reached": float(np.asarray(sol.t)[good][-1]),
            "iterations_mean": float(np.mean(np.asarray(sol.iterations)[good][1:])),
            "energy_rel_dev_max": float(drift),
            "difference_max": float(np.max(apart)),
        }
        timed[name] = (
            jax.jit(lambda h, run=run: run(h, TIMED_STEPS, TIMED_STEPS).r[-1]).lower(1.0).compile()
        )
    for name, us in _in_turn(timed, h).items():
        found[name]["us_per_step"] = us
    found["condition_coordinates"] = _condition(system, state, tree, motions["constrained"], h)
    return found


def _in_turn(timed, h):
    """Best processor microseconds a step of every scheme, in turn."""
    best = dict.fromkeys(timed, np.inf)
    for _ in range(ROUNDS):
        for name, run in timed.items():
            start = time.process_time()
            run(jnp.asarray(h)).block_until_ready()
            best[name] = min(best[name], time.process_time() - start)
    return {name: least / TIMED_STEPS * 1e6 for name, least in best.items()}


def _condition(system, state, tree, sol, h):
    """Condition number of the derivative of the equations in the coordinates, first step."""
    q, u = mbd.Directors().from_state(state)
    after, _ = mbd.Directors().from_state(mbd.State(sol.r[1], sol.A[1], sol.v[1], sol.omega[1]))
    chosen = None
    if len(tree.closures):
        rank = np.linalg.matrix_rank(np.array(reduced_balance.closures_now(system, tree, q, 0.0)))
        chosen = reduced_balance.enforced_rows(system, tree, q, jnp.zeros(()), jnp.asarray(rank))
    t = jnp.asarray(h)
    args = midpoint.StepData(system.at(t), system.at(t / 2), q, u, t / 2, t, chosen)
    equations = reduced_balance.SizeReduced(reduced_balance.Reduced(tree, args, "hand"))
    return float(np.linalg.cond(jax.jit(jax.jacfwd(equations.residual))(after.reshape(-1))))
