"""Optimal control: Riccati's solution, Bryson's problems, Pontryagin's conditions, closed loops."""

import jax
import numpy as np
import pytest
from planned import (
    GRAVITY,
    LENGTH,
    MASS,
    cross_table,
    five_bar,
    parallelogram,
    pendulum,
    sliding_block,
)
from scipy.integrate import solve_ivp
from scipy.optimize import root

import jaxmbd as mbd
from jaxmbd.equations.rows import phi


def riccati(mass, weights, start, intervals, length):
    """Held forces on a mass at the least of ∫ q x² + r f² dt + p x² + s v² at the end, by the
    recursion for exact samples.
    """
    q, r, p, s = weights
    F = np.array([[1.0, length, 0.5 * length**2 / mass], [0.0, 1.0, length / mass]])
    Q = np.zeros((3, 3))
    points, shares = np.polynomial.legendre.leggauss(4)  # exact: x² is of fourth degree
    for point, share in zip(0.5 * (points + 1.0) * length, 0.5 * length * shares, strict=True):
        row = np.array([1.0, point, 0.5 * point**2 / mass])
        Q += share * q * np.outer(row, row)
    Q[2, 2] += r * length
    P, gains = np.diag([p, s]), []
    for _ in range(intervals):
        W = Q + F.T @ P @ F
        gains.append(W[2, :2] / W[2, 2])
        P = W[:2, :2] - np.outer(W[:2, 2], gains[-1])
    x, forces = np.array(start), []
    for K in gains[::-1]:
        forces.append(-K @ x)
        x = F @ np.append(x, forces[-1])
    return np.array(forces)


@pytest.mark.essential
def test_a_linear_quadratic_problem_of_a_closed_loop_has_riccatis_solution_in_one_iteration():
    system, state = cross_table()
    ways = {"x": (0.3, 0.5), "y": (-0.2, 0.1)}
    state = mbd.set_joints(
        system, state, {k: {"displacement": a, "speed": b} for k, (a, b) in ways.items()}
    )
    plan = mbd.optimal_control(
        *(system, state, None, 2.0),
        stage=lambda now: 10.0 * now["x.displacement"] ** 2 + now["fx"] ** 2 + 2.0 * now["fy"] ** 2,
        final=lambda now: (
            100.0 * now["x.displacement"] ** 2
            + 60.0 * now["y.displacement"] ** 2
            + 10.0 * now["x.speed"] ** 2
            + 2.0 * now["y.speed"] ** 2
        ),
        knots=10,
        steps=20,  # Simpson's rule then errs by 2e-10
    )
    assert len(plan.iterations) == 1 and plan.residual < 1e-10
    fx = riccati(3.5, (10.0, 1.0, 100.0, 10.0), ways["x"], 10, 0.2)
    fy = riccati(2.5, (0.0, 2.0, 60.0, 2.0), ways["y"], 10, 0.2)
    np.testing.assert_allclose(plan.inputs["fx"], fx, atol=1e-9)
    np.testing.assert_allclose(plan.inputs["fy"], fy, atol=1e-9)
    assert "1 iteration" in repr(plan)


def test_a_mass_that_may_not_pass_a_point_moves_as_bryson_and_ho_say():
    """Section 3.11 of Applied Optimal Control: ẍ = f from x = 0, ẋ = 1 to 0 and -1 in one second
    with x ≤ l at the least of ∫ f²/2: cost 4/(9 l), and f is zero while the block stands at l.
    """
    system, state = sliding_block()
    state = mbd.set_joints(system, state, {"rail": {"displacement": 0.0, "speed": 1.0}})
    farthest = 1.0 / 9.0
    plan = mbd.optimal_control(
        *(system, state, ["f"], 1.0),
        stage=lambda now: 0.5 * now["f"] ** 2,
        reach={"rail.displacement": 0.0, "rail.speed": -1.0},
        limits={"rail.displacement": (None, farthest)},
        hold="linear",  # as the optimum is, between knots where it bends
        knots=12,
        steps=2,
        tolerance=1e-9,
    )
    assert plan.cost == pytest.approx(4.0 / (9.0 * farthest), rel=1e-7)
    t = np.asarray(plan.t)
    early, late = 1.0 - t / (3.0 * farthest), 1.0 - (1.0 - t) / (3.0 * farthest)
    exact = -2.0 / (3.0 * farthest) * (np.maximum(early, 0.0) + np.maximum(late, 0.0))
    # Of the limit, whose multipliers its barrier spreads: the root of the tolerance, roughly.
    np.testing.assert_allclose(plan.inputs["f"], exact, atol=3e-3)
    reached = np.asarray(plan.states.r[:, 0, 0])
    assert np.max(reached) < farthest + 1e-8
    assert plan.in_force["rail.displacement"][1] > 0.2


