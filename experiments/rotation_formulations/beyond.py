"""Beyond the paper: spatial motion with freedoms, accuracy against cost, conditioning, the
singularity of angles.
"""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.equations import rows as equations
from jaxmbd.equations.index3 import Index3Step, StepData
from jaxmbd.equations.motion import StepScales
from jaxmbd.rotations import so3

from .. import reference_solutions
from .accuracy import rollout, slope, succeeded
from .models import CHAIN, OneChart, passing_body

SPATIAL = {"spinning_chain": 0.2, "slider_crank_free": 0.2}  # seconds
PACKAGED = {"spinning_chain": "spherical_double_pendulum"}  # where the names differ
DIVISIONS = (200, 400, 800, 1600, 3200, 6400, 12800)


def _references():
    """Positions and rates at the end of the two spatial runs, from equations without this package's
    mechanics.
    """
    chain = reference_solutions.spherical_chain(**CHAIN, t_end=SPATIAL["spinning_chain"])
    system, state = mbd.load("slider_crank_free")
    assembled, _ = mbd.assemble(system, state)
    crank = reference_solutions.free_slider_crank(
        *reference_solutions.crank_of(assembled), SPATIAL["slider_crank_free"]
    )
    return {"spinning_chain": chain, "slider_crank_free": crank}


def _errors(model, sol, reference):
    """Largest error of position [m] and of rate [rad/s] at the end."""
    r, omega = np.asarray(sol.r)[-1], np.asarray(sol.omega)[-1]
    if model == "spinning_chain":
        return np.max(np.abs(r - reference[0])), np.max(np.abs(omega - reference[2]))
    return abs(r[2, 0] - reference[2]), abs(omega[0, 0] - reference[1])


def spatial(settings, tick):
    """Errors of three formulations on spatial mechanisms with freedoms, against step size and
    against time spent.
    """
    out = {"spatial": {}}
    references = _references()
    divisions = DIVISIONS[:4] if settings.quick else DIVISIONS
    for model in settings.choose(tuple(SPATIAL)):
        seconds = SPATIAL[model]
        system, state = mbd.load(PACKAGED.get(model, model))
        table = out["spatial"][model] = {"seconds": seconds, "h": [seconds / d for d in divisions]}
        for name, make in settings.formulations.items():
            position, rate = [], []
            for d in divisions:
                sol = rollout(system, state, seconds / d, d, make(), integrator=mbd.ImplicitEuler())
                e = _errors(model, sol, references[model])
                position.append(float(e[0]))
                rate.append(float(e[1]))
            h = np.array(table["h"])
            table[name] = {
                "position_error": position,
                "rate_error": rate,
                "order_position": slope(h[-3:], position[-3:]),
                "order_rate": slope(h[-3:], rate[-3:]),
                "us_per_step": _us_per_step(settings, system, state, seconds, make()),
            }
        tick()
    return out


def _us_per_step(settings, system, state, seconds, formulation):
    """Processor microseconds a step inside one compiled loop, best of the repetitions."""
    steps = 200 if settings.quick else 6400

    @jax.jit
    def run(h):
        return mbd.simulate(
            system,
            state,
            h=h,
            steps=steps,
            save_every=steps,
            formulation=formulation,
            integrator=mbd.ImplicitEuler(),
        ).r

    h, best = seconds / steps, np.inf
    run(h).block_until_ready()
    for _ in range(settings.repeats):
        begin = time.process_time()
        run(h).block_until_ready()
        best = min(best, time.process_time() - begin)
    return best / steps * 1e6


@eqx.filter_jit
def _iteration_matrix(formulation, system, state, h):
    """The quasi-Newton matrix at a state, its last rows those of the constraints divided by h²."""
    q, u = formulation.from_state(state)
    problem = Index3Step(formulation, "auto", "position", 10)
    data = StepData(system.at(jnp.zeros(())), q, u, h * u, jnp.zeros(()), StepScales(h, h**2))
    x = jnp.zeros(u.size + len(equations.row_bodies(formulation, system)))
    return problem.matrix(x, data, exact=False).dense()


def conditioning(settings, tick):
    """2-norm condition number of the iteration matrix against the step, with rows Φ/h² and with
    rows Φ.
    """
    out = {"condition": {}}
    steps = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]
    for model in settings.choose(
        ("single_pendulum", "double_pendulum", "four_link", "slider_crank")
    ):
        system, state = mbd.load(model)
        state, _ = mbd.assemble(system, state)
        table = out["condition"][model] = {"h": steps}
        for name, make in settings.formulations.items():
            scaled, plain = [], []
            for h in steps:
                K = np.array(_iteration_matrix(make(), system, state, jnp.asarray(h)))
                rows = len(equations.row_bodies(make(), system))
                scaled.append(float(np.linalg.cond(K)))
                K[-rows:] *= h * h  # what Newton's matrix is when the residual carries Φ itself
                plain.append(float(np.linalg.cond(K)))
            table[name] = {"scaled": scaled, "unscaled": plain}
        tick()
    return out


MISSES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4, 1e-6)


def singularity(settings, tick):
    """A body whose third axis passes the vertical at a small angle: one chart, the package's
    charts, rA and rp.
    """
    steps = 500
    h = np.pi / 2 / 2.0 / steps  # a quarter turn at 2 rad/s
    misses = MISSES[::3] if settings.quick else MISSES
    out = {"miss": list(misses)}
    end = so3.exp(jnp.array([np.pi / 2, 0.0, 0.0]))
    for name, make in (settings.formulations | {"one chart": OneChart}).items():
        rows = {"angle_error": [], "iterations": [], "condition_max": [], "completed": []}
        for miss in misses:
            system, state = passing_body(miss)
            sol = mbd.simulate(
                system,
                state,
                h=h,
                steps=steps,
                formulation=make(),
                integrator=mbd.ImplicitEuler(),
                throw=False,
            )
            good = succeeded(sol)
            error = (
                so3.log((end @ state.A[0]).T @ sol.A[-1, 0]) if good else jnp.array([jnp.nan] * 3)
            )
            rows["angle_error"].append(float(jnp.linalg.norm(error)) if good else None)
            rows["iterations"].append(
                float(np.mean(np.asarray(sol.iterations)[1:])) if good else None
            )
            rows["completed"].append(int(sol.stats["completed_steps"]))
            # Conditioning on the exact motion at closest approach.
            middle = so3.exp(jnp.array([np.pi / 4, 0.0, 0.0]))
            near = mbd.State(
                (middle @ state.r[0])[None], (middle @ state.A[0])[None], state.v, state.omega
            )
            K = np.asarray(_iteration_matrix(make(), system, near, jnp.asarray(h)))
            rows["condition_max"].append(float(np.linalg.cond(K)))
        out[name] = rows
        tick()
    return {"singularity": out}
