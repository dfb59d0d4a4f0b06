"""Springs with tables and functions, against SciPy and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import PchipInterpolator
from scipy.special import ellipk

import jaxmbd as mbd
from jaxmbd.model.tables import MonotoneCubic

TABLES = {
    "rising": ([0.0, 0.3, 1.0, 1.2, 2.0], [-1.0, 0.0, 0.1, 2.0, 2.5]),
    "with extremes and a flat part": ([-1.0, 0.0, 0.5, 1.5, 2.0, 4.0], [2.0, 0.0, 3.0, 3.0, -1, 0]),
    "two points": ([1.0, 3.0], [2.0, -4.0]),
    "bent at the ends": ([0.0, 1.0, 2.0, 3.0], [0.0, 0.1, 4.0, 3.9]),
}
# A spring that gets stiffer, [m] and [N]; zero at 1 m.
LENGTHS = np.array([0.4, 0.7, 0.9, 1.0, 1.1, 1.4, 1.9])
FORCES = np.array([-300.0, -90.0, -20.0, 0.0, 25.0, 140.0, 600.0])
MASS = 2.0
CONSERVING = {"integrator": mbd.EnergyMomentum(), "formulation": mbd.Directors()}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_interpolated_and_integrated_as_scipy_does(name):
    at, values = TABLES[name]
    ours = jax.tree.map(jnp.asarray, MonotoneCubic.through((at, values), "table"))
    theirs = PchipInterpolator(at, values)
    x = np.linspace(at[0], at[-1], 501)
    np.testing.assert_allclose(jax.vmap(ours)(jnp.asarray(x)), theirs(x), rtol=0, atol=1e-13)
    area = theirs.antiderivative()(x)
    np.testing.assert_allclose(jax.vmap(ours.integral)(jnp.asarray(x)), area, rtol=0, atol=1e-13)
    slope = jax.vmap(jax.grad(ours))(jnp.asarray(x))
    np.testing.assert_allclose(slope, theirs.derivative()(x), rtol=0, atol=1e-11)
    # Beyond the ends it is straight.
    for end, side in ((at[0], -1.0), (at[-1], 1.0)):
        line = theirs(end) + theirs.derivative()(end) * side * 0.7
        np.testing.assert_allclose(ours(jnp.asarray(end + side * 0.7)), line, rtol=1e-13)
        beyond = ours.integral(jnp.asarray(end + side * 0.7)) - ours.integral(jnp.asarray(end))
        np.testing.assert_allclose(beyond, side * 0.35 * (theirs(end) + line), rtol=1e-12)


def slider(start=1.0, speed=0.0, **fields):
    """A mass on a slide along x, held to the origin by a spring."""
    m = mbd.Mechanism("slider", gravity=(0, 0, 0))
    body = m.add_body("mass", mass=MASS, inertia=(1, 1, 1), r=(start, 0, 0), v=(speed, 0, 0))
    m.add(mbd.Translational("slide", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    ends = {"point_i": (0, 0, 0), "point_j": (start, 0, 0)}
    m.add(mbd.SpringDamper("spring", m.ground, body, **ends, **fields))
    return m


def reference(start, speed, seconds, pull):
    """Position at the end of m ẍ = -pull(x, ẋ)."""
    return solve_ivp(
        lambda t, y: [y[1], -pull(y[0], y[1]) / MASS],
        (0.0, seconds),
        [start, speed],
        rtol=1e-11,
        atol=1e-12,
    ).y[0, -1]


def test_a_mass_on_a_table_moves_as_an_integration_says():
    table, seconds = PchipInterpolator(LENGTHS, FORCES), 1.0
    exact, errors = reference(1.0, 6.0, seconds, lambda x, v: table(x) + 3.0 * v), []
    m = slider(speed=6.0, force=(LENGTHS, FORCES), damping=3.0)
    for steps in (500, 1000):
        sol = mbd.simulate(
            *m.build(), h=seconds / steps, steps=steps, integrator=mbd.GeneralizedAlpha()
        )
        errors.append(abs(float(sol.r[-1, 0, 0]) - exact))
    assert errors[1] < 1e-3 and np.log2(errors[0] / errors[1]) > 1.7, errors
    np.testing.assert_allclose(
        sol["spring.force"][-1],
        table(float(sol["spring.length"][-1])) + 3.0 * float(sol["spring.rate"][-1]),
        rtol=1e-10,
    )


@pytest.mark.parametrize("only", [None, "tension", "compression"])
def test_a_table_has_an_energy_that_a_method_conserves(only):
    """Of a two-sided spring, a rope and a bumper; they leave the table's range, too."""
    speed = -9.0 if only == "compression" else 12.0
    m = slider(speed=speed, force=(LENGTHS, FORCES), only=only)
    sol = mbd.simulate(*m.build(), h=1e-3, t_end=0.3, **CONSERVING)
    energy = sol.energy()
    x = np.asarray(sol.r[:, 0, 0])
    assert np.max(np.abs(x - 1.0)) > 0.5
    total = np.asarray(energy.total)
    np.testing.assert_allclose(total, 0.5 * MASS * speed**2, rtol=1e-10)
    side = {None: x, "tension": np.maximum(x, 1.0), "compression": np.minimum(x, 1.0)}[only]
    inside = (x > LENGTHS[0]) & (x < LENGTHS[-1])
    area = PchipInterpolator(LENGTHS, FORCES).antiderivative()
    expected = area(side) - area(1.0)
    np.testing.assert_allclose(
        np.asarray(energy.potential)[inside], expected[inside], rtol=0, atol=1e-9
    )


