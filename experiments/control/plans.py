"""The parts that plan: optimal control by second-order methods, with limits that are kept, and
model predictive control.
"""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.equations.rows import phi
from jaxmbd.formulations import RA

from ..minimal_coordinates import integrate
from . import figures, minimal, problems
from .casadi_peer import swing_up_by_ipopt
from .replays import METHOD, from_upright, largest, pole_angle

TENTH = 10  # steps of the replay in a step of the plan


def of_plan(plan):
    """What every plan reports."""
    return {
        "iterations": len(plan.iterations),
        "residual": plan.residual,
        "misses": plan.misses,
        "seconds": plan.seconds["run"],
        "seconds_of_compiling": plan.seconds["compile"],
        "last_errors": [max(i.misses, i.slope) for i in plan.iterations[-3:]] + [plan.residual],
    }


def limited_force(plan, name):
    return float(np.max(np.abs(np.asarray(plan.inputs[name]))))


# Swing-up

FORCE, RAIL = 8.0, 1.0  # [N], [m]


def swing_up_plan(quick, **options):
    system, state = problems.cart_pole(mbd.Input("push", unit="N")).build()
    goal = 1.0 if quick else np.pi
    return mbd.optimal_control(
        *(system, state, ["push"], 3.0),
        stage=lambda now: 1e-4 / 3.0 * now["push"] ** 2,  # 1e-4 times the mean square
        reach={"hinge.angle": goal, "rail.displacement": 0.0, "rest": True},
        limits={"push": (-FORCE, FORCE), "rail.displacement": (-RAIL, RAIL)},
        hold="linear",
        knots=15 if quick else 60,
        steps=2,
        throw=not quick,
        max_iterations=25 if quick else 200,
        **options,
    )


def swing_up(quick, out):
    """A force on the cart that takes the pole from hanging to standing, at rest, in the middle,
    within limits of force and rail, at the least mean square of the force.
    """
    plan = swing_up_plan(quick)
    fine = plan.replay(steps=2 * TENTH, integrator=METHOD)
    times, force = np.asarray(plan.t), np.asarray(plan.inputs["push"])
    exact = integrate(
        minimal.CartPole(lambda t, q, v: jnp.interp(t, times, force)).accelerations,
        np.zeros(2),
        np.zeros(2),
        np.asarray(fine.t),
    )
    figures.swing_up(plan, fine, exact, (FORCE, RAIL), out)
    if not quick:
        start = jax.tree.map(lambda x: x[0], plan.states)
        still = {"push": 0.0}
        before = mbd.simulate(plan.problem.system, start, h=0.01, t_end=3.0, inputs=still)
        figures.cart_pole_films(before, fine, "swing_up", out)

    def end(angle, position, speed, rate):
        return {
            "angle_from_upright_deg": float(from_upright(angle)),
            "position_m": float(position),
            "speed_m_per_s": float(speed),
            "rate_rad_per_s": float(rate),
        }

    (q, v), angle = exact, pole_angle(fine)
    x = np.asarray(fine.r)[:, 0, 0]
    return of_plan(plan) | {
        "duration_s": 3.0,
        "knots": 60,
        "cost": plan.cost,
        "force_limit_N": FORCE,
        "rail_limit_m": RAIL,
        "largest_force_N": limited_force(plan, "push"),
        "largest_position_m": max(largest(x), largest(q[:, 0])),
        "end": {
            "replay": end(angle[-1], x[-1], fine.v[-1, 0, 0], -fine.omega[-1, 1, 1]),
            "minimal_coordinates": end(q[-1, 1], q[-1, 0], v[-1, 0], v[-1, 1]),
        },
        "largest_error_of_the_replay": {
            "angle_deg": np.degrees(largest(angle - q[:, 1])),
            "position_m": largest(x - q[:, 0]),
        },
        "largest_distance_of_knots_from_minimal_coordinates_m": largest(
            np.asarray(plan.states.r)[:, 0, 0] - q[:: 2 * TENTH, 0]
        ),
    }


# Four-bar

TURN = 3.0  # [s]


