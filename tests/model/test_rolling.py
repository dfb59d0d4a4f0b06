"""Rolling and knife edges against closed forms, minimal coordinates and published values."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.outcomes import RESULTS

X, Y, Z, ORIGIN = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
FORMULATIONS = {"rA": mbd.RA(), "rp": mbd.RP(), "reps": mbd.REps()}
INTEGRATORS = {
    "implicit_euler": mbd.ImplicitEuler(),
    "bdf2": mbd.BDF2(),
    "generalized_alpha": mbd.GeneralizedAlpha(),
    "munthe_kaas": mbd.MuntheKaas(),
    "moreau": mbd.Moreau(),
}
RADIUS, MASS = 0.3, 2.0


def disc(*, tyre=0.0):
    """A disc that leans by 0.5 rad and runs round a circle, in steady motion.

    With c the center, α the lean of its plane, Ω the rate of precession about the vertical and s
    the spin relative to the frame of heading, n the tyre's radius: the center goes round at radius
    ρ. Newton and Euler for the steady circle give s; see `steady_spin`.
    """
    lean, precession = 0.5, 1.5
    A_, C = 0.25 * MASS * RADIUS**2, 0.5 * MASS * RADIUS**2
    spin = steady_spin(lean, precession, A_, C, tyre)
    # Heading along x, leaning to the left (towards +y), axis of the disc to the left and down.
    axis = np.array([0.0, np.cos(lean), -np.sin(lean)])
    up = np.array([0.0, np.sin(lean), np.cos(lean)])
    omega = precession * np.array(Z) + spin * axis
    center = RADIUS * up + tyre * np.array(Z)
    v = np.cross(omega, center)  # the lowest point stands still
    m = mbd.Mechanism("disc")
    frame = np.stack([np.array(X), axis, np.cross(X, axis)], axis=1)
    wheel = m.add_body(
        "wheel", mass=MASS, inertia=(A_, C, A_), r=center, A=frame, v=v, omega=frame.T @ omega
    )
    m.add(mbd.RollingDisc("contact", m.ground, wheel, axis=axis, radius=RADIUS, tyre_radius=tyre))
    return m, center, v, precession


def steady_spin(lean, precession, A_, C, tyre):
    """The spin of the steady motion, from the balance of moments about the center.

    The frame that precesses sees the disc at rest but for its spin: with e along the heading,
    Ω ẑ × H = r_c × F, F = m (g ẑ + Ω ẑ × v), H = A (ω - (ω·a) a) + C (ω·a) a; linear in the spin.
    """
    z, x = np.array(Z), np.array(X)
    a = np.array([0.0, np.cos(lean), -np.sin(lean)])
    up = np.array([0.0, np.sin(lean), np.cos(lean)])
    arm = RADIUS * up + tyre * z

    def moment(spin):
        omega = precession * z + spin * a
        along = omega @ a
        H = A_ * (omega - along * a) + C * along * a
        v = np.cross(omega, arm)
        force = MASS * (9.81 * z + np.cross(precession * z, v))
        return (np.cross(precession * z, H) - np.cross(-arm, force)) @ x

    slope = moment(1.0) - moment(0.0)
    return -moment(0.0) / slope


def slip(sol):
    """Velocities along the two directions in which the wheel of `disc` must not slip."""
    return np.asarray(sol.violation().velocity)[:, 1:]


@pytest.mark.parametrize("tyre", [0.0, 0.05])
def test_a_disc_runs_its_steady_circle(tyre):
    m, center, v, precession = disc(tyre=tyre)
    system, state = m.build()
    found = mbd.mobility(system, state)
    assert (found.freedoms, found.position_freedoms) == (3, 5)
    ends = []
    for n in (100, 200):
        sol = mbd.simulate(system, state, t_end=1.0, h=1.0 / n)
        assert np.max(np.abs(slip(sol))) < 1e-9
        ends.append(np.asarray(sol.r[-1, 0]))
    # About the axis through the circle's middle, Ω ẑ × (r - middle) = v.
    middle = center - np.array([v[1], -v[0], 0.0]) / precession
    c, s = np.cos(precession), np.sin(precession)
    exact = middle + np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ (center - middle)
    errors = [np.max(np.abs(end - exact)) for end in ends]
    assert errors[1] < 0.3 * errors[0]  # second order
    assert np.max(np.abs((4.0 * ends[1] - ends[0]) / 3.0 - exact)) < 0.02 * errors[1]


@pytest.mark.essential
@pytest.mark.parametrize("name", FORMULATIONS)
def test_formulations_roll_alike(name):
    system, state = disc()[0].build()
    sol = mbd.simulate(
        system, state, h=2e-3, steps=20, formulation=FORMULATIONS[name], integrator=mbd.BDF2()
    )
    plain = mbd.simulate(system, state, h=2e-3, steps=20, integrator=mbd.MuntheKaas())
    assert np.max(np.abs(sol.r - plain.r)) < 2e-6  # BDF2 and the fourth-order method
    assert np.allclose(sol.lam, plain.lam, rtol=1e-2, atol=2e-2)
    assert np.max(np.abs(slip(sol))) < 1e-9


@pytest.mark.parametrize("name", INTEGRATORS)
def test_integrators_keep_the_wheel_rolling(name):
    m, center, v, precession = disc()
    system, state = m.build()
    sol = mbd.simulate(system, state, h=1e-3, steps=40, integrator=INTEGRATORS[name])
    assert sol.result == RESULTS.successful
    # Munthe-Kaas keeps positions and rolling to its order, the others to Newton's tolerance.
    assert np.max(np.abs(sol.violation().position)) < 1e-8 and np.max(np.abs(slip(sol))) < 1e-8
    middle = center - np.array([v[1], -v[0], 0.0]) / precession
    gone = np.linalg.norm(np.asarray(sol.r[:, 0]) - middle, axis=1)
    first_order = INTEGRATORS[name].error_order == 1
    assert np.max(np.abs(gone - gone[0])) < (2e-4 if first_order else 2e-6)


def wobbling():
    """The disc with more roll than its steady circle: it leans to and fro."""
    system, state = disc()[0].build()
    more = state.omega + jnp.array([[0.3, 0.0, 0.0]])
    pushed = eqx.tree_at(lambda s: s.omega, state, more)
    return system, mbd.assemble(system, pushed)[0]


def test_rolling_keeps_its_energy_for_a_hundred_seconds():
    system, state = wobbling()
    drifts = []
    for n in (50, 100):
        sol = mbd.simulate(system, state, h=1.0 / n, steps=100 * n, save_every=n)
        energy = np.asarray(sol.energy().total)
        drifts.append(np.max(np.abs(energy / energy[0] - 1.0)))
        assert np.ptp(np.asarray(sol.r[:, 0, 2])) > 1e-3  # it does lean
        assert np.max(np.abs(slip(sol))) < 1e-9
    assert drifts[0] < 2e-4 and drifts[1] < drifts[0] / 3.5  # second order would be four


def test_chosen_steps_keep_the_wheel_rolling():
    system, state = wobbling()
    times = jnp.linspace(0.0, 0.5, 6)
    fine = mbd.simulate(
        system, state, h=1e-3, steps=500, save_every=100, integrator=mbd.MuntheKaas()
    )
    for method, expected in ((mbd.GeneralizedAlpha(), 1e-4), (mbd.BDF2(), 1e-4)):
        errors = []
        for tolerance in (1e-4, 1e-6):
            step = mbd.Adaptive(tolerance, max_steps=1024)
            sol = mbd.simulate(system, state, save_at=times, step=step, integrator=method)
            assert sol.result == RESULTS.successful
            # Requested times lie between steps, whose length goes with the tolerance's cube root;
            # interpolated velocities err by the square of that length.
            assert np.max(np.abs(slip(sol))) < tolerance ** (2.0 / 3.0)
            assert np.max(np.abs(slip(sol)[-1])) < 1e-8  # the end of a step
            errors.append(np.max(np.abs(sol.r - fine.r)))
        assert errors[1] < expected and errors[1] < errors[0] / 10.0


def test_a_batch_of_wheels_rolls_like_each_of_them():
    system, state = disc()[0].build()

    def rolled(factor):
        wheel = eqx.tree_at(lambda s: s.mass, system, system.mass * factor)
        sol = mbd.simulate(wheel, state, h=2e-3, steps=20)
        return sol.r[-1, 0], sol.omega[-1, 0], sol.lam[-1]

    factors = np.array([0.5, 1.0, 2.0])
    together = mbd.run_batch(rolled, factors, progress=False)
    # Newton's iteration ends by a batch's slowest member; a change of position left over appears
    # in the multipliers divided by the square of the step.
    bounds = (1e-11, 1e-10, 1e-7)
    for k, factor in enumerate(factors):
        for ours, theirs, bound in zip(together, rolled(factor), bounds, strict=True):
            assert np.max(np.abs(ours[k] - theirs)) < bound


def test_reactions_of_rolling_do_no_work():
    system, state = disc()[0].build()
    sol = mbd.simulate(system, state, h=1e-3, steps=50)
    contact = sol.reactions()["contact"]
    # Without the normal force at the lowest point: the method keeps positions, and so velocities
    # along the normal only to its order.
    axis = np.asarray(sol.A[:, 0, :, 1])
    down = axis * axis[:, 2:] - np.array(Z)
    lowest = RADIUS * down / np.linalg.norm(down, axis=1, keepdims=True)
    normal = np.outer(sol.normal_forces()["contact"], Z)
    force, moment = contact.force - normal, contact.moment - np.cross(lowest, normal)
    omega = np.einsum("tij,tj->ti", sol.A[:, 0], sol.omega[:, 0])
    power = np.sum(force * sol.v[:, 0], axis=1) + np.sum(moment * omega, axis=1)
    scale = np.max(np.abs(contact.force)) * np.max(np.abs(sol.v))
    assert np.max(np.abs(power)) < 1e-12 * scale
    assert np.all(sol.normal_forces()["contact"] > 0.0)


def test_kinematics_and_energy_momentum_refuse_rolling_by_name():
    system, state = disc()[0].build()
    with pytest.raises(ValueError, match="kinematics.*'contact'"):
        mbd.kinematics(system, state, np.linspace(0.0, 1.0, 3))
    with pytest.raises(ValueError, match="EnergyMomentum.*'contact'"):
        mbd.simulate(
            system,
            state,
            h=1e-3,
            steps=2,
            formulation=mbd.Directors(),
            integrator=mbd.EnergyMomentum(),
        )


def turning_table(speed=3.0):
    m = mbd.Mechanism("table")
    table = m.add_body("table", mass=1.0, inertia=(1.0, 1.0, 1.0))
    radius, inertia = 0.1, 0.4 * 0.1**2
    start, v = np.array([0.5, 0.0, radius]), np.array([0.0, 0.6, 0.0])
    slip = speed * np.cross(Z, start) - v  # ω × (-R ẑ)
    omega = np.array([slip[1], -slip[0], 0.0]) / radius
    ball = m.add_body("ball", mass=1.0, inertia=(inertia,) * 3, r=start, v=v, omega=omega)
    m.add(mbd.Revolute("axle", m.ground, table, point=ORIGIN, axis=Z))
    m.add(mbd.RotationDriver("motor", m.ground, table, axis=Z, angle=lambda t: speed * t))
    m.add(mbd.RollingSphere("ball on table", table, ball, radius=radius))
    return m


def test_a_sphere_on_a_turning_table_comes_back_after_seven_halves_of_its_turn():
    system, state = turning_table().build()
    period = 3.5 * 2.0 * np.pi / 3.0
    ends = []
    method = mbd.MuntheKaas(stabilization="projection")
    for n in (3000, 6000):
        sol = mbd.simulate(system, state, h=period / n, steps=n, save_every=n, integrator=method)
        ends.append(np.asarray(sol.r[-1, 1]))
    start = np.array([0.5, 0.0, 0.1])
    errors = [np.max(np.abs(end - start)) for end in ends]
    assert errors[1] < errors[0] / 12.0  # fourth order
    assert np.max(np.abs((16.0 * ends[1] - ends[0]) / 15.0 - start)) < 1e-8


def sleigh(*, offset=0.4, v=1.0, omega=0.7, gravity=(0.0, 0.0, 0.0)):
    """Chaplygin's sleigh: a blade along x, the mass center ahead of its edge."""
    m = mbd.Mechanism("sleigh", gravity=gravity)
    body = m.add_body(
        "body",
        mass=1.0,
        inertia=(0.1, 0.1, 0.2),
        r=(offset, 0.0, 0.0),
        v=(v, offset * omega, 0.0),
        omega=(0.0, 0.0, omega),
    )
    m.add(mbd.Planar("ice", m.ground, body, point=ORIGIN, axis=Z))
    m.add(mbd.KnifeEdge("blade", m.ground, body, point=ORIGIN, axis=Y))
    return m


