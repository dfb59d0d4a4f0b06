"""Force elements with states of their own, against closed forms and independent integrations."""

import dataclasses
import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import jaxmbd as mbd

INERTIA = 0.02  # of the disc [kg·m²]
MOTOR = {"gear_ratio": 8.0, "resistance": 1.2, "inductance": 4e-3, "constant": 0.05}
METHODS = {
    "implicit_euler": (mbd.ImplicitEuler(), None, 1),
    "bdf2": (mbd.BDF2(), None, 2),
    "generalized_alpha": (mbd.GeneralizedAlpha(), None, 2),
    "moreau": (mbd.Moreau(), None, 2),
    "energy_momentum": (mbd.EnergyMomentum(), mbd.Directors(), 2),
    "munthe_kaas": (mbd.MuntheKaas(), None, 4),
    "runge_kutta": (mbd.RungeKutta(), mbd.RP(), 4),
}


def disc(*elements, rate=0.0, **more):
    """A disc on a pin along z, without gravity."""
    m = mbd.Mechanism("disc", gravity=(0, 0, 0))
    body = m.add_body(
        "disc", mass=1.0, inertia=(INERTIA, INERTIA, INERTIA), omega=(0, 0, rate), **more
    )
    m.add(mbd.Revolute("pin", m.ground, body, point=(0, 0, 0), axis=(0, 0, 1)))
    for element in elements:
        m.add(element)
    return m


def motor_in_closed_form(t, voltage, *, resistance, inductance, constant, gear_ratio):
    """Angle, rate and current of the disc with a motor, from rest: a linear system."""
    push, R, L = gear_ratio * constant, resistance, inductance
    A = np.array(
        [[0, 1, 0, 0], [0, 0, push / INERTIA, 0], [0, -push / L, -R / L, voltage / L], [0, 0, 0, 0]]
    )
    return (expm(A * t) @ [0.0, 0.0, 0.0, 1.0])[:3]


def run(m, seconds, steps, method="generalized_alpha", **options):
    integrator, formulation, _ = METHODS[method]
    return mbd.simulate(
        *m.build(),
        h=seconds / steps,
        steps=steps,
        integrator=integrator,
        formulation=formulation,
        **options,
    )


@pytest.mark.parametrize("method", METHODS)
def test_every_method_integrates_a_motor_at_its_own_order(method):
    m, seconds = disc(mbd.Motor("motor", "pin", command=6.0, **MOTOR)), 0.1
    exact, errors = motor_in_closed_form(seconds, 6.0, **MOTOR), []
    for steps in (50, 100):
        sol = run(m, seconds, steps, method)
        found = [sol[x][-1] for x in ("pin.angle", "pin.rate", "motor.current")]
        errors.append(np.abs(np.array(found) / exact - 1.0))
    order = np.log2(errors[0] / errors[1])
    assert np.all(order > METHODS[method][2] - 0.3), order
    assert np.all(errors[1] < (0.02 if method == "implicit_euler" else 2e-4))


@pytest.mark.parametrize("method", ["implicit_euler", "bdf2", "generalized_alpha", "moreau"])
def test_a_winding_much_faster_than_the_step_stays_stable(method):
    """L/R is a thousandth of the step: the current follows at once."""
    numbers = MOTOR | {"inductance": 1.2e-6}
    sol = run(disc(mbd.Motor("motor", "pin", command=6.0, **numbers)), 0.2, 200, method)
    constant = MOTOR["gear_ratio"] * MOTOR["constant"]
    time = INERTIA * MOTOR["resistance"] / constant**2
    rate = 6.0 / constant * (1.0 - np.exp(-np.asarray(sol.t) / time))
    np.testing.assert_allclose(sol["pin.rate"], rate, rtol=0, atol=0.02 * rate[-1])
    assert np.all(np.isfinite(np.asarray(sol.element_states)))