def test_the_fastest_way_between_two_points_is_bang_bang():
    """Of a mass from rest to rest: 2 sqrt(m d / F), half of it each way."""
    system, state = sliding_block()
    plan = mbd.optimal_control(
        *(system, state, ["f"], (0.5, 5.0)),
        final=lambda now: now.t,
        reach={"rail.displacement": 1.0, "rest": True},
        limits={"f": (-1.0, 1.0)},
        knots=10,
        steps=2,
    )
    assert plan.t_end == pytest.approx(2.0, rel=1e-6)
    np.testing.assert_allclose(plan.inputs["f"], np.repeat([1.0, -1.0], 5), atol=1e-5)
    slopes = np.asarray(plan.switching["f"])
    assert np.all(slopes * np.asarray(plan.inputs["f"]) < 0.0)
    # The switching function of a double integrator is linear and vanishes where the force turns.
    np.testing.assert_allclose(np.diff(slopes), np.diff(slopes)[0], rtol=1e-4)
    assert abs(slopes[4] + slopes[5]) < slopes[5] - slopes[4]


def test_a_force_that_may_not_change_fast_takes_longer():
    """Up, down and up again in straight lines, with corners at knots: d = F (T/2 - c)(T/2) for a
    force that takes the time c from zero to F, if it begins and ends at zero.
    """
    system, state = sliding_block()
    asked = {
        "final": lambda now: now.t,
        "reach": {"rail.displacement": 1.0, "rest": True},
        "limits": {"f": (-1.0, 1.0)},
        "hold": "linear",
        "knots": 20,
        "steps": 2,
    }
    plan = mbd.optimal_control(system, state, ["f"], (0.5, 5.0), rates={"f": (-4.0, 4.0)}, **asked)
    f, t = np.asarray(plan.inputs["f"]), np.asarray(plan.t)
    rates = np.diff(f) / np.diff(t)
    assert np.max(np.abs(rates)) < 4.0 + 1e-6 and np.min(rates) == pytest.approx(-4.0, rel=1e-5)
    assert 2.0 < plan.t_end < 2.1
    # By what the forces do to the mass, integrated exactly.
    v = np.concatenate([[0.0], np.cumsum(0.5 * (f[1:] + f[:-1]) * np.diff(t))])
    x = np.sum(v[:-1] * np.diff(t) + (f[:-1] / 3.0 + f[1:] / 6.0) * np.diff(t) ** 2)
    assert (v[-1], x) == pytest.approx((0.0, 1.0), abs=1e-8)


def pendulum_by_pontryagin(duration, angle):
    """Cost ∫ τ²/2 dt and torque over time of the least effort from hanging at rest to an angle at
    rest: the boundary value problem of Pontryagin's principle, by shooting.
    """
    J, k = MASS * LENGTH**2 / 3.0, MASS * GRAVITY * LENGTH / 2.0

    def rates(t, y):
        q, w, p, s, _ = y  # p and s are costates of q and w; τ = -s / J
        return [w, (-s / J - k * np.sin(q)) / J, s * k * np.cos(q) / J, -p, 0.5 * (s / J) ** 2]

    def flown(costates):
        options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-11, "dense_output": True}
        return solve_ivp(rates, (0.0, duration), [0.0, 0.0, *costates, 0.0], **options)

    costates = np.zeros(2)
    for goal in np.linspace(0.1, angle, 25):  # from a small angle on, where it is nearly linear
        found = root(lambda x, goal=goal: flown(x).y[:2, -1] - [goal, 0.0], costates, tol=1e-11)
        assert found.success
        costates = found.x
    end = flown(costates)
    return end.y[4, -1], lambda t: -end.sol(t)[3] / J


def lifted(**options):
    system, state = pendulum()
    return mbd.optimal_control(
        *(system, state, ["torque"], 1.2),
        stage=lambda now: now["torque"][None],  # squares: half their sum counts
        reach={"pin.angle": 2.5, "pin.rate": 0.0},
        hold="linear",
        knots=30,
        steps=2,
        **options,
    )


