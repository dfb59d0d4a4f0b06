"""Tables 8 and 10: speed relative to rp, in the paper's iteration and in the package's, single,
batch and gradient; what of it belongs to rows written by hand.

Also the machine-independent account: operations and bytes of one step by XLA's cost analysis.
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
from jaxmbd.equations.rows import dense_rows

from .models import paper_model

H = 1e-3
KINEMATIC = ("single_pendulum", "four_link", "slider_crank")
DYNAMIC = ("single_pendulum", "double_pendulum", "four_link", "slider_crank")
PAPER_KINEMATICS = {"newton": mbd.Newton(1e-10, exact=False)}
PAPER_INTEGRATOR = mbd.ImplicitEuler(
    newton=mbd.Newton(1e-3, exact=False, criterion="correction", tangent=False)
)
# Gradients of an open chain and a closed loop; steps of all four.
BY_HAND = ("double_pendulum", "slider_crank")
# Every formulation with both kinds of rows.
ROWS = {
    "rA closed": mbd.RA(),
    "rA automatic": mbd.RA(rows="automatic"),
    "rp closed": mbd.RP(rows="closed"),
    "rp automatic": mbd.RP(),
    "reps closed": mbd.REps(rows="closed"),
    "reps automatic": mbd.REps(),
}


def dynamics_run(formulation, steps, integrator):
    """A compiled rollout that saves its last row."""

    def run(system, state):
        return mbd.simulate(
            system,
            state,
            h=H,
            steps=steps,
            save_every=steps,
            formulation=formulation,
            integrator=integrator,
        )

    return run


def kinematics_run(formulation, steps, **options):
    ts = jnp.arange(steps + 1) * H

    def run(system, state):
        return mbd.kinematics(system, state, ts, formulation=formulation, **options)

    return run


def single(run):
    return eqx.filter_jit(run)


def batch(run, size):
    """The run over `size` copies of every number in the system, masses from 0.8 to 1.2 times their
    value.
    """

    def prepare(system, state):
        numbers, rest = eqx.partition(system, eqx.is_array)
        numbers = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), numbers)
        factor = jnp.linspace(0.8, 1.2, size)
        return eqx.tree_at(
            lambda s: s.mass, eqx.combine(numbers, rest), numbers.mass * factor[:, None]
        ), state

    mapped = eqx.filter_jit(eqx.filter_vmap(run, in_axes=(eqx.if_array(0), None)))
    return lambda system, state: mapped(*prepare(system, state))


def gradient(run):
    """The reverse-mode gradient of the last positions by every number in the system."""

    @eqx.filter_jit
    @eqx.filter_grad
    def grad(system, state):
        return jnp.sum(run(system, state).r[-1] ** 2)

    return grad


def race(jobs, system, state, repeats):
    """Processor seconds of every job, (repeats,) each, taken in turn so that a slow moment of the
    machine hits all of them.
    """
    for job in jobs.values():
        jax.block_until_ready(eqx.filter(job(system, state), eqx.is_array))
    times = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            begin = time.process_time()
            jax.block_until_ready(eqx.filter(job(system, state), eqx.is_array))
            times[name].append(time.process_time() - begin)
    return {name: np.array(t) for name, t in times.items()}


def speedup(times):
    """Mean speed relative to rp of paired runs, and its standard deviation, by formulation."""
    return {
        name: {
            "mean": float(times["rp"].mean() / t.mean()),
            "spread": float(np.std(times["rp"] / t)),
        }
        for name, t in times.items()
    }


def tables_8_and_10(settings, tick):
    """Speed relative to rp with the paper's drivers, frozen iteration and tolerances."""
    out = {
        "table8_kinematics_speedup": {},
        "table10_dynamics_speedup": {},
        "paper_mode_us_per_step": {},
    }
    steps, repeats = settings.steps, settings.repeats
    for key, models in (
        ("table8_kinematics_speedup", KINEMATIC),
        ("table10_dynamics_speedup", DYNAMIC),
    ):
        for model in settings.choose(models):
            system, state = paper_model(model)
            jobs = {}
            for name, formulation in settings.formulations.items():
                if models is KINEMATIC:
                    run = kinematics_run(formulation(), steps, **PAPER_KINEMATICS)
                else:
                    run = dynamics_run(formulation(), steps, PAPER_INTEGRATOR)
                jobs[name] = single(run)
            times = race(jobs, system, state, repeats)
            ratios = speedup(times)
            out[key][model] = {name: r["mean"] for name, r in ratios.items()}
            spread = out.setdefault(key + "_spread", {})
            spread[model] = {name: r["spread"] for name, r in ratios.items()}
            kind = out["paper_mode_us_per_step"].setdefault(
                "kinematics" if models is KINEMATIC else "dynamics", {}
            )
            kind[model] = {name: float(t.mean() / steps * 1e6) for name, t in times.items()}
            tick()
    return out