def test_a_motor_keeps_its_limits():
    m = disc(
        mbd.Motor("motor", "pin", command="3*sin(20*t)", gear_ratio=2.0, effort_limit=4.0),
    )
    sol = run(m, 0.3, 60)
    expected = np.clip(6.0 * np.sin(20.0 * np.asarray(sol.t)), -4.0, 4.0)
    np.testing.assert_allclose(sol["motor.torque"], expected, rtol=0, atol=1e-14)
    # With a winding: what passes the joint, and the voltage.
    numbers = MOTOR | {"voltage_limit": 6.0, "effort_limit": 0.5}
    limited = run(disc(mbd.Motor("motor", "pin", command=60.0, **numbers)), 0.1, 50)
    torque = np.asarray(limited["motor.torque"])
    assert np.max(torque) == 0.5 and np.sum(torque == 0.5) > 5
    current = np.asarray(limited["motor.current"])
    np.testing.assert_allclose(np.minimum(0.4 * current, 0.5), torque, rtol=0, atol=1e-15)
    # A torque that falls with speed: an exponential towards the speed without load.
    falling = disc(mbd.Motor("motor", "pin", command=9.0, effort_limit=2.0, no_load_rate=30.0))
    sol = run(falling, 1.0, 200)
    rate = 30.0 * (1.0 - np.exp(-np.asarray(sol.t) * 2.0 / (30.0 * INERTIA)))
    np.testing.assert_allclose(sol["pin.rate"], rate, rtol=0, atol=2e-3)


def test_a_pid_controller_closes_the_loop_as_a_matrix_exponential_says():
    P, Ki, D, tau, target = 8.0, 20.0, 0.6, 0.02, 0.7
    gains = {"proportional": P, "integral": Ki, "derivative": D, "filter_time": tau}
    m = disc(mbd.PID("control", "pin", set_point=target, **gains))
    # x, ẋ, I, r and one: ẍ = (P e + I - D r)/J with e = w - x, and r follows ẋ.
    A = np.array(
        [
            [0, 1, 0, 0, 0],
            [-P / INERTIA, 0, 1 / INERTIA, -D / INERTIA, P * target / INERTIA],
            [-Ki, 0, 0, 0, Ki * target],
            [0, 1 / tau, 0, -1 / tau, 0],
            [0, 0, 0, 0, 0],
        ]
    )
    exact, errors = (expm(0.5 * A) @ [0.0, 0.0, 0.0, 0.0, 1.0])[0], []
    for steps in (200, 400):
        errors.append(abs(float(run(m, 0.5, steps)["pin.angle"][-1]) - exact))
    assert errors[1] < 3e-4 and np.log2(errors[0] / errors[1]) > 1.7


def test_a_controller_at_its_limit_does_not_wind_up():
    gains = {"proportional": 4.0, "integral": 10.0, "derivative": 0.5, "effort_limit": 0.4}

    def overshoot(tracking):
        pid = mbd.PID("control", "pin", set_point=2.0, tracking_time=tracking, **gains)
        sol = run(disc(pid), 3.0, 1500)
        assert float(jnp.max(jnp.abs(sol["control.torque"]))) <= 0.4
        return float(jnp.max(sol["pin.angle"])) / 2.0 - 1.0

    assert overshoot(0.05) < 0.5 * overshoot(1e6)


def lugre_rates(t, y, drive):
    """The published equations of a mass with LuGre friction, pulled by a spring."""
    x, v, z = y
    g = 1.0 + 0.5 * np.exp(-((v / 0.001) ** 2))
    dz = v - 1e5 * abs(v) * z / g
    friction = 1e5 * z + 316.0 * dz + 0.4 * v
    return [v, 2.0 * (drive * t - x) - friction, dz]