def test_a_function_of_the_length_has_the_period_of_an_elliptic_integral():
    """Duffing: m ẍ = -k x - c x³ from rest at a; period 4 K(μ)/ω with ω² = (k + c a²)/m."""
    k, c, a = 80.0, 300.0, 0.4
    m = slider(
        start=1.0 + a, free_length=1.0, force=lambda x, v: k * (x - 1.0) + c * (x - 1.0) ** 3
    )
    omega = np.sqrt((k + c * a**2) / MASS)
    period = 4.0 * ellipk(c * a**2 / (2.0 * (k + c * a**2))) / omega
    errors = []
    for steps in (200, 400):
        sol = mbd.simulate(
            *m.build(), h=period / steps, steps=steps, integrator=mbd.GeneralizedAlpha()
        )
        # After a period the mass is back and at rest; the rate tells the error of the period.
        errors.append(abs(float(sol.v[-1, 0, 0])) * MASS / (k * a + c * a**3) / period)
    assert errors[1] < 2e-4 and np.log2(errors[0] / errors[1]) > 1.8, errors
    # It has no potential, and its power is the change of the kinetic energy.
    energy, power = sol.energy(), np.asarray(sol["spring.power"])
    assert np.all(np.asarray(energy.potential) == 0.0)
    t = np.asarray(sol.t)
    work = np.concatenate([[0.0], np.cumsum(0.5 * (power[1:] + power[:-1]) * np.diff(t))])
    np.testing.assert_allclose(work, energy.kinetic, rtol=0, atol=3e-3 * np.max(energy.kinetic))


def test_a_function_of_the_rate_stays_in_an_energy_momentum_run_and_on_its_side():
    def law(x, v):
        return 100.0 * (x - 1.0) + 8.0 * v

    seconds = 0.5
    m = slider(speed=2.0, force=law)
    sol = mbd.simulate(*m.build(), h=5e-4, t_end=seconds, **CONSERVING)
    exact = reference(1.0, 2.0, seconds, law)
    np.testing.assert_allclose(sol.r[-1, 0, 0], exact, rtol=0, atol=1e-5)
    rope = slider(speed=2.0, force=law, only="tension")
    force = np.asarray(mbd.simulate(*rope.build(), h=5e-4, t_end=seconds)["spring.force"])
    assert np.min(force) == 0.0 and np.max(force) > 10.0 and force[-1] == 0.0