def rows(settings, tick):
    """Microseconds a step of dynamics with rows by hand and with automatic ones: the paper's mode,
    and the gradient of a rollout in the package's own.
    """
    out = {"rows_us_per_step": {}, "rows_spread": {}, "rows_closed_speedup": {}}
    chosen = list(ROWS)[: 4 if settings.quick else None]
    own = mbd.ImplicitEuler()
    others = tuple(model for model in DYNAMIC if model not in BY_HAND)
    for model in settings.choose((*BY_HAND, *others)):
        paper, own_model = paper_model(model), mbd.load(model)
        table = out["rows_us_per_step"][model] = {name: {} for name in chosen}
        spread = out["rows_spread"][model] = {name: {} for name in chosen}
        for column, steps, wrap, integrator, (system, state) in (
            ("single", settings.steps, single, PAPER_INTEGRATOR, paper),
            ("gradient", settings.gradient_steps, gradient, own, own_model),
        ):
            if column == "gradient" and (settings.quick or model in others):
                continue
            jobs = {n: wrap(dynamics_run(ROWS[n], steps, integrator)) for n in chosen}
            times = race(jobs, system, state, settings.repeats)
            for name, t in times.items():
                table[name][column] = float(t.mean() / steps * 1e6)
                spread[name][column] = float(t.std() / steps * 1e6)
            # By hand against by hand.
            closed = {n.split()[0]: t for n, t in times.items() if n.endswith("closed")}
            out["rows_closed_speedup"].setdefault(model, {})[column] = speedup(closed)
            tick()
    return out


def columns(settings, tick):
    """Microseconds a step, and a member, in the package's own Newton: single trajectory, batch and
    gradient.
    """
    out = {"us_per_step": {}, "us_per_step_spread": {}, "kinematics_us_per_step": {}}
    size = settings.batch
    for kind, models in (
        ("us_per_step", DYNAMIC),
        ("kinematics_us_per_step", () if settings.quick else KINEMATIC),
    ):
        for model in settings.choose(models):
            system, state = mbd.load(model)
            make = dynamics_run if models is DYNAMIC else kinematics_run
            extra = {"integrator": mbd.ImplicitEuler()} if models is DYNAMIC else {}
            table = out[kind][model] = {name: {} for name in settings.formulations}
            for column, steps, wrap, members in (
                ("single", settings.steps, single, 1),
                (
                    f"batch{settings.batch}",
                    settings.batch_steps,
                    lambda run: batch(run, size),
                    size,
                ),
                ("gradient", settings.gradient_steps, gradient, 1),
            ):
                jobs = {
                    n: wrap(make(f(), steps, **extra)) for n, f in settings.formulations.items()
                }
                times = race(jobs, system, state, settings.repeats)
                for name, t in times.items():
                    table[name][column] = float(t.mean() / steps / members * 1e6)
                    spread = out["us_per_step_spread"].setdefault(kind, {}).setdefault(model, {})
                    spread.setdefault(name, {})[column] = float(t.std() / steps / members * 1e6)
                tick()
    return out


def _cost(function, *args):
    analysis = jax.jit(function).lower(*args).compile().cost_analysis()
    return {
        "flops": float(analysis.get("flops", 0.0)),
        "transcendentals": float(analysis.get("transcendentals", 0.0)),
        "bytes": float(analysis.get("bytes accessed", 0.0)),
    }


def operations(settings, tick):
    """Operations and bytes of one step: one quasi matrix, one factorization, k residuals and
    back-substitutions.

    XLA counts what it compiles and does not see into LAPACK: the factorization, 2/3 n³, and the
    substitutions, 2 n², are added in closed form, with 8 n² and 8 n² bytes.
    """
    out = {"flops_per_step": {}, "bytes_per_step": {}, "operations": {}}
    for model in settings.choose(DYNAMIC):
        system, state = mbd.load(model)
        sol = mbd.simulate(system, state, h=H, steps=20, integrator=mbd.ImplicitEuler())
        state = mbd.State(sol.r[-1], sol.A[-1], sol.v[-1], sol.omega[-1])
        for table in out.values():
            table[model] = {}
        for name, make in settings.formulations.items():
            formulation = make()
            t, h = jnp.asarray(0.02), jnp.asarray(H)
            q, u = formulation.from_state(state)
            problem = Index3Step(formulation, "auto", "position", 10)
            data = StepData(system.at(t), q, u, h * u, t, StepScales(h, h**2))
            n_a, rows = u.size, len(equations.row_bodies(formulation, system))
            n = n_a + rows
            x = jnp.zeros(n)
            numbers, rest = eqx.partition(data, eqx.is_array)

            def residual(x, numbers, problem=problem, rest=rest):
                return problem.residual(x, eqx.combine(numbers, rest))

            def matrix(x, numbers, problem=problem, rest=rest):
                return problem.matrix(x, eqx.combine(numbers, rest), exact=False).dense()

            def exact(x, numbers, problem=problem, rest=rest):
                return problem.matrix(x, eqx.combine(numbers, rest), exact=True).dense()

            parts = {
                "residual": _cost(residual, x, numbers),
                "matrix": _cost(matrix, x, numbers),
                "exact_matrix": _cost(exact, x, numbers),
                "jacobian": _cost(lambda q, f=formulation, s=data.system: dense_rows(f, s, q), q),
            }
            k = 2  # iterations, as measured at this step (see us_per_step and table 9)
            flops = (
                parts["matrix"]["flops"]
                + k * parts["residual"]["flops"]
                + 2 / 3 * n**3
                + k * 2 * n**2
            )
            moved = parts["matrix"]["bytes"] + k * parts["residual"]["bytes"] + 8 * n**2 * (1 + k)
            out["flops_per_step"][model][name] = flops
            out["bytes_per_step"][model][name] = moved
            linear = {"unknowns": n, "factor_flops": 2 / 3 * n**3, "solve_flops": 2.0 * n**2}
            out["operations"][model][name] = parts | linear
        tick()
    return out
