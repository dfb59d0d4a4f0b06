"""Servos whose control lags, is integrated, or sets a damping, against closed forms and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import jaxmbd as mbd

INERTIA = 0.02  # of the disc [kg·m²]


def disc(*elements, rate=0.0):
    """A disc on a pin along z, without gravity."""
    m = mbd.Mechanism("disc", gravity=(0, 0, 0))
    inertia = (INERTIA, INERTIA, INERTIA)
    body = m.add_body("disc", mass=1.0, inertia=inertia, omega=(0, 0, rate))
    m.add(mbd.Revolute("pin", m.ground, body, point=(0, 0, 0), axis=(0, 0, 1)))
    for element in elements:
        m.add(element)
    return m


LAW = {"gain": 3.0, "stiffness": 2.0, "damping": 0.1, "offset": 0.05}


@pytest.mark.parametrize("activation", ["lag", "integrator"])
def test_an_activation_moves_a_joint_as_a_matrix_exponential_says(activation):
    """Of second order in the step: a linear system of angle, rate and activation."""
    u, tau, a0, seconds = 0.4, 0.08, -0.2, 0.6
    lag = {"time_constant": tau} if activation == "lag" else {}
    servo = mbd.Servo(
        "servo", "pin", control=u, activation=activation, initial_activation=a0, **lag, **LAW
    )
    last = [0, 0, -1 / tau, u / tau] if activation == "lag" else [0, 0, 0, u]
    torque = np.array([-LAW["stiffness"], -LAW["damping"], LAW["gain"], LAW["offset"]])
    A = np.array([[0, 1, 0, 0], torque / INERTIA, last, [0, 0, 0, 0]])
    exact = expm(A * seconds) @ [0.0, 1.5, a0, 1.0]
    system, state = disc(servo, rate=1.5).build()
    errors = []
    for steps in (100, 200):
        sol = mbd.simulate(system, state, h=seconds / steps, steps=steps)
        found = [sol["pin.angle"][-1], sol["pin.rate"][-1], sol["servo.activation"][-1]]
        errors.append(np.max(np.abs(np.array(found) - exact[:3])))
    assert errors[1] < 2e-3 and np.log2(errors[0] / errors[1]) > 1.8


@pytest.mark.parametrize("integrator", [mbd.BDF2(), mbd.MuntheKaas()], ids=lambda x: x.name)
def test_an_integrator_stops_at_its_range_and_turns_back_at_once(integrator):
    """Up at a rate of 2 to its limit, 0.5, and down again: what acts never exceeds the limit."""
    servo = mbd.Servo(
        "servo",
        "pin",
        control=lambda t: jnp.where(t < 0.5, 2.0, -2.0),
        gain=1.0,
        activation="integrator",
        activation_range=(-1.0, 0.5),
    )
    sol = mbd.simulate(*disc(servo).build(), h=1e-3, steps=1000, integrator=integrator)
    t, torque = np.asarray(sol.t), np.asarray(sol["servo.torque"])
    ideal = np.where(t < 0.5, np.minimum(2.0 * t, 0.5), 0.5 - 2.0 * (t - 0.5))
    assert np.max(torque) == 0.5
    # Beyond its range by the control times a millisecond, it comes back by so much later.
    assert np.max(np.abs(torque - ideal)) < 2.0 * 2e-3 + 2.0 * 1e-3


def test_a_control_that_sets_a_damping_slows_a_disc_down():
    """ω' = -(d + k u(t)) ω/I with u = t: ω = ω₀ exp(-(d t + k t²/2)/I)."""
    servo = mbd.Servo("brake", "pin", control="t", gain=0.0, damping=0.01, damping_gain=0.03)
    sol = mbd.simulate(*disc(servo, rate=2.0).build(), h=2e-3, steps=500)
    t = np.asarray(sol.t)
    exact = 2.0 * np.exp(-(0.01 * t + 0.5 * 0.03 * t**2) / INERTIA)
    np.testing.assert_allclose(sol["pin.rate"], exact, atol=2e-6)


def test_a_control_that_sets_a_stiffness_drives_a_parametric_pendulum():
    """Mathieu's equation, by SciPy; the same with an activation that has followed long since."""

    def rates(t, y):
        return [y[1], -(0.5 + 0.3 * np.cos(9.0 * t)) * y[0] / INERTIA]

    exact = solve_ivp(rates, (0.0, 1.0), [0.0, 1.0], rtol=1e-11, atol=1e-12).y[:, -1]
    options = {"gain": 0.0, "stiffness": 0.5, "stiffness_gain": 0.3}
    servo = mbd.Servo("servo", "pin", control="cos(9*t)", **options)
    sol = mbd.simulate(*disc(servo, rate=1.0).build(), h=1e-3, steps=1000)
    found = [float(sol["pin.angle"][-1]), float(sol["pin.rate"][-1])]
    np.testing.assert_allclose(found, exact, atol=5e-4)
    lagging = mbd.Servo(
        "servo",
        "pin",
        control="cos(9*t)",
        activation="lag",
        time_constant=1e-6,
        initial_activation=1.0,
        **options,
    )
    other = mbd.simulate(*disc(lagging, rate=1.0).build(), h=1e-3, steps=1000)
    np.testing.assert_allclose(other["pin.angle"], sol["pin.angle"], atol=1e-5)


def test_the_gradient_by_a_time_constant_is_that_of_the_closed_form():
    def angle(tau):
        servo = mbd.Servo("servo", "pin", control=0.4, activation="lag", time_constant=tau, **LAW)
        return mbd.simulate(*disc(servo).build(), h=2e-3, steps=300).joint("pin").angle[-1]

    def closed(tau):
        torque = jnp.array([-LAW["stiffness"], -LAW["damping"], LAW["gain"], LAW["offset"]])
        A = jnp.zeros((4, 4)).at[0, 1].set(1.0).at[1].set(torque / INERTIA)
        A = A.at[2, 2].set(-1 / tau).at[2, 3].set(0.4 / tau)
        return (jax.scipy.linalg.expm(A * 0.6) @ jnp.array([0.0, 0.0, 0.0, 1.0]))[0]

    found, exact = jax.grad(angle)(0.08), jax.grad(closed)(0.08)
    np.testing.assert_allclose(found, exact, rtol=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "lag"}, 'activation="lag" needs time_constant'),
        ({"activation": "integrator", "time_constant": 0.1}, "an integrator has no time_constant"),
        ({"time_constant": 0.1}, "time_constant needs activation"),
        ({"activation": "slow"}, 'must be "lag" or "integrator", not \'slow\''),
        ({"activation_range": (0.0, 1.0)}, "activation_range needs activation"),
    ],
)
def test_activations_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        disc(mbd.Servo("servo", "pin", **options)).build()


def test_a_lag_has_a_rest_and_an_integrator_has_none():
    """At rest the activation is the control: gain u + offset = stiffness x."""
    servo = mbd.Servo("servo", "pin", control=0.4, activation="lag", time_constant=0.1, **LAW)
    system, state = disc(servo).build()
    found = mbd.equilibrium(system, state)
    exact = (LAW["gain"] * 0.4 + LAW["offset"]) / LAW["stiffness"]
    turned = np.arctan2(found.state.A[0, 1, 0], found.state.A[0, 0, 0])
    np.testing.assert_allclose(turned, exact, rtol=1e-9)
    integrating = mbd.Servo("servo", "pin", control=0.4, activation="integrator", **LAW)
    with pytest.raises((ValueError, RuntimeError), match="servo"):
        mbd.equilibrium(*disc(integrating).build())
