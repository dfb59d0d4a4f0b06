"""Identification against closed forms and known truths; standard errors against the statistics of
repeated noise."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.identification.experiments import named
from jaxmbd.identification.fit import _best_start, _Search, least_squares
from jaxmbd.identification.measurements import quantities, quantity_names
from jaxmbd.identification.problem import FitProblem, Settings
from jaxmbd.identification.reports import Outcome, covariance_of_values, report_of

MASS, STIFFNESS, DAMPING = 2.0, 50.0, 0.8
T = np.linspace(0.02, 2.0, 100)


def oscillator(mass=MASS, stiffness=STIFFNESS, damping=DAMPING):
    """A mass on a horizontal spring of 1 m, released at 1.2 m."""
    m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
    body = m.add_body("body", mass=mass, inertia=(0.1, 0.1, 0.1), r=(1.2, 0, 0))
    m.add(mbd.Translational("rail", m.ground, body, point=(1.2, 0, 0), axis=(1, 0, 0)))
    spring = {"point_i": (0, 0, 0), "point_j": (1.2, 0, 0), "free_length": 1.0}
    m.add(
        mbd.SpringDamper("spring", m.ground, body, stiffness=stiffness, damping=damping, **spring)
    )
    return m


def problem_of(mechanism, parameters, data, h):
    return FitProblem(mechanism, parameters, named(data), Settings(h))


def natural_frequency():
    return np.sqrt(STIFFNESS / MASS - (DAMPING / (2 * MASS)) ** 2)


def damped(x, t=T):
    """The motion by its frequency, its decay and the place of rest."""
    omega, decay, rest = x
    swing = np.cos(omega * t) + decay / omega * np.sin(omega * t)
    return rest + (1.2 - rest) * np.exp(-decay * t) * swing


def closed_form(t):
    return damped((natural_frequency(), DAMPING / (2 * MASS), 1.0), t)


@pytest.mark.essential
def test_a_fit_finds_the_oscillator_of_a_closed_form_and_says_what_it_cannot_know():
    noise = 1e-4 * np.random.default_rng(0).normal(size=T.size)
    data = mbd.Measurements(T, {"body.r.x": closed_form(T) + noise}, sigma=1e-4)
    paths = ("bodies.body.mass", "forces.spring.stiffness", "forces.spring.damping")
    rest = "forces.spring.free_length"
    report = mbd.fit(
        oscillator(1.0, 30.0, 0.5),
        dict.fromkeys(paths, mbd.Positive()) | {rest: mbd.Free()},
        data,
        h=2e-3,
        progress=False,
    )
    mass, stiffness, damping = (float(report.estimate[p]) for p in paths)
    # Only ratios to the mass enter the motion. A hundred samples with a noise of 5e-4 of the
    # amplitude over two seconds know the frequency to 1.2e-4 rad/s and the decay to 2e-4 per
    # second; the method's own error, (omega h)^2 / 12 of the frequency, is smaller. Four of these.
    decay = damping / (2 * mass)
    assert abs(stiffness / mass - STIFFNESS / MASS) < 2 * 5 * 4 * 1.2e-4
    assert abs(decay - DAMPING / (2 * MASS)) < 4 * 2e-4
    assert report.unidentified == [3] and report.converged
    shares = np.abs(list(report.combinations[3].values()))
    np.testing.assert_allclose(shares, 1 / np.sqrt(3), rtol=1e-3)  # all three grow together
    assert all(np.isinf(report.standard_error[p]) for p in paths)
    # What the data do determine has its own error, here that of the closed form's three numbers.
    x = np.array([natural_frequency(), DAMPING / (2 * MASS), 1.0])
    columns = [(damped(x + e) - damped(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
    error = 1e-4 * np.sqrt(np.linalg.inv(np.array(columns) @ np.array(columns).T)[2, 2])
    np.testing.assert_allclose(report.standard_error[rest], error, rtol=0.01)
    assert abs(float(report.estimate[rest]) - 1.0) < 4 * error and not report.at_bounds
    assert "not determined by these data" in str(report)
    assert (
        report.mechanism.values()["forces.spring.stiffness"]
        == report.estimate["forces.spring.stiffness"]
    )


def test_standard_errors_are_the_spread_of_estimates_over_repeated_noise():
    system, state = oscillator().build()
    truth = np.asarray(mbd.simulate(system, state, h=0.02, steps=100).r)[1:, 0, 0]
    noise = 1e-3 * np.random.default_rng(1).normal(size=(41, T.size))
    parameters = {
        "forces.spring.stiffness": mbd.Positive(),
        "forces.spring.damping": mbd.Bounded(0.0, 5.0),
    }
    data = mbd.Measurements(T, {"body.r.x": truth + noise[0]})
    # The same fit with other noise, on one compiled problem.
    problem = problem_of(oscillator(MASS, 45.0, 1.0), parameters, data, 0.02)
    estimates = []
    for n in noise:
        samples = jnp.asarray(truth + n)[None, None]
        problem.samples = eqx.tree_at(lambda s: s.y, problem.samples, samples)
        problem.forget()
        z, converged, _ = least_squares(
            problem, np.asarray(problem.z0), (1e-10, 50), [], tqdm(disable=True)
        )
        assert converged
        estimates.append([float(x) for x in problem.values(jnp.asarray(z)).values()])
    report = report_of(problem, Outcome(z, [], True, "", {"compile": 0.0, "run": 0.0}))
    search = _Search(segments=1, starts=5, spread=0.3, seed=0, limits=(1e-10, 50), optimizer=None)
    start = _best_start(problem, search)
    assert np.linalg.norm(problem.residuals(start)) < np.linalg.norm(problem.residuals(problem.z0))
    spread = np.std(estimates, axis=0)
    claimed = [float(report.standard_error[p]) for p in parameters]
    # Forty draws know their spread to 11 per cent: three of that.
    np.testing.assert_allclose(claimed, spread, rtol=0.34)
    np.testing.assert_allclose(
        np.mean(estimates, axis=0), [STIFFNESS, DAMPING], atol=3 * max(spread)
    )
    assert abs(report.sigma - 1e-3) < 2e-4 and report.unidentified == []


def test_geometry_of_a_driven_mechanism_is_found_from_its_kinematics():
    def crank(length):
        m = mbd.Mechanism("crank", gravity=(0, 0, 0))
        arm = m.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(length, 0, 0))
        m.add(mbd.Revolute("pin", m.ground, arm, point=(0, 0, 0), axis=(0, 0, 1)))
        m.add(mbd.RotationDriver("motor", m.ground, arm, axis=(0, 0, 1), angle=lambda t: 2 * t))
        return m

    seen = {"arm.r.x": 1.3 * np.cos(2 * T), "arm.r.y": 1.3 * np.sin(2 * T)}
    seen["arm.r.y"][10:20] = np.nan  # samples that are missing
    data = mbd.Measurements(
        np.concatenate([[0.0], T]), {k: np.concatenate([[np.nan], x]) for k, x in seen.items()}
    )
    report = mbd.fit(
        crank(1.0), {"bodies.arm.r": mbd.Free()}, data, analysis="kinematics", progress=False
    )
    np.testing.assert_allclose(report.estimate["bodies.arm.r"], [1.3, 0, 0], atol=1e-9)
    assert report.singular_values[-1] < 1e-8  # the height does not show in x and y


def test_transforms_return_what_they_were_given_and_allow_nothing_else():
    for transform, value in (
        (mbd.Free(), np.array([1.0, -2.0])),
        (mbd.Positive(), 3.0),
        (mbd.Bounded(-1.0, 2.0), np.array([0.0, 1.9])),
        (mbd.PhysicalInertia(), np.array([[3.0, 0.2, 0.1], [0.2, 2.0, -0.3], [0.1, -0.3, 2.5]])),
    ):
        np.testing.assert_allclose(transform(transform.inverse(value)), value, rtol=1e-12)
    for seed in range(5):  # any coordinates give moments that satisfy the triangle inequality
        a, b, c = np.linalg.eigvalsh(
            mbd.PhysicalInertia()(jax.random.normal(jax.random.key(seed), (6,)))
        )
        assert a > 0 and c < a + b
    with pytest.raises(ValueError, match="positive"):
        mbd.Positive().inverse(-1.0)
    with pytest.raises(ValueError, match="between"):
        mbd.Bounded(0.0, 1.0).inverse(2.0)
    with pytest.raises(ValueError, match="triangle"):
        mbd.PhysicalInertia().inverse([1.0, 1.0, 3.0])


def test_data_are_read_by_column_and_refused_by_name(tmp_path):
    (tmp_path / "run.csv").write_text("t,body.r.x,other\n0.1,1.0,5\n0.2,,6\n")
    data = mbd.Measurements.read(tmp_path / "run.csv", names=["body.r.x"], sigma=0.1)
    np.testing.assert_allclose(data.values["body.r.x"], [1.0, np.nan])
    np.savez(tmp_path / "run.npz", t=T, **{"body.r.x": T})
    np.testing.assert_allclose(mbd.Measurements.read(tmp_path / "run.npz").values["body.r.x"], T)
    with pytest.raises(ValueError, match="no column 'speed'"):
        mbd.Measurements.read(tmp_path / "run.csv", names=["speed"])
    with pytest.raises(ValueError, match="increasing"):
        mbd.Measurements([0.2, 0.1], {"body.r.x": [1.0, 2.0]})
    positive = {"bodies.body.mass": mbd.Positive()}
    with pytest.raises(ValueError, match="did you mean body.r.x"):
        mbd.fit(oscillator(), positive, mbd.Measurements(T, {"body.rx": T}))
    with pytest.raises(ValueError, match=r"did you mean bodies\.body\.mass"):
        mbd.fit(
            oscillator(), {"bodies.body.mas": mbd.Positive()}, mbd.Measurements(T, {"body.r.x": T})
        )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("twice.csv", b"t,rod.r.z,rod.r.z\n0,0,5\n", "more than one column 'rod.r.z'"),
        ("latin.csv", b"t,r\xe9.r.z\n0,0\n", "not UTF-8 text"),
        ("short.csv", b"t,rod.r.z\n0,0\n0.1\n", "row 2 has 1 fields"),
        ("words.csv", b"t,rod.r.z\n0,zero\n", "row 1: could not convert"),
        ("empty.csv", b"", "it is empty"),
        ("spoiled.npz", b"PK\x03\x04garbage" * 10, "not an NPZ file"),
        ("empty.npz", b"", "not an NPZ file"),
    ],
    ids=lambda x: x if str(x).endswith(("csv", "npz")) else "",
)
def test_files_that_are_no_table_are_refused_by_name(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: .*{message}"):
        mbd.Measurements.read(tmp_path / name)


def test_files_of_spreadsheets_are_read_and_objects_are_not(tmp_path):
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbft,rod.r.z\r\n0,0\r\n0.1,-.04\r\n\r\n")
    data = mbd.Measurements.read(tmp_path / "bom.csv")
    assert data.values["rod.r.z"].tolist() == [0.0, -0.04]
    np.savez(tmp_path / "objects.npz", t=np.array([0.0, 1.0]), x=np.array(["a", "b"]))
    with pytest.raises(ValueError, match=r"objects.npz: 'x' holds no numbers"):
        mbd.Measurements.read(tmp_path / "objects.npz")
    np.savez(tmp_path / "pickled.npz", t=np.array([0.0, None]))
    with pytest.raises(ValueError, match=r"pickled.npz: not an NPZ file of plain arrays"):
        mbd.Measurements.read(tmp_path / "pickled.npz")


def test_all_columns_of_a_table_can_be_measured(tmp_path):
    m = mbd.Mechanism("swing")
    rod = m.add_body("rod", shape=mbd.Box((1, 0.06, 0.06), mass=2.0), r=(0.5, 0, 0))
    ball = m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 2.0))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Translational("rail", m.ground, ball, point=(0, 0, 2.0), axis=(0, 0, 1)))
    m.add(mbd.Contact("floor", ball, m.ground))
    m.add(mbd.JointLimit("stop", "pin", lower=-1.0))
    m.add(mbd.JointLimit("buffer", "rail", lower=-3.0, stiffness=1e3))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=1e-2, steps=3)
    sol.to_csv(tmp_path / "sol.csv")
    table = mbd.Measurements.read(tmp_path / "sol.csv")
    counts = {"floor.state", "stop.state"}
    assert set(table.values) - counts <= set(quantity_names(system))
    for name in (*counts, "iterations"):
        with pytest.raises(ValueError, match=f"'{name}' is a count"):
            mbd.Measurements([0.0], {name: [0.0]}).check(system)
    names = quantity_names(system)
    traced = eqx.filter_eval_shape(lambda s: quantities(system, s, names), sol)
    assert {x.shape for x in traced} == {sol.t.shape}
    found = dict(zip(names, quantities(system, sol, names), strict=True))
    for name in set(names) & set(table.values):
        np.testing.assert_allclose(found[name], table.values[name], rtol=1e-12)
    np.testing.assert_array_equal(found["pin.rate"], sol.joint("pin").rate)
    np.testing.assert_array_equal(found["rail.displacement"], sol.joint("rail").displacement)
    np.testing.assert_array_equal(found["buffer.force"], sol.element("buffer").force)


def test_determined_numbers_have_errors_beside_undetermined_ones_in_any_unit(rng):
    a, b = rng.normal(size=(2, 50))
    noise = 1e-10 * rng.normal(size=(2, 50))
    # Of the first two only the difference matters; the third is seen a hundred thousand times less.
    jacobian = np.stack([a + noise[0], -a + noise[1], 1e-5 * b], axis=1)
    # Without what the first two share: a least-squares fit of b by a.
    rest = b - a * (a @ b) / (a @ a)
    expected = [np.inf, np.inf, 1e5 / np.sqrt(rest @ rest)]
    ones = np.ones(3)

    def errors(*args):
        return np.sqrt(np.diagonal(covariance_of_values(*args)))

    np.testing.assert_allclose(errors(jacobian, np.eye(3), ones), expected, rtol=1e-6)
    units = np.array([1.0, 1e9, 1e-9])
    found = errors(jacobian / units, np.eye(3), units)
    np.testing.assert_allclose(found, expected * units, rtol=1e-6)
    # Fewer samples than numbers: none of them is determined.
    few = errors(rng.normal(size=(1, 3)), np.eye(3), ones)
    assert np.all(np.isinf(few))


def test_a_number_at_its_bound_is_named():
    data = mbd.Measurements(T, {"body.r.x": T})
    bounded = {
        "bodies.body.mass": mbd.Bounded(1.0, 3.0),
        "forces.spring.stiffness": mbd.Bounded(10.0, 60.0),
    }
    problem = problem_of(oscillator(), bounded, data, 2e-3)
    assert problem.parameters.at_bounds(problem.values(jnp.zeros(2))) == []
    assert problem.parameters.at_bounds(problem.values(jnp.array([12.0, -12.0]))) == [
        "bodies.body.mass is at its upper bound, 3",
        "forces.spring.stiffness is at its lower bound, 10",
    ]


def test_a_module_is_trained_by_an_optimizer():
    class Push(eqx.Module):
        gain: jax.Array

        def __call__(self, pose, twist, t):
            return -self.gain * twist.v, jnp.zeros((1, 3))

    def mechanism(gain):
        m = oscillator()
        m.add(mbd.UserForce("push", ["body"], Push(jnp.asarray(gain))))
        return m

    system, state = mechanism(1.5).build()
    truth = np.asarray(mbd.simulate(system, state, h=0.02, steps=100).r)[1:, 0, 0]
    data = mbd.Measurements(T, {"body.r.x": truth}, sigma=1e-3)
    free = {"forces.push.function": mbd.Free()}
    options = {"h": 0.02, "progress": False, "max_evaluations": 20}
    report = mbd.fit(mechanism(0.5), free, data, optimizer=optax.adam(0.1), **options)
    np.testing.assert_allclose(report.estimate["forces.push.function"].gain, 1.5, rtol=1e-6)
    assert report.history == sorted(report.history, reverse=True)


def test_an_axis_that_would_lock_a_redundant_loop_is_refused():
    m = mbd.load_mechanism("four_bar")
    broken = mbd.breaks_redundancy(m)
    axes = {f"joints.{name}.axis" for name in m.constraints}
    assert set(broken) == axes
    data = mbd.Measurements([0.1], {"crank.r.x": [0.0]})
    with pytest.raises(ValueError, match="joints.pin_crank.axis cannot be fitted alone"):
        mbd.fit(
            m,
            {"joints.pin_crank.axis": mbd.Free(), "joints.pin_rocker.point": mbd.Free()},
            data,
            progress=False,
        )
    assert not mbd.breaks_redundancy(mbd.load_mechanism("slider_crank"))


@pytest.mark.parametrize(
    "kind", ["function", pytest.param("samples", marks=pytest.mark.slow), "steps"]
)
def test_a_fit_knows_what_the_motor_was_told(kind):
    """A mass pushed by sin(5 t), against the closed form; by steps, one that is held over each."""
    mass, h = 2.5, 0.01
    m = mbd.Mechanism("cart", gravity=(0, 0, 0))
    body = m.add_body("cart", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.Translational("rail", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "rail", control=mbd.Input("u", unit="N")))
    t = np.linspace(0.0, 1.0, 101)
    if kind == "steps":
        held = np.sin(5.0 * t[1:])
        speed = np.concatenate([[0.0], np.cumsum(held) * h])
        exact = np.concatenate([[0.0], np.cumsum(h * speed[:-1] + 0.5 * h**2 * held)]) / mass
        given = held
    else:
        exact = (t / 5.0 - np.sin(5.0 * t) / 25.0) / mass
        given = "sin(5*t)" if kind == "function" else mbd.Sampled(t, np.sin(5.0 * t))
    data = mbd.Measurements(t[1:], {"cart.r.x": exact[1:]})
    options = {"h": h, "progress": False}
    parameters = {"bodies.cart.mass": mbd.Positive()}
    report = mbd.fit(m, parameters, data, inputs={"u": given}, **options)
    # Where the force changes within a step the motion is right to about (ω h)²/12.
    tolerance = 1e-7 if kind == "steps" else (5.0 * h) ** 2 / 6.0
    np.testing.assert_allclose(report.estimate["bodies.cart.mass"], mass, rtol=tolerance)
    if kind != "function":
        parts = mbd.fit(m, parameters, data, inputs={"u": given}, segments=2, **options)
        np.testing.assert_allclose(parts.estimate["bodies.cart.mass"], mass, rtol=tolerance)
    if kind == "steps":
        with pytest.raises(ValueError, match="fit.*'u'"):
            mbd.fit(m, parameters, data, **options)
