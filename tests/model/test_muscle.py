"""Muscles, against an integration of the published curves and against their published values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

import jaxmbd as mbd
from jaxmbd.model.forces import muscle

MASS, G = 4.0, 9.81
NUMBERS = {
    "max_force": 300.0,
    "optimal_length": 0.12,
    "slack_length": 0.2,
    "pennation": 0.3,
    "max_velocity": 8.0,
    "tau_activation": 0.01,
    "tau_deactivation": 0.04,
    "activation": 0.2,
}
START = 0.3  # initial length [m]


def curves(stretch, rate):
    """The published formulas, written once more: active and passive force, and by the rate."""
    b = [
        (0.8150671134243542, 1.055033428970575, 0.162384573599574, 0.063303448465465),
        (0.433004984392647, 0.716775413397760, -0.029947116970696, 0.200356847296188),
        (0.1, 1.0, 0.5 * np.sqrt(0.5), 0.0),
    ]
    active = sum(
        b1 * np.exp(-0.5 * (stretch - b2) ** 2 / (b3 + b4 * stretch) ** 2) for b1, b2, b3, b4 in b
    )
    c = np.exp(4.0 * (0.2 - 1.0) / 0.6)
    passive = (np.exp(4.0 * (stretch - 1.0) / 0.6) - c) / (np.exp(4.0) - c)
    y = -8.149 * rate - 0.374
    moving = -0.3211346127989808 * np.log(y + np.sqrt(y**2 + 1.0)) + 0.8825327733249912
    return active, passive, moving


def reference(seconds, numbers, excitation, weight=MASS * G):
    """Length, its rate and the activation at the end, in minimal coordinates."""
    n = numbers
    across = n["optimal_length"] * np.sin(n["pennation"])

    def rates(t, y):
        length, rate, a = y
        along = length - n["slack_length"]
        fibers = np.hypot(along, across)
        cosine = along / fibers
        nu = rate * cosine / (n["max_velocity"] * n["optimal_length"])
        active, passive, moving = curves(fibers / n["optimal_length"], nu)
        pull = n["max_force"] * cosine * (a * active * moving + passive)
        e = min(max(excitation(t), 0.0), 1.0)
        f, z = 0.5 * np.tanh(10.0 * (e - a)), 0.5 + 1.5 * a
        a_dot = ((0.5 + f) / (n["tau_activation"] * z) + (0.5 - f) * z / n["tau_deactivation"]) * (
            e - a
        )
        return [rate, (weight - pull) / MASS, a_dot]

    start = [START, 0.0, n["activation"]]
    return solve_ivp(rates, (0.0, seconds), start, "Radau", rtol=1e-10, atol=1e-12).y[:, -1]


def hanging(excitation, numbers=NUMBERS, gravity=G):
    """A mass that a muscle holds up along a vertical guide."""
    m = mbd.Mechanism("hanging", gravity=(0, 0, -gravity))
    mass = m.add_body("mass", mass=MASS, inertia=(1, 1, 1), r=(0, 0, -START))
    m.add(mbd.Translational("guide", m.ground, mass, point=(0, 0, 0), axis=(0, 0, -1)))
    ends = {"point_i": (0, 0, 0), "point_j": (0, 0, -START)}
    m.add(mbd.Muscle("muscle", m.ground, mass, excitation=excitation, **ends, **numbers))
    return m


def end_of(sol):
    return np.array([float(sol[f"muscle.{x}"][-1]) for x in ("length", "rate", "activation")])


def test_the_curves_have_their_published_values():
    at = jnp.array
    for curve, x, value in (
        (muscle.active_force, 1.0, 1.0),
        (muscle.velocity_factor, 0.0, 1.0),
        (muscle.velocity_factor, -1.0, 0.0),
        (muscle.velocity_factor, 1.0, 1.794),
        (muscle.passive_force, 0.2, 0.0),
        (muscle.passive_force, 1.6, 1.0),
    ):
        # The constants have 15 digits; 1.794 is rounded.
        np.testing.assert_allclose(curve(at(x)), value, rtol=0, atol=1e-12 if x < 1.0 else 5e-4)
    for stretch in (0.3, 0.8, 1.0, 1.4):
        active, passive, moving = curves(stretch, stretch - 1.0)
        np.testing.assert_allclose(muscle.active_force(at(stretch)), active, rtol=1e-13)
        np.testing.assert_allclose(muscle.passive_force(at(stretch)), passive, rtol=1e-12)
        np.testing.assert_allclose(muscle.velocity_factor(at(stretch - 1.0)), moving, rtol=1e-12)
        area = quad(lambda x: curves(x, 0.0)[1], 0.2, stretch, epsabs=1e-13)[0]
        np.testing.assert_allclose(muscle.passive_energy(at(stretch)), area, rtol=0, atol=1e-12)
    # The second bell has no width at 0.149; nothing is left of it there, nor of its slope.
    near = jax.vmap(jax.value_and_grad(muscle.active_force))(jnp.linspace(0.0, 0.3, 1001))
    assert np.all(np.isfinite(near)) and np.max(near[0]) < 0.02


METHODS = {
    "generalized_alpha": (mbd.GeneralizedAlpha(), None, 2),
    "energy_momentum": (mbd.EnergyMomentum(), mbd.Directors(), 2),
    "munthe_kaas": (mbd.MuntheKaas(), None, 4),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_mass_on_a_muscle_moves_as_the_published_equations_do(method):
    integrator, formulation, order = METHODS[method]
    seconds, errors = 0.3, []
    exact = reference(seconds, NUMBERS, lambda t: 0.4 + 0.35 * np.sin(20.0 * t))
    m = hanging("0.4 + 0.35*sin(20*t)")
    for steps in (150, 300) if order == 2 else (75, 150):
        sol = mbd.simulate(
            *m.build(),
            h=seconds / steps,
            steps=steps,
            integrator=integrator,
            formulation=formulation,
        )
        errors.append(np.max(np.abs(end_of(sol) - exact)))
    assert np.log2(errors[0] / errors[1]) > order - 0.4, errors
    # Of 0.3 m, 0.3 m/s and 1, at a step of a tenth or a fifth of the activation's time.
    assert errors[1] < (1e-3 if order == 2 else 1e-6), errors


@pytest.mark.parametrize(
    ("integrator", "h"),
    [(mbd.ImplicitEuler(), 1e-3), (mbd.ImplicitEuler(), 2e-2), (mbd.BDF2(), 1e-3)],
    ids=["euler", "euler, beyond the time constant", "bdf2"],
)
def test_an_activation_stays_between_zero_and_one(integrator, h):
    """Excitations beyond both bounds, switched on and off."""
    m = hanging(mbd.Input("e"), NUMBERS | {"activation": 0.0})

    def excitation(t):
        return jnp.where(t % 0.3 < 0.15, 1.7, -0.5)

    sol = mbd.simulate(
        *m.build(), h=h, steps=round(0.9 / h), integrator=integrator, inputs={"e": excitation}
    )
    a = np.asarray(sol["muscle.activation"])
    assert np.min(a) >= 0.0 and np.max(a) <= 1.0 and np.ptp(a) > 0.9


def test_a_passive_muscle_keeps_its_energy():
    """Without gravity: its stretched fibers pull the mass."""
    numbers = NUMBERS | {"activation": 0.0, "slack_length": 0.12, "pennation": 0.2}
    sol = mbd.simulate(
        *hanging(0.0, numbers, gravity=0.0).build(), h=1e-4, steps=600, integrator=mbd.MuntheKaas()
    )
    energy = sol.energy()
    assert np.max(np.asarray(energy.kinetic)) > 0.1 * energy.total[0]
    np.testing.assert_allclose(energy.total, energy.total[0], rtol=1e-8)


def test_a_slack_muscle_does_not_pull():
    m = hanging(1.0, NUMBERS | {"slack_length": 0.35, "activation": 1.0})
    sol = mbd.simulate(*m.build(), h=1e-3, steps=150, integrator=mbd.GeneralizedAlpha())
    force, length = (np.asarray(sol[f"muscle.{x}"]) for x in ("force", "length"))
    slack = length <= 0.35
    assert np.all(force[slack] == 0.0) and np.max(force) > 10.0 and np.sum(slack) > 50


def test_an_equilibrium_finds_the_activation_and_the_length():
    found = mbd.equilibrium(*hanging(0.3).build()).motion
    a, length, force = (float(found[f"muscle.{x}"][0]) for x in ("activation", "length", "force"))
    assert abs(a - 0.3) < 1e-12 and abs(force - MASS * G) < 1e-8
    along, across = length - 0.2, 0.12 * np.sin(0.3)
    active, passive, moving = curves(np.hypot(along, across) / 0.12, 0.0)
    pull = 300.0 * along / np.hypot(along, across) * (0.3 * active * moving + passive)
    np.testing.assert_allclose(pull, MASS * G, rtol=1e-8)


def test_a_gradient_by_the_numbers_of_a_muscle_is_that_of_an_integration():
    names, seconds = ("max_force", "optimal_length", "pennation", "tau_activation"), 0.1
    at = np.array([NUMBERS[name] for name in names])

    def end(values):
        m = hanging("0.8", NUMBERS | dict(zip(names, values, strict=True)))
        sol = mbd.simulate(
            *m.build(), h=5e-4, steps=200, integrator=mbd.MuntheKaas(), save_every=200
        )
        return sol["muscle.length"][-1]

    found = jax.jit(jax.grad(end))(jnp.asarray(at))

    def exact(values):
        return reference(seconds, NUMBERS | dict(zip(names, values, strict=True)), lambda t: 0.8)[0]

    for k, value in enumerate(at):
        step = np.eye(len(at))[k] * 1e-3 * value
        slope = (exact(at + step) - exact(at - step)) / (2e-3 * value)
        # Differences of relative steps of 1e-3 err by 1e-6 and by 1e-10 of the integration over
        # 1e-3.
        np.testing.assert_allclose(found[k], slope, rtol=5e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_force": 0.0}, "max_force must be positive"),
        ({"slack_length": -0.1}, "slack_length must not be negative"),
        ({"pennation": 20.0}, r"pennation must lie in \[0, 1.5\] rad"),
        ({"activation": 1.5}, r"activation must lie in \[0, 1\]"),
    ],
)
def test_muscles_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=f"'muscle'.*{message}"):
        hanging(0.0, NUMBERS | changes)
    with pytest.raises(ValueError, match=r"'muscle': excitation must lie in \[0, 1\], not 2"):
        hanging(2.0)


def test_a_muscle_is_saved_and_loaded(tmp_path):
    m = hanging(mbd.Input("excitation"))
    mbd.save(m, tmp_path / "muscle.json")
    ours, theirs = m.build(), mbd.load(tmp_path / "muscle.json")
    assert all(map(np.array_equal, jax.tree.leaves(ours), jax.tree.leaves(theirs)))