@pytest.mark.essential
def test_chaplygins_sleigh():
    # v̇ = a ω², (J + m a²) ω̇ = -m a v ω: with u = v and w = ω sqrt((J + m a²)/m) the energy u² + w²
    # is E², and u = E tanh(k E (t - t0)), w = E sech(...), k = a m / (J + m a²).
    a, J = 0.4, 0.2
    n = np.sqrt(J + a**2)
    E = np.hypot(1.0, 0.7 * n)
    k = a / n**2
    t0 = -np.arctanh(1.0 / E) / (k * E)
    system, state = sleigh().build()
    sol = mbd.simulate(system, state, t_end=2.0, h=2e-3, integrator=mbd.MuntheKaas())
    t = np.asarray(sol.t)
    heading = np.asarray(sol.A[:, 0, :, 0])
    assert np.max(np.abs(np.sum(heading * sol.v[:, 0], axis=1) - E * np.tanh(k * E * (t - t0)))) < (
        1e-8
    )
    assert np.max(np.abs(sol.omega[:, 0, 2] - E / n / np.cosh(k * E * (t - t0)))) < 1e-8


def test_a_knife_edge_on_an_incline_draws_a_cycloid():
    # It turns evenly and slides along its edge with u = -g' cos φ / ω:
    # x = -g' (2φ + sin 2φ)/4ω² across the fall line and y = g' (1 - cos 2φ)/4ω² up it.
    pull, omega = 5.0, 2.0
    m = mbd.Mechanism("incline", gravity=(0.0, -pull, -9.0))
    body = m.add_body(
        "body", mass=1.0, inertia=(0.1, 0.1, 0.2), v=(-pull / omega, 0, 0), omega=(0, 0, -omega)
    )
    m.add(mbd.Planar("slope", m.ground, body, point=ORIGIN, axis=Z))
    m.add(mbd.KnifeEdge("edge", m.ground, body, point=ORIGIN, axis=Y))
    sol = mbd.simulate(*m.build(), t_end=2.0, h=1e-3, integrator=mbd.MuntheKaas())
    phi = omega * np.asarray(sol.t)
    x = -pull / (4 * omega**2) * (2 * phi + np.sin(2 * phi))
    y = pull / (4 * omega**2) * (1 - np.cos(2 * phi))
    assert np.max(np.abs(sol.r[:, 0, 0] - x)) < 1e-8 and np.max(np.abs(sol.r[:, 0, 1] - y)) < 1e-8