def disc(spring, rate):
    m = mbd.Mechanism("disc", gravity=(0, 0, 0))
    body = m.add_body("disc", mass=1.0, inertia=(1, 1, MASS), omega=(0, 0, rate))
    m.add(mbd.Revolute("pin", m.ground, body, point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(spring)
    return m


ANGLES, TORQUES = np.array([-9.0, -2.0, 0.0, 1.0, 8.0]), np.array([-30.0, -3.0, 0.0, 4.0, 60.0])
COILS = {
    "between bodies": lambda: mbd.TorsionalSpringDamper(
        "coil", "ground", "disc", axis=(0, 0, 1), torque=(ANGLES, TORQUES)
    ),
    "in a joint": lambda: mbd.JointSpring("coil", "pin", effort=(ANGLES, TORQUES)),
}


@pytest.mark.parametrize("kind", COILS)
def test_a_torsional_table_conserves_energy_over_a_turn(kind):
    sol = mbd.simulate(*disc(COILS[kind](), 12.0).build(), h=2e-3, t_end=1.0, **CONSERVING)
    angle = np.asarray(sol["pin.angle"])
    assert np.max(angle) > 2.0 * np.pi
    np.testing.assert_allclose(sol.energy().total, 0.5 * MASS * 144.0, rtol=1e-9)
    table = PchipInterpolator(ANGLES, TORQUES)
    area = table.antiderivative()
    np.testing.assert_allclose(sol.energy().potential, area(angle) - area(0.0), atol=1e-9)
    np.testing.assert_allclose(sol["coil.torque"], -table(angle), rtol=0, atol=1e-10)


def test_a_gradient_by_a_table_is_that_of_an_integration():
    seconds = 0.2

    def end(forces):
        m = slider(speed=3.0, force=(LENGTHS, forces), damping=2.0)
        sol = mbd.simulate(*m.build(), h=2e-4, steps=1000, integrator=mbd.GeneralizedAlpha())
        return sol.r[-1, 0, 0]

    found = jax.jit(jax.grad(end))(jnp.asarray(FORCES))

    def exact(forces):
        table = PchipInterpolator(LENGTHS, forces)
        return reference(1.0, 3.0, seconds, lambda x, v: table(x) + 2.0 * v)

    for k in (4, 5, 6):
        step = 1e-3 * np.eye(len(FORCES))[k] * abs(FORCES[k])
        slope = (exact(FORCES + step) - exact(FORCES - step)) / (2.0 * step[k])
        # Of the second order of the method: (h/0.1 s)² is 4e-6, times numbers of order ten.
        np.testing.assert_allclose(found[k], slope, rtol=1e-4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stiffness": 1.0, "force": (LENGTHS, FORCES)}, "give stiffness or force, not both"),
        ({"force": (LENGTHS, FORCES[:3])}, "as many arguments as values, two or more, not 7 and 3"),
        ({"force": 3.0}, "needs two lists"),
        ({"force": (LENGTHS[::-1], FORCES)}, "the arguments must increase"),
        ({"force": lambda x: x}, "the function failed"),
        ({"force": lambda x, v: jnp.stack([x, v])}, "must return a number"),
        ({"force": (LENGTHS, -FORCES), "only": "tension"}, "the table pushes beyond free_length"),
        ({"force": (LENGTHS, -FORCES), "only": "compression"}, "the table pulls below free_length"),
    ],
)
def test_characteristics_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(ValueError, match=f"'spring'.*{message}"):
        slider(**fields)


def test_a_table_is_saved_and_a_function_is_refused_by_name(tmp_path):
    m = slider(force=(LENGTHS, FORCES))
    mbd.save(m, tmp_path / "spring.json")
    ours, theirs = m.build(), mbd.load(tmp_path / "spring.json")
    assert all(map(np.array_equal, jax.tree.leaves(ours), jax.tree.leaves(theirs)))
    doubled = m.with_values({"forces.spring.force": (LENGTHS, 2.0 * FORCES)})
    assert float(doubled.build()[0].forces[0].force.characteristic.values[0, -1]) == 1200.0
    with pytest.raises(ValueError, match="'spring': force is a Python function.*give a table"):
        mbd.save(slider(force=lambda x, v: x), tmp_path / "function.json")
    with pytest.raises(ValueError, match="'spring'.*not linear"):
        mbd.save(m, tmp_path / "spring.xml")
