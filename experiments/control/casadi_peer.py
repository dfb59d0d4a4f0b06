"""The swing-up by CasADi and Ipopt: the same shooting, on equations in minimal coordinates."""

import time

import numpy as np

from ..minimal_coordinates import box_inertia
from .minimal import GRAVITY, CartPole


def swing_up_by_ipopt(force, rail, *, goal, knots, duration=3.0, guess=None):
    """The optimum with its force at the knots, cost, iterations and processor time; None where
    CasADi is not installed.

    Args:
        force: Limit [N].
        rail: Limit [m].
        goal: Angle of the pole at the end [rad].
        knots: Number of intervals.
        duration: [s].
        guess: Force at the knots to begin with, (knots + 1,); zero by default.
    """
    try:
        import casadi as ca
    except ImportError:
        return None
    model = CartPole()
    ml = model.mass * model.length
    J = float(box_inertia(model.mass, model.size)[1]) + ml * model.length
    total = model.cart_mass + model.mass
    x, u = ca.SX.sym("x", 4), ca.SX.sym("u")
    s, c = ca.sin(x[1]), ca.cos(x[1])
    right = ca.vertcat(u + ml * s * x[3] ** 2, -ml * GRAVITY * s - model.damping * x[3])
    M = ca.vertcat(ca.horzcat(total, ml * c), ca.horzcat(ml * c, J))
    rate = ca.Function("rate", [x, u], [ca.vertcat(x[2:], ca.solve(M, right))])
    h, steps = duration / knots / 2, 2
    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    y = x
    places = []
    for k in range(steps):
        at = [a + (b - a) * (k + part) / steps for part in (0.0, 0.5, 1.0)]
        k1 = rate(y, at[0])
        k2 = rate(y + 0.5 * h * k1, at[1])
        k3 = rate(y + 0.5 * h * k2, at[1])
        k4 = rate(y + h * k3, at[2])
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        places.append(y[0])
    interval = ca.Function("interval", [x, a, b], [y, ca.vertcat(*places)])

    program = ca.Opti()
    X, U = program.variable(4, knots + 1), program.variable(knots + 1)
    program.subject_to(X[:, 0] == 0.0)
    program.subject_to(X[:, -1] == ca.vertcat(0.0, goal, 0.0, 0.0))
    program.subject_to(program.bounded(-force, U, force))
    cost = 0.0
    for k in range(knots):
        end, along = interval(X[:, k], U[k], U[k + 1])
        program.subject_to(X[:, k + 1] == end)
        program.subject_to(program.bounded(-rail, along, rail))
        middle = 0.5 * (U[k] + U[k + 1])
        square = (U[k] ** 2 + 4.0 * middle**2 + U[k + 1] ** 2) / 6.0  # exact for a straight line
        cost += 1e-4 / knots * square
    program.minimize(750.0 * cost)  # of the size that the plan's costs are scaled to
    if guess is not None:
        program.set_initial(U, guess)
        states = [np.zeros(4)]
        for k in range(knots):
            states.append(np.asarray(interval(states[-1], guess[k], guess[k + 1])[0]).ravel())
        program.set_initial(X, np.stack(states, axis=1))
    options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-8}}
    program.solver("ipopt", options)
    begin = time.process_time()
    try:
        found, good = program.solve(), True
    except RuntimeError:
        found, good = program.debug, False
    took = time.process_time() - begin
    return {
        "force": np.asarray(found.value(U)),
        "cost": float(found.value(cost)),
        "iterations": int(program.stats()["iter_count"]),
        "seconds": took,
        "successful": good,
    }