def crank_angle(t, turns=1.0):
    """From rest to rest."""
    s = t / TURN
    return 2.0 * jnp.pi * turns * (10.0 * s**3 - 15.0 * s**4 + 6.0 * s**5)


def coupler(t, turns=1.0):
    """Where the coupler has to be, (3,), by the intersection of two circles."""
    crank = jnp.pi / 3.0 - crank_angle(t, turns)
    return minimal.FourBar().poses(crank[None])[0][1]


def four_bar(quick, out):
    """The motor torque that takes the coupler along its path with a given timing, against inverse
    dynamics.
    """
    turns, knots, steps = (0.2, 12, 2) if quick else (1.0, 60, 4)
    system, state = problems.four_bar_motor(mbd.Input("torque", unit="N·m")).build()

    def stage(now):
        miss = now.state.r[1] - coupler(now.t, turns)
        return jnp.concatenate([1e3 * miss[jnp.array([0, 2])], 1e-6 * now["torque"][None]])

    driven = problems.four_bar(lambda t: crank_angle(t, turns))
    driven = driven.with_values({"gravity": (0.0, 0.0, 0.0)})
    driven.add(mbd.ViscousFriction("bearing", "pin_crank", rotational=20.0))
    plan = mbd.optimal_control(
        *(system, state, ["torque"], TURN),
        # Begins with the poses of the path; the torque begins with zero.
        guess=mbd.kinematics(*driven.build(), np.linspace(0.0, TURN, knots + 1)),
        stage=stage,
        limits={"torque": (-1500.0, 1500.0)},
        hold="linear",
        knots=knots,
        steps=steps,
        hessian="gauss_newton",
    )
    fine = plan.replay(steps=steps * TENTH, integrator=METHOD)
    times = np.asarray(fine.t)
    needed = mbd.inverse_dynamics(*driven.build(), times)
    wanted = np.asarray(needed.efforts["motor"])
    torque = np.interp(times, np.asarray(plan.t), np.asarray(plan.inputs["torque"]))

    knots_at, values = np.asarray(plan.t), np.asarray(plan.inputs["torque"])
    equations = minimal.FourBar(lambda t: jnp.interp(t, knots_at, values))
    q, _ = integrate(equations.accelerations, np.pi / 3.0, 0.0, times)
    exact = np.asarray(jax.vmap(equations.poses)(jnp.asarray(q))[0][:, 1])
    target = needed.solution
    figures.four_bar(plan.t, plan.inputs["torque"], target, wanted, fine, exact, out)
    if not quick:
        before = mbd.simulate(system, state, h=0.01, t_end=TURN, inputs={"torque": 0.0})
        figures.four_bar_films(before, fine, out)

    def miss(r):
        return float(np.max(np.linalg.norm(np.asarray(r - target.r[:, 1]), axis=1)))

    hats = np.stack([np.interp(times, knots_at, e) for e in np.eye(len(knots_at))], axis=1)
    closest = hats @ np.linalg.lstsq(hats, wanted, rcond=None)[0]
    relative = lambda x: float(np.linalg.norm(x - wanted) / np.linalg.norm(wanted))  # noqa: E731
    rows = slice(None, None, steps * TENTH)
    return of_plan(plan) | {
        "duration_s": TURN,
        "knots": knots,
        "cost": plan.cost,
        "largest_miss_m": {
            "plan": float(
                np.max(np.linalg.norm(plan.states.r[:, 1] - target.r[rows][:, 1], axis=1))
            ),
            "replay": miss(fine.r[:, 1]),
            "minimal_coordinates": miss(exact),
        },
        "torque_rms_difference_to_inverse_dynamics": relative(torque),
        "the_same_for_the_closest_samples": relative(closest),
        "largest_torque_Nm": limited_force(plan, "torque"),
        "redundant_rows": mbd.mobility(system, state).redundant_rows,
    }


# The fastest way

FIVE_BAR_TORQUE, DELTA_TORQUE = 2.0, 12.0  # [N·m]