def test_bristles_stick_and_slip_as_the_published_equations_do():
    """A mass of 1 kg is pulled at 0.1 m/s by a spring of 2 N/m (Canudas de Wit et al., fig. 5)."""
    m = mbd.Mechanism("stick-slip", gravity=(0, 0, 0))
    mass = m.add_body("mass", mass=1.0, inertia=(1, 1, 1))
    slide = mbd.Translational("slide", m.ground, mass, point=(0, 0, 0), axis=(1, 0, 0))
    m.add(slide)
    numbers = {"stiffness": 1e5, "micro_damping": 316.0, "viscous": 0.4}
    m.add(mbd.LuGre("friction", "slide", coulomb=1.0, static=1.5, stribeck_rate=1e-3, **numbers))
    m.add(mbd.Servo("pull", "slide", control="0.1*t", stiffness=2.0))
    seconds = 12.0
    exact = solve_ivp(
        lugre_rates, (0, seconds), [0, 0, 0], "Radau", args=(0.1,), rtol=1e-9, atol=1e-12,
        dense_output=True,
    )  # fmt: skip
    sol = mbd.simulate(*m.build(), h=2e-3, t_end=seconds, integrator=mbd.BDF2())
    expected = exact.sol(np.asarray(sol.t))[0]
    # It slips about every nine seconds; between slips it creeps.
    assert expected[-1] > 0.5
    np.testing.assert_allclose(sol["slide.displacement"], expected, rtol=0, atol=5e-3)