def test_friction_wheels_turn_together():
    m = mbd.Mechanism("friction wheels", gravity=(0.0, 0.0, 0.0))
    one = m.add_body("one", mass=1.0, inertia=(1e-2,) * 3, omega=(0.0, 0.0, 2.0))
    two = m.add_body("two", mass=1.0, inertia=(3e-2,) * 3, r=(0.5, 0.0, 0.0))
    m.add(mbd.Revolute("axle one", m.ground, one, point=ORIGIN, axis=Z))
    m.add(mbd.Revolute("axle two", m.ground, two, point=(0.5, 0.0, 0.0), axis=Z))
    m.add(mbd.NoSlip("rims", one, two, axis=Z, radius_i=0.2, radius_j=0.3))
    m.add(mbd.Torque("motor", one, torque=(0.0, 0.0, 1.0)))
    found = mbd.accelerations(*m.build())
    # J = 0.01 + 0.03 (2/3)²
    alpha = 1.0 / (1e-2 + 3e-2 * 4 / 9)
    assert np.allclose(found.alpha[:, 2], [alpha, -2 / 3 * alpha], rtol=1e-9)


def test_rolling_has_derivatives():
    def last(radius):
        m = mbd.Mechanism("ball", gravity=(1.0, 0.0, -9.81))
        ball = m.add_body("ball", mass=1.0, inertia=(4e-3,) * 3, r=(0.0, 0.0, radius))
        m.add(mbd.RollingSphere("roll", m.ground, ball, radius=radius))
        return mbd.simulate(*m.build(), h=1e-2, steps=10).v[-1, 0, 0]

    # a = g / (1 + J / (m R²))
    def closed(radius):
        return 0.1 * 1.0 / (1.0 + 4e-3 / radius**2)

    value, slope = jax.value_and_grad(last)(0.1)
    assert np.isclose(value, closed(0.1), rtol=1e-10)
    assert np.isclose(slope, jax.grad(closed)(0.1), rtol=1e-7)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (
            lambda m, b: mbd.RollingDisc("w", m.ground, b, axis=Z, radius=0.1),
            "'w'.*axis of the disc is normal to the plane",
        ),
        (
            lambda m, b: mbd.RollingDisc("w", m.ground, b, axis=X, radius=0.0),
            "'w': radius must be positive",
        ),
        (
            lambda m, b: mbd.RollingDisc("w", m.ground, b, axis=X, radius=0.1, tyre_radius=-1.0),
            "tyre_radius must not be negative",
        ),
        (lambda m, b: mbd.RollingSphere("w", b, m.ground, radius=0.1), "plane's body first"),
        (
            lambda m, b: mbd.NoSlip(
                "w", m.ground, b, axis=Z, point_i=ORIGIN, radius_i=1.0, radius_j=1.0
            ),
            "apart, but the circles touch at 2 m",
        ),
    ],
)
def test_wheels_that_cannot_roll_are_refused(add, message):
    m = mbd.Mechanism("bad")
    body = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0), r=(0.5, 0.0, 0.1))
    with pytest.raises(ValueError, match=message):
        m.add(add(m, body))