def fastest_five_bar(knots):
    system, state = problems.five_bar().build()
    ends = [mbd.set_joints(system, state, {"left": x, "right": x}) for x in (0.4, -0.4)]
    limits = {f"{x} torque": (-FIVE_BAR_TORQUE, FIVE_BAR_TORQUE) for x in ("left", "right")}
    return fastest_way(system, ends, (0.2, 2.0), limits, knots)


def fastest_delta(knots):
    system, state = problems.delta().build()
    z = float(state.r[0, 2])
    places = (0.2, -0.1, z), (-0.15, 0.15, z + 0.05)
    ends = [mbd.place(system, {"platform.r": at}, start=state).state for at in places]
    limits = {f"torque {k}": (-DELTA_TORQUE, DELTA_TORQUE) for k in range(3)}
    return fastest_way(system, ends, (0.1, 1.0), limits, knots)


def fastest_way(system, ends, horizon, limits, knots):
    return mbd.optimal_control(
        *(system, ends[0], None, horizon),
        final=lambda now: now.t,
        reach=ends[1],
        limits=limits,
        knots=knots,
        steps=2,
    )


def loops(plan):
    """By how much joints are open at the worst knot: the largest value of a constraint [m] or
    [-].
    """
    system = plan.problem.system.at_position_level().at(plan.t[0])
    values = jax.vmap(lambda state: phi(RA(), system, state.pose))(plan.states)
    return largest(values)


def fastest(quick, out):
    """Pick and place in the least time: a five-bar and a Delta robot with limited torques."""
    coarse, fine = (8, 16) if quick else (20, 200)
    found, plans = {}, {}
    for name, way in (("five_bar", fastest_five_bar), ("delta", fastest_delta)):
        plan, finer = way(coarse), way(fine)
        plans[name] = finer
        at_limit = signs = 0.0
        for k, torque in finer.inputs.items():
            limit = FIVE_BAR_TORQUE if name == "five_bar" else DELTA_TORQUE
            forced = np.abs(np.asarray(torque)) > 0.999 * limit
            slopes = np.asarray(finer.switching[k])
            at_limit += np.mean(forced) / len(finer.inputs)
            right = slopes[forced] * np.asarray(torque)[forced] < 0.0
            signs += np.mean(right) / len(finer.inputs)
        found[name] = of_plan(plan) | {
            "knots": coarse,
            "time_s": plan.t_end,
            "finer_knots": fine,
            "finer_time_s": finer.t_end,
            "share_at_a_limit": float(at_limit),
            "share_with_pontryagins_sign": float(signs),
            "open_by": loops(plan),
            "finer_seconds": finer.seconds["run"],
        }
    figures.fastest(plans, out)
    return found


# Predictive control

PERIOD, LIMIT, STEP = 0.02, 8.0, 2e-3  # [s], [N], [s]
WEIGHTS = {
    "rail.displacement": 1.0,
    "hinge.angle": 9.0,
    "rail.speed": 0.09,
    "hinge.rate": 0.09,
}


class Regulator(mbd.Controller):
    """The linear-quadratic regulator of the same costs, with the same limit."""

    observes = tuple(WEIGHTS)
    commands = ("push",)
    K: jax.Array

    def __call__(self, memory, seen, t):
        return memory, jnp.clip(-self.K @ seen, -LIMIT, LIMIT)


def regulator():
    """Its gain, by the equations in minimal coordinates, in which the pole leans to the other side
    for a positive angle of the hinge.
    """
    from scipy import linalg

    def rates(x, u):
        equations = minimal.CartPole(lambda t, q, v: u).accelerations
        q = jnp.stack([x[0], jnp.pi - x[1]])
        a = equations(0.0, q, jnp.stack([x[2], -x[3]]))
        return jnp.concatenate([x[2:], a * jnp.array([1.0, -1.0])])

    zero = jnp.zeros(4)
    A, B = (np.asarray(x) for x in jax.jacfwd(rates, (0, 1))(zero, jnp.zeros(())))
    P = linalg.solve_continuous_are(A, B[:, None], np.diag(list(WEIGHTS.values())), [[0.0025]])
    return jnp.asarray(B @ P / 0.0025)