@pytest.fixture(scope="module")
def exact_lift():
    return lifted(tolerance=1e-12)


def test_a_pendulum_is_lifted_as_pontryagins_equations_say(exact_lift):
    cost, torque = pendulum_by_pontryagin(1.2, 2.5)
    # Straight lines between knots cost what the torque's curvature makes of them.
    assert exact_lift.cost == pytest.approx(cost, rel=1e-5) and exact_lift.cost > cost
    miss = np.asarray(exact_lift.inputs["torque"]) - torque(np.asarray(exact_lift.t))
    assert np.max(np.abs(miss)) < 5e-3 * np.max(np.abs(torque(np.asarray(exact_lift.t))))


@pytest.mark.slow
def test_a_closed_loop_has_the_published_optimum_of_the_index_3_pendulum():
    """Campbell and Betts: a point of 1 kg on a rod comes to rest below in 3 s at the least of
    ∫ u² dt, 12.8738850 (Betts, A Collection of Optimal Control Test Problems, "Pendulum"). A
    parallelogram with the same equation of motion closes a loop around it. SciPy's solution of
    Pontryagin's equations has 12.8738889.
    """
    system, state = parallelogram()
    plan = mbd.optimal_control(
        *(system, state, ["torque"], 3.0),
        stage=lambda now: now["torque"][None] * np.sqrt(2.0),
        reach={"left.angle": -0.5 * np.pi, "left.rate": 0.0},
        hold="linear",
        knots=60,
        steps=2,
    )
    assert plan.cost == pytest.approx(12.8738850, rel=1e-6) and plan.cost > 12.87388
    still = system.at_position_level().at(plan.t[0])
    open_by = jax.vmap(lambda state: phi(mbd.RA(), still, state.pose))(plan.states)
    assert np.max(np.abs(open_by)) < 1e-12


def test_the_end_of_the_search_is_quadratic_and_needs_second_derivatives(exact_lift):
    by_squares = lifted(hessian="gauss_newton")
    assert by_squares.cost == pytest.approx(exact_lift.cost, rel=1e-9)
    assert len(exact_lift.iterations) < len(by_squares.iterations)
    errors = [max(i.misses, i.slope) for i in exact_lift.iterations] + [exact_lift.residual]
    late = [e for e in errors if e < 0.1]
    for before, after in zip(late, late[1:], strict=False):
        assert after < max(30.0 * before**2, 1e-12)
    assert late[-1] < 1e-12 and len(late) >= 4


def test_a_plan_goes_on_from_another_one(exact_lift):
    again = lifted(guess=exact_lift)
    assert len(again.iterations) == 0 and again.cost == pytest.approx(exact_lift.cost, rel=1e-12)


def test_a_motor_with_a_winding_lifts_within_its_voltage():
    """The current is a state of the plan; by SciPy, angle and current go as planned."""
    ratio, R, L, k, limit = 10.0, 0.8, 4e-3, 0.05, 6.0
    m = mbd.Mechanism("pendulum", gravity=(0.0, 0.0, -GRAVITY))
    inertia = MASS * LENGTH**2 / 12.0
    rod = m.add_body("rod", mass=MASS, inertia=(inertia,) * 3, r=(0.0, 0.0, -0.5 * LENGTH))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, -1, 0)))
    winding = {"gear_ratio": ratio, "resistance": R, "inductance": L, "constant": k}
    m.add(mbd.Motor("motor", "pin", command=mbd.Input("voltage", unit="V"), **winding))
    plan = mbd.optimal_control(
        *(*m.build(), ["voltage"], 1.5),
        stage=lambda now: 0.1 * now["voltage"][None],
        reach={"pin.angle": 2.0, "pin.rate": 0.0},
        limits={"voltage": (-limit, limit)},
        hold="linear",
        knots=30,
        steps=10,
    )
    u, t = np.asarray(plan.inputs["voltage"]), np.asarray(plan.t)
    assert np.max(u) == pytest.approx(limit, abs=1e-6)  # without it 6.9 V
    J, weight = MASS * LENGTH**2 / 3.0, MASS * GRAVITY * LENGTH / 2.0

    def rates(at, y):
        q, w, i = y
        rate = (ratio * k * i - weight * np.sin(q)) / J
        return [w, rate, (np.interp(at, t, u) - R * i - k * ratio * w) / L]

    options = {"method": "Radau", "rtol": 1e-9, "atol": 1e-10, "max_step": 0.01}
    found = solve_ivp(rates, (0.0, 1.5), [0.0, 0.0, 0.0], **options).y[:, -1]
    planned = float(plan.states.element_states[-1, 0])
    np.testing.assert_allclose(found, [2.0, 0.0, planned], atol=1e-6)