def test_a_wheel_that_would_lift_off_is_told():
    m = mbd.Mechanism("lift", gravity=(0.0, 0.0, 2.0))
    ball = m.add_body("ball", mass=1.0, inertia=(4e-3,) * 3, r=(0.0, 0.0, 0.1))
    m.add(mbd.RollingSphere("roll", m.ground, ball, radius=0.1))
    with pytest.warns(mbd.LostContactWarning, match="'roll' pulls from t = 0 s.*-2 N"):
        mbd.simulate(*m.build(), h=1e-2, steps=3)


def test_linearization_of_rolling_has_fewer_speeds_than_coordinates():
    # A ball in a trough of the gravity field cannot be had; a skate on an incline can: at rest,
    # pointing down, it is pulled along and turns freely.
    m = mbd.Mechanism("incline", gravity=(3.0, 0.0, -9.0))
    body = m.add_body("body", mass=1.0, inertia=(0.1, 0.1, 0.2))
    m.add(mbd.Planar("slope", m.ground, body, point=ORIGIN, axis=Z))
    m.add(mbd.KnifeEdge("edge", m.ground, body, point=ORIGIN, axis=Y))
    found = mbd.linearize(*m.build(), coordinates=("body.r.x", "body.r.y", "body.theta.z"))
    assert len(found.speeds) == 2 and found.A.shape == (5, 5)
    assert np.isclose(found.drift[3 + found.speeds.index("body.r.x")], 3.0)


