"""A plan through a contact: a ball that its motor cannot lift has to bounce off the floor."""

import numpy as np
from scipy.integrate import solve_ivp

import jaxmbd as mbd

MASS, RADIUS, START, GOAL, LIMIT = 1.0, 0.1, 0.3, 0.4, 9.0
DAMPING, EXPONENT, SECONDS, KNOTS = 0.1, 1.5, 1.0, 40
STIFFNESSES = (300.0, 1000.0, 3000.0, 10_000.0, 30_000.0)  # N/m^1.5, each from the plan before


def ball(stiffness):
    """A ball on a vertical rail above a floor, with a force along the rail."""
    m = mbd.Mechanism("bouncing ball")
    own = m.add_body("ball", shape=mbd.Sphere(RADIUS, mass=MASS), r=(0.0, 0.0, START))
    m.add(mbd.Translational("rail", m.ground, own, point=(0, 0, START), axis=(0, 0, 1)))
    m.add(mbd.Actuator("drive", "rail", control=mbd.Input("push", unit="N")))
    law = {"stiffness": stiffness, "damping": DAMPING, "exponent": EXPONENT}
    m.add(mbd.Contact("floor", own, m.ground, point=(0.0, 0.0, 0.0), **law))
    return m.build()


def by_scipy(stiffness, pushes):
    """Displacement and speed at the end, by the law of Hunt and Crossley, interval by interval."""

    def rates(_, y, push):
        depth, speed = RADIUS - START - y[0], -y[1]
        law = stiffness * max(depth, 0.0) ** EXPONENT * (1.0 + DAMPING * speed)
        return [y[1], (push + max(law, 0.0)) / MASS - 9.81]

    y, h = [0.0, 0.0], SECONDS / len(pushes)
    for push in pushes:
        options = {"rtol": 1e-10, "atol": 1e-12, "max_step": h / 50}
        y = solve_ivp(rates, (0.0, h), y, "DOP853", args=(push,), **options).y[:, -1]
    return y


def bounce(quick, out):
    """Rest at 0.4 m above the start in a second, with less force than the weight."""
    found, guess = {}, None
    for stiffness in STIFFNESSES[:1] if quick else STIFFNESSES:
        system, state = ball(stiffness)
        if guess is None:  # a motion that meets the floor; a straight line would not
            inputs = {"push": 0.0}
            guess = mbd.simulate(system, state, h=2.5e-3, t_end=SECONDS, inputs=inputs)
        guess = plan = mbd.optimal_control(
            *(system, state, ["push"], SECONDS),
            stage=lambda now: 0.1 * now["push"][None],
            reach={"rail.displacement": GOAL, "rail.speed": 0.0},
            limits={"push": (-LIMIT, LIMIT)},
            knots=KNOTS,
            steps=10,
            guess=guess,
            tolerance=1e-6,
        )
        pushes = np.asarray(plan.inputs["push"])[:KNOTS]
        end = by_scipy(stiffness, pushes)
        found[f"{stiffness:g}"] = {
            "iterations": len(plan.iterations),
            "residual": plan.residual,
            "cost": plan.cost,
            "seconds": plan.seconds["run"],
            "seconds_of_compiling": plan.seconds["compile"],
            "largest_push_N": float(np.max(np.abs(pushes))),
            "depth_m": float(RADIUS - np.min(plan.states.r[:, 0, 2])),
            "miss_by_scipy": {"m": float(end[0] - GOAL), "m_per_s": float(end[1])},
        }
    return found