def test_a_five_bar_takes_the_fastest_way_with_its_loop_closed():
    system, state = five_bar()
    start = mbd.set_joints(system, state, {"left": 0.4, "right": 0.4})
    goal = mbd.set_joints(system, state, {"left": -0.4, "right": -0.4})
    limits = {"left torque": (-2.0, 2.0), "right torque": (-2.0, 2.0)}
    plan = mbd.optimal_control(
        *(system, start, None, (0.2, 2.0)),
        final=lambda now: now.t,
        reach=goal,
        limits=limits,
        knots=16,
        steps=2,
    )
    still = system.at_position_level().at(plan.t[0])
    open_by = jax.vmap(lambda state: phi(mbd.RA(), still, state.pose))(plan.states)
    assert np.max(np.abs(open_by)) < 1e-12
    for name in limits:
        torque, slopes = np.asarray(plan.inputs[name]), np.asarray(plan.switching[name])
        assert np.max(np.abs(torque)) < 2.0 + 1e-9
        at_limit = np.abs(torque) > 2.0 - 1e-3
        assert np.sum(~at_limit) <= 1  # where it turns within an interval
        assert np.all(slopes[at_limit] * torque[at_limit] < 0.0)  # Pontryagin's sign
    # By another integrator with steps of a tenth, which knows nothing of the plan.
    sol = plan.replay(steps=20)
    for name in ("left", "right"):
        assert sol[f"{name}.angle"][-1] == pytest.approx(-0.4, abs=1e-4)
        assert sol[f"{name}.rate"][-1] == pytest.approx(0.0, abs=1e-3)


def test_a_plan_that_cannot_be_kept_names_what_it_misses():
    system, state = sliding_block()
    with pytest.raises(
        mbd.PlanError, match=r"slide.*no optimal plan was found.*Missed.*rail\.disp"
    ) as e:
        mbd.optimal_control(
            *(system, state, ["f"], 1.0),
            stage=lambda now: now["f"] ** 2,
            reach={"rail.displacement": 1.0, "rest": True},
            limits={"f": (-1.0, 1.0)},  # it would take 4 N
            knots=6,
            steps=2,
            max_iterations=30,
        )
    plan = e.value.plan
    assert "rail.displacement" in plan.missed and "no optimum found" in repr(plan)
    assert np.max(np.abs(plan.inputs["f"])) <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": ["g"]}, "no input 'g'; the inputs are f"),
        ({"horizon": -1.0}, "the horizon must be positive"),
        ({"horizon": (2.0, 1.0)}, "the lower bound 2 must be below the upper 1"),
        ({"knots": 0}, "knots must be a positive integer"),
        ({"steps": 3}, "steps must be one or an even number"),
        ({"hold": "spline"}, "hold must be one of"),
        ({"hessian": "bfgs"}, "hessian must be one of"),
        ({"reach": {"rail.displacment": 1.0}}, "did you mean 'rail.displacement'"),
        ({"reach": {"rail.reaction_force.z": 1.0}}, "poses and velocities alone are known"),
        ({"limits": {"rail.displacement": (None, None)}}, "needs two bounds"),
        ({"rates": {"g": (-1.0, 1.0)}}, "rates: there is no planned input 'g'"),
        ({"given": {"f": 1.0}}, "planned and given"),
        ({"guess": {"f": np.zeros(3)}}, "one for each of 6 intervals"),
        ({"final": lambda now: now["f"] ** 2}, "'f' is held over each interval .* no value at the"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(change, words):
    asked = {"inputs": ["f"], "horizon": 1.0, "knots": 6, "steps": 2} | change
    with pytest.raises(ValueError, match=words):
        mbd.optimal_control(*sliding_block(), asked.pop("inputs"), asked.pop("horizon"), **asked)


def test_a_mechanism_without_inputs_says_how_to_give_it_one():
    system, state = mbd.load("single_pendulum")
    with pytest.raises(ValueError, match=r"has no input; give a force or a motor one"):
        mbd.optimal_control(system, state)