def test_a_spring_and_a_damper_in_series_relax_in_closed_form():
    """A driven length: after a jump of the rate the pull tends to c v with the time c/k."""
    m = mbd.Mechanism("relaxing", gravity=(0, 0, 0))
    b = m.add_body("b", mass=1.0, inertia=(1, 1, 1), r=(1.0, 0, 0))
    m.add(mbd.Translational("slide", m.ground, b, point=(1, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.TranslationDriver("drive", m.ground, b, axis=(1, 0, 0), displacement="0.1*t"))
    law = {"point_i": (0, 0, 0), "point_j": (1, 0, 0), "stiffness": 50.0, "damping": 20.0}
    m.add(mbd.Maxwell("mount", m.ground, b, parallel_stiffness=7.0, **law))
    sol = run(m, 1.0, 200)
    t = np.asarray(sol.t)
    pull = 2.0 * (1.0 - np.exp(-2.5 * t)) + 0.7 * t
    np.testing.assert_allclose(sol["mount.force"], pull, rtol=0, atol=2e-5)
    stored = 0.5 * ((pull - 0.7 * t) ** 2 / 50.0 + 7.0 * (0.1 * t) ** 2)
    np.testing.assert_allclose(sol.energy().potential, stored, rtol=0, atol=1e-5)


def hydraulic_arm(rate):
    """A rod of 1 m and 120 kg that a cylinder lifts, pinned at one end (MECHANISMS part 6)."""
    length = np.sqrt(2.0) * 0.25

    def wanted(t):
        return length + 0.1 * (jnp.clip(1.0 - jnp.cos(np.pi * t), 0.5, 1.5) - 0.5)

    m = mbd.Mechanism("arm", gravity=(0, -9.81, 0))
    rod = m.add_body(
        "rod",
        mass=120.0,
        inertia=(10.0, 10.0, 10.0),
        r=(0.5, 0, 0),
        v=(0, 0.5 * rate, 0),
        omega=(0, 0, rate),
    )
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(
        mbd.HydraulicCylinder(
            *("cylinder", m.ground, rod),
            point_i=(0, -0.25, 0),
            point_j=(0.25, 0, 0),
            area=0.01,
            volume=1.0,
            bulk_modulus=1e11,
            nominal_flow=2e-5,
            supply=200e5,
            damping=2e5,
            pressure=20e5,
            gain=2.0,
            set_length=wanted,
        )
    )
    return m, wanted


def test_a_hydraulic_cylinder_has_the_pressures_that_another_program_published():
    """Exudyn 1.x, hydraulicActuatorSimpleTest, steps of 1e-6 s with a valve that follows a step
    behind, from a rate that the pin brings from 2 to 0.5 rad/s.
    """
    sol = run(hydraulic_arm(0.5)[0], 0.4, 1000)
    found = [float(sol[f"cylinder.pressure_{x}"][-1]) for x in "ab"]
    np.testing.assert_allclose(found, [6441296.09086297, 3008420.04232005], rtol=3e-5)
    upward = 0.25 * np.cos(sol["pin.angle"][-1]) * sol["pin.rate"][-1]
    np.testing.assert_allclose(upward, 0.20338669, rtol=5e-5)


def test_a_hydraulic_cylinder_moves_as_its_minimal_coordinate_does():
    m, wanted = hydraulic_arm(0.0)

    def flow(opening, p):
        fall = 200e5 - p if opening > 0.0 else p
        return opening * 2e-5 * np.sign(fall) * np.sqrt(abs(fall))

    def rates(t, y):
        angle, rate, p_a, p_b = y
        hook = 0.25 * np.array([np.cos(angle), np.sin(angle)]) - [0.0, -0.25]
        length = np.linalg.norm(hook)
        lever = 0.25 * (hook @ [-np.sin(angle), np.cos(angle)]) / length  # dL/dangle
        opening = 2.0 * (float(wanted(t)) - length)
        push = 0.01 * (p_a - p_b) - 2e5 * lever * rate
        moment = push * lever - 120.0 * 9.81 * 0.5 * np.cos(angle)
        return [
            rate,
            moment / (10.0 + 120.0 * 0.25),
            1e11 * (flow(opening, p_a) - 0.01 * lever * rate),
            1e11 * (flow(-opening, p_b) + 0.01 * lever * rate),
        ]

    exact = solve_ivp(
        rates, (0, 0.4), [0.0, 0.0, 20e5, 20e5], "Radau", rtol=1e-9, atol=1e-9
    ).y[:, -1]  # fmt: skip
    errors = []
    for steps in (400, 800):
        sol = run(m, 0.4, steps)
        names = ("pin.angle", "pin.rate", "cylinder.pressure_a", "cylinder.pressure_b")
        errors.append(np.abs([float(sol[x][-1]) for x in names] / exact - 1.0))
    assert np.all(errors[1] < 2e-5) and np.all(np.log2(errors[0] / errors[1]) > 1.7)


def test_a_gradient_by_the_numbers_of_a_motor_is_that_of_the_closed_form():
    names = ("resistance", "inductance", "constant")

    def end(values):
        numbers = MOTOR | dict(zip(names, values, strict=True))
        m = disc(mbd.Motor("motor", "pin", command=6.0, **numbers))
        system, state = m.build()
        sol = mbd.simulate(
            system, state, h=5e-4, steps=100, integrator=mbd.MuntheKaas(), save_every=100
        )
        return sol.joint("pin", system).angle[-1]

    at = jnp.array([MOTOR[x] for x in names])
    found = jax.jit(jax.grad(end))(at)

    def exact(values):
        numbers = MOTOR | dict(zip(names, values, strict=True))
        return motor_in_closed_form(0.05, 6.0, **numbers)[0]

    for k, value in enumerate(np.asarray(at)):
        step = np.eye(3)[k] * 1e-5 * value
        slope = (exact(np.asarray(at) + step) - exact(np.asarray(at) - step)) / (2e-5 * value)
        np.testing.assert_allclose(found[k], slope, rtol=1e-6)


def test_a_motor_with_an_input_is_built_inside_jit():
    def end(resistance):
        numbers = MOTOR | {"resistance": resistance}
        m = disc(mbd.Motor("motor", "pin", command=mbd.Input("voltage"), **numbers))
        sol = mbd.simulate(*m.build(), h=1e-3, steps=5, inputs={"voltage": 6.0})
        return sol["motor.current"][-1]

    found = jax.jit(jax.value_and_grad(end))(1.2)
    np.testing.assert_allclose(found, jax.value_and_grad(end)(1.2), rtol=1e-12)


def test_steps_continue_and_restart_with_the_states():
    m = disc(mbd.Motor("motor", "pin", command=6.0, **MOTOR))
    system, state = m.build()
    whole = mbd.simulate(system, state, h=1e-3, steps=40)
    carry = mbd.start(system, state, h=1e-3)
    for _ in range(2):
        carry = mbd.step(system, carry, steps=20)
        kept = io.BytesIO()
        eqx.tree_serialise_leaves(kept, carry)
        kept.seek(0)
        carry = eqx.tree_deserialise_leaves(kept, carry)
    np.testing.assert_allclose(carry.state.element_states, whole.element_states[-1], rtol=1e-13)
    np.testing.assert_allclose(
        mbd.observe(system, carry, "motor.current"), whole["motor.current"][-1], rtol=1e-13
    )
    # A row of a run is where another one starts, current and all.
    again = mbd.simulate(system, whole.at(20), h=1e-3, steps=20)
    assert again["motor.current"][0] == whole["motor.current"][20]
    np.testing.assert_allclose(again["pin.angle"][-1], whole["pin.angle"][-1], rtol=1e-4)
    with pytest.raises(ValueError, match="states, and the state has 3"):
        wrong = dataclasses.replace(state, element_states=jnp.zeros(3))
        mbd.simulate(system, wrong, h=1e-3, steps=1)


def test_steps_chosen_for_a_tolerance_take_the_states_along():
    m = disc(mbd.Motor("motor", "pin", command=6.0, **MOTOR))
    sol = mbd.simulate(
        *m.build(),
        step=mbd.Adaptive(tolerance=1e-9),
        integrator=mbd.MuntheKaas(tableau="rk5"),
        save_at=np.array([0.0, 0.05, 0.1]),
    )
    exact = motor_in_closed_form(0.1, 6.0, **MOTOR)
    found = [sol[x][-1] for x in ("pin.angle", "pin.rate", "motor.current")]
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_an_equilibrium_finds_the_states_at_rest():
    """A pendulum that a motor holds up at the angle where its stall torque balances the weight."""
    m = mbd.Mechanism("held")
    rod = m.add_body("rod", mass=1.0, inertia=(0.01, 0.01, 0.01), r=(0, 0, -0.5))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Motor("motor", "pin", command=6.0, **MOTOR))
    found = mbd.equilibrium(*m.build())
    stall = 8.0 * 0.05 * 6.0 / 1.2
    assert abs(float(found.motion["motor.current"][0]) - 5.0) < 1e-12
    angle = float(found.motion["pin.angle"][0])
    assert abs(0.5 * 9.81 * np.sin(abs(angle)) - stall) < 1e-9
    with pytest.raises(ValueError, match="with states of their own.*'motor'"):
        mbd.modes(m.build()[0], found)
    pid = disc(mbd.PID("control", "pin", integral=1.0))
    with pytest.raises(ValueError, match="'control' rest at any value"):
        mbd.equilibrium(*pid.build())


def test_a_linearization_has_the_states_of_elements():
    system, state = disc(mbd.Motor("motor", "pin", command=6.0, **MOTOR)).build()
    linear = mbd.linearize(system, state, coordinates=["disc.theta.z"])
    push, R, L = 0.4, MOTOR["resistance"], MOTOR["inductance"]
    expected = [[0, 1, 0], [0, 0, push / INERTIA], [0, -push / L, -R / L]]
    np.testing.assert_allclose(linear.A, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(linear.drift, [0, 0, 6.0 / L], atol=1e-12)
    assert linear.element_states == ("motor.current",) and "motor.current" in repr(linear)
    assert len(linear.modes().eigenvalues) in (2, 3)
    with pytest.raises(ValueError, match="motor.current"):
        linear.feedback(np.zeros((1, 3)))


def test_a_batch_of_motors_runs_as_its_members_do():
    m = disc(mbd.Motor("motor", "pin", command=mbd.Input("voltage"), **MOTOR))
    system, state = m.build()

    def one(voltage):
        sol = mbd.simulate(system, state, h=1e-3, steps=20, inputs={"voltage": voltage})
        return sol["motor.current"][-1]

    each = jnp.array([1.0, -2.0, 6.0])
    np.testing.assert_allclose(
        jax.vmap(one)(each), jnp.stack([one(x) for x in each]), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"resistance": 1.0, "constant": 1.0}, "needs inductance"),
        ({"inductance": 1.0}, "inductance needs resistance"),
        ({"no_load_rate": 1.0}, "needs effort_limit"),
        ({"effort_limit": -1.0}, "effort_limit must be positive"),
        (MOTOR | {"no_load_rate": 1.0, "effort_limit": 1.0}, "leave out no_load_rate"),
    ],
)
def test_motors_that_make_no_sense_are_refused(numbers, message):
    with pytest.raises(ValueError, match=f"'motor'.*{message}"):
        disc(mbd.Motor("motor", "pin", **numbers)).build()


