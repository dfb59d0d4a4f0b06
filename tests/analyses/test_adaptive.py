"""Steps chosen for a tolerance: accuracy at requested times, derivatives, batches, refusals; dense
output."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import jaxmbd as mbd
from experiments import reference_solutions
from jaxmbd.results.interpolation import between
from jaxmbd.results.saved_rows import Row

pytestmark = pytest.mark.xdist_group("adaptive")  # fixtures and programs are shared

TS = np.linspace(0.0, 1.0, 21)
RK5 = mbd.MuntheKaas(tableau="rk5")


def chosen(system, state, ts, tolerance=1e-6, *, max_steps=4096, **kw):
    """A run with chosen steps."""
    step = mbd.Adaptive(tolerance, max_steps=max_steps)
    return mbd.simulate(system, state, save_at=ts, step=step, **kw)


@pytest.fixture(scope="module")
def pendulum():
    return *mbd.load("double_pendulum"), reference_solutions.double_pendulum(TS)


# Errors of single steps add up over a second of a motion that magnifies them by about ten.
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        pytest.param(mbd.GeneralizedAlpha(), 1e-3, id="generalized_alpha"),
        pytest.param(mbd.BDF2(), 1e-3, id="bdf2"),
        pytest.param(RK5, 5e-5, id="rk5"),
    ],
)
def test_the_tolerance_rules_the_error_at_every_requested_time(pendulum, method, expected):
    system, state, z = pendulum
    errors, steps = [], []
    for tolerance in (1e-4, 1e-6):
        sol = chosen(system, state, TS, tolerance, integrator=method, max_steps=1024)
        errors.append(np.max(np.abs(np.asarray(sol.r[:, 1, 2]) - z)))
        steps.append(int(sol.stats["accepted_steps"]))
        np.testing.assert_array_equal(sol.t, TS)
    assert errors[1] < expected and errors[1] < errors[0] / 10
    if method is not RK5:  # a change of the step leaves nothing behind that would ring
        assert int(sol.stats["rejected_steps"]) <= 0.05 * steps[1]
    # The number of steps grows with the power of the local error: 1/3 of second order, 1/5 of the
    # pair 5(4).
    power = 1 / (method.error_order + 1)
    assert abs(np.log(steps[1] / steps[0]) / np.log(100) - power) < 0.1


def test_derivatives_and_batches(pendulum):
    system, state, _ = pendulum

    def height(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * jnp.stack([1.0, factor]))
        sol = chosen(heavier, state, TS[::10], 1e-8, integrator=RK5, max_steps=96)
        return sol.r[-1, 1, 2]

    value, slope = jax.jit(jax.value_and_grad(height))(1.3)
    several = jax.jit(jax.vmap(height))(jnp.array([1.3, 1.3 + 1e-3, 1.3 - 1e-3]))
    np.testing.assert_allclose(several[0], value, atol=1e-12)
    # Other steps are chosen beside it: 1e-7 of each over 2e-3.
    np.testing.assert_allclose(slope, (several[1] - several[2]) / 2e-3, atol=2e-4)


def test_runs_that_cannot_be_are_refused_or_say_so(pendulum):
    system, state, _ = pendulum
    with pytest.raises(ValueError, match="no error estimate"):
        chosen(system, state, TS, integrator=mbd.MuntheKaas(tableau="rk4"))
    with pytest.raises(ValueError, match="increasing"):
        chosen(system, state, TS[::-1])
    with pytest.raises(ValueError, match="positive"):
        chosen(system, state, TS, 0.0)
    with pytest.raises(mbd.SimulationError, match="max_steps") as caught:
        chosen(system, state, TS, 1e-6, integrator=RK5, max_steps=8)
    reached = np.isfinite(np.asarray(caught.value.solution.r[:, 0, 0]))
    assert reached[0] and not reached[-1] and np.all(np.diff(reached.astype(int)) <= 0)


def test_between_two_instants_positions_are_of_sixth_order():
    """Along r = sin and cos of time, and a rotation whose rate changes direction."""

    def rotation(t):
        return (
            Rotation.from_rotvec([0.4 * t, 0.3 * t**2, 0.0])
            * Rotation.from_rotvec([0.0, np.sin(t), t])
        ).as_matrix()

    def row(t):
        d = 1e-4
        A = rotation(t)

        def omega(s):
            rate = (rotation(s + d) - rotation(s - d)) / (2 * d)
            W = rotation(s).T @ (
                rate - (rotation(s + 2 * d) - rotation(s - 2 * d) - 2 * d * 2 * rate) / (12 * d)
            )
            return np.array([W[2, 1], W[0, 2], W[1, 0]])

        alpha = (8 * (omega(t + d) - omega(t - d)) - (omega(t + 2 * d) - omega(t - 2 * d))) / (
            12 * d
        )
        curve = [np.array([np.sin(t), np.cos(t), t]), np.array([np.cos(t), -np.sin(t), 1.0])]
        curve = [
            jnp.asarray(x)[None]
            for x in (*curve, A, omega(t), [-np.sin(t), -np.cos(t), 0.0], alpha)
        ]
        r, v, A, omega_t, a, alpha = curve
        return Row(
            mbd.Pose(r, A),
            mbd.Twist(v, omega_t),
            a,
            alpha,
            jnp.zeros(0),
            jnp.zeros(0),
            jnp.zeros(0),
            jnp.zeros((), int),
        )

    gaps = {"r": [], "A": [], "omega": []}
    for h in (0.4, 0.2):
        found, true = (
            between(row(0.3), row(0.3 + h), jnp.asarray(h), jnp.asarray(0.4)),
            row(0.3 + 0.4 * h),
        )
        gaps["r"].append(np.linalg.norm(found.pose.r - true.pose.r))
        gaps["A"].append(np.linalg.norm(found.pose.A - true.pose.A))
        gaps["omega"].append(np.linalg.norm(found.twist.omega - true.twist.omega))
    orders = {name: np.log2(gap[0] / gap[1]) for name, gap in gaps.items()}
    assert abs(orders["r"] - 6) < 0.5 and abs(orders["A"] - 6) < 0.7 and orders["omega"] > 4.3, (
        orders
    )


def hanging_rod():
    m = mbd.Mechanism("pendulum", gravity=(0.0, 0.0, -9.5))
    m.add_body("rod", mass=3.0, inertia=(0.05, 0.4, 0.35), r=(0.8, 0.0, 0.0))
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0)))
    return m.build()


def rod_reference(ts):
    """Position, acceleration and pin force of the falling rod, from its angle below the horizontal
    alone."""
    k = 3.0 * 9.5 * 0.8 / (0.4 + 3.0 * 0.8**2)
    y = solve_ivp(
        lambda t, y: [y[1], k * np.cos(y[0])],
        (0, ts[-1]),
        [0, 0],
        t_eval=ts,
        rtol=1e-12,
        atol=1e-12,
        method="DOP853",
    ).y
    along = np.stack([np.cos(y[0]), 0 * ts, -np.sin(y[0])], axis=1)
    across = np.stack([-np.sin(y[0]), 0 * ts, -np.cos(y[0])], axis=1)
    a = 0.8 * (k * np.cos(y[0])[:, None] * across - (y[1] ** 2)[:, None] * along)
    return 0.8 * along, a, 3.0 * (a - np.array([0.0, 0.0, -9.5]))


# The errors of rows follow from those of the motion: forces are m l times the squares of rates and
# m l k sin(angle).
@pytest.mark.parametrize(
    ("method", "tolerance", "position", "force"),
    [
        pytest.param(mbd.GeneralizedAlpha(), 1e-6, 2e-3, 0.1, id="generalized_alpha"),
        pytest.param(mbd.BDF2(), 1e-6, 2e-3, 0.1, id="bdf2"),
        pytest.param(RK5, 1e-9, 1e-7, 3e-6, id="rk5"),
    ],
)
def test_reactions_and_accelerations_are_as_accurate_as_the_motion(
    method, tolerance, position, force
):
    ts = np.linspace(0.0, 2.0, 101)
    system, state = hanging_rod()
    sol = chosen(system, state, ts, tolerance, integrator=method, max_steps=1024)
    r, a, pin = rod_reference(ts)
    assert np.max(np.abs(sol.r[:, 0] - r)) < position
    found = sol.reactions(system)["pin"].force
    assert np.max(np.abs(sol.a[:, 0] - a)) < force / 3.0
    assert np.max(np.abs(found - pin)) < force
    # Newton's law holds in every row to rounding, between steps too.
    np.testing.assert_allclose(
        found, 3.0 * (np.asarray(sol.a[:, 0]) - np.array([0, 0, -9.5])), atol=1e-11
    )


def test_inputs_that_are_functions_of_time_change_within_chosen_steps():
    """A body on a slide under a sine of force: v = (1 - cos ωt)/(m ω), in closed form."""
    m = mbd.Mechanism("slider")
    m.add_body("b", mass=2.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.Translational("slide", "ground", "b", point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "slide", control=mbd.Input("force")))
    system, state = m.build()
    ts = np.linspace(0.0, 2.0, 5)

    def run(force, tolerance=1e-6):
        options = {"step": mbd.Adaptive(tolerance), "save_at": ts}
        return mbd.simulate(system, state, inputs={"force": force}, **options)

    exact = (1.0 - np.cos(3.0 * ts)) / 6.0
    errors = []
    for tolerance in (1e-5, 1e-7):
        sol = run(lambda t: jnp.sin(3.0 * t), tolerance)
        errors.append(np.max(np.abs(sol.v[:, 0, 0] - exact)))
    # A step of second order: its error h³ is the tolerance, that of the motion h².
    assert errors[0] < 2e-3 and errors[1] < 2.0 * 1e-2 ** (2.0 / 3.0) * errors[0]
    np.testing.assert_allclose(sol.a[:, 0, 0], np.sin(3.0 * ts) / 2.0, atol=1e-12)
    np.testing.assert_allclose(sol["force"], np.sin(3.0 * ts), atol=1e-15)
    held = run(4.0)
    np.testing.assert_allclose(held.v[:, 0, 0], 2.0 * ts, atol=1e-9)
    with pytest.raises(ValueError, match="an array by step needs the step size h"):
        run(np.ones(7))
    with pytest.raises(ValueError, match="'force'"):
        mbd.simulate(system, state, step=mbd.Adaptive(1e-6), save_at=ts)
