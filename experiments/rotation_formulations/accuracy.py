"""Table 9 and Figures 2 to 7: iterations against the step, and the order of the solution."""

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

from .. import reference_solutions
from .models import OneChart, paper_model

FIGURE_STEPS = np.array([1e-3, 2e-3, 4e-3, 8e-3, 1e-2, 2e-2])
FIGURE_TOLERANCE = 1e-11
# What figures 5 to 7 follow: body and component.
WATCHED = {"single_pendulum": (0, 2), "slider_crank": (2, 0), "four_link": (2, 2)}
ORDER_STEPS = 3.0 / np.array([30, 60, 120, 300, 600, 1500, 3000, 6000, 15000, 30000])


def frozen(theta, *, tangent=False):
    """The paper's iteration: one quasi-Newton matrix a step, stop on the norm of the whole
    correction. With `tangent` the matrix knows that rotation matrices move by exponentials.
    """
    return mbd.ImplicitEuler(
        newton=mbd.Newton(theta, exact=False, max_steps=40, criterion="correction", tangent=tangent)
    )


def exact(theta):
    """Newton's method with the exact matrix at every iteration, stopped as `frozen` is."""
    return mbd.ImplicitEuler(newton=mbd.Newton(theta, exact=True, criterion="correction"))


def succeeded(sol):
    return bool(sol.result == mbd.RESULTS.successful)


def slope(h, error):
    return float(np.polyfit(np.log(h), np.log(error), 1)[0])


def rollout(system, state, h, steps, formulation, **options):
    """Every step of a run, by the paper's implicit Euler unless `options` say otherwise."""
    options = {"integrator": mbd.ImplicitEuler()} | options
    return mbd.simulate(
        system,
        state,
        h=h,
        steps=steps,
        formulation=formulation,
        **options,
    )


def table_9(settings, tick):
    """Iterations of the position analysis, h = 1 ms, tolerance 1e-10: frozen as in the paper, and
    the package's own.
    """
    out = {
        "table9_iterations": {},
        "table9_own_newton": {},
        "table9_own_driver": {},
        "table9_own_charts": {},
    }
    ts = jnp.arange(3001) * 1e-3
    for model in settings.choose(("single_pendulum", "four_link", "slider_crank")):
        paper, state = paper_model(model)
        packaged, start = mbd.load(model)
        for table in out.values():
            table[model] = {}
        for name, make in settings.formulations.items():

            def mean(system, formulation, state=state, **options):
                sol = mbd.kinematics(
                    system, state, ts, formulation=formulation, throw=False, **options
                )
                return float(np.mean(np.asarray(sol.iterations)[1:])) if succeeded(sol) else None

            old = {"newton": mbd.Newton(1e-10, exact=False)}
            count = mean(paper, make(), **old)
            if name == "reps":
                out["table9_own_charts"][model][name] = count
                one = mean(paper, OneChart(), **old)
                count = count if one is None else one
            out["table9_iterations"][model][name] = count
            out["table9_own_driver"][model][name] = mean(packaged, make(), state=start, **old)
            out["table9_own_newton"][model][name] = mean(packaged, make(), state=start)
        tick()
    return out


def figures_2_and_4(settings, tick):
    """Mean iterations over 3 s of the four link against the step: kinematics, and dynamics by the
    paper's frozen matrix, by that with the exponential's tangent, and by Newton's method.
    """
    out = {
        "fig2_iterations": {},
        "fig4_iterations": {},
        "fig4_tangent": {},
        "fig4_newton": {},
        "fig_steps": FIGURE_STEPS[: 2 if settings.quick else None].tolist(),
    }
    system, state = paper_model("four_link")
    most = round(settings.seconds / FIGURE_STEPS[0])
    for name, make in settings.formulations.items():
        kinematic, dynamic, tangent, newton = [], [], [], []
        for h in out["fig_steps"]:
            # Runs of equal length share one program; only the first seconds count.
            count = round(settings.seconds / h)
            sol = mbd.kinematics(
                system,
                state,
                jnp.arange(most + 1) * h,
                formulation=make(),
                newton=mbd.Newton(FIGURE_TOLERANCE, exact=False),
                throw=False,
            )
            kinematic.append(_mean_of_first(sol, count))
            theta = FIGURE_TOLERANCE / h**2
            methods = [(dynamic, frozen(theta)), (newton, exact(theta))]
            if name == "rA":  # coordinates of the others are added to
                methods.append((tangent, frozen(theta, tangent=True)))
            for means, integrator in methods:
                sol = mbd.simulate(
                    system,
                    state,
                    h=h,
                    steps=most,
                    formulation=make(),
                    integrator=integrator,
                    throw=False,
                )
                means.append(_mean_of_first(sol, count))
        out["fig2_iterations"][name], out["fig4_iterations"][name] = kinematic, dynamic
        out["fig4_newton"][name] = newton
        out["fig4_tangent"][name] = tangent or dynamic
        tick()
    return {k: v if k == "fig_steps" else {"four_link": v} for k, v in out.items()}


def _mean_of_first(sol, count):
    iterations, r = np.asarray(sol.iterations)[1 : count + 1], np.asarray(sol.r)[1 : count + 1]
    return float(iterations.mean()) if np.all(np.isfinite(r)) else None