@pytest.mark.parametrize("numbers", [{"gear_ratio": 8.0}, MOTOR], ids=["torque", "winding"])
def test_a_rotor_turns_with_the_joint_as_an_armature_does(numbers):
    """Its inertia counts with the square of the gear ratio."""
    J = 3e-4

    def end(**more):
        motor = mbd.Motor("motor", "pin", command=2.0, **numbers, **more)
        beside = () if more else (mbd.Armature("rotor", "pin", inertia=64.0 * J),)
        return run(disc(motor, *beside, rate=1.0), 0.05, 50)

    ours, theirs = end(rotor_inertia=J), end()
    np.testing.assert_allclose(ours["pin.angle"], theirs["pin.angle"], rtol=1e-12)
    np.testing.assert_allclose(ours.energy().kinetic, theirs.energy().kinetic, rtol=1e-12)
    if numbers is not MOTOR:
        rate = 1.0 + 8.0 * 2.0 * 0.05 / (INERTIA + 64.0 * J)
        np.testing.assert_allclose(ours["pin.rate"][-1], rate, rtol=1e-10)


def test_a_rotor_has_a_derivative_and_is_refused_by_name_where_a_method_has_none():
    def rate(J):
        motor = mbd.Motor("motor", "pin", command=2.0, gear_ratio=8.0, rotor_inertia=J)
        return run(disc(motor), 0.05, 10)["pin.rate"][-1]

    slope = -64.0 * 16.0 * 0.05 / (INERTIA + 64.0 * 3e-4) ** 2
    np.testing.assert_allclose(jax.grad(rate)(3e-4), slope, rtol=1e-8)
    motor = mbd.Motor("motor", "pin", rotor_inertia=1.0)
    with pytest.raises(ValueError, match="'motor'"):
        run(disc(motor), 0.1, 10, "energy_momentum")
    with pytest.raises(ValueError, match="'motor'.*rotor_inertia must not be negative"):
        disc(mbd.Motor("motor", "pin", rotor_inertia=-1.0))
    assert "1 force element" in repr(disc(motor).build()[0])
    # Without one there is none.
    assert not disc(mbd.Motor("motor", "pin")).build()[0].inertias