def predictive(quick, out):
    """A cart-pole that stands, a motor of 8 N, pushes on the pole: model predictive control at
    50 Hz against the regulator of the same costs.
    """
    system, state = problems.cart_pole(mbd.Input("push", unit="N"), angle=np.pi).build()

    def stage(now):
        own = [w**0.5 * now[name] for name, w in WEIGHTS.items()]
        return jnp.stack([*own, 0.05 * now["push"]])

    def final(now):
        return 5.0 * jnp.stack([w**0.5 * now[name] for name, w in WEIGHTS.items()])

    plan = mbd.optimal_control(
        *(system, state, ["push"], 1.0),
        stage=stage,
        final=final,
        limits={"push": (-LIMIT, LIMIT)},
        knots=20,
        steps=1,
        hessian="gauss_newton",
    )
    controllers = {
        "mpc": mbd.mpc(plan, h=STEP, every=PERIOD, iterations=2, hessian="gauss_newton"),
        "lqr": Regulator(regulator(), period=round(PERIOD / STEP)),
    }
    rates = np.array([1.0, 2.0]) if quick else np.arange(0.25, 4.01, 0.25)  # after the push
    duration = 0.4 if quick else 5.0
    runs = {}
    for name, controller in controllers.items():

        def motion(rate, controller=controller):
            pushed = mbd.set_joints(system, state, {"hinge": {"angle": 0.0, "rate": rate}})
            return mbd.simulate(
                system, pushed, h=STEP, t_end=duration, controller=controller, throw=False
            )

        run = jax.jit(motion)
        runs[name] = [run(rate) for rate in tqdm(rates, desc=name, leave=False)]
    stands = {
        name: [bool(np.max(np.abs(sol["hinge.angle"][-250:])) < 0.05) for sol in sols]
        for name, sols in runs.items()
    }
    if not quick:
        figures.predictive(runs, rates, stands, LIMIT, out)
    return {
        "period_ms": 1e3 * PERIOD,
        "horizon_s": 1.0,
        "knots": 20,
        "milliseconds": milliseconds(controllers["mpc"], system, state),
        "largest_push_rad_per_s": {
            name: float(max([0.0, *(r for r, ok in zip(rates, good, strict=True) if ok)]))
            for name, good in stands.items()
        },
        "largest_force_N": float(max(largest(sol["push"]) for sol in runs["mpc"])),
    }


def milliseconds(controller, system, state):
    """Processor time of a sample, warm: the median of fifty."""
    carry = mbd.start(system, state, h=STEP, inputs={"push": 0.0})
    seen = mbd.observe(system, carry, controller.observes)
    sample = eqx.filter_jit(lambda c, *given: c(*given))
    args = controller, controller.start(), seen, jnp.asarray(0.0)
    jax.block_until_ready(sample(*args))
    took = []
    for _ in range(50):
        begin = time.process_time()
        jax.block_until_ready(sample(*args))
        took.append(time.process_time() - begin)
    return 1e3 * float(np.median(took))


# A peer


def peer(quick, out):
    """The swing-up by CasADi and Ipopt, on equations in minimal coordinates written by hand."""
    other = swing_up_by_ipopt(FORCE, RAIL, goal=1.0 if quick else np.pi, knots=15 if quick else 60)
    if other is None:
        return {"casadi": "not installed: pip install casadi"}
    plan = swing_up_plan(quick)
    force = np.asarray(plan.inputs["push"])
    guess = swing_up_by_ipopt(
        FORCE, RAIL, goal=1.0 if quick else np.pi, knots=len(force) - 1, guess=force
    )
    return {
        "jaxmbd": of_plan(plan) | {"cost": plan.cost},
        "ipopt": {k: other[k] for k in ("cost", "iterations", "seconds", "successful")},
        "ipopt_from_the_plan": {
            k: guess[k] for k in ("cost", "iterations", "seconds", "successful")
        },
        "largest_difference_of_the_force_N": largest(guess["force"] - force),
    }