def test_assembly_makes_a_described_motion_roll():
    m = mbd.Mechanism("ball")
    ball = m.add_body("ball", mass=1.0, inertia=(4e-3,) * 3, r=(0.0, 0.0, 0.1), v=(1.0, 0.0, 0.0))
    m.add(mbd.RollingSphere("roll", m.ground, ball, radius=0.1))
    state, _ = mbd.assemble(*m.build())
    assert np.allclose(state.omega[0], [0.0, 10.0, 0.0], atol=1e-5)
    assert jnp.allclose(state.v[0], jnp.array([1.0, 0.0, 0.0]), atol=1e-5)


def test_inverse_dynamics_takes_a_rolling_motion():
    # A driven wheel of a unicycle that cannot tip: the motor's torque is that of the closed form.
    m = mbd.Mechanism("cart")
    cart = m.add_body("cart", mass=3.0, inertia=(0.1,) * 3, r=(0.0, 0.0, 0.2))
    wheel = m.add_body("wheel", mass=1.0, inertia=(0.01, 0.02, 0.01), r=(0.0, 0.0, 0.2))
    m.add(mbd.Translational("rail", m.ground, cart, point=(0.0, 0.0, 0.2), axis=X))
    m.add(mbd.Revolute("hub", cart, wheel, point=(0.0, 0.0, 0.2), axis=Y))
    m.add(mbd.RollingDisc("tread", m.ground, wheel, axis=Y, radius=0.2))
    m.add(mbd.RotationDriver("motor", cart, wheel, axis=Y, angle="0.5*t**2"))
    system, state = m.build()
    with pytest.raises(ValueError, match="'tread' of mechanism 'cart'.*motion="):
        mbd.inverse_dynamics(system, state, np.linspace(0.0, 1.0, 3))
    sol = mbd.simulate(system, state, h=1e-2, steps=20)
    found = mbd.inverse_dynamics(system, state, motion=sol)
    # (M r² + J) α = τ
    assert np.allclose(found.efforts["motor"], 4.0 * 0.2**2 + 0.02, rtol=1e-9)