def test_an_element_of_a_user_with_nonlinear_states():
    """Its state follows ż = -z³ exactly; derivatives by the initial value too."""

    class Fading(mbd.AbstractStatefulForce):
        rule: mbd.StateRule

        def labels(self):
            return (mbd.StateLabel("z", "-"),)

        def state_rates(self, pose, twist, z, t):
            return -(z**3)

        def loads(self, pose, twist, z, t):
            return jnp.zeros_like(pose.r), jnp.stack([0.0 * z[0], 0.0 * z[0], z[0]])[None]

    @dataclasses.dataclass(frozen=True, eq=False)
    class Fade(mbd.AbstractForceDescription):
        body: object
        begin: float

        def targets(self):
            return (self.body,)

        def element(self, *bodies):
            return Fading(mbd.StateRule.held(jnp.asarray(self.begin)[None]))

    def end(begin, steps=200):
        m = disc()
        m.add(Fade("fade", "disc", begin=begin))
        sol = mbd.simulate(*m.build(), h=1.0 / steps, steps=steps, integrator=mbd.BDF2())
        return sol.element_states[-1, 0]

    exact = 2.0 / np.sqrt(1.0 + 2.0 * 4.0)
    np.testing.assert_allclose(end(2.0), exact, rtol=1e-3)
    assert abs(end(2.0, 400) - exact) < 0.3 * abs(end(2.0) - exact)
    slope, bend = jax.jacfwd(end)(2.0), jax.jacfwd(jax.jacfwd(end))(2.0)
    np.testing.assert_allclose(slope, 9.0**-1.5, rtol=5e-3)
    np.testing.assert_allclose(bend, -12.0 * 9.0**-2.5, rtol=2e-2)