def figure_3(settings, tick):
    """Double pendulum: distance of the second bar's height from the reference, 5 s; the order over
    the first second.
    """
    out = {
        "fig3_max_dz": {},
        "fig3_order": {},
        "fig3_history": {},
        "fig3_steps": [1e-2, 1e-3, 1e-4],
    }
    system, state = mbd.load("double_pendulum")
    seconds = 0.5 if settings.quick else 5.0
    t = np.linspace(0, seconds, round(seconds / 1e-2) + 1)
    z = reference_solutions.double_pendulum(t)
    short = np.linspace(0, 1.0, 101)
    z_short = reference_solutions.double_pendulum(short)
    makers = dict(settings.formulations)
    if not settings.quick:
        makers["rp as printed"] = lambda: mbd.RP(inertia_forces="lagrange")
    for name, make in makers.items():
        largest, history = {}, {}
        for h in out["fig3_steps"]:
            steps = round(seconds / h)
            sol = rollout(system, state, h, steps, make())
            gap = np.abs(np.asarray(sol.r)[:: steps // (len(t) - 1), 1, 2] - z)
            largest[f"{h:g}"], history[f"{h:g}"] = float(gap.max()), gap.tolist()
        hs = 1.0 / np.array([1000, 2000, 4000, 8000])
        errors = []
        for h in hs:
            steps = round(1 / h)
            sol = rollout(system, state, h, steps, make())
            errors.append(float(np.max(np.abs(np.asarray(sol.r)[:: steps // 100, 1, 2] - z_short))))
        out["fig3_max_dz"][name], out["fig3_history"][name] = largest, history
        out["fig3_order"][name] = slope(hs, errors)
        tick()
    history = {"t": t.tolist()} | out.pop("fig3_history")
    wrapped = {k: v if k == "fig3_steps" else {"double_pendulum": v} for k, v in out.items()}
    return wrapped | {"_fig3_history": history}


def figures_5_to_7(settings, tick):
    """Errors of position, velocity and acceleration at 3 s against the step; truth from
    kinematics.
    """
    out = {
        "order_velocity": {},
        "order_acceleration": {},
        "order_errors": {},
        "order_steps": ORDER_STEPS.tolist(),
    }
    hs = ORDER_STEPS[2:7] if settings.quick else ORDER_STEPS
    for model in settings.choose(tuple(WATCHED)):
        body, axis = WATCHED[model]
        system, state = mbd.load(model)
        # The truth is reached in steps that Newton's method can follow.
        truth = mbd.kinematics(
            system, state, jnp.linspace(0.0, 3.0, 3001), newton=mbd.Newton(1e-12)
        )
        exact = [np.asarray(x)[-1, body, axis] for x in (truth.r, truth.v, truth.a)]
        for table in ("order_velocity", "order_acceleration", "order_errors"):
            out[table][model] = {}
        for name, make in settings.formulations.items():
            errors = []
            for h in hs:
                steps = round(3.0 / h)
                integrator = mbd.ImplicitEuler(
                    newton=mbd.Newton(FIGURE_TOLERANCE / h**2, criterion="correction")
                )
                sol = rollout(system, state, h, steps, make(), integrator=integrator, throw=False)
                last = [np.asarray(x)[-1, body, axis] for x in (sol.r, sol.v, sol.a)]
                errors.append(
                    [
                        abs(a - b) if succeeded(sol) else np.nan
                        for a, b in zip(last, exact, strict=True)
                    ]
                )
            errors = np.array(errors)
            small = hs <= 1.1e-2  # above, the step no longer resolves the motion
            out["order_velocity"][model][name] = slope(hs[small], errors[small, 1])
            out["order_acceleration"][model][name] = slope(hs[small], errors[small, 2])
            out["order_errors"][model][name] = np.where(np.isfinite(errors), errors, None).tolist()
        tick()
    out["order_steps"] = hs.tolist()
    return out


def default_method(settings, tick):
    """Height of the double pendulum's second bar over one second by the package's default method,
    beside implicit Euler: the largest error, and the one at the end, by number of steps.
    """
    counts = (125, 250) if settings.quick else (125, 250, 500, 1000, 2000)
    system, state = mbd.load("double_pendulum")
    out = {}
    for name, integrator in (
        ("generalized_alpha", mbd.GeneralizedAlpha()),
        ("implicit_euler", mbd.ImplicitEuler()),
    ):
        largest, end = {}, {}
        for n in counts:
            sol = rollout(system, state, 1.0 / n, n, mbd.RA(), integrator=integrator)
            z = reference_solutions.double_pendulum(np.linspace(0.0, 1.0, n + 1))
            gap = np.abs(np.asarray(sol.r)[:, 1, 2] - z)
            largest[str(n)], end[str(n)] = float(gap.max()), float(gap[-1])
        errors = [largest[str(n)] for n in counts[-2:]]
        out[name] = {
            "largest_error": largest,
            "error_at_1_s": end,
            "order": slope(1.0 / np.array(counts[-2:]), errors),
        }
        tick()
    return {"default_method": out}
